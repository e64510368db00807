//! The control socket: every client that connects receives the status as a JSON value.

use crate::config::Paths;
use crate::daemon::Input;
use crate::report::Status;
use crate::spool::create_private_directory;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};

/// The timeout for the answer, on both sides.
const PATIENCE: Duration = Duration::from_secs(10);

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
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        let (sender, status) = oneshot::channel();
        if inputs.send(Input::Status(sender)).await.is_err() {
            return;
        }
        tokio::spawn(async move {
            let Ok(status) = status.await else { return };
            let mut text = serde_json::to_vec(&status).unwrap_or_default();
            text.push(b'\n');
            // A client that does not read is disconnected.
            let _ = tokio::time::timeout(PATIENCE, stream.write_all(&text)).await;
        });
    }
}

/// Requests the status of the running agent.
pub(crate) fn ask(paths: &Paths) -> Result<Status, ControlError> {
    let path = paths.socket();
    let ask = || -> io::Result<Status> {
        let stream = BlockingStream::connect(&path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = Vec::new();
        stream.take(MAX_ANSWER).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    };
    ask().map_err(|source| ControlError::NoAnswer { path: path.clone(), source })
}
