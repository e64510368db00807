//! The entities that precede and follow another one, with the declarations that cause it.

use crate::declarations::Declarations;
use crate::index::EntityIndex;
use crate::inventory::Inventory;
use crate::plan::Edge;
use bstr::{BString, ByteSlice};

/// An entity that precedes or follows another one.
#[derive(Clone, Debug)]
pub(super) struct Neighbour {
    pub(super) id: BString,
    /// The key that declares it.
    pub(super) key: &'static str,
    /// The asset that one of them needs or owns: `path /etc`.
    pub(super) asset: Option<String>,
    /// The file that declares it, with the line if known.
    pub(super) location: Option<BString>,
}

/// The neighbours of an entity.
#[derive(Clone, Debug, Default)]
pub(super) struct Around {
    pub(super) after: Vec<Neighbour>,
    pub(super) before: Vec<Neighbour>,
}

/// The plan, with the declarations behind its edges.
pub(super) struct Neighbours<'a> {
    inventory: &'a Inventory,
    declarations: Declarations<'a>,
}

impl<'a> Neighbours<'a> {
    pub(super) fn new(inventory: &'a Inventory) -> Neighbours<'a> {
        Neighbours { inventory, declarations: Declarations::new(&inventory.entities) }
    }

    pub(super) fn of(&self, entity: EntityIndex) -> Around {
        let mut around = Around::default();
        for edge in self.inventory.plan.edges() {
            if edge.to == entity {
                around.after.push(self.neighbour(edge, edge.from));
            } else if edge.from == entity {
                around.before.push(self.neighbour(edge, edge.to));
            }
        }
        around
    }

    fn neighbour(&self, edge: &Edge, other: EntityIndex) -> Neighbour {
        let entities = &self.inventory.entities;
        let nodes = self.declarations.nodes(entities);
        let declaring = &nodes[edge.declared_by()];
        let named = if edge.declared_by() == edge.from { edge.to } else { edge.from };
        let written = declaring.edges.written.iter();
        let place = |id| written.clone().find(|written| written.id == id).map(|written| written.location.to_owned());
        let location = place(entities[named].id()).or_else(|| place(declaring.id));
        let origin = Some(declaring.origin.to_owned()).filter(|origin| !origin.is_empty());
        Neighbour {
            id: entities[other].id().to_owned(),
            key: edge.kind.key(),
            asset: edge.asset(&nodes).map(|asset| format!("{} {}", asset.kind.as_bstr(), asset.value.as_bstr())),
            location: location.or(origin),
        }
    }
}
