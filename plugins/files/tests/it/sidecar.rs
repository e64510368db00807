//! `[[overlay]]` tables: common keys, validation and secrecy of overlays.

use holo_testing::{ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::fs;

const RESOURCES: &str = "usr/share/holo/files";

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name, test: fn()| trial_of(name, &[], test);
    vec![
        trial("the new content is validated before it replaces the target", validated),
        trial("content that is not well is not written, and what was there stays", refused),
        trial("a sidecar holds for all disambiguators, and its edges are in the plan", edges),
        trial("a condition leaves the overlay out", left_out),
        trial("an overlay that fails is tried again", retried),
        trial("a sidecar that nothing is laid over is an error with file and line", idle),
        trial("what is wrong with a sidecar is said, and its overlay is left alone", broken),
        trial("sensitive content is shown nowhere, also when nothing says so any more", sensitive),
        trial("a target that a pending entity may bring is pending, and not failed", pending),
        trial("what was declared before is taken away before an overlay with a sidecar comes", after_declared),
        trial("a holoscript ends with the time limit", time_limit),
        trial("a holoscript that prints without end is ended", endless),
    ]
}

/// Returns a root with an overlay of `etc/conf` by two disambiguators, and a definition.
fn root(definition: &str) -> ScratchRoot {
    ScratchRoot::new()
        .plugin("files")
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/conf", "stock\n")
        .resource("files/10-x/etc/conf", "ours\n")
        .script(format!("{RESOURCES}/20-y/etc/conf.holoscript"), "#!/bin/sh\ncat; echo more\n")
        .resource("files/site.toml", definition)
}

fn validated() {
    let root = root(
        "[[overlay]]\npath = \"/etc/conf\"\nvalidate = [\"sh\", \"-c\", \"basename $1; cat $1\", \"-\", \"{}\"]\n",
    );
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert!(run.stdout_lossy().contains("conf\nours\nmore\n"), "{run}");
    assert_eq!(root.read("etc/conf"), "ours\nmore\n");
    let run = root.holo(&["apply"]);
    assert_eq!(run.stdout_lossy(), "", "nothing is validated if nothing is to be written: {run}");
}

fn refused() {
    let root = root("[[overlay]]\npath = \"/etc/conf\"\nvalidate = \"grep -q never {}\"\n");
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("!! skipping target: validation by `grep -q never {}` failed: "), "{run}");
    assert_eq!(root.read("etc/conf"), "stock\n");
    root.write(format!("{RESOURCES}/10-x/etc/conf"), "never say\n");
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert_eq!(root.read("etc/conf"), "never say\nmore\n");
}

fn edges() {
    let root = root(
        "[[overlay]]\npath = \"/etc/conf\"\nafter = [\"file:/etc/motd\"]\nnotifies = [\"file:/etc/zzz\"]\n\
         [[file]]\npath = \"/etc/motd\"\ncontent = \"\"\n[[file]]\npath = \"/etc/zzz\"\ncontent = \"\"\n",
    );
    let run = root.holo(&["graph", "--format", "dot"]);
    assert!(run.success(), "{run}");
    let run = root.holo(&["scan", "file:/etc/conf"]);
    let (found, first) = (run.stdout_lossy().find("found in"), run.stdout_lossy().find("store at"));
    assert!(found.is_some() && first.is_some(), "{run}");
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    let at = |id: &str| run.stdout_lossy().find(&format!("on file:{id}\n")).unwrap();
    assert!(at("/etc/motd") < at("/etc/conf") && at("/etc/conf") < at("/etc/zzz"), "{run}");
    assert_eq!(root.read("etc/conf"), "ours\nmore\n");
}

fn left_out() {
    let root =
        root("[[overlay]]\npath = \"/etc/conf\"\nif = \"false\"\n[[overlay]]\npath = \"/etc/none\"\nif = \"false\"\n");
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert_eq!(root.read("etc/conf"), "stock\n");
    let run = root.holo(&["check"]);
    assert!(run.success(), "{run}");
}

fn retried() {
    let root = root("");
    let seen = root.join("tmp/seen");
    let definition = format!(
        "[[overlay]]\npath = \"/etc/conf\"\nretries = 2\nretry_delay = \"10ms\"\n\
         validate = [\"sh\", \"-c\", \"test -e {0} || {{ touch {0}; exit 1; }}\"]\n",
        seen.display()
    );
    root.write(format!("{RESOURCES}/site.toml"), definition);
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert!(run.stderr_lossy().contains("trying again in 10ms (1 of 2)"), "{run}");
    assert_eq!(root.read("etc/conf"), "ours\nmore\n");
}

fn idle() {
    let root = root("# a comment\n[[overlay]]\npath = \"/etc/other\"\n");
    for arguments in [&["scan"][..], &["check", "file:/etc/conf"], &["apply"]] {
        let run = root.holo(arguments);
        let expected = "site.toml:2: file:/etc/other: this path has no overlay";
        assert!(run.stderr_lossy().contains(expected), "{arguments:?}: {run}");
    }
    assert_eq!(root.read("etc/conf"), "ours\nmore\n");
    root.write(
        format!("{RESOURCES}/site.toml"),
        "[[file]]\npath = \"/etc/other\"\ncontent = \"\"\n[[overlay]]\npath = \"/etc/other\"\n",
    );
    let run = root.holo(&["scan"]);
    let expected = "site.toml:4: file:/etc/other: this path is declared in ";
    assert!(run.stderr_lossy().contains(expected), "{run}");
}

fn broken() {
    let root = root("[[overlay]]\npath = \"/etc/conf\"\nvalidat = \"true\"\n");
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    let expected = "site.toml:3: file:/etc/conf: validat: unknown key, did you mean validate?";
    assert!(run.stderr_lossy().contains(expected), "{run}");
    assert_eq!(root.read("etc/conf"), "stock\n");
}

fn sensitive() {
    let root = root("[[overlay]]\npath = \"/etc/conf\"\nsensitive = true\nvalidate = \"grep -v nothing {}\"\n")
        .env("HOLO_HISTORY", "1");
    let conceals = |arguments: &[&str]| {
        let run = root.holo(arguments);
        for word in ["stock", "ours", "more", "handmade"] {
            assert!(!format!("{run}").contains(word), "{arguments:?} shows {word}: {run}");
        }
        run
    };
    let run = conceals(&["check", "--diff"]);
    assert!(run.stdout_lossy().contains("(sensitive)"), "{run}");
    conceals(&["apply", "--diff"]);
    assert_eq!(root.read("etc/conf"), "ours\nmore\n");
    root.write("etc/conf", "handmade\n");
    conceals(&["apply"]);
    conceals(&["diff"]);
    conceals(&["blame", "/etc/conf"]);
    // The error of a resource file that cannot be applied has a location, but not the content.
    root.write(format!("{RESOURCES}/site.toml"), "");
    for folder in ["10-x", "20-y"] {
        fs::remove_dir_all(root.join(RESOURCES).join(folder)).unwrap();
    }
    conceals(&["diff"]);
    conceals(&["check", "--diff"]);
    conceals(&["apply", "--diff"]);
    assert_eq!(root.read("etc/conf"), "stock\n");
    conceals(&["history", "show", "--diff"]);
    let run = root.holo(&["state", "export"]);
    // The resource files are kept for a rollback, and the manual change because it is nowhere else. Only root can read them.
    let kept = [r#""content":"ours\n""#, "echo more", r#""content":"handmade\n""#];
    let is_kept = |line: &&str| kept.iter().any(|content| line.contains(content));
    let exported: Vec<String> = run.stdout_lossy().lines().filter(|line| !is_kept(line)).map(str::to_owned).collect();
    for word in ["stock", "ours", "more", "handmade"] {
        assert!(!exported.iter().any(|line| line.contains(word)), "{word}: {run}");
    }
    assert!(!root.exists("var/lib/holo/files/.sensitive"), "it is forgotten with the target");
    let copy = root.join("etc/copy");
    let run = root.holo(&["history", "edited", "file:/etc/conf", "--output", copy.to_str().unwrap()]);
    assert!(run.success() && root.read("etc/copy") == "handmade\n", "{run}");
}

fn pending() {
    let root = root(
        "[[overlay]]\npath = \"/etc/new/conf\"\nrequires = [\"file:/etc/first\"]\n\
         [[file]]\npath = \"/etc/first\"\ncontent = \"\"\n",
    )
    .resource("files/10-x/etc/new/conf", "ours\n");
    let run = root.holo(&["check", "--json"]);
    assert_eq!(run.status, Some(3), "{run}");
    root.write("etc/first", "");
    let run = root.holo(&["apply", "file:/etc/first"]);
    assert!(run.success(), "{run}");
    let run = root.holo(&["check"]);
    assert_eq!(run.status, Some(1), "nothing that is pending can bring it now: {run}");
}

fn after_declared() {
    let root = root("[[file]]\npath = \"/etc/x\"\ncontent = \"declared\\n\"\n").file("etc/x", "found\n");
    assert!(root.holo(&["apply"]).success());
    root.write(format!("{RESOURCES}/10-x/etc/x"), "laid\n");
    root.write(format!("{RESOURCES}/site.toml"), "[[overlay]]\npath = \"/etc/x\"\nvalidate = \"grep laid {}\"\n");
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert_eq!(root.read("etc/x"), "laid\n");
    assert!(run.stdout_lossy().contains("laid\n"), "{run}");
    fs::remove_dir_all(root.join(RESOURCES).join("10-x")).unwrap();
    root.write(format!("{RESOURCES}/site.toml"), "");
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert_eq!(root.read("etc/x"), "found\n");
}

fn time_limit() {
    let root = root("[[overlay]]\npath = \"/etc/conf\"\ntimeout = \"100ms\"\n")
        .script(format!("{RESOURCES}/20-y/etc/conf.holoscript"), "#!/bin/sh\ncat; exec sleep 600\n");
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert_eq!(root.read("etc/conf"), "stock\n");
}

fn endless() {
    let root = root("").script(format!("{RESOURCES}/20-y/etc/conf.holoscript"), "#!/bin/sh\nyes\n");
    for arguments in [&["check", "--diff"][..], &["apply"]] {
        let run = root.holo(arguments);
        let script = root.join(format!("{RESOURCES}/20-y/etc/conf.holoscript"));
        let path = script.display();
        assert_eq!(run.status, Some(1), "{run}");
        let error = format!("execution of {path} failed: {path} printed more than 64 MiB");
        assert!(run.stderr_lossy().contains(&error), "{run}");
    }
    assert_eq!(root.read("etc/conf"), "stock\n");
}
