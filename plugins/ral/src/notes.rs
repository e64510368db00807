//! Messages about a resource.

use holo_bridge::Sensitive;
use holo_bridge::shown::one_line;
use holo_plugin::Output;

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
