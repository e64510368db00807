//! Brings units into their desired states together: one query, one call for each kind of step, and a final query.

mod item;
pub(crate) mod journal;

use crate::entity::{FilesStep, Service, affects_others};
use crate::plan::{Circumstances, Ensure, Plan, Step, plan};
use crate::providers::{self, Done, Manager, ManagerError, ServiceProvider, Subject, Task};
use crate::state::{Aspects, UnitState};
use crate::unit::UnitName;
use holo_change::base_store::BaseStore;
use holo_plugin::index::{Table, define_index};
use holo_plugin::system::offline::DEFERRAL;
use holo_plugin::{Applied, Host, Job, SetAnswers, Stream};
use item::Item;
use journal::ReadError;
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

/// The time in which a unit that counts as started immediately may still fail. Managers report when a process ends, but
/// no event confirms that it keeps running: the plugin waits once for all units.
const SETTLE: Duration = Duration::from_millis(200);

/// Applies a set of units that do not depend on each other.
pub(crate) fn apply(host: &Host, set: &[Job<'_, Service>], answers: &mut dyn SetAnswers) {
    let provider = providers::for_host(host);
    let manager = provider.manager(host);
    let mut items = Vec::new();
    let mut files = None;
    for (index, job) in set.iter().enumerate() {
        match job.entity {
            Service::Unit(unit) => items.push(Item::new(index, unit, job.mode)),
            Service::Files(FilesStep { all, .. }) => files = Some((index, all)),
        }
    }
    items.iter().for_each(|item| item.unit.all.forget_states());
    let read = journal::read_changed_files(&*manager, &mut items);
    if let (Some(item), Ok(others)) = (items.first(), &read) {
        item.unit.all.note_read(others.clone());
    }
    if let Some((index, all)) = files {
        answers.begin(index);
        let applied = match &read {
            Ok(others) => {
                let others: BTreeSet<String> = all.take_read().union(others).cloned().collect();
                if others.is_empty() { Applied::Unchanged } else { Applied::Changed(vec![journal::words_for(&others)]) }
            }
            Err(error) => {
                answers.output(index).error(error.error.to_string());
                error.applied.clone()
            }
        };
        answers.end(index, applied);
    }
    if let Err(ReadError { error, applied }) = read {
        return fail_all(&items, &error.to_string(), |_| applied.clone(), answers);
    }
    let memory = BaseStore::open(host.locations());
    let mut run = Run { host, provider, manager: &*manager, memory, items: Table::from(items), answers };
    if let Err(error) = run.apply() {
        run.fail_rest(&error.to_string());
    }
}

/// Fails all units for the same reason.
fn fail_all(items: &[Item<'_>], problem: &str, applied: impl Fn(&Item<'_>) -> Applied, answers: &mut dyn SetAnswers) {
    for item in items {
        answers.begin(item.job);
        answers.output(item.job).error(problem);
        answers.end(item.job, applied(item));
    }
}

/// The reason why the apply cannot continue for any unit.
#[derive(Debug, thiserror::Error)]
enum ApplyError {
    #[error("cannot find out how units are: {0}")]
    States(ManagerError),
    #[error("cannot read the files of units again: {0}")]
    Files(ManagerError),
}

define_index! {
    /// The index of a unit in a run.
    ItemIndex
}

struct Run<'a, 'r> {
    host: &'r Host,
    provider: &'static dyn ServiceProvider,
    manager: &'r dyn Manager,
    memory: BaseStore,
    items: Table<ItemIndex, Item<'a>>,
    answers: &'r mut dyn SetAnswers,
}

impl Run<'_, '_> {
    fn apply(&mut self) -> Result<(), ApplyError> {
        self.recall();
        self.query(&self.indexes(|_| true))?;
        self.read_files()?;
        self.plan(&self.indexes(|_| true), true);
        for index in self.indexes(|item| item.steps.is_empty() && item.changes.is_empty() && !item.unit.is_orphan()) {
            self.end(index);
        }
        self.unmask()?;
        self.keep_bases();
        for step in Step::ALL {
            self.act(step);
        }
        self.verify()?;
        self.finish();
        Ok(())
    }

    fn indexes(&self, counts: impl Fn(&Item<'_>) -> bool) -> Vec<ItemIndex> {
        let items = self.items.entries();
        items.filter(|(_, item)| item.is_at_work() && counts(item)).map(|(index, _)| index).collect()
    }

    fn states(&self, indexes: &[ItemIndex]) -> Result<Vec<Result<UnitState, ManagerError>>, ApplyError> {
        let items = indexes.iter().map(|&index| &self.items[index]);
        let subject = |item: &'_ Item<'_>| {
            let time = item.due_since.is_some();
            Aspects { time, ..item.unit.wanted.aspects(item.refresh) }
        };
        let subjects: Vec<Subject<'_>> =
            items.map(|item| Subject { unit: &item.unit.name, record: &item.record, aspects: subject(item) }).collect();
        self.manager.states(&subjects).map_err(ApplyError::States)
    }

    /// Queries the states of these units.
    fn query(&mut self, indexes: &[ItemIndex]) -> Result<(), ApplyError> {
        if indexes.is_empty() {
            return Ok(());
        }
        for (&index, state) in indexes.iter().zip(self.states(indexes)?) {
            match state {
                Ok(state) => {
                    let item = &mut self.items[index];
                    item.before.get_or_insert_with(|| state.clone());
                    item.state = state;
                }
                Err(problem) => self.fail(index, &format!("{}: {problem}", self.items[index].unit.name)),
            }
        }
        Ok(())
    }

    fn plan(&mut self, indexes: &[ItemIndex], says_problems: bool) {
        let plans: Vec<(ItemIndex, Plan)> = indexes.iter().map(|&index| (index, self.plan_of(index))).collect();
        let can_act = |plan: &Plan| says_problems && plan.problems.is_empty() && affects_others(&plan.steps);
        let acting = plans.iter().filter(|(_, plan)| can_act(plan));
        let acting: Vec<&UnitName> = acting.map(|(index, _)| &self.items[*index].unit.name).collect();
        let all = plans.first().map(|(index, _)| &self.items[*index].unit.all);
        let relations = all.map(|all| all.relations(self.manager, &acting)).unwrap_or_default();
        for (index, mut plan) in plans {
            let item = &mut self.items[index];
            if !item.unit.is_orphan() {
                plan.problems.extend(item.unit.all.contradictions(&relations, &item.unit.name, &plan.steps));
            }
            item.steps = plan.steps;
            item.is_deferred = plan.is_deferred;
            if says_problems && item.remark.is_none() {
                item.remark = plan.remark;
            }
            if says_problems && !plan.problems.is_empty() {
                self.apply_files_only(index, &plan.problems);
            }
        }
    }

    fn plan_of(&self, index: ItemIndex) -> Plan {
        let item = &self.items[index];
        let circumstances = Circumstances {
            manager: self.provider.name(),
            is_offline: self.host.is_offline(),
            refresh: item.refresh && !item.state.was_started_after(item.due_since),
            may_come: false,
        };
        plan(&item.unit.name, &item.unit.wanted, &item.state, circumstances)
    }

    /// Applies the file changes of a unit that cannot reach its desired state.
    fn apply_files_only(&mut self, index: ItemIndex, problems: &[String]) {
        self.begin(index);
        self.items[index].steps.retain(|step| step.is_of_files());
        self.keep(&[index]);
        for step in self.items[index].steps.clone() {
            self.act_on(step, &[index], self.items[index].unit.timeout);
        }
        self.keep(&[index]);
        for problem in problems {
            self.fail(index, problem);
        }
    }

    /// Unmasks units, and only then plans their other steps.
    fn unmask(&mut self) -> Result<(), ApplyError> {
        let unmasks = |step: &Step| matches!(step, Step::Unmask | Step::UnmaskForNow);
        let masked = self.indexes(|item| item.steps.iter().any(unmasks));
        for &index in &masked {
            self.items[index].steps.retain(unmasks);
        }
        self.keep(&masked);
        for step in [Step::Unmask, Step::UnmaskForNow] {
            self.act(step);
        }
        let masked: Vec<ItemIndex> = masked.into_iter().filter(|&index| self.items[index].is_at_work()).collect();
        self.query(&masked)?;
        self.plan(&masked, true);
        Ok(())
    }

    /// Does one step for all units that need it; each timeout has a separate call.
    fn act(&mut self, step: Step) {
        let mut calls: BTreeMap<Option<Duration>, Vec<ItemIndex>> = BTreeMap::new();
        for index in self.indexes(|item| item.steps.contains(&step)) {
            calls.entry(self.items[index].unit.timeout).or_default().push(index);
        }
        for (timeout, indexes) in calls {
            self.act_on(step, &indexes, timeout);
        }
    }

    fn act_on(&mut self, step: Step, indexes: &[ItemIndex], timeout: Option<Duration>) {
        for &index in indexes {
            self.begin(index);
        }
        let items = indexes.iter().map(|&index| &self.items[index]);
        let tasks: Vec<Task<'_>> =
            items.map(|item| Task { unit: &item.unit.name, state: &item.state, wanted: &item.unit.wanted }).collect();
        let left_alone = self.left_alone(step, indexes);
        let done = self.manager.act(step, &tasks, timeout);
        drop(tasks);
        self.put_back(&left_alone, indexes);
        for (&index, done) in indexes.iter().zip(done) {
            let item = &mut self.items[index];
            let name = &item.unit.name;
            item.is_tried = true;
            match done {
                Done::Really => {
                    // A unit whose details are unknown may turn out to be a oneshot.
                    if step.starts() && (item.state.comes_to_an_end || item.state.is_brief) {
                        item.record.ran_in_boot = self.manager.boot();
                    }
                    item.note_done(step);
                }
                Done::Mocked(command) => {
                    item.record.mock.note(step);
                    item.note_done(step);
                    self.answers.output(self.items[index].job).print(format!("MOCK: {command}\n"));
                }
                Done::Failed(_) if self.fails_to_load(index) => {}
                Done::Failed(lines) => {
                    let mut lines = lines.into_iter();
                    let first = lines.next().unwrap_or_default();
                    self.fail(index, &format!("{}: {first}", step.cannot(name)));
                    self.show(index, lines);
                    if !step.is_of_files() {
                        self.show(index, self.manager.last_words(name));
                    }
                }
            }
        }
    }

    /// Fails a unit for errors in its files, if only its phase was known when it was started. Returns true if it has
    /// errors.
    fn fails_to_load(&mut self, index: ItemIndex) -> bool {
        let item = &self.items[index];
        if !item.state.is_brief {
            return false;
        }
        let aspects = Aspects { loading: true, ..item.unit.wanted.aspects(false) };
        let states = self.manager.states(&[Subject { unit: &item.unit.name, record: &item.record, aspects }]);
        let Some(Ok(state)) = states.ok().and_then(|mut states| states.pop()) else { return false };
        let circumstances = Circumstances { manager: self.provider.name(), ..Circumstances::default() };
        let problems = plan(&item.unit.name, &item.unit.wanted, &state, circumstances).problems;
        problems.iter().for_each(|problem| self.fail(index, problem));
        !problems.is_empty()
    }

    /// Checks that all units are in their desired states.
    fn verify(&mut self) -> Result<(), ApplyError> {
        let worked_on = self.indexes(|item| !item.steps.is_empty());
        let starts = |item: &Item<'_>| item.state.starts_unseen && item.steps.iter().any(|step| step.starts());
        if worked_on.iter().any(|&index| starts(&self.items[index])) {
            thread::sleep(SETTLE);
        }
        self.query(&worked_on)?;
        for index in worked_on {
            let item = &mut self.items[index];
            if !item.is_at_work() {
                continue;
            }
            item.refresh = false;
            item.forget_end();
            self.plan(&[index], false);
            let item = &self.items[index];
            let (name, words) = (item.unit.name.clone(), item.state.words.clone());
            let Some(&step) = item.steps.first() else { continue };
            if step.is_of_files() {
                self.fail(index, &format!("{}: it is as before", step.cannot(&name)));
            } else {
                let does = if item.unit.wanted.ensure == Some(Ensure::Stopped) { "still runs" } else { "does not run" };
                self.fail(index, &format!("{name} {does}: it is {words}"));
                self.show(index, self.manager.last_words(&name));
            }
        }
        Ok(())
    }

    fn finish(&mut self) {
        self.keep(&self.indexes(|_| true));
        let left = self.indexes(|_| true);
        left.iter().for_each(|&index| self.begin(index));
        self.forget_orphans(&left);
        self.end_all();
    }

    /// Fails all unfinished units.
    fn fail_rest(&mut self, problem: &str) {
        for index in self.indexes(|_| true) {
            self.fail(index, problem);
        }
        self.end_all();
    }

    /// Finishes all unfinished units. Failed ones are queried again: if a unit is in its previous state, it counts as
    /// unchanged.
    fn end_all(&mut self) {
        let is_open = |item: &Item<'_>| !item.ended && item.failed && item.is_tried && !item.is_changed;
        let open: Vec<ItemIndex> = self.items.indexes().filter(|&index| is_open(&self.items[index])).collect();
        let states = if open.is_empty() { Ok(Vec::new()) } else { self.states(&open) };
        for (index, state) in open.into_iter().zip(states.unwrap_or_default()) {
            let applied = self.items[index].failed(state.as_ref().ok());
            self.end_as(index, applied);
        }
        for index in self.items.indexes() {
            self.end(index);
        }
    }

    fn begin(&mut self, index: ItemIndex) {
        if !std::mem::replace(&mut self.items[index].begun, true) {
            self.answers.begin(self.items[index].job);
        }
    }

    fn fail(&mut self, index: ItemIndex, problem: &str) {
        self.begin(index);
        self.items[index].failed = true;
        self.answers.output(self.items[index].job).error(problem);
    }

    fn show(&mut self, index: ItemIndex, lines: impl IntoIterator<Item = String>) {
        for line in lines {
            self.answers.output(self.items[index].job).relay(Stream::Stderr, format!("   {line}\n").as_bytes());
        }
    }

    fn end(&mut self, index: ItemIndex) {
        let is_at_work = self.items[index].is_at_work();
        if let Some(remark) = self.items[index].remark.take().filter(|_| is_at_work) {
            self.begin(index);
            self.answers.output(self.items[index].job).warning(remark);
        }
        let item = &mut self.items[index];
        let changes = std::mem::take(&mut item.changes);
        if item.is_deferred && !item.failed {
            // A deferred entity has no changes: what has been done is only the beginning of them.
            self.begin(index);
            let mut output = self.answers.output(self.items[index].job);
            changes.iter().for_each(|change| output.print(format!("{change}\n")));
            return self.end_as(index, Applied::Deferred(DEFERRAL.to_owned()));
        }
        let applied = match (item.failed, changes.is_empty() && !item.unit.is_orphan()) {
            (true, _) => item.failed(None),
            (false, true) => Applied::Unchanged,
            (false, false) => Applied::Changed(changes),
        };
        self.end_as(index, applied);
    }

    fn end_as(&mut self, index: ItemIndex, applied: Applied) {
        if std::mem::replace(&mut self.items[index].ended, true) {
            return;
        }
        self.begin(index);
        self.answers.end(self.items[index].job, applied);
    }
}
