//! State that the scaffolds of a set share. Reading it for each of them would take more than linear time.

use holo_change::claims::{self, Claim, Claims, Layers};
use holo_change::tracked::{HeldPaths, Tracker};
use holo_plugin::Host;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The state that the scaffolds of the plugin share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Together {
    /// The state of the current set.
    set: Arc<Mutex<Option<Arc<Shared>>>>,
}

/// The records that are read once per set.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The paths that entities hold.
    pub(crate) held: HeldPaths,
    claims: OnceLock<RunClaims>,
    layers: OnceLock<Layers>,
}

/// The claims of a run's entities.
#[derive(Debug)]
pub(crate) struct RunClaims {
    /// The claims to single paths.
    pub(crate) paths: Claims,
    pub(crate) all: Claims,
}

impl Together {
    fn set(&self) -> MutexGuard<'_, Option<Arc<Shared>>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a set with these IDs.
    pub(crate) fn begin(&self, ids: &BTreeSet<String>) {
        let only = ids.first().filter(|_| ids.len() == 1);
        let held = only.map_or_else(HeldPaths::default, |id| HeldPaths::of_others_than(id));
        *self.set() = Some(Arc::new(Shared { held, ..Shared::default() }));
    }

    /// Ends the set.
    pub(crate) fn end(&self) {
        *self.set() = None;
    }

    /// Returns true if a set has been started.
    pub(crate) fn is_set(&self) -> bool {
        self.set().is_some()
    }

    /// Returns the state that is shared within the set. Without a set, it is shared with no other scaffold.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.set().clone().unwrap_or_default()
    }
}

impl Shared {
    /// Returns the files that other entities lay something over, or edit.
    pub(crate) fn layers(&self, host: &Host, tracker: &Tracker) -> &Layers {
        self.layers.get_or_init(|| {
            let canonical = |path: PathBuf| tracker.canonical(&path).unwrap_or(path);
            claims::layers(host.locations()).into_iter().map(|(path, edit)| (canonical(path), edit)).collect()
        })
    }

    pub(crate) fn claims(&self, host: &Host) -> &RunClaims {
        self.claims.get_or_init(|| {
            let all = claims::all(host.locations());
            let paths = all.iter().filter(|claim: &&Claim| !claim.is_tree).cloned().collect();
            RunClaims { paths, all: all.into_iter().collect() }
        })
    }
}
