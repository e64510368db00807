//! State that no configured plugin uses.

use super::{Check, Findings, Scene};
use std::fs;
use std::path::Path;
use walkdir::WalkDir;

pub(super) const CHECK: Check =
    Check { name: "state", fine: "all that is remembered belongs to a plugin", needs_plugins: false, look };

fn look(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let Ok(configuration) = &scene.configuration else { return };
    for entry in fs::read_dir(scene.root.states()).into_iter().flatten().filter_map(Result::ok) {
        let (name, path) = (entry.file_name(), entry.path());
        // Names that start with a dot belong to the dispatcher.
        let is_own = name.as_encoded_bytes().starts_with(b".");
        let is_asked_for = configuration.plugins.iter().any(|line| name == *line.id);
        if !is_own && !is_asked_for && has_files(&path) {
            let (id, path) = (name.display(), path.display());
            let title = format!("{path} is what plugin {id} remembers, which is not asked for any more");
            findings.warn(
                title,
                format!("ask for plugin {id} again to have it put back what it changed, or: rm -r {path}"),
            );
        }
    }
}

/// Returns true if the directory contains anything other than directories.
pub(super) fn has_files(path: &Path) -> bool {
    WalkDir::new(path).into_iter().filter_map(Result::ok).any(|entry| !entry.file_type().is_dir())
}
