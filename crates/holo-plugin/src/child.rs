//! Programs that a plugin calls.

use crate::output::Output;
use holo_protocol::session::Stream;
use holo_protocol::words;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

/// Runs a program that gets one file and makes another; what it says on stderr is relayed as it comes.
///
/// # Errors
/// If it cannot be started or does not end with 0, in words that read after "execution of PATH failed: ".
pub fn filter(program: &Path, input: File, result: File, output: &mut Output<'_>) -> Result<(), String> {
    let path = if program.components().count() == 1 { Path::new(".").join(program) } else { program.to_owned() };
    #[expect(clippy::disallowed_methods, reason = "this is the SDK's one place that starts programs")]
    let mut command = Command::new(path);
    command.stdin(input).stdout(result).stderr(Stdio::piped());
    let not_started = |error: io::Error| format!("fork/exec {}: {}", program.display(), words::reason(&error));
    let mut child = command.spawn().map_err(not_started)?;
    if let Some(mut stderr) = child.stderr.take() {
        relay(&child, &mut stderr, output);
    }
    let status = child.wait().map_err(|error| words::reason(&error))?;
    words::failure(status.code(), status.signal(), status.core_dumped()).map_or(Ok(()), Err)
}

/// Relays what a child says until it has ended, even if a child of its own holds the pipe open.
fn relay(child: &Child, stderr: &mut ChildStderr, output: &mut Output<'_>) {
    let ended = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let ended: Option<OwnedFd> = ended.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut buffer = vec![0; 1 << 14];
    loop {
        let mut fds = vec![PollFd::new(&*stderr, PollFlags::IN)];
        fds.extend(ended.as_ref().map(|ended| PollFd::new(ended, PollFlags::IN)));
        while poll(&mut fds, None).is_err() {}
        if fds.first().is_none_or(|fd| fd.revents().is_empty()) {
            // It has ended, and everything that it said has been read.
            return;
        }
        match stderr.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => output.relay(Stream::Stderr, &buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
