//! Measures the scenes, and prints the tables.

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

/// The maximum number of entities for steps that are counted with strace.
const COUNTED: usize = 1000;

#[derive(Parser)]
struct Options {
    /// The scenes to measure [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The numbers of entities, instead of those of the scene
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// The number of rounds; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Do not count system calls
    #[arg(long)]
    no_calls: bool,
    /// A file to which results are appended; the tables contain all of its results
    #[arg(long)]
    results: Option<PathBuf>,
    /// A program through which every timed program is run, except on systems of their own
    #[arg(long)]
    through: Option<OsString>,
    /// A file to which the tables are written
    #[arg(long)]
    write: Option<PathBuf>,
    /// A file whose summary is replaced
    #[arg(long)]
    summary: Option<PathBuf>,
    #[command(flatten)]
    under_cargo: UnderCargo,
}

/// Runs the measurements requested on the command line.
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

/// Reports progress to the user.
#[expect(clippy::print_stderr, reason = "progress goes to standard error")]
fn eprint(text: &str) {
    eprintln!("{text}");
}

fn measure(options: &Options, scenes: &[Scene], results: &mut Results) -> Result<()> {
    let asked = |scene: &&Scene| options.only.is_empty() || options.only.iter().any(|name| scene.name == name);
    // File systems avoid inodes that were freed a moment ago, and search long for others. Therefore all first applies
    // are timed before any files are removed.
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

/// Times the steps of a scene, either those that remove files or the others.
fn time(scene: &Scene, site: &Site, is_late: bool, round: usize, results: &mut Results) -> Result<()> {
    for step in scene.in_order(round).filter(|step| step.is_late == is_late) {
        let measured = step.measure(site).with_context(|| format!("{}: {}", scene.name, step.name))?;
        results.add(scene.name, step.name, site.size, measured)?;
    }
    Ok(())
}

/// Counts the system calls of each step, on a separate site.
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

/// Returns the directory for all sites.
fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}
