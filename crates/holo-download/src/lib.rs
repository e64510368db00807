//! Downloads over HTTP and HTTPS, or from a local file, into a temporary file in the target's directory.

mod address;
mod attempts;
mod checksum;
mod checksum_cache;
mod error;
mod http;
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
pub use attempts::{PART_SUFFIX, copy, open};
pub use checksum::{Algorithm, BUFFER_SIZE, Checksum, ChecksumError, Digests, sha256};
pub use checksum_cache::{ChecksumCache, remove_cache};
pub use error::{DownloadError, TransferError};
pub use http::{CertificatesError, Timeouts, system_tls};

/// The maximum size of a download if the definition does not set one.
pub const MAX_SIZE: u64 = 16 << 30;
/// The time limit of a download, including all mirrors, if the definition does not set one. It is necessary because a
/// server that sends a byte from time to time never stalls.
pub const TIME_LIMIT: Duration = Duration::from_secs(4 * 60 * 60);

/// Response headers that identify a version of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validators {
    /// The entity tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// The modification time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

impl Validators {
    /// Returns true if the server sent neither.
    pub fn is_empty(&self) -> bool {
        *self == Validators::default()
    }

    /// Returns the validator that is different for any two versions that differ by a byte.
    fn for_range(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/")).or(self.last_modified.as_deref())
    }
}

/// A download request.
pub struct Request<'a> {
    /// The URL and its mirrors, in the order in which they are tried.
    pub addresses: &'a [Address],
    /// The names and values of headers, which are only sent to the first server.
    pub headers: Vec<(String, String)>,
    /// The user and password, which are only sent to the first server.
    pub credentials: Option<Credentials>,
    /// The expected checksum.
    pub checksum: Option<Checksum>,
    /// An earlier download that is used unless the server has a newer version.
    pub previous: Option<PreviousDownload>,
    /// Trusted certificates instead of the system's, in PEM format.
    pub authorities: Option<Vec<u8>>,
    /// A cache of digests of files.
    pub checksums: &'a ChecksumCache,
    /// The maximum size in bytes.
    pub max_size: u64,
    /// The deadline for all attempts.
    pub deadline: Option<Instant>,
    /// The limits of each attempt.
    pub timeouts: Timeouts,
}

/// An earlier download.
#[derive(Clone, Debug)]
pub struct PreviousDownload {
    /// The digest of its content.
    pub sha256: String,
    /// The validators sent with it.
    pub validators: Validators,
}

/// The outcome of a download.
pub enum Download {
    /// The file has not changed since the previous download.
    Unmodified,
    /// A file in the target's directory, which other users cannot read.
    Complete(CompleteDownload),
}

/// A complete download with a verified checksum.
pub struct CompleteDownload {
    /// The path of the file.
    pub path: PathHandle,
    /// The open file, at an arbitrary position.
    pub file: std::fs::File,
    /// The digests of its content.
    pub digests: Digests,
    /// The validators sent with it.
    pub validators: Validators,
    /// The path of another archive's download from which it was copied.
    pub copied_from: Option<String>,
}

/// Downloads a file to a temporary path in the target's directory.
///
/// # Errors
/// If all addresses fail. The message contains no secrets.
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

/// Returns true if the file has not changed since the previous download. Only asks the server, without a download; the
/// first server that answers decides.
///
/// # Errors
/// If all addresses fail.
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

/// Returns the error of a download without contacting servers: all addresses are local files, and none can be read.
#[must_use]
pub fn local_failure(addresses: &[Address], host: &Host) -> Option<DownloadError> {
    let mut failure = None;
    for address in addresses {
        match open(&address.file()?, host).and_then(|place| place.open()) {
            Ok(_) => return None,
            Err(error) => failure = Some(TransferError::from(error).at(address)),
        }
    }
    failure
}

fn is_unmodified_at(request: &Request<'_>, address: &Address, host: &Host) -> Result<bool, TransferError> {
    let Some(previous) = &request.previous else { return Ok(false) };
    if let Some(path) = address.file() {
        let source = open(&path, host)?;
        return Ok(request.checksums.digests(&source, None)?.sha256 == previous.sha256);
    }
    match Client::new(request, address)?.get(0, None)? {
        Response::Unmodified => Ok(true),
        // Some servers ignore validators and always send the file.
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
