//! The plugins of a run, which are asked in the same way whatever version they speak.

mod adoption;
mod error;
pub mod handshake;
pub mod process;
mod processes;
mod session;

pub use adoption::{Adopted, Adoption};
pub use error::{OperationError, PluginError, check_status};
use process::StartError;

use crate::error::FatalError;
use crate::interrupt::Interrupt;
use bstr::{BStr, BString};
use handshake::Handshake;
use holo_protocol::environment as names;
use holo_protocol::report::{OutlinedReport, ReportReader};
use holo_protocol::session::Stream;
use holo_protocol::{API_VERSION_4, Candidate, FilePair, Message, ScanLimit, Span};
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A plugin that answered the handshake.
#[derive(Debug)]
pub struct Plugin {
    /// Its ID.
    pub id: String,
    identity: Identity,
    transport: Transport,
}

/// The context of every invocation of a plugin.
#[derive(Debug)]
struct Identity {
    program: PathBuf,
    api_version: u32,
    directories: Directories,
    /// True if it is to read everything, whatever it knows from earlier runs.
    verify: bool,
    /// True if it may say what to do about an error.
    hints: bool,
    /// True if it may write nothing but in its cache directory.
    read_only: bool,
    /// True if it should keep what files were that it replaces.
    keeps_replaced: bool,
    /// The number of entities that it may work on at a time.
    jobs: u32,
    /// True if its session can be asked for previews.
    previews: bool,
    /// True if it can be asked what is wrong beside its entities.
    doctors: bool,
    /// True if it can run health checks.
    checks_health: bool,
    /// True if its session is kept between two requests.
    keeps_session: bool,
    /// True if it can scan for some entities only.
    limits_scan: bool,
    /// True if it has the operation `blame`.
    blames: bool,
    /// True if it can tell what could get resource files, and write those.
    adopts: bool,
    /// True if it notices by itself what happens to its entities.
    watches: bool,
    /// The values that all its entities of a type can send: the type and the name of each.
    sends: Vec<(String, String)>,
    /// The time limit of each operation.
    limit: Option<Duration>,
}

/// The options of a run on all plugins alike.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// True if they are to read everything, whatever they know from earlier runs.
    pub verify: bool,
    /// True if a person reads what they print, so that they may say what to do about an error.
    pub hints: bool,
    /// True if they may write nothing but in their cache directories.
    pub read_only: bool,
    /// True if they should keep what files were that they replace.
    pub keeps_replaced: bool,
    /// The number of entities that each may work on at a time.
    pub jobs: NonZeroU32,
    /// True if there is room for the sessions of all of them at the same time.
    pub room_for_all: bool,
    /// The time limit of each operation.
    pub limit: Option<Duration>,
}

/// The directories that a plugin is given.
#[derive(Clone, Debug)]
pub struct Directories {
    /// The root of the system, as the user gave it.
    pub root: PathBuf,
    /// The directory of its resource files.
    pub resources: PathBuf,
    /// The directory of the administrator's resource files, if there is one that the plugin itself is to read.
    pub own_resources: Option<PathBuf>,
    /// The directory of the inputs of an earlier run, if they are used.
    pub inputs: Option<PathBuf>,
    /// The directory that it keeps for later runs.
    pub state: PathBuf,
    /// The directory that it keeps for this run.
    pub cache: PathBuf,
}

/// The transport of requests to a plugin: one process an operation, or one for all.
#[derive(Debug)]
enum Transport {
    Processes,
    Session(session::Slot),
}

/// The operation that is wanted of a plugin for an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// To find out what applying it would do.
    Check,
    /// To bring it into its desired state.
    Apply,
    /// The same, overwriting what a person changed.
    ForceApply,
}

/// An entity to work on.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Its ID.
    pub id: &'a BStr,
    /// True if it is to be refreshed: something that it depends on has changed.
    pub refresh: bool,
    /// True if something earlier in a check may bring what it lacks.
    pub pending: bool,
    /// The values that were sent to it as it is to be refreshed, and those that it receives by its definition, each `KEY=VALUE`.
    pub received: &'a [BString],
    /// The names of the values that others receive from it.
    pub wanted: &'a [BString],
    /// True if what it receives is something else than when it was listed.
    pub renewed: bool,
}

impl<'a> Job<'a> {
    /// Returns an entity to ask something of.
    #[must_use]
    pub fn new(id: &'a BStr) -> Job<'a> {
        Job { id, refresh: false, pending: false, received: &[], wanted: &[], renewed: false }
    }
}

/// A sign of life from a plugin while it works on an entity.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Something for the user to see.
    Output(Stream, &'a [u8]),
    /// A message of file descriptor 3.
    Message(Message),
    /// The two files that show what a person changed: after [`Message::RequiresForceToOverwrite`], or as all that a plugin of version 3
    /// can say when it is asked to check.
    Diff(FilePair),
    /// There should be two such files, but the plugin cannot name them.
    CannotDiff(String),
    /// Something about the plugin itself that a person should know.
    Warning(String),
    /// It is being worked on, and has been for so long.
    Waiting(Duration),
    /// The entity is done with.
    Done,
    /// The entity is done with, and failed.
    Failed(Failure),
}

/// The ways in which a plugin fails with an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It has said why itself.
    Told,
    /// It ended with an exit status that says so, whatever else it has said; the text names the status.
    Status(String),
    /// It could not do its work; the text says why.
    Broken(String),
}

impl Plugin {
    /// Returns a plugin that has answered the handshake.
    #[must_use]
    pub fn new(id: String, handshake: Handshake, directories: Directories, options: RunOptions) -> Plugin {
        let RunOptions { verify, hints, read_only, keeps_replaced, jobs, room_for_all: keeps_session, limit } = options;
        let Handshake {
            program,
            api_version,
            session,
            preview: previews,
            doctor: doctors,
            health: checks_health,
            blames,
            limits_scan,
            adopts,
            watches,
            sends,
            concurrency,
        } = handshake;
        let jobs = concurrency.map_or(jobs.get(), |most| most.min(jobs.get()));
        let identity = Identity {
            program,
            api_version,
            directories,
            verify,
            hints,
            read_only,
            keeps_replaced,
            jobs,
            previews,
            doctors,
            checks_health,
            keeps_session,
            limits_scan,
            blames,
            adopts,
            watches,
            sends,
            limit,
        };
        let transport = if session { Transport::Session(session::Slot::default()) } else { Transport::Processes };
        Plugin { id, identity, transport }
    }

    /// Returns the version of the interface that both sides speak.
    #[must_use]
    pub fn api_version(&self) -> u32 {
        self.identity.api_version
    }

    /// Returns true if it can tell what applying an entity would do. Version 3 can only tell what a person has changed.
    #[must_use]
    pub fn can_check(&self) -> bool {
        self.identity.api_version >= API_VERSION_4
    }

    /// Returns true if it can be asked for some entities only in this way.
    #[must_use]
    pub fn can_limit(&self, limit: ScanLimit<'_>) -> bool {
        // A command line is for IDs alone.
        let can_say = matches!(limit, ScanLimit::Ids(_)) || matches!(self.transport, Transport::Session(_));
        self.identity.limits_scan && can_say
    }

    /// Tells it that nothing more is wanted: a session may begin to end before it is waited for.
    pub fn dismiss(&mut self) {
        if let Transport::Session(session) = &mut self.transport {
            session.dismiss();
        }
    }

    /// Asks which entities there are, or only for some if it can be asked so. The report is read while it comes in.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn scan(
        &mut self,
        limit: Option<ScanLimit<'_>>,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<OutlinedReport, OperationError> {
        let mut report = ReportReader::new(self.identity.api_version);
        let on_report = &mut |piece: &[u8]| report.take(piece);
        let limit = limit.filter(|&limit| self.can_limit(limit));
        let answer = match &mut self.transport {
            Transport::Processes => processes::scan(&self.identity, limit, interrupt, on_report, on_output),
            Transport::Session(session) => session.scan(&self.identity, limit, interrupt, on_report, on_output),
        };
        answer.map_err(|error| error.during(|| format!("the scan of {}", self.id)))?;
        Ok(report.finish().map_err(PluginError::Report)?)
    }

    /// Works on entities of which none depends on another, in any order; each [`Progress`] comes with the index of its entity.
    ///
    /// Every entity comes to its end by [`Progress::Done`] or [`Progress::Failed`], whatever the plugin does.
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

    /// Asks for the files that show what applying each of these entities would make of it, which nothing is changed for.
    ///
    /// A plugin need not be able to tell; so what goes wrong, and what it prints, does not count.
    ///
    /// # Errors
    /// Only what ends the run.
    pub fn preview(&mut self, jobs: &[Job<'_>], interrupt: &Interrupt) -> Result<Vec<Option<FilePair>>, FatalError> {
        match &mut self.transport {
            _ if self.identity.api_version < API_VERSION_4 => Ok(vec![None; jobs.len()]),
            Transport::Processes => {
                jobs.iter().map(|job| processes::preview(&self.identity, job.id, interrupt)).collect()
            }
            Transport::Session(_) if !self.identity.previews => Ok(vec![None; jobs.len()]),
            Transport::Session(session) => session.preview(&self.identity, jobs, interrupt),
        }
    }

    /// Asks what is wrong, or well, beside its entities, in lines that are diagnoses; there are none if it does not have the operation.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn doctor(
        &mut self,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Vec<u8>, OperationError> {
        let mut lines = Vec::new();
        let on_report = &mut |piece: &[u8]| lines.extend_from_slice(piece);
        let answer = match &mut self.transport {
            _ if !self.identity.doctors => Ok(()),
            Transport::Processes => processes::doctor(&self.identity, interrupt, on_report, on_output),
            Transport::Session(session) => session.doctor(&self.identity, interrupt, on_report, on_output),
        };
        answer.map_err(|error| error.during(|| format!("the doctor of {}", self.id)))?;
        Ok(lines)
    }

    /// Runs the health checks of these entities. Returns lines that say the health of those that have any.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn health(
        &mut self,
        ids: &[BString],
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Vec<u8>, OperationError> {
        let mut lines = Vec::new();
        let on_report = &mut |piece: &[u8]| lines.extend_from_slice(piece);
        let answer = match &mut self.transport {
            _ if !self.identity.checks_health || ids.is_empty() => Ok(()),
            Transport::Processes => processes::health(&self.identity, ids, interrupt, on_report, on_output),
            Transport::Session(session) => session.health(&self.identity, ids, interrupt, on_report, on_output),
        };
        answer.map_err(|error| error.during(|| format!("the health checks of {}", self.id)))?;
        Ok(lines)
    }

    /// Asks for the two files that show an entity's difference; there may be none.
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

    /// Asks where the lines of a file of an entity have come from, if it can be asked.
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
            _ if !self.identity.blames => Ok(Vec::new()),
            Transport::Processes => processes::blame(&self.identity, id, path, interrupt, on_output),
            Transport::Session(session) => session.blame(&self.identity, id, path, interrupt, on_output),
        };
        let text = answer.map_err(|error| error.during(|| id.to_string()))?;
        Ok(Span::parse_all(&text).collect())
    }

    /// Starts a process that says what happens to its entities, if it can do that.
    ///
    /// # Errors
    /// If that cannot be started.
    #[must_use]
    pub fn watch(&self) -> Option<Result<process::Process, StartError>> {
        self.identity.watches.then(|| processes::watch(&self.identity))
    }

    /// Returns the values that all its entities of a type can send: the type and the name of each.
    #[must_use]
    pub fn sends(&self) -> &[(String, String)] {
        &self.identity.sends
    }

    /// Returns true if it can be asked for candidates, and to adopt something.
    #[must_use]
    pub fn adopts(&self) -> bool {
        self.identity.adopts
    }

    /// Returns the directory that it keeps for this run.
    #[must_use]
    pub fn cache(&self) -> &Path {
        &self.identity.directories.cache
    }

    /// Asks what there is because of a person that is not as resource files have it.
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

    /// Asks for resource files that describe something as it is now.
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

impl Directories {
    /// Returns all directories of resource files, the strongest first.
    fn resource_dirs(&self) -> impl Iterator<Item = &Path> {
        self.own_resources.as_deref().into_iter().chain([&*self.resources])
    }
}

impl Identity {
    /// Returns the variables that the plugin's environment has beyond ours.
    fn environment(&self) -> Vec<(&'static str, OsString)> {
        let Directories { root, resources, state, cache, .. } = &self.directories;
        let mut environment = vec![
            (names::API_VERSION, self.api_version.to_string().into()),
            (names::ROOT_DIR, root.into()),
            (names::RESOURCE_DIR, resources.into()),
            (names::STATE_DIR, state.into()),
            (names::CACHE_DIR, cache.into()),
            // Said in both cases, as this may run below a plugin that was told the other.
            (names::READ_ONLY, if self.read_only { "1" } else { "0" }.into()),
        ];
        if self.api_version >= API_VERSION_4 {
            environment.push((names::JOBS, self.jobs.to_string().into()));
            environment.push((names::RESOURCE_DIRS, names::join_directories(self.directories.resource_dirs())));
            // Said in both cases, as this may run below a plugin that was told another.
            let inputs = self.directories.inputs.as_ref().map(OsString::from).unwrap_or_default();
            environment.push((names::INPUTS_DIR, inputs));
            let kept = cache.parent().filter(|_| self.directories.inputs.is_some());
            let kept = kept.map(|run| run.join(crate::cache::KEPT).into()).unwrap_or_default();
            environment.push((names::KEPT, kept));
            environment.extend(cache.parent().map(|run| (names::VALUES, run.join(crate::cache::VALUES).into())));
            // All plugins' cache directories are in that of the run.
            environment.extend(cache.parent().map(|run| (names::FACTS, run.join(crate::cache::FACTS).into())));
        }
        if self.keeps_replaced {
            environment.push((names::KEEP_REPLACED, "1".into()));
        }
        if self.verify {
            environment.push((names::VERIFY, "1".into()));
        }
        if self.hints {
            environment.push((names::HINTS, "1".into()));
        }
        environment
    }

    /// Returns the advice about a plugin that has left a process behind that holds one of its pipes.
    fn held_open(&self, channel: process::Channel) -> String {
        let what = match channel {
            process::Channel::Stdout => "standard output",
            process::Channel::Stderr => "standard error",
            process::Channel::Extra => "file descriptor 3",
        };
        let program = self.program.display();
        format!(
            "{program} has left a process behind that holds its {what} open; what that may still say is not waited for"
        )
    }
}

/// Returns the programs of a plugin that no line gives a path for: in the usual folder below the root, then beside this program, then in the
/// usual folder on the host. The first that exists counts; the first of all is the one to name if none does.
#[must_use]
pub fn default_programs(id: &str, root: &crate::root::Root, program_directory: Option<&Path>) -> Vec<PathBuf> {
    let name = format!("holo-{id}");
    let usual = |root: &crate::root::Root| root.join("usr/lib/holo").join(&name);
    let beside = program_directory.map(|folder| folder.join(&name));
    [usual(root)].into_iter().chain(beside).chain([usual(&crate::root::Root::new(None))]).collect()
}
