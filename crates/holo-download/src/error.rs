//! Errors of downloads. No message contains secrets.

use crate::address::{Address, AddressError};
use crate::checksum::Checksum;
use crate::proxy::ProxyError;
use holo_change::error::{PathError, reason};
use rustls::CertificateError;
use std::io;
use std::time::Duration;

/// The reason why a file could not be downloaded from any address.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// There is no address to try.
    #[error("there is nowhere to download it from")]
    NoAddress,
    /// The password file cannot be read.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The error of the last address tried.
    #[error("cannot download {address}: {error}")]
    Transfer {
        /// The address without secrets.
        address: String,
        /// The error.
        error: TransferError,
    },
}

impl DownloadError {
    /// Returns true if the source exceeds the maximum size in the definition. Other errors may be temporary.
    pub fn is_too_large(&self) -> bool {
        matches!(self, DownloadError::Transfer { error: TransferError::TooLarge { .. }, .. })
    }
}

/// The reason why an attempt to download from an address failed.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The next attempt may succeed.
    #[error("{0}")]
    Transient(String),
    /// The server asks for a retry after a delay.
    #[error("{problem}")]
    Later {
        /// The server's message.
        problem: String,
        /// The delay.
        after: Duration,
    },
    /// Another attempt would fail in the same way.
    #[error("{0}")]
    Permanent(String),
    /// The file is too large.
    #[error("it has more than {limit} bytes")]
    TooLarge {
        /// The maximum number of bytes.
        limit: u64,
    },
    /// The file has the wrong checksum.
    #[error("the checksum is {found}, not {expected}")]
    WrongChecksum {
        /// The actual checksum.
        found: String,
        /// The expected checksum.
        expected: Checksum,
    },
    /// The deadline for all attempts has passed.
    #[error("it took too long")]
    DeadlineExceeded,
    /// The source is not a regular file.
    #[error("it is not a regular file")]
    NotRegular,
    /// The proxy cannot be used.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// A redirect cannot be followed.
    #[error(transparent)]
    Redirect(#[from] AddressError),
    /// A local path cannot be used.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A local file cannot be read or written.
    #[error("{}", reason(.0))]
    Io(#[from] io::Error),
}

impl TransferError {
    pub(super) fn at(self, address: &Address) -> DownloadError {
        DownloadError::Transfer { address: address.to_string(), error: self }
    }

    /// Converts the error of an incomplete body.
    pub(super) fn from_body(error: &io::Error) -> TransferError {
        let is_timeout = match error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>()) {
            Some(ureq::Error::Timeout(_)) => true,
            _ => error.kind() == io::ErrorKind::TimedOut,
        };
        let problem = if is_timeout { "it stalled".to_owned() } else { format!("it broke off: {}", reason(error)) };
        TransferError::Transient(problem)
    }

    /// Converts the error of a request without a response. The message must contain neither headers nor the whole URL.
    pub(super) fn from_request(error: &ureq::Error) -> TransferError {
        use TransferError::{Permanent, Transient};
        use ureq::Error as E;
        match error {
            E::Timeout(phase) => Transient(format!("timed out ({phase})")),
            E::HostNotFound => Transient("the host's address is not known".to_owned()),
            E::ConnectionFailed => Transient("cannot connect".to_owned()),
            E::Io(error) if certificate_error(error).is_some() => {
                Permanent(certificate_error(error).map(untrusted).unwrap_or_default())
            }
            E::Io(error) => Transient(reason(error)),
            E::Rustls(rustls::Error::InvalidCertificate(error)) => Permanent(untrusted(error)),
            E::Rustls(error) => Permanent(format!("a secure connection is not possible: {error}")),
            E::ConnectProxyFailed(problem) => Transient(format!("the proxy makes no connection: {problem}")),
            E::BadUri(_) => Permanent("it cannot be asked for".to_owned()),
            E::Http(_) => Permanent("a header cannot be sent".to_owned()),
            E::Protocol(error) => Transient(format!("the server does not speak HTTP: {error}")),
            other => Permanent(other.to_string()),
        }
    }
}

fn certificate_error(error: &io::Error) -> Option<&CertificateError> {
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(error) => Some(error),
        _ => None,
    }
}

/// Describes why a certificate is not trusted.
fn untrusted(error: &CertificateError) -> String {
    use CertificateError as C;
    let problem = match error {
        C::UnknownIssuer => "neither it nor who has signed it is known here; ca_file can name a certificate".to_owned(),
        C::Expired | C::ExpiredContext { .. } => "it has expired".to_owned(),
        C::NotValidYet | C::NotValidYetContext { .. } => "it is not valid yet".to_owned(),
        C::NotValidForName | C::NotValidForNameContext { .. } => "it is that of another name".to_owned(),
        C::Revoked => "it was revoked".to_owned(),
        C::BadEncoding => "it cannot be read".to_owned(),
        C::BadSignature => "its signature is wrong".to_owned(),
        C::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
            "it is the certificate of an authority, with which no server can be certified".to_owned()
        }
        other => format!("it cannot be verified ({other})"),
    };
    format!("its certificate is not trusted: {problem}")
}
