//! Does what has to be done, and finds out afterwards whether it was done.

mod outcome;

pub(super) use outcome::installation;

use crate::error::PackageError;
use crate::manager::Manager;
use crate::model::{Installed, Item, Kind, Mark};
use crate::need::{Need, newest};
use crate::query::Requests;
use crate::resolve::{Completion, RequestIndex, Task};
use crate::simulate::{Given, Names, ORDER, SimulationError, Simulator, parts, transaction};
use holo_plugin::Output;
use std::collections::BTreeMap;

/// Does tasks with one package manager.
pub(super) struct Executor<'a> {
    manager: Manager<'a>,
    requests: &'a Requests<'a>,
    /// The names of all packages that are declared.
    names: Names,
    /// The installed packages before the first task.
    before: Installed,
    /// The installed packages before a repair, if anything was repaired.
    before_repair: Option<Installed>,
    /// The packages that are installed now.
    installed: Installed,
    /// The names of packages that were to come along with each task.
    brought: BTreeMap<RequestIndex, Vec<String>>,
    /// The packages that were to go with a task, as nobody needs them any more.
    companions: BTreeMap<RequestIndex, Vec<Item>>,
    /// The reasons why tasks were not done, by the index of the request.
    refusals: BTreeMap<RequestIndex, SimulationError>,
    /// That it is not known what there is now.
    lost: Option<PackageError>,
    /// The reason why nothing more is tried, as it would not work either.
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
            refusals: BTreeMap::new(),
            lost: None,
            stopped: None,
        }
    }

    /// Does all tasks.
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
        // Packages that could not be installed may have been kept out by some that have gone since.
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
        self.put_holds_back(tasks, output);
    }

    /// Puts back the holds that were in the way of tasks that have failed nevertheless.
    fn put_holds_back(&mut self, tasks: &[Task], output: &mut Output<'_>) {
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
            output.warning(format!("{} is not held any more: {}", names.join(", "), problem.summary));
        }
        self.look_again();
    }

    /// Returns true if a hold is in the way of the task.
    fn goes_first(&self, task: &Task) -> bool {
        task.is_held
            && task.kind.is_some()
            && (self.manager.provider.releases_first() || task.marks.contains(&Mark::Released))
    }

    /// Gives all packages the marks that they lack now.
    fn mark_all(&mut self, tasks: &[Task], output: &mut Output<'_>) {
        let mut lacking: BTreeMap<Mark, Vec<&Task>> = BTreeMap::new();
        for task in tasks {
            match self.refusals.get(&task.request) {
                None => {}
                // From now on it is there for those that need it.
                Some(SimulationError::Needed(_)) if self.manager.provider.marks().contains(&Mark::Automatic) => {
                    lacking.entry(Mark::Automatic).or_default().push(task);
                    continue;
                }
                Some(_) => continue,
            }
            let mut marks = self.need(task).marks;
            let wanted = self.requests[task.request].wanted;
            // A hold that is not ours is put back.
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

    /// Returns the actions that a package still needs.
    fn need(&self, task: &Task) -> Need {
        let wanted = self.requests[task.request].wanted;
        let candidate = task.item.version.as_deref();
        Need::new(wanted, &self.installed.instances(&wanted.key), candidate, self.manager.provider)
    }

    /// Does tasks of a kind together; if that does not work, in ever smaller parts, so that only those fail that are to blame.
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
        let refused = admission.refused.into_iter().map(|(task, refusal)| (task.request, refusal));
        self.refusals.extend(refused);
        let accepted = admission.accepted;
        if accepted.is_empty() {
            return;
        }
        let companions = simulator.companions(kind, &accepted);
        let mut transaction = transaction(kind, &accepted, removes);
        transaction.items.extend(companions.iter().cloned());
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
        // Tasks that were done before it failed are done.
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

    /// Returns true if a task's package has gone already with others that were in the way of something.
    fn has_gone(&self, task: &Task) -> bool {
        task.kind != Some(Kind::Install) && self.need(task).main.is_none()
    }

    /// Keeps the answers to what a package is going to ask.
    fn answer(&self, task: &Task, output: &mut Output<'_>) -> Result<(), PackageError> {
        let Some(answers) = task.answers.as_ref().filter(|_| task.kind == Some(Kind::Install)) else { return Ok(()) };
        let program = self.manager.provider.answer(&self.manager.system, &task.item.key, answers);
        let Some(mut program) = program else { return Ok(()) };
        self.manager.fetch(&mut program, output).map_err(|problem| {
            // It may say what the answers are.
            let lines = if answers.sensitive { Vec::new() } else { problem.lines };
            PackageError { lines, ..problem }
        })
    }

    /// Notes which packages come and go with tasks.
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

    /// Returns the packages that have come along with a task's one.
    pub(super) fn brought(&self, task: &Task) -> Vec<String> {
        let has = |installed: &Installed, name: &str| installed.packages.contains_key(name);
        let is_new = |name: &&String| {
            has(&self.installed, name) && !has(&self.before, name) && !self.names.wanted.contains(*name)
        };
        self.brought.get(&task.request).into_iter().flatten().filter(is_new).cloned().collect()
    }

    /// Fails tasks for a reason that is none of them alone, and all that come later.
    fn stop(&mut self, tasks: &[&Task], problem: PackageError) {
        for (number, task) in tasks.iter().enumerate() {
            let problem = if number == 0 { problem.clone() } else { problem.for_others() };
            self.refusals.insert(task.request, SimulationError::Failed(problem));
        }
        self.stopped = Some(problem);
    }

    /// Returns true if nothing more is tried. Then these tasks have failed.
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

    /// Gives packages a mark.
    fn give(&mut self, mark: Mark, items: &[Item], output: &mut Output<'_>) -> Result<(), PackageError> {
        let mut program = self.manager.provider.mark(&self.manager.system, mark, items)?;
        self.manager.transact(&mut program, output)?;
        self.manager.system.mock.as_mut().map_or(Ok(()), |mock| mock.mark(mark, items))
    }

    /// The package in the version that is there.
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
