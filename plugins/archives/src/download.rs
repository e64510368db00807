//! Downloads: over HTTP and HTTPS, or from a file of this machine, into a temporary file beside the target.

mod attempts;
mod error;
mod http;
mod local;
mod partial;

use crate::address::{Address, Credentials};
use crate::checksum::{Checksum, Digests};
use crate::checksum_cache::ChecksumCache;
use attempts::Attempts;
use holo_change::PathHandle;
use holo_plugin::{Host, Output};
use http::{Client, Response};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

pub(crate) use error::DownloadError;
use error::TransferError;
pub(crate) use http::Timeouts;
pub(crate) use local::{copy, open};
pub(crate) use partial::PART_SUFFIX;

/// The limit of a download's size if the definition has none.
pub(crate) const MAX_SIZE: u64 = 16 << 30;
/// The limit of a download's time, from all mirrors, if the definition has none: a server that sends a byte now and then never stalls.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(4 * 60 * 60);

const BUFFER_SIZE: usize = 1 << 16;

/// The headers by which a server tells whether something has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Validators {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) etag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_modified: Option<String>,
}

impl Validators {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Validators::default()
    }

    /// Returns the validator that differs for any two versions, byte by byte.
    fn for_range(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/")).or(self.last_modified.as_deref())
    }
}

/// A download that is wanted.
pub(crate) struct Request<'a> {
    /// The URL and its mirrors, in the order in which they are tried.
    pub(crate) addresses: &'a [Address],
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) checksum: Option<Checksum>,
    /// The local download, if it will do unless the server has something newer.
    pub(crate) previous: Option<PreviousDownload>,
    pub(crate) checksums: &'a ChecksumCache,
    /// The largest size that is allowed, in bytes.
    pub(crate) max_size: u64,
    pub(crate) deadline: Option<Instant>,
    pub(crate) timeouts: Timeouts,
}

/// A download that was made earlier.
#[derive(Clone, Debug)]
pub(crate) struct PreviousDownload {
    pub(crate) sha256: String,
    pub(crate) validators: Validators,
}

/// The outcome of a download.
pub(crate) enum Download {
    /// The previous download is what the server has.
    Unmodified,
    /// A file beside the target, which no other user can read.
    Complete(CompleteDownload),
}

/// A complete download with the right checksum.
pub(crate) struct CompleteDownload {
    pub(crate) path: PathHandle,
    pub(crate) file: std::fs::File,
    pub(crate) digests: Digests,
    pub(crate) validators: Validators,
    /// The path of another archive's download that it was copied from.
    pub(crate) copied_from: Option<String>,
}

/// Downloads a file to a temporary path beside its target.
///
/// # Errors
/// If none of the addresses works. The message holds no secrets.
pub(crate) fn download(
    request: &Request<'_>,
    target: &PathHandle,
    host: &Host,
    output: &mut Output<'_>,
) -> Result<Download, DownloadError> {
    let part = target.temporary(PART_SUFFIX);
    let mut failure = DownloadError::NoAddress;
    for (index, address) in request.addresses.iter().enumerate() {
        let result = match address.file() {
            Some(path) => copy(request, &path, &part, host, output),
            None => Attempts { request, address, part: &part, output }.run(),
        };
        match result {
            Ok(download) => return Ok(download),
            Err(error) => {
                failure = error.at(address);
                if index + 1 < request.addresses.len() {
                    output.warning(format!("{failure}; trying the next mirror"));
                }
            }
        }
    }
    Err(failure)
}

/// Returns true if the previous download is what the server has. Nothing is downloaded; the first server that answers decides.
///
/// # Errors
/// If none of the addresses works.
pub(crate) fn is_unmodified(request: &Request<'_>, host: &Host) -> Result<bool, DownloadError> {
    let mut failure = DownloadError::NoAddress;
    for address in request.addresses {
        match is_unmodified_at(request, address, host) {
            Ok(is_unmodified) => return Ok(is_unmodified),
            Err(error) => failure = error.at(address),
        }
    }
    Err(failure)
}

fn is_unmodified_at(request: &Request<'_>, address: &Address, host: &Host) -> Result<bool, TransferError> {
    let Some(previous) = &request.previous else { return Ok(false) };
    if let Some(path) = address.file() {
        let source = open(&path, host)?;
        return Ok(request.checksums.digests(&source, None)?.sha256 == previous.sha256);
    }
    match Client::new(request, address)?.get(0, None)? {
        Response::Unmodified => Ok(true),
        // Some servers ignore validators, and send what they have.
        Response::Body(body) => Ok(!body.validators.is_empty() && body.validators == previous.validators),
        Response::Unsatisfiable => Ok(false),
    }
}

fn check_size(size: u64, limit: u64) -> Result<(), TransferError> {
    if size <= limit { Ok(()) } else { Err(TransferError::TooLarge { limit }) }
}

fn verify(digests: &Digests, expected: &Checksum) -> Result<(), TransferError> {
    digests.matches(expected).map_err(|found| TransferError::WrongChecksum { found, expected: expected.clone() })
}

#[cfg(test)]
mod tests;
