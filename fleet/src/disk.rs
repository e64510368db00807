//! Files that are replaced as a whole.

use crate::error::FleetError;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Replaces a file atomically and durably, with this mode. Its directory is created, private if the file is.
pub(crate) fn replace(path: &Path, content: &[u8], mode: u32) -> Result<(), FleetError> {
    let write = || -> std::io::Result<()> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::DirBuilder::new().recursive(true).mode(mode | (mode & 0o444) >> 2).create(directory)?;
        let mut file = tempfile::Builder::new().prefix(".holo-fleet.").tempfile_in(directory)?;
        file.write_all(content)?;
        file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        fs::File::open(directory)?.sync_all()
    };
    write().map_err(|error| FleetError::about(path.display(), error))
}
