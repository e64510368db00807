//! What a plugin has to be.

use crate::{EntityReport, Host, Output};
use bstr::BStr;
use std::path::PathBuf;

/// A plugin: it knows which entities there are.
pub trait Plugin {
    /// What it manages.
    type Entity: Entity;

    /// Lists all entities, in any order. What is wrong with a single definition is said on `output`, and the others are listed.
    ///
    /// # Errors
    /// If nothing can be listed at all; it has been said why.
    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Self::Entity>, ScanError>;

    /// Finds one entity. A plugin that can do so without listing all should: version 3 asks for each entity in a process of its own.
    ///
    /// # Errors
    /// As [`Plugin::scan`].
    fn find(&self, host: &Host, id: &BStr, output: &mut Output<'_>) -> Result<Option<Self::Entity>, ScanError> {
        Ok(self.scan(host, output)?.into_iter().find(|entity| entity.report().id == id))
    }

    /// Applies entities of which none depends on another, in any order or together.
    fn apply_set(&self, host: &Host, set: &[&Self::Entity], mode: Mode, answers: &mut dyn SetAnswers) {
        for (place, entity) in set.iter().enumerate() {
            answers.begin(place);
            let applied = entity.apply(host, mode, &mut answers.output(place));
            answers.end(place, applied);
        }
    }
}

/// Nothing could be listed; the user has been told why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanError;

/// A thing that is managed.
pub trait Entity {
    /// What there is to know of it, its ID first of all.
    fn report(&self) -> EntityReport;

    /// Brings it into its desired state.
    fn apply(&self, host: &Host, mode: Mode, output: &mut Output<'_>) -> Applied;

    /// Finds out what applying it would do, and changes nothing.
    fn check(&self, _: &Host, _: &mut Output<'_>) -> Verdict {
        Verdict::Unknown
    }

    /// The two files that show what a person changed, if it can be shown by files. They need not exist.
    fn diff(&self, host: &Host) -> Option<FilePair>;
}

/// Two files: as the entity was last applied, and as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePair {
    /// The entity as it was last applied.
    pub from: PathBuf,
    /// The entity as it is.
    pub to: PathBuf,
}

/// What may be done to a person's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// What a person changed stays.
    Apply,
    /// What a person changed is overwritten.
    Force,
}

/// How an apply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was in its desired state already.
    Unchanged,
    /// It is in its desired state now.
    Changed,
    /// A person's work would have been lost.
    NeedsForce(ForceTo),
    /// Something went wrong, and the user has been told what.
    Failed {
        /// The exit status that version 3 of the plugin has for this.
        version_3_status: u8,
    },
}

/// What applying an entity would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: it is in its desired state.
    InDesiredState,
    /// These changes, as fragments such as `would install nginx`.
    WouldChange(Vec<String>),
    /// Nothing without `--force`: a person's work would be lost.
    NeedsForce(ForceTo),
    /// It cannot be told.
    Unknown,
    /// Something is wrong with it, and the user has been told what.
    Failed,
}

/// What `--force` would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForceTo {
    /// Overwrite what a person changed.
    Overwrite,
    /// Restore what a person deleted.
    Restore,
}

/// Takes the answers to a set, each by the place of its entity in the set.
pub trait SetAnswers {
    /// The entity is being worked on from now on. Called at most once, and before anything is changed.
    fn begin(&mut self, place: usize);
    /// Where to say something of the entity.
    fn output(&mut self, place: usize) -> Output<'_>;
    /// The entity is done with. Called once.
    fn end(&mut self, place: usize, applied: Applied);
}
