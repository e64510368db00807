//! A lock that an apply has left behind, or that blocks others.

use super::{Check, Findings, Scene};
use crate::lock::{self, State};

pub(super) const CHECK: Check =
    Check { name: "lock", fine: "no apply has left its lock behind", needs_plugins: false, look };

fn look(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let path = scene.root.lock();
    let shown = path.display();
    match lock::inspect(&path) {
        State::Free | State::Held => {}
        State::Left(apply) => {
            let title = format!("{shown} was left behind by process {apply}, which is gone");
            findings.warn(title, "the next apply removes it, and puts in order what that one was at");
        }
        State::Unknown(reason) => {
            findings.fail(format!("{shown} keeps every apply out: {reason}"), format!("look at it, then: rm {shown}"));
        }
    }
}
