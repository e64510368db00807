//! Resource files and generators that no plugin reads.

use super::state::has_files;
use super::{Check, Findings, Scene};
use crate::config::{Configuration, is_leftover};
use crate::generators;
use holo_definitions::did_you_mean;
use std::fs;
use std::path::Path;
use walkdir::WalkDir;

pub(super) const CHECK: Check =
    Check { name: "resources", fine: "every resource directory belongs to a plugin", needs_plugins: false, look };

fn look(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let Ok(configuration) = &scene.configuration else { return };
    let generators = scene.root.generators();
    for root in [scene.root.resources(), scene.root.own_resources()] {
        let mut entries: Vec<_> = fs::read_dir(root).into_iter().flatten().filter_map(Result::ok).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for path in entries.iter().map(fs::DirEntry::path).filter(|path| *path != generators) {
            if is_asked_for(&path, configuration) {
                leftovers(&path, findings);
            } else if has_files(&path) {
                unread(&path, configuration, findings);
            }
        }
    }
    for path in generators::not_executable(&generators) {
        let path = path.display();
        findings.fail(
            format!("{path} is not executable, so every run fails"),
            format!("chmod +x {path}, or move it elsewhere if it is not a generator"),
        );
    }
    leftovers(&generators, findings);
}

fn is_asked_for(path: &Path, configuration: &Configuration) -> bool {
    configuration.plugins.iter().any(|line| path.file_name().is_some_and(|name| name == &*line.id))
}

fn unread(path: &Path, configuration: &Configuration, findings: &mut Findings<'_>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let known = configuration.plugins.iter().map(|line| line.id.as_str());
    let is_link_to_nothing = fs::read_link(path).is_ok_and(|target| target == Path::new("/dev/null"));
    if is_link_to_nothing {
        return;
    }
    let remedy = did_you_mean(&name, known).unwrap_or_else(|| format!("configure it in holorc.d: plugin {name}"));
    findings.warn(format!("{} is not used: plugin {name} is not configured", path.display()), remedy);
}

fn leftovers(directory: &Path, findings: &mut Findings<'_>) {
    for entry in WalkDir::new(directory).sort_by_file_name().into_iter().filter_map(Result::ok) {
        let path = entry.path().display();
        if entry.depth() > 0 && is_leftover(entry.file_name()) {
            findings.warn(format!("{path} has the name of a leftover or a backup"), format!("if it is one: rm {path}"));
        } else if entry.path_is_symlink() && !entry.path().exists() {
            findings.warn(format!("{path} is a dangling symlink"), format!("fix it, or: rm {path}"));
        }
    }
}
