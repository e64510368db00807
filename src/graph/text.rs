//! Renders a graph in the DOT language of Graphviz, or as a Mermaid flowchart.

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

const MERMAID_HEAD: &str = "\
%% An arrow points from what goes first to what waits for it. Solid: required. Dotted: order only. Coloured: refreshed by a change.
%% A label says what is needed and provided. An orphan has a dashed box.
flowchart LR
";

pub(super) fn write_mermaid(picture: &Picture) -> String {
    let mut text = MERMAID_HEAD.to_owned();
    for (number, entity) in picture.entities.iter().enumerate() {
        let class = if entity.orphan { ":::orphan" } else { "" };
        let _ = writeln!(text, "  n{number}[\"{}\"]{class}", escape_mermaid(&entity.label));
    }
    for line in &picture.lines {
        let arrow = if line.requires { "-->" } else { "-.->" };
        let _ = writeln!(text, "  n{} {arrow}{} n{}", usize::from(line.from), label(line), usize::from(line.to));
    }
    if picture.entities.iter().any(|entity| entity.orphan) {
        text.push_str("  classDef orphan stroke-dasharray: 4 3\n");
    }
    let refreshing = picture.lines.iter().enumerate().filter(|(_, line)| line.refreshes);
    let refreshing: Vec<String> = refreshing.map(|(number, _)| number.to_string()).collect();
    if !refreshing.is_empty() {
        let _ = writeln!(text, "  linkStyle {} stroke:{REFRESH_COLOUR},stroke-width:2.5px", refreshing.join(","));
    }
    text
}

fn label(line: &Line) -> String {
    let labels: Vec<String> = line.assets.iter().map(|asset| escape_mermaid(asset)).collect();
    if labels.is_empty() { String::new() } else { format!("|\"{}\"|", labels.join("<br>")) }
}

/// Escapes a label: Mermaid interprets Markdown and HTML in labels, and numeric codes for literal characters.
fn escape_mermaid(label: &str) -> String {
    let mut escaped = String::new();
    for c in label.chars() {
        if c.is_ascii_punctuation() && !matches!(c, '/' | ':' | '.' | '-' | '@' | ',' | '=') {
            let _ = write!(escaped, "#{};", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
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

    #[test]
    fn entities_and_edges_are_lines_in_mermaid() {
        let expected = "\
flowchart LR
  n0[\"group:web\"]
  n1[\"user:www\"]
  n2[\"file:/etc/www\"]
  n3[\"service:www\"]
  n4[\"file:/old\"]:::orphan
  n0 --> n1
  n1 -.->|\"user www\"| n2
  n1 -.-> n3
  n2 --> n3
  classDef orphan stroke-dasharray: 4 3
  linkStyle 3 stroke:#c2410c,stroke-width:2.5px
";
        let text = write_mermaid(&small());
        assert_eq!(text.lines().filter(|line| !line.starts_with("%%")).collect::<Vec<_>>().join("\n") + "\n", expected);
    }

    #[test]
    fn labels_cannot_break_out_in_mermaid() {
        let text = write_mermaid(&hostile());
        assert!(text.contains("  n0[\"a#34;b#92;#60;c#62;#38;lt#59;#39;#37;#35;#59;é�\"]"), "{text}");
        assert!(text.contains("|\"path /#34;#93;#92;n\"|"), "{text}");
    }
}
