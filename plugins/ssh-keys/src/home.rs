//! `.ssh` and `authorized_keys` below a home directory, whose owner may replace anything in it at any time.
//!
//! Everything here is done as that user. No symlink is followed, what belongs to somebody else is not read, and what is there is
//! never written to, but replaced: the worst that a user can bring about is something that the user could do as well.

use crate::section::{Edit, Handover, Section};
use holo_change::ExtendedAttributes;
use holo_change::error::{PathError, Result};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, RenameFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const DIRECTORY: &str = ".ssh";
const FILE: &str = "authorized_keys";
/// The name of the file that is renamed to [`FILE`].
const TEMPORARY: &str = ".authorized_keys.holonew";

const DIRECTORY_MODE: RawMode = 0o700;
const FILE_MODE: RawMode = 0o600;

/// More than anybody has keys. A file that does not end would fill our memory.
const MAX_SIZE: u64 = 1 << 20;

/// The number of times the change is begun anew because somebody else has changed the file meanwhile.
const ATTEMPTS: usize = 100;

/// The directory of a user's keys, opened and shown. The user is the one as whom this thread works, or who shall be the owner.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) directory: OwnedFd,
    /// The path of the home directory as it is shown.
    pub(crate) shown: PathBuf,
    pub(crate) uid: u32,
}

/// The file as it was found.
struct Found {
    content: Vec<u8>,
    stat: Option<Stat>,
    /// ACLs and whatever else has been noted of it.
    attributes: ExtendedAttributes,
}

/// The changes that would be made, or were.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) edit: Edit,
    /// Modes that are not as they should be, as fragments such as `the mode of /home/jane/.ssh to 0700`.
    pub(crate) modes: Vec<String>,
}

/// The verbs for keys that go, that change over, that come, and for modes.
type Verbs = [&'static str; 4];
/// The verbs for changes that would be made.
pub(crate) const PENDING: Verbs = ["would remove", "would give", "would add", "would set"];
/// The verbs for changes that were made.
pub(crate) const DONE: Verbs = ["removed", "gave", "added", "set"];

impl Change {
    /// The changes as fragments.
    pub(crate) fn in_words(&self, [remove, give, add, set]: &Verbs) -> Vec<String> {
        let Edit { removed, added, handed_over, .. } = &self.edit;
        let removed = removed.iter().map(|key| format!("{remove} key {key}"));
        let given =
            handed_over.iter().map(|Handover { key, from, to }| format!("{give} key {key} from {from} to {to}"));
        let added = added.iter().map(|key| format!("{add} key {key}"));
        let modes = self.modes.iter().map(|mode| format!("{set} {mode}"));
        removed.chain(given).chain(added).chain(modes).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.edit.changes_keys() && self.modes.is_empty()
    }
}

impl Home {
    /// Returns the path of the keys below a home directory.
    pub(crate) fn keys_below(home: &Path) -> PathBuf {
        home.join(DIRECTORY).join(FILE)
    }

    fn shown_directory(&self) -> PathBuf {
        self.shown.join(DIRECTORY)
    }

    fn shown_file(&self) -> PathBuf {
        Home::keys_below(&self.shown)
    }

    /// Returns the content of `authorized_keys`; nothing if there is no such file.
    pub(crate) fn content(&self) -> Result<Vec<u8>> {
        match self.open_directory()? {
            Some((directory, _)) => Ok(self.find(&directory)?.content),
            None => Ok(Vec::new()),
        }
    }

    /// Finds out what has to be changed.
    pub(crate) fn look(&self, section: &Section) -> Result<Change> {
        let Some((directory, stat)) = self.open_directory()? else {
            return Ok(Change { edit: section.edit(&[]), modes: Vec::new() });
        };
        let found = self.find(&directory)?;
        Ok(self.compare(section, &found, &stat))
    }

    /// Removes what an apply has left that was killed, where nothing else has to be done.
    pub(crate) fn tidy(&self) -> Result<()> {
        let Some((directory, _)) = self.open_directory()? else { return Ok(()) };
        remove_temporary(&directory)
            .map_err(|error| PathError::new("remove", self.shown_directory().join(TEMPORARY), error))
    }

    fn compare(&self, section: &Section, found: &Found, directory: &Stat) -> Change {
        let edit = section.edit(&found.content);
        let mut modes = Vec::new();
        let mut expect = |stat: &Stat, mode: RawMode, path: PathBuf| {
            if stat.st_mode & 0o7777 != mode {
                modes.push(mode_of(&path, mode));
            }
        };
        // Without keys of ours, the modes are not our business.
        if !section.is_empty() {
            expect(directory, DIRECTORY_MODE, self.shown_directory());
            if let Some(stat) = &found.stat {
                expect(stat, FILE_MODE, self.shown_file());
            }
        }
        Change { edit, modes }
    }

    /// Makes the section what it shall be; what was changed.
    pub(crate) fn provision(&self, section: &Section) -> Result<Change> {
        // The changes of an attempt before it had to be begun anew.
        let mut modes = Vec::new();
        for _ in 0..ATTEMPTS {
            let (directory, stat) = match self.open_directory()? {
                Some(opened) => opened,
                None if section.is_empty() => break,
                None => self.create_directory()?,
            };
            let found = self.find(&directory)?;
            let mut change = self.compare(section, &found, &stat);
            if change.is_empty() {
                return Ok(Change { modes, ..change });
            }
            if !section.is_empty() && stat.st_mode & 0o7777 != DIRECTORY_MODE {
                rustix::fs::fchmod(&directory, Mode::from_raw_mode(DIRECTORY_MODE))
                    .map_err(|error| PathError::new("chmod", self.shown_directory(), error))?;
                modes.push(mode_of(&self.shown_directory(), DIRECTORY_MODE));
            }
            // A mode is changed by replacing the file as well: it may have other names.
            if self.replace(&directory, &found, &change.edit.content)? {
                modes.append(&mut change.modes);
                modes.dedup();
                return Ok(Change { modes, ..change });
            }
        }
        match self.look(section)? {
            done if done.is_empty() => Ok(done),
            _ => Err(PathError::new("replace", self.shown_file(), io::Error::other("others keep changing it"))),
        }
    }

    /// Opens `.ssh`, if there is one.
    fn open_directory(&self) -> Result<Option<(OwnedFd, Stat)>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat(&self.directory, DIRECTORY, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => {
                return Err(self.refused(&self.directory, DIRECTORY, self.shown_directory(), error, "a directory"));
            }
        };
        let stat = rustix::fs::fstat(&opened).map_err(|error| PathError::new("stat", self.shown_directory(), error))?;
        self.demand_owner(&stat, self.shown_directory())?;
        Ok(Some((opened, stat)))
    }

    fn create_directory(&self) -> Result<(OwnedFd, Stat)> {
        match rustix::fs::mkdirat(&self.directory, DIRECTORY, Mode::from_raw_mode(DIRECTORY_MODE)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(PathError::new("mkdir", self.shown_directory(), error)),
        }
        let opened = self.open_directory()?.ok_or_else(|| PathError::missing("open", self.shown_directory()))?;
        // The home directory may be one that the user can only pass through.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(home) = rustix::fs::openat(&self.directory, ".", flags, Mode::empty()) {
            sync(&home).map_err(|error| PathError::new("sync", &self.shown, error))?;
        }
        Ok(opened)
    }

    /// Reads `authorized_keys`, if there is one.
    fn find(&self, directory: &OwnedFd) -> Result<Found> {
        self.read(directory, FILE)
    }

    /// Reads `authorized_keys`, if there is one, under the name that it has.
    fn read(&self, directory: &OwnedFd, name: &str) -> Result<Found> {
        // A FIFO must not make us wait, nor a file of which the user holds a lease.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => {
                return Ok(Found { content: Vec::new(), stat: None, attributes: ExtendedAttributes::default() });
            }
            Err(error) => return Err(self.refused(directory, name, self.shown_file(), error, "a regular file")),
        };
        let failed = |operation| move |error: io::Error| PathError::new(operation, self.shown_file(), error);
        let stat = rustix::fs::fstat(&file).map_err(|error| failed("stat")(error.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(failed("open")(io::Error::other("it is not a regular file")));
        }
        self.demand_owner(&stat, self.shown_file())?;
        let attributes = ExtendedAttributes::of_open(&file, &self.shown_file())?.without_those_of_content();
        let mut content = Vec::new();
        file.take(MAX_SIZE + 1).read_to_end(&mut content).map_err(failed("read"))?;
        if content.len() as u64 > MAX_SIZE {
            return Err(failed("read")(io::Error::other("it is larger than 1 MiB")));
        }
        Ok(Found { content, stat: Some(stat), attributes })
    }

    /// Fails if the file belongs to somebody else: it may be a hard link.
    fn demand_owner(&self, stat: &Stat, path: PathBuf) -> Result<()> {
        if stat.st_uid == self.uid {
            return Ok(());
        }
        let text = format!("it belongs to another user (UID {} instead of {})", stat.st_uid, self.uid);
        Err(PathError::new("open", path, io::Error::new(io::ErrorKind::PermissionDenied, text)))
    }

    /// The error of something that could not be opened, in words that say what it is.
    fn refused(&self, directory: &OwnedFd, name: &str, path: PathBuf, error: Errno, wanted: &str) -> PathError {
        let kind = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .map(|stat| FileType::from_raw_mode(stat.st_mode));
        let error = match (error, kind) {
            (_, Ok(FileType::Symlink)) => io::Error::other("it is a symlink, which is not followed"),
            (Errno::LOOP | Errno::NOTDIR | Errno::NXIO | Errno::NODEV, _) => {
                io::Error::other(format!("it is not {wanted}"))
            }
            (error, _) => error.into(),
        };
        PathError::new("open", path, error)
    }

    /// Puts a file with this content in the place of the one that was found; whether it was still there.
    fn replace(&self, directory: &OwnedFd, found: &Found, content: &[u8]) -> Result<bool> {
        let shown = || self.shown_directory().join(TEMPORARY);
        let remove = || remove_temporary(directory);
        // An apply that was killed may have left one.
        remove().map_err(|error| PathError::new("remove", shown(), error))?;
        let written = self.write_new(directory, found, content).map(|stat| (stat, self.is_still(directory, found)));
        let (new, is_still) = match written {
            Ok(written) => written,
            Err(error) => {
                // It is the first error that counts.
                let _ = remove();
                return Err(error);
            }
        };
        let failed = |operation| move |error: Errno| PathError::new(operation, self.shown_file(), error);
        let is_in_place =
            if is_still { self.put_in_place(directory, found).map_err(failed("rename")) } else { Ok(false) };
        if !is_in_place.as_ref().is_ok_and(|is_in_place| *is_in_place) {
            let removed = remove().map_err(|error| PathError::new("remove", shown(), error));
            return is_in_place.and(removed).map(|()| false);
        }
        sync(directory).map_err(failed("sync"))?;
        // The user may have moved anything else to that name, or all of `.ssh` away.
        Ok(self.is_there(&new))
    }

    /// Gives the temporary file its name, unless somebody else was faster: whether it has it. What was there before is looked at once more
    /// when nobody can find it any more by its name, so that nothing that was saved in between is lost.
    fn put_in_place(&self, directory: &OwnedFd, found: &Found) -> rustix::io::Result<bool> {
        let rename = |flags| rustix::fs::renameat_with(directory, TEMPORARY, directory, FILE, flags);
        let is_new = found.stat.is_none();
        match rename(if is_new { RenameFlags::NOREPLACE } else { RenameFlags::EXCHANGE }) {
            Ok(()) if is_new => return Ok(true),
            Ok(()) => {}
            Err(Errno::EXIST) if is_new => return Ok(false),
            Err(Errno::NOENT) if !is_new => return Ok(false),
            // Some network file systems cannot do this.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                return rustix::fs::renameat(directory, TEMPORARY, directory, FILE).map(|()| true);
            }
            Err(error) => return Err(error),
        }
        let is_same = self.read(directory, TEMPORARY).is_ok_and(|replaced| {
            let file = |found: &Found| found.stat.map(|stat| (stat.st_dev, stat.st_ino));
            file(&replaced) == file(found) && replaced.content == found.content
        });
        if !is_same {
            rename(RenameFlags::EXCHANGE)?;
            return Ok(false);
        }
        rustix::fs::unlinkat(directory, TEMPORARY, AtFlags::empty())?;
        Ok(true)
    }

    /// Returns true if nobody has replaced or changed the file since it was found. It is read again: of two changes at one moment the second one
    /// leaves no trace but the content.
    fn is_still(&self, directory: &OwnedFd, found: &Found) -> bool {
        // The next attempt reports a file that cannot be read any more.
        self.find(directory).is_ok_and(|now| {
            now.stat.as_ref().map(version) == found.stat.as_ref().map(version) && now.content == found.content
        })
    }

    /// Makes the temporary file, which must not exist, and waits until it is on the disk. It gets what had been noted of the one that was
    /// found.
    fn write_new(&self, directory: &OwnedFd, found: &Found, content: &[u8]) -> Result<Stat> {
        let shown = self.shown_directory().join(TEMPORARY);
        let failed = |error: io::Error| PathError::new("write", &shown, error);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(FILE_MODE);
        let opened = rustix::fs::openat(directory, TEMPORARY, flags, mode);
        let mut file = File::from(opened.map_err(|error| failed(error.into()))?);
        file.write_all(content).map_err(failed)?;
        if !found.attributes.is_empty() {
            found.attributes.give(&file, &shown, FILE_MODE, true)?;
        }
        // The mode does not depend on the umask.
        rustix::fs::fchmod(&file, mode).map_err(|error| failed(error.into()))?;
        file.sync_all().map_err(failed)?;
        rustix::fs::fstat(&file).map_err(|error| failed(error.into()))
    }

    /// Returns true if this is the file that is found now.
    fn is_there(&self, file: &Stat) -> bool {
        let path = Path::new(DIRECTORY).join(FILE);
        rustix::fs::statat(&self.directory, &path, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (file.st_dev, file.st_ino))
    }
}

/// Removes the temporary file, if there is one.
fn remove_temporary(directory: &OwnedFd) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(directory, TEMPORARY, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

/// A mode that a path gets, as a fragment.
fn mode_of(path: &Path, mode: RawMode) -> String {
    format!("the mode of {} to {mode:04o}", path.display())
}

/// Returns a value that changes whenever a file is changed or replaced.
fn version(stat: &Stat) -> impl PartialEq + use<> {
    let changed = (stat.st_ctime, stat.st_ctime_nsec, stat.st_mtime, stat.st_mtime_nsec);
    (stat.st_dev, stat.st_ino, stat.st_mode, stat.st_uid, stat.st_size, changed)
}

/// Waits until names are on the disk. Some file systems cannot sync a directory, and have nothing to sync then.
fn sync(directory: &OwnedFd) -> rustix::io::Result<()> {
    match rustix::fs::fsync(directory) {
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        synced => synced,
    }
}
