//! ACLs in the text format of setfacl, which is also used in records.

use super::{Acl, Tag};
use std::fmt::{self, Display};
use std::str::FromStr;

/// An ACL entry in the format of `setfacl`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AclEntry {
    /// True for an entry of the default ACL.
    pub is_default: bool,
    /// The subject, by name or ID.
    pub tag: Tag<String>,
    /// The permissions, three bits.
    pub permissions: u32,
    /// True for the letter `X`: execute permission for directories, and for files that any user may execute.
    pub executes_if_others: bool,
}

/// The error for an invalid ACL entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AclError {
    /// The format is invalid.
    #[error("{0:?} is not an entry of an ACL, such as \"user:alice:rw\" or \"default:group:staff:rx\"")]
    Form(String),
    /// The permissions are invalid.
    #[error("{0:?} does not end with permissions, such as \"rw\", \"rwX\" or \"5\"")]
    Permissions(String),
}

impl FromStr for AclEntry {
    type Err = AclError;

    fn from_str(text: &str) -> Result<AclEntry, AclError> {
        let form = || AclError::Form(text.to_owned());
        let mut parts: Vec<&str> = text.split(':').map(str::trim).collect();
        let is_default = matches!(parts.first(), Some(&("default" | "d")));
        if is_default {
            parts.remove(0);
        }
        let (kind, name, permissions) = match *parts {
            [kind @ ("mask" | "m" | "other" | "o"), permissions] => (kind, "", permissions),
            [kind, name, permissions] => (kind, name, permissions),
            _ => return Err(form()),
        };
        let tag = match (kind, name) {
            ("user" | "u", "") => Tag::UserObj,
            ("user" | "u", name) => Tag::User(name.to_owned()),
            ("group" | "g", "") => Tag::GroupObj,
            ("group" | "g", name) => Tag::Group(name.to_owned()),
            ("mask" | "m", "") => Tag::Mask,
            ("other" | "o", "") => Tag::Other,
            _ => return Err(form()),
        };
        let (permissions, executes_if_others) =
            read_permissions(permissions).ok_or_else(|| AclError::Permissions(text.to_owned()))?;
        Ok(AclEntry { is_default, tag, permissions, executes_if_others })
    }
}

fn read_permissions(text: &str) -> Option<(u32, bool)> {
    if let [digit @ b'0'..=b'7'] = text.as_bytes() {
        return Some((u32::from(digit - b'0'), false));
    }
    let mut permissions = (0, false);
    for letter in text.chars() {
        match letter {
            'r' => permissions.0 |= 0o4,
            'w' => permissions.0 |= 0o2,
            'x' => permissions.0 |= 0o1,
            'X' => permissions.1 = true,
            '-' => {}
            _ => return None,
        }
    }
    (!text.is_empty()).then_some(permissions)
}

/// Formats permissions as letters.
#[must_use]
pub fn letters(permissions: u32) -> String {
    let letter = |bit: u32, letter: char| if permissions & bit == 0 { '-' } else { letter };
    [letter(0o4, 'r'), letter(0o2, 'w'), letter(0o1, 'x')].iter().collect()
}

impl<I: Display> Display for Tag<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tag::UserObj => f.write_str("user:"),
            Tag::User(id) => write!(f, "user:{id}"),
            Tag::GroupObj => f.write_str("group:"),
            Tag::Group(id) => write!(f, "group:{id}"),
            Tag::Mask => f.write_str("mask:"),
            Tag::Other => f.write_str("other:"),
        }
    }
}

impl From<Acl> for Vec<String> {
    fn from(acl: Acl) -> Self {
        acl.entries().map(|(tag, permissions)| format!("{tag}:{}", letters(permissions))).collect()
    }
}

impl TryFrom<Vec<String>> for Acl {
    type Error = AclError;

    fn try_from(texts: Vec<String>) -> Result<Acl, AclError> {
        let entry = |text: String| {
            let number = |id: String| id.parse().map_err(|_| AclError::Form(text.clone()));
            let AclEntry { tag, permissions, .. } = text.parse()?;
            Ok((tag.try_map(number, number)?, permissions))
        };
        texts.into_iter().map(entry).collect::<Result<_, _>>().map(Acl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_setfacl_reads_them() {
        let read = |text: &str| {
            let entry: AclEntry = text.parse().unwrap();
            let default = if entry.is_default { "default:" } else { "" };
            let execute = if entry.executes_if_others { "X" } else { "" };
            format!("{default}{}:{}{execute}", entry.tag, letters(entry.permissions))
        };
        for (text, expected) in [
            ("user:alice:rw", "user:alice:rw-"),
            ("u:1000:r-x", "user:1000:r-x"),
            ("u::rwx", "user::rwx"),
            ("group:staff:rwX", "group:staff:rw-X"),
            ("g::5", "group::r-x"),
            ("d:g:staff:r", "default:group:staff:r--"),
            ("default:other::-", "default:other::---"),
            ("m:rw", "mask::rw-"),
            ("other:r", "other::r--"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        for text in [
            "",
            "user",
            "alice:rw",
            "user:alice",
            "user:alice:8",
            "user:alice:rq",
            "mask:a:r",
            "u:a:",
            "x:a:r",
            "u:a:r:w",
        ] {
            assert!(text.parse::<AclEntry>().is_err(), "{text}");
        }
    }
}
