//! Images of files: the type, content, mode and owner of a file or symlink. Large files are copied with their holes, or
//! by sharing blocks.

mod stamp;

use crate::error::{PathError, Result};
use crate::path_handle::{self, Durability, ExtendedAttributes, PathHandle, TEMPORARY};
use crate::resolution;
use rustix::fs::{Gid, SeekFrom, Stat, Uid};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Seek, Write};

pub use stamp::{Meanwhile, Stamp, is_settled};

const BUFFER_SIZE: usize = 1 << 16;
const SMALLEST_BUFFER: usize = 1 << 12;
/// The bits of a mode that are not the type: permissions, set-user-ID, set-group-ID, sticky.
const MODE_BITS: u32 = 0o7777;
/// The current or desired state of a file or symlink. The content of a file is not loaded until it is needed.
#[derive(Clone, Debug)]
pub struct Image {
    /// The content.
    pub content: Content,
    /// All twelve mode bits; meaningless for a symlink.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The path of the file with the extended attributes. Like the content, they are not loaded until they are needed.
    pub attributes_of: PathHandle,
}

/// The content of a file or symlink.
#[derive(Clone, Debug)]
pub enum Content {
    /// The target of a symlink.
    Symlink(Vec<u8>),
    /// The content of a regular file.
    File {
        /// The path from which it can be read.
        place: PathHandle,
        /// Its length when it was examined.
        size: u64,
    },
}

/// The error for a path without an image.
#[derive(Debug, thiserror::Error)]
pub enum Unmanageable {
    /// The path is neither a file nor a symlink.
    #[error("not a manageable file")]
    WrongType,
    /// The path cannot be examined.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl Image {
    /// Returns the image of a path; `None` if it does not exist.
    ///
    /// # Errors
    /// If it is neither a file nor a symlink, or cannot be examined.
    pub fn load(place: &PathHandle) -> std::result::Result<Option<Image>, Unmanageable> {
        Stamp::of(place)?.map(|stamp| stamp.image(place)).transpose()
    }

    /// Returns true if it is a symlink.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        matches!(self.content, Content::Symlink(_))
    }

    /// Returns true if it belongs to root or the current user. A symlink of another user may point to files that its
    /// owner cannot read.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        resolution::is_trusted(self.uid)
    }

    /// Returns true if both are equal: type, content or target, owner, group, and mode of a file, but not extended
    /// attributes.
    ///
    /// # Errors
    /// If a content cannot be read.
    pub fn equals(&self, other: &Image) -> Result<bool> {
        self.equals_all(&[other])
    }

    /// Returns true if all of these are equal to this image. Each content is read at most once.
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

    /// Returns true if both files have the same mode, or had it before the ACL of one of them was lost on a file system
    /// without ACLs.
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

    /// Returns the image with the extended attributes of the file that it replaces, if the owner and mode are equal.
    /// Otherwise it keeps its own, because an ACL depends on the mode.
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

    /// Returns true if it is stored on a file system without ACLs, where its ACL may have been lost.
    #[must_use]
    pub fn may_lack_acl(&self) -> bool {
        path_handle::is_without_acls(&self.attributes_of)
    }

    /// Writes the image to a path, replacing an existing file. Other users cannot open the file before it has its
    /// owner, mode and ACL. On a file system without ACLs, the mode is narrowed so that no user gains permissions.
    ///
    /// The existing file is removed first, so this is meant for temporary paths, followed by [`PathHandle::rename_to`].
    ///
    /// # Errors
    /// If the content cannot be read or written, or the mode or owner cannot be set. No file remains in this case.
    pub fn write_to(&self, place: &PathHandle) -> Result<()> {
        self.write_to_all(&[place])
    }

    /// Writes the image to several paths, like [`write_to`](Image::write_to), but reads the content once. The first
    /// path is created first.
    ///
    /// # Errors
    /// Those of `write_to`. No files remain in this case.
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

    /// Atomically creates or replaces a file with the image. When this returns, it is on disk.
    ///
    /// # Errors
    /// Those of [`Image::write_to`]. An existing file remains unchanged then.
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

    /// Returns the owner and group to be set on a file that has others. Only root may set them, even to the same
    /// values.
    fn owners_to_change(&self, stat: &Stat) -> (Option<Uid>, Option<Gid>) {
        let uid = (stat.st_uid != self.uid).then(|| Uid::from_raw(self.uid));
        let gid = (stat.st_gid != self.gid).then(|| Gid::from_raw(self.gid));
        (uid, gid)
    }
}

/// Makes a file available at another path too, replacing an existing file, as a hard link if the file system supports
/// them. Neither path is without a complete file at any time.
///
/// # Errors
/// If the file cannot be written. An existing file remains unchanged then.
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

/// Moves a temporary file to its final path. When this returns, the change is on disk.
fn move_into_place(temporary: &PathHandle, place: &PathHandle) -> Result<()> {
    let moved = Durability::Each.sync([temporary], []).and_then(|()| temporary.rename_to(place));
    if moved.is_err() {
        let _ = temporary.remove();
    }
    moved.and_then(|()| Durability::Each.sync([], [place]))
}

/// Copies the content of a file, which had this size when it was examined, to new files.
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
        // After a short read at the expected size, no further read is needed to detect the end of the file.
        if read == 0 || (read < buffer.len() && copied == size) {
            return Ok(());
        }
    }
}

/// Compares the contents of files that had the same size when they were examined.
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

/// Fills the buffer. Returns false if the file is too short, which happens if it was truncated after it was examined.
fn read_all(place: &PathHandle, file: &mut File, buffer: &mut [u8]) -> Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(PathError::new("read", place.shown(), error)),
    }
}

/// Copies a complete file to a new one. If possible, both share their blocks; otherwise the kernel copies the data, and
/// holes are preserved.
///
/// # Errors
/// If a file cannot be read or written.
pub(crate) fn copy_whole(from: &mut File, to: &mut File) -> io::Result<()> {
    if rustix::fs::ioctl_ficlone(&*to, &*from).is_ok() {
        return Ok(());
    }
    let mut position = 0;
    loop {
        let start = match rustix::fs::seek(&*from, SeekFrom::Data(position)) {
            Ok(start) => start,
            // Only a hole is left, or the end of the file.
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::NOTSUP) => {
                from.seek(io::SeekFrom::Start(position))?;
                to.seek(io::SeekFrom::Start(position))?;
                return io::copy(from, to).map(drop);
            }
            Err(errno) => return Err(errno.into()),
        };
        let end = rustix::fs::seek(&*from, SeekFrom::Hole(start))?;
        from.seek(io::SeekFrom::Start(start))?;
        to.seek(io::SeekFrom::Start(start))?;
        let copied = io::copy(&mut (&*from).take(end - start), to)?;
        if copied < end - start {
            // The file was truncated in the meantime.
            break;
        }
        position = end;
    }
    let length = from.seek(io::SeekFrom::End(0))?;
    to.set_len(length)
}

#[cfg(test)]
mod copying_tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn holes_stay_holes() {
        const HOLE: u64 = 32 << 20;
        for (name, data) in [
            ("first", vec![0]),
            ("last", vec![HOLE]),
            ("both", vec![0, HOLE]),
            ("between", vec![HOLE / 2]),
            ("none", vec![]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let (from, to) = (folder.path().join("from"), folder.path().join("to"));
            let mut file = File::options().create_new(true).read(true).write(true).open(&from).unwrap();
            for position in data {
                file.seek(io::SeekFrom::Start(position)).unwrap();
                file.write_all(name.repeat(1000).as_bytes()).unwrap();
            }
            if file.metadata().unwrap().len() < HOLE {
                file.set_len(HOLE).unwrap();
            }
            copy_whole(&mut file, &mut File::create_new(&to).unwrap()).unwrap();
            assert!(std::fs::read(&from).unwrap() == std::fs::read(&to).unwrap(), "{name}");
            let blocks = |path| std::fs::metadata(path).unwrap().blocks();
            assert!(blocks(&to) <= blocks(&from) + 64, "{name}: {} blocks of {}", blocks(&to), blocks(&from));
        }
    }
}
