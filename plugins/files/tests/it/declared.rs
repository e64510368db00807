//! Declared files and templates through their whole life, one machine per case.

use crate::support::{applied, declare, refused, root, unchanged};
use bstr::ByteSlice;
use holo_testing::{Need, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

/// A case: its name, its requirements, and the test.
type Case = (&'static str, &'static [Need], fn());

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [Case; 38] = [
        ("a file with an invalid declaration gets no overlay", &[], overlay_over_an_invalid_one),
        ("all kinds are made, left alone, and become again what they were", &[], whole_life),
        ("a person's change is refused, shown, and overwritten by force", &[], changed_by_person),
        ("a difference is that of what is declared", &[], difference_of_what_is_declared),
        ("a difference reads the same in each run, and has no labels in version 3", &[], stable_differences),
        ("a file that a person deleted is made again: no work is lost", &[], deleted_by_person),
        ("only what is declared is managed: mode and owner are left alone otherwise", &[], only_what_is_declared),
        ("a content that is not declared does not come back with mode and owner", &[], content_is_theirs),
        ("owners are those below the root", &[Need::Root], owners),
        ("all twelve bits of a mode", &[], twelve_bits),
        ("changes of modes are shown as by git, of directories as well", &[], changed_modes),
        ("a file is not replaced before it is found to be valid", &[], validation),
        ("a backup keeps what was replaced", &[], backup),
        ("a sensitive content is shown nowhere and readable by nobody", &[], sensitive),
        ("a directory goes with its content only by force = true, and comes back", &[], directories),
        ("a directory goes with a file that has several names", &[], names_of_a_file),
        ("of nested paths that are to be absent, the inner ones go first and come back last", &[], nested_absences),
        ("a directory does not take the place of a file or symlink unasked", &[], kinds),
        ("FIFOs are not opened", &[], fifo),
        ("sources and templates", &[], templates),
        ("sources in folders of packages", &[], sources_in_folders),
        ("an overlay's template has the content so far as its input", &[], overlay_template),
        ("from an overlay to a declaration and back", &[], overlay_and_declaration),
        ("a broken definition breaks nothing else, and is no success", &[], broken),
        ("check says what apply does, and changes nothing", &[], check),
        ("scrubbing removes new files, and restores old ones", &[], scrubbing),
        ("what is not needed any more goes if only one file is asked for, too", &[], scrubbing_one),
        ("below a file nothing can be made, and check says so", &[], below_a_file),
        ("of many that are made together, only the one at fault fails", &[], culprit),
        ("the same under version 3", &[], version_3),
        ("a declaration that is overlaid later is left alone, and its base comes back", &[], declared_and_overlaid),
        ("the content of a directory does not come back through a symlink in its place", &[], not_through_links),
        ("an edit that is saved while the file is validated is not lost", &[], edited_meanwhile),
        ("a secret stays one when its definition is gone", &[], secret_orphan),
        ("a file that is written in place stays the same file", &[], in_place),
        ("a declaration with another spelling of a path takes over, with the first base", &[], spelled_otherwise),
        ("contradicting declarations are refused, with both and their files", &[], contradictions),
        ("extended attributes are carried, and come back", &[], extended_attributes),
    ];
    cases.map(|(name, needs, test)| trial_of(name, needs, test)).into()
}

/// The declared content would become the base of the overlay, and would be restored in the end.
fn overlay_over_an_invalid_one() {
    let root = root().file("etc/motd", "stock\n");
    declare(&root, "[[file]]\npath = \"/etc/motd\"\ncontent = \"declared\\n\"\n");
    applied(&root);
    for invalid in ["[[file]]\npath = \"/etc/motd\"\nmode = \"abc\"\n", "[[file\n"] {
        declare(&root, invalid);
        root.write("usr/share/holo/files/10-x/etc/motd", "ours\n");
        refused(&root, "was declared in a definition that is invalid; remove or correct it");
        assert_eq!(root.holo(&["check"]).status, Some(1));
        assert_eq!(root.read("etc/motd"), "declared\n");
    }
    declare(&root, "");
    applied(&root);
    assert_eq!(root.read("etc/motd"), "ours\n");
    fs::remove_dir_all(root.join("usr/share/holo/files/10-x")).unwrap();
    applied(&root);
    assert_eq!(root.read("etc/motd"), "stock\n");
}

fn mode(root: &ScratchRoot, path: &str) -> u32 {
    fs::symlink_metadata(root.join(path)).unwrap().mode() & 0o7777
}

const ALL_KINDS: &str = r#"
    [[file]]
    path = "/etc/motd"
    content = "declared\n"

    [[file]]
    path = "/etc/new/deep"
    content = "made\n"
    mode = "0600"

    [[file]]
    path = "/etc/link"
    ensure = "symlink"
    target = "motd"

    [[file]]
    path = "/etc/issue"
    ensure = "absent"

    [[file]]
    path = "/srv/data"
    ensure = "directory"
    mode = "0750"

    [[file]]
    path = "/srv/data/inside"
"#;

fn content_is_theirs() {
    let root = root().file("etc/motd", "stock\n").mode("etc/motd", 0o640);
    let attributes = "[[file]]\npath = \"/etc/motd\"\nmode = \"0600\"\n";
    declare(&root, attributes);
    applied(&root);
    root.write("etc/motd", "theirs\n");
    fs::set_permissions(root.join("etc/motd"), fs::Permissions::from_mode(0o600)).unwrap();
    unchanged(&root);
    declare(&root, "");
    assert!(root.holo(&["check"]).stdout_lossy().contains("would restore "));
    applied(&root);
    assert_eq!((root.read("etc/motd"), mode(&root, "etc/motd")), ("theirs\n".into(), 0o640));
    // A content that was provisioned earlier is not a manual change.
    declare(&root, &format!("{attributes}content = \"ours\\n\"\n"));
    applied(&root);
    declare(&root, attributes);
    applied(&root);
    declare(&root, "");
    applied(&root);
    assert_eq!((root.read("etc/motd"), mode(&root, "etc/motd")), ("theirs\n".into(), 0o640));
    // A changed mode is still a manual change.
    declare(&root, attributes);
    applied(&root);
    fs::set_permissions(root.join("etc/motd"), fs::Permissions::from_mode(0o644)).unwrap();
    root.write("etc/motd", "theirs again\n");
    declare(&root, "");
    refused(&root, "modified by user");
    assert_eq!(root.holo(&["apply", "--force"]).status, Some(0));
    assert_eq!((root.read("etc/motd"), mode(&root, "etc/motd")), ("theirs again\n".into(), 0o640));
}

fn culprit() {
    // The path of the temporary file is taken.
    let root = root().dir("etc/7.holonew/full").file("etc/7", "stock\n");
    let names = || (0..20).map(|number| format!("etc/{number}"));
    declare(&root, &names().map(|name| format!("[[file]]\npath = \"/{name}\"\ncontent = \"x\"\n")).collect::<String>());
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert_eq!(run.stderr_lossy().matches("!! ").count(), 1, "{run}");
    assert!(run.stderr_lossy().contains("!! skipping target: ") && run.stderr_lossy().contains("7.holonew"), "{run}");
    for name in names() {
        assert_eq!(root.read(&name), if name == "etc/7" { "stock\n" } else { "x" }, "{name}");
    }
    fs::remove_dir_all(root.join("etc/7.holonew")).unwrap();
    let run = applied(&root);
    assert_eq!(run.stdout_lossy().matches("Working on ").count(), 1, "{run}");
    assert_eq!(root.read("etc/7"), "x");
    unchanged(&root);
    declare(&root, "");
    applied(&root);
    assert_eq!(root.read("etc/7"), "stock\n");
    assert!(!root.exists("etc/8") && !root.exists("var/lib/holo/files/.declared"));
}

fn whole_life() {
    let root = root().file("etc/motd", "stock\n").mode("etc/motd", 0o640).file("etc/issue", "issue\n").dir("srv");
    let before = root.dump();
    declare(&root, ALL_KINDS);
    let run = applied(&root);
    assert!(run.stdout_lossy().contains("Working on file:/etc/motd\n"), "{run}");
    for (path, content) in [("etc/motd", "declared\n"), ("etc/new/deep", "made\n"), ("srv/data/inside", "")] {
        assert_eq!(root.read(path), content, "{path}");
    }
    assert_eq!((mode(&root, "etc/motd"), mode(&root, "etc/new/deep")), (0o640, 0o600));
    assert_eq!((mode(&root, "etc/new"), mode(&root, "srv/data")), (0o755, 0o750));
    assert_eq!(fs::read_link(root.join("etc/link")).unwrap().to_str(), Some("motd"));
    assert!(!root.exists("etc/issue"));
    unchanged(&root);
    let run = root.holo(&["diff"]);
    assert_eq!((run.status, run.stdout_lossy(), run.stderr_lossy()), (Some(0), "".into(), "".into()));
    declare(&root, "");
    let words =
        [("remove", "/etc/new/deep"), ("restore", "/etc/issue"), ("restore", "/etc/motd"), ("remove", "/srv/data")];
    let run = root.holo(&["check"]);
    for (word, path) in words {
        let path = root.join(path.trim_start_matches('/'));
        assert!(run.stdout_lossy().contains(&format!("would {word} {}\n", path.display())), "{run}");
    }
    let run = applied(&root);
    for (word, path) in words {
        let path = root.join(path.trim_start_matches('/'));
        assert!(run.stdout_lossy().contains(&format!("{word}d {}\n", path.display())), "{run}");
    }
    assert!(
        run.stdout_lossy().contains("Scrubbing file:/etc/motd (all definition files have been deleted)\n"),
        "{run}"
    );
    fs::remove_file(root.join("usr/share/holo/files/a.toml")).unwrap();
    assert_eq!(root.dump(), before);
}

fn changed_by_person() {
    let root = root().file("etc/motd", "stock\n");
    declare(&root, "[[file]]\npath = \"/etc/motd\"\ncontent = \"ours\\n\"\n");
    applied(&root);
    root.write("etc/motd", "mine\n");
    let run = refused(&root, "!! Entity has been modified by user (use --force to overwrite)");
    assert!(run.stdout_lossy().contains("    -ours\n    +mine\n"), "{run}");
    let diff = root.holo(&["diff", "file:/etc/motd"]);
    assert!(diff.stdout_lossy().contains("\n-ours\n+mine\n"), "{diff}");
    assert!(root.holo(&["apply", "--force"]).success());
    assert_eq!(root.read("etc/motd"), "ours\n");
    // Scrubbing would lose the change too.
    root.write("etc/motd", "mine again\n");
    declare(&root, "");
    refused(&root, "use --force to overwrite");
    assert!(root.holo(&["apply", "--force"]).success());
    assert_eq!(root.read("etc/motd"), "stock\n");
}

/// Returns the output without parts that differ between runs: JSON Lines without times and the ID of the run.
fn lasting(output: &[u8]) -> String {
    let line = |line: &str| {
        let Ok(mut fields) = serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(line) else {
            return line.to_owned();
        };
        fields.retain(|name, _| !["run", "time", "duration"].contains(&name.as_str()));
        serde_json::to_string(&fields).unwrap()
    };
    String::from_utf8_lossy(output).lines().map(line).collect::<Vec<_>>().join("\n")
}

fn changed_modes() {
    let root = root().file("etc/theirs", "theirs\n").mode("etc/theirs", 0o600).dir("srv").mode("srv", 0o755);
    let definitions = |modes: [&str; 4]| {
        let [theirs, ours, secret, directory] = modes;
        format!(
            "[[file]]\npath = \"/etc/theirs\"\nmode = \"{theirs}\"\n\
             [[file]]\npath = \"/etc/ours\"\ncontent = \"ours\\n\"\nmode = \"{ours}\"\n\
             [[file]]\npath = \"/etc/secret\"\ncontent = \"secret\\n\"\nsensitive = true\nmode = \"{secret}\"\n\
             [[file]]\npath = \"/srv\"\nensure = \"directory\"\nmode = \"{directory}\"\n"
        )
    };
    let shown = |arguments: &[&str]| {
        let output = root.holo(arguments).stdout_lossy().into_owned();
        let lines =
            output.lines().map(str::trim_start).filter(|line| line.contains("mode 1") || line.contains("mode 0"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    declare(&root, &definitions(["0640", "0644", "0600", "0750"]));
    let pending = [
        "new file mode 100644",
        "new file mode 100600",
        "old mode 100600",
        "new mode 100640",
        "old mode 040755",
        "new mode 040750",
    ];
    assert_eq!(shown(&["diff", "--pending"]), pending);
    assert_eq!(shown(&["check", "--diff"]), pending);
    assert_eq!(shown(&["apply", "--diff"]), pending);
    assert!(root.holo(&["diff"]).stdout.is_empty());

    for (path, mode) in [("etc/theirs", 0o644), ("etc/ours", 0o4755), ("srv", 0o1777)] {
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    let differences = ["ours", "srv", "theirs"].map(|name| {
        let (path, modes) = match name {
            "ours" => ("/etc/ours", "old mode 100644\nnew mode 104755\n"),
            "srv" => ("/srv", "old mode 040750\nnew mode 041777\n"),
            _ => ("/etc/theirs", "old mode 100640\nnew mode 100644\n"),
        };
        format!("diff --holo file:{path} (applied) {}\n{modes}", root.join(path.trim_start_matches('/')).display())
    });
    let [ours, srv, theirs] = &differences;
    assert_eq!(root.holo(&["diff"]).stdout_lossy(), format!("{ours}{theirs}{srv}"));

    assert!(root.holo(&["apply", "--force"]).success());
    declare(&root, &definitions(["0640", "0644", "0400", "0750"]));
    let run = root.holo(&["diff", "--pending"]);
    let expected = "old mode 100600\nnew mode 100400\n--- a/etc/secret\n+++ b/etc/secret (pending)\n\
                    @@ -1 +1 @@\n-(sensitive)\n+(sensitive)\n";
    assert!(run.stdout_lossy().ends_with(expected), "{run}");
}

fn difference_of_what_is_declared() {
    let root = root();
    declare(
        &root,
        "[[file]]\npath = \"/etc/a\"\nmode = \"0755\"\n[[file]]\npath = \"/etc/b\"\ncontent = \"ours\\n\"\n",
    );
    root.write("etc/a", "one\n");
    applied(&root);
    let diff = || root.holo(&["diff"]).stdout_lossy().into_owned();
    fs::write(root.join("etc/a"), "two\n").unwrap();
    fs::set_permissions(root.join("etc/a"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(root.join("etc/b"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(diff(), "", "neither the content of the one nor the mode of the other is ours");
    fs::set_permissions(root.join("etc/a"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(diff().contains("old mode 100755\nnew mode 100644"), "{}", diff());
    assert!(!diff().contains("two"), "{}", diff());
    root.write("etc/b", "theirs\n");
    assert!(diff().contains("\n-ours\n+theirs\n"), "{}", diff());
    fs::remove_file(root.join("etc/a")).unwrap();
    assert!(diff().contains("deleted file"), "{}", diff());
}

fn stable_differences() {
    let root = root().file("etc/overlaid", "stock\n").file("usr/share/holo/files/01-x/etc/overlaid", "ours\n");
    declare(&root, "[[file]]\npath = \"/etc/motd\"\ncontent = \"ours\\n\"\n");
    applied(&root);
    root.write("etc/motd", "mine\n");
    root.write("etc/overlaid", "mine\n");
    let path = |path: &str| root.join(path).display().to_string();
    let shown =
        |from: &str, to: &str| format!("diff --holo {from} {to}\n--- {from}\n+++ {to}\n@@ -1 +1 @@\n-ours\n+mine\n");
    let declared = shown("file:/etc/motd (applied)", &path("etc/motd"));
    let overlaid = shown(&path("var/lib/holo/files/provisioned/etc/overlaid"), &path("etc/overlaid"));
    let twice = |arguments: &[&str]| {
        let run = root.holo(arguments);
        let again = root.holo(arguments);
        assert_eq!((lasting(&run.stdout), &run.stderr), (lasting(&again.stdout), &again.stderr), "{arguments:?}");
        run.stdout_lossy().into_owned()
    };
    assert_eq!(twice(&["diff"]), format!("{declared}{overlaid}"));
    let indented: String = declared.lines().map(|line| format!("    {line}\n")).collect();
    for verb in ["apply", "check"] {
        let said = twice(&[verb]);
        assert!(said.contains(&format!("\n{indented}")), "{verb}:\n{said}");
    }
    let in_json = serde_json::to_string(&declared).unwrap();
    for verb in ["diff", "apply", "check"] {
        let said = twice(&[verb, "--json"]);
        assert!(said.contains(&format!("\"text\":{in_json}")), "{verb}:\n{said}");
    }
    // Call the plugin directly, as a dispatcher of this version would.
    let on_3 = |version: u32| {
        let script = format!(
            "mkdir -p {cache}; export HOLO_API_VERSION={version} HOLO_CACHE_DIR={cache} HOLO_RESOURCE_DIR={resources} \
             HOLO_STATE_DIR={state}; '{plugin}' diff file:/etc/motd 3>&1",
            cache = path("tmp/cache"),
            resources = path("usr/share/holo/files"),
            state = path("var/lib/holo/files"),
            plugin = built("holo-files").display(),
        );
        let run = root.run("/bin/sh", &["-c", &script]);
        assert!(run.success() && run.stderr.is_empty(), "{run}");
        run.stdout_lossy().into_owned()
    };
    let paths = format!("{}\0{}\0", path("tmp/cache/made/etc/motd"), path("etc/motd"));
    assert_eq!(on_3(3), paths);
    assert_eq!(on_3(4), format!("{paths}file:/etc/motd (applied)\0\0modes\0"));
}

fn deleted_by_person() {
    let root = root();
    declare(&root, "[[file]]\npath = \"/etc/motd\"\ncontent = \"ours\\n\"\n");
    applied(&root);
    fs::remove_file(root.join("etc/motd")).unwrap();
    let check = root.holo(&["check"]);
    assert!(check.stdout_lossy().contains("would make"), "{check}");
    applied(&root);
    assert_eq!(root.read("etc/motd"), "ours\n");
    fs::remove_file(root.join("etc/motd")).unwrap();
    declare(&root, "");
    applied(&root);
    assert!(!root.exists("etc/motd") && !root.exists("var/lib/holo/files/.declared"));
}

fn only_what_is_declared() {
    let root = root().file("var/log/app.log", "line\n").mode("var/log/app.log", 0o666);
    declare(&root, "[[file]]\npath = \"/var/log/app.log\"\nmode = \"0640\"\n");
    let inode = |root: &ScratchRoot| fs::metadata(root.join("var/log/app.log")).unwrap().ino();
    let before = inode(&root);
    applied(&root);
    assert_eq!((mode(&root, "var/log/app.log"), inode(&root)), (0o640, before), "a process that has it open keeps it");
    // The program keeps writing.
    let log = fs::OpenOptions::new().append(true).open(root.join("var/log/app.log"));
    log.unwrap().write_all(b"more\n").unwrap();
    unchanged(&root);
    declare(&root, "[[file]]\npath = \"/var/log/app.log\"\ncontent = \"\"\n");
    let run = root.holo(&["apply", "--force"]);
    assert!(run.success(), "{run}");
    assert_eq!(mode(&root, "var/log/app.log"), 0o640);
}

fn owners() {
    let root = root()
        .file("etc/passwd", "root:x:0:0::/:\nfred:x:1234:1235::/home/fred:\n")
        .file("etc/group", "root:x:0:\nstaff:x:77:\n")
        .file("etc/motd", "x\n");
    declare(&root, "[[file]]\npath = \"/etc/motd\"\nowner = \"fred\"\ngroup = \"staff\"\n");
    applied(&root);
    let metadata = fs::metadata(root.join("etc/motd")).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (1234, 77));
    unchanged(&root);
    chown(root.join("etc/motd"), Some(5), None).unwrap();
    refused(&root, "use --force to overwrite");
    declare(&root, "[[file]]\npath = \"/etc/motd\"\nowner = \"nobody-here\"\n");
    refused(&root, "!! skipping target: there is no user \"nobody-here\"");
    declare(&root, "");
    assert!(root.holo(&["apply", "--force"]).success());
    let metadata = fs::metadata(root.join("etc/motd")).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (0, 0));
}

fn twelve_bits() {
    let root = root();
    declare(
        &root,
        "[[file]]\npath = \"/tmp/all\"\nensure = \"directory\"\nmode = \"1777\"\n[[file]]\npath = \"/usr/bin/x\"\nmode = \"0o4711\"\n",
    );
    applied(&root);
    assert_eq!((mode(&root, "tmp/all"), mode(&root, "usr/bin/x")), (0o1777, 0o4711));
    unchanged(&root);
}

fn validation() {
    let root = root()
        .file("etc/app.conf", "good 1\n")
        .script("bin/validate", "#!/bin/sh\necho looked at \"${1##*/}\"\ngrep -q good \"$1\"\n");
    let declare_content = |content: &str| {
        let validate = root.join("bin/validate").display().to_string();
        declare(
            &root,
            &format!("[[file]]\npath = \"/etc/app.conf\"\ncontent = {content:?}\nvalidate = \"{validate} {{}}\"\n"),
        );
    };
    declare_content("bad\n");
    let run = refused(&root, "validate {}` failed: exit status 1").stdout_lossy().into_owned();
    assert!(run.contains("looked at app.conf\n"), "{run}");
    declare_content("good 2\n");
    applied(&root);
    assert_eq!(root.read("etc/app.conf"), "good 2\n");
    declare_content("bad again\n");
    refused(&root, "failed: exit status 1");
}

fn backup() {
    let root = root().file("etc/motd", "stock\n").mode("etc/motd", 0o604);
    declare(&root, "[[file]]\npath = \"/etc/motd\"\ncontent = \"one\\n\"\nbackup = \".orig\"\n");
    applied(&root);
    assert_eq!((root.read("etc/motd.orig"), mode(&root, "etc/motd.orig")), ("stock\n".into(), 0o604));
    unchanged(&root);
}

fn sensitive() {
    let root = root();
    let secret = "TOP-SECRET-7";
    declare(&root, &format!("[[file]]\npath = \"/etc/secret\"\ncontent = \"{secret}\\n\"\nsensitive = true\n"));
    let quiet = |arguments: &[&str]| {
        let run = root.holo(arguments);
        assert!(!run.stdout_lossy().contains(secret) && !run.stderr_lossy().contains(secret), "{run}");
        run
    };
    for arguments in [&["scan"][..], &["scan", "--json"], &["check"], &["check", "--json"], &["apply", "--json"]] {
        quiet(arguments);
    }
    assert_eq!(mode(&root, "etc/secret"), 0o600);
    root.write("etc/secret", "TOP-SECRET-7 and mine\n");
    for arguments in [&["diff"][..], &["diff", "--json"], &["apply"], &["apply", "--json"], &["check", "--json"]] {
        quiet(arguments);
    }
    // The validation program does not reveal it either.
    declare(
        &root,
        &format!(
            "[[file]]\npath = \"/etc/other\"\ncontent = \"{secret}\\n\"\nsensitive = true\nvalidate = \"sh -c 'cat {{}}; false'\"\n"
        ),
    );
    for arguments in [&["apply", "file:/etc/other"][..], &["apply", "--json", "file:/etc/other"]] {
        let run = quiet(arguments);
        assert_eq!(run.status, Some(1), "{run}");
        let said = run.stdout_lossy().into_owned() + &run.stderr_lossy();
        assert!(
            said.contains("failed: exit status 1; its output is not shown, because the file is sensitive"),
            "{run}"
        );
    }
    assert!(!root.exists("etc/other"));
    for entry in walk(&root, "var/lib/holo") {
        let metadata = fs::symlink_metadata(&entry).unwrap();
        if metadata.is_file() && fs::read(&entry).unwrap().contains_str(secret) {
            assert_eq!(metadata.mode() & 0o077, 0, "{} can be read", entry.display());
        }
    }
}

fn walk(root: &ScratchRoot, path: &str) -> Vec<std::path::PathBuf> {
    let mut folders = vec![root.join(path)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}

fn directories() {
    let root = root()
        .file("srv/old/deep/file", "kept\n")
        .mode("srv/old/deep/file", 0o600)
        .symlink("srv/old/link", "deep/file");
    let before = root.dump();
    declare(&root, "[[file]]\npath = \"/srv/old\"\nensure = \"absent\"\n");
    refused(&root, "srv/old is a directory that is not empty; set force = true to remove it");
    declare(&root, "[[file]]\npath = \"/srv/old\"\nensure = \"absent\"\nforce = true\n");
    applied(&root);
    assert!(!root.exists("srv/old"));
    unchanged(&root);
    declare(&root, "[[file]]\npath = \"/usr\"\nensure = \"absent\"\nforce = true\n");
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("usr is a system directory and cannot be removed\n"), "{run}");
    fs::remove_file(root.join("usr/share/holo/files/a.toml")).unwrap();
    applied(&root);
    assert_eq!(root.dump(), before);
}

fn nested_absences() {
    let root = root().file("srv/a/b/c/one", "x").file("srv/a/two", "x");
    let before = root.dump();
    let absent = |path: &str| format!("[[file]]\npath = \"{path}\"\nensure = \"absent\"\nforce = true\n");
    let [outer, inner, file] = ["/srv/a", "/srv/a/b", "/srv/a/b/c/one"].map(absent);
    declare(&root, &[&*outer, &inner, &file].concat());
    applied(&root);
    assert!(!root.exists("srv/a"));
    unchanged(&root);
    // The outer one alone.
    declare(&root, &[&*inner, &file].concat());
    applied(&root);
    assert!(root.exists("srv/a/two") && !root.exists("srv/a/b"));
    unchanged(&root);
    declare(&root, &[outer, inner, file].concat());
    applied(&root);
    assert!(!root.exists("srv/a"));
    fs::remove_file(root.join("usr/share/holo/files/a.toml")).unwrap();
    applied(&root);
    assert_eq!(root.dump(), before);
}

fn names_of_a_file() {
    let root = root().file("srv/names/b/one", "x");
    for name in ["srv/names/a", "srv/names/c"] {
        fs::hard_link(root.join("srv/names/b/one"), root.join(name)).unwrap();
    }
    let before = root.dump();
    declare(&root, "[[file]]\npath = \"/srv/names\"\nensure = \"absent\"\nforce = true\n");
    applied(&root);
    assert!(!root.exists("srv/names"));
    unchanged(&root);
    fs::remove_file(root.join("usr/share/holo/files/a.toml")).unwrap();
    applied(&root);
    assert_eq!(root.dump(), before);
}

fn kinds() {
    let root = root().file("srv/real/file", "x\n").symlink("srv/link", "real");
    let before = root.dump();
    declare(&root, "[[file]]\npath = \"/srv/link\"\nensure = \"directory\"\n");
    refused(&root, "srv/link is a symlink and would become a directory (use --force to proceed)");
    assert!(root.holo(&["apply", "--force"]).success());
    assert!(fs::symlink_metadata(root.join("srv/link")).unwrap().is_dir());
    unchanged(&root);
    declare(&root, "[[file]]\npath = \"/srv/real\"\ncontent = \"\"\n");
    let run = root.holo(&["apply", "file:/srv/real"]);
    assert!(run.stderr_lossy().contains("srv/real is a directory; declare it absent first"), "{run}");
    fs::remove_file(root.join("usr/share/holo/files/a.toml")).unwrap();
    applied(&root);
    assert_eq!(root.dump(), before);
}

fn fifo() {
    let root = root().dir("srv");
    assert!(root.run("mkfifo", &["-m", "600", root.join("srv/fifo").to_str().unwrap()]).success());
    declare(&root, "[[file]]\npath = \"/srv/fifo\"\ncontent = \"x\"\n");
    refused(&root, "srv/fifo is neither a file, a symlink nor a directory");
    let check = root.holo(&["check"]);
    assert_eq!(check.status, Some(1), "{check}");
}

fn templates() {
    let root = root()
        .file("etc/holo/data/common.toml", "port = 8080\n")
        .resource("files/app.holotemplate", "port = {{ data.port }}\non {{ facts.os.id }}\n")
        .resource("files/plain", "{{ no template }}\n");
    declare(
        &root,
        "[[file]]\npath = \"/etc/app\"\nsource = \"app.holotemplate\"\n\
         [[file]]\npath = \"/etc/plain\"\nsource = \"plain\"\n",
    );
    applied(&root);
    assert_eq!(root.read("etc/app"), "port = 8080\non debian\n");
    assert_eq!(root.read("etc/plain"), "{{ no template }}\n");
    unchanged(&root);
    root.write("etc/holo/data/common.toml", "port = 9090\n");
    applied(&root);
    assert_eq!(root.read("etc/app"), "port = 9090\non debian\n");
    root.write("etc/holo/data/common.toml", "portt = 9090\n");
    refused(&root, "app.holotemplate:1: ");
    declare(
        &root,
        "[[file]]\npath = \"/etc/app\"\nsource = \"missing\"\n\
         [[file]]\npath = \"/etc/plain\"\nsource = \"plain\"\n",
    );
    refused(&root, "usr/share/holo/files/missing does not exist");
}

fn sources_in_folders() {
    let root = root()
        .file("etc/holo/data/common.toml", "port = 8080\n")
        .resource("site/conf/app.holotemplate", "port = {{ data.port }}\n")
        .resource("site/plain", "of the package\n")
        .file("etc/holo/resources/site/own", "of the administrator\n");
    let sources =
        ["/usr/share/holo/site/conf/app.holotemplate", "/usr/share/holo/site/plain", "/etc/holo/resources/site/own"];
    let file = |(name, source): (&str, &str)| format!("[[file]]\npath = \"/etc/{name}\"\nsource = \"{source}\"\n");
    declare(&root, &["app", "plain", "own"].into_iter().zip(sources).map(file).collect::<String>());
    applied(&root);
    assert_eq!(root.read("etc/app"), "port = 8080\n");
    assert_eq!(
        (root.read("etc/plain"), root.read("etc/own")),
        ("of the package\n".into(), "of the administrator\n".into())
    );
    unchanged(&root);
    root.write("etc/holo/resources/site/plain", "of the administrator\n");
    applied(&root);
    assert_eq!(root.read("etc/plain"), "of the administrator\n");
    let run = root.holo(&["blame", "/etc/plain"]);
    assert!(run.stdout_lossy().contains("etc/holo/resources/site/plain:1"), "{run}");
    declare(&root, &file(("app", sources[0])));
    applied(&root);
    for source in
        ["/usr/share/holo/files/10-a/etc/x", "/usr/share/holo/../x", "/usr/share/holo", "/etc/x", "site/plain", "/"]
    {
        declare(&root, &file(("app", source)));
        refused(&root, "is neither the name of a file directly in the resource directory nor a path in another folder");
    }
    declare(&root, &file(("app", "/usr/share/holo/files/there")));
    refused(&root, "usr/share/holo/files/there does not exist");
}

fn overlay_template() {
    let root = root()
        .file("etc/motd", "stock\n")
        .file("etc/holo/data/common.toml", "greeting = \"Hello\"\n")
        .resource("files/10-a/etc/motd.holotemplate", "{{ data.greeting }}\n{{ input }}{{ '{{ not twice }}' }}\n");
    applied(&root);
    assert_eq!(root.read("etc/motd"), "Hello\nstock\n{{ not twice }}\n");
    unchanged(&root);
    let scan = root.holo(&["scan"]);
    assert!(scan.stdout_lossy().contains("      render "), "{scan}");
    root.write("usr/share/holo/files/10-a/etc/motd.holotemplate", "\n{{ data.nothing }}\n");
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("motd.holotemplate:2: "), "{run}");
    assert_eq!(root.read("etc/motd"), "Hello\nstock\n{{ not twice }}\n");
    fs::remove_dir_all(root.join("usr/share/holo/files/10-a")).unwrap();
    applied(&root);
    assert_eq!(root.read("etc/motd"), "stock\n");
}

fn overlay_and_declaration() {
    let root = root().file("etc/motd", "stock\n").resource("files/10-a/etc/motd", "overlay\n");
    let overlay = root.join("usr/share/holo/files/10-a");
    applied(&root);
    declare(&root, "[[file]]\npath = \"/etc/motd\"\ncontent = \"declared\\n\"\n");
    let words = "a.toml) is declared and has resource files too";
    let run = refused(&root, words);
    assert!(run.stderr_lossy().contains("10-a/etc/motd); one of both has to go"), "{run}");
    let check = root.holo(&["check"]);
    assert!(check.status == Some(1) && check.stderr_lossy().contains(words), "{check}");
    assert_eq!(root.read("etc/motd"), "overlay\n");
    fs::rename(&overlay, root.join("tmp/10-a")).unwrap();
    applied(&root);
    assert_eq!(root.read("etc/motd"), "declared\n");
    unchanged(&root);
    assert!(!root.exists("var/lib/holo/files/base/etc"));
    declare(&root, "");
    fs::rename(root.join("tmp/10-a"), &overlay).unwrap();
    applied(&root);
    assert_eq!(root.read("etc/motd"), "overlay\n");
    assert!(!root.exists("var/lib/holo/files/.declared"));
    unchanged(&root);
    fs::remove_dir_all(&overlay).unwrap();
    applied(&root);
    assert_eq!(root.read("etc/motd"), "stock\n");
}

fn check() {
    let root = root().file("etc/motd", "stock\n").file("etc/issue", "issue\n");
    declare(&root, ALL_KINDS);
    let before = root.dump();
    let check = root.holo(&["check"]);
    assert_eq!(check.status, Some(3), "{check}");
    for (what, path) in [("write", "etc/motd"), ("make", "etc/new/deep"), ("remove", "etc/issue"), ("make", "srv/data")]
    {
        let words = format!("would {what} {}\n", root.join(path).display());
        assert!(check.stdout_lossy().contains(&words), "{words:?}\n{check}");
    }
    assert_eq!(root.dump(), before);
    applied(&root);
    let check = root.holo(&["check"]);
    assert_eq!((check.status, check.stdout_lossy()), (Some(0), "".into()), "{check}");
    fs::set_permissions(root.join("srv/data"), fs::Permissions::from_mode(0o700)).unwrap();
    let check = root.holo(&["check", "file:/srv/data"]);
    assert!(check.stderr_lossy().contains("use --force to overwrite"), "{check}");
}

fn scrubbing() {
    let root = root().file("etc/motd", "stock\n").dir("srv");
    declare(
        &root,
        "[[file]]\npath = \"/etc/motd\"\ncontent = \"x\"\n[[file]]\npath = \"/srv/new\"\n[[file]]\npath = \"/srv/data\"\nensure = \"directory\"\n",
    );
    applied(&root);
    declare(&root, "");
    let of = |name: &str| root.join(name).display().to_string();
    let (motd, new, data) = (of("etc/motd"), of("srv/new"), of("srv/data"));
    let scan = root.holo(&["scan"]);
    for line in [format!("restore {motd}\n"), format!("delete {new}\n"), format!("delete {data}\n")] {
        assert!(scan.stdout_lossy().contains(&line), "{line}{scan}");
    }
    let check = root.holo(&["check"]);
    let apply = applied(&root);
    for (run, restored, removed) in [(check, "would restore", "would remove"), (apply, "restored", "removed")] {
        for words in [format!("{restored} {motd}\n"), format!("{removed} {new}\n"), format!("{removed} {data}\n")] {
            assert!(run.stdout_lossy().contains(&words), "{words}{run}");
        }
    }
    assert!(root.read("etc/motd") == "stock\n" && !root.exists("srv/new") && !root.exists("srv/data"));
}

fn scrubbing_one() {
    let root = root().file("etc/motd", "stock\n").file("etc/issue", "stock issue\n");
    let both = ["motd", "issue"].map(|name| format!("[[file]]\npath = \"/etc/{name}\"\ncontent = \"{name}\"\n"));
    declare(&root, &both.concat());
    applied(&root);
    declare(&root, "");
    let counts = || (root.records("files/declared").len(), root.contents().len());
    assert_eq!(counts(), (2, 4));
    assert_eq!(root.holo(&["apply", "file:/etc/motd"]).status, Some(0));
    assert_eq!(counts(), (1, 2));
    assert!(!root.exists("var/lib/holo/files/.declared/untidy"));
    assert_eq!(root.read("etc/motd"), "stock\n");
    applied(&root);
    assert!(!root.exists("var/lib/holo/files/.declared"), "{}", root.dump());
}

fn below_a_file() {
    let root = root().file("etc/passwd", "").symlink("srv/gone", "nowhere").file("etc/deep/x", "");
    for (path, words) in [
        ("etc/passwd/x", "etc/passwd is not a directory"),
        ("etc/passwd/x/y/z", "etc/passwd is not a directory"),
        ("srv/gone/x", "srv/gone is a symlink that leads to no directory"),
    ] {
        declare(&root, &format!("[[file]]\npath = \"/{path}\"\n"));
        let problem = format!("make {}: {}", root.join(path).display(), root.join("").display());
        let run = refused(&root, &problem);
        assert!(run.stderr_lossy().contains(words), "{run}");
        let check = root.holo(&["check"]);
        assert_eq!(check.status, Some(1), "{check}");
        assert!(check.stderr_lossy().contains(&problem) && check.stderr_lossy().contains(words), "{check}");
    }
    declare(&root, "[[file]]\npath = \"/etc/passwd/x\"\nensure = \"absent\"\n");
    unchanged(&root);
    // A file has replaced the directory. The declared file below it is gone, and nothing has to be restored.
    declare(&root, "[[file]]\npath = \"/etc/deep/x\"\ncontent = \"ours\"\n");
    applied(&root);
    fs::remove_dir_all(root.join("etc/deep")).unwrap();
    root.write("etc/deep", "a file");
    declare(&root, "");
    let run = root.holo(&["apply", "--force"]);
    assert!(run.stderr_lossy().contains("etc/deep is not a directory"), "{run}");
    fs::remove_file(root.join("etc/deep")).unwrap();
    applied(&root);
    assert_eq!(root.read("etc/deep/x"), "");
}

fn broken() {
    let root = root();
    declare(&root, "[[file]]\npath = \"/etc/motd\"\n[[file]]\npath = \"/etc/issue\"\nmod = \"0644\"\n");
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("a.toml:5: file:/etc/issue: mod: unknown key, did you mean mode?"), "{run}");
    assert_eq!(run.status, Some(1), "{run}");
    assert!(root.exists("etc/motd") && !root.exists("etc/issue"));
    assert_eq!(root.holo(&["check"]).status, Some(1));
    assert_eq!(root.holo(&["apply", "file:/etc/motd"]).status, Some(0), "only that was asked for");
    assert_eq!(root.holo(&["apply", "--exit-zero"]).status, Some(0));
}

/// Works like a dispatcher of version 3, with one process for each operation.
fn version_3() {
    let plugin = built("holo-files");
    let wrapper = format!(
        "#!/bin/sh\ncase $1 in\ninfo) printf 'MIN_API_VERSION=3\\nMAX_API_VERSION=3\\n' ;;\n*) exec {} \"$@\" ;;\nesac\n",
        plugin.display()
    );
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .script("plugin/holo-files", wrapper.as_str())
        .holorc("plugin files=plugin/holo-files\n")
        .file("etc/os-release", "ID=debian\n")
        .dir("usr/share/holo/files")
        .dir("var/lib/holo/files")
        .file("etc/motd", "stock\n")
        .file("etc/issue", "issue\n");
    let before = root.dump();
    symlink("nowhere", root.join("usr/share/holo/files/not-a-definition")).unwrap();
    declare(&root, ALL_KINDS);
    let run = applied(&root);
    assert!(run.stdout_lossy().contains("wrote "), "{run}");
    unchanged(&root);
    fs::remove_file(root.join("usr/share/holo/files/a.toml")).unwrap();
    applied(&root);
    fs::remove_file(root.join("usr/share/holo/files/not-a-definition")).unwrap();
    assert_eq!(root.dump(), before);
}

fn declared_and_overlaid() {
    let root = root().file("etc/motd", "stock\n");
    declare(&root, "[[file]]\npath = \"/etc/motd\"\ncontent = \"declared\\n\"\n");
    applied(&root);
    root.write("usr/share/holo/files/10-a/etc/motd", "overlay\n");
    refused(&root, "is declared and has resource files too");
    declare(&root, "");
    applied(&root);
    assert_eq!(root.read("etc/motd"), "overlay\n");
    fs::remove_dir_all(root.join("usr/share/holo/files/10-a")).unwrap();
    applied(&root);
    assert_eq!(root.read("etc/motd"), "stock\n");
    assert!(!root.exists("var/lib/holo/files/.declared") && !root.exists("var/lib/holo/files/base/etc"));
}

fn not_through_links() {
    let root = root().file("srv/d/x", "ours before\n").file("srv/other/x", "theirs\n");
    declare(&root, "[[file]]\npath = \"/srv/d\"\nensure = \"absent\"\nforce = true\n");
    applied(&root);
    declare(&root, "[[file]]\npath = \"/srv/d\"\nensure = \"symlink\"\ntarget = \"other\"\n");
    applied(&root);
    assert_eq!(root.read("srv/d/x"), "theirs\n");
    declare(&root, "");
    applied(&root);
    assert_eq!((root.read("srv/d/x"), root.read("srv/other/x")), ("ours before\n".into(), "theirs\n".into()));
    assert!(!root.join("srv/d").is_symlink());
    // Created manually, it does not belong to holo.
    declare(&root, "[[file]]\npath = \"/srv/d\"\nensure = \"absent\"\nforce = true\n");
    applied(&root);
    symlink("other", root.join("srv/d")).unwrap();
    declare(&root, "");
    refused(&root, "use --force to overwrite");
    assert!(root.holo(&["apply", "--force"]).success());
    assert_eq!((root.read("srv/d/x"), root.read("srv/other/x")), ("ours before\n".into(), "theirs\n".into()));
}

fn edited_meanwhile() {
    let root = root().file("etc/motd", "stock\n");
    let target = root.join("etc/motd").display().to_string();
    let command = format!("validate = [\"sh\", \"-c\", \"echo mine >{target}\"]");
    declare(&root, &format!("[[file]]\npath = \"/etc/motd\"\ncontent = \"new\"\n{command}\n"));
    let run = root.holo(&["apply"]);
    assert!(run.status == Some(1) && run.stderr_lossy().contains("use --force to overwrite"), "{run}");
    assert_eq!(root.read("etc/motd"), "mine\n");
    // Nothing was provisioned, so the edit is the original content.
    declare(&root, "[[file]]\npath = \"/etc/motd\"\ncontent = \"new\"\n");
    applied(&root);
    declare(&root, "");
    applied(&root);
    assert_eq!(root.read("etc/motd"), "mine\n");
}

fn secret_orphan() {
    let root = root();
    declare(&root, "[[file]]\npath = \"/etc/key\"\ncontent = \"hunter2\"\nsensitive = true\n");
    applied(&root);
    assert_eq!(mode(&root, "var/lib/holo/state.db"), 0o600);
    root.write("etc/key", "hunter3");
    declare(&root, "");
    for arguments in [&["diff"][..], &["apply"], &["check"]] {
        let run = root.holo(arguments);
        let said = format!("{}{}", run.stdout_lossy(), run.stderr_lossy());
        assert!(!said.contains("hunter"), "{arguments:?}: {run}");
    }
    assert_eq!(root.read("etc/key"), "hunter3");
}

fn in_place() {
    let root = root().file("etc/hosts", "stock, and longer than the other\n");
    let inode = |root: &ScratchRoot| fs::metadata(root.join("etc/hosts")).unwrap().ino();
    let before = inode(&root);
    declare(&root, "[[file]]\npath = \"/etc/hosts\"\ncontent = \"ours\\n\"\nin_place = true\nmode = \"0600\"\n");
    applied(&root);
    assert_eq!((root.read("etc/hosts"), inode(&root), mode(&root, "etc/hosts")), ("ours\n".into(), before, 0o600));
    unchanged(&root);
    declare(&root, "");
    applied(&root);
    assert_eq!(root.read("etc/hosts"), "stock, and longer than the other\n");
    assert_eq!((inode(&root), mode(&root, "etc/hosts")), (before, 0o644));
}

fn spelled_otherwise() {
    let root = root().file("srv/a/x", "stock\n").symlink("srv/link", "a");
    declare(&root, "[[file]]\npath = \"/srv/a/x\"\ncontent = \"one\\n\"\n");
    applied(&root);
    declare(&root, "[[file]]\npath = \"/srv/link/x\"\ncontent = \"two\\n\"\n");
    let run = applied(&root);
    assert!(run.stderr_lossy().contains(">> file:/srv/link/x takes over from file:/srv/a/x\n"), "{run}");
    assert!(!run.stdout_lossy().contains("Scrubbing"), "{run}");
    assert_eq!(root.read("srv/a/x"), "two\n");
    unchanged(&root);
    declare(&root, "");
    applied(&root);
    assert_eq!(root.read("srv/a/x"), "stock\n");
    assert!(!root.exists("var/lib/holo/files/.declared"));
}

fn contradictions() {
    let root = root().file("srv/d/old", "x").symlink("srv/link", "d");
    let present = "[[file]]\npath = \"/srv/d/x\"\ncontent = \"x\"\n";
    root.write("usr/share/holo/files/b.toml", "[[file]]\npath = \"/srv/d\"\nensure = \"absent\"\nforce = true\n");
    declare(&root, present);
    let run = refused(&root, "b.toml) is to be absent, so that file:/srv/d/x (");
    assert!(run.stderr_lossy().contains("a.toml) cannot be in it; one of both has to go"), "{run}");
    root.write("usr/share/holo/files/b.toml", "[[file]]\npath = \"/srv/link/x\"\ncontent = \"y\"\n");
    let run = refused(&root, "file:/srv/d/x in ");
    assert!(run.stderr_lossy().contains("file:/srv/link/x in "), "{run}");
}

fn extended_attributes() {
    let root = root().file("etc/motd", "stock\n").file("srv/d/x", "x\n");
    let set = |path: &str| rustix::fs::setxattr(root.join(path), "user.note", b"kept", rustix::fs::XattrFlags::empty());
    if set("etc/motd").is_err() {
        // The file system does not support them.
        return;
    }
    set("srv/d").unwrap();
    set("srv/d/x").unwrap();
    let note = |path: &str| {
        let mut value = [0; 16];
        rustix::fs::getxattr(root.join(path), "user.note", &mut value[..]).map(|length| value[..length].to_vec())
    };
    declare(
        &root,
        "[[file]]\npath = \"/etc/motd\"\ncontent = \"new\"\n[[file]]\npath = \"/srv/d\"\nensure = \"absent\"\nforce = true\n",
    );
    applied(&root);
    assert_eq!(note("etc/motd").as_deref(), Ok(&b"kept"[..]));
    fs::remove_file(root.join("etc/motd")).unwrap();
    declare(&root, "");
    applied(&root);
    for path in ["etc/motd", "srv/d", "srv/d/x"] {
        assert_eq!(note(path).as_deref(), Ok(&b"kept"[..]), "{path}");
    }
}
