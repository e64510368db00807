//! Renders a graph in the DOT language of Graphviz.

use super::{Line, Picture, REFRESH_COLOUR};
use std::fmt::Write as _;

const HEAD: &str = "\
// An arrow points from what goes first to what waits for it. Solid: required. Dashed: order only. Coloured: refreshed by a change.
// A label says what is needed and provided. An orphan has a dashed box.
digraph plan {
  rankdir=LR;
  node [shape=box, style=rounded, fontname=\"monospace\", fontsize=11, height=0.3, margin=\"0.12,0.04\"];
  edge [fontname=\"monospace\", fontsize=9, arrowsize=0.7];
";

pub(super) fn write(picture: &Picture) -> String {
    let mut text = HEAD.to_owned();
    for (number, entity) in picture.entities.iter().enumerate() {
        let style = if entity.orphan { ", style=\"rounded,dashed\"" } else { "" };
        let _ = writeln!(text, "  n{number} [label=\"{}\"{style}];", escape(&entity.label));
    }
    for line in &picture.lines {
        let _ = writeln!(text, "  n{} -> n{}{};", usize::from(line.from), usize::from(line.to), attributes(line));
    }
    text.push_str("}\n");
    text
}

fn attributes(line: &Line) -> String {
    let mut attributes = Vec::new();
    if !line.requires {
        attributes.push("style=dashed".to_owned());
    }
    if line.refreshes {
        attributes.push(format!("color=\"{REFRESH_COLOUR}\", penwidth=2"));
    }
    if !line.assets.is_empty() {
        let labels: Vec<String> = line.assets.iter().map(|asset| escape(asset)).collect();
        attributes.push(format!("label=\"{}\"", labels.join("\\n")));
    }
    if attributes.is_empty() { String::new() } else { format!(" [{}]", attributes.join(", ")) }
}

/// Graphviz interprets HTML entities in every label, besides quotes and backslashes.
fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('&', "&amp;")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{hostile, small};
    use super::*;

    #[test]
    fn entities_and_edges_are_lines() {
        let text = write(&small());
        let body: Vec<&str> =
            text.lines().filter(|line| line.starts_with("  n") && !line.starts_with("  node")).collect();
        assert_eq!(
            body,
            [
                "  n0 [label=\"group:web\"];",
                "  n1 [label=\"user:www\"];",
                "  n2 [label=\"file:/etc/www\"];",
                "  n3 [label=\"service:www\"];",
                "  n4 [label=\"file:/old\", style=\"rounded,dashed\"];",
                "  n0 -> n1;",
                "  n1 -> n2 [style=dashed, label=\"user www\"];",
                "  n1 -> n3 [style=dashed];",
                "  n2 -> n3 [color=\"#c2410c\", penwidth=2];",
            ]
        );
    }

    #[test]
    fn labels_cannot_break_out() {
        let text = write(&hostile());
        assert!(text.contains(r#"  n0 [label="a\"b\\<c>&amp;lt;'%#;é�"];"#), "{text}");
        assert!(text.contains(r#"label="path /\"]\\n""#), "{text}");
    }
}
