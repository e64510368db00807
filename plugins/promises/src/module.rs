//! A module in this run: its connection, and its faults. All promises of a process share the running modules.

use crate::answer::{Answer, LineEvent};
use crate::connection::{Connection, ConnectionError};
use crate::module_log::{Level, ModuleLog};
use crate::names::Subject;
use crate::request::{self, Operation};
use holo_bridge::{DigestStore, Faults, Interpreter, Invocation, Sensitive};
use holo_plugin::process::{Conversation, ConversationError, Status, end_together};
use holo_plugin::{Host, Stream, streams};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The timeout for a module to end before another conversation begins.
const END_LIMIT: Duration = Duration::from_secs(1);

/// A module's file with its interpreter.
#[derive(Debug)]
pub(crate) struct Module {
    invocation: Arc<Invocation>,
    connection: Option<Connection>,
    faults: Faults,
    /// True after a warning about an unknown log level.
    has_odd_levels: bool,
    /// True after a warning about the header.
    has_doubtful_header: bool,
}

/// A request without a usable answer.
#[derive(Debug)]
pub(crate) struct AskError {
    /// The messages for the user.
    pub(crate) messages: Vec<String>,
    /// True if the module did not receive the request.
    pub(crate) is_unsent: bool,
    /// True if the error is in the definition.
    pub(crate) is_of_definition: bool,
}

impl AskError {
    fn unsent(message: String) -> AskError {
        AskError { messages: vec![message], is_unsent: true, is_of_definition: false }
    }
}

/// The properties of a module that determine whether it supports dry runs.
#[derive(Clone, Debug)]
pub(crate) struct Introduction {
    /// True if the module declares support for dry runs.
    pub(crate) has_action_policy: bool,
    /// The digest of its file.
    pub(crate) digest: String,
}

impl Module {
    pub(crate) fn new(invocation: Arc<Invocation>) -> Module {
        Module {
            invocation,
            connection: None,
            faults: Faults::default(),
            has_odd_levels: false,
            has_doubtful_header: false,
        }
    }

    /// Returns its path, as shown to the user.
    pub(crate) fn shown(&self) -> String {
        self.invocation.file().display().to_string()
    }

    /// Starts the module if necessary, and returns its properties. No request is sent.
    pub(crate) fn introduction(
        &mut self,
        host: &Host,
        subject: &Subject,
        log: &mut ModuleLog<'_, '_>,
    ) -> Result<Introduction, AskError> {
        let connection = self.connected(host, subject, log)?;
        Ok(Introduction {
            has_action_policy: connection.header.has_action_policy,
            digest: connection.trusted.digest().to_owned(),
        })
    }

    /// Sends a request about a promise, and returns the answer. An answer without a result object is an error.
    pub(crate) fn ask(
        &mut self,
        host: &Host,
        operation: Operation,
        subject: &Subject,
        sensitive: &Sensitive,
        limit: Duration,
        log: &mut ModuleLog<'_, '_>,
    ) -> Result<Answer, AskError> {
        let answer = loop {
            self.connected(host, subject, log)?;
            let Module { invocation, connection: Some(connection), has_odd_levels, .. } = self else { continue };
            let request = request::request(connection.header.protocol, operation, subject);
            let request =
                request.map_err(|problem| AskError { is_of_definition: true, ..AskError::unsent(problem) })?;
            connection.secrets.unite(sensitive);
            log.hide_also(&connection.secrets);
            let had_answered = connection.has_answered;
            let path = invocation.file().display();
            let mut on_event = |log: &mut ModuleLog<'_, '_>, event| report(&path, event, log, has_odd_levels);
            match connection.ask(&request, subject, limit, log, &mut on_event) {
                Ok(answer) if connection.has_exited_with(&answer, had_answered, log) => self.connection = None,
                Ok(answer) => break answer,
                // It had exited after its last answer, which was only noticed with this request.
                Err(ConnectionError::Exited) => self.connection = None,
                Err(ConnectionError::Fault(reason)) => return Err(self.fault(&reason)),
            }
        };
        if let Some(other) = answer.operation.as_deref().filter(|name| *name != operation.name()) {
            let (other, asked) = (log.shown(other), operation.name());
            return Err(self.fault(&format!(" answered to {other:?} when it was asked for {asked:?}")));
        }
        if let Some(problem) = answer.problem() {
            let messages = vec![format!("{}: {problem}", self.shown())];
            return Err(AskError { messages, is_unsent: false, is_of_definition: false });
        }
        self.faults.forgive();
        Ok(answer)
    }

    /// Asks the module to terminate, and returns the conversation, for whose end the caller must wait.
    pub(crate) fn terminate(&mut self) -> Option<Conversation> {
        self.connection.take().map(Connection::terminate)
    }

    /// Returns a connection that can be used for the promise; the module is started if there is none.
    fn connected(
        &mut self,
        host: &Host,
        subject: &Subject,
        log: &mut ModuleLog<'_, '_>,
    ) -> Result<&mut Connection, AskError> {
        self.check_connection(host, subject, log)?;
        if self.faults.is_enough() {
            return Err(AskError::unsent(Faults::message(&self.shown())));
        }
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect(host, log)?,
        };
        Ok(self.connection.insert(connection))
    }

    /// Closes the connection if the promise needs a new one.
    fn check_connection(
        &mut self,
        host: &Host,
        subject: &Subject,
        log: &mut ModuleLog<'_, '_>,
    ) -> Result<(), AskError> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        match connection.ended(log) {
            None => {}
            Some(Ok(Status::Exited(0))) => {
                self.connection = None;
                return Ok(());
            }
            Some(end) => {
                // Report this as if the module had ended just after the request.
                let error =
                    end.map_or_else(|error| error, |status| ConversationError::Ended { status, is_answering: false });
                return Err(AskError { is_unsent: true, ..self.fault(&format!(" {error}")) });
            }
        }
        let is_reusable = connection.is_reusable_for(subject);
        let is_the_same = !connection.trusted.has_changed() || self.is_the_same(host)?;
        if !(is_reusable && is_the_same) {
            self.close(log);
        }
        Ok(())
    }

    /// Returns true if the file's metadata has changed since the module was started, but not its content.
    fn is_the_same(&mut self, host: &Host) -> Result<bool, AskError> {
        let (_, trusted) = self.invocation.program(host).map_err(|error| AskError::unsent(error.to_string()))?;
        let Some(connection) = &mut self.connection else { return Ok(false) };
        let is_the_same = trusted.digest() == connection.trusted.digest();
        if is_the_same {
            connection.trusted = trusted;
        }
        Ok(is_the_same)
    }

    fn close(&mut self, log: &mut ModuleLog<'_, '_>) {
        if let Some(conversation) = self.terminate() {
            // It has no work left, so its exit status is irrelevant.
            let _ = conversation.end(END_LIMIT, &mut |line| log.stderr(line));
        }
    }

    fn connect(&mut self, host: &Host, log: &mut ModuleLog<'_, '_>) -> Result<Connection, AskError> {
        let (program, trusted) = self.invocation.program(host).map_err(|error| AskError::unsent(error.to_string()))?;
        match Connection::open(program, trusted, log) {
            Ok(connection) => {
                if let Some(doubt) = connection.header.doubt.filter(|_| !self.has_doubtful_header) {
                    self.has_doubtful_header = true;
                    log.warning(&format!("{} {doubt}", self.shown()));
                }
                Ok(connection)
            }
            Err(ConnectionError::Fault(reason)) => Err(AskError { is_unsent: true, ..self.fault(&reason) }),
            Err(ConnectionError::Exited) => Err(AskError { is_unsent: true, ..self.fault(" ended before its header") }),
        }
    }

    /// Counts a fault, and drops the connection, which kills the module.
    fn fault(&mut self, reason: &str) -> AskError {
        self.connection = None;
        self.faults.add();
        let mut messages = vec![format!("{}{reason}", self.shown())];
        if self.faults.is_enough() {
            messages.push(Faults::message(&self.shown()));
        }
        AskError { messages, is_unsent: false, is_of_definition: false }
    }
}

/// Reports an event to the user.
fn report(path: &impl Display, event: LineEvent, log: &mut ModuleLog<'_, '_>, has_odd_levels: &mut bool) {
    match event {
        LineEvent::Log { level, text } => log.log(level, &text),
        LineEvent::UnknownLevel { name, text } => {
            if !std::mem::replace(has_odd_levels, true) {
                log.warning(&format!("{path}: {name:?} is no level; its messages are shown as info"));
            }
            log.log(Level::Info, &text);
        }
        LineEvent::Stray(line) => log.warning(&format!("{path} wrote outside of the protocol: {line}")),
        LineEvent::Repeated(key) => log.warning(&format!("{path}: {key} is there twice in an answer; the last counts")),
    }
}

/// The timeout for all modules to end. The dispatcher only waits twice as long for the plugin.
/// The file with the modules that have changed the system in a dry run.
const DISTRUSTED: &str = ".distrusted";

/// A module declared by a definition.
#[derive(Debug)]
pub(crate) struct DeclaredModule {
    pub(crate) invocation: Arc<Invocation>,
    /// The kind of asset that a promiser is.
    pub(crate) provides: Option<String>,
    /// The canonical path of the file.
    pub(crate) real_file: PathBuf,
}

impl DeclaredModule {
    pub(crate) fn new(invocation: Invocation, provides: Option<String>) -> DeclaredModule {
        DeclaredModule { real_file: invocation.real_file(), invocation: Arc::new(invocation), provides }
    }
}

/// The key of a running module: its file and its interpreter.
type ModuleKey = (PathBuf, Option<Interpreter>);

/// Running modules, and records about modules.
#[derive(Debug)]
pub(crate) struct Context {
    modules: Mutex<BTreeMap<ModuleKey, Arc<Mutex<Module>>>>,
    pub(crate) mocks: DigestStore,
    pub(crate) distrusted: DigestStore,
}

impl Default for Context {
    fn default() -> Context {
        Context { modules: Mutex::default(), mocks: DigestStore::for_mocks(), distrusted: DigestStore::new(DISTRUSTED) }
    }
}

impl Context {
    /// Returns the running module of a declared one. Types that share a file and an interpreter share it.
    pub(crate) fn module(&self, declared: &DeclaredModule) -> Arc<Mutex<Module>> {
        let key = (declared.real_file.clone(), declared.invocation.interpreter().cloned());
        let mut modules = lock(&self.modules);
        let module =
            modules.entry(key).or_insert_with(|| Arc::new(Mutex::new(Module::new(Arc::clone(&declared.invocation)))));
        Arc::clone(module)
    }

    /// Ends all modules.
    pub(crate) fn end(&self) {
        let modules = std::mem::take(&mut *lock(&self.modules));
        let conversations = modules.values().filter_map(|module| lock(module).terminate()).collect();
        let ends = end_together(conversations, END_LIMIT, &mut |_, line| {
            // Stderr may be closed.
            let _ = streams::write(Stream::Stderr, &[line, b"\n"].concat());
        });
        // They have no work left, so their exit statuses are irrelevant.
        drop(ends);
    }
}

/// Locks a value that stays valid even if another thread has panicked while holding the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
