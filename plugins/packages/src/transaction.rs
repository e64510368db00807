//! Brings packages into their desired state: all installations in one transaction, and all removals.

mod executor;

use crate::base::Base;
use crate::declaration::Wanted;
use crate::entity::{PackageEntity, Past};
use crate::error::PackageError;
use crate::manager::Manager;
use crate::model::Kind;
use crate::names::{FullNames, things};
use crate::provider::PackageProvider;
use crate::query::{Request, Resolution, query};
use crate::resolve::{Resolved, Task};
use executor::Executor;
use holo_change::base_store::{BaseStore, Remembered};
use holo_plugin::{Applied, ForceTo, Host, Job, Output, SetAnswers};
use std::collections::{BTreeMap, BTreeSet};

/// Applies packages together.
pub(crate) fn apply(host: &Host, jobs: &[Job<'_, PackageEntity>], answers: &mut dyn SetAnswers) {
    let mut groups: BTreeMap<&str, (&'static dyn PackageProvider, Vec<usize>)> = BTreeMap::new();
    for (index, job) in jobs.iter().enumerate() {
        match &job.entity.provider {
            Ok(provider) => groups.entry(provider.name()).or_insert((*provider, Vec::new())).1.push(index),
            Err(error) => fail(answers, index, &PackageError::new(error.to_string()), Applied::FAILED_UNCHANGED),
        }
    }
    for (provider, indexes) in groups.into_values() {
        let group = Group { host, provider, jobs, indexes };
        if let Err(EarlyError { problem, applied }) = group.apply(answers) {
            for (number, &index) in group.indexes.iter().enumerate() {
                let is_told = number > 0 && problem.is_general;
                let problem = if is_told { problem.for_others() } else { problem.clone() };
                fail(answers, index, &problem, applied.clone());
            }
        }
    }
    // The findings of a check are outdated now.
    if let Some(job) = jobs.first() {
        job.entity.shared.forget();
    }
}

/// Says that nothing could be done for an entity.
fn fail(answers: &mut dyn SetAnswers, index: usize, problem: &PackageError, applied: Applied) {
    answers.begin(index);
    problem.tell(&mut answers.output(index));
    answers.end(index, applied);
}

/// Returns how something failed. A failure after which everything is installed as before has changed nothing, whatever was tried.
fn failed(is_as_before: bool) -> Applied {
    if is_as_before { Applied::FAILED_UNCHANGED } else { Applied::FAILED }
}

/// An error before any entity was answered for.
struct EarlyError {
    problem: PackageError,
    /// The end of all entities.
    applied: Applied,
}

impl From<PackageError> for EarlyError {
    /// An error before anything was tried.
    fn from(problem: PackageError) -> EarlyError {
        EarlyError { problem, applied: Applied::FAILED_UNCHANGED }
    }
}

/// Packages of one package manager.
struct Group<'a> {
    host: &'a Host,
    provider: &'static dyn PackageProvider,
    jobs: &'a [Job<'a, PackageEntity>],
    /// Their indexes in the set.
    indexes: Vec<usize>,
}

impl Group<'_> {
    fn entity(&self, number: usize) -> &PackageEntity {
        self.jobs[self.indexes[number]].entity
    }

    fn wanted(&self, number: usize) -> &Wanted {
        &self.entity(number).wanted
    }

    /// Fails if no entity was answered for.
    fn apply(&self, answers: &mut dyn SetAnswers) -> Result<(), EarlyError> {
        let Some(&first) = self.indexes.first() else { return Ok(()) };
        let mut manager = Manager::new(self.host, self.provider)?;
        let requests: Vec<Request<'_>> = (0..self.indexes.len())
            .map(|number| Request { wanted: self.wanted(number), force: self.jobs[self.indexes[number]].mode.force })
            .collect();
        manager.system.timeout = self.timeout();
        let mut resolution = query(&manager, &requests, &mut answers.output(first))?;
        let is_task = |resolved: &Resolved| matches!(resolved, Resolved::Task(_));
        let mut before = None;
        if resolution.resolved.iter().any(is_task) {
            match self.repair(&manager, &requests, &mut answers.output(first)) {
                Ok(None) => {}
                Ok(Some(again)) => before = Some(std::mem::replace(&mut resolution, again).installed),
                Err(problem) => {
                    let is_as_before = manager.installed().is_ok_and(|now| now == resolution.installed);
                    return Err(EarlyError { problem, applied: failed(is_as_before) });
                }
            }
        }
        let failed_early = failed(before.as_ref().is_none_or(|before| *before == resolution.installed));
        let memory = BaseStore::open(self.host.locations()).map_err(|error| EarlyError {
            problem: PackageError::new(error.to_string()),
            applied: failed_early.clone(),
        })?;
        let not_taken_over = self.take_over(&memory, &failed_early, answers);
        let mut tasks = Vec::new();
        for (number, resolved) in resolution.resolved.into_iter().enumerate() {
            let index = self.indexes[number];
            if not_taken_over.contains(&number) {
                continue;
            }
            let applied = match resolved {
                Resolved::Task(task) => {
                    tasks.push(task);
                    continue;
                }
                Resolved::Nothing => self.finish(number, &memory, Applied::Unchanged, answers),
                Resolved::NeedsForce(reason) => Applied::NeedsForce(ForceTo::Proceed(reason)),
                Resolved::Impossible(problem) => {
                    answers.output(index).error(problem);
                    failed_early.clone()
                }
                Resolved::Unknown(error) => {
                    if let Some(refresh) = &resolution.refresh_problem {
                        refresh.tell(&mut answers.output(index));
                    }
                    answers.output(index).error(error.to_string());
                    failed_early.clone()
                }
            };
            answers.begin(index);
            answers.end(index, applied);
        }
        if tasks.is_empty() {
            return Ok(());
        }
        tasks.iter().for_each(|task| answers.begin(self.indexes[task.request]));
        if let Err(error) = self.keep_bases(&memory, &tasks, &resolution.installed) {
            for task in &tasks {
                answers.output(self.indexes[task.request]).error(error.to_string());
                answers.end(self.indexes[task.request], failed_early.clone());
            }
            return Ok(());
        }
        let names = self.entity(0).shared.names(self.provider);
        let mut executor = Executor::new(manager, resolution.installed, before, names, &requests);
        executor.work(&tasks, &mut answers.output(self.indexes[tasks[0].request]));
        for task in &tasks {
            let index = self.indexes[task.request];
            let applied = executor.outcome(task, &mut answers.output(index));
            let applied = self.finish(task.request, &memory, applied, answers);
            answers.end(index, applied);
        }
        Ok(())
    }

    /// Repairs what a transaction that was cut off has left, and finds out anew what has to be done: what was half done may be done now.
    fn repair(
        &self,
        manager: &Manager<'_>,
        requests: &[Request<'_>],
        output: &mut Output<'_>,
    ) -> Result<Option<Resolution>, PackageError> {
        if !manager.repair(output)? {
            return Ok(None);
        }
        query(manager, requests, output).map(Some)
    }

    /// The longest of the times that are given.
    fn timeout(&self) -> Option<std::time::Duration> {
        (0..self.indexes.len()).filter_map(|number| self.wanted(number).timeout).max()
    }

    /// Has packages take over what others have left to them; those for which that has failed have ended.
    fn take_over(&self, memory: &BaseStore, failed_early: &Applied, answers: &mut dyn SetAnswers) -> BTreeSet<usize> {
        let names = FullNames::new(self.host);
        let name_of = |base: &Base| names.name_of_base(base);
        let mut failed = BTreeSet::new();
        for (number, &index) in self.indexes.iter().enumerate() {
            let entity = self.entity(number);
            let Past::Living(legacy) = &entity.past else { continue };
            if legacy.is_empty() {
                continue;
            }
            let output = &mut answers.output(index);
            if let Err(error) = memory.take_over(&entity.report_to_keep(), legacy, &things(&name_of), output) {
                fail(answers, index, &PackageError::new(error.to_string()), failed_early.clone());
                failed.insert(number);
            }
        }
        failed
    }

    /// Remembers what was there before the first change.
    fn keep_bases(
        &self,
        memory: &BaseStore,
        tasks: &[Task],
        installed: &crate::model::Installed,
    ) -> holo_change::error::Result<()> {
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

    /// Forgets what was there before us.
    fn forget(&self, number: usize, memory: &BaseStore) -> holo_change::error::Result<()> {
        let names = FullNames::new(self.host);
        match &self.entity(number).past {
            Past::Orphan(orphan) => memory.forget_orphan(orphan, &things(&|base| names.name_of_base(base))),
            Past::Living(_) => Ok(()),
        }
    }

    /// Forgets an orphan that is as it was.
    fn finish(&self, number: usize, memory: &BaseStore, applied: Applied, answers: &mut dyn SetAnswers) -> Applied {
        let wanted = self.wanted(number);
        match applied {
            Applied::Unchanged | Applied::Changed(_) if wanted.is_orphan => match self.forget(number, memory) {
                // That nothing had to be done does not mean that it is still there.
                Ok(()) if applied == Applied::Unchanged => Applied::Changed(Vec::new()),
                Ok(()) => applied,
                Err(error) => {
                    answers.output(self.indexes[number]).error(error.to_string());
                    failed(applied == Applied::Unchanged)
                }
            },
            applied => applied,
        }
    }
}

/// The order in which transactions are made. Installing first keeps what takes the place of something else from being missed.
const ORDER: [Kind; 3] = [Kind::Install, Kind::Remove, Kind::Purge];
