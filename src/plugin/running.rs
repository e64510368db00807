//! The programs that run now, for the holder of their lock.

use holo_process::LockHolder;
use std::sync::{Mutex, MutexGuard, PoisonError};

static RUNNING: Mutex<Running> = Mutex::new(Running { programs: Vec::new(), holder: None });

struct Running {
    /// Their process IDs.
    programs: Vec<u32>,
    holder: Option<LockHolder>,
}

fn running() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes note of a program that has been started.
pub(super) fn began(id: u32) {
    let mut running = running();
    running.programs.push(id);
    running.holder.iter_mut().for_each(|holder| holder.began(id));
}

/// Takes note of a program that has ended.
pub(super) fn ended(id: u32) {
    let mut running = running();
    running.programs.retain(|&other| other != id);
    running.holder.iter_mut().for_each(|holder| holder.ended(id));
}

/// Has the lock held for all programs that run now, and that are started from now on.
pub fn hold(mut holder: LockHolder) {
    let mut running = running();
    running.programs.iter().for_each(|&id| holder.began(id));
    running.holder = Some(holder);
}

/// Ends that.
pub fn release() {
    let holder = running().holder.take();
    // Its end is waited for; nobody else is to wait for that.
    drop(holder);
}
