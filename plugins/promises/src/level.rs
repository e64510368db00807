//! Log levels.

use serde::Deserialize;

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
