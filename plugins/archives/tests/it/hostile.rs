//! Archives that no honest tool creates: no file is created outside of the tree, and the old tree remains.

use crate::support::samples::{Tar, bzip2, gzip, xz, zip, zstd};
use crate::support::{apply, define, fails, in_little_memory, root, settled};
use holo_testing::ScratchRoot;
use holo_testing::require::is_complete;
use libtest_mimic::Trial;
use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::Duration;
use tar::EntryType;

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        names_that_lead_out,
        symlinks_that_lead_out,
        writing_through_symlinks,
        symlinks_that_were_there_before,
        symlinks_of_others_on_the_way,
        hard_links_out,
        devices_and_the_like,
        programs_do_not_run_as_others,
        bombs,
        names_of_any_kind,
        names_that_come_twice,
        a_hundred_thousand_entries,
        archives_of_the_systems_own_tools,
        a_sparse_file_in_pax_format_is_refused_by_name,
    ]
}

const DEFINITION: &str = "url = \"file:///usr/share/app\"\nextract_to = \"/opt/app\"";

/// A root with an old tree, a directory next to it, and a file that must not be changed.
fn with_old_tree(more: &str) -> ScratchRoot {
    let old = Tar::new().file("bin/app", "old\n").file("etc/app.conf", "old\n").symlink("link", "etc/app.conf").end();
    let root = root(&format!("{DEFINITION}\n{more}"))
        .file("usr/share/app", gzip(&old))
        .file("etc/passwd", "root:x:0:0::/:\n")
        .file("opt/beside/file", "beside\n");
    apply(&root);
    root
}

/// Returns all files except our own state and the download.
fn outside(root: &ScratchRoot) -> String {
    let dump = root.dump().to_string();
    let end = format!("{}\n", "-".repeat(40));
    let ours = ["record of ", "./var/", "./srv", "./usr/share/app", "./tmp"];
    dump.split(&end).filter(|section| !ours.iter().any(|ours| section.contains(ours))).collect()
}

/// Extracts an archive over the old tree, and asserts that it is refused with this message.
#[track_caller]
fn refused(archive: &[u8], words: &str) {
    refused_with("", archive, words);
}

#[track_caller]
fn refused_with(more: &str, archive: &[u8], words: &str) {
    let root = with_old_tree(more);
    let before = outside(&root);
    root.write("usr/share/app", archive);
    // Force overwrites manual changes, but does not bypass this check.
    for arguments in [&["apply"][..], &["apply", "--force"]] {
        let run = root.holo(arguments);
        assert_eq!(run.status, Some(1), "{words}: {run}");
        assert!(run.stderr_lossy().contains(words), "expected {words:?} in\n{run}");
        let said = run.stderr_lossy();
        assert!(said.contains("cannot extract") || said.contains("cannot download"), "{run}");
    }
    assert_eq!(outside(&root), before, "{words}");
}

fn names_that_lead_out() {
    for name in ["../out", "a/../../out", "a/..", "..", "./../out", "bin/../../beside/file"] {
        refused(&Tar::new().file("good", "x").file(name, "x").end(), "its name holds \"..\"");
        refused(&zip(&[(b"good", 0o100_644, b"x"), (name.as_bytes(), 0o100_644, b"x")]), "its name holds \"..\"");
    }
    for name in ["/etc/passwd", "//etc/passwd", "/"] {
        refused(&Tar::new().file(name, "x").end(), "its name is absolute");
        refused(&zip(&[(name.as_bytes(), 0o100_644, b"x")]), "its name is absolute");
    }
    let long = format!("{}../out", "d/".repeat(60));
    refused(&Tar::new().file(&long, "x").end(), "its name holds \"..\"");
    // Stripping does not make the name valid.
    refused_with("strip_components = 1", &Tar::new().file("../out", "x").end(), "its name holds \"..\"");
}

fn symlinks_that_lead_out() {
    for target in ["/etc", "..", "../beside", "/opt/app/../beside", "bin/../../beside", "/"] {
        refused(&Tar::new().symlink("out", target).end(), "leads out");
        refused(&zip(&[(b"out", 0o120_777, target.as_bytes())]), "leads out");
    }
    let through = Tar::new().directory("a/b").symlink("a/b/up", "../..").symlink("out", "a/b/up/../beside").end();
    refused(&through, "leads out");
    refused(&Tar::new().symlink("empty", "").end(), "symlink without a target");
}

fn writing_through_symlinks() {
    for target in ["/etc", "../beside", "etc"] {
        refused(&Tar::new().symlink("s", target).file("s/passwd", "x").end(), "its parent is not a directory");
        refused(
            &zip(&[(b"s", 0o120_777, target.as_bytes()), (b"s/passwd", 0o644, b"x")]),
            "its parent is not a directory",
        );
    }
    refused(&Tar::new().symlink("s", "../beside").directory("s").end(), "file exists");
    // A file with the name of a symlink replaces the symlink.
    let root = with_old_tree("");
    root.write("usr/share/app", Tar::new().symlink("s", "../../etc/passwd").file("s", "mine\n").end());
    apply(&root);
    assert_eq!(root.read("opt/app/s"), "mine\n");
    assert_eq!(root.read("etc/passwd"), "root:x:0:0::/:\n");
}

fn symlinks_that_were_there_before() {
    let root = with_old_tree("");
    symlink("../beside", root.join("opt/app/data")).unwrap();
    root.write("usr/share/app", Tar::new().file("data/file", "x").end());
    let before = outside(&root);
    let run = root.holo(&["apply"]);
    assert!(run.to_string().contains("--force"), "{run}");
    assert_eq!(outside(&root), before);
    assert_eq!(root.holo(&["apply", "--force"]).status, Some(0));
    assert_eq!(root.read("opt/beside/file"), "beside\n");
    assert_eq!(root.read("opt/app/data/file"), "x");
    settled(&root);
    // An upgrade from a symlink to a directory does not follow it either.
    let root = with_old_tree("");
    root.write("usr/share/app", Tar::new().file("etc/app.conf", "new").file("link/app.conf", "x").end());
    apply(&root);
    assert_eq!(root.read("etc/passwd"), "root:x:0:0::/:\n");
    assert_eq!(root.read("opt/app/link/app.conf"), "x");
    settled(&root);
}

fn symlinks_of_others_on_the_way() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        // Only root can create files of other users.
        return;
    }
    let root = with_old_tree("");
    fs::remove_dir_all(root.join("opt/app")).unwrap();
    symlink("beside", root.join("opt/app")).unwrap();
    std::os::unix::fs::lchown(root.join("opt/app"), Some(1234), None).unwrap();
    fails(&root, "another user");
    assert_eq!(fs::read_dir(root.join("opt/beside")).unwrap().count(), 1);
}

fn hard_links_out() {
    for target in ["/etc/passwd", "../beside/file"] {
        refused(&Tar::new().hard_link("h", target).end(), "hard link");
    }
    refused(&Tar::new().hard_link("h", "bin/app").end(), "hard link to no file of the archive");
    refused(&Tar::new().symlink("s", "/etc/passwd").hard_link("h", "s").end(), "hard link to no file of the archive");
    refused(&Tar::new().directory("d").hard_link("h", "d").end(), "hard link to no file of the archive");
}

fn devices_and_the_like() {
    for kind in [EntryType::Char, EntryType::Block, EntryType::Fifo] {
        refused(&Tar::new().special("dev", kind).end(), "it is a device or a FIFO");
    }
    refused(&Tar::new().special("x", EntryType::new(b'S' + 1)).end(), "unknown type");
    for mode in [0o020_666, 0o060_666, 0o010_666, 0o140_666] {
        refused(&zip(&[(b"dev", mode, b"")]), "it is neither a file, a directory nor a symlink");
    }
}

fn programs_do_not_run_as_others() {
    let root = with_old_tree("");
    let tar = Tar::new().file_with_mode("suid", "x", 0o6755).file_with_mode("open", "x", 0o7777).end();
    for archive in [tar, zip(&[(b"suid", 0o106_755, b"x"), (b"open", 0o107_777, b"x")])] {
        root.write("usr/share/app", archive);
        apply(&root);
        for name in ["suid", "open"] {
            assert_eq!(fs::metadata(root.join("opt/app").join(name)).unwrap().mode() & 0o7777, 0o755, "{name}");
        }
        settled(&root);
    }
}

fn bombs() {
    let deflated = |content: &[u8]| {
        let mut zip = ::zip::ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("x", ::zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
        zip.finish().unwrap().into_inner()
    };
    let big = Tar::new().file("zeros", vec![0; 3 << 20]).end();
    for bomb in [gzip(&big), bzip2(&big), xz(&big), zstd(&big)] {
        refused_with("max_size = 1000000", &bomb, "it would take more than 1000000 bytes");
    }
    // This one is too large to be downloaded.
    refused_with("max_size = 1000000", &big, "it has more than 1000000 bytes");
    refused_with("max_size = 10000", &deflated(&[0; 20_000]), "it would take more than 10000 bytes");
    // Zeros after the end are counted too, here with the default limit.
    refused(
        &zstd(&Tar::new().file("x", "x").bytes(&vec![0; 257 << 20]).end()),
        "it would take more than 268435456 bytes",
    );
    let many = (0..1100).fold(Tar::new(), |tar, number| tar.directory(format!("d{number}")));
    refused_with("max_entries = 1000", &many.end(), "it has more than 1000 entries");
    let nested = "d/".repeat(200) + "file";
    refused(&Tar::new().file(&nested, "x").end(), "it is nested deeper than 128 directories");
    // The depth of each entry is permitted, but there are many directories.
    let wide = (0..20).fold(Tar::new(), |tar, number| tar.file(format!("{number}/{}x", "d/".repeat(100)), "x"));
    refused_with("max_entries = 1000", &wide.end(), "it has more than 1000 entries");
    refused(&Tar::new().file("n".repeat(300), "x").end(), "its name is too long");
    // A name that fills the memory.
    let name = vec![b'n'; 20 << 20];
    refused(&gzip(&Tar::new().file(&name, "x").end()), "an entry's headers take more than");
    // An archive that is compressed twice is decompressed once.
    refused(&gzip(&gzip(&Tar::new().file("x", "x").end())), "it is a compressed file and no archive");
}

fn names_of_any_kind() {
    let root = with_old_tree("");
    let names: [&[u8]; 7] = [b"a\nb", b"\x1b[31mred", b"sp ace", b"\xff\xfe", b"-rf", b"a\\b", b"#x"];
    let tar = names.iter().fold(Tar::new(), |tar, name| tar.file(name, "x"));
    root.write("usr/share/app", tar.end());
    apply(&root);
    settled(&root);
    assert_eq!(fs::read_dir(root.join("opt/app")).unwrap().count(), names.len());
    root.write("opt/app/\x1b[31mred", "edited");
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains(r#"changed by user: "/opt/app/\u{1b}[31mred""#), "{run}");
    define(&root, "ensure = \"absent\"");
    assert_eq!(root.holo(&["apply", "--force"]).status, Some(0));
    assert!(!root.exists("opt/app"));
    // Names are escaped in messages.
    let root = with_old_tree("");
    root.write("usr/share/app", Tar::new().file("../a\n!! all is well", "x").end());
    let run = fails(&root, "its name holds");
    assert!(!run.stderr_lossy().contains("\n!! all is well"), "{run}");
}

fn names_that_come_twice() {
    let root = with_old_tree("");
    let tar = Tar::new().file("x", "first").file("x", "last").directory("d").directory("d").file("d/y", "y").end();
    root.write("usr/share/app", tar);
    apply(&root);
    assert_eq!(root.read("opt/app/x"), "last");
    settled(&root);
    refused(&Tar::new().file("x", "x").file("x/y", "y").end(), "its parent is not a directory");
    refused(&Tar::new().file("x/y", "y").file("x", "x").end(), "it is a directory too");
    refused(&Tar::new().file("x", "x").directory("x").end(), "file exists");
}

fn a_hundred_thousand_entries() {
    let root = with_old_tree("").time_limit(Duration::from_secs(600));
    let folders = if is_complete() { 100 } else { 20 };
    let many = (0..folders * 1000).fold(Tar::new(), |tar, number| tar.file(format!("{}/{number}", number / 1000), "x"));
    root.write("usr/share/app", zstd(&many.end()));
    in_little_memory(&root, "apply");
    assert_eq!(fs::read_dir(root.join("opt/app")).unwrap().count(), folders);
    assert_eq!(fs::read_dir(root.join("opt/app/19")).unwrap().count(), 1000);
    settled(&root);
    in_little_memory(&root, "apply");
    root.write("usr/share/app", Tar::new().file("one", "x").end());
    in_little_memory(&root, "apply");
    assert_eq!(fs::read_dir(root.join("opt/app")).unwrap().count(), 1);
}

fn archives_of_the_systems_own_tools() {
    let root =
        with_old_tree("strip_components = 1").file("in/pkg/bin/app", "new\n").file("in/pkg/etc/app.conf", "new\n");
    fs::create_dir_all(root.join("in/pkg/deep").join("long-name-".repeat(20))).unwrap();
    symlink("bin/app", root.join("in/pkg/link")).unwrap();
    fs::hard_link(root.join("in/pkg/bin/app"), root.join("in/pkg/alias")).unwrap();
    let sparse = fs::File::create(root.join("in/pkg/sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    for format in ["--format=gnu", "--format=posix", "--sparse"] {
        let run = root.run("tar", &[format, "-cf", "usr/share/app", "-C", "in", "pkg"]);
        assert!(run.success(), "{format}: {run}");
        apply(&root);
        assert_eq!(root.read("opt/app/alias"), "new\n", "{format}");
        assert_eq!(root.read("opt/app/link"), "new\n");
        assert_eq!(fs::metadata(root.join("opt/app/sparse")).unwrap().len(), 1 << 20);
        assert!(root.join("opt/app/deep").join("long-name-".repeat(20)).is_dir());
        settled(&root);
    }
}

fn a_sparse_file_in_pax_format_is_refused_by_name() {
    let record = |key: &str, value: &str| {
        // A record begins with its own length, which has three digits here.
        let rest = format!(" {key}={value}\n");
        format!("{}{rest}", rest.len() + if rest.len() + 2 < 100 { 2 } else { 3 })
    };
    let headers = [
        record("GNU.sparse.major", "1"),
        record("GNU.sparse.minor", "0"),
        record("GNU.sparse.name", "disk.img"),
        record("GNU.sparse.realsize", "1048576"),
    ];
    let tar = Tar::new().pax(headers.concat()).file("GNUSparseFile.0/disk.img", "1\n0\n512\n");
    refused(&tar.end(), "\"disk.img\": it is a sparse file in PAX format");
}
