//! The pipes that programs write to.

use holo_protocol::session::Stream;

/// A pipe that a program writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// File descriptor 3, for programs that [have it](crate::Program::extra_pipe).
    Extra,
}

impl Channel {
    /// Returns the standard stream that it is, if it is one.
    pub(crate) fn stream(self) -> Option<Stream> {
        match self {
            Channel::Stdout => Some(Stream::Stdout),
            Channel::Stderr => Some(Stream::Stderr),
            Channel::Extra => None,
        }
    }
}
