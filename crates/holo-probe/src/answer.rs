//! The result of a probe.

/// The result of a probe: Nagios's exit status and a message of one line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) state: u8,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn ok(text: impl Into<String>) -> Answer {
        Answer { state: 0, text: text.into() }
    }

    pub(crate) fn warning(text: impl Into<String>) -> Answer {
        Answer { state: 1, text: text.into() }
    }

    pub(crate) fn critical(text: impl Into<String>) -> Answer {
        Answer { state: 2, text: text.into() }
    }

    /// The state could not be determined.
    pub(crate) fn unknown(text: impl Into<String>) -> Answer {
        Answer { state: 3, text: text.into() }
    }
}
