//! A pack: the objects that a generation adds, in one compressed file.
//!
//! It consists of three zstd frames: the concatenated files, the concatenated directories, and metadata of the
//! generation with the digests and lengths of the objects. A trailer of fixed length contains the offsets of the second
//! and third frame, and the digest of the third.

use super::generation::Generation;
use super::tree::{Digest, Hasher};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The last bytes of a pack: its file type and version.
const MAGIC: &[u8; 8] = b"holopk\x001";
const TRAILER: u64 = 8 + 8 + 32 + 8;
/// Takes a small share of the time of a first apply, and compresses text almost as well as higher levels.
const LEVEL: i32 = 3;
/// The metadata consists almost entirely of digests, which do not compress any better.
const CONTENTS_LEVEL: i32 = 1;

/// The metadata of a generation and of the objects in its pack.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Contents {
    pub(super) generation: Generation,
    /// The files in order, each with its length.
    pub(super) objects: Vec<(Digest, u64)>,
    /// The directories in order, each with its length. They are read more often than files.
    pub(super) directories: Vec<(Digest, u64)>,
}

/// A pack that is being written.
pub(super) struct Writer {
    objects: zstd::Encoder<'static, BufWriter<File>>,
    list: Vec<(Digest, u64)>,
    directories: Vec<(Digest, u64)>,
    /// The concatenated directories.
    directory_frame: zstd::Encoder<'static, Vec<u8>>,
}

/// A pack cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// It cannot be read.
    #[error("{}", holo_protocol::words::reason(.0))]
    Unreadable(#[from] io::Error),
    /// Its content does not match its digests.
    #[error("it is damaged")]
    Damaged,
}

impl Writer {
    /// Starts a pack in a new file.
    pub(super) fn create(path: &Path) -> io::Result<Writer> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let mut objects = zstd::Encoder::new(BufWriter::new(file), LEVEL)?;
        objects.include_checksum(true)?;
        let directory_frame = zstd::Encoder::new(Vec::new(), LEVEL)?;
        Ok(Writer { objects, list: Vec::new(), directories: Vec::new(), directory_frame })
    }

    /// Adds a file's content.
    pub(super) fn add(&mut self, digest: Digest, content: &[u8]) -> io::Result<()> {
        self.list.push((digest, content.len() as u64));
        self.objects.write_all(content)
    }

    /// Adds a directory.
    pub(super) fn add_directory(&mut self, digest: Digest, content: &[u8]) -> io::Result<()> {
        self.directories.push((digest, content.len() as u64));
        self.directory_frame.write_all(content)
    }

    /// Adds a file that is too large for memory. Fails if its content no longer has this digest.
    pub(super) fn add_from(&mut self, digest: Digest, mut content: impl Read) -> io::Result<()> {
        let (mut hasher, mut length, mut buffer) = (Hasher::default(), 0, vec![0; 1 << 16]);
        loop {
            let read = content.read(&mut buffer)?;
            let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
            hasher.update(bytes);
            length += read as u64;
            self.objects.write_all(bytes)?;
        }
        if hasher.finish() != digest {
            return Err(io::Error::other("it is being changed"));
        }
        self.list.push((digest, length));
        Ok(())
    }

    /// Finishes the pack, and waits until it is on disk.
    pub(super) fn finish(self, generation: Generation) -> io::Result<()> {
        let mut file = self.objects.finish()?;
        let objects = file.stream_position()?;
        let directories = self.directory_frame.finish()?;
        file.write_all(&directories)?;
        let contents = Contents { generation, objects: self.list, directories: self.directories };
        let mut frame = BufWriter::new(zstd::Encoder::new(Vec::new(), CONTENTS_LEVEL)?);
        serde_json::to_writer(&mut frame, &contents)?;
        let contents = frame.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
        file.write_all(&contents)?;
        file.write_all(&objects.to_le_bytes())?;
        file.write_all(&(directories.len() as u64).to_le_bytes())?;
        file.write_all(Digest::new(&contents).as_bytes())?;
        file.write_all(MAGIC)?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()
    }
}

/// Reads the metadata of a generation, without its objects.
///
/// # Errors
/// If it cannot be read, or is damaged.
pub(super) fn contents(path: &Path) -> Result<Contents, PackError> {
    Ok(open(path)?.0)
}

/// Reads all directories of a pack.
///
/// # Errors
/// If it cannot be read, or is damaged.
pub(super) fn directories(path: &Path) -> Result<HashMap<Digest, Vec<u8>>, PackError> {
    let (contents, frames) = open(path)?;
    let bytes = frames.read(frames.objects, frames.directories)?;
    let mut rest = &*zstd::decode_all(&*bytes).map_err(|_| PackError::Damaged)?;
    let mut directories = HashMap::new();
    for (digest, length) in contents.directories {
        let length = usize::try_from(length).map_err(|_| PackError::Damaged)?;
        let (directory, others) = rest.split_at_checked(length).ok_or(PackError::Damaged)?;
        if Digest::new(directory) != digest {
            return Err(PackError::Damaged);
        }
        directories.insert(digest, directory.to_vec());
        rest = others;
    }
    Ok(directories)
}

/// The frames of a pack.
struct Frames {
    file: File,
    /// The length of the first frame, in bytes.
    objects: u64,
    /// The length of the second frame, in bytes.
    directories: u64,
}

impl Frames {
    /// Reads `length` bytes from offset `start`.
    fn read(&self, start: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (&self.file).seek(SeekFrom::Start(start))?;
        (&self.file).take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

fn open(path: &Path) -> Result<(Contents, Frames), PackError> {
    let mut file = File::open(path)?;
    let end = file.metadata()?.len().checked_sub(TRAILER).ok_or(PackError::Damaged)?;
    file.seek(SeekFrom::Start(end))?;
    let (mut objects, mut directories, mut digest, mut magic) = ([0; 8], [0; 8], [0; 32], [0; 8]);
    file.read_exact(&mut objects)?;
    file.read_exact(&mut directories)?;
    file.read_exact(&mut digest)?;
    file.read_exact(&mut magic)?;
    let frames = Frames { file, objects: u64::from_le_bytes(objects), directories: u64::from_le_bytes(directories) };
    let start = frames.objects.checked_add(frames.directories).filter(|_| &magic == MAGIC).ok_or(PackError::Damaged)?;
    let compressed = frames.read(start, end.checked_sub(start).ok_or(PackError::Damaged)?)?;
    if Digest::new(&compressed).as_bytes() != &digest {
        return Err(PackError::Damaged);
    }
    let contents = zstd::decode_all(&*compressed).map_err(|_| PackError::Damaged)?;
    Ok((serde_json::from_slice(&contents).map_err(|_| PackError::Damaged)?, frames))
}

/// Passes the wanted objects of a pack to `take`, each with its content, and removes them from `wanted`. When this
/// returns `Ok`, all contents have been verified.
///
/// # Errors
/// If the pack cannot be read, or an object does not match its digest; and those of `take`.
pub(super) fn read<E: From<PackError>, T>(
    path: &Path,
    wanted: &mut HashMap<Digest, T>,
    mut take: impl FnMut(Digest, T, &mut dyn Read) -> Result<(), E>,
) -> Result<(), E> {
    let (contents, Frames { mut file, objects, .. }) = open(path)?;
    file.seek(SeekFrom::Start(0)).map_err(PackError::from)?;
    let mut decoder = zstd::Decoder::new(BufReader::new(file.take(objects))).map_err(PackError::from)?;
    for (digest, length) in contents.objects {
        if wanted.is_empty() {
            break;
        }
        let mut object =
            Checked { inner: (&mut decoder).take(length), hasher: Hasher::default(), read: 0, broken: false };
        if let Some(with) = wanted.remove(&digest) {
            let taken = take(digest, with, &mut object);
            if object.broken {
                return Err(PackError::Damaged.into());
            }
            taken?;
            // The callback need not read to the end.
            io::copy(&mut object, &mut io::sink()).map_err(|_| PackError::Damaged)?;
            if object.read != length || object.hasher.finish() != digest {
                return Err(PackError::Damaged.into());
            }
        } else {
            let skipped = io::copy(&mut object.inner, &mut io::sink()).map_err(|_| PackError::Damaged)?;
            if skipped != length {
                return Err(PackError::Damaged.into());
            }
        }
    }
    Ok(())
}

/// Reads an object and computes its digest.
struct Checked<R> {
    inner: R,
    hasher: Hasher,
    read: u64,
    /// Whether reading failed.
    broken: bool,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer).inspect_err(|_| self.broken = true)?;
        self.hasher.update(buffer.get(..read).unwrap_or_default());
        self.read += read as u64;
        Ok(read)
    }
}
