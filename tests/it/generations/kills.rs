//! Kills a run that records, restores or releases a generation at every system call that changes a file. After the next
//! apply the system matches one of the generations completely, and no partial files remain.

use super::{applied, numbers, root_with_two};
use holo_testing::disturb::{self, Disturbance, Seen};
use holo_testing::{Need, ScratchRoot, trial_of};
use libtest_mimic::Trial;

/// The system calls around which files may have changed.
const CALLS: [&str; 18] = [
    "openat",
    "write",
    "pwrite64",
    "ftruncate",
    "rename",
    "unlink",
    "unlinkat",
    "rmdir",
    "mkdir",
    "symlink",
    "chmod",
    "fchmodat",
    "fchownat",
    "fsync",
    "fdatasync",
    "syncfs",
    "renameat",
    "copy_file_range",
];

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, case: fn(&str, usize) -> Seen, least| {
        trial_of(name, &[Need::Program("strace")], move || {
            let kills = disturb::everywhere(&CALLS, case);
            assert!(kills > least, "only {kills} kills: the test does not test what it says");
        })
    };
    vec![
        trial("an apply may be killed anywhere while it keeps a generation", keeping, 20),
        trial("a rollback may be killed anywhere", rolling_back, 40),
        trial("a release may be killed anywhere", releasing, 8),
    ]
}

/// Runs holo, and kills whichever of its processes makes the call with this number.
fn kill(root: &ScratchRoot, arguments: &[&str], call: &str, number: usize) -> Seen {
    let (run, seen) = disturb::everything_at(root, arguments, call, number, Disturbance::Kill);
    assert!(!run.stderr_lossy().contains("panicked"), "{run}");
    seen
}

/// Asserts that there are no partial or unexpected files.
#[track_caller]
fn is_tidy(root: &ScratchRoot, moment: &str) {
    let directory = root.join("var/lib/holo/.engine/generations");
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.is_empty(), "{moment}: {names:?}");
    let check = root.holo(&["state", "check"]);
    assert!(check.success(), "{moment}: {check}");
}

fn keeping(call: &str, number: usize) -> Seen {
    let root = root_with_two();
    root.write("usr/share/holo/files/10-x/etc/motd", "three\n");
    let seen = kill(&root, &["apply"], call, number);
    let moment = format!("apply killed at {call} number {number}");
    applied(&root);
    assert_eq!(root.read("etc/motd"), "three\n", "{moment}");
    assert_eq!(numbers(&root), [1, 2, 3], "{moment}");
    is_tidy(&root, &moment);
    let diff = root.holo(&["generations", "diff", "3"]);
    assert!(diff.success() && diff.stdout.is_empty(), "{moment}: {diff}");
    let rollback = root.holo(&["rollback", "--dry-run", "2"]);
    assert_eq!(rollback.status, Some(3), "{moment}: {rollback}");
    seen
}

fn rolling_back(call: &str, number: usize) -> Seen {
    let root = root_with_two();
    let seen = kill(&root, &["rollback", "1"], call, number);
    let moment = format!("rollback killed at {call} number {number}");
    let next = root.holo(&["apply"]);
    assert!(next.success(), "{moment}: {next}");
    let is_back = next.stderr_lossy().contains(">> using generation 1 of");
    let motd = root.read("etc/motd");
    assert_eq!(motd, if is_back { "one\n" } else { "two\n" }, "{moment}: {next}");
    assert_eq!(root.exists("etc/own"), !is_back, "{moment}: {next}");
    let again = root.holo(&["rollback", "1"]);
    assert!(again.success(), "{moment}: {again}");
    assert_eq!(root.read("etc/motd"), "one\n", "{moment}");
    assert!(!root.exists("etc/own"), "{moment}");
    let inputs = std::fs::read_dir(root.join("var/lib/holo/.engine/inputs")).unwrap().count();
    assert_eq!(inputs, 1, "{moment}");
    assert_eq!(numbers(&root), [1, 2], "{moment}");
    is_tidy(&root, &moment);
    seen
}

fn releasing(call: &str, number: usize) -> Seen {
    let root = root_with_two();
    assert!(root.holo(&["rollback", "1"]).success());
    let seen = kill(&root, &["rollback", "--release"], call, number);
    let moment = format!("release killed at {call} number {number}");
    let next = root.holo(&["apply"]);
    assert!(next.success(), "{moment}: {next}");
    let is_used = next.stderr_lossy().contains(">> using generation 1 of");
    assert_eq!(root.read("etc/motd"), if is_used { "one\n" } else { "two\n" }, "{moment}: {next}");
    assert!(root.holo(&["rollback", "--release"]).success(), "{moment}");
    applied(&root);
    assert_eq!(root.read("etc/motd"), "two\n", "{moment}");
    assert!(!root.exists("var/lib/holo/.engine/inputs"), "{moment}");
    assert!(!root.exists("var/lib/holo/.engine/pinned.json"), "{moment}");
    seen
}
