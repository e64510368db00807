//! Scans for defined repositories and orphans.

use super::entity::{Record, RepositoryEntity};
use crate::provider::{PackageProvider, ProviderError};
use crate::providers;
use crate::repository::Repository;
use holo_change::base_store::BaseStore;
use holo_change::claims::{self, Claim};
use holo_change::{CanonicalPaths, Tree};
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{self, Definition, Definitions};
use holo_plugin::{Host, Output, ScanError};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The repositories of a scan.
#[derive(Default)]
pub(crate) struct Repositories {
    pub(crate) all: Vec<Arc<Declared<RepositoryEntity>>>,
}

impl Repositories {
    /// Returns the names of the package managers that have repositories.
    pub(crate) fn managers(&self) -> BTreeSet<&'static str> {
        let provider = |one: &Arc<Declared<RepositoryEntity>>| Some(one.entity.provider.as_ref().ok()?.name());
        self.all.iter().filter(|one| one.common.skipped.is_none()).filter_map(provider).collect()
    }

    /// Returns the entities that a repository comes after by definition.
    pub(crate) fn named_by(&self) -> BTreeSet<&str> {
        let keys = self.all.iter().map(|one| &one.common.keys);
        let all = keys.flat_map(|keys| keys.after.iter().chain(&keys.requires).chain(&keys.subscribes));
        all.map(String::as_str).collect()
    }
}

/// Creates entities from definitions and records.
pub(crate) fn scan(
    host: &Host,
    mut defined: Definitions<Repository>,
    output: &mut Output<'_>,
) -> Result<Repositories, ScanError> {
    let records = BaseStore::open(host.locations());
    let records = records.all_of::<Record>(&format!("{}:", Repository::TABLE), output).map_err(|error| {
        output.error(error.to_string());
        ScanError
    })?;
    let mut all = Vec::new();
    let mut refused = Vec::new();
    for (id, one) in &defined.valid {
        let provider = match &one.common.keys.provider {
            Some(name) => providers::ALL.named(name).map_err(ProviderError::from),
            None => providers::for_host(host).ok_or(ProviderError::None),
        };
        let files = match &provider {
            Ok(provider) if one.common.skipped.is_none() => match provider.repository(&one.definition) {
                Ok(files) => files,
                Err(invalid) => {
                    refused.push((id.clone(), invalid));
                    continue;
                }
            },
            _ => Vec::new(),
        };
        let entity = RepositoryEntity {
            id: id.clone(),
            definition: Some(one.definition.clone()),
            provider,
            files,
            sources: one.common.sources.clone(),
            orphan: None,
            timeout: one.common.keys.timeout,
        };
        all.push(Declared::new(entity, one.common.clone()));
    }
    for (id, invalid) in refused {
        definitions::say(defined.refuse(&id, &[invalid]), output);
    }
    let mut holders = Vec::new();
    for (id, remembered) in records {
        if !defined.is_orphan(&id) {
            continue;
        }
        holders.push(id.clone());
        let mut report = remembered.orphan_report();
        for (path, _) in remembered.base.tracks.iter() {
            report.inform("made", host.below_root(&path).display().to_string());
        }
        all.push(Declared::orphan(RepositoryEntity {
            id,
            definition: None,
            provider: orphan_provider(&remembered.base),
            files: Vec::new(),
            sources: Vec::new(),
            orphan: Some(report),
            timeout: None,
        }));
    }
    publish(host, &all, &holders, output);
    Ok(Repositories { all: all.into_iter().map(Arc::new).collect() })
}

fn orphan_provider(record: &Record) -> Result<&'static dyn PackageProvider, ProviderError> {
    Ok(providers::ALL.named(&record.provider)?)
}

/// Publishes the files that repositories own to other plugins.
fn publish(host: &Host, all: &[Declared<RepositoryEntity>], holders: &[String], output: &mut Output<'_>) {
    if all.is_empty() {
        return;
    }
    let canonical = Tree::open(host.root()).ok().map(|root| CanonicalPaths::new(&root));
    let path_of = |path: &str| -> PathBuf {
        let found = canonical.as_ref().and_then(|canonical| canonical.of(Path::new(path)).ok());
        found.unwrap_or_else(|| path.into())
    };
    let living = all.iter().filter(|one| one.common.skipped.is_none());
    let claims: Vec<Claim> = living
        .flat_map(|one| {
            let claim = |path: &str| Claim::new(&one.entity.id, &path_of(path), &one.entity.sources);
            one.entity.files.iter().map(move |file| claim(&file.path)).collect::<Vec<_>>()
        })
        .collect();
    if let Err(error) = claims::publish(host.locations(), &claims, holders) {
        output.error(error.to_string());
    }
}
