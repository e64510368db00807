//! The cache directory, which lives as long as the run.

use super::root::normalise;
use crate::error::FatalError;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

/// Name of the file, in the cache directory, with the values that entities had in the state that is being restored.
pub const KEPT: &str = "kept";
/// Name of the file, in the cache directory, with the values that entities have sent.
pub const VALUES: &str = "values";
/// Name of the file, in the cache directory, with the facts of the run.
pub const FACTS: &str = "facts.json";

const ATTEMPTS: u32 = 1000;

/// The run's own temporary directory; removed on drop.
#[derive(Debug)]
pub struct CacheDirectory(PathBuf);

/// Every name that was tried for a cache directory is taken.
#[derive(Debug, thiserror::Error)]
#[error("cannot create cache directory below {}", .0.display())]
struct NoNameError(PathBuf);

impl CacheDirectory {
    /// Creates a new directory named `holo.` and nine digits.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(temporary_directory: &Path) -> Result<CacheDirectory, FatalError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = now.as_secs() ^ (u64::from(now.subsec_nanos()) << 10) ^ (u64::from(std::process::id()) << 32);
        for attempt in 0..ATTEMPTS {
            let digits = scramble(seed.wrapping_add(u64::from(attempt))) % 1_000_000_000;
            let path = normalise(&temporary_directory.join(format!("holo.{digits:09}")));
            // Accessible only to our user: plugins may put copies of private files there.
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(CacheDirectory(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(FatalError::io("cannot create cache directory: mkdir", &path, error)),
            }
        }
        Err(FatalError::could_not_run(NoNameError(temporary_directory.to_owned())))
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the directory of generated resource files, the virtual resource root.
    #[must_use]
    pub fn generated_resources(&self) -> PathBuf {
        self.0.join("generated-resources")
    }

    /// Returns the path of the run's facts, which exists once a program has requested them.
    #[must_use]
    pub fn facts(&self) -> PathBuf {
        self.0.join(FACTS)
    }

    /// Returns the directory of [substitutes](Self::state_substitute) for state directories.
    #[must_use]
    pub fn state_substitutes(&self) -> PathBuf {
        self.0.join(".state")
    }

    /// Creates an empty directory for a plugin whose state directory is missing or unreadable. Plugins find the state
    /// database next to it, as they do next to a state directory.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn state_substitute(&self, plugin_id: &str, database: &Path) -> Result<PathBuf, FatalError> {
        let path = self.subdirectory(&format!(".state/{plugin_id}"))?;
        let link = self.state_substitutes().join(database.file_name().unwrap_or_default());
        match std::path::absolute(database).and_then(|database| symlink(database, &link)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(FatalError::io("symlink", &link, error)),
            _ => Ok(path),
        }
    }

    /// Creates a subdirectory.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn subdirectory(&self, name: &str) -> Result<PathBuf, FatalError> {
        let path = self.0.join(name);
        fs::create_dir_all(&path).map_err(|error| FatalError::io("mkdir", &path, error))?;
        Ok(path)
    }
}

/// Returns the cache directories of all runs, with their modification times.
#[must_use]
pub fn all(temporary_directory: &Path) -> Vec<(PathBuf, SystemTime)> {
    let is_ours = |name: &str| {
        name.strip_prefix("holo.").is_some_and(|digits| digits.len() == 9 && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let entries = fs::read_dir(temporary_directory).into_iter().flatten().filter_map(Result::ok);
    let ours = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours));
    let mut found: Vec<_> =
        ours.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.modified().ok()?))).collect();
    found.sort();
    found
}

/// Mixes the bits of a number, so that two runs that start together rarely try the same name.
fn scramble(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Drop for CacheDirectory {
    fn drop(&mut self) {
        // A plugin may have left a directory without permissions behind; remove what can be removed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_directory_is_removed_on_drop() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheDirectory::create(folder.path()).unwrap();
        let other = CacheDirectory::create(folder.path()).unwrap();
        assert_ne!(cache.path(), other.path());
        let name = cache.path().file_name().unwrap().to_str().unwrap().to_owned();
        assert!(name.strip_prefix("holo.").unwrap().chars().all(|digit| digit.is_ascii_digit()), "{name}");
        fs::write(cache.subdirectory("files").unwrap().join("x"), "x").unwrap();
        drop((cache, other));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn uncreatable_cache_directory_is_an_error_with_its_path() {
        let message = CacheDirectory::create(Path::new("/nowhere/./at/all")).unwrap_err().to_string();
        assert!(message.starts_with("cannot create cache directory: mkdir /nowhere/at/all/holo."), "{message}");
        assert!(message.ends_with(": no such file or directory"), "{message}");
    }
}
