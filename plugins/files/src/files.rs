//! The plugin: its entities, and how a set of them is applied.

use crate::change::FAILED;
use crate::entity::FileEntity;
use crate::scan;
use crate::workshop::Workshop;
use bstr::BStr;
use holo_plugin::{
    Applied, Entity, EntityReport, FilePair, Host, Mode, Output, Plugin, ScanError, SetAnswers, Sink, Stream,
};
use std::time::{Duration, Instant};

/// How many changes are made durable together. The target's new content lies beside it meanwhile, so this bounds the space that takes.
const GROUP_SIZE: usize = 1024;
/// How long changes are gathered: what is done shall be seen, even if single entities take long.
const GROUP_TIME: Duration = Duration::from_millis(200);

/// The plugin `files`.
pub(crate) struct Files;

impl Plugin for Files {
    type Entity = FileEntity;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<FileEntity>, ScanError> {
        scan::all(host, output)
    }

    fn find(&self, host: &Host, id: &BStr, output: &mut Output<'_>) -> Result<Option<FileEntity>, ScanError> {
        scan::one(host, id, output)
    }

    fn apply_set(&self, host: &Host, set: &[&FileEntity], mode: Mode, answers: &mut dyn SetAnswers) {
        let workshop = match Workshop::open(host) {
            Ok(workshop) => workshop,
            Err(error) => return fail(set.len(), &error.to_string(), answers),
        };
        let mut group = Vec::new();
        let mut group_ends = Instant::now() + GROUP_TIME;
        for (place, entity) in set.iter().enumerate() {
            answers.begin(place);
            let change = workshop.prepare(place, entity, mode, &mut answers.output(place));
            if change.is_empty() {
                answers.end(place, change.into_outcome());
            } else {
                group.push(change);
            }
            if group.len() == GROUP_SIZE || (!group.is_empty() && Instant::now() > group_ends) {
                workshop.commit(std::mem::take(&mut group), answers);
                group_ends = Instant::now() + GROUP_TIME;
            }
        }
        workshop.commit(group, answers);
        workshop.close();
    }
}

impl Entity for FileEntity {
    fn report(&self) -> EntityReport {
        self.to_report()
    }

    fn apply(&self, host: &Host, mode: Mode, output: &mut Output<'_>) -> Applied {
        let mut answer = OneAnswer { output, applied: FAILED };
        Files.apply_set(host, &[self], mode, &mut answer);
        answer.applied
    }

    fn diff(&self, _: &Host) -> Option<FilePair> {
        Some(FilePair { from: self.shown.provisioned.clone(), to: self.shown.target.clone() })
    }
}

fn fail(count: usize, reason: &str, answers: &mut dyn SetAnswers) {
    for place in 0..count {
        answers.begin(place);
        answers.output(place).error(format!("skipping target: {reason}"));
        answers.end(place, FAILED);
    }
}

/// The answer to a set of one.
struct OneAnswer<'a, 'b> {
    output: &'a mut Output<'b>,
    applied: Applied,
}

impl SetAnswers for OneAnswer<'_, '_> {
    fn begin(&mut self, _: usize) {}

    fn output(&mut self, _: usize) -> Output<'_> {
        Output::new(self)
    }

    fn end(&mut self, _: usize, applied: Applied) {
        self.applied = applied;
    }
}

impl Sink for OneAnswer<'_, '_> {
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        self.output.relay(stream, bytes);
    }
}
