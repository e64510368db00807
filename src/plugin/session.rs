//! Plugins of version 4 that serve a whole run with one process.

use super::process::{self, Channel, Event, Exit, Process, Program};
use super::timed_out;
use super::{Failure, Identity, Job, OperationError, Progress, Task};
use crate::error::Fatal;
use crate::interrupt::Interrupt;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::session::{Answer, Operation, Outcome, Received, Request, Stream};
use holo_protocol::{API_VERSION_4, FilePair, Message, Text};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::time::{Duration, Instant};

/// A plugin that dies with so many entities one after the other, of which it has begun none, is given up.
const MAX_DEATHS_IN_A_ROW: u32 = 3;
/// The time that a session may take to end once it has been told that nothing more is wanted.
const END_GRACE: Duration = Duration::from_secs(2);
/// The longest line that a plugin may answer with.
const MAX_LINE: usize = 64 << 20;

/// The place of a plugin's session: empty until there is something to ask, and again after the session died.
#[derive(Debug, Default)]
pub(super) struct Slot(Option<Box<Session>>);

/// A running session.
#[derive(Debug)]
struct Session {
    process: Process,
    last_request: u64,
    incoming: Vec<u8>,
}

/// The end of a request.
enum RequestEnd {
    Answered(Outcome),
    /// The session is over, and this is why.
    Over(String),
    /// The session is over, as it has taken longer than this.
    TimedOut(Duration),
}

/// Everything that was heard of a session's process, beside its answers.
struct Heard {
    /// Bytes that it, or a child of it, printed on streams of its own.
    strays: Vec<(Stream, Vec<u8>)>,
    ended: Option<Exit>,
    /// True if it was ended, as it took too long.
    timed_out: bool,
    /// True if it is time to say what is at work.
    waiting: bool,
    /// The reason for which the run ends, if it does.
    interrupted: Option<Fatal>,
}

/// Something that a session says while it works on a request.
enum Said<'a> {
    Answer(Answer),
    /// Something that the plugin, or a child of it, printed on a stream of its own.
    Stray(Stream, &'a [u8]),
    /// The same, after the session was asked to end.
    AtTheEnd(Stream, &'a [u8]),
    /// Nothing, but something is at work.
    Waiting,
    /// Nothing: this asks when what is at work was begun.
    Begun(&'a mut Instant),
}

impl Slot {
    /// Ends the input of the session, if there is one.
    pub(super) fn dismiss(&mut self) {
        if let Some(session) = &mut self.0 {
            session.process.close_input();
        }
    }

    pub(super) fn scan(
        &mut self,
        plugin: &Identity,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Vec<u8>, OperationError> {
        let mut report = Vec::new();
        let end = self.ask(plugin, Operation::Scan, &[], interrupt, &mut |said| match said {
            Said::Answer(Answer::Report { text, .. }) => report.extend_from_slice(text.as_bstr()),
            Said::Answer(Answer::Output { stream, text, .. }) => on_output(stream, text.as_bstr()),
            Said::Stray(stream, bytes) | Said::AtTheEnd(stream, bytes) => on_output(stream, bytes),
            Said::Answer(_) | Said::Waiting | Said::Begun(_) => {}
        })?;
        match end {
            RequestEnd::Answered(Outcome::Done) => Ok(report),
            // A process of version 3 would have ended with 1.
            RequestEnd::Answered(Outcome::Failed) => Err(OperationError::Failed("exit status 1".to_owned())),
            RequestEnd::Over(reason) => Err(OperationError::Failed(reason)),
            RequestEnd::TimedOut(limit) => Err(OperationError::Failed(timed_out(limit))),
        }
    }

    pub(super) fn diff(
        &mut self,
        plugin: &Identity,
        id: &BStr,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Option<FilePair>, OperationError> {
        let mut pair = None;
        let mut outcome = Outcome::Done;
        let end =
            self.ask(plugin, Operation::Diff, &[Job { id, refresh: false, received: &[] }], interrupt, &mut |said| {
                match said {
                    Said::Answer(answer @ Answer::Diff { .. }) => pair = FilePair::from_answer(&answer),
                    Said::Answer(Answer::Output { stream, text, .. }) => on_output(stream, text.as_bstr()),
                    Said::Answer(Answer::Result { result, .. }) => outcome = result,
                    Said::Stray(stream, bytes) | Said::AtTheEnd(stream, bytes) => on_output(stream, bytes),
                    Said::Answer(_) | Said::Waiting | Said::Begun(_) => {}
                }
            })?;
        match (end, outcome) {
            (RequestEnd::TimedOut(limit), _) => Err(OperationError::Failed(timed_out(limit))),
            (RequestEnd::Over(reason), _) => Err(OperationError::Failed(reason)),
            (_, Outcome::Failed) | (RequestEnd::Answered(Outcome::Failed), _) => {
                Err(OperationError::Failed("exit status 1".to_owned()))
            }
            (RequestEnd::Answered(Outcome::Done), Outcome::Done) => Ok(pair),
        }
    }

    pub(super) fn work(
        &mut self,
        plugin: &Identity,
        task: Task,
        jobs: &[Job<'_>],
        interrupt: &Interrupt,
        on_progress: &mut dyn FnMut(usize, Progress<'_>),
    ) -> Result<(), Fatal> {
        let operation = match task {
            Task::Check => Operation::Check,
            Task::Apply => Operation::Apply,
            Task::ForceApply => Operation::ForceApply,
        };
        let mut set = Set::new(jobs);
        let mut deaths_in_a_row = 0;
        // True once a session has died without having said with what: then entities are asked for one by one until it is found.
        let mut searching = false;
        while let Some(mut waiting) = set.waiting() {
            if searching {
                waiting.truncate(1);
            }
            let (is_fresh, unfinished) = (self.0.is_none(), set.unfinished().count());
            let end = self.ask(plugin, operation, &waiting, interrupt, &mut |said| set.take(said, on_progress));
            let reason = match end {
                Err(OperationError::Fatal(fatal)) => return Err(fatal.during(set.at_work())),
                Ok(RequestEnd::TimedOut(limit)) => {
                    if set.fail_late(limit, on_progress) {
                        (deaths_in_a_row, searching) = (0, false);
                        continue;
                    }
                    timed_out(limit)
                }
                Ok(RequestEnd::Answered(_)) => {
                    let reason = format!("{} did not say how it ended", plugin.program.display());
                    set.fail(&waiting, &reason, on_progress);
                    deaths_in_a_row = 0;
                    continue;
                }
                Ok(RequestEnd::Over(reason)) | Err(OperationError::Failed(reason)) => reason,
            };
            if set.fail_in_hand(&reason, on_progress) {
                (deaths_in_a_row, searching) = (0, false);
                continue;
            }
            if set.unfinished().count() < unfinished {
                deaths_in_a_row = 0;
            }
            // A session that had been idle may have died before it heard of the entity.
            if waiting.len() == 1 && is_fresh {
                set.fail(&waiting, &reason, on_progress);
                deaths_in_a_row += 1;
            }
            searching = waiting.len() > 1 || !is_fresh;
            if deaths_in_a_row == MAX_DEATHS_IN_A_ROW {
                set.fail_all(&reason, on_progress);
            }
        }
        Ok(())
    }

    /// Asks something, in a new session if there is none. A session that is over leaves the session empty.
    fn ask(
        &mut self,
        plugin: &Identity,
        operation: Operation,
        jobs: &[Job<'_>],
        interrupt: &Interrupt,
        said: &mut dyn FnMut(Said<'_>),
    ) -> Result<RequestEnd, OperationError> {
        let mut session = match self.0.take() {
            Some(session) => session,
            None => Box::new(Session::start(plugin).map_err(OperationError::Failed)?),
        };
        let end = session.ask(operation, jobs, plugin.limit, interrupt, said)?;
        if matches!(end, RequestEnd::Answered(_)) && plugin.keeps_session {
            self.0 = Some(session);
        }
        Ok(end)
    }
}

/// The entities of a request to apply, and how far each has come.
struct Set<'a> {
    jobs: &'a [Job<'a>],
    indices: HashMap<&'a BStr, usize>,
    finished: Vec<bool>,
    /// Those that the plugin has in its hands, and since when.
    in_hand: HashMap<usize, Instant>,
    /// The differences that were named before the message that asks to show them.
    differences: HashMap<usize, FilePair>,
    /// The entity that stray output is counted to: the one that was last begun.
    at_work: usize,
}

impl<'a> Set<'a> {
    fn new(jobs: &'a [Job<'a>]) -> Set<'a> {
        let indices = jobs.iter().enumerate().map(|(index, job)| (job.id, index)).collect();
        let finished = vec![false; jobs.len()];
        Set { jobs, indices, finished, in_hand: HashMap::new(), differences: HashMap::new(), at_work: 0 }
    }

    /// The entities that have not come to an end yet, if there are any.
    fn waiting(&self) -> Option<Vec<Job<'a>>> {
        let waiting: Vec<_> = self.unfinished().map(|index| self.jobs[index]).collect();
        (!waiting.is_empty()).then_some(waiting)
    }

    fn unfinished(&self) -> impl Iterator<Item = usize> {
        self.finished.iter().enumerate().filter(|(_, finished)| !**finished).map(|(index, _)| index)
    }

    fn take(&mut self, said: Said<'_>, on_progress: &mut dyn FnMut(usize, Progress<'_>)) {
        let answer = match said {
            Said::Stray(stream, bytes) => return on_progress(self.at_work, Progress::Output(stream, bytes)),
            // It is not about an entity, and there may be no time for those that are shown later.
            Said::AtTheEnd(stream, bytes) => {
                let first = self.unfinished().next().unwrap_or(self.at_work);
                return on_progress(first, Progress::Output(stream, bytes));
            }
            Said::Waiting => {
                if let Some((index, begun)) = self.oldest() {
                    on_progress(index, Progress::Waiting(begun.elapsed()));
                }
                return;
            }
            Said::Begun(at) => {
                *at = self.oldest().map_or(*at, |(_, begun)| begun);
                return;
            }
            Said::Answer(answer) => answer,
        };
        match answer {
            Answer::Begin { entity, .. } => {
                if let Some(index) = self.index(&entity) {
                    self.in_hand.insert(index, Instant::now());
                    self.at_work = index;
                }
            }
            Answer::Output { entity, stream, text, .. } => {
                let index = entity.and_then(|entity| self.indices.get(entity.as_bstr()).copied());
                let index = index.unwrap_or(self.at_work);
                on_progress(index, Progress::Output(stream, text.as_bstr()));
            }
            Answer::Progress { entity, text, .. } => {
                if let Some(index) = self.index(&entity) {
                    on_progress(index, Progress::Message(Message::Progress(text.0)));
                }
            }
            Answer::Diff { ref entity, .. } => {
                if let Some((index, pair)) = self.index(entity).zip(FilePair::from_answer(&answer)) {
                    self.differences.insert(index, pair);
                }
            }
            Answer::Result { entity, messages, result, .. } => {
                if let Some(index) = self.index(&entity) {
                    self.finish(index, &messages, result, on_progress);
                }
            }
            Answer::Report { .. } | Answer::End { .. } => {}
        }
    }

    /// Returns the entity that has been in the plugin's hands longest, and since when.
    fn oldest(&self) -> Option<(usize, Instant)> {
        self.in_hand.iter().map(|(&index, &begun)| (index, begun)).min_by_key(|&(index, begun)| (begun, index))
    }

    /// The IDs of the entities in the plugin's hands, or else of the next one.
    fn at_work(&self) -> Vec<String> {
        let mut indices: Vec<usize> = self.in_hand.keys().copied().collect();
        if indices.is_empty() {
            indices.extend(self.unfinished().next());
        }
        indices.sort_unstable();
        indices.into_iter().filter_map(|index| self.jobs.get(index)).map(|job| job.id.to_string()).collect()
    }

    /// Fails what the plugin had in its hands when it was ended as something took too long; whether there was anything.
    fn fail_late(&mut self, limit: Duration, on_progress: &mut dyn FnMut(usize, Progress<'_>)) -> bool {
        let Some((oldest, _)) = self.oldest() else { return false };
        let reason = timed_out(limit);
        let mut lost: Vec<(usize, bool)> =
            self.in_hand.iter().map(|(&index, begun)| (index, begun.elapsed() >= limit)).collect();
        lost.sort_unstable();
        let first_late = self.jobs[oldest].id;
        for (index, is_late) in lost {
            let reason =
                if is_late { reason.clone() } else { format!("{first_late} {reason}, and its plugin was ended") };
            self.end(index, Progress::Failed(Failure::Broken(reason)), on_progress);
        }
        true
    }

    /// The place of an entity that is still being worked on; what is said of any other does not count.
    fn index(&self, entity: &Text) -> Option<usize> {
        self.indices.get(entity.as_bstr()).copied().filter(|&index| !self.finished[index])
    }

    fn finish(
        &mut self,
        index: usize,
        messages: &[Text],
        result: Outcome,
        on_progress: &mut dyn FnMut(usize, Progress<'_>),
    ) {
        let messages: Vec<Message> =
            messages.iter().filter_map(|line| Message::parse(line.as_bstr(), API_VERSION_4)).collect();
        let is_modified = messages.contains(&Message::RequiresForceToOverwrite);
        messages.into_iter().for_each(|message| on_progress(index, Progress::Message(message)));
        let difference = self.differences.remove(&index);
        if let Some(pair) = difference.filter(|_| is_modified) {
            on_progress(index, Progress::Diff(pair));
        }
        self.end(
            index,
            if result == Outcome::Done { Progress::Done } else { Progress::Failed(Failure::Told) },
            on_progress,
        );
    }

    fn end(&mut self, index: usize, how: Progress<'_>, on_progress: &mut dyn FnMut(usize, Progress<'_>)) {
        self.finished[index] = true;
        self.in_hand.remove(&index);
        on_progress(index, how);
    }

    /// Fails what the plugin had in its hands; whether there was anything.
    fn fail_in_hand(&mut self, reason: &str, on_progress: &mut dyn FnMut(usize, Progress<'_>)) -> bool {
        let mut lost: Vec<usize> = self.in_hand.keys().copied().collect();
        lost.sort_unstable();
        for &index in &lost {
            self.end(index, Progress::Failed(Failure::Broken(reason.to_owned())), on_progress);
        }
        !lost.is_empty()
    }

    /// Fails those of these that are not finished.
    fn fail(&mut self, jobs: &[Job<'_>], reason: &str, on_progress: &mut dyn FnMut(usize, Progress<'_>)) {
        let indices: Vec<usize> = jobs.iter().filter_map(|job| self.indices.get(job.id).copied()).collect();
        for index in indices.into_iter().filter(|&index| !self.finished[index]).collect::<Vec<_>>() {
            self.end(index, Progress::Failed(Failure::Broken(reason.to_owned())), on_progress);
        }
    }

    fn fail_all(&mut self, reason: &str, on_progress: &mut dyn FnMut(usize, Progress<'_>)) {
        for index in self.unfinished().collect::<Vec<_>>() {
            self.end(index, Progress::Failed(Failure::Broken(reason.to_owned())), on_progress);
        }
    }
}

impl Session {
    fn start(plugin: &Identity) -> Result<Session, String> {
        let program = Program {
            path: &plugin.program,
            arguments: vec![OsStr::new("session")],
            environment: plugin.environment(),
            messages: true,
            requests: true,
            // It serves a whole run; what it is at has its limit.
            limit: None,
        };
        Ok(Session { process: program.start()?, last_request: 0, incoming: Vec::new() })
    }

    fn ask(
        &mut self,
        operation: Operation,
        jobs: &[Job<'_>],
        limit: Option<Duration>,
        interrupt: &Interrupt,
        said: &mut dyn FnMut(Said<'_>),
    ) -> Result<RequestEnd, Fatal> {
        self.last_request += 1;
        let text = |job: &Job<'_>| Text::from(job.id.to_vec());
        let entities = jobs.iter().map(text).collect();
        let refresh = jobs.iter().filter(|job| job.refresh).map(text).collect();
        let received = jobs.iter().filter(|job| !job.received.is_empty());
        let values = |job: &Job<'_>| job.received.iter().cloned().map(Text).collect();
        let received = received.map(|job| Received { entity: text(job), values: values(job) }).collect();
        let request = Request { request: self.last_request, operation, entities, refresh, received };
        let mut line = match serde_json::to_vec(&request) {
            Ok(line) => line,
            Err(error) => return Ok(RequestEnd::Over(error.to_string())),
        };
        line.push(b'\n');
        self.process.send(&line);
        let mut idle_since = Instant::now();
        self.process.begin_waiting();
        loop {
            if let Some(limit) = limit {
                let mut begun = idle_since;
                said(Said::Begun(&mut begun));
                self.process.set_alarm(begun.checked_add(limit));
            }
            let Heard { strays, ended, timed_out, waiting, interrupted } = self.exchange(interrupt);
            let before = self.incoming.len();
            let end = self.take_answers(said);
            if self.incoming.len() < before {
                idle_since = Instant::now();
            }
            if waiting {
                said(Said::Waiting);
            }
            // It cannot be told if bytes beside the answers come before or after them. Most likely they belong to the entity that
            // they begin.
            let is_ending = self.process.is_ending();
            for (stream, bytes) in &strays {
                said(if is_ending { Said::AtTheEnd(*stream, bytes) } else { Said::Stray(*stream, bytes) });
            }
            if let Some(fatal) = interrupted {
                return Err(fatal);
            }
            if timed_out {
                return Ok(RequestEnd::TimedOut(limit.unwrap_or_default()));
            }
            // Of a session that is late, the end is waited for.
            if let Some(end) = end.filter(|_| !self.process.is_late()) {
                self.process.set_alarm(None);
                return Ok(end);
            }
            if let Some(ended) = ended {
                let reason = ended.status.failure();
                return Ok(RequestEnd::Over(reason.unwrap_or_else(|| "the plugin ended its session early".to_owned())));
            }
        }
    }

    /// Waits for something to be said, and says what can be said meanwhile.
    fn exchange(&mut self, interrupt: &Interrupt) -> Heard {
        let Session { process, incoming, .. } = self;
        let (mut ended, mut strays) = (None, Vec::new());
        let (mut timed_out, mut is_waiting) = (false, false);
        let waited = process::wait(process, interrupt, |event| match event {
            Event::Chunk(Channel::Extra, bytes) => incoming.extend_from_slice(bytes),
            Event::Chunk(Channel::Stdout, bytes) => strays.push((Stream::Stdout, bytes.to_vec())),
            Event::Chunk(Channel::Stderr, bytes) => strays.push((Stream::Stderr, bytes.to_vec())),
            Event::Ended(how) => ended = Some(how),
            Event::Stopped(_) => timed_out = true,
            Event::Waiting => is_waiting = true,
        });
        Heard { strays, ended, timed_out, waiting: is_waiting, interrupted: waited.err() }
    }

    /// Hands on the answers that have arrived whole; how the request ended, if it has.
    fn take_answers(&mut self, said: &mut dyn FnMut(Said<'_>)) -> Option<RequestEnd> {
        let incoming = std::mem::take(&mut self.incoming);
        let end_of_lines = incoming.rfind_byte(b'\n').map_or(0, |at| at + 1);
        let (lines, rest) = incoming.split_at(end_of_lines);
        self.incoming = rest.to_vec();
        if rest.len() > MAX_LINE {
            return Some(RequestEnd::Over(format!("the plugin answered with a line of over {MAX_LINE} bytes")));
        }
        for line in lines.lines().filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Answer>(line) {
                Ok(answer) if answer.request() != self.last_request => {}
                Ok(Answer::End { result, .. }) => return Some(RequestEnd::Answered(result)),
                Ok(answer) => said(Said::Answer(answer)),
                Err(error) => return Some(RequestEnd::Over(not_understood(line, &error))),
            }
        }
        None
    }
}

fn not_understood(line: &[u8], error: &serde_json::Error) -> String {
    const SHOWN: usize = 200;
    let shown = BString::from(line.get(..SHOWN).unwrap_or(line));
    format!("cannot understand the plugin's answer \"{shown}\": {error}")
}

impl Drop for Session {
    fn drop(&mut self) {
        // The end of its input tells the plugin to end.
        self.process.close_input();
        self.process.end_within(END_GRACE);
    }
}
