//! The tables, in Markdown.

use crate::common::show;
use crate::timing::limits;
use crate::timing::results::{Results, thousands};
use crate::timing::scenes::Scene;
use std::fmt::Write;
use std::time::Duration;

/// Returns the tables of all scenes with results. A cell contains elapsed and CPU time.
pub(crate) fn tables(scenes: &[Scene], results: &Results) -> String {
    scenes.iter().filter(|scene| !results.sizes(scene.name).is_empty()).map(|scene| table(scene, results)).collect()
}

fn table(scene: &Scene, results: &Results) -> String {
    let sizes = results.sizes(scene.name);
    let mut text = format!("### {}\n\n| {} |", capitalised(scene.name), scene.entities);
    sizes.iter().for_each(|size| text += &format!(" {} |", thousands(*size as u64)));
    text += " grows as N^ | memory |\n|---|";
    text += &"--:|".repeat(sizes.len() + 2);
    text.push('\n');
    let mut rounds = usize::MAX;
    for step in &scene.steps {
        let time = |size: &usize| {
            let median = |what: fn(&crate::timing::measurement::Measurement) -> f64| {
                results.median(scene.name, step.name, *size, what)
            };
            Some((median(|measured| measured.wall)?, median(|measured| measured.cpu)?))
        };
        let times: Vec<Option<(f64, f64)>> = sizes.iter().map(time).collect();
        if times.iter().all(Option::is_none) {
            continue;
        }
        let done = sizes.iter().map(|size| results.rounds(scene.name, step.name, *size)).filter(|rounds| *rounds > 0);
        rounds = done.chain([rounds]).min().unwrap_or(rounds);
        let cell = |time: &Option<(f64, f64)>| {
            time.map_or_else(String::new, |(wall, cpu)| format!("{} ({})", seconds(wall), seconds(cpu)))
        };
        let cells: Vec<String> = times.iter().map(cell).collect();
        let memory = sizes
            .iter()
            .rev()
            .find_map(|size| results.median(scene.name, step.name, *size, |measured| measured.memory as f64));
        let memory = memory.map_or_else(String::new, |memory| format!("{:.0} MB", memory / 1000.0));
        let growth = growth(&sizes, &times).map_or_else(String::new, |exponent| format!("{exponent:.2}"));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} | {} | {growth} | {memory} |", step.name, cells.join(" | "));
    }
    for (one, other) in scene.ratios {
        let ratios: Vec<Option<f64>> = sizes.iter().map(|size| ratio(results, scene.name, one, other, *size)).collect();
        if ratios.iter().any(Option::is_some) {
            let cell = |ratio: &Option<f64>| ratio.map_or_else(String::new, |ratio| format!("**{ratio:.2}**"));
            let cells: Vec<String> = ratios.iter().map(cell).collect();
            let _ = writeln!(text, "| {one} ÷ {other} | {} | | |", cells.join(" | "));
        }
    }
    if rounds < usize::MAX {
        let _ = writeln!(text, "\nMedians of {rounds} or more.\n");
    }
    text + &limits::table(scene, results)
}

/// Returns the ratio between the times of two steps.
pub(crate) fn ratio(results: &Results, table: &str, one: &str, other: &str, size: usize) -> Option<f64> {
    let wall = |step| results.median(table, step, size, |measured| measured.wall);
    Some(wall(one)? / wall(other)?)
}

/// Returns the exponent of growth between the smallest and the largest size.
fn growth(sizes: &[usize], times: &[Option<(f64, f64)>]) -> Option<f64> {
    let mut known = sizes.iter().zip(times).filter_map(|(size, time)| Some((*size as f64, (*time)?.0)));
    let (first, last) = (known.next()?, known.next_back()?);
    Some((last.1 / first.1).ln() / (last.0 / first.0).ln())
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Formats a time in seconds.
pub(crate) fn seconds(time: f64) -> String {
    show(Duration::from_secs_f64(time))
}
