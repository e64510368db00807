//! Previews: the displayed list of paths equals the changes of the apply, in random cases.

use crate::support::samples::{Tar, gzip};
use crate::support::sha256;
use holo_download::testing::{Reply, Server};
use holo_testing::ScratchRoot;
use holo_testing::random::{Random, cases};
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use walkdir::WalkDir;

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        what_is_listed_is_what_is_changed,
        what_has_to_be_downloaded_first_is_unknown,
        what_was_downloaded_is_listed_without_asking_the_server,
        a_preview_writes_nothing,
    ]
}

const DIRECTORIES: [&str; 2] = ["opt/a", "opt/b"];

fn tar(random: &mut Random) -> Vec<u8> {
    let mut tar = Tar::new();
    for name in ["one", "two", "sub/three", "sub/deep/four", "other"] {
        if random.chance(60) {
            let mode = *random.pick(&[0o644, 0o755]);
            tar = tar.file_with_mode(format!("top/{name}"), random.pick(&["1\n", "2\n", "3\n"]), mode);
        }
    }
    if random.chance(40) {
        tar = tar.symlink("top/link", random.pick(&["one", "two"]));
    }
    if random.chance(30) {
        tar = tar.directory("top/empty");
    }
    if random.chance(20) {
        tar = tar.file("top/changing", "a file\n");
    } else if random.chance(30) {
        tar = tar.file("top/changing/in", "in a directory\n");
    }
    gzip(&tar.end())
}

fn vary(root: &ScratchRoot, random: &mut Random) {
    let definition = "usr/share/holo/archives/10-test.toml";
    if random.chance(60) {
        root.write("usr/share/app.tar.gz", tar(random));
    }
    if random.chance(15) {
        return root.write(definition, "");
    }
    let (strip, cleanup) = (random.below(2), random.chance(25));
    let directory = random.pick(&DIRECTORIES);
    let mut text = "[[archive]]\npath = \"/srv/app.tar\"\n".to_owned();
    if random.chance(10) {
        text += "ensure = \"absent\"\n";
    } else {
        text += "url = \"file:///usr/share/app.tar.gz\"\n";
        if random.chance(80) {
            text += &format!("extract_to = \"/{directory}\"\nstrip_components = {strip}\ncleanup = {cleanup}\n");
            for (key, globs) in [("exclude", "[\"deep\", \"link\"]"), ("keep", "[\"one\", \"two\"]")] {
                if random.chance(25) {
                    text += &format!("{key} = {globs}\n");
                }
            }
        } else if random.chance(50) {
            text += "mode = \"0600\"\n";
        }
    }
    root.write(definition, text);
}

/// Makes random manual changes.
fn disturb(root: &ScratchRoot, random: &mut Random) {
    for directory in DIRECTORIES {
        for name in ["one", "top/two", "sub/three"] {
            let path = root.join(directory).join(name);
            if random.chance(10) && (path.is_file() || !path.exists()) && path.parent().unwrap().is_dir() {
                fs::write(path, "a person's\n").unwrap();
            }
        }
    }
}

/// Describes all paths in the format of the lists, except for parent directories that were created.
fn snapshot(root: &ScratchRoot) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for top in ["srv", "opt"] {
        for entry in WalkDir::new(root.join(top)).into_iter().map(Result::unwrap) {
            let below = entry.path().strip_prefix(root.path()).unwrap();
            if ["srv", "opt"].iter().chain(&DIRECTORIES).any(|way| Path::new(way) == below) {
                continue;
            }
            let mode = entry.metadata().unwrap().permissions().mode() & 0o7777;
            let name = format!("/{}", below.display());
            lines.insert(if entry.file_type().is_dir() {
                format!("{name}/  {mode:04o}")
            } else if entry.file_type().is_symlink() {
                format!("{name} -> {}", fs::read_link(entry.path()).unwrap().display())
            } else {
                let content = fs::read(entry.path()).unwrap();
                format!("{name}  {mode:04o}  {} bytes  {:.23}", content.len(), sha256(&content))
            });
        }
    }
    lines
}

/// Returns the lines with this sign in the output of an apply, without the preceding diff of manual changes.
fn listed(shown: &str, sign: char) -> BTreeSet<String> {
    let header = "    diff --holo a/archive:/srv/app.tar b/archive:/srv/app.tar";
    let lines =
        shown.split_once(header).map_or("", |(_, list)| list).lines().filter_map(|line| line.strip_prefix("    "));
    let lines = lines.filter(|line| !line.starts_with("+++ ") && !line.starts_with("--- "));
    lines.filter_map(|line| line.strip_prefix(sign)).map(str::to_owned).collect()
}

fn what_is_listed_is_what_is_changed() {
    cases(20, |random| {
        let root = ScratchRoot::new().plugin("archives").dir("srv").dir("opt");
        if random.chance(40) {
            root.write("opt/a/one", "there before\n");
        }
        if random.chance(20) {
            root.write("srv/app.tar", "there before\n");
        }
        root.write("usr/share/app.tar.gz", tar(random));
        for round in 0..4 {
            vary(&root, random);
            if round > 0 {
                disturb(&root, random);
            }
            let before = snapshot(&root);
            let preview = root.holo(&["apply", "--dry-run", "--force", "--diff"]);
            assert_eq!(snapshot(&root), before, "{preview}");
            let apply = root.holo(&["apply", "--force", "--diff"]);
            let after = snapshot(&root);
            if apply.status != Some(0) {
                // Refused and failing applies have no preview.
                continue;
            }
            let definition = root.read("usr/share/holo/archives/10-test.toml");
            let shown = preview.stdout_lossy();
            let gone: BTreeSet<String> = before.difference(&after).cloned().collect();
            let made: BTreeSet<String> = after.difference(&before).cloned().collect();
            assert_eq!(listed(&shown, '-'), gone, "round {round}: {definition}\n{preview}\n{apply}");
            assert_eq!(listed(&shown, '+'), made, "round {round}: {definition}\n{preview}\n{apply}");
            assert_eq!(listed(&apply.stdout_lossy(), '+'), made, "round {round}: {definition}\n{preview}\n{apply}");
        }
    });
}

fn what_has_to_be_downloaded_first_is_unknown() {
    let server = Server::new(|_| Reply::of(gzip(&Tar::new().file("one", "1\n").end())));
    let root = ScratchRoot::new().plugin("archives").dir("srv");
    let url = server.url("/app.tar.gz");
    let definition = format!("[[archive]]\npath = \"/srv/app.tar\"\nurl = \"{url}\"\nextract_to = \"/opt/a\"\n");
    root.write("usr/share/holo/archives/10-test.toml", definition);
    let preview = root.holo(&["check", "--diff"]);
    let shown = preview.stdout_lossy();
    assert!(shown.contains(&format!("    +/srv/app.tar  (unknown until {url} is downloaded)\n")), "{preview}");
    assert!(shown.contains(&format!("    +/opt/a/  (unknown until {url} is downloaded)\n")), "{preview}");
    assert!(server.asked().is_empty(), "{preview}");
}

fn what_was_downloaded_is_listed_without_asking_the_server() {
    let server = Server::new(|_| Reply::of(gzip(&Tar::new().file("one", "1\n").end())));
    let root = ScratchRoot::new().plugin("archives").dir("srv");
    let definition = |lines: &str| {
        let url = server.url("/app.tar.gz");
        root.write(
            "usr/share/holo/archives/10-test.toml",
            format!("[[archive]]\npath = \"/srv/app.tar\"\nurl = \"{url}\"\n{lines}"),
        );
    };
    definition("");
    assert!(root.holo(&["apply"]).success());
    let asked = server.asked().len();
    definition("extract_to = \"/opt/a\"\n");
    let preview = root.holo(&["diff", "--pending"]);
    assert!(preview.stdout_lossy().contains("+/opt/a/one  0644  2 bytes  sha256:"), "{preview}");
    assert!(preview.stdout_lossy().contains("+++ b/archive:/srv/app.tar\n"), "{preview}");
    assert_eq!(server.asked().len(), asked, "{preview}");
}

fn a_preview_writes_nothing() {
    let root = ScratchRoot::new().plugin("archives").dir("srv");
    root.write("usr/share/app.tar.gz", gzip(&Tar::new().file("one", "1\n").end()));
    root.write(
        "usr/share/holo/archives/10-test.toml",
        "[[archive]]\npath = \"/srv/app.tar\"\nurl = \"file:///usr/share/app.tar.gz\"\nextract_to = \"/opt/a\"\n",
    );
    let before = root.dump();
    let preview = root.holo(&["check", "--diff"]);
    assert!(preview.stdout_lossy().contains("+/opt/a/one"), "{preview}");
    assert_eq!(root.dump(), before);
}
