//! The operations of version 3, each in a process of its own.

use super::{
    applied_messages, diagnoses, foresee, hindered_apply, hindered_check, listed, send, span_lines, unknown_entity,
    verdict_messages,
};
use crate::{Applied, Entity, FilePair, Host, Output, Plugin, Sink};
use bstr::{BString, ByteSlice};
use holo_protocol::environment::MESSAGE_FD;
use holo_protocol::session::Stream;
use holo_protocol::{API_VERSION_4, Message, Progress, ScanLimit, Sent};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// The streams of this process, with the version of the interface.
pub(super) struct OwnStreams(pub(super) u32);

impl Sink for OwnStreams {
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        // If the reader is gone, the work is completed nevertheless.
        let _ = match stream {
            Stream::Stdout => io::stdout().write_all(bytes).and_then(|()| io::stdout().flush()),
            Stream::Stderr => io::stderr().write_all(bytes),
        };
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        if self.0 >= API_VERSION_4 {
            let line = [Message::Progress(progress.to_string().into()).to_line(), "\n".into()].concat();
            let _ = messages().and_then(|mut messages| messages.write_all(&line));
        }
    }

    fn keep(&mut self, text: &str) {
        if self.0 >= API_VERSION_4 {
            let line = [Message::Keep(text.into()).to_line(), "\n".into()].concat();
            let _ = messages().and_then(|mut messages| messages.write_all(&line));
        }
    }

    fn replaced(&mut self, text: &str) {
        if self.0 >= API_VERSION_4 {
            let line = [Message::Replaced(text.into()).to_line(), "\n".into()].concat();
            let _ = messages().and_then(|mut messages| messages.write_all(&line));
        }
    }

    fn send(&mut self, sent: &Sent) {
        let line = [Message::Send(sent.clone()).to_line(), "\n".into()].concat();
        if self.0 >= API_VERSION_4 {
            let _ = messages().and_then(|mut messages| messages.write_all(&line));
        } else {
            self.write(Stream::Stdout, &line);
        }
    }
}

/// Like [`OwnStreams`], for a scan that finds one entity for an operation.
struct Again(OwnStreams);

impl Sink for Again {
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        self.0.write(stream, bytes);
    }

    fn is_again(&self) -> bool {
        true
    }
}

pub(super) fn scan<P: Plugin>(plugin: &P, host: &Host, ids: &[BString]) -> ExitCode {
    let limit = (!ids.is_empty()).then_some(ScanLimit::Ids(ids));
    let mut streams = OwnStreams(host.api_version());
    let mut output = Output::new(&mut streams);
    let Ok(entities) = listed(plugin, host, limit, &mut output) else { return ExitCode::FAILURE };
    let mut report = Vec::new();
    entities.for_each(|(entity, _)| entity.write(&mut report, host.api_version()));
    match io::stdout().write_all(&report).and_then(|()| io::stdout().flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

pub(super) fn apply<P: Plugin>(plugin: &P, host: &Host, id: &[u8], force: bool) -> ExitCode {
    let entity = match find(plugin, host, id) {
        Ok(entity) => entity,
        Err(code) => return code,
    };
    let mode = host.mode(force);
    let mut streams = OwnStreams(host.api_version());
    let mut output = Output::new(&mut streams);
    let applied = match entity.hindrance() {
        Some(hindrance) => hindered_apply(hindrance, &mut output),
        None => entity.apply(host, mode, &mut output),
    };
    send(&entity, &applied, host, mode.wanted, &mut output);
    let status =
        if let Applied::Failed { version_3_status, .. } = applied { failure_status(host, version_3_status) } else { 0 };
    let mut messages = applied_messages(&applied);
    if host.api_version() < API_VERSION_4 {
        // In version 3, a failure may have the exit status 0, and must not be mistaken for an unchanged entity.
        messages.retain(|_| !applied.has_failed());
        messages = messages.into_iter().filter_map(|message| in_version_3(message, &mut output)).collect();
    }
    match say_messages(messages) {
        Ok(()) => ExitCode::from(status),
        Err(code) => code,
    }
}

/// Returns the equivalent message of version 3. Messages without an equivalent are printed with the text of the
/// dispatcher of version 4.
fn in_version_3(message: Message, output: &mut Output<'_>) -> Option<Message> {
    match message {
        Message::Changed(text) => output.print([text.as_slice(), b"\n"].concat()),
        Message::RequiresForce(reason) => output.error([reason.as_slice(), b" (use --force to proceed)"].concat()),
        Message::ChangedQuietly(_) => {}
        Message::Skipped(_) => return Some(Message::NotChanged),
        other => return Some(other),
    }
    None
}

/// Version 4 requires a nonzero status for failures, regardless of the status in version 3.
fn failure_status(host: &Host, version_3_status: u8) -> u8 {
    if host.api_version() >= API_VERSION_4 { version_3_status.max(1) } else { version_3_status }
}

pub(super) fn check<P: Plugin>(plugin: &P, host: &Host, id: &[u8]) -> ExitCode {
    let entity = match find(plugin, host, id) {
        Ok(entity) => entity,
        Err(code) => return code,
    };
    let mut streams = OwnStreams(host.api_version());
    let (mode, mut output) = (host.mode(false), Output::new(&mut streams));
    let verdict = match entity.hindrance() {
        Some(hindrance) => hindered_check(hindrance, &mut output),
        None => entity.check(host, mode, &mut output),
    };
    foresee(&entity, &verdict, host, mode.wanted, &mut output);
    match verdict_messages(&verdict).map(say_messages) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(code)) => code,
        None => ExitCode::FAILURE,
    }
}

fn say_messages(messages: impl IntoIterator<Item = Message>) -> Result<(), ExitCode> {
    let lines = messages.into_iter().flat_map(|message| [message.to_line(), "\n".into()]);
    let text = lines.collect::<Vec<_>>().concat();
    if text.is_empty() { Ok(()) } else { say(&text) }
}

/// Writes the two files that `pair` returns for an entity.
pub(super) fn diff<P: Plugin>(
    plugin: &P,
    host: &Host,
    id: &[u8],
    pair: impl FnOnce(&P::Entity) -> Option<FilePair>,
) -> ExitCode {
    let pair = match find(plugin, host, id) {
        Ok(entity) if entity.hindrance().is_some() => None,
        Ok(entity) => pair(&entity),
        Err(code) => return code,
    };
    let Some(pair) = pair else { return ExitCode::SUCCESS };
    say(&pair.to_bytes(host.api_version())).map_or_else(|code| code, |()| ExitCode::SUCCESS)
}

pub(super) fn doctor<P: Plugin>(plugin: &P, host: &Host) -> ExitCode {
    let lines = diagnoses(plugin, host, &mut Output::new(&mut OwnStreams(host.api_version())));
    if lines.is_empty() { ExitCode::SUCCESS } else { say(&lines).map_or_else(|code| code, |()| ExitCode::SUCCESS) }
}

/// Runs the health checks of the entities with these IDs, or of all entities if empty.
pub(super) fn health<P: Plugin>(plugin: &P, host: &Host, ids: &[BString]) -> ExitCode {
    let limit = (!ids.is_empty()).then_some(ScanLimit::Ids(ids));
    let mut streams = OwnStreams(host.api_version());
    let Ok(listed) = listed(plugin, host, limit, &mut Output::new(&mut streams)) else { return ExitCode::FAILURE };
    let entities: Vec<(BString, P::Entity)> = listed.map(|(report, entity)| (report.id, entity)).collect();
    let is_meant = |id: &BString| ids.is_empty() || ids.contains(id);
    let meant = entities.iter().filter(|(id, _)| is_meant(id)).map(|(id, entity)| (id, entity.health_checks()));
    let lines = crate::health::lines(meant, host);
    if lines.is_empty() { ExitCode::SUCCESS } else { say(&lines).map_or_else(|code| code, |()| ExitCode::SUCCESS) }
}

/// Writes the origins of the lines of a file of an entity.
pub(super) fn blame<P: Plugin>(plugin: &P, host: &Host, id: &[u8], path: Option<&Path>) -> ExitCode {
    let spans = match find(plugin, host, id) {
        Ok(entity) => entity.blame(host, path).unwrap_or_default(),
        Err(code) => return code,
    };
    say(&span_lines(&spans)).map_or_else(|code| code, |()| ExitCode::SUCCESS)
}

fn find<P: Plugin>(plugin: &P, host: &Host, id: &[u8]) -> Result<P::Entity, ExitCode> {
    let mut streams = Again(OwnStreams(host.api_version()));
    let mut output = Output::new(&mut streams);
    let found = plugin.find(host, id.as_bstr(), &mut output).map_err(|_| ExitCode::FAILURE)?;
    found.ok_or_else(|| {
        output.error(unknown_entity(id));
        ExitCode::FAILURE
    })
}

pub(super) fn say(message: &[u8]) -> Result<(), ExitCode> {
    messages().and_then(|mut messages| messages.write_all(message)).map_err(|error| {
        let reason = holo_protocol::words::reason(&error);
        Output::new(&mut OwnStreams(holo_protocol::API_VERSION_3))
            .error(format!("cannot write to file descriptor {MESSAGE_FD}: {reason}"));
        ExitCode::FAILURE
    })
}

/// Opens file descriptor 3 by its path; adopting it by number would need unsafe code.
pub(super) fn messages() -> io::Result<File> {
    // If it is a file, earlier messages must be preserved.
    let opened = OpenOptions::new().append(true).open(format!("/proc/self/fd/{MESSAGE_FD}"));
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !Path::new("/proc/self").exists() => {
            Err(io::Error::new(io::ErrorKind::NotFound, "/proc is not mounted, which is needed for that"))
        }
        opened => opened,
    }
}

/// Reports events of entities until the receiver is gone.
pub(super) fn watch<P: Plugin>(plugin: &P, host: &Host) -> ExitCode {
    // The dispatcher closes our input when it ends the watch, or has ended.
    let listening = std::thread::Builder::new().spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
    if let Err(error) = listening {
        return super::complain(&error.to_string(), 1);
    }
    let mut output = OwnStreams(host.api_version());
    let watched = plugin.watch(host, &mut Output::new(&mut output), &mut |line| say(&line.to_line()).is_ok());
    if watched { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
