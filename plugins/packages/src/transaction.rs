//! Brings packages into their desired state, with one transaction for all installations and one for all removals.

mod executor;
mod masks;

use crate::check::unknown;
use crate::entity::{PackageEntity, PackageRecords};
use crate::intent::Intent;
use crate::manager::Manager;
use crate::model::{Installed, Kind, PackageError};
use crate::names::{FullNames, things};
use crate::providers::PackageProvider;
use crate::query::{Request, Requests, query};
use crate::records::Base;
use crate::resolve::{RequestIndex, Resolved, Task};
use crate::simulate::{Given, Names, SimulationError, Simulator};
use crate::source::Sources;
use crate::wanted::{OURS, VERSION, Wanted, installed_version};
use executor::{Executor, installation};
use holo_change::PathError;
use holo_change::base_store::{BaseStore, Remembered};
use holo_plugin::index::Table;
use holo_plugin::{Applied, ForceTo, Host, Job, Output, SetAnswers};
use masks::Masks;
use std::collections::{BTreeMap, BTreeSet};

/// Applies packages together.
pub(crate) fn apply(host: &Host, jobs: &[Job<'_, PackageEntity>], answers: &mut dyn SetAnswers) {
    let mut groups: BTreeMap<&str, (&'static dyn PackageProvider, Vec<Member<'_>>)> = BTreeMap::new();
    for (index, job) in jobs.iter().enumerate() {
        match &job.entity.provider {
            Ok(provider) => {
                let (_, members) = groups.entry(provider.name()).or_insert((*provider, Vec::new()));
                members.push(Member { job: *job, index });
            }
            Err(error) => fail(answers, index, &PackageError::new(error.to_string()), Applied::FAILED_UNCHANGED),
        }
    }
    for (provider, members) in groups.into_values() {
        let group = Group { host, provider, members: Table::from(members) };
        if let Err(EarlyError { problem, applied }) = group.apply(answers) {
            for (number, member) in group.members.iter().enumerate() {
                let is_told = number > 0 && problem.is_general;
                let problem = if is_told { problem.for_others() } else { problem.clone() };
                fail(answers, member.index, &problem, applied.clone());
            }
        }
    }
    // The cached results of a check are outdated now.
    if let Some(job) = jobs.first() {
        job.entity.shared.forget();
    }
}

/// Reports that an entity failed.
fn fail(answers: &mut dyn SetAnswers, index: usize, problem: &PackageError, applied: Applied) {
    answers.begin(index);
    problem.tell(&mut answers.output(index));
    answers.end(index, applied);
}

/// Returns the result of a failure. If the installed packages are the same as before, nothing was changed, whatever was attempted.
fn failed(is_as_before: bool) -> Applied {
    if is_as_before { Applied::FAILED_UNCHANGED } else { Applied::FAILED }
}

/// An error before any entity was answered.
struct EarlyError {
    problem: PackageError,
    /// The result of all entities.
    applied: Applied,
}

impl From<PackageError> for EarlyError {
    /// Creates an error before anything was attempted.
    fn from(problem: PackageError) -> EarlyError {
        EarlyError { problem, applied: Applied::FAILED_UNCHANGED }
    }
}

/// Packages of one package manager.
struct Group<'a> {
    host: &'a Host,
    provider: &'static dyn PackageProvider,
    members: Table<RequestIndex, Member<'a>>,
}

struct Member<'a> {
    job: Job<'a, PackageEntity>,
    /// Its index in the set.
    index: usize,
}

impl<'a> Group<'a> {
    fn entity(&self, request: RequestIndex) -> &PackageEntity {
        self.members[request].job.entity
    }

    fn wanted(&self, request: RequestIndex) -> &Wanted {
        &self.entity(request).wanted
    }

    /// Applies the packages.
    ///
    /// # Errors If no entity was answered.
    fn apply(&self, answers: &mut dyn SetAnswers) -> Result<(), EarlyError> {
        let Some(first) = self.members.iter().next() else { return Ok(()) };
        let mut manager = Manager::new(self.host, self.provider)?;
        let mut sources = Sources::open(&manager)?;
        let mut with_file =
            |member: &Member<'_>| sources.with_file(&member.job.entity.wanted, &mut answers.output(member.index));
        let wanted: Vec<Wanted> = self.members.iter().map(&mut with_file).collect();
        let request = |(member, wanted): (&Member<'a>, _)| Request { wanted, force: member.job.mode.force };
        let requests: Requests<'_> = self.members.iter().zip(&wanted).map(request).collect();
        manager.system.timeout = self.timeout();
        let mut resolution = query(&manager, &requests, &mut answers.output(first.index))?;
        let is_task = |resolved: &Resolved| matches!(resolved, Resolved::Task(_));
        let (mut before, mut unrepaired, mut is_told) = (None, None, false);
        let deferral = manager.deferral();
        let mut masks = Masks::default();
        drop(Masks::left(self.host));
        if deferral.is_none() && resolution.resolved.iter().any(is_task) {
            if self.provider.starts_daemons() {
                masks = Masks::of_stopped_units(self.host, &mut answers.output(first.index));
            }
            let repaired = self.repair(&manager, &requests, &resolution.installed, &mut answers.output(first.index));
            unrepaired = repaired.as_ref().err().cloned();
            // A repair that ended halfway may have changed something, too.
            if !matches!(repaired, Ok(false)) {
                let again = query(&manager, &requests, &mut answers.output(first.index));
                let again = again.map_err(|problem| EarlyError { problem, applied: Applied::FAILED })?;
                before = Some(std::mem::replace(&mut resolution, again).installed);
            }
        }
        let failed_early = failed(before.as_ref().is_none_or(|before| *before == resolution.installed));
        let memory = BaseStore::open(self.host.locations());
        let not_taken_over = self.take_over(&memory, &failed_early, answers);
        let (mut tasks, mut ends) = (Vec::new(), Vec::new());
        for (request, resolved) in resolution.resolved.indexes().zip(resolution.resolved) {
            let index = self.members[request].index;
            if not_taken_over.contains(&request) {
                continue;
            }
            // With an index that is too old, and cannot be fetched now, the latest version is unknown.
            let is_done = match &resolved {
                Resolved::Nothing => !manager.needs_index(self.wanted(request), false),
                resolved => matches!(resolved, Resolved::Forgotten(_)),
            };
            if let Some(deferred) = deferral.clone().filter(|_| !is_done) {
                ends.push((request, deferred));
                continue;
            }
            let applied = match resolved {
                Resolved::Task(task) => match &unrepaired {
                    None => {
                        tasks.push(task);
                        continue;
                    }
                    Some(SimulationError::Failed(problem)) => {
                        let problem = if is_told { problem.for_others() } else { problem.clone() };
                        is_told = true;
                        problem.tell(&mut answers.output(index));
                        failed_early.clone()
                    }
                    Some(SimulationError::NeedsForce(why) | SimulationError::Needed(why)) => {
                        Applied::NeedsForce(ForceTo::Proceed(why.clone()))
                    }
                },
                Resolved::Nothing => {
                    self.keep(request, &resolution.installed, false, &mut answers.output(index));
                    // The repair may have completed the installation.
                    let key = &self.wanted(request).key;
                    let installation = before
                        .as_ref()
                        .and_then(|before| installation(before, &resolution.installed, key, self.provider));
                    installation.map_or(Applied::Unchanged, |action| Applied::Changed(vec![action.done()]))
                }
                Resolved::Forgotten(why) => {
                    answers.output(index).warning(why);
                    Applied::Unchanged
                }
                Resolved::NeedsForce(reason) => Applied::NeedsForce(ForceTo::Proceed(reason)),
                Resolved::Impossible(problem) => {
                    answers.output(index).error(problem);
                    failed_early.clone()
                }
                Resolved::Unknown(error) => {
                    if let Some(refresh) = &resolution.refresh_problem {
                        refresh.tell(&mut answers.output(index));
                    }
                    answers.output(index).error(unknown(&manager, &error));
                    failed_early.clone()
                }
            };
            ends.push((request, applied));
        }
        ends.iter().for_each(|(request, _)| answers.begin(self.members[*request].index));
        self.finish(ends, &memory, answers);
        let Some(first_task) = tasks.first() else { return Ok(()) };
        tasks.iter().for_each(|task| answers.begin(self.members[task.request].index));
        let mut intent = None;
        let kept = self.keep_bases(&memory, &tasks, &resolution.installed).and_then(|()| {
            intent = self.intend(&manager, &tasks)?;
            Ok(())
        });
        if let Err(error) = kept {
            for task in &tasks {
                answers.output(self.members[task.request].index).error(error.to_string());
                answers.end(self.members[task.request].index, failed_early.clone());
            }
            return Ok(());
        }
        let mut executor = Executor::new(manager, resolution.installed, before, self.names(), &requests);
        executor.work(&tasks, &mut answers.output(self.members[first_task.request].index));
        drop(masks);
        let (mut given_up, mut ends) = (Vec::new(), Vec::new());
        for task in &tasks {
            let index = self.members[task.request].index;
            let applied = executor.outcome(task, &mut answers.output(index));
            let has_installed = task.kind == Some(Kind::Install) && matches!(applied, Applied::Changed(_));
            if has_installed && let Err(error) = self.keep_brought(&memory, task, executor.brought(task)) {
                answers.output(index).warning(error.to_string());
            }
            if !has_installed {
                given_up.push(&*self.wanted(task.request).id);
            }
            self.keep(task.request, executor.installed(), has_installed, &mut answers.output(index));
            ends.push((task.request, applied));
        }
        self.finish(ends, &memory, answers);
        // An entry that stays too long only makes a manually installed version count as installed by holo.
        let _ = intent.map(|mut intent| intent.note(given_up.into_iter().map(|id| (id, None))));
        Ok(())
    }

    /// PackageRecords the versions that are about to be installed. A mock manager cannot be interrupted, and needs no record.
    fn intend(&self, manager: &Manager<'_>, tasks: &[Task]) -> holo_change::error::Result<Option<Intent>> {
        if manager.system.mock.is_some() {
            return Ok(None);
        }
        let mut intent = Intent::open(self.host)?;
        let changing = tasks.iter().filter(|task| task.kind.is_some());
        intent.note(changing.map(|task| {
            let version = if task.kind == Some(Kind::Install) { task.item.version.as_deref() } else { None };
            (&*self.wanted(task.request).id, version)
        }))?;
        Ok(Some(intent))
    }

    /// Stores the installed version of a package for restores, and for entities that receive it.
    fn keep(&self, request: RequestIndex, installed: &Installed, has_installed: bool, output: &mut Output<'_>) {
        let wanted = self.wanted(request);
        let version = installed_version(installed, &wanted.key, self.provider);
        self.entity(request).shared.note_version(&wanted.id, version);
        // A mock manager may have no version.
        let Some(version) = version.filter(|version| !version.is_empty()) else { return };
        output.keep(VERSION, version);
        if has_installed {
            output.keep(OURS, version);
        }
    }

    /// Repairs an interrupted transaction. Returns false if no repair was needed. A repair may complete what was requested.
    fn repair(
        &self,
        manager: &Manager<'_>,
        requests: &Requests<'_>,
        installed: &Installed,
        output: &mut Output<'_>,
    ) -> Result<bool, SimulationError> {
        let names = self.names();
        let simulator = Simulator { manager, installed, names: &names, given: Given::default() };
        let force = requests.iter().any(|request| request.force);
        manager.repair(|repair| simulator.allow_repair(repair, force), output)
    }

    /// Returns the names of all declared packages.
    fn names(&self) -> Names {
        self.members.iter().next().map(|first| first.job.entity.shared.names(self.provider)).unwrap_or_default()
    }

    /// Returns the longest of the defined timeouts.
    fn timeout(&self) -> Option<std::time::Duration> {
        self.members.iter().filter_map(|member| member.job.entity.wanted.timeout).max()
    }

    /// Takes over the records of other entities. Returns the packages that failed, which are answered.
    fn take_over(
        &self,
        memory: &BaseStore,
        failed_early: &Applied,
        answers: &mut dyn SetAnswers,
    ) -> BTreeSet<RequestIndex> {
        let names = FullNames::new(self.host);
        let name_of = |base: &Base| names.name_of_base(base);
        let mut failed = BTreeSet::new();
        for (request, Member { job, index }) in self.members.entries() {
            let (entity, index) = (job.entity, *index);
            let PackageRecords::Living(legacy) = &entity.records else { continue };
            if legacy.is_empty() {
                continue;
            }
            let output = &mut answers.output(index);
            if let Err(error) = memory.take_over(&entity.report_to_keep(), legacy, &things(&name_of), output) {
                fail(answers, index, &PackageError::new(error.to_string()), failed_early.clone());
                failed.insert(request);
            }
        }
        failed
    }

    /// PackageRecords the original states before the first change.
    fn keep_bases(&self, memory: &BaseStore, tasks: &[Task], installed: &Installed) -> holo_change::error::Result<()> {
        let mut new = Vec::new();
        for task in tasks {
            let entity = self.entity(task.request);
            let id = &entity.wanted.id;
            if memory.recall::<Base>(id)?.is_none() {
                new.push(Remembered::new(
                    &entity.report_to_keep(),
                    Base::new(&entity.wanted, self.provider, installed),
                ));
            }
        }
        memory.keep_all(&new)
    }

    /// PackageRecords the packages that were installed along with a new package, as they are removed with it.
    fn keep_brought(&self, memory: &BaseStore, task: &Task, brought: Vec<String>) -> holo_change::error::Result<()> {
        let Some(mut remembered) = memory.recall::<Base>(&self.wanted(task.request).id)? else { return Ok(()) };
        let base = &mut remembered.base;
        let new: Vec<String> = brought.into_iter().filter(|name| !base.brought.contains(name)).collect();
        if base.version.is_some() || new.is_empty() {
            return Ok(());
        }
        base.brought.extend(new);
        memory.keep(&remembered)
    }

    /// Removes the records of restored orphans, and answers all packages.
    fn finish(&self, ends: Vec<(RequestIndex, Applied)>, memory: &BaseStore, answers: &mut dyn SetAnswers) {
        let is_done = |applied: &Applied| matches!(applied, Applied::Unchanged | Applied::Changed(_));
        let done = ends.iter().filter(|(_, applied)| is_done(applied)).map(|(request, _)| *request);
        let mut not_forgotten = self.forget(&Vec::from_iter(done), memory);
        for (request, applied) in ends {
            let index = self.members[request].index;
            let applied = match not_forgotten.remove(&request) {
                Some(error) => {
                    answers.output(index).error(error.to_string());
                    failed(applied == Applied::Unchanged)
                }
                // The record was removed, which is a change.
                None if self.wanted(request).is_orphan && applied == Applied::Unchanged => Applied::Changed(Vec::new()),
                None => applied,
            };
            answers.end(index, applied);
        }
    }

    /// Removes the records of orphans among these. Returns the errors.
    fn forget(&self, requests: &[RequestIndex], memory: &BaseStore) -> BTreeMap<RequestIndex, PathError> {
        let names = FullNames::new(self.host);
        let name_of = |base: &Base| names.name_of_base(base);
        let orphan = |&request: &RequestIndex| match &self.entity(request).records {
            PackageRecords::Orphan(orphan) if self.wanted(request).is_orphan => Some((request, &**orphan)),
            _ => None,
        };
        let orphans = Vec::from_iter(requests.iter().filter_map(orphan));
        if memory.forget_orphans(orphans.iter().map(|(_, orphan)| *orphan), &things(&name_of)).is_ok() {
            return BTreeMap::new();
        }
        // Retry each, so that one error does not affect the others.
        let forgotten = orphans.into_iter().map(|(request, orphan)| {
            let forgotten = memory.forget_orphans([orphan], &things(&name_of));
            Some((request, forgotten.err()?))
        });
        forgotten.flatten().collect()
    }
}
