//! One request over HTTP or HTTPS, with the redirects that it leads through.

use super::{Request, Validators};
use crate::address::{Address, Credentials};
use holo_change::error::reason;
use std::io::{self, Read};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use ureq::http::{HeaderMap, StatusCode, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 10;

/// How long each phase may take, and how often it is tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// Until there is a connection.
    pub(crate) connect: Duration,
    /// Until the answer begins.
    pub(crate) first_byte: Duration,
    /// Between two pieces of the answer.
    pub(crate) stall: Duration,
    /// How many attempts in a row may fail without bringing anything.
    pub(crate) attempts: u32,
    /// How long to wait after the first of them; twice as long after each other.
    pub(crate) back_off: Duration,
}

/// Why an attempt failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// It may be better next time.
    Transient(String),
    /// It has more bytes than are allowed.
    TooLarge(String),
    /// It will be the same next time.
    Permanent(String),
}

impl Failure {
    /// An answer that broke off.
    pub(super) fn of_body(error: &io::Error) -> Failure {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>()) {
            Some(ureq::Error::Timeout(_)) => Failure::Transient("it stalled".to_owned()),
            _ if error.kind() == io::ErrorKind::TimedOut => Failure::Transient("it stalled".to_owned()),
            _ => Failure::Transient(format!("it broke off: {}", reason(error))),
        }
    }
}

/// What the server says.
pub(super) enum Answer {
    /// What we have is what it has.
    Unmodified,
    /// It does not have as much as we have already.
    Unsatisfiable,
    Body(Content),
}

/// A content, or the rest of one.
pub(super) struct Content {
    /// How much is left out at the beginning.
    pub(super) start: u64,
    /// How long it all is, if that is known.
    pub(super) total: Option<u64>,
    pub(super) validators: Validators,
    pub(super) reader: Box<dyn Read>,
}

/// Asks for one thing.
pub(super) struct Client<'a> {
    request: &'a Request<'a>,
    address: &'a Address,
    credentials: Option<Credentials>,
    /// Whether headers, user and password of the definition are meant for this address.
    is_meant: bool,
    agent: Agent,
}

impl<'a> Client<'a> {
    pub(super) fn new(request: &'a Request<'a>, address: &'a Address) -> Result<Client<'a>, String> {
        let tls = TlsConfig::builder()
            .root_certs(roots()?)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            // Redirects are followed here, as headers must not go to other servers.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("holo-archives/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .timeout_connect(Some(request.timeouts.connect))
            .timeout_send_request(Some(request.timeouts.first_byte))
            .timeout_recv_response(Some(request.timeouts.first_byte))
            .timeout_per_read(Some(request.timeouts.stall))
            .max_idle_connections(0)
            .build();
        // They are for whom the URL names; a mirror is somebody else, and gets what its own URL says.
        let first = request.addresses.iter().find(|address| address.file().is_none());
        let is_meant = first.is_none_or(|first| first.is_same_server(address));
        let credentials = address.credentials().or_else(|| request.credentials.clone().filter(|_| is_meant));
        Ok(Client { request, address, credentials, is_meant, agent: config.new_agent() })
    }

    /// Asks for everything from an offset on, if what it is the rest of has not changed since.
    pub(super) fn get(&self, offset: u64, if_range: Option<&str>) -> Result<Answer, Failure> {
        let mut address = self.address.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(&address, offset, if_range)?;
            let status = response.status();
            if !status.is_redirection() || status == StatusCode::NOT_MODIFIED {
                return self.understand(response, offset);
            }
            let location = text(response.headers(), header::LOCATION)
                .ok_or_else(|| Failure::Permanent(format!("{status} without a Location")))?;
            address = address.redirected(&location).map_err(Failure::Permanent)?;
        }
        Err(Failure::Permanent(format!("more than {MAX_REDIRECTS} redirects")))
    }

    fn send(
        &self,
        address: &Address,
        offset: u64,
        if_range: Option<&str>,
    ) -> Result<ureq::http::Response<Body>, Failure> {
        let mut builder = self.agent.get(address.request());
        if self.address.is_same_server(address) {
            for (name, value) in self.request.headers.iter().filter(|_| self.is_meant) {
                builder = builder.header(name, value);
            }
            if let Some(Credentials { username, password }) = &self.credentials {
                let encoded = data_encoding::BASE64.encode(format!("{username}:{password}").as_bytes());
                builder = builder.header(header::AUTHORIZATION, format!("Basic {encoded}"));
            }
        }
        if offset > 0 {
            builder = builder.header(header::RANGE, format!("bytes={offset}-"));
            if let Some(validator) = if_range {
                builder = builder.header(header::IF_RANGE, validator);
            }
        } else if let Some(earlier) = &self.request.earlier {
            if let Some(etag) = &earlier.validators.etag {
                builder = builder.header(header::IF_NONE_MATCH, etag);
            }
            if let Some(time) = &earlier.validators.last_modified {
                builder = builder.header(header::IF_MODIFIED_SINCE, time);
            }
        }
        let left = self.request.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Failure::Permanent("it took too long".to_owned()));
        }
        builder.config().timeout_global(left).build().call().map_err(|error| failure(&error))
    }

    fn understand(&self, response: ureq::http::Response<Body>, offset: u64) -> Result<Answer, Failure> {
        let status = response.status();
        let headers = response.headers();
        let validators =
            Validators { etag: text(headers, header::ETAG), last_modified: text(headers, header::LAST_MODIFIED) };
        let length = text(headers, header::CONTENT_LENGTH).and_then(|length| length.trim().parse().ok());
        let (start, total) = match status {
            StatusCode::OK => (0, length),
            StatusCode::PARTIAL_CONTENT if offset > 0 => {
                let range = text(headers, header::CONTENT_RANGE).and_then(|range| content_range(&range));
                let (start, total) =
                    range.ok_or_else(|| Failure::Permanent("206 without a usable Content-Range".to_owned()))?;
                (start, total.or_else(|| length.and_then(|length: u64| length.checked_add(start))))
            }
            StatusCode::NOT_MODIFIED if offset == 0 && self.request.earlier.is_some() => return Ok(Answer::Unmodified),
            StatusCode::RANGE_NOT_SATISFIABLE if offset > 0 => return Ok(Answer::Unsatisfiable),
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                return Err(Failure::Transient(format!("the server says {status}")));
            }
            _ if status.is_server_error() => return Err(Failure::Transient(format!("the server says {status}"))),
            _ => return Err(Failure::Permanent(format!("the server says {status}"))),
        };
        // The length that is announced is not even begun if it is too much.
        if let Some(total) = total {
            super::check_size(total, self.request.max_size).map_err(Failure::TooLarge)?;
        }
        let reader = Box::new(response.into_body().into_reader());
        Ok(Answer::Body(Content { start, total, validators, reader }))
    }
}

/// What `bytes 5-9/10` says: where it starts, and how long it all is.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (start, end) = range.split_once('-')?;
    let (start, _end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
    Some((start, total.parse().ok()))
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// The certificates that this system trusts, read once.
fn roots() -> Result<RootCerts, String> {
    static ROOTS: OnceLock<Result<RootCerts, String>> = OnceLock::new();
    let load = || {
        let found = rustls_native_certs::load_native_certs();
        if found.certs.is_empty()
            && let Some(error) = found.errors.first()
        {
            return Err(format!("cannot read the certificates that the system trusts: {error}"));
        }
        let certificates: Vec<Certificate<'static>> =
            found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
        Ok(RootCerts::Specific(Arc::new(certificates)))
    };
    ROOTS.get_or_init(load).clone()
}

/// Why there is no answer. What is said here may hold neither headers nor the whole URL.
fn failure(error: &ureq::Error) -> Failure {
    use ureq::Error as E;
    match error {
        E::Timeout(phase) => Failure::Transient(format!("timed out ({phase})")),
        E::HostNotFound => Failure::Transient("the host's address is not known".to_owned()),
        E::ConnectionFailed => Failure::Transient("cannot connect".to_owned()),
        E::Io(error) if is_untrusted(error) => Failure::Permanent(format!("its certificate is not trusted: {error}")),
        E::Io(error) => Failure::Transient(reason(error)),
        E::Rustls(error) => Failure::Permanent(format!("its certificate is not trusted: {error}")),
        E::BadUri(_) => Failure::Permanent("it cannot be asked for".to_owned()),
        E::Http(_) => Failure::Permanent("a header cannot be sent".to_owned()),
        E::Protocol(error) => Failure::Transient(format!("the server does not speak HTTP: {error}")),
        other => Failure::Permanent(other.to_string()),
    }
}

fn is_untrusted(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}
