//! The plugins of a run, behind one interface for both protocol versions.

mod adoption;
mod error;
pub mod handshake;
mod identity;
pub mod process;
mod processes;
mod session;

use crate::error::FatalError;
use crate::host::interrupt::Interrupt;
use bstr::{BStr, BString};
use handshake::Handshake;
use holo_protocol::report::{OutlinedReport, ReportReader};
use holo_protocol::session::{Operation, Stream};
use holo_protocol::{API_VERSION_4, Candidate, FilePair, ScanLimit, Span};
use identity::Identity;
use process::StartError;
use std::path::Path;

pub use adoption::{Adopted, Adoption};
pub use error::{OperationError, PluginError, check_status};
pub use identity::{Directories, RunOptions};
pub use process::Failure;
pub use process::Job;
pub use process::Progress;
pub use process::Task;

/// A plugin that answered the handshake.
#[derive(Debug)]
pub struct Plugin {
    /// Its ID.
    pub id: String,
    identity: Identity,
    transport: Transport,
}

/// How requests reach a plugin: one process per operation, or one session for all.
#[derive(Debug)]
enum Transport {
    Processes,
    Session(session::Slot),
}

impl Plugin {
    /// Returns a plugin that answered the handshake.
    #[must_use]
    pub fn new(id: String, handshake: Handshake, directories: Directories, options: RunOptions) -> Plugin {
        let is_session = handshake.info.session;
        let identity = Identity::new(handshake, directories, options);
        let transport = if is_session { Transport::Session(session::Slot::default()) } else { Transport::Processes };
        Plugin { id, identity, transport }
    }

    /// Returns the negotiated version of the interface.
    #[must_use]
    pub fn api_version(&self) -> u32 {
        self.identity.api_version()
    }

    /// Returns true if the plugin can tell what an apply would do. Version 3 can only report manual changes.
    #[must_use]
    pub fn can_check(&self) -> bool {
        self.identity.api_version() >= API_VERSION_4
    }

    /// Returns true if the plugin can limit a scan in this way.
    #[must_use]
    pub fn can_limit(&self, limit: ScanLimit<'_>) -> bool {
        let (info, is_session) = (&self.identity.handshake.info, matches!(self.transport, Transport::Session(_)));
        // On a command line, a scan can be limited only by IDs.
        let can_say = match limit {
            ScanLimit::Ids(_) => true,
            ScanLimit::Prefix(_) => is_session,
            ScanLimit::Neighbours { .. } => is_session && info.finds_neighbours,
        };
        info.limits_scan && can_say
    }

    /// Tells the plugin that no more requests follow, so that a session can shut down before it is waited for.
    pub fn dismiss(&mut self) {
        if let Transport::Session(session) = &mut self.transport {
            session.dismiss();
        }
    }

    /// Scans for all entities, or for some of them if the plugin supports this limit. The report is parsed while it
    /// arrives.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn scan(
        &mut self,
        limit: Option<ScanLimit<'_>>,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<OutlinedReport, OperationError> {
        let mut report = ReportReader::new(self.identity.api_version());
        let on_report = &mut |piece: &[u8]| report.take(piece);
        let limit = limit.filter(|&limit| self.can_limit(limit));
        let answer = match &mut self.transport {
            Transport::Processes => processes::scan(&self.identity, limit, interrupt, on_report, on_output),
            Transport::Session(session) => session.scan(&self.identity, limit, interrupt, on_report, on_output),
        };
        answer.map_err(|error| error.during(|| format!("the scan of {}", self.id)))?;
        Ok(report.finish().map_err(PluginError::Report)?)
    }

    /// Works on entities that do not depend on each other, in any order. Each [`Progress`] comes with the index of its
    /// entity.
    ///
    /// Every entity ends with [`Progress::Done`] or [`Progress::Failed`], whatever the plugin does.
    ///
    /// # Errors
    /// Only what ends the run.
    pub fn work(
        &mut self,
        task: Task,
        jobs: &[Job<'_>],
        interrupt: &Interrupt,
        on_progress: &mut dyn FnMut(usize, Progress<'_>),
    ) -> Result<(), FatalError> {
        match &mut self.transport {
            Transport::Processes => jobs.iter().enumerate().try_for_each(|(index, job)| {
                processes::work(&self.identity, task, *job, interrupt, &mut |progress| on_progress(index, progress))
                    .map_err(|fatal| fatal.during([job.id.to_string()]))
            }),
            Transport::Session(session) => session.work(&self.identity, task, jobs, interrupt, on_progress),
        }
    }

    /// Requests files that show the result of applying each of these entities, without changing anything.
    ///
    /// Previews are optional, so failures and output of the plugin are ignored.
    ///
    /// # Errors
    /// Only what ends the run.
    pub fn preview(&mut self, jobs: &[Job<'_>], interrupt: &Interrupt) -> Result<Vec<Option<FilePair>>, FatalError> {
        match &mut self.transport {
            _ if self.identity.api_version() < API_VERSION_4 => Ok(vec![None; jobs.len()]),
            Transport::Processes => {
                jobs.iter().map(|job| processes::preview(&self.identity, job.id, interrupt)).collect()
            }
            Transport::Session(_) if !self.identity.handshake.info.preview => Ok(vec![None; jobs.len()]),
            Transport::Session(session) => session.preview(&self.identity, jobs, interrupt),
        }
    }

    /// Requests the plugin's own diagnoses, beyond those of its entities, as lines. Empty if the plugin does not
    /// support the operation.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn doctor(
        &mut self,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Vec<u8>, OperationError> {
        if !self.identity.handshake.info.doctor {
            return Ok(Vec::new());
        }
        self.report(Operation::Doctor, &[], interrupt, on_output)
            .map_err(|error| error.during(|| format!("the doctor of {}", self.id)))
    }

    /// Runs the health checks of these entities. Returns lines with the health of the entities that have checks.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn health(
        &mut self,
        ids: &[BString],
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Vec<u8>, OperationError> {
        if !self.identity.handshake.info.health || ids.is_empty() {
            return Ok(Vec::new());
        }
        self.report(Operation::Health, ids, interrupt, on_output)
            .map_err(|error| error.during(|| format!("the health checks of {}", self.id)))
    }

    /// Requests lines other than results of entities, optionally for these entities only.
    fn report(
        &mut self,
        operation: Operation,
        ids: &[BString],
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Vec<u8>, OperationError> {
        let mut lines = Vec::new();
        let on_report = &mut |piece: &[u8]| lines.extend_from_slice(piece);
        match &mut self.transport {
            Transport::Processes => {
                processes::report(&self.identity, operation, ids, interrupt, on_report, on_output)?;
            }
            Transport::Session(session) => {
                session.report(&self.identity, operation, ids, interrupt, on_report, on_output)?;
            }
        }
        Ok(lines)
    }

    /// Requests the two files that show an entity's difference, if there is one.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn diff(
        &mut self,
        id: &BStr,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Option<FilePair>, OperationError> {
        let answer = match &mut self.transport {
            Transport::Processes => processes::diff(&self.identity, id, interrupt, on_output),
            Transport::Session(session) => session.diff(&self.identity, id, interrupt, on_output),
        };
        answer.map_err(|error| error.during(|| id.to_string()))
    }

    /// Requests the origin of each line of an entity's file. Empty if the plugin does not support the operation.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn blame(
        &mut self,
        id: &BStr,
        path: &Path,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Vec<Span>, OperationError> {
        let answer = match &mut self.transport {
            _ if !self.identity.handshake.info.blames => Ok(Vec::new()),
            Transport::Processes => processes::blame(&self.identity, id, path, interrupt, on_output),
            Transport::Session(session) => session.blame(&self.identity, id, path, interrupt, on_output),
        };
        let text = answer.map_err(|error| error.during(|| id.to_string()))?;
        Ok(Span::parse_all(&text).collect())
    }

    /// Starts a process that reports changes to the plugin's entities, if the plugin supports it.
    ///
    /// # Errors
    /// If it cannot be started.
    #[must_use]
    pub fn watch(&self) -> Option<Result<process::Process, StartError>> {
        self.identity.handshake.info.watches.then(|| processes::watch(&self.identity))
    }

    /// Returns the values that all its entities of a type can send, as pairs of type and name.
    #[must_use]
    pub fn sends(&self) -> &[(String, String)] {
        &self.identity.handshake.info.sends
    }

    /// Returns true if the plugin supports candidates and adoption.
    #[must_use]
    pub fn adopts(&self) -> bool {
        self.identity.handshake.info.adopts
    }

    /// Returns its cache directory for this run.
    #[must_use]
    pub fn cache(&self) -> &Path {
        &self.identity.directories.cache
    }

    /// Requests candidates for adoption: manual changes that no resource file describes.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn candidates(
        &mut self,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Vec<Candidate>, OperationError> {
        let answer = match &mut self.transport {
            Transport::Processes => processes::candidates(&self.identity, interrupt, on_output),
            Transport::Session(session) => session.candidates(&self.identity, interrupt, on_output),
        };
        let text = answer.map_err(|error| error.during(|| format!("the search of {}", self.id)))?;
        Ok(Candidate::parse_all(&text).collect())
    }

    /// Requests resource files that describe the current state of an entity or path.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn adopt(
        &mut self,
        adoption: Adoption<'_>,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Adopted, OperationError> {
        let answer = match &mut self.transport {
            Transport::Processes => processes::adopt(&self.identity, adoption, interrupt, on_output),
            Transport::Session(session) => session.adopt(&self.identity, adoption, interrupt, on_output),
        };
        answer.map_err(|error| error.during(|| adoption.id.to_string()))
    }
}
