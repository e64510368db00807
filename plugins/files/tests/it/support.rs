//! Roots with declared files, and how holo is run on them.

use holo_testing::{Run, ScratchRoot, binaries::built};

/// Returns a root where holo manages files.
pub(crate) fn root() -> ScratchRoot {
    ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .file("etc/os-release", "ID=debian\n")
        .dir("var/lib/holo/files")
}

pub(crate) fn declare(root: &ScratchRoot, definitions: &str) {
    root.write("usr/share/holo/files/a.toml", definitions);
}

#[track_caller]
pub(crate) fn applied(root: &ScratchRoot) -> Run {
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(0), "{run}");
    run
}

#[track_caller]
pub(crate) fn unchanged(root: &ScratchRoot) {
    let run = applied(root);
    assert_eq!((run.stdout_lossy(), run.stderr_lossy()), ("".into(), "".into()));
}

#[track_caller]
pub(crate) fn refused(root: &ScratchRoot, words: &str) -> Run {
    let before = root.dump();
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains(words), "{words:?} is not said:\n{run}");
    assert_eq!(root.dump(), before, "something was changed");
    run
}
