//! The Python process that runs modules: it is started once, and receives one task after the other.

use crate::answer::{Limits, Reply};
use crate::arrangement::{Content, Step};
use crate::definition::{Condition, PythonTable};
use crate::library::Library;
use holo_bridge::{StartError, examine_interpreter, limits, set_environment};
use holo_change::{OnDisk, Tree};
use holo_plugin::Host;
use holo_plugin::process::{self, Conversation, ConversationError, Deadline, Identity, Program};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Its script.
pub(crate) const SCRIPT: &str = include_str!("host.py");
/// The names of the script, and of the directory for temporary files of modules, in the cache directory.
const SCRIPT_FILE: &str = "host.py";
const DIRECTORY: &str = "tmp";
/// The host itself kills a module that exceeds its timeout, after giving it five seconds to clean up.
const LATER: Duration = Duration::from_secs(15);
/// The timeout for its end when there are no more tasks.
const END_LIMIT: Duration = Duration::from_secs(1);
/// The maximum output of a module in bytes.
pub(crate) const MAX_OUTPUT: usize = 16 << 20;
/// The maximum length of an answer, in which a byte of output takes up to six, and texts may occur twice.
const MAX_ANSWER: usize = 12 * MAX_OUTPUT + (1 << 20);

/// The Python process.
#[derive(Debug)]
pub(crate) struct Python {
    conversation: Conversation,
    name: String,
    pub(crate) library: Library,
    directory: Option<PathBuf>,
}

/// The user of a process, and whether it may gain privileges by running programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Become {
    pub(crate) user: Option<String>,
    pub(crate) may_gain_privileges: bool,
}

/// A task.
#[derive(Debug, Serialize)]
pub(crate) struct Request<'a> {
    #[serde(flatten)]
    pub(crate) work: Work,
    pub(crate) check: bool,
    pub(crate) diff: bool,
    /// True if the arguments must not be written to the system's log.
    pub(crate) no_log: bool,
    /// Environment variables, with a character for each byte.
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) changed_when: Option<&'a [Condition]>,
    pub(crate) failed_when: Option<&'a [Condition]>,
    pub(crate) register: Option<&'a str>,
    /// The values of the answer to return.
    pub(crate) wanted: Vec<String>,
    #[serde(flatten)]
    pub(crate) scope: Scope,
}

/// The modules of a task, or the answer of a task without a module.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    Steps(Vec<StepRequest>),
    Answer(Value),
}

/// The variables of expressions and templates.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Scope {
    /// Those whose texts can be templates themselves.
    pub(crate) scope: Map<String, Value>,
    /// The answers of earlier tasks.
    pub(crate) registered: Map<String, Value>,
    /// The directory of the definitions.
    pub(crate) folder: PathBuf,
}

/// Conditions and arguments to evaluate before a task.
#[derive(Debug, Serialize)]
pub(crate) struct Evaluation<'a> {
    pub(crate) when: Vec<Condition>,
    pub(crate) expressions: &'a BTreeMap<String, String>,
    #[serde(flatten)]
    pub(crate) scope: Scope,
}

/// The values of an [`Evaluation`].
#[derive(Debug, Deserialize)]
pub(crate) struct Evaluated {
    pub(crate) holds: bool,
    pub(crate) args: Map<String, Value>,
}

/// A module to run.
#[derive(Debug, Serialize)]
pub(crate) struct StepRequest {
    /// The name for importing the module in Python.
    module: String,
    /// The name for users.
    name: String,
    args: Map<String, Value>,
    source: Option<SourceRequest>,
}

/// A temporary file.
#[derive(Debug, Default, Serialize)]
struct SourceRequest {
    kind: &'static str,
    from: String,
    folder: PathBuf,
    argument: &'static str,
    mode: Option<u32>,
    /// False if the module does not move the file, so that the original can be used.
    copies: bool,
    trim: bool,
    lstrip: bool,
}

impl StepRequest {
    pub(crate) fn new(step: Step, check: bool) -> StepRequest {
        let source = step.source.map(|source| {
            let request = SourceRequest { argument: source.argument, mode: source.mode, ..SourceRequest::default() };
            match source.content {
                Content::Bytes(bytes) => SourceRequest { kind: "bytes", from: as_characters(&bytes), ..request },
                Content::File(path) => SourceRequest {
                    kind: "file",
                    from: path.display().to_string(),
                    copies: !check || source.mode.is_some(),
                    ..request
                },
                Content::Template { text, folder, trims, lstrips } => {
                    SourceRequest { kind: "template", from: text, folder, trim: trims, lstrip: lstrips, ..request }
                }
            }
        });
        StepRequest { module: step.module.in_python(), name: step.module.to_string(), args: step.args, source }
    }
}

/// Returns a text with a character for each byte.
pub(crate) fn as_characters(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// A request with the fields that are the same for all.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    request: &'a Request<'a>,
    /// `None` for a process of another user, which makes its own.
    directory: Option<PathBuf>,
    /// In seconds.
    timeout: f64,
    limit: usize,
}

/// The first line of the process.
#[derive(Deserialize)]
#[serde(untagged)]
enum Header {
    Library(Library),
    Error { error: String },
}

/// An answer of the process.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answered<T> {
    Error { error: String },
    Other(T),
}

/// The reason why the process cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PythonError {
    /// It does not start, or lacks modules' dependencies.
    #[error("{0}")]
    Unusable(String),
    /// Other users may modify it.
    #[error(transparent)]
    Untrusted(holo_bridge::trust::TrustError),
    /// A template or source of a task cannot be used. The process is still alive.
    #[error("{0}")]
    Task(String),
    /// It failed during a task.
    #[error("{0}")]
    Fault(String),
}

impl Python {
    /// Starts the process. Its standard error is passed to `heard` line by line.
    ///
    /// # Errors
    /// If it does not start, or cannot import the modules' dependencies.
    pub(crate) fn start(
        host: &Host,
        table: &PythonTable,
        who: &Become,
        heard: &mut dyn FnMut(&[u8]),
    ) -> Result<Python, PythonError> {
        examine_interpreter(&table.python).map_err(|error| match error {
            StartError::Untrusted(error) => PythonError::Untrusted(error),
            impossible @ StartError::Impossible { .. } => PythonError::Unusable(impossible.to_string()),
        })?;
        let directory = prepare(host).map_err(|reason| PythonError::Unusable(reason.to_string()))?;
        let words = table.python.words();
        let name = words.first().cloned().unwrap_or_default();
        let mut program = Program::new(&name);
        program.args(words.iter().skip(1));
        match who.user.clone() {
            None => program.arg(directory.join(SCRIPT_FILE)),
            // It can read nothing in the cache directory.
            user => program
                .identity(Identity { user, may_gain_privileges: who.may_gain_privileges, ..Identity::default() })
                .args(["-c", SCRIPT]),
        };
        program.args(table.collections.iter().map(|path| absolute(&host.below_root(Path::new(path)))));
        program.current_dir(if table.respects_root { absolute(host.root()) } else { PathBuf::from("/") });
        set_environment(&mut program, host);
        let unusable = |reason: String| PythonError::Unusable(reason);
        let mut conversation = program.converse().map_err(|error| unusable(error.to_string()))?;
        conversation.set_limits(process::Limits { line: MAX_ANSWER, answer: MAX_ANSWER });
        let line = conversation.line(Deadline::after(limits::HEADER), heard).map_err(|error| match error {
            ConversationError::Ended { status, .. } => {
                unusable(format!("{name} ended before its header: {}", status.in_words()))
            }
            error => unusable(format!("{name} {error}")),
        })?;
        match serde_json::from_slice(&line) {
            Ok(Header::Library(library)) => {
                let directory = who.user.is_none().then(|| directory.join(DIRECTORY));
                Ok(Python { conversation, name, library, directory })
            }
            Ok(Header::Error { error }) => Err(unusable(format!("{name}: {error}"))),
            Err(_) => Err(unusable(format!("{name}: {:?} is no header", String::from_utf8_lossy(&line)))),
        }
    }

    /// Runs a task.
    ///
    /// # Errors
    /// If there is no answer; unless a part of the task is invalid, the process has ended.
    pub(crate) fn ask(
        &mut self,
        request: &Request<'_>,
        limits: Limits,
        heard: &mut dyn FnMut(&[u8]),
    ) -> Result<Reply, PythonError> {
        let directory = self.directory.clone();
        let whole = Whole { request, directory, timeout: limits.time.as_secs_f64(), limit: limits.output };
        self.exchange(&whole, limits.time, heard)
    }

    /// Evaluates conditions and arguments.
    ///
    /// # Errors
    /// If an expression is invalid; otherwise, the process has ended.
    pub(crate) fn evaluate(
        &mut self,
        evaluation: &Evaluation<'_>,
        heard: &mut dyn FnMut(&[u8]),
    ) -> Result<Evaluated, PythonError> {
        self.exchange(evaluation, limits::LOOK, heard)
    }

    fn exchange<T: for<'de> Deserialize<'de>>(
        &mut self,
        request: &impl Serialize,
        limit: Duration,
        heard: &mut dyn FnMut(&[u8]),
    ) -> Result<T, PythonError> {
        let fault = |name: &str, error: &dyn std::fmt::Display| PythonError::Fault(format!("{name} {error}"));
        let mut line = serde_json::to_vec(request).map_err(|error| fault(&self.name, &error))?;
        line.push(b'\n');
        self.conversation.send(&line);
        let deadline = Deadline::after(limit.saturating_add(LATER));
        let answer = self.conversation.line(deadline, heard).map_err(|error| fault(&self.name, &error))?;
        match serde_json::from_slice(&answer) {
            Ok(Answered::Other(reply)) => Ok(reply),
            Ok(Answered::Error { error }) => Err(PythonError::Task(error)),
            Err(error) => Err(fault(&self.name, &format!("sent an invalid answer: {error}"))),
        }
    }

    /// Ends the process.
    pub(crate) fn end(self) {
        // Its end is irrelevant now.
        let _ = self.conversation.end(END_LIMIT, &mut |_| {});
    }
}

/// Writes the script to the cache directory, with a directory for modules next to it, and returns its path.
fn prepare(host: &Host) -> holo_change::error::Result<PathBuf> {
    let script = Tree::open(host.cache_dir())?.place(Path::new(SCRIPT_FILE));
    script.replace(SCRIPT.as_bytes(), 0o600, OnDisk::Nothing)?;
    let cache = absolute(host.cache_dir());
    let directory = cache.join(DIRECTORY);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    made.map_err(|error| holo_change::PathError::new("mkdir", directory, error))?;
    Ok(cache)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
