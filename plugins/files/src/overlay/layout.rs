//! The places of targets, of their images, and of what they are made of.

use crate::overlay::entity::{FileEntity, Resource};
use crate::overlay::evaluation::EvaluationError;
use holo_change::error::Result;
use holo_change::image_store::{ImageStore, path_digest};
use holo_change::tracked::{EditedFiles, Unmanaged};
use holo_change::{PathHandle, Tree};
use holo_plugin::Host;
use std::path::Path;
use std::sync::Arc;

/// The file of the known-unchanged record.
const RECORD: &str = ".unchanged";

/// The directories that the plugin works in, opened.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The targets and their images.
    pub(crate) images: ImageStore,
    edited: EditedFiles,
    /// By the index of the directory.
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

    /// Fails if the target of an entity, which is about to become its base, contains lines of an edit.
    pub(crate) fn reject_edited(&self, entity: &FileEntity) -> std::result::Result<(), EvaluationError> {
        let reject = |error: Unmanaged| EvaluationError(format!("skipping target: {error}"));
        self.edited.reject(&entity.path).map_err(reject)
    }

    /// Has changes made by so many threads.
    pub(crate) fn with_threads(self, threads: usize) -> Layout {
        Layout { images: self.images.with_threads(threads), ..self }
    }

    /// Returns the place of the record of what earlier applies have found to be unchanged.
    pub(crate) fn record(&self) -> PathHandle {
        self.images.state(Path::new(RECORD))
    }

    /// Returns the place of a resource file.
    pub(crate) fn resource(&self, resource: &Resource) -> PathHandle {
        self.resources.get(resource.directory).unwrap_or(&self.cache).place(&resource.path)
    }

    /// Returns the place where the result of a holoscript is written.
    pub(crate) fn script_result(&self, path: &Path, index: usize) -> PathHandle {
        self.cache.place(Path::new(&format!("result-{index}-{}", path_digest(path))))
    }

    /// Forgets the directories that were used last; others may have moved them since.
    pub(crate) fn forget(&self) {
        holo_change::Store::forget_directories(&self.images);
        self.resources.iter().chain([&self.cache]).for_each(|tree| tree.forget());
    }
}
