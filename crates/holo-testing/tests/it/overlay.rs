//! Tests that an overlay has this machine's files, and that changes in it do not reach the machine.

use holo_testing::overlay::{NEEDS, Overlay};
use holo_testing::trial_of;
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [(&str, fn()); 5] = [
        ("it has the machine's files, and keeps what is done to itself", keeps_to_itself),
        ("a status, both streams and input arrive", arrives),
        ("files are written inside even where a symlink leads elsewhere", symlinks),
        ("processes inside are numbered anew, and end with it", processes),
        ("directories can be bound, and only be read", bound),
    ];
    cases.map(|(name, case)| trial_of(name, NEEDS, case)).into()
}

fn keeps_to_itself() {
    let passwd = fs::read("/etc/passwd").unwrap();
    let system = Overlay::new();
    assert_eq!(system.read("/etc/passwd"), passwd);
    system.must("echo changed >/etc/passwd; mkdir /etc/of-the-overlay; touch /run/of-the-overlay /tmp/of-the-overlay");
    assert_eq!(system.read("/etc/passwd"), "changed\n");
    assert!(system.exists("/etc/of-the-overlay"));
    assert_eq!(fs::read("/etc/passwd").unwrap(), passwd);
    for folder in ["/etc", "/run", "/tmp"] {
        assert!(!Path::new(folder).join("of-the-overlay").exists());
    }
    let other = Overlay::new();
    assert!(!other.exists("/etc/of-the-overlay") && !other.exists("/tmp/of-the-overlay"));
    assert!(!fs::read_to_string("/proc/mounts").unwrap().contains("upperdir=upper"));
}

fn arrives() {
    let system = Overlay::new().env("EXTRA", "more");
    let run = system.sh("echo out $EXTRA ${HOLO_ROOT_DIR-unset} $(id -u); echo err >&2; exit 3");
    assert_eq!((run.status, &*run.stdout_lossy(), &*run.stderr_lossy()), (Some(3), "out more unset 0\n", "err\n"));
    system.write("/a/new/folder/file", b"\xff\n");
    assert_eq!(system.read("/a/new/folder/file"), b"\xff\n");
    assert_eq!(system.must("stat -c %a /a/new/folder/file"), "644\n");
}

fn symlinks() {
    // Temporary files may be in /dev/shm, which the overlay does not cover.
    let outside = tempfile::tempdir_in("/tmp").unwrap();
    let system = Overlay::new();
    system.must(&format!("mkdir -p {0}; ln -s {0} /leads-out", outside.path().display()));
    system.write("/leads-out/file", "inside\n");
    assert_eq!(system.read("/leads-out/file"), "inside\n");
    assert!(!outside.path().join("file").exists());
}

fn processes() {
    let system = Overlay::new();
    // The first process may still be the shell that is about to execute cat.
    let first = system.must("cat /proc/1/comm");
    assert!(first == "cat\n" || first == "sh\n", "{first}");
    let marker = format!("86400.{}", std::process::id());
    let is_running = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let command = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).unwrap_or_default();
        processes.map(command).any(|line| line.starts_with(format!("sleep\0{marker}").as_bytes()))
    };
    let background = system.background(&format!("setsid sleep {marker} & echo ready; wait"));
    let begun = std::time::Instant::now();
    while !is_running() {
        assert!(begun.elapsed().as_secs() < 60, "it never begins");
    }
    background.end();
    assert!(is_running(), "what has left its group goes on until the system ends");
    drop(system);
    assert!(!is_running());
}

fn bound() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "outside\n").unwrap();
    let system = Overlay::with(&[outside.path()]);
    assert_eq!(system.read(outside.path().join("file")), "outside\n");
    let run = system.sh(&format!("echo x >{}/file", outside.path().display()));
    assert!(!run.success() && run.stderr_lossy().contains("Read-only"), "{run}");
}
