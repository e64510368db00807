//! Databases of package managers as they are on real systems.

use super::*;
use crate::OsRelease;
use std::fs;
use tempfile::TempDir;

fn root(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Shows the owners of the files, and whether the content `stock` is unmodified.
fn shown(manager: &PackageManager, folder: &TempDir, paths: &[&str]) -> Vec<String> {
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    let found = find(manager, &Root::new(folder.path()), &paths);
    let show = |path: &PathBuf| match found.get(path) {
        None => "-".to_owned(),
        Some(PackagedFile { package, digest }) => {
            let is_stock = digest.as_ref().and_then(|digest| digest.is_of(b"stock\n"));
            format!("{package} {}", is_stock.map_or("?", |is| if is { "same" } else { "other" }))
        }
    };
    paths.iter().map(show).collect()
}

#[test]
fn debians_lists_and_digests_are_read() {
    let status = "Package: other\nConffiles:\n /etc/motd 0123\n\nPackage: tool\nStatus: x\nConffiles:\n /etc/tool.conf b4b3dbf42f3c5ae6a2d4a84e7d8a2e2c obsolete\n /etc/motd 2d2d6dd3a2b6ef6ec1bba91a46a9cce1\nDescription: x\n";
    let digest = HEXLOWER.encode(&Md5::digest(b"stock\n"));
    let status = status.replace("2d2d6dd3a2b6ef6ec1bba91a46a9cce1", &digest);
    let folder = root(&[
        ("var/lib/dpkg/status", &status),
        ("var/lib/dpkg/info/tool:amd64.list", "/.\n/etc\n/etc/tool.conf\n/etc/motd\n/bin/tool\n/usr/share/a b\n"),
        ("var/lib/dpkg/info/tool:amd64.md5sums", &format!("{digest}  bin/tool\n{digest}  usr/share/a b\n")),
        ("var/lib/dpkg/info/other.list", "/.\n/etc\n/etc/motd.d\n"),
    ]);
    let paths = ["/etc/motd", "/etc/tool.conf", "/usr/bin/tool", "/usr/share/a b", "/etc", "/etc/mot", "/usr/share/a"];
    let expected = ["tool same", "tool other", "tool same", "tool same", "other ?", "-", "-"];
    assert_eq!(shown(&APT, &folder, &paths), expected);
}

#[test]
fn files_of_a_removed_package_are_leftovers() {
    let status = "Package: gone\nStatus: deinstall ok config-files\nConffiles:\n /etc/gone.conf 0\n\n\
                  Package: here\nStatus: install ok installed\nConffiles:\n /etc/here.conf 2d2d6dd3a2b6ef6ec1bba91a46a9cce1\n";
    let folder = root(&[
        ("var/lib/dpkg/status", status),
        ("var/lib/dpkg/info/gone.list", "/.\n/etc\n/etc/gone.conf\n"),
        ("var/lib/dpkg/info/here.list", "/.\n/etc\n/etc/here.conf\n"),
    ]);
    assert_eq!(shown(&APT, &folder, &["/etc/gone.conf", "/etc/here.conf", "/etc"]), ["-", "here other", "here ?"]);
    let root = Root::new(folder.path());
    let one = |path: &str, package: &str| BTreeMap::from([(path.into(), package.into())]);
    assert_eq!(leftovers(&root), one("/etc/gone.conf", "gone"));
    assert_eq!(configuration_files(&root), one("/etc/here.conf", "here"));
}

#[test]
fn diverted_files_belong_to_their_packages_under_their_new_names() {
    let digest = HEXLOWER.encode(&Md5::digest(b"stock\n"));
    let folder = root(&[
        ("var/lib/dpkg/diversions", "/bin/tool\n/bin/tool.real\n:\n/etc/x\n/etc/x.tool\nother\n"),
        ("var/lib/dpkg/info/tool.list", "/.\n/bin/tool\n/etc/x\n"),
        ("var/lib/dpkg/info/tool.md5sums", &format!("{digest}  bin/tool\n")),
        ("var/lib/dpkg/info/other.list", "/.\n/etc/x\n"),
    ]);
    let expected = ["-", "tool same", "other ?", "tool ?"];
    assert_eq!(shown(&APT, &folder, &["/bin/tool", "/bin/tool.real", "/etc/x", "/etc/x.tool"]), expected);
}

#[test]
fn malformed_diversions_are_refused_as_by_dpkg() {
    let local = |from: &str, to: &str| Diversion { from: from.into(), to: to.into(), package: None };
    let package = Diversion { package: Some("p".into()), ..local("/c d", "/e") };
    assert_eq!(parse_diversions(b"/a\n/b\n:\n/c d\n/e\np\n"), Ok(vec![local("/a", "/b"), package]));
    assert_eq!(parse_diversions(b""), Ok(vec![]));
    for (text, line) in [
        ("/a\n/b\n", 1),
        ("/a\n/b\n:\n/c\n", 4),
        ("a\n/b\n:\n", 1),
        ("/a\nb\n:\n", 1),
        ("/a\n/b\n\n", 1),
        ("\n\n\n", 1),
    ] {
        assert_eq!(parse_diversions(text.as_bytes()), Err(DiversionsError { line }), "{text:?}");
    }
}

#[test]
fn pacmans_lists_and_backups_are_read() {
    let digest = HEXLOWER.encode(&Md5::digest(b"stock\n"));
    let files = format!("%FILES%\netc/\netc/motd\nusr/bin/a-tool\n\n%BACKUP%\netc/motd\t{digest}\n");
    let folder = root(&[
        ("var/lib/pacman/local/a-tool-1.0-2/files", &files),
        ("var/lib/pacman/local/a-tool-1.0-2/desc", "%NAME%\na-tool\n"),
        ("var/lib/pacman/local/ALPM_DB_VERSION", "9\n"),
    ]);
    let expected = ["a-tool same", "a-tool ?", "a-tool ?", "-"];
    assert_eq!(shown(&PACMAN, &folder, &["/etc/motd", "/bin/a-tool", "/etc", "/etc/mot"]), expected[..].to_vec());
}

#[test]
fn apks_list_is_read() {
    let digest = BASE64.encode(&Sha1::digest(b"stock\n"));
    let text = format!(
        "P:base\nV:1\nF:\nF:etc\nR:motd\na:0:0:644\nZ:Q1{digest}\nR:other\n\nP:tool\nF:bin\nR:tool\nZ:Q1AAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"
    );
    let folder = root(&[("lib/apk/db/installed", &text)]);
    let expected = ["base same", "base ?", "tool other", "-", "base ?"];
    assert_eq!(shown(&APK, &folder, &["/etc/motd", "/etc/other", "/bin/tool", "/bin", "/etc"])[..3], expected[..3]);
    assert_eq!(shown(&APK, &folder, &["/etc", "/bin", "/sbin/x"]), ["base ?", "tool ?", "-"]);
}

#[test]
fn a_system_without_packages_owns_nothing() {
    let folder = root(&[("etc/os-release", "ID=debian\n")]);
    for manager in crate::package_manager::ALL {
        assert_eq!(shown(manager, &folder, &["/etc/os-release"]), ["-"], "{}", manager.name);
    }
    assert!(OsRelease::read(&Root::new(folder.path())).ids() == ["debian"]);
}
