//! Extracting archives of all formats, upgrading them, and restoring the original state.

use crate::support::samples::{Tar, bzip2, gzip, xz, zip, zstd};
use crate::support::{apply, define, fails, root, settled, sha256};
use holo_download::testing::{Reply, Server};
use holo_testing::ScratchRoot;
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        every_format_is_found_from_the_content,
        an_upgrade_removes_what_is_gone,
        what_was_there_before_comes_back,
        absent_removes_exactly_what_was_extracted,
        a_persons_changes_need_force_and_missing_files_do_not,
        what_is_known_is_not_read_again_and_a_change_is_seen_all_the_same,
        a_failed_extraction_is_tried_again,
        the_old_tree_stays_when_the_new_one_fails,
        the_download_goes_if_it_shall,
        what_is_created_is_left_alone,
        another_directory_is_another_tree,
        the_root_itself_can_be_extracted_to,
        owners_are_those_of_the_definition,
        a_directory_that_hands_its_group_down_does_so,
        a_new_directory_comes_as_a_whole,
        two_archives_share_a_directory,
        below_a_file_nothing_can_be_made,
    ]
}

const DEFINITION: &str = "url = \"file:///usr/share/app\"\nextract_to = \"/opt/app\"";

/// Version 1 of an application.
fn first() -> Tar {
    Tar::new()
        .directory("app-1/")
        .file_with_mode("app-1/bin/app", "#!/bin/sh\n", 0o755)
        .file("app-1/etc/app.conf", "one\n")
        .file("app-1/old/gone", "gone\n")
        .file("app-1/turns", "a file\n")
        .directory("app-1/turned")
        .file("app-1/turned/inside", "inside\n")
        .symlink("app-1/lib", "old")
        .hard_link("app-1/bin/alias", "app-1/bin/app")
}

fn second() -> Tar {
    Tar::new()
        .file_with_mode("app-2/bin/app", "#!/bin/sh\necho 2\n", 0o755)
        .file("app-2/etc/app.conf", "one\n")
        .directory("app-2/turns")
        .file("app-2/turns/inside", "now a directory\n")
        .file("app-2/turned", "now a file\n")
        .directory("app-2/lib")
        .file("app-2/lib/gone", "now a directory\n")
}

/// Returns the paths below a directory, with their types and contents.
fn listing(root: &ScratchRoot, folder: &str) -> Vec<String> {
    let mut all = Vec::new();
    list(&root.join(folder), Path::new(""), &mut all);
    all
}

fn list(folder: &Path, below: &Path, all: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    for name in names {
        let (path, below) = (folder.join(&name), below.join(&name));
        let metadata = fs::symlink_metadata(&path).unwrap();
        let shown = below.to_str().unwrap().replace('\n', "\\n");
        if metadata.is_symlink() {
            all.push(format!("{shown} -> {}", fs::read_link(&path).unwrap().display()));
        } else if metadata.is_dir() {
            all.push(format!("{shown}/"));
            list(&path, &below, all);
        } else {
            all.push(shown);
        }
    }
}

fn every_format_is_found_from_the_content() {
    let tar = first().end();
    let file = 0o100_755;
    let zipped = zip(&[
        (b"app-1/", 0o040_755, b""),
        (b"app-1/bin/app", file, b"#!/bin/sh\n"),
        (b"app-1/etc/app.conf", 0o100_644, b"one\n"),
        (b"app-1/old/gone", 0o644, b"gone\n"),
        (b"app-1/turns", 0o644, b"a file\n"),
        (b"app-1/turned/inside", 0o644, b"inside\n"),
        (b"app-1/lib", 0o120_777, b"old"),
        (b"app-1/bin/alias", file, b"#!/bin/sh\n"),
    ]);
    for (format, bytes) in [
        ("tar", tar.clone()),
        ("tar.gz", gzip(&tar)),
        ("tar.bz2", bzip2(&tar)),
        ("tar.xz", xz(&tar)),
        ("tar.zst", zstd(&tar)),
        ("two gzip members", [gzip(&tar[..1000]), gzip(&tar[1000..])].concat()),
        ("two xz streams", [xz(&tar[..1000]), xz(&tar[1000..])].concat()),
        ("zip", zipped),
    ] {
        let root = root(&format!("{DEFINITION}\nstrip_components = 1")).file("usr/share/app", &bytes);
        let check = root.holo(&["check"]);
        assert!(check.stdout_lossy().contains("would extract /srv/app.tar to /opt/app"), "{check}");
        assert!(!root.exists("opt"));
        apply(&root);
        assert_eq!(
            listing(&root, "opt/app"),
            [
                "bin/",
                "bin/alias",
                "bin/app",
                "etc/",
                "etc/app.conf",
                "lib -> old",
                "old/",
                "old/gone",
                "turned/",
                "turned/inside",
                "turns"
            ],
            "{format}"
        );
        let app = fs::metadata(root.join("opt/app/bin/app")).unwrap();
        assert_eq!(app.mode() & 0o7777, 0o755);
        assert_eq!(app.uid(), fs::metadata("/proc/self").unwrap().uid(), "it is ours, whoever packed it");
        settled(&root);
    }
}

fn an_upgrade_removes_what_is_gone() {
    let root = root(&format!("{DEFINITION}\nstrip_components = 1")).file("usr/share/app", gzip(&first().end()));
    apply(&root);
    root.write("opt/app/old/mine", "a person's");
    root.write("usr/share/app", zstd(&second().end()));
    apply(&root);
    assert_eq!(
        listing(&root, "opt/app"),
        [
            "bin/",
            "bin/app",
            "etc/",
            "etc/app.conf",
            "lib/",
            "lib/gone",
            "old/",
            "old/mine",
            "turned",
            "turns/",
            "turns/inside"
        ]
    );
    settled(&root);
    // Downgrades work the same way.
    fs::remove_file(root.join("opt/app/old/mine")).unwrap();
    root.write("usr/share/app", first().end());
    apply(&root);
    assert_eq!(listing(&root, "opt/app").len(), 11);
    settled(&root);
}

fn what_was_there_before_comes_back() {
    let root = root(&format!("{DEFINITION}\nstrip_components = 1"))
        .file("usr/share/app", gzip(&first().end()))
        .file("opt/app/etc/app.conf", "a person's\n")
        .mode("opt/app/etc/app.conf", 0o600)
        .file("opt/app/etc/other.conf", "untouched\n")
        .symlink("opt/app/turns", "etc/other.conf");
    let before = listing(&root, "opt");
    apply(&root);
    assert_eq!(root.read("opt/app/etc/app.conf"), "one\n");
    assert!(!root.join("opt/app/turns").is_symlink());
    settled(&root);
    root.write("usr/share/app", gzip(&Tar::new().file("app-3/new", "x").end()));
    apply(&root);
    assert_eq!(root.read("opt/app/etc/app.conf"), "a person's\n");
    root.write("usr/share/app", gzip(&first().end()));
    apply(&root);
    fs::remove_file(root.join("usr/share/holo/archives/10-test.toml")).unwrap();
    let check = root.holo(&["check"]);
    assert!(check.stdout_lossy().contains("would remove the files extracted to /opt/app"), "{check}");
    apply(&root);
    assert_eq!(listing(&root, "opt"), before);
    assert_eq!(root.read("opt/app/etc/app.conf"), "a person's\n");
    assert_eq!(fs::metadata(root.join("opt/app/etc/app.conf")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_link(root.join("opt/app/turns")).unwrap(), Path::new("etc/other.conf"));
    assert_eq!(fs::read_dir(root.join("var/lib/holo/archives")).unwrap().count(), 0, "{}", root.dump());
    assert!(!root.exists("srv/app.tar"));
}

fn absent_removes_exactly_what_was_extracted() {
    let root = root(&format!("{DEFINITION}\nstrip_components = 1")).file("usr/share/app", xz(&first().end()));
    apply(&root);
    root.write("opt/app/etc/mine", "a person's");
    define(&root, "ensure = \"absent\"");
    let check = root.holo(&["check"]);
    assert!(check.stdout_lossy().contains("would remove /srv/app.tar"), "{check}");
    apply(&root);
    assert_eq!(listing(&root, "opt"), ["app/", "app/etc/", "app/etc/mine"]);
    assert!(!root.exists("srv/app.tar"));
    settled(&root);
}

fn a_persons_changes_need_force_and_missing_files_do_not() {
    let root = root(&format!("{DEFINITION}\nstrip_components = 1")).file("usr/share/app", first().end());
    apply(&root);
    fs::remove_file(root.join("opt/app/bin/app")).unwrap();
    fs::remove_dir_all(root.join("opt/app/turned")).unwrap();
    apply(&root);
    assert_eq!(listing(&root, "opt/app").len(), 11);
    for edit in [
        |root: &ScratchRoot| root.write("opt/app/etc/app.conf", "two\n"),
        |root: &ScratchRoot| {
            fs::set_permissions(root.join("opt/app/etc/app.conf"), fs::Permissions::from_mode(0o666)).unwrap();
        },
        |root: &ScratchRoot| {
            fs::remove_file(root.join("opt/app/etc/app.conf")).unwrap();
            symlink("other", root.join("opt/app/etc/app.conf")).unwrap();
        },
    ] {
        edit(&root);
        for definition in [format!("{DEFINITION}\nstrip_components = 1"), "ensure = \"absent\"".to_owned()] {
            define(&root, &definition);
            for command in ["check", "apply"] {
                let run = root.holo(&[command]);
                assert_ne!(run.status, Some(0), "{run}");
                assert!(run.to_string().contains("--force"), "{run}");
            }
            assert_eq!(listing(&root, "opt/app").len(), 11);
        }
        define(&root, &format!("{DEFINITION}\nstrip_components = 1"));
        let run = root.holo(&["apply"]);
        assert!(run.stderr_lossy().contains("changed by user: \"/opt/app/etc/app.conf\""), "{run}");
        assert!(!run.stderr_lossy().contains("downloaded"), "{run}");
        assert_eq!(root.holo(&["apply", "--force"]).status, Some(0));
        assert_eq!(root.read("opt/app/etc/app.conf"), "one\n");
        settled(&root);
    }
    let kept = root.holo(&["history", "edited"]).stdout_lossy().into_owned();
    assert!(kept.lines().filter(|line| line.ends_with("/opt/app/etc/app.conf")).count() == 3, "{kept}");
}

fn what_is_known_is_not_read_again_and_a_change_is_seen_all_the_same() {
    let root = root(DEFINITION).file("usr/share/app", gzip(&first().end()));
    apply(&root);
    // An extracted file has the time from the archive, and writing to it changes the time, so that its digest is cached
    // immediately.
    let sum = sha256(b"one\n").split_off("sha256:".len());
    let known = |root: &ScratchRoot| {
        let records = listing(root, "var/lib/holo/archives/known");
        let record = records.first().and_then(|line| line.split(' ').next()).unwrap().to_owned();
        root.read(format!("var/lib/holo/archives/known/{record}")).to_string().contains(&sum)
    };
    assert!(known(&root));
    root.write("opt/app/app-1/etc/app.conf", "two\n");
    fails(&root, "app-1/etc/app.conf");
    // A file that has just been changed may change again without another stamp.
    root.write("opt/app/app-1/etc/app.conf", "one\n");
    settled(&root);
    assert!(!known(&root));
    std::thread::sleep(std::time::Duration::from_secs(4));
    settled(&root);
    let [record] = &listing(&root, "var/lib/holo/archives/known")[..] else { panic!("{}", root.dump()) };
    let record = format!("var/lib/holo/archives/known/{}", record.split(' ').next().unwrap());
    // Length and time are unchanged, but other metadata is not.
    let conf = root.join("opt/app/app-1/etc/app.conf");
    let modified = fs::metadata(&conf).unwrap().modified().unwrap();
    let write = |content: &str| {
        fs::write(&conf, content).unwrap();
        fs::File::options().write(true).open(&conf).unwrap().set_modified(modified).unwrap();
    };
    write("two\n");
    fails(&root, "app-1/etc/app.conf");
    write("one\n");
    settled(&root);
    // The cache is used, unless all files are to be verified.
    std::thread::sleep(std::time::Duration::from_secs(4));
    settled(&root);
    let forged = root.read(&record).to_string().replace(&sum, &"0".repeat(sum.len()));
    root.write(&record, &forged);
    fails(&root, "app-1/etc/app.conf");
    root.write(&record, &forged);
    let verified = root.holo(&["apply", "--verify"]);
    assert!(verified.success() && verified.stdout.is_empty(), "{verified}");
    fs::remove_file(root.join("usr/share/holo/archives/10-test.toml")).unwrap();
    apply(&root);
    assert!(!root.exists("var/lib/holo/archives/known"), "{}", root.dump());
}

fn a_failed_extraction_is_tried_again() {
    let broken = {
        let mut bytes = gzip(&first().end());
        bytes.truncate(bytes.len() - 20);
        bytes
    };
    let served = Arc::new(Mutex::new(("\"1\"", broken)));
    let serving = Arc::clone(&served);
    let server = Server::new(move |asked| {
        let (etag, body) = serving.lock().unwrap().clone();
        if asked.header("if-none-match") == Some(etag) { Reply::new(304) } else { Reply::of(body).header("ETag", etag) }
    });
    let root = root(&format!("url = {:?}\nextract_to = \"/opt/app\"", server.url("/a")));
    for _ in 0..2 {
        fails(&root, "cannot extract");
        assert_eq!(listing(&root, "opt"), [] as [&str; 0]);
    }
    *served.lock().unwrap() = ("\"2\"", gzip(&first().end()));
    apply(&root);
    assert_eq!(root.read("opt/app/app-1/etc/app.conf"), "one\n");
    settled(&root);
}

fn the_old_tree_stays_when_the_new_one_fails() {
    let root = root(&format!("{DEFINITION}\nstrip_components = 1")).file("usr/share/app", gzip(&first().end()));
    apply(&root);
    let before = listing(&root, "opt");
    let cut = {
        let mut bytes = zstd(&second().end());
        bytes.truncate(bytes.len() - 10);
        bytes
    };
    let damaged = {
        let mut bytes = gzip(&second().end());
        let at = bytes.len() - 6;
        bytes[at] ^= 1;
        bytes
    };
    let plain = {
        let mut bytes = second().end();
        bytes.truncate(700);
        bytes
    };
    for wrong in [cut, damaged, plain, b"no archive".to_vec(), Vec::new()] {
        root.write("usr/share/app", wrong);
        fails(&root, "cannot extract");
        assert_eq!(listing(&root, "opt"), before);
        assert_eq!(root.read("opt/app/bin/app"), "#!/bin/sh\n");
    }
    // A file that is not an archive is a valid download.
    define(&root, "url = \"file:///usr/share/app\"");
    apply(&root);
    assert_eq!(listing(&root, "opt"), [] as [&str; 0], "what the definition does not name any more goes");
}

fn the_download_goes_if_it_shall() {
    let archive = gzip(&first().end());
    let server = Server::new({
        let archive = archive.clone();
        move |asked| {
            if asked.header("if-none-match").is_some() {
                Reply::new(304)
            } else {
                Reply::of(archive.clone()).header("ETag", "\"1\"")
            }
        }
    });
    for checksum in [String::new(), format!("checksum = {:?}", sha256(&archive))] {
        let before = server.asked().len();
        let root =
            root(&format!("url = {:?}\nextract_to = \"/opt/app\"\ncleanup = true\n{checksum}", server.url("/a")));
        apply(&root);
        assert!(!root.exists("srv/app.tar") && root.exists("opt/app/app-1/bin/app"));
        settled(&root);
        let more = usize::from(checksum.is_empty());
        assert_eq!(server.asked().len() - before, 1 + more);
        fs::remove_file(root.join("opt/app/app-1/bin/app")).unwrap();
        apply(&root);
        assert!(!root.exists("srv/app.tar") && root.exists("opt/app/app-1/bin/app"));
        settled(&root);
    }
}

fn what_is_created_is_left_alone() {
    let root = root(&format!("{DEFINITION}\ncreates = \"/opt/app/app-1/bin/app\""));
    root.write("usr/share/app", first().end());
    apply(&root);
    root.write("usr/share/app", second().end());
    root.write("opt/app/app-1/etc/app.conf", "edited");
    fs::remove_file(root.join("srv/app.tar")).unwrap();
    settled(&root);
    fs::remove_file(root.join("opt/app/app-1/bin/app")).unwrap();
    let run = root.holo(&["apply", "--force"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("!! /opt/app/app-1/bin/app was not created"), "{run}");
    let check = root.holo(&["check"]);
    assert_eq!(check.status, Some(1), "the definition is wrong, which is said as long as it is: {check}");
    define(&root, &format!("{DEFINITION}\ncreates = \"/opt/app/app-2/bin/app\""));
    apply(&root);
    settled(&root);
    assert!(!root.exists("opt/app/app-1"));
}

fn another_directory_is_another_tree() {
    let root = root(&format!("{DEFINITION}\nstrip_components = 1")).file("usr/share/app", first().end());
    apply(&root);
    define(&root, "url = \"file:///usr/share/app\"\nextract_to = \"/opt/other/deep\"");
    let check = root.holo(&["check"]);
    assert!(check.stdout_lossy().contains("would remove the files extracted to /opt/app"), "{check}");
    apply(&root);
    assert!(!root.exists("opt/app"));
    assert_eq!(root.read("opt/other/deep/app-1/etc/app.conf"), "one\n");
    settled(&root);
    fs::remove_file(root.join("usr/share/holo/archives/10-test.toml")).unwrap();
    apply(&root);
    assert!(!root.exists("opt"));
}

fn the_root_itself_can_be_extracted_to() {
    let root = root("url = \"file:///usr/share/app\"\nextract_to = \"/\"");
    root.write("usr/share/app", Tar::new().file("usr/local/bin/tool", "x").file("etc/tool.conf", "y").end());
    apply(&root);
    assert_eq!(root.read("usr/local/bin/tool"), "x");
    settled(&root);
    fs::remove_file(root.join("usr/share/holo/archives/10-test.toml")).unwrap();
    apply(&root);
    assert!(!root.exists("usr/local") && !root.exists("etc/tool.conf") && root.exists("usr/share"));
}

fn owners_are_those_of_the_definition() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        // Only root can change the owner of files.
        return;
    }
    let root = root(&format!("{DEFINITION}\nowner = \"app\"\ngroup = \"4242\"")).file("usr/share/app", first().end());
    root.write("etc/passwd", "root:x:0:0::/:\napp:x:1234:1:::\n");
    apply(&root);
    for path in ["opt/app", "opt/app/app-1", "opt/app/app-1/etc/app.conf", "opt/app/app-1/lib", "srv/app.tar"] {
        let metadata = fs::symlink_metadata(root.join(path)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (1234, 4242), "{path}");
    }
    settled(&root);
    define(&root, &format!("{DEFINITION}\nowner = \"0\"\ngroup = \"0\""));
    apply(&root);
    assert_eq!(fs::symlink_metadata(root.join("opt/app/app-1/lib")).unwrap().uid(), 0);
    assert_eq!(fs::metadata(root.join("opt/app/app-1/etc/app.conf")).unwrap().gid(), 0);
    settled(&root);
}

fn a_directory_that_hands_its_group_down_does_so() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        // Only root can change the owner of files.
        return;
    }
    let root = root(DEFINITION).file("usr/share/app", first().end());
    fs::create_dir_all(root.join("opt/app")).unwrap();
    std::os::unix::fs::chown(root.join("opt/app"), None, Some(4242)).unwrap();
    fs::set_permissions(root.join("opt/app"), fs::Permissions::from_mode(0o2755)).unwrap();
    apply(&root);
    assert_eq!(fs::metadata(root.join("opt/app/app-1")).unwrap().gid(), 4242);
    settled(&root);
}

fn a_new_directory_comes_as_a_whole() {
    let root = root(DEFINITION).file("usr/share/app", first().end());
    apply(&root);
    let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777;
    let inode = |path: &str| fs::metadata(root.join(path)).unwrap().ino();
    assert_eq!((mode("opt/app/app-1"), mode("opt/app/app-1/etc")), (0o755, 0o755));
    let there = inode("opt/app/app-1/bin");
    // Only missing files are moved into existing directories.
    fs::remove_dir_all(root.join("opt/app/app-1/old")).unwrap();
    apply(&root);
    assert_eq!(inode("opt/app/app-1/bin"), there);
    assert_eq!(root.read("opt/app/app-1/old/gone"), "gone\n");
    settled(&root);
}

fn two_archives_share_a_directory() {
    let root = root(DEFINITION).file("usr/share/app", first().end());
    root.write("usr/share/other", Tar::new().file("other", "x").end());
    root.write(
        "usr/share/holo/archives/20-other.toml",
        "[[archive]]\npath = \"/srv/other.tar\"\nurl = \"file:///usr/share/other\"\nextract_to = \"/opt/app\"\n",
    );
    apply(&root);
    assert!(root.exists("opt/app/other") && root.exists("opt/app/app-1/bin/app"));
    settled(&root);
    fs::remove_file(root.join("usr/share/holo/archives/10-test.toml")).unwrap();
    apply(&root);
    assert_eq!(listing(&root, "opt/app"), ["other"]);
    settled(&root);
}

fn below_a_file_nothing_can_be_made() {
    let root = root("url = \"file:///srv/none\"\nextract_to = \"/etc/file/deep/app\"");
    root.write("etc/file", "");
    fails(&root, "etc/file is not a directory");
    let check = root.holo(&["check"]);
    assert_eq!(check.status, Some(1), "{check}");
    assert!(check.stderr_lossy().contains("etc/file is not a directory"), "{check}");
    root.write(
        "usr/share/holo/archives/10-test.toml",
        "[[archive]]\npath = \"/etc/file/x\"\nurl = \"file:///srv/none\"\n",
    );
    fails(&root, "etc/file is not a directory");
    // The apply was not started, so there is nothing to scrub.
    root.write("usr/share/holo/archives/10-test.toml", "");
    settled(&root);
}
