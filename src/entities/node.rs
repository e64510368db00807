//! The plan's view of an entity, and tables indexed by entity.

use bstr::BStr;
use holo_protocol::Edges;

pub use holo_index::{Table, define_index};

/// A value for each entity.
pub type PerEntity<T> = Table<EntityIndex, T>;

define_index! {
    /// The index of an entity in the scan results of all plugins.
    pub EntityIndex
}

define_index! {
    /// The index of a plugin in a run.
    pub PluginIndex
}

/// What a plan needs to know about an entity.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// Its ID, which need not be unique.
    pub id: &'a BStr,
    /// Its plugin.
    pub plugin: PluginIndex,
    /// Its declarations.
    pub edges: &'a Edges<&'a BStr>,
    /// The file that declares the edges, for messages; empty if there is none.
    pub origin: &'a BStr,
}
