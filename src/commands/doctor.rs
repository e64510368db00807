//! `holo doctor`: finds problems with the machine or its configuration, and suggests remedies. Changes no files.

mod entities;
mod plugins;
mod system;

use super::Context;
use crate::cli::Doctor;
use crate::discovery::discover_what_answers;
use crate::discovery::inventory::{Inventory, Purpose};
use crate::discovery::limited::Interest;
use crate::error::{FatalError, exit};
use crate::host::config::{self, ConfigError, Configuration};
use crate::host::interrupt::Interrupt;
use crate::host::root::Root;
use crate::host::settings::Settings;
use crate::report::Finding;
use crate::report::{Event, Remark, Reporter};
use holo_protocol::Level;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

/// A check of one aspect of the machine.
struct Check {
    /// The word that its findings start with.
    name: &'static str,
    /// The finding if there is no problem.
    fine: &'static str,
    /// Whether the check is meaningless if plugins could not be scanned.
    needs_plugins: bool,
    /// Adds the problems found.
    look: fn(&Scene<'_>, &mut Findings<'_>),
}

/// All checks, in the order in which a user should look at them.
const CHECKS: [Check; 11] = [
    entities::CONFIGURATION,
    plugins::CHECK,
    entities::DEFINITIONS,
    entities::CONFLICTS,
    entities::RESOURCES,
    system::LOCK,
    entities::REFRESHES,
    system::INTERRUPTED,
    system::STATE,
    system::PERMISSIONS,
    system::CLOCK,
];

/// The remedy for files that only root may read.
const HIDDEN: &str = "root may read it: sudo holo doctor";

/// Formats a time for people.
fn shown(time: SystemTime) -> String {
    Timestamp::try_from(time).map_or_else(
        |_| "an invalid time".to_owned(),
        |time| time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string(),
    )
}

/// The findings of a check so far.
struct Findings<'a> {
    check: &'a str,
    found: &'a mut Vec<Finding>,
}

impl Findings<'_> {
    fn warn(&mut self, title: impl AsRef<[u8]>, remedy: impl AsRef<[u8]>) {
        self.add(Level::Warning, title, remedy);
    }

    fn fail(&mut self, title: impl AsRef<[u8]>, remedy: impl AsRef<[u8]>) {
        self.add(Level::Error, title, remedy);
    }

    fn add(&mut self, level: Level, title: impl AsRef<[u8]>, remedy: impl AsRef<[u8]>) {
        let finding = Finding::new(self.check, level, title, remedy);
        // The configuration is read twice, once by itself and once for the scan.
        if self.found.iter().all(|other| other.title() != finding.title()) {
            self.found.push(finding);
        }
    }
}

pub(super) fn run(_: &Doctor, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let mut scene = Scene::take(settings, interrupt)?;
    let findings = examine(&mut scene, interrupt)?;
    for finding in &findings {
        reporter.event(Event::Finding(finding));
    }
    let mut counts: BTreeMap<Level, usize> = BTreeMap::new();
    findings.iter().for_each(|finding| *counts.entry(finding.level()).or_default() += 1);
    reporter.event(Event::Diagnosed(&counts));
    Ok(match counts.keys().next_back() {
        Some(Level::Error) => exit::ERRORS_FOUND,
        Some(Level::Warning) => exit::WARNINGS_FOUND,
        Some(Level::Ok) | None => exit::DONE,
    })
}

/// Returns the findings of all checks, and those of plugins.
pub(super) fn examine(scene: &mut Scene<'_>, interrupt: &Interrupt) -> Result<Vec<Finding>, FatalError> {
    let mut found = Vec::new();
    for Check { name, fine, needs_plugins, look } in &CHECKS {
        let before = found.len();
        look(scene, &mut Findings { check: name, found: &mut found });
        if found.len() == before && (scene.inventory.is_some() || !needs_plugins) {
            found.push(Finding::new(name, Level::Ok, fine, ""));
        }
    }
    plugins::ask(scene, interrupt, &mut found)?;
    Ok(found)
}

/// The state of the machine that the checks examine: the root, its configuration, and the result of discovery.
pub(super) struct Scene<'a> {
    root: &'a Root,
    temporary_directory: &'a Path,
    configuration: Result<Configuration, ConfigError>,
    /// The remarks made during discovery.
    remarks: Vec<Remark<'static>>,
    /// The plugins that answered, and their entities; `None` if discovery failed.
    pub(super) inventory: Option<Inventory>,
}

impl<'a> Scene<'a> {
    /// Reads the configuration, and scans the plugins.
    ///
    /// # Errors
    /// If the run must end.
    pub(super) fn take(settings: &'a Settings, interrupt: &Interrupt) -> Result<Scene<'a>, FatalError> {
        let configuration = config::read(&settings.root);
        let mut heard = Heard::default();
        let inventory = if configuration.is_ok() {
            let everything = Interest::Selectors(&[]);
            // Hints contain the remedies.
            let settings = Settings { gives_hints: true, ..settings.clone() };
            match discover_what_answers(&settings, Purpose::Check, everything, interrupt, &mut heard) {
                Ok(inventory) => Some(inventory),
                Err(fatal @ (FatalError::Interrupted { .. } | FatalError::TimeIsOver { .. })) => return Err(fatal),
                Err(fatal) => {
                    heard.0.extend(fatal.message().map(|message| Remark::error(&message).into_owned()));
                    None
                }
            }
        } else {
            None
        };
        let temporary_directory = &settings.temporary_directory;
        Ok(Scene { root: &settings.root, temporary_directory, configuration, remarks: heard.0, inventory })
    }
}

/// Collects remarks.
#[derive(Default)]
struct Heard(Vec<Remark<'static>>);

impl Reporter for Heard {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Remark(remark) = event {
            self.0.push(remark.into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn check_names_are_unique() {
        let names: BTreeSet<&str> = CHECKS.iter().map(|check| check.name).collect();
        assert_eq!(names.len(), CHECKS.len());
    }
}
