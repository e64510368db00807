//! Tests of permission checks.
use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};

/// A directory that only the owner can write to, like all files in it.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Scratch {
        let scratch = Scratch(tempfile::tempdir().unwrap());
        for folder in ["a", "a/b", "other"] {
            fs::create_dir(scratch.path(folder)).unwrap();
            scratch.mode(folder, 0o755);
        }
        scratch.write("a/b/module", "one");
        scratch
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.0.path()).unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        self.mode(name, 0o755);
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn examine(&self, name: &str) -> Result<Trusted, String> {
        let short = |error: TrustError| error.to_string().replace(&format!("{}/", self.path("").display()), "");
        let root = fs::canonicalize(self.0.path()).unwrap();
        Trusted::examine(&self.path(name), &root).map_err(|error| short(error).replace(root.to_str().unwrap(), ""))
    }
}

#[test]
fn what_others_may_write_is_not_run() {
    let scratch = Scratch::new();
    assert!(scratch.examine("a/b/module").is_ok());
    for (name, mode) in [("a/b/module", 0o777), ("a/b/module", 0o775), ("a/b", 0o1777), ("a", 0o757), ("", 0o770)] {
        let before = fs::metadata(scratch.path(name)).unwrap().permissions().mode();
        scratch.mode(name, mode);
        let complaint = scratch.examine("a/b/module").unwrap_err();
        let expected = format!(": may be changed by others than its owner (mode {mode:04o}), and is not run");
        assert!(complaint.ends_with(&expected), "{name}: {complaint}");
        assert!(complaint.trim_start_matches('/').starts_with(name), "{name}: {complaint}");
        scratch.mode(name, before);
    }
    assert!(scratch.examine("a/b/module").is_ok());
}

#[test]
fn every_way_to_it_counts() {
    let scratch = Scratch::new();
    symlink("../a/b/module", scratch.path("other/link")).unwrap();
    symlink("other", scratch.path("way")).unwrap();
    assert!(scratch.examine("way/link").is_ok());
    // The directory of the link, and those of its target.
    for name in ["other", "a", "a/b"] {
        scratch.mode(name, 0o777);
        assert!(scratch.examine("way/link").unwrap_err().contains("mode 0777"), "{name}");
        scratch.mode(name, 0o755);
    }
    // An intermediate symlink in a directory that is in neither the path nor the target.
    fs::create_dir(scratch.path("stop")).unwrap();
    symlink("stop/next", scratch.path("first")).unwrap();
    symlink("../a/b/module", scratch.path("stop/next")).unwrap();
    assert!(scratch.examine("first").is_ok());
    scratch.mode("stop", 0o1777);
    assert!(scratch.examine("first").unwrap_err().contains("stop: may be changed by others"));
}

#[test]
fn links_that_lead_nowhere_are_errors() {
    let scratch = Scratch::new();
    symlink("loop", scratch.path("loop")).unwrap();
    assert!(scratch.examine("loop").is_err() && scratch.examine("missing").is_err() && scratch.examine("a/b").is_err());
    assert!(scratch.examine("a/../a/b/module").is_ok());
}

#[test]
fn what_belongs_to_somebody_else_is_not_run() {
    if !geteuid().is_root() {
        return;
    }
    let scratch = Scratch::new();
    for name in ["a/b/module", "a"] {
        std::os::unix::fs::chown(scratch.path(name), Some(4711), None).unwrap();
        assert!(scratch.examine("a/b/module").unwrap_err().contains("belongs to user 4711"));
        std::os::unix::fs::chown(scratch.path(name), Some(0), None).unwrap();
    }
    assert!(scratch.examine("a/b/module").is_ok());
}

#[test]
fn what_is_above_the_root_is_not_judged() {
    let scratch = Scratch::new();
    scratch.mode("a", 0o1777);
    let (path, root) = (scratch.path("a/b/module"), scratch.path("a/b"));
    assert!(Trusted::examine(&path, &root).is_ok());
    assert!(Trusted::examine(&path, &scratch.path("a")).is_err());
}

#[test]
fn a_change_is_seen_and_told_from_a_touch() {
    let scratch = Scratch::new();
    let before = scratch.examine("a/b/module").unwrap();
    assert!(!before.has_changed());
    scratch.write("a/b/new", "one");
    fs::rename(scratch.path("a/b/new"), scratch.path("a/b/module")).unwrap();
    assert!(before.has_changed());
    assert_eq!(scratch.examine("a/b/module").unwrap().digest(), before.digest());
    scratch.write("a/b/module", "two");
    assert_ne!(scratch.examine("a/b/module").unwrap().digest(), before.digest());
    fs::remove_file(scratch.path("a/b/module")).unwrap();
    assert!(before.has_changed());
}

#[test]
fn programs_are_examined_too() {
    assert!(examine_program(Path::new("/bin/sh")).is_ok());
    assert!(examine_program(Path::new("/nonexistent/sh")).is_err());
    assert!(examine_program(Path::new("/usr")).is_err());
}
