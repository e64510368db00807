//! Measures the dispatcher's own cost: starting with all plugins, and planning. See the README.
#![expect(clippy::disallowed_methods, reason = "measured programs are started directly")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

mod common;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use common::{UnderCargo, median, run, show};
use holo::entities::node::Node;
use holo::entities::node::PerEntity;
use holo::plan::Plan;
use holo_protocol::EntityReport;
use holo_testing::binaries;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[derive(Parser)]
struct Options {
    /// The number of planned entities
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 10_000, 100_000])]
    sizes: Vec<usize>,
    /// The number of edges of each entity
    #[arg(long, default_value_t = 5)]
    edges: usize,
    /// The number of repetitions; the median counts
    #[arg(long, default_value_t = 15)]
    runs: usize,
    #[command(flatten)]
    under_cargo: UnderCargo,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if !options.under_cargo.measures("engine")? {
        return Ok(());
    }
    start(options.runs)?;
    for size in options.sizes {
        let reports = tangle(size, options.edges);
        let times = (0..options.runs).map(|_| plan(&reports)).collect::<Result<_>>()?;
        let time = median(times).unwrap_or_default();
        println!("plan of {size} entities with {} edges: {}", size * options.edges, show(time));
    }
    Ok(())
}

/// Times a scan with all plugins and no definitions, compared with running each plugin's `info` once.
fn start(runs: usize) -> Result<()> {
    let holo = binaries::binary("holo")?;
    let plugins = plugins(holo.parent().context("find the folder of holo")?)?;
    ensure!(!plugins.is_empty(), "there are no plugins next to {}", holo.display());
    let root = TempDir::new_in(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
    for folder in ["etc", "run", "tmp"] {
        fs::create_dir_all(root.path().join(folder))?;
    }
    fs::write(root.path().join("etc/os-release"), "ID=debian\n")?;
    let lines = plugins.iter().map(|(id, program)| format!("plugin {id}={}\n", program.display()));
    fs::write(root.path().join("etc/holorc"), lines.collect::<String>())?;
    for (id, _) in &plugins {
        fs::create_dir_all(root.path().join("usr/share/holo").join(id))?;
    }
    let command = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env("HOLO_ROOT_DIR", root.path()).env("TMPDIR", root.path().join("tmp"));
        command.env("HOLO_API_VERSION", "3").current_dir(root.path());
        command
    };
    let (mut infos, mut scans) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let begin = Instant::now();
        for (_, program) in &plugins {
            run(command(program, &["info"]))?;
        }
        infos.push(begin.elapsed());
        let begin = Instant::now();
        run(command(&holo, &["scan", "-s"]))?;
        scans.push(begin.elapsed());
    }
    let (infos, scans) = (median(infos).unwrap_or_default(), median(scans).unwrap_or_default());
    let ids: Vec<&str> = plugins.iter().map(|(id, _)| id.as_str()).collect();
    println!("{} plugins: {}", ids.len(), ids.join(" "));
    println!("`info` of each, one after the other: {}", show(infos));
    println!("`holo scan -s`, no definitions: {}", show(scans));
    println!("ratio: {:.2}", scans.as_secs_f64() / infos.as_secs_f64());
    Ok(())
}

/// Returns the plugins in a directory, by ID.
fn plugins(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut plugins = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Cargo keeps a list of sources next to each program.
        if let Some(id) = name.strip_prefix("holo-").filter(|id| !id.contains('.'))
            && path.is_file()
        {
            plugins.push((id.to_owned(), path.clone()));
        }
    }
    plugins.sort();
    Ok(plugins)
}

/// Returns entities that wait for others at several distances, with every kind of edge.
fn tangle(size: usize, edges: usize) -> Vec<EntityReport> {
    let name = |number: usize| format!("entity:{number:06}");
    let mut reports: Vec<EntityReport> = (0..size).map(|number| EntityReport::new(name(number))).collect();
    for (number, report) in reports.iter_mut().enumerate() {
        for edge in 0..edges {
            // Edges lead to smaller numbers, so there are no cycles.
            let other = number / (edge + 2);
            if other == number {
                continue;
            }
            let declared = &mut report.edges;
            let list = match edge % 4 {
                0 => &mut declared.requires,
                1 => &mut declared.after,
                2 => &mut declared.subscribes,
                _ => {
                    declared.needs.push(holo_protocol::Asset::new("unit", name(other)));
                    continue;
                }
            };
            list.push(name(other).into());
        }
        report.edges.provides.push(holo_protocol::Asset::new("unit", name(number)));
    }
    // Entities that others wait for come last.
    reports.reverse();
    reports
}

fn plan(reports: &[EntityReport]) -> Result<Duration> {
    let edges: Vec<_> = reports.iter().map(|report| report.edges.borrowed()).collect();
    let nodes: PerEntity<Node<'_>> = reports
        .iter()
        .zip(&edges)
        .map(|(report, edges)| Node { id: report.id.as_ref(), plugin: 0.into(), edges, origin: "".into() })
        .collect();
    let begin = Instant::now();
    let plan = Plan::new(&nodes).context("plan")?;
    let sets = plan.sets(&nodes.iter().map(|_| true).collect());
    let time = begin.elapsed();
    ensure!(sets.iter().map(Vec::len).sum::<usize>() == nodes.len(), "the plan lacks an entity");
    Ok(time)
}
