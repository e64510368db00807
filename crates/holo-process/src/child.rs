//! A program that runs: its pipes, its end, and the signals that it is sent.
//!
//! Nothing here blocks but [`wait_for_any`], and that waits for everything at once: for what programs say, for room in their input, for
//! their ends, and until a time.

use crate::channel::Channel;
use crate::ended::Status;
use crate::error::StartError;
use crate::groups;
use crate::outgoing::Outgoing;
use crate::program::{Input, Program};
use crate::start::{self, Connection, Reach, Started};
use crate::tree::signal_all_of;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open, waitid,
};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The most that a pipe can hold, unless its program is privileged.
pub(crate) const MAX_PIPE_SIZE: usize = 1 << 20;
const CHUNK_SIZE: usize = 1 << 16;
/// The interval at which the end is looked for on kernels that do not tell.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A running program. It is killed if it is dropped before its end.
#[derive(Debug)]
pub(crate) struct Child {
    child: std::process::Child,
    pid: Pid,
    /// Becomes readable when the child ends; kernels before 5.3 have none.
    exit: Option<OwnedFd>,
    reach: Reach,
    has_exited: bool,
    is_finished: bool,
    pipes: Vec<(Channel, File)>,
    /// Its output where that is read at its end.
    files: Vec<(Channel, File)>,
    input: Option<Outgoing>,
    buffer: Vec<u8>,
}

impl Child {
    /// Starts a program.
    pub(crate) fn start(program: &Program, reach: Reach) -> Result<Child, StartError> {
        let Started { child, connection, report } = start::start(program, reach)?;
        let Connection { pipes, files, input } = connection;
        let pid = Pid::from_child(&child);
        let (bytes, is_last) = match &program.stdin {
            Input::Bytes(bytes) => (bytes.clone(), true),
            Input::Nothing | Input::File(_) | Input::Requests => (Vec::new(), false),
        };
        let mut started = Child {
            pid,
            child,
            exit: pidfd_open(pid, PidfdFlags::empty()).ok(),
            reach,
            has_exited: false,
            is_finished: false,
            pipes,
            files,
            input: input.map(|pipe| Outgoing::new(pipe, bytes, is_last)),
            buffer: vec![0; CHUNK_SIZE],
        };
        if let Some(mut report) = report {
            let mut reason = String::new();
            // It comes to its end when the launcher has become the program.
            let read = report.read_to_string(&mut reason);
            if read.is_err() || !reason.is_empty() {
                let _ = started.finish(program.grace);
                return Err(StartError::Launcher { reason });
            }
        }
        started.write();
        Ok(started)
    }

    /// Returns its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if it has ended, though some of what it said may still be in its pipes.
    pub(crate) fn has_exited(&self) -> bool {
        self.has_exited
    }

    /// Returns true if a pipe has not come to its end.
    pub(crate) fn is_open(&self, channel: Channel) -> bool {
        self.pipes.iter().any(|(open, _)| *open == channel)
    }

    /// Returns the first of its pipes that has not come to its end.
    pub(crate) fn first_open(&self) -> Option<Channel> {
        self.pipes.first().map(|&(channel, _)| channel)
    }

    /// Returns true if it belongs to what is asked to end, and killed, with everything that it has started.
    pub(crate) fn is_tree(&self) -> bool {
        self.reach == Reach::Tree
    }

    /// Has it read these bytes after those before. If it does not listen any more they are dropped.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        if let Some(input) = &mut self.input {
            input.push(bytes);
            self.write();
        }
    }

    /// Ends its input once it has taken everything.
    pub(crate) fn end_input(&mut self) {
        if let Some(input) = &mut self.input {
            input.end();
            self.write();
        }
    }

    /// Ends its input at once.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Gives it what it can take at once.
    fn write(&mut self) {
        if self.input.as_mut().is_some_and(|input| !input.write()) {
            self.input = None;
        }
    }

    /// Takes what it has said and gives it what it can take, both only as far as that goes at once. Returns the number of bytes said.
    ///
    /// It may say things as fast as they are read: no more is taken from a pipe than that can hold.
    pub(crate) fn exchange(&mut self, seen: &mut dyn FnMut(Channel, &[u8])) -> usize {
        let Child { pipes, buffer, .. } = self;
        let mut total = 0;
        pipes.retain_mut(|(channel, pipe)| {
            let mut taken = 0;
            while taken < MAX_PIPE_SIZE {
                match pipe.read(buffer) {
                    Ok(0) => return false,
                    Ok(length) => {
                        seen(*channel, buffer.get(..length).unwrap_or_default());
                        (taken, total) = (taken + length, total + length);
                        if length < buffer.len() {
                            // It is empty now.
                            break;
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
                }
            }
            true
        });
        self.write();
        total
    }

    /// Hands on what it has said into files.
    pub(crate) fn read_files(&mut self, seen: &mut dyn FnMut(Channel, &[u8])) {
        let Child { files, buffer, .. } = self;
        for (channel, file) in files {
            // Output that cannot be read back counts as none.
            let mut is_readable = file.rewind().is_ok();
            while is_readable {
                let length = file.read(buffer).unwrap_or_default();
                is_readable = length > 0;
                if is_readable {
                    seen(*channel, buffer.get(..length).unwrap_or_default());
                }
            }
        }
    }

    /// Waits until there is something to do, or until this time. Returns true if a descriptor that is waited for as well can be read.
    pub(crate) fn wait(&mut self, until: Option<Instant>, other: Option<BorrowedFd<'_>>) -> io::Result<bool> {
        let others: Vec<BorrowedFd<'_>> = other.into_iter().collect();
        Ok(wait_for_any(&mut [self], until, &others)?.contains(&true))
    }

    /// Waits until it has ended, or until this time.
    pub(crate) fn wait_for_exit(&mut self, until: Option<Instant>) -> io::Result<()> {
        let (pipes, input) = (std::mem::take(&mut self.pipes), self.input.take());
        let mut waited = Ok(false);
        while waited.is_ok() && !self.has_exited && until.is_none_or(|until| Instant::now() < until) {
            waited = self.wait(until, None);
        }
        (self.pipes, self.input) = (pipes, input);
        waited.map(drop)
    }

    /// Sends a signal to everything that belongs to it. What is gone already needs none.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = match self.reach {
            Reach::Process => kill_process(self.pid, signal),
            Reach::Group => kill_process_group(self.pid, signal),
            Reach::Tree => {
                signal_all_of(self.pid, signal);
                Ok(())
            }
        };
    }

    /// Kills what it has left in the process group that it leads.
    pub(crate) fn kill_group(&self) {
        if self.reach != Reach::Process {
            // It may have left nothing.
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
    }

    /// Waits for it after it has ended, or was killed.
    pub(crate) fn finish(&mut self, limit: Duration) -> io::Result<Status> {
        self.is_finished = true;
        self.pipes.clear();
        self.input = None;
        self.wait_for_exit(Instant::now().checked_add(limit))?;
        groups::end(&self.child);
        if self.has_exited {
            return Ok(self.child.wait()?.into());
        }
        // Something in the system holds it, and would hold us.
        Ok(Status::Signaled { signal: Signal::KILL.as_raw(), core_dumped: false })
    }

    /// Adds what it can be waited for, and returns the index of what tells of its end.
    fn add_to<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) -> Option<usize> {
        fds.extend(self.pipes.iter().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)));
        let input = self.input.iter().filter(|input| input.is_pending());
        fds.extend(input.map(|input| PollFd::new(input, PollFlags::OUT)));
        let exit = self.exit.as_ref().filter(|_| !self.has_exited)?;
        fds.push(PollFd::new(exit, PollFlags::IN));
        Some(fds.len() - 1)
    }

    /// Returns true if its end has to be looked for.
    fn is_looked_for(&self) -> bool {
        self.exit.is_none() && !self.has_exited
    }

    fn look_for_end(&mut self) -> io::Result<()> {
        // It is not waited for yet: its number must stay its own until its group is done with.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.has_exited = waitid(WaitId::Pid(self.pid), look)?.is_some();
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.is_finished {
            self.signal(Signal::KILL);
            let _ = self.finish(Duration::from_secs(1));
        }
    }
}

/// Waits until there is something to do for one of the programs, until one of the other descriptors can be read, or until this time. Returns
/// of each of the others if it can be read.
pub(crate) fn wait_for_any(
    children: &mut [&mut Child],
    until: Option<Instant>,
    others: &[BorrowedFd<'_>],
) -> io::Result<Vec<bool>> {
    let mut left = until.map(|until| until.saturating_duration_since(Instant::now()));
    if children.iter().any(|child| child.is_looked_for()) {
        left = Some(left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN)));
    }
    let timeout = left.and_then(|left| Timespec::try_from(left).ok());
    let mut fds: Vec<PollFd<'_>> = others.iter().map(|other| PollFd::new(other, PollFlags::IN)).collect();
    let exits: Vec<Option<usize>> = children.iter().map(|child| child.add_to(&mut fds)).collect();
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let is_ready = |index: Option<usize>| index.and_then(|at| fds.get(at)).is_some_and(|fd| !fd.revents().is_empty());
    let are_others_ready = (0..others.len()).map(|index| is_ready(Some(index))).collect();
    let exited: Vec<bool> = exits.into_iter().map(is_ready).collect();
    for (child, exited) in children.iter_mut().zip(exited) {
        if child.is_looked_for() {
            child.look_for_end()?;
        }
        child.has_exited |= exited;
    }
    Ok(are_others_ready)
}
