//! What is to be said of the resources of one provider while others are worked on at the same time.

use holo_bridge::Sensitive;
use holo_bridge::shown::one_line;
use holo_plugin::Output;

/// Lines to be shown, in order.
#[derive(Debug, Default)]
pub(crate) struct Notes(Vec<(Severity, String)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Print,
    Warning,
    Error,
}

impl Notes {
    pub(crate) fn print(&mut self, text: impl Into<String>) {
        self.0.push((Severity::Print, text.into()));
    }

    pub(crate) fn warning(&mut self, text: impl Into<String>) {
        self.0.push((Severity::Warning, text.into()));
    }

    pub(crate) fn error(&mut self, text: impl Into<String>) {
        self.0.push((Severity::Error, text.into()));
    }

    /// Takes a line of a provider's standard error, with the level that it begins with.
    pub(crate) fn stderr(&mut self, line: &str) {
        let (level, text) = match line.split_once(':') {
            Some((level @ ("debug" | "info" | "warn" | "error"), text)) => (level, text.trim()),
            Some((level, text)) if ["DEBUG", "INFO", "WARN", "ERROR"].contains(&level) => (level, text.trim()),
            _ => ("warn", line),
        };
        match level.to_ascii_lowercase().as_str() {
            "debug" => {}
            "info" => self.print(text),
            "error" => self.error(text),
            _ => self.warning(text),
        }
    }

    /// Adds what others have to say.
    pub(crate) fn append(&mut self, mut others: Notes) {
        self.0.append(&mut others.0);
    }

    /// Says it all, without what is sensitive.
    pub(crate) fn say(self, sensitive: &Sensitive, output: &mut Output<'_>) {
        for (severity, text) in self.0 {
            let text = one_line(&sensitive.hide(&text));
            match severity {
                Severity::Print => output.print(format!("{text}\n")),
                Severity::Warning => output.warning(text),
                Severity::Error => output.error(text),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_standard_error_have_levels() {
        let mut notes = Notes::default();
        for line in ["debug: a", "info: b", "warn:c", "error: d e: f", "g: h", "ERROR: i", ""] {
            notes.stderr(line);
        }
        use Severity::{Error, Print, Warning};
        let expected =
            [(Print, "b"), (Warning, "c"), (Error, "d e: f"), (Warning, "g: h"), (Error, "i"), (Warning, "")];
        assert_eq!(notes.0, expected.map(|(severity, text)| (severity, text.to_owned())));
    }
}
