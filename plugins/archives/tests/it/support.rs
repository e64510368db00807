//! Support of the tests: a server that misbehaves on demand, archives of every format, roots.

pub(crate) mod samples;

use holo_testing::{Run, ScratchRoot};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// The checksum of bytes, as definitions have it.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold("sha256:".to_owned(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// A root with the plugin, and one definition with these lines.
pub(crate) fn root(lines: &str) -> ScratchRoot {
    let root = ScratchRoot::new().plugin("archives").dir("srv");
    define(&root, lines);
    root
}

/// Replaces the definition.
pub(crate) fn define(root: &ScratchRoot, lines: &str) {
    root.write("usr/share/holo/archives/10-test.toml", format!("[[archive]]\npath = \"/srv/app.tar\"\n{lines}\n"));
}

/// An apply that ends well.
#[track_caller]
pub(crate) fn apply(root: &ScratchRoot) -> Run {
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(0), "{run}");
    assert!(!run.stderr_lossy().contains("panicked"), "{run}");
    run
}

/// An apply that has nothing to do.
#[track_caller]
pub(crate) fn settled(root: &ScratchRoot) {
    let run = apply(root);
    assert_eq!(run.stdout, "", "{run}");
    let check = root.holo(&["check"]);
    // A check does not ask the server for something new.
    let is_unknown = check.status == Some(3) && !check.stdout_lossy().contains("would");
    assert!(check.status == Some(0) || is_unknown, "{check}");
}

/// An apply that fails and says so.
#[track_caller]
pub(crate) fn fails(root: &ScratchRoot, words: &str) -> Run {
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains(words), "expected {words:?} in\n{run}");
    assert!(!run.stderr_lossy().contains("panicked"), "{run}");
    run
}

/// The number of KiB that each process may have. The window of the decompressor is a part of it.
const LITTLE_MEMORY: u32 = 48 << 10;

/// Runs a verb, which succeeds with no more memory than an archive of a few entries needs.
#[track_caller]
pub(crate) fn in_little_memory(root: &ScratchRoot, verb: &str) -> Run {
    let holo = holo_testing::binaries::binary("holo").unwrap();
    let script = format!("ulimit -d {LITTLE_MEMORY} && exec \"$0\" {verb}");
    let run = root.run("sh", &["-c".as_ref(), script.as_ref(), holo.as_os_str()]);
    assert_eq!(run.status, Some(0), "{run}");
    run
}
