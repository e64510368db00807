//! Images of files: what a file or symlink is, with its mode and owner.

use crate::directory;
use crate::error::{PathError, Result, at};
use crate::place::Place;
use rustix::fs::{FileType, Gid, Mode, Stat, Uid};
use std::fs::File;
use std::io::{self, Read};

const BUFFER_SIZE: usize = 1 << 16;
/// The bits of a mode that are the file's own: permissions, set-user-ID, set-group-ID, sticky.
const MODE_BITS: u32 = 0o7777;

/// A file or symlink as it is somewhere, or as it should be. The content of a file stays where it is until it is needed.
#[derive(Clone, Debug)]
pub struct Image {
    /// What is in it.
    pub content: Content,
    /// Its mode, all twelve bits; of no meaning for a symlink.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// What is in a file or symlink.
#[derive(Clone, Debug)]
pub enum Content {
    /// A symlink's target.
    Symlink(Vec<u8>),
    /// What stands in the regular file at this place.
    File {
        /// Where it can be read.
        place: Place,
        /// How long it was when it was looked at.
        size: u64,
    },
}

/// Why there is no image to be had.
#[derive(Debug, thiserror::Error)]
pub enum Unmanageable {
    /// There is something, but neither a file nor a symlink.
    #[error("not a manageable file")]
    WrongType,
    /// It cannot be looked at.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl Image {
    /// The image of what is at a place; none if nothing is.
    ///
    /// # Errors
    /// If it is neither a file nor a symlink, or cannot be looked at.
    pub fn load(place: &Place) -> std::result::Result<Option<Image>, Unmanageable> {
        let Some(stat) = place.stat()? else { return Ok(None) };
        let content = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                Content::File { place: place.clone(), size: u64::try_from(stat.st_size).unwrap_or_default() }
            }
            FileType::Symlink => Content::Symlink(place.read_link()?),
            _ => return Err(Unmanageable::WrongType),
        };
        Ok(Some(Image { content, mode: stat.st_mode & MODE_BITS, uid: stat.st_uid, gid: stat.st_gid }))
    }

    /// Whether it is a symlink.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        matches!(self.content, Content::Symlink(_))
    }

    /// Whether root or we own it: a symlink of anybody else may point to what its owner could not read.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        directory::is_trusted(self.uid)
    }

    /// Whether both are the same: type, content or target, owner, group, and the mode of a file.
    ///
    /// # Errors
    /// If a content cannot be read.
    pub fn equals(&self, other: &Image) -> Result<bool> {
        if (self.uid, self.gid) != (other.uid, other.gid) {
            return Ok(false);
        }
        match (&self.content, &other.content) {
            (Content::Symlink(one), Content::Symlink(two)) => Ok(one == two),
            (Content::File { place: one, size }, Content::File { place: two, size: other_size }) => {
                Ok(self.mode == other.mode && size == other_size && same_content(one, two, *size)?)
            }
            _ => Ok(false),
        }
    }

    /// Writes the image to a place, instead of whatever has the name now; nobody else can open it before it has its mode and owner.
    ///
    /// What was there is gone at once, so this is for temporary places, to be moved by [`Place::rename_to`].
    ///
    /// # Errors
    /// If the content cannot be read or written, or mode and owner cannot be given: then nothing is left there.
    pub fn write_to(&self, place: &Place) -> Result<()> {
        let written = match &self.content {
            Content::Symlink(target) => self.write_symlink(target, place),
            Content::File { place: from, .. } => self.write_file(from, place),
        };
        if written.is_err() {
            let _ = place.remove();
        }
        written
    }

    fn write_symlink(&self, target: &[u8], place: &Place) -> Result<()> {
        place.create_symlink(target)?;
        match place.stat()?.map(|stat| self.owners_to_change(&stat)) {
            None | Some((None, None)) => Ok(()),
            Some((uid, gid)) => place.change_owner(uid, gid),
        }
    }

    fn write_file(&self, from: &Place, place: &Place) -> Result<()> {
        let mut file = place.create()?;
        let shown = place.shown();
        io::copy(&mut from.open()?, &mut file).map_err(at("write", &shown))?;
        let stat = rustix::fs::fstat(&file).map_err(at("stat", &shown))?;
        // The owner comes first: changing it takes the set-user-ID bit away.
        let (uid, gid) = self.owners_to_change(&stat);
        if uid.is_some() || gid.is_some() {
            rustix::fs::fchown(&file, uid, gid).map_err(at("chown", &shown))?;
        }
        rustix::fs::fchmod(&file, Mode::from_raw_mode(self.mode)).map_err(at("chmod", &shown))
    }

    /// The owner and group to be given to a file that has others. Who is not root may not even confirm those that it has.
    fn owners_to_change(&self, stat: &Stat) -> (Option<Uid>, Option<Gid>) {
        let uid = (stat.st_uid != self.uid).then(|| Uid::from_raw(self.uid));
        let gid = (stat.st_gid != self.gid).then(|| Gid::from_raw(self.gid));
        (uid, gid)
    }
}

/// Compares files that were just seen to be equally long.
fn same_content(one: &Place, two: &Place, size: u64) -> Result<bool> {
    let (mut file, mut other_file) = (one.open()?, two.open()?);
    let length = usize::try_from(size).unwrap_or(BUFFER_SIZE).min(BUFFER_SIZE);
    let (mut buffer, mut other_buffer) = (vec![0; length], vec![0; length]);
    let mut left = size;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(length).min(length);
        let (chunk, other_chunk) = (&mut buffer[..length], &mut other_buffer[..length]);
        let is_whole = read_all(&mut file, chunk).map_err(at("read", &one.shown()))?
            && read_all(&mut other_file, other_chunk).map_err(at("read", &two.shown()))?;
        if !is_whole || chunk != other_chunk {
            return Ok(false);
        }
        left -= length as u64;
    }
    Ok(true)
}

/// Fills the buffer; whether the file was long enough. It may have become shorter since it was looked at.
fn read_all(file: &mut File, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
