//! Kills `holo adopt`, dispatcher and plugin, at every system call that changes a file: no user data is lost, and
//! adopting again gives the result of an undisturbed run.

use bstr::BString;
use holo_testing::disturb::{self, CALLS, Disturbance, Seen};
use holo_testing::{Need, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::collections::BTreeMap;
use std::fs;
use walkdir::WalkDir;

pub(crate) fn trials() -> Vec<Trial> {
    let needs = [Need::Program("strace")];
    vec![trial_of("an adopt that is killed loses nothing, and a second one completes", &needs, killed_everywhere)]
}

const OWN: &str = "etc/holo/resources";
const EDITED: &str = "first\nours\nedited\n";
const EDITED_AGAIN: &str = "first\nby hand\nedited twice\n";
const EXTRA: &str = "a file of nobody's\n";
const FILES: [(&str, &str); 3] = [("etc/motd", EDITED), ("etc/conf", EDITED_AGAIN), ("etc/extra", EXTRA)];
const ADOPT: [&str; 4] = ["adopt", "/etc/motd", "/etc/conf", "/etc/extra"];

/// Returns a root with an edited target, one that was adopted before and edited again, and an unmanaged file.
fn root() -> ScratchRoot {
    let root = ScratchRoot::in_memory()
        .binary(built("holo"))
        .plugin("files")
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/motd", "stock\n")
        .file("etc/conf", "stock\n")
        .resource("files/10-x/etc/motd", "first\nours\nlast\n")
        .resource("files/10-x/etc/conf", "first\nours\nlast\n");
    assert!(root.holo(&["apply"]).success());
    root.write("etc/conf", EDITED);
    let run = root.holo(&["adopt", "/etc/conf"]);
    assert!(run.success(), "{run}");
    for (path, content) in FILES {
        root.write(path, content);
    }
    root
}

/// Returns the contents of the administrator's directories.
pub(crate) fn own_resources(root: &ScratchRoot) -> BTreeMap<String, BString> {
    let own = root.join(OWN);
    let entries = WalkDir::new(&own).into_iter().filter_map(Result::ok);
    let entries = entries.filter(|entry| entry.path() != own);
    let read = |entry: walkdir::DirEntry| {
        let content = if entry.file_type().is_dir() { Vec::new() } else { fs::read(entry.path()).unwrap() };
        (entry.path().strip_prefix(&own).unwrap().display().to_string(), content.into())
    };
    entries.map(read).collect()
}

fn killed_everywhere() {
    let undisturbed = root();
    let run = undisturbed.holo(&ADOPT);
    assert!(run.success(), "{run}");
    let expected = own_resources(&undisturbed);
    let kills = disturb::everywhere(CALLS, |call, number| killed_once(call, number, &expected));
    assert!(kills > 20, "only {kills} kills: the test does not test what it says");
}

fn killed_once(call: &str, number: usize, expected: &BTreeMap<String, BString>) -> Seen {
    let root = root();
    let (_, seen) = disturb::everything_at(&root, &ADOPT, call, number, Disturbance::Kill);
    let moment = format!("killed at {call} number {number}");
    for (path, content) in FILES {
        assert_eq!(root.read(path), content, "{moment}: {path}");
    }
    // Every file is complete, either old or new.
    let run = root.holo(&["check"]);
    assert!(!run.stderr_lossy().contains("!! skipping target"), "{moment}: {run}");
    let run = root.holo(&ADOPT);
    assert!(run.success(), "{moment}: adopting again says\n{run}");
    assert_eq!(own_resources(&root), *expected, "{moment}: {run}");
    let run = root.holo(&["check"]);
    assert!(run.success(), "{moment}: {run}");
    seen
}
