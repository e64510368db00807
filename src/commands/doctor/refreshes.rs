//! Refreshes that are still due because a run failed or was interrupted.

use super::{Check, Findings, HIDDEN, Scene, shown};
use crate::refresh::Refreshes;
use bstr::ByteSlice;
use holo_state::Database;
use std::rc::Rc;

pub(super) const CHECK: Check = Check { name: "refreshes", fine: "no refresh is due", needs_plugins: false, look };

fn look(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let refreshes = match Refreshes::look(&Rc::new(Database::snapshot(scene.root.state_database()))) {
        Ok((refreshes, None)) => refreshes,
        Ok((_, Some(error))) => return findings.warn(error.to_string(), HIDDEN),
        Err(error) => return findings.fail(error.to_string(), "an apply cannot begin without it"),
    };
    for (target, sources) in refreshes.due() {
        let sources = bstr::join(", ", sources);
        let since =
            refreshes.due_since(target).map(|time| format!(" since {}", shown(time.into()))).unwrap_or_default();
        let title = format!("{target} is due for a refresh{since}, because of {}", sources.as_bstr());
        findings.warn(title, format!("holo apply {target}"));
    }
}
