//! Processes that are notified of the running programs, and act when this process has ended.

use crate::invocation::{OURSELVES, WATCH};
use os_pipe::PipeWriter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A process of our own binary whose standard input is a pipe from us. It ends when this is dropped.
///
/// It leads its own process group, so that it does not receive signals from the terminal or those for our group, and
/// continues after this process was killed.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// `None` only while this is being dropped.
    pipe: Option<PipeWriter>,
    child: Child,
}

impl Watcher {
    /// Starts our binary with an internal command and this standard output.
    pub(crate) fn start(words: impl IntoIterator<Item = OsString>, stdout: Stdio) -> io::Result<Watcher> {
        let (read_end, pipe) = os_pipe::pipe()?;
        #[expect(clippy::disallowed_methods, reason = "this crate is the one place that starts programs")]
        let mut command = Command::new(OURSELVES);
        command.args(words).env_clear().current_dir("/").process_group(0);
        command.stdin(read_end).stdout(stdout).stderr(Stdio::null());
        Ok(Watcher { child: command.spawn()?, pipe: Some(pipe) })
    }

    /// Notifies it that a program was started.
    pub(crate) fn began(&mut self, id: u32) {
        self.tell('+', id);
    }

    /// Notifies it that a program has ended.
    pub(crate) fn ended(&mut self, id: u32) {
        self.tell('-', id);
    }

    fn tell(&mut self, what: char, id: u32) {
        if let Some(pipe) = &mut self.pipe {
            // The watcher may have been killed.
            let _ = pipe.write_all(format!("{what}{id}\n").as_bytes());
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.pipe = None;
        // The process ends immediately, and must be reaped.
        let _ = self.child.wait();
    }
}

/// A running program.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) pid: Pid,
    /// The pidfd, which becomes readable when the program exits; `None` on kernels before 5.3.
    pub(crate) exit: Option<OwnedFd>,
}

impl Told {
    /// Returns true if the program is still running.
    pub(crate) fn is_running(&self) -> bool {
        match &self.exit {
            Some(exit) => !is_readable(exit),
            None => test_kill_process(self.pid) != Err(rustix::io::Errno::SRCH),
        }
    }
}

/// Reads the notifications of a [`Watcher`] until its process has ended; returns the programs that are running then.
pub(crate) fn listen() -> Vec<Told> {
    let mut running: Vec<Told> = Vec::new();
    for line in io::stdin().lines().map_while(Result::ok) {
        let Some(pid) = line.get(1..).and_then(|number| Pid::from_raw(number.parse().ok()?)) else { continue };
        if line.starts_with('+') {
            // Opened while the PID certainly belongs to this program.
            running.push(Told { pid, exit: pidfd_open(pid, PidfdFlags::empty()).ok() });
        } else {
            running.retain(|told| told.pid != pid);
        }
    }
    running
}

/// Returns true if the process that guards the programs of `process` is still running.
pub(crate) fn guards_of(process: Pid) -> bool {
    let words = format!("\0{WATCH}\0{}\0", process.as_raw_nonzero());
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok()).any(|line| {
        // The first word is the path of our binary, which may be any.
        line.ends_with(words.as_bytes())
    })
}

/// Returns true if the descriptor is readable or at end of file.
fn is_readable(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
