//! Contents of entities before a change, as kept by plugins.

use bstr::{BString, ByteSlice};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// An entity before it was changed: the text of [`Message::Replaced`](crate::Message::Replaced).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// `COPY PATH`: a file was replaced.
    File {
        /// The old content.
        copy: Kept,
        /// The path of the file, relative to the root of the system.
        path: PathBuf,
    },
    /// `FROM TAB TO TAB NAME`: two files that represent an entity that is not a file.
    Shown {
        /// The entity before the change.
        from: PathBuf,
        /// The entity after the change.
        to: PathBuf,
        /// The name under which both are shown.
        name: BString,
    },
}

/// A copy of the old content of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The path did not exist.
    Nothing,
    /// The whole file.
    File(PathBuf),
    /// A part of a file: `FILE@START+LENGTH`.
    Part {
        /// The file.
        file: PathBuf,
        /// The offset of the part in bytes.
        start: u64,
        /// The length of the part in bytes.
        length: usize,
    },
}

const NOTHING: &str = "/dev/null";

impl Replaced {
    /// Parses the text of a message. Returns `None` if it has another form.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Replaced> {
        let fields: Vec<&[u8]> = text.splitn_str(3, "\t").collect();
        if let [from, to, name] = fields[..] {
            let path = |path: &[u8]| path.to_path_lossy().into_owned();
            return Some(Replaced::Shown { from: path(from), to: path(to), name: name.into() });
        }
        let (copy, path) = text.split_once_str(" ")?;
        Some(Replaced::File { copy: Kept::parse(copy), path: path.to_path_lossy().into_owned() })
    }
}

impl Kept {
    fn parse(text: &[u8]) -> Kept {
        let part = |text: &[u8]| {
            let (file, part) = text.rsplit_once_str("@")?;
            let (start, length) = part.to_str().ok()?.split_once('+')?;
            let file = file.to_path_lossy().into_owned();
            Some(Kept::Part { file, start: start.parse().ok()?, length: length.parse().ok()? })
        };
        match part(text) {
            _ if text == NOTHING.as_bytes() => Kept::Nothing,
            Some(part) => part,
            None => Kept::File(text.to_path_lossy().into_owned()),
        }
    }

    /// Returns the file that contains the copy, or `None` if the path did not exist.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Kept::Nothing => None,
            Kept::File(file) | Kept::Part { file, .. } => Some(file),
        }
    }

    /// Returns the form used in messages.
    #[must_use]
    pub fn to_path(&self) -> PathBuf {
        match self {
            Kept::Nothing => NOTHING.into(),
            Kept::File(file) => file.clone(),
            Kept::Part { file, start, length } => {
                let mut path: OsString = file.into();
                path.push(format!("@{start}+{length}"));
                path.into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_files_parts_of_files_or_nothing() {
        let file = |copy: Kept| Some(Replaced::File { copy, path: "/etc/a b".into() });
        let part = Kept::Part { file: "/c/x@1".into(), start: 20, length: 3 };
        for copy in [Kept::Nothing, Kept::File("/c/1".into()), Kept::File("/c/1@2".into()), part] {
            let text = format!("{} /etc/a b", copy.to_path().display());
            assert_eq!(Replaced::parse(text.as_bytes()), file(copy), "{text}");
        }
        let shown = Replaced::Shown { from: "/c/1 2".into(), to: "/c/2".into(), name: "user a\tb".into() };
        assert_eq!(Replaced::parse(b"/c/1 2\t/c/2\tuser a\tb"), Some(shown));
        assert_eq!(Replaced::parse(b"/c/1"), None);
    }
}
