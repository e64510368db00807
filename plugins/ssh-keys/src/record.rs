//! The record of entities with managed keys, in the format of version 3: one ID a line, sorted. An empty record is no file, because version
//! 3 reads an empty file as one entity without a name, and fails.

use bstr::{BStr, BString, ByteSlice};
use holo_change::error::{PathError, Result};
use holo_change::{Durability, OnDisk, PathHandle, Tree};
use holo_plugin::Host;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const NAME: &str = "provisioned-entities";

#[derive(Debug)]
pub(crate) struct Record {
    place: PathHandle,
    pub(crate) entities: BTreeSet<BString>,
}

/// The record, locked for changes.
#[derive(Debug)]
pub(crate) struct HeldRecord {
    record: Record,
    _held: OwnedFd,
}

impl Record {
    /// Reads the record, which may not exist yet.
    pub(crate) fn read(host: &Host) -> Result<Record> {
        Record::read_in(&Tree::open(host.state_dir())?.place(Path::new(NAME)))
    }

    /// Reads the record and locks it until the result is dropped. The plugin of a dispatcher that was killed may still be at work.
    pub(crate) fn hold(host: &Host) -> Result<HeldRecord> {
        let tree = Tree::open(host.state_dir())?;
        let held = tree.hold()?;
        let record = Record::read_in(&tree.place(Path::new(NAME)))?;
        if record.entities.is_empty() {
            // An earlier version may have left an empty file.
            record.place.remove()?;
        }
        Ok(HeldRecord { record, _held: held })
    }

    fn read_in(place: &PathHandle) -> Result<Record> {
        let mut content = Vec::new();
        if let Some(mut file) = place.open_if_file()? {
            file.read_to_end(&mut content).map_err(|error| PathError::new("read", place.shown(), error))?;
        } else if place.exists()? {
            return Err(PathError::new("open", place.shown(), io::Error::other("it is not a regular file")));
        }
        let lines = content.lines().filter(|line| !line.is_empty());
        Ok(Record { place: place.clone(), entities: lines.map(BString::from).collect() })
    }
}

impl HeldRecord {
    /// Records that entities have keys.
    pub(crate) fn add<'a>(&mut self, ids: impl IntoIterator<Item = &'a BString>) -> Result<()> {
        let before = self.record.entities.len();
        self.record.entities.extend(ids.into_iter().cloned());
        if self.record.entities.len() == before { Ok(()) } else { self.write() }
    }

    /// Records that entities have no keys any more.
    pub(crate) fn remove<'a>(&mut self, ids: impl IntoIterator<Item = &'a BString>) -> Result<()> {
        let removed = ids.into_iter().filter(|id| self.record.entities.remove(*id)).count();
        if removed == 0 { Ok(()) } else { self.write() }
    }

    fn write(&self) -> Result<()> {
        let Record { place, entities } = &self.record;
        if entities.is_empty() {
            place.remove()?;
            return Durability::Each.sync([], [place]);
        }
        let text: Vec<u8> = entities.iter().flat_map(|id| [id.as_slice(), b"\n"].concat()).collect();
        place.replace(&text, 0o644, OnDisk::New)
    }
}

const DIRECTORY: &str = ".unmarked";

type SetName<'a> = (&'a str, &'a BStr);

fn place(host: &Host, (user, set): SetName<'_>) -> Result<PathHandle> {
    let path = Path::new(DIRECTORY).join(user).join(OsStr::from_bytes(set));
    Ok(Tree::open(host.state_dir())?.place(&path))
}

/// Returns the key sets of a user that have recorded key lines.
pub(crate) fn sets(host: &Host, user: &str) -> Result<BTreeSet<OsString>> {
    Ok(place(host, (user, BStr::new("x")))?.siblings()?.into_iter().collect())
}

/// Reads the recorded key lines, which have no comments.
pub(crate) fn read(host: &Host, set: SetName<'_>) -> Result<Vec<Vec<u8>>> {
    let place = place(host, set)?;
    let mut content = Vec::new();
    if let Some(mut file) = place.open_if_file()? {
        file.read_to_end(&mut content).map_err(|error| PathError::new("read", place.shown(), error))?;
    }
    Ok(content.lines_with_terminator().map(<[u8]>::to_vec).collect())
}

/// Replaces the recorded lines.
pub(crate) fn write(host: &Host, set: SetName<'_>, lines: &[Vec<u8>]) -> Result<()> {
    if read(host, set)? == lines {
        return Ok(());
    }
    let place = place(host, set)?;
    if lines.is_empty() {
        place.remove()?;
        place.remove_empty_folders(Path::new(""));
        return Ok(());
    }
    place.replace(&lines.concat(), 0o644, OnDisk::New)
}
