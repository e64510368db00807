//! The conditions for running a command.

use crate::call;
use crate::definition::Exec;
use crate::error::{ExecError, RunError};
use crate::mocks::Mocks;
use holo_plugin::definitions::WrittenCommand;
use holo_plugin::{Host, Mode, Output, Stream};
use std::path::Path;
use std::time::Duration;

/// The default timeout for guards.
const GUARD_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns true if the command must run. The conditions are evaluated in this order, until one is false.
///
/// # Errors
/// If a condition cannot be evaluated.
pub(crate) fn hold(
    exec: &Exec,
    timeout: Option<Duration>,
    refresh: bool,
    host: &Host,
    output: &mut Output<'_>,
) -> Result<bool, ExecError> {
    if refresh {
        return Ok(true);
    }
    if exec.creates.as_deref().is_some_and(|path| exists(path, host)) {
        return Ok(false);
    }
    if host.test_mode() {
        // Guards would check this system instead of the one below the root.
        let is_done = can_be_done(exec) && Mocks::open(host)?.contains(&exec.name);
        return Ok(!is_done && !exec.refresh_only);
    }
    if let Some(guard) = &exec.onlyif
        && !succeeds("onlyif", guard, exec, timeout, output)?
    {
        return Ok(false);
    }
    if let Some(guard) = &exec.unless_command
        && succeeds("unless_command", guard, exec, timeout, output)?
    {
        return Ok(false);
    }
    Ok(!exec.refresh_only)
}

/// Returns true if the command may be unnecessary after it has run.
pub(crate) fn can_be_done(exec: &Exec) -> bool {
    exec.creates.is_some() || exec.onlyif.is_some() || exec.unless_command.is_some()
}

/// Returns true if the path that the command creates exists.
pub(crate) fn exists(path: &str, host: &Host) -> bool {
    host.below_root(Path::new(path)).exists()
}

/// Returns true if a guard succeeds. Its errors are shown, as the guard itself may be faulty.
fn succeeds(
    key: &str,
    guard: &WrittenCommand,
    exec: &Exec,
    timeout: Option<Duration>,
    output: &mut Output<'_>,
) -> Result<bool, ExecError> {
    let failed = |reason: RunError| ExecError::Failed { command: format!("{key} {}", exec.shown_guard(guard)), reason };
    let program = call::program(exec, guard, Some(timeout.unwrap_or(GUARD_TIMEOUT)), Mode::default());
    let program = program.map_err(|error| failed(error.into()))?;
    let ended = program.run(|stream, bytes| {
        if stream == Stream::Stderr {
            output.relay(stream, bytes);
        }
    });
    match ended {
        Ok(ended) if ended.timed_out.is_some() => Err(failed(RunError::Ended(ended.failure().unwrap_or_default()))),
        Ok(ended) => Ok(ended.failure().is_none()),
        Err(error) => Err(failed(error.into())),
    }
}
