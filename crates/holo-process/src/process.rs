//! A program whose events are waited for one at a time, its output, its exit and its early termination, and running one to its end in a
//! single call.

use crate::child::{Child, wait_for_any};
use crate::ended::{Ended, Output, Status, Tail};
use crate::error::{ProgramError, StartError};
use crate::meter::{OutputMeter, TooMuchError};
use crate::program::Program;
use crate::start::{Channel, Reach, is_missing};
use holo_protocol::session::Stream;
use rustix::fs::FlockOperation;
use rustix::process::Signal;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The interval of [`Event::Waiting`].
const WAKE_EVERY: Duration = Duration::from_secs(1);
/// The interval at which the files with the output of a program are bounded.
const BOUND_EVERY: Duration = Duration::from_millis(100);

/// A running program, in a process group of its own.
///
/// Dropping it before it has ended kills its process group.
#[derive(Debug)]
pub struct Process {
    child: Child,
    grace: Duration,
    linger: Duration,
    leaves_nothing: bool,
    /// The file on which it holds a lock during an operation that must not be interrupted, and the maximum duration of
    /// the operation.
    uninterrupted: Option<(PathBuf, Duration)>,
    /// The point in time at which a confined program becomes overdue.
    deadline: Option<Instant>,
    /// The point in time at which its current operation has taken too long.
    alarm: Option<Instant>,
    /// True if it was terminated because of the alarm.
    is_late: bool,
    /// The state of its termination; `None` until it is terminated.
    ending: Option<Ending>,
    /// The point in time of the last [`Event::Waiting`].
    woken: Instant,
}

/// The state of a program that is being terminated.
#[derive(Clone, Copy, Debug)]
struct Ending {
    /// The point in time at which it is killed; `None` if it is beyond the range of the clock.
    at: Option<Instant>,
    /// The point in time at which it is killed even during an operation that must not be interrupted.
    at_last: Option<Instant>,
}

/// An event of [`Process::wait`].
#[derive(Debug)]
pub enum Event<'a> {
    /// Output from a pipe.
    Chunk(Channel, &'a [u8]),
    /// The program is still running; emitted about once a second.
    Waiting,
    /// The program has exited, and all of its output has been passed on.
    Ended(Exit),
    /// It was terminated, because of the [alarm](Process::set_alarm) or an [`Interrupt`].
    Stopped(Status),
}

/// The exit of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit status, or the signal that ended it.
    pub status: Status,
    /// The pipe that a process that it had started still held open, if any.
    pub held_open: Option<Channel>,
}

/// A request to terminate programs; its descriptor becomes readable when the request is made.
pub trait Interrupt: AsFd {
    /// Returns the signal that caused the request, which is forwarded; `None` for other causes.
    fn signal(&self) -> Option<i32>;
}

impl Program {
    /// Starts the program, to be waited for one event at a time. The caller is responsible for its
    /// [timeout](Self::timeout) and its [input](Self::stdin).
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start(&self) -> Result<Process, ProgramError> {
        Process::start(self, if self.leads_group() { Reach::Group } else { Reach::Process })
    }
}

impl Process {
    pub(crate) fn start(program: &Program, reach: Reach) -> Result<Process, ProgramError> {
        Ok(Process {
            child: Child::start(program, reach).map_err(|error| program.not_started(error))?,
            grace: program.grace,
            linger: program.linger,
            leaves_nothing: program.leaves_nothing,
            uninterrupted: program.uninterrupted.clone(),
            deadline: None,
            alarm: None,
            is_late: false,
            ending: None,
            woken: Instant::now(),
        })
    }

    /// Returns its PID, which is also its process group ID if it leads a group.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes bytes to its standard input, if it was started for [requests](Program::requests). As much as possible is
    /// written immediately, the rest during waits. The bytes are dropped if it has closed its input; its exit will show
    /// the reason.
    pub fn send(&mut self, bytes: &[u8]) {
        self.child.send(bytes);
    }

    /// Closes its input immediately.
    pub fn close_input(&mut self) {
        self.child.close_input();
    }

    /// Sets a time limit from now, and kills the rest of its process group when it ends.
    ///
    /// [`wait`](Self::wait) returns without an event when it [is overdue](Self::is_overdue). Dropping it then kills its
    /// group.
    pub fn confine(&mut self, limit: Duration) {
        self.deadline = after(limit);
        self.leaves_nothing = true;
    }

    /// Returns true if it has exceeded the limit of [`confine`](Self::confine).
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        is_over(self.deadline)
    }

    /// Returns true if it is being terminated.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Sets the point in time at which its current operation has taken too long. Then it receives SIGTERM, and SIGKILL
    /// after the grace period; the last event is [`Event::Stopped`].
    pub fn set_alarm(&mut self, at: Option<Instant>) {
        self.alarm = at;
    }

    /// Returns true if it was terminated because of the alarm.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// Delays the next [`Event::Waiting`] until a second from now.
    pub fn begin_waiting(&mut self) {
        self.woken = Instant::now();
    }

    /// Waits for an event, and passes on all events that have occurred.
    ///
    /// Available output is passed on in the order stdout, stderr, file descriptor 3; the exit is the last event. When
    /// the interrupt is triggered, its process group receives the signal, and SIGKILL after the grace period.
    ///
    /// # Errors
    /// If waiting fails.
    pub fn wait(&mut self, interrupt: Option<&dyn Interrupt>, seen: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        // The interrupt remains readable after the signal was forwarded.
        let interrupt = interrupt.filter(|_| self.ending.is_none());
        let is_interrupted = self.child.wait(self.next_wake(), interrupt.map(AsFd::as_fd))?;
        if let Some(interrupt) = interrupt.filter(|_| is_interrupted) {
            self.ask_to_end(interrupt.signal().and_then(Signal::from_named_raw).unwrap_or(Signal::TERM));
        }
        self.child.exchange(&mut |channel, bytes| seen(Event::Chunk(channel, bytes)));
        self.child.bound_files();
        if self.woken.elapsed() >= WAKE_EVERY {
            self.woken = Instant::now();
            seen(Event::Waiting);
        }
        let has_exited = self.child.has_exited();
        if self.ending.is_none() && !has_exited && is_over(self.alarm) {
            self.is_late = true;
            self.ask_to_end(Signal::TERM);
        }
        if self.ending.is_some() {
            if self.is_gone() || self.has_to_end() {
                let status = self.stop(seen)?;
                seen(Event::Stopped(status));
            }
        } else if has_exited {
            let exit = self.leave(seen)?;
            seen(Event::Ended(exit));
        }
        Ok(())
    }

    /// Waits until one of several programs has output or exits, until one of the other descriptors is readable, or
    /// until a point in time. No events are passed on: see [`take`](Self::take). Unlike [`wait`](Self::wait), it does
    /// not return without a reason. Returns for each of the other descriptors whether it is readable.
    ///
    /// # Errors
    /// If waiting fails.
    pub fn wait_for_any<'p>(
        processes: impl IntoIterator<Item = &'p mut Process>,
        others: &[BorrowedFd<'_>],
        until: Option<Instant>,
    ) -> io::Result<Vec<bool>> {
        let mut children: Vec<&mut Child> = processes.into_iter().map(|process| &mut process.child).collect();
        wait_for_any(&mut children, until, others)
    }

    /// Passes on all available events without blocking; the exit is the last event.
    ///
    /// # Errors
    /// If the exit status cannot be determined.
    pub fn take(&mut self, seen: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        self.child.exchange(&mut |channel, bytes| seen(Event::Chunk(channel, bytes)));
        if self.child.has_exited() {
            let exit = self.leave(seen)?;
            seen(Event::Ended(exit));
        }
        Ok(())
    }

    /// Waits for its exit up to a time limit, then kills its group.
    pub fn end_within(&mut self, grace: Duration) {
        // A program that cannot be waited for is killed.
        let _ = self.child.wait_for_exit(after(grace));
        self.child.signal(Signal::KILL);
        let _ = self.child.finish(self.grace);
    }

    fn next_wake(&self) -> Option<Instant> {
        let deadline = self.ending.map_or(self.deadline, |ending| ending.at);
        let alarm = self.alarm.filter(|_| self.ending.is_none());
        let files = if self.child.has_files() { after(BOUND_EVERY) } else { None };
        [deadline, alarm, files, self.woken.checked_add(WAKE_EVERY)].into_iter().flatten().min()
    }

    /// Sends a signal to terminate all of its processes.
    fn ask_to_end(&mut self, signal: Signal) {
        self.child.signal(signal);
        let at_last = self.uninterrupted.as_ref().map_or(self.grace, |(_, within)| *within);
        self.ending = Some(Ending { at: after(self.grace), at_last: after(at_last) });
    }

    /// Returns true if all terminated processes have ended.
    fn is_gone(&self) -> bool {
        self.child.has_exited() && (!self.child.is_tree() || self.child.first_open().is_none())
    }

    /// Returns true if the time for its termination has expired. An operation that must not be interrupted extends the
    /// time.
    fn has_to_end(&mut self) -> bool {
        let Some(ending) = self.ending.filter(|ending| is_over(ending.at)) else { return false };
        if is_over(ending.at_last) || !self.is_uninterrupted() {
            return true;
        }
        self.ending = Some(Ending { at: after(self.grace), ..ending });
        false
    }

    /// Returns true if it performs an operation that must not be interrupted, as shown by its lock.
    fn is_uninterrupted(&self) -> bool {
        let Some(file) = self.uninterrupted.as_ref().and_then(|(path, _)| File::open(path).ok()) else { return false };
        rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK)
    }

    /// Kills the remaining processes, and passes on the output up to then.
    fn stop(&mut self, seen: &mut dyn FnMut(Event<'_>)) -> io::Result<Status> {
        self.child.signal(Signal::KILL);
        self.child.wait_for_exit(after(self.grace))?;
        self.child.exchange(&mut |channel, bytes| seen(Event::Chunk(channel, bytes)));
        self.finish(seen)
    }

    /// Passes on its remaining output after it has exited, until all pipes have reached end of file or a time limit has
    /// expired.
    fn leave(&mut self, seen: &mut dyn FnMut(Event<'_>)) -> io::Result<Exit> {
        let until = after(self.linger);
        let mut held_open = self.child.first_open();
        while held_open.is_some() {
            self.child.exchange(&mut |channel, bytes| seen(Event::Chunk(channel, bytes)));
            held_open = self.child.first_open();
            if held_open.is_none() || is_over(until) {
                break;
            }
            self.child.wait(until, None)?;
        }
        if self.leaves_nothing {
            self.child.kill_group();
        }
        Ok(Exit { status: self.finish(seen)?, held_open })
    }

    fn finish(&mut self, seen: &mut dyn FnMut(Event<'_>)) -> io::Result<Status> {
        self.child.read_files(&mut |channel, bytes| seen(Event::Chunk(channel, bytes)));
        self.child.finish(self.grace)
    }
}

/// Returns the point in time after this duration from now; `None` if it is beyond the range of the clock.
fn after(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}

/// Returns true if the time is set and has passed.
fn is_over(time: Option<Instant>) -> bool {
    time.is_some_and(|time| Instant::now() >= time)
}

impl Program {
    /// Runs it to its end, and passes on its output as it arrives.
    ///
    /// # Errors
    /// If the program cannot be started, or its output exceeds the [limit](Self::output_limit). A program that fails is
    /// no error: see [`Ended::failure`].
    pub fn run(&self, mut seen: impl FnMut(Stream, &[u8])) -> Result<Ended, ProgramError> {
        self.run_with_messages(|channel, bytes| channel.stream().into_iter().for_each(|stream| seen(stream, bytes)))
    }

    /// Like [`run`](Self::run), and passes on what it writes to its [extra pipe](Self::extra_pipe), too.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn run_with_messages(&self, mut seen: impl FnMut(Channel, &[u8])) -> Result<Ended, ProgramError> {
        run(self, &mut seen)
    }

    /// Runs it to its end, and captures its output.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn output(&self) -> Result<Output, ProgramError> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let ended = self.run(|stream, bytes| match stream {
            Stream::Stdout => stdout.extend_from_slice(bytes),
            Stream::Stderr => stderr.extend_from_slice(bytes),
        })?;
        Ok(Output { ended, stdout, stderr })
    }

    /// Returns the error for a failed start.
    pub(crate) fn not_started(&self, error: StartError) -> ProgramError {
        if is_missing(self) { ProgramError::NotFound(error) } else { ProgramError::NotStarted(error) }
    }
}

fn run(program: &Program, seen: &mut dyn FnMut(Channel, &[u8])) -> Result<Ended, ProgramError> {
    let name = || program.name.display().to_string();
    let mut process = Process::start(program, if program.leads_group() { Reach::Tree } else { Reach::Process })?;
    process.set_alarm(program.limit().and_then(|limit| Instant::now().checked_add(limit)));
    let (mut tail, mut meter, mut end) = (Tail::default(), OutputMeter::new(program.output_limit), None);
    let (exit, timed_out) = loop {
        let waited = process.wait(None, &mut |event| match event {
            Event::Chunk(channel, bytes) => {
                if meter.count(bytes.len()).is_ok() {
                    channel.stream().into_iter().for_each(|_| tail.push(bytes));
                    seen(channel, bytes);
                }
            }
            Event::Ended(exit) => end = Some((exit, None)),
            // All processes that could hold its pipes open were killed.
            Event::Stopped(status) => end = Some((Exit { status, held_open: None }, program.limit())),
            Event::Waiting => {}
        });
        waited.map_err(|source| ProgramError::Lost { program: name(), source })?;
        // Dropping the process kills it.
        meter.check().map_err(|TooMuchError(limit)| ProgramError::TooMuchOutput { program: name(), limit })?;
        if let Some(end) = end {
            break end;
        }
    };
    Ok(Ended { status: exit.status, timed_out, held_open: exit.held_open.is_some(), tail: tail.into_bytes() })
}
