//! Digests that are stored for later runs, in a file of the state directory.

use holo_change::error::{PathError, Result};
use holo_change::hex;
use holo_change::{OnDisk, PathHandle, Tree};
use holo_plugin::Host;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The directory with the state directories of all plugins, below the root.
const STATES: &str = "/var/lib/holo";

/// Digests by name. Each line of the file contains a digest and a name; the last line for a name is used.
#[derive(Debug)]
pub struct DigestStore {
    file: &'static str,
    known: Mutex<Option<Known>>,
}

/// The content of the file.
#[derive(Debug)]
struct Known {
    place: PathHandle,
    digests: BTreeMap<String, String>,
    lines: usize,
}

impl DigestStore {
    /// Creates a store with this file, which is read on first use.
    #[must_use]
    pub fn new(file: &'static str) -> DigestStore {
        DigestStore { file, known: Mutex::new(None) }
    }

    /// Creates the store for changes that test mode only claims to have made, by entity ID, with digests of the
    /// definitions. The next apply considers them made.
    #[must_use]
    pub fn for_mocks() -> DigestStore {
        DigestStore::new(".mocked")
    }

    /// Returns true if this digest is stored for the name.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn is_known(&self, host: &Host, name: &str, digest: &str) -> std::result::Result<bool, String> {
        self.with(host, |known| Ok(known.digests.get(name).is_some_and(|known| known == digest)))
    }

    /// Stores the digest of a name.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note(&self, host: &Host, name: &str, digest: &str) -> std::result::Result<(), String> {
        self.with(host, |known| known.note(name, digest))
    }

    /// Stores the digest of a name for later runs, even if this one is read-only and there is no state directory yet:
    /// the dispatcher then provides a temporary one, which does not persist.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note_for_good(&self, host: &Host, name: &str, digest: &str) -> std::result::Result<(), String> {
        self.note(host, name, digest)?;
        let states = host.below_root(Path::new(STATES));
        let lasting = host.state_dir().file_name().map(|id| states.join(id));
        let Some(lasting) = lasting.filter(|_| host.only_reads() && !host.state_dir().starts_with(&states)) else {
            return Ok(());
        };
        // As the dispatcher creates them: only their owner can enter the directory of all state.
        let made = states.parent().map_or(Ok(()), fs::create_dir_all);
        let made = made.and_then(|()| DirBuilder::new().recursive(true).mode(0o700).create(&states));
        let made = made.and_then(|()| fs::create_dir_all(&lasting));
        let made = made.map_err(|error| PathError::new("mkdir", &lasting, error));
        let noted = made.and_then(|()| Known::read(&lasting, self.file)?.note(name, digest));
        noted.map_err(|error| error.to_string())
    }

    /// Removes a name.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn forget(&self, host: &Host, name: &str) -> std::result::Result<(), String> {
        self.with(host, |known| if known.digests.remove(name).is_some() { known.write() } else { Ok(()) })
    }

    fn with<T>(&self, host: &Host, work: impl FnOnce(&mut Known) -> Result<T>) -> std::result::Result<T, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match &mut *known {
            Some(known) => known,
            empty => empty.insert(Known::read(host.state_dir(), self.file).map_err(|error| error.to_string())?),
        };
        work(known).map_err(|error| error.to_string())
    }
}

impl Known {
    fn read(folder: &Path, file: &str) -> Result<Known> {
        let place = Tree::open(folder)?.place(Path::new(file));
        let mut text = String::new();
        if let Some(mut file) = place.open_if_file()? {
            file.read_to_string(&mut text).map_err(|error| PathError::new("read", place.shown(), error))?;
        }
        // The last line may be truncated.
        let lines: Vec<(&str, &str)> = text.split_inclusive('\n').filter_map(whole_line).collect();
        let digests = lines.iter().map(|(digest, name)| ((*name).to_owned(), (*digest).to_owned())).collect();
        Ok(Known { place, digests, lines: if text.ends_with('\n') { lines.len() } else { usize::MAX } })
    }

    fn note(&mut self, name: &str, digest: &str) -> Result<()> {
        self.digests.insert(name.to_owned(), digest.to_owned());
        // Usually a line is appended; when half of the lines are obsolete, the file is rewritten without them.
        if self.lines == 0 || self.lines >= 2 * self.digests.len() {
            return self.write();
        }
        let path = self.place.shown();
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let opened = OpenOptions::new().append(true).custom_flags(flags).open(&path);
        let written = opened.and_then(|mut file| file.write_all(line(name, digest).as_bytes()));
        written.map_err(|error| PathError::new("write", path, error))?;
        self.lines += 1;
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let text: String = self.digests.iter().map(|(name, digest)| line(name, digest)).collect();
        self.place.replace(text.as_bytes(), 0o600, OnDisk::Nothing)?;
        self.lines = self.digests.len();
        Ok(())
    }
}

fn line(name: &str, digest: &str) -> String {
    format!("{digest} {name}\n")
}

fn whole_line(line: &str) -> Option<(&str, &str)> {
    line.strip_suffix('\n')?.split_once(' ')
}

/// Returns a digest of a definition's content, independent of the file that contains it.
pub fn digest(definition: &impl Serialize) -> String {
    // Cannot fail: the definition was parsed from text.
    hex(&Sha256::digest(serde_json::to_vec(definition).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(state: &Path) -> Host {
        Host::from_environment(|name| Some(if name == "HOLO_STATE_DIR" { state.into() } else { "x".into() })).unwrap()
    }

    #[test]
    fn what_is_done_stays_done_until_it_is_defined_anew() {
        let folder = tempfile::tempdir().unwrap();
        let host = host(folder.path());
        let (one, two) = (digest(&"one"), digest(&"two"));
        let store = DigestStore::for_mocks();
        assert_eq!(store.is_known(&host, "a:b", &one), Ok(false));
        store.note(&host, "a:b", &one).unwrap();
        store.note(&host, "a:with blanks", &two).unwrap();
        // Another process reads the same digests.
        for store in [&store, &DigestStore::for_mocks()] {
            assert_eq!(store.is_known(&host, "a:b", &one), Ok(true));
            assert_eq!(store.is_known(&host, "a:b", &two), Ok(false));
            assert_eq!(store.is_known(&host, "a:with blanks", &two), Ok(true));
        }
        store.note(&host, "a:b", &two).unwrap();
        assert_eq!(DigestStore::for_mocks().is_known(&host, "a:b", &two), Ok(true));
        store.forget(&host, "a:b").unwrap();
        assert_eq!(DigestStore::for_mocks().is_known(&host, "a:b", &two), Ok(false));
    }

    #[test]
    fn what_has_to_last_is_noted_even_in_a_run_that_only_reads() {
        let folder = tempfile::tempdir().unwrap();
        let (root, lent) = (folder.path().join("root"), folder.path().join("lent/promises"));
        fs::create_dir_all(&lent).unwrap();
        let host = |state: &Path, read_only: &str| {
            let variable = |name: &str| match name {
                "HOLO_ROOT_DIR" => Some(root.clone().into()),
                "HOLO_STATE_DIR" => Some(state.into()),
                "HOLO_READ_ONLY" => Some(read_only.into()),
                _ => Some("x".into()),
            };
            Host::from_environment(variable).unwrap()
        };
        let lasting = root.join("var/lib/holo/promises");
        let mode = || std::os::unix::fs::MetadataExt::mode(&fs::metadata(root.join("var/lib/holo")).unwrap()) & 0o777;
        DigestStore::for_mocks().note_for_good(&host(&lent, "0"), "a", "1").unwrap();
        assert!(!lasting.exists());
        let store = DigestStore::for_mocks();
        store.note_for_good(&host(&lent, "1"), "a", "1").unwrap();
        assert_eq!((store.is_known(&host(&lent, "1"), "a", "1"), mode()), (Ok(true), 0o700));
        assert_eq!(DigestStore::for_mocks().is_known(&host(&lasting, "1"), "a", "1"), Ok(true));
    }

    #[test]
    fn many_changes_do_not_pile_up_and_a_cut_line_does_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let (host, store, file) = (host(folder.path()), DigestStore::for_mocks(), folder.path().join(".mocked"));
        for number in 0..100 {
            store.note(&host, "a:b", &number.to_string()).unwrap();
        }
        assert!(fs::read_to_string(&file).unwrap().lines().count() <= 2);
        let mut text = fs::read_to_string(&file).unwrap();
        text.push_str("12345 a:cu");
        fs::write(&file, text).unwrap();
        let store = DigestStore::for_mocks();
        assert_eq!((store.is_known(&host, "a:b", "99"), store.is_known(&host, "a:cu", "12345")), (Ok(true), Ok(false)));
        store.note(&host, "a:c", "1").unwrap();
        assert_eq!(DigestStore::for_mocks().is_known(&host, "a:c", "1"), Ok(true));
        assert_eq!(DigestStore::for_mocks().is_known(&host, "a:b", "99"), Ok(true));
    }
}
