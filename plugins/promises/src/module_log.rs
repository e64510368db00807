//! The log messages of a module, shown or recorded by level.

use crate::level::{Level, LogLevel};
use holo_bridge::Sensitive;
use holo_bridge::shown::one_line;
use holo_plugin::{Output, Progress, Stream};

/// The phase to which messages belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Validating,
    Evaluating,
    /// The module must not make changes, and warns about those that it would make.
    DryRun,
}

/// Forwards the messages of a module about one promise.
pub(crate) struct ModuleLog<'v, 'o> {
    output: &'v mut Output<'o>,
    sensitive: Sensitive,
    level: LogLevel,
    phase: Phase,
    pub(crate) logs: Logs,
}

/// The messages that affect the result of a promise.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    pub(crate) infos: Vec<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) has_error: bool,
}

impl<'v, 'o> ModuleLog<'v, 'o> {
    pub(crate) fn new(output: &'v mut Output<'o>, sensitive: &Sensitive, level: LogLevel, phase: Phase) -> Self {
        ModuleLog { output, sensitive: sensitive.clone(), level, phase, logs: Logs::default() }
    }

    /// Hides further texts: the secrets that the module received for other promises.
    pub(crate) fn hide_also(&mut self, secrets: &Sensitive) {
        self.sensitive.unite(secrets);
    }

    /// Returns a text on one line, without secrets.
    pub(crate) fn shown(&self, text: &str) -> String {
        one_line(&self.sensitive.hide(text))
    }

    /// Forwards a line of standard error.
    pub(crate) fn stderr(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let hidden = self.sensitive.hide(&text);
        let bytes = if hidden == text { line } else { hidden.as_bytes() };
        self.output.relay(Stream::Stderr, &[bytes, b"\n"].concat());
    }

    /// Forwards a log message.
    pub(crate) fn log(&mut self, level: Level, text: &str) {
        let text = self.shown(text);
        let is_evaluating = self.phase == Phase::Evaluating;
        match level {
            Level::Critical | Level::Error => {
                self.logs.has_error = true;
                self.output.error(text);
            }
            Level::Warning if self.phase == Phase::DryRun => self.logs.warnings.push(text),
            Level::Warning | Level::Notice => self.output.warning(text),
            Level::Info => {
                self.progress(is_evaluating, &text);
                self.logs.infos.push(text);
            }
            Level::Verbose => {
                self.progress(is_evaluating, &text);
                self.print(LogLevel::Verbose, &text);
            }
            Level::Debug => self.print(LogLevel::Debug, &text),
        }
    }

    pub(crate) fn warning(&mut self, text: &str) {
        let text = self.shown(text);
        self.output.warning(text);
    }

    fn progress(&mut self, is_wanted: bool, text: &str) {
        if is_wanted {
            self.output.progress(&Progress { done_of: None, text });
        }
    }

    fn print(&mut self, from: LogLevel, text: &str) {
        if self.level >= from {
            self.output.print(format!("{text}\n"));
        }
    }
}
