//! The process groups that run now, and what becomes of them when our own process is ended.
//!
//! Being groups of their own, they get neither the signals that our own group gets, nor do they end with us. So a thread waits for the
//! signals that ask for our end and passes them on first; and a process watches whose only input is a pipe from us, for a kill leaves no
//! time for anything.

use crate::invocation::{WATCH, ignored_signals};
use crate::tree::signal_all_of;
use crate::watcher::Watcher;
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// The time that programs have to end after a signal that was passed on; less than the sender of that signal is likely to wait.
const GRACE: Duration = Duration::from_secs(4);

static PREPARED: AtomicBool = AtomicBool::new(false);
static GROUPS: Mutex<Groups> =
    Mutex::new(Groups { leaders: Vec::new(), is_ending: false, guard: Guard::None, holder: None });
/// Held for reading while a program is started.
static STARTS: RwLock<()> = RwLock::new(());
/// A group has ended.
static ENDED: Condvar = Condvar::new();

struct Groups {
    /// The leaders of those that run.
    leaders: Vec<Leader>,
    /// No program is started any more.
    is_ending: bool,
    guard: Guard,
    /// The process that holds a lock for as long as programs run.
    holder: Option<Watcher>,
}

/// The group in which a program is to run.
pub(crate) enum Group {
    /// Our own.
    Ours,
    /// One of its own.
    Own,
    /// One of its own, which is let finish.
    LetFinish { name: String, within: Duration },
}

/// The first process of a group.
struct Leader {
    pid: Pid,
    /// If it is let finish: its name, and how long that may take.
    finishes: Option<(String, Duration)>,
}

/// The process that sees to it that no group outlives us.
enum Guard {
    None,
    Incomplete,
    Watched(Watcher),
}

/// Marks the descriptors that we have inherited, so that programs do not inherit them. Those that we open ourselves are marked anyway.
pub(crate) fn mark_inherited_descriptors() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| close_fds::set_fds_cloexec(3, &[]));
}

/// Notes that programs can be guarded from now on.
pub(crate) fn set_prepared() {
    PREPARED.store(true, Ordering::Relaxed);
}

/// Ends what guards programs.
pub(crate) fn end_guard() {
    let guard = std::mem::replace(&mut groups().guard, Guard::Incomplete);
    drop(guard);
}

/// Returns true if this process's `main` has called [`prepare`](crate::prepare).
pub(crate) fn is_prepared() -> bool {
    PREPARED.load(Ordering::Relaxed)
}

/// Ends every program that runs in a group of its own: asks it to end, then kills it. None can be started any more.
///
/// Threads that run programs do not go on; the caller is about to end the process.
pub fn end_all() {
    end_all_with(Signal::TERM);
}

fn groups() -> MutexGuard<'static, Groups> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a program, and keeps track of its group unless that is ours. The command makes it the leader of its group, or it does so itself.
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
        // Without it, programs can still be run.
        groups.guard = guard().unwrap_or(Guard::Incomplete);
    }
    // Others may start at the same time.
    drop(groups);
    let child = command.spawn()?;
    let finishes = if let Group::LetFinish { name, within } = group { Some((name, within)) } else { None };
    self::groups().began(child.id(), Leader { pid: Pid::from_child(&child), finishes });
    Ok(child)
}

/// Takes note that a group has ended, before its leader is waited for. If our own end has been asked for, this does not return.
pub(crate) fn end(child: &Child) {
    let mut groups = groups();
    let leader = Pid::from_child(child);
    let Some(index) = groups.leaders.iter().position(|known| known.pid == leader) else { return };
    groups.leaders.swap_remove(index);
    if groups.is_ending {
        // It is not waited for, so that its number stays its own until what is left of its group is killed.
        drop(groups);
        ENDED.notify_all();
        wait_for_the_end();
    }
    groups.ended(child.id());
}

/// Has this process, too, told of the programs that run, and of those that are started from now on.
pub(crate) fn tell(mut holder: Watcher) {
    let mut groups = groups();
    groups.leaders.iter().for_each(|leader| holder.began(leader.pid.as_raw_nonzero().get().unsigned_abs()));
    groups.holder = Some(holder);
}

/// Takes back the process that is [told](tell). It is not to act on what runs on: we are not gone.
pub(crate) fn tell_no_more() -> Option<Watcher> {
    let mut groups = groups();
    let mut holder = groups.holder.take()?;
    groups.leaders.iter().for_each(|leader| holder.ended(leader.pid.as_raw_nonzero().get().unsigned_abs()));
    Some(holder)
}

impl Groups {
    fn began(&mut self, id: u32, leader: Leader) {
        if let Guard::Watched(watcher) = &mut self.guard
            && leader.finishes.is_none()
        {
            watcher.began(id);
        }
        self.holder.iter_mut().for_each(|holder| holder.began(id));
        self.leaders.push(leader);
    }

    fn ended(&mut self, id: u32) {
        if let Guard::Watched(watcher) = &mut self.guard {
            watcher.ended(id);
        }
        self.holder.iter_mut().for_each(|holder| holder.ended(id));
    }
}

/// Programs are not started as long as this lives.
#[derive(Debug)]
#[must_use = "programs are started again when it is dropped"]
pub struct StartsHeldBack(#[expect(dead_code, reason = "it is held")] RwLockWriteGuard<'static, ()>);

/// Holds back the start of programs, for as long as what is returned lives: no program holds a descriptor of this process meanwhile.
///
/// Between fork and exec a program has all of them. If one of them is open for writing on an executable, that cannot be run until then
/// (`ETXTBSY`): so who writes one to run it, beside threads that start programs, does it under this guard.
pub fn while_nothing_starts() -> StartsHeldBack {
    StartsHeldBack(STARTS.write().unwrap_or_else(PoisonError::into_inner))
}

/// The thread that knows of the end does the rest.
fn wait_for_the_end() -> ! {
    loop {
        std::thread::park();
    }
}

fn guard() -> io::Result<Guard> {
    pass_signals_on()?;
    // The number is for people who look for what is left of us.
    let words = [WATCH.into(), std::process::id().to_string().into()];
    Ok(Guard::Watched(Watcher::start(words, Stdio::null())?))
}

fn pass_signals_on() -> io::Result<()> {
    let ignored = ignored_signals();
    // With nohup, or in the background of a script, the signal is to stay ignored.
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
    // Those that are being started are known when all of that is over.
    drop(while_nothing_starts());
    let mut groups = groups();
    // They are not waited for from now on, so that none of these numbers can be anybody else's.
    let pids = |leaders: &[Leader], finishes: bool| -> Vec<Pid> {
        leaders.iter().filter(|leader| leader.finishes.is_some() == finishes).map(|leader| leader.pid).collect()
    };
    let (finishing, others) = (pids(&groups.leaders, true), pids(&groups.leaders, false));
    signal_all(&others, signal);
    let mut patience = Duration::ZERO;
    for (name, limit) in groups.leaders.iter().filter_map(|leader| leader.finishes.as_ref()) {
        // Nobody may listen any more.
        let _ = writeln!(io::stderr(), ">> {name} is let finish, which may take up to {limit:?}");
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

/// Waits until these have ended.
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

/// Sends a signal to groups; those that are gone already need none.
fn signal_all(leaders: &[Pid], signal: Signal) {
    for &leader in leaders {
        signal_all_of(leader, signal);
    }
}
