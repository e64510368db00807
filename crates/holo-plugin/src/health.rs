//! Health checks: programs that tell by their exit status how something is, as Nagios has it.

use crate::definitions::HealthCheck;
use crate::process::keep_environment;
use crate::{Host, Output};
use holo_process::{Program, ProgramError};
use std::thread;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_secs(1);

/// The reason why something is not well.
#[derive(Debug, thiserror::Error)]
enum HealthError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("{state}: {says}")]
    Unwell { state: String, says: String },
}

/// Returns true if all checks are well; the first one that is not is said on `output`.
///
/// They look at the system that runs, so there is nothing to look at in test mode.
pub(crate) fn is_well(checks: &[HealthCheck], host: &Host, output: &mut Output<'_>) -> bool {
    if host.test_mode() {
        return true;
    }
    checks.iter().all(|check| match try_until_well(check) {
        Ok(()) => true,
        Err(problem) => {
            output.error(format!("health check `{}`: {problem}", program(check)));
            false
        }
    })
}

fn try_until_well(check: &HealthCheck) -> Result<(), HealthError> {
    let mut last = run(check);
    for _ in 1..check.tries {
        if last.is_ok() {
            break;
        }
        thread::sleep(check.interval.unwrap_or(INTERVAL));
        last = run(check);
    }
    last
}

fn run(check: &HealthCheck) -> Result<(), HealthError> {
    let said = program(check).output()?;
    let Some(failure) = said.ended.failure() else { return Ok(()) };
    let state = match said.ended.code() {
        Some(1) => "warning".to_owned(),
        Some(2) => "critical".to_owned(),
        Some(_) => "unknown".to_owned(),
        // It has not come to an answer.
        None => failure.clone(),
    };
    let line = [&said.stdout, &said.stderr].into_iter().find_map(|said| first_line(said));
    Err(HealthError::Unwell { state, says: line.unwrap_or(failure) })
}

fn first_line(said: &[u8]) -> Option<String> {
    String::from_utf8_lossy(said).lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

fn program(check: &HealthCheck) -> Program {
    let mut program = Program::from_words(check.command.words());
    keep_environment(&mut program);
    program.timeout(check.timeout.unwrap_or(TIMEOUT));
    program
}
