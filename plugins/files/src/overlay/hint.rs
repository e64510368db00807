//! Hints for missing targets, which are usually caused by misplaced resource files.

use crate::overlay::entity::{FileEntity, Resource};
use holo_plugin::Output;
use std::path::{Component, Path};

/// Suffixes of files that editors and package managers leave behind.
const LEFTOVERS: [&str; 12] = [
    "~",
    ".bak",
    ".dpkg-dist",
    ".dpkg-new",
    ".dpkg-old",
    ".orig",
    ".pacnew",
    ".pacsave",
    ".rpmnew",
    ".rpmsave",
    ".save",
    ".swp",
];
/// Directories of a root that contain targets. None of them is a likely disambiguator.
pub(crate) const DIRECTORIES: [&str; 12] =
    ["boot", "efi", "etc", "home", "lib", "lib64", "opt", "root", "run", "srv", "usr", "var"];

/// Prints a hint about an entity whose target is missing. In addition to this, version 3 only reports that it cannot be managed.
pub(crate) fn missing_target(entity: &FileEntity, output: &mut Output<'_>) {
    if !entity.gives_hints() {
        return;
    }
    let target = entity.shown_target();
    let target = target.display();
    let hint = entity.resources.last().and_then(|resource| {
        let shown = entity.shown_resource(resource);
        is_leftover(&resource.path)
            .then(|| format!("{} looks like a backup: remove it", shown.display()))
            .or_else(|| misplaced(entity, resource))
    });
    output.warning(hint.unwrap_or_else(|| {
        format!("{target} does not exist: install its package first, or replace this file with a [[file]] definition")
    }));
}

fn is_leftover(resource: &Path) -> bool {
    let name = resource.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    LEFTOVERS.iter().any(|ending| name.ends_with(ending)) || (name.starts_with('#') && name.ends_with('#'))
}

fn misplaced(entity: &FileEntity, resource: &Resource) -> Option<String> {
    let Some(Component::Normal(disambiguator)) = resource.path.components().next() else { return None };
    let disambiguator = disambiguator.to_str().filter(|name| DIRECTORIES.contains(name))?;
    let directory = entity.resource_directory(resource);
    let directory = directory.display();
    let meant = entity.shown_from_root(&Path::new("/").join(disambiguator).join(entity.path.strip_prefix("/").ok()?));
    Some(format!(
        "{directory}/{disambiguator}/… is for what is below {}: for {}, put the file below {directory}/NAME/{disambiguator}, with a NAME of \
         your choice",
        entity.shown_from_root(Path::new("/")).display(),
        meant.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_recognized_by_name() {
        for name in ["10-x/etc/motd~", "10-x/etc/#motd#", "10-x/etc/.motd.swp", "10-x/etc/motd.dpkg-old"] {
            assert!(is_leftover(Path::new(name)), "{name}");
        }
        for name in ["10-x/etc/motd", "10-x/etc/#motd", "10-x/etc~/motd"] {
            assert!(!is_leftover(Path::new(name)), "{name}");
        }
    }
}
