//! Records the current inputs as a generation, concurrently with a run, if they differ from those of the last one.

use super::inputs::{self, Access, Found, InputError, Inputs, Node, Places, Today};
use super::pin::Pin;
use super::store::{Generation, GenerationError, Store};
use crate::entities::resources::{Generated, Resources};
use crate::error::IoError;
use crate::host::engine::EngineSettings;
use crate::host::root::Root;
use crate::host::settings::Settings;
use crate::report::{End, Event, Remarks, Reporter};
use bstr::BString;
use holo_change::tracked::{Contents, Digest};
use holo_change::{Kind, PathError};
use holo_protocol::Text;
use holo_state::Input;
use jiff::{Timestamp, Unit};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

/// The access to directories that are only ancestors of inputs, if other users can enter them.
const ON_THE_WAY: Access = Access { mode: 0o755, uid: 0, gid: 0 };
/// The access to generated files, which are private to root during a run too.
const PRIVATE: Access = Access { mode: 0o700, uid: 0, gid: 0 };

/// The inputs to record.
#[derive(Clone, Debug)]
pub struct Request {
    /// The root of the system.
    pub root: Root,
    /// The virtual root with generated files.
    pub virtual_root: PathBuf,
    /// The generated files, each with its generator.
    pub generated: Generated,
}

/// The inputs as read. Their contents are in the state database.
pub struct Reading {
    root: Root,
    store: Store,
    /// The generation, without the ID of its run and the list of omitted files.
    generation: Generation,
    /// The paths of inputs that the last generation has and this one has not.
    removed: Vec<BString>,
    /// The inputs that differ from those of the last generation.
    added: Vec<Input>,
    outside: Vec<PathBuf>,
}

/// The result of reading inputs.
pub enum Recorded {
    /// They equal those of this generation.
    Same(u32),
    /// They must become a new generation.
    New(Box<Reading>),
}

/// The inputs cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// An input cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A file cannot be written.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The generations cannot be read or written.
    #[error(transparent)]
    Generation(#[from] GenerationError),
}

impl From<PathError> for RecordingError {
    fn from(error: PathError) -> RecordingError {
        RecordingError::Generation(error.into())
    }
}

/// Reads all inputs that may have changed, and stores their contents.
///
/// # Errors
/// If an input cannot be read, or a content cannot be written.
pub fn read(request: Request) -> Result<Recorded, RecordingError> {
    let Request { root, virtual_root, generated } = request;
    let store = Store::new(&root);
    let moment = SystemTime::now();
    let places = Places { root, virtual_root };
    let Today { found, outside } = inputs::find(&places, &generated)?;
    store.create().map_err(|error| IoError::new("mkdir", &store.directory, error))?;
    let (last, rows) = store.last()?.map_or((None, Vec::new()), |(last, rows)| (Some(last), rows));
    let stamps: HashMap<&[u8], (&Vec<u8>, &String)> = rows
        .iter()
        .filter_map(|row| Some((row.path.as_slice(), (row.stamp.as_ref()?, row.content.as_ref()?))))
        .collect();
    let contents = store.contents()?;
    let mut digests = Vec::with_capacity(found.len());
    let mut new_stamps = HashMap::new();
    for found in &found {
        let stamp = found.stamp.to_bytes();
        let known = stamps.get(found.path.as_os_str().as_bytes()).filter(|(known, _)| **known == stamp);
        digests.push(match known.and_then(|(_, content)| Digest::try_from((*content).clone()).ok()) {
            Some(digest) => Some(digest),
            None if found.kind() != Kind::File => None,
            None => {
                // A file that has just been changed may change again within the same tick of the clock.
                new_stamps.insert(found.path.clone(), found.stamp.is_settled(moment).then_some(stamp));
                content(found, &places, &contents)?
            }
        });
    }
    contents.flush()?;
    drop(stamps);
    let before: Inputs = rows.iter().filter_map(Node::from_input).collect();
    let inputs = inputs_of(found, digests, &places)?;
    if let Some(number) = last.filter(|_| before == inputs) {
        let stamps = new_stamps.into_iter().map(|(path, stamp)| (path.into_os_string().into_vec().into(), stamp));
        store.database().stamp_inputs(&stamps.collect::<Vec<_>>()).map_err(GenerationError::from)?;
        return Ok(Recorded::Same(number));
    }
    let mut generation = Generation {
        number: store.database().next_generation().map_err(GenerationError::from)?,
        time: now(),
        run: String::new(),
        since: String::new(),
        files: inputs.values().filter(|node| !matches!(node, Node::Directory(_))).count(),
        counts: None,
        differences: Vec::new(),
        generated: generated.iter().map(|(file, generator)| (text(file), text(generator))).collect(),
        not_kept: Vec::new(),
    };
    if !before.is_empty() {
        generation.note_differences(&before, &inputs);
    }
    let removed = rows.into_iter().map(|row| row.path);
    let removed = removed.filter(|path| !inputs.contains_key(Path::new(OsStr::from_bytes(path)))).collect();
    let added = inputs.iter().filter(|(path, node)| before.get(*path) != Some(node));
    let added = added.map(|(path, node)| node.to_input(path, new_stamps.remove(path).flatten()));
    let added = added
        .collect::<serde_json::Result<_>>()
        .map_err(|error| IoError::new("write", &store.directory, error.into()))?;
    Ok(Recorded::New(Box::new(Reading { root: places.root, store, generation, removed, added, outside })))
}

/// Stores the content of a file. Returns its digest; `None` if it no longer exists.
fn content(found: &Found, places: &Places, contents: &Contents) -> Result<Option<Digest>, RecordingError> {
    let at = places.at(&found.path);
    match File::open(&at) {
        Ok(mut file) => Ok(Some(contents.add(&mut file, &at).map_err(GenerationError::from)?)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(source) => Err(InputError { path: at, source }.into()),
    }
}

impl Reading {
    /// Returns the number that the generation will get.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.generation.number
    }

    /// Writes the generation. `since` is the ID of the first run that may have had these inputs, `run` that of the
    /// current run. `elsewhere` are files outside of the inputs that definitions refer to; `keep` is the number of
    /// generations to keep, not counting a pinned one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(self, run: &str, since: &str, elsewhere: &[PathBuf], keep: usize) -> Result<u32, RecordingError> {
        let Reading { root, store, mut generation, removed, added, outside } = self;
        let number = generation.number;
        let not_kept: BTreeSet<&PathBuf> = outside.iter().chain(elsewhere).collect();
        generation.time = now();
        run.clone_into(&mut generation.run);
        since.clone_into(&mut generation.since);
        generation.not_kept = not_kept.into_iter().map(|path| text(path)).collect();
        let value = serde_json::to_string(&generation);
        let value = value.map_err(|error| IoError::new("write", &store.directory, error.into()))?;
        let added = store.database().add_generation(number, &value, &removed, &added);
        added.map_err(GenerationError::from)?;
        store.tidy(keep, Pin::read(&root).ok().flatten().map(|pin| pin.generation))?;
        Ok(number)
    }
}

fn text(path: &Path) -> Text {
    Text::from(path.as_os_str().as_bytes())
}

/// Combines inputs with the digests of files.
pub(super) fn inputs_of(all: Vec<Found>, digests: Vec<Option<Digest>>, places: &Places) -> Result<Inputs, InputError> {
    let mut inputs = Vec::with_capacity(all.len());
    let mut on_the_way = Vec::new();
    // Sorted by path, so that a directory precedes its entries.
    let mut directories: HashSet<PathBuf> = HashSet::new();
    for (found, digest) in all.into_iter().zip(digests) {
        let access = found.access();
        let node = match (found.kind(), digest) {
            (Kind::File, Some(content)) => Node::File { access, content },
            (Kind::Directory, _) => Node::Directory(access),
            (Kind::Symlink, _) => {
                let at = places.at(&found.path);
                match fs::read_link(&at) {
                    Ok(target) => Node::Symlink(target),
                    Err(error) if is_gone(&error) => continue,
                    Err(source) => return Err(InputError { path: at, source }),
                }
            }
            // It has been removed since.
            (Kind::File, None) | (Kind::Other, _) => continue,
        };
        for parent in found.path.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty()) {
            if directories.contains(parent) {
                break;
            }
            directories.insert(parent.to_owned());
            let access =
                if parent == Path::new(inputs::GENERATED) { PRIVATE } else { access_on_the_way(&places.at(parent)) };
            on_the_way.push((parent.to_owned(), Node::Directory(access)));
        }
        if matches!(node, Node::Directory(_)) {
            directories.insert(found.path.clone());
        }
        inputs.push((found.path, node));
    }
    let mut inputs: Inputs = inputs.into_iter().collect();
    inputs.extend(on_the_way);
    Ok(inputs)
}

/// Returns the access to an ancestor of inputs, which is its own if it protects them from other users.
fn access_on_the_way(path: &Path) -> Access {
    match fs::metadata(path) {
        Ok(found) if found.mode() & 0o001 == 0 => {
            Access { mode: found.mode() & 0o7777, uid: found.uid(), gid: found.gid() }
        }
        _ => ON_THE_WAY,
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput)
}

/// Returns the current time, rounded to milliseconds.
fn now() -> Timestamp {
    let now = Timestamp::now();
    now.round(Unit::Millisecond).unwrap_or(now)
}

/// Records the inputs of a run that changes entities.
///
/// A run that is killed after its last change has not recorded its inputs, and the next one may have no work to do.
/// Therefore a marker file states that a run may have changed entities, and the next run records the inputs on its
/// behalf.
pub struct Keeper {
    /// The inputs to record; `None` if history is disabled or the inputs belong to a recorded generation.
    request: Option<Request>,
    store: Store,
    reading: Option<ReadingThread>,
}

type ReadingThread = JoinHandle<Result<Recorded, RecordingError>>;

impl Keeper {
    /// Starts to observe a run that may change entities.
    #[must_use]
    pub fn begin(settings: &Settings, resources: &Resources) -> Keeper {
        let root = &settings.root;
        let request = || Request {
            root: root.clone(),
            virtual_root: resources.virtual_root().to_owned(),
            generated: resources.generated().clone(),
        };
        let keeps = settings.keeps_history && root.inputs().is_none();
        let mut keeper = Keeper { request: keeps.then(request), store: Store::new(root), reading: None };
        if !keeps {
            return keeper;
        }
        if keeper.store.has_unrecorded() {
            keeper.start();
        } else {
            // If this file cannot be written, the generation cannot be either, which is reported when there is one to
            // record.
            let unrecorded = keeper.store.unrecorded();
            let _ = keeper.store.create().and_then(|()| fs::write(unrecorded, settings.run.as_str()));
        }
        keeper
    }

    /// Starts to read the inputs while the run continues.
    fn start(&mut self) {
        if let Some(request) = self.request.take() {
            self.reading = thread::Builder::new().spawn(move || read(request)).ok();
        }
    }

    /// Records the inputs as a generation, if an entity was changed and they differ from the last generation. A failure
    /// is reported, but does not fail the run. `elsewhere` returns files outside of the inputs that definitions refer
    /// to.
    pub fn finish(self, settings: &Settings, elsewhere: impl FnOnce() -> Vec<PathBuf>, reporter: &mut dyn Reporter) {
        match self.keep(settings, elsewhere) {
            Ok(()) => {}
            Err(error) => {
                reporter.warning(format!("Not keeping the inputs of this run: {error}"));
                reporter.end_paragraph();
            }
        }
    }

    fn keep(self, settings: &Settings, elsewhere: impl FnOnce() -> Vec<PathBuf>) -> Result<(), RecordingError> {
        if self.request.is_none() && self.reading.is_none() {
            return Ok(());
        }
        let kept = match self.reading.map(JoinHandle::join) {
            None => None,
            Some(Ok(read)) => match read? {
                Recorded::Same(number) => Some(number),
                Recorded::New(reading) => {
                    let run = settings.run.as_str();
                    let since = fs::read_to_string(self.store.unrecorded()).unwrap_or_default();
                    let since = if since.is_empty() { run } else { &since };
                    let (engine, _) = EngineSettings::read(&settings.root);
                    Some(reading.keep(run, since, &elsewhere(), engine.generations.keep)?)
                }
            },
            // The thread panicked.
            Some(Err(_)) => return Ok(()),
        };
        let _ = fs::remove_file(self.store.unrecorded());
        // Remove the directory if there is no generation.
        if kept.is_none() && fs::remove_dir(&self.store.directory).is_ok() {
            let _ = self.store.directory.parent().map(fs::remove_dir);
        }
        Ok(())
    }

    /// Returns a reporter that watches for changes, and forwards all events.
    pub fn observe<'a>(&'a mut self, reporter: &'a mut dyn Reporter) -> Observer<'a> {
        Observer { keeper: self, reporter }
    }
}

/// Starts a keeper at the first change.
pub struct Observer<'a> {
    keeper: &'a mut Keeper,
    reporter: &'a mut dyn Reporter,
}

impl Reporter for Observer<'_> {
    fn event(&mut self, event: Event<'_>) {
        // A failed entity may have changed before it failed.
        if matches!(event, Event::End(_, End::Changed | End::Failed, _)) {
            self.keeper.start();
        }
        self.reporter.event(event);
    }

    fn is_read(&self) -> bool {
        self.reporter.is_read()
    }
}
