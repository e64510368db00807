//! Finds records of entities and paths without asking plugins, which may no longer have them.

use crate::history::{EntityRecord, History, Run, Runs};
use crate::subject::Subject;
use bstr::{BString, ByteSlice};
use holo_protocol::Edges;

/// The subject of a search in the records.
pub(in crate::commands) struct Sought {
    subject: Subject,
    /// The longest part of its name that appears unescaped in JSON.
    needle: BString,
}

impl Sought {
    pub(in crate::commands) fn new(subject: Subject) -> Sought {
        // JSON may escape other characters.
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        let given = &subject.given;
        let name = given.rsplit_once_str("/").map_or(&given[..], |(_, name)| name);
        let plain = name.split(|byte| !is_plain(byte)).max_by_key(|part| part.len()).unwrap_or_default();
        Sought { needle: plain.into(), subject }
    }

    /// Returns true if a record matches.
    fn is_of(&self, record: &EntityRecord) -> bool {
        let is_diff_of = |name: &BString| name.strip_prefix(b"b").is_some_and(|path| path == self.subject.path);
        self.subject.is_of(record.id.as_bstr(), &Edges::NONE)
            || record.plugin.as_bytes() == self.subject.given
            || record.diffs.iter().any(|diff| is_diff_of(&diff.to.0))
    }
}

/// Returns the runs that may have records about one of the subjects, newest first.
pub(in crate::commands) fn runs<'a>(history: &'a History, sought: &[Sought]) -> Runs<'a> {
    history.runs_with(sought.iter().map(|sought| sought.needle.clone()))
}

/// Returns a run's records about any of the subjects, last one first.
pub(in crate::commands) fn records(run: &Run, sought: &[Sought]) -> Vec<EntityRecord> {
    let is_wanted = |record: &EntityRecord| sought.iter().any(|sought| sought.is_of(record));
    let mut records: Vec<EntityRecord> = run.entities().filter(is_wanted).collect();
    records.reverse();
    records
}
