//! The scan for commands, and their apply. They run sequentially, but as long as none has to run, their guards can run concurrently.

use crate::entity::ExecEntity;
use crate::{adoption, definition, records};
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{self, Defined};
use holo_plugin::{
    Adopted, Adoption, Candidate, Entity, Host, Job, Output, Part, Plugin, ScanError, SetAnswers, Silence, Sink,
    Stream, Verdict, Witness, apply_concurrently, check_concurrently,
};
use std::path::PathBuf;

/// The plugin `exec`.
pub(crate) struct Exec;

impl Plugin for Exec {
    type Entity = Declared<ExecEntity>;

    const READS: &'static [&'static str] = &["*.toml", "*.toml.jinja"];

    const CONCURRENT: bool = true;

    const SENDS: &'static [&'static str] = &["exec#stdout", "exec#status"];

    const ADOPTS: bool = true;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Declared<ExecEntity>>, ScanError> {
        // The effects of a command cannot be restored, so there are no orphans.
        let definitions = definitions::read::<definition::Exec>(host, output);
        if !host.only_reads() && definitions.is_complete() {
            records::forget_others(host, definitions.valid.values().map(|defined| defined.definition.name.as_str()));
        }
        let entity = |(id, defined): (String, Box<Defined<definition::Exec>>)| {
            let Defined { definition, common } = *defined;
            Declared::new(ExecEntity { id, exec: definition, timeout: common.keys.timeout }, common)
        };
        Ok(definitions.valid.into_iter().map(entity).collect())
    }

    fn scan_witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        Some(vec![Witness::file(host.resources().weakest())])
    }

    fn candidates(&self, host: &Host, _: &[PathBuf], _: &mut Output<'_>) -> Result<Vec<Candidate>, ScanError> {
        let is_defined = self.find(host, adoption::ID.into(), &mut Output::new(&mut Silence))?.is_some();
        Ok(if is_defined { Vec::new() } else { adoption::candidates(host) })
    }

    fn adopt(&self, host: &Host, adoption: Adoption<'_>, output: &mut Output<'_>) -> Adopted {
        let entity = self.find(host, adoption.id, &mut Output::new(&mut Silence)).ok().flatten();
        let defined = entity.and_then(|entity| Adopted::defined_already(&entity, host, output));
        defined.unwrap_or_else(|| adoption::adopt(host, adoption))
    }

    /// Guards make no changes and may run concurrently. Commands run sequentially, except for consecutive ones of this
    /// plugin that may run in parallel.
    fn apply_set(&self, host: &Host, set: &[Job<'_, Declared<ExecEntity>>], answers: &mut dyn SetAnswers) {
        let is_parallel = |job: &Job<'_, Declared<ExecEntity>>| job.entity.entity.exec.parallel;
        let threads = host.jobs();
        let mut first = 0;
        for alike in set.chunk_by(|one, next| is_parallel(one) == is_parallel(next)) {
            let places: Vec<usize> = (first..first + alike.len()).collect();
            let mut answers = Part { places: places.into(), answers: &mut *answers };
            if alike.first().is_some_and(is_parallel) {
                apply_concurrently(host, alike, threads, &mut answers);
            } else {
                apply(host, alike, threads, &mut answers);
            }
            first += alike.len();
        }
    }
}

/// The maximum number of guards per thread that run ahead.
const AHEAD: usize = 4;

/// Applies commands sequentially in this order. The guards of the next commands run on several threads as long as no
/// command has to run. Their results are discarded when a command has run, as it may have changed them. With one
/// thread, no guard runs ahead.
pub(crate) fn apply(
    host: &Host,
    commands: &[Job<'_, Declared<ExecEntity>>],
    threads: usize,
    answers: &mut dyn SetAnswers,
) {
    // If all commands have to run, no guard runs twice.
    let mut ahead = 1;
    let mut done = 0;
    while let Some(rest) = commands.get(done..).filter(|rest| !rest.is_empty()) {
        answers.begin(done);
        let (next, _) = rest.split_at(ahead.min(rest.len()));
        let seen = if ahead > 1 { Seen::of(host, next, threads) } else { Seen::nothing(1) };
        let (first, mut has_run) = (done, false);
        for (job, look) in next.iter().zip(seen.looks) {
            if done > first {
                answers.begin(done);
            }
            let mut output = answers.output(done);
            let applied = if look.verdict == Some(Verdict::InDesiredState) {
                look.said.iter().for_each(|(stream, bytes)| output.relay(*stream, bytes));
                job.entity.apply_in_desired_state(host, &mut output)
            } else {
                job.entity.apply(host, job.mode, &mut output)
            };
            has_run = applied.may_have_changed();
            answers.end(done, applied);
            done += 1;
            if has_run {
                break;
            }
        }
        ahead = if has_run || threads < 2 { 1 } else { (ahead * 2).min(threads * AHEAD) };
    }
}

/// The output of a command's guards, and their verdict.
#[derive(Default)]
struct Look {
    said: Vec<(Stream, Vec<u8>)>,
    verdict: Option<Verdict>,
}

/// The results of several commands' guards.
struct Seen {
    looks: Vec<Look>,
    /// The index of the current one.
    at: usize,
}

impl Seen {
    fn nothing(commands: usize) -> Seen {
        Seen { looks: std::iter::repeat_with(Look::default).take(commands).collect(), at: 0 }
    }

    fn of(host: &Host, commands: &[Job<'_, Declared<ExecEntity>>], threads: usize) -> Seen {
        let mut seen = Seen::nothing(commands.len());
        check_concurrently(host, commands, threads, &mut seen);
        seen
    }
}

impl SetAnswers<Verdict> for Seen {
    fn begin(&mut self, _: usize) {}

    fn output(&mut self, index: usize) -> Output<'_> {
        self.at = index;
        Output::new(self)
    }

    fn end(&mut self, index: usize, verdict: Verdict) {
        if let Some(look) = self.looks.get_mut(index) {
            look.verdict = Some(verdict);
        }
    }
}

impl Sink for Seen {
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        if let Some(look) = self.looks.get_mut(self.at) {
            look.said.push((stream, bytes.to_vec()));
        }
    }
}
