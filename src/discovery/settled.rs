//! Recognizes that there is nothing to do, without finding out which entities there are.
//!
//! An apply that has remembered all entities in their desired state, and had nothing to tell, says so. As long as nothing
//! on which these memories rest has changed, the next one would not have anything to do or to tell either.

use super::manifest::Manifest;
use super::remembered::{Settled, is_usable, program_stamp};
use super::trust::Inspector;
use crate::generations::{Fingerprint, Store};
use crate::host::config;
use crate::host::settings::Settings;
use crate::plugin::handshake;
use crate::report::{Event, RemarkKind, Reporter};
use holo_state::Database;

/// Returns the number of entities if all of them are in their desired state, as found by an earlier apply, and there is
/// nothing to tell. If other applies may run, confirm it with [`still_holds`] while holding the lock.
#[must_use]
pub fn recognize(settings: &Settings, inputs: &Fingerprint) -> Option<usize> {
    if !is_usable(settings) || Store::new(&settings.root).has_unrecorded() {
        return None;
    }
    let stored = Database::read_only(settings.root.state_database()).settled().ok()??;
    let settled = Settled::parse(&stored.value)?;
    let mut silent = Quiet(true);
    let mut inspector = Inspector::new(&settings.root);
    inspector.check_inputs(&mut silent).ok()?;
    let configuration = config::read(&settings.root).ok()?;
    let mut programs = Vec::new();
    for line in &configuration.plugins {
        let program = handshake::locate(line, settings).ok()?;
        inspector.check_program(&program, &mut silent).ok()?;
        programs.push((line.id.as_str(), program_stamp(&program)?));
    }
    let is_same = silent.0
        && configuration.leftovers.is_empty()
        && configuration.missing.is_empty()
        && settled.holds_with(settings, inputs.digest(), programs)
        && stored
            .manifests
            .iter()
            .all(|manifest| postcard::from_bytes::<Manifest>(manifest).is_ok_and(|manifest| manifest.is_unchanged()));
    is_same.then_some(settled.entities)
}

/// Returns false if another apply may have found out or changed something since.
#[must_use]
pub fn still_holds(settings: &Settings) -> bool {
    Database::read_only(settings.root.state_database()).settled_value().is_ok_and(|value| value.is_some())
}

/// Whether there was nothing to tell.
struct Quiet(bool);

impl Reporter for Quiet {
    fn event(&mut self, event: Event<'_>) {
        self.0 &= matches!(event, Event::Remark(remark) if remark.kind == RemarkKind::ParagraphEnd);
    }
}
