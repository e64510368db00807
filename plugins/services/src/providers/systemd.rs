//! Units of systemd, through its own tool.

pub(crate) mod files;
mod live;
mod offline;
mod show;
pub(crate) mod state;
mod tool;

use super::Manager;
use holo_plugin::{Host, system};

pub(crate) const NAME: &str = "systemd";

/// Returns true if systemd runs, and manages the units of this host.
pub(crate) fn is_live(host: &Host) -> bool {
    !host.test_mode() && system::is_run_by_systemd()
}

/// The running systemd where there is one; otherwise what can be done with files alone.
pub(crate) fn manager(host: &Host) -> Box<dyn Manager> {
    if is_live(host) {
        return Box::new(live::Live);
    }
    // Not only in test mode, but also where an image is made: enabling works there, starting does not.
    Box::new(offline::Offline::new(host.root(), host.test_mode()))
}
