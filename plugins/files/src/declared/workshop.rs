//! Where declared files are worked on: how they become what they shall be, many together, and how they become again what they were.

use super::definition::FileDefinition;
use super::entity::DeclaredFile;
use super::wanted::{self, Obstacle, Wanted};
use crate::overlay::{GROUP_SIZE, GROUP_TIME};
use holo_plugin::error::PathError;
use holo_plugin::memory::{Memory, Remembered};
use holo_plugin::process::{self, Program};
use holo_plugin::tracked::{self, Decision, Digest, State, Tracker, Tracks};
use holo_plugin::{Applied, Entity, FilePair, ForceTo, Host, Job, Mode, Output, Place, SetAnswers, Tree, Verdict};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// Where everything lies that we know of declared files: version 3 has the rest of the state directory.
const FOLDER: &str = ".declared";

/// The records of declared files.
pub(crate) fn memory(host: &Host) -> holo_plugin::error::Result<Memory> {
    Memory::open_in(host, Path::new(FOLDER))
}

/// From how many bytes on the contents of a group are no longer gathered in memory.
const GROUP_BYTES: usize = 16 << 20;

/// Everything that is needed to work on a declared file.
pub(super) struct Workshop<'a> {
    host: &'a Host,
    memory: Memory,
    tracker: Tracker,
}

/// What is to be done for a file.
struct Change {
    /// The place of the entity in its set.
    place: usize,
    remembered: Remembered<Tracks>,
    wanted: Wanted,
    /// What is said when it is done.
    says: String,
}

/// How far preparing has come.
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
            Applied::Changed(_) | Applied::Unchanged => ready.push(place),
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
    /// Applies the files at these places of the set.
    fn apply(&self, set: &[Job<'_, DeclaredFile>], places: &[usize], answers: &mut dyn SetAnswers) {
        let (mut group, mut group_bytes) = (Vec::new(), 0);
        let mut group_ends = Instant::now() + GROUP_TIME;
        for &place in places {
            let job = &set[place];
            if job.entity.definition.as_ref().is_some_and(|definition| definition.validate.is_some()) {
                // The program may look at what came before.
                self.make_and_tell(std::mem::take(&mut group), answers);
            }
            match self.prepare(place, job, answers) {
                Ok(Prepared::Change(change)) => {
                    group_bytes += change.wanted.bytes.as_ref().map_or(0, Vec::len);
                    group.push(*change);
                }
                Ok(Prepared::Ended(applied)) => answers.end(place, applied),
                Err(obstacle) => {
                    let applied = obstacle.tell(&mut answers.output(place));
                    answers.end(place, applied);
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

    pub(super) fn open(host: &'a Host) -> Result<Workshop<'a>, Obstacle> {
        let memory = memory(host)?;
        let tracker = Tracker::open(host, &memory)?;
        Ok(Workshop { host, memory, tracker })
    }

    fn recall(&self, entity: &DeclaredFile) -> Result<Option<Remembered<Tracks>>, Obstacle> {
        Ok(self.memory.recall(&entity.id())?)
    }

    /// What has to be done, if anything.
    fn decide(
        &self,
        entity: &DeclaredFile,
        definition: &FileDefinition,
        known: Option<&Remembered<Tracks>>,
        force: bool,
    ) -> Result<(Decision, Wanted, State), Obstacle> {
        let current = self.tracker.state(&entity.path)?;
        let wanted = wanted::of(definition, &current, force, self.host, &self.tracker)?;
        let desired = wanted.desired();
        let track = known.and_then(|known| known.base.get(&entity.path));
        let track = track.map(|track| track.seen_as(|made| wanted::as_far_as_declared(definition, made, &current)));
        Ok((tracked::decide(track.as_ref(), &current, &desired), wanted, current))
    }

    /// Finds out what is to be done, and does what comes before it.
    fn prepare(
        &self,
        place: usize,
        job: &Job<'_, DeclaredFile>,
        answers: &mut dyn SetAnswers,
    ) -> Result<Prepared, Obstacle> {
        let (entity, mode) = (job.entity, job.mode);
        let mut known = self.recall(entity)?;
        let is_unsettled = known.as_ref().is_some_and(|known| known.base.are_unsettled());
        let mut has_begun = entity.overlay.is_some();
        if !has_begun && (entity.definition.is_none() || is_unsettled) {
            answers.begin(place);
            has_begun = true;
        }
        let Some(definition) = &entity.definition else { return self.scrub(entity, known, mode).map(Prepared::Ended) };
        if let Some(known) = &mut known {
            self.tracker.settle(known)?;
        }
        let (decision, wanted, current) = self.decide(entity, definition, known.as_ref(), mode.force)?;
        match decision {
            Decision::Nothing => return Ok(Prepared::Ended(Applied::Unchanged)),
            Decision::NeedsForce(to) if !mode.force => return Ok(Prepared::Ended(Applied::NeedsForce(to))),
            Decision::Change | Decision::NeedsForce(_) => {}
        }
        if !has_begun {
            answers.begin(place);
        }
        let desired = wanted.desired();
        if let Some(bytes) = &wanted.bytes {
            self.validate(entity, definition, bytes, &mut answers.output(place))?;
        }
        let replaces = current.content().is_some() && current.content() != desired.content();
        if let Some(suffix) = definition.backup.as_deref().filter(|_| replaces) {
            self.back_up(&self.tracker.place(&entity.path), suffix)?;
        }
        let tracks = known.map(|known| known.base).unwrap_or_default();
        let mut remembered = Remembered::new(&entity.report(), tracks);
        // A symlink or file cannot become a directory in one step.
        if matches!(desired, State::Directory { .. }) && matches!(current, State::File { .. } | State::Symlink { .. }) {
            self.tracker.make(&mut remembered, &[(entity.path.clone(), State::Absent)])?;
        }
        let says = format!("{} {}", change(&current, &desired).1, self.shown(&entity.path));
        Ok(Prepared::Change(Box::new(Change { place, remembered, wanted, says })))
    }

    fn make_and_tell(&self, group: Vec<Change>, answers: &mut dyn SetAnswers) {
        for (place, made) in self.make(group) {
            let applied = made.unwrap_or_else(|obstacle| obstacle.tell(&mut answers.output(place)));
            answers.end(place, applied);
        }
    }

    /// Makes changes together. If that fails, each is made by itself, so that only the one to blame fails.
    fn make(&self, mut group: Vec<Change>) -> Vec<(usize, Result<Applied, Obstacle>)> {
        if group.is_empty() {
            return Vec::new();
        }
        match (self.make_together(&mut group), &group[..]) {
            (Err(obstacle), [change]) => vec![(change.place, Err(obstacle))],
            (Err(_), _) => group.into_iter().flat_map(|change| self.make(vec![change])).collect(),
            (Ok(()), _) => {
                group.into_iter().map(|change| (change.place, Ok(Applied::Changed(vec![change.says])))).collect()
            }
        }
    }

    fn make_together(&self, changes: &mut [Change]) -> Result<(), Obstacle> {
        self.tracker.keep_many(changes.iter().filter_map(|change| change.wanted.bytes.as_deref()))?;
        Ok(self
            .tracker
            .make_all(changes.iter_mut().map(|change| (&mut change.remembered, &change.wanted.states[..])))?)
    }

    /// Lets the declared program look at what the file is going to be.
    fn validate(
        &self,
        entity: &DeclaredFile,
        definition: &FileDefinition,
        bytes: &[u8],
        output: &mut Output<'_>,
    ) -> Result<(), Obstacle> {
        let Some(command) = &definition.validate else { return Ok(()) };
        // Programs may go by the name, and some by its ending.
        let name = entity.path.file_name().unwrap_or_default();
        let folder = format!("validate-{}", Digest::of_bytes(entity.id().as_bytes()).as_str());
        let place = Tree::open(self.host.cache_dir())?.place(&Path::new(&folder).join(name));
        place.create_folder()?;
        place.create()?.write_all(bytes).map_err(|error| PathError::new("write", place.shown(), error))?;
        let path = place.shown().display().to_string();
        let mut words = command.words().iter().map(|word| word.replace("{}", &path));
        let mut program = Program::new(words.next().unwrap_or_default());
        program.args(words);
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
                Err(Obstacle::Never(format!("validation by `{declared}` failed: {failure}{silence}")))
            }
        }
    }

    /// Keeps what is there beside it.
    fn back_up(&self, place: &Place, suffix: &str) -> Result<(), Obstacle> {
        let state = State::of(place)?;
        self.tracker.keep(place)?;
        let copy = place.with_suffix(suffix);
        let temporary = copy.temporary(".holonew");
        self.tracker.write_copy(&state, &temporary)?;
        Ok(temporary.rename_to(&copy)?)
    }

    pub(super) fn check(&self, entity: &DeclaredFile) -> Result<Verdict, Obstacle> {
        let shown = self.shown(&entity.path);
        let Some(definition) = &entity.definition else {
            let base = self.recall(entity)?.and_then(|known| Some(known.base.get(&entity.path)?.base.clone()));
            let back = back(&base.unwrap_or(State::Absent), &self.tracker.state(&entity.path)?);
            let what = if back == FORGET { entity.id() } else { shown };
            return Ok(Verdict::WouldChange(vec![format!("would {} {what}", back.0)]));
        };
        if entity.overlay.is_some() {
            return Ok(Verdict::WouldChange(vec![format!("would write {shown}")]));
        }
        let known = self.recall(entity)?;
        let (decision, wanted, current) = self.decide(entity, definition, known.as_ref(), false)?;
        let desired = wanted.desired();
        Ok(match decision {
            Decision::Nothing => Verdict::InDesiredState,
            Decision::NeedsForce(to) => Verdict::NeedsForce(to),
            Decision::Change => Verdict::WouldChange(vec![format!("would {} {shown}", change(&current, &desired).0)]),
        })
    }

    /// What was made and what is there, where that can be shown by files.
    pub(super) fn difference(&self, entity: &DeclaredFile) -> Option<FilePair> {
        let remembered = self.recall(entity).ok()??;
        let made = remembered.base.get(&entity.path)?.made.as_ref()?;
        // There is nothing to read in a directory.
        if matches!(made, State::Directory { .. }) {
            return None;
        }
        self.tracker.difference(self.host, &entity.path, Some(made)).ok()
    }

    /// Puts an orphan back as it was found.
    fn scrub(
        &self,
        entity: &DeclaredFile,
        known: Option<Remembered<Tracks>>,
        mode: Mode<'_>,
    ) -> Result<Applied, Obstacle> {
        let Some(mut remembered) = known else { return Ok(Applied::Unchanged) };
        self.tracker.settle(&mut remembered)?;
        for (path, track) in remembered.base.iter() {
            let current = self.tracker.state(&path)?;
            let is_ours =
                tracked::decide(Some(track), &current, &track.base) != Decision::NeedsForce(ForceTo::Overwrite);
            if !is_ours && !mode.force {
                return Ok(Applied::NeedsForce(ForceTo::Overwrite));
            }
        }
        let base = remembered.base.get(&entity.path).map_or(State::Absent, |track| track.base.clone());
        let back = back(&base, &self.tracker.state(&entity.path)?);
        self.tracker.scrub(&mut remembered)?;
        let what = if back == FORGET { entity.id() } else { self.shown(&entity.path) };
        Ok(Applied::Changed(vec![format!("{} {what}", back.1)]))
    }

    fn shown(&self, path: &Path) -> String {
        self.host.below_root(path).display().to_string()
    }
}

/// Removes what is not needed any more.
pub(crate) fn tidy(
    host: &Host,
    is_ours: impl Fn(&str) -> bool,
    output: &mut Output<'_>,
) -> holo_plugin::error::Result<()> {
    let memory = memory(host)?;
    let _held = Tree::open(host.state_dir())?.hold()?;
    Tracker::open(host, &memory)?.tidy::<Tracks>(is_ours, output)
}

/// What would be done, and was done; it goes before the path.
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

/// What would be done, and was done, to something that becomes again what it was.
fn back(base: &State, current: &State) -> (&'static str, &'static str) {
    match base {
        base if base == current => FORGET,
        State::Absent => ("remove", "removed"),
        _ => ("restore", "restored"),
    }
}
