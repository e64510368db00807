//! Inputs that change while a run reads them: each run uses a consistent state of the inputs, and does not scrub an
//! entity whose definition is missing only for a moment.
//!
//! `strace` stops the run when it opens a given path. The inputs change while it is stopped, so no test depends on
//! timing.

use holo_testing::processes::{Signal, send};
use holo_testing::{Need, Run, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The number of definition files, and of files declared by each.
const FILES: [usize; 2] = [6, 20];
const DEFINITIONS: &str = "usr/share/holo/files";
const OVERLAY: &str = "usr/share/holo/files/10-x/etc/motd";
const PINNED: &str = "var/lib/holo/.engine/inputs";
/// The directory that a run opens when it takes the lock.
const LOCK: &str = "run";

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [(&str, fn()); 16] = [
        ("apply reads the inputs again if a generation is released before it takes the lock", release_before_lock),
        ("apply reads the inputs again if a generation is released while it reads them", release_while_reading),
        ("apply reads the inputs again if another generation is used before it takes the lock", rollback_before_lock),
        ("apply reads the inputs again if another generation is used while it reads them", rollback_while_reading),
        ("apply uses a generation that is selected before it takes the lock", first_rollback_before_lock),
        ("check and scan show all entities if a generation is released while they read it", check_and_scan),
        ("watch reads the inputs again if a generation is released while it reads them", watch),
        ("inputs that another run reads are removed by a later apply", removed_later),
        ("apply scrubs nothing while a package manager replaces a directory of definitions", replaced_directory),
        ("apply uses the definitions of a directory that is replaced before it takes the lock", upgraded_directory),
        ("apply scrubs nothing while an editor writes a definition file", truncated_file),
        ("apply uses an overlay that is replaced before it takes the lock", replaced_overlay),
        ("apply scrubs nothing while an editor writes an overlay that hides another", truncated_overlay),
        ("apply of one entity does not scrub it while its definition is replaced", one_entity),
        ("apply fails if the inputs change whenever they are read", changing_inputs),
        ("apply scrubs nothing after an earlier entity has changed the inputs", changed_by_the_run),
    ];
    cases.into_iter().map(|(name, case)| trial_of(name, &[Need::Program("strace")], case)).collect()
}

/// Returns a root with many declared files and an overlay, with generations enabled.
fn root() -> ScratchRoot {
    let root = ScratchRoot::in_memory()
        .binary(built("holo"))
        .env("HOLO_HISTORY", "1")
        .plugin("files")
        .file("etc/os-release", "ID=debian\n")
        .file("etc/motd", "stock\n");
    define(&root, "one");
    root
}

/// Writes all definitions. The text is the content of every declared file, and of the overlay.
fn define(root: &ScratchRoot, text: &str) {
    let [files, declared] = FILES;
    for file in 0..files {
        let define = |number| format!("[[file]]\npath = \"/srv/{file}-{number}\"\ncontent = \"{text}\\n\"\n");
        root.write(definition(file), (0..declared).map(define).collect::<String>());
    }
    root.write(OVERLAY, format!("{text}\n"));
}

fn definition(file: usize) -> String {
    format!("{DEFINITIONS}/{file}.toml")
}

/// Returns a root with two generations, the first of which is in use.
fn rolled_back() -> ScratchRoot {
    let root = root();
    applied(&root);
    define(&root, "two");
    applied(&root);
    assert!(root.holo(&["rollback", "1"]).success());
    root
}

#[track_caller]
fn applied(root: &ScratchRoot) -> Run {
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    run
}

/// Asserts that all files have this content.
#[track_caller]
fn has_all(root: &ScratchRoot, text: &str, run: &Run) {
    let [files, declared] = FILES;
    let paths = (0..files).flat_map(|file| (0..declared).map(move |number| format!("srv/{file}-{number}")));
    for path in paths.chain(["etc/motd".to_owned()]) {
        assert!(root.exists(&path), "{path} is missing\n{run}");
        assert_eq!(root.read(&path), format!("{text}\n"), "{path}\n{run}");
    }
    assert!(!run.stdout_lossy().contains("Scrubbing"), "{run}");
}

#[track_caller]
fn is_read_again(run: &Run, reason: &str) {
    let warning = format!(">> Reading the inputs again: {reason} in the meantime\n");
    assert_eq!(run.stderr_lossy().matches(&warning).count(), 1, "{run}");
}

const ROLLED_BACK: &str = "`holo rollback` has switched to others";

/// Returns the definition file that is read first, among the inputs of the generation in use.
fn pinned_definition(root: &ScratchRoot) -> PathBuf {
    let directory = fs::read_dir(root.join(PINNED)).unwrap().next().unwrap().unwrap();
    Path::new(PINNED).join(directory.file_name()).join(definition(0))
}

/// Runs holo, and stops it and its plugins whenever they open this path. The inputs change while the first of them is
/// stopped.
#[track_caller]
fn stopped_at(root: &ScratchRoot, arguments: &[&str], path: impl AsRef<Path>, change: impl FnOnce()) -> Run {
    let log = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let (path, holo) = (root.join(path), built("holo"));
    let strace = ["-f", "-qq", "-e", "trace=open,openat", "-e", "inject=open,openat:signal=SIGSTOP"];
    let paths = ["-o", log.to_str().unwrap(), "-P", path.to_str().unwrap(), holo.to_str().unwrap()];
    let words = [&strace[..], &paths, arguments].concat();
    let mut change = Some(change);
    let run = thread::scope(|scope| {
        let run = scope.spawn(|| root.run("strace", &words));
        let mut handled = 0;
        let deadline = Instant::now() + Duration::from_secs(60);
        while !run.is_finished() {
            let stops = stops(&log);
            for process in stops.iter().skip(handled) {
                change.take().into_iter().for_each(|change| change());
                send(*process, Signal::CONT);
            }
            handled = stops.len();
            assert!(Instant::now() < deadline, "the run does not end");
            thread::sleep(Duration::from_millis(2));
        }
        run.join().unwrap()
    });
    assert!(change.is_none(), "{} was not opened\n{run}", path.display());
    run
}

/// Returns the processes that strace has stopped, in order.
fn stops(log: &Path) -> Vec<u32> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let stopped = text.lines().filter(|line| line.contains("--- stopped by SIGSTOP ---"));
    stopped.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
}

fn release(root: &ScratchRoot) {
    let run = root.holo(&["rollback", "--release"]);
    assert!(run.success(), "{run}");
}

fn rollback(root: &ScratchRoot, generation: &str) {
    let run = root.holo(&["rollback", generation]);
    assert!(run.success(), "{run}");
}

fn release_before_lock() {
    let root = rolled_back();
    let run = stopped_at(&root, &["apply"], LOCK, || release(&root));
    assert!(run.success(), "{run}");
    has_all(&root, "two", &run);
    is_read_again(&run, ROLLED_BACK);
}

fn release_while_reading() {
    let root = rolled_back();
    let run = stopped_at(&root, &["apply"], pinned_definition(&root), || release(&root));
    assert!(run.success(), "{run}");
    has_all(&root, "two", &run);
    is_read_again(&run, ROLLED_BACK);
}

fn rollback_before_lock() {
    let root = rolled_back();
    let run = stopped_at(&root, &["apply"], LOCK, || rollback(&root, "2"));
    assert!(run.success(), "{run}");
    has_all(&root, "two", &run);
    is_read_again(&run, ROLLED_BACK);
}

fn rollback_while_reading() {
    let root = rolled_back();
    let run = stopped_at(&root, &["apply"], pinned_definition(&root), || rollback(&root, "2"));
    assert!(run.success(), "{run}");
    has_all(&root, "two", &run);
    is_read_again(&run, ROLLED_BACK);
}

fn first_rollback_before_lock() {
    let root = root();
    applied(&root);
    define(&root, "two");
    applied(&root);
    let run = stopped_at(&root, &["apply"], LOCK, || rollback(&root, "1"));
    assert!(run.success(), "{run}");
    has_all(&root, "one", &run);
    assert!(run.stderr_lossy().contains(">> using generation 1 of"), "{run}");
}

fn check_and_scan() {
    for verb in ["check", "scan"] {
        let root = rolled_back();
        let run = stopped_at(&root, &[verb], pinned_definition(&root), || release(&root));
        let text = run.stdout_lossy();
        assert!(!text.contains("crub"), "{run}");
        let [files, declared] = FILES;
        assert_eq!(text.matches("file:/srv/").count(), files * declared, "{run}");
        // A check shows what an apply would do now, with the current inputs.
        assert_eq!(run.status, Some(if verb == "check" { 3 } else { 0 }), "{run}");
    }
}

fn watch() {
    let root = rolled_back();
    let watch = ["watch", "--apply", "--for", "1s", "--json"];
    let run = stopped_at(&root, &watch, pinned_definition(&root), || release(&root));
    assert!(run.success(), "{run}");
    has_all(&root, "two", &run);
}

fn removed_later() {
    let root = rolled_back();
    let run = stopped_at(&root, &["scan"], pinned_definition(&root), || {
        release(&root);
        assert_eq!(fs::read_dir(root.join(PINNED)).unwrap().count(), 1);
    });
    assert!(run.success(), "{run}");
    applied(&root);
    assert!(!root.exists(PINNED));
}

fn replaced_directory() {
    let root = root();
    applied(&root);
    fs::rename(root.join(DEFINITIONS), root.join("usr/old")).unwrap();
    fs::create_dir(root.join(DEFINITIONS)).unwrap();
    let run = stopped_at(&root, &["apply"], LOCK, || {
        fs::remove_dir(root.join(DEFINITIONS)).unwrap();
        fs::rename(root.join("usr/old"), root.join(DEFINITIONS)).unwrap();
    });
    assert!(run.success(), "{run}");
    has_all(&root, "one", &run);
    is_read_again(&run, &format!("{} has changed", root.join("usr/share/holo").display()));
}

fn upgraded_directory() {
    let root = root();
    applied(&root);
    let run = stopped_at(&root, &["apply"], LOCK, || {
        fs::rename(root.join(DEFINITIONS), root.join("usr/old")).unwrap();
        define(&root, "two");
    });
    assert!(run.success(), "{run}");
    has_all(&root, "two", &run);
}

fn truncated_file() {
    let root = root();
    applied(&root);
    let file = definition(1);
    let text = root.read(&file);
    root.write(&file, "");
    let run = stopped_at(&root, &["apply"], LOCK, || root.write(&file, &text));
    assert!(run.success(), "{run}");
    has_all(&root, "one", &run);
    is_read_again(&run, &format!("{} has changed", root.join(&file).display()));
}

fn replaced_overlay() {
    let root = root();
    applied(&root);
    let run = stopped_at(&root, &["apply"], LOCK, || {
        root.write("usr/new", "two\n");
        fs::rename(root.join("usr/new"), root.join(OVERLAY)).unwrap();
    });
    assert!(run.success(), "{run}");
    assert_eq!(root.read("etc/motd"), "two\n");
    is_read_again(&run, &format!("{} has changed", root.join(OVERLAY).parent().unwrap().display()));
}

fn truncated_overlay() {
    let own = "etc/holo/resources/files/10-x/etc/motd";
    let root = root().file(own, "own\n");
    applied(&root);
    // An empty file masks the shared one.
    root.write(own, "");
    let run = stopped_at(&root, &["apply"], LOCK, || root.write(own, "new\n"));
    assert!(run.success() && !run.stdout_lossy().contains("Scrubbing"), "{run}");
    assert_eq!(root.read("etc/motd"), "new\n");
    is_read_again(&run, &format!("{} has changed", root.join(own).display()));
}

fn one_entity() {
    for (id, file) in [("file:/etc/motd", OVERLAY.to_owned()), ("file:/srv/1-0", definition(1))] {
        let root = root();
        applied(&root);
        fs::rename(root.join(&file), root.join("usr/moved")).unwrap();
        let run = stopped_at(&root, &["apply", id], LOCK, || {
            fs::rename(root.join("usr/moved"), root.join(&file)).unwrap();
        });
        assert!(run.success(), "{run}");
        has_all(&root, "one", &run);
        // An entity whose definition is really removed is scrubbed.
        fs::remove_file(root.join(&file)).unwrap();
        let run = root.holo(&["apply", id]);
        assert!(run.success() && run.stdout_lossy().contains("Scrubbing"), "{run}");
        assert!(!run.stderr_lossy().contains("again"), "{run}");
    }
}

/// Adds a plugin of version 3 that changes the inputs during a scan or an apply.
fn with_plugin(root: &ScratchRoot, scan: &str, apply: &str) {
    let plugin = format!(
        "#!/bin/sh\ncd \"$HOLO_ROOT_DIR\"\ncase $1 in\ninfo) printf 'MIN_API_VERSION=3\\nMAX_API_VERSION=3\\n' ;;\n\
         scan) echo 'ENTITY: demo:x'; {scan} ;;\napply) {apply} ;;\nesac\n"
    );
    root.write_script("plugin/holo-demo", plugin);
    let holorc = root.read("etc/holorc");
    root.write("etc/holorc", format!("plugin demo=plugin/holo-demo\n{holorc}"));
    fs::create_dir(root.join("usr/share/holo/demo")).unwrap();
}

fn changing_inputs() {
    let root = root();
    applied(&root);
    with_plugin(&root, "echo >>usr/share/holo/demo/log", "true");
    fs::remove_file(root.join(definition(1))).unwrap();
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(255), "{run}");
    let log = root.join("usr/share/holo/demo/log");
    let error = format!("!! the inputs keep changing while they are read: {} has changed;", log.display());
    assert!(run.stderr_lossy().contains(&error), "{run}");
    has_all(&root, "one", &run);
    assert_eq!(root.read("usr/share/holo/demo/log").len(), 3);
    assert!(!root.exists("run/holo.pid"));
}

fn changed_by_the_run() {
    let root = root();
    applied(&root);
    with_plugin(&root, "true", "mv moved usr/share/holo/files/1.toml 2>&1 || true");
    fs::rename(root.join(definition(1)), root.join("moved")).unwrap();
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(3), "{run}");
    let reason = "not scrubbed now, as the inputs have changed since they were read; the next apply does it";
    assert_eq!(run.stderr_lossy().matches(reason).count(), FILES[1], "{run}");
    let run = applied(&root);
    has_all(&root, "one", &run);
    fs::remove_file(root.join(definition(1))).unwrap();
    applied(&root);
    assert!(!root.exists("srv/1-0") && root.exists("srv/0-0"));
}
