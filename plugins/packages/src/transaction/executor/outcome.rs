//! The results of tasks, determined from the installed packages.

use super::super::failed;
use super::Executor;
use crate::action::Action;
use crate::model::{Installed, Instance, Key, Kind, Status};
use crate::need::{Main, Need, newest};
use crate::provider::PackageProvider;
use crate::resolve::Task;
use crate::simulate::SimulationError;
use holo_plugin::{Applied, ForceTo, Output};

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
        let companions = self.companions.get(&task.request).into_iter().flatten();
        let companions = companions
            .filter(|item| self.installed.present(&item.key).is_empty())
            .map(|item| Action::remove(&item.key.to_string(), item.version.as_deref(), task.kind == Some(Kind::Purge)));
        let marks = task.marks.iter().map(|&mark| Action::mark(&name, mark));
        main.into_iter().chain(companions).chain(marks).collect()
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
