//! The inputs as they would be after files were installed or removed, such as those of a package.

use super::fingerprint::{Extent, Fingerprint};
use super::inputs::{self, Found, InputError};
use super::pin::give;
use crate::error::IoError;
use crate::host::root::Root;
use holo_change::Kind;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// The number of times that the inputs are copied because they have changed meanwhile.
const ATTEMPTS: u32 = 3;

/// Changes of the inputs that nobody has made yet.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    /// A directory like the root, with inputs that are installed.
    pub with: Option<&'a Path>,
    /// Inputs, and directories of inputs, that are removed.
    pub without: &'a [PathBuf],
}

/// The inputs after changes cannot be determined.
#[derive(Debug, thiserror::Error)]
pub enum FutureError {
    /// An input cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A file cannot be written.
    #[error(transparent)]
    Io(#[from] IoError),
    /// There is nothing to install.
    #[error(
        "--with {}: there are no resource files, configuration or data; it must have directories such as \
         usr/share/holo, like the root",
        .0.display()
    )]
    Nothing(PathBuf),
    /// There is nothing to remove.
    #[error("--without {}: there is no resource file, configuration or data", .0.display())]
    NotThere(PathBuf),
    /// The inputs have changed each time that they were copied.
    #[error("the inputs keep changing while they are read: {} has changed; run holo again when they no longer change", .0.display())]
    KeepChanging(PathBuf),
}

impl Changes<'_> {
    /// Copies the current inputs with these changes to a new directory.
    ///
    /// # Errors
    /// If an input cannot be read, a file cannot be written, or there is nothing to install or remove.
    pub fn lay_out(self, root: &Root, parent: &Path) -> Result<PathBuf, FutureError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let fingerprint = Fingerprint::take(root, Extent::All);
            let directory = parent.join(format!("inputs.{attempt}"));
            copy(&self.inputs(root)?, &directory)?;
            match fingerprint.changed(root) {
                None => return Ok(directory),
                Some(path) if attempt == ATTEMPTS => return Err(FutureError::KeepChanging(path)),
                Some(_) => {}
            }
        }
    }

    /// Returns the future inputs by path below the root, with the paths that they are read from.
    fn inputs(self, root: &Root) -> Result<BTreeMap<PathBuf, (PathBuf, Found)>, FutureError> {
        let all = |root: &Root| -> Result<BTreeMap<PathBuf, (PathBuf, Found)>, InputError> {
            let found = inputs::all(root)?;
            Ok(found.into_iter().map(|found| (found.path.clone(), (root.join(&found.path), found))).collect())
        };
        let mut future = all(root)?;
        for path in self.without {
            let below = path.strip_prefix(root.join("")).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
            let before = future.len();
            future.retain(|path, _| !path.starts_with(below));
            if future.len() == before {
                return Err(FutureError::NotThere(path.clone()));
            }
        }
        if let Some(with) = self.with {
            fs::read_dir(with).map_err(|error| IoError::new("open", with, error))?;
            let new = all(&Root::new(Some(OsString::from(with))))?;
            if new.values().all(|(_, found)| found.kind() == Kind::Directory) {
                return Err(FutureError::Nothing(with.to_owned()));
            }
            for (path, (at, found)) in new {
                if found.kind() != Kind::Directory {
                    future.retain(|below, _| !below.starts_with(&path));
                }
                future.insert(path, (at, found));
            }
        }
        Ok(future)
    }
}

/// Copies inputs to a new directory.
fn copy(inputs: &BTreeMap<PathBuf, (PathBuf, Found)>, directory: &Path) -> Result<(), IoError> {
    let mut directories = Vec::new();
    for (path, (at, found)) in inputs {
        let to = directory.join(path);
        let failed = |error| IoError::new("copy", at, error);
        let parent = to.parent().unwrap_or(directory);
        DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(failed)?;
        match found.kind() {
            Kind::Directory => {
                // Until it gets its mode, its files are private.
                DirBuilder::new().recursive(true).mode(0o700).create(&to).map_err(failed)?;
                directories.push((to, found));
            }
            Kind::Symlink => at.read_link().and_then(|target| symlink(target, &to)).map_err(failed)?,
            Kind::File | Kind::Other => {
                fs::copy(at, &to).and_then(|_| give(&to, found.access())).map_err(failed)?;
            }
        }
    }
    // Set last, as the modes may deny access to ourselves.
    for (path, found) in directories.iter().rev() {
        give(path, found.access()).map_err(|error| IoError::new("chmod", path, error))?;
    }
    Ok(())
}
