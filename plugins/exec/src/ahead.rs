//! Guards that are run ahead of their turn: commands follow one another, but as long as none has to run, nothing changes between their guards.

use crate::entity::ExecEntity;
use holo_plugin::declared::Declared;
use holo_plugin::{Entity, Host, Job, Output, SetAnswers, Sink, Stream, Verdict, in_threads};

/// A command, with its place in the set.
pub(crate) type Placed<'j, 'e> = (usize, &'j Job<'e, Declared<ExecEntity>>);

/// So many guards for each thread are run ahead at most.
const AHEAD: usize = 4;

/// Applies commands in this order, one after the other. The guards of those that come next are run by several threads as long as no command
/// has to run: what they say counts until one has run, as that may have changed it.
pub(crate) fn apply(host: &Host, mut commands: &[Placed<'_, '_>], threads: usize, answers: &mut dyn SetAnswers) {
    // Commands that all have to run have no guard run twice.
    let mut ahead = 1;
    while let Some((first, _)) = commands.first() {
        answers.begin(*first);
        let (next, _) = commands.split_at(ahead.min(commands.len()));
        let seen = if ahead > 1 { Seen::of(host, next, threads) } else { Seen::nothing(1) };
        let mut has_run = false;
        for (index, ((place, job), look)) in next.iter().zip(seen.looks).enumerate() {
            if index > 0 {
                answers.begin(*place);
            }
            let mut output = answers.output(*place);
            let applied = if look.verdict == Some(Verdict::InDesiredState) {
                look.said.iter().for_each(|(stream, bytes)| output.relay(*stream, bytes));
                job.entity.apply_in_desired_state(host, &mut output)
            } else {
                job.entity.apply(host, job.mode, &mut output)
            };
            has_run = applied.may_have_changed();
            answers.end(*place, applied);
            commands = commands.get(1..).unwrap_or_default();
            if has_run {
                break;
            }
        }
        ahead = if has_run { 1 } else { (ahead * 2).min(threads * AHEAD) };
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

    fn of(host: &Host, commands: &[Placed<'_, '_>], threads: usize) -> Seen {
        let mut seen = Seen::nothing(commands.len());
        in_threads(commands.iter().enumerate().collect(), threads, &mut seen, &|(index, (_, job)), seen| {
            let verdict = job.entity.check(host, job.mode, &mut seen.output(index));
            seen.end(index, verdict);
        });
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
