//! Answers to `adopt`: candidates for resource files, and the outcome for one entity.

use bstr::{BStr, BString, ByteSlice};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The fourth column of a companion.
const COMPANION: &[u8] = b"companion";
/// The fourth column of an entity that is not a candidate, but whose change the user should know about.
const EXCLUDED: &[u8] = b"excluded";

/// A request to create resource files for one entity or file.
#[derive(Clone, Copy, Debug)]
pub struct Adoption<'a> {
    /// The ID of an entity, which need not exist yet, or the path of a file as given by the user.
    pub id: &'a BStr,
    /// An empty directory for the resource files. They are written to their paths relative to a resource directory of
    /// the plugin, with their final modes. An empty file requests the removal of a resource file.
    pub directory: &'a Path,
    /// The file of a previous conflict after the user has resolved all conflicts.
    pub resolved: Option<&'a Path>,
    /// The IDs of the entities that are adopted in the same group, such as the files of the package of a service.
    pub with: &'a [BString],
}

/// An entity on this system that no resource file describes, or that differs from its resource files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The ID that the entity would get.
    pub id: BString,
    /// The reason to adopt it, in a few words.
    pub reason: BString,
    /// The group of related candidates, such as a package.
    pub group: Option<BString>,
    /// Whether it is adopted.
    pub kind: CandidateKind,
}

/// Whether a candidate is adopted by `adopt --all`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CandidateKind {
    /// It is adopted.
    Usual,
    /// It is adopted if its group has another candidate that is not a companion.
    Companion,
    /// It is listed as not adopted. The reason of the candidate explains why.
    Excluded {
        /// A command with which the user can keep it.
        command: Option<BString>,
    },
}

impl Candidate {
    /// Returns a candidate without a group.
    #[must_use]
    pub fn new(id: impl Into<BString>, reason: impl Into<BString>) -> Candidate {
        Candidate { id: id.into(), reason: reason.into(), group: None, kind: CandidateKind::Usual }
    }

    /// Puts the candidate into a group.
    #[must_use]
    pub fn in_group(self, group: impl Into<BString>) -> Candidate {
        Candidate { group: Some(group.into()), ..self }
    }

    /// Makes this a companion: a candidate only if its group has another one.
    #[must_use]
    pub fn as_companion(self) -> Candidate {
        Candidate { kind: CandidateKind::Companion, ..self }
    }

    /// Returns an entity that `adopt --all` lists as not adopted, for this reason.
    #[must_use]
    pub fn excluded(id: impl Into<BString>, reason: impl Into<BString>) -> Candidate {
        Candidate { kind: CandidateKind::Excluded { command: None }, ..Candidate::new(id, reason) }
    }

    /// Adds a command with which the user can keep an excluded entity.
    #[must_use]
    pub fn with_command(self, command: impl Into<BString>) -> Candidate {
        Candidate { kind: CandidateKind::Excluded { command: Some(command.into()) }, ..self }
    }

    /// Parses a line: `ID TAB REASON`, optionally followed by `TAB GROUP`, and that by `TAB companion`, `TAB excluded` or
    /// `TAB excluded TAB COMMAND`. Returns `None` for any other line.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Candidate> {
        let columns: Vec<&[u8]> = line.split_str("\t").collect();
        let (id, reason, group, kind) = match columns[..] {
            [id, reason] => (id, reason, None, CandidateKind::Usual),
            [id, reason, group] => (id, reason, Some(group), CandidateKind::Usual),
            [id, reason, group, COMPANION] => (id, reason, Some(group), CandidateKind::Companion),
            [id, reason, group, EXCLUDED] => (id, reason, Some(group), CandidateKind::Excluded { command: None }),
            [id, reason, group, EXCLUDED, command] => {
                (id, reason, Some(group), CandidateKind::Excluded { command: Some(command.into()) })
            }
            _ => return None,
        };
        let is_sound = [id, reason].iter().all(|column| !column.is_empty()) && !line.contains(&0);
        is_sound.then(|| Candidate {
            id: id.into(),
            reason: reason.into(),
            group: group.filter(|group| !group.is_empty()).map(BString::from),
            kind,
        })
    }

    /// Returns the candidates in a text, one per line. Other lines are skipped.
    pub fn parse_all(text: &[u8]) -> impl Iterator<Item = Candidate> {
        text.split_str("\n").filter_map(Candidate::parse)
    }

    /// Returns the line without its newline. Tabs and newlines in a column become blanks.
    #[must_use]
    pub fn to_line(&self) -> BString {
        let mut columns: Vec<&[u8]> = vec![&self.id, &self.reason];
        let group = self.group.as_ref().map_or(&b""[..], |group| group);
        match &self.kind {
            CandidateKind::Usual if group.is_empty() => {}
            CandidateKind::Usual => columns.push(group),
            CandidateKind::Companion => columns.extend([group, COMPANION]),
            CandidateKind::Excluded { command: None } => columns.extend([group, EXCLUDED]),
            CandidateKind::Excluded { command: Some(command) } => columns.extend([group, EXCLUDED, command]),
        }
        let columns = columns.into_iter();
        let columns = columns.map(|column| column.replace("\t", " ").replace("\n", " "));
        bstr::join("\t", columns).into()
    }
}

/// A message about an entity being adopted, on file descriptor 3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdoptMessage {
    /// The plugin does not know this entity (`unknown`).
    Unknown,
    /// The entity has no manual changes (`not changed`).
    NotChanged,
    /// The path belongs to the entity with this ID, which must be adopted instead (`entity: ID`).
    Entity(BString),
    /// A manual change and the resource files conflict. The file at this path has both, between conflict markers
    /// (`conflict: PATH`).
    Conflict(PathBuf),
}

impl AdoptMessage {
    const ENTITY: &str = "entity: ";
    const CONFLICT: &str = "conflict: ";

    /// Parses a line.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<AdoptMessage> {
        match line {
            b"unknown" => Some(AdoptMessage::Unknown),
            b"not changed" => Some(AdoptMessage::NotChanged),
            _ if line.starts_with(AdoptMessage::ENTITY.as_bytes()) => {
                let id = line.strip_prefix(AdoptMessage::ENTITY.as_bytes()).filter(|id| !id.is_empty())?;
                Some(AdoptMessage::Entity(id.into()))
            }
            _ => {
                let path = line.strip_prefix(AdoptMessage::CONFLICT.as_bytes()).filter(|path| !path.is_empty())?;
                Some(AdoptMessage::Conflict(OsString::from_vec(path.to_owned()).into()))
            }
        }
    }

    /// Returns the line without its newline.
    #[must_use]
    pub fn to_line(&self) -> BString {
        match self {
            AdoptMessage::Unknown => "unknown".into(),
            AdoptMessage::NotChanged => "not changed".into(),
            AdoptMessage::Entity(id) => [AdoptMessage::ENTITY.as_bytes(), id].concat().into(),
            AdoptMessage::Conflict(path) => {
                [AdoptMessage::CONFLICT.as_bytes(), path.as_os_str().as_bytes()].concat().into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_two_or_three_columns() {
        let plain = Candidate::new("package:nginx", "installed by hand");
        let grouped = plain.clone().in_group("web");
        assert_eq!(plain.to_line(), "package:nginx\tinstalled by hand");
        assert_eq!(grouped.to_line(), "package:nginx\tinstalled by hand\tweb");
        let text =
            b"package:nginx\tinstalled by hand\n\nodd\n\tx\ny\t\na\tb\tc\td\npackage:nginx\tinstalled by hand\tweb\n";
        assert_eq!(Candidate::parse_all(text).collect::<Vec<_>>(), [plain.clone(), grouped]);
        assert_eq!(Candidate::parse(b"package:nginx\tinstalled by hand\t"), Some(plain));
        assert_eq!(Candidate::new("a\tb", "c\nd").to_line(), "a b\tc d");
        let companion = Candidate::new("service:nginx", "enabled").in_group("web").as_companion();
        assert_eq!(companion.to_line(), "service:nginx\tenabled\tweb\tcompanion");
        assert_eq!(Candidate::parse(&companion.to_line()), Some(companion));
        let excluded = Candidate::excluded("file:/etc/fstab", "it identifies this machine");
        assert_eq!(excluded.to_line(), "file:/etc/fstab\tit identifies this machine\t\texcluded");
        assert_eq!(Candidate::parse(&excluded.to_line()), Some(excluded.clone()));
        let excluded = excluded.in_group("base").with_command("holo adopt /etc/fstab");
        let line = excluded.to_line();
        assert_eq!(line, "file:/etc/fstab\tit identifies this machine\tbase\texcluded\tholo adopt /etc/fstab");
        assert_eq!(Candidate::parse(&line), Some(excluded));
    }

    #[test]
    fn messages_are_what_they_were() {
        let (entity, conflict) = (AdoptMessage::Entity("x:y".into()), AdoptMessage::Conflict("/tmp/a b".into()));
        for message in [AdoptMessage::Unknown, AdoptMessage::NotChanged, entity, conflict] {
            assert_eq!(AdoptMessage::parse(&message.to_line()), Some(message));
        }
        assert_eq!(AdoptMessage::parse(b"conflict: "), None);
        assert_eq!(AdoptMessage::parse(b"changed: x"), None);
    }
}
