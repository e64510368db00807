//! Images of files: what a file or symlink is, with its mode and owner.

mod stamp;

pub use stamp::{Meanwhile, Stamp};

use crate::copying::copy_whole;
use crate::error::{PathError, Result};
use crate::path_handle::{self, Durability, ExtendedAttributes, PathHandle, TEMPORARY};
use crate::resolution;
use rustix::fs::{Gid, Stat, Uid};
use std::fs::File;
use std::io::{self, Read, Write};

const BUFFER_SIZE: usize = 1 << 16;
const SMALLEST_BUFFER: usize = 1 << 12;
/// The bits of a mode that are the file's own: permissions, set-user-ID, set-group-ID, sticky.
const MODE_BITS: u32 = 0o7777;
/// A file or symlink as it is somewhere, or as it should be. The content of a file stays where it is until it is needed.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its content.
    pub content: Content,
    /// Its mode, all twelve bits; of no meaning for a symlink.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The place of the file that has its extended attributes. Like the content, they stay where they are until they are needed.
    pub attributes_of: PathHandle,
}

/// The content of a file or symlink.
#[derive(Clone, Debug)]
pub enum Content {
    /// A symlink's target.
    Symlink(Vec<u8>),
    /// The content of the regular file at this place.
    File {
        /// The place where it can be read.
        place: PathHandle,
        /// Its length when it was looked at.
        size: u64,
    },
}

/// The reason why no image can be made.
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
    pub fn load(place: &PathHandle) -> std::result::Result<Option<Image>, Unmanageable> {
        Stamp::of(place)?.map(|stamp| stamp.image(place)).transpose()
    }

    /// Returns true if it is a symlink.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        matches!(self.content, Content::Symlink(_))
    }

    /// Returns true if root or we own it: a symlink of anybody else may point to what its owner could not read.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        resolution::is_trusted(self.uid)
    }

    /// Returns true if both are the same: type, content or target, owner, group, and the mode of a file, but not extended attributes.
    ///
    /// # Errors
    /// If a content cannot be read.
    pub fn equals(&self, other: &Image) -> Result<bool> {
        self.equals_all(&[other])
    }

    /// Returns true if all of these are the same as this one, each content being read once at most.
    ///
    /// # Errors
    /// If a content cannot be read.
    pub fn equals_all(&self, others: &[&Image]) -> Result<bool> {
        let mut places = Vec::with_capacity(others.len());
        for other in others {
            let is_alike = (self.uid, self.gid) == (other.uid, other.gid)
                && match (&self.content, &other.content) {
                    (Content::Symlink(target), Content::Symlink(other_target)) => target == other_target,
                    (Content::File { size, place: own }, Content::File { size: other_size, place }) => {
                        // A file is equal to itself.
                        if !own.is(place) {
                            places.push(place);
                        }
                        size == other_size && self.has_mode_of(other)?
                    }
                    _ => false,
                };
            if !is_alike {
                return Ok(false);
            }
        }
        match &self.content {
            Content::File { place, size } if !places.is_empty() => same_content(place, &places, *size),
            _ => Ok(true),
        }
    }

    /// Returns true if both files have the same mode, or had it before the ACL of one was lost on a file system that has none.
    ///
    /// # Errors
    /// If extended attributes cannot be read.
    pub fn has_mode_of(&self, other: &Image) -> Result<bool> {
        let is_rest_of = |lost: &Image, whole: &Image| -> Result<bool> {
            let is_narrower = lost.mode & whole.mode == lost.mode;
            if !is_narrower || !path_handle::is_without_acls(&lost.attributes_of) {
                return Ok(false);
            }
            Ok(ExtendedAttributes::of(&whole.attributes_of)?.narrowed(whole.mode) == lost.mode)
        };
        Ok(self.mode == other.mode || is_rest_of(self, other)? || is_rest_of(other, self)?)
    }

    /// The same with the extended attributes of a file that it is going to replace, if that has the owner and the mode that it shall have;
    /// otherwise it keeps its own, as an ACL goes with a mode.
    ///
    /// # Errors
    /// If extended attributes cannot be read.
    pub fn in_place_of(&self, current: &Image) -> Result<Image> {
        let is_alike = (self.uid, self.gid) == (current.uid, current.gid)
            && !self.is_symlink()
            && !current.is_symlink()
            && self.has_mode_of(current)?;
        let Image { mode, attributes_of, .. } = if is_alike { current } else { self };
        Ok(Image { mode: *mode, attributes_of: attributes_of.clone(), ..self.clone() })
    }

    /// Returns true if both have the same extended attributes.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn has_attributes_of(&self, other: &Image) -> Result<bool> {
        let (one, two) = (&self.attributes_of, &other.attributes_of);
        Ok(one.is(two) || ExtendedAttributes::of(one)? == ExtendedAttributes::of(two)?)
    }

    /// Returns true if it lies on a file system that has no ACLs, where its own may have been lost.
    #[must_use]
    pub fn may_lack_acl(&self) -> bool {
        path_handle::is_without_acls(&self.attributes_of)
    }

    /// Writes the image to a place, instead of whatever has the name now; nobody else can open it before it has its owner, its mode and its
    /// ACL. On a file system without ACLs the mode is a narrower one, so that nobody may do more.
    ///
    /// What was there is gone at once, so this is for temporary places, to be moved by [`PathHandle::rename_to`].
    ///
    /// # Errors
    /// If the content cannot be read or written, or mode and owner cannot be given: then nothing is left there.
    pub fn write_to(&self, place: &PathHandle) -> Result<()> {
        self.write_to_all(&[place])
    }

    /// [Writes](Image::write_to) the image to several places, reading the content once; at the first of them there is something first.
    ///
    /// # Errors
    /// As above: then nothing is left at any of them.
    pub fn write_to_all(&self, places: &[&PathHandle]) -> Result<()> {
        let written = match &self.content {
            Content::Symlink(target) => places.iter().try_for_each(|place| self.write_symlink(target, place)),
            Content::File { place: from, size } => self.write_files(from, *size, places),
        };
        if written.is_err() {
            places.iter().for_each(|place| drop(place.remove()));
        }
        written
    }

    /// Puts the image at a place in one step, where something older may be: when this returns, it is on disk.
    ///
    /// # Errors
    /// As [`Image::write_to`]: then what was there still is.
    pub fn put(&self, place: &PathHandle) -> Result<()> {
        let temporary = place.temporary(TEMPORARY);
        self.write_to(&temporary)?;
        move_into_place(&temporary, place)
    }

    fn write_symlink(&self, target: &[u8], place: &PathHandle) -> Result<()> {
        place.create_symlink(target)?;
        match place.raw_stat()?.map(|stat| self.owners_to_change(&stat)) {
            None | Some((None, None)) => Ok(()),
            Some((uid, gid)) => place.change_owner(uid, gid),
        }
    }

    fn write_files(&self, from: &PathHandle, size: u64, places: &[&PathHandle]) -> Result<()> {
        let mut files = places.iter().map(|place| Ok((*place, place.create()?))).collect::<Result<Vec<_>>>()?;
        copy(from, size, &mut files)?;
        let mut attributes = ExtendedAttributes::of(&self.attributes_of)?;
        if !self.attributes_of.is(from) {
            attributes = attributes.without_those_of_content();
        }
        files.iter().try_for_each(|(place, file)| {
            path_handle::set_ownership_of_new(file, place, Some(self.uid), Some(self.gid), self.mode, &attributes)
        })
    }

    /// The owner and group to be given to a file that has others. Only root may even confirm those that it has.
    fn owners_to_change(&self, stat: &Stat) -> (Option<Uid>, Option<Gid>) {
        let uid = (stat.st_uid != self.uid).then(|| Uid::from_raw(self.uid));
        let gid = (stat.st_gid != self.gid).then(|| Gid::from_raw(self.gid));
        (uid, gid)
    }
}

/// Puts what is at one place also at another, where something older may be, by a second name if the file system has them. At no moment is
/// either place without a whole file.
///
/// # Errors
/// If it cannot be written; then what was there still is.
pub fn copy_in_one_step(from: &PathHandle, to: &PathHandle) -> Result<()> {
    if from.is_same_file(to)? {
        return Ok(());
    }
    let temporary = to.temporary(TEMPORARY);
    temporary.remove()?;
    if from.link_to(&temporary).is_err()
        && let Ok(Some(image)) = Image::load(from)
    {
        image.write_to(&temporary)?;
    }
    move_into_place(&temporary, to)
}

/// Moves a file that was written to where it belongs: when this returns, that is on disk.
fn move_into_place(temporary: &PathHandle, place: &PathHandle) -> Result<()> {
    let moved = Durability::Each.sync([temporary], []).and_then(|()| temporary.rename_to(place));
    if moved.is_err() {
        let _ = temporary.remove();
    }
    moved.and_then(|()| Durability::Each.sync([], [place]))
}

/// Copies what is in a file, which was just seen to be so long, to new ones.
fn copy(from: &PathHandle, size: u64, to: &mut [(&PathHandle, File)]) -> Result<()> {
    let mut source = from.open()?;
    let length = usize::try_from(size).unwrap_or(usize::MAX).saturating_add(1).max(SMALLEST_BUFFER);
    if length > BUFFER_SIZE {
        return to.iter_mut().try_for_each(|(place, file)| {
            copy_whole(&mut source, file).map_err(|error| PathError::new("write", place.shown(), error))
        });
    }
    let mut buffer = vec![0; length];
    let mut copied = 0;
    loop {
        let read = match source.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(|error| PathError::new("read", from.shown(), error))?,
        };
        let (chunk, _) = buffer.split_at(read);
        for (place, file) in &mut *to {
            file.write_all(chunk).map_err(|error| PathError::new("write", place.shown(), error))?;
        }
        copied += read as u64;
        // If more was asked for than came, and the file is as long as it was, there is no need to ask for the end.
        if read == 0 || (read < buffer.len() && copied == size) {
            return Ok(());
        }
    }
}

/// Compares files that were just seen to be equally long.
fn same_content(one: &PathHandle, others: &[&PathHandle], size: u64) -> Result<bool> {
    let mut file = one.open()?;
    let mut other_files = others.iter().map(|other| Ok((*other, other.open()?))).collect::<Result<Vec<_>>>()?;
    let length = usize::try_from(size).unwrap_or(BUFFER_SIZE).min(BUFFER_SIZE);
    let (mut buffer, mut other_buffer) = (vec![0; length], vec![0; length]);
    let mut left = size;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(length).min(length);
        let ((chunk, _), (other_chunk, _)) = (buffer.split_at_mut(length), other_buffer.split_at_mut(length));
        if !read_all(one, &mut file, chunk)? {
            return Ok(false);
        }
        for (other, file) in &mut other_files {
            if !read_all(other, file, other_chunk)? || chunk != other_chunk {
                return Ok(false);
            }
        }
        left -= length as u64;
    }
    Ok(true)
}

/// Fills the buffer; returns whether the file was long enough. It may have become shorter since it was looked at.
fn read_all(place: &PathHandle, file: &mut File, buffer: &mut [u8]) -> Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(PathError::new("read", place.shown(), error)),
    }
}
