//! The one place that starts processes.

use super::running;
use crate::error::{self, Fatal};
use crate::interrupt::Interrupt;
use command_fds::{CommandFdExt, FdMapping};
use holo_protocol::environment::{self, MESSAGE_FD};
use holo_protocol::words;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The time that output is waited for after a process has ended and left its pipes to a child of its own.
const HELD_OPEN_GRACE: Duration = Duration::from_millis(500);
/// The time that an interrupted process has to clean up before it is killed.
const INTERRUPT_GRACE: Duration = Duration::from_secs(5);
/// The time that an interrupted process is waited for while it does what must not be cut off.
const UNINTERRUPTED_LIMIT: Duration = Duration::from_secs(35 * 60);
/// The interval at which its caller hears of a process that says nothing.
const WAKE_EVERY: Duration = Duration::from_secs(1);
const CHUNK_SIZE: usize = 1 << 16;

/// A program to be started.
#[derive(Debug)]
pub struct Program<'a> {
    /// The path of the program; without a slash it is looked up in the working directory, never in `$PATH`.
    pub path: &'a Path,
    /// Its arguments.
    pub arguments: Vec<&'a OsStr>,
    /// The variables that its environment has beyond ours.
    pub environment: Vec<(&'static str, OsString)>,
    /// True if it gets a pipe as file descriptor 3.
    pub messages: bool,
    /// True if it gets a pipe as its standard input, instead of `/dev/null`.
    pub requests: bool,
    /// The time that it may run, if [`run`](Program::run) is to end it then.
    pub limit: Option<Duration>,
}

/// The pipe of a process that something came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// File descriptor 3.
    Messages,
}

/// The end of a process.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// A child of the process lives on and holds this pipe open.
    pub held_open: Option<Channel>,
}

/// A running process, in a process group of its own.
///
/// It is killed with its whole group when this is dropped before it has ended.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// True if the child is still to be waited for.
    running: bool,
    /// Becomes readable when the child ends; kernels before 5.3 have none.
    exit: Option<OwnedFd>,
    buffer: Vec<u8>,
    pipes: Vec<(Channel, File)>,
    /// The time at which a confined process is overdue.
    deadline: Option<Instant>,
    /// The file that it holds a lock on while it does what must not be cut off.
    uninterrupted: Option<PathBuf>,
    /// Its end, once it has been asked to end: with the time at which it is killed.
    ending: Option<Ending>,
    /// The time at which what it is at takes too long.
    alarm: Option<Instant>,
    /// True if it was asked to end for that.
    is_late: bool,
    /// The time at which its caller last had something to do.
    woken: Instant,
    /// The write end of its standard input, if [`Program::requests`] asked for one.
    pub requests: Option<ChildStdin>,
}

/// The end of an interrupted process.
#[derive(Clone, Copy, Debug)]
struct Ending {
    /// It is killed then.
    at: Instant,
    /// It is killed then at the latest, whatever it does.
    at_last: Instant,
}

/// An event that [`Process::wait`] has seen.
#[derive(Debug)]
pub enum Event<'a> {
    /// These bytes came from that pipe.
    Chunk(Channel, &'a [u8]),
    /// Standard input can take more.
    Writable,
    /// The process has ended, and everything it said has been seen.
    Ended(Ended),
    /// It is still at work; seen about once a second.
    Waiting,
    /// It was ended, as what it was at took [too long](Process::set_alarm). There is nothing more to wait for.
    TimedOut,
}

impl Program<'_> {
    /// Starts the program.
    ///
    /// # Errors
    /// If it cannot be started, in the words of version 3: `fork/exec PATH: permission denied`.
    pub fn start(self) -> Result<Process, String> {
        let path = self.path.to_owned();
        let here = Path::new(".");
        let program = if path.components().count() == 1 { here.join(&path) } else { path.clone() };
        let started = holo_process::by_shell_if_need_be(&program, |program, script| self.try_start(program, script));
        started.map_err(|error| error::at("fork/exec", &path, &error))
    }

    /// Starts it by this path, which may be an interpreter's.
    fn try_start(&self, path: &Path, script: Option<&Path>) -> io::Result<Process> {
        let (stdout, stdout_writer) = io::pipe()?;
        let (stderr, stderr_writer) = io::pipe()?;
        let mut pipes = vec![(Channel::Stdout, stdout), (Channel::Stderr, stderr)];
        let cache = self.environment.iter().find(|(name, _)| *name == environment::CACHE_DIR);
        let uninterrupted = cache.map(|(_, cache)| Path::new(cache).join(environment::UNINTERRUPTED));
        #[expect(clippy::disallowed_methods, reason = "this is the one place")]
        let mut command = Command::new(path);
        command.args(script).args(&self.arguments).envs(self.environment.iter().cloned()).process_group(0);
        command.stdin(if self.requests { Stdio::piped() } else { Stdio::null() });
        command.stdout(stdout_writer).stderr(stderr_writer);
        if self.messages {
            let (messages, messages_writer) = io::pipe()?;
            pipes.push((Channel::Messages, messages));
            let mapping = FdMapping { parent_fd: messages_writer.into(), child_fd: MESSAGE_FD };
            command.fd_mappings(vec![mapping]).map_err(io::Error::other)?;
        }
        let mut child = command.spawn()?;
        running::began(child.id());
        // The command holds the write ends of the pipes: while it lives, they never come to their ends.
        drop(command);
        let requests = child.stdin.take();
        let exit = pid_of(&child).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let pipes = pipes.into_iter().map(non_blocking).collect::<io::Result<_>>()?;
        let buffer = vec![0; CHUNK_SIZE];
        Ok(Process {
            child,
            running: true,
            exit,
            buffer,
            pipes,
            deadline: None,
            uninterrupted,
            ending: None,
            alarm: None,
            is_late: false,
            woken: Instant::now(),
            requests,
        })
    }

    /// Runs the program to its end.
    ///
    /// # Errors
    /// If it cannot be started ([`RunError::Start`]), takes too long ([`RunError::TimedOut`]), or a signal asks for the end
    /// ([`RunError::Interrupted`]).
    pub fn run(self, interrupt: &Interrupt, mut seen: impl FnMut(Channel, &[u8])) -> Result<Ended, RunError> {
        self.run_patiently(interrupt, |heard| {
            if let Heard::Chunk(channel, bytes) = heard {
                seen(channel, bytes);
            }
        })
    }

    /// As [`run`](Self::run), for who wants to know that it still runs.
    ///
    /// # Errors
    /// As there.
    pub fn run_patiently(self, interrupt: &Interrupt, mut heard: impl FnMut(Heard<'_>)) -> Result<Ended, RunError> {
        let limit = self.limit;
        let mut process = self.start().map_err(RunError::Start)?;
        process.set_alarm(limit.and_then(|limit| Instant::now().checked_add(limit)));
        let mut ended = None;
        while ended.is_none() {
            process.wait(interrupt, false, |event| match event {
                Event::Chunk(channel, bytes) => heard(Heard::Chunk(channel, bytes)),
                Event::Ended(how) => ended = Some(Ok(how)),
                Event::TimedOut => ended = Some(Err(RunError::TimedOut(limit.unwrap_or_default()))),
                Event::Waiting => heard(Heard::Waiting),
                Event::Writable => {}
            })?;
        }
        ended.unwrap_or_else(|| Err(RunError::Start("the process vanished".to_owned())))
    }
}

/// An event of a program while it runs.
#[derive(Debug)]
pub enum Heard<'a> {
    /// These bytes came from that pipe.
    Chunk(Channel, &'a [u8]),
    /// It is still at work; heard about once a second.
    Waiting,
}

/// The reasons for which a program was not run to its end.
#[derive(Debug)]
pub enum RunError {
    /// It could not be started; the text says why.
    Start(String),
    /// It has taken longer than this, and was ended.
    TimedOut(Duration),
    /// A signal asked for the end; the process and its group are gone.
    Interrupted(Fatal),
}

impl From<Fatal> for RunError {
    fn from(fatal: Fatal) -> Self {
        RunError::Interrupted(fatal)
    }
}

fn non_blocking((channel, pipe): (Channel, PipeReader)) -> io::Result<(Channel, File)> {
    rustix::io::ioctl_fionbio(&pipe, true)?;
    Ok((channel, File::from(OwnedFd::from(pipe))))
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

impl Process {
    /// Confines the process: from now on it has this long, and nothing of its group outlives it.
    ///
    /// [`wait`](Self::wait) returns without an event once it [is overdue](Self::is_overdue). To drop it then is to kill its group.
    pub fn confine(&mut self, limit: Duration) {
        self.deadline = Instant::now().checked_add(limit);
    }

    /// Returns true if it has taken longer than it was [given](Self::confine).
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns whether a signal was passed on, so that it is about to end.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Sets when what it is at takes too long. Its group is asked to end then, killed if it doesn't, and the last event is
    /// [`Event::TimedOut`].
    pub fn set_alarm(&mut self, at: Option<Instant>) {
        self.alarm = at;
    }

    /// Has [`Event::Waiting`] seen a second from now, not earlier.
    pub fn begin_waiting(&mut self) {
        self.woken = Instant::now();
    }

    /// Returns whether it was asked to end as it took too long.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// Waits until something happens, and hands on everything that has.
    ///
    /// What stands in the pipes is seen in the order stdout, stderr, messages; [`Event::Ended`] is the last.
    ///
    /// # Errors
    /// [`Fatal::Interrupted`] if a signal asked for the end: the process group is asked to end too, and killed if it doesn't.
    pub fn wait(
        &mut self,
        interrupt: &Interrupt,
        wants_to_write: bool,
        mut seen: impl FnMut(Event<'_>),
    ) -> Result<(), Fatal> {
        // On kernels that do not tell of the end, it is all that can be waited for now.
        if self.pipes.is_empty() && self.exit.is_none() {
            let status = self.wait_for_exit(interrupt)?;
            seen(Event::Ended(Ended { status, held_open: None }));
            return Ok(());
        }
        let ready = self.poll(interrupt, wants_to_write)?;
        if ready.interrupted {
            self.pass_on(interrupt);
        }
        self.read_all(&mut |channel, bytes| seen(Event::Chunk(channel, bytes)));
        if self.woken.elapsed() >= WAKE_EVERY {
            self.woken = Instant::now();
            seen(Event::Waiting);
        }
        if self.ending.is_none() && !ready.exited && self.alarm.is_some_and(|alarm| Instant::now() >= alarm) {
            self.is_late = true;
            self.ask_to_end(Signal::TERM);
        }
        if self.ending.is_some() {
            if ready.exited || self.has_to_end() {
                self.end_within(Duration::ZERO);
                self.read_all(&mut |channel, bytes| seen(Event::Chunk(channel, bytes)));
                interrupt.check()?;
                // Nobody else asks it to end.
                seen(Event::TimedOut);
            }
            return Ok(());
        }
        if ready.writable {
            seen(Event::Writable);
        }
        if ready.exited {
            let held_open = self.read_to_end(HELD_OPEN_GRACE, &mut |channel, bytes| seen(Event::Chunk(channel, bytes)));
            if self.deadline.is_some() {
                self.kill_group();
            }
            let status = self.wait_for_exit(interrupt)?;
            seen(Event::Ended(Ended { status, held_open }));
        }
        Ok(())
    }

    /// Writes as much to its standard input as that takes now, and removes it from what is to be sent.
    pub fn send(&mut self, outgoing: &mut Vec<u8>) {
        let Some(requests) = &mut self.requests else { return };
        match requests.write(outgoing) {
            Ok(length) => drop(outgoing.drain(..length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // It does not listen any more; how it ends will be seen.
            Err(_) => outgoing.clear(),
        }
    }

    fn poll(&self, interrupt: &Interrupt, wants_to_write: bool) -> Result<Ready, Fatal> {
        // The signal that asked for its end stays there to be seen.
        let mut fds: Vec<PollFd<'_>> = Vec::new();
        let interrupt = self.ending.is_none().then(|| {
            fds.push(PollFd::new(interrupt, PollFlags::IN));
            0
        });
        let exit = self.exit.as_ref().map(|exit| {
            fds.push(PollFd::new(exit, PollFlags::IN));
            fds.len() - 1
        });
        let writer = self.requests.as_ref().filter(|_| wants_to_write).map(|requests| {
            fds.push(PollFd::new(requests, PollFlags::OUT));
            fds.len() - 1
        });
        fds.extend(self.pipes.iter().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)));
        let deadline = self.ending.map(|ending| ending.at).or(self.deadline);
        let alarm = self.alarm.filter(|_| self.ending.is_none());
        let wake = self.woken + WAKE_EVERY;
        let first = [deadline, alarm].into_iter().flatten().fold(wake, Instant::min);
        let timeout = Timespec::try_from(first.saturating_duration_since(Instant::now())).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => {
                return Err(Fatal::CouldNotRun(format!("cannot wait for a plugin: {}", words::reason(&errno.into()))));
            }
        }
        let is_ready =
            |index: Option<usize>| index.and_then(|at| fds.get(at)).is_some_and(|fd| !fd.revents().is_empty());
        Ok(Ready { interrupted: is_ready(interrupt), exited: is_ready(exit), writable: is_ready(writer) })
    }

    /// Reads what the pipes hold now, and forgets those that have come to their ends.
    fn read_all(&mut self, seen: &mut dyn FnMut(Channel, &[u8])) {
        let Process { pipes, buffer, .. } = self;
        pipes.retain_mut(|(channel, pipe)| {
            loop {
                match pipe.read(buffer) {
                    Ok(0) => return false,
                    Ok(length) => seen(*channel, buffer.get(..length).unwrap_or_default()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
                }
            }
        });
    }

    /// Reads on after the process has ended, until all pipes have come to their ends or it takes too long.
    fn read_to_end(&mut self, grace: Duration, seen: &mut dyn FnMut(Channel, &[u8])) -> Option<Channel> {
        let end = Instant::now() + grace;
        loop {
            self.read_all(seen);
            let held_open = self.pipes.first()?.0;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // Closing them is kinder than waiting for ever.
                self.pipes.clear();
                return Some(held_open);
            }
            let mut fds: Vec<_> = self.pipes.iter().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)).collect();
            // An error here can only mean that we look again earlier than needed.
            let _ = poll(&mut fds, Timespec::try_from(left).ok().as_ref());
        }
    }

    /// Waits for the end of a process that has closed all its pipes, or is known to have ended.
    fn wait_for_exit(&mut self, interrupt: &Interrupt) -> Result<ExitStatus, Fatal> {
        while let Some(exit) = &self.exit {
            let left = self.ending.map(|ending| ending.at.saturating_duration_since(Instant::now()));
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            let mut fds = vec![PollFd::new(exit, PollFlags::IN)];
            if self.ending.is_none() {
                fds.push(PollFd::new(interrupt, PollFlags::IN));
            }
            while poll(&mut fds, timeout.as_ref()).is_err() {}
            if fds.first().is_some_and(|fd| !fd.revents().is_empty()) {
                break;
            }
            if self.ending.is_none() {
                self.pass_on(interrupt);
            } else if self.has_to_end() {
                self.end_within(Duration::ZERO);
                interrupt.check()?;
            }
        }
        if self.ending.is_some() {
            self.end_within(Duration::ZERO);
            interrupt.check()?;
        }
        let status = self.child.wait();
        self.has_ended();
        status.map_err(|error| Fatal::CouldNotRun(format!("cannot wait for a plugin: {}", words::reason(&error))))
    }

    /// Passes a signal on to the whole group. From now on it is about to end.
    fn pass_on(&mut self, interrupt: &Interrupt) {
        self.ask_to_end(interrupt.signal().and_then(Signal::from_named_raw).unwrap_or(Signal::TERM));
    }

    /// Asks the whole group to end.
    fn ask_to_end(&mut self, signal: Signal) {
        let Some(pid) = pid_of(&self.child) else { return };
        // A group that is gone already needs no signal.
        let _ = kill_process_group(pid, signal);
        let now = Instant::now();
        self.ending = Some(Ending { at: now + INTERRUPT_GRACE, at_last: now + UNINTERRUPTED_LIMIT });
    }

    /// Returns whether the time is over that it had to end. What must not be cut off is waited for.
    fn has_to_end(&mut self) -> bool {
        let is_uninterrupted = self.is_uninterrupted();
        let Some(ending) = &mut self.ending else { return false };
        let now = Instant::now();
        if now < ending.at {
            return false;
        }
        if is_uninterrupted && now < ending.at_last {
            ending.at = now + INTERRUPT_GRACE;
            return false;
        }
        true
    }

    /// Returns whether it does what must not be cut off: it says so by holding a lock.
    fn is_uninterrupted(&self) -> bool {
        let Some(file) = self.uninterrupted.as_ref().and_then(|path| File::open(path).ok()) else { return false };
        rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK)
    }

    /// Gives the process some time to end, then kills its group.
    pub fn end_within(&mut self, grace: Duration) {
        let timeout = Timespec::try_from(grace).ok();
        if let Some(exit) = &self.exit {
            let _ = poll(&mut [PollFd::new(exit, PollFlags::IN)], timeout.as_ref());
        }
        self.kill_group();
        let _ = self.child.wait();
        self.has_ended();
    }

    fn has_ended(&mut self) {
        self.running = false;
        running::ended(self.child.id());
    }

    /// Kills what there is of the group. Its number is nobody else's as long as the process was not waited for.
    fn kill_group(&self) {
        if let Some(pid) = pid_of(&self.child) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.running {
            self.end_within(Duration::ZERO);
        }
    }
}

struct Ready {
    interrupted: bool,
    exited: bool,
    writable: bool,
}

/// Says in the words of version 3 what is wrong with an exit status; nothing if it is 0.
#[must_use]
pub fn failure(status: ExitStatus) -> Option<String> {
    words::failure(status.code(), status.signal(), status.core_dumped())
}
