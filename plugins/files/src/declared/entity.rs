//! A declared file: how it is reported, checked and applied, and how it becomes again what it was.

use super::definition::{Ensure, FileDefinition};
use super::wanted::{self, Obstacle, Wanted};
use crate::overlay::FileEntity;
use holo_plugin::error::PathError;
use holo_plugin::memory::{Memory, Remembered};
use holo_plugin::process::{self, Program};
use holo_plugin::tracked::{self, Decision, Digest, State, Tracker, Tracks};
use holo_plugin::{Applied, Asset, Entity, EntityReport, FilePair, ForceTo, Host, Mode, Output, Place, Tree, Verdict};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Where everything lies that we know of declared files: version 3 has the rest of the state directory.
const FOLDER: &str = ".declared";

/// A path that is declared, or was.
#[derive(Debug)]
pub(crate) struct DeclaredFile {
    pub(crate) path: PathBuf,
    /// What is declared; nothing of an orphan.
    pub(crate) definition: Option<FileDefinition>,
    /// The overlay that the path had before, and that still has to be taken away.
    pub(crate) overlay: Option<FileEntity>,
    /// What it depended on when it was declared, for an orphan.
    pub(crate) orphan: Option<EntityReport>,
}

/// The records of declared files.
pub(crate) fn memory(host: &Host) -> holo_plugin::error::Result<Memory> {
    Memory::open_in(host, Path::new(FOLDER))
}

/// Everything that is needed to work on a declared file.
struct Workshop<'a> {
    host: &'a Host,
    memory: Memory,
    tracker: Tracker,
}

/// Keeps other applies from working in the state directory.
fn hold(host: &Host) -> Result<OwnedFd, Obstacle> {
    Ok(Tree::open(host.state_dir())?.hold()?)
}

impl Entity for DeclaredFile {
    fn report(&self) -> EntityReport {
        let path = self.path.display().to_string();
        let Some(definition) = &self.definition else {
            return self.orphan.clone().unwrap_or_else(|| EntityReport::new(self.id()));
        };
        let mut report = EntityReport::new(self.id());
        report.inform("with", definition.summary());
        report.edges.provides.push(Asset::new("path", path.as_str()));
        if let Some(parent) = self.path.parent() {
            report.edges.needs.push(Asset::new("path", parent.display().to_string()));
        }
        for (kind, name) in [("user", &definition.owner), ("group", &definition.group)] {
            report.edges.needs.extend(name.iter().map(|name| Asset::new(kind, name.as_str())));
        }
        report.edges.watch.push(path.into());
        report
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        if let Some(overlay) = &self.overlay {
            match overlay.apply(host, mode, output) {
                Applied::Changed(_) | Applied::Unchanged => {}
                other => return other,
            }
        }
        let applied = Workshop::open(host).and_then(|workshop| match &self.definition {
            Some(definition) => workshop.provision(self, definition, mode, output),
            None => workshop.scrub(self, mode),
        });
        match applied {
            Ok(applied) => applied,
            Err(Obstacle::NeedsForce(reason)) => Applied::NeedsForce(ForceTo::Proceed(reason)),
            Err(Obstacle::Never(reason)) => {
                output.error(format!("skipping target: {reason}"));
                Applied::FAILED
            }
        }
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        match Workshop::open(host).and_then(|workshop| workshop.check(self)) {
            Ok(verdict) => verdict,
            Err(Obstacle::NeedsForce(reason)) => Verdict::NeedsForce(ForceTo::Proceed(reason)),
            Err(Obstacle::Never(reason)) => {
                output.error(format!("skipping target: {reason}"));
                Verdict::Failed
            }
        }
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        if self.definition.as_ref().is_some_and(|definition| definition.sensitive) {
            return None;
        }
        let workshop = Workshop::open(host).ok()?;
        let remembered = workshop.memory.recall::<Tracks>(&self.id()).ok()??;
        let made = remembered.base.get(&self.path)?.made.as_ref()?;
        // There is nothing to read in a directory.
        if matches!(made, State::Directory { .. }) {
            return None;
        }
        workshop.tracker.difference(host, &self.path, Some(made)).ok()
    }
}

impl DeclaredFile {
    pub(crate) fn id(&self) -> String {
        format!("file:{}", self.path.display())
    }
}

impl FileDefinition {
    /// What is declared, for people: never a content.
    fn summary(&self) -> String {
        let mut words = vec![
            match self.ensure {
                Ensure::Present => "file",
                Ensure::Absent => "nothing",
                Ensure::Directory => "directory",
                Ensure::Symlink => "symlink",
            }
            .to_owned(),
        ];
        let mut say =
            |key: &str, value: &Option<String>| words.extend(value.iter().map(|value| format!("{key}: {value}")));
        say("to", &self.target);
        say("source", &self.source);
        say("mode", &self.mode);
        say("owner", &self.owner);
        say("group", &self.group);
        words.join(", ")
    }
}

impl<'a> Workshop<'a> {
    fn open(host: &'a Host) -> Result<Workshop<'a>, Obstacle> {
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
        force: bool,
    ) -> Result<(Decision, Wanted, State), Obstacle> {
        let known = self.recall(entity)?;
        let current = self.tracker.state(&entity.path)?;
        let wanted = wanted::of(definition, &current, force, self.host, &self.tracker)?;
        let desired = wanted.states.last().map_or(State::Absent, |(_, state)| state.clone());
        let track = known.as_ref().and_then(|known| known.base.get(&entity.path));
        let track = track.map(|track| track.seen_as(|made| wanted::as_far_as_declared(definition, made, &current)));
        Ok((tracked::decide(track.as_ref(), &current, &desired), wanted, current))
    }

    fn provision(
        &self,
        entity: &DeclaredFile,
        definition: &FileDefinition,
        mode: Mode<'_>,
        output: &mut Output<'_>,
    ) -> Result<Applied, Obstacle> {
        let _held = hold(self.host)?;
        if let Some(mut known) = self.recall(entity)? {
            self.tracker.settle(&mut known)?;
        }
        let (decision, wanted, current) = self.decide(entity, definition, mode.force)?;
        match decision {
            Decision::Nothing => return Ok(Applied::Unchanged),
            Decision::NeedsForce(to) if !mode.force => return Ok(Applied::NeedsForce(to)),
            Decision::Change | Decision::NeedsForce(_) => {}
        }
        let desired = wanted.states.last().map_or(State::Absent, |(_, state)| state.clone());
        if let Some(bytes) = &wanted.bytes {
            self.validate(entity, definition, bytes, output)?;
            self.tracker.keep_bytes(bytes)?;
        }
        let replaces = current.content().is_some() && current.content() != desired.content();
        if let Some(suffix) = definition.backup.as_deref().filter(|_| replaces) {
            self.back_up(&self.tracker.place(&entity.path), suffix)?;
        }
        let mut remembered = match self.recall(entity)? {
            Some(known) => Remembered::new(&entity.report(), known.base),
            None => Remembered::new(&entity.report(), Tracks::default()),
        };
        // A symlink or file cannot become a directory in one step.
        if matches!(desired, State::Directory { .. }) && matches!(current, State::File { .. } | State::Symlink { .. }) {
            self.tracker.make(&mut remembered, &[(entity.path.clone(), State::Absent)])?;
        }
        self.tracker.make(&mut remembered, &wanted.states)?;
        Ok(Applied::Changed(vec![format!("{} {}", done(&current, &desired), self.shown(&entity.path))]))
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

    fn check(&self, entity: &DeclaredFile) -> Result<Verdict, Obstacle> {
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
        let (decision, wanted, current) = self.decide(entity, definition, false)?;
        let desired = wanted.states.last().map_or(State::Absent, |(_, state)| state.clone());
        Ok(match decision {
            Decision::Nothing => Verdict::InDesiredState,
            Decision::NeedsForce(to) => Verdict::NeedsForce(to),
            Decision::Change => Verdict::WouldChange(vec![format!("would {} {shown}", doing(&current, &desired))]),
        })
    }

    /// Puts an orphan back as it was found.
    fn scrub(&self, entity: &DeclaredFile, mode: Mode<'_>) -> Result<Applied, Obstacle> {
        let _held = hold(self.host)?;
        let Some(mut remembered) = self.recall(entity)? else { return Ok(Applied::Unchanged) };
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

/// What was done, in the past tense; it goes before the path.
fn done(current: &State, desired: &State) -> String {
    match (current, desired) {
        (_, State::Absent) => "removed".to_owned(),
        (State::Absent, _) => "made".to_owned(),
        _ => current.differs_by(desired).map_or_else(|| "wrote".to_owned(), |what| format!("changed {what} of")),
    }
}

/// What would be done.
fn doing(current: &State, desired: &State) -> String {
    match (current, desired) {
        (_, State::Absent) => "remove".to_owned(),
        (State::Absent, _) => "make".to_owned(),
        _ => current.differs_by(desired).map_or_else(|| "write".to_owned(), |what| format!("change {what} of")),
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
