//! Applying, scrubbing and comparing declared files, many together.

use super::definition::FileDefinition;
use super::entity::DeclaredFile;
use super::wanted::{self, DeclaredError, Wanted};
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::error::PathError;
use holo_change::tracked::{self, Decision, Digest, Found, PathChange, State, Tracker, Tracks, Unmanaged};
use holo_change::{PathHandle, Tree, claims};
use holo_plugin::process::{self, Program};
use holo_plugin::{Applied, Entity, FilePair, ForceTo, Host, Job, Mode, Output, SetAnswers, Verdict};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The folder of all records of declared files: version 3 has the rest of the state directory.
const FOLDER: &str = ".declared";

/// The records of declared files.
pub(crate) fn memory(host: &Host) -> holo_change::error::Result<BaseStore> {
    BaseStore::open_in(host.locations(), Path::new(FOLDER))
}

/// The number of files that are made durable together.
const GROUP_SIZE: usize = 1024;
/// The time for which changes are gathered.
const GROUP_TIME: Duration = Duration::from_millis(200);
/// The number of bytes from which on the contents of a group are no longer gathered in memory.
const GROUP_BYTES: usize = 16 << 20;

/// Everything that is needed to work on a declared file.
pub(super) struct Workshop<'a> {
    host: &'a Host,
    memory: BaseStore,
    tracker: Tracker,
}

/// A change that is to be made for a file.
struct Change {
    /// The index of the entity in its set.
    place: usize,
    remembered: Remembered<Tracks>,
    /// The changes of paths.
    paths: Vec<PathChange>,
    /// The bytes of the file, which are not kept yet.
    bytes: Option<Vec<u8>>,
    /// The entities that the path is taken over from.
    takes_over: Vec<String>,
    /// True if a person's work meanwhile is overwritten.
    force: bool,
    /// The message when it is done.
    says: String,
}

/// The effect of scrubbing on the entity's paths.
struct Scrubbing {
    /// The current states.
    found: Found,
    /// True if something of a person's would be lost.
    needs_force: bool,
}

/// The maximal number of attempts to make a file by force that is changed by others each time.
const ATTEMPTS: usize = 3;

/// The result of preparing a change.
enum Prepared {
    /// There is nothing more to do.
    Ended(Applied),
    Change(Box<Change>),
}

/// Applies declared files, those that take the same steps together.
pub(crate) fn apply(host: &Host, set: &[Job<'_, DeclaredFile>], answers: &mut dyn SetAnswers) {
    // An overlay that has to go keeps others from the state directory itself.
    let mut ready = Vec::new();
    for (place, job) in set.iter().enumerate() {
        let Some(overlay) = &job.entity.overlay else {
            ready.push(place);
            continue;
        };
        answers.begin(place);
        match overlay.apply(host, job.mode, &mut answers.output(place)) {
            Applied::Changed(_) | Applied::ChangedQuietly(_) | Applied::Unchanged => ready.push(place),
            other => answers.end(place, other),
        }
    }
    let opened = Workshop::open(host).and_then(|workshop| Ok((Tree::open(host.state_dir())?.hold()?, workshop)));
    match opened {
        Ok((_held, workshop)) => workshop.apply(set, &ready, answers),
        Err(obstacle) => {
            for place in ready {
                let applied = obstacle.clone().tell(&mut answers.output(place));
                answers.end(place, applied);
            }
        }
    }
}

impl<'a> Workshop<'a> {
    /// Applies the files at these indices of the set.
    fn apply(&self, set: &[Job<'_, DeclaredFile>], places: &[usize], answers: &mut dyn SetAnswers) {
        let (mut group, mut group_bytes) = (Vec::new(), 0);
        let mut group_ends = Instant::now() + GROUP_TIME;
        // An entity that has a path now takes over from the one that had it.
        let (declared, orphans): (Vec<usize>, Vec<usize>) =
            places.iter().partition(|place| set[**place].entity.definition.is_some());
        for (index, &place) in declared.iter().chain(&orphans).enumerate() {
            let job = &set[place];
            if index == declared.len() {
                self.make_and_tell(std::mem::take(&mut group), answers);
            }
            if job.entity.definition.as_ref().is_some_and(|definition| definition.validate.is_some()) {
                // The program may look at what came before.
                self.make_and_tell(std::mem::take(&mut group), answers);
            }
            match self.prepare(place, job, answers) {
                Ok(Prepared::Change(change)) => {
                    group_bytes += change.bytes.as_ref().map_or(0, Vec::len);
                    group.push(*change);
                }
                Ok(Prepared::Ended(applied)) => answers.end(place, applied),
                Err(obstacle) => {
                    let applied = obstacle.tell(&mut answers.output(place));
                    // Putting back may have come half way.
                    let is_untouched = job.entity.definition.is_some() && job.entity.overlay.is_none();
                    answers.end(place, if is_untouched { applied.with_nothing_changed() } else { applied });
                }
            }
            if group.len() == GROUP_SIZE || group_bytes > GROUP_BYTES || Instant::now() > group_ends {
                self.make_and_tell(std::mem::take(&mut group), answers);
                group_bytes = 0;
                group_ends = Instant::now() + GROUP_TIME;
            }
        }
        self.make_and_tell(group, answers);
    }

    pub(super) fn open(host: &'a Host) -> Result<Workshop<'a>, DeclaredError> {
        let memory = memory(host)?;
        let tracker = Tracker::open(host.locations(), &memory)?;
        Ok(Workshop { host, memory, tracker })
    }

    fn recall(&self, entity: &DeclaredFile) -> Result<Option<Remembered<Tracks>>, DeclaredError> {
        Ok(self.memory.recall(&entity.id())?)
    }

    /// Returns the path that an entity is about, without symlinks in its parents, and its record; if another entity had it before,
    /// that one's record, and its ID.
    fn known(&self, entity: &DeclaredFile, settle: bool) -> Result<Known, DeclaredError> {
        let path = self.tracker.canonical(&entity.path)?;
        let mut remembered =
            self.recall(entity)?.unwrap_or_else(|| Remembered::new(&entity.report(), Tracks::default()));
        if settle {
            self.tracker.settle(&mut remembered)?;
        }
        self.tracker.rename_to_canonical(&mut remembered.base);
        let takes_over = self.tracker.adopt(&mut remembered, [path.clone()])?;
        if !takes_over.is_empty() {
            let other = claims::all(self.host.locations())
                .into_iter()
                .find(|claim| takes_over.contains(&claim.id) && claim.covers(&path));
            if let Some(other) = other {
                return Err(DeclaredError::Never(format!(
                    "{} is made by {} and by {}; one of both has to go",
                    self.shown(&entity.path),
                    claims::Claim::new(&entity.id(), &path, &entity.sources).shown(),
                    other.shown()
                )));
            }
        }
        Ok(Known { path, remembered, takes_over })
    }

    /// Decides what has to be done, if anything.
    fn decide(
        &self,
        known: &mut Known,
        definition: &FileDefinition,
        force: bool,
    ) -> Result<(Decision, Wanted, State), DeclaredError> {
        let current = self.tracker.state(&known.path)?;
        let wanted = wanted::of(definition, &known.path, &current, force, self.host, &self.tracker)?;
        let desired = wanted.desired();
        let track = known.remembered.base.get(&known.path);
        let track =
            track.map(|track| track.seen_as(|made| wanted::as_far_as_declared(definition, made, &current, &desired)));
        let mut decision = tracked::decide(track.as_ref(), &current, &desired);
        // Another entity may have made what goes with a directory, and a person may have changed it.
        let children = || wanted.states.iter().filter(|(path, _)| *path != known.path).map(|(path, _)| path);
        let taken = self.tracker.adopt(&mut known.remembered, children().cloned())?;
        for path in children() {
            if let Some(track) = known.remembered.base.get(path)
                && tracked::decide(Some(track), &self.tracker.state(path)?, &State::Absent) == Decision::NeedsForce
            {
                decision = Decision::NeedsForce;
            }
        }
        known.takes_over.extend(taken);
        Ok((decision, wanted, current))
    }

    /// Finds out what is to be done, and does what comes before it.
    fn prepare(
        &self,
        place: usize,
        job: &Job<'_, DeclaredFile>,
        answers: &mut dyn SetAnswers,
    ) -> Result<Prepared, DeclaredError> {
        let (entity, mode) = (job.entity, job.mode);
        let is_unsettled =
            || self.recall(entity).is_ok_and(|known| known.is_some_and(|known| known.base.are_unsettled()));
        let mut has_begun = entity.overlay.is_some();
        if !has_begun && (entity.definition.is_none() || is_unsettled()) {
            answers.begin(place);
            has_begun = true;
        }
        let Some(definition) = &entity.definition else {
            return self.scrub(entity, mode, &mut answers.output(place)).map(Prepared::Ended);
        };
        let mut known = self.known(entity, true)?;
        let (decision, wanted, current) = self.decide(&mut known, definition, mode.force)?;
        let leftovers = self.leftovers(&known, mode.force)?;
        match decision {
            Decision::Nothing if known.takes_over.is_empty() && leftovers.is_empty() => {
                self.keep_secret(&mut known, definition)?;
                return Ok(Prepared::Ended(Applied::Unchanged));
            }
            Decision::NeedsForce if !mode.force => return Ok(Prepared::Ended(Applied::NeedsForce(ForceTo::Overwrite))),
            Decision::Nothing | Decision::Change | Decision::NeedsForce => {}
        }
        if !has_begun {
            answers.begin(place);
        }
        let desired = wanted.desired();
        if let Some(bytes) = wanted.bytes.as_deref().filter(|_| decision != Decision::Nothing) {
            self.validate(entity, definition, bytes, &mut answers.output(place))?;
        }
        let replaces = current.content().is_some() && current.content() != desired.content();
        if let Some(suffix) = definition.backup.as_deref().filter(|_| replaces) {
            self.back_up(&self.tracker.place(&known.path), suffix)?;
        }
        let mut remembered = Remembered::new(&entity.report(), known.remembered.base);
        if !leftovers.is_empty() {
            let paths: Vec<PathBuf> = leftovers.keys().cloned().collect();
            self.tracker.put_back(&mut remembered, &paths, &leftovers).map_err(obstacle)?;
        }
        let takes_over = known.takes_over;
        if decision == Decision::Nothing {
            let paths = vec![path_change(definition, &known.path, current.clone(), Some(current))];
            let says = String::new();
            let change = Change { place, remembered, paths, bytes: None, takes_over, force: mode.force, says };
            return Ok(Prepared::Change(Box::new(change)));
        }
        let mut found = (!mode.force).then(|| current.clone());
        // A symlink or file cannot become a directory in one step.
        if matches!(desired, State::Directory { .. }) && matches!(current, State::File { .. } | State::Symlink { .. }) {
            let gone = path_change(definition, &known.path, State::Absent, found);
            self.tracker.make(&mut remembered, &[gone]).map_err(obstacle)?;
            found = Some(State::Absent);
        }
        let says = format!("{} {}", change(&current, &desired).1, self.shown(&entity.path));
        let paths = wanted.states.into_iter().map(|(path, state)| {
            let found = found.clone().filter(|_| path == known.path);
            path_change(definition, &path, state, found)
        });
        let paths = paths.collect();
        let change = Change { place, remembered, paths, bytes: wanted.bytes, takes_over, force: mode.force, says };
        Ok(Prepared::Change(Box::new(change)))
    }

    /// Returns the paths that the entity once made and is not about any more, as a symlink on the way leads elsewhere.
    fn leftovers(&self, known: &Known, force: bool) -> Result<Found, DeclaredError> {
        let mut leftovers = Found::new();
        for (path, track) in known.remembered.base.iter().filter(|(path, _)| !path.starts_with(&known.path)) {
            let current = self.tracker.state_of(&known.remembered.base, &path)?;
            if tracked::decide(Some(track), &current, &track.base) == Decision::NeedsForce && !force {
                let shown = self.shown(&path);
                return Err(DeclaredError::NeedsForce(format!("{shown} was made before, and has been changed")));
            }
            leftovers.insert(path, current);
        }
        Ok(leftovers)
    }

    /// Remembers that nobody may see what is in a file that is as it should be.
    fn keep_secret(&self, known: &mut Known, definition: &FileDefinition) -> Result<(), DeclaredError> {
        let is_open = known.remembered.base.get(&known.path).is_some_and(|track| !track.sensitive);
        if definition.sensitive && is_open {
            known.remembered.base.set_sensitive(&known.path, true);
            self.memory.keep(&known.remembered)?;
        }
        Ok(())
    }

    fn make_and_tell(&self, group: Vec<Change>, answers: &mut dyn SetAnswers) {
        for (place, id, takes_over, made) in self.make(group) {
            let mut output = answers.output(place);
            if made.is_ok() {
                for other in takes_over {
                    output.warning(format!("{id} takes over from {other}"));
                }
            }
            let applied = made.unwrap_or_else(|obstacle| obstacle.tell(&mut output));
            answers.end(place, applied);
        }
    }

    /// Makes changes together. If that fails, each is made by itself, so that only the one at fault fails.
    fn make(&self, mut group: Vec<Change>) -> Vec<Made> {
        if group.is_empty() {
            return Vec::new();
        }
        let mut made = self.make_together(&mut group);
        if let [change] = &mut group[..] {
            for _ in 1..ATTEMPTS {
                if !change.force || !matches!(made, Err(Unmanaged::Meanwhile(_))) {
                    break;
                }
                made = self.make_together(std::slice::from_mut(change));
            }
        }
        let is_alone = group.len() == 1;
        match made {
            Err(error) if is_alone => {
                let obstacle = obstacle(error);
                group.into_iter().map(|change| change.ended(Err(obstacle.clone()))).collect()
            }
            Err(_) => group.into_iter().flat_map(|change| self.make(vec![change])).collect(),
            Ok(()) => group.into_iter().map(|change| change.ended(Ok(()))).collect(),
        }
    }

    fn make_together(&self, changes: &mut [Change]) -> Result<(), Unmanaged> {
        self.tracker.keep_many(changes.iter().filter_map(|change| change.bytes.as_deref()))?;
        self.tracker.make_all(changes.iter_mut().map(|change| (&mut change.remembered, &change.paths[..])))
    }

    /// Runs the declared program on the new file.
    fn validate(
        &self,
        entity: &DeclaredFile,
        definition: &FileDefinition,
        bytes: &[u8],
        output: &mut Output<'_>,
    ) -> Result<(), DeclaredError> {
        let Some(command) = &definition.validate else { return Ok(()) };
        // Programs may go by the name, and some by its ending.
        let name = entity.path.file_name().unwrap_or_default();
        let folder = format!("validate-{}", Digest::of_bytes(entity.id().as_bytes()).as_str());
        let place = Tree::open(self.host.cache_dir())?.place(&Path::new(&folder).join(name));
        place.create_folder()?;
        place.create()?.write_all(bytes).map_err(|error| PathError::new("write", place.shown(), error))?;
        let path = place.shown().display().to_string();
        let program = Program::from_words(command.words().iter().map(|word| word.replace("{}", &path)));
        let ended = if definition.sensitive { program.run(|_, _| {}) } else { process::run(&program, output) };
        let removed = place.remove();
        place.remove_empty_folders(Path::new(""));
        removed?;
        match ended?.failure() {
            None => Ok(()),
            Some(failure) => {
                let declared = command.words().join(" ");
                let silence =
                    if definition.sensitive { "; what it says is not shown, as the file is sensitive" } else { "" };
                Err(DeclaredError::Never(format!("validation by `{declared}` failed: {failure}{silence}")))
            }
        }
    }

    /// Keeps the current file beside the new one.
    fn back_up(&self, place: &PathHandle, suffix: &str) -> Result<(), DeclaredError> {
        let state = State::of(place)?;
        self.tracker.keep(place)?;
        let copy = place.with_suffix(suffix);
        let temporary = copy.temporary(".holonew");
        self.tracker.write_copy(&state, &temporary)?;
        Ok(temporary.rename_to(&copy)?)
    }

    pub(super) fn check(&self, entity: &DeclaredFile) -> Result<Verdict, DeclaredError> {
        let shown = self.shown(&entity.path);
        let Some(definition) = &entity.definition else { return self.check_scrubbing(entity) };
        if entity.overlay.is_some() {
            return Ok(Verdict::WouldChange(vec![format!("would write {shown}")]));
        }
        let mut known = self.known(entity, false)?;
        let (decision, wanted, current) = self.decide(&mut known, definition, false)?;
        let leftovers = self.leftovers(&known, false)?;
        let restored = leftovers.keys().map(|path| format!("would restore {}", self.shown(path)));
        let desired = wanted.desired();
        Ok(match decision {
            Decision::Nothing if leftovers.is_empty() => Verdict::InDesiredState,
            Decision::Nothing => Verdict::WouldChange(restored.collect()),
            Decision::NeedsForce => Verdict::NeedsForce(ForceTo::Overwrite),
            Decision::Change => {
                let change = format!("would {} {shown}", change(&current, &desired).0);
                Verdict::WouldChange(restored.chain([change]).collect())
            }
        })
    }

    fn check_scrubbing(&self, entity: &DeclaredFile) -> Result<Verdict, DeclaredError> {
        let Some(known) = self.recall(entity)? else { return Ok(Verdict::InDesiredState) };
        let scrubbing = self.scrubbing(&known.base)?;
        if scrubbing.needs_force {
            return Ok(Verdict::NeedsForce(ForceTo::Overwrite));
        }
        let path = own_path(&known.base, &entity.path);
        let base = known.base.get(&path).map_or(State::Absent, |track| track.base.clone());
        if self.tracker.is_overlaid(&path) {
            return Ok(Verdict::InDesiredState);
        }
        let back = back(&base, scrubbing.found.get(&path).unwrap_or(&State::Absent));
        let what = if back == FORGET { entity.id() } else { self.shown(&entity.path) };
        Ok(Verdict::WouldChange(vec![format!("would {} {what}", back.0)]))
    }

    /// Returns what was made and what is there, where that can be shown by files.
    pub(super) fn difference(&self, entity: &DeclaredFile) -> Option<FilePair> {
        let remembered = self.recall(entity).ok()??;
        let path = own_path(&remembered.base, &entity.path);
        let track = remembered.base.get(&path)?;
        let made = track.made.as_ref()?;
        // There is nothing to read in a directory.
        if track.sensitive || matches!(made, State::Directory { .. }) {
            return None;
        }
        self.tracker.difference(&entity.id(), &path, Some(made)).ok()
    }

    fn scrubbing(&self, tracks: &Tracks) -> Result<Scrubbing, DeclaredError> {
        let mut scrubbing = Scrubbing { found: Found::new(), needs_force: false };
        for (path, track) in tracks.iter().filter(|(path, _)| !self.tracker.is_overlaid(path)) {
            let current = self.tracker.state_of(tracks, &path)?;
            scrubbing.needs_force |= tracked::decide(Some(track), &current, &track.base) == Decision::NeedsForce;
            scrubbing.found.insert(path, current);
        }
        Ok(scrubbing)
    }

    /// Puts an orphan back as it was found.
    fn scrub(&self, entity: &DeclaredFile, mode: Mode<'_>, output: &mut Output<'_>) -> Result<Applied, DeclaredError> {
        let Some(mut remembered) = self.recall(entity)? else { return Ok(Applied::Unchanged) };
        self.tracker.settle(&mut remembered)?;
        let Scrubbing { found, needs_force } = self.scrubbing(&remembered.base)?;
        if needs_force && !mode.force {
            return Ok(Applied::NeedsForce(ForceTo::Overwrite));
        }
        let path = own_path(&remembered.base, &entity.path);
        let base = remembered.base.get(&path).map_or(State::Absent, |track| track.base.clone());
        let before = found.get(&path).cloned().unwrap_or(State::Absent);
        let found = if mode.force { Found::new() } else { found };
        self.tracker.scrub(&mut remembered, &found).map_err(obstacle)?;
        let shown = self.shown(&entity.path);
        let waits = !remembered.base.is_empty();
        if waits && found.is_empty() {
            return Ok(Applied::Unchanged);
        }
        if waits {
            output.warning(format!("{shown} comes back when nothing is laid over it any more"));
        }
        if base == State::Absent && before != State::Absent && self.tracker.state(&path)? != State::Absent {
            return Ok(Applied::Changed(vec![format!("left {shown}, as there is something in it")]));
        }
        let back = back(&base, &before);
        let what = if back == FORGET { entity.id() } else { shown };
        Ok(Applied::Changed(vec![format!("{} {what}", back.1)]))
    }

    fn shown(&self, path: &Path) -> String {
        self.host.below_root(path).display().to_string()
    }
}

/// The path of an entity, with its record.
struct Known {
    path: PathBuf,
    remembered: Remembered<Tracks>,
    /// The entities that had it before.
    takes_over: Vec<String>,
}

/// The result of a change: its index, the entity, the entities it takes over from, and the outcome.
type Made = (usize, String, Vec<String>, Result<Applied, DeclaredError>);

impl Change {
    fn ended(self, made: Result<(), DeclaredError>) -> Made {
        let says = self.says;
        let applied = || if says.is_empty() { Applied::Unchanged } else { Applied::Changed(vec![says]) };
        (self.place, self.remembered.id, self.takes_over, made.map(|()| applied()))
    }
}

fn path_change(definition: &FileDefinition, path: &Path, desired: State, found: Option<State>) -> PathChange {
    let new = PathChange::new(path, desired);
    let attributes_only = definition.content.is_none() && definition.source.is_none();
    PathChange { found, in_place: definition.in_place, attributes_only, sensitive: definition.sensitive, ..new }
}

/// The path of an orphan as it is in its record: the one that is not below another.
fn own_path(tracks: &Tracks, path: &Path) -> PathBuf {
    let first = || tracks.iter().map(|(path, _)| path).next();
    if tracks.get(path).is_some() { path.to_owned() } else { first().unwrap_or_else(|| path.to_owned()) }
}

fn obstacle(error: Unmanaged) -> DeclaredError {
    match error {
        Unmanaged::Meanwhile(_) => DeclaredError::Meanwhile,
        error => DeclaredError::Never(error.to_string()),
    }
}

/// Removes what is not needed any more.
pub(crate) fn tidy(
    host: &Host,
    is_ours: impl Fn(&str) -> bool,
    output: &mut Output<'_>,
) -> holo_change::error::Result<()> {
    let memory = memory(host)?;
    let _held = Tree::open(host.state_dir())?.hold()?;
    Tracker::open(host.locations(), &memory)?.tidy::<Tracks>(is_ours, output)
}

/// Returns the words for a change that would be made, and for one that was made; they go before the path.
fn change(current: &State, desired: &State) -> (String, String) {
    match (current, desired) {
        (_, State::Absent) => ("remove".to_owned(), "removed".to_owned()),
        (State::Absent, _) => ("make".to_owned(), "made".to_owned()),
        _ => match current.differs_by(desired) {
            Some(what) => (format!("change {what} of"), format!("changed {what} of")),
            None => ("write".to_owned(), "wrote".to_owned()),
        },
    }
}

const FORGET: (&str, &str) = ("forget", "forgot");

/// Returns the same words for a path whose base comes back.
fn back(base: &State, current: &State) -> (&'static str, &'static str) {
    match base {
        base if base == current => FORGET,
        State::Absent => ("remove", "removed"),
        _ => ("restore", "restored"),
    }
}
