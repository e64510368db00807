//! Compares holo with programs that do the same work, and writes the tables. See the README.
#![expect(clippy::disallowed_methods, reason = "measured programs are started directly")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

mod common;
mod timing {
    //! The parts of the benchmark.
    pub(crate) mod limits;
    pub(crate) mod probe;
    pub(crate) mod results;
    pub(crate) mod scenes;
    pub(crate) mod sections;
    pub(crate) mod site;
    pub(crate) mod tables;
}

use anyhow::{Context, Result, ensure};
use clap::Parser;
use common::UnderCargo;
use holo_testing::binaries;
use std::path::PathBuf;
use timing::results::Results;
use timing::scenes::{self, Scene};
use timing::site::{self, Site};
use timing::{probe, sections, tables};

/// The maximum number of entities for steps that are counted with strace.
const COUNTED: usize = 1000;
/// The maximum number of entities in a root that are also timed with fewer cores. On systems of their own, it is the
/// smallest number.
const WITH_FEWER_CORES: usize = 10_000;
const CORES: [usize; 2] = [1, 2];

#[derive(Parser)]
struct Options {
    /// The scenes to measure [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The maximum number of entities
    #[arg(long, default_value_t = usize::MAX)]
    at_most: usize,
    /// The number of rounds; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// A file whose sections with these tables are replaced
    #[arg(long)]
    write: Option<PathBuf>,
    /// A file whose summary is replaced
    #[arg(long)]
    summary: Option<PathBuf>,
    #[command(flatten)]
    under_cargo: UnderCargo,
}

fn main() -> Result<()> {
    if let Some(arguments) = probe::arguments() {
        return probe::run(&arguments);
    }
    let options = Options::parse();
    if !options.under_cargo.measures("speed")? {
        return Ok(());
    }
    ensure!(options.rounds > 0 && options.at_most >= 20, "--rounds must be at least 1, and --at-most at least 20");
    let holo = binaries::binary("holo")?;
    eprint(&format!("binaries: {}", holo.parent().unwrap_or(&holo).display()));
    let mut scenes = scenes::all();
    for name in &options.only {
        ensure!(scenes.iter().any(|scene| scene.name == name), "there is no table {name:?}");
    }
    scenes.retain(|scene| options.only.is_empty() || options.only.iter().any(|name| scene.name == name));
    scenes.retain(|scene| {
        let missing = scene.missing();
        missing.iter().for_each(|missing| eprint(&format!("{} is left out: {missing}", scene.name)));
        missing.is_none()
    });
    let mut results = Results::default();
    measure(&options, &scenes, &mut results)?;
    let tables: Vec<_> = scenes.iter().map(|scene| tables::section(scene, &results)).collect();
    tables.iter().for_each(|(heading, text)| println!("## {heading}\n\n{text}"));
    if let Some(path) = &options.write {
        sections::replace(path, &tables)?;
    }
    if let Some(path) = &options.summary {
        sections::replace_rows(path, &tables::summary(&results))?;
    }
    Ok(())
}

/// Reports progress to the user.
#[expect(clippy::print_stderr, reason = "progress goes to standard error")]
fn eprint(text: &str) {
    eprintln!("{text}");
}

fn measure(options: &Options, scenes: &[Scene], results: &mut Results) -> Result<()> {
    // File systems avoid inodes that were freed a moment ago, and search long for others. Therefore all first applies
    // are timed before any files are removed, except on systems of their own, which are in memory.
    let mut sites = Vec::new();
    for scene in scenes {
        let sizes = scene.sizes(options.at_most);
        let with_fewer = match scene.system {
            Some(_) => sizes.first().copied(),
            None => sizes.iter().copied().filter(|&size| size <= WITH_FEWER_CORES).max(),
        };
        let fewer = with_fewer
            .into_iter()
            .flat_map(|size| CORES.into_iter().filter(|&cores| cores < site::cores()).map(move |cores| (size, cores)));
        let all: Vec<_> = sizes.iter().map(|&size| (size, site::cores())).chain(fewer).collect();
        for round in 0..options.rounds {
            for &(size, cores) in &all {
                eprint(&format!("{}: {size} in round {}, {cores} cores", scene.name, round + 1));
                let site = scene.site(size, cores)?;
                time(scene, &site, false, round, results)?;
                if scene.system.is_some() {
                    time(scene, &site, true, round, results)?;
                } else {
                    sites.push((scene, site, round));
                }
            }
        }
    }
    for (scene, site, round) in &sites {
        time(scene, site, true, *round, results)?;
    }
    drop(sites);
    scenes.iter().filter(|scene| scene.has_limits()).try_for_each(|scene| count(options, scene, results))
}

/// Times the steps of a scene, either those that remove files or the others.
fn time(scene: &Scene, site: &Site, is_late: bool, round: usize, results: &mut Results) -> Result<()> {
    for step in scene.in_order(round).filter(|step| step.is_late == is_late) {
        let measured = step.measure(site).with_context(|| format!("{}: {}", scene.name, step.name))?;
        results.add(scene.name, step.name, (site.size, site.cores), measured);
    }
    Ok(())
}

/// Counts the system calls of each step, and the inodes that it creates, on a separate site.
fn count(options: &Options, scene: &Scene, results: &mut Results) -> Result<()> {
    let Some(size) = scene.sizes(options.at_most).into_iter().filter(|size| *size <= COUNTED).max() else {
        return Ok(());
    };
    if !probe::has_strace() {
        eprint("system calls are left out: there is no strace");
        return Ok(());
    }
    eprint(&format!("{}: system calls of {size}", scene.name));
    let site = scene.site(size, site::cores())?;
    for is_late in [false, true] {
        for step in scene.in_order(0).filter(|step| step.is_late == is_late) {
            let before = site.inodes()?;
            let calls = step.count(&site).with_context(|| format!("{}: {}", scene.name, step.name))?;
            let after = site.inodes()?;
            let inodes = before.zip(after).map(|(before, after)| after.difference(&before).count());
            results.add_counts(scene.name, step.name, size, (calls, inodes));
        }
    }
    Ok(())
}
