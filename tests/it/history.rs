//! Records of runs: whatever happens to an apply, or to its records, they can be read, and nothing is on record twice.

use bstr::ByteSlice;
use holo_testing::{Need, Run, ScratchRoot, binaries::built, disturb, trial_of};
use libtest_mimic::Trial;
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = holo_testing::trials![
        damaged_records_stop_nothing,
        what_cannot_be_kept_is_said_once,
        a_reader_may_go_away,
        a_run_that_could_not_begin_is_on_record,
        nothing_is_kept_if_nobody_wants_it,
        the_differences_of_all_plugins_are_on_record,
        the_differences_of_many_files_are_on_record,
    ];
    let strace = [Need::Program("strace")];
    trials.push(trial_of("a run that is killed at any system call is on record once", &strace, killed_everywhere));
    trials.push(trial_of("a disk that is full or broken costs the record alone", &strace, full_disk));
    trials
}

const WANTED: &str = "wanted\n";

/// A root on which an apply has been made, and the next one has something to change.
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

fn month(root: &ScratchRoot) -> PathBuf {
    let files = fs::read_dir(root.join("var/lib/holo/.engine/runs")).unwrap();
    let mut months =
        files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    months.next().unwrap()
}

/// Returns the results of the runs that `history` shows, the last one first.
#[track_caller]
fn results(root: &ScratchRoot) -> Vec<String> {
    let run = root.holo(&["history"]);
    assert!(run.success(), "{run}");
    run.stdout_lossy().lines().map(|line| line.split('\t').nth(2).unwrap().to_owned()).collect()
}

/// Runs the dispatcher under strace, which does something to it at the call with this number.
fn disturbed(root: &ScratchRoot, call: &str, what: &str) -> (Run, bool) {
    let log = root.join("tmp/strace");
    let (trace, injection) = (format!("trace={call}"), format!("inject={call}:{what}"));
    let holo = built("holo");
    let words = ["-qq", "-o", log.to_str().unwrap(), "-e", &trace, "-e", &injection, holo.to_str().unwrap(), "apply"];
    let run = root.run("/usr/bin/strace", &words);
    let logged = fs::read(&log).unwrap_or_default();
    let _ = fs::remove_file(&log);
    (run, logged.contains_str("killed by SIGKILL") || logged.contains_str("(INJECTED)"))
}

/// Copies of what is replaced share a file, unless they are no plain ones.
fn the_differences_of_many_files_are_on_record() {
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

/// What is previewed before an apply is on record after it, of applying and of scrubbing.
fn the_differences_of_all_plugins_are_on_record() {
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
        // In test mode no account is changed, so that there is nothing to put back.
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
    let calls = [
        "openat",
        "write",
        "pwrite64",
        "ftruncate",
        "fadvise64",
        "fdatasync",
        "fsync",
        "rename",
        "unlink",
        "ppoll",
        "poll",
    ];
    let kills = disturb::everywhere(&calls, killed_once);
    assert!(kills > 30, "only {kills} kills: the test does not test what it says");
}

fn killed_once(call: &str, number: usize) -> bool {
    let root = root();
    let (_, was_killed) = disturbed(&root, call, &format!("signal=SIGKILL:when={number}"));
    let moment = format!("killed at {call} number {number}");
    // A plugin may outlive it for a moment, and hold the lock: it shall not take what is written next.
    if let Ok(lock) = File::open(root.join("run/holo.pid")) {
        flock(lock, FlockOperation::LockExclusive).unwrap();
    }
    let after = results(&root);
    if was_killed && root.read("etc/motd") == WANTED {
        assert_eq!(after.len(), 2, "{moment}: a change that no record has");
    }
    assert!(after.iter().all(|result| result == "changed" || result == "interrupted"), "{moment}: {after:?}");
    root.write("usr/share/holo/files/01-x/etc/motd", "third\n");
    let next = root.holo(&["apply"]);
    assert!(next.success(), "{moment}: the next apply says\n{next}");
    assert_eq!(results(&root).len(), after.len() + 1, "{moment}");
    let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
    for line in fs::read_to_string(month(&root)).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{moment}: {error}: {line}"));
        let key = (line["run"].as_str().unwrap().to_owned(), line["record"].as_str().unwrap().to_owned());
        *seen.entry(key).or_default() += 1;
    }
    assert!(seen.values().all(|&count| count == 1), "{moment}: {seen:?}");
    assert_eq!(seen.keys().filter(|(_, record)| record == "began").count(), after.len() + 1, "{moment}: {seen:?}");
    assert_eq!(seen.keys().filter(|(_, record)| record == "ended").count(), after.len() + 1, "{moment}: {seen:?}");
    was_killed
}

fn full_disk() {
    let mut failures = 0;
    for (call, error) in [("pwrite64", "ENOSPC"), ("fdatasync", "EIO"), ("fadvise64", "EINVAL")] {
        for number in 1..=3 {
            let root = root();
            let (run, has_failed) = disturbed(&root, call, &format!("error={error}:when={number}"));
            failures += usize::from(has_failed);
            let said = run.stderr_lossy().matches("Not keeping a record of this run: ").count();
            assert!(run.success() && said <= 1, "{call} {number}: {run}");
            assert_eq!(root.read("etc/motd"), WANTED);
            assert!(root.holo(&["apply"]).success() && root.holo(&["history"]).success());
        }
    }
    assert!(failures > 4, "only {failures} failures: the test does not test what it says");
}

fn damaged_records_stop_nothing() {
    let root = root();
    let text = fs::read_to_string(month(&root)).unwrap();
    let (last, before) = text.trim_end().lines().last().map(|last| (last, text.len() - last.len() - 1)).unwrap();
    fs::write(month(&root), format!("\0\n[]\n{}{}", &text[..before], &last[..20])).unwrap();
    for file in ["begun.json", "last.json"] {
        root.write(format!("var/lib/holo/.engine/runs/{file}"), "{\"version\":");
    }
    let run = root.holo(&["history"]);
    assert!(run.success() && run.stderr_lossy().contains("Lines that are damaged, and passed over: 3"), "{run}");
    assert!(root.holo(&["apply"]).success());
    assert_eq!(results(&root), ["changed", "interrupted"]);
    let show = root.holo(&["history", "show", "--diff"]);
    assert!(show.success() && show.stdout_lossy().contains("    -first\n    +wanted\n"), "{show}");
}

fn what_cannot_be_kept_is_said_once() {
    let root = root();
    fs::remove_dir_all(root.join("var/lib/holo/.engine")).unwrap();
    root.write("var/lib/holo/.engine/runs", "in the way");
    let run = root.holo(&["apply"]);
    let said = run.stderr_lossy().matches(">> Not keeping a record of this run: mkdir ").count();
    assert!(run.success() && said == 1, "{run}");
    assert_eq!(root.read("etc/motd"), WANTED);
}

fn a_reader_may_go_away() {
    let root = root();
    let script = "set -o pipefail; for i in 1 2 3; do cat month >>all; done; \"$0\" history show | :; \"$0\" history -n 0 | head -n 1 >/dev/null";
    let script = script.replace("month", month(&root).to_str().unwrap()).replace(">>all", ">/dev/null");
    let run = root.run("/bin/bash", &["-c".as_ref(), script.as_ref(), built("holo").as_os_str()]);
    assert!(!run.stderr_lossy().contains("panicked") && run.stderr.is_empty(), "{run}");
}

fn a_run_that_could_not_begin_is_on_record() {
    let root = root();
    assert_eq!(root.holo(&["apply", "file:/etc/none"]).status, Some(255));
    let show = root.holo(&["history", "show"]);
    for expected in ["result failed", "error Unrecognized argument: file:/etc/none", "exit status 255"] {
        assert!(show.stdout_lossy().contains(expected), "{expected}: {show}");
    }
}

fn nothing_is_kept_if_nobody_wants_it() {
    let root = ScratchRoot::new().plugin("files").file("etc/a", "stock\n").resource("files/01-x/etc/a", "x\n");
    assert!(root.holo(&["apply"]).success());
    assert!(!root.exists("var/lib/holo/.engine"));
    let own = root.env("HOLO_EXIT_ZERO", "1").env("HOLO_HISTORY", "");
    own.write("usr/share/holo/files/01-x/etc/a", "y\n");
    assert!(own.holo(&["apply"]).success() && !own.exists("var/lib/holo/.engine"));
    let wanted = own.env("HOLO_EXIT_ZERO", "0");
    wanted.write("usr/share/holo/files/01-x/etc/a", "z\n");
    assert!(wanted.holo(&["apply"]).success() && wanted.exists("var/lib/holo/.engine/runs"));
}
