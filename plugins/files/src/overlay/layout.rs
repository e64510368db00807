//! The locations of targets, images, resource files and temporary files, and what is opened or computed once for a whole set of overlays.

use crate::overlay::desired::EvaluationError;
use crate::overlay::entity::{FileEntity, Resource};
use crate::overlay::scan;
use crate::overlay::stock::Distribution;
use holo_change::error::{PathError, Result};
use holo_change::image_store::{ImageStore, Recovery, path_digest};
use holo_change::tracked::{EditedFiles, Unmanaged};
use holo_change::{PathHandle, Tree, UnchangedRecord};
use holo_plugin::{Host, Output, Silence};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file name of the record of unchanged files.
const RECORD: &str = ".unchanged";

/// The directories of the plugin, opened.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The targets and their images.
    pub(crate) images: ImageStore,
    edited: EditedFiles,
    /// The resource directories by index.
    resources: Vec<Arc<Tree>>,
    cache: Arc<Tree>,
}

impl Layout {
    pub(crate) fn open(host: &Host) -> Result<Layout> {
        Ok(Layout {
            images: ImageStore::open(host.locations())?,
            edited: EditedFiles::of(host.locations()),
            resources: host.resources().iter().map(Tree::open).collect::<Result<_>>()?,
            cache: Tree::open(host.cache_dir())?,
        })
    }

    /// Checks that the target of an entity, which is about to become its base, contains no lines of an edit.
    ///
    /// # Errors If it does.
    pub(crate) fn reject_edited(&self, entity: &FileEntity) -> std::result::Result<(), EvaluationError> {
        let reject = |error: Unmanaged| EvaluationError(format!("skipping target: {error}"));
        self.edited.reject(&entity.path).map_err(reject)
    }

    /// Sets the number of threads for changes.
    pub(crate) fn with_threads(self, threads: usize) -> Layout {
        Layout { images: self.images.with_threads(threads), ..self }
    }

    /// Returns the handle of the record of unchanged files.
    pub(crate) fn record(&self) -> PathHandle {
        self.images.state(Path::new(RECORD))
    }

    /// Returns the handle of a resource file.
    pub(crate) fn resource(&self, resource: &Resource) -> PathHandle {
        self.resources.get(resource.directory).unwrap_or(&self.cache).place(&resource.path)
    }

    /// Returns the handle of a temporary file for the result of a holoscript.
    pub(crate) fn script_result(&self, path: &Path, index: usize) -> PathHandle {
        self.cache.place(Path::new(&format!("result-{index}-{}", path_digest(path))))
    }

    /// Clears the cache of opened directories, which other processes may have moved.
    pub(crate) fn forget(&self) {
        holo_change::Store::forget_directories(&self.images);
        self.resources.iter().chain([&self.cache]).for_each(|tree| tree.forget());
    }
}

/// The directory with an empty file for each such target, named by the digest of its path.
const FOLDER: &str = ".sensitive";

/// Returns true if the target at a path was sensitive.
pub(crate) fn is_known(host: &Host, path: &Path) -> bool {
    // In case of an error, assume that it was.
    host.state_dir().join(FOLDER).join(path_digest(path)).try_exists().unwrap_or(true)
}

/// Records that the target at a path is sensitive.
pub(crate) fn remember(path: &Path, images: &ImageStore) -> Result<()> {
    let place = place(images, path);
    if place.exists()? {
        return Ok(());
    }
    place.create_folder()?;
    let created = place.create()?;
    let folder = place.shown().parent().map(Path::to_owned).unwrap_or_default();
    let state = folder.parent().unwrap_or(&folder);
    let sync = |folder: &Path| File::open(folder)?.sync_all();
    let synced = created.sync_all().and_then(|()| sync(&folder)).and_then(|()| sync(state));
    synced.map_err(|error| PathError::new("fsync", place.shown(), error))
}

/// Removes the records of those targets that have been restored, and have no base any more.
pub(crate) fn forget<'p>(orphans: impl Iterator<Item = &'p Path>, host: &Host, images: &ImageStore) {
    if fs::symlink_metadata(host.state_dir().join(FOLDER)).is_err() {
        return;
    }
    for path in orphans.filter(|path| images.base(path).exists().is_ok_and(|exists| !exists)) {
        let place = place(images, path);
        // A leftover record does no harm.
        let _ = place.remove();
        place.remove_empty_folders(Path::new(""));
    }
}

fn place(images: &ImageStore, path: &Path) -> PathHandle {
    images.state(&Path::new(FOLDER).join(path_digest(path)))
}

/// Reads the record, unless the user requested to read everything.
pub(crate) fn open(host: &Host, layout: &Layout) -> UnchangedRecord {
    let mut record = UnchangedRecord::open(&layout.record());
    if host.verifies() {
        record.distrust();
    }
    record
}

/// Writes the record of this apply.
pub(crate) fn keep(record: &UnchangedRecord, layout: &Layout) {
    record.keep(&layout.record(), &layout.images.staged("unchanged"));
}

/// Data that is shared by the entities of a set.
pub(crate) struct Context<'a> {
    pub(crate) host: &'a Host,
    pub(crate) layout: Layout,
    pub(crate) distribution: Distribution,
    pub(crate) record: UnchangedRecord,
    pub(super) recovery: Recovery,
    pub(super) threads: usize,
    /// True if a process could write to a base that could not be copied.
    has_shared_bases: bool,
    /// The lock on the state directory, unless the set is only checked.
    _held: Option<OwnedFd>,
}

impl<'a> Context<'a> {
    pub(crate) fn open(host: &'a Host, records: bool) -> Result<Context<'a>> {
        let layout = Layout::open(host)?;
        let held = layout.images.hold()?;
        let recovery = Recovery::begin(&layout.images, host.locations(), || targets(host))?;
        Ok(Context { _held: Some(held), ..Context::new(host, layout, recovery, records) })
    }

    /// Opens the context for a check, which neither recovers nor changes anything.
    pub(crate) fn open_to_look(host: &'a Host, records: bool) -> Result<Context<'a>> {
        let layout = Layout::open(host)?;
        let recovery = Recovery::look(&layout.images)?;
        Ok(Context::new(host, layout, recovery, records))
    }

    fn new(host: &'a Host, layout: Layout, recovery: Recovery, records: bool) -> Context<'a> {
        let distribution = Distribution::of(host.system().os_release());
        let mut record = if records { open(host, &layout) } else { UnchangedRecord::none() };
        if recovery.was_needed() {
            record.distrust();
        }
        let threads = host.jobs();
        let layout = if recovery.was_needed() { layout } else { layout.with_threads(threads) };
        Context { host, threads, layout, distribution, record, recovery, has_shared_bases: false, _held: None }
    }

    /// Returns true if changes may be committed while others are prepared. After a killed apply they must be sequential, because the same
    /// directory may be created for one entity and removed for another.
    pub(crate) fn commits_in_background(&self) -> bool {
        self.threads > 1 && !self.recovery.was_needed()
    }

    /// Replaces bases of these targets that are original files and may still be written to by copies.
    pub(crate) fn separate_bases(&mut self, targets: &mut Vec<PathBuf>) {
        self.has_shared_bases |= !self.layout.images.separate_open_bases(targets);
        targets.clear();
    }

    pub(crate) fn close(&self) {
        keep(&self.record, &self.layout);
        // As long as the directory exists, the next apply checks whether a recovery is needed.
        let images = &self.layout.images;
        let is_in_order = !self.recovery.was_needed() || !images.has_records_without_base(self.host.locations());
        if !self.has_shared_bases && is_in_order {
            self.layout.images.remove_staging_folder();
        }
    }
}

/// Returns the paths of all targets. Errors are left to the apply that follows.
fn targets(host: &Host) -> Vec<PathBuf> {
    let entities = scan::all(host, &mut Output::new(&mut Silence)).unwrap_or_default();
    entities.into_iter().map(|entity| entity.path).collect()
}
