//! Compares counted operations of each step with the minimum that any program must perform for the same work.

use crate::timing::results::{Calls, Results, thousands};
use crate::timing::scenes::{Scene, Step};
use std::fmt::Write;

/// The system calls that wait for the disk.
const SYNCS: [&str; 4] = ["fsync", "fdatasync", "syncfs", "sync"];
/// The block size of the file system in KiB, which is the size of a small file.
const BLOCK: f64 = 4.0;

/// The minimum work of a step for each entity, as far as it can be counted, and the reason.
#[derive(Clone, Copy)]
pub(crate) struct Least {
    calls: Option<f64>,
    inodes: Option<f64>,
    written: Option<f64>,
    syncs: Option<f64>,
    why: &'static str,
}

impl Least {
    /// A step that creates no files.
    pub(crate) const fn calls(calls: f64, why: &'static str) -> Least {
        Least { calls: Some(calls), inodes: Some(0.0), written: None, syncs: None, why }
    }

    /// A limit that cannot be counted.
    pub(crate) const fn words(why: &'static str) -> Least {
        Least { calls: None, inodes: None, written: None, syncs: None, why }
    }

    /// A step that creates this number of files of one block each.
    pub(crate) const fn making(self, inodes: f64) -> Least {
        Least { inodes: Some(inodes), written: Some(inodes * BLOCK), ..self }
    }

    /// A step that writes this number of KiB.
    pub(crate) const fn writing(self, written: f64) -> Least {
        Least { written: Some(written), ..self }
    }

    /// A step that waits for the disk this number of times.
    pub(crate) const fn waiting(self, syncs: f64) -> Least {
        Least { syncs: Some(syncs), ..self }
    }
}

/// Returns the table of the counts of a scene; empty if there are none.
pub(crate) fn table(scene: &Scene, results: &Results) -> String {
    let counts = |step: &Step| results.counts((scene.name, step.name));
    let Some((size, _)) = scene.steps.iter().find_map(counts) else { return String::new() };
    let mut text = format!(
        "\nCounts for each of {} {}, and their ratio to the minimum:\n\n| | system calls | inodes created | KiB written | waits for the disk | \
         minimum |\n|---|--:|--:|--:|--:|---|\n",
        thousands(*size),
        scene.entities
    );
    for step in &scene.steps {
        let Some((size, (calls, inodes))) = counts(step) else { continue };
        let least = step.least.unwrap_or(Least::words(""));
        let each = |count: f64| count / *size as f64;
        let written = results.cases(scene.name).into_iter().rev().find_map(|case| {
            let written = results.median((scene.name, step.name), case, |measured| measured.written as f64)?;
            Some(written / case.0 as f64)
        });
        let cells = [
            cell(calls.get("total").map(|total| each(*total as f64)), least.calls),
            cell(inodes.map(|inodes| each(inodes as f64)), least.inodes),
            cell(written, least.written),
            cell(Some(each(syncs(calls) as f64)), least.syncs),
        ];
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} | {} | {} |", step.name, cells.join(" | "), least.why);
    }
    text
}

/// Formats a count, and its ratio to the minimum.
fn cell(counted: Option<f64>, least: Option<f64>) -> String {
    match (counted, least) {
        (None, _) => String::new(),
        (Some(counted), None | Some(0.0)) => format!("{counted:.1}"),
        (Some(counted), Some(least)) => format!("{counted:.1} (**{:.1} ×** {least})", counted / least),
    }
}

fn syncs(calls: &Calls) -> u64 {
    SYNCS.iter().filter_map(|name| calls.get(*name)).sum()
}
