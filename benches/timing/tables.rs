//! The tables, in Markdown.

use crate::common::show;
use crate::timing::limits;
use crate::timing::results::{Results, thousands};
use crate::timing::scenes::Scene;
use crate::timing::sections::Section;
use crate::timing::site::{self, cores};
use std::fmt::Write;
use std::time::Duration;

const PEERS: &str = "the same configuration for other programs";

/// The rows of the project's README: the table and size, the step of holo and that of the other program, and a title.
const SUMMARY: [(&str, usize, &str, &str, &str); 12] = [
    ("overlays", 10_000, "apply, nothing to do", "`rsync -a`, all equal", "overlays, nothing to do"),
    ("overlays", 10_000, "apply --verify, nothing to do", "`rsync -ac`, all equal", "overlays, contents compared"),
    ("overlays", 10_000, "first apply", "`rsync -a`, over other files", "overlays, first apply"),
    ("overlays", 100_000, "apply, nothing to do", "`rsync -a`, all equal", "overlays, nothing to do"),
    ("overlays", 100_000, "first apply", "`rsync -a`, over other files", "overlays, first apply"),
    ("declared files", 10_000, "apply, nothing to do", "`rsync -a`, all equal", "declared files, nothing to do"),
    ("declared files", 10_000, "first apply", "`rsync -a`, to an empty directory", "declared files, first apply"),
    ("scaffold", 10_000, "first apply", "`rsync -a`, to an empty directory", "templates, first apply"),
    ("archives", 10_000, "first apply", "`tar xf`, `sync -f`", "files of a tar, extraction"),
    ("services", 500, "first apply", "`systemctl start`", "services, start"),
    (PEERS, 200, "holo, nothing to do", "shell script, nothing to do", "entities, nothing to do (script)"),
    (PEERS, 200, "holo, nothing to do", "ansible-playbook, nothing to do", "entities, nothing to do (Ansible)"),
];

/// Returns the section of a scene. A cell contains elapsed and CPU time.
pub(crate) fn section(scene: &Scene, results: &Results) -> Section {
    let cases = results.cases(scene.name);
    let sizes: Vec<_> = cases.iter().copied().filter(|(_, of)| *of == cores()).collect();
    let mut text = machine(scene, results);
    let titles = sizes.iter().map(|(size, _)| thousands(*size));
    text += &times(scene, results, &sizes, titles, true);
    if let Some(size) = cases.iter().find(|(_, of)| *of < cores()).map(|(size, _)| *size) {
        let cases: Vec<_> = cases.into_iter().filter(|(of, _)| *of == size).collect();
        let titles =
            cases.iter().map(|(_, cores)| if *cores == 1 { "1 core".into() } else { format!("{cores} cores") });
        let _ = write!(text, "\nWith {} {}, by the number of cores:\n\n", thousands(size), scene.entities);
        text += &times(scene, results, &cases, titles, false);
    }
    text += &limits::table(scene, results);
    let _ = write!(text, "\n{}\n", scene.remarks);
    let mut name = scene.name.chars();
    let heading = name.next().into_iter().flat_map(char::to_uppercase).chain(name).collect();
    (heading, text)
}

/// Describes the machine, and its load by other processes.
fn machine(scene: &Scene, results: &Results) -> String {
    let all = || results.all(scene.name).flatten();
    let wall: f64 = all().map(|measured| measured.wall).sum();
    let others: f64 = all().map(|measured| measured.busy - measured.cpu).sum();
    let rounds = results.all(scene.name).map(Vec::len).max().unwrap_or_default();
    let place = if scene.system.is_some() { "a layer in memory above the system" } else { "a directory on disk" };
    format!(
        "Rounds: {rounds}, in {place}. {}. Other processes used {:.1} of its {} cores meanwhile.\n\n",
        site::machine(),
        (others / wall).max(0.0),
        cores()
    )
}

fn times(
    scene: &Scene,
    results: &Results,
    cases: &[(usize, usize)],
    titles: impl Iterator<Item = String>,
    has_growth: bool,
) -> String {
    let titles: Vec<String> = titles.collect();
    let more = if has_growth { " grows as N^ | memory |" } else { "" };
    let count = cases.len() + if has_growth { 2 } else { 0 };
    let mut text = format!("| {} | {} |{more}\n|---|{}\n", scene.entities, titles.join(" | "), "--:|".repeat(count));
    for step in &scene.steps {
        let key = (scene.name, step.name);
        let times: Vec<_> = cases.iter().map(|case| results.time(key, *case)).collect();
        let _ = write!(
            text,
            "| {} |{}",
            step.name,
            cells(&times, |(wall, cpu)| format!("{} ({})", seconds(wall), seconds(cpu)))
        );
        if has_growth {
            let memory = cases.last().and_then(|case| results.median(key, *case, |measured| measured.memory as f64));
            let memory = memory.map_or_else(String::new, |memory| format!("{:.0} MB", memory / 1000.0));
            let growth = growth(cases, &times).map_or_else(String::new, |exponent| format!("{exponent:.2}"));
            let _ = write!(text, " {growth} | {memory} |");
        }
        text.push('\n');
    }
    for (one, other) in scene.ratios {
        let ratios: Vec<_> = cases.iter().map(|case| ratio(results, scene.name, (one, other), *case)).collect();
        let cells = cells(&ratios, |(wall, cpu)| format!("**{wall:.2}** ({cpu:.2})"));
        let _ = writeln!(text, "| {one} ÷ {other} |{cells}{}", if has_growth { " | |" } else { "" });
    }
    text
}

fn cells(all: &[Option<(f64, f64)>], show: impl Fn((f64, f64)) -> String) -> String {
    all.iter().map(|cell| format!(" {} |", cell.map_or_else(String::new, &show))).collect()
}

/// Returns the ratios between the elapsed and CPU times of two steps.
fn ratio(
    results: &Results,
    table: &'static str,
    steps: (&'static str, &'static str),
    case: (usize, usize),
) -> Option<(f64, f64)> {
    let (one, other) = (results.time((table, steps.0), case)?, results.time((table, steps.1), case)?);
    Some((one.0 / other.0, one.1 / other.1))
}

/// Returns the exponent of growth of the CPU time between the two largest sizes.
fn growth(cases: &[(usize, usize)], times: &[Option<(f64, f64)>]) -> Option<f64> {
    let mut largest = cases.iter().zip(times).filter_map(|((size, _), time)| Some((*size as f64, (*time)?.1))).rev();
    let (last, previous) = (largest.next()?, largest.next()?);
    Some((last.1 / previous.1).ln() / (last.0 / previous.0).ln())
}

/// Returns the rows of the README's table: a title and, if it was measured, the other cells.
pub(crate) fn summary(results: &Results) -> Vec<(String, Option<String>)> {
    let cells = |table, size, step, peer| {
        let (case, show) = ((size, cores()), |(wall, cpu)| format!("{} ({})", seconds(wall), seconds(cpu)));
        let (own, other) = (results.time((table, step), case)?, results.time((table, peer), case)?);
        let (wall, cpu) = (own.0 / other.0, own.1 / other.1);
        Some(format!("{} | {}: {peer} | {wall:.2} × ({cpu:.2} ×)", show(own), show(other)))
    };
    let row = |(table, size, step, peer, name)| (format!("{} {name}", thousands(size)), cells(table, size, step, peer));
    SUMMARY.into_iter().map(row).collect()
}

fn seconds(time: f64) -> String {
    show(Duration::from_secs_f64(time))
}
