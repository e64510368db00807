//! The rules of version 3 for new versions from packages, deleted targets and symlinks.

use holo_testing::{Need, Run, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

const STOCK: &str = "stock\n";
const EDITED: &str = "edited\n";
const WANTED: &str = "wanted\n";
const TARGET: &str = "etc/motd";
const RESOURCE: &str = "usr/share/holo/files/01-x/etc/motd";
const BASE: &str = "var/lib/holo/files/base/etc/motd";
const MODIFIED: &str = "!! Entity has been modified by user (use --force to overwrite)";
const DELETED: &str = "!! Entity has been deleted by user (use --force to restore)";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial_of("an edited target beside a new stock file is not overwritten", &[], edited_beside_stock),
        trial_of("a new stock file stays the base though a script fails", &[], stock_though_script_fails),
        trial_of("a new stock file stays the base though the target is as it shall be", &[], stock_though_equal),
        trial_of("a check says the same of new stock files, and changes nothing", &[], check_beside_stock),
        trial_of("a deleted target needs force, whatever lies beside it", &[], deleted_beside_stock),
        trial_of("a script gives the mode and owner of the file that a symlink leads to", &[Need::Root], linked),
        trial_of("a symlink that leads nowhere is named", &[], leads_nowhere),
        trial_of("version 4 is told that a failure has changed nothing", &[], failed_unchanged),
    ]
}

fn root(distribution: &str) -> ScratchRoot {
    let root = ScratchRoot::new().binary(built("holo")).plugin("files");
    root.file("etc/os-release", format!("ID={distribution}\n"))
}

#[track_caller]
fn refused(root: &ScratchRoot, message: &str) -> Run {
    let run = root.holo(&["apply"]);
    assert_eq!((run.status, run.stderr_lossy().trim_end()), (Some(1), message), "{run}");
    run
}

#[track_caller]
fn applied(root: &ScratchRoot, arguments: &[&str]) -> Run {
    let run = root.holo(&[&["apply"], arguments].concat());
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    run
}

fn edited_beside_stock() {
    for (distribution, stock) in
        [("arch", ".pacnew"), ("alpine", ".apk-new"), ("debian", ".dpkg-dist"), ("suse", ".rpmnew")]
    {
        let root = root(distribution).file(TARGET, EDITED).file(RESOURCE, WANTED);
        root.write(format!("{TARGET}{stock}"), STOCK);
        let run = refused(&root, MODIFIED);
        assert!(run.stdout_lossy().contains(">> found updated target base: "), "{run}");
        assert_eq!(root.read(TARGET), EDITED);
        assert_eq!(root.read(BASE), STOCK);
        assert!(!root.exists(format!("{TARGET}{stock}")));
        refused(&root, MODIFIED);
        applied(&root, &["--force"]);
        assert_eq!(root.read(TARGET), WANTED);
        assert_eq!(root.read(BASE), STOCK);
    }
}

fn stock_though_script_fails() {
    let root = root("arch").file(TARGET, EDITED).file("etc/motd.pacnew", STOCK);
    let root = root.script(format!("{RESOURCE}.holoscript"), "#!/bin/sh\nexit 1\n");
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("motd.holoscript failed: exit status 1"), "{run}");
    assert!(run.stdout_lossy().contains(">> found updated target base: "), "{run}");
    assert_eq!(root.read(TARGET), EDITED);
    assert_eq!(root.read(BASE), STOCK);
    assert!(!root.exists("etc/motd.pacnew"));
    fs::remove_file(root.join(format!("{RESOURCE}.holoscript"))).unwrap();
    applied(&root, &[]);
    assert_eq!(root.read(TARGET), STOCK);
}

fn stock_though_equal() {
    let root = root("arch").file(TARGET, WANTED).file("etc/motd.pacnew", STOCK).file(RESOURCE, WANTED);
    applied(&root, &[]);
    assert_eq!(root.read(TARGET), WANTED);
    assert_eq!(root.read(BASE), STOCK);
    assert!(!root.exists("etc/motd.pacnew"));
}

fn check_beside_stock() {
    let root = root("debian").file(TARGET, EDITED).file("etc/motd.dpkg-dist", STOCK).file(RESOURCE, WANTED);
    let root = root.dir("var/lib/holo/files");
    let before = root.dump();
    let run = root.holo(&["check"]);
    assert!(run.stderr_lossy().contains(MODIFIED), "{run}");
    // The package manager has saved the edited target.
    root.write("etc/motd.dpkg-old", EDITED);
    root.write(TARGET, STOCK);
    fs::remove_file(root.join("etc/motd.dpkg-dist")).unwrap();
    let run = root.holo(&["check"]);
    assert!(run.stderr_lossy().contains(MODIFIED), "{run}");
    root.write("etc/motd.dpkg-old", WANTED);
    let run = root.holo(&["check"]);
    assert_eq!((run.status, run.stderr_lossy().as_ref()), (Some(3), ""), "{run}");
    root.write("etc/motd.dpkg-dist", STOCK);
    root.write(TARGET, EDITED);
    fs::remove_file(root.join("etc/motd.dpkg-old")).unwrap();
    assert_eq!(root.dump(), before);
}

fn deleted_beside_stock() {
    for (distribution, saved, stock) in [("fedora", ".rpmsave", ".rpmnew"), ("debian", ".dpkg-old", ".dpkg-dist")] {
        let root = root(distribution).file(TARGET, STOCK).file(RESOURCE, WANTED);
        applied(&root, &[]);
        fs::remove_file(root.join(TARGET)).unwrap();
        root.write(format!("{TARGET}{saved}"), EDITED);
        root.write(format!("{TARGET}{stock}"), "new stock\n");
        assert!(root.holo(&["check"]).stderr_lossy().contains(DELETED));
        refused(&root, DELETED);
        assert!(!root.exists(TARGET));
        assert_eq!(root.read(format!("{TARGET}{saved}")), EDITED);
        assert_eq!(root.read(format!("{TARGET}{stock}")), "new stock\n");
        applied(&root, &["--force"]);
        assert_eq!(root.read(TARGET), WANTED);
        assert_eq!(root.read(BASE), "new stock\n");
    }
}

fn linked() {
    let root = root("arch").file("etc/linked", STOCK).mode("etc/linked", 0o640);
    std::os::unix::fs::chown(root.join("etc/linked"), Some(1234), Some(4321)).unwrap();
    symlink("second", root.join(TARGET)).unwrap();
    symlink("/etc/linked", root.join("etc/second")).unwrap();
    let root = root.script(format!("{RESOURCE}.holoscript"), "#!/bin/sh\ncat\necho more\n");
    applied(&root, &[]);
    let target = fs::symlink_metadata(root.join(TARGET)).unwrap();
    assert_eq!(root.read(TARGET), "stock\nmore\n");
    assert_eq!((target.mode(), target.uid(), target.gid()), (0o100_640, 1234, 4321));
    assert!(applied(&root, &[]).stdout.is_empty());
    // If a plain file has replaced the symlink, nothing has to be followed.
    root.write("usr/share/holo/files/00-x/etc/motd", WANTED);
    applied(&root, &[]);
    let target = fs::symlink_metadata(root.join(TARGET)).unwrap();
    assert_eq!(root.read(TARGET), "wanted\nmore\n");
    assert_eq!((target.mode(), target.uid(), target.gid()), (0o100_755, 0, 0));
}

fn leads_nowhere() {
    let root = root("arch");
    symlink("missing", root.join(TARGET)).unwrap();
    let root = root.script(format!("{RESOURCE}.holoscript"), "#!/bin/sh\ncat\n");
    let missing = root.join("etc/missing");
    let expected = format!("!! stat {}: no such file or directory", missing.display());
    refused(&root, &expected);
    symlink("missing-too", missing).unwrap();
    refused(&root, &expected);
}

fn failed_unchanged() {
    let said = |root: &ScratchRoot| {
        let environment = ["CACHE_DIR=tmp", "RESOURCE_DIR=usr/share/holo/files", "STATE_DIR=var/lib/holo/files"];
        let script = format!(
            "cd {root}; mkdir -p var/lib/holo/files; export HOLO_ROOT_DIR=. HOLO_API_VERSION=4 HOLO_{}; \
             {} apply file:/etc/motd 3>&1 >/dev/null 2>&1",
            environment.join(" HOLO_"),
            built("holo-files").display(),
            root = root.path().display(),
        );
        let run = root.run("sh", &["-c", &script]);
        assert_eq!(run.status, Some(1), "{run}");
        run.stdout_lossy().into_owned()
    };
    let root = root("debian").file(TARGET, STOCK);
    let root = root.script(format!("{RESOURCE}.holoscript"), "#!/bin/sh\nexit 1\n");
    assert_eq!(said(&root), "not changed\n");
    root.write("etc/motd.dpkg-old", EDITED);
    assert_eq!(said(&root), "", "the target was moved back");
}
