//! Records of runs: whatever happens to an apply or its records, they can be read, and no entry is duplicated.

use bstr::ByteSlice;
use holo_testing::disturb::{self, Disturbance, Seen};
use holo_testing::{Need, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = holo_testing::trials![
        damaged_database_stops_applies_until_repaired,
        unusable_database_stops_the_apply,
        export_and_import_round_trip,
        closed_output_is_not_an_error,
        run_that_could_not_begin_is_recorded,
        disabled_history_keeps_no_files,
        differences_of_all_plugins_are_recorded,
        differences_of_many_files_are_recorded,
    ];
    let strace = [Need::Program("strace")];
    trials.push(trial_of("a run that is killed at any system call is on record once", &strace, killed_everywhere));
    trials.push(trial_of(
        "a full or broken disk costs the record, or stops the apply with a reason",
        &strace,
        full_disk,
    ));
    trials
}

const WANTED: &str = "wanted\n";

/// Returns a root with one apply done, and changes for the next one.
fn root() -> ScratchRoot {
    let root = ScratchRoot::in_memory()
        .binary(built("holo"))
        .env("HOLO_HISTORY", "1")
        .plugin("files")
        .file("etc/os-release", "ID=debian\n")
        .file("etc/motd", "stock\n")
        .resource("files/01-x/etc/motd", "first\n");
    assert!(root.holo(&["apply"]).success());
    root.write("usr/share/holo/files/01-x/etc/motd", WANTED);
    root
}

/// Returns the rows of a table of the state database in export format.
fn rows(root: &ScratchRoot, table: &str) -> Vec<Value> {
    let run = root.holo(&["state", "export"]);
    assert!(run.success(), "{run}");
    let lines = run.stdout.lines().map(|line| serde_json::from_slice::<Value>(line).unwrap());
    lines.filter(|line| line["table"] == table).map(|mut line| line["row"].take()).collect()
}

/// Returns the results of the runs that `history` shows, newest first.
#[track_caller]
fn results(root: &ScratchRoot) -> Vec<String> {
    let run = root.holo(&["history"]);
    assert!(run.success(), "{run}");
    run.stdout_lossy().lines().map(|line| line.split('\t').nth(2).unwrap().to_owned()).collect()
}

/// Copies of replaced files share a file, unless they are not regular files.
fn differences_of_many_files_are_recorded() {
    const FILES: usize = 20;
    let mut root = ScratchRoot::in_memory().binary(built("holo")).env("HOLO_HISTORY", "1").plugin("files");
    root = root.file("etc/os-release", "ID=debian\n").file("etc/5/program", "stock\n").file("etc/empty", "");
    root = root.resource("files/01-x/etc/5/program", "ours\n").resource("files/01-x/etc/empty", "no more\n");
    root = root.resource("files/01-x/etc/link", "a file\n");
    for number in 0..FILES {
        root = root.file(format!("etc/{number}/conf"), format!("stock {number}\n").repeat(number + 1));
        root = root.resource(format!("files/01-x/etc/{number}/conf"), format!("ours {number}\n"));
    }
    fs::set_permissions(root.join("etc/5/program"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("empty", root.join("etc/link")).unwrap();
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    let history = root.holo(&["history", "show", "--diff"]);
    let shown = history.stdout_lossy();
    let mut expected: Vec<String> = (0..FILES)
        .flat_map(|number| {
            [
                format!("@@ -1{} +1 @@\n", if number == 0 { String::new() } else { format!(",{}", number + 1) }),
                format!("-stock {number}\n"),
                format!("+ours {number}\n"),
            ]
        })
        .collect();
    expected
        .extend(["-stock\n", "+ours\n", "+no more\n", "deleted file mode 120000\n", "+a file\n"].map(str::to_owned));
    for line in expected {
        assert!(shown.lines().any(|shown| shown.trim_start() == line.trim_end()), "{line:?} is not in\n{shown}");
    }
    let removed = shown.lines().filter(|line| line.trim_start().starts_with("-stock ")).count();
    assert_eq!(removed, (1..=FILES).sum::<usize>(), "{shown}");
}

/// The preview before an apply equals the recorded difference after it, for applying and scrubbing.
fn differences_of_all_plugins_are_recorded() {
    let mut root = ScratchRoot::in_memory()
        .binary(built("holo"))
        .env("HOLO_HISTORY", "1")
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/passwd", "jane:x:1000:1000:Jane:/home/jane:/bin/sh\n")
        .file("etc/group", "jane:x:1000:\n")
        .dir("home/jane")
        .file("etc/motd", "stock\n")
        .file("etc/secret", "secret one\n")
        .dir("srv");
    for plugin in ["files", "scaffold", "ssh-keys", "users-groups", "archives"] {
        root = root.plugin(plugin).dir(format!("usr/share/holo/{plugin}"));
    }
    assert!(root.run("tar", &["-C", "/", "-cf", root.join("etc/app.tar").to_str().unwrap(), "etc/hostname"]).success());
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHZsUJkHcK0oPMsLWiWHiXUHVnvJUvDMTXXbtcrkCLCB jane\n";
    let definitions = [
        ("files/10-x/etc/motd", "ours\n"),
        (
            "files/x.toml",
            "[[file]]\npath = \"/etc/made\"\ncontent = \"made\\n\"\n[[file]]\npath = \"/etc/secret\"\ncontent = \"secret two\\n\"\nsensitive = true\n",
        ),
        ("scaffold/web.toml", "[[scaffold]]\ntarget = \"/etc/web\"\nsource = \"web\"\n"),
        ("scaffold/web/a", "a\n"),
        ("scaffold/web/sub/b", "b\n"),
        ("ssh-keys/jane/laptop.pub", key),
        ("users-groups/x.toml", "[[user]]\nname = \"ann\"\nshell = \"/bin/zsh\"\n[[group]]\nname = \"crew\"\n"),
        (
            "archives/x.toml",
            "[[archive]]\npath = \"/srv/app.tar\"\nurl = \"file:///etc/app.tar\"\nextract_to = \"/srv/app\"\n",
        ),
    ];
    for (path, text) in definitions {
        root.write(format!("usr/share/holo/{path}"), text);
    }
    for round in ["applied", "scrubbed"] {
        let pending = root.holo(&["diff", "--pending"]);
        assert!(pending.success() && !pending.stdout.is_empty(), "{round}: {pending}");
        let run = root.holo(&["apply"]);
        assert!(run.success(), "{round}: {run}");
        let shown = root.holo(&["history", "show", "--diff"]);
        let shown = shown.stdout_lossy();
        assert!(!shown.contains("secret o") && !shown.contains("secret t"), "{round}: {shown}");
        let mut kinds = ["etc/motd", "etc/made", "etc/web/a", "etc/web/sub/b", "authorized_keys", "archive:"].to_vec();
        // In test mode no account is changed, so there is none to restore.
        kinds.extend((round == "applied").then_some("user:ann"));
        let (pending, mut sensitive) = (pending.stdout_lossy().replace(" (pending)", ""), false);
        for kind in kinds {
            assert!(pending.contains(kind), "{round}: {kind} is not in\n{pending}");
        }
        for line in pending.lines() {
            if line.starts_with("diff ") {
                sensitive = line.contains("etc/secret");
            }
            assert!(
                sensitive || shown.lines().any(|other| other.trim_start() == line.trim_start()),
                "{round}: {line} is not in\n{shown}"
            );
        }
        for plugin in ["files", "scaffold", "ssh-keys", "users-groups", "archives"] {
            let folder = root.join("usr/share/holo").join(plugin);
            fs::remove_dir_all(&folder).unwrap();
            fs::create_dir(&folder).unwrap();
        }
    }
}

fn killed_everywhere() {
    let calls = ["openat", "write", "pwrite64", "ftruncate", "fdatasync", "fsync", "rename", "unlink", "ppoll", "poll"];
    let kills = disturb::everywhere(&calls, killed_once);
    assert!(kills > 30, "only {kills} kills: the test does not test what it says");
}

fn killed_once(call: &str, number: usize) -> Seen {
    let root = root();
    let (_, seen) = disturb::dispatcher_at(&root, &["apply"], call, number, Disturbance::Kill);
    let moment = format!("killed at {call} number {number}");
    // A plugin may outlive the dispatcher for a moment and hold the lock; it must not receive the data written next.
    if let Ok(lock) = File::open(root.join("run/holo.pid")) {
        flock(lock, FlockOperation::LockExclusive).unwrap();
    }
    let after = results(&root);
    if seen.is_disturbed() && root.read("etc/motd") == WANTED {
        assert_eq!(after.len(), 2, "{moment}: a change that no record has");
    }
    assert!(after.iter().all(|result| result == "changed" || result == "interrupted"), "{moment}: {after:?}");
    root.write("usr/share/holo/files/01-x/etc/motd", "third\n");
    let next = root.holo(&["apply"]);
    assert!(next.success(), "{moment}: the next apply says\n{next}");
    assert_eq!(results(&root).len(), after.len() + 1, "{moment}");
    let runs = rows(&root, "run");
    assert_eq!(runs.len(), after.len() + 1, "{moment}: {runs:?}");
    assert!(runs.iter().all(|run| !run["ended"].is_null()), "{moment}: {runs:?}");
    let entries: Vec<String> = rows(&root, "run_entry").iter().map(|entry| entry["run"].to_string()).collect();
    let distinct: BTreeSet<&String> = entries.iter().collect();
    assert_eq!(entries.len(), distinct.len(), "{moment}: an entity is on record twice");
    assert!(root.holo(&["state", "check"]).success(), "{moment}");
    seen
}

fn full_disk() {
    let (mut failures, mut refusals) = (0, 0);
    for (call, error) in [("pwrite64", "ENOSPC"), ("fdatasync", "EIO"), ("openat", "EMFILE")] {
        for number in 1..=40 {
            let root = root();
            let (run, seen) = disturb::dispatcher_at(&root, &["apply"], call, number, Disturbance::Error(error));
            failures += usize::from(seen.is_disturbed());
            let said = run.stderr_lossy().matches("Not keeping a record of this run: ").count();
            assert!(said <= 1, "{call} {number}: {run}");
            if run.success() {
                assert_eq!(root.read("etc/motd"), WANTED, "{call} {number}");
            } else {
                refusals += 1;
                assert!(run.stderr_lossy().contains("!! "), "{call} {number}: no reason is given\n{run}");
            }
            assert!(root.holo(&["apply"]).success() && root.read("etc/motd") == WANTED, "{call} {number}");
            assert!(root.holo(&["history"]).success() && root.holo(&["state", "check"]).success(), "{call} {number}");
            if !seen.is_disturbed() {
                break;
            }
        }
    }
    assert!(
        failures > 4 && refusals > 0,
        "{failures} failures, {refusals} refusals: the test does not test what it says"
    );
}

fn damaged_database_stops_applies_until_repaired() {
    let root = root();
    let path = root.join("var/lib/holo/state.db");
    // All data is in the write-ahead log until it has grown; without the log, the file is a valid database again,
    // damaged from its second page on.
    let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(&[0xaa; 100]).unwrap();
    fs::remove_file(root.join("var/lib/holo/state.db-wal")).unwrap();
    for arguments in [&["apply"][..], &["history"], &["state"]] {
        let run = root.holo(arguments);
        assert_eq!(run.status, Some(255), "{run}");
        assert!(run.stderr_lossy().contains("damaged: file is not a database; `holo state repair`"), "{run}");
    }
    assert_eq!(root.read("etc/motd"), "first\n", "an apply that cannot be recorded changes nothing");
    let check = root.holo(&["state", "check"]);
    assert!(check.status == Some(1) && check.stderr_lossy().contains("!! "), "{check}");
    let repair = root.holo(&["state", "repair"]);
    assert!(repair.success() && repair.stderr_lossy().contains("the damaged database is kept as "), "{repair}");
    assert!(root.holo(&["apply"]).success() && root.read("etc/motd") == WANTED);
    assert_eq!(results(&root), ["changed"]);
    let again = root.holo(&["state", "repair"]);
    assert!(again.success() && again.stderr_lossy().contains("is not damaged"), "{again}");
}

fn export_and_import_round_trip() {
    let root = root();
    assert!(root.holo(&["apply"]).success());
    let exported = root.holo(&["state", "export"]);
    root.write("tmp/export", &exported.stdout);
    let path = root.join("tmp/export");
    let refused = root.holo(&["state", "import", path.to_str().unwrap()]);
    assert!(
        refused.status == Some(255) && refused.stderr_lossy().contains("is not empty; move it aside first"),
        "{refused}"
    );
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(root.join(format!("var/lib/holo/state.db{suffix}"))).unwrap();
    }
    assert!(root.holo(&["state"]).stdout.is_empty());
    assert!(root.holo(&["state", "import", path.to_str().unwrap()]).success());
    assert_eq!(root.holo(&["state", "export"]).stdout.as_bstr(), exported.stdout.as_bstr());
    assert_eq!(results(&root), ["changed", "changed"]);
}

fn unusable_database_stops_the_apply() {
    let root = root();
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(root.join(format!("var/lib/holo/state.db{suffix}"))).unwrap();
    }
    fs::create_dir(root.join("var/lib/holo/state.db")).unwrap();
    root.write("var/lib/holo/state.db/x", "in the way");
    let run = root.holo(&["apply"]);
    assert!(run.status == Some(255) && run.stderr_lossy().matches("state.db: ").count() == 1, "{run}");
    assert_eq!(root.read("etc/motd"), "first\n");
}

fn closed_output_is_not_an_error() {
    let root = root();
    let script =
        "set -o pipefail; \"$0\" history show | :; \"$0\" history -n 0 | head -n 1 >/dev/null; \"$0\" state export | :";
    let run = root.run("/bin/bash", &["-c".as_ref(), script.as_ref(), built("holo").as_os_str()]);
    assert!(!run.stderr_lossy().contains("panicked") && run.stderr.is_empty(), "{run}");
}

fn run_that_could_not_begin_is_recorded() {
    let root = root();
    assert_eq!(root.holo(&["apply", "file:/etc/none"]).status, Some(255));
    let show = root.holo(&["history", "show"]);
    for expected in ["result failed", "error Unrecognized argument: file:/etc/none", "exit status 255"] {
        assert!(show.stdout_lossy().contains(expected), "{expected}: {show}");
    }
}

fn disabled_history_keeps_no_files() {
    let root = ScratchRoot::new().plugin("files").file("etc/a", "stock\n").resource("files/01-x/etc/a", "x\n");
    assert!(root.holo(&["apply"]).success());
    assert!(!root.exists("var/lib/holo/state.db"));
    let own = root.env("HOLO_EXIT_ZERO", "1").env("HOLO_HISTORY", "");
    own.write("usr/share/holo/files/01-x/etc/a", "y\n");
    assert!(own.holo(&["apply"]).success() && !own.exists("var/lib/holo/state.db"));
    let wanted = own.env("HOLO_EXIT_ZERO", "0");
    wanted.write("usr/share/holo/files/01-x/etc/a", "z\n");
    assert!(wanted.holo(&["apply"]).success() && wanted.exists("var/lib/holo/state.db"));
}
