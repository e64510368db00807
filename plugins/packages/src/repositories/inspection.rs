//! Inspects repositories: their records, the changes to make, and manual changes.

use super::{Record, RepositoryEntity};
use crate::model::PackageError;
use crate::providers::PackageProvider;
use crate::repository::{Key, Repository, RepositoryFile};
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::claims::{Claim, Claims};
use holo_change::tracked::{Attributes, Decision, Digest, Found, State, Tracker, Unmanaged};
use holo_plugin::system::{Root, Trust, TrustError};
use holo_plugin::{FilePair, ForceTo, Host, Mode, Verdict, edited};
use std::path::{Path, PathBuf};

/// Why a repository cannot be brought into its desired state.
#[derive(Clone, Debug)]
pub(super) enum RepositoryError {
    /// A file was changed after it was inspected.
    Meanwhile,
    Failed(PackageError),
}

impl From<Unmanaged> for RepositoryError {
    fn from(error: Unmanaged) -> Self {
        match error {
            Unmanaged::Meanwhile(_) => RepositoryError::Meanwhile,
            error => RepositoryError::Failed(PackageError::new(error.to_string())),
        }
    }
}

impl From<holo_change::PathError> for RepositoryError {
    fn from(error: holo_change::PathError) -> Self {
        RepositoryError::Failed(PackageError::new(error.to_string()))
    }
}

impl From<PackageError> for RepositoryError {
    fn from(problem: PackageError) -> Self {
        RepositoryError::Failed(problem)
    }
}

/// The files of the host and their records.
pub(super) struct Inspection<'a> {
    pub(super) host: &'a Host,
    pub(super) bases: BaseStore,
    pub(super) tracker: Tracker,
}

/// A file of a repository, with its current and desired state.
pub(super) struct PlannedFile {
    pub(super) path: PathBuf,
    pub(super) current: State,
    pub(super) desired: State,
    /// The content, or `None` if the file is to be removed.
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) sensitive: bool,
    /// True if a person has changed the file.
    pub(super) is_edited: bool,
}

impl PlannedFile {
    fn is_done(&self) -> bool {
        self.current == self.desired
    }
}

/// The changes to make to a repository.
pub(super) struct Plan {
    pub(super) remembered: Remembered<Record>,
    /// The entities that owned one of the paths before.
    pub(super) takes_over: Vec<String>,
    pub(super) files: Vec<PlannedFile>,
    /// Former paths of the repository, whose originals are restored.
    pub(super) leftovers: Found,
    /// True if a manual change of a former file would be lost.
    pub(super) loses_leftover: bool,
}

impl Plan {
    /// Returns true if the plan is not carried out in this mode, because manual changes would be lost.
    pub(super) fn is_refused(&self, mode: Mode<'_>) -> bool {
        let is_edited = self.files.iter().any(|file| file.is_edited);
        !mode.force && (self.loses_leftover || (is_edited && !mode.overwrites()))
    }

    /// Returns true if no file needs a change.
    pub(super) fn changes_nothing(&self) -> bool {
        self.leftovers.is_empty() && self.files.iter().all(PlannedFile::is_done)
    }

    /// Returns the changes as pairs of a verb and a path.
    pub(super) fn changes(&self) -> impl Iterator<Item = (Verb, &Path)> {
        let restored = self.leftovers.keys().filter_map(|path| {
            let track = self.remembered.base.tracks.get(path)?;
            let current = self.leftovers.get(path)?;
            let verb = if track.base == State::Absent { Verb::Remove } else { Verb::Restore };
            (*current != track.base).then_some((verb, path.as_path()))
        });
        let made =
            self.files.iter().filter(|file| !file.is_done()).map(|file| {
                (if file.desired == State::Absent { Verb::Remove } else { Verb::Write }, file.path.as_path())
            });
        restored.chain(made)
    }
}

/// An action on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Write,
    Remove,
    Restore,
}

impl Verb {
    pub(super) fn present(self) -> &'static str {
        match self {
            Verb::Write => "write",
            Verb::Remove => "remove",
            Verb::Restore => "restore",
        }
    }

    pub(super) fn past(self) -> &'static str {
        match self {
            Verb::Write => "wrote",
            Verb::Remove => "removed",
            Verb::Restore => "restored",
        }
    }
}

impl<'a> Inspection<'a> {
    pub(super) fn open(host: &'a Host) -> Result<Inspection<'a>, RepositoryError> {
        let tracker = Tracker::open(host.locations())?;
        Ok(Inspection { host, bases: tracker.bases().clone(), tracker })
    }

    pub(super) fn recall(&self, entity: &RepositoryEntity) -> Result<Option<Remembered<Record>>, RepositoryError> {
        Ok(self.bases.recall(&entity.id)?)
    }

    /// Determines the changes to make, given the record.
    pub(super) fn plan(
        &self,
        entity: &RepositoryEntity,
        record: Option<Remembered<Record>>,
    ) -> Result<Plan, RepositoryError> {
        let provider = self.provider(entity)?;
        let new = || {
            let record = Record { provider: provider.name().to_owned(), ..Record::default() };
            Remembered::new(&entity.full_report(), record)
        };
        let mut remembered = record.unwrap_or_else(new);
        self.tracker.rename_to_canonical(&mut remembered.base.tracks);
        let mut wanted: Vec<(PathBuf, &RepositoryFile)> = Vec::new();
        for file in &entity.files {
            wanted.push((self.tracker.canonical(Path::new(&file.path))?, file));
        }
        let takes_over = self.tracker.adopt(&mut remembered, wanted.iter().map(|(path, _)| path.clone()))?;
        self.find_rival(entity, &takes_over, &wanted)?;
        let mut plan =
            Plan { remembered, takes_over, files: Vec::new(), leftovers: Found::new(), loses_leftover: false };
        let tracks = &plan.remembered.base.tracks;
        for (path, file) in wanted {
            let current = self.tracker.state(&path)?;
            let desired = desired(file);
            let decision = self.tracker.decide(&path, tracks.get(&path), &current, &desired)?;
            let is_edited = decision == Decision::NeedsForce;
            let bytes = file.content.clone().map(String::into_bytes);
            plan.files.push(PlannedFile { path, current, desired, bytes, sensitive: file.sensitive, is_edited });
        }
        for (path, track) in tracks.iter().filter(|(path, _)| plan.files.iter().all(|file| file.path != *path)) {
            if self.tracker.is_overlaid(&path) {
                continue;
            }
            let current = self.tracker.state_of(tracks, &path)?;
            let decision = self.tracker.decide(&path, Some(track), &current, &track.base)?;
            plan.loses_leftover |= decision == Decision::NeedsForce;
            plan.leftovers.insert(path, current);
        }
        Ok(plan)
    }

    fn find_rival(
        &self,
        entity: &RepositoryEntity,
        takes_over: &[String],
        wanted: &[(PathBuf, &RepositoryFile)],
    ) -> Result<(), RepositoryError> {
        if takes_over.is_empty() {
            return Ok(());
        }
        let claims = Claims::read(self.host.locations());
        for (path, file) in wanted {
            if let Some(other) = self.tracker.rival(path, &entity.id, &claims)? {
                let own = Claim::new(&entity.id, path, &entity.sources).shown();
                let shown = self.host.below_root(Path::new(&file.path));
                let problem =
                    format!("{} is made by {own} and by {}; one of both has to go", shown.display(), other.shown());
                return Err(PackageError::new(problem).into());
            }
        }
        Ok(())
    }

    pub(super) fn provider(&self, entity: &RepositoryEntity) -> Result<&'static dyn PackageProvider, RepositoryError> {
        let provider = entity.provider.as_ref().map_err(|error| PackageError::new(error.to_string()))?;
        Ok(*provider)
    }

    /// Checks that the package manager reads the files of the repository, and that no other user can replace its key.
    ///
    /// # Errors If it would ignore them, or a user can.
    pub(super) fn check_way(&self, entity: &RepositoryEntity) -> Result<(), RepositoryError> {
        if let Some(Key::Path(path)) = entity.definition.as_ref().and_then(Repository::key) {
            let path = self.host.below_root(Path::new(path));
            if let Some(violation) = Trust::new(self.host.root()).violation(&path) {
                return Err(PackageError::new(TrustError::from(violation).to_string()).into());
            }
        }
        let obstacle = self.provider(entity)?.repository_obstacle(&Root::new(self.host.root()));
        obstacle.map_or(Ok(()), |obstacle| Err(PackageError::new(obstacle).into()))
    }

    pub(super) fn check(&self, entity: &RepositoryEntity, mode: Mode<'_>) -> Result<Verdict, RepositoryError> {
        let record = self.recall(entity)?;
        if entity.definition.is_none() && record.is_none() {
            return Ok(Verdict::InDesiredState);
        }
        if entity.definition.as_ref().is_some_and(|definition| !definition.is_gone()) {
            self.check_way(entity)?;
        }
        let plan = self.plan(entity, record)?;
        if plan.is_refused(mode) {
            return Ok(Verdict::NeedsForce(ForceTo::Overwrite));
        }
        let is_due = plan.remembered.base.is_index_due && entity.definition.is_some();
        if plan.changes_nothing() && !is_due {
            let is_orphan = entity.definition.is_none();
            return Ok(if is_orphan { Verdict::WouldChange(Vec::new()) } else { Verdict::InDesiredState });
        }
        let kept = plan.files.iter().filter(|file| file.is_edited);
        let kept = kept.map(|file| edited::would_keep(&self.host.below_root(&file.path)));
        let changes = plan.changes().map(|(verb, path)| format!("would {} {}", verb.present(), self.shown(path)));
        let fetch = "would fetch the index of packages".to_owned();
        Ok(Verdict::WouldChange(kept.chain(changes).chain([fetch]).collect()))
    }

    /// Returns the provisioned and the current content of the first manually changed file, or `None` if that file is secret.
    pub(super) fn difference(&self, entity: &RepositoryEntity) -> Option<FilePair> {
        let remembered = self.recall(entity).ok()??;
        let tracks = &remembered.base.tracks;
        let made = || tracks.iter().filter(|(_, track)| !track.sensitive && track.provisioned.is_some());
        let is_changed = |path: &Path, made: Option<&State>| self.tracker.state(path).ok().as_ref() != made;
        let changed = made().find(|(path, track)| is_changed(path, track.provisioned.as_ref()));
        let (path, track) = changed.or_else(|| made().next())?;
        self.tracker.difference(&entity.id, &path, track.provisioned.as_ref()).ok()
    }

    pub(super) fn shown(&self, path: &Path) -> String {
        self.host.below_root(path).display().to_string()
    }
}

fn desired(file: &RepositoryFile) -> State {
    match &file.content {
        None => State::Absent,
        Some(content) => State::File {
            content: Digest::of_bytes(content.as_bytes()),
            attributes: Attributes {
                mode: if file.sensitive { 0o600 } else { 0o644 },
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
            },
        },
    }
}
