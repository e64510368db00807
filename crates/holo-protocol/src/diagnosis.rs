//! Diagnoses that a plugin writes to file descriptor 3, one per line.

use bstr::{BString, ByteSlice};

/// A diagnosis that only the plugin can make: a line of the operation `doctor`. Version 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// The severity.
    pub level: Level,
    /// The diagnosis, in a few words on one line.
    pub title: BString,
    /// The remedy; empty if no action is needed.
    pub remedy: BString,
}

/// The severity of a diagnosis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No problem.
    Ok,
    /// A possible problem.
    Warning,
    /// An error.
    Error,
}

/// A line that is not a diagnosis.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a diagnosis: ok, warning or error, a tab, a title, a tab, and what to do")]
pub struct DiagnosisError(BString);

impl Level {
    const ALL: [Level; 3] = [Level::Ok, Level::Warning, Level::Error];

    /// Returns the word used in the line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

impl Diagnosis {
    /// Returns a diagnosis. Characters that would end the line or column are replaced with blanks.
    #[must_use]
    pub fn new(level: Level, title: impl AsRef<[u8]>, remedy: impl AsRef<[u8]>) -> Diagnosis {
        let column = |text: &[u8]| {
            let bytes = text.trim().iter();
            bytes.map(|&byte| if b"\t\r\n\0".contains(&byte) { b' ' } else { byte }).collect::<Vec<u8>>().into()
        };
        Diagnosis { level, title: column(title.as_ref()), remedy: column(remedy.as_ref()) }
    }

    /// Parses a line.
    ///
    /// # Errors
    /// If it is not a diagnosis.
    pub fn parse(line: &[u8]) -> Result<Diagnosis, DiagnosisError> {
        let mut columns = line.splitn_str(3, "\t");
        let word = columns.next().unwrap_or_default();
        let level = Level::ALL.into_iter().find(|level| level.word().as_bytes() == word);
        let title = columns.next().filter(|title| !title.trim().is_empty());
        match (level, title) {
            (Some(level), Some(title)) => Ok(Diagnosis::new(level, title, columns.next().unwrap_or_default())),
            _ => Err(DiagnosisError(line.into())),
        }
    }

    /// Returns the line, including its newline.
    #[must_use]
    pub fn to_line(&self) -> BString {
        [self.level.word().as_bytes(), b"\t", &self.title, b"\t", &self.remedy, b"\n"].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for level in Level::ALL {
            for remedy in ["", "systemctl daemon-reload"] {
                let diagnosis = Diagnosis::new(level, "units need a reload", remedy);
                let line = diagnosis.to_line();
                assert_eq!(Diagnosis::parse(line.trim_end_with(|end| end == '\n')), Ok(diagnosis));
            }
        }
    }

    #[test]
    fn stays_on_its_line() {
        let diagnosis = Diagnosis::new(Level::Error, "a\tb\nc\r", "\n");
        assert_eq!(diagnosis.to_line(), "error\ta b c\t\n");
    }

    #[test]
    fn a_shell_may_leave_the_remedy_out() {
        assert_eq!(
            Diagnosis::parse(b"ok\tall units are known"),
            Ok(Diagnosis::new(Level::Ok, "all units are known", ""))
        );
        let all = Diagnosis::new(Level::Warning, "a", "b c");
        assert_eq!(Diagnosis::parse(b"warning\ta\tb\tc"), Ok(all));
    }

    #[test]
    fn other_lines_are_errors() {
        for line in ["", "ok", "ok\t", "ok\t \tx", "OK\tx\t", "fine\tx\ty", " ok\tx"] {
            assert!(Diagnosis::parse(line.as_bytes()).is_err(), "{line:?}");
        }
        let error = Diagnosis::parse(b"bad\xff").unwrap_err().to_string();
        assert!(error.starts_with(r#""bad\xff" is not a diagnosis"#), "{error}");
    }
}
