//! The difference between the desired and the actual state of a resource, as two files.

use crate::entity::ResourceEntity;
use crate::item::Item;
use crate::toml::as_toml;
use holo_bridge::digest;
use holo_plugin::{FilePair, Host};
use std::fs;

/// Writes both files. A resource that does not exist has none.
pub(crate) fn files(entity: &ResourceEntity, host: &Host) -> Option<FilePair> {
    let (desired, actual) = Item::new(0, entity, false).states(host)?;
    let name: String = digest(&entity.id).chars().take(16).collect();
    let folder = host.cache_dir().join(format!("ral-{name}"));
    fs::create_dir_all(&folder).ok()?;
    let pair = FilePair::new(folder.join("desired.toml"), folder.join("actual.toml"));
    let hides = |name: &str| entity.sensitive.hides(name);
    fs::write(&pair.from, as_toml(&desired, &desired, hides)).ok()?;
    match actual {
        Some(actual) => fs::write(&pair.to, as_toml(&actual, &desired, hides)).ok()?,
        // It may exist from an earlier diff in this run.
        None if pair.to.exists() => fs::remove_file(&pair.to).ok()?,
        None => {}
    }
    // The paths of the copies differ in each run.
    Some(pair.with_applied_label(&entity.id).with_to_label(entity.id.as_bytes()))
}
