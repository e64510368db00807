//! Traces of killed runs.

use super::{Check, Findings, HIDDEN, Scene, shown};
use crate::cache;
use crate::history::{History, RunResult, RunState};
use std::time::{Duration, SystemTime};

pub(super) const CHECK: Check =
    Check { name: "interrupted", fine: "no interrupted run has left files behind", needs_plugins: false, look };

/// A run whose cache directory has not been touched for this time is unlikely to be running.
const LONG_AGO: Duration = Duration::from_secs(24 * 60 * 60);

fn look(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    last_run(scene, findings);
    for (path, changed) in cache::all(scene.temporary_directory) {
        if SystemTime::now().duration_since(changed).is_ok_and(|age| age > LONG_AGO) {
            let (path, time) = (path.display(), shown(changed));
            let title = format!("{path} is the cache directory of a run that was killed, untouched since {time}");
            findings.warn(title, format!("rm -r {path}"));
        }
    }
}

/// Checks the last run that had work to do.
fn last_run(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let history = match History::open(scene.root) {
        Ok(history) => history,
        Err(error) if error.is_denied() => return findings.warn(error.to_string(), HIDDEN),
        Err(error) => return findings.warn(error.to_string(), "it contains the records that holo history shows"),
    };
    let Some(run) = history.runs().next() else { return };
    let was_followed = history.last_unchanged().is_some_and(|last| last.run > run.id);
    if run.state() == RunState::Ended(RunResult::Interrupted) && !was_followed {
        let time = run.began.as_ref().map(|began| format!(" of {}", shown(began.time.into()))).unwrap_or_default();
        let title = format!("the last run{time} was interrupted: {}", run.id.as_str());
        findings.warn(title, "holo apply continues it");
    }
}
