//! Repositories as entities. Each consists of a few files, which are restored to their original states.

mod executor;
mod inspection;

pub(crate) use executor::apply;

use crate::model::PackageError;
use crate::providers::{self, PackageProvider, ProviderError};
use crate::repository::{Key, Repository, RepositoryFile, masked};
use holo_change::base_store::BaseStore;
use holo_change::claims::{self, Claim};
use holo_change::tracked::{HasTracks, Overlays, State, Tracks};
use holo_change::{CanonicalPaths, Tree};
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{self, Definition, Definitions};
use holo_plugin::system::package_manager::INDEX;
use holo_plugin::{
    Applied, Asset, Entity, EntityReport, FilePair, ForceTo, ForgetError, Host, Mode, Output, Preview, SENSITIVE,
    ScanError, Shown, Verdict, Witness, apply_one, leads_through_symlink,
};
use inspection::{Inspection, RepositoryError};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

/// Returns true if an apply of the repository would change it, as far as that is known.
pub(crate) fn is_pending(host: &Host, entity: &RepositoryEntity) -> bool {
    let verdict = Inspection::open(host).and_then(|inspection| inspection.check(entity, Mode::default()));
    verdict.is_ok_and(|verdict| verdict != Verdict::InDesiredState)
}

/// Returns the path of the list of repositories that failed in this run, one a line.
fn failures(cache: &Path, provider: &dyn PackageProvider) -> PathBuf {
    cache.join(format!("failed-{}", provider.name()))
}

/// Returns the repositories of a package manager that failed in this run.
pub(crate) fn failed(cache: &Path, provider: &dyn PackageProvider) -> Vec<String> {
    let text = fs::read_to_string(failures(cache, provider)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// A defined repository, or an orphan.
pub(crate) struct RepositoryEntity {
    pub(crate) id: String,
    /// The definition, or `None` for an orphan.
    pub(crate) definition: Option<Repository>,
    /// The package manager, or the reason why there is none.
    pub(crate) provider: Result<&'static dyn PackageProvider, ProviderError>,
    /// The files of the repository.
    pub(crate) files: Vec<RepositoryFile>,
    /// The files that contain its definition, as shown to the user.
    pub(crate) sources: Vec<PathBuf>,
    /// The stored report, for an orphan.
    pub(crate) orphan: Option<EntityReport>,
    pub(crate) timeout: Option<Duration>,
}

impl RepositoryEntity {
    /// Returns the full report. It is stored for the repository as an orphan.
    fn full_report(&self) -> EntityReport {
        if let Some(report) = &self.orphan {
            return report.clone();
        }
        let mut report = EntityReport::new(self.id.as_str());
        if let Some(definition) = &self.definition {
            if definition.is_gone() {
                report.inform("ensure", "absent");
            } else {
                report.inform("from", masked(&definition.uris.join(" ")));
            }
            if let Some(Key::Path(path)) = definition.key() {
                report.edges.needs.push(Asset::new("path", path));
            }
        }
        for file in &self.files {
            report.edges.provides.push(Asset::new("path", file.path.as_str()));
            report.edges.owns.push(Asset::new("path", file.path.as_str()));
            report.edges.watch.push(file.path.as_str().into());
        }
        if let Ok(provider) = &self.provider {
            let paths = provider.repository_needs().iter();
            report.edges.needs.extend(paths.map(|path| Asset::new("path", *path)));
            report.edges.provides.push(Asset::new(INDEX, provider.name()));
        }
        report
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// The name of the package manager.
    pub(crate) provider: String,
    /// True from before a change until the index has been refreshed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_index_due: bool,
    /// The original and the provisioned state of each file.
    tracks: Tracks,
}

impl HasTracks for Record {
    fn tracks(&mut self) -> &mut Tracks {
        &mut self.tracks
    }
}

/// A record of any type that this plugin writes. Only its tracks are read.
#[derive(Clone, Debug, Default)]
struct AnyRecord(Tracks);

impl HasTracks for AnyRecord {
    fn tracks(&mut self) -> &mut Tracks {
        &mut self.0
    }
}

impl<'de> Deserialize<'de> for AnyRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AnyRecord, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        let tracks = value.get_mut("tracks").map(Value::take);
        let tracks =
            tracks.map(|tracks| serde_json::from_value(tracks).map_err(serde::de::Error::custom)).transpose()?;
        Ok(AnyRecord(tracks.unwrap_or_default()))
    }
}

impl Entity for RepositoryEntity {
    fn report(&self) -> EntityReport {
        self.full_report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        apply_one(self, mode, output, |set, answers| apply(host, set, answers))
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        match Inspection::open(host).and_then(|inspection| inspection.check(self, mode)) {
            Ok(verdict) => verdict,
            Err(RepositoryError::Meanwhile) => Verdict::NeedsForce(ForceTo::Overwrite),
            Err(RepositoryError::Failed(problem)) => {
                problem.tell(output);
                Verdict::Failed
            }
        }
    }

    fn forget(&self, host: &Host, output: &mut Output<'_>) -> Result<(), ForgetError> {
        let reason = |error: RepositoryError| -> ForgetError {
            match error {
                RepositoryError::Failed(problem) => problem.summary.into(),
                RepositoryError::Meanwhile => "it was changed meanwhile".into(),
            }
        };
        let _held = Tree::open(host.state_dir())?.hold()?;
        let inspection = Inspection::open(host).map_err(reason)?;
        if let Some(record) = inspection.recall(self).map_err(reason)? {
            host.keep_originals(&self.id, (&inspection.tracker, &record.base.tracks), output)?;
        }
        Ok(inspection.bases.forget(&self.id)?)
    }

    fn witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        self.definition.as_ref()?;
        let paths = || self.files.iter().map(|file| Path::new(&file.path));
        if paths().any(|path| leads_through_symlink(host.root(), path)) {
            return None;
        }
        let files = paths().map(|path| Witness::file(&host.below_root(path)));
        Some(files.chain(Overlays::witnesses(host.locations(), paths())).collect())
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        Inspection::open(host).ok()?.difference(self)
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        preview(self, &Inspection::open(host).ok()?).ok().flatten()
    }
}

/// The directory that contains all files of repositories.
const TOP: &str = "/etc";

/// Returns two directories with the files that differ, or `None` if there are none.
fn preview(entity: &RepositoryEntity, inspection: &Inspection<'_>) -> Result<Option<FilePair>, RepositoryError> {
    let plan = inspection.plan(entity, inspection.recall(entity)?)?;
    let failed = |error: io::Error| PackageError::new(error.to_string());
    let preview = Preview::new(inspection.host, entity.id.as_bytes()).map_err(failed)?;
    let mut is_empty = true;
    let mut show = |path: PathBuf, shown: Option<Shown>| -> Result<(), RepositoryError> {
        if let Some(shown) = shown {
            shown.write(&path).map_err(failed)?;
            is_empty = false;
        }
        Ok(())
    };
    let below = |path: &Path| path.strip_prefix(TOP).or(path.strip_prefix("/")).unwrap_or(path).to_owned();
    let tracks = &plan.remembered.base.tracks;
    let live = |path: &Path| Ok(inspection.tracker.place(path).read_if_file()?.unwrap_or_default());
    for file in plan.files.iter().filter(|file| file.current != file.desired) {
        let is_secret = file.sensitive || tracks.get(&file.path).is_some_and(|track| track.sensitive);
        show(preview.from(&below(&file.path)), shown(&file.current, is_secret, || live(&file.path))?)?;
        let bytes = || Ok(file.bytes.clone().unwrap_or_default());
        show(preview.to(&below(&file.path)), shown(&file.desired, is_secret, bytes)?)?;
    }
    for (path, current) in &plan.leftovers {
        let Some(track) = tracks.get(path).filter(|track| track.base != *current) else { continue };
        show(preview.from(&below(path)), shown(current, track.sensitive, || live(path))?)?;
        let content = || match track.base.content() {
            Some(digest) => inspection.tracker.content(digest),
            None => live(path),
        };
        show(preview.to(&below(path)), shown(&track.base, track.sensitive, content)?)?;
    }
    Ok((!is_empty).then(|| preview.pair(Path::new(""), &inspection.host.below_root(Path::new(TOP))).with_modes()))
}

fn shown(
    state: &State,
    is_secret: bool,
    read: impl FnOnce() -> holo_change::error::Result<Vec<u8>>,
) -> Result<Option<Shown>, RepositoryError> {
    let Some(attributes) = state.attributes().filter(|_| state.content().is_some()) else { return Ok(None) };
    let content = if is_secret { SENSITIVE.to_vec() } else { read()? };
    Ok(Some(Shown::File { content, mode: attributes.mode }))
}

/// The repositories of a scan.
#[derive(Default)]
pub(crate) struct Repositories {
    pub(crate) all: Vec<Arc<Declared<RepositoryEntity>>>,
}

impl Repositories {
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
    // The files of a repository whose definition is invalid are left alone by others, too.
    let unusable = defined.unusable(records.keys());
    let unusable: Vec<Claim> = unusable
        .into_iter()
        .filter_map(|id| records.get(id))
        .flat_map(|record| {
            record.base.tracks.iter().map(|(path, _)| Claim::new(&record.id, &path, &[])).collect::<Vec<_>>()
        })
        .collect();
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
    publish(host, &all, (unusable, &holders), output);
    Ok(Repositories { all: all.into_iter().map(Arc::new).collect() })
}

fn orphan_provider(record: &Record) -> Result<&'static dyn PackageProvider, ProviderError> {
    Ok(providers::ALL.named(&record.provider)?)
}

/// Publishes the files that repositories own to other plugins.
fn publish(
    host: &Host,
    all: &[Declared<RepositoryEntity>],
    (mut claims, holders): (Vec<Claim>, &[String]),
    output: &mut Output<'_>,
) {
    if all.is_empty() && claims.is_empty() {
        return;
    }
    let canonical = Tree::open(host.root()).ok().map(|root| CanonicalPaths::new(&root));
    let path_of = |path: &str| -> PathBuf {
        let found = canonical.as_ref().and_then(|canonical| canonical.of(Path::new(path)).ok());
        found.unwrap_or_else(|| path.into())
    };
    let living = all.iter().filter(|one| one.common.skipped.is_none());
    claims.extend(living.flat_map(|one| {
        let claim = |path: &str| Claim::new(&one.entity.id, &path_of(path), &one.entity.sources);
        one.entity.files.iter().map(move |file| claim(&file.path)).collect::<Vec<_>>()
    }));
    if let Err(error) = claims::publish(host.locations(), &claims, holders) {
        output.error(error.to_string());
    }
}
