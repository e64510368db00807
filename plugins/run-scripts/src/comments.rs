//! The declarations for holo in the comments at the top of a script: `# holo: subscribes file:/etc/motd`.

use bstr::{BString, ByteSlice};
use holo_change::error::PathError;
use holo_plugin::{Asset, Edges, Output, Written};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The comment markers of scripting languages.
const MARKERS: [&[u8]; 4] = [b"#", b"//", b"--", b";"];
/// The prefix of a declaration.
const ADDRESS: &[u8] = b"holo:";
/// The maximum number of bytes that are searched for declarations.
const MAX_SIZE: u64 = 64 << 10;
const KEYS: &str = "after, before, requires, subscribes, notifies, provides, needs or watch";

/// The declarations of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Comments {
    /// The edges to and from other entities.
    pub(crate) edges: Edges,
}

/// Reads the declarations at the top of a script; programs that are not text have none. Errors in declarations are
/// printed.
pub(crate) fn read(path: &Path, output: &mut Output<'_>) -> Comments {
    let top = match top_of(path) {
        Ok(top) => top,
        Err(error) => {
            output.warning(PathError::new("open", path, error).to_string());
            return Comments::default();
        }
    };
    let mut comments = Comments::default();
    for (number, line) in comment_lines(&top) {
        let location = BString::from([path.as_os_str().as_bytes(), format!(":{number}").as_bytes()].concat());
        if let Err(problem) = comments.add(line, location) {
            output.warning(format!("{}:{number}: {problem}", path.display()));
        }
    }
    comments
}

/// Opens a regular file. The file may have been replaced by a FIFO since it was examined, which must not block us.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

fn top_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut top = Vec::new();
    open(path)?.take(MAX_SIZE).read_to_end(&mut top)?;
    // The last line may be truncated, and must not be mistaken for a complete one.
    if top.len() as u64 == MAX_SIZE {
        top.truncate(top.rfind_byte(b'\n').unwrap_or(0));
    }
    Ok(if top.contains(&0) { Vec::new() } else { top })
}

/// Returns the declarations with their line numbers, up to the first line that is not a comment.
fn comment_lines(top: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let comments = (1..).zip(top.lines().map_while(comment));
    comments.filter_map(|(number, comment)| Some((number, comment.trim().strip_prefix(ADDRESS)?.trim())))
}

fn comment(line: &[u8]) -> Option<&[u8]> {
    MARKERS.iter().find_map(|marker| line.strip_prefix(*marker))
}

/// The error for an invalid declaration.
#[derive(Debug, thiserror::Error)]
enum CommentError {
    #[error("unknown word \"{0}\", expected {KEYS}")]
    UnknownWord(BString),
    #[error("expected \"{0} ENTITY\", such as file:/etc/motd")]
    Entity(BString),
    #[error("expected \"{0} KIND VALUE\", such as path /etc/motd")]
    Asset(BString),
    #[error("expected \"watch PATH\" with an absolute path")]
    Watch,
}

impl Comments {
    fn add(&mut self, line: &[u8], location: BString) -> Result<(), CommentError> {
        let (key, value) = line.split_once_str(" ").unwrap_or((line, b""));
        let value = BString::from(value.trim());
        let edges = &mut self.edges;
        let ids = match key {
            b"after" => &mut edges.after,
            b"before" => &mut edges.before,
            b"requires" => &mut edges.requires,
            b"subscribes" => &mut edges.subscribes,
            b"notifies" => &mut edges.notifies,
            b"watch" if value.starts_with(b"/") => &mut edges.watch,
            b"watch" => return Err(CommentError::Watch),
            b"provides" => return asset(key, &value).map(|asset| edges.provides.push(asset)),
            b"needs" => return asset(key, &value).map(|asset| edges.needs.push(asset)),
            _ => return Err(CommentError::UnknownWord(key.into())),
        };
        if !value.contains(&b':') && key != b"watch" {
            return Err(CommentError::Entity(key.into()));
        }
        ids.push(value.clone());
        if [&b"after"[..], b"before", b"subscribes", b"notifies"].contains(&key) {
            edges.written.push(Written { location, id: value });
        }
        Ok(())
    }
}

fn asset(key: &[u8], text: &[u8]) -> Result<Asset, CommentError> {
    let parts = text.split_once_str(" ").map(|(kind, value)| (kind, value.trim()));
    match parts {
        Some((kind, value)) if !value.is_empty() => Ok(Asset { kind: kind.into(), value: value.into() }),
        _ => Err(CommentError::Asset(key.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holo_plugin::{Sink, Stream};

    struct OutputBuffer(String);

    impl Sink for OutputBuffer {
        fn write(&mut self, _: Stream, bytes: &[u8]) {
            self.0.push_str(&String::from_utf8_lossy(bytes));
        }
    }

    /// Returns the declarations of a script, and the printed errors.
    fn read_text(text: impl AsRef<[u8]>) -> (Edges, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        std::fs::write(&path, text).unwrap();
        let mut said = OutputBuffer(String::new());
        let comments = read(&path, &mut Output::new(&mut said));
        (comments.edges, said.0.replace(&format!("{}/", folder.path().display()), ""))
    }

    #[test]
    fn every_word_has_its_list() {
        let (edges, said) = read_text(
            "#!/bin/sh\n# Something.\n#\n# holo: after a:1\n#holo: before a:2\n# holo:requires a:3\n##\n# holo:  subscribes  a:4 b\n\
             # holo: notifies a:5\n# holo: provides path /srv/a b\n# holo: needs user joe\n# holo: watch /etc/x\n# holo: after a:6\n",
        );
        assert_eq!(said, "");
        assert_eq!(edges.after, ["a:1", "a:6"]);
        assert_eq!((&*edges.before, &*edges.requires), (&["a:2".into()][..], &["a:3".into()][..]));
        assert_eq!((&*edges.subscribes, &*edges.notifies), (&["a:4 b".into()][..], &["a:5".into()][..]));
        assert_eq!(edges.provides, [Asset { kind: "path".into(), value: "/srv/a b".into() }]);
        assert_eq!(edges.needs, [Asset { kind: "user".into(), value: "joe".into() }]);
        assert_eq!(edges.watch, ["/etc/x"]);
    }

    #[test]
    fn comments_of_other_languages_will_do() {
        for marker in ["#", "//", "--", ";", "###", ";;"] {
            let (edges, said) = read_text(format!("{marker} holo: after a:1\n"));
            let many = marker.len() > 1 && !["//", "--"].contains(&marker);
            assert_eq!((edges.after.len(), &*said), (usize::from(!many), ""), "{marker}");
        }
        assert_eq!(read_text("#!/usr/bin/env lua\n-- holo: after a:1\n").0.after, ["a:1"]);
        assert_eq!(read_text("#!/usr/bin/env node\r\n// holo: after a:1\r\n").0.after, ["a:1"]);
    }

    #[test]
    fn only_the_top_counts() {
        let none = Edges::default();
        for text in ["#!/bin/sh\n\n# holo: after a:1\n", "echo\n# holo: after a:1\n", " # holo: after a:1\n", ""] {
            assert_eq!(read_text(text), (none.clone(), String::new()), "{text:?}");
        }
        assert_eq!(read_text(b"# holo: after a:1\n\0"), (none.clone(), String::new()), "a program that is no text");
        assert_eq!(read_text(vec![b'#'; 100_000]), (none.clone(), String::new()));
        let cut = [&vec![b'#'; 65500][..], b"\n# holo: requires file:/etc/motd-of-the-machine\n"].concat();
        assert_eq!(read_text(cut), (none, String::new()), "half of an ID is none");
    }

    #[test]
    fn what_is_wrong_is_named_with_file_and_line() {
        for (line, problem) in [
            ("frobs a:1", format!("unknown word \"frobs\", expected {KEYS}")),
            ("", format!("unknown word \"\", expected {KEYS}")),
            ("After a:1", format!("unknown word \"After\", expected {KEYS}")),
            ("after", "expected \"after ENTITY\", such as file:/etc/motd".to_owned()),
            ("requires nginx", "expected \"requires ENTITY\", such as file:/etc/motd".to_owned()),
            ("needs user", "expected \"needs KIND VALUE\", such as path /etc/motd".to_owned()),
            ("watch etc/x", "expected \"watch PATH\" with an absolute path".to_owned()),
        ] {
            let (edges, said) = read_text(format!("#!/bin/sh\n# holo: {line}\n# holo: after a:1\n"));
            assert_eq!(said, format!(">> script:2: {problem}\n"));
            assert_eq!(edges.after, ["a:1"], "the others count");
        }
    }
}
