//! Processes that are told which programs run, and act when the teller is gone.

use crate::invocation::{OURSELVES, WATCH};
use os_pipe::PipeWriter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A process of our own binary whose only input is a pipe from us. It ends when this is dropped.
///
/// It leads a group of its own, so that it gets neither a terminal's signals nor those that are meant for our group, and outlives a kill of
/// ours.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// Gone only while this is dropped.
    pipe: Option<PipeWriter>,
    child: Child,
}

impl Watcher {
    /// Starts our binary with these private words, and with this as its standard output.
    pub(crate) fn start(words: impl IntoIterator<Item = OsString>, stdout: Stdio) -> io::Result<Watcher> {
        let (read_end, pipe) = os_pipe::pipe()?;
        #[expect(clippy::disallowed_methods, reason = "this crate is the one place that starts programs")]
        let mut command = Command::new(OURSELVES);
        command.args(words).env_clear().current_dir("/").process_group(0);
        command.stdin(read_end).stdout(stdout).stderr(Stdio::null());
        Ok(Watcher { child: command.spawn()?, pipe: Some(pipe) })
    }

    /// Tells it that a program has begun.
    pub(crate) fn began(&mut self, id: u32) {
        self.tell('+', id);
    }

    /// Tells it that a program has ended.
    pub(crate) fn ended(&mut self, id: u32) {
        self.tell('-', id);
    }

    fn tell(&mut self, what: char, id: u32) {
        if let Some(pipe) = &mut self.pipe {
            // If the watcher was killed, nobody watches.
            let _ = pipe.write_all(format!("{what}{id}\n").as_bytes());
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.pipe = None;
        // It ends at once, and nobody else might wait for it.
        let _ = self.child.wait();
    }
}

/// A program that was told of.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) pid: Pid,
    /// Becomes readable when it ends; kernels before 5.3 have none.
    pub(crate) exit: Option<OwnedFd>,
}

impl Told {
    /// Returns true if it still runs.
    pub(crate) fn is_running(&self) -> bool {
        match &self.exit {
            Some(exit) => !is_readable(exit),
            None => test_kill_process(self.pid) != Err(rustix::io::Errno::SRCH),
        }
    }
}

/// Reads what a [`Watcher`] is told until the teller is gone; returns the programs that run then.
pub(crate) fn listen() -> Vec<Told> {
    let mut running: Vec<Told> = Vec::new();
    for line in io::stdin().lines().map_while(Result::ok) {
        let Some(pid) = line.get(1..).and_then(|number| Pid::from_raw(number.parse().ok()?)) else { continue };
        if line.starts_with('+') {
            // It is opened while the number is certain to be that program's.
            running.push(Told { pid, exit: pidfd_open(pid, PidfdFlags::empty()).ok() });
        } else {
            running.retain(|told| told.pid != pid);
        }
    }
    running
}

/// Returns true if a process is left that guards the programs of this one.
pub(crate) fn guards_of(process: Pid) -> bool {
    let words = format!("\0{WATCH}\0{}\0", process.as_raw_nonzero());
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok()).any(|line| {
        // The first word is whatever path our binary was started by.
        line.ends_with(words.as_bytes())
    })
}

/// Returns true if something can be read now, or never will be.
fn is_readable(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
