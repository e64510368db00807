//! The plan's view of an entity.

use crate::index::PluginIndex;
use bstr::BStr;
use holo_protocol::Edges;

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
