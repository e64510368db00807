//! Copies resource files, for plugins that support a single directory.

use crate::error::FatalError;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use walkdir::DirEntry;

/// Copies an entry of a resource directory.
pub(super) fn copy(entry: &DirEntry, to: &Path) -> Result<(), FatalError> {
    let from = entry.path();
    let kind = entry.file_type();
    let copied = if kind.is_dir() {
        fs::create_dir_all(to)
    } else if kind.is_symlink() {
        fs::read_link(from).and_then(|target| symlink(target, to))
    } else if kind.is_file() {
        // The plugin reads the copy as the same user as we.
        fs::copy(from, to).and_then(|_| {
            let executable = from.metadata()?.permissions().mode() & 0o100;
            fs::set_permissions(to, Permissions::from_mode(0o600 | executable))
        })
    } else {
        // FIFOs and devices are never resources.
        Ok(())
    };
    copied.map_err(|error| FatalError::io("copy", from, error))
}
