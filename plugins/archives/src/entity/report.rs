//! The scan report of an archive.

use super::{ArchiveEntity, Desired};
use crate::definition::{Ensure, parent};
use holo_download::Address;
use holo_plugin::{Action, Asset, EntityReport};
use std::path::{Path, PathBuf};

pub(super) fn report(entity: &ArchiveEntity) -> EntityReport {
    let archive = match &entity.desired {
        Desired::Defined(archive, _) => archive,
        Desired::Undefined(remembered) => {
            let mut report = remembered.orphan_report();
            for tree in &remembered.base.trees {
                let tree = Asset::new("path-shared", tree.as_str());
                if !report.edges.owns.contains(&tree) {
                    report.edges.owns.push(tree);
                }
            }
            return report;
        }
    };
    let mut report = EntityReport::new(entity.id.as_str());
    let edges = &mut report.edges;
    let asset = |kind: &str, value: &str| Asset::new(kind, value);
    let provided: Vec<&str> = std::iter::once(archive.path.as_str()).chain(archive.extract_to.as_deref()).collect();
    if let Some(own) = entity.inventory.defined.iter().find(|own| own.id == entity.id) {
        let tree = own.tree.iter().filter(|_| own.ensure == Ensure::Present).map(|tree| ("path-shared", tree));
        for (kind, path) in std::iter::once(("path", &own.path)).chain(tree) {
            edges.owns.extend(path.to_str().map(|path| asset(kind, path)));
        }
    }
    edges.provides.extend(provided.iter().map(|path| asset("path", path)));
    let file = archive.addresses().first().and_then(Address::file);
    let file = file.as_ref().and_then(|file: &PathBuf| file.to_str());
    // It determines the desired state as much as the definition.
    report.sources.extend(entity.local_source.iter().map(|source| holo_change::path_bytes(source)));
    let parents = provided.iter().filter_map(|path| parent(path));
    let needed = parents
        .chain(archive.password_file.as_deref())
        .chain(archive.ca_file.as_deref())
        .chain(archive.keyring.as_deref())
        .chain(file);
    for path in needed {
        // The archive does not depend on its own paths.
        let is_own = provided.iter().any(|own| Path::new(path).starts_with(own));
        let need = asset("path", path);
        if !is_own && !edges.needs.contains(&need) {
            edges.needs.push(need);
        }
    }
    for (kind, name) in [("user", &archive.owner), ("group", &archive.group)] {
        if let Some(name) = name.as_ref().filter(|name| name.parse::<u32>().is_err()) {
            edges.needs.push(asset(kind, name));
        }
    }
    if archive.ensure == Ensure::Absent {
        report.action = Action { verb: "Removing".into(), reason: None };
    } else if let Some(address) = archive.addresses().first() {
        report.inform("download", address.to_string());
    }
    if let Some(directory) = &archive.extract_to {
        report.inform("into", directory.as_str());
    }
    report
}
