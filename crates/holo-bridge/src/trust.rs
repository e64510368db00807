//! Modules that other users cannot modify: they run with holo's privileges.

pub use holo_plugin::system::TrustError;

use holo_plugin::system::Trust;
use sha2::{Digest, Sha256};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that other users cannot modify, with its state when it was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trusted {
    path: PathBuf,
    stamp: Stamp,
    digest: String,
}

/// The metadata that changes with the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    owner: u32,
    mode: u32,
}

impl Stamp {
    fn new(metadata: &Metadata) -> Stamp {
        Stamp {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            owner: metadata.uid(),
            mode: metadata.mode(),
        }
    }
}

impl Trusted {
    /// Checks a file and all directories above it, on every symlinked path to it, but not above `root`. The file is
    /// opened once, so that the digest is that of the checked file.
    ///
    /// # Errors
    /// If other users may modify it, or it cannot be read.
    pub fn examine(path: &Path, root: &Path) -> Result<Trusted, TrustError> {
        let mut file = Trust::new(root).open(path)?;
        let stamp = Stamp::new(&file.metadata()?);
        Ok(Trusted { path: path.to_owned(), stamp, digest: digest_of(&mut file)? })
    }

    /// Returns true if the file has been replaced or modified since the check.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        fs::metadata(&self.path).map_or(true, |metadata| Stamp::new(&metadata) != self.stamp)
    }

    /// Returns the digest of its content.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

fn digest_of(file: &mut File) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(holo_change::hex(&hasher.finalize())),
            length => hasher.update(buffer.get(..length).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests;
