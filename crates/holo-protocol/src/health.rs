//! Health of entities on file descriptor 3, one line per entity.

use bstr::{BString, ByteSlice};

/// The health of an entity: a line of the operation `health`. Version 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The state.
    pub state: HealthState,
    /// The ID of the entity.
    pub id: BString,
    /// The reason, in a few words on one line; it may be empty.
    pub text: BString,
}

/// The result of a health check, with the states of Nagios, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthState {
    /// Healthy.
    Ok,
    /// A possible problem.
    Warning,
    /// The check gave no result.
    Unknown,
    /// The entity does not work.
    Critical,
}

/// A line that does not report the health of an entity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not the health of an entity: ok, warning, critical or unknown, a tab, an entity ID, a tab, and a reason"
)]
pub struct HealthError(BString);

impl HealthState {
    const ALL: [HealthState; 4] = [HealthState::Ok, HealthState::Warning, HealthState::Unknown, HealthState::Critical];

    /// Returns the state for the exit status of a check.
    #[must_use]
    pub fn from_exit_status(status: i32) -> HealthState {
        match status {
            0 => HealthState::Ok,
            1 => HealthState::Warning,
            2 => HealthState::Critical,
            _ => HealthState::Unknown,
        }
    }

    /// Returns the word used in the line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            HealthState::Ok => "ok",
            HealthState::Warning => "warning",
            HealthState::Unknown => "unknown",
            HealthState::Critical => "critical",
        }
    }
}

impl Health {
    /// Parses a line.
    ///
    /// # Errors
    /// If it does not report the health of an entity.
    pub fn parse(line: &[u8]) -> Result<Health, HealthError> {
        let mut columns = line.splitn_str(3, "\t");
        let word = columns.next().unwrap_or_default();
        let state = HealthState::ALL.into_iter().find(|state| state.word().as_bytes() == word);
        let id = columns.next().filter(|id| !id.is_empty());
        match (state, id) {
            (Some(state), Some(id)) => {
                Ok(Health { state, id: id.into(), text: columns.next().unwrap_or_default().trim().into() })
            }
            _ => Err(HealthError(line.into())),
        }
    }

    /// Returns the line, including its newline. Characters in the reason that would end the line or column are replaced
    /// with blanks.
    #[must_use]
    pub fn to_line(&self) -> BString {
        let bytes = self.text.trim().iter();
        let text: Vec<u8> = bytes.map(|&byte| if b"\t\r\n\0".contains(&byte) { b' ' } else { byte }).collect();
        [self.state.word().as_bytes(), b"\t", &self.id, b"\t", &text, b"\n"].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for state in HealthState::ALL {
            for text in ["", "HTTP 500"] {
                let health = Health { state, id: "service:x".into(), text: text.into() };
                let line = health.to_line();
                assert_eq!(Health::parse(line.trim_end_with(|end| end == '\n')), Ok(health));
            }
        }
        let odd = Health { state: HealthState::Warning, id: "a:b".into(), text: "\ta\tb\nc\r".into() };
        assert_eq!(odd.to_line(), "warning\ta:b\ta b c\n");
    }

    #[test]
    fn a_shell_may_leave_the_reason_out_and_other_lines_are_errors() {
        assert_eq!(Health::parse(b"ok\ta:b").unwrap().text, "");
        for line in ["", "ok", "ok\t", "ok\t\tx", "OK\ta:b\t", "well\ta:b", " ok\ta:b"] {
            assert!(Health::parse(line.as_bytes()).is_err(), "{line:?}");
        }
    }

    #[test]
    fn states_are_those_of_nagios_and_the_worst_is_the_greatest() {
        let words = [0, 1, 2, 3, 4, 127].map(|status| HealthState::from_exit_status(status).word());
        assert_eq!(words, ["ok", "warning", "critical", "unknown", "unknown", "unknown"]);
        assert_eq!(HealthState::ALL.into_iter().max(), Some(HealthState::Critical));
    }
}
