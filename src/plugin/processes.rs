//! Plugins that use one process per operation: all of version 3, and those of version 4 without sessions.

use super::error::{OperationError, check_status};
use super::process::{Channel, Heard, Process, Program, RunError, StartError, max_output};
use super::{Failure, Identity, Job, Progress, Task, entity_request};
use crate::error::FatalError;
use crate::host::interrupt::Interrupt;
use bstr::{BStr, ByteSlice};
use holo_protocol::session::{Answer, Operation, Outcome, Request, Stream};
use holo_protocol::{API_VERSION_4, FilePair, Message, Text, environment as names};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::iter;
use std::os::unix::ffi::OsStringExt;
use std::time::Instant;

/// The maximum length of a message on file descriptor 3, in bytes.
const MAX_LINE: usize = 1 << 18;
/// The maximum number of IDs on a command line.
const MOST_NAMED: usize = 1000;

/// Answers a request that changes no entity, about at most one entity, with a process. A scan or health checks may be
/// about several; if these are too many for a command line, the answers are about all.
pub(super) fn ask(
    plugin: &Identity,
    request: &Request,
    interrupt: &Interrupt,
    on_answer: &mut dyn FnMut(Answer),
) -> Result<(), OperationError> {
    let (operation, entity) = (request.operation, request.entities.first());
    let is_too_long = operation == Operation::Health && request.entities.len() > MOST_NAMED;
    let entities = if is_too_long { &[] } else { &*request.entities };
    let arguments: Vec<_> = entities.iter().chain(&request.path).map(|text| text.0.to_os_str_lossy()).collect();
    let variable = |name, text: &Text| (name, OsString::from_vec(text.0.to_vec()));
    let mut environment = Vec::new();
    environment.extend(request.adopt_dir.as_ref().map(|path| variable(names::ADOPT_DIR, path)));
    environment.extend(request.adopt_resolved.as_ref().map(|path| variable(names::ADOPT_RESOLVED, path)));
    for (name, texts) in [(names::ADOPT_WITH, &request.adopt_with), (names::ADOPT_INCLUDE, &request.adopt_include)] {
        if !texts.is_empty() {
            let lines = bstr::join("\n", texts.iter().map(|text| &text.0));
            environment.push((name, OsString::from_vec(lines)));
        }
    }
    let mut program = program(plugin, operation, &arguments, environment);
    // Version 3 has no messages in a scan.
    program.messages = operation != Operation::Scan;
    let mut said_on_3 = Vec::new();
    let ended = program.run(interrupt, |channel, bytes| {
        let (request, text) = (request.request, || Text::from(bytes));
        let output = |stream| Answer::Output { request, entity: None, stream, text: text() };
        on_answer(match (channel, operation) {
            (Channel::Stdout, Operation::Scan) => Answer::Report { request, text: text() },
            (Channel::Stdout, Operation::Adopt) if entity.is_some() => {
                Answer::Text { request, entity: entity.cloned(), text: text() }
            }
            (Channel::Stdout, _) => output(Stream::Stdout),
            (Channel::Stderr, _) => output(Stream::Stderr),
            (Channel::Extra, Operation::Diff | Operation::Preview) => {
                let room = FilePair::room(&said_on_3, plugin.api_version());
                return said_on_3.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
            }
            (Channel::Extra, Operation::Adopt) if entity.is_some() => return said_on_3.extend_from_slice(bytes),
            (Channel::Extra, _) => Answer::Text { request, entity: entity.cloned(), text: text() },
        });
    })?;
    check_status(ended.status)?;
    if let (Operation::Diff | Operation::Preview, Some(entity)) = (operation, entity)
        && let Some(pair) = FilePair::parse(&said_on_3, plugin.api_version())
    {
        on_answer(pair.to_answer(request.request, entity.as_bstr()));
    }
    if let (Operation::Adopt, Some(entity)) = (operation, entity) {
        let messages = said_on_3.lines().map(Text::from).collect();
        let (request, entity) = (request.request, entity.clone());
        on_answer(Answer::Result { request, entity, messages, result: Outcome::Done });
    }
    Ok(())
}

pub(super) fn work(
    plugin: &Identity,
    task: Task,
    job: Job<'_>,
    interrupt: &Interrupt,
    on_progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), FatalError> {
    let is_version_4 = plugin.api_version() >= API_VERSION_4;
    if task == Task::Check && !is_version_4 {
        return check_by_difference(plugin, job.id, interrupt, on_progress);
    }
    let mut environment = Vec::new();
    if job.refresh {
        environment.push((names::REFRESH, "1".into()));
    }
    environment.extend(job.due_since.map(|since| (names::REFRESH_SINCE, since.to_string().into())));
    // Version 3 does not have refreshes.
    if !job.received.is_empty() && is_version_4 {
        environment.push((names::RECEIVED, names::join_received(job.received)));
    }
    if !job.wanted.is_empty() && is_version_4 {
        environment.push((names::WANTED, names::join_wanted(job.wanted)));
    }
    let mut messages = Messages::new(plugin.api_version());
    let begun = Instant::now();
    let arguments = [job.id.to_os_str_lossy()];
    let program = program(plugin, task.operation(), &arguments, environment);
    let ended = program.run_patiently(interrupt, |heard| match heard {
        Heard::Chunk(Channel::Stdout, bytes) => on_progress(Progress::Output(Stream::Stdout, bytes)),
        Heard::Chunk(Channel::Stderr, bytes) => on_progress(Progress::Output(Stream::Stderr, bytes)),
        Heard::Chunk(Channel::Extra, bytes) => {
            messages.take(bytes, &mut |message| on_progress(Progress::Message(message)));
        }
        Heard::Waiting => on_progress(Progress::Waiting(begun.elapsed())),
    });
    let ended = match ended {
        Ok(ended) => ended,
        Err(RunError::Interrupted(fatal)) => return Err(fatal),
        Err(error @ (RunError::Start(_) | RunError::TimedOut(_) | RunError::TooMuch(_))) => {
            on_progress(Progress::Failed(Failure::Broken(error.to_string())));
            return Ok(());
        }
    };
    let failure = ended.status.failure().map(|reason| match ended.status.code() {
        Some(_) => Failure::Status(reason),
        None => Failure::Broken(reason),
    });
    let messages = messages.finish();
    if let Some(failure) = &failure {
        // Only one message of a failed plugin matters: that it had not changed anything before it failed. Version 3 has
        // no such message.
        let counts = is_version_4 && matches!(failure, Failure::Status(_));
        let is_changed = messages.iter().any(Message::is_change);
        if counts && !is_changed && messages.contains(&Message::NotChanged) {
            on_progress(Progress::Message(Message::NotChanged));
        }
    } else {
        let is_modified = messages.contains(&Message::RequiresForceToOverwrite);
        messages.into_iter().for_each(|message| on_progress(Progress::Message(message)));
        if is_modified {
            show_difference(plugin, job.id, interrupt, on_progress)?;
        }
    }
    if let Some(channel) = ended.held_open {
        on_progress(Progress::Warning(plugin.held_open(channel)));
    }
    on_progress(failure.map_or(Progress::Done, Progress::Failed));
    Ok(())
}

/// Starts the process that reports changes to entities. It ends when its input is closed.
pub(super) fn watch(plugin: &Identity) -> Result<Process, StartError> {
    let program = Program {
        path: plugin.program(),
        arguments: vec![OsStr::new("watch")],
        environment: plugin.environment_of_watch(),
        messages: true,
        requests: true,
        limit: None,
        max_output: u64::MAX,
    };
    program.start()
}

/// Checks an entity of a plugin of version 3, which can only tell whether its last result was changed manually.
fn check_by_difference(
    plugin: &Identity,
    id: &BStr,
    interrupt: &Interrupt,
    on_progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), FatalError> {
    match diff(plugin, id, interrupt, on_progress) {
        Ok(Some(pair)) => on_progress(Progress::Diff(pair)),
        Ok(None) => on_progress(Progress::Message(Message::Unknown)),
        Err(OperationError::Failed(error)) => {
            on_progress(Progress::Failed(Failure::Broken(error.to_string())));
            return Ok(());
        }
        Err(OperationError::Fatal(fatal)) => return Err(fatal),
    }
    on_progress(Progress::Done);
    Ok(())
}

fn show_difference(
    plugin: &Identity,
    id: &BStr,
    interrupt: &Interrupt,
    on_progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), FatalError> {
    match diff(plugin, id, interrupt, on_progress) {
        Ok(Some(pair)) => on_progress(Progress::Diff(pair)),
        Ok(None) => {}
        Err(OperationError::Failed(error)) => on_progress(Progress::CannotDiff(error.to_string())),
        Err(OperationError::Fatal(fatal)) => return Err(fatal),
    }
    Ok(())
}

/// Requests the two files that show an entity's difference, if there is one.
fn diff(
    plugin: &Identity,
    id: &BStr,
    interrupt: &Interrupt,
    on_progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Option<FilePair>, OperationError> {
    let mut pair = None;
    ask(plugin, &entity_request(Operation::Diff, id), interrupt, &mut |answer| match answer {
        Answer::Output { stream, text, .. } => on_progress(Progress::Output(stream, text.as_bstr())),
        answer => pair = FilePair::from_answer(&answer),
    })?;
    Ok(pair)
}

/// Extracts messages from a plugin's output to file descriptor 3, which may contain other lines.
struct Messages {
    version: u32,
    found: Vec<Message>,
    line: Vec<u8>,
}

impl Messages {
    fn new(version: u32) -> Messages {
        Messages { version, found: Vec::new(), line: Vec::new() }
    }

    /// Takes output. Progress is passed on immediately, everything else when the operation is done.
    fn take(&mut self, bytes: &[u8], on_progress: &mut dyn FnMut(Message)) {
        let mut pieces = bytes.split_str("\n");
        self.extend(pieces.next().unwrap_or_default());
        for piece in pieces {
            match self.end_line() {
                Some(progress @ Message::Progress(_)) => on_progress(progress),
                message => self.found.extend(message),
            }
            self.extend(piece);
        }
    }

    fn extend(&mut self, piece: &[u8]) {
        // One more byte than allowed marks the line as too long.
        let room = (MAX_LINE + 1).saturating_sub(self.line.len()).min(piece.len());
        self.line.extend_from_slice(piece.get(..room).unwrap_or_default());
    }

    /// Returns the message on the current line, unless it is a duplicate.
    fn end_line(&mut self) -> Option<Message> {
        let line = std::mem::take(&mut self.line);
        Message::parse(&line, self.version).filter(|message| !self.found.contains(message))
    }

    fn finish(mut self) -> Vec<Message> {
        let last = self.end_line().filter(|message| !matches!(message, Message::Progress(_)));
        self.found.extend(last);
        self.found
    }
}

/// Returns the program for an operation with these arguments and additional variables.
fn program<'a>(
    plugin: &'a Identity,
    operation: Operation,
    arguments: &'a [Cow<'_, OsStr>],
    environment: Vec<(&'static str, OsString)>,
) -> Program<'a> {
    Program {
        path: plugin.program(),
        arguments: iter::once(OsStr::new(operation.word())).chain(arguments.iter().map(AsRef::as_ref)).collect(),
        environment: [plugin.environment(), environment].concat(),
        messages: true,
        requests: false,
        limit: plugin.options.limit,
        max_output: max_output(operation, 0, plugin.options.max_output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_among_other_lines() {
        let found = |pieces: &[&[u8]]| {
            let mut messages = Messages::new(3);
            pieces.iter().for_each(|piece| messages.take(piece, &mut |_| panic!("there is none in version 3")));
            messages.finish()
        };
        assert_eq!(found(&[b"progress: 1/2\n", b"not changed"]), [Message::NotChanged]);
        assert_eq!(found(&[b"not ch", b"anged\nnot", b" changed"]), [Message::NotChanged]);
        assert_eq!(found(&[&[b'\n'; 1 << 20], b"requires --force to restore\n"]), [Message::RequiresForceToRestore]);
        assert_eq!(found(&[&[b'x'; 1 << 20], b"not changed\n", b"not changed"]), [Message::NotChanged]);
        assert_eq!(found(&[b"", b"not changed\r\n"]), []);
    }

    #[test]
    fn progress_is_passed_on_at_once() {
        let mut messages = Messages::new(4);
        let mut heard = Vec::new();
        messages.take(b"changed: x\nprogress: 1/2 a\nprogress: ", &mut |message| heard.push(message));
        assert_eq!(heard, [Message::Progress("1/2 a".into())]);
        messages.take(b"b\nprogress: c", &mut |message| heard.push(message));
        assert_eq!(heard[1..], [Message::Progress("b".into())]);
        assert_eq!(messages.finish(), [Message::Changed("x".into())]);
    }
}
