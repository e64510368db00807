//! Brings packages into their desired state: all installations in one transaction, and all removals.

mod crew;

use crate::base::Base;
use crate::declaration::Wanted;
use crate::entity::{PackageEntity, Past};
use crate::learn::{Learned, Wish, learn};
use crate::manager::Manager;
use crate::model::Kind;
use crate::names::{FullNames, things};
use crate::problem::Problem;
use crate::provider::PackageProvider;
use crate::resolve::{Resolved, Task};
use crew::Crew;
use holo_change::base_store::{BaseStore, Remembered};
use holo_plugin::{Applied, ForceTo, Host, Job, Output, SetAnswers};
use std::collections::{BTreeMap, BTreeSet};

/// Applies packages together.
pub(crate) fn apply(host: &Host, jobs: &[Job<'_, PackageEntity>], answers: &mut dyn SetAnswers) {
    let mut groups: BTreeMap<&str, (&'static dyn PackageProvider, Vec<usize>)> = BTreeMap::new();
    for (place, job) in jobs.iter().enumerate() {
        match &job.entity.provider {
            Ok(provider) => groups.entry(provider.name()).or_insert((*provider, Vec::new())).1.push(place),
            Err(error) => fail(answers, place, &Problem::new(error.to_string()), Applied::FAILED_UNCHANGED),
        }
    }
    for (provider, places) in groups.into_values() {
        let group = Group { host, provider, jobs, places };
        if let Err(EarlyError { problem, applied }) = group.apply(answers) {
            for (number, &place) in group.places.iter().enumerate() {
                let is_told = number > 0 && problem.is_general;
                let problem = if is_told { problem.for_others() } else { problem.clone() };
                fail(answers, place, &problem, applied.clone());
            }
        }
    }
    // The findings of a check are outdated now.
    if let Some(job) = jobs.first() {
        job.entity.shared.forget();
    }
}

/// Says that nothing could be done for an entity.
fn fail(answers: &mut dyn SetAnswers, place: usize, problem: &Problem, applied: Applied) {
    answers.begin(place);
    problem.tell(&mut answers.output(place));
    answers.end(place, applied);
}

/// Returns how something failed. A failure after which everything is installed as before has changed nothing, whatever was tried.
fn failed(is_as_before: bool) -> Applied {
    if is_as_before { Applied::FAILED_UNCHANGED } else { Applied::FAILED }
}

/// An error before any entity was answered for.
struct EarlyError {
    problem: Problem,
    /// The end of all entities.
    applied: Applied,
}

impl From<Problem> for EarlyError {
    /// An error before anything was tried.
    fn from(problem: Problem) -> EarlyError {
        EarlyError { problem, applied: Applied::FAILED_UNCHANGED }
    }
}

/// Packages of one package manager.
struct Group<'a> {
    host: &'a Host,
    provider: &'static dyn PackageProvider,
    jobs: &'a [Job<'a, PackageEntity>],
    /// Their places in the set.
    places: Vec<usize>,
}

impl Group<'_> {
    fn entity(&self, number: usize) -> &PackageEntity {
        self.jobs[self.places[number]].entity
    }

    fn wanted(&self, number: usize) -> &Wanted {
        &self.entity(number).wanted
    }

    /// Fails if no entity was answered for.
    fn apply(&self, answers: &mut dyn SetAnswers) -> Result<(), EarlyError> {
        let Some(&first) = self.places.first() else { return Ok(()) };
        let mut manager = Manager::new(self.host, self.provider)?;
        let wishes: Vec<Wish<'_>> = (0..self.places.len())
            .map(|number| Wish { wanted: self.wanted(number), force: self.jobs[self.places[number]].mode.force })
            .collect();
        manager.system.timeout = self.timeout();
        let mut learned = learn(&manager, &wishes, &mut answers.output(first))?;
        let is_task = |resolved: &Resolved| matches!(resolved, Resolved::Task(_));
        let mut before = None;
        if learned.resolved.iter().any(is_task) {
            match self.repair(&manager, &wishes, &mut answers.output(first)) {
                Ok(None) => {}
                Ok(Some(again)) => before = Some(std::mem::replace(&mut learned, again).installed),
                Err(problem) => {
                    let is_as_before = manager.installed().is_ok_and(|now| now == learned.installed);
                    return Err(EarlyError { problem, applied: failed(is_as_before) });
                }
            }
        }
        let failed_early = failed(before.as_ref().is_none_or(|before| *before == learned.installed));
        let memory = BaseStore::open(self.host.locations())
            .map_err(|error| EarlyError { problem: Problem::new(error.to_string()), applied: failed_early.clone() })?;
        let not_taken_over = self.take_over(&memory, &failed_early, answers);
        let mut tasks = Vec::new();
        for (number, resolved) in learned.resolved.into_iter().enumerate() {
            let place = self.places[number];
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
                    answers.output(place).error(problem);
                    failed_early.clone()
                }
                Resolved::Unknown(problem) => {
                    if let Some(refresh) = &learned.refresh_problem {
                        refresh.tell(&mut answers.output(place));
                    }
                    answers.output(place).error(problem);
                    failed_early.clone()
                }
            };
            answers.begin(place);
            answers.end(place, applied);
        }
        if tasks.is_empty() {
            return Ok(());
        }
        tasks.iter().for_each(|task| answers.begin(self.places[task.place]));
        if let Err(error) = self.keep_bases(&memory, &tasks, &learned.installed) {
            for task in &tasks {
                answers.output(self.places[task.place]).error(&error);
                answers.end(self.places[task.place], failed_early.clone());
            }
            return Ok(());
        }
        let names = self.entity(0).shared.names(self.provider);
        let mut crew = Crew::new(manager, learned.installed, before, names, &wishes);
        crew.work(&tasks, &mut answers.output(self.places[tasks[0].place]));
        for task in &tasks {
            let place = self.places[task.place];
            let applied = crew.outcome(task, &mut answers.output(place));
            let applied = self.finish(task.place, &memory, applied, answers);
            answers.end(place, applied);
        }
        Ok(())
    }

    /// Repairs what a transaction that was cut off has left, and finds out anew what has to be done: what was half done may be done now.
    fn repair(
        &self,
        manager: &Manager<'_>,
        wishes: &[Wish<'_>],
        output: &mut Output<'_>,
    ) -> Result<Option<Learned>, Problem> {
        if !manager.repair(output)? {
            return Ok(None);
        }
        learn(manager, wishes, output).map(Some)
    }

    /// The longest of the times that are given.
    fn timeout(&self) -> Option<std::time::Duration> {
        (0..self.places.len()).filter_map(|number| self.wanted(number).timeout).max()
    }

    /// Has packages take over what others have left to them; those for which that has failed have ended.
    fn take_over(&self, memory: &BaseStore, failed_early: &Applied, answers: &mut dyn SetAnswers) -> BTreeSet<usize> {
        let names = FullNames::new(self.host);
        let name_of = |base: &Base| names.of_base(base);
        let mut failed = BTreeSet::new();
        for (number, &place) in self.places.iter().enumerate() {
            let entity = self.entity(number);
            let Past::Living(legacy) = &entity.past else { continue };
            if legacy.is_empty() {
                continue;
            }
            let output = &mut answers.output(place);
            if let Err(error) = memory.take_over(&entity.report_to_keep(), legacy, &things(&name_of), output) {
                fail(answers, place, &Problem::new(error.to_string()), failed_early.clone());
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
    ) -> Result<(), String> {
        let mut new = Vec::new();
        for task in tasks {
            let entity = self.entity(task.place);
            let id = &entity.wanted.id;
            if memory.recall::<Base>(id).map_err(|error| error.to_string())?.is_none() {
                new.push(Remembered::new(&entity.report_to_keep(), Base::of(&entity.wanted, self.provider, installed)));
            }
        }
        memory.keep_all(&new).map_err(|error| error.to_string())
    }

    /// Forgets what was there before us.
    fn forget(&self, number: usize, memory: &BaseStore) -> holo_change::error::Result<()> {
        let names = FullNames::new(self.host);
        match &self.entity(number).past {
            Past::Orphan(orphan) => memory.forget_orphan(orphan, &things(&|base| names.of_base(base))),
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
                    answers.output(self.places[number]).error(error.to_string());
                    failed(applied == Applied::Unchanged)
                }
            },
            applied => applied,
        }
    }
}

/// The order in which transactions are made. Installing first keeps what takes the place of something else from being missed.
const ORDER: [Kind; 3] = [Kind::Install, Kind::Remove, Kind::Purge];
