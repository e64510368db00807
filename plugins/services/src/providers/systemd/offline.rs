//! A root without a running systemd: only files can be changed.

use super::files;
use super::tool::{self, Tool, arguments};
use super::words::{self, UnitFileState};
use crate::plan::Step;
use crate::providers::{Done, Manager, ManagerError, PID_IN_TEST_MODE, Subject, Task};
use crate::state::{Enablement, Load, Phase, UnitState};
use crate::unit::{Scope, UnitName};
use holo_plugin::process::ProgramError;
use holo_plugin::system::Root;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) struct Offline {
    root: PathBuf,
    /// `None` if systemctl cannot be called for these units.
    tool: Option<Tool>,
    /// True if commands that cannot be run are printed and treated as done. Otherwise they are errors.
    mocks: bool,
}

impl Offline {
    /// Returns a manager for the units of the system.
    pub(super) fn of_system(root: &Path, mocks: bool) -> Offline {
        Offline::new(root, Tool::on_root, mocks)
    }

    /// Returns a manager for enabling and masking units for all users.
    pub(super) fn of_all_users(root: &Path, mocks: bool) -> Offline {
        Offline::new(root, Tool::of_all_users, mocks)
    }

    /// Returns a manager for the units of a user whose own manager does not run.
    pub(super) fn of_user(tool: Tool) -> Offline {
        Offline { root: PathBuf::from("/"), tool: Some(tool), mocks: false }
    }

    /// Returns a manager for the units of a user below a root, where users are unknown.
    pub(super) fn of_unknown_user(root: &Path) -> Offline {
        Offline { root: root.to_owned(), tool: None, mocks: true }
    }

    fn new(root: &Path, tool: impl Fn(&Path) -> Tool, mocks: bool) -> Offline {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        Offline { tool: Some(tool(&root)), root, mocks }
    }

    /// Returns the enablement of all units with a file; `None` if systemctl is missing.
    fn files(&self) -> Result<Option<HashMap<String, Enablement>>, ManagerError> {
        let Some(tool) = &self.tool else { return Ok(None) };
        let captured = match tool.systemctl(&["list-unit-files", "--full", "--no-legend"], &[]).output() {
            Ok(captured) => captured,
            Err(ProgramError::NotFound(_)) if self.mocks => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Without any units, it prints no message and exits with 1.
        let is_empty = captured.stdout.is_empty() && captured.stderr.is_empty() && captured.ended.code() == Some(1);
        let text = if is_empty { String::new() } else { tool::said(&captured)? };
        let mut files = HashMap::new();
        for (name, state) in UnitFileState::parse_list(&text) {
            files.insert(name.to_owned(), state?.meaning);
        }
        Ok(Some(files))
    }

    /// Returns the enablement of an instance, which lists do not contain.
    fn instance(&self, unit: &UnitName) -> Result<Enablement, ManagerError> {
        let Some(tool) = &self.tool else { return Ok(Enablement::None) };
        let captured = tool.systemctl(&["is-enabled"], &[unit]).output()?;
        let text = String::from_utf8_lossy(&captured.stdout).trim().to_owned();
        if text.is_empty() {
            let said = String::from_utf8_lossy(&captured.stderr).trim().to_owned();
            return Err(ManagerError::Failed(format!("cannot tell whether {unit} is enabled: {said}")));
        }
        UnitFileState::parse(&text).map(|state| state.meaning)
    }

    fn state(
        &self,
        subject: &Subject<'_>,
        files: Option<&HashMap<String, Enablement>>,
    ) -> Result<UnitState, ManagerError> {
        let (unit, mock) = (subject.unit, &subject.record.mock);
        let mut state = UnitState { can_reload: true, ..UnitState::default() };
        if self.mocks {
            state.phase = Some(if mock.runs == Some(true) { Phase::Up } else { Phase::Down });
        }
        let has_template = |files: &HashMap<String, Enablement>| {
            words::template(unit).is_some_and(|template| files.contains_key(&template))
        };
        let known = match files {
            Some(files) => match files.get(unit.as_str()) {
                Some(enablement) => Some(*enablement),
                None if has_template(files) => Some(self.instance(unit)?),
                None => None,
            },
            None => None,
        };
        match known {
            Some(enablement) => {
                state.load = if enablement.is_masked() { Load::Masked } else { Load::Loaded };
                state.enablement = enablement;
                state.mask_obstacle = files::in_the_way_of_a_mask(&Root::new(&self.root), unit);
            }
            None if self.mocks => {
                // The command that would create it may only have been printed, like the ones that have set its state.
                state.is_imagined = true;
                (state.load, state.enablement) = match (mock.masked, mock.enabled) {
                    (Some(true), _) => (Load::Masked, Enablement::Masked),
                    (_, Some(true)) => (Load::Loaded, Enablement::Enabled),
                    _ => (Load::Loaded, Enablement::Disabled),
                };
            }
            None => {}
        }
        Ok(state)
    }

    /// Returns the command that would be run on a real system.
    fn mocked(step: Step, unit: &UnitName) -> Done {
        let scope = match unit.scope() {
            Scope::System => String::new(),
            Scope::AllUsers => "--global ".to_owned(),
            Scope::User(user) => format!("--user --machine={user}@ "),
        };
        Done::Mocked(format!("systemctl {scope}{} {}", arguments(step).join(" "), unit.as_str()))
    }
}

impl Manager for Offline {
    fn states(&self, subjects: &[Subject<'_>]) -> Result<Vec<Result<UnitState, ManagerError>>, ManagerError> {
        let files = self.files()?;
        Ok(subjects.iter().map(|subject| self.state(subject, files.as_ref())).collect())
    }

    fn read_files(&self, _: &Scope) -> Result<(), ManagerError> {
        Ok(())
    }

    fn act(&self, step: Step, tasks: &[Task<'_>], timeout: Option<Duration>) -> Vec<Done> {
        let is_real = |task: &Task<'_>| step.is_of_files() && !task.state.is_imagined;
        let mut all: Vec<Done> = tasks.iter().map(|task| Self::mocked(step, task.unit)).collect();
        let real = tasks.iter().zip(&mut all).filter(|(task, _)| !self.mocks || is_real(task));
        let (chosen, answers): (Vec<Task<'_>>, Vec<&mut Done>) = real.map(|(task, done)| (*task, done)).unzip();
        let Some(tool) = self.tool.as_ref().filter(|_| !chosen.is_empty()) else { return all };
        let done = match tool::act(tool, step, &chosen, timeout) {
            Ok(done) => done,
            Err(ProgramError::NotFound(_)) if self.mocks => return all,
            Err(error) => vec![Done::Failed(vec![error.to_string()]); chosen.len()],
        };
        for (answer, done) in answers.into_iter().zip(done) {
            *answer = done;
        }
        all
    }

    fn last_words(&self, _: &UnitName) -> Vec<String> {
        Vec::new()
    }

    fn main_pid(&self, _: &UnitName) -> Option<u32> {
        self.mocks.then_some(PID_IN_TEST_MODE)
    }

    fn boot(&self) -> Option<String> {
        None
    }
}
