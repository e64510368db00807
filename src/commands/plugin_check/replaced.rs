//! Judges the copies of replaced files, which the record of a run needs.

use super::finding::Rule;
use super::harness::Harness;
use super::heard::{plain, quoted};
use bstr::ByteSlice;
use holo_protocol::{Kept, Message, Replaced};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Judges the messages about replaced files.
pub(super) fn judge(harness: &mut Harness<'_, '_>, subject: &str, messages: &[Message]) {
    for message in messages {
        if let Message::Replaced(text) = message {
            let problem = problem(text, &harness.scratch.directories().cache);
            let problem = problem.map(|problem| format!("says {}, {problem}", quoted(&message.to_line())));
            harness.fail_unless(Rule::MoreMessages, subject, problem.is_none(), problem.unwrap_or_default());
        }
    }
}

/// Returns the reason for which such a message is useless, if any.
fn problem(text: &[u8], cache: &Path) -> Option<String> {
    match Replaced::parse(text) {
        None => Some("where \"replaced: COPY PATH\" is expected".to_owned()),
        // A missing file stands for "no file".
        Some(Replaced::Shown { from, to, .. }) => [&from, &to].into_iter().find_map(|file| elsewhere(file, cache)),
        Some(Replaced::File { path, .. }) if !path.is_absolute() => {
            Some("whose path should begin with a slash, as it counts from the root of the system".to_owned())
        }
        Some(Replaced::File { copy, .. }) => {
            let end = match &copy {
                Kept::Part { start, length, .. } => start.saturating_add(*length as u64),
                Kept::Nothing | Kept::File(_) => 0,
            };
            let file = copy.file()?;
            elsewhere(file, cache).or_else(|| missing(file, end))
        }
    }
}

fn elsewhere(file: &Path, cache: &Path) -> Option<String> {
    (!file.starts_with(cache)).then(|| format!("where {} is not below HOLO_CACHE_DIR", named(file)))
}

/// Returns the reason for which a file cannot be read up to this offset, if any.
fn missing(file: &Path, end: u64) -> Option<String> {
    match fs::symlink_metadata(file) {
        Err(error) => Some(format!("where {} cannot be read: {}", named(file), holo_protocol::words::reason(&error))),
        Ok(found) if found.len() < end => Some(format!("where {} has {} bytes only", named(file), found.len())),
        Ok(_) => None,
    }
}

fn named(file: &Path) -> String {
    plain(file.as_os_str().as_bytes().as_bstr())
}
