//! `holo doctor`: finds problems with the machine or its configuration, and suggests remedies. Changes no files.

mod clock;
mod configuration;
mod conflicts;
mod definitions;
mod interrupted;
mod lock;
mod permissions;
mod plugins;
mod plugins_own;
mod refreshes;
mod resources;
mod scene;
mod state;

use super::Context;
use crate::cli::Doctor;
use crate::error::FatalError;
use crate::exit;
use crate::finding::Finding;
use crate::interrupt::Interrupt;
use crate::report::Event;
use holo_protocol::Level;
use jiff::Timestamp;
use jiff::tz::TimeZone;
pub(super) use scene::Scene;
use std::collections::BTreeMap;
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
    configuration::CHECK,
    plugins::CHECK,
    definitions::CHECK,
    conflicts::CHECK,
    resources::CHECK,
    lock::CHECK,
    refreshes::CHECK,
    interrupted::CHECK,
    state::CHECK,
    permissions::CHECK,
    clock::CHECK,
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
    plugins_own::ask(scene, interrupt, &mut found)?;
    Ok(found)
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
