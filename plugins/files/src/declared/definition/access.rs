//! The keys for ACLs, SELinux contexts, and permissions below a directory.

use super::{Ensure, FileDefinition};
use holo_change::acl::{AclEntry, Tag, letters};
use holo_plugin::definitions::{Invalid, values};
use std::collections::BTreeSet;

/// The number of parts of an SELinux context.
const PARTS: usize = 4;

/// An SELinux context as user, role, type and range. Parts that are not declared are `None`.
pub(in crate::declared) type Context<'a> = [Option<&'a str>; PARTS];

impl FileDefinition {
    /// Returns the declared ACL entries. Invalid entries have already been rejected.
    pub(in crate::declared) fn acl_entries(&self) -> Option<Vec<AclEntry>> {
        Some(self.acl.as_ref()?.iter().filter_map(|entry| entry.parse().ok()).collect())
    }

    /// Returns the parts of the declared SELinux context.
    pub(in crate::declared) fn context(&self) -> Option<Context<'_>> {
        let text = self.selinux.as_deref()?;
        if !text.contains(':') {
            return Some([None, None, Some(text), None]);
        }
        // A range may contain colons.
        let mut parts = text.splitn(PARTS, ':').map(|part| (!part.is_empty()).then_some(part));
        Some([(); PARTS].map(|()| parts.next().flatten()))
    }

    /// Returns the declared mode of files below the directory.
    pub(in crate::declared) fn file_mode(&self) -> Option<u32> {
        values::mode("file_mode", self.file_mode.as_deref()?).ok()
    }

    /// Returns the mode of the path, if it does not depend on the current mode.
    pub(in crate::declared) fn fixed_mode(&self) -> Option<u32> {
        let sensitive = self.sensitive.then_some(0o600);
        self.mode().ok().flatten().or(sensitive)
    }
}

/// Validates combinations of keys.
pub(super) fn validate(definition: &FileDefinition) -> Result<(), Invalid> {
    let is_symlink = definition.ensure == Ensure::Symlink;
    for (key, is_given) in [("acl", definition.acl.is_some()), ("selinux", definition.selinux.is_some())] {
        if is_given && is_symlink {
            return Err(Invalid::new(key, "is not for a symlink; it belongs to the file that the symlink leads to"));
        }
    }
    if definition.file_mode.is_some() && !definition.recurse {
        return Err(Invalid::new("file_mode", "is only for recurse = true"));
    }
    let has_some = [&definition.owner, &definition.group, &definition.mode, &definition.file_mode];
    if definition.recurse && has_some.iter().all(|value| value.is_none()) {
        return Err(Invalid::new("recurse", "requires owner, group, mode or file_mode"));
    }
    Ok(())
}

pub(super) fn validate_file_mode(definition: &FileDefinition) -> Result<(), Invalid> {
    let Some(text) = &definition.file_mode else { return Ok(()) };
    match values::mode("file_mode", text)? {
        0..=0o777 => Ok(()),
        _ => Err(Invalid::new("file_mode", format!("{text:?} has special bits, which every file below would get"))),
    }
}

pub(super) fn validate_acl(definition: &FileDefinition) -> Result<(), Invalid> {
    let mut seen = BTreeSet::new();
    for text in definition.acl.iter().flatten() {
        let wrong = |problem: &str| Err(Invalid::new("acl", format!("{text:?} {problem}")));
        let entry: AclEntry = text.parse().map_err(|error| Invalid::new("acl", format!("{error}")))?;
        if let Tag::User(name) | Tag::Group(name) = &entry.tag {
            values::account("acl", name)?;
        }
        if !seen.insert((entry.is_default, entry.tag.clone())) {
            return wrong("is there twice");
        }
        if entry.is_default && definition.ensure != Ensure::Directory {
            return wrong("is only for ensure = \"directory\": files have no default ACL");
        }
        let is_of_mode = !entry.is_default && matches!(entry.tag, Tag::UserObj | Tag::Mask | Tag::Other);
        if is_of_mode && definition.fixed_mode().is_some() {
            return wrong("is what mode says already");
        }
    }
    Ok(())
}

pub(super) fn validate_selinux(definition: &FileDefinition) -> Result<(), Invalid> {
    let Some(text) = &definition.selinux else { return Ok(()) };
    let parts = definition.context().unwrap_or_default();
    let is_odd = |letter: char| letter.is_whitespace() || letter.is_control();
    if text.contains(is_odd) || parts.iter().all(Option::is_none) {
        let problem = "is not a SELinux context, such as \"system_u:object_r:etc_t:s0\" or \"etc_t\"";
        return Err(Invalid::new("selinux", format!("{text:?} {problem}")));
    }
    Ok(())
}

/// Returns the first ACL entry that the mode restricts, because its group bits are the mask.
pub(super) fn limited_entries(definition: &FileDefinition) -> Option<Invalid> {
    let mask = definition.fixed_mode()? >> 3 & 0o7;
    let limits = |entry: &AclEntry| {
        let is_limited = matches!(entry.tag, Tag::User(_) | Tag::Group(_) | Tag::GroupObj);
        is_limited && !entry.is_default && entry.permissions & !mask != 0
    };
    let entry = definition.acl_entries()?.into_iter().find(limits)?;
    let (given, left) = (letters(entry.permissions), letters(entry.permissions & mask));
    Some(Invalid::new(
        "acl",
        format!("the mode limits {}:{given} to {left}, as its bits for the group are the mask", entry.tag),
    ))
}
