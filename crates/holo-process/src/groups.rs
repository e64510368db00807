//! The process groups that run now, and what becomes of them when our own process is ended.
//!
//! Being groups of their own, they get neither the signals that our own group gets, nor do they end with us. So a thread waits for the
//! signals that ask for our end and passes them on first; and a process watches whose only input is a pipe from us, for a kill leaves no
//! time for anything.

use crate::invocation::{WATCH, ignored_signals};
use crate::launcher;
use crate::tree::signal_all_of;
use crate::watcher::Watcher;
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

/// The time that programs have to end after a signal that was passed on; less than the sender of that signal is likely to wait.
const GRACE: Duration = Duration::from_secs(4);

static PREPARED: AtomicBool = AtomicBool::new(false);
static GROUPS: Mutex<Groups> = Mutex::new(Groups { leaders: Vec::new(), is_ending: false, guard: Guard::None });
/// A group has ended.
static ENDED: Condvar = Condvar::new();

struct Groups {
    /// The leaders of those that run.
    leaders: Vec<Leader>,
    /// No program is started any more.
    is_ending: bool,
    guard: Guard,
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

/// Lets nothing that is started outlive this process. As long as it lives: at the end of `main` it is dropped.
#[derive(Debug)]
#[must_use = "it is held until the end of main"]
pub struct Prepared(());

/// Prepares a process for starting programs: the first thing in its `main`.
///
/// - Programs can run as [someone else](crate::Program::identity), and what is running when a signal ends us is ended too. For both our own
///   binary is started with private words; then this call does not return.
/// - Programs inherit none of the descriptors that we have inherited.
///
/// A process that handles signals itself should not be prepared; it can use [`end_all`].
pub fn prepare() -> Prepared {
    launcher::serve_if_asked();
    mark_inherited_descriptors();
    PREPARED.store(true, Ordering::Relaxed);
    Prepared(())
}

/// Marks the descriptors that we have inherited, so that programs do not inherit them. Those that we open ourselves are marked anyway.
pub(crate) fn mark_inherited_descriptors() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| close_fds::set_fds_cloexec(3, &[]));
}

impl Drop for Prepared {
    fn drop(&mut self) {
        let guard = std::mem::replace(&mut groups().guard, Guard::Incomplete);
        drop(guard);
    }
}

/// Returns true if this process's `main` has called [`prepare`].
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

/// Starts a program, and keeps an eye on its group if it leads one.
pub(crate) fn start(command: &mut Command, group: Group) -> io::Result<Child> {
    let mut groups = groups();
    if groups.is_ending {
        drop(groups);
        wait_for_the_end();
    }
    if matches!(group, Group::Ours) {
        return command.spawn();
    }
    if is_prepared() && matches!(groups.guard, Guard::None) {
        // Without it, programs can still be run.
        groups.guard = guard().unwrap_or(Guard::Incomplete);
    }
    let child = command.process_group(0).spawn()?;
    let finishes = if let Group::LetFinish { name, within } = group { Some((name, within)) } else { None };
    if let Guard::Watched(watcher) = &mut groups.guard
        && finishes.is_none()
    {
        watcher.began(child.id());
    }
    groups.leaders.push(Leader { pid: Pid::from_child(&child), finishes });
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
    if let Guard::Watched(watcher) = &mut groups.guard {
        watcher.ended(child.id());
    }
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
    let mut groups = groups();
    groups.is_ending = true;
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
