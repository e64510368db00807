//! The answer of a probe.

/// The answer of a probe: the exit status that Nagios has for it, and a line.
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

    /// It cannot be told how it is.
    pub(crate) fn unknown(text: impl Into<String>) -> Answer {
        Answer { state: 3, text: text.into() }
    }
}
