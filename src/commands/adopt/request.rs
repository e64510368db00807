//! Determines what to adopt: the entities and paths on the command line, or the candidates of all plugins.

use crate::assets;
use crate::concurrently::{Heard, concurrently};
use crate::error::{FatalError, IoError};
use crate::index::PluginIndex;
use crate::interrupt::Interrupt;
use crate::inventory::Inventory;
use crate::plugin::{OperationError, Plugin};
use crate::report::{Remarks, Reporter};
use crate::root::{Root, normalise};
use crate::select;
use bstr::{BString, ByteSlice};
use holo_protocol::Candidate;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An entity or a path to adopt.
pub(super) struct Request {
    /// The ID of an entity, which need not exist yet, or the path of a file below the root.
    pub(super) id: BString,
    /// The plugin that it belongs to, if known.
    pub(super) plugin: Option<PluginIndex>,
    pub(super) reason: Option<BString>,
    pub(super) group: Option<BString>,
    /// The IDs of other entities in the same group.
    pub(super) with: Vec<BString>,
}

/// The candidates of all plugins.
pub(super) struct Found {
    pub(super) requests: Vec<Request>,
    /// Whether the list of a plugin is missing or incomplete.
    pub(super) has_failed: bool,
}

/// Returns the selectors for the scan. Unless all of them are IDs there are none, so that every entity is scanned.
pub(super) fn for_scan(selectors: &[OsString]) -> &[OsString] {
    let are_ids = selectors.iter().all(|selector| select::looks_like_id(selector.as_bytes().as_bstr()));
    if are_ids { selectors } else { &[] }
}

/// Returns a request for each selector on the command line.
pub(super) fn named(selectors: &[OsString], inventory: &Inventory, root: &Root) -> Result<Vec<Request>, FatalError> {
    let mut seen = BTreeSet::new();
    let mut requests = Vec::new();
    for selector in selectors {
        let named = BString::from(selector.as_bytes());
        let request = if inventory.entities.iter().any(|entity| entity.id() == named) {
            of_entity(named, inventory)
        } else if selector.as_bytes().contains(&b'/') && !select::looks_like_id(named.as_bstr()) {
            let path = below_root(selector, root)?;
            let path = BString::from(path.as_os_str().as_bytes());
            match entity_at(&path, inventory) {
                Some(id) => of_entity(id, inventory),
                None => Request::new(path),
            }
        } else {
            Request::new(named)
        };
        if seen.insert(request.id.clone()) {
            requests.push(request);
        }
    }
    Ok(requests)
}

fn of_entity(id: BString, inventory: &Inventory) -> Request {
    let entity = inventory.entities.iter().find(|entity| entity.id() == id);
    Request { plugin: entity.map(|entity| entity.plugin), ..Request::new(id) }
}

impl Request {
    fn new(id: BString) -> Request {
        Request { id, plugin: None, reason: None, group: None, with: Vec::new() }
    }
}

/// Returns the ID of the entity at a path below the root.
fn entity_at(path: &BString, inventory: &Inventory) -> Option<BString> {
    let is_at = |asset: &holo_protocol::Asset| assets::path(asset).is_some_and(|at| *at == **path);
    let mut living = inventory.entities.iter().filter(|entity| entity.has_edges());
    let entity = living.find(|entity| {
        let edges = entity.report().edges;
        !edges.orphan && edges.owns.iter().chain(&edges.provides).any(is_at)
    });
    entity.map(|entity| entity.id().to_owned())
}

/// Returns the path below the root that a selector stands for. A relative path refers to a file on this machine.
fn below_root(selector: &OsStr, root: &Root) -> Result<PathBuf, FatalError> {
    let path = Path::new(selector);
    let absolute = |path: &Path| {
        std::path::absolute(path).map(|path| normalise(&path)).map_err(|error| IoError::new("find", path, error))
    };
    let (given, root) = match (absolute(path), absolute(root.as_given())) {
        (Ok(given), Ok(root)) => (given, root),
        (Err(error), _) | (_, Err(error)) => return Err(FatalError::could_not_run(error)),
    };
    Ok(given.strip_prefix(&root).map_or_else(|_| given.clone(), |below| Path::new("/").join(below)))
}

/// Requests the candidates of all plugins that support adoption. Failures are reported.
pub(super) fn candidates(
    inventory: &mut Inventory,
    interrupt: &Interrupt,
    reporter: &mut dyn Reporter,
) -> Result<Found, FatalError> {
    let (mut indexes, mut ids, mut plugins) = (Vec::new(), Vec::new(), Vec::new());
    for (index, plugin) in inventory.plugins.iter_mut().enumerate().filter(|(_, plugin)| plugin.adopts()) {
        indexes.push(PluginIndex::from(index));
        ids.push(plugin.id.clone());
        plugins.push(plugin);
    }
    let ask = |plugin: &mut Plugin, on_output: &mut dyn FnMut(_, &[u8])| plugin.candidates(interrupt, on_output);
    let mut listed = Vec::new();
    let mut has_failed = false;
    let at_once = plugins.len();
    concurrently(plugins, at_once, ask, |asked, heard| {
        match heard {
            Heard::Output(stream, bytes) => reporter.output(stream, bytes),
            Heard::Answer(Ok(candidates)) => {
                let plugin = indexes.get(asked).copied();
                listed.extend(candidates.into_iter().map(|candidate| (plugin, candidate)));
            }
            Heard::Answer(Err(OperationError::Fatal(fatal))) => return Err(fatal),
            Heard::Answer(Err(OperationError::Failed(error))) => {
                let id = ids.get(asked).map(String::as_str).unwrap_or_default();
                reporter.error(format!("cannot list the candidates of plugin {id}: {error}"));
                has_failed = true;
            }
        }
        Ok(())
    })?;
    reporter.end_paragraph();
    let mut seen = BTreeSet::new();
    listed.retain(|(_, candidate)| seen.insert(candidate.id.clone()));
    Ok(Found { requests: with_their_groups(listed), has_failed })
}

/// Returns requests for all candidates, except companions without another member of their group.
fn with_their_groups(listed: Vec<(Option<PluginIndex>, Candidate)>) -> Vec<Request> {
    let mut groups: BTreeMap<BString, Vec<BString>> = BTreeMap::new();
    for (_, candidate) in listed.iter().filter(|(_, candidate)| !candidate.is_companion) {
        if let Some(group) = &candidate.group {
            groups.entry(group.clone()).or_default().push(candidate.id.clone());
        }
    }
    let request = |(plugin, candidate): (Option<PluginIndex>, Candidate)| {
        let Candidate { id, reason, group, is_companion } = candidate;
        let mut with = group.as_ref().and_then(|group| groups.get(group)).cloned().unwrap_or_default();
        with.retain(|other| *other != id);
        (!is_companion || !with.is_empty()).then_some(Request { id, plugin, reason: Some(reason), group, with })
    };
    listed.into_iter().filter_map(request).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn companions_require_other_members_of_their_group() {
        let candidates = [
            Candidate::new("package:nginx", "by hand").in_group("nginx"),
            Candidate::new("service:nginx", "enabled").in_group("nginx").as_companion(),
            Candidate::new("service:cron", "enabled").in_group("cron").as_companion(),
            Candidate::new("service:cron-too", "enabled").in_group("cron").as_companion(),
            Candidate::new("service:lost", "enabled").as_companion(),
            Candidate::new("service:mine", "enabled"),
        ];
        let requests = with_their_groups(candidates.map(|candidate| (None, candidate)).to_vec());
        let found: Vec<_> = requests.iter().map(|request| (request.id.to_string(), request.with.clone())).collect();
        let expected = [
            ("package:nginx".to_owned(), vec![]),
            ("service:nginx".to_owned(), vec![BString::from("package:nginx")]),
            ("service:mine".to_owned(), vec![]),
        ];
        assert_eq!(found, expected);
    }
}
