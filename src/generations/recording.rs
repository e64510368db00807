//! Records the current inputs as a generation, concurrently with a run, if they differ from those of the last one.

use super::generation::{Generation, VERSION};
use super::inputs::{self, Found, InputError, Places, Today};
use super::pack::Writer;
use super::pin::Pin;
use super::stamps::{self, Stamps};
use super::store::{GenerationError, Store, contents_of, sync_directory_of};
use super::tree::{self, Access, Digest, Hasher, Inputs, Node};
use crate::entities::resources::{Generated, Resources};
use crate::error::IoError;
use crate::history::retention::Retention;
use crate::host::root::Root;
use crate::host::settings::Settings;
use crate::report::{End, Event, Remarks, Reporter};
use holo_change::Kind;
use holo_protocol::Text;
use jiff::{Timestamp, Unit};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

/// The size, in bytes, from which files are not held in memory as a whole.
const LARGE: u64 = 1 << 20;
/// The access to directories that are only ancestors of inputs.
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

/// The inputs as read, with a pack of the new objects.
pub struct Reading {
    root: Root,
    store: Store,
    /// The generation, without the ID of its run and the list of omitted files.
    generation: Generation,
    stamps: Option<stamps::Finished>,
    writer: Writer,
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
    /// The existing generations cannot be read.
    #[error(transparent)]
    Generation(#[from] GenerationError),
}

/// Reads all inputs that may have changed, and adds new objects to a pack.
///
/// # Errors
/// If an input cannot be read, or the pack cannot be written.
pub fn read(request: Request) -> Result<Recorded, RecordingError> {
    let Request { root, virtual_root, generated } = request;
    let store = Store::new(&root);
    let moment = SystemTime::now();
    let places = Places { root, virtual_root };
    let Today { found, outside } = inputs::find(&places, &generated)?;
    let stamps = Stamps::read(&store.stamps());
    let last = store.numbers()?.last().copied();
    if let Some(last) = last.filter(|_| stamps.is_of(&found)) {
        return Ok(Recorded::Same(last));
    }
    let failed = |error| IoError::new("write", &store.unfinished(), error);
    store.create().map_err(|error| IoError::new("mkdir", &store.directory, error))?;
    let known = store.known()?;
    let mut packing = Packing {
        path: store.unfinished(),
        writer: Writer::create(&store.unfinished()).map_err(failed)?,
        places: &places,
        known: &known,
        own: HashSet::new(),
    };
    let mut digests = stamps.known(&found);
    drop(stamps);
    for (digest, found) in digests.iter_mut().zip(&found) {
        // An object whose pack is missing or damaged is read again.
        let kept = digest.filter(|digest| known.contains_key(digest));
        *digest = packing.content(found, kept)?;
    }
    // A directory whose bytes equal the content of a file is stored separately.
    packing.own = HashSet::new();
    // Stamps are useful only with the pack, and are rebuilt if missing.
    let stamps = stamps::Unfinished::begin(&store.stamps(), &found, &digests, moment);
    let inputs = inputs_of(found, digests, &places)?;
    let mut trees = HashSet::new();
    let tree = tree::write(&inputs, |digest, bytes| {
        trees.insert(digest);
        packing.directory(digest, bytes)
    })?;
    let stamps = stamps.and_then(|stamps| stamps.finish(tree)).ok();
    let writer = packing.writer;
    let last = last.and_then(|last| store.generation(last).ok());
    if let Some(Generation { number, .. }) = last.filter(|last| last.tree == tree) {
        drop(writer);
        let _ = fs::remove_file(store.unfinished());
        let _ = stamps.map(stamps::Finished::take_place);
        return Ok(Recorded::Same(number));
    }
    let packs = trees.iter().copied().chain(contents_of(&inputs)).filter_map(|digest| known.get(&digest).copied());
    let packs: BTreeSet<u32> = packs.collect();
    let mut generation = Generation {
        version: VERSION,
        number: store.next_number()?,
        time: now(),
        run: String::new(),
        since: String::new(),
        tree,
        packs: packs.into_iter().collect(),
        files: inputs.values().filter(|node| !matches!(node, Node::Directory(_))).count(),
        counts: None,
        differences: Vec::new(),
        generated: generated.iter().map(|(file, generator)| (text(file), text(generator))).collect(),
        not_kept: Vec::new(),
    };
    if let Some((_, before)) = store.last()? {
        generation.note_differences(&before, &inputs);
    }
    Ok(Recorded::New(Box::new(Reading { root: places.root, store, generation, stamps, writer, outside })))
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
        let Reading { root, store, mut generation, stamps, writer, outside } = self;
        let number = generation.number;
        let not_kept: BTreeSet<&PathBuf> = outside.iter().chain(elsewhere).collect();
        generation.time = now();
        run.clone_into(&mut generation.run);
        since.clone_into(&mut generation.since);
        generation.not_kept = not_kept.into_iter().map(|path| text(path)).collect();
        let (unfinished, pack) = (store.unfinished(), store.pack(number));
        let failed = |error| IoError::new("write", &pack, error);
        writer.finish(generation).map_err(failed)?;
        fs::rename(unfinished, &pack).and_then(|()| sync_directory_of(&pack)).map_err(failed)?;
        let _ = stamps.map(stamps::Finished::take_place);
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
            let access = if parent == Path::new(inputs::GENERATED) { PRIVATE } else { ON_THE_WAY };
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

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput)
}

/// A pack that receives the objects that no other pack has.
struct Packing<'a> {
    path: PathBuf,
    writer: Writer,
    places: &'a Places,
    known: &'a HashMap<Digest, u32>,
    own: HashSet<Digest>,
}

impl Packing<'_> {
    /// Adds an input, whose digest may be known. Returns the digest if it is a file that still exists.
    fn content(&mut self, found: &Found, digest: Option<Digest>) -> Result<Option<Digest>, RecordingError> {
        if digest.is_some() || found.kind() != Kind::File {
            return Ok(digest);
        }
        let at = self.places.at(&found.path);
        let failed = |source| RecordingError::Input(InputError { path: at.clone(), source });
        let read = (|| {
            let mut file = File::open(&at)?;
            let size = found.stamp.stat().size;
            if size < LARGE {
                let content = small_content(&mut file, size)?;
                return Ok((Digest::new(&content), Some(content)));
            }
            let mut hasher = Hasher::default();
            io::copy(&mut file, &mut hasher)?;
            Ok((hasher.finish(), None))
        })();
        let (digest, content) = match read {
            Ok(read) => read,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if self.known.contains_key(&digest) || !self.own.insert(digest) {
            return Ok(Some(digest));
        }
        let added = match content {
            Some(content) => self.writer.add(digest, &content),
            None => self.writer.add_from(digest, File::open(&at).map_err(failed)?),
        };
        added.map_err(|error| self.not_written(error))?;
        Ok(Some(digest))
    }

    fn directory(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), RecordingError> {
        if !self.known.contains_key(&digest) && self.own.insert(digest) {
            self.writer.add_directory(digest, bytes).map_err(|error| self.not_written(error))?;
        }
        Ok(())
    }

    fn not_written(&self, error: io::Error) -> RecordingError {
        RecordingError::Io(IoError::new("write", &self.path, error))
    }
}

/// Reads a small file. Its size has rarely changed since it was determined, so one call usually suffices.
fn small_content(file: &mut File, size: u64) -> io::Result<Vec<u8>> {
    let size = usize::try_from(size).unwrap_or_default();
    let mut content = vec![0; size + 1];
    let read = file.read(&mut content)?;
    content.truncate(read);
    if read > size || (read < size && read > 0) {
        file.read_to_end(&mut content)?;
    }
    Ok(content)
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
        if keeper.store.unrecorded().exists() {
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
                    let (retention, _) = Retention::read(&settings.root);
                    Some(reading.keep(run, since, &elsewhere(), retention.generations.keep)?)
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
