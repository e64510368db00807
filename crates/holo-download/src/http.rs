//! A single HTTP or HTTPS request, including redirects, sent to its server or forwarded by a proxy.

use crate::address::{Address, Credentials};
use crate::proxy::{Proxies, Route};
use crate::{Request, TransferError, Validators, check_size};
use std::io::Read;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use ureq::config::Config;
use ureq::http::{HeaderMap, StatusCode, Uri, header};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, TcpConnector, Transport};
use ureq::{Agent, Body, Error};

/// The maximum number of redirects.
const MAX_REDIRECTS: usize = 10;

/// The timeouts of the phases of a request, and the number of attempts.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// The timeout for connecting.
    pub connect: Duration,
    /// The timeout for the start of the response.
    pub first_byte: Duration,
    /// The timeout between two pieces of the response.
    pub stall: Duration,
    /// The maximum number of consecutive attempts without progress.
    pub attempts: u32,
    /// The delay after the first failed attempt; it doubles with each further one.
    pub back_off: Duration,
}

/// The response of a server.
pub(super) enum Response {
    /// The file has not changed since the previous download.
    Unmodified,
    /// The server's file is shorter than the part that was downloaded already.
    Unsatisfiable,
    Body(ResponseBody),
}

/// A whole body, or the rest of one.
pub(super) struct ResponseBody {
    /// The offset of the body in the whole file.
    pub(super) start: u64,
    /// The size of the whole file, if known.
    pub(super) total: Option<u64>,
    pub(super) validators: Validators,
    pub(super) reader: Box<dyn Read>,
}

/// A client for one address.
pub(super) struct Client<'a> {
    request: &'a Request<'a>,
    address: &'a Address,
    credentials: Option<Credentials>,
    /// True if headers, user and password of the definition may be sent to this address.
    is_trusted: bool,
    agent: Agent,
}

impl<'a> Client<'a> {
    pub(super) fn new(request: &'a Request<'a>, address: &'a Address) -> Result<Client<'a>, TransferError> {
        let tls = tls(roots(request).map_err(|error| TransferError::Permanent(error.to_string()))?);
        let config = Agent::config_builder()
            .tls_config(tls)
            // Redirects are followed here, as headers must not be sent to other servers.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("holo/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .timeout_connect(Some(request.timeouts.connect))
            .timeout_send_request(Some(request.timeouts.first_byte))
            .timeout_recv_response(Some(request.timeouts.first_byte))
            .timeout_per_read(Some(request.timeouts.stall))
            .max_idle_connections(0)
            .proxy(None)
            .build();
        // These are for the server of the URL; a mirror on another server only gets those in its own URL.
        let first = request.addresses.iter().find(|address| address.file().is_none());
        let is_trusted = first.is_none_or(|first| first.is_same_server(address));
        let credentials = address.credentials().or_else(|| request.credentials.clone().filter(|_| is_trusted));
        Ok(Client { request, address, credentials, is_trusted, agent: config.new_agent() })
    }

    /// Requests the file from an offset on, provided that it has not changed since.
    pub(super) fn get(&self, offset: u64, if_range: Option<&str>) -> Result<Response, TransferError> {
        let mut address = self.address.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(&address, offset, if_range)?;
            let status = response.status();
            if !status.is_redirection() || status == StatusCode::NOT_MODIFIED {
                return self.understand(response, offset);
            }
            let location = text(response.headers(), header::LOCATION)
                .ok_or_else(|| TransferError::Permanent(format!("{status} without a Location")))?;
            address = address.redirected(&location)?;
        }
        Err(TransferError::Permanent(format!("more than {MAX_REDIRECTS} redirects")))
    }

    fn send(
        &self,
        address: &Address,
        offset: u64,
        if_range: Option<&str>,
    ) -> Result<ureq::http::Response<Body>, TransferError> {
        let route = Proxies::of_environment().route(address)?;
        let agent = match &route {
            Route::Forward { proxy, .. } => agent(self.agent.config().clone(), proxy.clone()),
            Route::Direct | Route::Tunnel(_) => self.agent.clone(),
        };
        let mut builder = agent.get(address.request());
        if let Route::Forward { credentials: Some(credentials), .. } = &route {
            builder = builder.header(header::PROXY_AUTHORIZATION, credentials.to_header());
        }
        if self.address.is_same_server(address) {
            for (name, value) in self.request.headers.iter().filter(|_| self.is_trusted) {
                builder = builder.header(name, value);
            }
            if let Some(credentials) = &self.credentials {
                builder = builder.header(header::AUTHORIZATION, credentials.to_header());
            }
        }
        if offset > 0 {
            builder = builder.header(header::RANGE, format!("bytes={offset}-"));
            if let Some(validator) = if_range {
                builder = builder.header(header::IF_RANGE, validator);
            }
        } else if let Some(previous) = &self.request.previous {
            if let Some(etag) = &previous.validators.etag {
                builder = builder.header(header::IF_NONE_MATCH, etag);
            }
            if let Some(time) = &previous.validators.last_modified {
                builder = builder.header(header::IF_MODIFIED_SINCE, time);
            }
        }
        let left = self.request.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(TransferError::DeadlineExceeded);
        }
        let tunnel = match route {
            Route::Tunnel(proxy) => Some(proxy),
            Route::Direct | Route::Forward { .. } => None,
        };
        builder
            .config()
            .proxy(tunnel)
            .timeout_global(left)
            .build()
            .call()
            .map_err(|error| TransferError::from_request(&error))
    }

    fn understand(&self, response: ureq::http::Response<Body>, offset: u64) -> Result<Response, TransferError> {
        let status = response.status();
        let headers = response.headers();
        let validators =
            Validators { etag: text(headers, header::ETAG), last_modified: text(headers, header::LAST_MODIFIED) };
        let length = text(headers, header::CONTENT_LENGTH).and_then(|length| length.trim().parse().ok());
        let (start, total) = match status {
            StatusCode::OK => (0, length),
            StatusCode::PARTIAL_CONTENT if offset > 0 => {
                let range = text(headers, header::CONTENT_RANGE).and_then(|range| content_range(&range));
                let (start, total) = range
                    .ok_or_else(|| TransferError::Permanent("206 without a usable ResponseBody-Range".to_owned()))?;
                (start, total.or_else(|| length.and_then(|length: u64| length.checked_add(start))))
            }
            StatusCode::NOT_MODIFIED if offset == 0 && self.request.previous.is_some() => {
                return Ok(Response::Unmodified);
            }
            StatusCode::RANGE_NOT_SATISFIABLE if offset > 0 => return Ok(Response::Unsatisfiable),
            _ if is_transient(status) => {
                let problem = format!("the server reports {status}");
                return Err(match text(headers, header::RETRY_AFTER).and_then(|text| retry_after(&text)) {
                    Some(after) => TransferError::Later { problem, after },
                    None => TransferError::Transient(problem),
                });
            }
            _ => return Err(TransferError::Permanent(format!("the server reports {status}"))),
        };
        // If the server announces a body that is too large, it is not read.
        if let Some(total) = total {
            check_size(total, self.request.max_size)?;
        }
        let reader = Box::new(response.into_body().into_reader());
        Ok(Response::Body(ResponseBody { start, total, validators, reader }))
    }
}

fn is_transient(status: StatusCode) -> bool {
    matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS) || status.is_server_error()
}

/// Parses the value of `Retry-After`: a number of seconds, or a date.
fn retry_after(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(date.duration_since(jiff::Timestamp::now()).unsigned_abs()).filter(|_| date > jiff::Timestamp::now())
}

/// Parses `bytes 5-9/10`. Returns the start, and the total size.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (start, end) = range.split_once('-')?;
    let (start, _end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
    Some((start, total.parse().ok()))
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// The reason why no certificates can be trusted.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot read the certificates that are trusted: {0}")]
pub struct CertificatesError(String);

/// Returns TLS settings with the system's certificates.
///
/// # Errors
/// If the certificates cannot be read.
pub fn system_tls() -> Result<TlsConfig, CertificatesError> {
    system_roots().map(tls)
}

fn tls(roots: RootCerts) -> TlsConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    TlsConfig::builder().root_certs(roots).unversioned_rustls_crypto_provider(provider).build()
}

/// Returns the trusted certificates for a request: those of its definition, or the system's.
fn roots(request: &Request<'_>) -> Result<RootCerts, CertificatesError> {
    if let Some(pem) = &request.authorities {
        let own = own_roots(pem).map_err(|problem| CertificatesError(problem.to_owned()))?;
        return Ok(RootCerts::Specific(Arc::new(own)));
    }
    system_roots()
}

/// Returns the system's trusted certificates, which are read once.
fn system_roots() -> Result<RootCerts, CertificatesError> {
    static ROOTS: OnceLock<Result<RootCerts, CertificatesError>> = OnceLock::new();
    let load = || {
        let found = rustls_native_certs::load_native_certs();
        if found.certs.is_empty()
            && let Some(error) = found.errors.first()
        {
            return Err(CertificatesError(error.to_string()));
        }
        let certificates: Vec<Certificate<'static>> =
            found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
        Ok(RootCerts::Specific(Arc::new(certificates)))
    };
    ROOTS.get_or_init(load).clone()
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(15),
            first_byte: Duration::from_secs(60),
            stall: Duration::from_secs(60),
            attempts: 5,
            back_off: Duration::from_millis(500),
        }
    }
}

/// Parses certificates.
fn own_roots(pem: &[u8]) -> Result<Vec<Certificate<'static>>, &'static str> {
    let mut certificates = Vec::new();
    for item in ureq::tls::parse_pem(pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
            Ok(_) => {}
            Err(_) => return Err("ca_file is not valid PEM"),
        }
    }
    if certificates.is_empty() { Err("there is none in ca_file") } else { Ok(certificates) }
}

/// Returns a client that sends its requests to a proxy.
pub(super) fn agent(config: Config, proxy: Uri) -> Agent {
    let resolver = ProxyResolver { proxy, resolver: DefaultResolver::default() };
    Agent::with_parts(config, TcpConnector::default().chain(AbsoluteForm), resolver)
}

/// Resolves every name to the address of the proxy, as the server's name may be unknown on this machine.
#[derive(Debug)]
struct ProxyResolver {
    proxy: Uri,
    resolver: DefaultResolver,
}

impl Resolver for ProxyResolver {
    fn resolve(&self, _: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        self.resolver.resolve(&self.proxy, config, timeout)
    }
}

/// Makes the request line contain the absolute URL.
#[derive(Debug)]
struct AbsoluteForm;

impl<In: Transport> Connector<In> for AbsoluteForm {
    type Out = Forwarded<In>;

    fn connect(&self, details: &ConnectionDetails<'_>, chained: Option<In>) -> Result<Option<Forwarded<In>>, Error> {
        let authority = details.uri.authority().map(ToString::to_string).unwrap_or_default();
        Ok(chained.map(|transport| Forwarded { transport, origin: Some(format!("http://{authority}")) }))
    }
}

/// A connection to a proxy.
#[derive(Debug)]
struct Forwarded<T> {
    transport: T,
    /// The start of the URL, until it has been sent.
    origin: Option<String>,
}

impl<T: Transport> Transport for Forwarded<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.transport.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let Some(origin) = self.origin.take() else { return self.transport.transmit_output(amount, timeout) };
        let output = self.transport.buffers().output();
        // The first output is the request line: `GET /path HTTP/1.1`.
        let path = output.iter().position(|&byte| byte == b' ').map_or(0, |space| space + 1);
        let sent = amount + origin.len();
        if sent > output.len() || path > amount {
            return Err(Error::Other("the URL is too long for a proxy".into()));
        }
        output.copy_within(path..amount, path + origin.len());
        if let Some(space) = output.get_mut(path..path + origin.len()) {
            space.copy_from_slice(origin.as_bytes());
        }
        self.transport.transmit_output(sent, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.transport.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.transport.is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_wait_is_a_number_or_a_date() {
        assert_eq!(retry_after(" 120 "), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), None, "it is over");
        let later = retry_after("Thu, 31 Dec 2099 23:59:59 GMT").unwrap();
        assert!(later > Duration::from_secs(365 * 24 * 60 * 60));
        assert!(retry_after("soon").is_none() && retry_after("-1").is_none());
    }
}
