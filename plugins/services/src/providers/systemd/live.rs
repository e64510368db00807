//! A running systemd.

use super::files::{self, Directories};
use super::lists;
use super::tool::{self, Tool, output_of};
use super::{show, words};
use crate::plan::Step;
use crate::providers::{Done, Manager, ManagerError, Relation, Relations, Subject, Task};
use crate::state::{Phase, UnitState};
use crate::unit::{Scope, UnitName};
use holo_plugin::process::Program;
use holo_plugin::system::Root;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The maximum number of units in a query, because command lines are limited.
const AT_A_TIME: usize = 2000;
/// The number of lines of the journal that are shown.
const LINES: &str = "10";
/// The timeout for reading the journal.
const JOURNAL_LIMIT: Duration = Duration::from_secs(10);

/// The number of units from which on lists are faster than showing each unit.
const MANY: usize = 8;

/// A running manager: that of the system, or of a user.
pub(super) struct Live {
    pub(super) tool: Tool,
    pub(super) directories: Directories,
}

impl Live {
    /// Returns the system manager.
    pub(super) fn of_system() -> Live {
        Live { tool: Tool::default(), directories: Directories::of_system() }
    }

    /// Returns the states of units from `systemctl show`.
    fn shown(&self, units: &[&UnitName]) -> Result<Vec<Result<UnitState, ManagerError>>, ManagerError> {
        if units.is_empty() {
            return Ok(Vec::new());
        }
        let property = format!("--property={}", show::PROPERTIES);
        show::parse(&output_of(&self.tool.systemctl(&["show", &property], units))?, units.len())
    }

    /// Returns the names of unit files that have changed since they were loaded.
    fn changed_files(&self) -> Result<BTreeSet<String>, ManagerError> {
        let options = ["--timestamp=us+utc", "show", "--property=UnitsLoadTimestamp,UnitsLoadStartTimestamp"];
        let text = output_of(&self.tool.systemctl(&options, &[]))?;
        let times = text.lines().filter_map(|line| files::parse_time(line.split_once('=')?.1));
        // A systemd without these properties at least reports for each unit whether its files are outdated.
        let Some(read) = times.max() else { return Ok(BTreeSet::new()) };
        let changes = self
            .directories
            .clone()
            .work(&Root::new(Path::new("/")), move |_, directories| files::changes_since(directories, read));
        Ok(changes.unwrap_or_default())
    }
}

/// Returns the relations in a property, in the format of `systemctl show`.
fn related(line: &str) -> impl Iterator<Item = (Relation, String)> {
    let (property, units) = line.split_once('=').unwrap_or_default();
    let relation = match property {
        "Conflicts" | "ConflictedBy" => Some(Relation::Conflicts),
        "Requires" | "Requisite" | "BindsTo" => Some(Relation::Requires),
        "RequiredBy" | "RequisiteOf" | "BoundBy" => Some(Relation::RequiredBy),
        // The reverse of `PartOf`.
        "ConsistsOf" => Some(Relation::HasPart),
        _ => None,
    };
    units.split_whitespace().filter_map(move |unit| Some((relation?, unit.to_owned())))
}

impl Manager for Live {
    fn states(&self, subjects: &[Subject<'_>]) -> Result<Vec<Result<UnitState, ManagerError>>, ManagerError> {
        let boot = self.boot();
        let is_remembered = |subject: &Subject<'_>| boot.is_some() && subject.record.ran_in_boot == boot;
        let root = Root::new(Path::new("/"));
        // For the system manager, changed files are reported separately.
        let unread = if self.tool.is_of_system() { BTreeSet::new() } else { self.changed_files()? };
        let mut states = Vec::new();
        for subjects in subjects.chunks(AT_A_TIME) {
            // Without its load time, only systemd can determine which files have changed.
            let listed = if !self.tool.is_of_system() || subjects.len() < MANY || files::last_read().is_none() {
                vec![None; subjects.len()]
            } else {
                lists::states(subjects, is_remembered)?
            };
            let others =
                listed.iter().zip(subjects).filter(|(listed, _)| listed.is_none()).map(|(_, subject)| subject.unit);
            let mut shown = self.shown(&others.collect::<Vec<_>>())?.into_iter();
            for (listed, subject) in listed.into_iter().zip(subjects) {
                let state = listed.map(Ok).or_else(|| shown.next()).unwrap_or_else(|| Ok(UnitState::default()));
                states.push(state.map(|state| {
                    let is_down = state.phase == Some(Phase::Down);
                    let has_run = state.has_run || (is_remembered(subject) && state.comes_to_an_end && is_down);
                    let obstacle = || files::in_the_way_of_a_mask(&root, subject.unit);
                    let mask_obstacle = subject.aspects.enablement.then(obstacle).flatten();
                    let is_unread = || words::own_files(subject.unit).iter().any(|file| unread.contains(file));
                    let is_outdated = state.is_outdated || is_unread();
                    UnitState { has_run, mask_obstacle, is_outdated, ..state }
                }));
            }
        }
        Ok(states)
    }

    fn unread_files(&self) -> Result<BTreeSet<String>, ManagerError> {
        if let Some(read) = files::last_read() {
            return Ok(files::changes_since(&self.directories, read));
        }
        self.changed_files()
    }

    fn read_files(&self, _: &Scope) -> Result<(), ManagerError> {
        output_of(&self.tool.systemctl(&["daemon-reload"], &[])).map(drop)
    }

    fn act(&self, step: Step, tasks: &[Task<'_>], timeout: Option<Duration>) -> Vec<Done> {
        if step.starts() {
            let failed = |task: &&Task<'_>| task.state.phase == Some(Phase::Failed);
            let failed: Vec<&UnitName> = tasks.iter().filter(failed).map(|task| task.unit).collect();
            if !failed.is_empty() {
                // Otherwise, a unit that has failed too often is not started again. If this fails, starting reports the
                // reason.
                let _ = output_of(&self.tool.systemctl(&["reset-failed"], &failed));
            }
        }
        tool::act(&self.tool, step, tasks, timeout)
            .unwrap_or_else(|error| vec![Done::Failed(vec![error.to_string()]); tasks.len()])
    }

    fn last_words(&self, unit: &UnitName) -> Vec<String> {
        let journal = |arguments: &[&str]| {
            let mut program = Program::new("journalctl");
            program.args(arguments).plain_locale().env("SYSTEMD_COLORS", "0").timeout(JOURNAL_LIMIT);
            program.output().map(|captured| String::from_utf8_lossy(&captured.stdout).into_owned())
        };
        // The last lines may not have been written yet.
        let _ = journal(&["--sync"]);
        let of_unit = self.tool.journal_matches(unit);
        let options = ["--quiet", "--no-pager", "--no-hostname", "--lines", LINES];
        let text = journal(&options.into_iter().chain(of_unit.iter().map(String::as_str)).collect::<Vec<_>>());
        text.unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn main_pid(&self, unit: &UnitName) -> Option<u32> {
        let shown = output_of(&self.tool.systemctl(&["show", "--property=MainPID", "--value"], &[unit])).ok()?;
        shown.trim().parse().ok().filter(|pid| *pid != 0)
    }

    fn relations(&self, units: &[&UnitName]) -> Relations {
        let property =
            "--property=Id,Conflicts,ConflictedBy,Requires,Requisite,BindsTo,RequiredBy,RequisiteOf,BoundBy,ConsistsOf";
        let mut all = Relations::new();
        for units in units.chunks(AT_A_TIME) {
            // A unit that cannot be shown is reported when it is started.
            let shown = output_of(&self.tool.systemctl(&["show", property], units)).unwrap_or_default();
            for (unit, properties) in units.iter().zip(shown.split("\n\n")) {
                all.insert(unit.qualified(), properties.lines().flat_map(related).collect());
            }
        }
        all
    }

    fn boot(&self) -> Option<String> {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned())
    }
}
