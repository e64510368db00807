//! The running process groups, and their termination when this process ends.
//!
//! Process groups of their own do not receive the signals that are sent to our group, and do not end with us. Therefore
//! a thread catches the signals that end this process and forwards them first. Because SIGKILL cannot be caught, a
//! guard process, whose standard input is a pipe from us, ends the groups when the pipe is closed.

use crate::invocation::{HOLD, WATCH, ignored_signals, is_served};
use crate::streams;
use crate::tree::{group_runs, signal_all_of};
use crate::watcher::{Told, Watcher, guards_of, listen};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// The time that programs have to exit after a forwarded signal; less than the sender of the signal is likely to wait.
const GRACE: Duration = Duration::from_secs(4);

static PREPARED: AtomicBool = AtomicBool::new(false);
static GROUPS: Mutex<Groups> =
    Mutex::new(Groups { leaders: Vec::new(), is_ending: false, guard: Guard::None, holder: Holder::None });
/// Held for reading while a program is being started.
static STARTS: RwLock<()> = RwLock::new(());
/// Notified when a group has ended.
static ENDED: Condvar = Condvar::new();

struct Groups {
    /// The leaders of the running groups.
    leaders: Vec<Leader>,
    /// True if no more programs may be started.
    is_ending: bool,
    guard: Guard,
    holder: Holder,
}

/// The process group of a new program.
pub(crate) enum Group {
    /// The group of this process.
    Ours,
    /// A group of its own.
    Own,
    /// A group of its own that is allowed to finish when this process ends.
    LetFinish { name: String, within: Duration },
}

/// The first process of a group.
struct Leader {
    pid: Pid,
    /// The name of the program and its time limit, if it is allowed to finish.
    finishes: Option<(String, Duration)>,
}

/// The process that ends the groups after this process was killed.
enum Guard {
    None,
    Incomplete,
    Watched(Watcher),
}

/// The process that holds a lock while programs are running.
enum Holder {
    None,
    /// It is started when there is a program.
    Awaited(File),
    Watched(Watcher),
}

/// Sets the close-on-exec flag of all inherited descriptors, so that programs do not inherit them. Descriptors that
/// this process opens have the flag already.
pub(crate) fn mark_inherited_descriptors() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| close_fds::set_fds_cloexec(3, &[]));
}

/// Allows the guard process to be started.
pub(crate) fn set_prepared() {
    PREPARED.store(true, Ordering::Relaxed);
}

/// Ends the guard process.
pub(crate) fn end_guard() {
    let guard = std::mem::replace(&mut groups().guard, Guard::Incomplete);
    drop(guard);
}

/// Returns true if `main` of this process has called [`prepare`](crate::prepare).
pub(crate) fn is_prepared() -> bool {
    PREPARED.load(Ordering::Relaxed)
}

/// Ends all programs that run in groups of their own: with SIGTERM first, then with SIGKILL. Further programs cannot be
/// started.
///
/// Threads that run programs do not continue; the caller must end the process.
pub fn end_all() {
    end_all_with(Signal::TERM);
}

fn groups() -> MutexGuard<'static, Groups> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a program, and tracks its group unless that is ours. The command, or the program itself, creates the group.
pub(crate) fn start(command: &mut Command, group: Group) -> io::Result<Child> {
    let starting = STARTS.read().unwrap_or_else(PoisonError::into_inner);
    let mut groups = groups();
    if groups.is_ending {
        drop((starting, groups));
        wait_for_the_end();
    }
    if matches!(group, Group::Ours) {
        drop(groups);
        return command.spawn();
    }
    if is_prepared() && matches!(groups.guard, Guard::None) {
        // Programs can be run without a guard too.
        groups.guard = guard().unwrap_or(Guard::Incomplete);
    }
    groups.start_holder();
    // Other threads may start programs at the same time.
    drop(groups);
    let child = command.spawn()?;
    let finishes = if let Group::LetFinish { name, within } = group { Some((name, within)) } else { None };
    self::groups().began(child.id(), Leader { pid: Pid::from_child(&child), finishes });
    Ok(child)
}

/// Removes a group whose leader has exited, but was not reaped yet. Does not return if this process is ending.
pub(crate) fn end(child: &Child) {
    let mut groups = groups();
    let leader = Pid::from_child(child);
    let Some(index) = groups.leaders.iter().position(|known| known.pid == leader) else { return };
    groups.leaders.swap_remove(index);
    if groups.is_ending {
        // The leader is not reaped, so that its PID is not reused before the rest of its group has been killed.
        drop(groups);
        ENDED.notify_all();
        wait_for_the_end();
    }
    groups.ended(child.id());
}

impl Groups {
    fn began(&mut self, id: u32, leader: Leader) {
        if let Guard::Watched(watcher) = &mut self.guard
            && leader.finishes.is_none()
        {
            watcher.began(id);
        }
        if let Holder::Watched(holder) = &mut self.holder {
            holder.began(id);
        }
        self.leaders.push(leader);
    }

    /// Starts the process that holds the lock, and notifies it of all running programs.
    fn start_holder(&mut self) {
        let Holder::Awaited(locked) = &self.holder else { return };
        let holder = locked.try_clone().and_then(|locked| Watcher::start([HOLD.into()], locked.into()));
        // Programs can be run without it too; then the lock ends with this process.
        self.holder = holder.map_or(Holder::None, Holder::Watched);
        for id in self.leaders.iter().map(Leader::id).collect::<Vec<_>>() {
            if let Holder::Watched(holder) = &mut self.holder {
                holder.began(id);
            }
        }
    }

    fn ended(&mut self, id: u32) {
        if let Guard::Watched(watcher) = &mut self.guard {
            watcher.ended(id);
        }
        if let Holder::Watched(holder) = &mut self.holder {
            holder.ended(id);
        }
    }
}

impl Leader {
    fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }
}

/// A guard that prevents programs from being started while it exists.
#[derive(Debug)]
#[must_use = "programs are started again when it is dropped"]
pub struct StartsHeldBack(#[expect(dead_code, reason = "it is held")] RwLockWriteGuard<'static, ()>);

/// Prevents programs from being started until the returned guard is dropped, so that no program holds a copy of a
/// descriptor of this process.
///
/// Between fork and exec, a program has copies of all descriptors. A copy that is open for writing on an executable
/// file prevents its execution (`ETXTBSY`). Code that writes an executable and runs it, while other threads start
/// programs, must write it under this guard.
pub fn while_nothing_starts() -> StartsHeldBack {
    StartsHeldBack(STARTS.write().unwrap_or_else(PoisonError::into_inner))
}

/// Blocks forever. The thread that called `end_all` ends the process.
fn wait_for_the_end() -> ! {
    loop {
        std::thread::park();
    }
}

fn guard() -> io::Result<Guard> {
    pass_signals_on()?;
    // The PID is only informative: it identifies our guard in the list of processes.
    let words = [WATCH.into(), std::process::id().to_string().into()];
    Ok(Guard::Watched(Watcher::start(words, Stdio::null())?))
}

fn pass_signals_on() -> io::Result<()> {
    let ignored = ignored_signals();
    // Signals that are ignored, such as with nohup or in the background of a script, must remain ignored.
    let wanted: Vec<i32> =
        [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0).collect();
    let mut signals = Signals::new(wanted)?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            end_all_with(Signal::from_named_raw(signal).unwrap_or(Signal::TERM));
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

fn end_all_with(signal: Signal) {
    groups().is_ending = true;
    // After this, all programs that were being started are in the list.
    drop(while_nothing_starts());
    let mut groups = groups();
    // From now on no leader is reaped, so none of these PIDs can be reused.
    let pids = |leaders: &[Leader], finishes: bool| -> Vec<Pid> {
        leaders.iter().filter(|leader| leader.finishes.is_some() == finishes).map(|leader| leader.pid).collect()
    };
    let (finishing, others) = (pids(&groups.leaders, true), pids(&groups.leaders, false));
    signal_all(&others, signal);
    let mut patience = Duration::ZERO;
    for (name, limit) in groups.leaders.iter().filter_map(|leader| leader.finishes.as_ref()) {
        streams::complain(format_args!(">> {name} is completed first, which may take up to {limit:?}"));
        patience = patience.max(*limit);
    }
    groups = wait_for(groups, &others, GRACE);
    signal_all(&others, Signal::KILL);
    groups = wait_for(groups, &finishing, patience);
    if groups.leaders.iter().any(|leader| finishing.contains(&leader.pid)) {
        signal_all(&finishing, Signal::TERM);
        drop(wait_for(groups, &finishing, GRACE));
        signal_all(&finishing, Signal::KILL);
    }
}

/// Waits until these leaders have exited, up to a time limit.
fn wait_for<'a>(mut groups: MutexGuard<'a, Groups>, pids: &[Pid], limit: Duration) -> MutexGuard<'a, Groups> {
    let end = Instant::now() + limit;
    while groups.leaders.iter().any(|leader| pids.contains(&leader.pid)) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        groups = ENDED.wait_timeout(groups, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    groups
}

/// Sends a signal to groups. Those that no longer exist are ignored.
fn signal_all(leaders: &[Pid], signal: Signal) {
    for &leader in leaders {
        signal_all_of(leader, signal);
    }
}

/// The polling interval for processes on kernels without pidfds.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The time that the lock is held for the remaining members of the group of a program that has ended. They may continue
/// its work if it was killed, but may also be daemons, which keep running.
const LEFT_BEHIND: Duration = Duration::from_secs(10);

/// Has another process hold a locked file too, and thus share its lock (see flock(2)), as soon as a program is running.
/// If this process is killed, the lock remains held until the running programs have ended, and their PIDs are appended
/// to the file after its first line, one per line.
///
/// The programs themselves do not inherit the lock. Otherwise a daemon that one of them starts would hold it forever.
///
/// # Errors
/// If the file cannot be opened again, or `main` has not called [`serve_if_asked`](crate::serve_if_asked).
pub fn hold_lock(locked: &File) -> io::Result<()> {
    if !is_served() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut groups = groups();
    groups.holder = Holder::Awaited(locked.try_clone()?);
    if !groups.leaders.is_empty() {
        groups.start_holder();
    }
    Ok(())
}

/// Ends the process of [`hold_lock`].
pub fn release_lock() {
    let mut groups = groups();
    let Holder::Watched(mut holder) = std::mem::replace(&mut groups.holder, Holder::None) else { return };
    // They may keep running, and the holder must not act on them.
    groups.leaders.iter().for_each(|leader| holder.ended(leader.id()));
    drop(groups);
    // This reaps the process.
    drop(holder);
}

/// The main function of the process that holds the lock.
pub(crate) fn hold() {
    let mut running = listen();
    let leaders: Vec<Pid> = running.iter().map(|told| told.pid).collect();
    let Ok(lock) = io::stdout().as_fd().try_clone_to_owned().map(File::from) else { return };
    while !running.is_empty() {
        // The list of PIDs is only informative.
        let _ = note(&lock, &running);
        wait(&running);
        running.retain(Told::is_running);
    }
    // The programs of a killed program are ended by its guard.
    while leaders.iter().any(|&leader| guards_of(leader)) {
        std::thread::sleep(LOOK_AGAIN);
    }
    let end = Instant::now() + LEFT_BEHIND;
    while Instant::now() < end && leaders.iter().any(|&leader| group_runs(leader)) {
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Writes the PIDs of running programs to the lock file, after the first line.
fn note(lock: &File, running: &[Told]) -> io::Result<()> {
    let mut first = [0; 32];
    let length = lock.read_at(&mut first, 0)?;
    let read = first.get(..length).unwrap_or_default();
    let start = read.iter().position(|&byte| byte == b'\n').map_or(length, |newline| newline + 1);
    let lines: String = running.iter().map(|told| format!("{}\n", told.pid.as_raw_nonzero())).collect();
    lock.write_all_at(lines.as_bytes(), start as u64)?;
    lock.set_len((start + lines.len()) as u64)
}

/// Waits until at least one of them may have ended.
fn wait(running: &[Told]) {
    let mut fds: Vec<PollFd<'_>> =
        running.iter().filter_map(|told| told.exit.as_ref()).map(|exit| PollFd::new(exit, PollFlags::IN)).collect();
    let timeout = if fds.len() == running.len() { None } else { Timespec::try_from(LOOK_AGAIN).ok() };
    // An error only causes an earlier check.
    let _ = poll(&mut fds, timeout.as_ref());
}
