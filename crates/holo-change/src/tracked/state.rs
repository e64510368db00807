//! The states of paths, in a form that can be compared and put back.

use super::contents::{Contents, Digest};
use crate::error::{PathError, Result, at};
use crate::overwriting::check_in_place;
use crate::path_handle::{self, ExtendedAttributes, PathHandle};
use holo_protocol::Text;
use rustix::fs::{FileType, Gid, Mode, OFlags, Stat, Uid};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;

const MODE_BITS: u32 = 0o7777;

/// The state of a path: as it is, was or shall be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase", deny_unknown_fields)]
pub enum State {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// Its content.
        content: Digest,
        /// Mode and owner.
        #[serde(flatten)]
        attributes: Attributes,
    },
    /// A symlink.
    Symlink {
        /// Its target.
        target: Text,
        /// Its owner.
        #[serde(default = "our_uid", skip_serializing_if = "is_our_uid")]
        uid: u32,
        /// Its group.
        #[serde(default = "our_gid", skip_serializing_if = "is_our_gid")]
        gid: u32,
    },
    /// A directory. What is in it is not part of its state.
    Directory {
        /// Mode and owner.
        #[serde(flatten)]
        attributes: Attributes,
    },
}

/// The mode and owner of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attributes {
    /// All twelve bits.
    pub mode: u32,
    /// The owner.
    #[serde(default = "our_uid", skip_serializing_if = "is_our_uid")]
    pub uid: u32,
    /// The group.
    #[serde(default = "our_gid", skip_serializing_if = "is_our_gid")]
    pub gid: u32,
}

thread_local! {
    /// The user and the group of this thread, which it has got before it does anything: each record asks for them several times.
    static OURS: (u32, u32) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
}

/// The owner that is not written down: root, or in test mode whoever runs it, so that a record does not depend on who that is.
pub(super) fn our_uid() -> u32 {
    OURS.with(|(uid, _)| *uid)
}

pub(super) fn our_gid() -> u32 {
    OURS.with(|(_, gid)| *gid)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_our_uid(uid: &u32) -> bool {
    *uid == our_uid()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_our_gid(gid: &u32) -> bool {
    *gid == our_gid()
}

/// The reason why the state of a path cannot be managed.
#[derive(Debug, thiserror::Error)]
pub enum Unmanaged {
    /// It is a device, a FIFO, or a socket, which are never opened.
    #[error("{0} is neither a file, a symlink nor a directory")]
    Special(String),
    /// It has been changed since it was looked at.
    #[error("{0} was changed meanwhile")]
    Meanwhile(String),
    /// It would become something that nothing can be laid over, and something is.
    #[error("{0} has resource files, and would not be a file any more")]
    Overlaid(String),
    /// It cannot be looked at.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl State {
    /// The state of what is at a place.
    ///
    /// # Errors
    /// If it is of a special kind, or cannot be looked at.
    pub fn of(place: &PathHandle) -> std::result::Result<State, Unmanaged> {
        let Some(stat) = place.raw_stat()? else { return Ok(State::Absent) };
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                let mut file = place.open()?;
                let stat = rustix::fs::fstat(&file).map_err(at("stat", &place.shown()))?;
                let size = u64::try_from(stat.st_size).unwrap_or_default();
                let content = Digest::of_size(&mut file, size).map_err(at("read", &place.shown()))?;
                State::File { content, attributes: Attributes::of(&stat) }
            }
            FileType::Symlink => {
                State::Symlink { target: place.read_link()?.into(), uid: stat.st_uid, gid: stat.st_gid }
            }
            FileType::Directory => State::Directory { attributes: Attributes::of(&stat) },
            _ => return Err(Unmanaged::Special(place.shown().display().to_string())),
        })
    }

    /// The content, if it is a file.
    #[must_use]
    pub fn content(&self) -> Option<&Digest> {
        if let State::File { content, .. } = self { Some(content) } else { None }
    }

    /// Mode and owner, if it has a mode.
    #[must_use]
    pub fn attributes(&self) -> Option<Attributes> {
        match self {
            State::File { attributes, .. } | State::Directory { attributes } => Some(*attributes),
            State::Absent | State::Symlink { .. } => None,
        }
    }

    /// Returns the attributes if nothing else differs, as a fragment such as `the mode`; `None` if more does, or nothing at all.
    #[must_use]
    pub fn differs_by(&self, other: &State) -> Option<&'static str> {
        let is_same_kind = match (self, other) {
            (State::File { content, .. }, State::File { content: other, .. }) => content == other,
            (State::Directory { .. }, State::Directory { .. }) => true,
            _ => false,
        };
        let (ours, others) = self.attributes().zip(other.attributes()).filter(|_| is_same_kind)?;
        match (ours.mode != others.mode, ours.uid != others.uid, ours.gid != others.gid) {
            (false, false, false) => None,
            (true, false, false) => Some("the mode"),
            (false, true, false) => Some("the owner"),
            (false, false, true) => Some("the group"),
            (true, true, false) => Some("the mode and owner"),
            (true, false, true) => Some("the mode and group"),
            (false, true, true) => Some("the owner and group"),
            (true, true, true) => Some("the mode, owner and group"),
        }
    }

    /// In a word: `file`, `symlink`, `directory`, `nothing`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            State::Absent => "nothing",
            State::File { .. } => "file",
            State::Symlink { .. } => "symlink",
            State::Directory { .. } => "directory",
        }
    }

    /// Writes a new file or symlink to a temporary place, to be moved over its target by [`PathHandle::rename_to`].
    ///
    /// # Errors
    /// If it cannot be written: then nothing is left there.
    pub(crate) fn write_temporary(
        &self,
        place: &PathHandle,
        contents: &Contents,
        extended: &ExtendedAttributes,
    ) -> Result<()> {
        let written = match self {
            State::File { content, attributes } => write_file(content, *attributes, place, contents, extended),
            State::Symlink { target, uid, gid } => {
                place.create_symlink(&target.0).and_then(|()| give_symlink(place, *uid, *gid))
            }
            State::Absent | State::Directory { .. } => Ok(()),
        };
        if written.is_err() {
            let _ = place.remove();
        }
        written
    }
}

fn write_file(
    content: &Digest,
    attributes: Attributes,
    place: &PathHandle,
    contents: &Contents,
    extended: &ExtendedAttributes,
) -> Result<()> {
    let mut from = contents.open(content)?;
    let mut file = place.create()?;
    io::copy(&mut from, &mut file).map_err(at("write", &place.shown()))?;
    let Attributes { mode, uid, gid } = attributes;
    path_handle::set_ownership_of_new(&file, place, Some(uid), Some(gid), mode, extended)
}

fn give_symlink(place: &PathHandle, uid: u32, gid: u32) -> Result<()> {
    let Some(stat) = place.raw_stat()? else { return Ok(()) };
    let wanted = Attributes { mode: stat.st_mode & MODE_BITS, uid, gid };
    match wanted.owners_to_change(&stat) {
        (None, None) => Ok(()),
        (uid, gid) => place.change_owner(uid, gid),
    }
}

impl Attributes {
    fn of(stat: &Stat) -> Attributes {
        Attributes { mode: stat.st_mode & MODE_BITS, uid: stat.st_uid, gid: stat.st_gid }
    }

    /// Gives owner and mode to an open file or directory; without root's rights, the owner that it has need not be confirmed.
    pub(super) fn give(self, file: &File, place: &PathHandle) -> Result<()> {
        let shown = place.shown();
        let stat = rustix::fs::fstat(file).map_err(at("stat", &shown))?;
        // The owner comes first: changing it takes the set-user-ID bit away.
        let (uid, gid) = self.owners_to_change(&stat);
        if uid.is_some() || gid.is_some() {
            rustix::fs::fchown(file, uid, gid).map_err(at("chown", &shown))?;
        }
        rustix::fs::fchmod(file, Mode::from_raw_mode(self.mode)).map_err(at("chmod", &shown))
    }

    /// Takes from an open file what the mode to come does not allow either.
    ///
    /// # Errors
    /// If it is not a file, or has a second name by which it could have been put here; or if the system refuses.
    pub(super) fn narrow(self, file: &File, place: &PathHandle) -> Result<()> {
        let shown = place.shown();
        let stat = rustix::fs::fstat(file).map_err(at("stat", &shown))?;
        check_in_place(&stat, place)?;
        let narrowed = stat.st_mode & self.mode & MODE_BITS;
        if narrowed == stat.st_mode & MODE_BITS {
            return Ok(());
        }
        rustix::fs::fchmod(file, Mode::from_raw_mode(narrowed)).map_err(at("chmod", &shown))
    }

    fn owners_to_change(self, stat: &Stat) -> (Option<Uid>, Option<Gid>) {
        let uid = (stat.st_uid != self.uid).then(|| Uid::from_raw(self.uid));
        let gid = (stat.st_gid != self.gid).then(|| Gid::from_raw(self.gid));
        (uid, gid)
    }

    /// Gives owner and mode to the file that is at a place already: programs that have it open keep it.
    ///
    /// # Errors
    /// If it has a second name, by which a file of others could have been put here; or if the system refuses.
    pub(super) fn give_in_place(self, place: &PathHandle) -> Result<()> {
        let file = place.open()?;
        let shown = place.shown();
        let stat = rustix::fs::fstat(&file).map_err(at("stat", &shown))?;
        check_in_place(&stat, place)?;
        self.give(&file, place)?;
        rustix::fs::fsync(&file).map_err(at("sync", &place.shown()))
    }

    /// Makes the directory if it is not there, and gives it owner and mode.
    ///
    /// # Errors
    /// If there is something else, or the system refuses.
    pub(super) fn give_directory(self, place: &PathHandle, extended: &ExtendedAttributes) -> Result<()> {
        let private = Mode::RWXU;
        match place.with("mkdir", |directory, name| rustix::fs::mkdirat(directory, name, private)) {
            Ok(()) => {}
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = place.with("open", |directory, name| rustix::fs::openat(directory, name, flags, Mode::empty()))?;
        let opened = File::from(opened);
        if extended.is_empty() {
            return self.give(&opened, place);
        }
        path_handle::set_ownership_of_new(&opened, place, Some(self.uid), Some(self.gid), self.mode, extended)
    }
}
