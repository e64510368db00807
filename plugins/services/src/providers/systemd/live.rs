//! The systemd that runs.

use super::tool::{self, output_of, systemctl};
use super::{files, lists, show};
use crate::plan::Step;
use crate::provider::{Done, Manager, ManagerError, Subject, Task};
use crate::state::{Phase, UnitState};
use crate::unit::UnitName;
use holo_plugin::process::Program;
use holo_plugin::system::Root;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The number of units that are asked for at a time: a command line has its limits.
const AT_A_TIME: usize = 2000;
/// The number of lines of the journal that are shown.
const LINES: &str = "10";
/// The time limit of reading the journal.
const JOURNAL_LIMIT: Duration = Duration::from_secs(10);

/// The number of units from which on lists are quicker than asking for each.
const MANY: usize = 8;

pub(super) struct Live;

/// Returns the states of units as systemd shows them.
fn shown(units: &[&UnitName]) -> Result<Vec<Result<UnitState, ManagerError>>, ManagerError> {
    if units.is_empty() {
        return Ok(Vec::new());
    }
    let property = format!("--property={}", show::PROPERTIES);
    show::parse(&output_of(&mut systemctl(&["show", &property], units))?, units.len())
}

impl Manager for Live {
    fn states(&self, subjects: &[Subject<'_>]) -> Result<Vec<Result<UnitState, ManagerError>>, ManagerError> {
        let boot = self.boot();
        let is_remembered = |subject: &Subject<'_>| boot.is_some() && subject.record.ran_in_boot == boot;
        let root = Root::new(Path::new("/"));
        let mut states = Vec::new();
        for subjects in subjects.chunks(AT_A_TIME) {
            // Without its own time, only systemd can tell which files have changed.
            let listed = if subjects.len() < MANY || files::last_read().is_none() {
                vec![None; subjects.len()]
            } else {
                lists::states(subjects, is_remembered)?
            };
            let others =
                listed.iter().zip(subjects).filter(|(listed, _)| listed.is_none()).map(|(_, subject)| subject.unit);
            let mut shown = shown(&others.collect::<Vec<_>>())?.into_iter();
            for (listed, subject) in listed.into_iter().zip(subjects) {
                let state = listed.map(Ok).or_else(|| shown.next()).unwrap_or_else(|| Ok(UnitState::default()));
                states.push(state.map(|state| {
                    let is_down = state.phase == Some(Phase::Down);
                    let has_run = state.has_run || (is_remembered(subject) && state.comes_to_an_end && is_down);
                    let obstacle = || files::in_the_way_of_a_mask(&root, subject.unit);
                    let mask_obstacle = subject.aspects.enablement.then(obstacle).flatten();
                    UnitState { has_run, mask_obstacle, ..state }
                }));
            }
        }
        Ok(states)
    }

    fn unread_files(&self) -> Result<BTreeSet<String>, ManagerError> {
        if let Some(read) = files::last_read() {
            return Ok(files::changes_since(read));
        }
        let mut program = Program::new("systemctl");
        program.args(["--no-pager", "--timestamp=us+utc", "show"]).plain_locale();
        program.args(["--property=UnitsLoadTimestamp", "--property=UnitsLoadStartTimestamp"]);
        let text = output_of(&mut program)?;
        let times = text.lines().filter_map(|line| files::parse_time(line.split_once('=')?.1));
        // A systemd that does not tell says at least of each unit whether its files are outdated.
        Ok(times.max().map(files::changes_since).unwrap_or_default())
    }

    fn read_files(&self) -> Result<(), ManagerError> {
        output_of(&mut systemctl(&["daemon-reload"], &[])).map(drop)
    }

    fn act(&self, step: Step, tasks: &[Task<'_>], timeout: Option<Duration>) -> Vec<Done> {
        if step.starts() {
            let failed = |task: &&Task<'_>| task.state.phase == Some(Phase::Failed);
            let failed: Vec<&UnitName> = tasks.iter().filter(failed).map(|task| task.unit).collect();
            if !failed.is_empty() {
                // Else what has failed too often is not started again. If it does not work, starting says why.
                let _ = output_of(&mut systemctl(&["reset-failed"], &failed));
            }
        }
        tool::act(&[], step, tasks, timeout)
            .unwrap_or_else(|error| vec![Done::Failed(vec![error.to_string()]); tasks.len()])
    }

    fn last_words(&self, unit: &UnitName) -> Vec<String> {
        let journal = |arguments: &[&str]| {
            let mut program = Program::new("journalctl");
            program.args(arguments).plain_locale().env("SYSTEMD_COLORS", "0").timeout(JOURNAL_LIMIT);
            program.output().map(|captured| String::from_utf8_lossy(&captured.stdout).into_owned())
        };
        // The last lines may still be on their way.
        let _ = journal(&["--sync"]);
        let of_unit = format!("--unit={unit}");
        let text = journal(&["--quiet", "--no-pager", "--no-hostname", "--lines", LINES, &of_unit]);
        text.unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn main_pid(&self, unit: &UnitName) -> Option<u32> {
        let shown = output_of(&mut systemctl(&["show", "--property=MainPID", "--value"], &[unit])).ok()?;
        shown.trim().parse().ok().filter(|pid| *pid != 0)
    }

    fn boot(&self) -> Option<String> {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned())
    }
}
