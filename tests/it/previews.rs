//! Previews equal the results of the following apply.

use holo_testing::random::{self, Random};
use holo_testing::{Need, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fmt::Write as _;

pub(crate) fn trials() -> Vec<Trial> {
    let needs = [Need::Program("git")];
    vec![
        trial_of("preview_equals_the_result", &needs, preview_equals_the_result),
        trial_of("preview of an overlay that replaces edits", &needs, overlay_replaces_edits),
    ]
}

/// The edits are taken back before the overlay is laid on the file.
fn overlay_replaces_edits() {
    let edit = "[[line]]\npath = \"/etc/a\"\nline = \"a line\"\n";
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/a", "stock\n")
        .resource("files/edits.toml", edit)
        .dir("home");
    preview_and_apply(&root);
    std::fs::remove_file(root.join("usr/share/holo/files/edits.toml")).unwrap();
    root.write_script("usr/share/holo/files/20-x/etc/a.holoscript", "#!/bin/sh\ncat; echo scripted\n");
    preview_and_apply(&root);
    assert_eq!(root.read("etc/a"), "stock\nscripted\n");
}

const CASES: u64 = 12;
/// The number of changes of a root between two applies.
const ROUNDS: usize = 3;

/// Git applies the patch from `diff --pending` to a copy of the root, and an apply changes the root itself in the same
/// way.
fn preview_equals_the_result() {
    random::cases(CASES, |random| {
        let root = ScratchRoot::new()
            .binary(built("holo"))
            .plugin("files")
            .plugin("scaffold")
            .plugin("ssh-keys")
            .file("etc/os-release", "ID=unittest\n")
            .file("etc/passwd", "jane:x:1000:1000::/home/jane:/bin/sh\n")
            .file("etc/group", "jane:x:1000:\n")
            .dir("home/jane");
        for name in NAMES {
            root.write(format!("etc/{name}"), text(random));
        }
        for _ in 0..ROUNDS {
            vary(&root, random);
            preview_and_apply(&root);
        }
    });
}

const NAMES: [&str; 4] = ["a", "b", "c.conf", "d e"];

/// A patch that is not in git's own format cannot create an empty file.
fn text(random: &mut Random) -> String {
    let mut text = "first line\n".to_owned();
    for _ in 0..random.below(8) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "line {}", random.below(5));
    }
    if random.chance(20) {
        text.push_str("without a newline");
    }
    text
}

/// Changes the definitions.
fn vary(root: &ScratchRoot, random: &mut Random) {
    for folder in ["files", "scaffold", "ssh-keys"] {
        let folder = root.join("usr/share/holo").join(folder);
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
    }
    let write = |path: String, content: String| root.write(format!("usr/share/holo/{path}"), content);
    for name in NAMES {
        if random.chance(40) {
            write(format!("files/10-x/etc/{name}"), text(random));
        }
        if random.chance(30) {
            root.write_script(
                format!("usr/share/holo/files/20-x/etc/{name}.holoscript"),
                format!("#!/bin/sh\nsed s/line/{}/\n", random.pick(&["word", "line", "number"])),
            );
        }
    }
    let mut declared = String::new();
    // A declared file may become an overlay, and vice versa.
    let is_laid = |name: &str| root.exists(format!("usr/share/holo/files/10-x/etc/{name}"));
    let is_laid = |name: &str| is_laid(name) || root.exists(format!("usr/share/holo/files/20-x/etc/{name}.holoscript"));
    for name in ["made", "other"].iter().chain(&NAMES) {
        if random.chance(40) && !is_laid(name) {
            let content = text(random);
            let _ = write!(declared, "[[file]]\npath = \"/etc/{name}\"\ncontent = {content:?}\n");
        }
    }
    write("files/declared.toml".into(), declared);
    if random.chance(60) {
        write("scaffold/web.toml".into(), "[[scaffold]]\ntarget = \"/etc/web\"\nsource = \"web\"\n".into());
        write("scaffold/web/always.conf".into(), text(random));
        for name in ["one.conf", "sub/two.conf"] {
            if random.chance(60) {
                write(format!("scaffold/web/{name}"), text(random));
            }
        }
    }
    if random.chance(50) {
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHZsUJkHcK0oPMsLWiWHiXUHVnvJUvDMTXXbtcrkCLCB jane\n";
        write("ssh-keys/jane/laptop.pub".into(), key.into());
    }
}

fn preview_and_apply(root: &ScratchRoot) {
    let copy = tempfile::tempdir().unwrap();
    for folder in ["etc", "home"] {
        assert!(root.run("cp", &["-a".as_ref(), root.join(folder).as_os_str(), copy.path().as_os_str()]).success());
    }
    let preview = root.holo(&["diff", "--pending"]);
    assert!(preview.success(), "{preview}");
    let patch = copy.path().join("patch");
    std::fs::write(&patch, &preview.stdout).unwrap();
    if !preview.stdout.is_empty() {
        let copied = copy.path().as_os_str();
        let applied = root.run("git", &["-C".as_ref(), copied, "init".as_ref(), "--quiet".as_ref()]);
        assert!(applied.success(), "{applied}");
        let applied =
            root.run("git", &["-C".as_ref(), copied, "apply".as_ref(), "--unidiff-zero".as_ref(), patch.as_os_str()]);
        assert!(applied.success(), "{applied}\n{preview}");
    }
    let after = root.holo(&["apply", "--force", "--diff"]);
    assert!(after.success(), "{after}");
    for folder in ["etc", "home"] {
        let (made, previewed) = (root.join(folder), copy.path().join(folder));
        let compared = root.run("diff", &["-r".as_ref(), "-N".as_ref(), made.as_os_str(), previewed.as_os_str()]);
        assert!(compared.success(), "{folder}: {compared}\npreviewed:\n{preview}\napplied:\n{after}");
    }
    let nothing = root.holo(&["diff", "--pending"]);
    assert!(nothing.stdout.is_empty() && nothing.success(), "{nothing}");
    // Both outputs are equal, except for the names of files that did not exist yet.
    let of_apply: Vec<String> =
        after.stdout_lossy().lines().filter_map(|line| line.strip_prefix("    ").map(String::from)).collect();
    let of_preview = preview.stdout_lossy().replace(" (pending)", "");
    for line in of_preview.lines() {
        assert!(of_apply.iter().any(|other| other == line), "{line:?} is not shown by\n{after}");
    }
}
