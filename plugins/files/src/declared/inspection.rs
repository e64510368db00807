//! Inspects declared files: their records, the changes to make, and manual changes.

use super::definition::FileDefinition;
use super::entity::DeclaredFile;
use super::wanted::{self, DeclaredError, Wanted};
use crate::{edits, overlay};
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::claims::{self, Claim, Claims, Layers};
use holo_change::tracked::{Decision, Found, State, Tracker, Tracks, Unmanaged};
use holo_change::{Content, Image, Tree, path_bytes};
use holo_plugin::{
    Entity, FilePair, ForceTo, Host, Mode, Output, Preview, Shown, Validation, ValidationError, Verdict, edited,
};
use std::fs::Permissions;
use std::iter;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The files of the host and their records.
pub(super) struct Inspection<'a> {
    pub(super) host: &'a Host,
    pub(super) bases: BaseStore,
    pub(super) tracker: Tracker,
    claims: OnceLock<Claims>,
    layers: OnceLock<Layers>,
}

/// The canonical path of an entity, and its record.
pub(super) struct Subject {
    pub(super) path: PathBuf,
    pub(super) remembered: Remembered<Tracks>,
    /// The entities that had the path before.
    pub(super) takes_over: Vec<String>,
    /// For a check, the state to which another entity restores the path before.
    restored: Option<State>,
}

impl Subject {
    /// Returns true if the original state of the path is recorded, so that no other record has to be taken over.
    pub(super) fn is_known(&self) -> bool {
        self.remembered.base.get(&self.path).is_some()
    }

    /// Returns true if the record contains the current state, which is the desired one. Content that is not declared may
    /// change freely, so it is not recorded, and not copied.
    pub(super) fn is_recorded(&self, definition: &FileDefinition, current: &State) -> bool {
        let Some(track) = self.remembered.base.get(&self.path) else {
            return !definition.is_wholly_declared() && !definition.declares_access();
        };
        track.provisioned.as_ref().is_some_and(|made| {
            let is_content_recorded = !definition.declares_content() || made.content() == current.content();
            is_content_recorded && wanted::as_far_as_declared(definition, made, current, current) == *current
        })
    }
}

/// The effect of scrubbing an entity.
pub(super) struct Scrubbing {
    /// The current states of its paths.
    pub(super) found: Found,
    /// True if manual changes would be lost.
    pub(super) needs_force: bool,
}

/// Returns true if the edited version of a path is kept and overwritten. A directory that is removed with its contents may
/// contain any number of edited files.
pub(super) fn can_be_kept(wanted: &Wanted, mode: Mode<'_>) -> bool {
    mode.overwrites() && wanted.states.len() == 1
}

impl<'a> Inspection<'a> {
    pub(super) fn open(host: &'a Host) -> Result<Inspection<'a>, DeclaredError> {
        Ok(Inspection::with(Tracker::open(host.locations())?, host))
    }

    fn with(tracker: Tracker, host: &'a Host) -> Inspection<'a> {
        Inspection { host, bases: tracker.bases().clone(), tracker, claims: OnceLock::new(), layers: OnceLock::new() }
    }

    /// Returns the claims of all entities of the run.
    pub(super) fn claims(&self) -> &Claims {
        self.claims.get_or_init(|| Claims::read(self.host.locations()))
    }

    /// Returns true if an overlay of the run is laid on a file.
    pub(super) fn has_overlay(&self, path: &Path) -> bool {
        matches!(self.layer(path), Some(None))
    }

    /// Returns what the run lays on a file, if anything: an overlay (`None`), or the edit with this ID.
    fn layer(&self, path: &Path) -> Option<&Option<String>> {
        self.layers.get_or_init(|| claims::layers(self.host.locations())).get(path)
    }

    pub(super) fn recall(&self, entity: &DeclaredFile) -> Result<Option<Remembered<Tracks>>, DeclaredError> {
        Ok(self.bases.recall(&entity.id())?)
    }

    /// Returns the path of an entity and its record. If other entities had the path before, takes over their records and returns their IDs.
    pub(super) fn subject(
        &self,
        entity: &DeclaredFile,
        record: Option<Remembered<Tracks>>,
    ) -> Result<Subject, DeclaredError> {
        let path = self.tracker.canonical(&entity.path)?;
        let mut remembered = record.unwrap_or_else(|| Remembered::new(&entity.report(), Tracks::default()));
        self.tracker.rename_to_canonical(&mut remembered.base);
        let takes_over = self.tracker.adopt(&mut remembered, [path.clone()])?;
        if !takes_over.is_empty()
            && let Some(other) = self.rival(entity)?
        {
            return Err(DeclaredError::Never(format!(
                "{} is made by {} and by {}; one of both has to go",
                self.shown(&entity.path),
                Claim::new(&entity.id(), &path, &entity.sources).shown(),
                other.shown()
            )));
        }
        Ok(Subject { path, remembered, takes_over, restored: None })
    }

    /// Like [`Inspection::subject`], for a check: knows the paths that other entities give up before.
    fn subject_of_check(&self, entity: &DeclaredFile) -> Result<Subject, DeclaredError> {
        let (path, record) = (self.tracker.canonical(&entity.path)?, self.recall(entity)?);
        // As long as there is an overlay on it, it is not given up.
        if record.is_none()
            && entity.overlay.is_none()
            && let Some(restored) = self.tracker.given_up(&path, &entity.id())?
        {
            let remembered = Remembered::new(&entity.report(), Tracks::default());
            return Ok(Subject { path, remembered, takes_over: Vec::new(), restored: Some(restored) });
        }
        self.subject(entity, record)
    }

    /// Returns the claim of another entity that has made the path.
    pub(super) fn rival(&self, entity: &DeclaredFile) -> Result<Option<&Claim>, DeclaredError> {
        let path = self.tracker.canonical(&entity.path)?;
        Ok(self.tracker.rival(&path, &entity.id(), self.claims())?)
    }

    /// Decides whether the path has to be changed.
    pub(super) fn decide(
        &self,
        subject: &mut Subject,
        definition: &FileDefinition,
        force: bool,
    ) -> Result<(Decision, Wanted, State), DeclaredError> {
        let current = subject.restored.clone().map_or_else(|| self.tracker.state(&subject.path), Ok)?;
        let wanted = wanted::of(definition, &subject.path, &current, force, self.host, &self.tracker)?;
        let desired = wanted.desired();
        let track = subject.remembered.base.get(&subject.path);
        let track =
            track.map(|track| track.seen_as(|state| wanted::as_far_as_declared(definition, state, &current, &desired)));
        let mut decision = self.tracker.decide(&subject.path, track.as_ref(), &current, &desired)?;
        // Files that are removed along with a directory may have been provisioned by other entities, and changed manually since.
        let children = || wanted.states.iter().filter(|(path, _)| *path != subject.path).map(|(path, _)| path);
        let taken = self.tracker.adopt(&mut subject.remembered, children().cloned())?;
        for path in children() {
            if let Some(track) = subject.remembered.base.get(path)
                && self.tracker.decide(path, Some(track), &self.tracker.state(path)?, &State::Absent)?
                    == Decision::NeedsForce
            {
                decision = Decision::NeedsForce;
            }
        }
        subject.takes_over.extend(taken);
        Ok((decision, wanted, current))
    }

    /// Returns paths that the entity provisioned earlier and no longer owns, because a symlink in its path has changed.
    pub(super) fn leftovers(&self, subject: &Subject, force: bool) -> Result<Found, DeclaredError> {
        let mut leftovers = Found::new();
        for (path, track) in subject.remembered.base.iter().filter(|(path, _)| !path.starts_with(&subject.path)) {
            let current = self.tracker.state_of(&subject.remembered.base, &path)?;
            if self.tracker.decide(&path, Some(track), &current, &track.base)? == Decision::NeedsForce && !force {
                let shown = self.shown(&path);
                return Err(DeclaredError::NeedsForce(format!(
                    "{shown} was provisioned earlier, and has been changed since"
                )));
            }
            leftovers.insert(path, current);
        }
        Ok(leftovers)
    }

    /// Returns the effect of applying a file.
    pub(super) fn check(
        &self,
        entity: &DeclaredFile,
        mode: Mode<'_>,
        output: &mut Output<'_>,
    ) -> Result<Verdict, DeclaredError> {
        let Some(definition) = &entity.definition else { return self.check_scrubbing(entity) };
        // Removing its overlay may bring a new version from the package manager into place.
        let foreseeing = match &entity.overlay {
            Some(overlay) => {
                let leaving = overlay::scrub::all_restored(iter::once(&**overlay), self.host)?;
                Some(Inspection::with(Tracker::open(self.host.locations())?.without_overlays(leaving)?, self.host))
            }
            None => None,
        };
        let inspection = foreseeing.as_ref().unwrap_or(self);
        let subject = inspection.subject_of_check(entity)?;
        inspection.check_declared(entity, definition, subject, mode, output)
    }

    fn check_declared(
        &self,
        entity: &DeclaredFile,
        definition: &FileDefinition,
        mut subject: Subject,
        mode: Mode<'_>,
        output: &mut Output<'_>,
    ) -> Result<Verdict, DeclaredError> {
        let shown = self.shown(&entity.path);
        // Below an overlay, the current state is that of its base, which is restored first.
        let (decision, wanted, current) = match self.decide(&mut subject, definition, false) {
            // An apply takes the edits back first, and decides then.
            Err(DeclaredError::NeedsForce(_)) if self.tracker.is_edited(&subject.path)? => return Ok(Verdict::Unknown),
            decided => decided?,
        };
        let desired = wanted.desired();
        if entity.overlay.is_some() && decision != Decision::NeedsForce {
            // The base of a target that was deleted is not restored.
            let is_absent = desired == State::Absent;
            let is_met = (is_absent || decision == Decision::Nothing) && entity.live(self.host) == Some(desired);
            return Ok(match is_met {
                true => Verdict::InDesiredState,
                false => Verdict::WouldChange(vec![format!("would write {shown}")]),
            });
        }
        let leftovers = self.leftovers(&subject, false)?;
        let restored = leftovers.keys().map(|path| format!("would restore {}", self.shown(path)));
        let is_kept = decision == Decision::NeedsForce && can_be_kept(&wanted, mode);
        Ok(match decision {
            Decision::Change if leftovers.is_empty() && self.is_met_without_edits(&subject, &current, &desired)? => {
                Verdict::InDesiredState
            }
            Decision::Nothing if leftovers.is_empty() => Verdict::InDesiredState,
            Decision::Nothing => Verdict::WouldChange(restored.collect()),
            Decision::NeedsForce if self.tracker.is_edited(&subject.path)? => Verdict::Unknown,
            Decision::NeedsForce if !is_kept => Verdict::NeedsForce(ForceTo::Overwrite),
            Decision::Change | Decision::NeedsForce => {
                if let Some(bytes) = &wanted.bytes {
                    self.validate(entity, definition, bytes, output)?;
                }
                let kept = is_kept.then(|| edited::would_keep(&self.host.below_root(&entity.path)));
                let change = format!("would {} {shown}", super::change(&current, &desired).0);
                Verdict::WouldChange(restored.chain(kept).chain([change]).collect())
            }
        })
    }

    /// Returns true if the desired state is what is left when an apply has taken back the edits of a file. Fails if they
    /// stay.
    fn is_met_without_edits(&self, subject: &Subject, current: &State, desired: &State) -> Result<bool, DeclaredError> {
        if !self.tracker.is_edited(&subject.path)? {
            return Ok(false);
        }
        Ok(match edits::without_orphans(&subject.path, self.host) {
            Some(None) => *desired == State::Absent,
            Some(Some(Image { content: Content::File { place, .. }, .. })) => {
                let left = State::of(&place);
                left.is_ok_and(|left| left.content().is_some() && left.content() == desired.content())
                    && current.attributes() == desired.attributes()
            }
            Some(Some(_)) => false,
            None => {
                self.reject_edits(subject)?;
                false
            }
        })
    }

    /// Returns an error if the file of a new entity still contains edits. An apply takes them back first, but without
    /// `--force` only those that no person has changed.
    pub(super) fn reject_edits(&self, subject: &Subject) -> Result<(), DeclaredError> {
        if subject.is_known() {
            return Ok(());
        }
        let is_defined = || matches!(self.layer(&subject.path), Some(Some(_)));
        match self.tracker.reject_edited(&subject.path) {
            Err(edited @ Unmanaged::Edited { .. }) if !is_defined() => {
                Err(DeclaredError::NeedsForce(edited.to_string()))
            }
            rejected => Ok(rejected?),
        }
    }

    /// Runs the declared validation program on the new content.
    pub(super) fn validate(
        &self,
        entity: &DeclaredFile,
        definition: &FileDefinition,
        bytes: &[u8],
        output: &mut Output<'_>,
    ) -> Result<(), DeclaredError> {
        let Some(command) = &definition.validate else { return Ok(()) };
        let validation = Validation { command, sensitive: definition.sensitive, timeout: entity.timeout };
        let validated = validation.run(&entity.path, bytes, self.host, output);
        validated.map_err(|ValidationError(reason)| DeclaredError::Never(reason))
    }

    fn check_scrubbing(&self, entity: &DeclaredFile) -> Result<Verdict, DeclaredError> {
        let Some(mut remembered) = self.recall(entity)? else { return Ok(Verdict::InDesiredState) };
        let had_paths = !remembered.base.is_empty();
        self.tracker.forget_taken(&mut remembered.base, &entity.id(), self.claims());
        if remembered.base.is_empty() && had_paths {
            return Ok(Verdict::InDesiredState);
        }
        let scrubbing = self.scrubbing(&remembered.base)?;
        if scrubbing.needs_force {
            return Ok(Verdict::NeedsForce(ForceTo::Overwrite));
        }
        let path = own_path(&remembered.base, &entity.path);
        let before = scrubbing.found.get(&path).unwrap_or(&State::Absent);
        let base = remembered.base.get(&path).map_or(State::Absent, |track| track.beside(before).base);
        if self.tracker.is_overlaid(&path) {
            return Ok(Verdict::InDesiredState);
        }
        let back = super::back(&base, before);
        let what = if back == super::FORGET { entity.id() } else { self.shown(&entity.path) };
        Ok(Verdict::WouldChange(vec![format!("would {} {what}", back.0)]))
    }

    /// Returns the provisioned and the current state as files, where this is possible.
    pub(super) fn difference(&self, entity: &DeclaredFile) -> Option<FilePair> {
        let remembered = self.recall(entity).ok()??;
        let path = own_path(&remembered.base, &entity.path);
        let track = remembered.base.get(&path)?;
        let provisioned = track.provisioned.as_ref()?;
        if track.sensitive {
            return None;
        }
        let current = self.tracker.state(&path).ok()?;
        let made = entity.definition.as_ref().map_or_else(
            || provisioned.clone(),
            |definition| {
                let desired = if definition.declares_content() { provisioned } else { &current };
                wanted::as_far_as_declared(definition, provisioned, &current, desired)
            },
        );
        if let State::Directory { attributes } = &made {
            return self.directories(entity, &path, (attributes.mode, &current));
        }
        if entity.definition.is_none() {
            return self.tracker.difference(&entity.id(), &path, Some(&made)).ok();
        }
        let there = self.tracker.place(&path).shown();
        if made == current {
            // Equal files show that there is no difference, as opposed to an unknown one.
            return Some(FilePair::new(there.clone(), there).with_applied_label(entity.id()));
        }
        if made.content() != current.content() || made.content().is_none() {
            return self.tracker.difference(&entity.id(), &path, Some(&made)).ok();
        }
        // An unmanaged content was never stored, so compare with a copy of the current one.
        let (below, preview) = (Path::new("file"), Preview::new(self.host, entity.id().as_bytes()).ok()?);
        let content = std::fs::read(&there).ok()?;
        let attributes = made.attributes();
        let mode = attributes.map_or(0, |attributes| attributes.mode);
        let copy = preview.from(below);
        Shown::File { content, mode }.write(&copy).ok()?;
        // Besides the mode, `holo why` shows the owner, which only root can set.
        if let Some(attributes) = attributes.filter(|_| rustix::process::geteuid().is_root()) {
            chown(&copy, Some(attributes.uid), Some(attributes.gid)).ok()?;
        }
        std::fs::set_permissions(&copy, Permissions::from_mode(mode & 0o7777)).ok()?;
        Some(FilePair::new(copy, there).with_applied_label(entity.id()).with_modes())
    }

    /// Returns an empty directory with the provisioned mode and the current directory, if their modes differ.
    fn directories(&self, entity: &DeclaredFile, path: &Path, (made, current): (u32, &State)) -> Option<FilePair> {
        let State::Directory { attributes } = current else { return None };
        if attributes.mode == made {
            return None;
        }
        let copy = Preview::new(self.host, entity.id().as_bytes()).ok()?.from(Path::new("directory"));
        Shown::Directory(made).write(&copy).ok()?;
        let pair = FilePair::new(copy, self.tracker.place(path).shown());
        Some(pair.with_applied_label(entity.id()).with_modes())
    }

    pub(super) fn scrubbing(&self, tracks: &Tracks) -> Result<Scrubbing, DeclaredError> {
        let mut scrubbing = Scrubbing { found: Found::new(), needs_force: false };
        for (path, track) in tracks.iter().filter(|(path, _)| !self.tracker.is_overlaid(path)) {
            let current = self.tracker.state_of(tracks, &path)?;
            let track = track.beside(&current);
            let decision = self.tracker.decide(&path, Some(&track), &current, &track.base)?;
            scrubbing.needs_force |= decision == Decision::NeedsForce;
            scrubbing.found.insert(path, current);
        }
        Ok(scrubbing)
    }

    pub(super) fn shown(&self, path: &Path) -> String {
        self.host.below_root(path).display().to_string()
    }
}

/// Returns the path of an orphan as recorded: the recorded path that is not below another one.
pub(super) fn own_path(tracks: &Tracks, path: &Path) -> PathBuf {
    let first = || tracks.iter().map(|(path, _)| path).next();
    if tracks.get(path).is_some() { path.to_owned() } else { first().unwrap_or_else(|| path.to_owned()) }
}

/// Returns the file that is left at a path when orphans have restored it, for the check of an overlay. They come before it only below a
/// directory with permissions for everything; `None` if there is no such directory or orphan.
pub(crate) fn without_orphans(path: &Path, host: &Host) -> Option<Option<Image>> {
    let directories = claims::recursive(host.locations());
    if directories.is_empty() {
        return None;
    }
    let inspection = Inspection::open(host).ok()?;
    let path = inspection.tracker.canonical(path).ok()?;
    path.ancestors().find(|above| directories.contains_key(*above))?;
    let copies = Preview::new(host, &path_bytes(&path)).ok()?.from(Path::new(""));
    let copy = Tree::open(&copies).ok()?.place(Path::new("original"));
    let original = inspection.tracker.original(&path, "", inspection.claims(), &copy).ok()??;
    Image::load(&original).ok()
}
