//! The trait for entities, and the results of applying and checking them.

use crate::definitions::{HealthCheck, Hindrance};
use crate::{EntityReport, FilePair, Host, Output, Span};
use bstr::BString;
use holo_change::base_store::BaseStore;
use holo_process::Program;
use holo_protocol::{OnEdit, Witness, environment as names};
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

/// A managed entity.
pub trait Entity {
    /// Returns the properties of the entity, including its ID.
    fn report(&self) -> EntityReport;

    /// Brings the entity into its desired state.
    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied;

    /// Returns the effect that [`apply`](Self::apply) would have, without making changes. It is not called for a forced
    /// apply.
    fn check(&self, _: &Host, _: Mode<'_>, _: &mut Output<'_>) -> Verdict {
        Verdict::Unknown
    }

    /// Returns true if the entity is only applied while the system is running, such as a script. Otherwise it is deferred, unless its
    /// [`check`](Self::check), which then must not examine the running system, finds it in its desired state.
    fn needs_running_system(&self) -> bool {
        false
    }

    /// Sends the known values among these names to the entities that receive them. The entity is in its desired state,
    /// or has just been applied.
    fn send(&self, _: &Host, _: &[BString], _: &mut Output<'_>) {}

    /// Sends those values among these names that the entity will have after it is applied, if they are known now.
    fn foresee(&self, _: &Host, _: &[BString], _: &mut Output<'_>) {}

    /// Returns the reason why the entity can be neither checked nor applied: its definition receives a value that is
    /// missing or invalid.
    fn hindrance(&self) -> Option<&Hindrance> {
        None
    }

    /// Returns the health checks for the entity in its desired state.
    fn health_checks(&self) -> &[HealthCheck] {
        &[]
    }

    /// Returns the files that determine its desired and its current state, besides its resource files. The dispatcher does
    /// not request the entity again until one of them changes, so a missing file hides changes. `None` if there is a
    /// dependency that is not a file. Only called for an entity that was found to be in its desired state.
    fn witnesses(&self, _: &Host) -> Option<Vec<Witness>> {
        None
    }

    /// Returns the paths below the root that belong to the entity and whose change may move it out of its desired state,
    /// besides those that its report names. With a trailing slash, a path is a directory whose entries matter, but not their
    /// contents.
    fn parts(&self, _: &Host) -> Vec<BString> {
        Vec::new()
    }

    /// Removes the record of an entity without definition, which is then unknown, and leaves the system as it is. An original
    /// content is [kept](Host::keep_original) before.
    ///
    /// # Errors
    /// If there is no record, or it cannot be removed.
    fn forget(&self, host: &Host, _: &mut Output<'_>) -> Result<(), ForgetError> {
        let (records, id) = (BaseStore::open(host.locations()), self.report().id.to_string());
        if records.text(&id)?.is_none() {
            return Err("it has no record".into());
        }
        Ok(records.forget(&id)?)
    }

    /// Returns two files that show the user's changes; `None` if they cannot be shown as files. The files need not
    /// exist.
    fn diff(&self, host: &Host) -> Option<FilePair>;

    /// Returns two files or directories that show the current state, and the result of a forced apply. `None` if
    /// nothing would change, or the states cannot be shown as files. [`Preview`](crate::Preview) creates such files.
    /// The system is not changed.
    fn preview(&self, _: &Host) -> Option<FilePair> {
        None
    }

    /// Returns the origins of all lines of the entity's file in its current state. `None` if they are unknown, or the
    /// entity has no such file. If the entity has several files, the path selects one of them, as displayed to the
    /// user. The system is not changed.
    fn blame(&self, _: &Host, _: Option<&Path>) -> Option<Vec<Span>> {
        None
    }
}

/// The reason why an entity could not be forgotten.
#[derive(Clone, Debug)]
pub struct ForgetError(pub(crate) String);

impl<E: fmt::Display> From<E> for ForgetError {
    fn from(reason: E) -> ForgetError {
        ForgetError(reason.to_string())
    }
}

/// The mode in which an entity is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode<'a> {
    /// True if changes of the user are overwritten, and risky operations are performed.
    pub force: bool,
    /// What an apply without `force` does with changes of the user. A plugin that overwrites them keeps them first, with
    /// [`Host::keep_edited`]; others need not support it, and refuse.
    pub on_edit: OnEdit,
    /// True if the entity is refreshed, because an entity that it depends on has changed.
    pub refresh: bool,
    /// The time of the last change that caused the refresh, in seconds since the epoch and rounded down, if it is known. What was
    /// done later, by an apply that was killed, need not be done again.
    pub due_since: Option<i64>,
    /// True for a check if an earlier entity of the run may provide what this entity needs.
    pub pending: bool,
    /// The values from the entities that caused the refresh, and those that its definition receives, each as
    /// `KEY=VALUE`.
    pub received: &'a [BString],
    /// The names of the values that other entities receive from it.
    pub wanted: &'a [BString],
}

impl Mode<'_> {
    /// Returns true if another entity receives the value of this name.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        self.wanted.iter().any(|wanted| wanted == name)
    }

    /// Returns the environment variables that describe the refresh to a program.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let refresh = self.refresh.then(|| (names::REFRESH, "1".into()));
        let received = (!self.received.is_empty()).then(|| (names::RECEIVED, names::join_received(self.received)));
        refresh.into_iter().chain(received).collect()
    }

    /// Sets the environment variables of a program that is run for the entity, so that it receives the same information
    /// about the refresh.
    pub fn tell(&self, program: &mut Program) {
        program.env_remove(names::REFRESH).env_remove(names::RECEIVED);
        for (name, value) in self.variables() {
            program.env(name, value);
        }
    }
}

/// An entity to apply, and the mode.
#[derive(Debug)]
pub struct Job<'a, E> {
    /// The entity.
    pub entity: &'a E,
    /// The mode.
    pub mode: Mode<'a>,
}

impl<E> Clone for Job<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Job<'_, E> {}

/// The result of applying an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was already in its desired state.
    Unchanged,
    /// It was brought into its desired state. Changes are optional fragments in the past tense, such as `installed
    /// nginx 1.24.0-1`.
    Changed(Vec<String>),
    /// Like `Changed`, for changes that version 3 of the plugin does not report: they are only shown on terminals and
    /// by `--json`.
    ChangedQuietly(Vec<String>),
    /// Changes of the user would have been lost.
    NeedsForce(ForceTo),
    /// A condition in its definition, which is named, excludes it.
    Skipped(String),
    /// It is not changed now, for this temporary reason, such as `apt is running`. The next apply tries again.
    Deferred(String),
    /// It failed, and the error has been printed.
    Failed {
        /// The exit status of version 3 of the plugin in this case.
        version_3_status: u8,
        /// True if no changes were made before the failure, so that no other entities need to be refreshed.
        nothing_changed: bool,
    },
}

impl Applied {
    /// The entity failed, and the error has been printed. Changes may have been made before.
    pub const FAILED: Applied = Applied::Failed { version_3_status: 1, nothing_changed: false };

    /// The entity failed before any changes were made, and the error has been printed.
    pub const FAILED_UNCHANGED: Applied = Applied::Failed { version_3_status: 1, nothing_changed: true };

    /// Returns the same result; a failure is marked as having made no changes.
    #[must_use]
    pub fn with_nothing_changed(self) -> Applied {
        match self {
            Applied::Failed { version_3_status, .. } => Applied::Failed { version_3_status, nothing_changed: true },
            _ => self,
        }
    }

    /// Returns the same result for an entity that an earlier attempt may have changed.
    #[must_use]
    pub fn after_a_change(self) -> Applied {
        match self {
            Applied::Unchanged => Applied::Changed(Vec::new()),
            Applied::Failed { version_3_status, .. } => Applied::Failed { version_3_status, nothing_changed: false },
            other => other,
        }
    }

    /// Returns true if changes were made, or may have been made.
    #[must_use]
    pub fn may_have_changed(&self) -> bool {
        matches!(
            self,
            Applied::Changed(_) | Applied::ChangedQuietly(_) | Applied::Failed { nothing_changed: false, .. }
        )
    }

    /// Returns true for a failure.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        matches!(self, Applied::Failed { .. })
    }
}

/// The effect of applying an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// None: the entity is in its desired state.
    InDesiredState,
    /// These changes, as fragments such as `would install nginx`.
    WouldChange(Vec<String>),
    /// None without `--force`: changes of the user would be lost.
    NeedsForce(ForceTo),
    /// The effect is unknown.
    Unknown,
    /// None: a condition in the definition, which is named, excludes the entity.
    Skipped(String),
    /// The entity would fail, and the error has been printed.
    Failed,
}

/// The effect of `--force`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForceTo {
    /// Overwrites changes of the user.
    Overwrite,
    /// Restores a file that the user has deleted.
    Restore,
    /// Proceeds with an operation that the user must confirm, for this reason: `nginx 1.24 is newer than the declared
    /// 1.22`.
    Proceed(String),
}

/// Receives the answers for a set, by the index of the entity in the set: results of an apply, or verdicts of a check.
pub trait SetAnswers<R = Applied> {
    /// Marks the start of work on an entity. Called at most once, before any changes are made.
    fn begin(&mut self, place: usize);
    /// Returns the output of an entity.
    fn output(&mut self, place: usize) -> Output<'_>;
    /// Marks the end of work on an entity, with its result. Called once.
    fn end(&mut self, place: usize, result: R);
    /// Allows the following answers to be buffered, because no long operation is performed until [`SetAnswers::flush`]
    /// is called.
    fn hold_back(&mut self) {}
    /// Sends the buffered answers.
    fn flush(&mut self) {}
}
