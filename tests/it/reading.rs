//! Read-only verbs write only to the cache, and work for any user on any root.

use bstr::ByteSlice;
use holo_testing::overlay::MOUNTS;
use holo_testing::{Need, Run, ScratchRoot, binaries::built, copy_program, trial};
use libtest_mimic::{Failed, Trial};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const PLUGINS: [&str; 10] = [
    "packages",
    "files",
    "archives",
    "users-groups",
    "ssh-keys",
    "scaffold",
    "ansible",
    "services",
    "exec",
    "run-scripts",
];
/// The verbs, and their exit status if there are pending changes.
const VERBS: [(&[&str], i32); 9] = [
    (&["check"], 3),
    (&["apply", "--dry-run"], 3),
    (&["scan"], 0),
    (&["scan", "--short"], 0),
    (&["diff"], 0),
    (&["graph"], 0),
    (&["selectors"], 0),
    (&["health"], 0),
    (&["facts"], 0),
];
/// The verbs about earlier applies, and their exit status for root and for users who may not read the state.
const AFTERWARDS: [(&[&str], i32, i32); 9] = [
    (&["check", "files"], 3, 3),
    (&["history"], 0, 255),
    (&["history", "file:/etc/motd"], 0, 255),
    (&["history", "show"], 0, 255),
    (&["why", "/etc/motd"], 0, 0),
    (&["blame", "/etc/motd"], 0, 0),
    (&["doctor"], 1, 1),
    (&["report"], 0, 0),
    (&["generations"], 0, 255),
];
/// The verbs that have an answer without it.
const ANSWERED: [&str; 4] = ["check", "why", "doctor", "report"];
const OLD_STATE_FILE: &str = "var/lib/holo/users-groups/state.toml";
const MOUNTED: [Need; 3] = [Need::Root, Need::Program("unshare"), MOUNTS];
const NEEDS: [Need; 2] = [Need::Root, Need::Program("setpriv")];

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("nothing is written before the first apply", || nothing_is_written(false)),
        Trial::test("nothing is written after an apply", || nothing_is_written(true)),
        Trial::test("an old state file is migrated by apply alone", old_state_file),
        Trial::test("a plugin is told whether the run only reads", plugins_are_told),
        Trial::test("apply alone makes state directories, also when a generator fails", state_directories_are_made),
        trial("anybody may look before the first apply", &NEEDS, || anybody_may_look(false)),
        trial("anybody may look after an apply", &NEEDS, || anybody_may_look(true)),
        trial("anybody may look back as far as records may be read", &NEEDS, || looking_back(as_nobody, true)),
        trial("one may look back on a root that is mounted read-only", &MOUNTED, || looking_back(read_only, false)),
        trial("what cannot be read is said", &NEEDS, unreadable_state_is_said),
        trial("a root may be mounted read-only", &MOUNTED, read_only_root),
    ]
}

/// Returns a root with pending changes for every plugin.
fn root() -> ScratchRoot {
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .file("etc/os-release", "ID=debian\n")
        .file("etc/passwd", "root:x:0:0::/root:/bin/sh\nfred:x:77:88::/home/fred:/bin/sh\n")
        .file("etc/group", "root:x:0:\nfred:x:88:\n")
        .file("etc/motd", "stock\n")
        .file("etc/old", "stock\n")
        .dir("home/fred")
        .file("srv/tool", "a tool\n");
    let archive = "/srv/tool";
    PLUGINS
        .iter()
        .fold(root, |root, plugin| root.plugin(plugin))
        .resource("packages/a.toml", "[[package]]\nname = \"nginx\"\n")
        .resource("files/10-ours/etc/motd", "ours\n")
        .resource("files/10-ours/etc/old", "ours\n")
        .resource("files/a.toml", "[[file]]\npath = \"/etc/new/file\"\ncontent = \"new\\n\"\n")
        .resource("archives/a.toml", format!("[[archive]]\npath = \"/opt/tool\"\nurl = \"file://{archive}\"\n"))
        .resource("users-groups/a.toml", "[[group]]\nname = \"staff\"\ngid = 99\n[[user]]\nname = \"jo\"\nuid = 99\n")
        .resource(
            "ssh-keys/fred/a.pub",
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti a\n",
        )
        .resource("scaffold/a.toml", "[[scaffold]]\ntarget = \"/srv/made\"\nsource = \"a\"\n")
        .resource("scaffold/a/page", "{{ facts.os.id }}\n")
        .resource("services/a.toml", "[[service]]\nname = \"nginx\"\n")
        .resource("ansible/a.toml", "[[task]]\nname = \"a\"\nmodule = \"ping\"\nscrub = {}\n")
        .resource("exec/a.toml", "[[exec]]\nname = \"a\"\ncommand = \"true\"\n")
        .script("usr/share/holo/run-scripts/a", "#!/bin/sh\ntrue\n")
}

/// Applies everything, then removes some definitions and changes others, so that there are pending changes again.
fn applied(root: ScratchRoot) -> ScratchRoot {
    let run = root.holo(&["apply"]);
    assert!(run.stdout_lossy().contains("file:/etc/new/file"), "{run}");
    fs::remove_file(root.join("usr/share/holo/files/10-ours/etc/old")).unwrap();
    root.resource("files/10-ours/etc/motd", "ours, but newer\n")
        .resource("files/a.toml", "")
        .resource("exec/a.toml", "")
        .resource("scaffold/a/page", "new\n")
}

fn ensure(holds: bool, what: &str, run: &Run) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(format!("{what}\n{run}").into()) }
}

/// Returns the files below the root with their inodes, times and modes, except those in the cache.
///
/// Every process that reads the state database rebuilds the index of its log, and gives the log the owner that it has.
fn inventory(root: &ScratchRoot) -> BTreeMap<PathBuf, (u64, (i64, i64), u32)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            if path == root.join("tmp") {
                continue;
            }
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            let time = match path.extension().and_then(OsStr::to_str) {
                Some("db-shm") => (0, 0),
                Some("db-wal") => (metadata.mtime(), metadata.mtime_nsec()),
                _ => (metadata.ctime(), metadata.ctime_nsec()),
            };
            found.insert(path, (metadata.ino(), time, metadata.mode()));
        }
    }
    found
}

fn nothing_is_written(after_an_apply: bool) -> Result<(), Failed> {
    let root = if after_an_apply { applied(root()) } else { root() };
    verbs_write_nothing(&root)?;
    let run = root.holo(&["scan", "file:/etc/motd"]);
    let base = format!("store at {}\n", root.join("var/lib/holo/files/base/etc/motd").display());
    ensure(run.stdout_lossy().contains(&base), "paths should be those that apply will use", &run)
}

fn verbs_write_nothing(root: &ScratchRoot) -> Result<(), Failed> {
    let before = inventory(root);
    for (verb, status) in VERBS {
        let run = root.holo(verb);
        ensure(run.status == Some(status), &format!("{verb:?} should end with {status}"), &run)?;
        let after = inventory(root);
        let written: Vec<&Path> = after
            .iter()
            .filter(|(path, found)| before.get(*path) != Some(found))
            .map(|(path, _)| path.as_path())
            .collect();
        ensure(written.is_empty() && after.len() == before.len(), &format!("{verb:?} has written {written:?}"), &run)?;
        ensure(fs::read_dir(root.join("tmp")).unwrap().count() == 0, "the cache is left", &run)?;
    }
    Ok(())
}

/// Adds the state of the first version of the plugin `users-groups`.
fn with_old_state_file(root: ScratchRoot) -> ScratchRoot {
    root.file(OLD_STATE_FILE, "provisionedUsers = [\"jo\", \"fred\"]\n")
}

fn old_state_file() -> Result<(), Failed> {
    let root = with_old_state_file(root());
    let shown = root.join(OLD_STATE_FILE).display().to_string();
    verbs_write_nothing(&root)?;
    let run = root.holo(&["scan", "--short", "users-groups"]);
    ensure(
        run.stdout.trim_ascii() == b"group:staff\nuser:fred\nuser:jo",
        "entities are those after the migration",
        &run,
    )?;
    let says = format!(">> {shown} is migrated by the next apply\n");
    ensure(run.stderr_lossy().contains(&says), "the migration is pending", &run)?;
    let run = root.holo(&["check", "user:fred"]);
    let would_scrub = run.status == Some(3) && run.stdout_lossy().contains("would run userdel fred");
    ensure(would_scrub, "a check should find what an apply will find", &run)?;
    let run = root.holo(&["apply", "users-groups"]);
    let says = format!(
        ">> Migrating {shown}...\n!! This might require manual intervention! Please find instructions at:\n\
         !!   <https://github.com/holocm/holo-users-groups/wiki/Migrating-to-v2.0>\n\
         >> Writing empty base image for user:jo\n>> Writing empty base image for user:fred\n\
         >> All entities migrated. Removing {shown}...\n"
    );
    let is_done = run.success() && run.stderr_lossy().contains(&says) && run.stdout_lossy().contains("userdel fred");
    ensure(is_done && !root.exists(OLD_STATE_FILE), &format!("an apply should say {says}"), &run)
}

/// A plugin of either version that lists its environment as an entity.
fn plugins_are_told() -> Result<(), Failed> {
    for version in [3, 4] {
        let script = format!(
            "#!/bin/sh\ncase $1 in\ninfo) printf 'MIN_API_VERSION=3\\nMAX_API_VERSION={version}\\n' ;;\n\
             scan) echo \"ENTITY: told:$HOLO_READ_ONLY\" ;;\napply) echo \"applies $2, told $HOLO_READ_ONLY\" ;;\nesac\n"
        );
        let root = ScratchRoot::new()
            .binary(built("holo"))
            .dir("usr/share/holo/told")
            .script("plugin", &script)
            // As if the caller were a plugin in a read-only run.
            .env("HOLO_READ_ONLY", "1");
        root.write("etc/holorc", format!("plugin told={}\n", root.join("plugin").display()));
        let run = root.holo(&["scan", "--short"]);
        ensure(run.stdout.trim_ascii() == b"told:1", "scan only reads", &run)?;
        let run = root.holo(&["check"]);
        ensure(run.stdout_lossy().contains("told:1"), "check only reads", &run)?;
        let run = root.holo(&["apply", "--dry-run"]);
        ensure(run.stdout_lossy().contains("told:1"), "a preview only reads", &run)?;
        let run = root.holo(&["apply"]);
        ensure(run.stdout_lossy().contains("applies told:0, told 0"), "apply does not only read", &run)?;
    }
    Ok(())
}

fn state_directories_are_made() -> Result<(), Failed> {
    let root = root().script("usr/share/holo/generators/10-fails", "#!/bin/sh\nexit 3\n");
    let is_there = |plugin: &&str| root.exists(format!("var/lib/holo/{plugin}"));
    let run = root.holo(&["check"]);
    ensure(run.status == Some(1) && !PLUGINS.iter().any(is_there), "a check should make none", &run)?;
    let run = root.holo(&["apply"]);
    ensure(run.status == Some(1) && PLUGINS.iter().all(is_there), "an apply should make all", &run)?;
    // Below another root, existing modes are kept, as in version 3; a newly created parent of all state is private.
    let mode = |path: &str| format!("{:o}", fs::metadata(root.join(path)).unwrap().mode() & 0o7777);
    let modes = || ["var/lib", "var/lib/holo", "var/lib/holo/files"].map(mode).join(" ");
    ensure(modes() == "755 755 755", &format!("modes should stay: {}", modes()), &run)?;
    fs::remove_dir_all(root.join("var")).unwrap();
    let run = root.holo(&["apply"]);
    ensure(modes() == "755 700 755", &format!("no other user should enter: {}", modes()), &run)
}

/// Runs holo as an unprivileged user, with a cache directory in a world-writable place.
fn as_nobody(root: &ScratchRoot, arguments: &[&str]) -> Run {
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"].map(str::to_owned);
    let holo = root.join("bin/holo").display().to_string();
    let words = nobody.into_iter().chain([holo]).chain(arguments.iter().map(ToString::to_string));
    root.run("setpriv", &words.collect::<Vec<_>>())
}

/// Adds programs that everyone can run.
fn root_for_everybody(root: ScratchRoot) -> ScratchRoot {
    let root = root.dir("bin").mode("tmp", 0o1777);
    for name in PLUGINS.iter().map(|plugin| format!("holo-{plugin}")).chain(["holo".to_owned()]) {
        copy_program(built(&name), root.join("bin").join(name));
    }
    root.holorc(PLUGINS.map(|plugin| format!("plugin {plugin}\n")).concat())
}

fn anybody_may_look(after_an_apply: bool) -> Result<(), Failed> {
    let root = root_for_everybody(if after_an_apply { applied(root()) } else { root() });
    for (verb, status) in VERBS {
        let run = as_nobody(&root, verb);
        if !after_an_apply {
            ensure(
                run.status == Some(status) && run.stderr.is_empty(),
                &format!("{verb:?} should end with {status}"),
                &run,
            )?;
            continue;
        }
        // The records of some plugins are private by now. Then an entity may fail, with a reason.
        let can_begin = matches!(run.status, Some(0 | 1));
        ensure(can_begin, &format!("{verb:?} should do what can be done"), &run)?;
        ensure(run.status == Some(0) || run.stderr.contains_str("permission denied"), "should say why", &run)?;
    }
    Ok(())
}

fn unreadable_state_is_said() -> Result<(), Failed> {
    let root = root_for_everybody(applied(root())).mode("var/lib/holo/files", 0o700);
    let path = root.join("var/lib/holo/files");
    let says = format!(">> open {}: permission denied; what files has applied before is not known\n", path.display());
    let run = as_nobody(&root, &["scan", "--short"]);
    ensure(run.status != Some(255) && run.stderr.starts_with(says.as_bytes()), &format!("should say {says}"), &run)?;
    ensure(run.stdout.contains_str("file:/etc/motd\n"), "should list what there is", &run)
}

/// Runs holo on a read-only root, with a cache elsewhere.
fn read_only(root: &ScratchRoot, arguments: &[&str]) -> Run {
    let cache = tempfile::tempdir().unwrap();
    let script = "mount --bind \"$HOLO_ROOT_DIR\" \"$HOLO_ROOT_DIR\" && mount -o remount,bind,ro \"$HOLO_ROOT_DIR\" \
                  && cd / && TMPDIR=$0 exec \"$@\"";
    let holo = root.join("bin/holo").display().to_string();
    let cache = cache.path().display().to_string();
    let words = ["--mount", "sh", "-c", script, &cache, &holo].into_iter().chain(arguments.iter().copied());
    root.run("unshare", &words.collect::<Vec<_>>())
}

/// Two applies are recorded, and the second one is followed by a manual change.
fn looking_back(holo: fn(&ScratchRoot, &[&str]) -> Run, is_hidden: bool) -> Result<(), Failed> {
    let root = ScratchRoot::new()
        .dir("bin")
        .mode("tmp", 0o1777)
        .env("HOLO_HISTORY", "1")
        .file("etc/os-release", "ID=debian\n")
        .file("etc/motd", "stock\n")
        .resource("files/10-ours/etc/motd", "ours\n")
        .holorc("plugin files\n");
    for name in ["holo", "holo-files"] {
        copy_program(built(name), root.join("bin").join(name));
    }
    let root = root.binary(built("holo"));
    for content in ["ours\n", "newer\n", "newest\n"] {
        root.write("usr/share/holo/files/10-ours/etc/motd", content);
        if content != "newest\n" {
            let run = root.holo(&["apply"]);
            ensure(run.success(), "should apply", &run)?;
        }
    }
    root.write("etc/motd.holonew", "left\n");
    for (verb, all, some) in AFTERWARDS {
        let status = if is_hidden { some } else { all };
        let run = holo(&root, verb);
        ensure(run.status == Some(status), &format!("{verb:?} should end with {status}"), &run)?;
        let says_so = run.stderr.contains_str("permission denied") || run.stdout.contains_str("permission denied");
        let may_be_silent = verb[0] == "blame" || (verb[0] == "report" && says_so);
        ensure(says_so == is_hidden || may_be_silent, &format!("{verb:?} should say what it cannot read"), &run)?;
        let is_answered = !is_hidden || ANSWERED.contains(&verb[0]) || verb[0] == "blame";
        ensure(
            is_answered != run.stdout.trim_ascii().is_empty(),
            &format!("{verb:?} should say what can be said"),
            &run,
        )?;
        ensure(!run.stderr.contains_str("panicked"), "should not panic", &run)?;
    }
    Ok(())
}

fn read_only_root() -> Result<(), Failed> {
    let root = with_old_state_file(root_for_everybody(applied(root())));
    for (verb, status) in VERBS {
        let run = read_only(&root, verb);
        let is_sound = run.status == Some(status) && !run.stderr.contains_str("ead-only");
        ensure(is_sound, &format!("{verb:?} should end with {status}"), &run)?;
    }
    Ok(())
}
