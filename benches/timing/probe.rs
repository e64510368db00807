//! A process between the benchmark and the timed program: it starts only that program, so the kernel's resource usage
//! of its children is that of the program.

use crate::timing::results::{Calls, Measurement};
use anyhow::{Context, Result, bail, ensure};
use holo_testing::{Need, require};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const ARGUMENT: &str = "--probe";

/// Returns the prefix of a command line to be timed. The file for the result, the program and its arguments follow.
pub(crate) fn words() -> Result<[OsString; 2]> {
    Ok([std::env::current_exe()?.into(), ARGUMENT.into()])
}

/// Returns the arguments of this process, if it is a probe.
pub(crate) fn arguments() -> Option<Vec<OsString>> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == ARGUMENT).then(|| arguments.collect())
}

/// Runs the program, forwards its output, and writes its cost to a file.
pub(crate) fn run(arguments: &[OsString]) -> Result<()> {
    let [result, program, arguments @ ..] = arguments else { bail!("a probe needs a file and a program") };
    // Flush earlier writes, so that they are not charged to the program.
    rustix::fs::sync();
    let busy = busy()?;
    let start = Instant::now();
    let output = Command::new(program).args(arguments).output().with_context(|| format!("start {program:?}"))?;
    let wall = start.elapsed().as_secs_f64();
    let busy = self::busy()? - busy;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu = [usage.user_time(), usage.system_time()].iter().map(|time| time.num_microseconds() as f64 / 1e6).sum();
    std::io::stdout().write_all(&output.stdout)?;
    std::io::stderr().write_all(&output.stderr)?;
    ensure!(output.status.success(), "{program:?} ended with {}", output.status);
    // The kernel counts in sectors of 512 bytes.
    let written = usage.block_writes() / 2;
    std::fs::write(result, serde_json::to_vec(&Measurement { wall, cpu, busy, memory: usage.max_rss(), written })?)?;
    Ok(())
}

/// Returns the CPU time of all processes of the machine since it was started, in seconds, including time for which the
/// host of a virtual machine ran others.
fn busy() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let all = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    // User, nice, system, idle, waiting for the disk, interrupts, and stolen.
    let busy = [0, 1, 2, 5, 6, 7].into_iter().filter_map(|field| all.clone().nth(field)?.parse::<f64>().ok());
    Ok(busy.sum::<f64>() / 100.0)
}

/// Returns the prefix of a command line whose system calls are counted into this file.
pub(crate) fn counting(result: &Path) -> Vec<OsString> {
    vec!["strace".into(), "-f".into(), "-c".into(), "-o".into(), result.into()]
}

pub(crate) fn has_strace() -> bool {
    require::missing(&[Need::Program("strace")]).is_none()
}

/// Parses the table of `strace -c`: share, seconds, µs per call, calls, errors if there are any, name.
pub(crate) fn parse_calls(text: &str) -> Result<Calls> {
    let mut calls = Calls::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split_whitespace().collect();
        if let (Some(Ok(number)), Some(&name)) = (cells.get(3).map(|cell| cell.parse()), cells.last()) {
            calls.insert(name.to_owned(), number);
        }
    }
    ensure!(calls.contains_key("total") && calls.contains_key("execve"), "this is no table of strace:\n{text}");
    Ok(calls)
}
