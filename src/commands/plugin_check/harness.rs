//! Calls the plugin, and checks what must hold for every call: its time limit, no processes left behind, no files
//! outside its directories.

use super::finding::{Findings, Rule, Severity};
use super::heard::{CallError, Heard, MAX_KEPT, keep, listed, plain, quoted};
use super::scratch::{Scratch, Snapshot};
use super::session::{Asked, END_LIMIT, Session};
use super::{Manner, Subject};
use crate::error::FatalError;
use crate::host::interrupt::Interrupt;
use crate::plugin::Directories;
use crate::plugin::process::{self, Channel, Event, Exit, Program, StartError};
use bstr::{BString, ByteSlice};
use holo_protocol::session::{Operation, Request};
use holo_protocol::{API_VERSION_4, ScanLimit, Text, environment as names};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The number of bytes kept of a plugin's output to file descriptor 3.
const MAX_MESSAGES: usize = 1 << 20;

/// Calls a plugin in one mode, and judges each call.
pub(super) struct Harness<'a, 'f> {
    pub(super) program: PathBuf,
    pub(super) id: String,
    pub(super) manner: Manner,
    pub(super) scratch: Scratch,
    pub(super) limit: Duration,
    pub(super) interrupt: &'a Interrupt,
    pub(super) findings: &'a mut Findings<'f>,
    session: Option<Session>,
}

impl<'a, 'f> Harness<'a, 'f> {
    pub(super) fn new(
        subject: &Subject,
        manner: Manner,
        scratch: Scratch,
        interrupt: &'a Interrupt,
        findings: &'a mut Findings<'f>,
    ) -> Harness<'a, 'f> {
        let Subject { program, id, limit, .. } = subject;
        let (program, id, limit) = (program.clone(), id.clone(), *limit);
        Harness { program, id, manner, scratch, limit, interrupt, findings, session: None }
    }

    /// Returns an operation as findings name it.
    pub(super) fn subject(&self, operation: &str, ids: &[BString]) -> String {
        let manner = if self.manner.session { "session: " } else { "" };
        let ids: Vec<String> = ids.iter().map(|id| format!(" {}", plain(id))).collect();
        format!("{manner}{operation}{}", ids.join(","))
    }

    pub(super) fn fail_unless(&mut self, rule: Rule, subject: &str, holds: bool, text: impl Into<String>) -> bool {
        self.findings.expect(Severity::Failure, rule, subject, holds, text)
    }

    pub(super) fn warn_unless(&mut self, rule: Rule, subject: &str, holds: bool, text: impl Into<String>) -> bool {
        self.findings.expect(Severity::Warning, rule, subject, holds, text)
    }

    /// Begins a run with an empty cache directory and a new session.
    pub(super) fn begin_run(&mut self) -> Result<(), FatalError> {
        self.end_session()?;
        self.scratch.begin_run()
    }

    /// Ends the session if there is one.
    pub(super) fn end_session(&mut self) -> Result<(), FatalError> {
        let Some(session) = self.session.take() else { return Ok(()) };
        let (said, ended) = session.end(self.interrupt)?;
        let text = format!("says {} after \"end\", where no output is expected", quoted(&said));
        self.fail_unless(Rule::Order, "session", said.is_empty(), text);
        let text = format!("does not end within {END_LIMIT:?} after its input");
        self.fail_unless(Rule::Sessions, "session", ended.is_some(), text);
        if let Some(ended) = ended {
            self.left_nothing_behind("session", ended);
            let failure = ended.status.failure();
            let text = format!("ends with {}, where exit status 0 is expected", failure.as_deref().unwrap_or_default());
            self.warn_unless(Rule::Sessions, "session", failure.is_none(), text);
        }
        self.judge_strays("session");
        Ok(())
    }

    /// Requests the scan report, returned as standard output.
    pub(super) fn scan(&mut self) -> Result<Heard, FatalError> {
        if self.manner.session {
            let subject = self.subject("scan", &[]);
            return self.request_scan(&Request::scan(None), &subject);
        }
        let directories = self.scratch.directories().clone();
        self.scan_in(&directories, self.manner.api_version)
    }

    /// Requests the scan report of some entities.
    pub(super) fn scan_limited(&mut self, limit: ScanLimit<'_>, subject: &str) -> Result<Heard, FatalError> {
        if let ScanLimit::Ids(ids) = limit
            && !self.manner.session
        {
            let environment = self.environment(self.scratch.directories(), self.manner.api_version);
            return self.call("scan", ids, environment, false);
        }
        self.request_scan(&Request::scan(Some(limit)), subject)
    }

    fn request_scan(&mut self, request: &Request, subject: &str) -> Result<Heard, FatalError> {
        let mut heard = self.request(request, subject)?;
        Ok(heard.pop().unwrap_or_default())
    }

    /// Requests the scan report from a new process.
    pub(super) fn scan_in(&mut self, directories: &Directories, api_version: u32) -> Result<Heard, FatalError> {
        let environment = self.environment(directories, api_version);
        self.call("scan", &[], environment, false)
    }

    /// Requests the plugin's description of itself.
    pub(super) fn info(&mut self) -> Result<Heard, FatalError> {
        let environment = vec![
            (names::ROOT_DIR, self.scratch.directories().root.clone().into_os_string()),
            (names::API_VERSION, self.manner.api_version.to_string().into()),
            ("TMPDIR", self.scratch.temporary().into()),
        ];
        self.call("info", &[], environment, false)
    }

    /// Runs an operation that is not about an entity, whose answer is lines on file descriptor 3.
    pub(super) fn ask(&mut self, operation: Operation, subject: &str) -> Result<Heard, FatalError> {
        if self.manner.session {
            let mut heard = self.request(&Request::new(0, operation), subject)?;
            return Ok(heard.pop().unwrap_or_default());
        }
        let environment = self.environment(self.scratch.directories(), self.manner.api_version);
        self.call(operation.word(), &[], environment, true)
    }

    /// Runs the health checks of entities, whose answer is lines on file descriptor 3.
    pub(super) fn health(&mut self, ids: &[BString], subject: &str) -> Result<Heard, FatalError> {
        if self.manner.session {
            let entities = ids.iter().cloned().map(Text).collect();
            let request = Request { entities, ..Request::new(0, Operation::Health) };
            let mut heard = self.request(&request, subject)?;
            return Ok(if heard.is_empty() { Heard::default() } else { heard.swap_remove(0) });
        }
        let environment = self.environment(self.scratch.directories(), self.manner.api_version);
        self.call("health", ids, environment, true)
    }

    /// Runs an operation on entities that do not depend on each other. Returns the answers for each of them.
    pub(super) fn work(&mut self, operation: Operation, ids: &[BString]) -> Result<Vec<Heard>, FatalError> {
        if self.manner.session {
            let subject = self.subject(operation.word(), ids);
            let entities = ids.iter().cloned().map(Text).collect();
            return self.request(&Request { entities, ..Request::new(0, operation) }, &subject);
        }
        let directories = self.scratch.directories().clone();
        let environment = self.environment(&directories, self.manner.api_version);
        let one = |id| self.call(operation.word(), std::slice::from_ref(id), environment.clone(), true);
        ids.iter().map(one).collect()
    }

    /// Requests resource files for an entity or path, to be written to a directory.
    pub(super) fn adopt(&mut self, id: &BString, directory: &Path) -> Result<Heard, FatalError> {
        if self.manner.session {
            let subject = self.subject("adopt", std::slice::from_ref(id));
            let adopt_dir = Some(Text::from(directory.as_os_str().as_encoded_bytes()));
            let request = Request { entities: vec![Text(id.clone())], adopt_dir, ..Request::new(0, Operation::Adopt) };
            return Ok(self.request(&request, &subject)?.pop().unwrap_or_default());
        }
        let mut environment = self.environment(self.scratch.directories(), self.manner.api_version);
        environment.push((names::ADOPT_DIR, directory.into()));
        self.call("adopt", std::slice::from_ref(id), environment, true)
    }

    fn request(&mut self, request: &Request, subject: &str) -> Result<Vec<Heard>, FatalError> {
        let session = match self.session.take() {
            Some(session) => Ok(session),
            None => self.start_session(),
        };
        let heard = match session {
            Ok(mut session) => {
                let asked = session.ask(self.interrupt, self.limit, request)?;
                self.session = asked.goes_on.then_some(session);
                self.judge_answers(subject, asked)
            }
            Err(reason) => {
                self.fail_unless(Rule::Sessions, subject, false, format!("cannot be started: {reason}"));
                let told = || Heard { error: Some(CallError::Told), ..Heard::default() };
                (0..request.entities.len().max(1)).map(|_| told()).collect()
            }
        };
        self.judge_strays(subject);
        Ok(heard)
    }

    fn start_session(&self) -> Result<Session, StartError> {
        let environment = self.environment(self.scratch.directories(), self.manner.api_version);
        let arguments = vec![OsStr::new("session")];
        Session::start(Program {
            path: &self.program,
            arguments,
            environment,
            messages: true,
            requests: true,
            limit: None,
            max_output: u64::MAX,
        })
    }

    /// Reports errors in the answers to a request. Returns the answers for each entity.
    fn judge_answers(&mut self, subject: &str, asked: Asked) -> Vec<Heard> {
        self.in_time(subject, asked.in_time);
        for (rule, severity, text) in &asked.complaints {
            self.findings.expect(*severity, *rule, subject, false, text.as_str());
        }
        if asked.complaints.is_empty() {
            self.fail_unless(Rule::Order, subject, true, "");
        }
        asked.heard
    }

    /// Returns the environment of all operations except `info`.
    pub(super) fn environment(&self, directories: &Directories, api_version: u32) -> Vec<(&'static str, OsString)> {
        let Directories { root, resources, state, cache, .. } = directories;
        let mut environment = vec![
            (names::API_VERSION, api_version.to_string().into()),
            (names::ROOT_DIR, root.into()),
            (names::RESOURCE_DIR, resources.into()),
            (names::STATE_DIR, state.into()),
            (names::CACHE_DIR, cache.into()),
            // Each of these runs ends in an apply.
            (names::READ_ONLY, "0".into()),
            ("TMPDIR", self.scratch.temporary().into()),
        ];
        if api_version >= API_VERSION_4 {
            let directories = [resources.as_path()].into_iter();
            environment.push((names::RESOURCE_DIRS, names::join_directories(directories)));
            environment.push((names::JOBS, self.manner.jobs.to_string().into()));
            environment.push((names::KEEP_REPLACED, "1".into()));
        }
        environment
    }

    /// Runs a process until it ends or exceeds its time limit.
    fn call(
        &mut self,
        operation: &str,
        ids: &[BString],
        environment: Vec<(&'static str, OsString)>,
        messages: bool,
    ) -> Result<Heard, FatalError> {
        let subject = self.subject(operation, ids);
        let ids: Vec<_> = ids.iter().map(|id| id.to_os_str_lossy()).collect();
        let arguments = [OsStr::new(operation)].into_iter().chain(ids.iter().map(AsRef::as_ref)).collect();
        let program = Program {
            path: &self.program,
            arguments,
            environment,
            messages,
            requests: false,
            limit: None,
            max_output: u64::MAX,
        };
        let mut heard = Heard::default();
        match program.start() {
            Err(error) if operation == "info" => return Err(FatalError::could_not_run(error)),
            Err(error) => heard.error = Some(CallError::Failed(error.to_string())),
            Ok(mut process) => {
                process.confine(self.limit);
                let mut ended = None;
                while ended.is_none() && !process.is_overdue() {
                    process::wait(&mut process, self.interrupt, |event| match event {
                        Event::Chunk(Channel::Stdout, bytes) => keep(&mut heard.stdout, bytes, MAX_KEPT),
                        Event::Chunk(Channel::Stderr, bytes) => keep(&mut heard.stderr, bytes, MAX_KEPT),
                        Event::Chunk(Channel::Extra, bytes) => keep(&mut heard.messages, bytes, MAX_MESSAGES),
                        Event::Ended(how) => ended = Some(how),
                        Event::Waiting | Event::Stopped(_) => {}
                    })?;
                }
                heard.error = self.judge_end(&subject, ended);
            }
        }
        self.judge_strays(&subject);
        Ok(heard)
    }

    /// Reports problems with the end of a process, other than its exit status.
    fn judge_end(&mut self, subject: &str, ended: Option<Exit>) -> Option<CallError> {
        if !self.in_time(subject, ended.is_some()) {
            return Some(CallError::Told);
        }
        let ended = ended?;
        self.left_nothing_behind(subject, ended);
        ended.status.failure().map(CallError::Failed)
    }

    /// Expects that a call ended within its time limit.
    fn in_time(&mut self, subject: &str, holds: bool) -> bool {
        let text = format!("did not end within {:?}, and was killed with its process group", self.limit);
        self.findings.expect(Severity::Failure, None, subject, holds, text)
    }

    fn left_nothing_behind(&mut self, subject: &str, ended: Exit) {
        let what = match ended.held_open {
            None | Some(Channel::Stdout) => "standard output",
            Some(Channel::Stderr) => "standard error",
            Some(Channel::Extra) => "file descriptor 3",
        };
        let text = format!("has left a process behind that holds its {what} open");
        self.fail_unless(Rule::Version3, subject, ended.held_open.is_none(), text);
    }

    fn judge_strays(&mut self, subject: &str) {
        let strays = self.scratch.strays();
        let text = format!("made {} in its working directory, which may be any", all_shown(&strays));
        self.fail_unless(Rule::Environment, subject, strays.is_empty(), text);
        let strays = self.scratch.temporary_strays();
        let text = format!("has left {} in $TMPDIR", all_shown(&strays));
        self.warn_unless(Rule::Environment, subject, strays.is_empty(), text);
    }

    /// Expects that no file has changed, except for the plugin's state where that is allowed.
    pub(super) fn unchanged_since(
        &mut self,
        rule: Rule,
        subject: &str,
        before: &Snapshot,
        state_too: bool,
        what: &str,
    ) {
        let after = self.scratch.snapshot();
        if let Some(problem) = after.problem() {
            self.findings.note(format!("after {subject}, it cannot be seen what has changed: {problem}"));
            return;
        }
        let mut changes = before.changes(&after);
        changes.retain(|path| state_too || !self.scratch.is_state(path.as_ref()));
        let names: Vec<String> = changes.iter().map(|path| format!("./{}", plain(path))).collect();
        self.fail_unless(rule, subject, names.is_empty(), format!("{what} {}", listed(&names)));
    }
}

fn all_shown(names: &[OsString]) -> String {
    let names: Vec<String> = names.iter().map(|name| plain(name.as_encoded_bytes())).collect();
    listed(&names)
}
