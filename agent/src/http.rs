//! The metrics over HTTP.

use crate::metrics::Metrics;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// The content type of Prometheus's text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The maximum number of concurrent connections.
const CONNECTIONS: usize = 16;
/// The timeout for sending a request, and for reading the response.
const PATIENCE: Duration = Duration::from_secs(10);

/// An HTTP server, which stops when it is dropped.
#[derive(Debug)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Endpoint {
    /// Starts to listen.
    pub(crate) fn open(address: SocketAddr, metrics: &Metrics) -> io::Result<Endpoint> {
        let socket = std::net::TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        let listener = TcpListener::from_std(socket)?;
        Ok(Endpoint { address, task: tokio::spawn(serve(listener, metrics.clone())) })
    }

    /// Returns the requested address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, metrics: Metrics) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Most likely, there are too many open files.
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        let metrics = metrics.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| std::future::ready(answer(&request, &metrics)));
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false).max_buf_size(16 << 10);
            let connection = server.serve_connection(TokioIo::new(stream), answer);
            // Clients that do not read are disconnected; errors of connections are ignored.
            let _ = tokio::time::timeout(2 * PATIENCE, connection).await;
            drop(permit);
        });
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a service may fail")]
fn answer(request: &Request<Incoming>, metrics: &Metrics) -> Result<Response<Full<Bytes>>, Infallible> {
    let (mut response, kind) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => (Response::new(Full::from(metrics.text())), TEXT_FORMAT),
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
