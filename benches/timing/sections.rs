//! The files into which tables are written: everything that was not measured stays as it is.

use anyhow::{Context, Result};
use std::path::Path;

const BEGIN: &str = "<!-- summary of benches/: made by `make bench` -->\n";
const END: &str = "<!-- end of the summary -->\n";

/// A second-level heading, and the text below it.
pub(crate) type Section = (String, String);

/// Replaces the sections with these headings, and appends those that are missing.
pub(crate) fn replace(path: &Path, sections: &[Section]) -> Result<()> {
    let mut text = read(path)?;
    for (heading, section) in sections {
        let begin = format!("\n## {heading}\n");
        let section = format!("{begin}\n{}\n", section.trim());
        text = match text.split_once(&begin) {
            Some((before, rest)) => {
                let after = rest.find("\n## ").map_or("", |end| rest.get(end..).unwrap_or_default());
                [before, &section, after].concat()
            }
            None => text.trim_end().to_owned() + "\n" + &section,
        };
    }
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// Replaces a table between markers. Each of its rows is a title and, if it was measured, the other cells.
pub(crate) fn replace_rows(path: &Path, rows: &[(String, Option<String>)]) -> Result<()> {
    let text = read(path)?;
    let (before, rest) = text.split_once(BEGIN).context("find where the table begins")?;
    let (old, after) = rest.split_once(END).context("find where the table ends")?;
    let mut table = "\n| | holo | other program | |\n|---|--:|--:|--:|\n".to_owned();
    for (title, cells) in rows {
        let begin = format!("| {title} |");
        let kept = || old.lines().find(|line| line.starts_with(&begin)).map(str::to_owned);
        if let Some(row) = cells.as_ref().map(|cells| format!("{begin} {cells} |")).or_else(kept) {
            table += &(row + "\n");
        }
    }
    let text = [before, BEGIN, &table, "\n", END, after].concat();
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}
