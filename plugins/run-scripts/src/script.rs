//! A script: deciding whether to run it, running it, and the record of its last run.

use crate::comments::{self, Comments};
use bstr::{BString, ByteSlice};
use holo_change::error::{PathError, Result};
use holo_change::tracked::Digest;
use holo_change::{OnDisk, PathHandle, Tree};
use holo_plugin::process::{self, Ended, Program, ProgramError};
use holo_plugin::{
    API_VERSION_3, Action, Applied, Entity, EntityReport, FilePair, ForceTo, Host, Message, Mode, Output, Verdict,
};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The prefix of the plugin's IDs.
pub(crate) const PREFIX: &[u8] = b"script:";

/// The first version of the interface in which the plugin reports the outcome of a script.
const VERSION_OF_RESULTS: u32 = 4;
/// The exit status of a shell that cannot execute a program.
const NOT_STARTED: u8 = 126;

/// A program in the resource directory.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) name: OsString,
    /// Its path, as displayed to the user.
    pub(crate) path: PathBuf,
    pub(crate) comments: Comments,
}

impl Entity for Script {
    fn report(&self) -> EntityReport {
        let path = BString::from(self.path.as_os_str().as_bytes());
        let mut report = EntityReport::new([PREFIX, self.name.as_bytes()].concat());
        report.action = Action { verb: "Executing".into(), reason: None };
        report.sources.push(path.clone());
        report.edges = self.comments.edges.clone();
        report.edges.always = !self.waits_for_something();
        report.inform("found at", path);
        report
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        if !self.waits_for_something() {
            return self.run(host, mode, output);
        }
        // The content is read before the run, because the script may modify itself.
        let due = match self.content_that_never_succeeded(host) {
            Ok(None) if !mode.refresh => return Applied::Unchanged,
            Ok(content) => content,
            Err(error) => {
                output.error(error.to_string());
                return Applied::FAILED;
            }
        };
        let applied = self.run(host, mode, output);
        if let (Applied::Changed(_) | Applied::Unchanged, Some(content)) = (&applied, due)
            && let Err(error) = Record::open(host).and_then(|record| record.learn(&self.name, content, host))
        {
            output.warning(format!("it will be run again: {error}"));
        }
        applied
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        let would_run = || Verdict::WouldChange(vec![format!("would run {}", self.path.display())]);
        if !self.waits_for_something() {
            return would_run();
        }
        match self.content_that_never_succeeded(host) {
            Ok(None) if !mode.refresh => Verdict::InDesiredState,
            Ok(_) => would_run(),
            Err(error) => {
                output.error(error.to_string());
                Verdict::Failed
            }
        }
    }

    fn needs_running_system(&self) -> bool {
        true
    }

    fn diff(&self, _: &Host) -> Option<FilePair> {
        None
    }
}

impl Script {
    /// Returns true if it only runs after changes of other entities, and not at each apply.
    fn waits_for_something(&self) -> bool {
        !self.comments.edges.subscribes.is_empty()
    }

    fn content_that_never_succeeded(&self, host: &Host) -> Result<Option<Digest>> {
        let content = checksum(&self.path)?;
        let is_known = Record::open(host)?.knows(&self.name, &content);
        Ok((!is_known).then_some(content))
    }

    fn run(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        // The script runs in another directory, so its path must be absolute. The shell shows it without links, like version 3.
        let path = match std::fs::canonicalize(&self.path) {
            Ok(path) => path,
            Err(error) => {
                output.error(error.to_string());
                return Applied::Failed { version_3_status: NOT_STARTED, nothing_changed: true };
            }
        };
        let mut program = Program::new(&path);
        program.current_dir(host.root());
        mode.tell(&mut program);
        match process::run_with_messages(&mut program, output) {
            Ok((ended, messages)) => self.outcome(&ended, &messages, host, output),
            Err(error) => {
                output.error(error.to_string().replace(&*path.to_string_lossy(), &self.path.to_string_lossy()));
                let nothing_changed = matches!(error, ProgramError::NotStarted(_) | ProgramError::NotFound(_));
                Applied::Failed { version_3_status: if nothing_changed { NOT_STARTED } else { 1 }, nothing_changed }
            }
        }
    }

    fn outcome(&self, ended: &Ended, messages: &[u8], host: &Host, output: &mut Output<'_>) -> Applied {
        if ended.held_open {
            let path = self.path.display();
            output.warning(format!(
                "{path} has left a process behind that holds its output open; its further output is ignored"
            ));
        }
        let Some(failure) = ended.failure() else { return said(messages) };
        // Under version 3, the dispatcher reports how the plugin has ended, so it must end like the script.
        let status = match ended.status {
            _ if host.api_version() >= VERSION_OF_RESULTS => {
                output.error(failure);
                1
            }
            status => {
                status.signal().into_iter().for_each(process::end_by);
                status.shell_code()
            }
        };
        Applied::Failed { version_3_status: u8::try_from(status).unwrap_or(u8::MAX), nothing_changed: false }
    }
}

/// Returns the outcome according to the messages of a script that succeeded.
fn said(messages: &[u8]) -> Applied {
    let said =
        |message: &Message| messages.lines().any(|line| Message::parse(line, API_VERSION_3).as_ref() == Some(message));
    if said(&Message::RequiresForceToOverwrite) {
        Applied::NeedsForce(ForceTo::Overwrite)
    } else if said(&Message::RequiresForceToRestore) {
        Applied::NeedsForce(ForceTo::Restore)
    } else if said(&Message::NotChanged) {
        Applied::Unchanged
    } else {
        Applied::Changed(Vec::new())
    }
}

/// The file in the state directory. Each line contains the SHA-256 of a script, a space, and its name.
const FILE: &str = ".succeeded";

/// Returns the digest of a script's current content.
pub(crate) fn checksum(script: &Path) -> Result<Digest> {
    let mut file = comments::open(script).map_err(|error| PathError::new("open", script, error))?;
    Digest::of(&mut file).map_err(|error| PathError::new("read", script, error))
}

/// The record of successful runs.
pub(crate) struct Record {
    place: PathHandle,
    known: BTreeMap<OsString, Digest>,
}

impl Record {
    /// Reads the record of earlier applies. Invalid lines are ignored.
    pub(crate) fn open(host: &Host) -> Result<Record> {
        let place = Tree::open(host.state_dir())?.place(Path::new(FILE));
        let mut text = Vec::new();
        if let Some(mut file) = place.open_if_file()? {
            file.read_to_end(&mut text).map_err(|error| PathError::new("read", place.shown(), error))?;
        }
        Ok(Record { place, known: text.split_str("\n").filter_map(parse).collect() })
    }

    /// Returns true if the script has run successfully with this content.
    pub(crate) fn knows(&self, name: &OsStr, content: &Digest) -> bool {
        self.known.get(name) == Some(content)
    }

    /// Records that the script has run successfully with this content, and removes scripts that no longer exist.
    pub(crate) fn learn(mut self, name: &OsStr, content: Digest, host: &Host) -> Result<()> {
        self.known.insert(name.to_owned(), content);
        let resources = host.resources();
        let is_there = |name: &Path| resources.iter().any(|directory| directory.join(name).symlink_metadata().is_ok());
        self.known.retain(|name, _| is_there(Path::new(name)));
        let lines =
            self.known.iter().map(|(name, digest)| [digest.as_str().as_bytes(), b" ", name.as_bytes(), b"\n"].concat());
        let text = lines.collect::<Vec<_>>().concat();
        // A lost record only causes scripts to run again, so it need not be durable, but it must never be truncated.
        self.place.replace(&text, 0o600, OnDisk::Whole)
    }
}

fn parse(line: &[u8]) -> Option<(OsString, Digest)> {
    let (digest, name) = line.split_once_str(" ")?;
    let digest = String::from_utf8(digest.to_vec()).ok()?;
    Some((OsStr::from_bytes(name).to_owned(), Digest::try_from(digest).ok()?))
}

#[cfg(test)]
mod record_tests {
    use super::*;

    #[test]
    fn lines_that_are_damaged_say_nothing() {
        let sum = "ab".repeat(32);
        let (name, parsed) = parse(format!("{sum} a b").as_bytes()).unwrap();
        assert_eq!((name, parsed.as_str()), ("a b".into(), &*sum));
        for line in ["", " a", "ab a", &sum, &format!("{}x a", &sum[1..])] {
            assert!(parse(line.as_bytes()).is_none(), "{line}");
        }
    }
}
