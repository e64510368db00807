//! The changes of access that are to be made together.

use super::super::wanted::DeclaredError;
use holo_change::PathHandle;
use holo_change::access::{Access, AccessTracks};
use holo_change::acl::Acl;
use holo_change::base_store::Remembered;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The number of paths that are named, where more of them change in the same way.
const NAMED: usize = 3;

/// A change of the access to a path.
pub(super) struct Step {
    pub(super) path: PathBuf,
    pub(super) place: PathHandle,
    pub(super) current: Access,
    /// The parts that are changed.
    pub(super) missing: Access,
}

/// The steps that bring everything into the desired state, or back.
#[derive(Default)]
pub(in crate::declared) struct Plan {
    pub(super) steps: Vec<Step>,
    /// The record once they are taken; none if it is that which is kept.
    pub(super) record: Option<Remembered<AccessTracks>>,
}

impl Plan {
    pub(in crate::declared) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the permissions that a path has by the ACL that it gets, if it gets one.
    pub(in crate::declared) fn mode_by_acl(&self, path: &Path) -> Option<u32> {
        let own = self.steps.iter().find(|step| step.path == path)?;
        own.missing.acl.as_ref().map(Acl::mode)
    }

    /// Returns what happens, after `word` or the like: the parts, and the paths.
    pub(in crate::declared) fn changes(&self, word: &str, directory: &Path) -> Vec<String> {
        let mut alike: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for step in &self.steps {
            alike.entry(step.missing.parts()).or_default().push(step.place.shown().display().to_string());
        }
        let said = |(parts, paths): (String, Vec<String>)| match paths.len() {
            0..=NAMED => paths.iter().map(|path| format!("{word} {parts} of {path}")).collect(),
            many => vec![format!("{word} {parts} of {many} paths in {}", directory.display())],
        };
        alike.into_iter().flat_map(said).collect()
    }

    /// Takes the steps. What cannot be changed does not keep the rest from being changed.
    pub(super) fn take(&self) -> Result<(), DeclaredError> {
        let mut problems = Vec::new();
        for step in &self.steps {
            match step.missing.give(&step.place) {
                // Whoever uses the directory may have removed it since.
                Err(error) if error.is_missing() => {}
                given => problems.extend(given.err().map(|error| error.to_string())),
            }
        }
        match problems.split_first() {
            None => Ok(()),
            Some((first, [])) => Err(DeclaredError::Never(first.clone())),
            Some((first, rest)) => Err(DeclaredError::Never(format!("{first} (and {} more)", rest.len()))),
        }
    }
}
