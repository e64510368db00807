//! The archive of a bundle: `tar`, compressed by zstd. The manifest is the first member, and lists the others in their
//! order, so everything about them is known before they are read.

use super::contents::Contents;
use super::error::BundleError;
use super::manifest::{MANIFEST, MAX_FILES, MAX_MANIFEST, MAX_SIZE, Manifest, Member};
use holo_change::hex;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use tar::{EntryType, Header};

/// The level of compression, on which the bytes of a bundle depend.
const LEVEL: i32 = 12;
/// What `tar` adds to each member, at most.
const OVERHEAD: u64 = 1024;

impl Contents {
    /// Writes the archive.
    ///
    /// # Errors
    /// If a file cannot be read, or was changed since its digest was made, or the archive cannot be written.
    pub(crate) fn write(&self, to: impl Write, shown: &Path) -> Result<(), BundleError> {
        let failed = |source| BundleError::Write { path: shown.to_owned(), source };
        let manifest = self.manifest.to_json();
        let mut encoder = zstd::Encoder::new(to, LEVEL).map_err(failed)?;
        encoder.include_checksum(true).map_err(failed)?;
        let mut tar = tar::Builder::new(encoder);
        let entry = header(MANIFEST, EntryType::Regular, manifest.len() as u64, 0o644).map_err(failed)?;
        tar.append(&entry, &*manifest).map_err(failed)?;
        for (path, member) in &self.manifest.files {
            let file = self.directory.join(path);
            let unnameable = |source| BundleError::Read { path: file.clone(), source };
            match member {
                Member::Symlink { target } => {
                    let mut entry = header(path, EntryType::Symlink, 0, member.mode()).map_err(unnameable)?;
                    entry.set_link_name_literal(target).map_err(unnameable)?;
                    entry.set_cksum();
                    tar.append(&entry, io::empty()).map_err(failed)?;
                }
                Member::File { sha256, size, .. } => {
                    let entry = header(path, EntryType::Regular, *size, member.mode()).map_err(unnameable)?;
                    let opened = File::open(&file).map_err(BundleError::reading(&file))?;
                    let mut content = Counted::new(opened.take(*size));
                    tar.append(&entry, &mut content).map_err(failed)?;
                    if !content.is(*size, sha256) {
                        return Err(BundleError::Changed(file));
                    }
                }
            }
        }
        let encoder = tar.into_inner().map_err(failed)?;
        encoder.finish().and_then(|mut written| written.flush()).map_err(failed)
    }
}

/// Returns the header of a member, which depends on nothing else.
fn header(path: &str, kind: EntryType, size: u64, mode: u32) -> io::Result<Header> {
    let mut header = Header::new_ustar();
    header.set_path(path).map_err(|_| io::Error::other("its path is too long for a bundle; shorten it"))?;
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_cksum();
    Ok(header)
}

impl Manifest {
    fn to_json(&self) -> Vec<u8> {
        // Strings and numbers always can be written.
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

/// Reads an archive, and passes each member with its content, which must be read to its end, to a function. Each is
/// compared with the manifest.
///
/// # Errors
/// If the archive is damaged, too large, or not what its manifest says, and the errors of the function.
pub(super) fn read(
    shown: &Path,
    bytes: &[u8],
    mut visit: impl FnMut(&str, &Member, &mut dyn Read) -> Result<(), BundleError>,
) -> Result<Manifest, BundleError> {
    let invalid = |problem: String| BundleError::Invalid { path: shown.to_owned(), problem };
    let damaged = |error: io::Error| invalid(error.to_string());
    let decoder = zstd::Decoder::with_buffer(BufReader::new(bytes)).map_err(damaged)?;
    let limit = MAX_SIZE + MAX_MANIFEST + (MAX_FILES as u64 + 2) * OVERHEAD;
    let mut tar = tar::Archive::new(decoder.take(limit));
    // Without extensions, no name is longer than its header.
    let mut entries = tar.entries().map_err(damaged)?.raw(true);
    let first = entries.next().ok_or_else(|| invalid("it is empty".to_owned()))?.map_err(damaged)?;
    if *first.path_bytes() != *MANIFEST.as_bytes() || first.size() > MAX_MANIFEST {
        return Err(invalid(format!("its first member is not {MANIFEST}")));
    }
    let mut text = Vec::new();
    first.take(MAX_MANIFEST).read_to_end(&mut text).map_err(damaged)?;
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| invalid(format!("{MANIFEST}: {error}")))?;
    if let Some(problem) = manifest.problems().into_iter().next() {
        return Err(invalid(problem));
    }
    if manifest.size() > MAX_SIZE {
        return Err(BundleError::TooLarge { path: shown.to_owned(), limit: MAX_SIZE });
    }
    for (path, member) in &manifest.files {
        let wrong = || invalid(format!("{path} is not as in its manifest"));
        let entry = entries.next().ok_or_else(wrong)?.map_err(damaged)?;
        let is_listed = *entry.path_bytes() == *path.as_bytes() && entry.size() == member.size();
        let is_of_kind = match member {
            Member::File { .. } => entry.header().entry_type() == EntryType::Regular,
            Member::Symlink { target } => {
                entry.header().entry_type() == EntryType::Symlink
                    && entry.link_name_bytes().is_some_and(|found| *found == *target.as_bytes())
            }
        };
        if !is_listed || !is_of_kind {
            return Err(wrong());
        }
        let mut content = Counted::new(entry);
        visit(path, member, &mut content)?;
        if let Member::File { sha256, size, .. } = member
            && !content.is(*size, sha256)
        {
            return Err(wrong());
        }
    }
    match entries.next() {
        None => Ok(manifest),
        Some(_) => Err(invalid("it contains more than its manifest lists".to_owned())),
    }
}

/// Returns the SHA-256 of a content.
pub(super) fn sha256(content: impl Read) -> io::Result<String> {
    let mut content = Counted::new(content);
    io::copy(&mut content, &mut io::sink())?;
    Ok(hex(&content.digest.finalize()))
}

/// Counts and digests what is read.
struct Counted<R> {
    content: R,
    digest: Sha256,
    size: u64,
}

impl<R> Counted<R> {
    fn new(content: R) -> Counted<R> {
        Counted { content, digest: Sha256::new(), size: 0 }
    }

    fn is(self, size: u64, sha256: &str) -> bool {
        self.size == size && hex(&self.digest.finalize()) == sha256
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.content.read(buffer)?;
        self.digest.update(buffer.get(..length).unwrap_or_default());
        self.size += length as u64;
        Ok(length)
    }
}
