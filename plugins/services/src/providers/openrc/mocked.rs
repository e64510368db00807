//! A root for tests: commands are printed, and treated as done.

use super::runlevels::{DEFAULT, Runlevels};
use super::{SCRIPTS, live};
use crate::plan::Step;
use crate::provider::{Done, Manager, ManagerError, PID_IN_TEST_MODE, Subject, Task};
use crate::scope::Scope;
use crate::state::{Enablement, Load, Phase, UnitState};
use crate::unit::UnitName;
use holo_plugin::system::Root;
use std::path::Path;
use std::time::Duration;

pub(super) struct Mocked {
    pub(super) root: Root,
}

impl Manager for Mocked {
    fn states(&self, subjects: &[Subject<'_>]) -> Result<Vec<Result<UnitState, ManagerError>>, ManagerError> {
        let levels = Runlevels::read(&self.root);
        let state = |subject: &Subject<'_>| {
            let (mock, runlevels) = (&subject.record.mock, levels.of(subject.unit.as_str()));
            let is_enabled = mock.enabled.unwrap_or(!runlevels.is_empty());
            Ok(UnitState {
                phase: Some(if mock.runs == Some(true) { Phase::Up } else { Phase::Down }),
                // The command that would install it may only have been printed.
                load: Load::Loaded,
                enablement: if is_enabled { Enablement::Enabled } else { Enablement::Disabled },
                runlevels,
                can_reload: true,
                is_imagined: mock.enabled.is_some() || !self.root.has(Path::new(SCRIPTS).join(subject.unit.as_str())),
                ..UnitState::default()
            })
        };
        Ok(subjects.iter().map(state).collect())
    }

    fn read_files(&self, _: &Scope) -> Result<(), ManagerError> {
        Ok(())
    }

    fn act(&self, step: Step, tasks: &[Task<'_>], _: Option<Duration>) -> Vec<Done> {
        let mocked = |task: &Task<'_>| {
            let command = match step {
                Step::Enable => {
                    let levels = task.wanted.runlevels.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
                    format!("rc-update add {} {}", task.unit, if levels.is_empty() { DEFAULT } else { &levels })
                }
                Step::Disable => format!("rc-update --all del {}", task.unit),
                _ => format!("rc-service {} {}", task.unit, live::verb(step)),
            };
            Done::Mocked(command)
        };
        tasks.iter().map(mocked).collect()
    }

    fn last_words(&self, _: &UnitName) -> Vec<String> {
        Vec::new()
    }

    fn main_pid(&self, _: &UnitName) -> Option<u32> {
        Some(PID_IN_TEST_MODE)
    }

    fn boot(&self) -> Option<String> {
        None
    }
}
