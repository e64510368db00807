//! State that no configured plugin uses.

use super::{Check, Findings, Scene};
use std::fs;
use std::path::Path;
use walkdir::WalkDir;

pub(super) const CHECK: Check =
    Check { name: "state", fine: "all state belongs to a configured plugin", needs_plugins: false, look };

fn look(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let Ok(configuration) = &scene.configuration else { return };
    for entry in fs::read_dir(scene.root.states()).into_iter().flatten().filter_map(Result::ok) {
        let (name, path) = (entry.file_name(), entry.path());
        // Names that start with a dot belong to the dispatcher.
        let is_own = name.as_encoded_bytes().starts_with(b".");
        let is_asked_for = configuration.plugins.iter().any(|line| name == *line.id);
        if !is_own && !is_asked_for && has_files(&path) {
            let (id, path) = (name.display(), path.display());
            let title = format!("{path} is the state of plugin {id}, which is no longer configured");
            findings.warn(title, format!("configure plugin {id} again to undo its changes, or: rm -r {path}"));
        }
    }
}

/// Returns true if the directory contains anything other than directories.
pub(super) fn has_files(path: &Path) -> bool {
    WalkDir::new(path).into_iter().filter_map(Result::ok).any(|entry| !entry.file_type().is_dir())
}
