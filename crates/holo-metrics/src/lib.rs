//! Metrics in Prometheus's text format, and their server over HTTP.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::{Encoder, Registry, TextEncoder};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinHandle};

/// Returns metrics as text.
#[must_use]
pub fn text(registry: &Registry) -> Vec<u8> {
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = TextEncoder::new().encode(&registry.gather(), &mut text);
    text
}

/// Returns a time in seconds since 1970, as Prometheus expects it.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a time of these centuries has digits to spare")]
pub fn seconds(time: jiff::Timestamp) -> f64 {
    time.as_second() as f64
}

/// The content type of Prometheus's text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The maximum number of concurrent connections. A further one replaces an earlier one.
const CONNECTIONS: usize = 32;
/// The timeout for sending a request, and for reading the response.
const PATIENCE: Duration = Duration::from_secs(10);

/// An HTTP server, which stops when it is dropped.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Endpoint {
    /// Starts to listen, and answers with these metrics from then on. The caller has to run in tokio.
    ///
    /// # Errors
    /// If the address is not one of this machine, or is in use.
    pub fn open(address: SocketAddr, registry: &Registry) -> io::Result<Endpoint> {
        let socket = std::net::TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        let listener = TcpListener::from_std(socket)?;
        Ok(Endpoint { address, task: tokio::spawn(serve(listener, registry.clone())) })
    }

    /// Returns the requested address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A connection that is being served.
#[derive(Debug)]
struct Connection {
    task: AbortHandle,
    has_asked: Arc<AtomicBool>,
}

async fn serve(listener: TcpListener, registry: Registry) {
    // In the order of their arrival.
    let mut connections: VecDeque<Connection> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Most likely, there are too many open files.
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        connections.retain(|connection| !connection.task.is_finished());
        if connections.len() >= CONNECTIONS {
            // Waiting for an end instead would let clients that send no request keep others out.
            let is_idle = |connection: &Connection| !connection.has_asked.load(Ordering::Relaxed);
            let oldest_idle = connections.iter().position(is_idle).unwrap_or_default();
            if let Some(connection) = connections.remove(oldest_idle) {
                connection.task.abort();
            }
        }
        let registry = registry.clone();
        let has_asked = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&has_asked);
        let task = tokio::spawn(async move {
            let answer = service_fn(|request| {
                asked.store(true, Ordering::Relaxed);
                std::future::ready(answer(&request, &registry))
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false).max_buf_size(16 << 10);
            let connection = server.serve_connection(TokioIo::new(stream), answer);
            // Clients that do not read are disconnected; errors of connections are ignored.
            let _ = tokio::time::timeout(2 * PATIENCE, connection).await;
        });
        connections.push_back(Connection { task: task.abort_handle(), has_asked });
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a service may fail")]
fn answer(request: &Request<Incoming>, registry: &Registry) -> Result<Response<Full<Bytes>>, Infallible> {
    let (mut response, kind) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => (Response::new(Full::from(text(registry))), TEXT_FORMAT),
        (&Method::GET | &Method::HEAD, _) => {
            let mut response = Response::new(Full::from("metrics are at /metrics\n"));
            *response.status_mut() = StatusCode::NOT_FOUND;
            (response, "text/plain")
        }
        _ => {
            let mut response = Response::new(Full::from("only GET is answered\n"));
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            (response, "text/plain")
        }
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}
