//! Simulates a transaction before it is carried out, and determines which tasks are to blame if it is refused.

use crate::action::with_version;
use crate::manager::Manager;
use crate::model::{Installed, Instance, Item, Key, Kind, Mark, PackageError, Step, Transaction};
use crate::providers::Repair;
use crate::resolve::{Completion, Task};
use crate::wanted::newest;
use std::collections::{BTreeMap, BTreeSet};

/// Why a task is left out of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum SimulationError {
    /// It would remove or downgrade undeclared packages, as described.
    NeedsForce(String),
    /// An orphan must stay, because these declared packages need it.
    Needed(String),
    /// The package manager refuses it.
    Failed(PackageError),
}

impl From<PackageError> for SimulationError {
    fn from(problem: PackageError) -> SimulationError {
        SimulationError::Failed(problem)
    }
}

/// The tasks that can be done together, and the refused ones.
#[derive(Debug, Default)]
pub(crate) struct Admission<'t> {
    pub(crate) accepted: Vec<&'t Task>,
    /// The effects on packages that are not among the tasks.
    pub(crate) others: Vec<Step>,
    /// The names of packages that must not come along.
    pub(crate) without: Vec<String>,
    pub(crate) refused: Vec<(&'t Task, SimulationError)>,
}

impl Admission<'_> {
    /// Returns true if other packages are removed.
    pub(crate) fn removes(&self) -> bool {
        self.others.iter().any(|step| step.to.is_none())
    }

    /// Returns the names of packages that are installed along.
    pub(crate) fn comes(&self) -> Vec<String> {
        let comes = self.others.iter().filter(|step| step.from.is_none() && step.to.is_some());
        comes.map(|step| step.name.clone()).collect()
    }
}

/// The order of transactions. Installations come first, so that replacements are in place before packages are removed.
pub(crate) const ORDER: [Kind; 3] = [Kind::Install, Kind::Remove, Kind::Purge];

/// The names of all declared packages of a manager.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Packages that must be installed.
    pub(crate) wanted: BTreeSet<String>,
    /// Packages that must not be installed.
    pub(crate) unwanted: BTreeSet<String>,
    /// The packages with definitions, and whether these want them installed. Orphans have none.
    pub(crate) defined: BTreeMap<Key, bool>,
}

/// The effects of tasks on packages that are not their own.
pub(crate) struct Effects {
    pub(crate) steps: Vec<Step>,
    /// The names of packages that must not come along.
    without: Vec<String>,
}

/// Simulates transactions.
pub(crate) struct Simulator<'a> {
    pub(crate) manager: &'a Manager<'a>,
    pub(crate) installed: &'a Installed,
    /// The names of all declared packages, including those that are not part of the transaction.
    pub(crate) names: &'a Names,
    pub(crate) given: Given<'a>,
}

/// Tasks that are taken as done, and their effects on other packages.
#[derive(Default)]
pub(crate) struct Given<'t> {
    tasks: Vec<&'t Task>,
    others: Vec<Step>,
}

impl<'t> Given<'t> {
    /// Takes tasks that can be done together as done.
    pub(crate) fn add(&mut self, admission: Admission<'t>) {
        self.tasks.extend(admission.accepted);
        self.others.extend(admission.others);
    }

    /// Returns true if a task's package was removed by another task.
    pub(crate) fn has_removed(&self, task: &Task) -> bool {
        let is_own = |step: &&Step| step.name == task.item.key.name && step.to.is_none();
        task.kind != Some(Kind::Install) && self.others.iter().any(|step| is_own(&step))
    }
}

/// Returns the transaction for tasks of one kind.
pub(crate) fn transaction(kind: Kind, tasks: &[&Task], may_remove: bool) -> Transaction {
    let items: Vec<Item> = tasks.iter().map(|task| task.item.clone()).collect();
    Transaction {
        kind,
        items,
        may_downgrade: tasks.iter().any(|task| task.is_downgrade),
        changes_held: tasks.iter().any(|task| task.is_held),
        reinstalls: tasks.iter().any(|task| task.completion == Some(Completion::Reinstall)),
        may_remove,
        recommends: tasks.iter().find_map(|task| task.recommends),
        cleans: false,
        given: Vec::new(),
        without: Vec::new(),
    }
}

/// Groups tasks that can share a transaction. Tasks with different settings for recommended packages are separated, and a reinstallation
/// applies only to packages that need it.
pub(crate) fn parts<'t>(tasks: &[&'t Task]) -> Vec<Vec<&'t Task>> {
    let mut parts: BTreeMap<(bool, Option<bool>), Vec<&Task>> = BTreeMap::new();
    for task in tasks {
        let reinstalls = task.completion == Some(Completion::Reinstall);
        parts.entry((reinstalls, task.recommends)).or_default().push(task);
    }
    parts.into_values().collect()
}

impl Simulator<'_> {
    /// Determines which tasks of a kind can be done together. In case of a conflict, earlier tasks are preferred.
    pub(crate) fn admit<'t>(&self, kind: Kind, tasks: &[&'t Task]) -> Admission<'t> {
        let mut admission = Admission::default();
        if !tasks.is_empty() {
            self.extend(&mut admission, kind, tasks);
        }
        admission
    }

    fn extend<'t>(&self, admission: &mut Admission<'t>, kind: Kind, tasks: &[&'t Task]) {
        let all: Vec<&Task> = admission.accepted.iter().chain(tasks).copied().collect();
        match (self.judge(kind, &all, tasks), tasks) {
            (Ok(Effects { steps, without }), _) => {
                *admission = Admission { accepted: all, others: steps, without, ..std::mem::take(admission) };
            }
            (Err(refusal), [task]) => {
                let refusal = self.explained(kind, &admission.accepted, task, refusal);
                admission.refused.push((task, refusal));
            }
            (Err(_), _) => {
                let (first, second) = tasks.split_at(tasks.len() / 2);
                self.extend(admission, kind, first);
                self.extend(admission, kind, second);
            }
        }
    }

    /// Checks that tasks can be done together, and returns the effects on other packages. If they cannot, the latest ones are to blame.
    fn judge(&self, kind: Kind, tasks: &[&Task], latest: &[&Task]) -> Result<Effects, SimulationError> {
        let effects = self.effects(kind, tasks)?;
        let needed_by: Vec<&str> = effects
            .steps
            .iter()
            .filter(|step| step.to.is_none() && self.names.wanted.contains(&step.name))
            .map(|step| step.name.as_str())
            .collect();
        if !needed_by.is_empty() && kind != Kind::Install && latest.iter().all(|task| task.is_orphan) {
            return Err(SimulationError::Needed(needed_by.join(", ")));
        }
        let names: Vec<String> = latest.iter().map(|task| task.item.key.to_string()).collect();
        let verb = if kind == Kind::Install { "installing" } else { "removing" };
        let what = format!("{verb} {}", names.join(", "));
        self.allow(&what, &effects.steps, tasks.iter().all(|task| task.force))?;
        Ok(effects)
    }

    /// Checks that what happens to other packages is allowed. Nothing justifies a contradiction of a definition, as the next apply would undo
    /// it.
    pub(crate) fn allow(&self, what: &str, others: &[Step], force: bool) -> Result<(), SimulationError> {
        if let Some(contradiction) = others.iter().find_map(|step| self.contradiction(step)) {
            return Err(SimulationError::Failed(PackageError::new(format!("{what} would {contradiction}"))));
        }
        let losses: Vec<String> = others.iter().filter_map(|step| self.loss(step)).collect();
        if losses.is_empty() || force {
            return Ok(());
        }
        Err(SimulationError::NeedsForce(format!("{what} would {}", losses.join(" and "))))
    }

    /// Checks that a repair of the package manager is allowed.
    pub(crate) fn allow_repair(&self, repair: &Repair, force: bool) -> Result<(), SimulationError> {
        self.allow(&format!("{}, which is needed first,", repair.command), &repair.steps, force)
    }

    /// Names the other task because of which the package manager refuses this one, if it is one.
    fn explained(&self, kind: Kind, accepted: &[&Task], task: &Task, refusal: SimulationError) -> SimulationError {
        let problem = match refusal {
            SimulationError::Failed(problem) if !problem.is_general => problem,
            refusal => return refusal,
        };
        let others: Vec<&Task> = self.given.tasks.iter().chain(accepted).copied().collect();
        let fails_after = |count: usize| {
            let given = Given { tasks: others.iter().take(count).copied().collect(), others: Vec::new() };
            let Simulator { manager, installed, names, .. } = *self;
            Simulator { manager, installed, names, given }.judge(kind, &[task], &[task]).is_err()
        };
        let (mut fine, mut fatal) = (0, others.len());
        if others.is_empty() || fails_after(fine) || !fails_after(fatal) {
            return SimulationError::Failed(problem);
        }
        while fatal - fine > 1 {
            let middle = fine.midpoint(fatal);
            if fails_after(middle) { fatal = middle } else { fine = middle }
        }
        let Some(other) = others.get(fine) else { return SimulationError::Failed(problem) };
        let (name, other, kinds) = (&task.item.key, &other.item.key, (kind, other.kind));
        let why = match kinds {
            (Kind::Install, Some(Kind::Install)) => format!("{name} cannot be installed together with {other}"),
            (Kind::Install, _) => format!("{name} cannot be installed, as {other} is to be removed"),
            (_, Some(Kind::Install)) => format!("{name} cannot be removed, as {other} is to be installed"),
            _ => format!("{name} cannot be removed together with {other}"),
        };
        SimulationError::Failed(PackageError { summary: format!("{why}: {}", problem.summary), ..problem })
    }

    /// Returns the undeclared packages that are removed, each with the task that causes it.
    pub(crate) fn removals<'t>(&self, kind: Kind, admission: &Admission<'t>) -> Vec<(&'t Task, Step)> {
        let accepted = &admission.accepted;
        let causes = |task: &Task, gone: &Step| {
            let is_gone = |step: &Step| step.to.is_none() && step.key() == gone.key();
            self.effects(kind, &[task]).is_ok_and(|effects| effects.steps.iter().any(is_gone))
        };
        let cause = |step: &Step| match accepted[..] {
            [task] => Some(task),
            _ => accepted.iter().copied().find(|task| causes(task, step)).or(accepted.first().copied()),
        };
        let removed = admission.others.iter().filter(|step| step.to.is_none() && self.loss(step).is_some());
        removed.filter_map(|step| Some((cause(step)?, step.clone()))).collect()
    }

    /// Returns the packages that were installed along with the packages of these tasks, and are not needed after their removal.
    pub(crate) fn companions(&self, kind: Kind, tasks: &[&Task]) -> Vec<Item> {
        let provider = self.manager.provider;
        let is_free = |name: &&String| {
            let instances = || self.installed.packages.get(*name).into_iter().flatten();
            let is_automatic = !provider.marks().contains(&Mark::Automatic) || instances().any(|one| one.automatic);
            let is_declared = self.names.wanted.contains(*name) || self.names.unwanted.contains(*name);
            is_automatic && !is_declared && !self.installed.is_held(name)
        };
        let brought: BTreeSet<&String> = tasks.iter().flat_map(|task| &task.brought).filter(is_free).collect();
        if kind == Kind::Install || brought.is_empty() || self.manager.system.mock.is_some() {
            return Vec::new();
        }
        let transaction = Transaction { cleans: true, ..transaction(kind, tasks, true) };
        // If the simulation fails, they are kept.
        let steps = provider.simulate(&self.manager.system, &transaction).unwrap_or_default();
        let going = steps.into_iter().filter(|step| step.to.is_none() && brought.contains(&step.name));
        let item = |step: Step| {
            let version = step.from.or_else(|| self.version(&step.name));
            Item { key: Key { name: step.name, arch: None }, version, exactly: false, file: None }
        };
        going.map(item).collect()
    }

    /// Returns the effects of these tasks on packages that are not their own. What is declared absent is left out if it is only recommended,
    /// or one of several alternatives.
    pub(crate) fn effects(&self, kind: Kind, tasks: &[&Task]) -> Result<Effects, SimulationError> {
        let steps = self.others(kind, tasks, &[])?;
        let unwanted = steps.iter().filter(|step| step.to.is_some() && self.contradiction(step).is_some());
        let without: Vec<String> = unwanted.map(|step| step.key().to_string()).collect();
        if !without.is_empty()
            && let Ok(steps) = self.others(kind, tasks, &without)
        {
            return Ok(Effects { steps, without });
        }
        Ok(Effects { steps, without: Vec::new() })
    }

    fn others(&self, kind: Kind, tasks: &[&Task], without: &[String]) -> Result<Vec<Step>, SimulationError> {
        if self.manager.system.mock.is_some() {
            return Ok(Vec::new());
        }
        let given = &self.given;
        let given_items = given.tasks.iter().filter_map(|task| Some((task.kind?, task.item.clone())));
        let mut transaction = Transaction { given: given_items.collect(), ..transaction(kind, tasks, true) };
        transaction.without = without.to_vec();
        transaction.may_downgrade |= given.tasks.iter().any(|task| task.is_downgrade);
        transaction.changes_held |= given.tasks.iter().any(|task| task.is_held);
        let mut steps =
            self.manager.provider.simulate(&self.manager.system, &transaction).map_err(SimulationError::Failed)?;
        steps.iter_mut().filter(|step| step.from.is_none()).for_each(|step| step.from = self.version(&step.name));
        // A package that is to be installed must not be removed in the end. However, old kernels are removed when new ones are installed.
        let coming: BTreeSet<String> =
            steps.iter().filter(|step| step.to.is_some()).map(|step| step.name.clone()).collect();
        // apk always removes packages that are no longer needed.
        let came_along = |task: &Task, name: &String| kind != Kind::Install && task.brought.contains(name);
        let is_own = |step: &Step| {
            let happens = |task: &Task| task.kind != Some(Kind::Install) || coming.contains(&step.name);
            let is_task =
                |task: &&Task| task.item.key.name == step.name && happens(task) || came_along(task, &step.name);
            tasks.iter().chain(&given.tasks).any(is_task)
        };
        steps.retain(|step| !is_own(step) && !given.others.contains(step));
        Ok(steps)
    }

    /// Returns the installed version of a package.
    fn version(&self, name: &str) -> Option<String> {
        let instances: Vec<&Instance> = self.installed.packages.get(name)?.iter().collect();
        newest(&instances, self.manager.provider).map(str::to_owned)
    }

    /// Returns a description of what a step does against the definition of its package, if anything.
    fn contradiction(&self, step: &Step) -> Option<String> {
        let native = self.installed.native.as_deref();
        let is_it = |key: &Key| {
            key.name == step.name && (native.is_none() || key.full_name(native) == step.key().full_name(native))
        };
        let mut wishes = self.names.defined.iter().filter(|(key, _)| is_it(key)).map(|(_, is_wanted)| *is_wanted);
        match (&step.from, &step.to) {
            (from, None) if wishes.any(|is_wanted| is_wanted) => {
                let name = step.key().to_string();
                Some(format!("remove {}, which is declared present", with_version(&name, from.as_deref())))
            }
            (None, Some(_)) if wishes.any(|is_wanted| !is_wanted) => {
                Some(format!("install {}, which is declared absent", step.key()))
            }
            _ => None,
        }
    }

    /// Returns a description of the undeclared loss that a step causes, if any.
    fn loss(&self, step: &Step) -> Option<String> {
        let name = &step.name;
        let is_held = self.installed.is_held(name);
        let instances = self.installed.packages.get(name).map_or(&[][..], Vec::as_slice);
        let is_going = !instances.is_empty() && !instances.iter().any(Instance::is_there);
        match (&step.from, &step.to) {
            (from, None) if !self.names.unwanted.contains(name) && !is_going => {
                Some(format!("remove {}", with_version(name, from.as_deref())))
            }
            (Some(from), Some(to)) if self.manager.provider.compare(to, from).is_lt() => {
                Some(format!("downgrade {name} {from} to {to}"))
            }
            (Some(from), Some(_)) if is_held => Some(format!("change {name}, which is held at {from}")),
            _ => None,
        }
    }
}
