//! Test support: a server that misbehaves on demand, archives of all formats, and roots.

pub(crate) mod samples;

use holo_testing::{Run, ScratchRoot};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Returns the checksum of bytes, in the format of definitions.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold("sha256:".to_owned(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Creates a root with the plugin, and one definition with these lines.
pub(crate) fn root(lines: &str) -> ScratchRoot {
    let root = ScratchRoot::new().plugin("archives").dir("srv");
    define(&root, lines);
    root
}

/// Replaces the definition.
pub(crate) fn define(root: &ScratchRoot, lines: &str) {
    root.write("usr/share/holo/archives/10-test.toml", format!("[[archive]]\npath = \"/srv/app.tar\"\n{lines}\n"));
}

/// Runs an apply that succeeds.
#[track_caller]
pub(crate) fn apply(root: &ScratchRoot) -> Run {
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(0), "{run}");
    assert!(!run.stderr_lossy().contains("panicked"), "{run}");
    run
}

/// Asserts that an apply makes no changes.
#[track_caller]
pub(crate) fn settled(root: &ScratchRoot) {
    let run = apply(root);
    assert_eq!(run.stdout, "", "{run}");
    let check = root.holo(&["check"]);
    // A check does not contact the server.
    let is_unknown = check.status == Some(3) && !check.stdout_lossy().contains("would");
    assert!(check.status == Some(0) || is_unknown, "{check}");
}

/// Runs an apply that fails with this message.
#[track_caller]
pub(crate) fn fails(root: &ScratchRoot, words: &str) -> Run {
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains(words), "expected {words:?} in\n{run}");
    assert!(!run.stderr_lossy().contains("panicked"), "{run}");
    run
}

/// The memory limit of each process, in KiB, which includes the window of the decompressor.
const LITTLE_MEMORY: u32 = 256 << 10;

/// Runs a command that must succeed with the memory that an archive of a few entries needs.
#[track_caller]
pub(crate) fn in_little_memory(root: &ScratchRoot, verb: &str) -> Run {
    let holo = holo_testing::binaries::binary("holo").unwrap();
    let script = format!("ulimit -d {LITTLE_MEMORY} && exec \"$0\" {verb}");
    let run = root.run("sh", &["-c".as_ref(), script.as_ref(), holo.as_os_str()]);
    assert_eq!(run.status, Some(0), "{run}");
    run
}
