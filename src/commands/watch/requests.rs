//! Requests of the agent: lines on standard input, each a JSON array of words. `["ping"]` asks whether the watch is
//! alive; the words of an apply or a check ask for that run.

use super::Watcher;
use crate::cli::{self, Arguments, Verb};
use crate::commands::check::{Findings, Told};
use crate::commands::{self, Context, apply, check};
use crate::error::{FatalError, exit};
use crate::host::settings::{RunId, Settings};
use crate::report::{Event, Remarks, Reporter};
use bstr::ByteSlice;
use holo_events::Line;
use rustix::io::{Errno, read};
use std::collections::VecDeque;
use std::io::{self, Stdin};
use std::os::fd::{AsFd, BorrowedFd};

/// The length of a request, in bytes, above which requests are not read any more.
const MAX_REQUEST: usize = 16 << 20;

/// The requests on standard input.
#[derive(Debug)]
pub(super) struct Requests {
    input: Stdin,
    unfinished: Vec<u8>,
    /// The runs that were asked for, by their words.
    runs: VecDeque<Vec<String>>,
    has_ended: bool,
}

impl Requests {
    pub(super) fn new() -> Requests {
        Requests { input: io::stdin(), unfinished: Vec::new(), runs: VecDeque::new(), has_ended: false }
    }

    /// Returns the descriptor that becomes readable when there are requests.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (!self.has_ended).then(|| self.input.as_fd())
    }

    /// Reads what is there to read, and answers pings.
    pub(super) fn take(&mut self, reporter: &mut dyn Reporter) {
        let mut buffer = [0; 4096];
        match read(&self.input, &mut buffer) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            // The reader of our output tells when the watch ends.
            Ok(0) | Err(_) => self.has_ended = true,
            Ok(length) => self.unfinished.extend_from_slice(buffer.get(..length).unwrap_or_default()),
        }
        let end = self.unfinished.rfind_byte(b'\n').map_or(0, |last| last + 1);
        let whole: Vec<u8> = self.unfinished.drain(..end).collect();
        for line in whole.lines() {
            match serde_json::from_slice::<Vec<String>>(line) {
                Ok(words) if words == ["ping"] => reporter.event(Event::Line(&Line::Alive {})),
                Ok(words) => self.runs.push_back(words),
                Err(error) => reporter.warning(format!("standard input has a line that is no request: {error}")),
            }
        }
        if self.unfinished.len() > MAX_REQUEST {
            reporter.warning(format!("a request of more than {MAX_REQUEST} bytes; no more are read"));
            (self.unfinished, self.has_ended) = (Vec::new(), true);
        }
    }

    /// Returns the words of the next run that was asked for.
    pub(super) fn next_run(&mut self) -> Option<Vec<String>> {
        self.runs.pop_front()
    }
}

impl Watcher<'_> {
    /// Does a run that was asked for. Its lines are those of the command, between `begun` and its `summary`.
    pub(super) fn run(&mut self, words: Vec<String>) -> Result<(), FatalError> {
        let command = words.iter().map(|word| word.as_str().into()).collect();
        self.reporter.event(Event::Line(&Line::Begun { command }));
        let command_line: Vec<_> = ["holo".to_owned()].into_iter().chain(words).map(Into::into).collect();
        let arguments = cli::parse(command_line.iter().cloned());
        let settings = Settings { run: RunId::now(), command_line, shows_differences: true, ..self.settings.clone() };
        let mut told = Told::default();
        let mut findings = Findings::passing_on(self.reporter, &mut told);
        let mut context = Context { settings, interrupt: self.interrupt, reporter: &mut findings };
        self.queue.writers.take();
        let done = commands::use_pinned(&mut context.settings, context.reporter).and_then(|()| match &arguments {
            Arguments::Verb(Verb::Apply(arguments)) => apply::run(arguments, &mut context),
            Arguments::Verb(Verb::Check(arguments)) => check::run(arguments, &mut context),
            _ => {
                context.reporter.error("a watch can only be asked for an apply or a check");
                Ok(exit::USAGE)
            }
        });
        self.queue.writers.skip();
        commands::conclude(&done, findings.of_the_run());
        let found = findings.into_found();
        match self.learn_outcomes(found, false).and(done) {
            Err(fatal @ (FatalError::Interrupted { .. } | FatalError::TimeIsOver { .. })) => Err(fatal),
            _ => Ok(()),
        }
    }
}
