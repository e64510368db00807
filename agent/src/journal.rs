//! The agent's log messages, one per line, for the journal.

use std::fmt::Display;
use std::io::{self, Write};

/// The levels of messages, as journald parses them at the start of lines.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    Error,
    Warning,
    Info,
}

/// Logs a message. If stderr is the journal, the line is prefixed with its level.
pub(crate) fn say(level: Level, text: impl Display) {
    // Unit tests check actions instead.
    if cfg!(test) {
        return;
    }
    let mark = match level {
        _ if std::env::var_os("JOURNAL_STREAM").is_none() => "",
        Level::Error => "<3>",
        Level::Warning => "<4>",
        Level::Info => "<6>",
    };
    let text = text.to_string().replace('\n', "; ");
    // Stderr may be closed.
    let _ = writeln!(io::stderr(), "{mark}{text}");
}
