//! Attempts to download a file from one address, or to read it from a local file, into a temporary file.

use super::http::{Client, Response, ResponseBody};
use super::{BUFFER_SIZE, CompleteDownload, Download, Request, TransferError, Validators, check_size, verify};
use crate::address::Address;
use crate::checksum::{Checksum, Digests};
use holo_change::error::PathError;
use holo_change::{Kind, PathHandle, Tree};
use holo_plugin::{Host, Meter, Output};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

pub(super) struct Attempts<'a, 'o> {
    pub(super) request: &'a Request<'a>,
    pub(super) address: &'a Address,
    pub(super) part: &'a PathHandle,
    pub(super) output: &'a mut Output<'o>,
}

/// The maximum delay that a server can request.
const LONGEST_WAIT: Duration = Duration::from_secs(5 * 60);

/// The outcome of an attempt.
enum Attempt {
    Unmodified,
    Complete,
}

impl Attempts<'_, '_> {
    pub(super) fn run(mut self) -> Result<Download, TransferError> {
        let client = Client::new(self.request, self.address)?;
        // A part from an earlier run is only useful if a checksum can verify the result.
        let mut part = match self.request.checksum {
            Some(_) => PartialFile::resume(self.part)?,
            None => PartialFile::new(self.part)?,
        };
        if let Some(digests) = self.digests_if_complete(&mut part)? {
            return Ok(part.into_download(digests, Validators::default()));
        }
        let mut validators: Option<Validators> = None;
        let mut failures = 0;
        let mut furthest = part.length();
        loop {
            if !self.may_resume(validators.as_ref()) {
                part.restart()?;
            }
            match self.attempt(&client, &mut part, &mut validators) {
                Ok(Attempt::Unmodified) => {
                    part.discard();
                    return Ok(Download::Unmodified);
                }
                Ok(Attempt::Complete) => {
                    let digests = part.digests(self.request.checksum.as_ref())?;
                    match self.request.checksum.as_ref().map(|expected| verify(&digests, expected)) {
                        None | Some(Ok(())) => {
                            return Ok(part.into_download(digests, validators.unwrap_or_default()));
                        }
                        // The parts may be of different versions: request the whole file once.
                        Some(Err(_)) if part.is_patched() => part.restart()?,
                        Some(Err(error)) => {
                            part.discard();
                            return Err(error);
                        }
                    }
                }
                Err(error @ (TransferError::Transient(_) | TransferError::Later { .. })) => {
                    // As long as each attempt makes progress, the download will finish.
                    if part.length() > furthest {
                        furthest = part.length();
                        failures = 0;
                    }
                    failures += 1;
                    let again = failures < self.request.timeouts.attempts && self.back_off(failures, &error);
                    if !again {
                        if self.request.checksum.is_none() || part.length() == 0 {
                            part.discard();
                        }
                        return Err(error);
                    }
                }
                Err(error) => {
                    part.discard();
                    return Err(error);
                }
            }
        }
    }

    /// Returns the digests of the part from an earlier run if it is complete.
    fn digests_if_complete(&self, part: &mut PartialFile) -> Result<Option<Digests>, TransferError> {
        let Some(expected) = self.request.checksum.as_ref().filter(|_| part.length() > 0) else { return Ok(None) };
        let digests = part.digests(Some(expected))?;
        Ok(verify(&digests, expected).is_ok().then_some(digests))
    }

    fn may_resume(&self, validators: Option<&Validators>) -> bool {
        self.request.checksum.is_some() || validators.is_some_and(|known| known.for_range().is_some())
    }

    fn attempt(
        &mut self,
        client: &Client<'_>,
        part: &mut PartialFile,
        validators: &mut Option<Validators>,
    ) -> Result<Attempt, TransferError> {
        let range = validators.as_ref().and_then(Validators::for_range);
        let body = match client.get(part.length(), range)? {
            Response::Unmodified => return Ok(Attempt::Unmodified),
            Response::Unsatisfiable => {
                part.restart()?;
                return Err(TransferError::Transient("the server has less than what was downloaded".to_owned()));
            }
            Response::Body(body) => body,
        };
        if body.start == 0 {
            part.restart()?;
        } else {
            let is_other = validators.as_ref().is_some_and(|known| {
                known.etag.is_some() && body.validators.etag.is_some() && known.etag != body.validators.etag
            });
            if is_other || body.start != part.length() {
                part.restart()?;
                *validators = None;
                return Err(TransferError::Transient("it was changed while it was downloaded".to_owned()));
            }
            part.set_patched();
        }
        *validators = Some(body.validators.clone());
        self.receive(body, part)?;
        Ok(Attempt::Complete)
    }

    fn receive(&mut self, body: ResponseBody, part: &mut PartialFile) -> Result<(), TransferError> {
        let mut reader = body.reader;
        let mut meter = Meter::of_bytes("downloading", body.total);
        let mut buffer = vec![0; BUFFER_SIZE];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    part.append(buffer.get(..length).unwrap_or_default())?;
                    check_size(part.length(), self.request.max_size)?;
                    meter.reached(part.length(), self.output);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TransferError::from_body(&error)),
            }
            if self.request.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Err(TransferError::DeadlineExceeded);
            }
        }
        match body.total {
            Some(total) if total != part.length() => {
                Err(TransferError::Transient(format!("it ended after {} of {total} bytes", part.length())))
            }
            _ => Ok(()),
        }
    }

    /// Waits before another attempt. Returns false if there is no time left.
    fn back_off(&mut self, failures: u32, error: &TransferError) -> bool {
        let timeouts = &self.request.timeouts;
        let own = timeouts.back_off.saturating_mul(1 << (failures - 1).min(6));
        let delay = match error {
            TransferError::Later { after, .. } => own.max(*after),
            _ => own,
        };
        let left = self.request.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left <= delay) || delay > LONGEST_WAIT {
            return false;
        }
        let (address, retries) = (self.address, timeouts.attempts - 1);
        self.output.warning(format!("{address}: {error}; trying again in {delay:?} ({failures} of {retries})"));
        thread::sleep(delay);
        true
    }
}

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

/// Returns a handle for a file below the root.
pub fn open(path: &Path, host: &Host) -> Result<PathHandle, PathError> {
    Tree::open(host.root()).and_then(|root| root.place(path).followed())
}

/// Copies a local file.
///
/// # Errors
/// If the file cannot be read, is too large, or has the wrong checksum.
pub fn copy(
    request: &Request<'_>,
    path: &Path,
    to: &PathHandle,
    host: &Host,
    output: &mut Output<'_>,
) -> Result<Download, TransferError> {
    let source = open(path, host)?;
    let from = source.open()?;
    if !from.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(TransferError::NotRegular);
    }
    if let Some(previous) = &request.previous
        && request.checksums.digests(&source, None)?.sha256 == previous.sha256
    {
        return Ok(Download::Unmodified);
    }
    let mut part = PartialFile::new(to)?;
    copy_content(from, &mut part, request.max_size, output).inspect_err(|error| {
        if matches!(error, TransferError::TooLarge { .. }) {
            part.discard();
        }
    })?;
    let digests = part.digests(request.checksum.as_ref())?;
    if let Some(expected) = &request.checksum {
        verify(&digests, expected).inspect_err(|_| part.discard())?;
    }
    Ok(part.into_download(digests, Validators::default()))
}

fn copy_content(
    mut from: File,
    part: &mut PartialFile,
    max_size: u64,
    output: &mut Output<'_>,
) -> Result<(), TransferError> {
    let mut meter = Meter::of_bytes("copying", from.metadata().ok().map(|metadata| metadata.len()));
    let mut buffer = vec![0; BUFFER_SIZE];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                part.append(buffer.get(..length).unwrap_or_default())?;
                check_size(part.length(), max_size)?;
                meter.reached(part.length(), output);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}
