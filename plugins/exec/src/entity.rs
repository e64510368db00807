//! A command that runs, unless there is a reason not to, and the conditions that are evaluated before.

use crate::command::{CommandError, words};
use crate::definition::Exec;
use crate::records::LastRun;
use bstr::BString;
use holo_change::PathError;
use holo_plugin::definitions::WrittenCommand;
use holo_plugin::process::{Ended, MAX_RELAYED, Program, ProgramError, SYSTEM_PATH, keep_environment};
use holo_plugin::{
    Action, Applied, Asset, Entity, EntityReport, FilePair, Host, MAX_VALUE, Mode, Output, Sent, Stream, Verdict,
    Witness, leads_through_symlink,
};
use std::path::Path;
use std::time::Duration;

/// The number of last lines shown of a failed command's output, if it was not shown immediately.
const LAST_LINES: usize = 20;

/// Returns the result of a command that was not run because of test mode.
fn mock() -> LastRun {
    LastRun { status: 0, stdout: Some("MOCK".into()) }
}

/// The output of a command, for sending.
#[derive(Default)]
struct Captured {
    bytes: Vec<u8>,
    is_too_long: bool,
}

impl Captured {
    fn take(&mut self, bytes: &[u8]) {
        // A final newline does not count.
        self.is_too_long |= self.bytes.len() + bytes.len() > MAX_VALUE + 1;
        if !self.is_too_long {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Returns the output without a final newline.
    fn finish(mut self) -> Option<Vec<u8>> {
        if self.bytes.last() == Some(&b'\n') {
            self.bytes.pop();
        }
        (!self.is_too_long && self.bytes.len() <= MAX_VALUE && !self.bytes.contains(&0)).then_some(self.bytes)
    }
}

/// A command of a definition.
#[derive(Clone, Debug)]
pub(crate) struct ExecEntity {
    pub(crate) id: String,
    pub(crate) exec: Exec,
    pub(crate) timeout: Option<Duration>,
}

impl Entity for ExecEntity {
    fn report(&self) -> EntityReport {
        let mut report = EntityReport::new(self.id.as_str());
        report.action = Action { verb: "Executing".into(), reason: None };
        report.inform("command", if self.exec.sensitive { "is not shown".to_owned() } else { self.exec.shown() });
        if let Some(identity) = self.shown_identity() {
            report.inform("as", identity);
        }
        report.inform("runs", self.shown_conditions());
        report.edges.always = self.has_no_conditions();
        self.add_needs(&mut report);
        report
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        let applied = match must_run(&self.exec, self.timeout, mode.refresh, host, output) {
            Ok(false) => Ok(Applied::Unchanged),
            Ok(true) if host.test_mode() => self.mock(mode, host, output),
            Ok(true) => self.run(mode, host, output),
            Err(error) => {
                output.error(error.to_string());
                return Applied::FAILED_UNCHANGED;
            }
        };
        applied.unwrap_or_else(|error| {
            output.error(error.to_string());
            Applied::FAILED
        })
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        match must_run(&self.exec, self.timeout, mode.refresh, host, output) {
            Ok(false) => Verdict::InDesiredState,
            Ok(true) => Verdict::WouldChange(vec![format!("would run {}", self.exec.shown())]),
            Err(error) => {
                output.error(error.to_string());
                Verdict::Failed
            }
        }
    }

    fn needs_running_system(&self) -> bool {
        !self.exec.offline
    }

    fn send(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        let last = if host.test_mode() {
            // The command was not run.
            Some(mock())
        } else {
            LastRun::read(host, &self.exec.name)
        };
        let Some(LastRun { status, stdout }) = last else { return };
        for name in names {
            let value = match name.as_slice() {
                b"stdout" => stdout.clone(),
                b"status" => Some(status.to_string().into()),
                _ => None,
            };
            if let Some(value) = value {
                output.send_value(&Sent { sensitive: self.exec.sensitive, ..Sent::new(name.clone(), value) });
            }
        }
    }

    fn witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        let Exec { creates, onlyif, unless_command, refresh_only, .. } = &self.exec;
        if let Some(path) = creates.as_deref().map(Path::new).filter(|path| host.below_root(path).exists()) {
            let witness = || vec![Witness::file(&host.below_root(path))];
            return (!leads_through_symlink(host.root(), path)).then(witness);
        }
        // Guards are programs. Without any, a command that waits for a refresh rests on its definition only.
        let has_guards = onlyif.is_some() || unless_command.is_some();
        (*refresh_only && !has_guards).then(|| vec![Witness::file(host.resources().weakest())])
    }

    fn diff(&self, _: &Host) -> Option<FilePair> {
        None
    }
}

impl ExecEntity {
    fn run(&self, mode: Mode<'_>, host: &Host, output: &mut Output<'_>) -> Result<Applied, ExecError> {
        let exec = &self.exec;
        let failed = |reason: RunError| ExecError::Failed { command: exec.shown(), reason };
        let mut program = program(exec, &exec.command, self.timeout, mode).map_err(|error| failed(error.into()))?;
        let keeps = !mode.wanted.is_empty() || !self.has_no_conditions();
        let mut stdout = Captured::default();
        let ended = program.output_limit(MAX_RELAYED).run(|stream, bytes| {
            if keeps && stream == Stream::Stdout {
                stdout.take(bytes);
            }
            if exec.shows(stream) {
                output.relay(stream, bytes);
            }
        });
        let ended = ended.map_err(|error| failed(error.into()))?;
        if ended.held_open && exec.log_output {
            let what = "it has left a process behind that holds its output open; its further output is ignored";
            output.warning(format!("{}: {what}", exec.shown()));
        }
        if let Some(reason) = self.failure(&ended) {
            // The last lines may contain a value that is sent to other entities, so those of a sensitive command are
            // not shown.
            if !exec.log_output && !exec.sensitive {
                let lines = ended.last_lines(LAST_LINES);
                lines.iter().for_each(|line| output.relay(Stream::Stderr, format!("{line}\n").as_bytes()));
            }
            return Err(failed(RunError::Ended(reason)));
        }
        if let Some(path) = exec.creates.as_deref().filter(|path| !exists(path, host)) {
            return Err(failed(RunError::NotCreated(path.to_owned())));
        }
        if keeps {
            let stdout = stdout.finish();
            if stdout.is_none() && mode.wants("stdout") {
                let reason = format!("it has a NUL byte, or more than {MAX_VALUE} bytes");
                output.warning(format!("{}: what it prints cannot be sent, as {reason}", exec.shown()));
            }
            LastRun { status: ended.code().unwrap_or_default(), stdout }.keep(host, &exec.name)?;
        }
        Ok(Applied::Changed(vec![format!("ran {}", exec.shown())]))
    }

    /// Describes the failure of the command; `None` if it succeeded.
    fn failure(&self, ended: &Ended) -> Option<String> {
        let returns = &self.exec.returns;
        let Some(code) = ended.code() else { return ended.failure() };
        if returns.iter().any(|&good| i32::from(good) == code) {
            return None;
        }
        let expected: Vec<String> = returns.iter().map(ToString::to_string).collect();
        let expected = if *returns == [0] { String::new() } else { format!(", expected {}", expected.join(" or ")) };
        Some(format!("exit status {code}{expected}"))
    }

    /// Prints the command in test mode, in which it is not run.
    fn mock(&self, mode: Mode<'_>, host: &Host, output: &mut Output<'_>) -> Result<Applied, ExecError> {
        let program = program(&self.exec, &self.exec.command, None, mode)?;
        let shown = if self.exec.sensitive { self.exec.shown() } else { program.to_string() };
        output.print(format!("MOCK: {shown}\n"));
        if can_be_done(&self.exec) {
            mock().keep(host, &self.exec.name)?;
        }
        Ok(Applied::Changed(Vec::new()))
    }

    fn shown_identity(&self) -> Option<String> {
        let Exec { user, group, umask, .. } = &self.exec;
        let names = match (user, group) {
            (Some(user), Some(group)) => Some(format!("{user}:{group}")),
            (Some(user), None) => Some(user.clone()),
            (None, Some(group)) => Some(format!(":{group}")),
            (None, None) => None,
        };
        let umask = umask.as_ref().map(|umask| format!("umask {umask}"));
        let parts: Vec<String> = [names, umask].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    fn has_no_conditions(&self) -> bool {
        let Exec { creates, onlyif, unless_command, refresh_only, .. } = &self.exec;
        creates.is_none() && onlyif.is_none() && unless_command.is_none() && !refresh_only
    }

    fn shown_conditions(&self) -> String {
        let Exec { creates, onlyif, unless_command, refresh_only, .. } = &self.exec;
        let parts = [
            creates.as_ref().map(|path| format!("unless {path} exists")),
            onlyif.as_ref().map(|guard| format!("if {} succeeds", self.exec.shown_guard(guard))),
            unless_command.as_ref().map(|guard| format!("unless {} succeeds", self.exec.shown_guard(guard))),
            refresh_only.then(|| "only when refreshed".to_owned()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "at every apply".to_owned() } else { parts.join(", ") }
    }

    /// Adds the assets that the command needs: its user, group, directory and program.
    fn add_needs(&self, report: &mut EntityReport) {
        let Exec { user, group, cwd, shell, .. } = &self.exec;
        let is_name = |name: &&String| !name.bytes().all(|letter| letter.is_ascii_digit());
        for (kind, name) in [("user", user), ("group", group)] {
            if let Some(name) = name.as_ref().filter(is_name) {
                report.edges.needs.push(Asset::new(kind, name.as_str()));
            }
        }
        let program = self.exec.command.words().ok().and_then(|words| words.into_iter().next());
        let program = program.filter(|program| !shell && program.starts_with('/'));
        for path in [cwd.clone(), program].into_iter().flatten().filter(|path| !path.contains(char::is_control)) {
            report.edges.needs.push(Asset::new("path", path));
        }
    }
}

/// The default timeout for guards.
const GUARD_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns true if the command must run. The conditions are evaluated in this order, until one is false.
///
/// # Errors
/// If a condition cannot be evaluated.
fn must_run(
    exec: &Exec,
    timeout: Option<Duration>,
    refresh: bool,
    host: &Host,
    output: &mut Output<'_>,
) -> Result<bool, ExecError> {
    if refresh {
        return Ok(true);
    }
    if exec.creates.as_deref().is_some_and(|path| exists(path, host)) {
        return Ok(false);
    }
    if host.test_mode() {
        // Guards would check this system instead of the one below the root.
        let is_done = can_be_done(exec) && LastRun::read(host, &exec.name).is_some();
        return Ok(!is_done && !exec.refresh_only);
    }
    if host.is_offline() && !exec.offline {
        // Guards may examine the running system too.
        return Ok(!exec.refresh_only);
    }
    if let Some(guard) = &exec.onlyif
        && !succeeds("onlyif", guard, exec, timeout, output)?
    {
        return Ok(false);
    }
    if let Some(guard) = &exec.unless_command
        && succeeds("unless_command", guard, exec, timeout, output)?
    {
        return Ok(false);
    }
    Ok(!exec.refresh_only)
}

/// Returns true if the command may be unnecessary after it has run.
fn can_be_done(exec: &Exec) -> bool {
    exec.creates.is_some() || exec.onlyif.is_some() || exec.unless_command.is_some()
}

/// Returns true if the path that the command creates exists.
fn exists(path: &str, host: &Host) -> bool {
    host.below_root(Path::new(path)).exists()
}

/// Returns true if a guard succeeds. Its errors are shown, as the guard itself may be faulty.
fn succeeds(
    key: &str,
    guard: &WrittenCommand,
    exec: &Exec,
    timeout: Option<Duration>,
    output: &mut Output<'_>,
) -> Result<bool, ExecError> {
    let failed = |reason: RunError| ExecError::Failed { command: format!("{key} {}", exec.shown_guard(guard)), reason };
    let program = program(exec, guard, Some(timeout.unwrap_or(GUARD_TIMEOUT)), Mode::default());
    let program = program.map_err(|error| failed(error.into()))?;
    let ended = program.run(|stream, bytes| {
        if stream == Stream::Stderr {
            output.relay(stream, bytes);
        }
    });
    match ended {
        Ok(ended) if ended.timed_out.is_some() => Err(failed(RunError::Ended(ended.failure().unwrap_or_default()))),
        Ok(ended) => Ok(ended.failure().is_none()),
        Err(error) => Err(failed(error.into())),
    }
}

/// A command, or one of its guards, failed.
#[derive(Debug, thiserror::Error)]
enum ExecError {
    /// The failed command as written, after its key if that is not `command`.
    #[error("{command}: {reason}")]
    Failed { command: String, reason: RunError },
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The record of test mode cannot be written.
    #[error(transparent)]
    Mock(#[from] PathError),
}

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("{0}")]
    Ended(String),
    #[error("it has not created {0}")]
    NotCreated(String),
}

/// The default working directory.
const ROOT: &str = "/";

/// Returns the program for a command, with all settings of its definition.
pub(crate) fn program(
    exec: &Exec,
    written: &WrittenCommand,
    timeout: Option<Duration>,
    mode: Mode<'_>,
) -> Result<Program, CommandError> {
    let mut program = Program::from_words(words(written, exec.shell)?);
    program.current_dir(exec.cwd.as_deref().unwrap_or(ROOT)).identity(exec.identity());
    if exec.clean_environment {
        program.clear_env().path(SYSTEM_PATH);
    }
    keep_environment(&mut program);
    mode.tell(&mut program);
    if let Some(text) = &exec.stdin {
        program.stdin(text.as_bytes());
    }
    if let Some(path) = exec.search_path() {
        program.path(path);
    }
    program.envs(exec.variables()).timeout(timeout);
    Ok(program)
}
