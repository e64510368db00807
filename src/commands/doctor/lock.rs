//! A lock that an apply has left behind, or that blocks others.

use super::{Check, Findings, Scene};
use crate::lock::{self, State};

pub(super) const CHECK: Check = Check { name: "lock", fine: "no lock was left behind", needs_plugins: false, look };

fn look(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let path = scene.root.lock();
    let shown = path.display();
    match lock::inspect(&path) {
        State::Free | State::Held => {}
        State::Left(apply) => {
            let title = format!("{shown} was left behind by process {apply}, which is gone");
            findings.warn(title, "the next apply removes it, and completes the interrupted work");
        }
        State::Unknown(reason) => {
            findings.fail(format!("{shown} blocks every apply: {reason}"), format!("examine it, then: rm {shown}"));
        }
    }
}
