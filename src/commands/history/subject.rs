//! Entities and paths that records are looked for by: without asking plugins, which may not know them any more.

use crate::history::{EntityRecord, Run};
use crate::root::{Root, normalise};
use bstr::{BString, ByteSlice};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// An entity, a plugin or a path.
pub(super) struct Subject {
    /// The text as it was given.
    given: BString,
    /// The path below the root that it is, if it can be one.
    path: BString,
    /// The longest part of it that a line of JSON has as it is.
    needle: BString,
}

impl Subject {
    /// Returns the subject that a person names. A path counts from the working directory, and may be written with the root before it.
    pub(super) fn new(given: &OsString, root: &Root) -> Subject {
        let path = std::path::absolute(Path::new(given)).map(|path| normalise(&path)).unwrap_or_default();
        let base = std::path::absolute(root.join("")).map(|base| normalise(&base)).unwrap_or_default();
        let path = path.strip_prefix(&base).map_or(path.clone(), |below| Path::new("/").join(below));
        let given = BString::from(given.clone().into_vec());
        let path = BString::from(path.as_os_str().as_bytes());
        // JSON writes other letters in ways of its own.
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        let name = given.rsplit_once_str("/").map_or(&given[..], |(_, name)| name);
        let plain = name.split(|byte| !is_plain(byte)).max_by_key(|part| part.len()).unwrap_or_default();
        Subject { needle: plain.into(), given, path }
    }

    /// Returns true if a record is about it.
    fn is_of(&self, record: &EntityRecord) -> bool {
        let id = &record.id.0;
        let name = id.split_once_str(":").map_or(&id[..], |(_, name)| name);
        let is_diff_of = |name: &BString| name.strip_prefix(b"b").is_some_and(|path| path == self.path);
        *id == self.given
            || name == self.given
            || name == self.path
            || record.plugin.as_bytes() == self.given
            || record.diffs.iter().any(|diff| is_diff_of(&diff.to.0))
    }
}

/// Returns the records of a run that are about one of the subjects, the last one first.
pub(super) fn records(run: &Run, subjects: &[Subject]) -> Vec<EntityRecord> {
    let may_be = |line: &[u8]| subjects.iter().any(|subject| line.contains_str(&subject.needle));
    let is_wanted = |record: &EntityRecord| subjects.iter().any(|subject| subject.is_of(record));
    let mut records: Vec<EntityRecord> = run.matching(may_be).filter(is_wanted).collect();
    records.reverse();
    records
}
