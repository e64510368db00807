//! Errors of downloads. No message holds secrets.

use crate::address::{Address, AddressError};
use crate::checksum::Checksum;
use holo_change::error::{PathError, reason};
use std::io;

/// The reason that a file could not be downloaded from any address.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// There is no address to try.
    #[error("there is nowhere to download it from")]
    NoAddress,
    /// The password cannot be read.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The error of the address that was tried last.
    #[error("cannot download {address}: {error}")]
    Transfer {
        /// It, without secrets.
        address: String,
        /// The error.
        error: TransferError,
    },
}

impl DownloadError {
    /// Returns true if the source is larger than the definition allows. Otherwise it may work some other time.
    pub fn is_too_large(&self) -> bool {
        matches!(self, DownloadError::Transfer { error: TransferError::TooLarge { .. }, .. })
    }
}

/// The reason that an attempt to download from one address has failed.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The next attempt may succeed.
    #[error("{0}")]
    Transient(String),
    /// The next attempt would fail in the same way.
    #[error("{0}")]
    Permanent(String),
    /// There is more than may be.
    #[error("it has more than {limit} bytes")]
    TooLarge {
        /// The number of bytes that is allowed.
        limit: u64,
    },
    /// It is another file.
    #[error("the checksum is {found}, not {expected}")]
    WrongChecksum {
        /// The checksum that it has.
        found: String,
        /// The checksum that it has to have.
        expected: Checksum,
    },
    /// The time for all of it is over.
    #[error("it took too long")]
    DeadlineExceeded,
    /// It is a directory or the like.
    #[error("it is not a regular file")]
    NotRegular,
    /// A redirect cannot be followed.
    #[error(transparent)]
    Redirect(#[from] AddressError),
    /// A path of this machine cannot be used.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file of this machine cannot be read or written.
    #[error("{}", reason(.0))]
    Io(#[from] io::Error),
}

impl TransferError {
    pub(super) fn at(self, address: &Address) -> DownloadError {
        DownloadError::Transfer { address: address.to_string(), error: self }
    }

    /// The error of a body that broke off.
    pub(super) fn from_body(error: &io::Error) -> TransferError {
        let is_timeout = match error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>()) {
            Some(ureq::Error::Timeout(_)) => true,
            _ => error.kind() == io::ErrorKind::TimedOut,
        };
        let problem = if is_timeout { "it stalled".to_owned() } else { format!("it broke off: {}", reason(error)) };
        TransferError::Transient(problem)
    }

    /// The error of a request without an answer. Neither headers nor the whole URL may be shown.
    pub(super) fn from_request(error: &ureq::Error) -> TransferError {
        use TransferError::{Permanent, Transient};
        use ureq::Error as E;
        match error {
            E::Timeout(phase) => Transient(format!("timed out ({phase})")),
            E::HostNotFound => Transient("the host's address is not known".to_owned()),
            E::ConnectionFailed => Transient("cannot connect".to_owned()),
            E::Io(error) if is_untrusted(error) => Permanent(format!("its certificate is not trusted: {error}")),
            E::Io(error) => Transient(reason(error)),
            E::Rustls(error) => Permanent(format!("its certificate is not trusted: {error}")),
            E::BadUri(_) => Permanent("it cannot be asked for".to_owned()),
            E::Http(_) => Permanent("a header cannot be sent".to_owned()),
            E::Protocol(error) => Transient(format!("the server does not speak HTTP: {error}")),
            other => Permanent(other.to_string()),
        }
    }
}

fn is_untrusted(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}
