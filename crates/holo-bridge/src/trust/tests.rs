//! Tests of modules that change.

use super::*;

#[test]
fn a_change_is_seen_and_told_from_a_touch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("module");
    let examine = || Trusted::examine(&path, folder.path()).unwrap();
    let write = |text: &str| {
        fs::write(folder.path().join("new"), text).unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
    };
    write("one");
    let before = examine();
    assert!(!before.has_changed());
    write("one");
    assert!(before.has_changed());
    assert_eq!(examine().digest(), before.digest());
    write("two");
    assert_ne!(examine().digest(), before.digest());
    fs::remove_file(&path).unwrap();
    assert!(before.has_changed());
}
