//! The summary shown in the project's README.

use crate::timing::results::{Results, thousands};
use crate::timing::tables::{ratio, seconds};
use anyhow::{Context, Result};
use std::path::Path;

const BEGIN: &str = "<!-- summary of benches/: made by `make bench` -->\n";
const END: &str = "<!-- end of the summary -->\n";

/// The rows: the table and size, the step of holo and that of the other program, and a title.
const ROWS: [(&str, usize, &str, &str, &str); 9] = [
    ("files", 10_000, "apply, nothing to do", "`rsync -ac`, all equal", "overlays, nothing to do"),
    ("files", 10_000, "first apply", "`rsync -a`, to an empty directory", "overlays, first apply"),
    ("files", 100_000, "apply, nothing to do", "`rsync -ac`, all equal", "overlays, nothing to do"),
    ("files", 100_000, "first apply", "`rsync -a`, to an empty directory", "overlays, first apply"),
    ("declared files", 10_000, "first apply", "`rsync -a`, to an empty directory", "declared files, first apply"),
    ("scaffold", 10_000, "first apply", "`rsync -a`, to an empty directory", "templates, first apply"),
    ("archives", 20_000, "first apply", "`tar xf`, `sync -f`", "files of a tar (488 MB), extraction"),
    ("packages", 500, "apply, nothing to do", "`apt-get install`, nothing to do", "packages, nothing to do"),
    ("services", 500, "first apply", "`systemctl start`", "services, start"),
];

/// Replaces the summary in a file.
pub(crate) fn replace(path: &Path, results: &Results) -> Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let (before, rest) = text.split_once(BEGIN).context("find where the summary begins")?;
    let (_, after) = rest.split_once(END).context("find where the summary ends")?;
    let text = [before, BEGIN, "\n", &summary(results), "\n", END, after].concat();
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

fn summary(results: &Results) -> String {
    let mut text = "| | holo | other program | |\n|---|--:|--:|--:|\n".to_owned();
    for (table, size, step, peer, name) in ROWS {
        let wall = |step| results.median(table, step, size, |measured| measured.wall).map(seconds);
        if let (Some(own), Some(other), Some(ratio)) = (wall(step), wall(peer), ratio(results, table, step, peer, size))
        {
            text += &format!("| {} {name} | {own} | {other}: {peer} | {ratio:.2} × |\n", thousands(size as u64));
        }
    }
    text
}
