//! Overlays: files that others have installed, and what resource files lay over them.

mod change;
mod check;
mod commits;
mod context;
mod desired;
mod distribution;
mod entity;
mod hint;
mod layout;
mod preparation;
mod provision;
mod record;
mod recovery;
pub(crate) mod scan;
mod scrub;
mod stock;

use change::Ended;
pub(crate) use change::FAILED_UNCHANGED;
use commits::Commits;
pub(crate) use entity::{FileEntity, PREFIX};

use context::Context;
use holo_plugin::{Applied, Entity, EntityReport, FilePair, Host, Job, Mode, Output, SetAnswers, Verdict, apply_one};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The number of changes that are made durable together. New contents lie beside the targets meanwhile, so this bounds their space.
pub(crate) const GROUP_SIZE: usize = 1024;
/// The time for which changes are gathered: what is done shall be seen, even if single entities take long.
pub(crate) const GROUP_TIME: Duration = Duration::from_millis(200);

/// The number of entities that are looked at, concurrently, before a change of the first of them is begun.
const LOOKED_AT_TOGETHER: usize = 512;

/// Applies entities. With records, what is known from earlier applies to be unchanged is not read again.
pub(crate) fn apply(host: &Host, set: &[Job<'_, FileEntity>], records: bool, answers: &mut dyn SetAnswers) {
    match Context::open(host, records) {
        Ok(context) => work_on(set, context, answers),
        Err(error) => fail(set.len(), &error.to_string(), answers),
    }
}

fn work_on(set: &[Job<'_, FileEntity>], mut context: Context<'_>, answers: &mut dyn SetAnswers) {
    let mut commits = Commits::default();
    let mut group = Vec::new();
    let mut group_ends = Instant::now() + GROUP_TIME;
    let mut places = 0..;
    let mut own_bases = Vec::new();
    // A program that is run may change anything, so what comes after it is looked at then.
    let parts = set.split_inclusive(|job| job.entity.runs_programs()).flat_map(|part| part.chunks(LOOKED_AT_TOGETHER));
    for part in parts {
        let unchanged = context.look(part);
        for ((job, is_unchanged), place) in part.iter().zip(unchanged).zip(&mut places) {
            if is_unchanged {
                answers.end(place, Applied::Unchanged);
            } else {
                if job.entity.runs_programs() {
                    // It finds the earlier changes on disk, and no change waits meanwhile, as it could take long.
                    tell(commits.end(std::mem::take(&mut group), &context), &mut own_bases, answers);
                    context.separate_bases(&mut own_bases);
                }
                answers.begin(place);
                let change = context.prepare(place, job, &mut answers.output(place));
                if change.is_empty() {
                    answers.end(place, change.into_outcome());
                } else {
                    group.push(change);
                }
            }
            if group.len() == GROUP_SIZE || (!group.is_empty() && Instant::now() > group_ends) {
                tell(commits.begin(std::mem::take(&mut group), &context), &mut own_bases, answers);
                group_ends = Instant::now() + GROUP_TIME;
            }
            tell(commits.look(), &mut own_bases, answers);
        }
    }
    tell(commits.end(group, &context), &mut own_bases, answers);
    context.separate_bases(&mut own_bases);
    context.close();
}

/// Reports the results of changes, and collects the targets whose own files are their bases now.
fn tell(ended: Vec<Ended>, own_bases: &mut Vec<PathBuf>, answers: &mut dyn SetAnswers) {
    for Ended { place, applied, failure, shares_base } in ended {
        own_bases.extend(shares_base);
        if let Some(failure) = failure {
            answers.output(place).error(format!("skipping target: {failure}"));
        }
        answers.end(place, applied);
    }
}

impl Entity for FileEntity {
    fn report(&self) -> EntityReport {
        self.to_report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        // A process for one entity does not look at what is recorded of all of them.
        apply_one(self, mode, output, |set, answers| apply(host, set, false, answers))
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        check::check(self, host, output)
    }

    fn diff(&self, _: &Host) -> Option<FilePair> {
        Some(FilePair::new(self.shown_provisioned(), self.shown_target()))
    }
}

fn fail(count: usize, reason: &str, answers: &mut dyn SetAnswers) {
    for place in 0..count {
        answers.begin(place);
        answers.output(place).error(format!("skipping target: {reason}"));
        answers.end(place, FAILED_UNCHANGED);
    }
}
