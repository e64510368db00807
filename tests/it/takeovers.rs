//! Kills a plugin at every system call while its entities take over files from those of another plugin, or process a
//! new version of an overlay's target: the next apply gives the same result as an undisturbed one, and finally the
//! original files are restored. A run about the new entities alone does the same whether all entities are scanned or not.

use bstr::{BString, ByteSlice};
use holo_testing::disturb::{self, Disturbance};
use holo_testing::{ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::fs;

/// A change that is killed halfway.
struct Case {
    name: &'static str,
    /// The plugin that is killed.
    plugin: &'static str,
    /// Prepares the root before the apply that is killed.
    before: fn(&ScratchRoot),
    /// The entities of the new definition, and its file.
    heir: (&'static [&'static str], &'static str),
}

const CASES: [Case; 8] = [
    Case {
        name: "a declared file becomes one of a scaffold",
        plugin: "scaffold",
        before: scaffold_after_declared,
        heir: (SCAFFOLD_ID, SCAFFOLD),
    },
    Case {
        name: "a file of a scaffold becomes a declared one",
        plugin: "files",
        before: declared_after_scaffold,
        heir: (DECLARED_IDS, DECLARED),
    },
    Case {
        name: "a scaffold has a new version of what is laid over",
        plugin: "scaffold",
        before: under_an_overlay,
        heir: (SCAFFOLD_ID, SCAFFOLD),
    },
    Case {
        name: "a declared file becomes one of an archive",
        plugin: "archives",
        before: archive_after_declared,
        heir: (ARCHIVE_ID, ARCHIVE),
    },
    Case {
        name: "a file of an archive becomes a declared one",
        plugin: "files",
        before: declared_after_archive,
        heir: (DECLARED_IDS, DECLARED),
    },
    Case {
        name: "a file of a scaffold becomes one of an archive",
        plugin: "archives",
        before: archive_after_scaffold,
        heir: (ARCHIVE_ID, ARCHIVE),
    },
    Case {
        name: "a file of an archive becomes one of a scaffold",
        plugin: "scaffold",
        before: scaffold_after_archive,
        heir: (SCAFFOLD_ID, SCAFFOLD),
    },
    Case {
        name: "a scaffold comes when permissions go",
        plugin: "files",
        before: scaffold_after_permissions,
        heir: (SCAFFOLD_ID, SCAFFOLD),
    },
];

const PLUGINS: [&str; 3] = ["files", "scaffold", "archives"];
const DECLARED: &str = "usr/share/holo/files/a.toml";
const OVERLAYS: &str = "usr/share/holo/files/10-over";
const SCAFFOLD: &str = "usr/share/holo/scaffold/a.toml";
const SOURCE: &str = "usr/share/holo/scaffold/app";
const ARCHIVE: &str = "usr/share/holo/archives/a.toml";
const DECLARED_IDS: &[&str] = &["file:/etc/app/found", "file:/etc/app/made/x"];
const SCAFFOLD_ID: &[&str] = &["scaffold:/etc/app"];
const ARCHIVE_ID: &[&str] = &["archive:/var/cache/app.tar"];

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |case: &'static Case| {
        let name = format!("{}: {} may be killed at any system call", case.name, case.plugin);
        trial_of(&name, disturb::NEEDS, || kill_everywhere(case))
    };
    let alone = |case: &'static Case| {
        let name = format!("{}: other plugins are asked for what is in its way", case.name);
        trial_of(&name, &[], || applied_alone(case))
    };
    let invalid = |(name, makes, takes): (&str, _, _)| {
        trial_of(&format!("an invalid definition keeps its files from {name}"), &[], move || left_alone(makes, takes))
    };
    let kills = CASES.iter().map(trial).chain(CASES.iter().map(alone));
    let mut trials: Vec<Trial> = kills.chain(INVALID.into_iter().map(invalid)).collect();
    trials.push(trial_of("what was purged may be declared later", &[], declared_after_purge));
    for (name, make, give_up) in GIVEN_UP {
        let declared = format!("an overlay on what {name} has given up becomes a declaration");
        trials.push(trial_of(&declared, &[], move || declared_after_giving_up(make, give_up)));
        let foreseen = format!("a check knows what is left where {name} gives up a path");
        trials.push(trial_of(&foreseen, &[], move || {
            foreseen_giving_up(make, give_up, "made/x");
            foreseen_giving_up(make, give_up_found, "found");
        }));
    }
    trials
}

/// A purging scaffold owns what it has removed, but only until another entity makes it again.
fn declared_after_purge() {
    let root = ScratchRoot::in_memory()
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/app/found", "theirs\n")
        .file("etc/app/made/x", "purged\n");
    let root = ["files", "scaffold"].iter().fold(root, |root, plugin| root.plugin(plugin));
    purge(&root);
    let file = |name| format!("{SOURCE}/{name}");
    root.write(file("made/y"), "rendered\n");
    applied(&root);
    assert!(!root.exists("etc/app/made/x"));
    fs::remove_file(root.join(file("made/y"))).unwrap();
    applied(&root);
    assert!(!root.exists("etc/app/made/y"));
    let declaration =
        |name| format!("[[file]]\npath = \"/etc/app/made/{name}\"\ncontent = \"declared\\n\"\nmode = \"0640\"\n");
    root.write(DECLARED, ["x", "y"].map(declaration).concat());
    let check = root.holo(&["check"]);
    assert_eq!(check.status, Some(3), "{check}");
    applied(&root);
    assert_eq!(root.read("etc/app/made/x"), "declared\n");
    let check = root.holo(&["check"]);
    assert!(check.success() && check.stdout.is_empty(), "{check}");
    fs::remove_file(root.join(DECLARED)).unwrap();
    applied(&root);
    assert!(!root.exists("etc/app/made/x") && !root.exists("etc/app/made/y"));
    fs::remove_file(root.join(SCAFFOLD)).unwrap();
    applied(&root);
    assert_eq!((root.read("etc/app/found"), root.read("etc/app/made/x")), ("theirs\n".into(), "purged\n".into()));
    assert!(!root.exists("etc/app/made/y"));
}

/// Trees that give up `made/x`, which did not exist before.
const GIVEN_UP: [(&str, Define, Define); 2] = [
    (
        "a scaffold",
        |root| scaffold(root, "rendered\n"),
        |root| fs::remove_file(root.join(SOURCE).join("made/x")).unwrap(),
    ),
    ("an archive", extract, |root| extract_files(root, &["found"])),
];

/// Gives up the file that existed before, for either tree.
fn give_up_found(root: &ScratchRoot) {
    let _ = fs::remove_file(root.join(SOURCE).join("found"));
    if root.exists(ARCHIVE) {
        extract_files(root, &["made/x"]);
    }
}

/// What may be defined for a path that a tree gives up.
const AFTER_GIVING_UP: [(&str, &str); 5] = [
    ("file", "content = \"new\\n\""),
    ("file", "content = \"theirs\\n\""),
    ("file", "content = \"rendered\\n\""),
    ("file", "ensure = \"directory\""),
    ("line", "line = \"added\""),
];

/// A check knows what a tree leaves where it gives up a path: nothing in `made/x`, and the original file in `found`.
fn foreseen_giving_up(make: Define, give_up: Define, path: &str) {
    for (kind, keys) in AFTER_GIVING_UP {
        let root = ScratchRoot::in_memory().file("etc/os-release", "ID=unittest\n").file("etc/app/found", "theirs\n");
        let root = PLUGINS.iter().fold(root, |root, plugin| root.plugin(plugin));
        make(&root);
        applied(&root);
        give_up(&root);
        root.write(DECLARED, format!("[[{kind}]]\npath = \"/etc/app/{path}\"\n{keys}\n"));
        let [check, apply] = ["check", "apply"].map(|verb| {
            let run = root.holo(&[verb, "--json"]);
            let id = format!("{kind}:/etc/app/{path}");
            let lines = run.stdout_lossy().into_owned();
            let mut events = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            let end = events.find(|event| event["event"] == "end" && event["id"] == *id).unwrap_or_default();
            let is_unknown = end["result"] == "pending" && end["would_change"].is_null();
            let result = end["result"].as_str().unwrap_or("unchanged").replace("pending", "changed");
            (if is_unknown { "unknown".to_owned() } else { result }, run)
        });
        // Where nothing is left, there is nothing to edit.
        let is_same = check.0 == apply.0 || (check.0.as_str(), apply.0.as_str()) == ("unknown", "failed");
        assert!(is_same, "{path}, {kind}, {keys}: {} and {}\n{}\n{}", check.0, apply.0, check.1, apply.1);
    }
}

fn declared_after_giving_up(make: Define, give_up: Define) {
    let root = ScratchRoot::in_memory().file("etc/os-release", "ID=unittest\n").file("etc/app/found", "theirs\n");
    let root = PLUGINS.iter().fold(root, |root, plugin| root.plugin(plugin));
    make(&root);
    root.write(format!("{OVERLAYS}/etc/app/made/x"), "laid over\n");
    applied(&root);
    give_up(&root);
    applied(&root);
    assert_eq!(root.read("etc/app/made/x"), "laid over\n");
    root.write("etc/app/made/x", "a person's\n");
    fs::remove_dir_all(root.join(OVERLAYS)).unwrap();
    root.write(DECLARED, "[[file]]\npath = \"/etc/app/made/x\"\ncontent = \"declared\\n\"\n");
    // The tree cannot remove the file while there is an overlay on it.
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("one of both has to go"), "{run}");
    applied(&root);
    assert_eq!(root.read("etc/app/made/x"), "declared\n");
    assert_eq!(root.holo(&["history", "edited", "file:/etc/app/made/x"]).stdout, "a person's\n");
    let check = root.holo(&["check"]);
    assert!(check.success() && check.stdout.is_empty(), "{check}");
    for path in [DECLARED, SCAFFOLD, ARCHIVE] {
        let _ = fs::remove_file(root.join(path));
    }
    applied(&root);
    assert!(!root.exists("etc/app/made"));
    assert_eq!(root.read("etc/app/found"), "theirs\n");
}

type Define = fn(&ScratchRoot);

/// Who takes the files of which definition, once it is invalid.
const INVALID: [(&str, (Define, &str), Define); 6] = [
    ("scaffolds", (declare, DECLARED), purge),
    ("archives", (declare, DECLARED), extract),
    ("declared files", (|root| scaffold(root, "rendered\n"), SCAFFOLD), declare),
    ("archives, if it is a scaffold", (|root| scaffold(root, "rendered\n"), SCAFFOLD), extract),
    ("declared files, if it is an archive", (extract, ARCHIVE), declare),
    ("scaffolds, if it is an archive", (extract, ARCHIVE), purge),
];

/// Makes a definition invalid, by a typo or so that its whole file cannot be read, and defines its files otherwise.
fn left_alone((make, file): (Define, &str), take: Define) {
    for fault in ["typo = 1\n", "[[[\n"] {
        let root = ScratchRoot::in_memory().file("etc/os-release", "ID=unittest\n").file("etc/app/found", "theirs\n");
        let root = PLUGINS.iter().fold(root, |root, plugin| root.plugin(plugin));
        make(&root);
        applied(&root);
        let files = ["found", "made/x"].map(|name| format!("etc/app/{name}"));
        let before = files.each_ref().map(|path| root.read(path));
        root.write(file, [root.read(file).as_slice(), fault.as_bytes()].concat());
        take(&root);
        let run = root.holo(&["apply"]);
        assert!(!run.success(), "{run}");
        for (path, content) in files.iter().zip(before) {
            assert!(root.exists(path), "{path} is gone\n{run}");
            assert_eq!(root.read(path), content, "{path}: {run}");
        }
        let _ = PLUGINS.map(|plugin| fs::remove_dir_all(root.join(format!("usr/share/holo/{plugin}"))));
        PLUGINS.iter().for_each(|plugin| fs::create_dir_all(root.join(format!("usr/share/holo/{plugin}"))).unwrap());
        applied(&root);
        assert_eq!(root.read("etc/app/found"), "theirs\n");
        assert!(!root.exists("etc/app/made"));
    }
}

/// Defines a scaffold that has one of two files, and removes all others.
fn purge(root: &ScratchRoot) {
    root.write(SCAFFOLD, "[[scaffold]]\ntarget = \"/etc/app\"\nsource = \"app\"\npurge = true\n");
    root.write(format!("{SOURCE}/found"), "rendered\n");
}

/// Applies the new entities alone. A selector that is no ID requires a scan of all entities.
fn applied_alone(case: &Case) {
    let (ids, file) = case.heir;
    let [limited, whole] = [false, true].map(|is_whole| {
        let root = prepared(case);
        let (shown, file) = (root.path().display().to_string(), root.join(file).display().to_string());
        let told = ["scan", "check", "apply", "check", "apply"].map(|verb| {
            let more = is_whole.then_some(&*file);
            let run = root.holo(&[verb].into_iter().chain(ids.iter().copied()).chain(more).collect::<Vec<_>>());
            assert_ne!(run.status, Some(255), "{run}");
            (run.status, run.to_string().replace(&shown, ""))
        });
        // Tidying up is left to the next run about everything.
        let folder = root.join("var/lib/holo/files/.declared");
        let _ = fs::remove_file(folder.join("untidy")).and_then(|()| fs::remove_dir(folder));
        (told, tree(&root))
    });
    assert_eq!(limited.0, whole.0);
    assert!(limited.1 == whole.1, "expected\n{}\nbut got\n{}", whole.1, limited.1);
}

/// The trees that a case ends with.
struct Expected {
    tree: BString,
    /// The tree after all definitions are removed.
    in_the_end: BString,
}

fn kill_everywhere(case: &Case) {
    let root = prepared(case);
    applied(&root);
    let expected = finish(&root, "undisturbed");
    let kills = disturb::everywhere(disturb::CALLS, |call, number| {
        let root = prepared(case);
        let (run, seen) = disturb::at(&root, &["apply"], call, number, Disturbance::Kill);
        assert!(!run.stderr_lossy().contains("panicked"), "{run}");
        let moment = format!("{}, killed at {call} number {number}", case.name);
        let Expected { tree, in_the_end } = finish(&root, &moment);
        assert!(tree == expected.tree, "{moment}: expected\n{}\nbut got\n{tree}\nafter\n{run}", expected.tree);
        assert!(
            in_the_end == expected.in_the_end,
            "{moment}, in the end: expected\n{}\nbut got\n{in_the_end}",
            expected.in_the_end
        );
        seen
    });
    assert!(kills > 20, "only {kills} kills: the test does not test what it says");
}

/// Applies until there is no work left, and again after removing all definitions.
fn finish(root: &ScratchRoot, moment: &str) -> Expected {
    let settle = || {
        // An overlay may have been applied before the new version of its base arrived.
        for _ in 0..2 {
            let run = root.holo(&["apply"]);
            assert!(run.success(), "{moment}: the next apply says\n{run}\n{}", root.dump());
        }
        let run = root.holo(&["apply"]);
        assert!(run.success() && run.stdout.is_empty(), "{moment}: it does not settle\n{run}");
        tree(root)
    };
    let tree = settle();
    for plugin in PLUGINS {
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
    // Records of unchanged files depend on inodes.
    let is_left_out = |section: &&[u8]| [" ./tmp", "/archives/known/"].iter().any(|path| section.contains_str(path));
    let kept = dump.split_str(end.as_slice()).filter(|section| !section.is_empty() && !is_left_out(section));
    kept.flat_map(|section| [section, end.as_slice()]).collect::<Vec<_>>().concat().into()
}

#[track_caller]
fn applied(root: &ScratchRoot) {
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
}

fn prepared(case: &Case) -> ScratchRoot {
    let root = ScratchRoot::in_memory().file("etc/os-release", "ID=unittest\n").file("etc/app/found", "theirs\n");
    let root = disturb::configure(root, case.plugin);
    let root = PLUGINS.iter().filter(|other| **other != case.plugin).fold(root, |root, other| root.plugin(other));
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

fn extract(root: &ScratchRoot) {
    extract_files(root, &["found", "made/x"]);
}

fn extract_files(root: &ScratchRoot, names: &[&str]) {
    let mut archive = tar::Builder::new(Vec::new());
    for name in names {
        let content = b"extracted\n";
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o640);
        archive.append_data(&mut header, name, &content[..]).unwrap();
    }
    root.write("usr/share/app.tar", archive.into_inner().unwrap());
    let archive =
        "[[archive]]\npath = \"/var/cache/app.tar\"\nurl = \"file:///usr/share/app.tar\"\nextract_to = \"/etc/app\"\n";
    root.write(ARCHIVE, archive);
}

fn archive_after_declared(root: &ScratchRoot) {
    declare(root);
    applied(root);
    fs::remove_file(root.join(DECLARED)).unwrap();
    extract(root);
}

fn declared_after_archive(root: &ScratchRoot) {
    extract(root);
    applied(root);
    fs::remove_file(root.join(ARCHIVE)).unwrap();
    declare(root);
}

fn archive_after_scaffold(root: &ScratchRoot) {
    scaffold(root, "rendered\n");
    applied(root);
    fs::remove_file(root.join(SCAFFOLD)).unwrap();
    extract(root);
}

fn scaffold_after_archive(root: &ScratchRoot) {
    extract(root);
    applied(root);
    fs::remove_file(root.join(ARCHIVE)).unwrap();
    scaffold(root, "rendered\n");
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

fn give_permissions(root: &ScratchRoot) {
    let directory = "[[file]]\npath = \"/etc/app\"\nensure = \"directory\"\nmode = \"0750\"\nrecurse = true\n";
    root.write("usr/share/holo/files/b.toml", directory);
    applied(root);
}

fn scaffold_after_permissions(root: &ScratchRoot) {
    give_permissions(root);
    fs::remove_file(root.join("usr/share/holo/files/b.toml")).unwrap();
    scaffold(root, "rendered\n");
}

fn under_an_overlay(root: &ScratchRoot) {
    scaffold(root, "rendered\n");
    applied(root);
    root.write_script(format!("{OVERLAYS}/etc/app/found.holoscript"), "#!/bin/sh\nsed s/^/over\\ /\n");
    applied(root);
    assert_eq!(root.read("etc/app/found"), "over rendered\n");
    scaffold(root, "rendered anew\n");
}
