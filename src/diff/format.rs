//! The format of `git diff`, with version 3's names.

#[cfg(test)]
mod tests;

use super::{Content, Side};
use bstr::BStr;
use holo_diff::is_binary;

/// Returns the difference between two sides: the output of `git diff --no-index`, but with `diff --holo OLD NEW` as the
/// first line, without an `index` line, and with names that have no prefix except in the line about binary files.
///
/// It is empty if the sides are equal. If their types differ, such as a file and a symlink, it consists of the deletion of the old
/// side and the creation of the new one.
#[must_use]
pub fn render(old: &Side, new: &Side) -> Vec<u8> {
    let prefixed = (prefixed("a/", old.name.as_ref()), prefixed("b/", new.name.as_ref()));
    render_under(&Names { old: quoted(old.name.as_ref()), new: quoted(new.name.as_ref()), prefixed }, old, new)
}

/// Like [`render`], but for names that have git's prefixes already.
#[must_use]
pub fn render_prefixed(old: &Side, new: &Side) -> Vec<u8> {
    let [old_name, new_name] = [old, new].map(|side| quoted(side.name.as_ref()));
    render_under(&Names { prefixed: (old_name.clone(), new_name.clone()), old: old_name, new: new_name }, old, new)
}

fn render_under(names: &Names, old: &Side, new: &Side) -> Vec<u8> {
    let old = Blob::new(&old.content);
    let new = Blob::new(&new.content);
    let mut out = Vec::new();
    match (old, new) {
        (Some(old), Some(new)) if old.file_type() != new.file_type() => {
            render_blobs(names, Some(old), None, &mut out);
            render_blobs(names, None, Some(new), &mut out);
        }
        _ => render_blobs(names, old, new, &mut out),
    }
    out
}

/// Returns the hunks between two texts, after two lines with their names, `--- OLD` and `+++ NEW`.
///
/// Empty if the texts are equal.
#[must_use]
pub fn render_texts(old_name: &BStr, old: &[u8], new_name: &BStr, new: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if old != new {
        write_texts((&quoted(old_name), old), (&quoted(new_name), new), &mut out);
    }
    out
}

/// The names of both sides, ready to be printed.
struct Names {
    old: Vec<u8>,
    new: Vec<u8>,
    /// With git's prefixes, where version 3 keeps them.
    prefixed: (Vec<u8>, Vec<u8>),
}

const FILE: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
const DIRECTORY: u32 = 0o040_000;
/// The bits of a mode that contain the file type.
const TYPE_BITS: u32 = 0o170_000;

/// The representation in git of a side that exists.
#[derive(Clone, Copy)]
struct Blob<'a> {
    mode: u32,
    content: &'a [u8],
}

impl<'a> Blob<'a> {
    fn new(content: &'a Content) -> Option<Self> {
        match content {
            Content::Missing => None,
            Content::File { content, mode } => Some(Self { mode: FILE | mode, content }),
            Content::Symlink { target } => Some(Self { mode: SYMLINK, content: target }),
            Content::Directory { mode } => Some(Self { mode: DIRECTORY | mode, content: &[] }),
        }
    }

    fn file_type(self) -> u32 {
        self.mode & TYPE_BITS
    }
}

/// Writes the difference between two blobs, either of which may be missing.
fn render_blobs(names: &Names, old: Option<Blob<'_>>, new: Option<Blob<'_>>, out: &mut Vec<u8>) {
    let modes = mode_lines(old, new);
    let old_content = old.map_or(&[][..], |blob| blob.content);
    let new_content = new.map_or(&[][..], |blob| blob.content);
    let equal = old_content == new_content;
    if modes.is_empty() && equal {
        return;
    }
    write_all(out, &[b"diff --holo ", &names.old, b" ", &names.new, b"\n"]);
    out.extend_from_slice(modes.as_bytes());
    if equal {
        return;
    }
    let is_binary = is_binary(old_content) || is_binary(new_content);
    let (old_name, new_name) =
        if is_binary { (&names.prefixed.0, &names.prefixed.1) } else { (&names.old, &names.new) };
    let old_label = old.map_or(&b"/dev/null"[..], |_| old_name);
    let new_label = new.map_or(&b"/dev/null"[..], |_| new_name);
    if is_binary {
        let line = [b"Binary files ", old_label, b" and ", new_label, b" differ\n"];
        write_all(out, &line);
    } else {
        write_texts((old_label, old_content), (new_label, new_content), out);
    }
}

/// Returns the header lines about a change of the mode.
fn mode_lines(old: Option<Blob<'_>>, new: Option<Blob<'_>>) -> String {
    match (old.map(|old| old.mode), new.map(|new| new.mode)) {
        (None, Some(new)) => format!("new file mode {new:06o}\n"),
        (Some(old), None) => format!("deleted file mode {old:06o}\n"),
        (Some(old), Some(new)) if old != new => format!("old mode {old:06o}\nnew mode {new:06o}\n"),
        _ => String::new(),
    }
}

/// Writes the difference between two different texts with labels.
fn write_texts(old: (&[u8], &[u8]), new: (&[u8], &[u8]), out: &mut Vec<u8>) {
    for (marker, (label, _)) in [(&b"--- "[..], old), (b"+++ ", new)] {
        // Unlike git, version 3 does not append a TAB to names with blanks.
        write_all(out, &[marker, label, b"\n"]);
    }
    out.append(&mut holo_diff::hunks(old.1, new.1));
}

fn write_all(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Returns a name, quoted with C escapes if it contains special characters.
fn quoted(name: &BStr) -> Vec<u8> {
    if !name.iter().any(|byte| needs_escape(*byte)) {
        return name.to_vec();
    }
    let mut quoted = vec![b'"'];
    for byte in name.iter() {
        match byte {
            0x07 => quoted.extend_from_slice(b"\\a"),
            0x08 => quoted.extend_from_slice(b"\\b"),
            b'\t' => quoted.extend_from_slice(b"\\t"),
            b'\n' => quoted.extend_from_slice(b"\\n"),
            0x0b => quoted.extend_from_slice(b"\\v"),
            0x0c => quoted.extend_from_slice(b"\\f"),
            b'\r' => quoted.extend_from_slice(b"\\r"),
            b'"' | b'\\' => quoted.extend_from_slice(&[b'\\', *byte]),
            _ if needs_escape(*byte) => quoted.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            _ => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    quoted
}

/// Returns the name in git's form: relative to the root, and with a prefix.
fn prefixed(prefix: &str, name: &BStr) -> Vec<u8> {
    let below = name.strip_prefix(b"/").unwrap_or(name);
    quoted(BStr::new(&[prefix.as_bytes(), below].concat()))
}

fn needs_escape(byte: u8) -> bool {
    byte.is_ascii_control() || matches!(byte, b'"' | b'\\')
}
