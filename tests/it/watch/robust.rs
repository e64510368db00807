//! Disturbances of a watch itself, and of the system below it.

use super::{PATIENCE, SILENCE, Watching};
use crate::controls;
use holo_testing::{Run, ScratchRoot, binaries::built, copy_program};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

/// Runs a script as root in new namespaces, with `holo` as its first argument. Its mounts disappear afterwards.
fn in_namespaces(root: &ScratchRoot, script: &str) -> Run {
    let holo = built("holo");
    let words = ["--user", "--map-root-user", "--mount", "sh", "-ec", script, "sh", holo.to_str().unwrap()];
    root.run("unshare", &words)
}

pub(super) fn number_needed() {
    // Directories that are missing count, too.
    let root = super::root().dir("etc/holo/data").dir("etc/holo/facts.d").dir("etc/holo/resources");
    let script = r#"
        limit() { echo "$1" >/proc/sys/user/max_inotify_watches; }
        limit 2
        said=$("$1" watch --for 100ms 2>&1) && exit 9
        needed=$(echo "$said" | sed -n 's/.*!! \([0-9]*\) directories are to be watched.*/\1/p')
        limit $((needed - 3))
        "$1" watch --for 100ms && exit 8
        limit "$needed"
        "$1" watch --for 100ms"#;
    let run = in_namespaces(&root, script);
    assert!(run.success(), "{run}");
    let run = in_namespaces(&root, "echo 0 >/proc/sys/user/max_inotify_instances; exec \"$1\" watch --for 1s");
    assert_eq!(run.status, Some(255), "{run}");
    assert!(run.stderr_lossy().contains("raise fs.inotify.max_user_instances"), "{run}");
}

/// A program that is missing is no error of a run, so that removing a package does not need its configuration removed, too.
pub(super) fn plugin_missing() {
    // What is not below the root is looked for every ten seconds.
    for (is_below, times) in [(true, 2), (false, 1)] {
        let root = controls::root("ENTITY: x:a\nWATCH: /state/a\n").file("state/a", "");
        let elsewhere = tempfile::tempdir().unwrap();
        let program = if is_below { root.join("opt/holo-x") } else { elsewhere.path().join("holo-x") };
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::rename(root.join("usr/lib/holo/holo-x"), &program).unwrap();
        // A line without a path does not hinder it.
        root.write("etc/holorc", format!("plugin x={}\nplugin y=\n", program.display()));
        let mut watching = Watching::start(&root, &["--apply"]);
        let away = program.with_extension("away");
        for _ in 0..times {
            fs::rename(&program, &away).unwrap();
            fs::remove_file(root.join("state/a")).unwrap();
            let error = watching.until("error").pop().unwrap()["text"].to_string();
            assert!(error.contains("holo-x: file not found"), "{error}");
            assert_eq!(watching.until("watching").last().unwrap()["entities"], 0);
            fs::rename(&away, &program).unwrap();
            assert_eq!(watching.until("watching").last().unwrap()["entities"], 1);
            watching.until("repaired");
            watching.expect_silence();
        }
        watching.stop(&root);
    }
}

pub(super) fn unmounted() {
    let root = super::root();
    let script = r#"
        cd "$HOLO_ROOT_DIR"
        until_said() { for _ in $(seq 600); do ! grep -q "$1" out || return 0; sleep 0.05; done; cat out; exit 9; }
        time_used() { cut -d ' ' -f 14,15 "/proc/$watch/stat"; }
        rm srv/app/conf
        mount -t tmpfs none srv/app
        "$1" apply
        "$1" watch --json >out 2>&1 & watch=$!
        until_said '"event":"watching"'
        umount srv/app
        until_said '"event":"drifted","id":"file:/srv/app/conf"'
        sleep 1
        before=$(time_used)
        sleep 1
        [ "$before" = "$(time_used)" ] || { echo "busy"; exit 8; }
        # What was below the file system is watched now.
        cp etc/motd srv/app/conf
        printf 'port 80\n' >srv/app/conf
        until_said '"event":"returned","id":"file:/srv/app/conf"'
        kill "$watch"
        wait "$watch" || [ $? = 143 ]"#;
    let run = in_namespaces(&root, script);
    assert!(run.success(), "{run}");
}

pub(super) fn read_only() {
    let root = super::root();
    let cache = tempfile::tempdir().unwrap();
    let script = format!(
        r#"
        export TMPDIR={}
        cd /
        mount --bind "$HOLO_ROOT_DIR" "$HOLO_ROOT_DIR"
        rm "$HOLO_ROOT_DIR/srv/app/conf"
        mount -o remount,bind,ro "$HOLO_ROOT_DIR"
        "$1" watch --for 300ms && exit 9
        [ $? = 3 ] || exit 8
        "$1" watch --apply --for 300ms"#,
        cache.path().display()
    );
    let run = in_namespaces(&root, &script);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("read-only file system"), "{run}");
    assert_eq!(run.stdout_lossy().matches("drifted file:/srv/app/conf").count(), 2, "{run}");
}

pub(super) fn normal_user() {
    let root = controls::root("ENTITY: x:a\nWATCH: /secret/a\nENTITY: x:b\nWATCH: /state/b\n");
    let root = root.mode("tmp", 0o1777).dir("bin").dir("secret/below").mode("secret", 0o700);
    copy_program(built("holo"), root.join("bin/holo"));
    root.write("state/a", "");
    root.write("state/b", "");
    let script = r#"exec setpriv --reuid=65534 --regid=65534 --clear-groups -- bin/holo watch --once"#;
    let script = format!("(sleep 2; rm state/b) & {script}");
    let run = root.run("sh", &["-c", &script]);
    assert_eq!(run.status, Some(3), "{run}");
    let warning = format!(">> Changes are not noticed in {}: you may not read it", root.join("secret").display());
    assert!(run.stderr_lossy().contains(&warning), "{run}");
    assert_eq!(run.stdout_lossy().trim_start(), "drifted x:b (it was removed)\n", "{run}");
}

pub(super) fn overflow() {
    let root = super::root().file("etc/holorc.d/10-x", "plugin x\n").dir("usr/share/holo/x").dir("state");
    let plugin = controls::PLUGIN.replace("scan)", "scan) echo scan >>\"$HOLO_ROOT_DIR/log\";");
    let root = root.script("usr/lib/holo/holo-x", plugin).file("report", "ENTITY: x:a\n").file("state/a", "");
    let mut watching = Watching::start(&root, &[]);
    // No watched path shows the change.
    fs::remove_file(root.join("state/a")).unwrap();
    root.write("log", "");
    watching.expect_silence();
    let id = Pid::from_raw(watching.process.id().cast_signed()).unwrap();
    kill_process(id, Signal::STOP).unwrap();
    let queue: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    let mut files = ["one", "other"].map(|name| File::create(root.join("srv/app").join(name)).unwrap());
    // The kernel merges equal consecutive events.
    for _ in 0..=queue / 2 {
        files.iter_mut().for_each(|file| file.write_all(b"x").unwrap());
    }
    kill_process(id, Signal::CONT).unwrap();
    watching.expect("drifted", "x:a");
    watching.expect_silence();
    assert_eq!(root.read("log"), "scan\n");
    watching.stop(&root);
}

pub(super) fn during_survey() {
    let root = controls::root("ENTITY: x:a\nWATCH: /state/a\nENTITY: x:b\n");
    let slow_scan =
        "scan) [ ! -e \"$HOLO_ROOT_DIR/slow\" ] || { mv \"$HOLO_ROOT_DIR/slow\" \"$HOLO_ROOT_DIR/scans\"; sleep 1; };";
    let slow_check = "check)\n[ $2 != x:b ] || while [ -e \"$HOLO_ROOT_DIR/held\" ]; do sleep 0.1; done;";
    root.write_script(
        "usr/lib/holo/holo-x",
        controls::PLUGIN.replace("scan)", slow_scan).replace("check)", slow_check),
    );
    ["state/a", "state/b"].iter().for_each(|path| root.write(path, ""));
    let mut watching = Watching::start(&root, &["--apply"]);
    let scans = |number: usize| {
        ["held", "slow"].iter().for_each(|path| root.write(path, ""));
        root.write("etc/holorc", format!("plugin x\n{}", "\n".repeat(number)));
        let begun = Instant::now();
        while !root.exists("scans") {
            assert!(begun.elapsed() < PATIENCE);
            thread::sleep(Duration::from_millis(10));
        }
        fs::remove_file(root.join("scans")).unwrap();
        fs::remove_file(root.join("state/a")).unwrap();
    };
    scans(1);
    watching.expect("drifted", "x:a");
    watching.expect("repaired", "x:a");
    fs::remove_file(root.join("held")).unwrap();
    watching.expect_silence();
    // An entity that drifts together with a change of the configuration is repaired just as early.
    root.write("held", "");
    root.write("etc/holorc", "plugin x\n# changed\n");
    fs::remove_file(root.join("state/a")).unwrap();
    watching.expect("drifted", "x:a");
    watching.expect("repaired", "x:a");
    fs::remove_file(root.join("held")).unwrap();
    watching.expect_silence();
    // An entity that is no longer defined causes no error.
    root.write("report", "ENTITY: x:b\n");
    scans(2);
    fs::remove_file(root.join("held")).unwrap();
    let lines = watching.until("watching");
    assert_eq!(lines.len(), 1, "{lines:?}");
    watching.stop(&root);
}

/// Returns a root whose entity takes long to repair, and a watch that is repairing it.
fn in_repair() -> (ScratchRoot, Watching) {
    let root = controls::root("ENTITY: x:a\nWATCH: /state/a\n");
    let slow = controls::PLUGIN.replace("apply)", "apply)\nwhile [ -e \"$HOLO_ROOT_DIR/slow\" ]; do sleep 0.1; done;");
    let root = root.script("usr/lib/holo/holo-x", slow);
    ["state/a", "slow"].iter().for_each(|path| root.write(path, ""));
    let mut watching = Watching::start(&root, &["--apply"]);
    fs::remove_file(root.join("state/a")).unwrap();
    watching.expect("drifted", "x:a");
    assert!(watching.next(SILENCE).is_none());
    (root, watching)
}

pub(super) fn plugin_killed() {
    let root = controls::root("ENTITY: x:a\nWATCH: /state/a\nENTITY: x:b\nWATCH: /state/b\n");
    let dying =
        "apply)\n    [ ! -e \"$HOLO_ROOT_DIR/dies\" ] || { echo >>\"$HOLO_ROOT_DIR/deaths\"; kill -KILL $$; }\n";
    root.write_script("usr/lib/holo/holo-x", controls::PLUGIN.replace("apply)\n", dying));
    let mut watching = Watching::start(&root, &["--apply"]);
    watching.until("repaired");
    watching.until("repaired");
    root.write("dies", "");
    ["state/a", "state/b"].iter().for_each(|path| fs::remove_file(root.join(path)).unwrap());
    let lines = watching.until("failed");
    assert!(lines.last().unwrap()["reason"].as_str().unwrap().contains("killed"), "{lines:?}");
    // Each of the two is tried again after one second and after two more.
    let begun = Instant::now();
    while root.read("deaths").to_string().lines().count() < 6 {
        assert!(begun.elapsed() < PATIENCE, "{}", root.read("deaths"));
        thread::sleep(Duration::from_millis(20));
    }
    assert!(begun.elapsed() >= Duration::from_millis(2900), "{:?}", begun.elapsed());
    fs::remove_file(root.join("dies")).unwrap();
    watching.until("repaired");
    watching.until("repaired");
    assert!(root.exists("state/a") && root.exists("state/b"));
    watching.stop(&root);
}

pub(super) fn killed() {
    let (root, mut watching) = in_repair();
    kill_process(Pid::from_raw(watching.process.id().cast_signed()).unwrap(), Signal::KILL).unwrap();
    watching.end();
    // It could not remove its cache. The plugin is still running, and is waited for.
    let caches: Vec<_> = fs::read_dir(root.join("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut watching = Watching::start(&root, &["--apply"]);
    assert_eq!(watching.first[0]["event"], "drifted");
    let warning = watching.until("warning").pop().unwrap()["text"].to_string();
    assert!(warning.contains("was killed, and programs that it started are still running"), "{warning}");
    fs::remove_file(root.join("slow")).unwrap();
    // Either of the two may repair it.
    let begun = Instant::now();
    while !watching.next(SILENCE).is_some_and(|line| line["event"] == "repaired" || line["event"] == "returned") {
        assert!(begun.elapsed() < PATIENCE);
    }
    assert!(root.exists("state/a"));
    caches.iter().for_each(|cache| fs::remove_dir_all(cache).unwrap());
    watching.stop(&root);
}

pub(super) fn ended() {
    let (root, watching) = in_repair();
    let begun = Instant::now();
    watching.stop(&root);
    assert!(begun.elapsed() < Duration::from_secs(20), "it has waited for the repair");
    assert!(!root.exists("state/a"));
    fs::remove_file(root.join("slow")).unwrap();
    thread::sleep(Duration::from_millis(500));
    assert!(!root.exists("state/a"), "the plugin went on");
    assert!(root.holo(&["apply"]).success());
    assert!(root.exists("state/a"));
}
