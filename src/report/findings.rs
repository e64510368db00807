//! Shows findings in columns.

use super::console::Console;
use crate::finding::Finding;
use holo_protocol::Level;
use holo_protocol::session::Stream;
use std::collections::BTreeMap;

/// The widths of the first two columns.
const LEVEL_WIDTH: usize = 7;
const CHECK_WIDTH: usize = 13;

/// Shows a finding: level, check and title in columns, and the remedy below the title.
pub(super) fn show(finding: &Finding, console: &mut Console) {
    let level = finding.level();
    let word = console.level(level, &format!("{:<LEVEL_WIDTH$}", level.word()));
    let check = format!("  {:<CHECK_WIDTH$}  ", finding.check);
    console.raw(Stream::Stdout, &[&word[..], check.as_bytes(), finding.title(), b"\n"].concat());
    if let Some(remedy) = finding.remedy() {
        let indent = " ".repeat(LEVEL_WIDTH + CHECK_WIDTH + 4);
        console.raw(Stream::Stdout, &[indent.as_bytes(), "→ ".as_bytes(), remedy, b"\n"].concat());
    }
}

/// Returns the summary line: `1 error, 2 warnings, 12 ok`.
pub(super) fn counted(counts: &BTreeMap<Level, usize>) -> String {
    let count = |level| counts.get(&level).copied().unwrap_or_default();
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (errors, warnings) = (plural(count(Level::Error), "error"), plural(count(Level::Warning), "warning"));
    format!("\n{errors}, {warnings}, {} ok\n", count(Level::Ok))
}
