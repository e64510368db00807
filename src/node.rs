//! An entity as a plan sees it.

use crate::index::PluginIndex;
use bstr::BStr;
use holo_protocol::Edges;

/// An entity as a plan sees it.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// Its ID, which another entity may have too.
    pub id: &'a BStr,
    /// Its plugin.
    pub plugin: PluginIndex,
    /// Its declarations.
    pub edges: &'a Edges<&'a BStr>,
    /// The file where it declares it, for messages; empty if there is none.
    pub origin: &'a BStr,
}
