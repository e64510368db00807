//! Kills applies at every system call that changes a file, or makes the call fail, and checks that the next apply
//! completes the work.
//!
//! `strace` injects the fault at the N-th call of a kind, in the plugin alone or in dispatcher and plugin, for every N.
//! Afterwards no file is torn, every base still exists somewhere, and one more apply gives exactly the tree of an
//! undisturbed one. An apply with a failed call reports it, and leaves no temporary file behind.

use bstr::{BString, ByteSlice};
use holo_testing::disturb::{self, Disturbance, Seen};
use holo_testing::require::is_complete;
use holo_testing::{Need, Run, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::cell::RefCell;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The content of the targets before the first apply, and that of a later package version.
const STOCK: &str = "stock line\nanother stock line\n";
const NEW_STOCK: &str = "new stock line\n";
const WANTED: &str = "wanted line\n";
const WANTED_LATER: &str = "wanted later\n";
const WANTED_LAST: &str = "wanted last of all\n";

/// An operation on a root that is killed halfway.
struct Case {
    name: &'static str,
    distribution: &'static str,
    /// Prepares the root before the apply that is killed.
    before: fn(&ScratchRoot),
    /// Changes the root after the kill, before the next apply.
    after: fn(&ScratchRoot),
    arguments: &'static [&'static str],
}

const CASES: [Case; 28] = [
    Case { name: "first apply", distribution: "debian", before: resources, after: nothing, arguments: &["apply"] },
    Case {
        name: "first apply to a file that is open and has an ACL",
        distribution: "debian",
        before: open_with_acl,
        after: nothing,
        arguments: &["apply"],
    },
    Case {
        name: "upgrade of resources",
        distribution: "debian",
        before: upgraded,
        after: nothing,
        arguments: &["apply"],
    },
    Case {
        name: "upgrade of resources, then another",
        distribution: "debian",
        before: upgraded,
        after: upgrade_again,
        arguments: &["apply"],
    },
    Case { name: "new stock file", distribution: "arch", before: pacnew, after: nothing, arguments: &["apply"] },
    Case {
        name: "swapped stock file",
        distribution: "debian",
        before: dpkg_old,
        after: nothing,
        arguments: &["apply"],
    },
    Case { name: "scrubbing", distribution: "debian", before: scrubbed, after: nothing, arguments: &["apply"] },
    Case {
        name: "scrubbing, then provisioned again",
        distribution: "debian",
        before: scrubbed,
        after: resources_only,
        arguments: &["apply"],
    },
    Case {
        name: "scrubbing with a new stock file",
        distribution: "arch",
        before: scrubbed_with_pacnew,
        after: nothing,
        arguments: &["apply"],
    },
    Case {
        name: "scrubbing a deleted target",
        distribution: "arch",
        before: deleted,
        after: nothing,
        arguments: &["apply"],
    },
    Case {
        name: "overwriting by force",
        distribution: "debian",
        before: modified,
        after: nothing,
        arguments: &["apply", "--force"],
    },
    Case { name: "declared files", distribution: "debian", before: declared, after: nothing, arguments: &["apply"] },
    Case {
        name: "files declared otherwise",
        distribution: "debian",
        before: declared_otherwise,
        after: nothing,
        arguments: &["apply"],
    },
    Case {
        name: "files not declared any more",
        distribution: "debian",
        before: not_declared,
        after: nothing,
        arguments: &["apply"],
    },
    Case {
        name: "a group of declared files",
        distribution: "debian",
        before: group_declared,
        after: nothing,
        arguments: &["apply"],
    },
    Case {
        name: "a group of files declared otherwise",
        distribution: "debian",
        before: group_declared_otherwise,
        after: nothing,
        arguments: &["apply"],
    },
    Case {
        name: "a group of files not declared any more",
        distribution: "debian",
        before: group_not_declared,
        after: nothing,
        arguments: &["apply"],
    },
    Case {
        name: "a file declared in place",
        distribution: "debian",
        before: in_place,
        after: nothing,
        arguments: &["apply"],
    },
    Case {
        name: "a file declared otherwise in place",
        distribution: "debian",
        before: otherwise_in_place,
        after: nothing,
        arguments: &["apply"],
    },
    Case {
        name: "a file not declared in place any more",
        distribution: "debian",
        before: not_in_place,
        after: nothing,
        arguments: &["apply"],
    },
    Case {
        name: "an overlay on a file that was declared",
        distribution: "debian",
        before: overlay_after_declared,
        after: nothing,
        arguments: &["apply"],
    },
    Case {
        name: "a declared file that had an overlay",
        distribution: "debian",
        before: declared_after_overlay,
        after: nothing,
        arguments: &["apply"],
    },
    Case {
        name: "a declared file that had an overlay, then neither",
        distribution: "debian",
        before: declared_after_overlay,
        after: no_definitions,
        arguments: &["apply"],
    },
    Case {
        name: "edits that make files and directories",
        distribution: "debian",
        before: made_by_edits,
        after: nothing,
        arguments: &["apply"],
    },
    Case {
        name: "such edits are taken back",
        distribution: "debian",
        before: edits_taken_back,
        after: nothing,
        arguments: &["apply"],
    },
    Case { name: "declared access", distribution: "debian", before: access, after: nothing, arguments: &["apply"] },
    Case {
        name: "access declared otherwise",
        distribution: "debian",
        before: access_otherwise,
        after: nothing,
        arguments: &["apply"],
    },
    Case {
        name: "access not declared any more",
        distribution: "debian",
        before: access_not_declared,
        after: nothing,
        arguments: &["apply"],
    },
];

impl Case {
    fn needs(&self) -> &'static [Need] {
        let needs = &[Need::Program("strace"), Need::ExtendedAttributes];
        if self.name.contains("access") { needs } else { &needs[..1] }
    }
}

/// The processes that are killed, and how the plugin is run.
#[derive(Clone, Copy)]
struct Victim {
    name: &'static str,
    /// The version of the interface that the plugin must speak; version 4 uses sessions.
    version: u32,
    plugin_alone: bool,
}

const VICTIMS: [Victim; 3] = [
    Victim { name: "the plugin's session", version: 4, plugin_alone: true },
    Victim { name: "the plugin's processes", version: 3, plugin_alone: true },
    Victim { name: "dispatcher and plugin", version: 4, plugin_alone: false },
];

/// The errors of a disk, for an apply that is not killed.
const FAILURES: [&str; 3] = ["ENOSPC", "EIO", "EROFS"];

/// The system calls that a disk error can affect.
const FAILING_CALLS: [&str; 13] = [
    "write",
    "ftruncate",
    "fsetxattr",
    "copy_file_range",
    "fchmod",
    "fchown",
    "renameat",
    "linkat",
    "symlinkat",
    "unlinkat",
    "mkdirat",
    "fsync",
    "syncfs",
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for case in &CASES {
        // Declared files are handled identically in all modes.
        let victims = if case.name.contains("declared") { &VICTIMS[..1] } else { &VICTIMS };
        for &victim in victims {
            let name = format!("{}: {} may be killed at any system call", case.name, victim.name);
            trials.push(trial_of(&name, case.needs(), move || kill_everywhere(case, victim)));
        }
    }
    for case in &CASES {
        let name = format!("{}: any system call of the plugin may fail", case.name);
        trials.push(trial_of(&name, case.needs(), move || fail_everywhere(case)));
    }
    for (name, how) in [("be killed", Disturbance::Kill), ("meet a disk that fails", Disturbance::Error("EIO"))] {
        for many in &MANY_OF {
            let name = format!("{}: the plugin's session may {name} while groups of them are under way", many.name);
            trials.push(trial_of(&name, &[Need::Program("strace")], move || disturb_groups(many, how)));
        }
    }
    trials.push(trial_of(
        "a refresh is done, wherever the dispatcher is killed",
        &[Need::Program("strace")],
        refresh_everywhere,
    ));
    trials
}

fn kill_everywhere(case: &Case, victim: Victim) {
    let expected = undisturbed(case, victim);
    let kills = disturb::everywhere(disturb::CALLS, |call, number| kill_once(case, victim, call, number, &expected));
    assert!(kills > 3, "only {kills} kills: the test does not test what it says");
}

/// The dispatcher's system calls around which files may have changed.
const DISPATCHER_CALLS: [&str; 16] = [
    "openat", "write", "pwrite64", "read", "rename", "renameat", "linkat", "unlink", "unlinkat", "mkdir", "mkdirat",
    "rmdir", "fsync", "poll", "ppoll", "wait4",
];

fn refresh_everywhere() {
    let kills = disturb::everywhere(&DISPATCHER_CALLS, refresh_once);
    assert!(kills > 20, "only {kills} kills: the test does not test what it says");
}

/// Kills the dispatcher of an apply that changes a file, to which a hook subscribes, to which another hook subscribes.
fn refresh_once(call: &str, number: usize) -> Seen {
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("test-scenarios/plugins/hooks");
    let root = ScratchRoot::in_memory()
        .binary(built("holo"))
        .plugin("files")
        .file("etc/os-release", "ID=debian\n")
        .file("etc/motd", STOCK)
        .resource("files/01-x/etc/motd", WANTED)
        .resource("hooks/on-motd", "# subscribes file:/etc/motd\necho refreshed >>../log\n")
        .resource("hooks/then", "# subscribes hook:on-motd\necho refreshed >>../log-of-then\n");
    let holorc = root.read("etc/holorc");
    root.write("etc/holorc", format!("{holorc}plugin hooks={}\n", hooks.display()));
    let (run, seen) = disturb::dispatcher_at(&root, &["apply"], call, number, Disturbance::Kill);
    assert!(!run.stderr_lossy().contains("panicked"), "{run}");
    let moment = format!("dispatcher killed at {call} number {number}");
    for _ in 0..2 {
        let again = root.holo(&["apply"]);
        assert_eq!(again.status, Some(0), "{moment}: the next apply says\n{again}");
    }
    assert_eq!(root.read("etc/motd"), WANTED, "{moment}");
    for log in ["usr/share/holo/log", "usr/share/holo/log-of-then"] {
        let refreshed = root.read(log).lines().count();
        // A kill between the refresh and its removal from the database repeats the refresh.
        assert!((1..=2).contains(&refreshed), "{moment}: {log}: refreshed {refreshed} times");
    }
    assert!(!root.exists("var/lib/holo/state.db"), "{moment}: something is still due");
    seen
}

/// Many files, and the moments of the fault. Calls are counted per thread, and several threads prepare overlays and
/// commit them, so each thread makes only a few.
struct Many {
    name: &'static str,
    /// With this number of files, strace takes much longer than the time for which changes are gathered, so some are
    /// being written to disk while others are prepared.
    files: usize,
    before: fn(&ScratchRoot),
    moments: &'static [(&'static str, &'static [usize])],
}

const MANY_OVERLAYS: usize = 700;
const MANY_DECLARED: usize = 250;
/// After a kill, each is restored by a separate process that examines all of them.
const MANY_SCRUBBED: usize = 120;

const MANY_OF: [Many; 4] = [
    Many {
        name: "many overlays",
        files: MANY_OVERLAYS,
        before: many_overlays,
        moments: &[("fchmod", &[60, 150, 240]), ("linkat", &[100]), ("renameat", &[10, 60, 100]), ("syncfs", &[1, 2])],
    },
    Many {
        name: "scrubbing many overlays",
        files: MANY_OVERLAYS,
        before: many_orphans,
        moments: &[("renameat", &[1, 10, 60]), ("unlinkat", &[1, 10, 60]), ("syncfs", &[1, 2])],
    },
    Many {
        name: "many declared files",
        files: MANY_DECLARED,
        before: many_declared,
        moments: &[
            ("fchmod", &[60, 120]),
            ("pwrite64", &[20, 40]),
            ("fdatasync", &[1]),
            ("renameat", &[10, 60, 110]),
            ("syncfs", &[1, 2]),
        ],
    },
    Many {
        name: "scrubbing many declared files",
        files: MANY_SCRUBBED,
        before: many_not_declared,
        moments: &[
            ("fchmod", &[60, 110]),
            ("renameat", &[60, 110]),
            ("pwrite64", &[10, 20]),
            ("fdatasync", &[1]),
            ("syncfs", &[1, 2]),
        ],
    },
];

fn disturb_groups(many: &Many, how: Disturbance<'_>) {
    let case = Case { name: many.name, before: many.before, ..CASES[0] };
    let victim = VICTIMS[0];
    let expected = undisturbed(&case, victim);
    for (call, numbers) in many.moments {
        let numbers = if is_complete() { numbers } else { &numbers[..1] };
        for number in numbers {
            let root = prepared(&case, victim);
            let (run, seen) = disturb_plugin(&root, &case, call, *number, how);
            let moment = format!("{}, {call} number {number}, {how:?}", many.name);
            // The failed call may have been repeated successfully. If a session was killed, its current work failed,
            // and the log is that of the next session.
            assert!(
                matches!(run.status, Some(1 | 255)) || seen.is_disturbed(),
                "{moment}: nothing has happened\n{run}"
            );
            for path in (0..many.files).map(many_path) {
                let content = root.read(&path);
                assert!(content == STOCK || content == WANTED, "{moment}: {path} is torn: {content:?}");
                // The original contents of declared files.
                let is_kept = || {
                    root.exists(format!("var/lib/holo/files/base/{path}"))
                        || root.contents().contains(&STOCK.to_owned())
                };
                assert!(content == STOCK || is_kept(), "{moment}: what {path} was is lost");
            }
            settles(&root, &case, &moment, &expected);
        }
    }
}

fn many_path(number: usize) -> String {
    format!("etc/many/{}/{number}.conf", number % 7)
}

fn many_overlays(root: &ScratchRoot) {
    for path in (0..MANY_OVERLAYS).map(many_path) {
        root.write(&path, STOCK);
        root.write(format!("usr/share/holo/files/01-x/{path}"), WANTED);
    }
}

fn many_orphans(root: &ScratchRoot) {
    many_overlays(root);
    assert!(root.holo(&["apply"]).success());
    std::fs::remove_dir_all(root.join("usr/share/holo/files/01-x")).unwrap();
}

fn many_declared(root: &ScratchRoot) {
    declare_many(root, MANY_DECLARED);
}

fn declare_many(root: &ScratchRoot, count: usize) {
    let mut definitions = String::new();
    for path in (0..count).map(many_path) {
        root.write(&path, STOCK);
        definitions += &format!("[[file]]\npath = \"/{path}\"\ncontent = {WANTED:?}\n");
    }
    root.write("usr/share/holo/files/many.toml", definitions);
}

fn many_not_declared(root: &ScratchRoot) {
    declare_many(root, MANY_SCRUBBED);
    assert!(root.holo(&["apply"]).success());
    std::fs::remove_file(root.join("usr/share/holo/files/many.toml")).unwrap();
}

fn fail_everywhere(case: &Case) {
    let victim = VICTIMS[0];
    let expected = undisturbed(case, victim);
    let failures = disturb::everywhere(&FAILING_CALLS, |call, number| {
        // For most calls the kind of error does not matter, so they take turns.
        let turn = FAILING_CALLS.iter().position(|name| *name == call).unwrap_or_default();
        fail_once(case, victim, call, number, FAILURES[turn % FAILURES.len()], &expected)
    });
    assert!(failures > 10, "only {failures} failures: the test does not test what it says");
}

/// Returns the tree of the case without a fault.
fn undisturbed(case: &Case, victim: Victim) -> BString {
    let root = prepared(case, victim);
    assert_eq!(root.holo(case.arguments).status, Some(0));
    (case.after)(&root);
    assert_eq!(root.holo(case.arguments).status, Some(0));
    tree(&root)
}

/// Makes one system call fail.
fn fail_once(case: &Case, victim: Victim, call: &str, number: usize, error: &str, expected: &BString) -> Seen {
    let root = prepared(case, victim);
    let (run, seen) = disturb_plugin(&root, case, call, number, Disturbance::Error(error));
    let moment = format!("{}, {call} number {number} fails with {error}", case.name);
    nothing_is_torn(&root, case, &moment);
    if run.status == Some(1) {
        assert!(run.stderr_lossy().contains("!! "), "{moment}: nothing is said\n{run}");
    } else if run.status == Some(255) {
        // Without the records, nothing is applied.
        assert!(run.stderr_lossy().contains("state.db: "), "{moment}\n{run}");
    } else {
        assert_eq!(run.status, Some(0), "{moment}\n{run}");
    }
    if call != "unlinkat" {
        let dump = tree(&root);
        assert!(!dump.contains_str(".holonew"), "{moment}: a temporary file is left behind\n{dump}");
    }
    settles(&root, case, &moment, expected);
    seen
}

/// Runs the case with its plugin under strace.
fn disturb_plugin(root: &ScratchRoot, case: &Case, call: &str, number: usize, what: Disturbance<'_>) -> (Run, Seen) {
    let (run, seen) = disturb::at(root, case.arguments, call, number, what);
    assert!(!run.stderr_lossy().contains("panicked"), "{run}");
    (run, seen)
}

/// Asserts that the next apply completes the work.
fn settles(root: &ScratchRoot, case: &Case, moment: &str, expected: &BString) {
    (case.after)(root);
    let again = root.holo(case.arguments);
    assert_eq!(again.status, Some(0), "{moment}: the next apply says\n{again}");
    let tree = tree(root);
    assert!(tree == *expected, "{moment}: expected\n{expected}\nbut got\n{tree}");
    let definitions = root.join("usr/share/holo/files/a.toml");
    if definitions.exists() {
        std::fs::remove_file(definitions).unwrap();
        let last = root.holo(&["apply"]);
        assert_eq!(last.status, Some(0), "{moment}: the last apply says\n{last}");
        // In version 3, directories come before their entries, and are removed by the next apply.
        assert_eq!(root.holo(&["apply"]).status, Some(0));
        let left = |path: &str| root.join(path).exists();
        assert!(!left("etc/made") && !left("var/lib/holo/files/.declared"), "{moment}: left behind\n{}", root.dump());
        for path in ["etc/plain.conf", "etc/linked.conf", "etc/scripted.conf"] {
            assert_eq!(root.read(path), STOCK, "{moment}: {path}");
        }
    }
}

/// Kills at one system call.
fn kill_once(case: &Case, victim: Victim, call: &str, number: usize, expected: &BString) -> Seen {
    let root = prepared(case, victim);
    let disturb = if victim.plugin_alone { disturb::at } else { disturb::everything_at };
    let (run, seen) = disturb(&root, case.arguments, call, number, Disturbance::Kill);
    assert!(!run.stderr_lossy().contains("panicked"), "{run}");
    let moment = format!("{}, {} killed at {call} number {number}", case.name, victim.name);
    nothing_is_torn(&root, case, &moment);
    settles(&root, case, &moment, expected);
    seen
}

/// Returns the tree without the files that a killed dispatcher cannot remove, and without the records of declared
/// files: which of several files has created a shared directory depends on the order.
fn tree(root: &ScratchRoot) -> BString {
    let dump = root.dump();
    let end = BString::from(format!("{}\n", "-".repeat(40)));
    let kept = dump.split_str(end.as_slice()).filter(|section| {
        !section.is_empty()
            && !section.contains_str(" ./tmp")
            && !section.starts_with_str("record of files/declared: ")
            && !section.starts_with_str("record of files/access: ")
    });
    kept.flat_map(|section| [section, end.as_slice()]).collect::<Vec<_>>().concat().into()
}

fn nothing_is_torn(root: &ScratchRoot, case: &Case, moment: &str) {
    let whole = [
        STOCK,
        NEW_STOCK,
        WANTED,
        WANTED_LATER,
        WANTED_LAST,
        "edited\n",
        "keep\n",
        "kept\n",
        "STOCK LINE\nANOTHER STOCK LINE\n",
    ];
    let mut stock_is_somewhere = root.contents().iter().any(|content| content == STOCK || content == NEW_STOCK);
    for folder in ["etc", "var/lib/holo/files/base/etc", "var/lib/holo/files/provisioned/etc"] {
        let Ok(entries) = std::fs::read_dir(root.join(folder)) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_ours =
                ["holorc", "os-release"].contains(&name) || [".holonew", ".new"].iter().any(|end| name.ends_with(end));
            if is_ours || path.is_symlink() || path.is_dir() {
                continue;
            }
            let content = std::fs::read_to_string(&path).unwrap();
            let is_whole = whole.contains(&content.as_str()) || (folder == "etc" && may_be_written_to(case, &content));
            assert!(is_whole, "{moment}: {} is torn: {content:?}", path.display());
            stock_is_somewhere |= name.starts_with("plain") && (content == STOCK || content == NEW_STOCK);
        }
    }
    assert!(stock_is_somewhere, "{moment}: the stock file is lost\n{}", root.dump());
}

/// Returns true if a file that is written in place may have this content during the change.
fn may_be_written_to(case: &Case, content: &str) -> bool {
    let is_between = |new: &str, old: &str| {
        let is_of_one =
            |(index, byte): (usize, u8)| [new, old].iter().any(|text| text.as_bytes().get(index) == Some(&byte));
        content.bytes().enumerate().all(is_of_one)
    };
    case.name.contains("in place")
        && [(WANTED, STOCK), (WANTED_LAST, WANTED)].iter().any(|(new, old)| is_between(new, old))
}

/// Returns a root with three targets, one to be replaced, one to become a symlink and one to be filtered, and a target
/// that never changes.
fn prepared(case: &Case, victim: Victim) -> ScratchRoot {
    let plugin = built("holo-files");
    let (plugin, version) = (plugin.display(), victim.version);
    let wrapper = format!(
        r#"#!/bin/sh
words=${{0%/*}}/words
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION={version}\nSESSION=1\n' ;;
scan) exec {plugin} scan ;;
*)
    if [ -e "$words" ]; then
        IFS='
'
        exec $(cat "$words") {plugin} "$@"
    fi
    exec {plugin} "$@" ;;
esac
"#
    );
    let root = ScratchRoot::in_memory()
        .binary(built("holo"))
        .script("plugin/holo-files", wrapper.as_str())
        .holorc("plugin files=plugin/holo-files\n")
        .file("etc/os-release", format!("ID={}\n", case.distribution).as_str())
        .file("etc/plain.conf", STOCK)
        .file("etc/linked.conf", STOCK)
        .file("etc/scripted.conf", STOCK)
        .file("etc/always.conf", "keep\n")
        .file("usr/share/holo/files/00-always/etc/always.conf", "kept\n")
        .dir("usr/share/holo/files/01-x/etc");
    (case.before)(&root);
    root
}

fn nothing(_: &ScratchRoot) {}

fn resources(root: &ScratchRoot) {
    resources_only(root);
}

fn resources_only(root: &ScratchRoot) {
    root.write("usr/share/holo/files/01-x/etc/plain.conf", WANTED);
    let link = root.join("usr/share/holo/files/01-x/etc/linked.conf");
    if !link.is_symlink() {
        std::os::unix::fs::symlink("plain.conf", link).unwrap();
    }
    root.write_script("usr/share/holo/files/01-x/etc/scripted.conf.holoscript", "#!/bin/sh\ntr a-z A-Z\n");
}

thread_local! {
    /// A target that is open for writing.
    static WRITER: RefCell<Option<File>> = const { RefCell::new(None) };
}

fn open_with_acl(root: &ScratchRoot) {
    // Allows a user, who need not exist, to read, but not the group.
    const ACL: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\x39\x30\0\0\x04\0\0\0\xff\xff\xff\xff\
        \x10\0\x04\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";
    resources(root);
    let target = root.join("etc/plain.conf");
    // Without support for ACLs, the file is still open.
    let _ = rustix::fs::setxattr(&target, "system.posix_acl_access", ACL, rustix::fs::XattrFlags::empty());
    WRITER.set(Some(File::options().append(true).open(target).unwrap()));
}

fn applied(root: &ScratchRoot) {
    resources(root);
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
}

fn upgraded(root: &ScratchRoot) {
    applied(root);
    root.write("usr/share/holo/files/01-x/etc/plain.conf", WANTED_LATER);
}

fn upgrade_again(root: &ScratchRoot) {
    root.write("usr/share/holo/files/01-x/etc/plain.conf", WANTED_LAST);
}

fn pacnew(root: &ScratchRoot) {
    applied(root);
    root.write("etc/scripted.conf.pacnew", STOCK);
    root.write("etc/plain.conf.pacnew", NEW_STOCK);
}

fn dpkg_old(root: &ScratchRoot) {
    applied(root);
    std::fs::rename(root.join("etc/plain.conf"), root.join("etc/plain.conf.dpkg-old")).unwrap();
    root.write("etc/plain.conf", NEW_STOCK);
    root.write("usr/share/holo/files/01-x/etc/plain.conf", WANTED_LATER);
}

fn scrubbed(root: &ScratchRoot) {
    applied(root);
    std::fs::remove_dir_all(root.join("usr/share/holo/files/01-x")).unwrap();
    std::fs::create_dir_all(root.join("usr/share/holo/files/01-x/etc")).unwrap();
}

fn scrubbed_with_pacnew(root: &ScratchRoot) {
    scrubbed(root);
    root.write("etc/plain.conf.pacnew", NEW_STOCK);
}

fn deleted(root: &ScratchRoot) {
    scrubbed(root);
    std::fs::remove_file(root.join("etc/scripted.conf")).unwrap();
    root.write("etc/scripted.conf.pacsave", "STOCK LINE\nANOTHER STOCK LINE\n");
}

fn modified(root: &ScratchRoot) {
    applied(root);
    root.write("etc/plain.conf", "edited\n");
    std::fs::remove_file(root.join("etc/linked.conf")).unwrap();
}

/// Declares a file that exists, one that becomes a symlink, one that is removed, and one in a new directory.
fn declared(root: &ScratchRoot) {
    declare(root, WANTED, "file");
}

fn declared_otherwise(root: &ScratchRoot) {
    declared(root);
    assert!(root.holo(&["apply"]).success());
    declare(root, WANTED_LATER, "other");
}

fn not_declared(root: &ScratchRoot) {
    declared(root);
    assert!(root.holo(&["apply"]).success());
    std::fs::remove_file(root.join("usr/share/holo/files/a.toml")).unwrap();
}

/// Edits make files in directories that are made too.
fn made_by_edits(root: &ScratchRoot) {
    let text = WANTED.trim_end();
    let line = |path: &str| format!("[[line]]\npath = \"/{path}\"\ncreate = true\nline = \"{text}\"\n");
    let definitions = line("etc/new/deep/file") + &line("etc/new/file");
    root.write("usr/share/holo/files/a.toml", definitions);
}

fn edits_taken_back(root: &ScratchRoot) {
    made_by_edits(root);
    assert!(root.holo(&["apply"]).success());
    assert_eq!(root.read("etc/new/deep/file"), WANTED);
    std::fs::remove_file(root.join("usr/share/holo/files/a.toml")).unwrap();
}

/// Declares the access of a directory tree, of two existing files, one with a different mode, and of a new file; as
/// root, also the group.
fn declare_access(root: &ScratchRoot, mode: &str, permissions: &str, group: u32) {
    let group = if rustix::process::geteuid().is_root() { format!("group = \"{group}\"\n") } else { String::new() };
    let definitions = format!(
        r#"[[file]]
path = "/etc/tree"
ensure = "directory"
recurse = true
mode = "{mode}"
{group}acl = ["default:user:12345:{permissions}"]

[[file]]
path = "/etc/plain.conf"
acl = ["user:12345:{permissions}"]

[[file]]
path = "/etc/with-mode.conf"
mode = "{mode}"
content = "{}"
acl = ["user:12345:{permissions}"]

[[file]]
path = "/etc/with-acl.conf"
content = "{}"
acl = ["user:12345:{permissions}", "user:12346:r"]
"#,
        WANTED.escape_default(),
        WANTED.escape_default()
    );
    root.write("usr/share/holo/files/a.toml", definitions);
}

fn access(root: &ScratchRoot) {
    for path in ["etc/plain.conf", "etc/with-mode.conf", "etc/tree/one", "etc/tree/below/two"] {
        root.write(path, STOCK);
    }
    std::fs::set_permissions(root.join("etc/with-mode.conf"), Permissions::from_mode(0o444)).unwrap();
    declare_access(root, "2750", "rw", 12345);
}

fn access_otherwise(root: &ScratchRoot) {
    access(root);
    assert!(root.holo(&["apply"]).success());
    declare_access(root, "0700", "r", 12346);
}

fn access_not_declared(root: &ScratchRoot) {
    access(root);
    assert!(root.holo(&["apply"]).success());
    std::fs::remove_file(root.join("usr/share/holo/files/a.toml")).unwrap();
}

/// Declares so many files that their records go to a journal first.
fn group_declared(root: &ScratchRoot) {
    // A unique original content is restored as the file itself, not as a copy.
    for (number, content) in ["edited\n", "keep\n", "kept\n"].into_iter().enumerate() {
        root.write(format!("etc/more{number}.conf"), content);
    }
    declare_group(root, WANTED);
}

fn group_declared_otherwise(root: &ScratchRoot) {
    group_declared(root);
    assert!(root.holo(&["apply"]).success());
    declare_group(root, WANTED_LATER);
}

fn group_not_declared(root: &ScratchRoot) {
    group_declared(root);
    assert!(root.holo(&["apply"]).success());
    std::fs::remove_file(root.join("usr/share/holo/files/a.toml")).unwrap();
}

fn declare_group(root: &ScratchRoot, content: &str) {
    declare(root, content, "file");
    let mut definitions = root.read("usr/share/holo/files/a.toml").to_string();
    for number in 0..6 {
        definitions += &format!("[[file]]\npath = \"/etc/more{number}.conf\"\ncontent = {content:?}\n");
    }
    root.write("usr/share/holo/files/a.toml", definitions);
}

fn declare(root: &ScratchRoot, content: &str, name: &str) {
    let definitions = format!(
        "[[file]]\npath = \"/etc/plain.conf\"\ncontent = {content:?}\nmode = \"0640\"\n\
         [[file]]\npath = \"/etc/linked.conf\"\nensure = \"symlink\"\ntarget = \"plain.conf\"\n\
         [[file]]\npath = \"/etc/scripted.conf\"\nensure = \"absent\"\n\
         [[file]]\npath = \"/etc/made\"\nensure = \"directory\"\nmode = \"0750\"\n\
         [[file]]\npath = \"/etc/made/by/us/{name}\"\ncontent = {content:?}\n"
    );
    root.write("usr/share/holo/files/a.toml", definitions);
}

/// Declares a file that must be written in place.
fn in_place(root: &ScratchRoot) {
    declare_in_place(root, WANTED);
}

fn otherwise_in_place(root: &ScratchRoot) {
    in_place(root);
    assert!(root.holo(&["apply"]).success());
    declare_in_place(root, WANTED_LAST);
}

fn not_in_place(root: &ScratchRoot) {
    in_place(root);
    assert!(root.holo(&["apply"]).success());
    std::fs::remove_file(root.join("usr/share/holo/files/a.toml")).unwrap();
}

fn declare_in_place(root: &ScratchRoot, content: &str) {
    let keys = format!("content = {content:?}\nmode = \"0600\"\nin_place = true\n");
    root.write("usr/share/holo/files/a.toml", format!("[[file]]\npath = \"/etc/plain.conf\"\n{keys}"));
}

fn no_definitions(root: &ScratchRoot) {
    std::fs::remove_dir_all(root.join("usr/share/holo/files")).unwrap();
    std::fs::create_dir_all(root.join("usr/share/holo/files")).unwrap();
}

fn overlay_after_declared(root: &ScratchRoot) {
    declare_plain(root);
    assert!(root.holo(&["apply"]).success());
    std::fs::remove_file(root.join("usr/share/holo/files/a.toml")).unwrap();
    root.write("usr/share/holo/files/01-x/etc/plain.conf", WANTED_LATER);
}

fn declared_after_overlay(root: &ScratchRoot) {
    let resource = "usr/share/holo/files/01-x/etc/plain.conf";
    root.write(resource, WANTED_LATER);
    assert!(root.holo(&["apply"]).success());
    std::fs::remove_file(root.join(resource)).unwrap();
    declare_plain(root);
}

fn declare_plain(root: &ScratchRoot) {
    let definition = format!("[[file]]\npath = \"/etc/plain.conf\"\ncontent = {WANTED:?}\n");
    root.write("usr/share/holo/files/a.toml", definition);
}
