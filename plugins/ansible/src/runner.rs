//! Runs modules sequentially: finds them, checks their permissions, and passes them to Python.

use crate::answer::{Answer, Limits};
use crate::arrangement::{Call, Facts};
use crate::definition::PythonTable;
use crate::library::{LibraryError, Module};
use crate::module::ModuleName;
use crate::python::{MAX_OUTPUT, Python, PythonError, Request};
use holo_bridge::trust::{TrustError, Trusted};
use holo_bridge::{Attributes, Faults, Sensitive};
use holo_plugin::{Host, Mode, Output, Stream};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The single process, and cached modules.
#[derive(Debug, Default)]
pub(crate) struct Runner(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    python: Option<Python>,
    faults: Faults,
    modules: BTreeMap<ModuleName, (Module, Trusted)>,
    /// The modules for which the missing controller was reported already.
    told: BTreeSet<ModuleName>,
}

/// A module to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) module: &'a ModuleName,
    pub(crate) args: &'a Attributes,
    pub(crate) sensitive: &'a Sensitive,
    pub(crate) timeout: Duration,
    /// True for check mode.
    pub(crate) check: bool,
    /// True to request the texts before and after.
    pub(crate) diff: bool,
    pub(crate) mode: Mode<'a>,
}

/// The reason why a module was not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The definition names a module that cannot be run.
    #[error("module: {0}")]
    Library(#[from] LibraryError),
    /// Other users may modify it.
    #[error(transparent)]
    Untrusted(TrustError),
    /// There is no usable Python.
    #[error("no Python with ansible-core: install it, or say [[host]] python")]
    NoPython {
        /// The reason.
        reason: String,
    },
    /// It may have been run, but there is no answer.
    #[error("{0}")]
    Fault(String),
    /// Python has failed too often.
    #[error("{0}")]
    GivenUp(String),
}

impl Runner {
    /// Runs a module. Its standard error is shown immediately.
    ///
    /// # Errors
    /// If it is not run to completion.
    pub(crate) fn run(
        &self,
        host: &Host,
        table: &PythonTable,
        job: Job<'_>,
        output: &mut Output<'_>,
    ) -> Result<Answer, RunError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let call = Call::new(job.module, job.args, &Facts::new(host));
        for remark in &call.remarks {
            output.warning(remark);
        }
        if call.creates.as_ref().is_some_and(|path| path.exists()) {
            return Ok(Answer::unchanged());
        }
        let mut python = state.python(host, table, &call.module, job.sensitive, output)?;
        let found = state.find(host, &python, &call, output);
        if let Err(error) = found {
            state.python = Some(python);
            return Err(error);
        }
        let answer = ask(&mut python, &call, job, output);
        if answer.is_ok() {
            state.python = Some(python);
            state.faults.forgive();
        } else {
            state.faults.add();
        }
        answer
    }

    /// Ends the process.
    pub(crate) fn end(&self) {
        let python = self.0.lock().unwrap_or_else(PoisonError::into_inner).python.take();
        if let Some(python) = python {
            python.end();
        }
    }
}

impl State {
    /// Returns the process, which is started if necessary, or restarted if the module has changed since.
    fn python(
        &mut self,
        host: &Host,
        table: &PythonTable,
        module: &ModuleName,
        sensitive: &Sensitive,
        output: &mut Output<'_>,
    ) -> Result<Python, RunError> {
        let has_changed = self.modules.get(module).is_some_and(|(_, trusted)| trusted.has_changed());
        if has_changed {
            self.modules.remove(module);
        }
        match self.python.take() {
            Some(python) if has_changed => python.end(),
            Some(python) => return Ok(python),
            None => {}
        }
        if self.faults.is_enough() {
            let name = table.python.words().first().cloned().unwrap_or_default();
            return Err(RunError::GivenUp(Faults::message(&name)));
        }
        let mut last = None;
        let started = Python::start(host, table, &mut |line| relay(line, sensitive, &mut last, output));
        started.map_err(|error| match error {
            PythonError::Untrusted(error) => RunError::Untrusted(error),
            error => {
                self.faults.add();
                RunError::NoPython { reason: error.to_string() }
            }
        })
    }

    /// Finds the module and checks its permissions.
    fn find(&mut self, host: &Host, python: &Python, call: &Call, output: &mut Output<'_>) -> Result<(), RunError> {
        if self.modules.contains_key(&call.module) {
            return Ok(());
        }
        let module = python.library.find(&call.module)?;
        let root = std::path::absolute(host.root()).unwrap_or_else(|_| host.root().to_owned());
        let trusted = Trusted::examine(&module.file, &root).map_err(RunError::Untrusted)?;
        self.modules.insert(call.module.clone(), (module.clone(), trusted));
        if module.has_action && !call.is_complete && self.told.insert(call.module.clone()) {
            output.warning(format!("{}: the part of it that Ansible's controller has is not done", call.module));
        }
        Ok(())
    }
}

fn ask(python: &mut Python, call: &Call, job: Job<'_>, output: &mut Output<'_>) -> Result<Answer, RunError> {
    let (name, module) = (call.module.to_string(), call.module.in_python());
    let bytes = |value: &OsStr| value.as_bytes().iter().copied().map(char::from).collect();
    let request = Request {
        module: &module,
        name: &name,
        args: &call.args,
        content: call.content.as_ref(),
        check: job.check,
        diff: job.diff,
        no_log: !job.sensitive.is_empty(),
        environment: job.mode.variables().into_iter().map(|(name, value)| (name, bytes(&value))).collect(),
    };
    let limits = Limits { time: job.timeout, output: MAX_OUTPUT };
    let mut last = None;
    let reply = python.ask(&request, limits, &mut |line| relay(line, job.sensitive, &mut last, output));
    let reply = reply.map_err(|error| RunError::Fault(error.to_string()))?;
    Ok(Answer::new(&name, &reply, last.as_deref(), limits))
}

/// Shows a line, and stores it unless it is empty.
fn relay(line: &[u8], sensitive: &Sensitive, last: &mut Option<String>, output: &mut Output<'_>) {
    let text = String::from_utf8_lossy(line);
    let shown = sensitive.hide(&text);
    output.relay(Stream::Stderr, format!("{shown}\n").as_bytes());
    if !shown.trim().is_empty() {
        *last = Some(shown.trim().to_owned());
    }
}
