//! What a plugin says of an entity during `apply`: the lines on file descriptor 3.

use std::fmt;

/// One line on file descriptor 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The entity is in its desired state already and nothing was done.
    NotChanged,
    /// A person changed the entity since it was last applied, and it was left as it is.
    RequiresForceToOverwrite,
    /// A person deleted the entity since it was last applied, and it was left deleted.
    RequiresForceToRestore,
}

impl Message {
    const ALL: [Message; 3] = [Message::NotChanged, Message::RequiresForceToOverwrite, Message::RequiresForceToRestore];

    /// The message that a line stands for. Version 3 ignores every other line, so there is no error.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Message> {
        Message::ALL.into_iter().find(|message| message.as_str().as_bytes() == line)
    }

    /// The line, without its newline.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Message::NotChanged => "not changed",
            Message::RequiresForceToOverwrite => "requires --force to overwrite",
            Message::RequiresForceToRestore => "requires --force to restore",
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes_and_nothing_else() {
        for message in Message::ALL {
            assert_eq!(Message::parse(message.to_string().as_bytes()), Some(message));
        }
        for line in ["", "not changed ", "Not changed", "requires --force", "\u{fffd}"] {
            assert_eq!(Message::parse(line.as_bytes()), None);
        }
    }
}
