//! Scaffolds whose witnesses are unchanged are not read, but a change of a file is detected.

use bstr::ByteSlice;
use holo_testing::{Need, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fs::{self, File};
use std::thread::sleep;
use std::time::Duration;

const DEFINITION: &str = "usr/share/holo/scaffold/a.toml";
const TARGET: &str = "srv/site/page";
const MADE: &str = "word = one\n";
const EDITED: &str = "mine = 123\n";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial_of("known files are not read", &[Need::Program("strace")], known),
        trial_of("an edit is noticed though size and time are as before", &[], restored_time),
        trial_of("an edit just after an apply is noticed", &[], just_now),
        trial_of("changed data are noticed", &[], changed_data),
        trial_of("a file that is gone is made again", &[], gone),
        trial_of("a template takes few calls", &[Need::Program("strace")], few_calls),
        trial_of("many scaffolds take no more each than few", &[Need::Program("strace")], linear),
    ]
}

fn define(root: &ScratchRoot, word: &str) {
    let data = format!("[scaffold.data]\nword = {word:?}\n");
    root.write(DEFINITION, format!("[[scaffold]]\ntarget = \"/srv/site\"\nsource = \"site\"\n{data}"));
}

/// Returns a root with a scaffold that is known to be unchanged.
fn settled() -> ScratchRoot {
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .plugin("scaffold")
        .env("HOLO_HISTORY", "1")
        .file("usr/share/holo/scaffold/site/page", "word = {{ data.word }}\n")
        .file("srv/other", "");
    define(&root, "one");
    assert!(root.holo(&["apply"]).success());
    assert_eq!(root.read(TARGET), MADE);
    sleep(Duration::from_millis(3100));
    unchanged(&root);
    root
}

#[track_caller]
fn unchanged(root: &ScratchRoot) {
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stdout.is_empty() && run.stderr.is_empty(), "{run}");
}

/// Runs a command that finds nothing to do, and returns how often a file of this name was read.
#[track_caller]
fn reads(root: &ScratchRoot, command: &str, environment: &str) -> usize {
    let log = root.join("tmp/strace");
    let holo = built("holo");
    let strace = ["-f", "-qq", "-o", log.to_str().unwrap(), "-e", "trace=openat", "-E", environment];
    let run = root.run("strace", &[&strace[..], &[holo.to_str().unwrap(), command]].concat());
    assert!(run.success() && run.stdout.is_empty(), "{run}");
    let calls = fs::read(&log).unwrap();
    fs::remove_file(log).unwrap();
    calls.find_iter("\"page\", O_RDONLY").count()
}

/// Overwrites the provisioned file, but keeps its modification time.
fn overwrite(root: &ScratchRoot, content: &str) {
    let path = root.join(TARGET);
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, content).unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
}

#[track_caller]
fn refused(root: &ScratchRoot) {
    for _ in 0..2 {
        let run = root.holo(&["apply"]);
        assert!(run.status == Some(1) && run.stderr.contains_str("has been changed"), "{run}");
    }
}

fn known() {
    let root = settled();
    assert_eq!(["apply", "check"].map(|command| reads(&root, command, "UNUSED=1")), [0, 0]);
    // The template and the file.
    assert_eq!(reads(&root, "apply", "HOLO_VERIFY=1"), 2);
    fs::remove_file(root.join(DEFINITION)).unwrap();
    assert!(root.holo(&["apply"]).success());
    assert!(!root.exists("srv/site"), "{}", root.dump());
}

fn restored_time() {
    let root = settled();
    assert_eq!(EDITED.len(), MADE.len());
    overwrite(&root, EDITED);
    refused(&root);
}

fn just_now() {
    let root = settled();
    overwrite(&root, MADE);
    unchanged(&root);
    overwrite(&root, EDITED);
    refused(&root);
}

fn changed_data() {
    let root = settled();
    define(&root, "two");
    assert!(root.holo(&["apply"]).success());
    assert_eq!(root.read(TARGET), "word = two\n");
    unchanged(&root);
}

fn gone() {
    let root = settled();
    fs::remove_file(root.join(TARGET)).unwrap();
    assert!(root.holo(&["apply"]).success());
    assert_eq!(root.read(TARGET), MADE);
    unchanged(&root);
}

/// Returns the numbers of system calls of two applies and a check for this number of scaffolds.
fn calls(count: usize) -> [usize; 3] {
    let definitions = (0..count).map(|index| format!("[[scaffold]]\ntarget = \"/srv/{index}\"\nsource = \"site\"\n"));
    let root = ScratchRoot::in_memory()
        .binary(built("holo"))
        .plugin("scaffold")
        .file("usr/share/holo/scaffold/site/page", "word\n")
        .file(DEFINITION, definitions.collect::<String>())
        .dir("srv");
    ["apply", "apply", "check"].map(|command| {
        let log = root.join("tmp/strace");
        let run =
            root.run("strace", &["-f", "-qq", "-o", log.to_str().unwrap(), built("holo").to_str().unwrap(), command]);
        assert!(run.success(), "{run}");
        fs::read(&log)
            .unwrap()
            .lines()
            .filter(|line| !line.contains_str("futex") && !line.contains_str("resumed"))
            .count()
    })
}

fn linear() {
    let (none, few, many) = (calls(0), calls(20), calls(80));
    for (none, (few, many)) in none.into_iter().zip(few.into_iter().zip(many)) {
        assert!((many - none) * 2 <= (few - none) * 4 * 3, "{none} for none, {few} for 20, {many} for 80");
    }
}

/// Returns the numbers of system calls of the first apply, and of an apply and a check with nothing to do, for this number
/// of templates in one scaffold.
fn calls_for_templates(count: usize) -> [usize; 3] {
    let mut root = ScratchRoot::new()
        .binary(built("holo"))
        .plugin("scaffold")
        .env("HOLO_HISTORY", "1")
        .file(DEFINITION, "[[scaffold]]\ntarget = \"/srv/site\"\nsource = \"site\"\n")
        .dir("srv");
    for number in 0..count {
        let path = format!("usr/share/holo/scaffold/site/{:02}/{number:04}", number / 100);
        root = root.file(&path, format!("number {number}, {{{{ 1 + 1 }}}}\n"));
    }
    let traced = |command: &str| {
        let log = root.join("tmp/strace");
        let run =
            root.run("strace", &["-f", "-qq", "-o", log.to_str().unwrap(), built("holo").to_str().unwrap(), command]);
        assert!(run.success(), "{run}");
        let calls = fs::read(&log).unwrap();
        calls.lines().filter(|line| !line.contains_str("futex") && !line.contains_str("resumed")).count()
    };
    let first = traced("apply");
    sleep(Duration::from_millis(3100));
    unchanged(&root);
    [first, traced("apply"), traced("check")]
}

fn few_calls() {
    let (few, many) = (calls_for_templates(100), calls_for_templates(300));
    // The first includes the record of the run and its generation.
    for ((few, many), most) in few.into_iter().zip(many).zip([66, 8, 8]) {
        let each = (many - few) as f64 / 200.0;
        assert!(each <= f64::from(most), "{each} calls for each template: {few} for 100, {many} for 300");
    }
}
