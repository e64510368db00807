//! The operations of version 3: one process each.

use super::unknown_entity;
use crate::{Applied, Entity, ForceTo, Host, Mode, Output, Plugin, Sink};
use bstr::ByteSlice;
use holo_protocol::Message;
use holo_protocol::environment::MESSAGE_FD;
use holo_protocol::session::Stream;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// The process's own streams.
struct OwnStreams;

impl Sink for OwnStreams {
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        // Nobody listens any more: that is no reason to leave the work half done.
        let _ = match stream {
            Stream::Stdout => io::stdout().write_all(bytes).and_then(|()| io::stdout().flush()),
            Stream::Stderr => io::stderr().write_all(bytes),
        };
    }
}

pub(super) fn scan<P: Plugin>(plugin: &P, host: &Host) -> ExitCode {
    let Ok(entities) = plugin.scan(host, &mut Output::new(&mut OwnStreams)) else { return ExitCode::FAILURE };
    let mut report = Vec::new();
    entities.iter().for_each(|entity| entity.report().write(&mut report, host.api_version()));
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
    let mode = if force { Mode::Force } else { Mode::Apply };
    let applied = entity.apply(host, mode, &mut Output::new(&mut OwnStreams));
    let (message, status) = match applied {
        Applied::Changed => (None, 0),
        Applied::Unchanged => (Some(Message::NotChanged), 0),
        Applied::NeedsForce(ForceTo::Overwrite) => (Some(Message::RequiresForceToOverwrite), 0),
        Applied::NeedsForce(ForceTo::Restore) => (Some(Message::RequiresForceToRestore), 0),
        Applied::Failed { version_3_status } => (None, version_3_status),
    };
    match message.map_or(Ok(()), |message| say(format!("{message}\n").as_bytes())) {
        Ok(()) => ExitCode::from(status),
        Err(code) => code,
    }
}

pub(super) fn diff<P: Plugin>(plugin: &P, host: &Host, id: &[u8]) -> ExitCode {
    let pair = match find(plugin, host, id) {
        Ok(entity) => entity.diff(host),
        Err(code) => return code,
    };
    let Some(pair) = pair else { return ExitCode::SUCCESS };
    let paths = [pair.from.as_os_str().as_bytes(), b"\0", pair.to.as_os_str().as_bytes(), b"\0"].concat();
    say(&paths).map_or_else(|code| code, |()| ExitCode::SUCCESS)
}

fn find<P: Plugin>(plugin: &P, host: &Host, id: &[u8]) -> Result<P::Entity, ExitCode> {
    let mut streams = OwnStreams;
    let mut output = Output::new(&mut streams);
    let found = plugin.find(host, id.as_bstr(), &mut output).map_err(|_| ExitCode::FAILURE)?;
    found.ok_or_else(|| {
        output.error(unknown_entity(id));
        ExitCode::FAILURE
    })
}

fn say(message: &[u8]) -> Result<(), ExitCode> {
    messages().and_then(|mut messages| messages.write_all(message)).map_err(|error| {
        let reason = holo_protocol::words::reason(&error);
        Output::new(&mut OwnStreams).error(format!("cannot write to file descriptor {MESSAGE_FD}: {reason}"));
        ExitCode::FAILURE
    })
}

/// File descriptor 3, opened by its name: taking it by its number would need unsafe code.
pub(super) fn messages() -> io::Result<File> {
    OpenOptions::new().write(true).open(format!("/proc/self/fd/{MESSAGE_FD}"))
}
