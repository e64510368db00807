//! What the agent says of itself, for the journal: a line each.

use std::fmt::Display;
use std::io::{self, Write};

/// The levels of lines, as journald reads them at their beginnings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    Error,
    Warning,
    Info,
}

/// Says something. Where the journal reads, its level is marked.
pub(crate) fn say(level: Level, text: impl Display) {
    // Unit tests look at what is done.
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
    // Nobody may be there to read it.
    let _ = writeln!(io::stderr(), "{mark}{text}");
}
