//! A loopback test server whose responses can be slow, truncated or wrong, over HTTP or HTTPS.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "only tests call this")]

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A request as received by the server; header names are in lower case.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The path, including its query.
    pub path: String,
    /// Header values by name.
    pub headers: BTreeMap<String, String>,
    /// The number of earlier requests.
    pub number: usize,
}

impl Asked {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Returns the offset of `Range: bytes=OFFSET-`.
    pub fn offset(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// The response of the server.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The names and values of headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// A wrong `Content-Length` to announce.
    pub length: Option<usize>,
    /// The number of bytes of the body after which the connection is closed.
    pub cut: Option<usize>,
    /// The number of bytes of the body after which the server pauses, and the length of the pause.
    pub pause: Option<(usize, Duration)>,
}

impl Reply {
    /// Returns a response without a body.
    pub fn new(status: u16) -> Reply {
        Reply { status, headers: Vec::new(), body: Vec::new(), length: None, cut: None, pause: None }
    }

    /// Returns a response with a body.
    pub fn of(body: impl Into<Vec<u8>>) -> Reply {
        Reply { body: body.into(), ..Reply::new(200) }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Reply {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Omits the length: the body ends with the connection.
    pub fn without_length(self) -> Reply {
        Reply { length: Some(usize::MAX), ..self }
    }

    /// Closes the connection after this number of bytes.
    pub fn cut(mut self, at: usize) -> Reply {
        self.cut = Some(at);
        self
    }

    /// Returns a redirect.
    pub fn redirect(location: impl Into<String>) -> Reply {
        Reply::new(302).header("Location", location)
    }

    /// Returns the requested range of a body; all of it if no range was requested, or the version has changed.
    pub fn rest(asked: &Asked, body: &[u8], etag: &str) -> Reply {
        let is_same = asked.header("if-range").is_none_or(|range| range == etag);
        match asked.offset().filter(|_| is_same) {
            Some(offset) if offset < body.len() => Reply { body: body[offset..].to_vec(), ..Reply::new(206) }
                .header("Content-Range", format!("bytes {offset}-{}/{}", body.len() - 1, body.len()))
                .header("ETag", etag),
            Some(_) => Reply::new(416),
            None => Reply::of(body).header("ETag", etag),
        }
    }

    fn send(&self, stream: &mut dyn Write) -> std::io::Result<()> {
        let length = self.length.unwrap_or(self.body.len());
        let mut head = format!("HTTP/1.1 {} x\r\nConnection: close\r\n", self.status);
        if self.status != 304 && self.length != Some(usize::MAX) {
            head += &format!("Content-Length: {length}\r\n");
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n").as_bytes())?;
        let body = &self.body[..self.cut.unwrap_or(usize::MAX).min(self.body.len())];
        let (first, second) = body.split_at(self.pause.map_or(0, |(at, _)| at.min(body.len())));
        stream.write_all(first)?;
        stream.flush()?;
        if let Some((_, time)) = self.pause {
            thread::sleep(time);
        }
        stream.write_all(second)?;
        stream.flush()
    }
}

type Handler = dyn Fn(&Asked) -> Reply + Send + Sync;

/// A server that runs until the test ends.
pub struct Server {
    port: u16,
    scheme: &'static str,
    log: Arc<Mutex<Vec<Asked>>>,
    /// The certificate to trust, in PEM format.
    pub certificate: String,
}

impl Server {
    /// Starts a server that answers with this function.
    pub fn new(handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Server {
        Server::start(handler, None, String::new())
    }

    /// Starts a server with a self-signed certificate.
    pub fn with_tls(handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Server {
        let certified = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        Server::start(handler, Some(Arc::new(config)), certified.cert.pem())
    }

    fn start(
        handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
        tls: Option<Arc<rustls::ServerConfig>>,
        certificate: String,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let log = Arc::new(Mutex::new(Vec::new()));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (handler, server_log): (Arc<Handler>, _) = (Arc::new(handler), Arc::clone(&log));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (handler, log, tls) = (Arc::clone(&handler), Arc::clone(&server_log), tls.clone());
                thread::spawn(move || {
                    // Clients may close the connection early.
                    let _ = match tls {
                        None => serve(stream, &*handler, &log),
                        Some(config) => {
                            let connection = rustls::ServerConnection::new(config).unwrap();
                            serve(rustls::StreamOwned::new(connection, stream), &*handler, &log)
                        }
                    };
                });
            }
        });
        Server { port, scheme, log, certificate }
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}://127.0.0.1:{}{path}", self.scheme, self.port)
    }

    /// Returns all requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.log.lock().unwrap().clone()
    }
}

fn serve(stream: impl Read + Write, handler: &Handler, log: &Mutex<Vec<Asked>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let asked = {
        let mut log = log.lock().unwrap();
        let asked = Asked { path, headers, number: log.len() };
        log.push(asked.clone());
        asked
    };
    let mut stream = reader.into_inner();
    handler(&asked).send(&mut stream)
}

/// Returns a port that refuses connections.
pub fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns a port that accepts connections, but never responds.
pub fn silent_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let all: Vec<TcpStream> = listener.incoming().flatten().collect();
        drop(all);
    });
    port
}
