//! Notification of clock changes, by a user or after suspension.

use crate::daemon::Input;
use rustix::io::{Errno, retry_on_intr};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use tokio::sync::mpsc;

/// A time that is never reached, in seconds.
const NEVER: i64 = 1 << 40;
/// The stack size of the waiting thread.
const STACK: usize = 64 << 10;

/// Reports whenever the clock is set, without polling.
pub(crate) fn listen(inputs: mpsc::Sender<Input>) -> io::Result<()> {
    let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC)?;
    arm(&timer)?;
    let wait = move || {
        // This error means that the clock was set; rearm before reporting it, so that later changes are not missed.
        while retry_on_intr(|| rustix::io::read(&timer, &mut [0; 8])) == Err(Errno::CANCELED) && arm(&timer).is_ok() {
            if inputs.blocking_send(Input::ClockSet).is_err() {
                return;
            }
        }
    };
    // In a separate thread, as the runtime does not support such a descriptor.
    thread::Builder::new().name("clock".to_owned()).stack_size(STACK).spawn(wait)?;
    Ok(())
}

fn arm(timer: &OwnedFd) -> Result<(), Errno> {
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    let (never, once) = (Timespec { tv_sec: NEVER, tv_nsec: 0 }, Timespec { tv_sec: 0, tv_nsec: 0 });
    timerfd_settime(timer, flags, &Itimerspec { it_interval: once, it_value: never }).map(drop)
}
