//! Limits of file systems: unusual names, long paths, empty and huge files, missing permissions, read-only and full disks.

use bstr::{BString, ByteSlice};
use holo_testing::overlay::MOUNTS;
use holo_testing::{Need, Run, ScratchRoot, binaries::built, copy_program, trial_of, write_script};
use libtest_mimic::Trial;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial_of("names may be any bytes but a newline", &[], odd_names),
        trial_of("a name with a newline is refused, and the others go on", &[], newlines),
        trial_of("names and paths may be as long as the system allows", &[], long_names),
        trial_of("an empty file is a file", &[], empty_files),
        trial_of("a file of 100 MB needs no memory of its size", &[Need::Program("prlimit")], huge_files),
        trial_of("mode and owner stay those of the stock file", &[Need::Root], owners),
        trial_of("the symlinks of other users are not followed", &[Need::Root], symlinks_of_others),
        trial_of(
            "a user without rights is told, and nothing is lost",
            &[Need::Root, Need::Program("setpriv")],
            no_rights,
        ),
        trial_of(
            "a read-only file system is left as it is",
            &[Need::Root, Need::Program("unshare"), MOUNTS],
            read_only,
        ),
        trial_of(
            "a base comes back where the state directory is mounted apart",
            &[Need::Root, Need::Program("unshare"), MOUNTS],
            state_mounted_apart,
        ),
        trial_of("a full disk keeps the old file", &[Need::Root, Need::Program("unshare"), MOUNTS], full_disk),
    ]
}

fn root() -> ScratchRoot {
    ScratchRoot::new().binary(built("holo")).plugin("files").file("etc/os-release", "ID=debian\n")
}

/// Creates a target and a resource file for it.
fn overlay(root: &ScratchRoot, path: &OsStr, stock: &[u8], wanted: &[u8]) {
    for (folder, content) in [("etc", stock), ("usr/share/holo/files/01-x/etc", wanted)] {
        let file = root.join(folder).join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
}

fn target(root: &ScratchRoot, path: impl AsRef<Path>) -> PathBuf {
    root.join("etc").join(path)
}

#[track_caller]
fn applies(root: &ScratchRoot, arguments: &[&str]) -> Run {
    let run = root.holo(arguments);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    run
}

/// Asserts that there are no staged and no temporary files.
#[track_caller]
fn is_tidy(root: &ScratchRoot) {
    let dump = root.dump();
    assert!(!dump.contains_str(".holonew") && !dump.contains_str(".staged"), "{dump}");
    assert_eq!(fs::read_dir(root.join("tmp")).unwrap().count(), 0);
}

fn odd_names() {
    let names: [&[u8]; 14] = [
        b"two words",
        b" leading",
        b"trailing ",
        b"co:lon",
        b"co: lon",
        b"tab\there",
        b"caf\xe9",
        "caf\u{e9}".as_bytes(),
        b"quo\"te'",
        b"back\\slash",
        b"-dash",
        b"\x1b[1mbold",
        b"cr\r",
        b".holoscript",
    ];
    let root = root();
    for name in names {
        overlay(&root, OsStr::from_bytes(name), b"stock\n", b"wanted\n");
    }
    applies(&root, &["apply"]);
    for name in names {
        assert_eq!(fs::read(target(&root, OsStr::from_bytes(name))).unwrap(), b"wanted\n", "{}", name.as_bstr());
        let id = OsString::from_vec([b"file:/etc/", name].concat());
        let run = root.holo(&[OsStr::new("scan"), OsStr::new("-s"), &id]);
        assert_eq!(run.stdout, [id.as_bytes(), b"\n"].concat(), "{run}");
    }
    assert!(applies(&root, &["apply"]).stdout.is_empty());
    for name in names {
        fs::write(target(&root, OsStr::from_bytes(name)), "edited\n").unwrap();
    }
    let run = applies(&root, &["diff"]);
    assert_eq!(run.stdout.lines().filter(|line| line == b"+edited").count(), names.len(), "{run}");
    fs::remove_dir_all(root.join("usr/share/holo/files/01-x")).unwrap();
    applies(&root, &["apply"]);
    for name in names {
        assert_eq!(fs::read(target(&root, OsStr::from_bytes(name))).unwrap(), b"stock\n", "{}", name.as_bstr());
    }
    is_tidy(&root);
}

fn newlines() {
    let root = root();
    overlay(&root, OsStr::new("bad\nname"), b"stock\n", b"wanted\n");
    overlay(&root, OsStr::new("good"), b"stock\n", b"wanted\n");
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "not all is as it should be: {run}");
    assert!(
        run.stderr_lossy().contains(r#"etc/bad\nname": a file's name must not hold a newline; rename it"#),
        "{run}"
    );
    assert_eq!(fs::read(target(&root, "bad\nname")).unwrap(), b"stock\n");
    assert_eq!(fs::read(target(&root, "good")).unwrap(), b"wanted\n");
}

fn long_names() {
    let root = root();
    let longest = "n".repeat(255);
    let deep = vec!["d".repeat(200); 17].join("/");
    for path in [longest.clone(), format!("{deep}/file")] {
        overlay(&root, OsStr::new(&path), b"stock\n", b"wanted\n");
        applies(&root, &["apply"]);
        assert_eq!(fs::read(target(&root, &path)).unwrap(), b"wanted\n");
    }
    fs::remove_dir_all(root.join("usr/share/holo/files/01-x")).unwrap();
    applies(&root, &["apply"]);
    assert_eq!(fs::read(target(&root, &longest)).unwrap(), b"stock\n");
    is_tidy(&root);
}

fn empty_files() {
    let root = root();
    overlay(&root, OsStr::new("emptied"), b"stock\n", b"");
    overlay(&root, OsStr::new("filled"), b"", b"wanted\n");
    applies(&root, &["apply"]);
    assert_eq!(fs::read(target(&root, "emptied")).unwrap(), b"");
    assert_eq!(fs::read(target(&root, "filled")).unwrap(), b"wanted\n");
    assert!(applies(&root, &["apply"]).stdout.is_empty());
}

fn huge_files() {
    const SIZE: usize = 100 << 20;
    let root = root();
    overlay(&root, OsStr::new("huge"), b"stock\n", &vec![b'x'; SIZE]);
    overlay(&root, OsStr::new("filtered"), &vec![b'y'; SIZE], b"");
    let script = root.join("usr/share/holo/files/01-x/etc/filtered");
    fs::remove_file(&script).unwrap();
    write_script(script.with_extension("holoscript"), "#!/bin/sh\ntr y z\n");
    let holo = built("holo");
    for expected in [true, false] {
        // The limit is on the address space, including libraries.
        let run = root.run("prlimit", &["--as=64000000", "--", holo.to_str().unwrap(), "apply"]);
        assert!(run.success() && run.stderr.is_empty(), "{run}");
        assert_eq!(!run.stdout.is_empty(), expected, "{run}");
    }
    assert_eq!(fs::metadata(target(&root, "huge")).unwrap().len(), SIZE as u64);
    let filtered = fs::read(target(&root, "filtered")).unwrap();
    assert!(filtered.len() == SIZE && filtered.iter().all(|&byte| byte == b'z'));
}

fn owners() {
    let root = root();
    overlay(&root, OsStr::new("plain"), b"stock\n", b"wanted\n");
    let plain = target(&root, "plain");
    std::os::unix::fs::chown(&plain, Some(1234), Some(4321)).unwrap();
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o6751)).unwrap();
    overlay(&root, OsStr::new("link"), b"", b"");
    for link in [target(&root, "link"), root.join("usr/share/holo/files/01-x/etc/link")] {
        fs::remove_file(&link).unwrap();
        symlink(link.file_name().unwrap().to_str().unwrap().repeat(2), &link).unwrap();
    }
    lchown(target(&root, "link"), Some(1234), Some(4321)).unwrap();
    fs::remove_file(root.join("usr/share/holo/files/01-x/etc/link")).unwrap();
    symlink("elsewhere", root.join("usr/share/holo/files/01-x/etc/link")).unwrap();
    applies(&root, &["apply"]);
    let base = root.join("var/lib/holo/files/base/etc");
    for file in [plain.clone(), base.join("plain")] {
        let metadata = fs::metadata(&file).unwrap();
        assert_eq!(
            (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777),
            (1234, 4321, 0o6751),
            "{}",
            file.display()
        );
    }
    for link in [target(&root, "link"), base.join("link")] {
        let metadata = fs::symlink_metadata(&link).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (1234, 4321), "{}", link.display());
    }
    // A changed owner is a manual change.
    std::os::unix::fs::chown(&plain, Some(0), None).unwrap();
    let run = root.holo(&["apply", "file:/etc/plain"]);
    assert!(run.stderr_lossy().contains("modified by user"), "{run}");
}

fn symlinks_of_others() {
    let root = root().file("secret/shadow", "secret\n").file("secret/victim", "untouched\n");
    for name in ["home/victim", "home/way/victim"] {
        let resource = root.join("usr/share/holo/files/01-x").join(name);
        fs::create_dir_all(resource.parent().unwrap()).unwrap();
        fs::write(resource, "wanted\n").unwrap();
    }
    // Users can replace a directory or a file with a symlink in a directory of their own.
    fs::create_dir_all(root.join("home")).unwrap();
    symlink("../secret", root.join("home/way")).unwrap();
    symlink("../secret/shadow", root.join("home/victim")).unwrap();
    root.write_script("usr/share/holo/files/02-x/home/victim.holoscript", "#!/bin/sh\ncat\n");
    fs::remove_file(root.join("usr/share/holo/files/01-x/home/victim")).unwrap();
    for path in ["home", "home/way", "home/victim"] {
        lchown(root.join(path), Some(1234), Some(1234)).unwrap();
    }
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert_eq!(run.stderr.lines().filter(|line| line.starts_with(b"!! skipping target: ")).count(), 2, "{run}");
    assert_eq!(root.read("secret/victim"), "untouched\n");
    assert!(fs::symlink_metadata(root.join("home/victim")).unwrap().is_symlink());
    assert!(!root.dump().contains_str("./home/.") && !root.exists("secret/victim.holonew"));
}

fn no_rights() {
    let root = root();
    for name in ["hidden", "foreign"] {
        overlay(&root, OsStr::new(name), b"stock\n", b"wanted\n");
    }
    fs::set_permissions(target(&root, "hidden"), fs::Permissions::from_mode(0o600)).unwrap();
    for path in ["var/lib/holo", "run", "tmp"] {
        lchown(root.join(path), Some(65534), Some(65534)).unwrap();
    }
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // The build directory may not be world-readable, so copy the programs.
    for name in ["holo", "holo-files"] {
        copy_program(built(name), root.join("tmp").join(name));
    }
    root.write("etc/holorc", "plugin files\n");
    let holo = root.join("tmp/holo");
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "--", holo.to_str().unwrap()];
    let run = root.run("setpriv", &[&user[..], &["apply"]].concat());
    assert_eq!(run.status, Some(1), "{run}");
    let said = run.stderr_lossy();
    assert!(said.contains("hidden: permission denied") && said.contains("operation not permitted"), "{run}");
    for name in ["hidden", "foreign"] {
        assert_eq!(fs::read(target(&root, name)).unwrap(), b"stock\n");
    }
    let run = root.run("setpriv", &[&user[..], &["scan", "-s"]].concat());
    assert_eq!(run.stdout, "file:/etc/foreign\nfile:/etc/hidden\n", "{run}");
}

/// Runs holo after a shell command that changes mounts.
fn with_mounts(root: &ScratchRoot, mounts: &str) -> Run {
    let script = format!("set -e; {mounts}\nexec {} apply", built("holo").display());
    root.run("unshare", &["--mount", "sh", "-c", &script])
}

fn read_only() {
    let root = root();
    overlay(&root, OsStr::new("file"), b"stock\n", b"wanted\n");
    let etc = root.join("etc");
    let run = with_mounts(&root, &format!("mount --bind {0} {0}; mount -o remount,bind,ro {0}", etc.display()));
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("etc/file.holonew: read-only file system"), "{run}");
    assert_eq!(fs::read(target(&root, "file")).unwrap(), b"stock\n");
    applies(&root, &["apply"]);
    assert_eq!(fs::read(target(&root, "file")).unwrap(), b"wanted\n");
    is_tidy(&root);
}

fn state_mounted_apart() {
    let root = root();
    for name in ["one", "two", "three"] {
        overlay(&root, OsStr::new(name), format!("stock {name}\n").as_bytes(), b"wanted\n");
    }
    applies(&root, &["apply"]);
    fs::remove_dir_all(root.join("usr/share/holo/files/01-x")).unwrap();
    let state = root.join("var/lib/holo/files");
    // It is the same file system, but renames across the mount point fail.
    let run = with_mounts(&root, &format!("mount --bind {0} {0}", state.display()));
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    for name in ["one", "two", "three"] {
        assert_eq!(fs::read(target(&root, name)).unwrap(), format!("stock {name}\n").as_bytes());
    }
    assert!(!root.exists("var/lib/holo/files/base/etc") && !root.exists("var/lib/holo/files/provisioned/etc"));
    is_tidy(&root);
}

fn full_disk() {
    let root = root();
    overlay(&root, OsStr::new("file"), b"stock\n", &vec![b'w'; 1 << 20]);
    let (etc, saved) = (root.join("etc"), root.join("saved"));
    fs::create_dir(&saved).unwrap();
    let mounts = format!(
        "cp -a {etc}/. {saved}; mount -t tmpfs -o size=64k none {etc}; cp -a {saved}/. {etc}; \
         trap 'cp -a {etc}/. {saved}' EXIT; {holo} apply; exit $?",
        etc = etc.display(),
        saved = saved.display(),
        holo = built("holo").display(),
    );
    let run = with_mounts(&root, &format!("set +e; {mounts}"));
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("etc/file.holonew: no space left on device"), "{run}");
    assert_eq!(BString::from(fs::read(saved.join("file")).unwrap()), "stock\n");
    assert!(!saved.join("file.holonew").exists());
    assert!(File::open(root.join("var/lib/holo/files/.staged")).is_err(), "something is left staged");
}
