//! Answers to `blame`: the origins of the lines of a file.

use bstr::{BString, ByteSlice};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The origin of a line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The line comes from the base, the file as it was before it was managed (`base`).
    Base,
    /// The line was changed manually since the file was last applied (`edited`).
    Edited,
    /// The line comes from a resource file (`resource PATH:LINE`).
    Resource {
        /// The resource file.
        path: PathBuf,
        /// The line number in it, counted from 1.
        line: usize,
    },
    /// A holoscript, a program among the resource files, has written the line (`holoscript PATH`).
    Holoscript(PathBuf),
    /// Any other origin, in words.
    Other(BString),
}

/// Consecutive lines with the same origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The origin of the first line; if it is in a resource file, the following lines are the next lines of that file.
    pub origin: Origin,
    /// The number of lines.
    pub count: usize,
}

impl Origin {
    /// Parses an origin.
    #[must_use]
    pub fn parse(text: &[u8]) -> Origin {
        let path = |path: &[u8]| PathBuf::from(OsString::from_vec(path.to_owned()));
        let resource = || {
            let (name, line) = text.strip_prefix(b"resource ")?.rsplit_once_str(":")?;
            let line = line.to_str().ok()?.parse().ok().filter(|&line| line > 0)?;
            (!name.is_empty()).then(|| Origin::Resource { path: path(name), line })
        };
        match text {
            b"base" => Origin::Base,
            b"edited" => Origin::Edited,
            _ => match text.strip_prefix(b"holoscript ") {
                Some(name) if !name.is_empty() => Origin::Holoscript(path(name)),
                _ => resource().unwrap_or_else(|| Origin::Other(text.into())),
            },
        }
    }

    /// Returns the text for [`Origin::parse`].
    #[must_use]
    pub fn to_text(&self) -> BString {
        match self {
            Origin::Base => "base".into(),
            Origin::Edited => "edited".into(),
            Origin::Resource { path, line } => {
                [b"resource ", path.as_os_str().as_bytes(), format!(":{line}").as_bytes()].concat().into()
            }
            Origin::Holoscript(path) => [b"holoscript ", path.as_os_str().as_bytes()].concat().into(),
            Origin::Other(text) => text.replace("\t", " ").replace("\n", " ").into(),
        }
    }

    /// Returns the origin of the line this many lines further down in the same span.
    #[must_use]
    pub fn further(&self, lines: usize) -> Origin {
        match self {
            Origin::Resource { path, line } => Origin::Resource { path: path.clone(), line: line + lines },
            other => other.clone(),
        }
    }
}

impl Span {
    /// Parses a line `ORIGIN TAB COUNT`. Returns `None` for any other line.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Span> {
        let (origin, count) = line.rsplit_once_str("\t")?;
        let count = count.to_str().ok()?.parse().ok().filter(|&count| count > 0)?;
        (!origin.is_empty()).then(|| Span { origin: Origin::parse(origin), count })
    }

    /// Returns the spans in a text, one per line. Other lines are skipped.
    pub fn parse_all(text: &[u8]) -> impl Iterator<Item = Span> {
        text.split_str("\n").filter_map(Span::parse)
    }

    /// Returns the line without its newline.
    #[must_use]
    pub fn to_line(&self) -> BString {
        [&self.origin.to_text()[..], format!("\t{}", self.count).as_bytes()].concat().into()
    }

    /// Merges the origins of the lines of a file into as few spans as possible.
    #[must_use]
    pub fn join(origins: impl IntoIterator<Item = Origin>) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for origin in origins {
            match spans.last_mut() {
                Some(last) if last.origin.further(last.count) == origin => last.count += 1,
                _ => spans.push(Span { origin, count: 1 }),
            }
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str, line: usize) -> Origin {
        Origin::Resource { path: path.into(), line }
    }

    #[test]
    fn spans_are_what_they_were() {
        for (line, origin, count) in [
            ("base\t3", Origin::Base, 3),
            ("edited\t1", Origin::Edited, 1),
            (
                "resource /usr/share/holo/files/01-a:b/etc/x:12\t2",
                resource("/usr/share/holo/files/01-a:b/etc/x", 12),
                2,
            ),
            ("holoscript /x y.holoscript\t1", Origin::Holoscript("/x y.holoscript".into()), 1),
            ("resource x\t1", Origin::Other("resource x".into()), 1),
            ("the moon\t1", Origin::Other("the moon".into()), 1),
        ] {
            let span = Span { origin, count };
            assert_eq!(span.to_line(), line);
            assert_eq!(Span::parse(line.as_bytes()), Some(span));
        }
        for odd in ["", "base", "base\t0", "base\tx", "\t1", "base\t-1"] {
            assert_eq!(Span::parse(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn lines_that_follow_each_other_are_one_span() {
        let origins = [Origin::Base, Origin::Base, resource("a", 1), resource("a", 2), resource("a", 4), Origin::Base];
        let spans = Span::join(origins.clone());
        assert_eq!(spans.iter().map(|span| span.count).collect::<Vec<_>>(), [2, 2, 1, 1]);
        let again = spans.iter().flat_map(|span| (0..span.count).map(|line| span.origin.further(line)));
        assert_eq!(again.collect::<Vec<_>>(), origins);
    }
}
