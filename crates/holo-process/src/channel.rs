//! The pipes to which programs write.

use holo_protocol::session::Stream;

/// A pipe to which a program writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// File descriptor 3, for programs with an [extra pipe](crate::Program::extra_pipe).
    Extra,
}

impl Channel {
    /// Returns the corresponding standard stream; `None` for `Extra`.
    pub(crate) fn stream(self) -> Option<Stream> {
        match self {
            Channel::Stdout => Some(Stream::Stdout),
            Channel::Stderr => Some(Stream::Stderr),
            Channel::Extra => None,
        }
    }
}
