//! Kills a plugin at every system call while its entities take files over from those of another, or bring a new version of what something is
//! laid over: the next apply ends as if nothing had happened, and in the end what was there before any of them is back.

use bstr::{BString, ByteSlice};
use holo_testing::disturb::{self, Disturbance};
use holo_testing::{ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::fs;

/// A change that is killed on the way.
struct Case {
    name: &'static str,
    /// The plugin that is killed.
    plugin: &'static str,
    /// Makes the root as it is before the apply that is killed.
    before: fn(&ScratchRoot),
}

const CASES: [Case; 3] = [
    Case { name: "a declared file becomes one of a scaffold", plugin: "scaffold", before: scaffold_after_declared },
    Case { name: "a file of a scaffold becomes a declared one", plugin: "files", before: declared_after_scaffold },
    Case { name: "a scaffold has a new version of what is laid over", plugin: "scaffold", before: under_an_overlay },
];

const DECLARED: &str = "usr/share/holo/files/a.toml";
const OVERLAYS: &str = "usr/share/holo/files/10-over";
const SCAFFOLD: &str = "usr/share/holo/scaffold/a.toml";
const SOURCE: &str = "usr/share/holo/scaffold/app";

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |case: &'static Case| {
        let name = format!("{}: {} may be killed at any system call", case.name, case.plugin);
        trial_of(&name, disturb::NEEDS, || kill_everywhere(case))
    };
    CASES.iter().map(trial).collect()
}

/// The trees that a case ends with.
struct Expected {
    tree: BString,
    /// The tree when nothing is defined any more.
    in_the_end: BString,
}

fn kill_everywhere(case: &Case) {
    let root = prepared(case);
    applied(&root);
    let expected = finish(&root, "undisturbed");
    let kills = disturb::everywhere(disturb::CALLS, |call, number| {
        let root = prepared(case);
        let (run, was_killed) = disturb::at(&root, &["apply"], call, number, Disturbance::Kill);
        assert!(!run.stderr_lossy().contains("panicked"), "{run}");
        let moment = format!("{}, killed at {call} number {number}", case.name);
        let Expected { tree, in_the_end } = finish(&root, &moment);
        assert!(tree == expected.tree, "{moment}: expected\n{}\nbut got\n{tree}\nafter\n{run}", expected.tree);
        assert!(
            in_the_end == expected.in_the_end,
            "{moment}, in the end: expected\n{}\nbut got\n{in_the_end}",
            expected.in_the_end
        );
        was_killed
    });
    assert!(kills > 20, "only {kills} kills: the test does not test what it says");
}

/// Applies until there is nothing to do, and does so again when nothing is defined any more.
fn finish(root: &ScratchRoot, moment: &str) -> Expected {
    let settle = || {
        // An overlay may have been worked on before the new version of its base had come.
        for _ in 0..2 {
            let run = root.holo(&["apply"]);
            assert!(run.success(), "{moment}: the next apply says\n{run}\n{}", root.dump());
        }
        let run = root.holo(&["apply"]);
        assert!(run.success() && run.stdout.is_empty(), "{moment}: it does not settle\n{run}");
        tree(root)
    };
    let tree = settle();
    for plugin in ["files", "scaffold"] {
        let folder = root.join("usr/share/holo").join(plugin);
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
    }
    let in_the_end = settle();
    assert_eq!(root.read("etc/app/found"), "theirs\n", "{moment}: what was there before us is lost");
    assert!(!root.exists("etc/app/made"), "{moment}: what was made is left\n{in_the_end}");
    Expected { tree, in_the_end }
}

fn tree(root: &ScratchRoot) -> BString {
    let dump = root.dump();
    let end = BString::from(format!("{}\n", "-".repeat(40)));
    let kept = dump.split_str(end.as_slice()).filter(|section| !section.is_empty() && !section.contains_str(" ./tmp"));
    kept.flat_map(|section| [section, end.as_slice()]).collect::<Vec<_>>().concat().into()
}

#[track_caller]
fn applied(root: &ScratchRoot) {
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
}

fn prepared(case: &Case) -> ScratchRoot {
    let root = ScratchRoot::in_memory().file("etc/os-release", "ID=unittest\n").file("etc/app/found", "theirs\n");
    let other = if case.plugin == "files" { "scaffold" } else { "files" };
    let root = disturb::configure(root, case.plugin).plugin(other);
    (case.before)(&root);
    root
}

fn declare(root: &ScratchRoot) {
    let file =
        |name: &str| format!("[[file]]\npath = \"/etc/app/{name}\"\ncontent = \"declared\\n\"\nmode = \"0640\"\n");
    root.write(DECLARED, [file("found"), file("made/x")].concat());
}

fn scaffold(root: &ScratchRoot, content: &str) {
    root.write(SCAFFOLD, "[[scaffold]]\ntarget = \"/etc/app\"\nsource = \"app\"\n");
    for name in ["found", "made/x"] {
        root.write(format!("{SOURCE}/{name}"), content);
    }
}

fn scaffold_after_declared(root: &ScratchRoot) {
    declare(root);
    applied(root);
    fs::remove_file(root.join(DECLARED)).unwrap();
    scaffold(root, "rendered\n");
}

fn declared_after_scaffold(root: &ScratchRoot) {
    scaffold(root, "rendered\n");
    applied(root);
    fs::remove_file(root.join(SCAFFOLD)).unwrap();
    declare(root);
}

fn under_an_overlay(root: &ScratchRoot) {
    scaffold(root, "rendered\n");
    applied(root);
    root.write_script(format!("{OVERLAYS}/etc/app/found.holoscript"), "#!/bin/sh\nsed s/^/over\\ /\n");
    applied(root);
    assert_eq!(root.read("etc/app/found"), "over rendered\n");
    scaffold(root, "rendered anew\n");
}
