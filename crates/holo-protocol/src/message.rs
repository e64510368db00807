//! Messages about an entity on file descriptor 3, one per line, and its progress.

use crate::environment::API_VERSION_4;
use crate::sent::Sent;
use crate::witness::Witness;
use crate::words::one_line;
use bstr::{BStr, BString, ByteSlice};
use std::fmt;

/// A line on file descriptor 3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The entity is already in its desired state, so that an apply makes no change.
    NotChanged,
    /// The entity was changed manually since it was last applied, and was left unchanged.
    RequiresForceToOverwrite,
    /// The entity was deleted manually since it was last applied, and was not restored.
    RequiresForceToRestore,
    /// The reason why the entity is not applied without `--force`. Version 4.
    RequiresForce(BString),
    /// The effect that an apply would have, such as `would install nginx`. Version 4, for `check` only.
    WouldChange(BString),
    /// The effect of an apply cannot be determined. Version 4, for `check` only.
    Unknown,
    /// The change that was made to the entity, as a fragment in the past tense. Version 4.
    Changed(BString),
    /// Like `Changed`, but a detail: shown on a terminal and by `--json`, but not where version 3 has no output.
    /// Version 4.
    ChangedQuietly(BString),
    /// The entity's definition excludes this system or the present time, so that an apply makes no change. Version 4.
    Skipped(BString),
    /// The reason why the entity is not changed now, which is temporary, so that the next apply tries again. Version 4.
    Deferred(BString),
    /// A value for the entities that receive it, or that this change refreshes: `KEY=VALUE`, or JSON. Version 4.
    Send(Sent),
    /// A value that belongs to the present state of the entity, and that the plugin receives again when this state is
    /// restored: `KEY=VALUE`. Version 4.
    Keep(BString),
    /// A file that the change replaces, for the run's record. Either `COPY PATH`, with a copy of the old file
    /// (`/dev/null` if it did not exist) and its path below the root; or `FROM TAB TO TAB NAME`, two files that show
    /// the entity before and after the change. Version 4.
    Replaced(BString),
    /// The progress of the entity's operation: a [`Progress`]. Version 4.
    Progress(BString),
    /// A file on which the answer that the entity is unchanged rests. Only if the request asks for it. Version 4.
    Witness(Witness),
    /// A path below the root that belongs to the entity, and whose change may move it out of its desired state. With a
    /// trailing slash it is a directory whose entries matter, but not their contents. Only if the request asks for it.
    /// Version 4.
    Part(BString),
    /// A line with the form of a message, but an invalid value. Version 4.
    Malformed(BString),
}

pub use crate::sent::MAX_SENT;

const NOT_CHANGED: &[u8] = b"not changed";
const TO_OVERWRITE: &[u8] = b"requires --force to overwrite";
const TO_RESTORE: &[u8] = b"requires --force to restore";
const UNKNOWN: &[u8] = b"unknown";
const FORCE: &[u8] = b"requires --force: ";
const WOULD_CHANGE: &[u8] = b"would change: ";
const CHANGED: &[u8] = b"changed: ";
const CHANGED_QUIETLY: &[u8] = b"changed quietly: ";
const SKIPPED: &[u8] = b"skipped: ";
const DEFERRED: &[u8] = b"deferred: ";
const SEND: &[u8] = b"send: ";
const SEND_JSON: &[u8] = b"send json: ";
const KEEP: &[u8] = b"keep: ";
const REPLACED: &[u8] = b"replaced: ";
const PROGRESS: &[u8] = b"progress: ";
const WITNESS: &[u8] = b"witness: ";
const PART: &[u8] = b"part: ";

impl Message {
    /// Parses a line according to this version. Lines that are not messages are ignored, so there is no error.
    #[must_use]
    pub fn parse(line: &[u8], version: u32) -> Option<Message> {
        match line {
            NOT_CHANGED => Some(Message::NotChanged),
            TO_OVERWRITE => Some(Message::RequiresForceToOverwrite),
            TO_RESTORE => Some(Message::RequiresForceToRestore),
            _ if version < API_VERSION_4 => None,
            UNKNOWN => Some(Message::Unknown),
            _ => {
                let text = |prefix: &[u8]| line.strip_prefix(prefix).map(BString::from);
                let force = || text(FORCE).map(Message::RequiresForce);
                let would_change = || text(WOULD_CHANGE).map(Message::WouldChange);
                let changed = || text(CHANGED).map(Message::Changed);
                let quietly = || text(CHANGED_QUIETLY).map(Message::ChangedQuietly);
                let left = || text(SKIPPED).map(Message::Skipped).or_else(|| text(DEFERRED).map(Message::Deferred));
                let malformed = || Message::Malformed(line.into());
                let keep = || {
                    let value = text(KEEP)?;
                    Some(if can_be_sent(value.as_ref()) { Message::Keep(value) } else { malformed() })
                };
                let json = || {
                    let value = line.strip_prefix(SEND_JSON)?;
                    Some(Sent::parse_json(value).map_or_else(malformed, Message::Send))
                };
                let send = || {
                    let Some(value) = line.strip_prefix(SEND) else { return json().or_else(keep) };
                    Some(Sent::parse(value.as_bstr()).map_or_else(malformed, Message::Send))
                };
                let progress =
                    || text(PROGRESS).map(Message::Progress).or_else(|| text(REPLACED).map(Message::Replaced));
                let witness = || {
                    let witness = Witness::parse(line.strip_prefix(WITNESS)?.as_bstr());
                    Some(witness.map_or_else(malformed, Message::Witness))
                };
                let part = || {
                    let path = text(PART)?;
                    Some(if path.starts_with(b"/") { Message::Part(path) } else { malformed() })
                };
                let done = || changed().or_else(quietly);
                force()
                    .or_else(would_change)
                    .or_else(done)
                    .or_else(left)
                    .or_else(send)
                    .or_else(progress)
                    .or_else(witness)
                    .or_else(part)
            }
        }
    }

    /// Returns the line without its newline. Line breaks in a text are written as `\n`.
    #[must_use]
    pub fn to_line(&self) -> BString {
        let with = |prefix: &[u8], text: &BStr| BString::from([prefix, &one_line(text)].concat());
        match self {
            Message::NotChanged => NOT_CHANGED.into(),
            Message::RequiresForceToOverwrite => TO_OVERWRITE.into(),
            Message::RequiresForceToRestore => TO_RESTORE.into(),
            Message::Unknown => UNKNOWN.into(),
            Message::RequiresForce(text) => with(FORCE, text.as_ref()),
            Message::WouldChange(text) => with(WOULD_CHANGE, text.as_ref()),
            Message::Changed(text) => with(CHANGED, text.as_ref()),
            Message::ChangedQuietly(text) => with(CHANGED_QUIETLY, text.as_ref()),
            Message::Skipped(text) => with(SKIPPED, text.as_ref()),
            Message::Deferred(text) => with(DEFERRED, text.as_ref()),
            Message::Send(sent) if sent.is_one_line() => with(SEND, sent.to_pair().as_ref()),
            Message::Send(sent) => with(SEND_JSON, sent.to_json().as_bstr()),
            Message::Keep(text) => with(KEEP, text.as_ref()),
            Message::Replaced(text) => with(REPLACED, text.as_ref()),
            Message::Progress(text) => with(PROGRESS, text.as_ref()),
            Message::Witness(witness) => with(WITNESS, witness.to_text().unwrap_or_default().as_ref()),
            Message::Part(path) => with(PART, path.as_ref()),
            Message::Malformed(line) => line.clone(),
        }
    }

    /// Returns true if the entity was left unchanged because `--force` was not given.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Message::RequiresForceToOverwrite | Message::RequiresForceToRestore | Message::RequiresForce(_))
    }

    /// Returns true if the entity was changed.
    #[must_use]
    pub fn is_change(&self) -> bool {
        matches!(self, Message::Changed(_) | Message::ChangedQuietly(_))
    }

    /// Returns true if an apply makes no change.
    #[must_use]
    pub fn is_nothing_to_do(&self) -> bool {
        matches!(self, Message::NotChanged | Message::Skipped(_))
    }
}

/// Returns true if the text has the form `KEY=VALUE`, the key is a valid shell variable name, and the value can be
/// stored in an environment variable.
#[must_use]
pub fn can_be_sent(text: &BStr) -> bool {
    Sent::parse(text).is_some()
}

/// `DONE/TOTAL TEXT`, in units that the plugin chooses, or only `TEXT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The amounts done and in total; the total is not 0.
    pub done_of: Option<(u64, u64)>,
    /// A description of the current step.
    pub text: &'a str,
}

impl<'a> Progress<'a> {
    /// Parses a plugin's message. Every text is valid.
    #[must_use]
    pub fn parse(said: &'a str) -> Progress<'a> {
        let (first, rest) = said.split_once(' ').unwrap_or((said, ""));
        let numbers = first.split_once('/').and_then(|(done, total)| Some((done.parse().ok()?, total.parse().ok()?)));
        match numbers {
            Some((done, total)) if total > 0 => Progress { done_of: Some((done, total)), text: rest.trim_start() },
            _ => Progress { done_of: None, text: said },
        }
    }
}

impl fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((done, total)) = self.done_of {
            write!(f, "{done}/{total} ")?;
        }
        f.write_str(self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::WitnessKind;

    #[test]
    fn text_with_line_breaks_is_one_message() {
        for (message, line) in [
            (Message::Changed("removed /a\nnot changed".into()), "changed: removed /a\\nnot changed"),
            (Message::Skipped("x\n== y is false".into()), "skipped: x\\n== y is false"),
        ] {
            assert_eq!(message.to_line(), line);
        }
    }

    #[test]
    fn reads_what_it_writes() {
        for message in [
            Message::NotChanged,
            Message::RequiresForceToOverwrite,
            Message::RequiresForceToRestore,
            Message::RequiresForce("it would remove libc6".into()),
            Message::WouldChange("install nginx".into()),
            Message::Unknown,
            Message::Changed("installed \u{fc}".into()),
            Message::ChangedQuietly("wrote /etc/motd".into()),
            Message::Skipped("no such hardware".into()),
            Message::Deferred("apt is running".into()),
            Message::Send(Sent::new("_Mode2", "a=b ")),
            Message::Send(Sent::new("x", "")),
            Message::Send(Sent::new("x", &b"two\nlines\xff"[..])),
            Message::Send(Sent::new("x", "x".repeat(MAX_SENT))),
            Message::Send(Sent { sensitive: true, ..Sent::new("x", "secret") }),
            Message::Keep("version=1.2-3".into()),
            Message::Replaced("/tmp/holo.1/files/replaced/1 /etc/a b".into()),
            Message::Progress("3/8 unpacking".into()),
            Message::Witness(Witness::new(WitnessKind::File, "/etc/a b")),
            Message::Part("/srv/tree/".into()),
        ] {
            assert_eq!(Message::parse(&message.to_line(), 4), Some(message));
        }
    }

    #[test]
    fn version_3_has_three() {
        for line in [
            "unknown",
            "changed: x",
            "changed quietly: x",
            "would change: x",
            "requires --force: x",
            "skipped: x",
            "deferred: x",
            "send: x",
            "keep: x=1",
            "progress: x",
        ] {
            assert_eq!(Message::parse(line.as_bytes(), 3), None);
        }
        assert_eq!(Message::parse(b"requires --force to restore", 3), Some(Message::RequiresForceToRestore));
    }

    #[test]
    fn values_that_cannot_be_sent_are_malformed() {
        let long = format!("send: a={}", "x".repeat(MAX_SENT));
        for line in [
            "keep: ",
            "keep: a",
            "send: ",
            "send: a",
            "send: =a",
            "send: 1=a",
            "send: a b=c",
            "send: \u{fc}=a",
            "send: a=\0",
            "send json: a=b",
            r#"send json: {"name":"a"}"#,
            r#"send json: {"name":"1","value":"b"}"#,
            r#"send json: {"name":"a","value":"\u0000"}"#,
            &long,
        ] {
            assert_eq!(Message::parse(line.as_bytes(), 4), Some(Message::Malformed(line.into())), "{line}");
        }
    }

    #[test]
    fn anything_else_is_none() {
        for line in ["", "not changed ", "Not changed", "requires --force", "changed", "would change", "\u{fffd}"] {
            assert_eq!(Message::parse(line.as_bytes(), 4), None);
        }
    }
}

#[cfg(test)]
mod progress_tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_text() {
        for (said, done_of, text) in [
            ("3/8 unpacking", Some((3, 8)), "unpacking"),
            ("9/8", Some((9, 8)), ""),
            ("0/1  x", Some((0, 1)), "x"),
            ("unpacking 3/8", None, "unpacking 3/8"),
            ("3/0 x", None, "3/0 x"),
            ("-1/8 x", None, "-1/8 x"),
            ("1/99999999999999999999 x", None, "1/99999999999999999999 x"),
            ("", None, ""),
        ] {
            assert_eq!(Progress::parse(said), Progress { done_of, text }, "{said}");
        }
        let said = "3/8 unpacking";
        assert_eq!(Progress::parse(said).to_string(), said);
    }
}
