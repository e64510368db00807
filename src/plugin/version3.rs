//! Plugins that are one process an operation, as version 3 has it.

use super::process::{self, Channel, Ended, Program, RunError};
use super::{FilePair, Identity, OperationError, Progress};
use crate::error::Fatal;
use crate::interrupt::Interrupt;
use bstr::{BStr, ByteSlice};
use holo_protocol::Message;
use holo_protocol::session::Stream;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// How much is kept of what a plugin writes to file descriptor 3: two paths of any length, or all messages many times over.
const MAX_MESSAGES: usize = 1 << 20;

pub(super) fn scan(
    plugin: &Identity,
    interrupt: &Interrupt,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Vec<u8>, OperationError> {
    let mut report = Vec::new();
    let program = Program {
        path: &plugin.program,
        arguments: vec![OsStr::new("scan")],
        environment: plugin.environment(),
        messages: false,
        requests: false,
    };
    let ended = program.run(interrupt, |channel, bytes| match channel {
        Channel::Stdout => report.extend_from_slice(bytes),
        Channel::Stderr | Channel::Messages => on_output(Stream::Stderr, bytes),
    })?;
    process::failure(ended.status).map_or(Ok(report), |reason| Err(OperationError::Failed(reason)))
}

pub(super) fn apply(
    plugin: &Identity,
    id: &BStr,
    force: bool,
    interrupt: &Interrupt,
    on_progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), Fatal> {
    let operation = if force { "force-apply" } else { "apply" };
    let answer =
        ask(plugin, operation, id, interrupt, &mut |stream, bytes| on_progress(Progress::Output(stream, bytes)));
    let Answer { messages, ended } = match answer {
        Ok(answer) => answer,
        Err(RunError::Interrupted(fatal)) => return Err(fatal),
        Err(RunError::Start(reason)) => {
            on_progress(Progress::Failed(Some(reason)));
            return Ok(());
        }
    };
    // The messages of a plugin that failed do not count.
    let failure = process::failure(ended.status);
    if failure.is_none() {
        for message in messages.split_str("\n").filter_map(Message::parse) {
            on_progress(Progress::Message(message));
            if message == Message::RequiresForceToOverwrite {
                show_difference(plugin, id, interrupt, on_progress)?;
            }
        }
    }
    if let Some(channel) = ended.held_open {
        on_progress(Progress::Warning(plugin.held_open(channel)));
    }
    on_progress(failure.map_or(Progress::Done, |reason| Progress::Failed(Some(reason))));
    Ok(())
}

fn show_difference(
    plugin: &Identity,
    id: &BStr,
    interrupt: &Interrupt,
    on_progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), Fatal> {
    let mut on_output = |stream, bytes: &[u8]| on_progress(Progress::Output(stream, bytes));
    match diff(plugin, id, interrupt, &mut on_output) {
        Ok(Some(pair)) => on_progress(Progress::Diff(pair)),
        Ok(None) => {}
        Err(OperationError::Failed(reason)) => on_progress(Progress::CannotDiff(reason)),
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
    let Answer { messages, ended } = ask(plugin, "diff", id, interrupt, on_output)?;
    match process::failure(ended.status) {
        Some(reason) => Err(OperationError::Failed(reason)),
        None => Ok(file_pair(&messages)),
    }
}

/// The two paths, each ended by a NUL.
fn file_pair(messages: &[u8]) -> Option<FilePair> {
    let mut paths = messages.split_inclusive(|&byte| byte == 0).filter_map(|path| path.strip_suffix(b"\0"));
    let mut next = || paths.next().and_then(|path| path.to_path().ok()).map(Path::to_path_buf);
    let (from, to): (PathBuf, PathBuf) = (next()?, next()?);
    Some(FilePair { from, to })
}

struct Answer {
    messages: Vec<u8>,
    ended: Ended,
}

fn ask(
    plugin: &Identity,
    operation: &str,
    id: &BStr,
    interrupt: &Interrupt,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Answer, RunError> {
    let mut messages = Vec::new();
    let id = id.to_os_str_lossy();
    let program = Program {
        path: &plugin.program,
        arguments: vec![OsStr::new(operation), &id],
        environment: plugin.environment(),
        messages: true,
        requests: false,
    };
    let ended = program.run(interrupt, |channel, bytes| match channel {
        Channel::Stdout => on_output(Stream::Stdout, bytes),
        Channel::Stderr => on_output(Stream::Stderr, bytes),
        Channel::Messages => {
            let room = MAX_MESSAGES.saturating_sub(messages.len()).min(bytes.len());
            messages.extend_from_slice(&bytes[..room]);
        }
    })?;
    Ok(Answer { messages, ended })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_two_paths_that_are_ended() {
        let pair = |from: &str, to: &str| Some(FilePair { from: from.into(), to: to.into() });
        assert_eq!(file_pair(b"a\0b\0"), pair("a", "b"));
        assert_eq!(file_pair(b"a\0b\0c\0"), pair("a", "b"));
        assert_eq!(file_pair(b"a\nb\0\0"), pair("a\nb", ""));
        for fewer in [&b""[..], b"a", b"a\0", b"a\0b", b"a\nb\n"] {
            assert_eq!(file_pair(fewer), None);
        }
    }
}
