//! The form of a `[[file]]` table, and its valid values.

mod access;

use holo_plugin::definitions::{Command, Definition, Invalid, values};
use serde::Deserialize;
use std::path::{Component, Path};

/// A file, directory or symlink as it is declared.
#[derive(Clone, Debug, Hash, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct FileDefinition {
    /// The absolute path.
    pub(crate) path: String,
    /// The kind of file that is to be there.
    #[serde(default)]
    pub(crate) ensure: Ensure,
    /// The content of the file.
    pub(crate) content: Option<String>,
    /// The file directly in the resource directory that has the content; rendered first if its name ends with `.holotemplate`.
    pub(crate) source: Option<String>,
    /// The target of the symlink.
    pub(crate) target: Option<String>,
    /// The user that owns it, by name or number.
    pub(crate) owner: Option<String>,
    /// The group that owns it, by name or number.
    pub(crate) group: Option<String>,
    /// All twelve bits, as an octal number such as `0640` or `0o640`.
    pub(crate) mode: Option<String>,
    /// Gives owner, group and mode to everything below the directory, too; symlinks are not followed.
    #[serde(default)]
    pub(crate) recurse: bool,
    /// The mode of files below, as an octal number; without it they have that of the directory, and can be executed only if they could
    /// before.
    pub(crate) file_mode: Option<String>,
    /// All entries of the ACL beyond the mode, as `setfacl` takes them, such as `user:alice:rw` or `default:group:staff:rX`.
    pub(crate) acl: Option<Vec<String>>,
    /// The SELinux context, as USER:ROLE:TYPE:RANGE; parts may be empty or left out at the end, and a single word is the type.
    pub(crate) selinux: Option<String>,
    /// Removes a directory with its content.
    #[serde(default)]
    pub(crate) force: bool,
    /// A program that has to find the new file well before it takes the place of the old one; `{}` is the path of the new file.
    pub(crate) validate: Option<Command>,
    /// True if nobody may see the content: there is no difference to be shown, and the file is 0600 unless a mode is given.
    #[serde(default)]
    pub(crate) sensitive: bool,
    /// Writes to the file that is there instead of replacing it: for one that something is mounted on.
    #[serde(default)]
    pub(crate) in_place: bool,
    /// The suffix of the copy that is kept beside the file when its content is replaced.
    pub(crate) backup: Option<String>,
}

/// The kinds of files that can be at a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ensure {
    /// A regular file.
    #[default]
    Present,
    /// Nothing.
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
        validate.chain(access::limited_entries(self)).collect()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        let path = values::target("path", &self.path).map(drop);
        // Nothing will have these values.
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
            access::validate_file_mode(self),
            access::validate_acl(self),
            access::validate_selinux(self),
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
        access::validate(self)
    }
}

impl FileDefinition {
    /// The path, with its leading slash.
    pub(crate) fn path(&self) -> &Path {
        Path::new(&self.path)
    }

    /// Returns true if the content of the file is declared, and not only what it is like.
    pub(crate) fn declares_content(&self) -> bool {
        self.content.is_some() || self.source.is_some()
    }

    /// Returns true if access is declared that is not a part of the state of the path: that of what is below, or beyond owner and mode.
    pub(crate) fn declares_access(&self) -> bool {
        self.ensure != Ensure::Absent && (self.recurse || self.acl.is_some() || self.selinux.is_some())
    }

    /// The mode, if one is given.
    pub(crate) fn mode(&self) -> Result<Option<u32>, Invalid> {
        self.mode.as_deref().map(|text| values::mode("mode", text)).transpose()
    }
}

fn validate_source(source: &str) -> Result<(), Invalid> {
    if is_name(Path::new(source)) {
        return Ok(());
    }
    // In a folder it would be an overlay of something.
    Err(Invalid::new("source", format!("{source:?} is not the name of a file directly in the resource directory")))
}

fn validate_link(target: &str) -> Result<(), Invalid> {
    if target.is_empty() || target.contains('\0') {
        return Err(Invalid::new("target", format!("{target:?} is not a path")));
    }
    Ok(())
}

fn validate_suffix(suffix: &str) -> Result<(), Invalid> {
    if suffix.is_empty() || suffix.contains(['/', '\0']) {
        return Err(Invalid::new("backup", format!("{suffix:?} cannot be the end of a name")));
    }
    Ok(())
}

fn is_name(path: &Path) -> bool {
    let mut parts = path.components();
    matches!(parts.next(), Some(Component::Normal(name)) if name == path.as_os_str()) && parts.next().is_none()
}

#[cfg(test)]
mod tests;
