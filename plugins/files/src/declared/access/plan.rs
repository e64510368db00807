//! Plans of permission changes.

use super::super::wanted::DeclaredError;
use holo_change::PathHandle;
use holo_change::access::{Access, AccessTracks};
use holo_change::acl::Acl;
use holo_change::base_store::Remembered;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The maximum number of paths that are listed individually for the same change.
const NAMED: usize = 3;

/// A permission change of a path.
pub(super) struct Step {
    pub(super) path: PathBuf,
    pub(super) place: PathHandle,
    pub(super) current: Access,
    /// The values to set.
    pub(super) missing: Access,
}

/// The steps that establish the desired permissions, or restore the original ones.
#[derive(Default)]
pub(in crate::declared) struct Plan {
    pub(super) steps: Vec<Step>,
    /// The record after the steps, or `None` if it does not change.
    pub(super) record: Option<Remembered<AccessTracks>>,
}

impl Plan {
    pub(in crate::declared) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the mode that results from the new ACL of a path, if it gets one.
    pub(in crate::declared) fn mode_by_acl(&self, path: &Path) -> Option<u32> {
        let own = self.steps.iter().find(|step| step.path == path)?;
        own.missing.acl.as_ref().map(Acl::mode)
    }

    /// Describes the changes. `word` is a verb such as `changed`.
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

    /// Carries out the steps. A failed step does not stop the others.
    pub(super) fn take(&self) -> Result<(), DeclaredError> {
        let mut problems = Vec::new();
        for step in &self.steps {
            match step.missing.give(&step.place) {
                // A user of the directory may have removed the path since.
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
