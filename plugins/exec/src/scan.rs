//! The scan for commands.

use crate::ahead;
use crate::definition;
use crate::entity::ExecEntity;
use crate::last_run;
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{self, Defined};
use holo_plugin::{Host, Job, Output, Part, Plugin, ScanError, SetAnswers, apply_concurrently};

/// The plugin `exec`.
pub(crate) struct Exec;

impl Plugin for Exec {
    type Entity = Declared<ExecEntity>;

    const CONCURRENT: bool = true;

    const SENDS: &'static [&'static str] = &["exec#stdout", "exec#status"];

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Declared<ExecEntity>>, ScanError> {
        // The effects of a command cannot be restored, so there are no orphans.
        let definitions = definitions::read::<definition::Exec>(host, output);
        if !host.only_reads() && definitions.is_complete() {
            last_run::forget_others(host, definitions.valid.values().map(|defined| defined.definition.name.as_str()));
        }
        let entity = |(id, defined): (String, Box<Defined<definition::Exec>>)| {
            let Defined { definition, common } = *defined;
            Declared::new(ExecEntity { id, exec: definition, timeout: common.keys.timeout }, common)
        };
        Ok(definitions.valid.into_iter().map(entity).collect())
    }

    /// Guards make no changes and may run concurrently. Commands run sequentially, except for consecutive ones of this
    /// plugin that may run in parallel.
    fn apply_set(&self, host: &Host, set: &[Job<'_, Declared<ExecEntity>>], answers: &mut dyn SetAnswers) {
        let is_parallel = |job: &Job<'_, Declared<ExecEntity>>| job.entity.entity.exec.parallel;
        // In test mode, all commands are recorded in the same file.
        let threads = if host.test_mode() { 1 } else { host.jobs() };
        let mut first = 0;
        for alike in set.chunk_by(|one, next| is_parallel(one) == is_parallel(next)) {
            let places: Vec<usize> = (first..first + alike.len()).collect();
            let mut answers = Part { places: places.into(), answers: &mut *answers };
            if alike.first().is_some_and(is_parallel) {
                apply_concurrently(host, alike, threads, &mut answers);
            } else {
                ahead::apply(host, alike, threads, &mut answers);
            }
            first += alike.len();
        }
    }
}
