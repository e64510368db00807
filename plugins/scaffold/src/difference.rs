//! The difference between a target as provisioned and its current state, as two files that can be compared.

use crate::entity::Scaffold;
use crate::error::Result;
use crate::executor::Executor;
use bstr::ByteSlice;
use holo_change::Tree;
use holo_change::error::PathError;
use holo_change::tracked::{State, Track, Tracker};
use holo_plugin::{FilePair, Host};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Returns the two files, or `None` if the target was not changed since it was provisioned. If only the content of one
/// file differs, the pair consists of that file's two versions. Otherwise each file lists all paths that differ, with
/// the lines of their files, and each line begins with its path.
pub(crate) fn find(entity: &Scaffold, host: &Host) -> Result<Option<FilePair>> {
    let executor = Executor::open(host)?;
    let Some(remembered) = executor.recall(entity)? else { return Ok(None) };
    let target = executor.tracker.canonical(&entity.target)?;
    let tracker = executor.inside(&target)?;
    let mut changed = Vec::new();
    for (path, track) in remembered.base.tracks().iter() {
        let current = tracker.state_of(remembered.base.tracks(), &path)?;
        if path.starts_with(&target)
            && !track.sensitive
            && let Track { provisioned: Some(made), .. } = track
            && *made != current
        {
            changed.push((path, made, current));
        }
    }
    match &changed[..] {
        [] => Ok(None),
        [(path, made, current)] if is_shown_by_files(made, current) => {
            Ok(Some(tracker.difference(&entity.id(), path, Some(made))?))
        }
        _ => all(entity, &target, host, &tracker, &changed).map(Some),
    }
}

/// Returns true if a difference of the two files, with their modes, shows the complete change.
fn is_shown_by_files(made: &State, current: &State) -> bool {
    let is_file = |state: &State| matches!(state, State::File { .. } | State::Absent);
    let owners = |state: &State| state.attributes().map(|attributes| (attributes.uid, attributes.gid));
    is_file(made) && is_file(current) && (made.content() != current.content() || owners(made) == owners(current))
}

fn all(
    entity: &Scaffold,
    target: &Path,
    host: &Host,
    tracker: &Tracker,
    changed: &[(PathBuf, &State, State)],
) -> Result<FilePair> {
    let (mut made, mut found) = (Vec::new(), Vec::new());
    for (path, state, current) in changed {
        let below = path.strip_prefix(target).unwrap_or(path);
        let name = if below.as_os_str().is_empty() { ".".into() } else { below.to_string_lossy() };
        describe(&name, state, || tracker.content(state.content()?).ok(), &mut made);
        describe(&name, current, || tracker.place(path).read_if_file().ok().flatten(), &mut found);
    }
    let folder = Path::new("difference").join(target.strip_prefix("/").unwrap_or(target));
    let cache = Tree::open(host.cache_dir())?;
    let write = |name: &str, text: &[u8]| {
        let place = cache.place(&folder.join(name));
        place.create_folder()?;
        let written = place.create()?.write_all(text);
        written.map(|()| place.shown()).map_err(|error| PathError::new("write", place.shown(), error))
    };
    let pair = FilePair::new(write("made", &made)?, write("found", &found)?).with_applied_label(entity.id());
    Ok(pair.with_to_label(tracker.place(target).shown().as_os_str().as_bytes()))
}

/// Appends a description of the state at a path, line by line.
fn describe(name: &str, state: &State, read: impl FnOnce() -> Option<Vec<u8>>, text: &mut Vec<u8>) {
    let mut head = format!("{name}: {}", state.kind());
    if let State::Symlink { target, .. } = state {
        // Writing to a string cannot fail.
        let _ = write!(head, " to {}", target.as_bstr());
    }
    if let Some(attributes) = state.attributes() {
        let _ = write!(head, ", mode {:04o}", attributes.mode);
        // The owner is omitted if it is root, or in test mode the user who runs this process.
        if attributes.uid != rustix::process::geteuid().as_raw() {
            let _ = write!(head, ", owner {}", attributes.uid);
        }
        if attributes.gid != rustix::process::getegid().as_raw() {
            let _ = write!(head, ", group {}", attributes.gid);
        }
    }
    text.extend_from_slice(head.as_bytes());
    text.push(b'\n');
    let Some(content) = state.content().and_then(|_| read()) else { return };
    if content.contains(&0) || content.to_str().is_err() {
        let digest = state.content().map_or("", |digest| digest.as_str());
        text.extend_from_slice(format!("{name}| {} bytes with the SHA-256 {digest}\n", content.len()).as_bytes());
        return;
    }
    for line in content.lines_with_terminator() {
        text.extend_from_slice(format!("{name}| ").as_bytes());
        text.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            text.extend_from_slice(b"\\ without a newline at the end\n");
        }
    }
}
