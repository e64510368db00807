//! OpenRC on this host, running or only installed.

use super::{DEFAULT, NAME, Runlevels, SCRIPTS};
use crate::plan::Step;
use crate::providers::{Done, Manager, ManagerError, Subject, Task};
use crate::state::{Enablement, Load, Phase, UnitState};
use crate::unit::{Scope, UnitName};
use holo_plugin::process::Program;
use holo_plugin::system::Root;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// The timeout for a query.
const QUESTION_LIMIT: Duration = Duration::from_secs(90);
/// The directory in which OpenRC has a directory of symlinks for each state.
const RUN: &str = "/run/openrc";
/// The interval for checking whether another process has finished starting or stopping a service.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The timeout for waiting for that, unless the definition sets one.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Live {
    pub(super) root: Root,
    /// True if it has booted this host, so that services can be started.
    pub(super) runs: bool,
}

/// Returns the `rc-service` command for a step.
pub(super) fn verb(step: Step) -> &'static str {
    match step {
        Step::Stop => "stop",
        Step::Restart => "restart",
        Step::Reload => "reload",
        _ => "start",
    }
}

fn tool(name: &str, arguments: &[&str]) -> Program {
    let mut program = Program::new(name);
    // Processes that a service leaves behind may keep the pipes open.
    program.arg("--nocolor").args(arguments).plain_locale().linger(Duration::ZERO);
    program
}

/// Returns the lines of a command's output without their leading stars.
fn lines(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let lines = text.lines().map(|line| line.trim().trim_start_matches("* ").trim());
    lines.filter(|line| !line.is_empty() && *line != "[ !! ]").map(str::to_owned).collect()
}

/// Runs a tool to completion; returns its output as the error if it fails.
fn run(name: &str, arguments: &[&str], limit: Option<Duration>) -> Result<String, Vec<String>> {
    let captured = tool(name, arguments).timeout(limit).output().map_err(|error| vec![error.to_string()])?;
    match captured.ended.failure() {
        None => Ok(String::from_utf8_lossy(&captured.stdout).into_owned()),
        Some(failure) if captured.ended.timed_out.is_some() || lines(&captured.stderr).is_empty() => Err(vec![failure]),
        Some(_) => Err(lines(&captured.stderr)),
    }
}

/// The states of all services on the host.
struct LiveStates {
    statuses: HashMap<String, Result<Status, ManagerError>>,
    levels: Runlevels,
}

impl Live {
    fn known(&self) -> Result<LiveStates, ManagerError> {
        let statuses = if self.runs {
            let first = |lines: Vec<String>| ManagerError::Failed(lines.into_iter().next().unwrap_or_default());
            parse(&run("rc-status", &["--servicelist"], Some(QUESTION_LIMIT)).map_err(first)?)
        } else {
            HashMap::new()
        };
        Ok(LiveStates { statuses, levels: Runlevels::read(&self.root) })
    }

    fn state(&self, subject: &Subject<'_>, known: &LiveStates) -> Result<UnitState, ManagerError> {
        let name = subject.unit.as_str();
        let script = self.root.text(Path::new(SCRIPTS).join(name));
        let unlisted = || script.as_ref().map(|_| unlisted(subject.unit));
        let status = known.statuses.get(name).cloned().or_else(unlisted).transpose()?;
        let runlevels = known.levels.of(name);
        let is_there = status.is_some() || script.is_some();
        let enablement = match (runlevels.is_empty(), is_there) {
            (false, _) => Enablement::Enabled,
            (true, true) => Enablement::Disabled,
            (true, false) => Enablement::None,
        };
        Ok(UnitState {
            phase: self.runs.then(|| status.as_ref().map_or(Phase::Down, |status| status.phase)),
            load: if is_there { Load::Loaded } else { Load::Missing },
            enablement,
            runlevels,
            // A script that starts it in the background returns before it can have failed.
            starts_unseen: script.is_some_and(|script| script.contains("command_background")),
            can_reload: subject.aspects.reloading && is_there && can_reload(name),
            words: status.map_or_else(|| "stopped".to_owned(), |status| status.word),
            ..UnitState::default()
        })
    }

    /// Waits until no other process starts or stops a service.
    ///
    /// # Errors
    /// If that takes too long.
    fn wait(unit: &UnitName, limit: Duration) -> Result<(), Vec<String>> {
        let begun = Instant::now();
        while let Some(state) = ["starting", "stopping"].into_iter().find(|state| is_marked(unit, state)) {
            if begun.elapsed() >= limit {
                let remedy = format!("if nothing is at it any more, \"rc-service {unit} zap\" resets it");
                return Err(vec![format!("it is still {state}"), remedy]);
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    fn act_on(&self, step: Step, task: &Task<'_>, limit: Option<Duration>) -> Result<(), Vec<String>> {
        let name = task.unit.as_str();
        match step {
            Step::Enable | Step::Disable | Step::DisableForNow => self.enable(step, task, limit),
            Step::Mask | Step::Unmask | Step::UnmaskForNow => Err(vec![format!("{NAME} cannot mask services")]),
            Step::Start | Step::Stop | Step::Restart | Step::Reload => {
                if matches!(task.state.phase, Some(Phase::Coming | Phase::Going)) {
                    Self::wait(task.unit, limit.unwrap_or(PATIENCE))?;
                }
                // OpenRC considers a crashed service started.
                let is_crashed = task.state.phase == Some(Phase::Failed);
                let verb = if step == Step::Start && is_crashed { verb(Step::Restart) } else { verb(step) };
                // It is not an error if the other process has started it.
                let options: &[&str] = if verb == "start" { &["--ifstopped"] } else { &[] };
                run("rc-service", &[options, &["--", name, verb]].concat(), limit).map(drop)
            }
        }
    }

    fn enable(&self, step: Step, task: &Task<'_>, limit: Option<Duration>) -> Result<(), Vec<String>> {
        let name = task.unit.as_str();
        let wanted: BTreeSet<&str> = match step {
            Step::Enable if task.wanted.runlevels.is_empty() => [DEFAULT].into(),
            Step::Enable => task.wanted.runlevels.iter().map(String::as_str).collect(),
            _ => BTreeSet::new(),
        };
        let present: BTreeSet<&str> = task.state.runlevels.iter().map(String::as_str).collect();
        for level in wanted.difference(&present) {
            run("rc-update", &["--", "add", name, level], limit)?;
        }
        for level in present.difference(&wanted) {
            run("rc-update", &["--", "del", name, level], limit)?;
        }
        Ok(())
    }
}

/// Returns true if a service has this state according to OpenRC's symlinks.
fn is_marked(unit: &UnitName, state: &str) -> bool {
    Path::new(RUN).join(state).join(unit.as_str()).is_symlink()
}

/// Returns the status of a service that is not listed, because its script is newer than OpenRC's dependency cache.
///
/// # Errors
/// If OpenRC reports an unknown state.
fn unlisted(unit: &UnitName) -> Result<Status, ManagerError> {
    let marks = ["starting", "stopping", "inactive", "started"];
    match marks.into_iter().find(|state| is_marked(unit, state)) {
        // A crashed service keeps this symlink.
        Some(started @ "started") => of_word(asked(unit).as_deref().unwrap_or(started)),
        word => of_word(word.unwrap_or("stopped")),
    }
}

/// Returns OpenRC's word for the state of a service that is running or crashed; `None` if its script has a `status`
/// command of its own.
fn asked(unit: &UnitName) -> Option<String> {
    // `rc-service` exits with 0 only if the service is running, so its output is read in any case.
    let captured = tool("rc-service", &["--", unit.as_str(), "status"]).timeout(QUESTION_LIMIT).output().ok()?;
    let mut said = [&captured.stdout, &captured.stderr].into_iter().flat_map(|output| lines(output));
    said.find_map(|line| line.strip_prefix("status: ").map(|word| word.trim().to_owned()))
}

/// Returns true if the script of a service supports `reload`.
fn can_reload(name: &str) -> bool {
    let described = tool("rc-service", &["--", name, "describe"]).timeout(QUESTION_LIMIT).output();
    described.is_ok_and(|described| lines(&described.stderr).iter().any(|line| line.starts_with("reload:")))
}

impl Manager for Live {
    fn states(&self, subjects: &[Subject<'_>]) -> Result<Vec<Result<UnitState, ManagerError>>, ManagerError> {
        let known = self.known()?;
        Ok(subjects.iter().map(|subject| self.state(subject, &known)).collect())
    }

    fn read_files(&self, _: &Scope) -> Result<(), ManagerError> {
        Ok(())
    }

    fn act(&self, step: Step, tasks: &[Task<'_>], timeout: Option<Duration>) -> Vec<Done> {
        let act = |task: &Task<'_>| match self.act_on(step, task, timeout) {
            Ok(()) => Done::Really,
            Err(lines) => Done::Failed(lines),
        };
        tasks.iter().map(act).collect()
    }

    /// OpenRC keeps no logs of services; output of scripts was shown already.
    fn last_words(&self, _: &UnitName) -> Vec<String> {
        Vec::new()
    }

    fn main_pid(&self, unit: &UnitName) -> Option<u32> {
        let file = fs::read_to_string(Path::new(RUN).join("options").join(unit.as_str()).join("pidfile")).ok()?;
        let pid = self.root.text(file.trim().trim_start_matches('/'))?;
        pid.split_whitespace().next()?.parse().ok().filter(|pid| *pid != 0)
    }

    fn boot(&self) -> Option<String> {
        None
    }
}

/// The phase of a service, and OpenRC's word for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) phase: Phase,
    pub(super) word: String,
}

/// Parses a list of services. Each line has a name, and the state in brackets or after an equals sign; for a supervised
/// service also the time since when it runs, and the number of restarts.
pub(super) fn parse(text: &str) -> HashMap<String, Result<Status, ManagerError>> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<(String, Result<Status, ManagerError>)> {
    let (name, rest) = line.trim().split_once(char::is_whitespace)?;
    let state = rest.trim().strip_prefix(['[', '='])?;
    let word = state.split_whitespace().next()?.trim_end_matches(']');
    Some((name.to_owned(), of_word(word)))
}

/// Returns the status for OpenRC's word.
///
/// # Errors
/// If the word is unknown.
pub(super) fn of_word(word: &str) -> Result<Status, ManagerError> {
    phase(word).map(|phase| Status { phase, word: word.to_owned() })
}

fn phase(word: &str) -> Result<Phase, ManagerError> {
    match word {
        // An inactive service was started, and waits for an external event.
        "started" | "inactive" => Ok(Phase::Up),
        "starting" => Ok(Phase::Coming),
        "stopping" => Ok(Phase::Going),
        "stopped" | "scheduled" | "hotplugged" | "wasinactive" => Ok(Phase::Down),
        "crashed" | "unsupervised" | "failed" => Ok(Phase::Failed),
        _ => Err(ManagerError::UnknownWord { property: "the state", word: word.to_owned() }),
    }
}

#[cfg(test)]
mod status_tests {
    use super::*;

    #[test]
    fn both_forms_of_lines_are_read() {
        let text = " demo                         [  started  ]\n sup              [  started 00:00:01 (0) ]\n\
                    crash =  crashed \nnet.eth0 = stopped\n odd   [ dancing ]\nRunlevel: boot\n[default]\n\n";
        let states = parse(text);
        let phase = |name: &str| states[name].as_ref().map(|status| (status.phase, status.word.as_str())).ok();
        assert_eq!(phase("demo"), Some((Phase::Up, "started")));
        assert_eq!(phase("sup"), Some((Phase::Up, "started")));
        assert_eq!(phase("crash"), Some((Phase::Failed, "crashed")));
        assert_eq!(phase("net.eth0"), Some((Phase::Down, "stopped")));
        assert_eq!(
            states["odd"].as_ref().unwrap_err().to_string(),
            "the state \"dancing\" is unknown to this version of holo"
        );
        assert_eq!(states.len(), 5);
    }
}
