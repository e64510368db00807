//! What is timed, how, and the tables that are made of it.

mod limits;
mod measurement;
mod probe;
mod results;
mod scenes;
mod site;
mod summary;
mod tables;

use crate::common::UnderCargo;
use anyhow::{Context, Result, ensure};
use clap::Parser;
use holo_testing::binaries;
use results::Results;
use scenes::Scene;
use site::Site;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What is counted with strace is counted with no more entities than this.
const COUNTED: usize = 1000;

#[derive(Parser)]
struct Options {
    /// What is timed; everything unless something is named
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// How many entities there are, instead of what is usual for the table
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// The number of times that everything is timed; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Leaves out counting system calls
    #[arg(long)]
    no_calls: bool,
    /// A file that results are added to; the tables are of all that is in it
    #[arg(long)]
    results: Option<PathBuf>,
    /// A program that everything timed is run through, except in systems of their own
    #[arg(long)]
    through: Option<OsString>,
    /// A file that the tables are written to
    #[arg(long)]
    write: Option<PathBuf>,
    /// A file whose summary is replaced
    #[arg(long)]
    summary: Option<PathBuf>,
    #[command(flatten)]
    under_cargo: UnderCargo,
}

/// Measures what the command line asks for.
pub(crate) fn main() -> Result<()> {
    if let Some(arguments) = probe::arguments() {
        return probe::run(&arguments);
    }
    let options = Options::parse();
    if !options.under_cargo.measures("speed")? {
        return Ok(());
    }
    let holo = binaries::binary("holo")?;
    eprint(&format!("binaries: {}", holo.parent().unwrap_or(&holo).display()));
    let scenes = scenes::all();
    for name in &options.only {
        ensure!(scenes.iter().any(|scene| scene.name == name), "there is no table {name:?}");
    }
    let mut results = Results::open(options.results.clone())?;
    measure(&options, &scenes, &mut results)?;
    let text = tables::tables(&scenes, &results);
    println!("{text}");
    if let Some(path) = &options.write {
        std::fs::write(path, &text).with_context(|| format!("write {}", path.display()))?;
    }
    if let Some(path) = &options.summary {
        summary::replace(path, &results)?;
    }
    Ok(())
}

/// Says what is being done, so that someone who waits knows.
#[expect(clippy::print_stderr, reason = "the tables are for standard output")]
fn eprint(text: &str) {
    eprintln!("{text}");
}

fn measure(options: &Options, scenes: &[Scene], results: &mut Results) -> Result<()> {
    let asked = |scene: &&Scene| options.only.is_empty() || options.only.iter().any(|name| scene.name == name);
    // File systems hesitate to take an inode again that was freed a moment ago, and search long for others: nothing is removed before all
    // first applies are timed.
    let mut sites = Vec::new();
    for scene in scenes.iter().filter(asked) {
        if let Some(missing) = scene.missing() {
            eprint(&format!("{} is left out: {missing}", scene.name));
            continue;
        }
        let sizes = if options.sizes.is_empty() { scene.sizes } else { &options.sizes };
        for round in 0..options.rounds {
            for &size in sizes {
                eprint(&format!("{}: {size} in round {}", scene.name, round + 1));
                let site = scene.site(size, options.through.clone())?;
                time(scene, &site, false, round, results)?;
                sites.push((scene, site, round));
            }
        }
    }
    for (scene, site, round) in &sites {
        time(scene, site, true, *round, results)?;
    }
    drop(sites);
    if !options.no_calls && options.rounds > 0 {
        for scene in scenes.iter().filter(asked).filter(|scene| scene.missing().is_none()) {
            count(options, scene, results)?;
        }
    }
    Ok(())
}

/// Times the steps of a scene, either those that remove something or the others.
fn time(scene: &Scene, site: &Site, is_late: bool, round: usize, results: &mut Results) -> Result<()> {
    for step in scene.in_order(round).filter(|step| step.is_late == is_late) {
        let measured = step.measure(site).with_context(|| format!("{}: {}", scene.name, step.name))?;
        results.add(scene.name, step.name, site.size, measured)?;
    }
    Ok(())
}

/// Counts the system calls of each step, in a site of its own.
fn count(options: &Options, scene: &Scene, results: &mut Results) -> Result<()> {
    let sizes = if options.sizes.is_empty() { scene.sizes } else { &options.sizes };
    let Some(size) = sizes.iter().copied().filter(|size| *size <= COUNTED).max() else { return Ok(()) };
    if !probe::has_strace() {
        eprint("system calls are left out: there is no strace");
        return Ok(());
    }
    eprint(&format!("{}: system calls of {size}", scene.name));
    let site = scene.site(size, None)?;
    for is_late in [false, true] {
        for step in scene.in_order(0).filter(|step| step.is_late == is_late) {
            let before = site.inodes()?;
            let calls = step.count(&site).with_context(|| format!("{}: {}", scene.name, step.name))?;
            results.add_calls(scene.name, step.name, size, calls)?;
            if let (Some(before), Some(after)) = (before, site.inodes()?) {
                results.add_inodes(scene.name, step.name, size, after.difference(&before).count())?;
            }
        }
    }
    Ok(())
}

/// Returns the directory for everything that is made.
fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}
