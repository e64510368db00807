//! Recognizes that there is nothing to do, without finding out which entities there are.
//!
//! An apply that has remembered all entities in their desired state, and had nothing to tell, says so. As long as nothing
//! on which these memories rest has changed, the next one would not have anything to do or to tell either.

use super::generators;
use super::manifest::{Manifest, digest};
use super::remembered::{context, is_usable, program_stamp, seconds};
use super::trust::Inspector;
use crate::generations::{Fingerprint, Store};
use crate::host::config;
use crate::host::settings::Settings;
use crate::plugin::handshake;
use crate::report::{Event, RemarkKind, Reporter};
use holo_state::Database;
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// What is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Settled {
    /// The digest of what is not in the manifests of the plugins.
    basis: u64,
    /// When it was written, in seconds since the epoch.
    made: u64,
    /// The number of entities.
    entities: usize,
}

impl Settled {
    /// Returns what to store about the entities of these plugins, each with the stamp of its program; `None` if
    /// generators may make other entities each time.
    pub(super) fn new(
        settings: &Settings,
        inputs: u64,
        began: SystemTime,
        programs: Vec<(&str, u64)>,
        entities: usize,
    ) -> Option<Settled> {
        let has_no_generators = generators::find(&settings.root.generators()).is_ok_and(|found| found.is_empty());
        let basis = basis(settings, inputs, programs);
        has_no_generators.then(|| Settled { basis, made: seconds(began), entities })
    }

    /// Returns true if this is stored already.
    pub(super) fn is_in(&self, database: &Database) -> bool {
        let stored = database.settled().ok().flatten().and_then(|stored| Settled::parse(&stored.value));
        stored.is_some_and(|stored| (stored.basis, stored.entities) == (self.basis, self.entities))
    }

    pub(super) fn to_bytes(&self) -> Option<Vec<u8>> {
        postcard::to_stdvec(self).ok()
    }

    fn parse(value: &[u8]) -> Option<Settled> {
        postcard::from_bytes(value).ok()
    }
}

/// Returns the number of entities if all of them are in their desired state, as found by an earlier apply, and there is
/// nothing to tell. If other applies may run, confirm it with [`still_holds`] while holding the lock.
#[must_use]
pub fn recognize(settings: &Settings, inputs: &Fingerprint) -> Option<usize> {
    if !is_usable(settings) || Store::new(&settings.root).has_unrecorded() {
        return None;
    }
    let stored = Database::read_only(settings.root.state_database()).settled().ok()??;
    let settled = Settled::parse(&stored.value).filter(|settled| settled.made <= seconds(SystemTime::now()))?;
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
        && settled.basis == basis(settings, inputs.digest(), programs)
        && stored
            .manifests
            .iter()
            .all(|manifest| postcard::from_bytes::<Manifest>(manifest).is_ok_and(|manifest| manifest.is_unchanged()));
    is_same.then_some(settled.entities)
}

/// Returns false if another apply may have found out or changed something since.
#[must_use]
pub fn still_holds(settings: &Settings) -> bool {
    Database::read_only(settings.root.state_database()).settled().is_ok_and(|stored| stored.is_some())
}

/// Returns the digest of the inputs and of the programs of the plugins, in any order.
fn basis(settings: &Settings, inputs: u64, mut programs: Vec<(&str, u64)>) -> u64 {
    programs.sort_unstable();
    digest(&(context(settings), inputs, programs))
}

/// Whether there was nothing to tell.
struct Quiet(bool);

impl Reporter for Quiet {
    fn event(&mut self, event: Event<'_>) {
        self.0 &= matches!(event, Event::Remark(remark) if remark.kind == RemarkKind::ParagraphEnd);
    }
}
