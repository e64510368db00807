//! The agent on this machine: its status, its runs, and the news that it has written.

use crate::config::Root;
use crate::error::FleetError;
use rustix::fs::inotify;
use serde_json::{Value, json};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io, thread};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// The timeout for the status.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval at which it is looked for changes that are not reported.
const POLL: Duration = Duration::from_secs(5);
/// The size of the stack of the thread that waits for changes.
const STACK: usize = 64 << 10;
/// The time for which changes are gathered.
const SETTLE: Duration = Duration::from_millis(100);

/// The agent.
#[derive(Clone, Debug)]
pub(super) struct Agent {
    socket: PathBuf,
    state: PathBuf,
}

impl Agent {
    pub(super) fn new(root: &Root) -> Agent {
        Agent { socket: root.join("run/holo-agent/control.sock"), state: root.join("var/lib/holo-agent") }
    }

    /// Returns the status; `null` if the agent does not answer.
    pub(super) async fn status(&self) -> Value {
        let asked = timeout(PATIENCE, self.ask(json!({ "request": "status" }))).await;
        asked.ok().and_then(Result::ok).unwrap_or(Value::Null)
    }

    /// Requests a complete run, and returns its event.
    pub(super) async fn run_now(&self) -> Result<Value, FleetError> {
        let answer = self.ask(json!({ "request": "run_now", "wait": true })).await?;
        match answer.get("reason").and_then(Value::as_str) {
            Some(reason) if answer.get("answer").and_then(Value::as_str) == Some("refused") => {
                Err(FleetError(reason.to_owned()))
            }
            _ => Ok(answer),
        }
    }

    async fn ask(&self, request: Value) -> Result<Value, FleetError> {
        let about = |error: &dyn std::fmt::Display| FleetError(format!("holo-agent does not answer: {error}"));
        let mut stream = UnixStream::connect(&self.socket).await.map_err(|error| about(&error))?;
        stream.write_all(format!("{request}\n").as_bytes()).await.map_err(|error| about(&error))?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text).await.map_err(|error| about(&error))?;
        serde_json::from_slice(&text).map_err(|error| about(&error))
    }

    /// Returns the changes of what the agent writes. If the system has no means left to notice them, it is looked at again
    /// and again.
    pub(super) fn changes(&self) -> Result<Changes, FleetError> {
        let about = |error: io::Error| FleetError::about(self.state.display(), error);
        fs::create_dir_all(&self.state).map_err(about)?;
        let flags = inotify::WatchFlags::MODIFY | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::CREATE;
        let watched = inotify::init(inotify::CreateFlags::CLOEXEC)
            .and_then(|inotify| inotify::add_watch(&inotify, &self.state, flags).map(|_| inotify));
        let Ok(inotify) = watched else { return Ok(Changes { changed: None }) };
        let (sender, changed) = mpsc::channel(1);
        let thread = thread::Builder::new().name("agent".to_owned()).stack_size(STACK);
        thread.spawn(move || pass_on(&inotify, &sender)).map_err(about)?;
        Ok(Changes { changed: Some(changed) })
    }
}

/// Returns a channel that tells when the agent has ended that has started this program: it holds the other end of its
/// standard input, a pipe. Without one, nobody does.
pub(super) fn ended() -> Result<mpsc::Receiver<()>, FleetError> {
    let (sender, ended) = mpsc::channel(1);
    let wait = || -> io::Result<()> {
        let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        if input.metadata()?.file_type().is_fifo() {
            let wait = move || {
                let _ = io::copy(&mut { input }, &mut io::sink());
                let _ = sender.blocking_send(());
            };
            thread::Builder::new().name("parent".to_owned()).stack_size(STACK).spawn(wait)?;
        }
        Ok(())
    };
    wait().map_err(|error| FleetError::about("standard input", error))?;
    Ok(ended)
}

/// Tells of changes until nobody listens.
fn pass_on(inotify: &OwnedFd, sender: &mpsc::Sender<()>) {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(inotify, &mut buffer);
    while reader.next().is_ok() {
        // If one is pending, it stands for this one too.
        if let Err(mpsc::error::TrySendError::Closed(())) = sender.try_send(()) {
            return;
        }
    }
}

/// The changes of what the agent writes.
pub(super) struct Changes {
    changed: Option<mpsc::Receiver<()>>,
}

impl Changes {
    /// Waits until something has changed, and until that is over.
    pub(super) async fn next(&mut self) {
        let pause = match &mut self.changed {
            Some(changed) => match changed.recv().await {
                Some(()) => SETTLE,
                None => std::future::pending().await,
            },
            None => POLL,
        };
        tokio::time::sleep(pause).await;
    }
}

/// Returns why the agent makes no changes now, from its status.
pub(super) fn waiting(status: &Value) -> Option<String> {
    if let Some(pause) = status.get("paused").filter(|pause| pause.is_object()) {
        let text = |key: &str| pause.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        return Some(format!("paused by {}: {}", text("by"), text("reason")));
    }
    let doing = status.get("doing")?;
    let only_watches = doing.get("state")?.as_str()? == "watching" && doing.get("apply")?.as_bool() == Some(false);
    let is_run_check = status.pointer("/last/verb").and_then(Value::as_str) == Some("check");
    match (only_watches || is_run_check, status.get("mode").and_then(Value::as_str)) {
        (true, Some("enforce")) => Some("outside of its maintenance window".to_owned()),
        (_, Some("report")) => Some("only reports".to_owned()),
        _ => None,
    }
}
