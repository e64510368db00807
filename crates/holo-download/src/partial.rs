//! The temporary file of a download.

use super::{CompleteDownload, Download, TransferError, Validators};
use crate::checksum::{Checksum, Digests};
use holo_change::error::PathError;
use holo_change::{Kind, PathHandle};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

/// The suffix of the temporary file's name.
pub const PART_SUFFIX: &str = ".holopart";

pub(super) struct PartialFile {
    path: PathHandle,
    file: File,
    length: u64,
    /// True if the file consists of several responses.
    is_patched: bool,
}

impl PartialFile {
    /// Creates an empty file, replacing an existing one.
    pub(super) fn new(path: &PathHandle) -> Result<PartialFile, PathError> {
        path.create_folder()?;
        path.create()?;
        Ok(PartialFile { path: path.clone(), file: path.open_to_write()?, length: 0, is_patched: false })
    }

    /// Opens the part from an earlier run if no other user can have modified it; otherwise starts with an empty file.
    pub(super) fn resume(path: &PathHandle) -> Result<PartialFile, TransferError> {
        let us = rustix::process::geteuid().as_raw();
        let is_ours = path.stat()?.is_some_and(|stat| {
            (stat.kind, stat.mode, stat.uid, stat.names) == (Kind::File, 0o600, us, 1) && stat.size > 0
        });
        if !is_ours {
            return Ok(PartialFile::new(path)?);
        }
        let mut file = path.open_to_write()?;
        let length = file.seek(SeekFrom::End(0))?;
        Ok(PartialFile { path: path.clone(), file, length, is_patched: length > 0 })
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Truncates the file.
    pub(super) fn restart(&mut self) -> Result<(), TransferError> {
        if self.length > 0 {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.length = 0;
        }
        self.is_patched = false;
        Ok(())
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), TransferError> {
        self.file.write_all(bytes).map_err(|error| PathError::new("write", self.path.shown(), error))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Marks the file as continued by another response.
    pub(super) fn set_patched(&mut self) {
        self.is_patched = true;
    }

    pub(super) fn is_patched(&self) -> bool {
        self.is_patched
    }

    /// Returns the digests of the whole file. More bytes can be appended afterwards.
    pub(super) fn digests(&mut self, checksum: Option<&Checksum>) -> Result<Digests, TransferError> {
        self.file.rewind()?;
        let digests = Digests::read(&mut self.file, checksum)?;
        self.file.seek(SeekFrom::End(0))?;
        Ok(digests)
    }

    /// Removes the file.
    pub(super) fn discard(&mut self) {
        let _ = self.path.remove();
        self.length = 0;
    }

    pub(super) fn into_download(self, digests: Digests, validators: Validators) -> Download {
        Download::Complete(CompleteDownload {
            path: self.path,
            file: self.file,
            digests,
            validators,
            copied_from: None,
        })
    }
}
