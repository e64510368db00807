//! The data layers that are meant for a host, as files that `holo` reads.

use super::memory::Memory;
use crate::config::{HostConfig, Root};
use crate::disk::replace;
use crate::error::FleetError;
use crate::record::{LayerRecord, Signed};
use crate::signing::{Namespace, Signers};
use crate::store::{DATA, Store};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The directory of the layers, which `holo` reads in the order of their names.
const FOLDER: &str = "etc/holo/fleet-data";

/// Returns the keys of the layers of a host, the most specific one first.
pub(super) fn keys(config: &HostConfig) -> Vec<String> {
    let roles = config.roles.iter().rev().map(|role| format!("role.{role}"));
    let host = format!("host.{}", config.host.token());
    [host].into_iter().chain(roles).chain(["common".to_owned()]).collect()
}

/// What has become of the layers.
#[derive(Debug, Default)]
pub(super) struct Synced {
    pub(super) has_changed: bool,
    /// Why a layer stays as it is.
    pub(super) refused: Option<String>,
}

/// Fetches the layers that have changed.
///
/// A layer that the server does not have, or that is refused, stays as it is: only an operator can remove it, by an empty
/// one.
pub(super) async fn sync(
    root: &Root,
    config: &HostConfig,
    store: &Store,
    memory: &mut Memory,
) -> Result<Synced, FleetError> {
    let signers = Signers::new(root.allowed_signers());
    let folder = root.join(FOLDER);
    let bucket = store.bucket(DATA).await?;
    let mut synced = Synced::default();
    let mut expected = BTreeSet::new();
    for (number, key) in keys(config).iter().enumerate() {
        // The order of the names is that of the layers.
        let path = folder.join(format!("{number:02}-{key}.toml"));
        synced.has_changed |= move_here(&folder, key, &path)?;
        if let Some(kept) = bucket.get(key).await? {
            match take(key, &kept.value, &path, &signers, memory) {
                Ok(has_changed) => synced.has_changed |= has_changed,
                Err(error) => synced.refused = Some(format!("data layer {key}: {error}")),
            }
        }
        expected.insert(path);
    }
    for path in files(&folder).into_iter().filter(|path| !expected.contains(path)) {
        fs::remove_file(&path).map_err(|error| FleetError::about(path.display(), error))?;
        synced.has_changed = true;
    }
    Ok(synced)
}

/// Takes over a layer as the server has it, if it is newer. Returns true if it is.
fn take(key: &str, stored: &[u8], path: &Path, signers: &Signers, memory: &mut Memory) -> Result<bool, FleetError> {
    let serial = Signed::read::<LayerRecord>(stored)?.serial;
    if path.exists() && !memory.is_later_layer(key, serial)? {
        return Ok(false);
    }
    let record: LayerRecord = Signed::open(stored, Namespace::Data, signers)?;
    if record.layer != *key {
        return Err(FleetError(format!("the server has the record of {} there", record.layer)));
    }
    memory.is_later_layer(key, record.serial)?;
    replace(path, record.document.as_bytes(), 0o644)?;
    memory.accept_layer(key, record.serial)?;
    Ok(true)
}

/// Moves the file of a layer whose place in the order has changed, because the roles have.
fn move_here(folder: &Path, key: &str, path: &PathBuf) -> Result<bool, FleetError> {
    let suffix = format!("-{key}.toml");
    let is_it = |file: &PathBuf| {
        file.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.get(2..) == Some(&suffix))
    };
    let Some(before) = files(folder).into_iter().find(is_it).filter(|before| before != path) else { return Ok(false) };
    fs::rename(&before, path).map_err(|error| FleetError::about(path.display(), error))?;
    Ok(true)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect()
}
