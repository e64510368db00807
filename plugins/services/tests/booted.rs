//! Units of a real systemd, booted to throw away, are brought into their declared states, and back.

#[path = "booted/cases.rs"]
mod cases;
#[path = "booted/host.rs"]
mod host;
#[path = "booted/manual.rs"]
mod manual;
#[path = "booted/many.rs"]
mod many;
#[path = "booted/troubles.rs"]
mod troubles;

use holo_testing::overlay::{NEEDS_TO_BOOT, Overlay};
use holo_testing::trial;
use host::Host;
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

type Case = (&'static str, fn(&Host));

fn main() -> ExitCode {
    let cases = [cases::ALL, troubles::ALL, many::ALL, manual::ALL].concat();
    // One is enough for all: they take turns.
    let shared: Arc<Mutex<Option<Host>>> = Arc::default();
    let mut trials: Vec<Trial> = cases.into_iter().map(|case| case_trial(case, shared.clone())).collect();
    trials.push(trial("where systemd does not run, units can still be enabled", NEEDS_TO_BOOT, || {
        troubles::without_systemd(&Host::new(Overlay::new()));
        Ok(())
    }));
    let code = holo_testing::require::run(&Arguments::from_args(), trials);
    drop(shared);
    code
}

fn case_trial((name, case): Case, shared: Arc<Mutex<Option<Host>>>) -> Trial {
    trial(name, NEEDS_TO_BOOT, move || {
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let host = shared.get_or_insert_with(|| Host::new(Overlay::booted()));
        host.tidy();
        case(host);
        Ok(())
    })
}
