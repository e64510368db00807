//! The section `[Install]` of unit files, and the symlinks that enable units.

use super::files::{self, Directories};
use super::words;
use crate::providers::Links;
use crate::unit::UnitName;
use holo_plugin::system::Root;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::{fs, io};

/// The suffixes of directories with symlinks to units.
const DEPENDENCIES: [&str; 3] = [".wants", ".requires", ".upholds"];

/// Returns the units that are enabled and disabled together with a unit, directly or indirectly.
pub(super) fn also(root: &Root, name: &UnitName) -> Vec<UnitName> {
    let name = name.clone();
    files::look(root, &name.scope().clone(), move |root, directories| also_in(root, directories, &name))
        .unwrap_or_default()
}

fn also_in(root: &Root, directories: &Directories, name: &UnitName) -> Vec<UnitName> {
    let mut found = vec![name.clone()];
    let mut index = 0;
    while let Some(text) =
        found.get(index).map(|unit| files::path(root, directories, unit).and_then(|path| root.text(path)))
    {
        index += 1;
        // A text with a specifier is not a valid name.
        for other in
            named(text.as_deref().unwrap_or_default()).into_iter().filter_map(|name| words::complete(name).ok())
        {
            let other = other.in_scope(name.scope().clone());
            if !found.contains(&other) {
                found.push(other);
            }
        }
    }
    found.split_off(1)
}

/// Returns the names in `Also=`.
fn named(text: &str) -> Vec<&str> {
    let mut named = Vec::new();
    let mut is_install = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_install = line == "[Install]";
        } else if let Some((_, value)) = line.split_once('=').filter(|(key, _)| is_install && key.trim() == "Also") {
            named.extend(value.split_whitespace());
        }
    }
    named
}

/// Returns the symlinks that enable a unit, without a symlink that is its own file.
pub(super) fn links(root: &Root, name: &UnitName) -> Links {
    let name = name.clone();
    files::look(root, &name.scope().clone(), move |root, directories| links_in(root, directories, &name))
        .unwrap_or_default()
}

/// Creates and removes symlinks until exactly these exist. Returns true if any were changed.
pub(super) fn relink(root: &Root, name: &UnitName, before: &Links) -> io::Result<bool> {
    let (name, before) = (name.clone(), before.clone());
    let relinked = files::look(root, &name.scope().clone(), move |root, directories| {
        let after = links_in(root, directories, &name);
        for (path, target) in before.iter().filter(|(path, _)| !after.contains_key(*path)) {
            let path = root.shown(path);
            // systemctl removes directories of symlinks that become empty.
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            symlink(target, &path)?;
        }
        for path in after.keys().filter(|path| !before.contains_key(*path)) {
            fs::remove_file(root.shown(path))?;
        }
        Ok(before != after)
    });
    relinked.unwrap_or(Ok(false))
}

fn links_in(root: &Root, directories: &Directories, name: &UnitName) -> Links {
    let link = |path: &Path| root.link(path).ok().flatten().map(|target| (path.to_owned(), target));
    let mut links = Links::new();
    for entry in root.names(directories.own()).unwrap_or_default() {
        let path = directories.own().join(&entry);
        let is_of_others = entry.to_str().is_some_and(|entry| DEPENDENCIES.iter().any(|end| entry.ends_with(end)));
        if is_of_others {
            links.extend(link(&path.join(name.as_str())));
        } else if entry != *name.as_str() {
            let is_alias =
                |(_, target): &(_, std::path::PathBuf)| target.file_name().is_some_and(|file| file == name.as_str());
            links.extend(link(&path).filter(is_alias));
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_section_install_counts() {
        let text = "[Unit]\nAlso=x\n[Install]\nWantedBy=a.target\nAlso=b.socket c\n Also = d.timer\n#Also=e\n[Service]\nAlso=y\n";
        assert_eq!(named(text), ["b.socket", "c", "d.timer"]);
        assert_eq!(named(""), [] as [&str; 0]);
    }
}
