//! The plugins of a run, behind one interface for both protocol versions.

mod error;
pub mod handshake;
mod identity;
pub mod process;
mod processes;
mod session;

use crate::error::FatalError;
use crate::host::interrupt::Interrupt;
use bstr::{BStr, BString, ByteSlice};
use handshake::Handshake;
use holo_protocol::report::{OutlinedReport, ReportReader};
use holo_protocol::session::{Answer, Due, Operation, Received, Request, Stream, Wanted};
use holo_protocol::{API_VERSION_4, AdoptMessage, Adoption, Candidate, FilePair, ScanLimit, Span, Text, Witness};
use identity::Identity;
use process::StartError;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

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
    /// The witnesses of the last full scan, if it had some and no output.
    scan_witnesses: Option<Vec<Witness>>,
}

/// A plugin that reports changes to its entities itself.
#[derive(Debug)]
pub struct PluginWatch(Identity);

impl PluginWatch {
    /// Starts the process that reports them.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(&self) -> Result<process::Process, StartError> {
        processes::watch(&self.0)
    }
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
        Plugin { id, identity, transport, scan_witnesses: None }
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

    /// Returns true if the plugin supports an optional operation.
    fn supports(&self, operation: Operation) -> bool {
        self.identity.handshake.info.operations.contains(&operation)
    }

    /// Returns true if the plugin can limit a scan in this way.
    #[must_use]
    pub fn can_limit(&self, limit: ScanLimit<'_>) -> bool {
        let (info, is_session) = (&self.identity.handshake.info, matches!(self.transport, Transport::Session(_)));
        // On a command line, a scan can be limited only by IDs, and owners could not be asked for afterwards.
        let can_say = match limit {
            ScanLimit::Ids(_) => is_session || !info.finds_owners,
            ScanLimit::Prefix(_) => is_session,
            ScanLimit::Neighbours { .. } => is_session && info.finds_neighbours,
            ScanLimit::Owners(_) => is_session && info.finds_owners,
        };
        info.operations.contains(&Operation::Scan) && can_say
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
        let limit = limit.filter(|&limit| self.can_limit(limit));
        let request = Request { remembers: limit.is_none() && self.identity.remembers(), ..Request::scan(limit) };
        let (mut witnesses, mut is_silent) = (None, true);
        let asked = self.ask(request, interrupt, &mut |answer| match answer {
            Answer::Report { text, .. } => report.take(text.as_bstr()),
            Answer::Text { text, .. } => {
                witnesses = text.as_bstr().lines().map(|line| Witness::parse(line.as_bstr())).collect();
            }
            Answer::Output { stream, text, .. } => {
                is_silent = false;
                on_output(stream, text.as_bstr());
            }
            _ => {}
        });
        self.scan_witnesses = witnesses.filter(|_| is_silent);
        asked.map_err(|error| error.during(|| format!("the scan of {}", self.id)))?;
        Ok(report.finish().map_err(PluginError::Report)?)
    }

    /// Returns the witnesses of the last full scan. `None` if it has none, or must be repeated for its output.
    #[must_use]
    pub fn scan_witnesses(&self) -> Option<&[Witness]> {
        self.scan_witnesses.as_deref()
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
        let (size, can_preview) = match self.transport {
            Transport::Processes => (1, self.identity.api_version() >= API_VERSION_4),
            Transport::Session(_) => (jobs.len(), self.supports(Operation::Preview)),
        };
        let mut pairs = HashMap::new();
        for together in jobs.chunks(size.max(1)).filter(|_| can_preview) {
            let asked = self.ask(jobs_request(Operation::Preview, together), interrupt, &mut |answer| {
                if let Some(pair) = FilePair::from_answer(&answer)
                    && let Answer::Diff { entity, .. } = answer
                {
                    pairs.insert(entity.0, pair);
                }
            });
            if let Err(OperationError::Fatal(fatal)) = asked {
                return Err(fatal);
            }
        }
        Ok(jobs.iter().map(|job| pairs.remove(job.id)).collect())
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
        if !self.supports(Operation::Doctor) {
            return Ok(Vec::new());
        }
        let answered = self.collect(Request::new(0, Operation::Doctor), interrupt, on_output);
        Ok(answered.map_err(|error| error.during(|| format!("the doctor of {}", self.id)))?.text)
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
        if !self.supports(Operation::Health) || ids.is_empty() {
            return Ok(Vec::new());
        }
        let entities = ids.iter().cloned().map(Text).collect();
        let request = Request { entities, ..Request::new(0, Operation::Health) };
        let answered = self.collect(request, interrupt, on_output);
        Ok(answered.map_err(|error| error.during(|| format!("the health checks of {}", self.id)))?.text)
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
        let answered = self.collect(entity_request(Operation::Diff, id), interrupt, on_output);
        Ok(answered.map_err(|error| error.during(|| id.to_string()))?.files)
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
        if !self.supports(Operation::Blame) {
            return Ok(Vec::new());
        }
        let request = Request { path: Some(path_text(path)), ..entity_request(Operation::Blame, id) };
        let answered = self.collect(request, interrupt, on_output);
        Ok(Span::parse_all(&answered.map_err(|error| error.during(|| id.to_string()))?.text).collect())
    }

    /// Returns how to watch the plugin's entities, if the plugin supports it.
    #[must_use]
    pub fn watch(&self) -> Option<PluginWatch> {
        self.identity.handshake.info.watches.then(|| PluginWatch(self.identity.clone()))
    }

    /// Returns the values that all its entities of a type can send, as pairs of type and name.
    #[must_use]
    pub fn sends(&self) -> &[(String, String)] {
        &self.identity.handshake.info.sends
    }

    /// Returns the patterns of the resource files that it reads. Empty if they are unknown.
    #[must_use]
    pub fn reads(&self) -> &[String] {
        &self.identity.handshake.info.reads
    }

    /// Returns true if a change of one of its entities may undo another one.
    #[must_use]
    pub fn interferes(&self) -> bool {
        self.identity.handshake.api_version >= API_VERSION_4 && self.identity.handshake.info.interferes
    }

    /// Returns true if the plugin can forget entities.
    #[must_use]
    pub fn forgets(&self) -> bool {
        self.can_check() && self.supports(Operation::Forget)
    }

    /// Returns true if the plugin supports candidates and adoption.
    #[must_use]
    pub fn adopts(&self) -> bool {
        self.supports(Operation::Adopt)
    }

    /// Returns the directories of its resource files, highest precedence first.
    pub fn resource_dirs(&self) -> impl Iterator<Item = &Path> {
        self.identity.directories.resource_dirs()
    }

    /// Returns its cache directory for this run.
    #[must_use]
    pub fn cache(&self) -> &Path {
        &self.identity.directories.cache
    }

    /// Requests candidates for adoption: manual changes that no resource file describes. The given directories are
    /// searched in addition to the usual ones.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn candidates(
        &mut self,
        include: &[PathBuf],
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Vec<Candidate>, OperationError> {
        let adopt_include = include.iter().map(|path| path_text(path)).collect();
        let request = Request { adopt_include, ..Request::new(0, Operation::Adopt) };
        let answered = self.collect(request, interrupt, on_output);
        let answered = answered.map_err(|error| error.during(|| format!("the search of {}", self.id)))?;
        Ok(Candidate::parse_all(&answered.text).collect())
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
        let Adoption { id, directory, resolved, with } = adoption;
        let request = Request {
            adopt_dir: Some(path_text(directory)),
            adopt_resolved: resolved.map(path_text),
            adopt_with: with.iter().cloned().map(Text).collect(),
            ..entity_request(Operation::Adopt, id)
        };
        let answered = self.collect(request, interrupt, on_output);
        let Answered { text, messages, .. } = answered.map_err(|error| error.during(|| id.to_string()))?;
        Ok(match messages.iter().find_map(|line| AdoptMessage::parse(line.as_bstr())) {
            Some(AdoptMessage::Unknown) => Adopted::Unknown,
            Some(AdoptMessage::NotChanged) => Adopted::Unchanged,
            Some(AdoptMessage::Entity(id)) => Adopted::Entity(id),
            Some(AdoptMessage::Conflict(path)) => Adopted::Conflict(path),
            None => Adopted::Done { definition: text.into() },
        })
    }

    /// Sends a request that changes no entity, and collects its answers.
    fn collect(
        &mut self,
        request: Request,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Answered, OperationError> {
        let mut answered = Answered::default();
        self.ask(request, interrupt, &mut |answer| match answer {
            Answer::Report { text, .. } | Answer::Text { text, .. } => answered.text.extend_from_slice(text.as_bstr()),
            Answer::Output { stream, text, .. } => on_output(stream, text.as_bstr()),
            Answer::Diff { .. } => answered.files = FilePair::from_answer(&answer),
            Answer::Result { messages, .. } => answered.messages = messages,
            Answer::Begin { .. } | Answer::Progress { .. } | Answer::End { .. } => {}
        })?;
        Ok(answered)
    }

    /// Sends a request that changes no entity. It fails if an entity does.
    fn ask(
        &mut self,
        request: Request,
        interrupt: &Interrupt,
        on_answer: &mut dyn FnMut(Answer),
    ) -> Result<(), OperationError> {
        match &mut self.transport {
            Transport::Processes => processes::ask(&self.identity, &request, interrupt, on_answer),
            Transport::Session(session) => session.ask(&self.identity, request, interrupt, on_answer),
        }
    }
}

/// The collected answers to a request.
#[derive(Debug, Default)]
struct Answered {
    text: Vec<u8>,
    files: Option<FilePair>,
    messages: Vec<Text>,
}

/// Returns a request about one entity. The session assigns its number.
fn entity_request(operation: Operation, id: &BStr) -> Request {
    Request { entities: vec![id.into()], ..Request::new(0, operation) }
}

/// Returns a request for an operation on entities. The session assigns its number.
fn jobs_request(operation: Operation, jobs: &[Job<'_>]) -> Request {
    let text = |job: &Job<'_>| Text::from(job.id);
    let texts = |texts: &[BString]| texts.iter().cloned().map(Text).collect();
    let ids = |is_meant: fn(&Job<'_>) -> bool| jobs.iter().filter(|job| is_meant(job)).map(text).collect();
    let received = jobs.iter().filter(|job| !job.received.is_empty());
    let wanted = jobs.iter().filter(|job| !job.wanted.is_empty());
    Request {
        entities: ids(|_| true),
        refresh: ids(|job| job.refresh),
        due: jobs.iter().filter_map(|job| Some(Due { entity: text(job), since: job.due_since? })).collect(),
        pending: ids(|job| job.pending),
        received: received.map(|job| Received { entity: text(job), values: texts(job.received) }).collect(),
        wanted: wanted.map(|job| Wanted { entity: text(job), names: texts(job.wanted) }).collect(),
        renewed: ids(|job| job.renewed),
        ..Request::new(0, operation)
    }
}

fn path_text(path: &Path) -> Text {
    path.as_os_str().as_bytes().into()
}

/// The outcome of an [`Adoption`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adopted {
    /// The plugin does not recognise the entity or path.
    Unknown,
    /// It is the entity with this ID, which must be requested instead.
    Entity(BString),
    /// It has no manual changes.
    Unchanged,
    /// The directory contains its resource files, or this definition describes it.
    Done {
        /// The definition; empty if there is none.
        definition: BString,
    },
    /// A manual change and the resource files conflict; this file contains both versions.
    Conflict(PathBuf),
}
