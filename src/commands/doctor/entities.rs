//! The checks of the configuration: `holorc` and its snippets, definitions, conflicts between entities, pending
//! refreshes, and resource files.

use super::system::has_files;
use super::{Check, Findings, HIDDEN, Scene, shown};
use crate::discovery::generators;
use crate::host::config::{ConfigError, Configuration, is_leftover};
use crate::host::engine::EngineSettings;
use crate::plan::refresh::Refreshes;
use crate::report::{RemarkKind, Severity};
use bstr::ByteSlice;
use holo_definitions::did_you_mean;
use holo_protocol::session::Stream;
use holo_state::Database;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use walkdir::WalkDir;

pub(super) const CONFIGURATION: Check = Check {
    name: "configuration",
    fine: "holorc and holorc.d are valid",
    needs_plugins: false,
    look: check_configuration,
};

fn check_configuration(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    if let (_, Some(mistake)) = EngineSettings::read(scene.root) {
        findings.warn(
            mistake.to_string(),
            "the defaults apply until it is fixed; holo(8) lists its keys under Records of runs",
        );
    }
    match &scene.configuration {
        Ok(configuration) => {
            for file in &configuration.leftovers {
                findings
                    .warn(configuration.passed_over(file), "remove it, or merge it into the file that it belongs to");
            }
            if configuration.plugins.is_empty() {
                let remedy = "plugins are configured by lines `plugin ID`, usually in files that their packages install in holorc.d";
                findings.warn("no plugin is configured, so no entities are managed", remedy);
            }
        }
        Err(error) => {
            let remedy = match error {
                ConfigError::UnknownCommand(bad) => bad.remedy(),
                ConfigError::ConfiguredTwice(_) => "remove one of the two lines".to_owned(),
                ConfigError::Unreadable(_) => "it must be a readable file; it may be empty".to_owned(),
            };
            findings.fail(error.to_string(), remedy);
        }
    }
}

pub(super) const CONFLICTS: Check =
    Check { name: "conflicts", fine: "no two entities are in conflict", needs_plugins: true, look: check_conflicts };

fn check_conflicts(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let Some(inventory) = &scene.inventory else { return };
    for conflict in inventory.plan.conflicts() {
        findings.fail(conflict.describe(&inventory.entities), conflict.remedy());
    }
}

pub(super) const DEFINITIONS: Check =
    Check { name: "definitions", fine: "all definitions are valid", needs_plugins: true, look: check_definitions };

fn check_definitions(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    for remark in &scene.remarks {
        match remark.kind {
            RemarkKind::Diagnostic(Some(Severity::Error)) => findings.fail(&*remark.text, ""),
            RemarkKind::Diagnostic(Some(Severity::Warning)) => findings.warn(&*remark.text, ""),
            // Plugins of version 3 report in this form.
            RemarkKind::Output(Stream::Stderr) => {
                for line in remark.text.lines() {
                    if let Some(text) = line.strip_prefix(Severity::Error.mark().as_bytes()) {
                        findings.fail(text, "");
                    } else if let Some(text) = line.strip_prefix(Severity::Warning.mark().as_bytes()) {
                        findings.warn(text, "");
                    }
                }
            }
            _ => {}
        }
    }
    if let Some(inventory) = &scene.inventory {
        for dangling in &inventory.dangling {
            findings.warn(dangling.describe(&inventory.entities), "holo scan --short lists all names");
        }
    }
}

pub(super) const REFRESHES: Check =
    Check { name: "refreshes", fine: "no refresh is due", needs_plugins: false, look: check_refreshes };

fn check_refreshes(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let refreshes = match Refreshes::look(&Rc::new(Database::snapshot(scene.root.state_database()))) {
        Ok((refreshes, None)) => refreshes,
        Ok((_, Some(error))) => return findings.warn(error.to_string(), HIDDEN),
        Err(error) => return findings.fail(error.to_string(), "an apply cannot begin without it"),
    };
    for (target, sources) in refreshes.due() {
        let sources = bstr::join(", ", sources);
        let since =
            refreshes.due_since(target).map(|time| format!(" since {}", shown(time.into()))).unwrap_or_default();
        let title = format!("{target} is due for a refresh{since}, because of {}", sources.as_bstr());
        findings.warn(title, format!("holo apply {target}"));
    }
}

pub(super) const RESOURCES: Check = Check {
    name: "resources",
    fine: "every resource directory belongs to a plugin",
    needs_plugins: false,
    look: check_resources,
};

fn check_resources(scene: &Scene<'_>, findings: &mut Findings<'_>) {
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
