//! The desired permissions of a path, computed from its definition and its current permissions, and listings of both, for diffs.

#[cfg(test)]
mod tests;

use super::super::definition::FileDefinition;
use super::super::wanted::DeclaredError;
use crate::declared::entity::DeclaredFile;
use holo_change::access::Access;
use holo_change::acl::{Acl, AclEntry, Tag, letters};
use holo_change::{FileStat, Kind};
use holo_plugin::{Entity, FilePair, Host, Preview, Shown};
use std::path::{Path, PathBuf};

/// The default SELinux context.
const USUAL_CONTEXT: [&str; 4] = ["system_u", "object_r", "unlabeled_t", "s0"];

/// Returns the declared permissions of an entity's path, except for owner and mode.
pub(super) fn own(
    definition: &FileDefinition,
    current: &Access,
    stat: &FileStat,
    host: &Host,
) -> Result<Access, DeclaredError> {
    let mut wanted = Access::default();
    if let Some(entries) = definition.acl_entries() {
        let accounts = host.accounts();
        let mut resolved = (Vec::new(), Vec::new());
        for AclEntry { is_default, tag, permissions, executes_if_others } in entries {
            let tag = tag.try_map(|name| accounts.user(&name), |name| accounts.group(&name))?;
            let of_kind = if is_default { &mut resolved.1 } else { &mut resolved.0 };
            of_kind.push((tag, permissions, executes_if_others));
        }
        let is_directory = stat.kind == Kind::Directory;
        let current = current.acl.clone().unwrap_or_else(|| Acl::of_mode(stat.mode));
        let acl = access_acl(&resolved.0, definition.fixed_mode(), &current, is_directory);
        wanted.default_acl = is_directory.then(|| default_acl(&resolved.1, &acl));
        // If both are minimal, they equal the mode, which is part of the path's state.
        wanted.acl = Some(acl).filter(|acl| !acl.is_minimal() || !current.is_minimal());
    }
    if let Some(parts) = definition.context() {
        wanted.selinux = Some(complete(&parts, current.selinux.as_deref().unwrap_or_default()));
    }
    Ok(wanted)
}

/// An entry: its tag, its permissions, and whether they include `X`.
type Entry = (Tag, u32, bool);

/// Returns the ACL that setfacl would create. A declared mode determines the entries of the owner, the mask and others.
fn access_acl(entries: &[Entry], mode: Option<u32>, current: &Acl, is_directory: bool) -> Acl {
    let executes = is_directory || mode.map_or_else(|| current.can_execute(), |mode| mode & 0o111 != 0);
    let basis = mode.map_or_else(|| current.clone(), Acl::of_mode);
    let kept = basis.entries().filter(|(tag, _)| matches!(tag, Tag::UserObj | Tag::GroupObj | Tag::Other));
    let given =
        entries.iter().map(|(tag, permissions, executes_if)| (*tag, with_x(*permissions, *executes_if, executes)));
    let acl = Acl::new(kept.chain(given));
    let group = mode.map(|mode| mode >> 3 & 0o7);
    let needs_mask = !acl.is_minimal() || (group.is_some() && acl.get(Tag::GroupObj) != group);
    with_mask(acl, needs_mask, group)
}

/// Returns the default ACL of a directory. Missing entries of owner, group and others are copied from its access ACL.
fn default_acl(entries: &[Entry], own: &Acl) -> Acl {
    if entries.is_empty() {
        return Acl::default();
    }
    let kept = own.entries().filter(|(tag, _)| matches!(tag, Tag::UserObj | Tag::GroupObj | Tag::Other));
    let given = entries.iter().map(|(tag, permissions, executes_if)| (*tag, with_x(*permissions, *executes_if, true)));
    let acl = Acl::new(kept.chain(given));
    let needs_mask = !acl.is_minimal();
    with_mask(acl, needs_mask, None)
}

fn with_x(permissions: u32, executes_if: bool, executes: bool) -> u32 {
    permissions | u32::from(executes_if && executes)
}

/// Adds a mask to an ACL that needs one and has none. The default is the widest mask.
fn with_mask(acl: Acl, needs_mask: bool, mask: Option<u32>) -> Acl {
    if !needs_mask || acl.get(Tag::Mask).is_some() {
        return acl;
    }
    let mask = mask.unwrap_or_else(|| acl.widest_mask());
    Acl::new(acl.entries().chain([(Tag::Mask, mask)]))
}

/// Fills the undeclared parts of a context from the current one.
fn complete(parts: &[Option<&str>; 4], current: &str) -> String {
    let mut found = current.splitn(parts.len(), ':');
    let completed = parts.iter().zip(USUAL_CONTEXT).map(|(part, usual)| {
        let found = found.next().filter(|found| !found.is_empty());
        part.or(found).unwrap_or(usual)
    });
    completed.collect::<Vec<_>>().join(":")
}

/// Returns the desired permissions of a path below a recursive declaration.
pub(super) fn below(
    definition: &FileDefinition,
    owners: (Option<u32>, Option<u32>),
    mode: Option<u32>,
    stat: &FileStat,
) -> Access {
    let mode = match stat.kind {
        Kind::Directory => mode,
        Kind::File => definition.file_mode().or_else(|| mode.map(|mode| of_file(mode, stat.mode))),
        Kind::Symlink | Kind::Other => None,
    };
    Access { uid: owners.0, gid: owners.1, mode, ..Access::default() }
}

/// Returns the mode of a file from the mode of directories. It is executable only if it already was.
fn of_file(mode: u32, current: u32) -> u32 {
    if current & 0o111 == 0 { mode & 0o666 } else { mode & 0o777 }
}

/// Returns two listings of paths with different permissions, or `None` if there are none.
pub(super) fn pair(
    entity: &DeclaredFile,
    paths: &[(PathBuf, Access, Access)],
    host: &Host,
    word: &str,
) -> Result<Option<FilePair>, DeclaredError> {
    let differing: Vec<_> = paths.iter().filter(|(_, from, to)| from != to).collect();
    if differing.is_empty() {
        return Ok(None);
    }
    let names = Names::read(host);
    let list = |side: fn(&(PathBuf, Access, Access)) -> &Access| {
        let mut text = String::new();
        differing.iter().for_each(|path| names.list(&path.0, side(path), &mut text));
        Shown::File { content: text.into_bytes(), mode: 0o644 }
    };
    let (below, preview) = (Path::new("access"), Preview::new(host, entity.id().as_bytes())?);
    list(|(_, from, _)| from).write(&preview.from(below))?;
    list(|(_, _, to)| to).write(&preview.to(below))?;
    let shown = format!("access to {}", host.below_root(&entity.path).display());
    let pair = FilePair::new(preview.from(below), preview.to(below)).with_to_label(shown.as_bytes());
    Ok(Some(match word {
        "" => pair.with_from_label(shown.as_bytes()),
        _ => pair.with_applied_label(entity.report().id),
    }))
}

/// The names of users and groups.
struct Names {
    users: Vec<(u32, String)>,
    groups: Vec<(u32, String)>,
}

impl Names {
    fn read(host: &Host) -> Names {
        let of = |file: &str| {
            let text = holo_plugin::system::Root::new(host.root()).text(file).unwrap_or_default();
            let names = text.lines().filter_map(|line| {
                let mut fields = line.split(':');
                let name = fields.next()?.to_owned();
                Some((fields.nth(1)?.parse().ok()?, name))
            });
            names.collect()
        };
        Names { users: of("etc/passwd"), groups: of("etc/group") }
    }

    /// Appends a line for each permission of a path.
    fn list(&self, path: &Path, access: &Access, text: &mut String) {
        let path = path.display();
        let mut line = |words: String| text.push_str(&format!("{path}: {words}\n"));
        if let Some(mode) = access.mode {
            line(format!("mode {mode:04o}"));
        }
        if let Some(uid) = access.uid {
            line(format!("owner {}", name(&self.users, uid)));
        }
        if let Some(gid) = access.gid {
            line(format!("group {}", name(&self.groups, gid)));
        }
        for (default, acl) in [("", &access.acl), ("default:", &access.default_acl)] {
            for entry in acl.iter().flat_map(|acl| self.entries(acl)) {
                line(format!("acl {default}{entry}"));
            }
        }
        match access.selinux.as_deref() {
            None => {}
            Some("") => line("no SELinux context".to_owned()),
            Some(context) => line(format!("selinux {context}")),
        }
    }

    fn entries(&self, acl: &Acl) -> Vec<String> {
        let shown = |(tag, permissions): (Tag, u32)| {
            let tag = match tag {
                Tag::User(uid) => format!("user:{}", name(&self.users, uid)),
                Tag::Group(gid) => format!("group:{}", name(&self.groups, gid)),
                tag => tag.to_string(),
            };
            format!("{tag}:{}", letters(permissions))
        };
        acl.entries().map(shown).collect()
    }
}

fn name(names: &[(u32, String)], number: u32) -> String {
    names.iter().find(|(known, _)| *known == number).map_or_else(|| number.to_string(), |(_, name)| name.clone())
}
