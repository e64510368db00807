//! The locations of targets, images, resource files and temporary files.

use crate::overlay::entity::{FileEntity, Resource};
use crate::overlay::evaluation::EvaluationError;
use holo_change::error::Result;
use holo_change::image_store::{ImageStore, path_digest};
use holo_change::tracked::{EditedFiles, Unmanaged};
use holo_change::{PathHandle, Tree};
use holo_plugin::Host;
use std::path::Path;
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
