//! Code shared by all benchmarks.

use anyhow::{Context, Result, bail, ensure};
use std::cmp::Ordering;
use std::process::{Command, Output};
use std::time::Duration;

/// The option that cargo passes to benchmarks.
#[derive(clap::Args)]
pub(crate) struct UnderCargo {
    /// Passed by cargo to benchmarks, but not when it runs them as tests
    #[arg(long, hide = true)]
    bench: bool,
}

impl UnderCargo {
    /// Returns true if the benchmark with this name should measure. Otherwise prints how to run it.
    pub(crate) fn measures(&self, name: &str) -> Result<bool> {
        if !self.bench {
            println!("not measured: run `cargo bench --bench {name}`");
            return Ok(false);
        }
        ensure!(!cfg!(debug_assertions), "built without optimisation: run `cargo bench --bench {name}`");
        Ok(true)
    }
}

/// Runs a program, which must succeed.
pub(crate) fn run(mut command: Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} ended with {}:\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(output)
}

/// Returns the median; `None` if the list is empty.
pub(crate) fn median<T: PartialOrd>(mut all: Vec<T>) -> Option<T> {
    all.sort_by(|one, other| one.partial_cmp(other).unwrap_or(Ordering::Equal));
    let middle = all.len() / 2;
    all.into_iter().nth(middle)
}

/// Formats a time in a suitable unit.
pub(crate) fn show(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..0.1 => format!("{:.1} ms", seconds * 1000.0),
        ..1.0 => format!("{:.0} ms", seconds * 1000.0),
        ..10.0 => format!("{seconds:.2} s"),
        _ => format!("{seconds:.1} s"),
    }
}
