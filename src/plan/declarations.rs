//! The declared dependencies of entities, kept only while a plan is made.

use crate::entities::entity::Entity;
use crate::entities::node::{Node, PerEntity};
use bstr::BStr;
use holo_protocol::Edges;
use std::borrow::Cow;

/// The declarations of each entity. Most entities have none.
#[derive(Debug)]
pub struct Declarations<'a>(Vec<Option<Box<Declaration<'a>>>>);

#[derive(Debug)]
struct Declaration<'a> {
    edges: Edges<&'a BStr>,
    /// The file that declares them; empty if unknown.
    origin: Cow<'a, BStr>,
}

static NO_EDGES: Edges<&'static BStr> = Edges::NONE;

impl<'a> Declarations<'a> {
    /// Returns the declarations of these entities.
    #[must_use]
    pub fn new(entities: &'a PerEntity<Entity>) -> Declarations<'a> {
        let declaration = |entity: &'a Entity| {
            entity.has_edges().then(|| {
                let mut edges = entity.edges();
                // There may be hundreds of thousands.
                edges.shrink_to_fit();
                Box::new(Declaration { edges, origin: entity.origin() })
            })
        };
        Declarations(entities.iter().map(declaration).collect())
    }

    /// Returns the plan's nodes for the same entities.
    #[must_use]
    pub fn nodes<'n>(&'n self, entities: &'n PerEntity<Entity>) -> PerEntity<Node<'n>> {
        let node = |(entity, declaration): (&'n Entity, &'n Option<Box<Declaration<'a>>>)| {
            let (edges, origin) = match declaration {
                Some(declaration) => (&declaration.edges, &*declaration.origin),
                None => (&NO_EDGES, BStr::new("")),
            };
            Node { id: entity.id(), plugin: entity.plugin, edges, origin }
        };
        entities.iter().zip(&self.0).map(node).collect()
    }
}
