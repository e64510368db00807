//! The declared dependencies of entities, as long as a plan needs to know them.

use crate::entity::Entity;
use crate::index::PerEntity;
use crate::node::Node;
use bstr::{BStr, BString};
use holo_protocol::Edges;

/// The declarations of entities. Many entities have none.
#[derive(Debug)]
pub struct Declarations(Vec<Option<Box<Declaration>>>);

#[derive(Debug)]
struct Declaration {
    edges: Edges,
    /// The file where they are declared; empty if there is none.
    origin: BString,
}

static NO_EDGES: Edges = Edges::NONE;

impl Declarations {
    /// Returns the declarations of these entities.
    #[must_use]
    pub fn new(entities: &PerEntity<Entity>) -> Declarations {
        let declaration = |entity: &Entity| {
            entity.has_edges().then(|| {
                let mut report = entity.report();
                // There may be very many.
                report.edges.shrink_to_fit();
                let origin = report.sources.into_iter().next().unwrap_or_default();
                Box::new(Declaration { edges: report.edges, origin })
            })
        };
        Declarations(entities.iter().map(declaration).collect())
    }

    /// Returns the nodes of a plan for the same entities.
    #[must_use]
    pub fn nodes<'a>(&'a self, entities: &'a PerEntity<Entity>) -> PerEntity<Node<'a>> {
        let node = |(entity, declaration): (&'a Entity, &'a Option<Box<Declaration>>)| {
            let (edges, origin) = match declaration {
                Some(declaration) => (&declaration.edges, declaration.origin.as_ref()),
                None => (&NO_EDGES, BStr::new("")),
            };
            Node { id: entity.id(), plugin: entity.plugin, edges, origin }
        };
        entities.iter().zip(&self.0).map(node).collect()
    }
}
