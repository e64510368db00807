//! Downloads: over HTTP and HTTPS, or from a file of this machine, into a temporary file beside the target.

mod address;
mod attempts;
mod checksum;
mod checksum_cache;
mod error;
mod forward;
mod http;
mod local;
mod partial;
mod proxy;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use attempts::Attempts;
use holo_change::PathHandle;
use holo_plugin::{Host, Output};
use http::{Client, Response};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

pub use address::{Address, AddressError, Credentials};
pub use checksum::{Algorithm, BUFFER_SIZE, Checksum, ChecksumError, Digests, sha256};
pub use checksum_cache::{ChecksumCache, remove_cache};
pub use error::{DownloadError, TransferError};
pub use http::{CertificatesError, Timeouts, system_tls};
pub use local::{copy, open};
pub use partial::PART_SUFFIX;

/// The limit of a download's size if the definition has none.
pub const MAX_SIZE: u64 = 16 << 30;
/// The limit of a download's time, from all mirrors, if the definition has none: a server that sends a byte now and then never stalls.
pub const TIME_LIMIT: Duration = Duration::from_secs(4 * 60 * 60);

/// The headers by which a server tells whether something has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validators {
    /// The tag of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// The time of the last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

impl Validators {
    /// Returns true if the server has sent none.
    pub fn is_empty(&self) -> bool {
        *self == Validators::default()
    }

    /// Returns the validator that differs for any two versions, byte by byte.
    fn for_range(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/")).or(self.last_modified.as_deref())
    }
}

/// A download that is wanted.
pub struct Request<'a> {
    /// The URL and its mirrors, in the order in which they are tried.
    pub addresses: &'a [Address],
    /// The names and values of headers, which only the first server gets.
    pub headers: Vec<(String, String)>,
    /// The user and password, which only the first server gets.
    pub credentials: Option<Credentials>,
    /// The checksum that the download has to have.
    pub checksum: Option<Checksum>,
    /// The local download, if it will do unless the server has something newer.
    pub previous: Option<PreviousDownload>,
    /// The certificates that are trusted in place of the system's, in PEM.
    pub authorities: Option<Vec<u8>>,
    /// The digests of files that are known already.
    pub checksums: &'a ChecksumCache,
    /// The largest size that is allowed, in bytes.
    pub max_size: u64,
    /// The time at which all attempts end.
    pub deadline: Option<Instant>,
    /// The limits of each attempt.
    pub timeouts: Timeouts,
}

/// A download that was made earlier.
#[derive(Clone, Debug)]
pub struct PreviousDownload {
    /// The digest of its content.
    pub sha256: String,
    /// The headers that came with it.
    pub validators: Validators,
}

/// The outcome of a download.
pub enum Download {
    /// The previous download is what the server has.
    Unmodified,
    /// A file beside the target, which no other user can read.
    Complete(CompleteDownload),
}

/// A complete download with the right checksum.
pub struct CompleteDownload {
    /// The path of the file.
    pub path: PathHandle,
    /// The file, at any position.
    pub file: std::fs::File,
    /// The digests of its content.
    pub digests: Digests,
    /// The headers that came with it.
    pub validators: Validators,
    /// The path of another archive's download that it was copied from.
    pub copied_from: Option<String>,
}

/// Downloads a file to a temporary path beside its target.
///
/// # Errors
/// If none of the addresses works. The message holds no secrets.
pub fn download(
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
pub fn is_unmodified(request: &Request<'_>, host: &Host) -> Result<bool, DownloadError> {
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
    let expected = expected.clone();
    digests.mismatch(&expected).map_or(Ok(()), |found| Err(TransferError::WrongChecksum { found, expected }))
}

#[cfg(test)]
mod tests;
