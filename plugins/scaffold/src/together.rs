//! What the scaffolds of a set or of a run share while they are worked on: reading it for each of them would take more than linear time.

use crate::known::Known;
use holo_change::claims::{self, Claim, Claims};
use holo_change::tracked::HeldPaths;
use holo_plugin::Host;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What the scaffolds of a plugin share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Together {
    /// As long as a set of them is worked on.
    set: Arc<Mutex<Option<Arc<Shared>>>>,
    /// For the whole run.
    known: Arc<OnceLock<Known>>,
}

/// The records that are read once.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The paths that entities hold.
    pub(crate) held: HeldPaths,
    claims: OnceLock<RunClaims>,
}

/// The claims of a run's entities.
#[derive(Debug)]
pub(crate) struct RunClaims {
    /// Those to single paths.
    pub(crate) paths: Claims,
    pub(crate) all: Claims,
}

impl Together {
    fn set(&self) -> MutexGuard<'_, Option<Arc<Shared>>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is known to be unchanged.
    pub(crate) fn known(&self, host: &Host) -> &Known {
        self.known.get_or_init(|| Known::open(host))
    }

    /// Keeps what the run has learned.
    pub(crate) fn end_run(&self, host: &Host) {
        self.known.get().iter().for_each(|known| known.keep(host));
    }

    /// Begins a set of these.
    pub(crate) fn begin(&self, ids: &BTreeSet<String>) {
        let only = ids.first().filter(|_| ids.len() == 1);
        let held = only.map_or_else(HeldPaths::default, |id| HeldPaths::of_others_than(id));
        *self.set() = Some(Arc::new(Shared { held, ..Shared::default() }));
    }

    /// Ends it.
    pub(crate) fn end(&self) {
        *self.set() = None;
    }

    /// Returns true if the scaffold is one of a set.
    pub(crate) fn is_set(&self) -> bool {
        self.set().is_some()
    }

    /// Returns what is shared with the others of the set; a scaffold by itself shares nothing.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.set().clone().unwrap_or_default()
    }
}

impl Shared {
    pub(crate) fn claims(&self, host: &Host) -> &RunClaims {
        self.claims.get_or_init(|| {
            let all = claims::all(host.locations());
            let paths = all.iter().filter(|claim: &&Claim| !claim.is_tree).cloned().collect();
            RunClaims { paths, all: all.into_iter().collect() }
        })
    }
}
