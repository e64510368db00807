//! The locations of targets, images, resource files and temporary files.

use crate::overlay::entity::{FileEntity, Resource};
use holo_change::error::{PathError, Result};
use holo_change::image_store::{ImageStore, path_digest};
use holo_change::tracked::{EditedFiles, Unmanaged};
use holo_change::{Content, Image, PathHandle, Tree, Unmanageable};
use holo_plugin::Host;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

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

/// Why the desired image of a target cannot be determined. Contains the complete message.
#[derive(Debug)]
pub(crate) struct EvaluationError(pub(crate) String);

impl From<Unmanageable> for EvaluationError {
    fn from(error: Unmanageable) -> Self {
        EvaluationError(format!("skipping target: {error}"))
    }
}

impl From<PathError> for EvaluationError {
    fn from(error: PathError) -> Self {
        EvaluationError::from(Unmanageable::from(error))
    }
}

/// Returns the content of a file, or `None` for a symlink.
pub(crate) fn read(image: &Image) -> std::result::Result<Option<Vec<u8>>, EvaluationError> {
    let Content::File { place, .. } = &image.content else { return Ok(None) };
    let mut content = Vec::new();
    let read = place.open()?.read_to_end(&mut content);
    read.map_err(|error| PathError::new("read", place.shown(), error))?;
    Ok(Some(content))
}
