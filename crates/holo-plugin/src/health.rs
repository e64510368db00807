//! Health checks: programs whose exit status reports the health of an entity, as for Nagios. Built-in checks are run by
//! `holo-probe`, so that plugins need no HTTP client.

use crate::definitions::{HealthCheck, Probe};
use crate::process::keep_environment;
use crate::{Host, Output};
use bstr::BString;
use holo_process::{Program, beside};
use holo_protocol::{Health, HealthState};
use std::iter;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The program for built-in checks.
const PROBE: &str = "holo-probe";
const TIMEOUT: Duration = Duration::from_secs(10);
/// The additional time for `holo-probe` to report its own timeout.
const GRACE: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_secs(1);
/// The number of entities whose checks run concurrently; most checks only wait.
const AT_ONCE: usize = 16;

/// The result of a check.
struct Answer {
    state: HealthState,
    /// The name of the state, and the output of the program.
    text: String,
}

/// Returns true if all checks pass; the first failure is printed to `output`.
///
/// Checks examine the running system, so none are run in test mode, or while the system is not running. The apply at its first boot runs
/// them.
pub(crate) fn is_well(checks: &[HealthCheck], host: &Host, output: &mut Output<'_>) -> bool {
    if host.test_mode() || host.is_offline() {
        return true;
    }
    checks.iter().all(|check| {
        let answer = try_until_well(check);
        if answer.state != HealthState::Ok {
            output.error(format!("health check `{}`: {}", shown(check), answer.text));
        }
        answer.state == HealthState::Ok
    })
}

/// Runs the checks of entities, several entities at a time. Returns a line for each entity that has checks, in the
/// order of the entities.
pub(crate) fn lines<'c>(entities: impl Iterator<Item = (&'c BString, &'c [HealthCheck])>, host: &Host) -> Vec<u8> {
    if host.test_mode() || host.is_offline() {
        return Vec::new();
    }
    let checked: Vec<(&BString, &[HealthCheck])> = entities.filter(|(_, checks)| !checks.is_empty()).collect();
    let threads = AT_ONCE.min(checked.len());
    let waiting = Mutex::new(checked.into_iter().enumerate());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let (sender, lines) = channel();
    let work = |sender: Sender<(usize, BString)>| {
        while let Some((index, (id, checks))) = next() {
            // The receiver exists until all checks are done.
            let _ = sender.send((index, health(id, checks).to_line()));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            let (sender, work) = (sender.clone(), &work);
            // If no thread can be started, the caller does the work.
            if thread::Builder::new().spawn_scoped(scope, move || work(sender)).is_err() {
                break;
            }
        }
        work(sender);
    });
    let mut lines: Vec<(usize, BString)> = lines.iter().collect();
    lines.sort_unstable();
    lines.into_iter().flat_map(|(_, line)| Vec::from(line)).collect()
}

/// Returns the worst result of the checks.
fn health(id: &BString, checks: &[HealthCheck]) -> Health {
    let answers = checks.iter().map(|check| (check, try_until_well(check)));
    // Of equally bad results, the first one is used.
    let worst = answers.reduce(|worst, other| if other.1.state > worst.1.state { other } else { worst });
    let bad = worst.filter(|(_, answer)| answer.state != HealthState::Ok);
    let state = bad.as_ref().map_or(HealthState::Ok, |(_, answer)| answer.state);
    let text = bad.map(|(check, answer)| format!("`{}`: {}", shown(check), answer.text)).unwrap_or_default();
    Health { state, id: id.clone(), text: text.into() }
}

fn try_until_well(check: &HealthCheck) -> Answer {
    let mut last = run(check);
    for _ in 1..check.tries {
        if last.state == HealthState::Ok {
            break;
        }
        thread::sleep(check.interval.unwrap_or(INTERVAL));
        last = run(check);
    }
    last
}

fn run(check: &HealthCheck) -> Answer {
    let said = match program(check).output() {
        Ok(said) => said,
        Err(error) => return Answer { state: HealthState::Unknown, text: error.to_string() },
    };
    let Some(failure) = said.ended.failure() else {
        return Answer { state: HealthState::Ok, text: String::new() };
    };
    let line = [&said.stdout, &said.stderr].into_iter().find_map(|said| first_line(said));
    let Some(code) = said.ended.code() else {
        // The check was ended without a result.
        let words: Vec<String> = iter::once(failure).chain(line).collect();
        return Answer { state: HealthState::Unknown, text: words.join(": ") };
    };
    let state = HealthState::from_exit_status(code);
    Answer { state, text: format!("{}: {}", state.word(), line.unwrap_or(failure)) }
}

fn first_line(said: &[u8]) -> Option<String> {
    String::from_utf8_lossy(said).lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// Returns a check as displayed to users.
fn shown(check: &HealthCheck) -> String {
    match &check.probe {
        Probe::Command(_) => program(check).to_string(),
        probe => probe.to_string(),
    }
}

fn program(check: &HealthCheck) -> Program {
    let limit = check.timeout.unwrap_or(TIMEOUT);
    let words: Vec<String> = match &check.probe {
        Probe::Command(command) => {
            let mut program = Program::from_words(command.words());
            keep_environment(&mut program);
            program.timeout(limit);
            return program;
        }
        Probe::Http { url, status, contains } => {
            let status = status.iter().map(|status| format!("--status={status}"));
            let options = status.chain(contains.iter().map(|text| format!("--contains={text}")));
            ["http".to_owned()].into_iter().chain(options).chain([url.clone()]).collect()
        }
        Probe::Tcp(address) => vec!["tcp".to_owned(), address.clone()],
        Probe::Unit(unit) => vec!["unit".to_owned(), unit.clone()],
    };
    let mut program = Program::new(beside(PROBE));
    program.arg("--timeout").arg(limit.as_millis().to_string());
    program.args(words);
    keep_environment(&mut program);
    program.timeout(limit + GRACE);
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_once() {
        for (script, limit, state, text) in [
            ("sleep 60", 100, HealthState::Unknown, "timed out after 100ms"),
            ("echo still starting; sleep 60", 2000, HealthState::Unknown, "timed out after 2s: still starting"),
            ("kill -9 $$", 60_000, HealthState::Unknown, "signal: killed"),
            ("exit 2", 60_000, HealthState::Critical, "critical: exit status 2"),
            ("echo slow >&2; exit 1", 60_000, HealthState::Warning, "warning: slow"),
        ] {
            let check = format!("command = [\"sh\", \"-c\", \"{script}\"]\ntimeout = \"{limit}ms\"\n");
            let answer = run(&toml::from_str(&check).unwrap());
            assert_eq!((answer.state, &*answer.text), (state, text), "{script}");
        }
    }
}
