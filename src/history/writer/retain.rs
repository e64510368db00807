//! The removal of records that are too old, or too many.

use crate::error::IoError;
use crate::history::reader;
use crate::retention::Runs;
use crate::run_id::RunId;
use bstr::ByteSlice;
use jiff::Timestamp;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Removes the files of months that are over for longer than the limit, and the oldest records while all of them are too large.
pub(super) fn retain(directory: &Path, limits: &Runs, now: Timestamp) -> Result<(), IoError> {
    let months = reader::months(directory);
    let Some(current) = months.first() else { return Ok(()) };
    let oldest = now.checked_sub(limits.age()).ok().and_then(|time| RunId::at(time).month());
    let mut left = limits.size;
    for month in &months {
        let path = directory.join(month);
        let size = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        let is_old = month != current && oldest.as_ref().is_some_and(|oldest| month.as_str() < oldest.as_str());
        if is_old || (size > left && month != current) {
            // Older ones would be a gap.
            left = 0;
            fs::remove_file(&path).map_err(|error| IoError::new("unlink", &path, error))?;
        } else if size > left {
            shorten(&path, left).map_err(|error| IoError::new("write", &path, error))?;
            left = 0;
        } else {
            left -= size;
        }
    }
    Ok(())
}

/// Leaves only the newest runs in a file: as many as fill three quarters of the size, so that there is room for the next ones.
fn shorten(path: &Path, size: u64) -> io::Result<()> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(size - size / 4)))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let began = text.find(format!("\n{}", reader::BEGAN)).map_or(text.len(), |newline| newline + 1);
    let new = path.with_extension("new");
    let mut kept = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    kept.write_all(text.get(began..).unwrap_or_default())?;
    kept.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn month(directory: &Path, name: &str, runs: usize) {
        let line = |run| format!("{}\"version\":1,\"run\":\"{run:04}\"}}\n{}\n", reader::BEGAN, "x".repeat(1000));
        fs::write(directory.join(name), (0..runs).map(line).collect::<String>()).unwrap();
    }

    fn left(limits: &Runs) -> Vec<(String, u64)> {
        let folder = tempfile::tempdir().unwrap();
        for (name, runs) in [("2026-11.jsonl", 10), ("2026-10.jsonl", 20), ("2026-08.jsonl", 5), ("2025-10.jsonl", 1)] {
            month(folder.path(), name, runs);
        }
        retain(folder.path(), limits, "2026-11-22T00:00:00Z".parse().unwrap()).unwrap();
        let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
        left.sort_by_key(fs::DirEntry::file_name);
        left.iter()
            .map(|file| (file.file_name().into_string().unwrap(), file.metadata().unwrap().len() >> 10))
            .collect()
    }

    fn names(limits: &Runs) -> String {
        left(limits).into_iter().map(|(name, _)| name.replace(".jsonl", "")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn old_months_go_and_too_many_records_too() {
        let limits = |days, size: u64| Runs { days, size: size << 10 };
        assert_eq!(names(&limits(400, 1000)), "2025-10 2026-08 2026-10 2026-11");
        assert_eq!(names(&limits(385, 1000)), "2026-08 2026-10 2026-11");
        assert_eq!(names(&limits(1, 1000)), "2026-11");
        // The limit is counted from the newest, and nothing is left behind a gap.
        assert_eq!(names(&limits(400, 35)), "2026-10 2026-11");
        assert_eq!(names(&limits(400, 15)), "2026-11");
    }

    #[test]
    fn the_newest_runs_of_a_month_that_is_too_large_are_kept_whole() {
        let folder = tempfile::tempdir().unwrap();
        month(folder.path(), "2026-11.jsonl", 10);
        retain(folder.path(), &Runs { days: 400, size: 5000 }, "2026-11-22T00:00:00Z".parse().unwrap()).unwrap();
        let text = fs::read_to_string(folder.path().join("2026-11.jsonl")).unwrap();
        assert!(text.starts_with(reader::BEGAN) && text.len() < 3750, "{text}");
        assert_eq!(text.matches("\"run\"").count(), 3, "{text}");
        assert!(text.contains("\"0009\""), "{text}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
