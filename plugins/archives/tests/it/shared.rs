//! Archives that share a directory, or are extracted into each other's: each path has one owner and one base, and in
//! the end the original state is restored.

use crate::support::samples::{Tar, gzip};
use crate::support::{apply, fails, settled, sha256};
use holo_download::testing::{Reply, Server};
use holo_testing::ScratchRoot;
use holo_testing::random::{Random, cases};
use libtest_mimic::Trial;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        both_go_in_any_order,
        what_two_bring_is_an_error_that_names_both,
        a_directory_in_anothers_is_shared_too,
        an_archive_cannot_bring_its_own_download,
        a_definition_with_another_path_takes_over,
        a_path_by_another_name_is_the_same,
        what_one_brought_may_be_brought_by_two,
        nothing_is_put_back_through_a_link,
        a_file_comes_back_where_a_directory_was_made,
        what_a_definition_of_another_plugin_is_about_is_not_brought,
        lines_of_an_edit_become_no_part_of_a_base,
        what_comes_back_has_its_attributes,
        what_is_said_is_what_was_done,
        whatever_archives_do_in_the_end_it_is_as_before,
        what_is_laid_over_has_the_new_version_as_its_base,
        a_file_of_a_package_manager_beside_it_is_not_its_base,
        what_the_new_version_lacks_goes_with_what_is_laid_over_it,
    ]
}

/// Writes a definition in its own file, for a download with this path and more lines.
fn declare(root: &ScratchRoot, file: &str, path: &str, lines: &str) {
    let text = format!("[[archive]]\npath = \"{path}\"\n{lines}\n");
    root.write(format!("usr/share/holo/archives/{file}.toml"), text);
}

fn extracted(name: &str, directory: &str) -> String {
    format!("url = \"file:///usr/share/{name}\"\nextract_to = \"{directory}\"")
}

fn drop_definition(root: &ScratchRoot, file: &str) {
    fs::remove_file(root.join(format!("usr/share/holo/archives/{file}.toml"))).unwrap();
}

fn empty_root() -> ScratchRoot {
    ScratchRoot::new().plugin("archives").dir("srv").dir("usr/share/holo/archives")
}

/// Two archives that share a directory with a user's file, which the first one replaces.
fn shared() -> ScratchRoot {
    let root = empty_root();
    root.write("usr/local/etc/app.conf", "a person's\n");
    root.write("usr/share/a", gzip(&Tar::new().file("etc/app.conf", "a\n").file("share/doc/a", "a\n").end()));
    root.write("usr/share/b", gzip(&Tar::new().file("bin/b", "b\n").file("share/doc/b", "b\n").end()));
    declare(&root, "10-a", "/srv/a", &extracted("a", "/usr/local"));
    declare(&root, "20-b", "/srv/b", &extracted("b", "/usr/local"));
    root
}

fn as_before(root: &ScratchRoot) {
    assert_eq!(root.read("usr/local/etc/app.conf"), "a person's\n");
    for path in ["usr/local/share", "usr/local/bin", "srv/a", "srv/b", "var/lib/holo/archives/kept"] {
        assert!(!root.exists(path), "{path}\n{}", root.dump());
    }
}

fn both_go_in_any_order() {
    for order in [&["10-a", "20-b"][..], &["20-b", "10-a"]] {
        let root = shared();
        apply(&root);
        assert!(root.exists("usr/local/share/doc/a") && root.exists("usr/local/share/doc/b"));
        settled(&root);
        for file in order {
            drop_definition(&root, file);
            apply(&root);
            settled(&root);
        }
        as_before(&root);
    }
    for _ in 0..10 {
        let root = shared();
        apply(&root);
        drop_definition(&root, "10-a");
        drop_definition(&root, "20-b");
        apply(&root);
        as_before(&root);
    }
}

fn what_two_bring_is_an_error_that_names_both() {
    let root = shared();
    root.write("usr/share/b", gzip(&Tar::new().file("bin/b", "b\n").file("etc/app.conf", "b\n").end()));
    for _ in 0..3 {
        let run = fails(&root, "/usr/local/etc/app.conf is brought by both archive:/srv/a and archive:/srv/b");
        assert!(run.stdout_lossy().contains("archive:/srv/b"), "{run}");
        assert_eq!(root.read("usr/local/etc/app.conf"), "a\n");
        assert!(!root.exists("usr/local/bin"), "nothing of the second is touched");
    }
    // Force only overwrites manual changes.
    assert_eq!(root.holo(&["apply", "--force"]).status, Some(1));
    assert_eq!(root.read("usr/local/etc/app.conf"), "a\n");
    drop_definition(&root, "10-a");
    apply(&root);
    assert_eq!(root.read("usr/local/etc/app.conf"), "b\n");
    settled(&root);
    drop_definition(&root, "20-b");
    apply(&root);
    as_before(&root);
}

fn a_directory_in_anothers_is_shared_too() {
    let root = shared();
    declare(&root, "20-b", "/srv/b", &extracted("b", "/usr/local/share"));
    root.write("usr/share/b", gzip(&Tar::new().file("doc/b", "b\n").end()));
    apply(&root);
    settled(&root);
    root.write("usr/share/b", gzip(&Tar::new().file("doc/a", "b\n").file("doc/b", "new\n").end()));
    fails(&root, "/usr/local/share/doc/a is brought by both archive:/srv/a and archive:/srv/b");
    assert_eq!((root.read("usr/local/share/doc/a"), root.read("usr/local/share/doc/b")), ("a\n".into(), "b\n".into()));
    // The same applies to a download in another archive's tree.
    root.write("usr/share/b", gzip(&Tar::new().file("doc/b", "b\n").end()));
    declare(&root, "30-c", "/usr/local/share/doc/a", "url = \"file:///usr/share/b\"");
    fails(&root, "/usr/local/share/doc/a is brought by both archive:/srv/a and archive:/usr/local/share/doc/a");
    assert_eq!(root.read("usr/local/share/doc/a"), "a\n");
    ["10-a", "20-b", "30-c"].iter().for_each(|file| drop_definition(&root, file));
    apply(&root);
    as_before(&root);
}

fn an_archive_cannot_bring_its_own_download() {
    let root = empty_root();
    root.write("opt/app/a", "a person's\n");
    root.write("usr/share/a", Tar::new().file("a", "x").end());
    declare(&root, "10-a", "/opt/app/a", &extracted("a", "/opt/app"));
    fails(&root, "the archive brings this path itself");
    drop_definition(&root, "10-a");
    apply(&root);
    assert_eq!(root.read("opt/app/a"), "a person's\n");
}

fn a_definition_with_another_path_takes_over() {
    let archive = gzip(&Tar::new().file("etc/app.conf", "a\n").file("bin/a", "a\n").end());
    let server = Server::new({
        let archive = archive.clone();
        move |asked| Reply::rest(asked, &archive, "\"one\"")
    });
    for more in [format!("checksum = {:?}", sha256(&archive)), String::new(), "cleanup = true".to_owned()] {
        let root = empty_root();
        root.write("usr/local/etc/app.conf", "a person's\n");
        let lines = format!("url = {:?}\nextract_to = \"/usr/local\"\n{more}", server.url("/a"));
        declare(&root, "10-a", "/srv/new/z", &lines);
        apply(&root);
        // Either the new or the old name may sort first.
        for path in ["/srv/a", "/srv/other/x"] {
            let before = server.asked().iter().filter(|asked| asked.header("if-none-match").is_none()).count();
            let inode = |path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(root.join(path)).unwrap());
            let file = inode("usr/local/bin/a");
            declare(&root, "10-a", path, &lines);
            let check = root.holo(&["check"]);
            assert_eq!(check.status, Some(3), "{check}");
            let run = apply(&root);
            let words = format!(">> archive:{path} takes over from archive:");
            assert_eq!(run.stderr_lossy().matches(&words).count(), 1, "{run}");
            let asked = server.asked().iter().filter(|asked| asked.header("if-none-match").is_none()).count();
            assert_eq!(asked, before, "nothing is downloaded again with {more:?}: {run}");
            assert_eq!(inode("usr/local/bin/a"), file, "nothing is extracted again: {run}");
            assert_eq!(root.exists(path.trim_start_matches('/')), more != "cleanup = true", "{run}");
            settled(&root);
        }
        assert!(!root.exists("srv/new") && !root.exists("srv/a"), "{}", root.dump());
        drop_definition(&root, "10-a");
        apply(&root);
        as_before(&root);
        assert!(!root.exists("srv/other"));
    }
}

fn a_path_by_another_name_is_the_same() {
    let root = empty_root();
    root.write("usr/share/a", "new\n");
    root.write("srv/real/a", "a person's\n");
    symlink("real", root.join("srv/link")).unwrap();
    declare(&root, "10-a", "/srv/real/a", "url = \"file:///usr/share/a\"");
    apply(&root);
    declare(&root, "10-a", "/srv/link/a", "url = \"file:///usr/share/a\"");
    let run = apply(&root);
    assert!(run.stderr_lossy().contains("archive:/srv/link/a takes over from archive:/srv/real/a"), "{run}");
    assert!(!run.stdout_lossy().contains("restored"), "{run}");
    settled(&root);
    drop_definition(&root, "10-a");
    apply(&root);
    assert_eq!(root.read("srv/real/a"), "a person's\n");
}

fn what_one_brought_may_be_brought_by_two() {
    for (first, second) in [("10-b", "20-c"), ("90-b", "95-c")] {
        let root = empty_root();
        root.write("opt/x", "a person's x\n");
        root.write("opt/y", "a person's y\n");
        root.write("usr/share/a", Tar::new().file("x", "x\n").file("y", "y\n").file("z", "z\n").end());
        declare(&root, "50-a", "/srv/m", &extracted("a", "/opt"));
        apply(&root);
        drop_definition(&root, "50-a");
        root.write("usr/share/b", Tar::new().file("x", "x\n").end());
        root.write("usr/share/c", Tar::new().file("y", "new y\n").end());
        declare(&root, first, &format!("/srv/{first}"), &extracted("b", "/opt"));
        declare(&root, second, &format!("/srv/{second}"), &extracted("c", "/opt"));
        apply(&root);
        settled(&root);
        assert_eq!((root.read("opt/x"), root.read("opt/y")), ("x\n".into(), "new y\n".into()));
        assert!(!root.exists("opt/z"));
        drop_definition(&root, first);
        drop_definition(&root, second);
        apply(&root);
        assert_eq!((root.read("opt/x"), root.read("opt/y")), ("a person's x\n".into(), "a person's y\n".into()));
        assert!(!root.exists("var/lib/holo/archives/kept"));
    }
}

fn nothing_is_put_back_through_a_link() {
    let root = empty_root();
    root.write("opt/app/conf", "a person's\n");
    root.write("usr/share/a", Tar::new().file("conf", "a\n").end());
    declare(&root, "10-a", "/srv/a", &extracted("a", "/opt/app"));
    apply(&root);
    root.write("home/x/conf", "another person's\n");
    fs::remove_dir_all(root.join("opt/app")).unwrap();
    symlink("../home/x", root.join("opt/app")).unwrap();
    drop_definition(&root, "10-a");
    for force in [&["apply"][..], &["apply", "--force"]] {
        let run = root.holo(force);
        assert_eq!(run.status, Some(1), "{run}");
        assert!(run.stderr_lossy().contains("what was there before cannot be put back"), "{run}");
        assert_eq!(root.read("home/x/conf"), "another person's\n");
    }
    fs::remove_file(root.join("opt/app")).unwrap();
    apply(&root);
    assert_eq!(root.read("opt/app/conf"), "a person's\n");
}

fn a_file_comes_back_where_a_directory_was_made() {
    let root = empty_root();
    root.write("opt/app/h", "a person's\n");
    root.write("usr/share/a", Tar::new().file("h", "a\n").end());
    declare(&root, "10-a", "/srv/a", &extracted("a", "/opt/app"));
    apply(&root);
    root.write("usr/share/a", Tar::new().file("h/i", "a\n").end());
    apply(&root);
    root.write("opt/app/h/mine", "a person's too\n");
    drop_definition(&root, "10-a");
    for force in [&["apply"][..], &["apply", "--force"]] {
        let run = root.holo(force);
        assert_eq!(run.status, Some(1), "{run}");
        assert!(run.stderr_lossy().contains("app/h is a directory that is not empty"), "{run}");
    }
    fs::remove_file(root.join("opt/app/h/mine")).unwrap();
    apply(&root);
    assert_eq!(root.read("opt/app/h"), "a person's\n");
    assert!(!root.exists("var/lib/holo/archives/kept"));
}

fn what_a_definition_of_another_plugin_is_about_is_not_brought() {
    let root = ScratchRoot::new().plugin("files").plugin("archives").dir("srv");
    root.write("usr/share/a", Tar::new().file("conf", "a\n").file("d/x", "a\n").end());
    declare(&root, "10-a", "/srv/a", &extracted("a", "/opt/app"));
    let file = "[[file]]\npath = \"/opt/app/conf\"\ncontent = \"declared\\n\"\n[[directory]]\npath = \"/opt/app/d\"\n";
    root.write("usr/share/holo/files/10-x.toml", file);
    let run = fails(&root, "/opt/app/conf is brought by both file:/opt/app/conf (");
    assert!(run.stderr_lossy().contains("and archive:/srv/a"), "{run}");
    assert_eq!(root.read("opt/app/conf"), "declared\n");
    assert!(!root.exists("opt/app/d/x"));
    fs::remove_file(root.join("usr/share/holo/files/10-x.toml")).unwrap();
    // The declared paths are removed by this apply or the next one.
    let _ = root.holo(&["apply"]);
    apply(&root);
    settled(&root);
    assert_eq!((root.read("opt/app/conf"), root.read("opt/app/d/x")), ("a\n".into(), "a\n".into()));
    drop_definition(&root, "10-a");
    apply(&root);
    assert!(!root.exists("opt"));
}

fn lines_of_an_edit_become_no_part_of_a_base() {
    let goes = "one of both has to go";
    for (definition, edited, words) in [
        (
            extracted("a", "/opt/app"),
            "/opt/app/conf",
            "is edited by line:/opt/app/conf and brought by archive:/srv/a".to_owned(),
        ),
        ("url = \"file:///usr/share/a\"".to_owned(), "/srv/a", format!("is edited by line:/srv/a; {goes}")),
        ("ensure = \"absent\"".to_owned(), "/srv/a", format!("is edited by line:/srv/a; {goes}")),
    ] {
        let root = ScratchRoot::new().plugin("files").plugin("archives").file("etc/os-release", "ID=debian\n");
        root.write("usr/share/a", Tar::new().file("conf", "a\n").end());
        root.write("opt/app/conf", "a person's\n");
        root.write("srv/a", "a person's\n");
        root.write("usr/share/holo/files/10-x.toml", format!("[[line]]\npath = {edited:?}\nline = \"ours\"\n"));
        apply(&root);
        declare(&root, "10-a", "/srv/a", &definition);
        fails(&root, &format!("{edited} {words}"));
        fs::remove_file(root.join("usr/share/holo/files/10-x.toml")).unwrap();
        apply(&root);
        settled(&root);
        drop_definition(&root, "10-a");
        apply(&root);
        assert_eq!((root.read("opt/app/conf"), root.read("srv/a")), ("a person's\n".into(), "a person's\n".into()));
    }
}

fn what_comes_back_has_its_attributes() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let root = empty_root();
    for path in ["opt/app/conf", "srv/a"] {
        root.write(path, "a person's\n");
        if setxattr(root.join(path), "user.mine", b"kept", XattrFlags::empty()).is_err() {
            // The file system does not support attributes.
            return;
        }
    }
    root.write("usr/share/a", Tar::new().file("conf", "a\n").end());
    declare(&root, "10-a", "/srv/a", &extracted("a", "/opt/app"));
    apply(&root);
    drop_definition(&root, "10-a");
    apply(&root);
    for path in ["opt/app/conf", "srv/a"] {
        assert_eq!(root.read(path), "a person's\n");
        let mut value = [0; 16];
        let length = getxattr(root.join(path), "user.mine", &mut value).unwrap();
        assert_eq!(&value[..length], b"kept", "{path}");
    }
}

fn what_is_said_is_what_was_done() {
    let root = empty_root();
    root.write("usr/share/a", "no archive");
    declare(&root, "10-a", "/srv/a", &extracted("a", "/opt/app"));
    fails(&root, "cannot extract");
    declare(&root, "10-a", "/srv/a", "ensure = \"absent\"");
    let run = root.holo(&["apply", "--json"]);
    assert!(!run.stdout_lossy().contains("removed what was extracted"), "{run}");
}

/// The paths in random archives, such that a path may be a file in one and a directory in another.
const NAMES: [&str; 8] = ["f", "g", "d/f", "d/g", "d/e/f", "d/e", "h/i", "h"];
const DIRECTORIES: [&str; 5] = ["/opt", "/opt/d", "/opt/d/e", "/opt/x", "/link"];

fn random_tar(random: &mut Random) -> Vec<u8> {
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    for _ in 0..1 + random.below(4) {
        let name = *random.pick(&NAMES);
        let is_apart =
            |other: &&str| !other.starts_with(&format!("{name}/")) && !name.starts_with(&format!("{other}/"));
        if files.keys().all(is_apart) {
            files.insert(name, format!("{}\n", random.below(3)));
        }
    }
    let mut tar = Tar::new();
    if random.chance(20) {
        tar = tar.directory("empty");
    }
    files.into_iter().fold(tar, |tar, (name, content)| tar.file(name, content)).end()
}

fn redefine(root: &ScratchRoot, random: &mut Random, number: usize) {
    let file = format!("{number}-archive");
    if random.chance(30) {
        let _ = fs::remove_file(root.join(format!("usr/share/holo/archives/{file}.toml")));
        return;
    }
    root.write(format!("usr/share/source{number}"), random_tar(random));
    let path = *random.pick(&["/srv/p", "/srv/q", "/opt/x/r"]);
    let directory: &str = random.pick::<&str>(&DIRECTORIES);
    let mut lines = extracted(&format!("source{number}"), directory);
    if random.chance(20) {
        lines += "\ncleanup = true";
    }
    if random.chance(10) {
        lines = "ensure = \"absent\"".to_owned();
    }
    declare(root, &file, &format!("{path}{number}"), &lines);
}

/// Returns all files except our own, including directories that existed before, even if empty.
fn others_work(root: &ScratchRoot) -> String {
    let dump = root.dump().to_string();
    let end = format!("{}\n", "-".repeat(40));
    let ours = ["./var", "./usr/share/", "./tmp", "./run"];
    let kept = dump.split(&end).filter(|section| !ours.iter().any(|ours| section.contains(ours)));
    kept.collect::<Vec<_>>().join(&end)
}

fn whatever_archives_do_in_the_end_it_is_as_before() {
    cases(150, |random| {
        let root = ScratchRoot::in_memory().plugin("archives").dir("usr/share/holo/archives").dir("srv/empty");
        symlink("opt/x", root.join("link")).unwrap();
        for directory in ["opt/", "opt/d/", "opt/x/"] {
            for name in NAMES.iter().filter(|_| random.chance(15)) {
                let path = root.join(format!("{directory}{name}"));
                // Existing paths are not changed.
                if path.parent().is_some_and(|parent| fs::create_dir_all(parent).is_ok()) && !path.exists() {
                    fs::write(path, format!("a person's {directory}{name}\n")).unwrap();
                }
            }
        }
        let before = others_work(&root);
        for _ in 0..1 + random.below(4) {
            for number in 0..3 {
                if random.chance(70) {
                    redefine(&root, random, number);
                }
            }
            let run = root.holo(&["apply", "--jobs", "3"]);
            assert!(!run.stderr_lossy().contains("panicked"), "{run}");
        }
        for number in if random.chance(50) { [2, 0, 1] } else { [0, 1, 2] } {
            let file = root.join(format!("usr/share/holo/archives/{number}-archive.toml"));
            if fs::remove_file(file).is_ok() && random.chance(50) {
                let _ = root.holo(&["apply"]);
            }
        }
        let (first, second) = (root.holo(&["apply"]), root.holo(&["apply"]));
        let after = others_work(&root);
        assert_eq!(after, before, "{first}\n{}", root.dump());
        assert_eq!((second.status, second.stdout.to_string()), (Some(0), String::new()), "{second}");
        assert!(
            root.records("archives/trees").is_empty() && !root.exists("var/lib/holo/archives/kept"),
            "{}",
            root.dump()
        );
        assert!(!root.exists("var/lib/holo/state.db"), "{}", root.dump());
    });
}

/// An archive that replaces a user's configuration file, which also has an overlay.
fn overlaid() -> ScratchRoot {
    let root = ScratchRoot::new().plugin("files").plugin("archives").dir("srv").dir("usr/share/holo/archives");
    root.write("etc/os-release", "ID=unittest\n");
    root.write("etc/app/conf", "a person's\n");
    root.write("usr/share/a", Tar::new().file("conf", "one\n").file("other", "one\n").end());
    declare(&root, "10-a", "/srv/a", &extracted("a", "/etc/app"));
    apply(&root);
    root.write_script("usr/share/holo/files/50-x/etc/app/conf.holoscript", "#!/bin/sh\nsed s/^/over\\ /\n");
    apply(&root);
    assert_eq!(root.read("etc/app/conf"), "over one\n");
    settled(&root);
    root
}

fn what_is_laid_over_has_the_new_version_as_its_base() {
    for first in ["archive", "overlay", "absent"] {
        let root = overlaid();
        root.write("usr/share/a", Tar::new().file("conf", "two\n").file("other", "two\n").end());
        let check = root.holo(&["check"]);
        assert_eq!(check.status, Some(3), "{check}");
        let run = apply(&root);
        assert!(!run.stderr_lossy().contains("changed by user"), "{run}");
        let _ = apply(&root);
        settled(&root);
        assert_eq!((root.read("etc/app/conf"), root.read("etc/app/other")), ("over two\n".into(), "two\n".into()));
        let goes = |what| match what {
            "archive" => drop_definition(&root, "10-a"),
            "absent" => declare(&root, "10-a", "/srv/a", "ensure = \"absent\""),
            _ => fs::remove_dir_all(root.join("usr/share/holo/files/50-x")).unwrap(),
        };
        goes(first);
        let run = apply(&root);
        settled(&root);
        if first != "overlay" {
            assert!(run.stderr_lossy().contains("/etc/app/conf will be restored when its overlay is removed"), "{run}");
            assert_eq!(root.read("etc/app/conf"), "over two\n");
            assert!(!root.exists("etc/app/other"));
        } else {
            assert_eq!(root.read("etc/app/conf"), "two\n");
        }
        goes(if first == "overlay" { "archive" } else { "overlay" });
        apply(&root);
        apply(&root);
        settled(&root);
        if first == "absent" {
            assert_eq!(root.read("etc/app/conf"), "a person's\n");
            goes("archive");
            apply(&root);
        }
        assert_eq!(root.read("etc/app/conf"), "a person's\n", "{first} goes first");
        for path in ["base", "kept", "trees"] {
            assert!(!root.exists(format!("var/lib/holo/archives/{path}")), "{}", root.dump());
        }
    }
}

fn a_file_of_a_package_manager_beside_it_is_not_its_base() {
    for [stock, older] in [[".dpkg-dist", ""], [".dpkg-dist", ".dpkg-old"]] {
        let root = overlaid();
        root.write("etc/os-release", "ID=debian\n");
        for suffix in [stock, older].iter().filter(|suffix| !suffix.is_empty()) {
            root.write(format!("etc/app/conf{suffix}"), "a package's\n");
        }
        settled(&root);
        root.write("usr/share/a", Tar::new().file("conf", "two\n").file("other", "two\n").end());
        let run = apply(&root);
        assert!(!run.stdout_lossy().contains("found updated target base"), "{run}");
        settled(&root);
        assert_eq!(root.read("etc/app/conf"), "over two\n");
        fs::remove_dir_all(root.join("usr/share/holo/files/50-x")).unwrap();
        apply(&root);
        settled(&root);
        assert_eq!(root.read("etc/app/conf"), "two\n");
        drop_definition(&root, "10-a");
        apply(&root);
        assert_eq!(
            (root.read("etc/app/conf"), root.read("etc/app/conf.dpkg-dist")),
            ("a person's\n".into(), "a package's\n".into())
        );
    }
}

fn what_the_new_version_lacks_goes_with_what_is_laid_over_it() {
    let root = overlaid();
    root.write("usr/share/a", Tar::new().file("other", "two\n").end());
    let run = apply(&root);
    assert!(run.stderr_lossy().contains("/etc/app/conf will be restored when its overlay is removed"), "{run}");
    let _ = apply(&root);
    settled(&root);
    assert_eq!(root.read("etc/app/conf"), "over one\n");
    fs::remove_dir_all(root.join("usr/share/holo/files/50-x")).unwrap();
    apply(&root);
    let _ = apply(&root);
    settled(&root);
    assert_eq!((root.read("etc/app/conf"), root.read("etc/app/other")), ("a person's\n".into(), "two\n".into()));
    // A file with an overlay remains a file.
    root.write("usr/share/holo/files/50-x/etc/app/other", "over\n");
    apply(&root);
    root.write("usr/share/a", Tar::new().file("other/x", "three\n").end());
    fails(&root, "/etc/app/other has resource files, and would not be a file any more");
    assert_eq!(root.read("etc/app/other"), "over\n");
    assert!(!root.exists("etc/app/other/x"));
}
