//! The diagnoses of the plugin in `holo doctor`.

use holo_testing::{ScratchRoot, binaries::built};
use libtest_mimic::Trial;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![everything_that_is_wrong_is_found, nothing_else_is]
}

/// The path, content and mode of a file, and the expected finding and remedy.
const CASES: [(&str, &str, u32, &str, &str); 9] = [
    (
        "etc/os-release",
        "ID=haiku\n",
        0o644,
        "warning the distribution is not recognised by the IDs in os-release: haiku",
        "ID_LIKE",
    ),
    (
        "usr/share/holo/files/etc/motd",
        "own\n",
        0o644,
        "warning /usr/share/holo/files/etc/motd is an overlay of /motd, because etc is taken for the disambiguator",
        "10-etc",
    ),
    (
        "usr/share/holo/files/10-x/etc/motd.holoscript",
        "#!/bin/sh\n",
        0o644,
        "error /usr/share/holo/files/10-x/etc/motd.holoscript is a holoscript that cannot be executed",
        "chmod +x ",
    ),
    (
        "etc/motd.dpkg-dist",
        "new\n",
        0o644,
        "warning /etc/motd.dpkg-dist is a new version of /etc/motd",
        "holo apply file:/etc/motd",
    ),
    (
        "etc/other.pacnew",
        "new\n",
        0o644,
        "warning /etc/other.pacnew is a new version of /etc/other",
        "merge it by hand",
    ),
    (
        "etc/other.rpmnew",
        "new\n",
        0o644,
        "warning /etc/other.rpmnew is a new version of /etc/other",
        "rm /etc/other.rpmnew",
    ),
    (
        "etc/other.holonew",
        "half",
        0o644,
        "warning /etc/other.holonew was left behind by an interrupted apply",
        "rm /etc/other.holonew",
    ),
    (
        "usr/share/holo/files/x.toml",
        "[[file]]\npath = \"/etc/x\"\ncontent = \"s\"\nsensitive = true\n",
        0o644,
        "warning /usr/share/holo/files/x.toml contains sensitive definitions, and is world-readable",
        "chmod o-r ",
    ),
    (
        "var/lib/holo/files/.staged/intent-1",
        "x",
        0o644,
        "warning /var/lib/holo/files/.staged was left behind by an unfinished change",
        "the next apply recovers it",
    ),
];

/// Returns a machine that manages a file and has no problems.
fn well() -> ScratchRoot {
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .file("etc/os-release", "ID=debian\n")
        .file("etc/motd", "stock\n")
        .file("etc/other", "stock\n")
        .resource("files/10-x/etc/motd", "own\n");
    assert!(root.holo(&["apply"]).success());
    root
}

/// Returns the findings of the plugin: level, title and remedy, with paths relative to the root.
fn findings(root: &ScratchRoot) -> Vec<(String, String)> {
    let run = root.holo(&["doctor"]);
    let text = run.stdout_lossy().replace(&root.path().display().to_string(), "");
    let lines: Vec<String> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let of_plugin = lines.iter().enumerate().filter_map(|(index, line)| {
        let (level, rest) = line.split_once(' ')?;
        let remedy = lines.get(index + 1).and_then(|next| next.strip_prefix("→ ")).unwrap_or_default();
        Some((format!("{level} {}", rest.strip_prefix("files ")?), remedy.to_owned()))
    });
    of_plugin.collect()
}

fn everything_that_is_wrong_is_found() {
    for (path, text, mode, title, remedy) in CASES {
        let root = well();
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        root.write(path, text);
        fs::set_permissions(root.join(path), Permissions::from_mode(mode)).unwrap();
        let found = findings(&root);
        let is_found = found.iter().any(|(found, says)| found == title && says.contains(remedy));
        assert!(is_found, "{title}: {remedy}\n{found:#?}");
        assert_eq!(found.iter().filter(|(title, _)| !title.starts_with("ok")).count(), 1, "{found:#?}");
    }
}

fn nothing_else_is() {
    let fine = "ok no new stock files were found";
    assert_eq!(findings(&well()), [(fine.to_owned(), String::new())]);
    let root = well();
    root.write("usr/share/holo/files/source", "x\n");
    root.write("usr/share/holo/files/a.toml", "[[file]]\npath = \"/etc/x\"\nsource = \"source\"\n");
    assert_eq!(findings(&root), [(fine.to_owned(), String::new())]);
}
