//! A view of the files that plugins name: their contents, and the names that users know them by.

use super::Side;
use crate::entities::resources::Resources;
use crate::host::root::Root;
use holo_protocol::{FilePair, Label};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Files as users know them.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The root of the system, which no path can leave.
    pub root: &'a Root,
    /// Maps paths to those that users know.
    pub resources: &'a Resources,
}

impl View<'_> {
    /// Returns the difference between two files, under the names that users know.
    ///
    /// # Errors
    /// If one cannot be read, or is neither a file nor a symlink.
    pub fn difference(self, pair: &FilePair) -> Result<Vec<u8>, super::LoadError> {
        let root = self.root.join("");
        let side = |path: &Path, label: &Option<Label>| -> Result<Side, super::LoadError> {
            let name = match label {
                Some(label) => label.as_bstr().to_owned(),
                None => self.resources.show(path.as_os_str().as_bytes().into()).into_owned(),
            };
            Ok(Side { name, content: super::load(path, &root)? })
        };
        Ok(super::render(&side(&pair.from, &pair.from_label)?, &side(&pair.to, &pair.to_label)?))
    }
}
