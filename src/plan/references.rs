//! Finds misspelt entity IDs: references to entities that do not exist.
//!
//! Ordering and refreshes take effect only if both entities exist, so a reference to a missing entity is not an error:
//! it may be absent from this machine on purpose. But a typo would otherwise go unnoticed.

use crate::entities::entity::Entity;
use crate::entities::node::{EntityIndex, Node, PerEntity};
use bstr::{BStr, BString, ByteSlice};
use holo_definitions::similar;
use std::collections::HashSet;

/// A reference to an entity that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dangling {
    /// The entity with the reference.
    pub entity: EntityIndex,
    /// The location of the reference.
    pub location: BString,
    /// The relation to the missing entity, as the words that precede its name in a message.
    relation: &'static str,
    /// The ID of the missing entity.
    pub id: BString,
}

/// Returns all references in definitions to entities that do not exist, not even as orphans.
#[must_use]
pub fn dangling(nodes: &PerEntity<Node<'_>>) -> Vec<Dangling> {
    // The location of an entity's own definition is not a reference.
    let names_others = |node: &Node<'_>| node.edges.written.iter().any(|name| name.id != node.id);
    let mut written = nodes.entries().filter(|(_, node)| names_others(node)).peekable();
    if written.peek().is_none() {
        return Vec::new();
    }
    let ids: HashSet<&BStr> = nodes.iter().map(|node| node.id).collect();
    let mut dangling = Vec::new();
    for (entity, node) in written {
        for name in node.edges.written.iter().filter(|name| !ids.contains(name.id.as_bstr())) {
            let edges = node.edges;
            let relations = [
                ("subscribes to", &edges.subscribes),
                ("notifies", &edges.notifies),
                ("comes after", &edges.after),
                ("comes before", &edges.before),
            ];
            let relation =
                relations.into_iter().find(|(_, list)| list.contains(&name.id)).map(|(relation, _)| relation);
            // A missing requirement is reported as an error of the entity.
            if let Some(relation) = relation.filter(|_| !edges.requires.contains(&name.id)) {
                let (location, id) = (name.location.to_owned(), name.id.to_owned());
                dangling.push(Dangling { entity, location, relation, id });
            }
        }
    }
    dangling
}

impl Dangling {
    /// Returns the warning, which suggests the most similar existing ID.
    #[must_use]
    pub fn describe(&self, entities: &PerEntity<Entity>) -> String {
        let Dangling { location, relation, id, .. } = self;
        let who = entities[self.entity].id();
        let others =
            entities.iter().map(Entity::id).filter(|other| *other != who).filter_map(|other| other.to_str().ok());
        let meant = id.to_str().ok().and_then(|id| similar(id, others));
        let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        format!("{location}: {who}: {relation} {id}, which does not exist{meant}")
    }
}
