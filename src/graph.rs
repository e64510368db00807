//! Draws a plan: the selected entities and the edges between them. Edges point from the entity that goes first to the
//! one that waits for it.

mod layout;
mod svg;
mod text;

use crate::entities::node::{Node, PerEntity, Table, define_index};
use crate::plan::select::Selected;
use crate::plan::{EdgeKind, Plan};
use bstr::ByteSlice;
use std::collections::BTreeMap;

/// Renders the plan of the selected entities in the DOT language of Graphviz.
#[must_use]
pub fn dot(nodes: &PerEntity<Node<'_>>, plan: &Plan, selected: &Selected) -> String {
    text::write(&Picture::new(nodes, plan, selected))
}

/// Renders the plan of the selected entities as a Mermaid flowchart. Mermaid shows a few hundred entities at most.
#[must_use]
pub fn mermaid(nodes: &PerEntity<Node<'_>>, plan: &Plan, selected: &Selected) -> String {
    text::write_mermaid(&Picture::new(nodes, plan, selected))
}

/// Renders the plan of the selected entities as a self-contained SVG file.
#[must_use]
pub fn svg(nodes: &PerEntity<Node<'_>>, plan: &Plan, selected: &Selected) -> String {
    svg::write(&Picture::new(nodes, plan, selected))
}

/// The colour of edges that refresh.
const REFRESH_COLOUR: &str = "#c2410c";

define_index! {
    /// The index of a drawn entity.
    ShownIndex
}

/// The plan as a graph.
#[derive(Debug)]
struct Picture {
    /// The entities in the order of the plan.
    entities: Table<ShownIndex, Shown>,
    /// Lines from an earlier entity to a later one, at most one between any two.
    lines: Vec<Line>,
}

/// A drawn entity.
#[derive(Debug)]
struct Shown {
    label: String,
    orphan: bool,
}

/// All edges from one entity to another.
#[derive(Debug)]
struct Line {
    from: ShownIndex,
    to: ShownIndex,
    requires: bool,
    refreshes: bool,
    /// Assets that one entity needs and the other provides.
    assets: Vec<String>,
}

impl Picture {
    fn new(nodes: &PerEntity<Node<'_>>, plan: &Plan, selected: &Selected) -> Picture {
        let mut indexes: PerEntity<Option<ShownIndex>> = Table::filled(None, nodes.len());
        let mut entities = Table::new();
        for &entity in plan.order().iter().filter(|&&entity| selected.contains(entity)) {
            let node = &nodes[entity];
            let shown = Shown { label: readable(node.id), orphan: node.edges.orphan };
            indexes[entity] = Some(entities.push(shown));
        }
        let mut lines: BTreeMap<(ShownIndex, ShownIndex), Line> = BTreeMap::new();
        for edge in plan.edges() {
            let (Some(from), Some(to)) = (indexes[edge.from], indexes[edge.to]) else { continue };
            let new = Line { from, to, requires: false, refreshes: false, assets: Vec::new() };
            let line = lines.entry((from, to)).or_insert(new);
            line.requires |= edge.kind == EdgeKind::Requires;
            line.refreshes |= edge.kind.refreshes();
            if let Some(asset) = edge.asset(nodes) {
                let asset = format!("{} {}", readable(asset.kind), readable(asset.value));
                if !line.assets.contains(&asset) {
                    line.assets.push(asset);
                }
            }
        }
        Picture { entities, lines: lines.into_values().collect() }
    }
}

/// Replaces invalid UTF-8 and characters that a program that shows the text would reject or interpret.
fn readable(text: &[u8]) -> String {
    let unreadable = |c: char| {
        c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
    };
    text.to_str_lossy().chars().map(|c| if unreadable(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bstr::{BStr, BString};
    use holo_protocol::{Asset, Edges};

    fn picture(entities: &[(&[u8], Edges)]) -> Picture {
        let node = |(id, edges)| Node { id: BStr::new(id), plugin: 0.into(), edges, origin: BStr::new("") };
        let borrowed: Vec<_> = entities.iter().map(|(id, edges)| (*id, edges.borrowed())).collect();
        let nodes: PerEntity<Node<'_>> = borrowed.iter().map(|(id, edges)| node((*id, edges))).collect();
        let plan = Plan::new(&nodes).unwrap();
        Picture::new(&nodes, &plan, &nodes.iter().map(|_| true).collect())
    }

    fn ids(ids: &[&str]) -> Vec<BString> {
        ids.iter().map(|&id| id.into()).collect()
    }

    /// Contains every kind of line and box.
    pub(super) fn small() -> Picture {
        let www = Asset::new("user", "www");
        picture(&[
            (b"group:web", Edges::default()),
            (
                b"service:www",
                Edges {
                    requires: ids(&["file:/etc/www"]).into(),
                    subscribes: ids(&["file:/etc/www"]).into(),
                    after: ids(&["user:www"]).into(),
                    ..Edges::default()
                },
            ),
            (
                b"user:www",
                Edges { requires: ids(&["group:web"]).into(), provides: [www.clone()].into(), ..Edges::default() },
            ),
            (b"file:/etc/www", Edges { needs: [www].into(), ..Edges::default() }),
            (b"file:/old", Edges { orphan: true, ..Edges::default() }),
        ])
    }

    /// Contains labels with all characters that have a special meaning in one of the formats.
    pub(super) fn hostile() -> Picture {
        let asset = Asset::new("path", "/\"]\\n");
        picture(&[
            (b"a\"b\\<c>&lt;'%#;\xc3\xa9\xff", Edges { provides: [asset.clone()].into(), ..Edges::default() }),
            (b"-->\x1b|\t]]>", Edges { needs: [asset].into(), ..Edges::default() }),
        ])
    }

    #[test]
    fn edges_between_the_same_entities_are_one_line() {
        let picture = small();
        let lines = picture.lines.iter().map(|line| (line.from.into(), line.to.into()));
        let lines: Vec<(usize, usize)> = lines.collect();
        assert_eq!(lines, [(0, 1), (1, 2), (1, 3), (2, 3)]);
        assert!(picture.lines[3].requires && picture.lines[3].refreshes);
    }

    #[test]
    fn picture_contains_selected_entities_only() {
        let edges = [Edges { before: ids(&["b", "c"]).into(), ..Edges::default() }, Edges::default(), Edges::default()];
        let edges = edges.each_ref().map(Edges::borrowed);
        let nodes: PerEntity<Node<'_>> = std::iter::zip(["a", "b", "c"], &edges)
            .map(|(id, edges)| Node { id: id.into(), plugin: 0.into(), edges, origin: "".into() })
            .collect();
        let picture = Picture::new(&nodes, &Plan::new(&nodes).unwrap(), &[true, false, true].into_iter().collect());
        assert_eq!(picture.entities.iter().map(|shown| &*shown.label).collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(picture.lines.len(), 1);
    }

    #[test]
    fn unreadable_characters_are_replaced() {
        assert_eq!(readable(b"a\xff\x1b[0m\t\xe2\x80\xaeb"), "a\u{fffd}\u{fffd}[0m\u{fffd}\u{fffd}b");
    }
}
