//! What the scaffolds of a set share while they are worked on: reading it for each of them would take more than linear time.

use holo_change::claims::{self, Claim, Claims};
use holo_change::tracked::HeldPaths;
use holo_plugin::Host;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What the scaffolds of a plugin share, as long as a set of them is worked on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Together(Arc<Mutex<Option<Arc<Shared>>>>);

/// What is read once.
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
    /// Begins a set.
    pub(crate) fn begin(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::default());
    }

    /// Ends it.
    pub(crate) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns true if the scaffold is one of a set.
    pub(crate) fn is_set(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns what is shared with the others of the set; a scaffold by itself shares nothing.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
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
