//! Version 3's wording of system errors and of manual changes, which both sides show.

use bstr::ByteSlice;
use std::borrow::Cow;
use std::io;

/// The reason why an entity that was changed manually is not overwritten.
pub const MODIFIED: &str = "modified by user";
/// The reason why an entity that was deleted manually is not restored.
pub const DELETED: &str = "deleted by user";

/// Returns an I/O error in the system's wording, in lower case and without its number: `no such file or directory`.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error ").next().unwrap_or(&text);
    let mut letters = words.chars();
    match letters.next() {
        // Only a capitalized word becomes lower case: "I/O error" stays.
        Some(first) if letters.as_str().starts_with(char::is_lowercase) => {
            format!("{}{}", first.to_lowercase(), letters.as_str())
        }
        _ => words.to_owned(),
    }
}

/// Returns a text as a single line: line breaks are written as `\n`.
#[must_use]
pub fn one_line(text: &[u8]) -> Cow<'_, [u8]> {
    if text.contains(&b'\n') { text.replace("\n", "\\n").into() } else { text.into() }
}

/// Returns an argument as version 3 shows it in a command that was not run: quoted if it is empty or contains blanks.
#[must_use]
pub fn quoted(argument: &str) -> String {
    if argument.is_empty() || argument.contains(char::is_whitespace) {
        format!("'{argument}'")
    } else {
        argument.to_owned()
    }
}

/// Describes an unsuccessful exit: `exit status 1`, `signal: killed`. Returns `None` if the process exited with 0.
#[must_use]
pub fn failure(code: Option<i32>, signal: Option<i32>, core_dumped: bool) -> Option<String> {
    match (code, signal) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, signal) => {
            let core = if core_dumped { " (core dumped)" } else { "" };
            Some(format!("signal: {}{core}", signal_in_words(signal.unwrap_or_default())))
        }
    }
}

fn signal_in_words(signal: i32) -> String {
    let words = match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        5 => "trace/breakpoint trap",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        9 => "killed",
        10 => "user defined signal 1",
        11 => "segmentation fault",
        12 => "user defined signal 2",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        16 => "stack fault",
        24 => "CPU time limit exceeded",
        25 => "file size limit exceeded",
        26 => "virtual timer expired",
        27 => "profiling timer expired",
        29 => "I/O possible",
        30 => "power failure",
        31 => "bad system call",
        other => return format!("signal {other}"),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_read_as_ever() {
        for (number, words) in [
            (2, "no such file or directory"),
            (13, "permission denied"),
            (5, "input/output error"),
            (17, "file exists"),
            (28, "no space left on device"),
            (40, "too many levels of symbolic links"),
        ] {
            assert_eq!(reason(&io::Error::from_raw_os_error(number)), words);
        }
        assert_eq!(reason(&io::Error::other("I/O gone (odd)")), "I/O gone (odd)");
    }

    #[test]
    fn ends_read_as_ever() {
        assert_eq!(failure(Some(0), None, false), None);
        assert_eq!(failure(Some(7), None, false).unwrap(), "exit status 7");
        assert_eq!(failure(None, Some(9), false).unwrap(), "signal: killed");
        assert_eq!(failure(None, Some(11), true).unwrap(), "signal: segmentation fault (core dumped)");
        assert_eq!(failure(None, Some(40), false).unwrap(), "signal: signal 40");
    }
}
