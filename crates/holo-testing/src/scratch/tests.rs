//! Tests of scratch roots, and of programs on them.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

const FACTS: &str = r#"#!/bin/sh
printf '%s\n' "$HOLO_ROOT_DIR" "$TMPDIR" "$LC_ALL" "${HOME-no home}" "$EXTRA" "$PWD" "$*"
cat >&2
printf '\377' >&2
exit 3
"#;

/// Returns the message of a panic.
fn panicked(action: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(action)).unwrap_err();
    payload.downcast_ref::<String>().unwrap().clone()
}

#[test]
fn the_builder_makes_what_it_says() {
    let root = ScratchRoot::new()
        .holorc("plugin files\n")
        .file("etc/motd", "hello\n")
        .mode("etc/motd", 0o600)
        .resource("files/01-x/etc/motd", "hi\n")
        .script("usr/share/holo/generators/01.sh", "#!/bin/sh\n")
        .symlink("usr/lib/link", "../nowhere")
        .dir("usr/share/holo/print");
    let expected = "\
file      0644 ./etc/holorc
plugin files
----------------------------------------
file      0600 ./etc/motd
hello
----------------------------------------
directory 0755 ./run/
----------------------------------------
directory 0755 ./tmp/
----------------------------------------
symlink   0777 ./usr/lib/link
../nowhere
----------------------------------------
file      0644 ./usr/share/holo/files/01-x/etc/motd
hi
----------------------------------------
file      0755 ./usr/share/holo/generators/01.sh
#!/bin/sh
----------------------------------------
directory 0755 ./usr/share/holo/print/
----------------------------------------
directory 0755 ./var/lib/holo/
----------------------------------------
";
    assert_eq!(root.dump(), expected);
    assert!(root.exists("usr/lib/link"));
    assert!(!root.exists("usr/lib/nothing"));
    root.write("etc/motd", "changed");
    assert_eq!(root.read("etc/motd"), "changed");
}

#[test]
fn programs_run_in_a_hermetic_environment() {
    let root = ScratchRoot::new().env("EXTRA", "more").script("tmp/facts", FACTS);
    let program = root.join("tmp/facts");
    let root = root.binary(&program);
    let run = root.holo(&["apply", "x"]);
    let path = root.path().display();
    let facts = format!("{path}\n{path}/tmp\nC\nno home\nmore\n{path}\napply x\n");
    assert_eq!(run.stdout_lossy(), facts);
    assert_eq!(run.stderr, b"\xff".as_slice());
    assert_eq!((run.status, run.signal, run.success()), (Some(3), None, false));
    assert!(run.to_string().starts_with("exit status 3\nstdout:\n/"));
}

#[test]
fn a_signal_is_told_from_a_status() {
    let run = ScratchRoot::new().run("sh", &["-c", "kill -TERM $$"]);
    assert_eq!((run.status, run.signal), (None, Some(15)));
}

#[test]
fn a_hanging_program_is_killed_and_fails_the_test() {
    let root = ScratchRoot::new().time_limit(Duration::from_millis(200));
    let start = Instant::now();
    let message = panicked(|| {
        let _run = root.run("sh", &["-c", "echo begun; sleep 600"]);
    });
    assert!(message.starts_with("sh was ended after 200ms\n"), "{message}");
    assert!(message.contains("begun"));
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn paths_that_lead_out_of_the_root_are_refused() {
    let root = ScratchRoot::new().symlink("out", "/");
    for path in ["/etc/x", "../x", "etc/../../x"] {
        let message = panicked(|| root.write(path, ""));
        assert_eq!(message, format!("use {path}: not relative to the root, as in etc/motd"));
    }
    let message = panicked(|| root.write("out/x", ""));
    assert!(message.ends_with("/out: is a symlink, and nothing is made through symlinks"));
}

#[test]
fn a_root_removes_itself_even_if_it_is_locked() {
    let root = ScratchRoot::new().file("etc/a/b", "").mode("etc/a", 0);
    let path = root.path().to_owned();
    drop(root);
    assert!(!path.exists());
}

#[test]
fn failures_point_at_the_test() {
    use std::sync::{Arc, Mutex};
    let places = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&places);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let line = info.location().map(std::panic::Location::line);
        seen.lock().unwrap().push((std::thread::current().id(), line));
    }));
    let root = ScratchRoot::new();
    let line = line!() + 1;
    let failed = catch_unwind(AssertUnwindSafe(|| root.read("etc/missing")));
    std::panic::set_hook(before);
    assert!(failed.is_err());
    let here = (std::thread::current().id(), Some(line));
    assert!(places.lock().unwrap().contains(&here));
}
