//! A provider, which is a program that manages resources of one type, and the messages that it writes.

use crate::convention::{self, Call, CallError, Reading, Request, Update};
use crate::metadata::{Invoke, Metadata};
use holo_bridge::shown::one_line;
use holo_bridge::{Faults, Invocation, Sensitive, limits, set_environment};
use holo_plugin::process::{Limits, Program, Stream};
use holo_plugin::{Host, Output};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The number of last lines of output that are shown as the reason for a failure.
const LAST_LINES: usize = 20;

/// Receives messages of a provider's standard error, line by line.
pub(crate) type NoteHandler<'h> = dyn FnMut(Note) + 'h;

/// A provider with its metadata.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) metadata: Metadata,
    pub(crate) invocation: Invocation,
    faults: Mutex<Faults>,
}

impl Provider {
    pub(crate) fn new(metadata: Metadata, invocation: Invocation) -> Provider {
        Provider { metadata, invocation, faults: Mutex::default() }
    }

    /// Returns `[TYPE::NAME]`, the prefix of messages about it.
    pub(crate) fn label(&self) -> String {
        format!("[{}]", self.metadata.qualified_name())
    }

    /// Reads resources.
    pub(crate) fn get(
        &self,
        host: &Host,
        names: &[&str],
        heard: &mut NoteHandler<'_>,
    ) -> Result<BTreeMap<String, Reading>, CallError> {
        let mut call = |call: &Call| self.call(host, call, limits::LOOK, heard);
        let answers = match self.metadata.invoke {
            Invoke::Json => convention::json::get(names, &mut call),
            Invoke::Simple => convention::simple::get(names, &mut call),
        }?;
        Ok(names
            .iter()
            .map(|&name| (name.to_owned(), answers.get(name).cloned().unwrap_or(Reading::Unknown)))
            .collect())
    }

    /// Reads all resources that the provider lists.
    pub(crate) fn list(
        &self,
        host: &Host,
        heard: &mut NoteHandler<'_>,
    ) -> Result<BTreeMap<String, Reading>, CallError> {
        let mut call = |call: &Call| self.call(host, call, limits::LOOK, heard);
        match self.metadata.invoke {
            Invoke::Json => convention::json::get(&[], &mut call),
            Invoke::Simple => convention::simple::list(&mut call),
        }
    }

    /// Updates resources: all in one call, or sequentially, depending on the convention.
    pub(crate) fn set(
        &self,
        host: &Host,
        requests: &[Request<'_>],
        limit: Duration,
        heard: &mut NoteHandler<'_>,
    ) -> Result<Update, CallError> {
        let mut call = |call: &Call| self.call(host, call, limit, heard);
        match self.metadata.invoke {
            Invoke::Json => convention::json::set(&self.metadata, requests, &mut call),
            Invoke::Simple => Ok(convention::simple::set(&self.metadata, requests, &mut call)),
        }
    }

    /// Calls the provider and returns its standard output.
    fn call(
        &self,
        host: &Host,
        call: &Call,
        limit: Duration,
        heard: &mut NoteHandler<'_>,
    ) -> Result<Vec<u8>, CallError> {
        if self.faults().is_enough() {
            return Err(CallError::Answer(Faults::message(&self.invocation.file().display())));
        }
        let own =
            |name: &str| name == "name" || name.starts_with("ral_") || self.metadata.attributes.contains_key(name);
        let called = run(&self.invocation, host, call, limit, own, heard);
        let called = called.and_then(|captured| match &captured.failure {
            None => Ok(captured.stdout),
            Some(failure) => Err(match self.metadata.invoke {
                Invoke::Simple => convention::simple::error_in(&captured.stdout),
                Invoke::Json => convention::json::error_in(&captured.stdout),
            }
            .map_or_else(
                || CallError::Answer(captured.complaint(self.invocation.file(), failure)),
                CallError::Refused,
            )),
        });
        match &called {
            Ok(_) | Err(CallError::Refused(_)) => self.faults().forgive(),
            Err(_) => self.faults().add(),
        }
        called
    }

    fn faults(&self) -> std::sync::MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Queries a program for its metadata in YAML.
pub(crate) fn describe(invocation: &Invocation, host: &Host) -> Result<Vec<u8>, CallError> {
    let call = Call { arguments: vec!["ral_action=describe".to_owned()], input: None };
    let own = |name: &str| name == "name" || name.starts_with("ral_");
    let captured = run(invocation, host, &call, limits::HEADER, own, &mut |_| {})?;
    if let Some(failure) = &captured.failure {
        return Err(CallError::Answer(captured.complaint(invocation.file(), failure)));
    }
    match captured.stderr_line {
        Some(line) => Err(CallError::Answer(format!("describe wrote to standard error: {line}"))),
        None => Ok(captured.stdout),
    }
}

/// The output of a call.
struct Captured {
    stdout: Vec<u8>,
    /// The first line of standard error that is not blank.
    stderr_line: Option<String>,
    /// The reason why the output is invalid, worded to follow the provider's path.
    failure: Option<String>,
    last_lines: Vec<String>,
}

impl Captured {
    fn complaint(&self, file: &Path, failure: &str) -> String {
        let lines: Vec<String> = self.last_lines.iter().map(|line| format!("; {line}")).collect();
        format!("{}{failure}{}", file.display(), lines.concat())
    }
}

fn run(
    invocation: &Invocation,
    host: &Host,
    call: &Call,
    limit: Duration,
    is_own_variable: impl Fn(&str) -> bool,
    heard: &mut NoteHandler<'_>,
) -> Result<Captured, CallError> {
    let (mut program, _) = invocation.program(host)?;
    set_environment(&mut program, host);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(&is_own_variable) {
            program.env_remove(name);
        }
    }
    program.env("LC_ALL", "C").env("LANG", "C");
    if let Some(libexec) = std::env::var_os("RALSH_LIBEXEC_DIR") {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories = [libexec.into()].into_iter().chain(std::env::split_paths(&path));
        if let Ok(path) = std::env::join_paths(directories) {
            program.path(path);
        }
    }
    program.args(&call.arguments).timeout(limit);
    if let Some(input) = &call.input {
        program.stdin(input.clone());
    }
    let (mut stdout, mut stderr) = (Vec::new(), LineBuffer::default());
    let mut stderr_line = None;
    let mut hear = |line: &str| {
        if stderr_line.is_none() && !line.trim().is_empty() {
            stderr_line = Some(line.trim().to_owned());
        }
        Note::from_stderr(line).into_iter().for_each(&mut *heard);
    };
    let ended = start(&program, |stream, bytes| match stream {
        Stream::Stdout if stdout.len() <= Limits::default().answer => stdout.extend_from_slice(bytes),
        Stream::Stdout => {}
        Stream::Stderr => stderr.lines(bytes).iter().for_each(|line| hear(line)),
    })?;
    stderr.rest().iter().for_each(|line| hear(line));
    let failure = match ended.timed_out {
        Some(_) => Some(format!(" did not answer within {limit:?}")),
        None => ended.failure().map(|failure| format!(": {failure}")).or_else(|| too_long(&stdout)),
    };
    Ok(Captured { stdout, stderr_line, failure, last_lines: ended.last_lines(LAST_LINES) })
}

/// Returns an error if an answer is too long.
fn too_long(stdout: &[u8]) -> Option<String> {
    let Limits { answer, line } = Limits::default();
    if stdout.len() > answer {
        return Some(format!(" answered with more than {answer} bytes"));
    }
    let has_long_line = stdout.split(|&byte| byte == b'\n').any(|text| text.len() > line);
    has_long_line.then(|| format!(" answered with a line of more than {line} bytes"))
}

fn start(program: &Program, hear: impl FnMut(Stream, &[u8])) -> Result<holo_plugin::process::Ended, CallError> {
    program.run(hear).map_err(|error| CallError::Program { program: program.to_string(), error })
}

/// Splits bytes into lines.
#[derive(Default)]
struct LineBuffer(Vec<u8>);

impl LineBuffer {
    /// Adds bytes, and returns the complete lines.
    fn lines(&mut self, bytes: &[u8]) -> Vec<String> {
        self.0.extend_from_slice(bytes);
        let Some(end) = self.0.iter().rposition(|&byte| byte == b'\n') else { return Vec::new() };
        let complete: Vec<u8> = self.0.drain(..=end).collect();
        String::from_utf8_lossy(&complete).lines().map(str::to_owned).collect()
    }

    /// Returns an incomplete last line.
    fn rest(self) -> Option<String> {
        (!self.0.is_empty()).then(|| String::from_utf8_lossy(&self.0).into_owned())
    }
}

/// A message to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    severity: Severity,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Print,
    Warning,
    Error,
}

impl Note {
    pub(crate) fn warning(text: impl Into<String>) -> Note {
        Note { severity: Severity::Warning, text: text.into() }
    }

    pub(crate) fn error(text: impl Into<String>) -> Note {
        Note { severity: Severity::Error, text: text.into() }
    }

    /// Parses a line of a provider's standard error, which may start with a level. Debug messages are not shown.
    pub(crate) fn from_stderr(line: &str) -> Option<Note> {
        let levels = ["debug", "info", "warn", "error"];
        let (level, text) = match line.split_once(':') {
            Some((level, text)) if levels.iter().any(|known| level.eq_ignore_ascii_case(known)) => (level, text.trim()),
            _ => ("warn", line),
        };
        let severity = match level.to_ascii_lowercase().as_str() {
            "debug" => return None,
            "info" => Severity::Print,
            "error" => Severity::Error,
            _ => Severity::Warning,
        };
        Some(Note { severity, text: text.to_owned() })
    }

    /// Shows the message without sensitive text.
    pub(crate) fn say(&self, sensitive: &Sensitive, output: &mut Output<'_>) {
        let text = one_line(&sensitive.hide(&self.text));
        match self.severity {
            Severity::Print => output.print(format!("{text}\n")),
            Severity::Warning => output.warning(text),
            Severity::Error => output.error(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_standard_error_have_levels() {
        let lines = ["debug: a", "info: b", "warn:c", "error: d e: f", "g: h", "ERROR: i", ""];
        let notes: Vec<Option<(Severity, String)>> =
            lines.iter().map(|line| Note::from_stderr(line).map(|note| (note.severity, note.text))).collect();
        use Severity::{Error, Print, Warning};
        let expected =
            [(Print, "b"), (Warning, "c"), (Error, "d e: f"), (Warning, "g: h"), (Error, "i"), (Warning, "")];
        let expected = expected.map(|(severity, text)| Some((severity, text.to_owned())));
        assert_eq!(notes, [&[None], &expected[..]].concat());
    }
}
