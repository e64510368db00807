//! Listings of permissions, for diffs.

use super::super::entity::DeclaredFile;
use super::super::wanted::DeclaredError;
use holo_change::access::Access;
use holo_change::acl::{Acl, Tag, letters};
use holo_plugin::{Entity, FilePair, Host, Preview, Shown};
use std::path::{Path, PathBuf};

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
