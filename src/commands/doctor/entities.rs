//! The checks of the configuration: `holorc` and its snippets, definitions, conflicts between entities, pending
//! refreshes, and resource files.

use super::{Check, Findings, HIDDEN, Scene, shown};
use crate::discovery::generators;
use crate::discovery::misplaced::{self, Misplaced};
use crate::host::config::{ConfigError, is_leftover};
use crate::host::engine::EngineSettings;
use crate::plan::refresh::Refreshes;
use crate::report::{RemarkKind, Severity};
use bstr::ByteSlice;
use holo_protocol::session::Stream;
use holo_state::Database;
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
            "the defaults apply until it is fixed; holo-history(8) lists its keys under Records of runs",
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

pub(super) const RESOURCES: Check =
    Check { name: "resources", fine: "plugins read all resource files", needs_plugins: false, look: check_resources };

fn check_resources(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let Ok(configuration) = &scene.configuration else { return };
    let ids: Vec<&str> = configuration.plugins.iter().map(|line| line.id.as_str()).collect();
    let mut misplaced = misplaced::without_plugin(scene.root, &ids);
    misplaced.extend(scene.inventory.iter().flat_map(|inventory| misplaced::unread(scene.root, inventory)));
    misplaced.into_iter().for_each(|Misplaced { title, remedy }| findings.warn(title, remedy));
    for parent in [scene.root.resources(), scene.root.own_resources()] {
        ids.iter().for_each(|id| leftovers(&parent.join(id), findings));
    }
    let generators = scene.root.generators();
    for path in generators::not_executable(&generators) {
        let path = path.display();
        findings.fail(
            format!("{path} is not executable, so every run fails"),
            format!("chmod +x {path}, or move it elsewhere if it is not a generator"),
        );
    }
    leftovers(&generators, findings);
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
