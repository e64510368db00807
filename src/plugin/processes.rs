//! Plugins that use one process per operation: all of version 3, and those of version 4 without sessions.

use super::error::{OperationError, check_status};
use super::process::{Channel, Exit, Heard, Process, Program, RunError, StartError};
use super::{Adopted, Adoption, Failure, Identity, Job, Progress, Task};
use crate::error::FatalError;
use crate::host::interrupt::Interrupt;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::session::{Operation, Stream};
use holo_protocol::{API_VERSION_4, FilePair, Message, ScanLimit, environment as names};
use std::ffi::{OsStr, OsString};
use std::iter;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Instant;

/// The maximum length of a message on file descriptor 3, in bytes.
const MAX_LINE: usize = 1 << 18;
/// The maximum number of IDs on a command line.
const MOST_NAMED: usize = 1000;

pub(super) fn scan(
    plugin: &Identity,
    limit: Option<ScanLimit<'_>>,
    interrupt: &Interrupt,
    on_report: &mut dyn FnMut(&[u8]),
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<(), OperationError> {
    let ids = match limit {
        Some(ScanLimit::Ids(ids)) => ids,
        Some(ScanLimit::Prefix(_) | ScanLimit::Neighbours { .. }) | None => &[],
    };
    let ids = ids.iter().map(|id| OsStr::from_bytes(id));
    let program = Program {
        path: plugin.program(),
        arguments: iter::once(OsStr::new("scan")).chain(ids).collect(),
        environment: plugin.environment(),
        messages: false,
        requests: false,
        limit: plugin.options.limit,
    };
    let ended = program.run(interrupt, |channel, bytes| match channel {
        Channel::Stdout => on_report(bytes),
        Channel::Stderr | Channel::Extra => on_output(Stream::Stderr, bytes),
    })?;
    check_status(ended.status)?;
    Ok(())
}

pub(super) fn work(
    plugin: &Identity,
    task: Task,
    job: Job<'_>,
    interrupt: &Interrupt,
    on_progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), FatalError> {
    let operation = match task {
        Task::Check if plugin.api_version() < API_VERSION_4 => {
            return check_by_difference(plugin, job.id, interrupt, on_progress);
        }
        Task::Check => "check",
        Task::Apply => "apply",
        Task::ForceApply => "force-apply",
    };
    let mut messages = Messages::new(plugin.api_version());
    let begun = Instant::now();
    let ended = ask(plugin, operation, job, interrupt, &mut |said| match said {
        Said::Output(stream, bytes) => on_progress(Progress::Output(stream, bytes)),
        Said::Message(bytes) => messages.take(bytes, &mut |message| on_progress(Progress::Message(message))),
        Said::Waiting => on_progress(Progress::Waiting(begun.elapsed())),
    });
    let ended = match ended {
        Ok(ended) => ended,
        Err(RunError::Interrupted(fatal)) => return Err(fatal),
        Err(error @ (RunError::Start(_) | RunError::TimedOut(_))) => {
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
        let counts = plugin.api_version() >= API_VERSION_4 && matches!(failure, Failure::Status(_));
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

/// Runs a process that writes lines to file descriptor 3. If there are too many IDs for a command line, the lines are
/// about all entities.
pub(super) fn report(
    plugin: &Identity,
    operation: Operation,
    ids: &[BString],
    interrupt: &Interrupt,
    on_report: &mut dyn FnMut(&[u8]),
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<(), OperationError> {
    let named = if ids.len() > MOST_NAMED { &[] } else { ids };
    let named: Vec<_> = named.iter().map(|id| id.to_os_str_lossy()).collect();
    let arguments = iter::once(OsStr::new(operation.word())).chain(named.iter().map(AsRef::as_ref)).collect();
    let program = Program {
        path: plugin.program(),
        arguments,
        environment: plugin.environment(),
        messages: true,
        requests: false,
        limit: plugin.options.limit,
    };
    let ended = program.run(interrupt, |channel, bytes| match channel {
        Channel::Stdout => on_output(Stream::Stdout, bytes),
        Channel::Stderr => on_output(Stream::Stderr, bytes),
        Channel::Extra => on_report(bytes),
    })?;
    check_status(ended.status)?;
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
    let answer = diff(plugin, id, interrupt, &mut |stream, bytes: &[u8]| on_progress(Progress::Output(stream, bytes)));
    match answer {
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
    let mut on_output = |stream, bytes: &[u8]| on_progress(Progress::Output(stream, bytes));
    match diff(plugin, id, interrupt, &mut on_output) {
        Ok(Some(pair)) => on_progress(Progress::Diff(pair)),
        Ok(None) => {}
        Err(OperationError::Failed(error)) => on_progress(Progress::CannotDiff(error.to_string())),
        Err(OperationError::Fatal(fatal)) => return Err(fatal),
    }
    Ok(())
}

pub(super) fn diff(
    plugin: &Identity,
    id: &BStr,
    interrupt: &Interrupt,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Option<FilePair>, OperationError> {
    pair(plugin, "diff", id, interrupt, on_output)
}

pub(super) fn preview(plugin: &Identity, id: &BStr, interrupt: &Interrupt) -> Result<Option<FilePair>, FatalError> {
    match pair(plugin, "preview", id, interrupt, &mut |_, _| {}) {
        Ok(pair) => Ok(pair),
        // The plugin does not support the operation, or cannot tell.
        Err(OperationError::Failed(_)) => Ok(None),
        Err(OperationError::Fatal(fatal)) => Err(fatal),
    }
}

/// Requests two files.
fn pair(
    plugin: &Identity,
    operation: &str,
    id: &BStr,
    interrupt: &Interrupt,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Option<FilePair>, OperationError> {
    let mut said_on_3 = Vec::new();
    let ended = ask(plugin, operation, Job::new(id), interrupt, &mut |said| match said {
        Said::Output(stream, bytes) => on_output(stream, bytes),
        Said::Message(bytes) => {
            let room = FilePair::room(&said_on_3, plugin.api_version());
            said_on_3.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        }
        Said::Waiting => {}
    })?;
    check_status(ended.status)?;
    Ok(FilePair::parse(&said_on_3, plugin.api_version()))
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

/// Output of a plugin during an operation on an entity.
enum Said<'a> {
    Output(Stream, &'a [u8]),
    /// A piece of its output to file descriptor 3.
    Message(&'a [u8]),
    /// No output, but it is working.
    Waiting,
}

fn ask(
    plugin: &Identity,
    operation: &str,
    job: Job<'_>,
    interrupt: &Interrupt,
    said: &mut dyn FnMut(Said<'_>),
) -> Result<Exit, RunError> {
    let id = job.id.to_os_str_lossy();
    let mut environment = Vec::new();
    if job.refresh {
        environment.push((names::REFRESH, "1".into()));
    }
    // Version 3 does not have refreshes.
    if !job.received.is_empty() && plugin.api_version() >= API_VERSION_4 {
        environment.push((names::RECEIVED, names::join_received(job.received)));
    }
    if !job.wanted.is_empty() && plugin.api_version() >= API_VERSION_4 {
        environment.push((names::WANTED, names::join_wanted(job.wanted)));
    }
    operate(plugin, vec![OsStr::new(operation), &id], environment, interrupt, said)
}

/// Runs the plugin with these arguments and additional variables.
fn operate(
    plugin: &Identity,
    arguments: Vec<&OsStr>,
    environment: Vec<(&'static str, OsString)>,
    interrupt: &Interrupt,
    said: &mut dyn FnMut(Said<'_>),
) -> Result<Exit, RunError> {
    let program = Program {
        path: plugin.program(),
        arguments,
        environment: [plugin.environment(), environment].concat(),
        messages: true,
        requests: false,
        limit: plugin.options.limit,
    };
    program.run_patiently(interrupt, |heard| match heard {
        Heard::Chunk(Channel::Stdout, bytes) => said(Said::Output(Stream::Stdout, bytes)),
        Heard::Chunk(Channel::Stderr, bytes) => said(Said::Output(Stream::Stderr, bytes)),
        Heard::Chunk(Channel::Extra, bytes) => said(Said::Message(bytes)),
        Heard::Waiting => said(Said::Waiting),
    })
}

/// Returns the lines that list candidates.
pub(super) fn candidates(
    plugin: &Identity,
    interrupt: &Interrupt,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Vec<u8>, OperationError> {
    lines(plugin, vec![OsStr::new("adopt")], interrupt, on_output)
}

/// Returns the lines with the origins of a file's lines.
pub(super) fn blame(
    plugin: &Identity,
    id: &BStr,
    path: &Path,
    interrupt: &Interrupt,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Vec<u8>, OperationError> {
    let id = id.to_os_str_lossy();
    lines(plugin, vec![OsStr::new("blame"), &id, path.as_os_str()], interrupt, on_output)
}

/// Returns the output to file descriptor 3.
fn lines(
    plugin: &Identity,
    arguments: Vec<&OsStr>,
    interrupt: &Interrupt,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Vec<u8>, OperationError> {
    let mut said_on_3 = Vec::new();
    let ended = operate(plugin, arguments, Vec::new(), interrupt, &mut |said| match said {
        Said::Output(stream, bytes) => on_output(stream, bytes),
        Said::Message(bytes) => said_on_3.extend_from_slice(bytes),
        Said::Waiting => {}
    })?;
    check_status(ended.status)?;
    Ok(said_on_3)
}

pub(super) fn adopt(
    plugin: &Identity,
    adoption: Adoption<'_>,
    interrupt: &Interrupt,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Adopted, OperationError> {
    let Adoption { id, directory, resolved, with } = adoption;
    let id = id.to_os_str_lossy();
    let mut environment = vec![(names::ADOPT_DIR, directory.into())];
    environment.extend(resolved.map(|path| (names::ADOPT_RESOLVED, path.into())));
    let with = bstr::join("\n", with);
    environment.extend((!with.is_empty()).then(|| (names::ADOPT_WITH, OsString::from_vec(with))));
    let (mut definition, mut said_on_3) = (Vec::new(), Vec::new());
    let ended = operate(plugin, vec![OsStr::new("adopt"), &id], environment, interrupt, &mut |said| match said {
        Said::Output(Stream::Stdout, bytes) => definition.extend_from_slice(bytes),
        Said::Output(stream, bytes) => on_output(stream, bytes),
        Said::Message(bytes) => said_on_3.extend_from_slice(bytes),
        Said::Waiting => {}
    })?;
    check_status(ended.status)?;
    Ok(Adopted::new(Adopted::messages(&said_on_3), definition))
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
