//! The initial root of a scenario.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use bstr::ByteSlice;

use super::{Error, Scenario};
use crate::error::IoError;
use crate::{files, tree};

impl Scenario {
    /// Creates `target/` from the source tree, and the directories that holo requires.
    pub(super) fn make_target(&self) -> Result<(), Error> {
        let path = self.dir.join("source-tree");
        let text = fs::read(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Error::NoSourceTree { dir: self.dir.clone() },
            _ => IoError::new("read", &path, error).into(),
        })?;
        let tree = tree::parse(&text).map_err(|reason| Error::SourceTree { dir: self.dir.clone(), reason })?;
        let target = self.target();
        files::make_dir(&target)?;
        tree::materialise(&tree, &target)?;

        let usual =
            ["run", "tmp", "usr/share/holo/generators", "var/lib/holo/files/base", "var/lib/holo/files/provisioned"];
        let resources = configured_plugins(&target).into_iter().map(|id| format!("usr/share/holo/{id}"));
        for relative in usual.into_iter().map(str::to_owned).chain(resources) {
            // If the source tree has an obstacle here, that is what the scenario tests.
            if !is_obstructed(&target, Path::new(&relative)) {
                files::make_dirs(&target, Path::new(&relative))?;
            }
        }
        Ok(())
    }
}

/// Returns the IDs of the plugins in a root's configuration. Missing or invalid configuration is ignored, as the
/// scenario may test holo's error.
fn configured_plugins(root: &Path) -> Vec<String> {
    let mut paths = vec![root.join("etc/holorc")];
    if let Ok(entries) = fs::read_dir(root.join("etc/holorc.d")) {
        paths.extend(entries.flatten().map(|entry| entry.path()));
    }
    let mut ids = Vec::new();
    for path in paths {
        // Reading anything other than a regular file could block.
        if !path.is_file() {
            continue;
        }
        let text = fs::read(path).unwrap_or_default();
        ids.extend(text.to_str_lossy().lines().filter_map(configured_plugin));
    }
    ids
}

/// Returns the ID in a line `plugin ID` or `plugin ID=PATH`.
fn configured_plugin(line: &str) -> Option<String> {
    let plugin = line.trim().strip_prefix("plugin ")?;
    let id = plugin.split('=').next()?.trim();
    let is_plain = !id.is_empty() && !id.starts_with('.') && !id.contains(['/', '\0']);
    is_plain.then(|| id.to_owned())
}

/// Returns true if a component of `root/relative` exists, but is not a directory.
fn is_obstructed(root: &Path, relative: &Path) -> bool {
    let mut path = root.to_owned();
    relative.components().any(|component| {
        path.push(component);
        fs::symlink_metadata(&path).is_ok_and(|found| !found.is_dir())
    })
}
