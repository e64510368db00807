//! What all benchmarks do.

use anyhow::{Context, Result, bail};
use std::process::{Command, Output};
use std::time::Duration;

/// Runs a program, which has to succeed.
pub(crate) fn run(mut command: Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} ended with {}:\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(output)
}

/// The median; nothing of nothing.
pub(crate) fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort();
    times.get(times.len() / 2).copied()
}

/// In milliseconds.
pub(crate) fn show(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}
