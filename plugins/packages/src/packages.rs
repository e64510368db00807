//! The entities of the plugin, packages and repositories, and the scan for defined ones and orphans.

use crate::adoption::{self, InstalledCache};
use crate::check::{Finding, changes};
use crate::declaration::Package;
use crate::entity::{PackageEntity, PackageRecords, Shared};
use crate::intent::Intent;
use crate::manager::is_mocked;
use crate::model::Kind;
use crate::names::{FullNames, things};
use crate::providers::{self, PackageProvider, ProviderError};
use crate::repositories::{self, Repositories, RepositoryEntity};
use crate::repository::Repository;
use crate::transaction;
use crate::wanted::{Ensure, VERSION, Wanted};
use bstr::BString;
use holo_change::base_store::{BaseStore, Records, Remembered};
use holo_plugin::declared::{Declared, apply_together};
use holo_plugin::definitions::{self, Common, Definitions, Hindrance};
use holo_plugin::index::Table;
use holo_plugin::system::{OS_RELEASE_PATHS, Root};
use holo_plugin::{
    API_VERSION_4, Adopted, Adoption, Applied, Candidate, Diagnosis, Entity, EntityReport, FilePair, ForgetError, Host,
    Job, Level, Mode, Output, Part, Plugin, ScanError, SetAnswers, Silence, Verdict, Witness, apply_one,
    leads_through_symlink, missing_programs,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Packages {
    known: InstalledCache,
}

impl Plugin for Packages {
    type Entity = Managed;

    const INTERFERES: bool = true;

    const READS: &'static [&'static str] = &["*.toml", "*.toml.jinja"];

    const ADOPTS: bool = true;

    const SENDS: &'static [&'static str] = &["package#version"];

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Self::Entity>, ScanError> {
        let (definitions, (repositories, ())): (Definitions<Package>, (Definitions<Repository>, ())) =
            definitions::read_several(host, output);
        let repositories = repositories::scan(host, repositories, output)?;
        let memory = BaseStore::open(host.locations());
        let own = own_provider(host);
        let kept = host.kept();
        let intent = Intent::open(host).map_err(|error| {
            output.error(error.to_string());
            ScanError
        })?;
        let mut living = Vec::new();
        for (id, defined) in &definitions.valid {
            let manager = match &defined.common.keys.provider {
                Some(name) => named(name),
                None => own.clone(),
            };
            let mut wanted = defined.definition.wanted(id, defined.common.keys.timeout);
            wanted.recall(&kept, &intent);
            living.push((wanted, manager, defined.common.clone()));
        }
        let names = FullNames::new(host);
        let owned: BTreeMap<String, String> = living
            .iter()
            .map(|(wanted, manager, _)| (wanted.id.clone(), names.name(&wanted.key, manager.as_ref().ok().copied())))
            .collect();
        if host.api_version() < API_VERSION_4 {
            report_duplicates(&mut living, &owned, output);
        }
        let is_orphan = |id: &str| definitions.is_orphan(id);
        let records = memory.records(&owned, &things(&|base| names.name_of_base(base)), is_orphan, output);
        let Records { mut legacies, orphans } = records.unwrap_or_else(|error| {
            output.error(error.to_string());
            Records::default()
        });
        let mut found = Vec::new();
        for (wanted, provider, common) in living {
            let owned = owned.get(&wanted.id).cloned().unwrap_or_default();
            let legacy = legacies.remove(&wanted.id).unwrap_or_default();
            found.push((
                PackageEntity {
                    wanted,
                    provider,
                    owned,
                    records: PackageRecords::Living(legacy),
                    comes_after_configuration: false,
                    shared: Arc::default(),
                },
                common,
            ));
        }
        for orphan in orphans {
            let Remembered { id, base, .. } = &orphan.remembered;
            let (mut wanted, provider, owned) = (base.wanted(id), named(&base.provider), names.name_of_base(base));
            wanted.recall_orphan(&kept, &intent);
            let records = PackageRecords::Orphan(Box::new(orphan));
            found.push((
                PackageEntity {
                    wanted,
                    provider,
                    owned,
                    records,
                    comes_after_configuration: false,
                    shared: Arc::default(),
                },
                Common::default(),
            ));
        }
        let taken_part = found.iter().filter(|(_, common)| common.skipped.is_none());
        let all = taken_part.filter_map(|(entity, _)| Some((entity.wanted.clone(), *entity.provider.as_ref().ok()?)));
        let shared = Arc::new(Shared::new(all.collect(), repositories.all.clone()));
        let entity = |(entity, common): (PackageEntity, Common)| {
            let entity = PackageEntity { shared: Arc::clone(&shared), ..entity };
            let comes_later = comes_after_configuration(&entity, &common, &repositories);
            Declared::new(PackageEntity { comes_after_configuration: comes_later, ..entity }, common)
        };
        let packages: Vec<_> =
            found.into_iter().map(entity).map(|package| Managed::Package(Box::new(package))).collect();
        let repositories = repositories.all.into_iter().map(Managed::Repository);
        Ok(repositories.chain(packages).collect())
    }

    /// Besides the definitions, the list rests on which package manager it is, and on the native architecture. Orphans
    /// have no witnesses.
    fn scan_witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        let managers = providers::ALL.iter().flat_map(|provider| {
            let files = provider.manager().evidence();
            files.chain(provider.witnesses().into_iter().flatten().copied())
        });
        let below_root = managers.chain(OS_RELEASE_PATHS).map(|path| Witness::file(&host.below_root(Path::new(path))));
        let own = [host.state_dir(), host.resources().weakest()].map(Witness::file);
        Some(below_root.chain(own).collect())
    }

    fn doctor(&self, host: &Host, _: &mut Output<'_>) -> Vec<Diagnosis> {
        let Ok(provider) = own_provider(host) else {
            let remedy = "set the key provider in definitions of packages, unless they are for other systems";
            return vec![Diagnosis::new(Level::Warning, "no package manager is recognised on this system", remedy)];
        };
        let manager = provider.manager();
        let missing = missing_programs(host, &[manager.program], "package management");
        let fine = || Diagnosis::new(Level::Ok, format!("the package manager is {}", manager.name), "");
        vec![missing.unwrap_or_else(fine)]
    }

    fn apply_set(&self, host: &Host, set: &[Job<'_, Self::Entity>], answers: &mut dyn SetAnswers) {
        self.known.forget();
        with_those(set, answers, Managed::repository, |jobs, answers| {
            apply_together(host, jobs, answers, |jobs, answers| repositories::apply(host, jobs, answers));
        });
        with_those(set, answers, Managed::package, |jobs, answers| {
            apply_together(host, jobs, answers, |jobs, answers| transaction::apply(host, jobs, answers));
        });
    }

    fn check_set(&self, host: &Host, set: &[Job<'_, Self::Entity>], answers: &mut dyn SetAnswers<Verdict>) {
        for (index, job) in set.iter().enumerate() {
            if let Some(package) = job.entity.package() {
                package.entity.shared.expect(set.len());
            }
            let verdict = job.entity.check(host, job.mode, &mut answers.output(index));
            answers.end(index, verdict);
        }
    }

    fn candidates(&self, host: &Host, _: &[PathBuf], output: &mut Output<'_>) -> Result<Vec<Candidate>, ScanError> {
        let entities = self.scan(host, &mut Output::new(&mut Silence))?;
        let packages = entities.iter().filter_map(Managed::package).map(|declared| &declared.entity);
        let living = packages.filter(|entity| !entity.wanted.is_orphan);
        let defined = living.map(|entity| entity.wanted.key.clone()).collect();
        adoption::candidates(host, &self.known, &defined).map_err(|problem| {
            problem.tell(output);
            ScanError
        })
    }

    fn adopt(&self, host: &Host, adoption: Adoption<'_>, output: &mut Output<'_>) -> Adopted {
        let entity = self.find(host, adoption.id, &mut Output::new(&mut Silence)).ok().flatten();
        let defined = entity.and_then(|entity| Adopted::defined_already(&entity, host, output));
        defined.unwrap_or_else(|| adoption::adopt(host, &self.known, &adoption.id.to_string(), output))
    }
}

/// Returns true if a package is applied after what configures its manager: repositories, and declared files, which say so
/// themselves unless their definitions have an order. A repository or the package may define the opposite order.
fn comes_after_configuration(entity: &PackageEntity, common: &Common, repositories: &Repositories) -> bool {
    let keys = &common.keys;
    let configures = |id: &str| id.starts_with("file:/") || repositories.all.iter().any(|one| one.entity.id == id);
    !repositories.named_by().contains(entity.wanted.id.as_str())
        && !keys.before.iter().chain(&keys.notifies).any(|id| configures(id.as_str()))
}

/// Removes packages that are defined under two names, with an error, if the dispatcher is too old to check ownership.
fn report_duplicates(
    living: &mut Vec<(Wanted, Result<&'static dyn PackageProvider, ProviderError>, Common)>,
    owned: &BTreeMap<String, String>,
    output: &mut Output<'_>,
) {
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (id, name) in owned {
        owners.entry(name).or_default().push(id);
    }
    living.retain(|(wanted, _, common)| {
        let id = &wanted.id;
        let namesakes = owned.get(id).and_then(|name| owners.get(name.as_str())).map_or(&[][..], Vec::as_slice);
        let other = namesakes.iter().find(|other| **other != id.as_str());
        if let Some(other) = other {
            output.error(format!("{}: {id}: name: this is what {other} is already", common.location));
        }
        other.is_none()
    });
}

fn own_provider(host: &Host) -> Result<&'static dyn PackageProvider, ProviderError> {
    providers::for_host(host).ok_or(ProviderError::None)
}

fn named(name: &str) -> Result<&'static dyn PackageProvider, ProviderError> {
    Ok(providers::ALL.named(name)?)
}

/// A package, or a repository that packages come from.
pub(crate) enum Managed {
    Repository(Arc<Declared<RepositoryEntity>>),
    Package(Box<Declared<PackageEntity>>),
}

impl Managed {
    fn entity(&self) -> &dyn Entity {
        match self {
            Managed::Repository(repository) => &**repository,
            Managed::Package(package) => &**package,
        }
    }

    pub(crate) fn package(&self) -> Option<&Declared<PackageEntity>> {
        if let Managed::Package(package) = self { Some(package) } else { None }
    }

    pub(crate) fn repository(&self) -> Option<&Declared<RepositoryEntity>> {
        if let Managed::Repository(repository) = self { Some(repository) } else { None }
    }
}

impl Entity for Managed {
    fn report(&self) -> EntityReport {
        self.entity().report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        self.entity().apply(host, mode, output)
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        self.entity().check(host, mode, output)
    }

    fn forget(&self, host: &Host, output: &mut Output<'_>) -> Result<(), ForgetError> {
        self.entity().forget(host, output)
    }

    fn send(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        self.entity().send(host, names, output);
    }

    fn foresee(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        self.entity().foresee(host, names, output);
    }

    fn hindrance(&self) -> Option<&Hindrance> {
        self.entity().hindrance()
    }

    fn witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        self.entity().witnesses(host)
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        self.entity().diff(host)
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        self.entity().preview(host)
    }
}

/// Calls `work` with the jobs of a set whose entities are of one kind, if there are any.
fn with_those<'e, E: 'e>(
    set: &[Job<'e, Managed>],
    answers: &mut dyn SetAnswers,
    of_kind: impl Fn(&'e Managed) -> Option<&'e E>,
    work: impl FnOnce(&[Job<'e, E>], &mut dyn SetAnswers),
) {
    let (mut jobs, mut places) = (Vec::new(), Table::new());
    for (place, job) in set.iter().enumerate() {
        if let Some(entity) = of_kind(job.entity) {
            jobs.push(Job { entity, mode: job.mode });
            places.push(place);
        }
    }
    if !jobs.is_empty() {
        work(&jobs, &mut Part { places, answers });
    }
}

/// The version shown for a package that was installed by the mock manager.
const MOCK: &str = "MOCK";

impl Entity for PackageEntity {
    fn report(&self) -> EntityReport {
        self.full_report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        apply_one(self, mode, output, |set, answers| transaction::apply(host, set, answers))
    }

    fn forget(&self, host: &Host, _: &mut Output<'_>) -> Result<(), ForgetError> {
        let PackageRecords::Orphan(orphan) = &self.records else { return Err("it is defined".into()) };
        let names = FullNames::new(host);
        let name_of = |base: &_| names.name_of_base(base);
        Ok(BaseStore::open(host.locations()).forget_orphans([&**orphan], &things(&name_of))?)
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        if let Err(error) = &self.provider {
            output.error(error.to_string());
            return Verdict::Failed;
        }
        match self.shared.finding(&self.wanted.id, host, output) {
            Some(Finding::Verdict(verdict)) => verdict,
            Some(Finding::Pending(task)) => Verdict::WouldChange(match &self.provider {
                Ok(provider) => {
                    let names = self.shared.names(*provider);
                    changes(host, *provider, &names, &task, self.shared.tells_others())
                }
                Err(_) => Vec::new(),
            }),
            Some(Finding::Failed(problem)) => {
                problem.tell(output);
                Verdict::Failed
            }
            None => Verdict::Unknown,
        }
    }

    fn send(&self, _: &Host, names: &[BString], output: &mut Output<'_>) {
        if let Some(version) = self.shared.version(&self.wanted.id) {
            send_version(&version, names, output);
        }
    }

    /// Sends the version that a check expects to be installed.
    fn foresee(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        let Some(Finding::Pending(task)) = self.shared.finding(&self.wanted.id, host, output) else { return };
        match (task.kind, task.item.version) {
            (Some(Kind::Install), Some(version)) => send_version(&version, names, output),
            (None, _) => self.send(host, names, output),
            _ => {}
        }
    }

    /// Packages whose versions or answers to questions are managed rest on more than the database.
    fn witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        let Wanted { ensure, source, answers, is_orphan, .. } = &self.wanted;
        let rests_on_database = *ensure != Ensure::Latest && source.is_none() && answers.is_none() && !is_orphan;
        let provider =
            self.provider.as_ref().ok().filter(|provider| rests_on_database && !is_mocked(host, **provider))?;
        let manager = provider.manager();
        // RPM may be configured with another path.
        if !manager.has_database(&Root::new(host.root())) {
            return None;
        }
        let paths = manager.databases.iter().chain(provider.witnesses()?).map(Path::new);
        let witness =
            |path: &Path| (!leads_through_symlink(host.root(), path)).then(|| Witness::file(&host.below_root(path)));
        // SQLite writes to its log first.
        let logs = manager.databases.iter().filter(|path| path.ends_with(".sqlite")).map(|path| format!("{path}-wal"));
        paths.map(witness).chain(logs.map(|path| witness(Path::new(&path)))).collect()
    }

    fn diff(&self, _: &Host) -> Option<FilePair> {
        None
    }
}

/// Sends the version of a package if it was requested.
fn send_version(version: &str, names: &[BString], output: &mut Output<'_>) {
    if names.iter().any(|name| name == VERSION) {
        output.send(VERSION, if version.is_empty() { MOCK } else { version });
    }
}
