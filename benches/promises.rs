//! Compares holo running a promise module with the module alone. See the README.
#![expect(clippy::disallowed_methods, reason = "measured programs are started directly")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

mod common;

use anyhow::{Context, Result};
use clap::Parser;
use common::{UnderCargo, median, run, show};
use holo_testing::binaries;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A module that keeps lines in files.
const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/test-scenarios/promises/modules/keep_line.py");
/// The number of files with lines.
const FILES: usize = 10;

#[derive(Parser)]
struct Options {
    /// The numbers of promises
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1000, 10_000])]
    sizes: Vec<usize>,
    /// The number of rounds; the median counts
    #[arg(long, default_value_t = 5)]
    runs: usize,
    #[command(flatten)]
    under_cargo: UnderCargo,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if !options.under_cargo.measures("promises")? {
        return Ok(());
    }
    for size in options.sizes {
        let root = prepare(size)?;
        // The first apply changes the files; the timed ones find the promises kept.
        time(|| holo(&root))?;
        let (mut alone, mut asked) = (Vec::new(), Vec::new());
        for _ in 0..options.runs {
            alone.push(time(|| module(&root))?);
            asked.push(time(|| holo(&root))?);
        }
        let (alone, asked) = (median(alone).unwrap_or_default(), median(asked).unwrap_or_default());
        let more = asked.saturating_sub(alone);
        println!("{size} promises: module {}, holo {}, beyond the module {}", show(alone), show(asked), show(more));
    }
    Ok(())
}

/// Creates a root with this number of promises, and a file with all requests that the module receives for them.
fn prepare(size: usize) -> Result<TempDir> {
    let root = TempDir::new_in(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
    let resources = root.path().join("usr/share/holo/promises");
    for folder in ["etc", "run", "tmp", "usr/share/holo/promises/modules"] {
        fs::create_dir_all(root.path().join(folder))?;
    }
    let plugin = binaries::binary("holo-promises")?;
    fs::write(root.path().join("etc/holorc"), format!("plugin promises={}\n", plugin.display()))?;
    fs::copy(MODULE, resources.join("modules/keep_line.py")).context("copy the module")?;
    let mut definitions = "[[module]]\ntype = \"line\"\npath = \"modules/keep_line.py\"\nrespects_root = true\n\
         interpreter = [\"/usr/bin/env\", \"python3\"]\n"
        .to_owned();
    let mut requests = "cf-agent 3.21.0 v1\n\n".to_owned();
    for number in 0..size {
        let promiser = format!("/etc/lines{}", number % FILES);
        definitions += &format!("[[promise]]\ntype = \"line\"\npromiser = \"{promiser}\"\nname = \"{number}\"\n");
        definitions += &format!("attributes = {{ line = \"line {number}\" }}\n");
        for operation in ["validate_promise", "evaluate_promise"] {
            requests += &format!(
                "{{\"attributes\":{{\"line\":\"line {number}\"}},\"filename\":\"x\",\"line_number\":1,\"log_level\":\"info\",\
                 \"operation\":\"{operation}\",\"promise_type\":\"line\",\"promiser\":\"{promiser}\"}}\n\n"
            );
        }
    }
    requests += "{\"log_level\":\"info\",\"operation\":\"terminate\"}\n\n";
    fs::write(resources.join("10.toml"), definitions)?;
    fs::write(root.path().join("requests"), requests)?;
    Ok(root)
}

/// Sends all requests to the module at once.
fn module(root: &TempDir) -> Result<()> {
    let mut command = Command::new("python3");
    command.arg(root.path().join("usr/share/holo/promises/modules/keep_line.py"));
    command.env("HOLO_ROOT_DIR", root.path()).stdin(File::open(root.path().join("requests"))?);
    run(command).map(drop)
}

fn holo(root: &TempDir) -> Result<()> {
    let mut command = Command::new(binaries::binary("holo")?);
    command.arg("apply").env("HOLO_ROOT_DIR", root.path()).env("TMPDIR", root.path().join("tmp"));
    run(command).map(drop)
}

fn time(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed())
}
