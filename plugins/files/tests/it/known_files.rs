//! Commands about a few entities do not read all definition files that are known to be valid. Their output is the same as if they did.

use super::record::{Case, settle};
use bstr::ByteSlice;
use holo_testing::random::{self, Random};
use holo_testing::{Need, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicUsize, Ordering};

const RECORD: &str = "var/lib/holo/files/.definitions";
const DEFINITIONS: [&str; 2] = ["usr/share/holo/files/a.toml", "usr/share/holo/files/b.toml"];
const PATHS: [&str; 9] =
    ["/srv/a", "/srv/a/x", "/srv/a/x/y", "/srv/a/z", "/srv/b", "/srv/b/x", "/link/x", "/link/z", "/srv/b/%41 é"];

const ENSURE: [&str; 7] = [
    "",
    "",
    "",
    "ensure = \"absent\"\n",
    "ensure = \"directory\"\n",
    "ensure = \"directory\"\nrecurse = true\nfile_mode = \"0640\"\n",
    "ensure = 'symlink'\ntarget = \"a\"\n",
];
const MORE: [&str; 7] = ["", "", "", "", "retries = 1\n", "if = \"false\"\n", "# path = \"/x\"\n"];

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [Case; 6] = [
        ("a limited scan says what a whole one says", &[], random_sites),
        ("of known files, only what is asked for is read", &[Need::Program("strace")], others_are_not_read),
        ("a record without a definition is noticed", &[], orphan_is_noticed),
        ("the records of others are read when all files are applied", &[], others_records_are_left),
        ("a definition that is changed in a known file is noticed", &[], changed),
        ("a mistake is said again as long as it is there", &[], mistaken),
    ];
    cases.into_iter().map(|(name, needs, test)| trial_of(name, needs, test)).collect()
}

fn root() -> ScratchRoot {
    ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .env("HOLO_FILES_RECORD", "1")
        .file("etc/os-release", "ID=debian\n")
}

/// Waits and applies, so that valid definition files are recorded.
fn learned(root: &ScratchRoot) {
    settle();
    let _ = root.holo(&["apply"]);
}

/// Runs a command with the record and without, and compares the output. Only the latter reports errors in other definitions.
#[track_caller]
fn is_the_same(root: &ScratchRoot, arguments: &[&str], about: &str) {
    let holo = built("holo");
    let run = |verify: &str| {
        let run = root.run("env", &[&[verify, holo.to_str().unwrap()][..], arguments].concat());
        let lines = run.stderr.lines().map(|line| line.as_bstr().to_string()).filter(|line| !line.is_empty());
        (run.status, run.stdout.trim().as_bstr().to_string(), lines.collect::<BTreeSet<String>>())
    };
    let ((status, stdout, stderr), (whole_status, whole_stdout, whole_stderr)) =
        (run("UNUSED=1"), run("HOLO_VERIFY=1"));
    let about = format!("{arguments:?}\n{about}\n{stderr:?}\n{whole_stderr:?}\n{}", root.dump());
    assert_eq!((status, stdout), (whole_status, whole_stdout), "{about}");
    let is_ours = |line: &&String| arguments.iter().skip(1).any(|id| line.contains(&format!("{id} ")));
    assert!(stderr.is_subset(&whole_stderr) && whole_stderr.difference(&stderr).all(|line| !is_ours(&line)), "{about}");
}

fn definition(random: &mut Random, path: &str) -> String {
    let mut text = format!("[[file]]\npath = {path:?}\n");
    let ensure: &&str = random.pick(&ENSURE);
    text.push_str(ensure);
    if !text.contains("ensure") {
        let _ = writeln!(text, "content = \"{}\\n[[file]]\\n\"", random.below(3));
    }
    if random.chance(15) {
        let _ = writeln!(text, "after = [\"file:{}\"]", random.pick(&PATHS));
    }
    let more: &&str = random.pick(&MORE);
    text.push_str(more);
    text
}

fn definitions(random: &mut Random) -> String {
    let mut text = String::new();
    for path in PATHS {
        if random.chance(30) {
            text.push_str(&definition(random, path));
        }
    }
    if random.chance(30) {
        let _ = write!(text, "[[line]]\nname = \"x\"\npath = {:?}\nline = \"x\"\n", random.pick(&PATHS));
    }
    if random.chance(30) {
        let _ = write!(text, "[[overlay]]\npath = {:?}\nsensitive = true\n", random.pick(&PATHS));
    }
    text
}

fn is_defined(root: &ScratchRoot, id: &str) -> bool {
    root.holo(&["selectors", "--prefix=line:"]).stdout_lossy().lines().any(|line| line == id)
}

fn random_sites() {
    let known = AtomicUsize::new(0);
    random::cases(12, |random| {
        let root = root().dir("srv").symlink("link", *random.pick(&["srv/a", "srv/b", "nowhere"]));
        for file in DEFINITIONS {
            root.write(file, definitions(random));
        }
        if random.chance(30) {
            root.write(format!("usr/share/holo/files/10-x{}", random.pick(&PATHS)), "overlay\n");
        }
        let _ = root.holo(&["apply"]);
        learned(&root);
        known.fetch_add(usize::from(root.exists(RECORD)), Ordering::Relaxed);
        let about = match random.below(7) {
            0 => {
                let file = DEFINITIONS[random.below(2)];
                root.write(file, definitions(random));
                "other definitions"
            }
            1 => {
                let _ = fs::remove_file(root.join(DEFINITIONS[random.below(2)]));
                "fewer definitions"
            }
            2 => {
                root.write("usr/share/holo/files/c.toml", definitions(random));
                "more definitions"
            }
            3 => {
                fs::remove_file(root.join("link")).unwrap();
                symlink(random.pick(&["srv/a", "srv/b", "srv"]), root.join("link")).unwrap();
                "a link that leads elsewhere"
            }
            4 => {
                let _ = fs::rename(root.join("srv/b"), root.join("srv/c"));
                let _ = symlink(random.pick(&["a", "c"]), root.join("srv/b"));
                "a link where there was none"
            }
            5 => {
                root.write("usr/share/holo/files/10-y/srv/a/x", "overlay\n");
                "an overlay"
            }
            _ => "nothing",
        };
        let ids = PATHS.iter().flat_map(|path| [format!("file:{path}"), format!("line:{path}#x")]);
        for id in ids.filter(|id| id.starts_with("file:") || is_defined(&root, id)) {
            for verb in ["scan", "check", "diff", "why"] {
                is_the_same(&root, &[verb, &id], about);
            }
        }
        is_the_same(&root, &["check", "file:/srv/a", "file:/link/x"], about);
        let prefix = random.pick(&["file:", "file:/srv/a", "file:/x", "line:"]);
        is_the_same(&root, &["selectors", prefix], about);
        // The changes are the same too, and a full apply has nothing left to do.
        let id = format!("file:{}", random.pick(&PATHS));
        let _ = root.holo(&["apply", "--force", &id]);
        is_the_same(&root, &["check", &id], about);
    });
    let known = known.into_inner();
    assert!(!random::are_many() || known > 0, "no site has definitions that are known to be right");
}

fn site() -> ScratchRoot {
    let text = |name: &str| format!("[[file]]\npath = \"/etc/{name}\"\ncontent = \"{name}\\n\"\n");
    let root = root().dir("etc").file(DEFINITIONS[0], text("one") + &text("two"));
    assert!(root.holo(&["apply"]).success());
    learned(&root);
    assert!(root.exists(RECORD), "{}", root.dump());
    root
}

fn others_are_not_read() {
    let root = site();
    // Reading an invalid record is reported.
    let two = root.record("files/declared", "file:/etc/two");
    root.write_record("files/declared", "file:/etc/two", "{");
    let holo = built("holo");
    let are_others_read = |environment: &str| {
        let run = root.run("env", &[environment, holo.to_str().unwrap(), "check", "file:/etc/one"]);
        run.stderr_lossy().contains("record file:/etc/two of files/declared")
    };
    assert!(are_others_read("HOLO_VERIFY=1") && !are_others_read("UNUSED=1"));
    // Without the record, everything is read.
    fs::remove_file(root.join(RECORD)).unwrap();
    assert!(are_others_read("UNUSED=1"));
    fs::write(root.join(RECORD), "damaged").unwrap();
    assert!(are_others_read("UNUSED=1"));
    root.write_record("files/declared", "file:/etc/two", &two);
    fs::remove_file(root.join(DEFINITIONS[0])).unwrap();
    assert!(root.holo(&["apply"]).success());
    assert!(!root.exists(RECORD) && !root.exists("var/lib/holo/files/.declared"), "{}", root.dump());
}

fn orphan_is_noticed() {
    let root = site();
    let record = root.record("files/declared", "file:/etc/two");
    root.write_record("files/declared", "file:/etc/six", &record.replace("/etc/two", "/etc/six"));
    let run = root.holo(&["selectors", "--prefix=file:/etc/"]);
    assert!(run.stdout_lossy().contains("file:/etc/six"), "{run}");
}

fn others_records_are_left() {
    let root = site();
    let kept = root.record("files/declared", "file:/etc/two");
    let untidy = root.join("var/lib/holo/files/.declared/untidy");
    root.write_record("files/declared", "file:/etc/two", "{");
    root.write("etc/one", "a person's\n");
    let run = root.holo(&["apply", "--force", "file:/etc/one"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    assert_ne!(root.read("etc/one"), "a person's\n");
    // A full apply removes unneeded records.
    assert!(untidy.exists());
    root.write_record("files/declared", "file:/etc/two", &kept);
    assert!(root.holo(&["apply"]).success());
    assert!(!untidy.exists());
}

fn changed() {
    let root = site();
    let path = root.join(DEFINITIONS[0]);
    let (text, modified) = (fs::read_to_string(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    fs::write(&path, text.replace("one\\n", "eno\\n")).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    assert_eq!(root.holo(&["check", "file:/etc/one"]).status, Some(3));
    assert!(root.holo(&["apply", "file:/etc/one"]).success());
    assert_eq!(root.read("etc/one"), "eno\n");
    assert_eq!(root.holo(&["check", "file:/etc/two"]).status, Some(0));
}

fn mistaken() {
    let root = site();
    let text = root.read(DEFINITIONS[0]).to_string();
    root.write(DEFINITIONS[0], text.replace("/etc/two\"", "/etc/two\"\nmode = \"rw\""));
    learned(&root);
    for _ in 0..2 {
        let run = root.holo(&["check", "file:/etc/one"]);
        assert!(run.stderr.contains_str("file:/etc/two: mode: "), "{run}");
    }
}
