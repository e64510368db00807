//! Kills applies at each system call that changes files, and lets the next apply complete them.
//!
//! This is done with `strace`, for the N-th call of each kind and all N. Afterwards no file is torn, the original files
//! still exist in some place, and one more apply produces exactly the tree of an undisturbed one, without requiring
//! force.

use crate::authenticity::{BODY, KEY, SIGNATURE};
use crate::support::samples::{Tar, gzip, zstd};
use crate::support::{define, sha256};
use bstr::{BString, ByteSlice};
use holo_download::testing::{Reply, Server};
use holo_testing::disturb::{self, Disturbance, Seen};
use holo_testing::{ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::fs;

/// An apply that is killed.
struct Case {
    name: &'static str,
    /// Creates the root before the apply that is killed.
    before: fn(&ScratchRoot, &Server),
    /// Changes the definitions after the apply that is killed.
    then: fn(&ScratchRoot),
}

static CASES: [Case; 22] = [
    Case { name: "the first version, over a person's files", before: first, then: nothing },
    Case { name: "the first version, from a server", before: served, then: nothing },
    Case { name: "a download with a signature", before: signed, then: nothing },
    Case { name: "an upgrade to a download with a signature", before: upgrade_to_signed, then: nothing },
    Case { name: "an upgrade", before: upgrade, then: nothing },
    Case { name: "an upgrade with the download removed", before: upgrade_and_clean_up, then: nothing },
    Case { name: "an upgrade beside a file that is kept", before: upgrade_beside_kept, then: nothing },
    Case { name: "scrubbing beside a file that is kept", before: scrubbed_beside_kept, then: nothing },
    Case { name: "another directory", before: moved, then: nothing },
    Case { name: "absent", before: absent, then: nothing },
    Case { name: "scrubbing", before: scrubbed, then: nothing },
    Case { name: "another definition of the same directory", before: renamed, then: nothing },
    Case { name: "two definitions instead of one", before: split, then: nothing },
    Case { name: "scrubbing what shares a directory", before: sharing, then: nothing },
    Case { name: "a directory where a file was, and scrubbing", before: turned, then: nothing },
    Case { name: "an upgrade of what something is laid over", before: laid_over, then: nothing },
    Case { name: "scrubbing of what something is laid over", before: laid_over_and_scrubbed, then: nothing },
    Case { name: "the first version, and then none", before: first_of_two, then: undefine },
    Case { name: "the first version, and then another one", before: first_of_two, then: second_version },
    Case { name: "an upgrade, and then none", before: upgrade, then: undefine },
    Case { name: "an upgrade, and then another archive with the rest", before: upgrade, then: with_the_rest },
    Case { name: "a download that is there already, and then none", before: there_already, then: undefine },
];

const FILE: &str = "url = \"file:///usr/share/app\"\nextract_to = \"/opt/app\"\nstrip_components = 1";

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |case: &'static Case| {
        let name = format!("{}: the plugin may be killed at any system call", case.name);
        trial_of(&name, disturb::NEEDS, || kill_everywhere(case))
    };
    CASES.iter().map(trial).collect()
}

fn version_1() -> Vec<u8> {
    let tar = Tar::new().file_with_mode("app-1/bin/app", "one\n", 0o755).file("app-1/etc/app.conf", "one\n");
    let tar = tar.file("app-1/old/gone", "gone\n").symlink("app-1/link", "bin/app").file("app-1/turns", "a file\n");
    gzip(&tar.hard_link("app-1/bin/alias", "app-1/bin/app").end())
}

fn version_2() -> Vec<u8> {
    let tar = Tar::new().file_with_mode("app-2/bin/app", "two\n", 0o755).file("app-2/new", "new\n");
    zstd(&tar.file("app-2/turns/inside", "a directory\n").file("app-2/link", "a file\n").end())
}

fn server() -> Server {
    Server::new(|asked| match &*asked.path {
        "/signed" => Reply::rest(asked, BODY, "\"signed\""),
        "/signed.minisig" => Reply::of(SIGNATURE),
        _ => Reply::rest(asked, &version_1(), "\"one\""),
    })
}

fn first(root: &ScratchRoot, _: &Server) {
    define(root, FILE);
    root.write("usr/share/app", version_1());
    root.write("opt/app/etc/app.conf", "a person's\n");
    root.write("srv/app.tar", "a person's\n");
}

/// Another archive remains, whatever happens to the first one.
fn first_of_two(root: &ScratchRoot, server: &Server) {
    first(root, server);
    root.write("usr/share/other", Tar::new().file("x", "one\n").end());
    let other =
        "[[archive]]\npath = \"/srv/other.tar\"\nurl = \"file:///usr/share/other\"\nextract_to = \"/opt/other\"\n";
    root.write("usr/share/holo/archives/20-other.toml", other);
    root.write("opt/other/x", "a person's\n");
}

/// A user's file is the desired download, except for its mode.
fn there_already(root: &ScratchRoot, server: &Server) {
    first_of_two(root, server);
    root.write("srv/app.tar", version_1());
    define(root, &format!("{FILE}\nchecksum = {:?}\nmode = \"0600\"", sha256(&version_1())));
}

fn nothing(_: &ScratchRoot) {}

fn undefine(root: &ScratchRoot) {
    fs::remove_file(root.join("usr/share/holo/archives/10-test.toml")).unwrap();
}

/// Another archive, which comes first, contains the files that the new version lacks.
fn with_the_rest(root: &ScratchRoot) {
    root.write("usr/share/rest", Tar::new().file("etc/app.conf", "one\n").file("old/gone", "gone\n").end());
    let rest = "[[archive]]\npath = \"/srv/a.tar\"\nurl = \"file:///usr/share/rest\"\nextract_to = \"/opt/app\"\n";
    root.write("usr/share/holo/archives/05-rest.toml", rest);
}

/// This version does not contain the user's file.
fn second_version(root: &ScratchRoot) {
    root.write("usr/share/app", version_2());
}

fn served(root: &ScratchRoot, server: &Server) {
    define(
        root,
        &format!(
            "url = {:?}\nchecksum = {:?}\nextract_to = \"/opt/app\"\nstrip_components = 1\nmode = \"0600\"",
            server.url("/app"),
            sha256(&version_1())
        ),
    );
}

/// A user's file is at the path of a signed download.
fn signed(root: &ScratchRoot, server: &Server) {
    root.write("srv/app.tar", "a person's\n");
    define_signed(root, server);
}

/// The previous download had no signature, and was extracted.
fn upgrade_to_signed(root: &ScratchRoot, server: &Server) {
    applied(root, server);
    define_signed(root, server);
}

fn define_signed(root: &ScratchRoot, server: &Server) {
    let (url, signature) = (server.url("/signed"), server.url("/signed.minisig"));
    define(root, &format!("url = {url:?}\nsignature_url = {signature:?}\nminisign_key = {KEY:?}"));
}

fn applied(root: &ScratchRoot, server: &Server) {
    first(root, server);
    assert!(root.holo(&["apply"]).success());
    root.write("opt/app/bin/mine", "a person's\n");
}

fn upgrade(root: &ScratchRoot, server: &Server) {
    applied(root, server);
    root.write("usr/share/app", version_2());
}

fn upgrade_and_clean_up(root: &ScratchRoot, server: &Server) {
    upgrade(root, server);
    define(root, &format!("{FILE}\ncleanup = true\nchecksum = {:?}", sha256(&version_2())));
}

/// The original file is no longer needed, because a user has changed its replacement.
fn beside_kept(root: &ScratchRoot, server: &Server) {
    applied(root, server);
    define(root, &format!("{FILE}\nkeep = [\"etc\"]"));
    assert!(root.holo(&["apply"]).success());
    root.write("opt/app/etc/app.conf", "a person's\n");
}

fn upgrade_beside_kept(root: &ScratchRoot, server: &Server) {
    beside_kept(root, server);
    root.write("usr/share/app", version_2());
}

fn scrubbed_beside_kept(root: &ScratchRoot, server: &Server) {
    beside_kept(root, server);
    undefine(root);
}

fn moved(root: &ScratchRoot, server: &Server) {
    applied(root, server);
    define(root, "url = \"file:///usr/share/app\"\nextract_to = \"/opt/deep/other\"");
}

fn absent(root: &ScratchRoot, server: &Server) {
    applied(root, server);
    define(root, "ensure = \"absent\"");
}

fn scrubbed(root: &ScratchRoot, server: &Server) {
    applied(root, server);
    undefine(root);
}

/// The definition gets another ID, which sorts after the old one.
fn renamed(root: &ScratchRoot, server: &Server) {
    applied(root, server);
    root.write("srv/other/x", "");
    root.write("usr/share/holo/archives/10-test.toml", format!("[[archive]]\npath = \"/srv/x.tar\"\n{FILE}\n"));
}

/// The paths of one archive are split between two, in one apply.
fn split(root: &ScratchRoot, server: &Server) {
    applied(root, server);
    let part = |name: &str, text: &str| {
        let more = format!("url = \"file:///usr/share/{name}\"\nextract_to = \"/opt/app\"");
        root.write(format!("usr/share/{name}"), text);
        format!("[[archive]]\npath = \"/srv/{name}.tar\"\n{more}\n")
    };
    let two = [part("a", ""), part("x", "")].concat();
    root.write("usr/share/a", Tar::new().file("etc/app.conf", "one\n").end());
    root.write("usr/share/x", Tar::new().file("turns", "two\n").end());
    root.write("usr/share/holo/archives/10-test.toml", two);
}

/// Of two archives in one directory, one is removed.
fn sharing(root: &ScratchRoot, server: &Server) {
    root.write("usr/share/other", Tar::new().file("bin/other", "one\n").file("mine/x", "one\n").end());
    let other =
        "[[archive]]\npath = \"/srv/other.tar\"\nurl = \"file:///usr/share/other\"\nextract_to = \"/opt/app\"\n";
    root.write("usr/share/holo/archives/20-other.toml", other);
    applied(root, server);
    fs::remove_file(root.join("usr/share/holo/archives/10-test.toml")).unwrap();
}

/// A user's file is at the path of a directory in the archive.
fn turned(root: &ScratchRoot, server: &Server) {
    root.write("opt/app/turns", "a person's\n");
    upgrade(root, server);
    assert!(root.holo(&["apply"]).success());
    fs::remove_file(root.join("usr/share/holo/archives/10-test.toml")).unwrap();
}

/// The `files` plugin has overlays on two files, one of which the new version lacks.
fn laid_over(root: &ScratchRoot, server: &Server) {
    upgrade(root, server);
    for path in ["opt/app/bin/app", "opt/app/etc/app.conf"] {
        let base = root.join("var/lib/holo/files/base").join(path);
        fs::create_dir_all(base.parent().unwrap()).unwrap();
        fs::copy(root.join(path), base).unwrap();
        root.write(path, "a file\n");
    }
}

fn laid_over_and_scrubbed(root: &ScratchRoot, server: &Server) {
    laid_over(root, server);
    fs::remove_file(root.join("usr/share/holo/archives/10-test.toml")).unwrap();
}

fn kill_everywhere(case: &Case) {
    let server = server();
    let root = prepared(case, &server);
    assert_eq!(root.holo(&["apply"]).status, Some(0));
    (case.then)(&root);
    assert_eq!(root.holo(&["apply"]).status, Some(0));
    let expected = Expected { tree: tree(&root), in_the_end: without_definitions(&root) };
    // Includes kills during a download.
    let calls = [disturb::CALLS, &["recvfrom"]].concat();
    let kills = disturb::everywhere(&calls, |call, number| kill_once(case, &server, call, number, &expected));
    assert!(kills > 20, "only {kills} kills: the test does not test what it says");
}

/// Kills at one system call.
fn kill_once(case: &Case, server: &Server, call: &str, number: usize, expected: &Expected) -> Seen {
    let root = prepared(case, server);
    let (run, seen) = disturb::at(&root, &["apply"], call, number, Disturbance::Kill);
    assert!(!run.stderr_lossy().contains("panicked"), "{run}");
    let moment = format!("{}, killed at {call} number {number}", case.name);
    nothing_is_torn(&root, &moment);
    (case.then)(&root);
    let mut again = root.holo(&["apply"]);
    if again.stderr_lossy().contains("is brought by both") {
        // Another archive gets the path as soon as the first one has released it.
        again = root.holo(&["apply"]);
    }
    assert_eq!(again.status, Some(0), "{moment}: the next apply says\n{again}\n{}", root.dump());
    let tree = tree(&root);
    assert!(tree == expected.tree, "{moment}: expected\n{}\nbut got\n{tree}", expected.tree);
    let end = without_definitions(&root);
    assert!(end == expected.in_the_end, "{moment}, in the end: expected\n{}\nbut got\n{end}", expected.in_the_end);
    seen
}

/// The outcome without a kill.
struct Expected {
    tree: BString,
    /// The tree after all definitions are removed.
    in_the_end: BString,
}

fn without_definitions(root: &ScratchRoot) -> BString {
    let definitions = root.join("usr/share/holo/archives");
    fs::remove_dir_all(&definitions).unwrap();
    fs::create_dir(&definitions).unwrap();
    assert_eq!(root.holo(&["apply"]).status, Some(0));
    tree(root)
}

fn nothing_is_torn(root: &ScratchRoot, moment: &str) {
    let whole = ["one\n", "two\n", "gone\n", "a file\n", "new\n", "a directory\n", "a person's\n"];
    let folders = ["", "bin", "etc", "old", "turns"].map(|folder| root.join("opt/app").join(folder));
    for entry in folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten() {
        let path = entry.unwrap().path();
        let is_ours = path.file_name().unwrap().to_str().unwrap().ends_with(".holonew");
        if fs::symlink_metadata(&path).unwrap().is_file() && !is_ours {
            let content = fs::read_to_string(&path).unwrap();
            assert!(whole.contains(&&*content), "{moment}: {} is torn: {content:?}", path.display());
        }
    }
    if let Ok(download) = fs::read(root.join("srv/app.tar")) {
        let whole = [version_1(), version_2(), BODY.to_vec(), b"a person's\n".to_vec()];
        assert!(whole.contains(&download), "{moment}: the download is torn");
    }
}

/// Returns the tree without the files that a killed apply may leave: logs, and a directory without records.
fn tree(root: &ScratchRoot) -> BString {
    let dump = root.dump();
    let end = BString::from(format!("{}\n", "-".repeat(40)));
    let kept = dump.split_str(end.as_slice()).filter(|section| !section.is_empty() && !is_leftover(section));
    kept.flat_map(|section| [section, end.as_slice()]).collect::<Vec<_>>().concat().into()
}

fn is_leftover(section: &[u8]) -> bool {
    // The cache contents depend on the elapsed time.
    section.contains_str(" ./tmp")
        || section.contains_str(" ./var/lib/holo/archives/known/")
        || section.contains_str("directory 0755 ./var/lib/holo/archives/\n")
}

fn prepared(case: &Case, server: &Server) -> ScratchRoot {
    let root = disturb::configure(ScratchRoot::in_memory(), "archives").dir("srv");
    (case.before)(&root, server);
    root
}
