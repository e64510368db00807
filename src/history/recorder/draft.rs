//! The record of the current entity, before it is finished.

use crate::entity::Entity;
use crate::history::record::{DiffRecord, EntityRecord, RefusalRecord, RunResult};
use crate::preview::{self, Difference};
use crate::root::Root;
use crate::run_id::RunId;
use bstr::{BString, ByteSlice};
use holo_protocol::session::Stream;
use holo_protocol::{Message, Replaced, Text};
use std::time::Duration;

/// The maximum size of a recorded difference, in bytes.
const MAX_DIFF: usize = 64 << 10;
/// The maximum size, in bytes, of recorded output about a failed entity.
const MAX_OUTPUT: usize = 4 << 10;

/// The messages so far about the current entity.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) refreshed_by: Vec<Text>,
    pub(super) reason: Option<Text>,
    changes: Vec<Text>,
    refused: Vec<RefusalRecord>,
    diffs: Vec<DiffRecord>,
    /// The replaced files, as `COPY PATH`, or `FROM TAB TO TAB NAME` for an object that is not a file.
    replaced: Vec<BString>,
    /// The end of the output to stderr.
    output: BString,
}

impl Draft {
    /// Clears the messages about the previous entity, which are almost always empty already.
    pub(super) fn clear(&mut self) {
        *self = Draft::default();
    }

    pub(super) fn message(&mut self, message: &Message) {
        match message {
            Message::Changed(text) | Message::ChangedQuietly(text) => self.changes.push(text.clone().into()),
            Message::Replaced(text) => self.replaced.push(text.clone()),
            Message::RequiresForceToOverwrite => self.refused.push(RefusalRecord::Overwrite),
            Message::RequiresForceToRestore => self.refused.push(RefusalRecord::Restore),
            Message::RequiresForce(reason) => {
                self.refused.push(RefusalRecord::Other { reason: reason.clone().into() });
            }
            _ => {}
        }
    }

    pub(super) fn output(&mut self, stream: Stream, text: &[u8]) {
        if matches!(stream, Stream::Stderr) {
            self.output.extend_from_slice(text);
            let more = self.output.len().saturating_sub(MAX_OUTPUT);
            self.output.drain(..more);
        }
    }

    pub(super) fn difference(&mut self, difference: &Difference) {
        let Difference { from, to, text, is_binary } = difference;
        let kept = text.get(..MAX_DIFF.min(text.len())).unwrap_or_default();
        self.diffs.push(DiffRecord {
            from: from.clone().into(),
            to: to.clone().into(),
            text: kept.into(),
            binary: *is_binary,
            cut: text.len() - kept.len(),
        });
    }

    /// Computes the differences of replaced files, unless they have been shown.
    pub(super) fn compare(&mut self, root: &Root) {
        let replaced = std::mem::take(&mut self.replaced);
        for text in replaced.iter().filter(|_| self.diffs.is_empty()).collect::<Vec<_>>() {
            let difference = match Replaced::parse(text) {
                Some(Replaced::Shown { from, to, name }) => preview::changed(&from, &to, name.as_bstr(), root),
                Some(Replaced::File { copy, path }) => preview::replaced(&copy, &path, root),
                None => None,
            };
            difference.iter().for_each(|difference| self.difference(difference));
        }
    }

    pub(super) fn finish(self, run: &RunId, entity: &Entity, result: RunResult, duration: Duration) -> EntityRecord {
        let Draft { refreshed_by, reason, changes, refused, diffs, output, replaced: _ } = self;
        EntityRecord {
            run: run.clone(),
            id: entity.id().into(),
            plugin: entity.plugin_id().to_owned(),
            time: super::now(),
            duration,
            result,
            changes,
            refused,
            reason,
            output: (result == RunResult::Failed && !output.is_empty()).then(|| output.into()),
            refreshed_by,
            diffs,
        }
    }
}
