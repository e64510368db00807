//! Finds the entities that provide an asset, and compares asset paths.

use crate::entities::node::{EntityIndex, Node, PerEntity, Table, define_index};
use crate::host::root::normalise;
use bstr::{BStr, ByteSlice};
use holo_protocol::Asset;
use std::borrow::{Borrow, Cow};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::Hash;
use std::iter;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

define_index! {
    /// The index of an item in the list that all keys share.
    ItemIndex
}

/// Groups entities by key. Most groups are tiny and there are many of them, so they share one linked list instead of
/// allocating one each.
pub(crate) struct Groups<K> {
    /// The first and the last item of each key.
    ends: HashMap<K, (ItemIndex, ItemIndex)>,
    items: Table<ItemIndex, Item>,
}

/// An entity in a group.
struct Item {
    entity: EntityIndex,
    /// The next item with the same key.
    next: Option<ItemIndex>,
}

impl<K: Eq + Hash> Groups<K> {
    /// Creates groups with room for this number of keys.
    pub(crate) fn with_capacity(keys: usize) -> Groups<K> {
        Groups { ends: HashMap::with_capacity(keys), items: Table::new() }
    }

    /// Adds an entity, and returns the first one with the same key.
    pub(crate) fn add(&mut self, key: K, entity: EntityIndex) -> EntityIndex {
        let new = self.items.push(Item { entity, next: None });
        let (first, last) = self.ends.entry(key).or_insert((new, new));
        if *last != new {
            self.items[*last].next = Some(new);
            *last = new;
        }
        self.items[*first].entity
    }

    /// Returns the entities with this key, in the order in which they were added.
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> impl Iterator<Item = EntityIndex>
    where
        K: Borrow<Q>,
    {
        let first = self.ends.get(key).map(|(first, _)| &self.items[*first]);
        iter::successors(first, |item| item.next.map(|next| &self.items[next])).map(|item| item.entity)
    }
}

/// The entities that provide each asset.
pub(crate) struct Providers<'a> {
    paths: Groups<Cow<'a, [u8]>>,
    others: Groups<&'a Asset<&'a BStr>>,
}

impl<'a> Providers<'a> {
    pub(crate) fn new(nodes: &PerEntity<Node<'a>>) -> Providers<'a> {
        let provided = nodes.iter().map(|node| node.edges.provides.len()).sum();
        let mut providers = Providers { paths: Groups::with_capacity(provided), others: Groups::with_capacity(0) };
        for (entity, node) in nodes.entries() {
            for asset in &node.edges.provides {
                match path(asset) {
                    Some(path) => providers.paths.add(path, entity),
                    None => providers.others.add(asset, entity),
                };
            }
        }
        providers
    }

    /// Returns all matching entities that provide an asset. A path is provided by the nearest ancestor that any
    /// matching entity provides.
    pub(crate) fn find(&self, asset: &Asset<&BStr>, counts: impl Fn(&EntityIndex) -> bool) -> Vec<EntityIndex> {
        let Some(path) = path(asset) else { return self.others.get(asset).filter(counts).collect() };
        let nearest_first = iter::successors(Some(&*path), |path| parent(path));
        let mut providers = nearest_first.map(|path| self.paths.get(path).filter(&counts).collect::<Vec<_>>());
        providers.find(|providers| !providers.is_empty()).unwrap_or_default()
    }
}

/// Returns the normalised path of an asset of kind `path`.
pub(crate) fn path<S: AsRef<[u8]>>(asset: &Asset<S>) -> Option<Cow<'_, [u8]>> {
    path_in(asset, "path")
}

/// Returns the normalised path of an asset of this kind.
pub(crate) fn path_in<'a, S: AsRef<[u8]>>(asset: &'a Asset<S>, kind: &str) -> Option<Cow<'a, [u8]>> {
    if asset.kind.as_ref() != kind.as_bytes() {
        return None;
    }
    let path = asset.value.as_ref();
    // Almost all paths are normalised already, and there are many of them.
    let is_odd = |pair: &[u8]| matches!(pair, [b'/', b'/' | b'.']);
    let is_normal = path.starts_with(b"/") && !path.ends_with(b"/") && !path.windows(2).any(is_odd);
    let normalised = || normalise(Path::new(OsStr::from_bytes(path))).into_os_string().into_vec();
    Some(if is_normal { Cow::Borrowed(path) } else { Cow::Owned(normalised()) })
}

/// Returns the parent of a normalised path.
pub(crate) fn parent(path: &[u8]) -> Option<&[u8]> {
    match path.rfind_byte(b'/')? {
        0 if path.len() > 1 => Some(b"/"),
        0 => None,
        slash => path.get(..slash),
    }
}
