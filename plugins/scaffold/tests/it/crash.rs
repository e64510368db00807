//! Kills applies at each system call that changes the file system, and checks that the next apply results in the same
//! tree as an uninterrupted one.

use bstr::{BString, ByteSlice};
use holo_testing::disturb::{self, Disturbance, Seen};
use holo_testing::{ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::fs;

const DEFINITION: &str = "usr/share/holo/scaffold/app.toml";
const SOURCE: &str = "usr/share/holo/scaffold/app";

/// A change of a root that is interrupted.
struct Case {
    name: &'static str,
    keys: &'static str,
    /// Prepares the root for the apply that is killed.
    before: fn(&ScratchRoot),
    arguments: &'static [&'static str],
}

static CASES: [Case; 5] = [
    Case { name: "first apply, with purge", keys: "purge = true\n", before: first, arguments: &["apply"] },
    Case { name: "another source, by force", keys: "", before: another, arguments: &["apply", "--force"] },
    Case { name: "other modes and owners", keys: "", before: other_attributes, arguments: &["apply"] },
    Case { name: "another target takes over", keys: "", before: another_target, arguments: &["apply"] },
    Case { name: "scrubbing", keys: "purge = true\n", before: scrubbing, arguments: &["apply"] },
];

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |case: &'static Case| {
        let name = format!("{}: the plugin may be killed at any system call", case.name);
        trial_of(&name, disturb::NEEDS, || kill_everywhere(case))
    };
    CASES.iter().map(trial).collect()
}

fn kill_everywhere(case: &Case) {
    let root = prepared(case);
    let run = root.holo(case.arguments);
    assert!(run.success(), "{run}");
    let expected = root.dump();
    let kills = disturb::everywhere(disturb::CALLS, |call, number| kill_once(case, call, number, &expected));
    assert!(kills > 20, "only {kills} kills: the test does not test what it says");
}

/// Kills a run at one system call.
fn kill_once(case: &Case, call: &str, number: usize, expected: &BString) -> Seen {
    let root = prepared(case);
    let (run, seen) = disturb::at(&root, case.arguments, call, number, Disturbance::Kill);
    assert!(!run.stderr_lossy().contains("panicked"), "{run}");
    let moment = format!("{}, killed at {call} number {number}", case.name);
    if let Ok(entries) = fs::read_dir(root.join("etc/app")) {
        for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            let content = fs::read_to_string(&path).unwrap();
            let is_whole = ["ours\n", "other\n", "theirs\n", "edited\n"].contains(&content.as_str());
            let is_temporary = path.to_str().unwrap().ends_with(".holonew");
            assert!(is_whole || is_temporary, "{moment}: {} is torn: {content:?}", path.display());
        }
    }
    // Force is needed for manual changes, and never after a kill.
    let edited = root.exists("etc/app/new.sh") && root.read("etc/app/new.sh") == "edited\n";
    let again = root.holo(if edited { case.arguments } else { &["apply"] });
    assert!(again.success(), "{moment}: the next apply says\n{again}\nafter\n{run}");
    let found = root.dump();
    assert!(found == *expected, "{moment}: expected\n{expected}\nbut got\n{found}");
    seen
}

fn prepared(case: &Case) -> ScratchRoot {
    let root = disturb::configure(ScratchRoot::in_memory(), "scaffold")
        .dir("var/lib/holo/scaffold")
        .file("etc/app/found", "theirs\n")
        .file("etc/app/foreign", "theirs\n")
        .file("etc/app/other/foreign", "theirs\n")
        .symlink("etc/app/becomes-directory", "foreign")
        .resource("scaffold/app/found", "{{ data.text }}\n")
        .resource("scaffold/app/new.sh", "{{ data.text }}\n")
        .resource("scaffold/app/dropped", "{{ data.text }}\n")
        .resource("scaffold/app/becomes-directory/a", "a\n")
        .resource("scaffold/app/sub/deep/a", "a\n");
    root.write(
        DEFINITION,
        format!(
            "[[scaffold]]\ntarget = \"/etc/app\"\nsource = \"app\"\ndata = {{ text = \"ours\" }}\n{}post = [{{ glob = \"*.sh\", command = \"sh -n\" }}]\n",
            case.keys
        ),
    );
    (case.before)(&root);
    root
}

fn first(_: &ScratchRoot) {}

fn applied(root: &ScratchRoot) {
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
}

fn another(root: &ScratchRoot) {
    applied(root);
    root.write("etc/app/new.sh", "edited\n");
    root.write(DEFINITION, root.read(DEFINITION).replace("ours", "other"));
    fs::remove_file(root.join(SOURCE).join("dropped")).unwrap();
    fs::remove_dir_all(root.join(SOURCE).join("becomes-directory")).unwrap();
    fs::remove_dir_all(root.join(SOURCE).join("sub")).unwrap();
    root.write(format!("{SOURCE}/becomes-directory"), "other\n");
    root.write(format!("{SOURCE}/dropped/now-a-directory"), "other\n");
}

fn other_attributes(root: &ScratchRoot) {
    applied(root);
    let owner = if rustix::process::geteuid().is_root() { "owner = \"4321\"\ngroup = \"4321\"\n" } else { "" };
    root.write(DEFINITION, format!("{}mode = \"4750\"\ndir_mode = \"0750\"\n{owner}", root.read(DEFINITION)));
}

/// Adds a second definition, so that the removed one has a path to hand over and a path to restore.
fn another_target(root: &ScratchRoot) {
    applied(root);
    let text = root.read(DEFINITION).replace("\"/etc/app\"", "\"/etc/app/sub\"").replace("\"app\"", "\"app/sub\"");
    root.write(DEFINITION, text);
}

fn scrubbing(root: &ScratchRoot) {
    applied(root);
    fs::remove_file(root.join(DEFINITION)).unwrap();
}
