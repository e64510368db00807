//! Simulates power failures: whenever a plugin waits for the disk, and at the end, any of the steps since the last sync
//! may be lost, and the next apply completes the work.
//!
//! The steps are traced with `strace`. They are repeated on a copy of the root, except for the lost ones; names,
//! contents and modes are lost independently, which is more than most file systems lose.

mod steps;

use bstr::BString;
use holo_testing::{Need, Random, ScratchRoot, disturb, trial_of};
use libtest_mimic::Trial;
use std::path::{Path, PathBuf};
use steps::Step;

/// An operation on a root during which the power fails.
struct Case {
    name: &'static str,
    plugin: &'static str,
    /// The number of files.
    files: usize,
    define: fn(&ScratchRoot, usize),
    /// The definitions, which are removed.
    definitions: &'static str,
}

impl Case {
    fn is_gone(&self) -> bool {
        self.name.ends_with("gone")
    }
}

/// Few files are synced one by one, many together.
const CASES: [Case; 7] = [
    Case { name: "few overlays", plugin: "files", files: 3, define: overlays, definitions: OVERLAYS },
    Case { name: "many overlays", plugin: "files", files: 10, define: overlays, definitions: OVERLAYS },
    Case {
        name: "overlays on files that are gone",
        plugin: "files",
        files: 3,
        define: overlays,
        definitions: OVERLAYS,
    },
    Case { name: "few declared files", plugin: "files", files: 3, define: declared, definitions: DECLARED },
    Case { name: "many declared files", plugin: "files", files: 10, define: declared, definitions: DECLARED },
    Case { name: "a small scaffold", plugin: "scaffold", files: 3, define: scaffold, definitions: SCAFFOLD },
    Case { name: "a large scaffold", plugin: "scaffold", files: 10, define: scaffold, definitions: SCAFFOLD },
];

const OVERLAYS: &str = "usr/share/holo/files/01-x";
const DECLARED: &str = "usr/share/holo/files/01.toml";
const SCAFFOLD: &str = "usr/share/holo/scaffold/01.toml";

/// The directories that are compared.
const ON_DISK: [&str; 3] = ["etc", "usr", "var"];

pub(crate) fn trials() -> Vec<Trial> {
    let needs = [disturb::NEEDS, &[Need::Program("cp")]].concat();
    let trial = |case: &'static Case| {
        trial_of(&format!("{} are scrubbed when the power fails", case.name), &needs, || lose_everywhere(case))
    };
    CASES.iter().map(trial).collect()
}

fn lose_everywhere(case: &Case) {
    let (root, before) = (prepared(case), ScratchRoot::in_memory());
    copy(&root, root.path(), before.path());
    let (run, log) = disturb::traced(&root, &["apply"], steps::CALLS);
    assert!(run.success(), "{run}");
    let expected = tree(&root);
    for number in (0..case.files).filter(|_| !case.is_gone()) {
        assert_eq!(root.read(path(number)), stock(number));
    }
    let steps = steps::read(&log, &ON_DISK.map(|folder| root.join(folder)));
    let moments = steps.iter().enumerate().filter(|(_, step)| step.is_sync()).map(|(moment, _)| moment);
    let mut random = Random::new(1);
    let mut cuts = 0;
    for moment in moments.chain([steps.len()]).collect::<Vec<_>>() {
        let issued = &steps[..moment];
        let unsynced = unsynced(issued);
        for lost in losses(&unsynced, &mut random) {
            restore(&root, before.path());
            let taken = issued.iter().enumerate().filter(|(number, _)| !lost.contains(number));
            taken.for_each(|(_, step)| step.take());
            settles(&root, case, &expected, || told(issued, &lost));
            cuts += 1;
        }
    }
    assert!(cuts > 20, "only {cuts} cuts: the test does not test what it says");
}

/// Returns the steps that have not reached the disk.
fn unsynced(issued: &[Step]) -> Vec<usize> {
    let (mut unsynced, mut lasting): (Vec<usize>, Vec<&Step>) = Default::default();
    for (number, step) in issued.iter().enumerate().rev().filter(|(_, step)| !step.is_sync()) {
        let is_synced = issued[number + 1..].iter().any(|later| step.is_synced_by(later));
        if is_synced || lasting.iter().any(|later| step.is_implied_by(later)) {
            lasting.push(step);
        } else {
            unsynced.push(number);
        }
    }
    unsynced
}

/// Returns sets of steps that are lost together: all of them, all but one, one, and some.
fn losses(unsynced: &[usize], random: &mut Random) -> Vec<Vec<usize>> {
    const EACH: usize = 6;
    let mut losses = vec![unsynced.to_vec()];
    if unsynced.is_empty() {
        return losses;
    }
    for _ in 0..EACH {
        let one = *random.pick(unsynced);
        losses.push(vec![one]);
        losses.push(unsynced.iter().copied().filter(|&number| number != one).collect());
        losses.push(unsynced.iter().copied().filter(|_| random.chance(50)).collect());
    }
    losses
}

/// Asserts that no user data is lost, and that the next apply gives the same result as without a failure.
fn settles(root: &ScratchRoot, case: &Case, expected: &BString, moment: impl Fn() -> String) {
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{}: the next apply says\n{run}\nafter\n{}", case.name, moment());
    let found = tree(root);
    let moment = || format!("{}: expected\n{expected}\nbut got\n{found}\nafter\n{}", case.name, moment());
    assert!(found == *expected, "{}", moment());
}

fn told(issued: &[Step], lost: &[usize]) -> String {
    let line = |(number, step): (usize, &Step)| {
        let mark = if lost.contains(&number) { "lost" } else { "    " };
        format!("{mark} {step:?}\n")
    };
    issued.iter().enumerate().map(line).collect()
}

/// Returns the tree without empty directories that are no longer used.
fn tree(root: &ScratchRoot) -> BString {
    for folder in ["base", "provisioned"] {
        for plugin in ["files", "scaffold"] {
            remove_empty(&root.join(format!("var/lib/holo/{plugin}/{folder}")));
        }
    }
    root.dump()
}

fn remove_empty(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        remove_empty(&entry.unwrap().path());
    }
    let _ = std::fs::remove_dir(folder);
}

fn restore(root: &ScratchRoot, before: &Path) {
    for folder in ON_DISK {
        std::fs::remove_dir_all(root.join(folder)).unwrap();
    }
    copy(root, before, root.path());
}

fn copy(root: &ScratchRoot, from: &Path, to: &Path) {
    let from = ON_DISK.map(|folder| from.join(folder).display().to_string());
    let words: Vec<&str> = ["-a"].into_iter().chain(from.iter().map(String::as_str)).collect();
    let to = to.display().to_string();
    let run = root.run("/bin/cp", &[&words[..], &[&to]].concat());
    assert!(run.success(), "{run}");
}

fn prepared(case: &Case) -> ScratchRoot {
    let root = ScratchRoot::in_memory().file("etc/os-release", "ID=debian\n");
    let root = disturb::configure(root, case.plugin).dir(format!("var/lib/holo/{}", case.plugin));
    for number in 0..case.files {
        root.write(path(number), stock(number));
    }
    // The plugin has work to do, whatever happened to the rest.
    if case.plugin == "files" {
        root.write("etc/always.conf", "keep\n");
        root.write("usr/share/holo/files/00-always/etc/always.conf", "kept\n");
    } else {
        root.write("usr/share/holo/scaffold/00.toml", "[[scaffold]]\ntarget = \"/etc/always\"\nsource = \"always\"\n");
        root.write("usr/share/holo/scaffold/always/always.conf", "always\n");
    }
    (case.define)(&root, case.files);
    // A scaffold replaces existing files only with force.
    let run = root.holo(&["apply", "--force"]);
    assert!(run.success(), "{run}");
    let definitions: PathBuf = root.join(case.definitions);
    if definitions.is_dir() {
        std::fs::remove_dir_all(definitions).unwrap();
    } else {
        std::fs::remove_file(definitions).unwrap();
    }
    if case.is_gone() {
        std::fs::remove_dir_all(root.join("etc/some")).unwrap();
    }
    root
}

fn path(number: usize) -> String {
    format!("etc/some/{}/{number}.conf", number % 2)
}

fn stock(number: usize) -> String {
    format!("stock {number}\n")
}

fn overlays(root: &ScratchRoot, files: usize) {
    for number in 0..files {
        root.write(format!("{OVERLAYS}/{}", path(number)), format!("wanted {number}\n"));
    }
}

fn declared(root: &ScratchRoot, files: usize) {
    let declared = |path: String| format!("[[file]]\npath = \"/{path}\"\ncontent = \"wanted {path}\"\n");
    let made = (0..files).map(|number| format!("etc/made/{number}"));
    root.write(DECLARED, (0..files).map(path).chain(made).map(declared).collect::<String>());
}

fn scaffold(root: &ScratchRoot, files: usize) {
    for number in 0..files {
        let below = path(number);
        let below = below.strip_prefix("etc/some/").unwrap();
        root.write(format!("usr/share/holo/scaffold/site/{below}"), format!("wanted {number}\n"));
        root.write(format!("usr/share/holo/scaffold/site/made/{number}"), format!("made {number}\n"));
    }
    root.write(SCAFFOLD, "[[scaffold]]\ntarget = \"/etc/some\"\nsource = \"site\"\n");
}
