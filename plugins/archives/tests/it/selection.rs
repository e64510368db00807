//! Extracting parts of archives, keeping users' files, and extracting single compressed files.

use crate::support::samples::{Tar, bzip2, gzip, xz, zip, zstd};
use crate::support::{apply, define, fails, root, settled};
use holo_testing::ScratchRoot;
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        what_is_included_is_extracted_and_what_is_excluded_is_not,
        a_part_that_the_archive_does_not_have_is_an_error,
        a_link_to_what_is_left_out_is_an_error,
        what_is_excluded_need_not_be_supported,
        a_kept_file_is_a_persons_as_soon_as_it_is_changed,
        a_kept_file_that_was_there_before_stays,
        a_kept_file_that_nobody_changed_is_upgraded_and_goes,
        previews_know_what_is_kept_and_what_is_left_out,
        a_file_that_is_compressed_by_itself_is_extracted,
        a_damaged_tar_is_no_file_that_is_compressed_by_itself,
    ]
}

const DEFINITION: &str = "url = \"file:///usr/share/app\"\nextract_to = \"/opt/app\"\nstrip_components = 1";

fn tar(version: &str) -> Tar {
    let name = |path: &str| format!("app-{version}/{path}");
    Tar::new()
        .file_with_mode(name("bin/app"), version, 0o755)
        .file(name("etc/app.conf"), version)
        .file(name("etc/more/other.conf"), version)
        .file(name("share/doc/guide"), version)
        .file(name("share/man/app.1"), version)
}

fn files(root: &ScratchRoot) -> Vec<String> {
    let all = walkdir::WalkDir::new(root.join("opt/app")).sort_by_file_name().into_iter().map(Result::unwrap);
    let files = all.filter(|entry| !entry.file_type().is_dir());
    files.map(|entry| entry.path().strip_prefix(root.join("opt/app")).unwrap().to_str().unwrap().to_owned()).collect()
}

fn undefine(root: &ScratchRoot) {
    fs::remove_file(root.join("usr/share/holo/archives/10-test.toml")).unwrap();
}

fn what_is_included_is_extracted_and_what_is_excluded_is_not() {
    let zipped = zip(&[
        (b"app-1/bin/app", 0o100_755, b"1"),
        (b"app-1/etc/app.conf", 0o100_644, b"1"),
        (b"app-1/etc/more/other.conf", 0o100_644, b"1"),
        (b"app-1/share/doc/guide", 0o100_644, b"1"),
        (b"app-1/share/man/app.1", 0o100_644, b"1"),
    ]);
    for archive in [gzip(&tar("1").end()), zipped] {
        let root = root(DEFINITION).file("usr/share/app", archive);
        for (keys, expected) in [
            ("include = [\"bin\", \"*.conf\"]", &["bin/app", "etc/app.conf", "etc/more/other.conf"][..]),
            ("include = [\"etc/*.conf\"]", &["etc/app.conf"]),
            ("exclude = [\"doc\", \"etc/\"]", &["bin/app", "share/man/app.1"]),
            ("include = [\"share\"]\nexclude = [\"*.1\"]", &["share/doc/guide"]),
            ("", &["bin/app", "etc/app.conf", "etc/more/other.conf", "share/doc/guide", "share/man/app.1"]),
        ] {
            define(&root, &format!("{DEFINITION}\n{keys}"));
            apply(&root);
            assert_eq!(files(&root), expected, "{keys}");
            settled(&root);
        }
        undefine(&root);
        apply(&root);
        assert!(!root.exists("opt"));
    }
}

fn a_part_that_the_archive_does_not_have_is_an_error() {
    let root = root(&format!("{DEFINITION}\ninclude = [\"sbin\"]")).file("usr/share/app", tar("1").end());
    fails(&root, "cannot extract");
    fails(&root, "it contains no file that include matches");
    assert!(!root.exists("opt/app"));
    for (key, words) in [
        ("include = [\"/bin\"]", "\"/bin\" is for no path"),
        ("exclude = [\"[\"]", "\"[\" is not a valid pattern"),
        ("keep = [\"\"]", "a glob is empty"),
    ] {
        define(&root, &format!("{DEFINITION}\n{key}"));
        fails(&root, words);
    }
    define(&root, "url = \"file:///usr/share/app\"\nkeep = [\"etc\"]");
    fails(&root, "keep: needs extract_to");
}

fn a_link_to_what_is_left_out_is_an_error() {
    let root = root(&format!("{DEFINITION}\nexclude = [\"bin/app\"]"));
    root.write("usr/share/app", tar("1").hard_link("app-1/bin/alias", "app-1/bin/app").end());
    fails(&root, "\"app-1/bin/alias\": it is a hard link to a file that is not extracted");
}

fn what_is_excluded_need_not_be_supported() {
    let root = root(&format!("{DEFINITION}\nexclude = [\"dev\"]"));
    root.write("usr/share/app", tar("1").special("app-1/dev/null", tar::EntryType::Char).end());
    apply(&root);
    assert!(root.exists("opt/app/bin/app") && !root.exists("opt/app/dev"));
    // Its name is checked nevertheless.
    root.write("usr/share/app", tar("1").file("app-1/dev/../../../x", "x").end());
    fails(&root, "its name holds \"..\"");
}

fn a_kept_file_is_a_persons_as_soon_as_it_is_changed() {
    let root = root(&format!("{DEFINITION}\nkeep = [\"etc/*.conf\"]")).file("usr/share/app", tar("1").end());
    root.write("opt/app/etc/more/other.conf", "before\n");
    apply(&root);
    root.write("opt/app/etc/app.conf", "a person's\n");
    fs::set_permissions(root.join("opt/app/etc/app.conf"), fs::Permissions::from_mode(0o600)).unwrap();
    settled(&root);
    root.write("usr/share/app", tar("2").end());
    apply(&root);
    assert_eq!(root.read("opt/app/etc/app.conf"), "a person's\n");
    assert_eq!(fs::metadata(root.join("opt/app/etc/app.conf")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(root.read("opt/app/bin/app"), "2");
    settled(&root);
    // Other files still require force.
    root.write("opt/app/etc/more/other.conf", "a person's\n");
    fails(&root, "changed by user: \"/opt/app/etc/more/other.conf\"");
    assert!(root.holo(&["apply", "--force"]).success());
    undefine(&root);
    let check = root.holo(&["check"]);
    assert!(check.stdout_lossy().contains("would remove the files extracted to /opt/app"), "{check}");
    apply(&root);
    assert_eq!(files(&root), ["etc/app.conf", "etc/more/other.conf"]);
    assert_eq!(root.read("opt/app/etc/app.conf"), "a person's\n");
    assert_eq!(root.read("opt/app/etc/more/other.conf"), "before\n");
    assert_eq!(fs::read_dir(root.join("var/lib/holo/archives")).unwrap().count(), 0, "{}", root.dump());
}

fn a_kept_file_that_was_there_before_stays() {
    let root = root(&format!("{DEFINITION}\nkeep = [\"etc\"]")).file("usr/share/app", tar("1").end());
    root.write("opt/app/etc/app.conf", "before\n");
    apply(&root);
    assert_eq!(
        (root.read("opt/app/etc/app.conf"), root.read("opt/app/etc/more/other.conf")),
        ("before\n".into(), "1".into())
    );
    settled(&root);
    root.write("opt/app/etc/more/other.conf", "a person's\n");
    settled(&root);
    // With `ensure = "absent"`, all files except the user's are removed.
    define(&root, "ensure = \"absent\"");
    apply(&root);
    settled(&root);
    assert_eq!(files(&root), ["etc/app.conf", "etc/more/other.conf"]);
}

fn a_kept_file_that_nobody_changed_is_upgraded_and_goes() {
    let root = root(&format!("{DEFINITION}\nkeep = [\"etc\"]")).file("usr/share/app", tar("1").end());
    apply(&root);
    root.write("usr/share/app", tar("2").end());
    apply(&root);
    assert_eq!(root.read("opt/app/etc/app.conf"), "2");
    fs::remove_file(root.join("opt/app/etc/app.conf")).unwrap();
    apply(&root);
    assert_eq!(root.read("opt/app/etc/app.conf"), "2", "what is missing is extracted again");
    // Without the key, a change requires force again.
    define(&root, DEFINITION);
    root.write("opt/app/etc/app.conf", "a person's\n");
    fails(&root, "changed by user: \"/opt/app/etc/app.conf\"");
    assert!(root.holo(&["apply", "--force"]).success());
    undefine(&root);
    apply(&root);
    assert!(!root.exists("opt"));
}

fn previews_know_what_is_kept_and_what_is_left_out() {
    let root =
        root(&format!("{DEFINITION}\nkeep = [\"etc\"]\nexclude = [\"share\"]")).file("usr/share/app", tar("1").end());
    apply(&root);
    root.write("opt/app/etc/app.conf", "a person's\n");
    root.write("usr/share/app", tar("2").end());
    let run = root.holo(&["check", "--diff"]);
    let shown = run.stdout_lossy();
    assert!(shown.contains("+/opt/app/bin/app") && shown.contains("+/opt/app/etc/more/other.conf"), "{shown}");
    assert!(!shown.contains("etc/app.conf") && !shown.contains("/opt/app/share"), "{shown}");
}

fn a_file_that_is_compressed_by_itself_is_extracted() {
    let path = "usr/share/holo/archives/10-test.toml";
    for (ending, bytes) in [
        ("gz", gzip(b"#!/bin/sh\n")),
        ("xz", xz(b"#!/bin/sh\n")),
        ("zst", zstd(b"#!/bin/sh\n")),
        ("bz2", bzip2(b"#!/bin/sh\n")),
        ("GZ", [gzip(b"#!/bin"), gzip(b"/sh\n")].concat()),
    ] {
        let root = ScratchRoot::new().plugin("archives").dir("srv").file("usr/share/app", &bytes);
        let define = |more: &str| {
            let table = format!(
                "[[archive]]\npath = \"/srv/tool.{ending}\"\nurl = \"file:///usr/share/app\"\nextract_to = \"/opt/app\""
            );
            root.write(path, format!("{table}\n{more}\n"));
        };
        let mode = || fs::metadata(root.join("opt/app/tool")).unwrap().permissions().mode() & 0o777;
        define("strip_components = 1");
        apply(&root);
        assert_eq!((root.read("opt/app/tool"), mode()), ("#!/bin/sh\n".into(), 0o644), "{ending}");
        settled(&root);
        define("mode = \"0755\"\ncleanup = true");
        apply(&root);
        assert_eq!(mode(), 0o755, "{ending}");
        settled(&root);
        fs::remove_file(root.join(path)).unwrap();
        apply(&root);
        assert!(!root.exists("opt"));
    }
}

fn a_damaged_tar_is_no_file_that_is_compressed_by_itself() {
    let root = root(DEFINITION).file("usr/share/app", gzip(b"no tar"));
    fails(&root, "it is a compressed file and no archive");
    assert!(!Path::new(&root.join("opt/app")).exists());
}
