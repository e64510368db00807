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
        trial_of("preview of an installation equals the check after it", &[], installation_equals_the_check),
        trial_of("preview of an installation uses its data, generators and plugins", &[], installation_of_everything),
        trial_of("preview of an installation shows the paths on the machine", &[], installation_of_mistakes),
        trial_of("preview of an installation names what cannot be meant", &[], installation_of_nothing),
    ]
}

/// A root with plugins whose definitions vary.
fn varied() -> ScratchRoot {
    ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .plugin("scaffold")
        .plugin("ssh-keys")
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/passwd", "jane:x:1000:1000::/home/jane:/bin/sh\n")
        .file("etc/group", "jane:x:1000:\n")
        .dir("home/jane")
}

/// Each definition that was installed is replaced or removed.
fn installation_equals_the_check() {
    random::cases(CASES, |random| {
        let (root, new) = (varied(), varied());
        for name in NAMES {
            root.write(format!("etc/{name}"), text(random));
        }
        vary(&root, random);
        assert!(root.holo(&["apply", "--force"]).success());
        vary(&new, random);
        // The configuration and the data of the new root are not those of the machine.
        let installed = new.join("installed");
        assert!(root.run("mkdir", &["-p".as_ref(), installed.join("usr/share").as_os_str()]).success());
        let copied = [new.join("usr/share/holo"), installed.join("usr/share")];
        assert!(root.run("cp", &["-a".as_ref(), copied[0].as_os_str(), copied[1].as_os_str()]).success());
        let mut arguments = vec!["check".to_owned(), "--diff".to_owned()];
        arguments.push(format!("--with={}", installed.display()));
        let list = root.run("find", &["usr/share/holo", "-type", "f"]).stdout_lossy().into_owned();
        let gone: Vec<&str> = list.lines().filter(|path| !installed.join(path).exists()).collect();
        arguments.extend(gone.iter().map(|path| format!("--without=/{path}")));
        let before = root.dump();
        let preview = root.holo(&arguments);
        assert_eq!(root.dump(), before);
        for path in gone {
            std::fs::remove_file(root.join(path)).unwrap();
        }
        let replaced = [installed.join("usr"), root.path().to_owned()];
        assert!(root.run("cp", &["-a".as_ref(), replaced[0].as_os_str(), replaced[1].as_os_str()]).success());
        let check = root.holo(&["check", "--diff"]);
        assert_eq!(preview.to_string(), check.to_string());
    });
}

/// The data that a template reads, a generator, and a plugin with its configuration come and go.
fn installation_of_everything() {
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .file("etc/holo/data/common.toml", "who = \"one\"\n")
        .file("etc/holorc.d/50-demo", "plugin demo=usr/lib/demo\n")
        .resource("demo/x", "")
        .resource("files/made.toml.jinja", "[[file]]\npath = \"/etc/made\"\ncontent = \"{{ data.who }}\\n\"\n")
        .script("usr/lib/demo", "#!/bin/sh\n[ \"$1\" = info ] && printf 'MIN_API_VERSION=3\\nMAX_API_VERSION=3\\n'\n[ \"$1\" = scan ] && echo 'ENTITY: demo:x'\nexit 0\n")
        .file("new/etc/holo/data/common.toml", "who = \"two\"\n")
        .script(
            "new/usr/share/holo/generators/10-issue",
            "#!/bin/sh\nmkdir -p $OUT/files/50-g/etc; echo generated >$OUT/files/50-g/etc/issue\n",
        )
        .file("etc/issue", "stock\n");
    let applied = root.holo(&["apply"]);
    assert!(applied.success(), "{applied}");
    let before = root.dump();
    let preview = root.holo(&["check", "--diff", "--with", "new", "--without", "/etc/holorc.d"]);
    let shown = preview.stdout_lossy();
    for line in ["-one", "+two", "-stock", "+generated"] {
        assert!(shown.contains(line), "{preview}");
    }
    assert!(!shown.contains("demo:x"), "{preview}");
    assert_eq!(root.dump(), before);
    assert!(root.run("cp", &["-a", "new/etc", "new/usr", "."]).success());
    assert!(root.run("rm", &["-r", "etc/holorc.d"]).success());
    assert_eq!(preview.to_string(), root.holo(&["check", "--diff"]).to_string());
}

/// Paths in errors and warnings are those on the machine, and not those of the copies that are read.
fn installation_of_mistakes() {
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .file("new/usr/share/holo/files/stray.yaml", "x")
        .file("new/usr/share/holo/files/broken.toml", "[[file]]\npaht = 1\n")
        .script("new/usr/share/holo/generators/10-x", "#!/bin/sh\necho hello\nexit 3\n");
    let preview = root.holo(&["check", "--with", "new"]);
    root.write_script("new/usr/share/holo/generators/10-x", "#!/bin/sh\necho hello\n");
    let second = root.holo(&["check", "--with", "new"]);
    assert!(root.run("cp", &["-a", "new/usr", "."]).success());
    assert_eq!(second.to_string(), root.holo(&["check"]).to_string());
    root.write_script("usr/share/holo/generators/10-x", "#!/bin/sh\necho hello\nexit 3\n");
    assert_eq!(preview.to_string(), root.holo(&["check"]).to_string());
}

fn installation_of_nothing() {
    let root =
        ScratchRoot::new().binary(built("holo")).plugin("files").resource("files/50-a/etc/motd", "x").dir("empty");
    let said = |arguments: &[&str]| {
        let run = root.holo(&[&["check"], arguments].concat());
        assert_eq!(run.status, Some(255), "{run}");
        run.stderr_lossy().into_owned()
    };
    assert!(said(&["--with", "empty"]).contains("--with empty: there are no resource files"));
    assert!(said(&["--with", "nowhere"]).contains("open nowhere: no such file or directory"));
    assert!(said(&["--without", "/usr/share/hollo"]).contains("--without /usr/share/hollo: there is no resource file"));
    // Paths are accepted as they are shown, too.
    let path = root.join("usr/share/holo/files/50-a");
    assert!(root.holo(&["check".as_ref(), "--without".as_ref(), path.as_os_str()]).success());
    root.write("etc/motd", "stock");
    assert!(root.holo(&["apply"]).success());
    let root = root.env("HOLO_HISTORY", "1");
    root.write("usr/share/holo/files/50-a/etc/motd", "y");
    assert!(root.holo(&["apply"]).success());
    assert!(root.holo(&["rollback", "1"]).success());
    let run = root.holo(&["check", "--without", "/usr/share/holo/files/50-a"]);
    assert!(run.stderr_lossy().contains("cannot preview changes while a generation is used"), "{run}");
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
        let root = varied();
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
