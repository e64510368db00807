//! The form of a ledger in a record.

use super::super::text::Endings;
use super::{Item, Ledger, Mark};
use bstr::ByteSlice;
use holo_plugin::Text as Bytes;
use serde::{Deserialize, Serialize};

/// A ledger in which adjacent lines with the same mark form a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Segments {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    crlf: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unterminated: bool,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Segment {
    #[serde(default, skip_serializing_if = "is_theirs")]
    is: Kind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    edit: String,
    /// Each line, and a newline behind it.
    lines: Bytes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Theirs,
    Made,
    Hidden,
    Lost,
    Instead,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_theirs(kind: &Kind) -> bool {
    *kind == Kind::Theirs
}

impl From<&Ledger> for Segments {
    fn from(ledger: &Ledger) -> Segments {
        let mut segments: Vec<Segment> = Vec::new();
        let mut before = None;
        for item in &ledger.items {
            if before != Some(&item.mark) {
                let (is, edit) = kind_of(&item.mark);
                segments.push(Segment { is, edit: edit.to_owned(), lines: Bytes::default() });
            }
            if let Some(segment) = segments.last_mut() {
                segment.lines.0.extend_from_slice(&item.line);
                segment.lines.0.push(b'\n');
            }
            before = Some(&item.mark);
        }
        let Endings { crlf, unterminated } = ledger.endings;
        Segments { crlf, unterminated, segments }
    }
}

impl From<Segments> for Ledger {
    fn from(written: Segments) -> Ledger {
        let Segments { crlf, unterminated, segments } = written;
        let mut items = Vec::new();
        for Segment { is, edit, lines } in segments {
            let mark = match is {
                Kind::Theirs => Mark::Theirs,
                Kind::Made => Mark::Made(edit),
                Kind::Hidden => Mark::Hidden(edit),
                Kind::Lost => Mark::Lost(edit),
                Kind::Instead => Mark::Instead(edit),
            };
            let without_newline = |line: &[u8]| line.strip_suffix(b"\n").unwrap_or(line).to_vec();
            let all = lines.0.lines_with_terminator().map(without_newline);
            items.extend(all.map(|line| Item { line, mark: mark.clone() }));
        }
        Ledger { items, endings: Endings { crlf, unterminated } }
    }
}

fn kind_of(mark: &Mark) -> (Kind, &str) {
    match mark {
        Mark::Theirs => (Kind::Theirs, ""),
        Mark::Made(edit) => (Kind::Made, edit),
        Mark::Hidden(edit) => (Kind::Hidden, edit),
        Mark::Lost(edit) => (Kind::Lost, edit),
        Mark::Instead(edit) => (Kind::Instead, edit),
    }
}
