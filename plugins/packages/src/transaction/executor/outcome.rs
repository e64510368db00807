//! The ends of tasks, by what there is afterwards.

use super::super::failed;
use super::Executor;
use crate::action::Action;
use crate::model::{Installed, Instance, Key, Kind, Status};
use crate::need::{Main, Need, newest};
use crate::resolve::Task;
use crate::simulate::SimulationError;
use holo_plugin::{Applied, ForceTo, Output};

impl Executor<'_> {
    /// Returns how a task ended.
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

    /// Returns how a task failed. Scripts of packages that fail at every apply may run each time, but leave everything as it was.
    fn failed(&self) -> Applied {
        let before = self.before_repair.as_ref().unwrap_or(&self.before);
        failed(self.lost.is_none() && *before == self.installed)
    }

    /// Returns the actions that were done for a task, with the versions that were installed, which need not be the planned ones.
    fn done(&self, task: &Task) -> Vec<Action> {
        let key = &task.item.key;
        let name = key.to_string();
        let (before, now) = (present(&self.before, key), present(&self.installed, key));
        let from = newest(&before, self.manager.provider);
        let come: Vec<&Instance> =
            now.into_iter().filter(|instance| before.iter().all(|before| before.version != instance.version)).collect();
        let main = match task.kind {
            None => None,
            Some(Kind::Install) => newest(&come, self.manager.provider).map(|to| match from {
                Some(from) => Action::replace(&name, from, to, self.manager.provider.compare(to, from).is_lt()),
                None => Action::install(&name, Some(to)),
            }),
            Some(kind) => Some(Action::remove(&name, from, kind == Kind::Purge)),
        };
        let companions = self.companions.get(&task.request).into_iter().flatten();
        let companions = companions
            .filter(|item| present(&self.installed, &item.key).is_empty())
            .map(|item| Action::remove(&item.key.to_string(), item.version.as_deref(), task.kind == Some(Kind::Purge)));
        let marks = task.marks.iter().map(|&mark| Action::mark(&name, mark));
        main.into_iter().chain(companions).chain(marks).collect()
    }

    /// Returns the words for a difference that is left although nothing has failed.
    fn difference(&self, task: &Task, need: &Need) -> Option<String> {
        let (manager, key) = (self.manager.provider.name(), &task.item.key);
        let instances = self.installed.instances(key);
        let state = match newest(&instances, self.manager.provider) {
            Some(_) if instances.iter().all(|instance| instance.status == Status::Broken) => {
                "only half installed".to_owned()
            }
            Some(_) if instances.iter().all(|instance| instance.status == Status::Leftovers) => {
                "not installed".to_owned()
            }
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

/// The instances of a package that are installed completely.
fn present<'i>(installed: &'i Installed, key: &Key) -> Vec<&'i Instance> {
    let instances = installed.instances(key).into_iter();
    instances.filter(|instance| instance.status == Status::Installed).collect()
}
