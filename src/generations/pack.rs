//! A pack: the objects that a generation has brought, in one compressed file.
//!
//! There are two frames of zstd: all objects one after the other, and then what is known of the generation, with the digests and lengths of
//! the objects, and with its directories. A trailer of fixed length says where the second one begins, and which digest it has.

use super::digest::{Digest, Hasher};
use super::generation::Generation;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The last bytes of a pack: that it is one, and of which version.
const MAGIC: &[u8; 8] = b"holopk\x001";
const TRAILER: u64 = 8 + 32 + 8;
/// Little of the time of a first apply, and nearly all of what is to be had for text.
const LEVEL: i32 = 3;

/// What is known of a generation, and of the objects of its pack.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Contents {
    pub(super) generation: Generation,
    /// The objects in their order, each with its length.
    pub(super) objects: Vec<(Digest, u64)>,
    /// The directories, which are looked at more often than what is in them.
    pub(super) directories: Vec<String>,
}

/// A pack that is being written.
pub(super) struct Writer {
    objects: zstd::Encoder<'static, BufWriter<File>>,
    list: Vec<(Digest, u64)>,
    directories: Vec<String>,
}

/// A pack cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// It cannot be read.
    #[error("{}", holo_protocol::words::reason(.0))]
    Unreadable(#[from] io::Error),
    /// It is not as it was written.
    #[error("it is damaged")]
    Damaged,
}

impl Writer {
    /// Begins a pack in a new file.
    pub(super) fn create(path: &Path) -> io::Result<Writer> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let mut objects = zstd::Encoder::new(BufWriter::new(file), LEVEL)?;
        objects.include_checksum(true)?;
        Ok(Writer { objects, list: Vec::new(), directories: Vec::new() })
    }

    /// Adds an object.
    pub(super) fn add(&mut self, digest: Digest, content: &[u8]) -> io::Result<()> {
        self.list.push((digest, content.len() as u64));
        self.objects.write_all(content)
    }

    /// Adds a directory.
    pub(super) fn add_directory(&mut self, content: &[u8]) {
        self.directories.push(String::from_utf8_lossy(content).into_owned());
    }

    /// Adds an object that is too large for memory, with a digest that was found out before. It may have been changed meanwhile.
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

    /// Ends the pack, and returns when all of it is on disk.
    pub(super) fn finish(self, generation: Generation) -> io::Result<()> {
        let mut file = self.objects.finish()?;
        let objects = file.stream_position()?;
        let contents = Contents { generation, objects: self.list, directories: self.directories };
        let contents = serde_json::to_vec(&contents)?;
        let contents = zstd::encode_all(&*contents, LEVEL)?;
        file.write_all(&contents)?;
        file.write_all(&objects.to_le_bytes())?;
        file.write_all(Digest::new(&contents).as_bytes())?;
        file.write_all(MAGIC)?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()
    }
}

/// Reads what is known of a generation, without its objects.
///
/// # Errors
/// If it cannot be read, or is damaged.
pub(super) fn contents(path: &Path) -> Result<Contents, PackError> {
    Ok(open(path)?.0)
}

fn open(path: &Path) -> Result<(Contents, io::Take<File>), PackError> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let end = length.checked_sub(TRAILER).ok_or(PackError::Damaged)?;
    file.seek(SeekFrom::Start(end))?;
    let (mut objects, mut digest, mut magic) = ([0; 8], [0; 32], [0; 8]);
    file.read_exact(&mut objects)?;
    file.read_exact(&mut digest)?;
    file.read_exact(&mut magic)?;
    let objects = u64::from_le_bytes(objects);
    let size = end.checked_sub(objects).filter(|_| &magic == MAGIC).ok_or(PackError::Damaged)?;
    file.seek(SeekFrom::Start(objects))?;
    let mut compressed = Vec::new();
    (&file).take(size).read_to_end(&mut compressed)?;
    if Digest::new(&compressed).as_bytes() != &digest {
        return Err(PackError::Damaged);
    }
    let contents = zstd::decode_all(&*compressed).map_err(|_| PackError::Damaged)?;
    let contents = serde_json::from_slice(&contents).map_err(|_| PackError::Damaged)?;
    file.seek(SeekFrom::Start(0))?;
    Ok((contents, file.take(objects)))
}

/// Hands those objects of a pack to `take` that are wanted, each with its content, and strikes them out. The content has been checked when
/// `take` has read all of it: then `Ok` is returned.
///
/// # Errors
/// If it cannot be read, or an object is not what it should be; and those of `take`.
pub(super) fn read<E: From<PackError>, T>(
    path: &Path,
    wanted: &mut HashMap<Digest, T>,
    mut take: impl FnMut(Digest, T, &mut dyn Read) -> Result<(), E>,
) -> Result<(), E> {
    let (contents, file) = open(path)?;
    let mut decoder = zstd::Decoder::new(BufReader::new(file)).map_err(PackError::from)?;
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
            // Some do not read to the end.
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

/// Reads an object, and finds out its digest.
struct Checked<R> {
    inner: R,
    hasher: Hasher,
    read: u64,
    /// True if it could not be read to its end.
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
