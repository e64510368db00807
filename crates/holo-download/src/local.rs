//! Local files as sources.

use super::partial::PartialFile;
use super::{BUFFER_SIZE, Download, Request, TransferError, Validators, check_size, verify};
use holo_change::error::PathError;
use holo_change::{PathHandle, Tree};
use holo_plugin::{Host, Meter, Output};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

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
