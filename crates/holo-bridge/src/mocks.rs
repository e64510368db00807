//! What was not done because it would have changed another system: it is remembered, so that the next apply finds it done.

use holo_change::error::{PathError, Result};
use holo_change::{OnDisk, PathHandle, Tree};
use holo_plugin::Host;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// In the state directory: lines of a digest and an ID, of which the last one counts.
const FILE: &str = ".mocked";

/// The definitions that test mode has said to be done.
#[derive(Debug, Default)]
pub struct Mocks(Mutex<Option<Known>>);

/// What the file says.
#[derive(Debug)]
struct Known {
    place: PathHandle,
    digests: BTreeMap<String, String>,
    lines: usize,
}

impl Mocks {
    /// Returns true if the entity is done as it is defined now.
    ///
    /// # Errors
    /// If what is remembered cannot be read.
    pub fn is_done(&self, host: &Host, id: &str, digest: &str) -> std::result::Result<bool, String> {
        self.with(host, |known| Ok(known.digests.get(id).is_some_and(|known| known == digest)))
    }

    /// Remembers that the entity is done as it is defined now.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn note(&self, host: &Host, id: &str, digest: &str) -> std::result::Result<(), String> {
        self.with(host, |known| known.note(id, digest))
    }

    /// Forgets an entity.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn forget(&self, host: &Host, id: &str) -> std::result::Result<(), String> {
        self.with(host, |known| if known.digests.remove(id).is_some() { known.write() } else { Ok(()) })
    }

    fn with<T>(&self, host: &Host, work: impl FnOnce(&mut Known) -> Result<T>) -> std::result::Result<T, String> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match &mut *known {
            Some(known) => known,
            empty => empty.insert(Known::read(host).map_err(|error| error.to_string())?),
        };
        work(known).map_err(|error| error.to_string())
    }
}

impl Known {
    fn read(host: &Host) -> Result<Known> {
        let place = Tree::open(host.state_dir())?.place(Path::new(FILE));
        let mut text = String::new();
        if let Some(mut file) = place.open_if_file()? {
            file.read_to_string(&mut text).map_err(|error| PathError::new("read", place.shown(), error))?;
        }
        // The last line may have been cut off.
        let lines: Vec<(&str, &str)> = text.split_inclusive('\n').filter_map(whole_line).collect();
        let digests = lines.iter().map(|(digest, id)| ((*id).to_owned(), (*digest).to_owned())).collect();
        Ok(Known { place, digests, lines: if text.ends_with('\n') { lines.len() } else { usize::MAX } })
    }

    fn note(&mut self, id: &str, digest: &str) -> Result<()> {
        self.digests.insert(id.to_owned(), digest.to_owned());
        // As a rule there is one more line; what is superseded by now is dropped when it is as much as what counts.
        if self.lines == 0 || self.lines >= 2 * self.digests.len() {
            return self.write();
        }
        let path = self.place.shown();
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let opened = OpenOptions::new().append(true).custom_flags(flags).open(&path);
        let written = opened.and_then(|mut file| file.write_all(line(id, digest).as_bytes()));
        written.map_err(|error| PathError::new("write", path, error))?;
        self.lines += 1;
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let text: String = self.digests.iter().map(|(id, digest)| line(id, digest)).collect();
        self.place.replace(text.as_bytes(), 0o600, OnDisk::Nothing)?;
        self.lines = self.digests.len();
        Ok(())
    }
}

fn line(id: &str, digest: &str) -> String {
    format!("{digest} {id}\n")
}

fn whole_line(line: &str) -> Option<(&str, &str)> {
    line.strip_suffix('\n')?.split_once(' ')
}

/// Returns a digest of a definition: of what it says, whatever file says so.
pub fn digest(definition: &impl Serialize) -> String {
    // What is digested was read from text, so it can be written as such.
    hex(&Sha256::digest(serde_json::to_vec(definition).unwrap_or_default()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
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
        let mocks = Mocks::default();
        assert_eq!(mocks.is_done(&host, "a:b", &one), Ok(false));
        mocks.note(&host, "a:b", &one).unwrap();
        mocks.note(&host, "a:with blanks", &two).unwrap();
        // A process of its own sees the same.
        for mocks in [&mocks, &Mocks::default()] {
            assert_eq!(mocks.is_done(&host, "a:b", &one), Ok(true));
            assert_eq!(mocks.is_done(&host, "a:b", &two), Ok(false));
            assert_eq!(mocks.is_done(&host, "a:with blanks", &two), Ok(true));
        }
        mocks.note(&host, "a:b", &two).unwrap();
        assert_eq!(Mocks::default().is_done(&host, "a:b", &two), Ok(true));
        mocks.forget(&host, "a:b").unwrap();
        assert_eq!(Mocks::default().is_done(&host, "a:b", &two), Ok(false));
    }

    #[test]
    fn many_changes_do_not_pile_up_and_a_cut_line_does_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let (host, mocks, file) = (host(folder.path()), Mocks::default(), folder.path().join(FILE));
        for number in 0..100 {
            mocks.note(&host, "a:b", &number.to_string()).unwrap();
        }
        assert!(std::fs::read_to_string(&file).unwrap().lines().count() <= 2);
        let mut text = std::fs::read_to_string(&file).unwrap();
        text.push_str("12345 a:cu");
        std::fs::write(&file, text).unwrap();
        let mocks = Mocks::default();
        assert_eq!((mocks.is_done(&host, "a:b", "99"), mocks.is_done(&host, "a:cu", "12345")), (Ok(true), Ok(false)));
        mocks.note(&host, "a:c", "1").unwrap();
        assert_eq!(Mocks::default().is_done(&host, "a:c", "1"), Ok(true));
        assert_eq!(Mocks::default().is_done(&host, "a:b", "99"), Ok(true));
    }
}
