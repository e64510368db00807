//! A program whose events are waited for: what it says, its end, and what makes it end early.

use crate::channel::Channel;
use crate::child::{Child, wait_for_any};
use crate::ended::Status;
use crate::error::ProgramError;
use crate::program::Program;
use crate::start::Reach;
use rustix::fs::FlockOperation;
use rustix::process::Signal;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The interval at which a caller hears of a program that says nothing.
const WAKE_EVERY: Duration = Duration::from_secs(1);

/// A running program, in a process group of its own.
///
/// It is killed with its whole group when this is dropped before it has ended.
#[derive(Debug)]
pub struct Process {
    child: Child,
    grace: Duration,
    linger: Duration,
    leaves_nothing: bool,
    /// The file that it holds a lock on while it does what must not be cut off, and for how long that may take.
    uninterrupted: Option<(PathBuf, Duration)>,
    /// The time at which a confined program is overdue.
    deadline: Option<Instant>,
    /// The time at which what it is at takes too long.
    alarm: Option<Instant>,
    /// True if it was asked to end for that.
    is_late: bool,
    /// Its end, once it was asked to end.
    ending: Option<Ending>,
    /// The time at which its caller last had something to do.
    woken: Instant,
}

/// The end of a program that was asked to end.
#[derive(Clone, Copy, Debug)]
struct Ending {
    /// It is killed then, if that is a time that clocks can show.
    at: Option<Instant>,
    /// It is killed then at the latest, whatever it does.
    at_last: Option<Instant>,
}

/// An event that [`Process::wait`] has seen.
#[derive(Debug)]
pub enum Event<'a> {
    /// These bytes came from that pipe.
    Chunk(Channel, &'a [u8]),
    /// It is still at work; seen about once a second.
    Waiting,
    /// The program has ended by itself, and everything it said has been seen.
    Ended(Exit),
    /// It was ended: what it was at took [too long](Process::set_alarm), or an [`Interrupt`] asked for that.
    Stopped(Status),
}

/// The end of a process, and what it has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// By itself, or by a signal.
    pub status: Status,
    /// The pipe that something that it has left behind still held open.
    pub held_open: Option<Channel>,
}

/// Something that asks for the end of programs: its descriptor can be read from then on.
pub trait Interrupt: AsFd {
    /// Returns the signal that asked for it, which is passed on; nothing if it was something else.
    fn signal(&self) -> Option<i32>;
}

impl Program {
    /// Starts it, to be waited for step by step. Its [time limit](Self::timeout) and its [input](Self::stdin) are the caller's matter.
    ///
    /// # Errors
    /// If it cannot be started.
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

    /// Returns its number, which is that of its process group as well, if it leads one.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it bytes on its standard input, if it was started for [requests](Program::requests): now as many as it takes, the rest while it
    /// is waited for. If it does not listen any more they are dropped; the way it ends will be seen.
    pub fn send(&mut self, bytes: &[u8]) {
        self.child.send(bytes);
    }

    /// Ends its input at once.
    pub fn close_input(&mut self) {
        self.child.close_input();
    }

    /// Confines it: from now on it has this long, and nothing of its group outlives it.
    ///
    /// [`wait`](Self::wait) returns without an event once it [is overdue](Self::is_overdue). To drop it then is to kill its group.
    pub fn confine(&mut self, limit: Duration) {
        self.deadline = after(limit);
        self.leaves_nothing = true;
    }

    /// Returns true if it has taken longer than it was [given](Self::confine).
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        is_over(self.deadline)
    }

    /// Returns true if it was asked to end.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Sets when what it is at takes too long. It is asked to end then, killed if it doesn't, and the last event is [`Event::Stopped`].
    pub fn set_alarm(&mut self, at: Option<Instant>) {
        self.alarm = at;
    }

    /// Returns true if it was asked to end as it took too long.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// Has [`Event::Waiting`] seen a second from now, not earlier.
    pub fn begin_waiting(&mut self) {
        self.woken = Instant::now();
    }

    /// Waits until something happens, and hands on everything that has.
    ///
    /// What stands in the pipes is seen in the order stdout, stderr, file descriptor 3; its end is the last event. If the interrupt asks
    /// for that, its process group gets the signal, and is killed if it doesn't end.
    ///
    /// # Errors
    /// If the system cannot wait.
    pub fn wait(&mut self, interrupt: Option<&dyn Interrupt>, seen: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        // The signal that asked for its end stays there to be seen.
        let interrupt = interrupt.filter(|_| self.ending.is_none());
        let is_interrupted = self.child.wait(self.next_wake(), interrupt.map(AsFd::as_fd))?;
        if let Some(interrupt) = interrupt.filter(|_| is_interrupted) {
            self.ask_to_end(interrupt.signal().and_then(Signal::from_named_raw).unwrap_or(Signal::TERM));
        }
        self.child.exchange(&mut |channel, bytes| seen(Event::Chunk(channel, bytes)));
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

    /// Waits until one of several programs says something or ends, until one of the other descriptors can be read, or until this time. Nothing is
    /// seen of them: see [`take`](Self::take). Unlike [`wait`](Self::wait), this does not return before there is a reason to. Returns of each of the
    /// others if it can be read.
    ///
    /// # Errors
    /// If the system cannot wait.
    pub fn wait_for_any<'p>(
        processes: impl IntoIterator<Item = &'p mut Process>,
        others: &[BorrowedFd<'_>],
        until: Option<Instant>,
    ) -> io::Result<Vec<bool>> {
        let mut children: Vec<&mut Child> = processes.into_iter().map(|process| &mut process.child).collect();
        wait_for_any(&mut children, until, others)
    }

    /// Hands on what there is by now, without waiting: its end is the last event.
    ///
    /// # Errors
    /// If the system does not say how it ended.
    pub fn take(&mut self, seen: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        self.child.exchange(&mut |channel, bytes| seen(Event::Chunk(channel, bytes)));
        if self.child.has_exited() {
            let exit = self.leave(seen)?;
            seen(Event::Ended(exit));
        }
        Ok(())
    }

    /// Gives it some time to end, then kills its group.
    pub fn end_within(&mut self, grace: Duration) {
        // A program that cannot be waited for is killed.
        let _ = self.child.wait_for_exit(after(grace));
        self.child.signal(Signal::KILL);
        let _ = self.child.finish(self.grace);
    }

    fn next_wake(&self) -> Option<Instant> {
        let deadline = self.ending.map_or(self.deadline, |ending| ending.at);
        let alarm = self.alarm.filter(|_| self.ending.is_none());
        [deadline, alarm, self.woken.checked_add(WAKE_EVERY)].into_iter().flatten().min()
    }

    /// Asks everything that belongs to it to end.
    fn ask_to_end(&mut self, signal: Signal) {
        self.child.signal(signal);
        let at_last = self.uninterrupted.as_ref().map_or(self.grace, |(_, within)| *within);
        self.ending = Some(Ending { at: after(self.grace), at_last: after(at_last) });
    }

    /// Returns true if nothing is left of what was asked to end.
    fn is_gone(&self) -> bool {
        self.child.has_exited() && (!self.child.is_tree() || self.child.first_open().is_none())
    }

    /// Returns true if the time is over that it had to end. What must not be cut off is waited for.
    fn has_to_end(&mut self) -> bool {
        let Some(ending) = self.ending.filter(|ending| is_over(ending.at)) else { return false };
        if is_over(ending.at_last) || !self.is_uninterrupted() {
            return true;
        }
        self.ending = Some(Ending { at: after(self.grace), ..ending });
        false
    }

    /// Returns true if it does what must not be cut off: it says so by holding a lock.
    fn is_uninterrupted(&self) -> bool {
        let Some(file) = self.uninterrupted.as_ref().and_then(|(path, _)| File::open(path).ok()) else { return false };
        rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK)
    }

    /// Kills what was asked to end, and takes what it has said until then.
    fn stop(&mut self, seen: &mut dyn FnMut(Event<'_>)) -> io::Result<Status> {
        self.child.signal(Signal::KILL);
        self.child.wait_for_exit(after(self.grace))?;
        self.child.exchange(&mut |channel, bytes| seen(Event::Chunk(channel, bytes)));
        self.finish(seen)
    }

    /// Takes what it said last after it has ended, until all pipes have come to their ends or that takes too long.
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

/// Returns the time after this one; nothing if clocks cannot show it.
fn after(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}

/// Returns true if there is such a time, and it has come.
fn is_over(time: Option<Instant>) -> bool {
    time.is_some_and(|time| Instant::now() >= time)
}
