//! The entities that provide an asset, and paths among assets.

use crate::node::Node;
use crate::root::clean;
use bstr::ByteSlice;
use holo_protocol::Asset;
use std::borrow::{Borrow, Cow};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::Hash;
use std::iter;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Entities by a key that several of them may share. There are many keys, so no list is allocated for each.
pub(crate) struct Groups<K> {
    /// The places of the first and the last item of each key.
    ends: HashMap<K, (usize, usize)>,
    /// Entities, each with the place of the next item of its key.
    items: Vec<(usize, Option<usize>)>,
}

impl<K: Eq + Hash> Groups<K> {
    pub(crate) fn new() -> Groups<K> {
        Groups { ends: HashMap::new(), items: Vec::new() }
    }

    /// Adds an entity, and gives the first one of its key.
    pub(crate) fn add(&mut self, key: K, entity: usize) -> usize {
        let new = self.items.len();
        self.items.push((entity, None));
        let (first, last) = self.ends.entry(key).or_insert((new, new));
        if *last != new {
            self.items[*last].1 = Some(new);
            *last = new;
        }
        self.items[*first].0
    }

    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> impl Iterator<Item = usize>
    where
        K: Borrow<Q>,
    {
        let first = self.ends.get(key).map(|(first, _)| self.items[*first]);
        iter::successors(first, |(_, next)| next.map(|next| self.items[next])).map(|(entity, _)| entity)
    }
}

/// The entities that provide an asset.
pub(crate) struct Providers<'a> {
    paths: Groups<Cow<'a, [u8]>>,
    others: Groups<&'a Asset>,
}

impl<'a> Providers<'a> {
    pub(crate) fn new(nodes: &[Node<'a>]) -> Providers<'a> {
        let mut providers = Providers { paths: Groups::new(), others: Groups::new() };
        for (entity, node) in nodes.iter().enumerate() {
            for asset in &node.edges.provides {
                match path(asset) {
                    Some(path) => providers.paths.add(path, entity),
                    None => providers.others.add(asset, entity),
                };
            }
        }
        providers
    }

    /// All entities that provide an asset and count, which for a path means its nearest ancestor that any such entity provides.
    pub(crate) fn of(&self, asset: &Asset, counts: impl Fn(&usize) -> bool) -> Vec<usize> {
        let Some(path) = path(asset) else { return self.others.get(asset).filter(counts).collect() };
        let nearest_first = iter::successors(Some(&*path), |path| parent(path));
        let mut providers = nearest_first.map(|path| self.paths.get(path).filter(&counts).collect::<Vec<_>>());
        providers.find(|providers| !providers.is_empty()).unwrap_or_default()
    }
}

/// The cleaned path that an asset is, if it is one.
pub(crate) fn path(asset: &Asset) -> Option<Cow<'_, [u8]>> {
    path_in(asset, "path")
}

/// The cleaned path that an asset of this kind is.
pub(crate) fn path_in<'a>(asset: &'a Asset, kind: &str) -> Option<Cow<'a, [u8]>> {
    if asset.kind != kind {
        return None;
    }
    let path = &asset.value[..];
    // Nearly all are clean, and there are many.
    let is_clean =
        path.starts_with(b"/") && !path.ends_with(b"/") && !path.contains_str("//") && !path.contains_str("/.");
    let cleaned = || clean(Path::new(OsStr::from_bytes(path))).into_os_string().into_vec();
    Some(if is_clean { Cow::Borrowed(path) } else { Cow::Owned(cleaned()) })
}

/// The parent of a cleaned path.
pub(crate) fn parent(path: &[u8]) -> Option<&[u8]> {
    match path.rfind_byte(b'/')? {
        0 if path.len() > 1 => Some(b"/"),
        0 => None,
        slash => Some(&path[..slash]),
    }
}
