//! Discovery from one consistent view of the inputs: it is repeated if the inputs change meanwhile.

use super::use_pinned;
use crate::discovery::inventory::{Inventory, Purpose};
use crate::discovery::{discover, settled};
use crate::error::FatalError;
use crate::generations::{Extent, Fingerprint, Pin};
use crate::host::interrupt::Interrupt;
use crate::host::settings::Settings;
use crate::plan::select::Selected;
use crate::report::{Remarks, Reporter, Silence};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of times that the inputs are read because they have changed.
const ATTEMPTS: u32 = 3;
/// How long changed inputs must stay the same before they are read again.
const QUIET: Duration = Duration::from_millis(100);
/// Maximum number of times that this period is waited for before each attempt.
const WAITS: u32 = 20;

/// The inputs of a run, and the discoveries from them.
///
/// [`discover`](Self::discover) is repeated until [`is_consistent`](Self::is_consistent) returns true.
pub(super) struct Inputs<'a> {
    /// The settings of the run, with the inputs currently in use.
    pub(super) settings: Settings,
    selectors: &'a [OsString],
    /// The inputs before the last discovery.
    pub(super) fingerprint: Fingerprint,
    extent: Extent,
    /// Whether plugins need not be asked again for what earlier applies have found out.
    remembers: bool,
    attempts: u32,
    /// Whether the next discovery repeats one whose remarks have been reported.
    repeats: bool,
}

/// A change of the inputs.
#[derive(Debug)]
enum Change {
    /// Another generation came into use.
    Rollback,
    /// This file or directory was replaced or changed.
    Path(PathBuf),
}

/// The inputs changed during every attempt to read them.
#[derive(Debug, thiserror::Error)]
#[error("the inputs keep changing while they are read: {0}; run holo again when they no longer change")]
struct InputsKeepChangingError(Change);

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Rollback => f.write_str("`holo rollback` has switched to others"),
            Change::Path(path) => write!(f, "{} has changed", path.display()),
        }
    }
}

/// Returns the fingerprint of the inputs for a command that only reads, so that it need not ask plugins for what earlier
/// applies have found out. `None` if it concerns only some entities, or there was no apply.
pub(super) fn of_all(settings: &Settings, selectors: &[OsString]) -> Option<Fingerprint> {
    let is_useful = selectors.is_empty() && settings.root.state_database().exists();
    is_useful.then(|| Fingerprint::take(&settings.root, Extent::All))
}

impl<'a> Inputs<'a> {
    /// Takes a fingerprint of the current inputs.
    ///
    /// A run with selectors does not examine all overlays unless it would scrub an entity.
    pub(super) fn new(settings: &Settings, selectors: &'a [OsString]) -> Inputs<'a> {
        let extent = if selectors.is_empty() { Extent::All } else { Extent::Definitions };
        let fingerprint = Fingerprint::take(&settings.root, extent);
        let settings = settings.clone();
        Inputs { settings, selectors, fingerprint, extent, remembers: false, attempts: 1, repeats: false }
    }

    /// Does not ask plugins again for what earlier applies have found out, if all entities are selected.
    pub(super) fn with_memory(self) -> Inputs<'a> {
        Inputs { remembers: self.selectors.is_empty(), ..self }
    }

    /// Returns the number of entities if all of them are known to be in their desired state.
    pub(super) fn settled(&self) -> Option<usize> {
        self.remembers.then(|| settled::recognize(&self.settings, &self.fingerprint)).flatten()
    }

    /// Returns the entities that the inputs define.
    ///
    /// # Errors
    /// Like [`discover`], and if the inputs keep changing.
    pub(super) fn discover(
        &mut self,
        purpose: Purpose,
        interrupt: &Interrupt,
        reporter: &mut dyn Reporter,
    ) -> Result<Inventory, FatalError> {
        loop {
            let mut silence = Silence;
            let reporter_now: &mut dyn Reporter = if self.repeats { &mut silence } else { &mut *reporter };
            let inputs = Some(&self.fingerprint).filter(|_| self.remembers);
            let error = match discover(&self.settings, purpose, self.selectors, inputs, interrupt, reporter_now) {
                Err(error @ (FatalError::CouldNotRun(_) | FatalError::Reported | FatalError::Generator(_))) => error,
                done => return done,
            };
            match self.change() {
                Some(change) => self.begin_again(change, interrupt, reporter)?,
                // The error has not been reported.
                None if self.repeats => self.repeats = false,
                None => return Err(error),
            }
        }
    }

    /// Returns false if the inputs may have changed since the last discovery, which must be repeated then.
    ///
    /// # Errors
    /// If the inputs keep changing.
    pub(super) fn is_consistent(
        &mut self,
        inventory: &Inventory,
        selected: &Selected,
        interrupt: &Interrupt,
        reporter: &mut dyn Reporter,
    ) -> Result<bool, FatalError> {
        if let Some(change) = self.change() {
            self.begin_again(change, interrupt, reporter)?;
            return Ok(false);
        }
        if self.extent == Extent::Definitions && inventory.selected_of(selected).any(|(_, entity)| entity.is_orphan()) {
            self.extent = Extent::All;
            self.fingerprint = Fingerprint::take(&self.settings.root, self.extent);
            self.repeats = true;
            return Ok(false);
        }
        Ok(true)
    }

    fn change(&self) -> Option<Change> {
        if Pin::is_current(&self.settings.root) {
            self.fingerprint.changed(&self.settings.root).map(Change::Path)
        } else {
            Some(Change::Rollback)
        }
    }

    /// Waits until the inputs stay the same, so that they can be read again.
    fn begin_again(
        &mut self,
        change: Change,
        interrupt: &Interrupt,
        reporter: &mut dyn Reporter,
    ) -> Result<(), FatalError> {
        if self.attempts == ATTEMPTS {
            return Err(FatalError::could_not_run(InputsKeepChangingError(change)));
        }
        self.attempts += 1;
        self.repeats = false;
        reporter.warning(format!("Reading the inputs again: {change} in the meantime"));
        reporter.end_paragraph();
        if !Pin::is_current(&self.settings.root) {
            use_pinned(&mut self.settings, reporter)?;
        }
        for _ in 0..WAITS {
            self.fingerprint = Fingerprint::take(&self.settings.root, self.extent);
            interrupt.pause(QUIET)?;
            if self.fingerprint.changed(&self.settings.root).is_none() {
                break;
            }
        }
        Ok(())
    }
}
