//! The log messages of a module, shown or recorded by their levels.

use holo_bridge::Sensitive;
use holo_bridge::shown::one_line;
use holo_plugin::{Output, Progress, Stream};
use serde::Deserialize;

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

/// The log level requested from a module.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    Error,
    Warning,
    Notice,
    #[default]
    Info,
    Verbose,
    Debug,
}

impl LogLevel {
    /// Returns its name in requests.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warning => "warning",
            LogLevel::Notice => "notice",
            LogLevel::Info => "info",
            LogLevel::Verbose => "verbose",
            LogLevel::Debug => "debug",
        }
    }
}

/// The level of a log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Critical,
    Error,
    Warning,
    Notice,
    Info,
    Verbose,
    Debug,
}

impl Level {
    /// Parses a level. Modules use several names for some levels.
    pub(crate) fn parse(name: &str) -> Option<Level> {
        Some(match name.to_ascii_lowercase().as_str() {
            "critical" | "crit" => Level::Critical,
            "error" | "err" => Level::Error,
            "warning" | "warn" => Level::Warning,
            "notice" => Level::Notice,
            "info" | "inform" => Level::Info,
            "verbose" => Level::Verbose,
            "debug" => Level::Debug,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_several_names() {
        for (name, level) in [
            ("critical", Some(Level::Critical)),
            ("CRIT", Some(Level::Critical)),
            ("Err", Some(Level::Error)),
            ("warn", Some(Level::Warning)),
            ("notice", Some(Level::Notice)),
            ("inform", Some(Level::Info)),
            ("verbose", Some(Level::Verbose)),
            ("debug", Some(Level::Debug)),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(Level::parse(name), level, "{name}");
        }
        assert!(LogLevel::Verbose > LogLevel::Info);
    }
}
