//! The files on which it rests that a scaffold is in its desired state.

use crate::entity::{Scaffold, SettledPaths};
use bstr::BString;
use holo_change::path_bytes;
use holo_change::tracked::Overlays;
use holo_plugin::{Host, Witness, leads_through_symlink, witness_paths, witness_tree};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

/// Returns the witnesses of a scaffold, if its paths were compared in this run.
pub(crate) fn of(entity: &Scaffold, host: &Host) -> Option<Vec<Witness>> {
    let definition = entity.wanted()?;
    let settled = entity.settled.lock().unwrap_or_else(PoisonError::into_inner);
    let SettledPaths { rendered, given_up } = settled.as_ref()?;
    let source = definition.source();
    let directories: Vec<&Path> =
        if source.is_absolute() { vec![host.root()] } else { host.resources().iter().collect() };
    let is_odd = |directory: &&Path| leads_through_symlink(directory, source);
    if leads_through_symlink(host.root(), &entity.target) || directories.iter().any(is_odd) {
        return None;
    }
    let mut witnesses = host.accounts().witnesses(definition.owner.as_deref(), definition.group.as_deref())?;
    for directory in directories {
        witnesses.extend(witness_tree(&holo_change::join(directory, source)).ok()?);
    }
    if definition.purge {
        // Others decide what is spared.
        let directories = rendered.iter().filter(|path| host.below_root(path).is_dir());
        for directory in directories {
            if !has_only(&host.below_root(directory), directory, rendered)? {
                return None;
            }
        }
        witnesses.extend(rendered.iter().map(|path| Witness::file(&host.below_root(path))));
    } else {
        witnesses.extend(witness_paths(host.root(), rendered));
    }
    witnesses.extend(given_up.iter().map(|path| Witness::file(&host.below_root(path))));
    let all = rendered.iter().chain(given_up).map(PathBuf::as_path);
    witnesses.extend(Overlays::witnesses(host.locations(), all));
    witnesses.push(Witness::claims(&host.below_root(&entity.target)));
    Some(witnesses)
}

/// Returns the rendered paths, if they were compared in this run. In a directory that is purged, other entries matter too.
pub(crate) fn parts(entity: &Scaffold, host: &Host) -> Vec<BString> {
    let settled = entity.settled.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((definition, SettledPaths { rendered, .. })) = entity.wanted().zip(settled.as_ref()) else {
        return Vec::new();
    };
    let is_purged = |path: &Path| definition.purge && host.below_root(path).is_dir();
    let slash = |path: &Path| if is_purged(path) { &b"/"[..] } else { b"" };
    let part = |path: &PathBuf| [path_bytes(path).as_slice(), slash(path)].concat().into();
    rendered.iter().map(part).collect()
}

/// Returns true if a directory contains only rendered paths. `None` if it cannot be read.
fn has_only(shown: &Path, directory: &Path, rendered: &BTreeSet<PathBuf>) -> Option<bool> {
    for entry in fs::read_dir(shown).ok()? {
        if !rendered.contains(&directory.join(entry.ok()?.file_name())) {
            return Some(false);
        }
    }
    Some(true)
}
