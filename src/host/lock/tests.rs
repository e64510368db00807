//! Tests of the lock.

use super::{create, create_in_steps, *};
use rustix::fs::{CWD, Mode};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("holo.pid");
    (folder, path)
}

fn dead_process() -> u32 {
    // The kernel's maximum process ID is 2^22.
    (1 << 22) + 1
}

fn ours() -> String {
    format!("{}\n", std::process::id())
}

#[test]
fn lock_file_contains_the_pid_and_is_removed() {
    let (_folder, path) = folder();
    let acquired = Lock::acquire(&path).unwrap();
    assert_eq!(acquired.taken_over_from, None);
    assert_eq!(fs::read_to_string(&path).unwrap(), ours());
    let error = Lock::acquire(&path).unwrap_err();
    assert!(error.is_held());
    let shown = path.display();
    assert_eq!(error.to_string(), format!("Cannot create lock file {shown}: open {shown}: file exists"));
    drop(acquired);
    assert!(!path.exists());
}

#[test]
fn missing_run_directory_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/holo.pid");
    drop(Lock::acquire(&path).unwrap());
    assert!(!path.exists() && path.parent().unwrap().is_dir());
    let deeper = folder.path().join("no/such/holo.pid");
    assert!(Lock::acquire(&deeper).unwrap_err().to_string().ends_with("no such file or directory"));
}

#[test]
fn lock_file_is_private() {
    let (_folder, path) = folder();
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    for make in [create, create_in_steps] {
        make(&path).unwrap();
        assert_eq!(mode(), 0o600);
        fs::remove_file(&path).unwrap();
    }
    fs::write(&path, format!("{}\n", dead_process())).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let acquired = Lock::acquire(&path).unwrap();
    assert!(acquired.taken_over_from.is_some());
    assert_eq!(mode(), 0o600);
}

#[test]
fn only_one_thread_gets_the_lock() {
    let (_folder, path) = folder();
    for left_behind in [false, true] {
        if left_behind {
            fs::write(&path, format!("{}\n", dead_process())).unwrap();
        }
        let all: Vec<_> = std::thread::scope(|scope| {
            let contenders: Vec<_> = (0..8).map(|_| scope.spawn(|| Lock::acquire(&path))).collect();
            contenders.into_iter().map(|contender| contender.join().unwrap()).collect()
        });
        assert_eq!(all.iter().filter(|acquired| acquired.is_ok()).count(), 1);
    }
}

#[test]
fn file_without_a_process_id_is_not_taken_over() {
    let (_folder, path) = folder();
    for respected in ["0\n", "-1\n", "", "garbage\n", "4194305 \u{feff}\n", "\n4194305\n"] {
        fs::write(&path, respected).unwrap();
        assert!(Lock::acquire(&path).unwrap_err().is_held(), "{respected:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), respected);
    }
}

#[test]
fn stale_lock_is_taken_over() {
    let (_folder, path) = folder();
    // A dead process, one with its surviving programs, and a reused process ID that is ours now.
    for left in [format!("{}\n\n\n\n\n\n", dead_process()), format!("{0}\n{0}\n", dead_process()), ours()] {
        fs::write(&path, &left).unwrap();
        let acquired = Lock::acquire(&path).unwrap();
        assert_eq!(acquired.taken_over_from.map(|pid| pid.to_string()).as_deref(), left.lines().next());
        assert_eq!(fs::read_to_string(&path).unwrap(), ours());
    }
}

#[test]
fn removed_lock_is_not_released_twice() {
    let (_folder, path) = folder();
    let first = Lock::acquire(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let second = Lock::acquire(&path).unwrap();
    drop(first);
    assert!(path.exists(), "it is the second one's");
    drop(second);
    assert!(!path.exists());
}

#[test]
fn lock_that_is_not_a_file_is_reported() {
    let (folder, path) = folder();
    let refusal = |what: &str| {
        let error = Lock::acquire(&path).unwrap_err();
        assert!(!error.is_held());
        assert_eq!(
            error.to_string(),
            format!(
                "Cannot create lock file {}: there is {what}, which is not a lock file; remove it manually",
                path.display()
            )
        );
    };
    fs::create_dir(&path).unwrap();
    refusal("a directory");
    fs::remove_dir(&path).unwrap();
    symlink(folder.path().join("nothing"), &path).unwrap();
    refusal("a symbolic link");
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(CWD, &path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    refusal("a FIFO");
    fs::remove_file(&path).unwrap();
    let _socket = UnixListener::bind(&path).unwrap();
    refusal("a socket");
}

#[test]
fn survivors_of_a_killed_apply_are_reported() {
    let (_folder, path) = folder();
    let held = create(&path).unwrap();
    assert_eq!(survivors(&path), None);
    rustix::io::pwrite(&held, format!("{}\n{}\n9999999\n", dead_process(), std::process::id()).as_bytes(), 0).unwrap();
    let name = fs::read_to_string("/proc/self/comm").unwrap();
    let text = format!(
        "process {} was killed, and programs that it started are still running: process {} ({})",
        dead_process(),
        std::process::id(),
        name.trim()
    );
    assert_eq!(survivors(&path).unwrap().to_string(), text);
    let error = Lock::acquire(&path).unwrap_err();
    assert!(!error.is_held());
    assert_eq!(error.to_string(), format!("Cannot create lock file {}: {text}", path.display()));
}

#[test]
fn other_errors_are_reported() {
    let error = Lock::acquire(Path::new("/nowhere/at/all/holo.pid")).unwrap_err();
    assert!(!error.is_held());
    assert_eq!(
        error.to_string(),
        "Cannot create lock file /nowhere/at/all/holo.pid: open /nowhere/at/all/holo.pid: no such file or directory"
    );
}
