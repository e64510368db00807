//! The `[[file]]` table with its keys, and the validation of its values.

#[cfg(test)]
mod tests;

use holo_change::acl::{AclEntry, Tag, letters};
use holo_change::claims::Recursive;
use holo_plugin::definitions::{Command, Definition, Invalid, values};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Component, Path};

/// The declaration of a file, directory or symlink.
#[derive(Clone, Debug, Hash, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct FileDefinition {
    /// The absolute path.
    pub(crate) path: String,
    /// The type of the file.
    #[serde(default)]
    pub(crate) ensure: Ensure,
    /// The content of the file.
    pub(crate) content: Option<String>,
    /// The file that contains the content: a name in the resource directory, or a path below `/usr/share/holo` or `/etc/holo/resources`. A name that ends with `.holotemplate` is rendered first.
    pub(crate) source: Option<String>,
    /// The target of the symlink.
    pub(crate) target: Option<String>,
    /// The owner, by name or UID.
    pub(crate) owner: Option<String>,
    /// The group, by name or GID.
    pub(crate) group: Option<String>,
    /// The mode, as an octal number such as `0640` or `0o640` with up to twelve bits.
    pub(crate) mode: Option<String>,
    /// Whether to set owner, group and mode of everything below the directory as well. Symlinks are not followed.
    #[serde(default)]
    pub(crate) recurse: bool,
    /// The mode of files below the directory, as an octal number. By default, they get the mode of the directory, and stay executable only
    /// if they already were.
    pub(crate) file_mode: Option<String>,
    /// All ACL entries in addition to the mode, in the syntax of `setfacl`, such as `user:alice:rw` or `default:group:staff:rX`.
    pub(crate) acl: Option<Vec<String>>,
    /// The SELinux context, as USER:ROLE:TYPE:RANGE. Parts may be empty, or omitted at the end. A single word is the type.
    pub(crate) selinux: Option<String>,
    /// Whether to remove a directory that is not empty.
    #[serde(default)]
    pub(crate) force: bool,
    /// A program that validates the new file before it replaces the old one. `{}` stands for the path of the new file.
    pub(crate) validate: Option<Command>,
    /// Whether the content is secret. It is not shown in diffs, and the default mode is 0600.
    #[serde(default)]
    pub(crate) sensitive: bool,
    /// Whether to write to the existing file instead of replacing it, for mount points.
    #[serde(default)]
    pub(crate) in_place: bool,
    /// The suffix of a backup that is kept when the content is replaced.
    pub(crate) backup: Option<String>,
}

/// The type of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ensure {
    /// A regular file.
    #[default]
    Present,
    /// The path does not exist.
    Absent,
    /// A directory.
    Directory,
    /// A symlink.
    Symlink,
}

impl Definition for FileDefinition {
    const TABLE: &'static str = "file";
    const KEY: &'static str = "path";
    const HAS_FOLDERS: bool = true;
    const SELF_CONTAINED: &'static [&'static str] = &[
        "path",
        "ensure",
        "content",
        "source",
        "target",
        "owner",
        "group",
        "mode",
        "force",
        "validate",
        "sensitive",
        "in_place",
        "backup",
    ];

    fn doubts(&self) -> Vec<Invalid> {
        let validate = self.validate.iter().filter_map(|command| command.doubt("validate"));
        validate.chain(limited_entries(self)).collect()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        let path = values::target("path", &self.path).map(drop);
        // Other values are not used.
        if self.ensure == Ensure::Absent {
            return Invalid::all([path]);
        }
        let account = |key, name: &Option<String>| name.iter().try_for_each(|name| values::account(key, name));
        Invalid::all([
            path,
            self.source.iter().try_for_each(|source| validate_source(source)),
            self.target.iter().try_for_each(|target| validate_link(target)),
            self.backup.iter().try_for_each(|suffix| validate_suffix(suffix)),
            account("owner", &self.owner),
            account("group", &self.group),
            self.mode().map(drop),
            validate_file_mode(self),
            validate_acl(self),
            validate_selinux(self),
        ])
    }

    fn validate(&self) -> Result<(), Invalid> {
        let only = |key: &'static str, given: bool, ensure: Ensure, words: &str| {
            if given && self.ensure != ensure {
                Err(Invalid::new(key, format!("is only for ensure = {words:?}")))
            } else {
                Ok(())
            }
        };
        only("content", self.content.is_some(), Ensure::Present, "present")?;
        only("source", self.source.is_some(), Ensure::Present, "present")?;
        only("validate", self.validate.is_some(), Ensure::Present, "present")?;
        only("backup", self.backup.is_some(), Ensure::Present, "present")?;
        only("sensitive", self.sensitive, Ensure::Present, "present")?;
        only("in_place", self.in_place, Ensure::Present, "present")?;
        only("target", self.target.is_some(), Ensure::Symlink, "symlink")?;
        only("force", self.force, Ensure::Absent, "absent")?;
        only("recurse", self.recurse, Ensure::Directory, "directory")?;
        only("file_mode", self.file_mode.is_some(), Ensure::Directory, "directory")?;
        if self.ensure == Ensure::Absent {
            return Ok(());
        }
        if self.content.is_some() && self.source.is_some() {
            return Err(Invalid::new("source", "cannot be given together with content"));
        }
        if self.ensure == Ensure::Symlink && self.target.is_none() {
            return Err(Invalid::new("target", "is missing; a symlink needs it"));
        }
        if self.ensure == Ensure::Symlink && self.mode.is_some() {
            return Err(Invalid::new("mode", "a symlink has none"));
        }
        validate(self)
    }
}

impl FileDefinition {
    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        Path::new(&self.path)
    }

    /// Returns true if the content is declared, and not only attributes.
    pub(crate) fn declares_content(&self) -> bool {
        self.content.is_some() || self.source.is_some()
    }

    /// Returns true if there is no content, or one that is declared.
    pub(crate) fn is_wholly_declared(&self) -> bool {
        self.ensure != Ensure::Present || self.declares_content()
    }

    /// Returns true if permissions are declared that are not part of the path's state: recursive ones, ACLs or an SELinux context.
    pub(crate) fn declares_access(&self) -> bool {
        self.ensure != Ensure::Absent && (self.recurse || self.acl.is_some() || self.selinux.is_some())
    }

    /// Returns the declared mode.
    ///
    /// # Errors If it is not a valid mode.
    pub(crate) fn mode(&self) -> Result<Option<u32>, Invalid> {
        self.mode.as_deref().map(|text| values::mode("mode", text)).transpose()
    }
}

fn validate_source(source: &str) -> Result<(), Invalid> {
    let (kind, below) = SourceKind::of(Path::new(source));
    let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    let is_valid = match kind {
        SourceKind::Relative => is_name(below),
        // A file in a subdirectory of the plugin would be an overlay.
        SourceKind::Shared | SourceKind::Own => {
            is_plain && (!below.starts_with(PLUGIN) || below.strip_prefix(PLUGIN).is_ok_and(is_name))
        }
    };
    if is_valid && below.file_name().is_some() {
        return Ok(());
    }
    let problem = format!(
        "{source:?} is neither the name of a file directly in the resource directory nor a path in another folder of {SHARED} or {OWN}"
    );
    Err(Invalid::new("source", problem))
}

/// The ID of this plugin, which is the name of its resource directories.
const PLUGIN: &str = "files";
/// The directories of all plugins' resource files: those of packages, and the administrator's own.
pub(super) const SHARED: &str = "/usr/share/holo";
pub(super) const OWN: &str = "/etc/holo/resources";

/// Where a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceKind {
    /// In the resource directories of the plugin.
    Relative,
    /// Below the directory for all plugins, in which the administrator's own file at the same path takes precedence.
    Shared,
    /// Below the administrator's own directory for all plugins.
    Own,
}

impl SourceKind {
    /// Returns where a source is, and its path below that.
    pub(super) fn of(source: &Path) -> (SourceKind, &Path) {
        let below = |directory| source.strip_prefix(directory).ok();
        let shared = below(SHARED).map(|below| (SourceKind::Shared, below));
        let own = || below(OWN).map(|below| (SourceKind::Own, below));
        shared.or_else(own).unwrap_or((SourceKind::Relative, source))
    }
}

fn validate_link(target: &str) -> Result<(), Invalid> {
    if target.is_empty() || target.contains('\0') {
        return Err(Invalid::new("target", format!("{target:?} is not a path")));
    }
    Ok(())
}

fn validate_suffix(suffix: &str) -> Result<(), Invalid> {
    if suffix.is_empty() || suffix.contains(['/', '\0']) {
        return Err(Invalid::new("backup", format!("{suffix:?} is not a valid suffix")));
    }
    Ok(())
}

fn is_name(path: &Path) -> bool {
    let mut parts = path.components();
    matches!(parts.next(), Some(Component::Normal(name)) if name == path.as_os_str()) && parts.next().is_none()
}

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

    /// Returns the permissions of everything below the directory, if they are declared.
    pub(in crate::declared) fn recursive(&self) -> Option<Recursive> {
        let mode = self.mode().ok().flatten();
        self.recurse.then(|| Recursive {
            has_owner: self.owner.is_some(),
            has_group: self.group.is_some(),
            mode,
            file_mode: self.file_mode().or_else(|| mode.map(|mode| mode & 0o666)),
        })
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
fn validate(definition: &FileDefinition) -> Result<(), Invalid> {
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

fn validate_file_mode(definition: &FileDefinition) -> Result<(), Invalid> {
    let Some(text) = &definition.file_mode else { return Ok(()) };
    match values::mode("file_mode", text)? {
        0..=0o777 => Ok(()),
        _ => Err(Invalid::new("file_mode", format!("{text:?} has special bits, which every file below would get"))),
    }
}

fn validate_acl(definition: &FileDefinition) -> Result<(), Invalid> {
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

fn validate_selinux(definition: &FileDefinition) -> Result<(), Invalid> {
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
fn limited_entries(definition: &FileDefinition) -> Option<Invalid> {
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
