//! A running program: its pipes, its exit, and its signals.
//!
//! Only [`wait_for_any`] blocks. It waits for all events at once: output, space in the input pipe, exits, and a
//! timeout.

use crate::ended::Status;
use crate::error::StartError;
use crate::groups;
use crate::program::{Input, Program};
use crate::start::{self, Channel, Connection, Reach, Started};
use crate::tree::signal_all_of;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open, waitid,
};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The maximum capacity of a pipe, unless its program is privileged.
pub(crate) const MAX_PIPE_SIZE: usize = 1 << 20;
const CHUNK_SIZE: usize = 1 << 16;
/// The sizes of the first and last part of the output in a file that are passed on.
const FIRST_KEPT: u64 = 16 << 20;
const LAST_KEPT: u64 = 1 << 20;
/// The polling interval for exits on kernels without pidfds.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A running program. It is killed if it is dropped before it has ended.
#[derive(Debug)]
pub(crate) struct Child {
    child: std::process::Child,
    pid: Pid,
    /// The pidfd, which becomes readable when the child exits; `None` on kernels before 5.3.
    exit: Option<OwnedFd>,
    reach: Reach,
    has_exited: bool,
    is_finished: bool,
    pipes: Vec<(Channel, File)>,
    /// The files with its output, if the output is read only after its end.
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
            // End of file is reached when the launcher has become the program.
            let read = report.read_to_string(&mut reason);
            if read.is_err() || !reason.is_empty() {
                let _ = started.finish(program.grace);
                return Err(StartError::Launcher { reason });
            }
        }
        started.write();
        Ok(started)
    }

    /// Returns its PID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if it has exited. Its pipes may still contain output.
    pub(crate) fn has_exited(&self) -> bool {
        self.has_exited
    }

    /// Returns true if a pipe has not reached end of file.
    pub(crate) fn is_open(&self, channel: Channel) -> bool {
        self.pipes.iter().any(|(open, _)| *open == channel)
    }

    /// Returns the first of its pipes that has not reached end of file.
    pub(crate) fn first_open(&self) -> Option<Channel> {
        self.pipes.first().map(|&(channel, _)| channel)
    }

    /// Returns true if signals are also sent to all processes that it has started.
    pub(crate) fn is_tree(&self) -> bool {
        self.reach == Reach::Tree
    }

    /// Writes bytes to its input, after those of earlier calls. They are dropped if it has closed its input.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        if let Some(input) = &mut self.input {
            input.push(bytes);
            self.write();
        }
    }

    /// Closes its input when all bytes have been written.
    pub(crate) fn end_input(&mut self) {
        if let Some(input) = &mut self.input {
            input.end();
            self.write();
        }
    }

    /// Closes its input immediately.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Writes as many bytes to its input as possible without blocking.
    fn write(&mut self) {
        if self.input.as_mut().is_some_and(|input| !input.write()) {
            self.input = None;
        }
    }

    /// Reads its output and writes its input, without blocking. Returns the number of bytes read.
    ///
    /// Because a program may write as fast as its output is read, at most the capacity of a pipe is read from each
    /// pipe.
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
                            // The pipe is empty now.
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

    /// Returns true if output is written to files, which are in memory.
    pub(crate) fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Drops the output in files beyond the parts that are passed on.
    pub(crate) fn bound_files(&self) {
        for (_, file) in &self.files {
            if let Some(Range { start, end }) = left_out(file) {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                // Without holes in files, all of the output stays until it is read.
                let _ = fallocate(file, hole, start, end - start);
            }
        }
    }

    /// Passes on the output that was written to files.
    pub(crate) fn read_files(&mut self, seen: &mut dyn FnMut(Channel, &[u8])) {
        let Child { files, buffer, .. } = self;
        for (channel, file) in files {
            let left_out = left_out(file).unwrap_or(FIRST_KEPT..FIRST_KEPT);
            for part in [0..left_out.start, left_out.end..left_out.end + LAST_KEPT] {
                if part.start > left_out.start {
                    let notice = format!("\n[{} bytes left out]\n", left_out.end - left_out.start);
                    seen(*channel, notice.as_bytes());
                }
                // Output that cannot be read back is treated as empty.
                let mut rest = file.seek(SeekFrom::Start(part.start)).map_or(0, |_| part.end - part.start);
                while rest > 0 {
                    let wanted = buffer.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
                    let length = file.read(buffer.get_mut(..wanted).unwrap_or_default()).unwrap_or_default();
                    if length == 0 {
                        break;
                    }
                    rest -= length as u64;
                    seen(*channel, buffer.get(..length).unwrap_or_default());
                }
            }
        }
    }

    /// Waits for an event, or until a point in time. Returns true if the other descriptor is readable.
    pub(crate) fn wait(&mut self, until: Option<Instant>, other: Option<BorrowedFd<'_>>) -> io::Result<bool> {
        let others: Vec<BorrowedFd<'_>> = other.into_iter().collect();
        Ok(wait_for_any(&mut [self], until, &others)?.contains(&true))
    }

    /// Waits until it has exited, or until a point in time.
    pub(crate) fn wait_for_exit(&mut self, until: Option<Instant>) -> io::Result<()> {
        let (pipes, input) = (std::mem::take(&mut self.pipes), self.input.take());
        let mut waited = Ok(false);
        while waited.is_ok() && !self.has_exited && until.is_none_or(|until| Instant::now() < until) {
            waited = self.wait(until, None);
        }
        (self.pipes, self.input) = (pipes, input);
        waited.map(drop)
    }

    /// Sends a signal to all processes within its reach. Processes that no longer exist are ignored.
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

    /// Kills the remaining processes of the process group that it leads.
    pub(crate) fn kill_group(&self) {
        if self.reach != Reach::Process {
            // The group may be empty.
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
    }

    /// Reaps it after it has exited or was killed.
    pub(crate) fn finish(&mut self, limit: Duration) -> io::Result<Status> {
        self.is_finished = true;
        self.pipes.clear();
        self.input = None;
        self.wait_for_exit(Instant::now().checked_add(limit))?;
        groups::end(&self.child);
        if self.has_exited {
            return Ok(self.child.wait()?.into());
        }
        // The process cannot be killed, for example because it is in an uninterruptible sleep. Waiting for it would
        // block us too.
        Ok(Status::Signaled { signal: Signal::KILL.as_raw(), core_dumped: false })
    }

    /// Adds the descriptors to poll, and returns the index of the pidfd.
    fn add_to<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) -> Option<usize> {
        fds.extend(self.pipes.iter().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)));
        let input = self.input.iter().filter(|input| input.is_pending());
        fds.extend(input.map(|input| PollFd::new(input, PollFlags::OUT)));
        let exit = self.exit.as_ref().filter(|_| !self.has_exited)?;
        fds.push(PollFd::new(exit, PollFlags::IN));
        Some(fds.len() - 1)
    }

    /// Returns true if its exit must be polled for.
    fn is_looked_for(&self) -> bool {
        self.exit.is_none() && !self.has_exited
    }

    fn look_for_end(&mut self) -> io::Result<()> {
        // WNOWAIT leaves it as a zombie: its PID must not be reused before its group has been handled.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.has_exited = waitid(WaitId::Pid(self.pid), look)?.is_some();
        Ok(())
    }
}

/// Returns the part of a file with output that is not passed on, if the file is too long.
fn left_out(file: &File) -> Option<Range<u64>> {
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    (size > FIRST_KEPT + LAST_KEPT).then(|| FIRST_KEPT..size - LAST_KEPT)
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.is_finished {
            self.signal(Signal::KILL);
            let _ = self.finish(Duration::from_secs(1));
        }
    }
}

/// Waits for an event of one of the programs, for one of the other descriptors to become readable, or until a point in
/// time. Returns for each of the other descriptors whether it is readable.
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

/// Our end of a program's standard input, and the bytes that have not been written yet.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pipe: File,
    bytes: Vec<u8>,
    written: usize,
    /// True if the pipe is closed when all bytes have been written.
    is_last: bool,
}

impl Outgoing {
    /// Creates the queue from a non-blocking pipe and its first bytes; `is_last` if no more bytes follow.
    pub(crate) fn new(pipe: File, bytes: Vec<u8>, is_last: bool) -> Outgoing {
        Outgoing { pipe, bytes, written: 0, is_last }
    }

    /// Appends bytes to the queue.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Closes the pipe when all bytes have been written.
    pub(crate) fn end(&mut self) {
        self.is_last = true;
    }

    /// Returns true if bytes have not been written yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.written < self.bytes.len()
    }

    /// Writes as much as possible without blocking. Returns true if the pipe must be kept open.
    pub(crate) fn write(&mut self) -> bool {
        while let Some(left) = self.bytes.get(self.written..).filter(|left| !left.is_empty()) {
            match self.pipe.write(left) {
                Ok(length) => self.written += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It is no error if the program does not read its input.
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        self.bytes.clear();
        self.written = 0;
        !self.is_last
    }
}

impl AsFd for Outgoing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}
