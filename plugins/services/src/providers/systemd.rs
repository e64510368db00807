//! Units of systemd, through its own tool.

mod live;
mod offline;
mod show;
pub(crate) mod state;
mod tool;

use super::Manager;
use holo_plugin::{Host, system};

pub(crate) const NAME: &str = "systemd";

/// The running systemd where there is one; otherwise what can be done with files alone.
pub(crate) fn manager(host: &Host) -> Box<dyn Manager> {
    if host.test_mode() {
        Box::new(offline::Offline::new(host.root(), true))
    } else if system::is_run_by_systemd() {
        Box::new(live::Live)
    } else {
        // Such as where an image is made: enabling works there, starting does not.
        Box::new(offline::Offline::new(host.root(), false))
    }
}
