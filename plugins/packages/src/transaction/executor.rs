//! Carries out tasks, and then verifies their results with the installed packages.

use super::failed;
use crate::action::{Action, with_version};
use crate::manager::Manager;
use crate::model::{Installed, Instance, Item, Key, Kind, Mark, PackageError, Status, Step};
use crate::providers::PackageProvider;
use crate::query::Requests;
use crate::resolve::{Completion, RequestIndex, Task};
use crate::simulate::{Given, Names, ORDER, SimulationError, Simulator, parts, transaction};
use crate::wanted::{Main, Need, newest};
use holo_plugin::{Applied, ForceTo, Output};
use std::collections::BTreeMap;

/// Carries out tasks with one package manager.
pub(super) struct Executor<'a> {
    manager: Manager<'a>,
    requests: &'a Requests<'a>,
    /// The names of all declared packages.
    names: Names,
    /// The installed packages before the first task.
    before: Installed,
    /// The installed packages before a repair, if there was one.
    before_repair: Option<Installed>,
    /// The installed packages now.
    installed: Installed,
    /// The names of packages expected to be installed along with each task.
    brought: BTreeMap<RequestIndex, Vec<String>>,
    /// The packages to be removed with a task because they are no longer needed.
    companions: BTreeMap<RequestIndex, Vec<Item>>,
    /// The packages to be removed that are not declared, and the task that causes it.
    displaced: BTreeMap<Key, (RequestIndex, Step)>,
    /// The reasons why tasks were not carried out.
    refusals: BTreeMap<RequestIndex, SimulationError>,
    /// The error if the installed packages are unknown now.
    lost: Option<PackageError>,
    /// The reason why no further tasks are attempted.
    stopped: Option<PackageError>,
}

impl<'a> Executor<'a> {
    pub(super) fn new(
        manager: Manager<'a>,
        installed: Installed,
        before_repair: Option<Installed>,
        names: Names,
        requests: &'a Requests<'a>,
    ) -> Executor<'a> {
        Executor {
            manager,
            requests,
            names,
            before: installed.clone(),
            before_repair,
            installed,
            brought: BTreeMap::new(),
            companions: BTreeMap::new(),
            displaced: BTreeMap::new(),
            refusals: BTreeMap::new(),
            lost: None,
            stopped: None,
        }
    }

    /// Carries out all tasks.
    pub(super) fn work(&mut self, tasks: &[Task], output: &mut Output<'_>) {
        let released: Vec<&Task> = tasks.iter().filter(|task| self.goes_first(task)).collect();
        self.mark(Mark::Released, &released, output);
        let mut done = 0;
        for kind in ORDER {
            let of_kind: Vec<&Task> = tasks.iter().filter(|task| task.kind == Some(kind)).collect();
            if kind != Kind::Install {
                done += of_kind.len();
            }
            parts(&of_kind).iter().for_each(|part| self.transact(kind, part, output));
        }
        // Packages removed since then may have been the reason why others could not be installed.
        let kept_out: Vec<&Task> = tasks
            .iter()
            .filter(|task| task.kind == Some(Kind::Install) && self.refusals.contains_key(&task.request))
            .collect();
        if done > 0 && !kept_out.is_empty() && self.stopped.is_none() {
            kept_out.iter().for_each(|task| drop(self.refusals.remove(&task.request)));
            parts(&kept_out).iter().for_each(|part| self.transact(Kind::Install, part, output));
        }
        self.look_again();
        self.mark_all(tasks, output);
        self.restore_holds(tasks, output);
    }

    /// Restores the holds that were released for tasks that failed.
    fn restore_holds(&mut self, tasks: &[Task], output: &mut Output<'_>) {
        let has_lost_hold = |task: &&Task| {
            let instances = self.installed.instances(&task.item.key);
            self.refusals.contains_key(&task.request)
                && self.goes_first(task)
                && self.requests[task.request].wanted.hold != Some(false)
                && instances.iter().any(|instance| instance.is_there())
                && !instances.iter().any(|instance| instance.held)
        };
        let lost: Vec<&Task> = tasks.iter().filter(has_lost_hold).collect();
        if lost.is_empty() {
            return;
        }
        let items: Vec<Item> = lost.iter().map(|task| self.item_now(task)).collect();
        if let Err(problem) = self.give(Mark::Held, &items, output) {
            let names: Vec<String> = items.iter().map(|item| item.key.to_string()).collect();
            output.warning(format!("{} is no longer held: {}", names.join(", "), problem.summary));
        }
        self.look_again();
    }

    /// Returns true if a hold must be released before the task.
    fn goes_first(&self, task: &Task) -> bool {
        task.is_held
            && task.kind.is_some()
            && (self.manager.provider.releases_first() || task.marks.contains(&Mark::Released))
    }

    /// Sets all marks that are missing now.
    fn mark_all(&mut self, tasks: &[Task], output: &mut Output<'_>) {
        let mut lacking: BTreeMap<Mark, Vec<&Task>> = BTreeMap::new();
        for task in tasks {
            match self.refusals.get(&task.request) {
                None => {}
                // It is now a dependency of the packages that need it.
                Some(SimulationError::Needed(_)) if self.manager.provider.marks().contains(&Mark::Automatic) => {
                    lacking.entry(Mark::Automatic).or_default().push(task);
                    continue;
                }
                Some(_) => continue,
            }
            let mut marks = self.need(task).marks;
            let wanted = self.requests[task.request].wanted;
            // A hold that is not managed is restored.
            let is_held = self.installed.instances(&wanted.key).iter().any(|instance| instance.held);
            if task.is_held && !is_held && wanted.hold.is_none() && !wanted.ensure.is_gone() {
                marks.push(Mark::Held);
            }
            marks.into_iter().for_each(|mark| lacking.entry(mark).or_default().push(task));
        }
        for (mark, tasks) in &lacking {
            self.mark(*mark, tasks, output);
        }
        if !lacking.is_empty() {
            self.look_again();
        }
    }

    /// Returns the changes that a package still needs.
    fn need(&self, task: &Task) -> Need {
        let wanted = self.requests[task.request].wanted;
        let candidate = task.item.version.as_deref();
        Need::new(wanted, &self.installed.instances(&wanted.key), candidate, self.manager.provider)
    }

    /// Carries out tasks of a kind together. On failure they are split into ever smaller groups, so that only the tasks at fault fail.
    fn transact(&mut self, kind: Kind, tasks: &[&Task], output: &mut Output<'_>) {
        let left: Vec<&Task> = tasks.iter().copied().filter(|task| !self.has_gone(task)).collect();
        let tasks = &left[..];
        if tasks.is_empty() || self.has_stopped(tasks) {
            return;
        }
        let given = Given::default();
        let simulator = Simulator { manager: &self.manager, installed: &self.installed, names: &self.names, given };
        let admission = simulator.admit(kind, tasks);
        let (removes, comes) = (admission.removes(), admission.comes());
        let displaced = simulator.removals(kind, &admission);
        self.displaced.extend(displaced.into_iter().map(|(task, step)| (step.key(), (task.request, step))));
        let refused = admission.refused.into_iter().map(|(task, refusal)| (task.request, refusal));
        self.refusals.extend(refused);
        let (accepted, without) = (admission.accepted, admission.without);
        if accepted.is_empty() {
            return;
        }
        let companions = simulator.companions(kind, &accepted);
        let mut transaction = transaction(kind, &accepted, removes);
        transaction.items.extend(companions.iter().cloned());
        transaction.without = without;
        self.note_others(&accepted, &comes, companions);
        let is_alone = accepted.len() == 1;
        let ran = self.manager.provider.programs(&self.manager.system, &transaction).and_then(|programs| {
            for task in &accepted {
                self.answer(task, output)?;
            }
            if self.manager.system.mock.is_none()
                && let Some(mut download) = self.manager.provider.download(&self.manager.system, &transaction)?
            {
                self.manager.fetch(&mut download, output)?;
            }
            let configures = accepted.iter().any(|task| task.completion == Some(Completion::Configure));
            let completion = if configures { self.manager.provider.complete(&self.manager.system)? } else { None };
            for mut program in programs.into_iter().chain(completion) {
                self.manager.transact(&mut program, output)?;
            }
            self.manager.system.mock.as_mut().map_or(Ok(()), |mock| mock.transact(&transaction))
        });
        if ran.is_err() || removes {
            self.look_again();
        }
        let Err(problem) = ran else { return };
        // Some tasks may have been completed before the failure.
        let undone: Vec<&Task> = accepted.into_iter().filter(|task| self.need(task).main.is_some()).collect();
        if problem.is_general && !undone.is_empty() {
            return self.stop(&undone, problem);
        }
        match undone[..] {
            [] => problem.lines.iter().chain([&problem.summary]).for_each(|line| output.warning(line)),
            [task] if is_alone => {
                self.refusals.insert(task.request, SimulationError::Failed(problem));
            }
            [task] => self.transact(kind, &[task], output),
            _ => {
                let (first, second) = undone.split_at(undone.len() / 2);
                self.transact(kind, first, output);
                self.transact(kind, second, output);
            }
        }
    }

    /// Returns true if a task's package was already removed because it conflicted with another one.
    fn has_gone(&self, task: &Task) -> bool {
        task.kind != Some(Kind::Install) && self.need(task).main.is_none()
    }

    /// Stores the answers to debconf questions of the package.
    fn answer(&self, task: &Task, output: &mut Output<'_>) -> Result<(), PackageError> {
        let Some(answers) = task.answers.as_ref().filter(|_| task.kind == Some(Kind::Install)) else { return Ok(()) };
        let program = self.manager.provider.answer(&self.manager.system, &task.item.key, answers);
        let Some(mut program) = program else { return Ok(()) };
        self.manager.fetch(&mut program, output).map_err(|problem| {
            // The output may contain the answers.
            let lines = if answers.sensitive { Vec::new() } else { problem.lines };
            PackageError { lines, ..problem }
        })
    }

    /// Records which packages are installed and removed along with tasks.
    fn note_others(&mut self, tasks: &[&Task], comes: &[String], goes: Vec<Item>) {
        for task in tasks {
            self.brought.insert(task.request, comes.to_vec());
        }
        for item in goes {
            let task = tasks.iter().find(|task| task.brought.contains(&item.key.name));
            let Some(task) = task.or(tasks.first()) else { continue };
            self.companions.entry(task.request).or_default().push(item);
        }
    }

    /// Returns the packages that were installed along with the package of a task.
    pub(super) fn brought(&self, task: &Task) -> Vec<String> {
        let has = |installed: &Installed, name: &str| installed.packages.contains_key(name);
        let is_new = |name: &&String| {
            has(&self.installed, name) && !has(&self.before, name) && !self.names.wanted.contains(*name)
        };
        self.brought.get(&task.request).into_iter().flatten().filter(is_new).cloned().collect()
    }

    /// Fails tasks, and all later ones, for a reason that does not depend on any single task.
    fn stop(&mut self, tasks: &[&Task], problem: PackageError) {
        for (number, task) in tasks.iter().enumerate() {
            let problem = if number == 0 { problem.clone() } else { problem.for_others() };
            self.refusals.insert(task.request, SimulationError::Failed(problem));
        }
        self.stopped = Some(problem);
    }

    /// Returns true if no further tasks are attempted, in which case these tasks have failed.
    fn has_stopped(&mut self, tasks: &[&Task]) -> bool {
        let Some(problem) = &self.stopped else { return false };
        for task in tasks {
            self.refusals.entry(task.request).or_insert_with(|| SimulationError::Failed(problem.for_others()));
        }
        true
    }

    fn mark(&mut self, mark: Mark, tasks: &[&Task], output: &mut Output<'_>) {
        if tasks.is_empty() || self.has_stopped(tasks) {
            return;
        }
        let items: Vec<Item> = tasks.iter().map(|task| self.item_now(task)).collect();
        if let Err(problem) = self.give(mark, &items, output) {
            if problem.is_general {
                return self.stop(tasks, problem);
            }
            self.refusals.extend(tasks.iter().map(|task| (task.request, SimulationError::Failed(problem.clone()))));
        }
    }

    /// Marks packages.
    fn give(&mut self, mark: Mark, items: &[Item], output: &mut Output<'_>) -> Result<(), PackageError> {
        let mut program = self.manager.provider.mark(&self.manager.system, mark, items)?;
        self.manager.transact(&mut program, output)?;
        self.manager.system.mock.as_mut().map_or(Ok(()), |mock| mock.mark(mark, items))
    }

    /// Returns the package with its installed version.
    fn item_now(&self, task: &Task) -> Item {
        let instances = self.installed.instances(&task.item.key);
        let version = newest(&instances, self.manager.provider).map(str::to_owned);
        Item { version, ..task.item.clone() }
    }

    /// Returns the packages that are installed now.
    pub(super) fn installed(&self) -> &Installed {
        &self.installed
    }

    fn look_again(&mut self) {
        match self.manager.installed() {
            Ok(installed) => self.installed = installed,
            Err(problem) => self.lost = Some(problem),
        }
    }
}

impl Executor<'_> {
    /// Returns the result of a task.
    pub(in crate::transaction) fn outcome(&self, task: &Task, output: &mut Output<'_>) -> Applied {
        match (self.refusals.get(&task.request), &self.lost) {
            (Some(SimulationError::NeedsForce(reason)), _) => {
                return Applied::NeedsForce(ForceTo::Proceed(reason.clone()));
            }
            (Some(SimulationError::Needed(by)), None) => {
                return Applied::Changed(vec![Action::leave(&task.item.key.to_string(), by).done()]);
            }
            (Some(SimulationError::Failed(problem)), _) | (_, Some(problem)) => {
                problem.tell(output);
                return self.failed();
            }
            (None, None) => {}
        }
        let need = self.need(task);
        if let Some(difference) = self.difference(task, &need) {
            output.error(difference);
            return self.failed();
        }
        Applied::Changed(self.done(task).iter().map(Action::done).collect())
    }

    /// Returns the result of a failed task. Maintainer scripts that fail on each apply may run each time, but leave everything as before.
    fn failed(&self) -> Applied {
        let before = self.before_repair.as_ref().unwrap_or(&self.before);
        failed(self.lost.is_none() && *before == self.installed)
    }

    /// Returns the completed actions of a task, with the versions that were really installed.
    fn done(&self, task: &Task) -> Vec<Action> {
        let key = &task.item.key;
        let name = key.to_string();
        let provider = self.manager.provider;
        let main = match task.kind {
            None => None,
            Some(Kind::Install) => installation(&self.before, &self.installed, key, provider),
            Some(kind) => Some(Action::remove(&name, newest(&self.before.present(key), provider), kind == Kind::Purge)),
        };
        let displaced = self
            .displaced
            .iter()
            .filter(|(key, (by, _))| *by == task.request && self.installed.present(key).is_empty());
        let displaced = displaced.map(|(key, (_, step))| {
            let package = with_version(&key.to_string(), step.from.as_deref());
            Action::displace(&package, &name, task.kind == Some(Kind::Install))
        });
        let companions = self.companions.get(&task.request).into_iter().flatten();
        let companions = companions
            .filter(|item| self.installed.present(&item.key).is_empty())
            .map(|item| Action::remove(&item.key.to_string(), item.version.as_deref(), task.kind == Some(Kind::Purge)));
        let marks = task.marks.iter().map(|&mark| Action::mark(&name, mark));
        main.into_iter().chain(displaced).chain(companions).chain(marks).collect()
    }

    /// Describes a remaining difference although the task did not fail.
    fn difference(&self, task: &Task, need: &Need) -> Option<String> {
        let (manager, key) = (self.manager.provider.name(), &task.item.key);
        let instances = self.installed.instances(key);
        let state = match newest(&instances, self.manager.provider) {
            Some(_) if instances.iter().all(|instance| instance.status == Status::Leftovers) => {
                "not installed".to_owned()
            }
            Some(_) if !instances.iter().any(|instance| instance.is_complete()) => "only half installed".to_owned(),
            Some(version) => format!("installed as {version}"),
            None => "not installed".to_owned(),
        };
        match (&need.main, need.marks.first()) {
            (Some(Main::Install), _) => Some(format!("{manager} reports success, but {key} is {state}")),
            (Some(Main::Version(asked)), _) => {
                Some(format!("{manager} reports success, but {key} is {state}, not as {asked}"))
            }
            (Some(Main::Gone(_)), _) => Some(format!("{manager} reports success, but {key} is still there, {state}")),
            (None, Some(mark)) => {
                let action = Action::mark(&key.to_string(), *mark).done();
                Some(format!("{manager} reports success, but has not {action}"))
            }
            (None, None) => None,
        }
    }
}

/// Describes the version of a package that was completely installed in the meantime.
pub(in crate::transaction) fn installation(
    before: &Installed,
    now: &Installed,
    key: &Key,
    provider: &dyn PackageProvider,
) -> Option<Action> {
    let (name, before) = (key.to_string(), before.present(key));
    let was_complete =
        |version: &str| before.iter().any(|instance| instance.is_complete() && instance.version == version);
    let is_new = |instance: &&Instance| instance.is_complete() && !was_complete(&instance.version);
    let come: Vec<&Instance> = now.present(key).into_iter().filter(is_new).collect();
    let to = newest(&come, provider)?;
    Some(match newest(&before, provider) {
        Some(from) if from == to => Action::complete(&name, to),
        Some(from) => Action::replace(&name, from, to, provider.compare(to, from).is_lt()),
        None => Action::install(&name, Some(to)),
    })
}
