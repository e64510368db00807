//! Runs modules sequentially: finds them, checks their permissions, and passes them to Python.

use crate::answer::{Answer, End, Limits};
use crate::arrangement::{ArrangementError, Call, Content, Facts, Source, Step};
use crate::definition::{Condition, Conditions, Options, PythonTable};
use crate::library::{EMULATED, LibraryError, Module, ModuleName};
use crate::python::{
    Become, Evaluation, MAX_OUTPUT, Python, PythonError, Request, Scope, StepRequest, Work, as_characters,
};
use crate::record::NoLog;
use holo_bridge::trust::{TrustError, Trusted};
use holo_bridge::{Attributes, Faults, Sensitive};
use holo_plugin::facts::LocatedError;
use holo_plugin::{Host, Mode, Output, Stream};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The maximum length of a module's output that is shown.
pub(crate) const LONGEST: usize = 8 << 10;
/// The maximum number of times that a module's name was changed.
const MAX_REDIRECTS: usize = 5;

/// The single process, and cached modules.
#[derive(Debug, Default)]
pub(crate) struct Runner(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// A process for each user.
    processes: BTreeMap<Become, Python>,
    faults: Faults,
    modules: BTreeMap<ModuleName, (Module, Trusted)>,
    no_log: NoLog,
    /// The answers of tasks and the facts that they set in this run, by name.
    registered: Map<String, Value>,
    /// The last task, and the former values of what it has set. A task can be checked before it is applied.
    former: (String, BTreeMap<String, Option<Value>>),
    /// Variables that tasks have read from files.
    included: Map<String, Value>,
}

/// A module to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) id: &'a str,
    pub(crate) module: &'a ModuleName,
    pub(crate) args: &'a Attributes,
    /// Values of expressions are added when they are known.
    pub(crate) sensitive: &'a RefCell<Sensitive>,
    pub(crate) options: &'a Options,
    /// The values of the answer that are sent.
    pub(crate) send: &'a [String],
    pub(crate) timeout: Duration,
    /// True for check mode.
    pub(crate) check: bool,
    /// True to request the texts before and after.
    pub(crate) diff: bool,
    /// Whether later tasks can use the answer.
    pub(crate) is_registered: bool,
    pub(crate) mode: Mode<'a>,
}

/// The reason why a module was not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The definition names a module that cannot be run.
    #[error("module: {0}")]
    Library(#[from] LibraryError),
    /// Its arguments are invalid.
    #[error("args: {0}")]
    Arguments(#[from] ArrangementError),
    /// The data that its expressions and templates use cannot be read.
    #[error(transparent)]
    Data(#[from] LocatedError),
    /// A template or source of it cannot be used.
    #[error("{0}")]
    Task(String),
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

impl From<PythonError> for RunError {
    fn from(error: PythonError) -> RunError {
        match error {
            PythonError::Task(reason) => RunError::Task(reason),
            error => RunError::Fault(error.to_string()),
        }
    }
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
        let who = Become { user: job.options.become_user.clone(), may_gain_privileges: job.options.become_exec };
        let facts = Facts::new(host, who.user.is_some());
        let mut python = state.python(host, table, job.module, (&who, &job.sensitive.borrow()), output)?;
        if job.is_registered {
            state.forget_last(job.id);
        }
        let answer = state.run(host, &mut python, &facts, job, output);
        let answer = match answer {
            Err(RunError::Task(reason)) if job.options.ignore_errors && !job.check => {
                let registered = json!({"changed": false, "failed": true, "msg": reason});
                let mut failed = Answer::not_run(End::Failed(reason));
                failed.registered = Some(registered);
                Ok(failed)
            }
            answer => answer,
        };
        match &answer {
            Err(RunError::Fault(_)) => state.faults.add(),
            _ => {
                state.processes.insert(who, python);
            }
        }
        if let Ok(answer) = &answer {
            state.faults.forgive();
            if let Some(name) = job.options.register.as_ref().filter(|_| job.is_registered) {
                let skipped = || json!({"changed": false, "failed": false, "skipped": true});
                let value = answer.registered.clone().unwrap_or_else(skipped);
                state.register(name.clone(), value);
            }
        }
        answer
    }

    /// Ends the processes.
    pub(crate) fn end(&self) {
        let processes = std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).processes);
        processes.into_values().for_each(Python::end);
    }
}

impl State {
    /// Restores the variables that this task has set, if it was the last one.
    fn forget_last(&mut self, id: &str) {
        let (last, former) = std::mem::replace(&mut self.former, (id.to_owned(), BTreeMap::new()));
        for (name, value) in former.into_iter().filter(|_| last == id) {
            match value {
                Some(value) => self.registered.insert(name, value),
                None => self.registered.remove(&name),
            };
        }
    }

    fn register(&mut self, name: String, value: Value) {
        let former = self.registered.insert(name.clone(), value);
        self.former.1.entry(name).or_insert(former);
    }

    /// Runs the module, or those that have replaced it.
    fn run(
        &mut self,
        host: &Host,
        python: &mut Python,
        facts: &Facts<'_>,
        job: Job<'_>,
        output: &mut Output<'_>,
    ) -> Result<Answer, RunError> {
        let Some(args) = self.evaluate(host, python, job, output)? else {
            return Ok(Answer::not_run(End::Unchanged));
        };
        if let Some(name) = job.module.as_builtin().filter(|name| EMULATED.contains(name)) {
            let answer = self.emulate(name, args, facts)?;
            let scope = self.scope(host, false, job)?;
            return ask(python, &job.module.to_string(), Work::Answer(answer), job, scope, output);
        }
        let mut call = Call::new(job.module, args.clone(), facts)?;
        let mut files = self.find(host, python, &call, job.options);
        for _ in 0..MAX_REDIRECTS {
            let Err(RunError::Library(LibraryError::NoModule { module, .. })) = &files else { break };
            let Some(other) = python.library.redirected(module)? else { break };
            call = Call::new(&other, args.clone(), facts)?;
            files = self.find(host, python, &call, job.options);
        }
        let files = files?;
        for remark in &call.remarks {
            output.warning(remark);
        }
        if call.creates.as_ref().is_some_and(|path| path.exists()) {
            return Ok(Answer::not_run(End::Unchanged));
        }
        let is_template = matches!(&call.source, Some(Source { content: Content::Template { .. }, .. }));
        let scope = self.scope(host, is_template, job)?;
        let steps = call.steps().into_iter().map(|step| StepRequest::new(step, job.check)).collect();
        let answer = ask(python, &call.module.to_string(), Work::Steps(steps), job, scope, output)?;
        if let Some(names) = &answer.no_log {
            let mut attributes = Attributes::default();
            args.into_iter().for_each(|(name, value)| attributes.insert(name, value));
            job.sensitive.borrow_mut().unite(&Sensitive::new(names, [&attributes]));
            self.no_log.learn(host, &job.module.to_string(), &files, names);
        }
        Ok(answer)
    }

    /// Returns the arguments of a task, unless its conditions exclude it.
    fn evaluate(
        &self,
        host: &Host,
        python: &mut Python,
        job: Job<'_>,
        output: &mut Output<'_>,
    ) -> Result<Option<Map<String, Value>>, RunError> {
        let mut args: Map<String, Value> =
            job.args.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        let Options { when, expressions, .. } = job.options;
        let mut conditions = when.as_ref().map(|when| when.all().to_vec()).unwrap_or_default();
        if conditions.is_empty() && expressions.is_empty() && job.module.as_builtin() != Some("assert") {
            return Ok(Some(args));
        }
        let scope = self.variables(host, job)?;
        let mut errors = Errors::default();
        let mut ask = |when: Vec<Condition>, expressions| {
            let evaluation = Evaluation { when, expressions, scope: scope.clone() };
            python
                .evaluate(&evaluation, &mut |line| relay(line, &job.sensitive.borrow(), &mut errors, output))
                .map_err(RunError::from)
        };
        let evaluated = ask(std::mem::take(&mut conditions), expressions)?;
        let values = evaluated.args.iter().map(|(name, value)| (name.as_str(), value));
        job.sensitive.borrow_mut().add_values(values);
        args.extend(evaluated.args);
        if !evaluated.holds {
            return Ok(None);
        }
        if job.module.as_builtin() == Some("assert") {
            let that = match args.remove("that") {
                Some(Value::Array(all)) => all,
                one => one.into_iter().collect(),
            };
            let that = that.into_iter().filter_map(|condition| serde_json::from_value(condition).ok()).collect();
            args.insert("that".to_owned(), ask(that, &BTreeMap::new())?.holds.into());
        }
        Ok(Some(args))
    }

    /// Does the work of a module that only exists in Ansible's controller, and returns its answer.
    fn emulate(&mut self, name: &str, mut args: Map<String, Value>, facts: &Facts<'_>) -> Result<Value, RunError> {
        let text = |name: &str| args.get(name).and_then(Value::as_str).map(str::to_owned);
        match name {
            "fail" => {
                let reason = text("msg").unwrap_or_else(|| "failed as requested".to_owned());
                return Ok(json!({"failed": true, "msg": reason}));
            }
            "assert" if args.get("that") != Some(&Value::Bool(true)) => {
                let reason = text("fail_msg").or_else(|| text("msg"));
                let reason = reason.unwrap_or_else(|| "the assertion does not hold".to_owned());
                return Ok(json!({"failed": true, "msg": reason}));
            }
            "debug" => return Ok(json!({"msg": args.get("msg")})),
            "include_vars" => {
                let file = text("file").or_else(|| text("_raw_params"));
                let path = facts.find(&file.ok_or(ArrangementError::Missing { name: "file" })?, "vars")?;
                let content =
                    std::fs::read(&path).map_err(|error| RunError::Task(format!("{}: {error}", path.display())))?;
                self.included.extend(holo_plugin::facts::from_yaml(path.display(), &content)?);
            }
            "set_fact" => {
                args.remove("cacheable");
                args.iter().for_each(|(name, value)| self.register(name.clone(), value.clone()));
                return Ok(json!({"ansible_facts": args}));
            }
            _ => {}
        }
        Ok(json!({}))
    }

    /// Returns the variables for running a module, if it needs any.
    fn scope(&self, host: &Host, is_template: bool, job: Job<'_>) -> Result<Scope, RunError> {
        let is_expression = |conditions: &Option<Conditions>| {
            let all = conditions.iter().flat_map(Conditions::all);
            all.into_iter().any(|condition| matches!(condition, Condition::Expression(_)))
        };
        if is_template || is_expression(&job.options.changed_when) || is_expression(&job.options.failed_when) {
            return self.variables(host, job);
        }
        Ok(Scope::default())
    }

    /// Returns the variables of expressions and templates: facts, data, those of tasks, and answers.
    fn variables(&self, host: &Host, job: Job<'_>) -> Result<Scope, RunError> {
        let knowledge = host.knowledge();
        let data = knowledge.data()?;
        let opened = data.open("", data.value())?;
        let mut scope = opened.as_object().cloned().unwrap_or_default();
        scope.insert("data".to_owned(), opened);
        scope.insert("facts".to_owned(), knowledge.facts().value().clone());
        for (name, value) in [("ansible_managed", "Ansible managed"), ("inventory_hostname", "localhost")] {
            scope.insert(name.to_owned(), value.into());
        }
        scope.insert("ansible_check_mode".to_owned(), job.check.into());
        let folder = host.resources().shown(Path::new("."));
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        scope.insert("role_path".to_owned(), folder.display().to_string().into());
        scope.extend(job.options.vars.iter().map(|(name, value)| (name.to_owned(), value.clone())));
        scope.extend(self.included.clone());
        Ok(Scope { scope, registered: self.registered.clone(), folder })
    }

    /// Returns the process, which is started if necessary, or restarted if the module has changed since.
    fn python(
        &mut self,
        host: &Host,
        table: &PythonTable,
        module: &ModuleName,
        (who, sensitive): (&Become, &Sensitive),
        output: &mut Output<'_>,
    ) -> Result<Python, RunError> {
        let has_changed = self.modules.get(module).is_some_and(|(_, trusted)| trusted.has_changed());
        if has_changed {
            self.modules.remove(module);
        }
        match self.processes.remove(who) {
            Some(python) if has_changed => python.end(),
            Some(python) => return Ok(python),
            None => {}
        }
        if self.faults.is_enough() {
            let name = table.python.words().first().cloned().unwrap_or_default();
            return Err(RunError::GivenUp(Faults::message(&name)));
        }
        if self.processes.is_empty() {
            self.no_log = NoLog::read(host);
        }
        let mut errors = Errors::default();
        let started = Python::start(host, table, who, &mut |line| relay(line, sensitive, &mut errors, output));
        started.map_err(|error| match error {
            PythonError::Untrusted(error) => RunError::Untrusted(error),
            error => {
                self.faults.add();
                RunError::NoPython { reason: error.to_string() }
            }
        })
    }

    /// Finds the modules of a call, checks their permissions, and returns their files.
    fn find(&mut self, host: &Host, python: &Python, call: &Call, options: &Options) -> Result<Vec<PathBuf>, RunError> {
        let mut files = Vec::new();
        for Step { module: name, .. } in call.steps() {
            if !self.modules.contains_key(&name) {
                let module = python.library.find(&name)?;
                let root = std::path::absolute(host.root()).unwrap_or_else(|_| host.root().to_owned());
                let trusted = Trusted::examine(&module.file, &root).map_err(RunError::Untrusted)?;
                self.modules.insert(name.clone(), (module, trusted));
            }
            let Some((module, _)) = self.modules.get(&name) else { continue };
            if module.has_action && !call.is_complete && !options.module_only {
                return Err(LibraryError::HasAction { module: name }.into());
            }
            if !files.contains(&module.file) {
                files.push(module.file.clone());
            }
        }
        Ok(files)
    }
}

fn ask(
    python: &mut Python,
    name: &str,
    work: Work,
    job: Job<'_>,
    scope: Scope,
    output: &mut Output<'_>,
) -> Result<Answer, RunError> {
    let refresh =
        job.mode.variables().into_iter().map(|(name, value)| (name.to_owned(), as_characters(value.as_bytes())));
    let own = job.options.environment.iter().map(|(name, value)| (name.clone(), as_characters(value.as_bytes())));
    let received = job.mode.wanted.iter().filter(|_| job.options.register.is_some());
    let request = Request {
        work,
        check: job.check,
        diff: job.diff,
        no_log: !job.sensitive.borrow().is_empty(),
        environment: refresh.chain(own).collect(),
        changed_when: job.options.changed_when.as_ref().map(Conditions::all),
        failed_when: job.options.failed_when.as_ref().map(Conditions::all),
        register: job.options.register.as_deref(),
        wanted: job.send.iter().cloned().chain(received.map(ToString::to_string)).collect(),
        scope,
    };
    let limits = Limits { time: job.timeout, output: MAX_OUTPUT };
    let mut errors = Errors::default();
    let reply = python.ask(&request, limits, &mut |line| relay(line, &job.sensitive.borrow(), &mut errors, output));
    let mut answer = Answer::new(name, reply?, errors.last.as_deref(), limits);
    answer.more_errors = errors.more;
    Ok(answer)
}

/// The standard error of a module.
#[derive(Default)]
struct Errors {
    /// The number of bytes that were shown.
    shown: usize,
    /// What is too long to be shown.
    more: String,
    /// The last line that is not empty.
    last: Option<String>,
}

/// Shows a line, unless it is too much, and stores it unless it is empty.
fn relay(line: &[u8], sensitive: &Sensitive, errors: &mut Errors, output: &mut Output<'_>) {
    let text = String::from_utf8_lossy(line);
    let shown = format!("{}\n", sensitive.hide(&text));
    errors.shown += shown.len();
    if errors.shown <= LONGEST {
        output.relay(Stream::Stderr, shown.as_bytes());
    } else {
        errors.more.push_str(&shown);
    }
    if !shown.trim().is_empty() {
        errors.last = Some(shown.trim().to_owned());
    }
}
