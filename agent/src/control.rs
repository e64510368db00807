//! The control socket: every client that connects sends a request, and receives an answer, each as a line of JSON.

use crate::config::Paths;
use crate::daemon::Input;
use crate::request::{Answer, Request};
use crate::spool::create_private_directory;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

/// The timeout for a request, and for an answer that does not wait for a run.
const PATIENCE: Duration = Duration::from_secs(10);

/// The maximum size of a request in bytes.
const MAX_REQUEST: u64 = 64 << 10;

/// The maximum size of an answer in bytes; a longer one is cut, and therefore invalid.
const MAX_ANSWER: u64 = 16 << 20;

/// The socket, which is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
}

/// The socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// Another agent listens on it.
    #[error("an agent runs already: it answers at {}", .0.display())]
    Taken(PathBuf),
    /// The system reports an error.
    #[error("{}: {source}", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// No agent answers.
    #[error("no agent answers at {}: {source}; is holo-agent.service running?", path.display())]
    NoAnswer {
        /// The path of the socket.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The agent refuses the request.
    #[error("{0}")]
    Refused(String),
    /// The agent has ended before the run that was requested.
    #[error("the agent has ended without an answer")]
    Ended,
}

impl Socket {
    /// Starts to listen.
    pub(crate) fn open(paths: &Paths, inputs: mpsc::Sender<Input>) -> Result<Socket, ControlError> {
        let path = paths.socket();
        let listener = listen(paths).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => ControlError::Taken(path.clone()),
            _ => ControlError::Socket { path: path.clone(), source },
        })?;
        tokio::spawn(answer(listener, inputs));
        Ok(Socket { path })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn listen(paths: &Paths) -> io::Result<UnixListener> {
    let path = paths.socket();
    create_private_directory(&paths.runtime())?;
    match BlockingStream::connect(&path) {
        Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
        // The socket was left behind by a crash.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(&path)?,
        Err(_) => {}
    }
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn answer(listener: UnixListener, inputs: mpsc::Sender<Input>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        tokio::spawn(serve(stream, inputs.clone()));
    }
}

async fn serve(mut stream: UnixStream, inputs: mpsc::Sender<Input>) {
    let mut line = Vec::new();
    let mut reader = BufReader::new((&mut stream).take(MAX_REQUEST));
    // A client that sends no request, or does not read the answer, is disconnected.
    let Ok(Ok(_)) = tokio::time::timeout(PATIENCE, reader.read_until(b'\n', &mut line)).await else { return };
    let answer = match serde_json::from_slice(&line) {
        Ok(request) => {
            let (sender, answer) = oneshot::channel();
            if inputs.send(Input::Request(request, sender)).await.is_err() {
                return;
            }
            let Ok(answer) = answer.await else { return };
            answer
        }
        Err(error) => Answer::Refused { reason: format!("not a request: {error}") },
    };
    let mut text = serde_json::to_vec(&answer).unwrap_or_default();
    text.push(b'\n');
    let _ = tokio::time::timeout(PATIENCE, stream.write_all(&text)).await;
}

/// Sends a request to the running agent.
pub(crate) fn ask(paths: &Paths, request: &Request) -> Result<Answer, ControlError> {
    let path = paths.socket();
    let waits_for_run = matches!(request, Request::RunNow { wait: true });
    let ask = || -> io::Result<Vec<u8>> {
        let mut stream = BlockingStream::connect(&path)?;
        stream.set_read_timeout(Some(PATIENCE).filter(|_| !waits_for_run))?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut text = Vec::new();
        stream.take(MAX_ANSWER).read_to_end(&mut text)?;
        Ok(text)
    };
    let no_answer = |source| ControlError::NoAnswer { path: path.clone(), source };
    let text = ask().map_err(no_answer)?;
    if text.is_empty() {
        return Err(ControlError::Ended);
    }
    match serde_json::from_slice(&text).map_err(|error| no_answer(error.into()))? {
        Answer::Refused { reason } => Err(ControlError::Refused(reason)),
        answer => Ok(answer),
    }
}
