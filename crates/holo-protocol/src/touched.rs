//! Events that a plugin detects itself, one per line of file descriptor 3.

use bstr::{BString, ByteSlice};

const LISTENING: &[u8] = b"listening";

/// A line of the operation `watch`. Version 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchLine {
    /// The plugin reports all events from now on; earlier ones may have been missed.
    Listening,
    /// An entity may have changed.
    Touched(Touched),
}

/// An event of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The entity's ID.
    pub id: BString,
    /// The event in a few words, such as `its process ended`; empty if unknown.
    pub reason: BString,
}

/// A line that names no entity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no entity: an ID is expected, or an ID, a tab and what happened, or \"listening\"")]
pub struct TouchedError(BString);

impl WatchLine {
    /// Parses a line.
    ///
    /// # Errors
    /// If the line names no entity.
    pub fn parse(line: &[u8]) -> Result<WatchLine, TouchedError> {
        let (id, reason) = line.split_once_str("\t").unwrap_or((line, b""));
        let is_id = id.contains(&b':') && !id.iter().any(u8::is_ascii_control);
        match line {
            LISTENING => Ok(WatchLine::Listening),
            _ if is_id => Ok(WatchLine::Touched(Touched { id: id.into(), reason: reason.trim().into() })),
            _ => Err(TouchedError(line.into())),
        }
    }

    /// Returns the line, including its newline. Characters that would end the line or column are replaced with blanks.
    #[must_use]
    pub fn to_line(&self) -> BString {
        match self {
            WatchLine::Listening => [LISTENING, b"\n"].concat().into(),
            WatchLine::Touched(touched) => touched.to_line(),
        }
    }
}

impl Touched {
    fn to_line(&self) -> BString {
        let column =
            |text: &[u8]| text.iter().map(|&byte| if b"\t\r\n".contains(&byte) { b' ' } else { byte }).collect();
        let (id, reason): (Vec<u8>, Vec<u8>) = (column(&self.id), column(&self.reason));
        let end: &[u8] = if reason.is_empty() { b"" } else { b"\t" };
        [&id[..], end, &reason, b"\n"].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for reason in ["", "its process ended"] {
            let touched = Touched { id: "service:nginx.service".into(), reason: reason.into() };
            for said in [WatchLine::Touched(touched), WatchLine::Listening] {
                assert_eq!(WatchLine::parse(said.to_line().trim_end_with(|end| end == '\n')), Ok(said));
            }
        }
        let odd = Touched { id: "a:b\tc".into(), reason: "d\ne".into() };
        assert_eq!(odd.to_line(), "a:b c\td e\n");
    }

    #[test]
    fn other_lines_are_errors() {
        for line in ["", "\t", "nginx", "listening ", "listening\t", "\ta:b", "a:\x1bb"] {
            assert!(WatchLine::parse(line.as_bytes()).is_err(), "{line:?}");
        }
    }
}
