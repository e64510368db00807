//! The operation `adopt` in single processes, and its output format, which is shared with sessions.

use super::complain;
use super::operations::{OwnStreams, say};
use crate::{Adopted, Adoption, Host, Output, Plugin};
use bstr::{BString, ByteSlice};
use holo_protocol::environment::{ADOPT_DIR, ADOPT_RESOLVED, ADOPT_WITH};
use holo_protocol::{AdoptMessage, Candidate};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Returns the lines for candidates.
pub(super) fn lines(candidates: &[Candidate]) -> Vec<u8> {
    candidates.iter().flat_map(|candidate| [candidate.to_line(), "\n".into()]).collect::<Vec<_>>().concat()
}

/// Returns the message for the outcome of an adoption, if there is one.
pub(super) fn message(adopted: &Adopted) -> Option<AdoptMessage> {
    match adopted {
        Adopted::Unknown => Some(AdoptMessage::Unknown),
        Adopted::Unchanged => Some(AdoptMessage::NotChanged),
        Adopted::Entity(id) => Some(AdoptMessage::Entity(id.clone())),
        Adopted::Conflict(path) => Some(AdoptMessage::Conflict(path.clone())),
        Adopted::Done { .. } | Adopted::Failed => None,
    }
}

pub(super) fn candidates<P: Plugin>(plugin: &P, host: &Host) -> ExitCode {
    let mut streams = OwnStreams(host.api_version());
    let Ok(candidates) = plugin.candidates(host, &mut Output::new(&mut streams)) else { return ExitCode::FAILURE };
    say(&lines(&candidates)).map_or_else(|code| code, |()| ExitCode::SUCCESS)
}

pub(super) fn adopt<P: Plugin>(plugin: &P, host: &Host, id: &[u8]) -> ExitCode {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let Some(directory) = variable(ADOPT_DIR) else { return complain(&format!("{ADOPT_DIR} is not set"), 1) };
    let resolved = variable(ADOPT_RESOLVED);
    let with = variable(ADOPT_WITH).unwrap_or_default().into_encoded_bytes();
    let with: Vec<BString> = with.lines().map(BString::from).collect();
    let adoption = Adoption {
        id: id.as_bstr(),
        directory: Path::new(&directory),
        resolved: resolved.as_ref().map(Path::new),
        with: &with,
    };
    let mut streams = OwnStreams(host.api_version());
    let adopted = plugin.adopt(host, adoption, &mut Output::new(&mut streams));
    match &adopted {
        Adopted::Done { definition } => {
            let written = io::stdout().write_all(definition.as_bytes()).and_then(|()| io::stdout().flush());
            return if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        Adopted::Failed => return ExitCode::FAILURE,
        Adopted::Unknown | Adopted::Entity(_) | Adopted::Unchanged | Adopted::Conflict(_) => {}
    }
    let message = message(&adopted).map(|message| [message.to_line(), "\n".into()].concat());
    say(&message.unwrap_or_default()).map_or_else(|code| code, |()| ExitCode::SUCCESS)
}
