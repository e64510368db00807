//! Tests that bring units of a real systemd in an overlay into their declared states, and back.

mod cases;
mod host;
mod manual;
mod many;
mod troubles;
mod users;
mod values;
mod watched;

use holo_testing::overlay::{NEEDS_TO_BOOT, Overlay};
use holo_testing::trial_of;
use host::Host;
use libtest_mimic::Trial;
use std::sync::{Arc, Mutex, PoisonError};

type Case = (&'static str, fn(&Host));

pub(crate) fn trials() -> Vec<Trial> {
    let cases = [cases::ALL, troubles::ALL, many::ALL, manual::ALL, watched::ALL, values::ALL, users::ALL].concat();
    // All cases share one system and take turns.
    let shared: Arc<Mutex<Option<Host>>> = Arc::default();
    let mut trials: Vec<Trial> = cases.into_iter().map(|case| case_trial(case, shared.clone())).collect();
    trials.push(trial_of("where systemd does not run, units can still be enabled", NEEDS_TO_BOOT, || {
        troubles::without_systemd(&Host::new(Overlay::new()));
    }));
    trials
}

/// The last case removes the host.
fn case_trial((name, case): Case, shared: Arc<Mutex<Option<Host>>>) -> Trial {
    trial_of(name, NEEDS_TO_BOOT, move || {
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let host = shared.get_or_insert_with(|| Host::new(Overlay::booted()));
        host.tidy();
        case(host);
    })
}
