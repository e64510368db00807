//! An entity as a plan sees it.

use bstr::BStr;
use holo_protocol::Edges;

/// An entity as a plan sees it.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// Its ID, which another entity may have too.
    pub id: &'a BStr,
    /// The place of its plugin in the configuration.
    pub plugin: usize,
    /// Its declarations.
    pub edges: &'a Edges,
    /// The file where it declares it, for messages; empty if there is none.
    pub origin: &'a BStr,
}
