//! Guards that are run ahead of their turn: commands follow one another, but as long as none has to run, nothing changes between their guards.

use crate::entity::ExecEntity;
use holo_plugin::declared::Declared;
use holo_plugin::{Entity, Host, Job, Output, SetAnswers, Sink, Stream, Verdict, check_concurrently};

/// So many guards for each thread are run ahead at most.
const AHEAD: usize = 4;

/// Applies commands in this order, one after the other. The guards of those that come next are run by several threads as long as no command
/// has to run: what they say counts until one has run, as that may have changed it. With one thread, no guard is run before its turn.
pub(crate) fn apply(
    host: &Host,
    commands: &[Job<'_, Declared<ExecEntity>>],
    threads: usize,
    answers: &mut dyn SetAnswers,
) {
    // Commands that all have to run have no guard run twice.
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

/// The words of a command's guards, and the verdict.
#[derive(Default)]
struct Look {
    said: Vec<(Stream, Vec<u8>)>,
    verdict: Option<Verdict>,
}

/// The looks at several commands.
struct Seen {
    looks: Vec<Look>,
    /// The index of the one that is spoken of.
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
