//! Kills installations at each system call that changes files, and lets the disk be full there. Each file is of one
//! version as a whole at any time, and the next command finishes what has begun, or finds nothing changed.

use crate::desk::{desk, fail, fleet, run, succeed};
use crate::host::{FIRST, SECOND, bundle, files, install};
use holo_testing::disturb::{self, Disturbance, Seen};
use holo_testing::{ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, case: fn()| trial_of(name, disturb::NEEDS, case);
    vec![
        trial("an_upgrade_may_be_killed_at_any_system_call", || everywhere(Disturbance::Kill)),
        trial("the_disk_may_be_full_at_any_system_call", || everywhere(Disturbance::Error("ENOSPC"))),
    ]
}

/// The host after each of the steps, undisturbed.
struct Expected {
    first: BTreeMap<String, String>,
    second: BTreeMap<String, String>,
    rolled_back: BTreeMap<String, String>,
}

fn everywhere(what: Disturbance<'_>) {
    let desk = desk();
    let bundles = [bundle(&desk, "1", &FIRST), bundle(&desk, "2", &SECOND)];
    let host = ScratchRoot::in_memory();
    install(&host, &bundles[0]);
    let first = files(&host);
    install(&host, &bundles[1]);
    let second = files(&host);
    succeed(&host, &["host", "rollback"]);
    let expected = Expected { first, second, rolled_back: files(&host) };
    let disturbed = disturb::everywhere(disturb::CALLS, |call, number| once(&bundles, &expected, call, number, what));
    assert!(disturbed > 20, "only {disturbed} disturbances: the test does not test what it says");
}

fn once(bundles: &[String; 2], expected: &Expected, call: &str, number: usize, what: Disturbance<'_>) -> Seen {
    let host = ScratchRoot::in_memory();
    install(&host, &bundles[0]);
    let program = fleet().display().to_string();
    let command = [&*program, "host", "install", "--allow-unsigned", &bundles[1]];
    let (disturbed, seen) = disturb::program_at(&host, &["-f"], &command, call, number, what);
    let moment = format!("{what:?} at {call} number {number}");
    assert!(!disturbed.stderr_lossy().contains("panicked"), "{moment}: {disturbed}");
    let found = files(&host);
    nothing_is_torn(&found, expected, &moment);
    succeed(&host, &["host", "show"]);
    // Either all or nothing is undone.
    if number.is_multiple_of(2) {
        let back = run(&host, &["host", "rollback"]);
        if back.success() {
            assert_eq!(files(&host), expected.rolled_back, "{moment}");
        } else {
            assert!(back.stderr_lossy().contains("no previous bundle"), "{moment}: {back}");
            assert_eq!(files(&host), expected.first, "{moment}");
            assert!(fail(&host, &["host", "rollback"]).contains("no previous bundle"));
        }
    }
    install(&host, &bundles[1]);
    assert_eq!(files(&host), expected.second, "{moment}: {disturbed}");
    seen
}

/// Each file, wherever it is, is that of a version.
fn nothing_is_torn(found: &BTreeMap<String, String>, expected: &Expected, moment: &str) {
    let is_data = |path: &str| path.starts_with("etc/") || path == "var/lib/holo-fleet/installed.json";
    let versions = [&expected.first, &expected.second];
    for (path, text) in found.iter().filter(|(path, _)| is_data(path) && !path.contains(".new")) {
        let whole: BTreeSet<&String> = versions.iter().filter_map(|version| version.get(path)).collect();
        let is_recorded = path.ends_with("installed.json") && text.contains("\"incoming\"") && text.ends_with('}');
        assert!(whole.contains(text) || is_recorded, "{moment}: {path} is {text:?}");
    }
}
