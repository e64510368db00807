//! The interface of an entity, and the results of applying and checking one.

use crate::definitions::{HealthCheck, Hindrance};
use crate::{EntityReport, FilePair, Host, Mode, Output, Span};
use bstr::BString;
use std::path::Path;

/// A thing that is managed.
pub trait Entity {
    /// Returns everything that there is to know of it, its ID first of all.
    fn report(&self) -> EntityReport;

    /// Brings it into its desired state.
    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied;

    /// Finds out what applying it so would do, and changes nothing. Nobody asks what force would do.
    fn check(&self, _: &Host, _: Mode<'_>, _: &mut Output<'_>) -> Verdict {
        Verdict::Unknown
    }

    /// Sends the values of these names that are known, as others receive them. It is in its desired state, or has just been applied.
    fn send(&self, _: &Host, _: &[BString], _: &mut Output<'_>) {}

    /// Sends the values of these names that it will have when it is applied, as far as they are known now.
    fn foresee(&self, _: &Host, _: &[BString], _: &mut Output<'_>) {}

    /// Returns the reason why it can be neither checked nor applied: its definition receives something that is not there, or does not fit.
    fn hindrance(&self) -> Option<&Hindrance> {
        None
    }

    /// Returns the checks that tell how it is while it is in its desired state.
    fn health_checks(&self) -> &[HealthCheck] {
        &[]
    }

    /// The two files that show what a person changed, if it can be shown by files. They need not exist.
    fn diff(&self, host: &Host) -> Option<FilePair>;

    /// Returns the two files, or directories, that show what there is, and what applying it by force would make of that; none if nothing
    /// would change, or it cannot be shown by files. [`Preview`](crate::Preview) makes such files. Nothing is changed.
    fn preview(&self, _: &Host) -> Option<FilePair> {
        None
    }

    /// Returns the origins of the lines of its file, as that is now, from the first line to the last; none if it cannot be told, or it has
    /// no such file. The path is that of one of several files, as the user knows it, if one is meant. Nothing is changed.
    fn blame(&self, _: &Host, _: Option<&Path>) -> Option<Vec<Span>> {
        None
    }
}

/// An entity that shall be applied, and how.
#[derive(Debug)]
pub struct Job<'a, E> {
    /// The entity.
    pub entity: &'a E,
    /// How.
    pub mode: Mode<'a>,
}

impl<E> Clone for Job<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Job<'_, E> {}

/// The end of an apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was in its desired state already.
    Unchanged,
    /// It is in its desired state now. The changes, if there is more to say than that: fragments in the past tense, such as
    /// `installed nginx 1.24.0-1`.
    Changed(Vec<String>),
    /// The same, where version 3 of the plugin says nothing of changes: they are shown on terminals and by `--json` only.
    ChangedQuietly(Vec<String>),
    /// A person's work would have been lost.
    NeedsForce(ForceTo),
    /// It is left out, as a condition in its definition says; which one.
    Skipped(String),
    /// Something went wrong, and the user has been told what.
    Failed {
        /// The exit status that version 3 of the plugin has for this.
        version_3_status: u8,
        /// True if it is known that nothing was changed before: then nobody has to be refreshed because of it.
        nothing_changed: bool,
    },
}

impl Applied {
    /// Something went wrong, and the user has been told what. Something may have been changed before.
    pub const FAILED: Applied = Applied::Failed { version_3_status: 1, nothing_changed: false };

    /// Something went wrong before anything was changed, and the user has been told what.
    pub const FAILED_UNCHANGED: Applied = Applied::Failed { version_3_status: 1, nothing_changed: true };

    /// The same end, but if it is a failure, nothing was changed before.
    #[must_use]
    pub fn with_nothing_changed(self) -> Applied {
        match self {
            Applied::Failed { version_3_status, .. } => Applied::Failed { version_3_status, nothing_changed: true },
            _ => self,
        }
    }

    /// The same end after an earlier attempt that may have changed something: then it cannot be that nothing was changed.
    #[must_use]
    pub fn after_a_change(self) -> Applied {
        match self {
            Applied::Unchanged => Applied::Changed(Vec::new()),
            Applied::Failed { version_3_status, .. } => Applied::Failed { version_3_status, nothing_changed: false },
            other => other,
        }
    }

    /// Returns true if something was changed, or may have been.
    #[must_use]
    pub fn may_have_changed(&self) -> bool {
        matches!(
            self,
            Applied::Changed(_) | Applied::ChangedQuietly(_) | Applied::Failed { nothing_changed: false, .. }
        )
    }

    /// Returns true if something went wrong.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        matches!(self, Applied::Failed { .. })
    }
}

/// The effect that applying an entity would have.
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
    /// Nothing: a condition in its definition leaves it out; which one.
    Skipped(String),
    /// Something is wrong with it, and the user has been told what.
    Failed,
}

/// The effect that `--force` would have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForceTo {
    /// Overwrite what a person changed.
    Overwrite,
    /// Restore what a person deleted.
    Restore,
    /// Something else that a person has to decide; why it was not done, such as `nginx 1.24 is newer than the declared 1.22`.
    Proceed(String),
}

/// Takes the answers to a set, each by the place of its entity in the set: what becomes of the entities that are applied, or verdicts on
/// those that are checked.
pub trait SetAnswers<R = Applied> {
    /// The entity is being worked on from now on. Called at most once, and before anything is changed.
    fn begin(&mut self, place: usize);
    /// Returns the output that belongs to the entity.
    fn output(&mut self, place: usize) -> Output<'_>;
    /// The entity is done with. Called once.
    fn end(&mut self, place: usize, result: R);
    /// What follows may be told together, as nothing that takes long is done until [`SetAnswers::flush`] is called.
    fn hold_back(&mut self) {}
    /// Tells what was held back.
    fn flush(&mut self) {}
}
