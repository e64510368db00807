//! POSIX access control lists, in the formats of the kernel and of setfacl, which is also used in records.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::str::FromStr;

const VERSION: [u8; 4] = 2_u32.to_le_bytes();
const ENTRY_SIZE: usize = 8;
/// The ID in entries without one.
const NO_ID: u32 = u32::MAX;

/// The subject of an ACL entry, in the order of the kernel. Named subjects have an ID, or a name in user input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tag<I = u32> {
    /// The owner.
    UserObj,
    /// A named user.
    User(I),
    /// The owning group.
    GroupObj,
    /// A named group.
    Group(I),
    /// The maximum permissions of named users and of all groups.
    Mask,
    /// All other users.
    Other,
}

impl<I> Tag<I> {
    /// Returns the tag with a converted ID.
    ///
    /// # Errors
    /// Those of `user` and `group`.
    pub fn try_map<J, E>(
        self,
        user: impl FnOnce(I) -> Result<J, E>,
        group: impl FnOnce(I) -> Result<J, E>,
    ) -> Result<Tag<J>, E> {
        Ok(match self {
            Tag::UserObj => Tag::UserObj,
            Tag::User(id) => Tag::User(user(id)?),
            Tag::GroupObj => Tag::GroupObj,
            Tag::Group(id) => Tag::Group(group(id)?),
            Tag::Mask => Tag::Mask,
            Tag::Other => Tag::Other,
        })
    }
}

/// An ACL: the subjects with their permissions, three bits each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Acl(BTreeMap<Tag, u32>);

impl Acl {
    /// Creates an ACL from entries.
    #[must_use]
    pub fn new(entries: impl IntoIterator<Item = (Tag, u32)>) -> Acl {
        Acl(entries.into_iter().map(|(tag, permissions)| (tag, permissions & 0o7)).collect())
    }

    /// Returns the ACL that is equivalent to a mode.
    #[must_use]
    pub fn of_mode(mode: u32) -> Acl {
        Acl::new([(Tag::UserObj, mode >> 6), (Tag::GroupObj, mode >> 3), (Tag::Other, mode)])
    }

    /// Parses an ACL in the format of the kernel: a version, followed by entries with tag, permissions and ID.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Acl> {
        let (entries, rest) = bytes.strip_prefix(&VERSION)?.as_chunks::<ENTRY_SIZE>();
        let read = |[tag, tag_high, permissions, high, id @ ..]: &[u8; ENTRY_SIZE]| {
            let id = u32::from_le_bytes(*id);
            let tag = match u16::from_le_bytes([*tag, *tag_high]) {
                0x01 => Tag::UserObj,
                0x02 => Tag::User(id),
                0x04 => Tag::GroupObj,
                0x08 => Tag::Group(id),
                0x10 => Tag::Mask,
                0x20 => Tag::Other,
                _ => return None,
            };
            Some((tag, u32::from(u16::from_le_bytes([*permissions, *high])) & 0o7))
        };
        let entries: Option<BTreeMap<Tag, u32>> = entries.iter().map(read).collect();
        entries.filter(|_| rest.is_empty()).map(Acl)
    }

    /// Returns the ACL in the format of the kernel.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_vec();
        for (tag, permissions) in &self.0 {
            let (number, id): (u16, u32) = match tag {
                Tag::UserObj => (0x01, NO_ID),
                Tag::User(id) => (0x02, *id),
                Tag::GroupObj => (0x04, NO_ID),
                Tag::Group(id) => (0x08, *id),
                Tag::Mask => (0x10, NO_ID),
                Tag::Other => (0x20, NO_ID),
            };
            bytes.extend(number.to_le_bytes());
            bytes.extend(u16::try_from(permissions & 0o7).unwrap_or_default().to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    /// Returns true if it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if it is equivalent to a mode.
    #[must_use]
    pub fn is_minimal(&self) -> bool {
        self.0.keys().all(|tag| matches!(tag, Tag::UserObj | Tag::GroupObj | Tag::Other))
    }

    /// Returns the permissions of an entry, if it exists.
    #[must_use]
    pub fn get(&self, tag: Tag) -> Option<u32> {
        self.0.get(&tag).copied()
    }

    /// Returns the entries, in the order of the kernel.
    pub fn entries(&self) -> impl Iterator<Item = (Tag, u32)> {
        self.0.iter().map(|(tag, permissions)| (*tag, *permissions))
    }

    /// Returns true if any entry has the execute permission.
    #[must_use]
    pub fn can_execute(&self) -> bool {
        self.0.values().any(|permissions| permissions & 0o1 != 0)
    }

    /// Returns the union of all permissions that a mask limits: the narrowest mask that does not reduce any of them.
    #[must_use]
    pub fn widest_mask(&self) -> u32 {
        let limited = self.entries().filter(|(tag, _)| matches!(tag, Tag::User(_) | Tag::GroupObj | Tag::Group(_)));
        limited.fold(0, |all, (_, permissions)| all | permissions)
    }

    /// Returns the nine permission bits of the mode of a file with this ACL.
    #[must_use]
    pub fn mode(&self) -> u32 {
        let of = |tag| self.get(tag).unwrap_or_default();
        let group = self.get(Tag::Mask).unwrap_or_else(|| of(Tag::GroupObj));
        of(Tag::UserObj) << 6 | group << 3 | of(Tag::Other)
    }

    /// Returns the ACL with the entries for owner, mask and others taken from a mode.
    #[must_use]
    pub(crate) fn with_mode(mut self, mode: u32) -> Acl {
        let has_mask = self.0.contains_key(&Tag::Mask);
        for (tag, permissions) in &mut self.0 {
            let shift = match tag {
                Tag::UserObj => 6,
                Tag::Mask => 3,
                Tag::GroupObj if !has_mask => 3,
                Tag::Other => 0,
                Tag::User(_) | Tag::GroupObj | Tag::Group(_) => continue,
            };
            *permissions = mode >> shift & 0o7;
        }
        self
    }

    /// Returns the mode for a file that loses this ACL, which must not grant additional permissions to anyone.
    ///
    /// The group class gets the permissions of the owning group. Named users with fewer permissions than group or
    /// others fall under these classes, so the permissions of both are reduced to theirs.
    pub(crate) fn narrowed(&self, mode: u32) -> u32 {
        let mask = mode >> 3 & 0o7;
        let is_user = |tag: &Tag| matches!(tag, Tag::User(_));
        let is_group = |tag: &Tag| matches!(tag, Tag::Group(_));
        let limited = |all: Option<u32>| all.map_or(0o7, |all| all & mask);
        let (users, groups) = (limited(self.granted_by_all(is_user)), limited(self.granted_by_all(is_group)));
        let owning = self.granted_by_all(|tag| *tag == Tag::GroupObj).unwrap_or(0o7);
        let group = owning & mask & users;
        let other = mode & 0o7 & users & groups;
        mode & !0o077 | group << 3 | other
    }

    /// Returns the intersection of the permissions of all matching entries; `None` if there are none.
    fn granted_by_all(&self, is_one: impl Fn(&Tag) -> bool) -> Option<u32> {
        let granted = self.0.iter().filter(|(tag, _)| is_one(tag)).map(|(_, permissions)| *permissions);
        granted.reduce(|all, permissions| all & permissions)
    }
}

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
    fn an_acl_survives_the_kernels_form_and_a_record() {
        let acl = Acl::new([
            (Tag::Other, 0),
            (Tag::User(1001), 0o6),
            (Tag::User(7), 0o4),
            (Tag::Mask, 0o7),
            (Tag::GroupObj, 0o5),
            (Tag::UserObj, 0o7),
        ]);
        assert_eq!(Acl::from_bytes(&acl.to_bytes()), Some(acl.clone()));
        let json = serde_json::to_string(&acl).unwrap();
        assert_eq!(json, r#"["user::rwx","user:7:r--","user:1001:rw-","group::r-x","mask::rwx","other::---"]"#);
        assert_eq!(serde_json::from_str::<Acl>(&json).unwrap(), acl);
        assert_eq!((acl.mode(), acl.widest_mask(), acl.is_minimal()), (0o770, 0o7, false));
        assert_eq!((Acl::of_mode(0o4751).mode(), Acl::of_mode(0o751).is_minimal()), (0o751, true));
        assert_eq!(Acl::from_bytes(b"\x02\0\0\0\x40\0\0\0\0\0\0\0"), None);
    }

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
