//! What a module says while it is asked: who hears it, and when.

use crate::level::{Level, LogLevel};
use holo_bridge::Sensitive;
use holo_bridge::shown::one_line;
use holo_plugin::{Output, Progress, Stream};

/// What is being done while a module speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Validating,
    Evaluating,
    /// The module was told to change nothing: its warnings are what it would do.
    Looking,
}

/// Passes on what a module says about one promise.
pub(crate) struct Voice<'v, 'o> {
    output: &'v mut Output<'o>,
    sensitive: Sensitive,
    level: LogLevel,
    phase: Phase,
    pub(crate) logs: Logs,
}

/// What was said that means something for the result.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    pub(crate) infos: Vec<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) has_error: bool,
}

impl<'v, 'o> Voice<'v, 'o> {
    pub(crate) fn new(output: &'v mut Output<'o>, sensitive: &Sensitive, level: LogLevel, phase: Phase) -> Self {
        Voice { output, sensitive: sensitive.clone(), level, phase, logs: Logs::default() }
    }

    /// Hides more: what the module was told before.
    pub(crate) fn hide_also(&mut self, secrets: &Sensitive) {
        self.sensitive.unite(secrets);
    }

    /// Returns what everybody may see of a text, in one line.
    pub(crate) fn shown(&self, text: &str) -> String {
        one_line(&self.sensitive.hide(text))
    }

    /// Passes on a line of standard error.
    pub(crate) fn stderr(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let hidden = self.sensitive.hide(&text);
        let bytes = if hidden == text { line } else { hidden.as_bytes() };
        self.output.relay(Stream::Stderr, &[bytes, b"\n"].concat());
    }

    /// Passes on a text of some level.
    pub(crate) fn log(&mut self, level: Level, text: &str) {
        let text = self.shown(text);
        let is_evaluating = self.phase == Phase::Evaluating;
        match level {
            Level::Critical | Level::Error => {
                self.logs.has_error = true;
                self.output.error(text);
            }
            Level::Warning if self.phase == Phase::Looking => self.logs.warnings.push(text),
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
