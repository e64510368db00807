//! Edits that are saved during an apply are not lost, and programs find the changes made before them.

use holo_testing::disturb::{self, Disturbance};
use holo_testing::{Need, Run, ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

const STOCK: &str = "stock\n";
const EDITED: &str = "edited\n";
const WANTED: &str = "wanted\n";
const TARGET: &str = "etc/motd";
const RESOURCE: &str = "usr/share/holo/files/01-x/etc/motd";
const BASE: &str = "var/lib/holo/files/base/etc/motd";
const MODIFIED: &str = "!! Entity has been modified by user (use --force to overwrite)";

/// Saves a file in place, and by renaming a new file as editors do.
const WAYS_TO_SAVE: [&str; 2] =
    ["echo edited >\"$HOLO_ROOT_DIR/etc/motd\"", "cd \"$HOLO_ROOT_DIR/etc\"; echo edited >new; mv new motd"];

pub(crate) fn trials() -> Vec<Trial> {
    let strace = [Need::Program("strace")];
    vec![
        trial_of("an edit that is saved while the target's own script runs stays", &[], own_script),
        trial_of("an edit that is saved while the script of another target runs stays", &[], other_script),
        trial_of("an edit that is saved while a change is on its way to the disk stays", &strace, on_its_way),
        trial_of("a target that is deleted meanwhile stays deleted", &[], deleted),
        trial_of("force overwrites all the same", &[], forced),
        trial_of("a script finds what was applied before it", &[], earlier_work),
        trial_of("scripts that a check runs, run at the same time", &[], checked_together),
        trial_of("scripts that an apply runs, run at the same time", &[], applied_together),
        trial_of("a base is not a file that a process can write to", &[], open_file),
        trial_of("nor is it after a kill", disturb::NEEDS, open_file_and_kill),
        trial_of("what a declared file replaces is not kept as a file that a process can write to", &[], open_declared),
        trial_of("nor is that after a kill", disturb::NEEDS, open_declared_and_kill),
    ]
}

fn root() -> ScratchRoot {
    let root = disturb::configure(ScratchRoot::new(), "files").file(TARGET, STOCK);
    root.write("etc/os-release", "ID=debian\n");
    root
}

fn script(root: ScratchRoot, path: &str, text: &str) -> ScratchRoot {
    root.script(format!("usr/share/holo/files/01-x/{path}.holoscript"), format!("#!/bin/sh\nset -e\n{text}\n"))
}

#[track_caller]
fn applied(root: &ScratchRoot, arguments: &[&str]) -> Run {
    let run = root.holo(&[&["apply"], arguments].concat());
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    run
}

/// Asserts that the edit is kept, whichever file it was written to, and that no temporary file is left.
#[track_caller]
fn edit_is_kept(root: &ScratchRoot, run: &Run) {
    assert_eq!((run.status, run.stderr_lossy().trim_end()), (Some(1), MODIFIED), "{run}");
    assert_eq!(root.read(TARGET), EDITED);
    assert!(!root.exists("etc/motd.holonew") && !root.exists("var/lib/holo/files/.staged"));
    let (base, target) = (fs::metadata(root.join(BASE)).unwrap(), fs::metadata(root.join(TARGET)).unwrap());
    assert_ne!(base.ino(), target.ino());
}

fn own_script() {
    for save in WAYS_TO_SAVE {
        let root = script(root(), TARGET, &format!("echo wanted; {save}"));
        edit_is_kept(&root, &root.holo(&["apply"]));
        // The original content, or the edit if the file was edited in place before the first change.
        assert!([STOCK, EDITED].contains(&&*root.read(BASE).to_string()));

        let root = root_with_base();
        let root = script(root, TARGET, &format!("echo wanted; {save}"));
        fs::remove_file(root.join(RESOURCE)).unwrap();
        edit_is_kept(&root, &root.holo(&["apply"]));
        assert_eq!(root.read(BASE), STOCK);
        applied(&root, &["--force"]);
        assert_eq!(root.read(TARGET), WANTED);
    }
}

/// Returns a root whose target was applied before.
fn root_with_base() -> ScratchRoot {
    let root = root().file(RESOURCE, "wanted earlier\n");
    applied(&root, &[]);
    root
}

fn other_script() {
    for save in WAYS_TO_SAVE {
        let root =
            script(root().file(RESOURCE, WANTED).file("etc/other", STOCK), "etc/other", &format!("echo x; {save}"));
        applied(&root, &[]);
        assert_eq!(root.read(TARGET), EDITED);
        assert_eq!(root.read(BASE), STOCK);
        // The script comes after the target in the plan, so the target was already applied when it was edited.
        let run = root.holo(&["apply", "file:/etc/motd"]);
        edit_is_kept(&root, &run);
    }
}

fn on_its_way() {
    for is_new in [true, false] {
        for in_place in [true, false] {
            let root = if is_new { root() } else { root_with_base() };
            root.write(RESOURCE, WANTED);
            let edit = || {
                let deadline = Instant::now() + Duration::from_secs(30);
                while !root.exists("etc/motd.holonew") {
                    assert!(Instant::now() < deadline, "nothing was prepared");
                    thread::sleep(Duration::from_millis(5));
                }
                if in_place {
                    fs::write(root.join(TARGET), EDITED).unwrap();
                } else {
                    root.write("etc/new", EDITED);
                    fs::rename(root.join("etc/new"), root.join(TARGET)).unwrap();
                }
            };
            let run = thread::scope(|scope| {
                let editor = scope.spawn(edit);
                let log = root.join("tmp/strace");
                let holo = holo_testing::binaries::built("holo");
                let delay = ["-e", "trace=fsync", "-e", "inject=fsync:delay_enter=300000:when=1"];
                let words =
                    [&["-f", "-qq", "-o", log.to_str().unwrap()], &delay[..], &[holo.to_str().unwrap(), "apply"]];
                let run = root.run("strace", &words.concat());
                editor.join().unwrap();
                run
            });
            edit_is_kept(&root, &run);
            // If the file was edited in place, its base has the edit.
            assert_eq!(root.read(BASE), if is_new && in_place { EDITED } else { STOCK });
            applied(&root, &["--force"]);
            assert_eq!(root.read(TARGET), WANTED);
        }
    }
}

fn deleted() {
    let root = script(root(), TARGET, "echo wanted; rm \"$HOLO_ROOT_DIR/etc/motd\"");
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("deleted by user (use --force to restore)"), "{run}");
    assert!(!root.exists(TARGET) && !root.exists("etc/motd.holonew"));
    assert_eq!(root.read(BASE), STOCK);
}

fn forced() {
    let root = script(root_with_base(), TARGET, &format!("echo wanted; {}", WAYS_TO_SAVE[0]));
    applied(&root, &["--force"]);
    assert_eq!(root.read(TARGET), WANTED);
}

fn earlier_work() {
    let mut root = root();
    for number in 0..20 {
        root = root.file(format!("etc/{number:02}"), STOCK);
        root = match number % 4 {
            3 => script(root, &format!("etc/{number:02}"), "cd \"$HOLO_ROOT_DIR/etc\"; cat 0* 1*"),
            _ => root.file(format!("usr/share/holo/files/01-x/etc/{number:02}"), format!("{number}\n")),
        };
    }
    // A template after a script belongs to the same target.
    root.write("usr/share/holo/files/02-x/etc/19.holotemplate", "{{ input }}");
    applied(&root, &["--jobs=4"]);
    assert_eq!(root.read("etc/03"), format!("0\n1\n2\n{}", STOCK.repeat(17)));
    let seen = root.read("etc/19").to_string();
    for number in (0..20).filter(|number| number % 4 != 3) {
        assert!(seen.lines().any(|line| line == number.to_string()), "{number} was not there yet: {seen}");
    }
}

fn checked_together() {
    let (root, run) = met(&["apply", "--dry-run", "--jobs", "2"]);
    assert_eq!(run.status, Some(3), "{run}");
    assert_eq!(root.read("etc/one"), STOCK);
}

fn applied_together() {
    let (root, run) = met(&["apply", "--jobs", "2"]);
    assert_eq!(run.status, Some(0), "{run}");
    for name in ["etc/one", "etc/two"] {
        assert_eq!(root.read(name), WANTED, "{run}");
    }
    let run = root.holo(&["apply", "--jobs", "2"]);
    assert!(run.success() && run.stdout.is_empty(), "{run}");
}

/// Runs a command with two scripts that wait for each other. Their output is in plan order.
fn met(arguments: &[&str]) -> (ScratchRoot, Run) {
    let mut root = root();
    for name in ["one", "two"] {
        let path = format!("etc/{name}");
        root = script(
            root.file(&path, STOCK),
            &path,
            &format!(
                "touch \"$HOLO_ROOT_DIR/met-{name}\"\nfor i in $(seq 600); do [ -e \"$HOLO_ROOT_DIR/met-one\" ] && [ -e \"$HOLO_ROOT_DIR/met-two\" ] && echo wanted && exit 0; sleep 0.05; done; exit 1"
            ),
        );
    }
    let run = root.holo(arguments);
    let shown = run.stdout_lossy().to_string();
    let [one, two] = ["file:/etc/one", "file:/etc/two"].map(|id| shown.find(id));
    assert!(one.is_some() && one < two, "{run}");
    (root, run)
}

fn open_file() {
    for count in [1, 20] {
        let root = root();
        let mut writers = Vec::new();
        for number in 0..count {
            root.write(format!("etc/many/{number}"), STOCK);
            root.write(format!("usr/share/holo/files/01-x/etc/many/{number}"), WANTED);
            writers.push(File::options().append(true).open(root.join(format!("etc/many/{number}"))).unwrap());
        }
        applied(&root, &[]);
        for mut writer in writers {
            writer.write_all(b"later\n").unwrap();
        }
        for number in 0..count {
            assert_eq!(root.read(format!("etc/many/{number}")), WANTED);
            assert_eq!(root.read(format!("var/lib/holo/files/base/etc/many/{number}")), STOCK);
        }
        assert!(!root.exists("var/lib/holo/files/.staged"));
    }
}

fn open_file_and_kill() {
    let kills = disturb::everywhere(disturb::CALLS, |call, number| {
        let root = root().file(RESOURCE, WANTED);
        let mut writer = File::options().append(true).open(root.join(TARGET)).unwrap();
        let (_, seen) = disturb::at(&root, &["apply"], call, number, Disturbance::Kill);
        let moment = format!("killed at {call} number {number}");
        applied(&root, &[]);
        writer.write_all(b"later\n").unwrap();
        assert_eq!(root.read(BASE), STOCK, "{moment}");
        assert_eq!(root.read(TARGET), WANTED, "{moment}");
        assert!(!root.exists("var/lib/holo/files/.staged"), "{moment}");
        seen
    });
    assert!(kills > 10, "only {kills} kills: the test does not test what it says");
}

/// The number of files that are declared together.
const DECLARED: usize = 10;

/// Declares files, two of which had the same content before. Returns open handles for writing to the old files.
fn declared_and_open(root: &ScratchRoot) -> Vec<File> {
    let mut definitions = String::new();
    for number in 0..DECLARED {
        root.write(format!("etc/many/{number}"), declared_stock(number));
        definitions += &format!("[[file]]\npath = \"/etc/many/{number}\"\ncontent = {WANTED:?}\n");
    }
    root.write("usr/share/holo/files/many.toml", definitions);
    let writer = |number| File::options().append(true).open(root.join(format!("etc/many/{number}"))).unwrap();
    (0..DECLARED).map(writer).collect()
}

fn declared_stock(number: usize) -> String {
    format!("stock {}\n", number.max(1))
}

/// Asserts that all files are restored to their original content after the writers have written.
fn declared_come_back(root: &ScratchRoot, writers: Vec<File>, moment: &str) {
    for mut writer in writers {
        writer.write_all(b"later\n").unwrap();
    }
    for number in 0..DECLARED {
        assert_eq!(root.read(format!("etc/many/{number}")), WANTED, "{moment}");
    }
    fs::remove_file(root.join("usr/share/holo/files/many.toml")).unwrap();
    applied(root, &[]);
    for number in 0..DECLARED {
        assert_eq!(root.read(format!("etc/many/{number}")), *declared_stock(number), "{moment}");
    }
    assert!(!root.exists("var/lib/holo/files/.declared"), "{moment}");
}

fn open_declared() {
    let root = root();
    let writers = declared_and_open(&root);
    applied(&root, &[]);
    declared_come_back(&root, writers, "undisturbed");
}

fn open_declared_and_kill() {
    let calls = ["pwrite64", "fdatasync", "renameat", "unlinkat", "syncfs"];
    let kills = disturb::everywhere(&calls, |call, number| {
        let root = root();
        let writers = declared_and_open(&root);
        let (_, seen) = disturb::at(&root, &["apply"], call, number, Disturbance::Kill);
        let moment = format!("killed at {call} number {number}");
        applied(&root, &[]);
        declared_come_back(&root, writers, &moment);
        seen
    });
    assert!(kills > 20, "only {kills} kills: the test does not test what it says");
}
