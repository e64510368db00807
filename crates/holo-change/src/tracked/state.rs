//! The states of paths, which can be compared and restored.

use super::contents::{Contents, Digest};
use crate::error::{PathError, Result, at};
use crate::overwriting::check_in_place;
use crate::path_handle::{self, ExtendedAttributes, PathHandle};
use holo_protocol::Text;
use rustix::fs::{FileType, Gid, Mode, OFlags, Stat, Uid};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::PathBuf;

const MODE_BITS: u32 = 0o7777;

/// The current, former or desired state of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase", deny_unknown_fields)]
pub enum State {
    /// The path does not exist.
    Absent,
    /// A regular file.
    File {
        /// The content.
        content: Digest,
        /// The mode and owner.
        #[serde(flatten)]
        attributes: Attributes,
    },
    /// A symlink.
    Symlink {
        /// The target.
        target: Text,
        /// The owner.
        #[serde(default = "our_uid", skip_serializing_if = "is_our_uid")]
        uid: u32,
        /// The group.
        #[serde(default = "our_gid", skip_serializing_if = "is_our_gid")]
        gid: u32,
    },
    /// A directory, without its contents.
    Directory {
        /// The mode and owner.
        #[serde(flatten)]
        attributes: Attributes,
    },
}

/// The mode and owner of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attributes {
    /// All twelve mode bits.
    pub mode: u32,
    /// The owner.
    #[serde(default = "our_uid", skip_serializing_if = "is_our_uid")]
    pub uid: u32,
    /// The group.
    #[serde(default = "our_gid", skip_serializing_if = "is_our_gid")]
    pub gid: u32,
}

impl Attributes {
    /// Returns those of a new file, which belongs to the user who runs holo.
    #[must_use]
    pub fn of_new(mode: u32) -> Attributes {
        Attributes { mode, uid: our_uid(), gid: our_gid() }
    }
}

thread_local! {
    /// The user and group of this thread, which are set before it does any work. Cached because each record needs them
    /// several times.
    static OURS: (u32, u32) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
}

/// Returns the default owner, which is omitted in records: root, or the current user in test mode, so that records do
/// not depend on the user.
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

/// The error for a path whose state cannot be managed.
#[derive(Debug, thiserror::Error)]
pub enum Unmanaged {
    /// The path is a device, a FIFO or a socket, which are never opened.
    #[error("{0} is neither a file, a symlink nor a directory")]
    Special(String),
    /// The path has changed since it was examined.
    #[error("{0} was changed meanwhile")]
    Meanwhile(String),
    /// The path has an overlay, and its new type would not support one.
    #[error("{0} has resource files, and would not be a file any more")]
    Overlaid(String),
    /// The path is about to become a base, and contains an edit.
    #[error("{} is edited by {edit}; one of both has to go", .path.display())]
    Edited {
        /// The path below the root.
        path: PathBuf,
        /// The ID of the edit.
        edit: String,
    },
    /// The path cannot be examined.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl State {
    /// Returns the state of a path.
    ///
    /// # Errors
    /// If it is a special file, or cannot be examined.
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

    /// Returns the content of a file.
    #[must_use]
    pub fn content(&self) -> Option<&Digest> {
        if let State::File { content, .. } = self { Some(content) } else { None }
    }

    /// Returns the mode and owner, except for symlinks.
    #[must_use]
    pub fn attributes(&self) -> Option<Attributes> {
        match self {
            State::File { attributes, .. } | State::Directory { attributes } => Some(*attributes),
            State::Absent | State::Symlink { .. } => None,
        }
    }

    /// Returns the differing attributes as a fragment such as `the mode`; `None` if the states are equal, or differ in
    /// other respects.
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

    /// Returns the type: `file`, `symlink`, `directory` or `nothing`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            State::Absent => "nothing",
            State::File { .. } => "file",
            State::Symlink { .. } => "symlink",
            State::Directory { .. } => "directory",
        }
    }

    /// Writes a new file or symlink to a temporary path, to be renamed with [`PathHandle::rename_to`].
    ///
    /// # Errors
    /// If it cannot be written. No file remains in this case.
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

    /// Sets the owner and mode of an open file or directory. The owner is only set if it differs, which does not
    /// require root privileges.
    pub(super) fn give(self, file: &File, place: &PathHandle) -> Result<()> {
        let shown = place.shown();
        let stat = rustix::fs::fstat(file).map_err(at("stat", &shown))?;
        // The owner is set first, because this clears the set-user-ID bit.
        let (uid, gid) = self.owners_to_change(&stat);
        if uid.is_some() || gid.is_some() {
            rustix::fs::fchown(file, uid, gid).map_err(at("chown", &shown))?;
        }
        rustix::fs::fchmod(file, Mode::from_raw_mode(self.mode)).map_err(at("chmod", &shown))
    }

    /// Removes permissions from an open file that its future mode does not include.
    ///
    /// # Errors
    /// If it is not a regular file, has another hard link, through which it could have been placed here, or the system
    /// refuses.
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

    /// Sets the owner and mode of an existing file, without replacing it.
    ///
    /// # Errors
    /// If it has another hard link, through which a file of another user could have been placed here, or the system
    /// refuses.
    pub(super) fn give_in_place(self, place: &PathHandle) -> Result<()> {
        let file = place.open()?;
        let shown = place.shown();
        let stat = rustix::fs::fstat(&file).map_err(at("stat", &shown))?;
        check_in_place(&stat, place)?;
        self.give(&file, place)?;
        rustix::fs::fsync(&file).map_err(at("sync", &place.shown()))
    }

    /// Creates a directory unless it exists, and sets its owner and mode.
    ///
    /// # Errors
    /// If the path is not a directory, or the system refuses.
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
