//! Files that decide what root does and that other users may modify: which are refused, which are reported, and that `holo doctor` lists all.

use holo_testing::{Need, Run, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

const USER: u32 = 4711;
/// The file whose existence shows that the machine has done what the untrusted file says.
const EVIDENCE: &str = "etc/obeyed";

pub(crate) fn trials() -> Vec<Trial> {
    let table = KINDS.iter().flat_map(|kind| {
        let test = move |way: &'static Way| {
            trial_of(&format!("{}/{}", kind.name, way.name), &[Need::Root], move || treated_by_mode(kind, way))
        };
        WAYS.iter().map(test)
    });
    let others = [
        trial_of("an entity of a trusted file is applied although another is refused", &[], only_its_entities),
        trial_of("orphans are kept while their directory is untrusted", &[Need::Root], orphans_are_kept),
        trial_of("settings that other users may modify cannot disable the checks", &[], settings_are_checked),
        trial_of("a directory of several programs is warned of once", &[], directory_of_several_programs),
        trial_of("the owner of a root directory is trusted below it", &[Need::Root], owner_of_the_root),
        trial_of("a verb that only reads facts runs no untrusted program", &[], verbs_that_read_facts),
    ];
    table.chain(others).collect()
}

/// A kind of file that decides what root does.
struct Kind {
    name: &'static str,
    path: &'static str,
    text: &'static str,
    /// Whether version 3 used such files without a check.
    is_of_version_3: bool,
    /// Adds what else it needs.
    around: fn(ScratchRoot) -> ScratchRoot,
}

const PLUGIN: &str = "#!/bin/sh\n[ $1 = info ] || exit 0\ntouch \"$HOLO_ROOT_DIR/etc/obeyed\"\nprintf 'MIN_API_VERSION=3\\nMAX_API_VERSION=3\\n'\n";
const TOUCH: &str = "#!/bin/sh\ntouch \"$HOLO_ROOT_DIR/etc/obeyed\"\n";

const KINDS: [Kind; 8] = [
    Kind {
        name: "snippet",
        path: "etc/holorc.d/10-demo",
        text: "plugin demo\n",
        is_of_version_3: true,
        around: |root| root.script("usr/lib/holo/holo-demo", PLUGIN).dir("usr/share/holo/demo"),
    },
    Kind {
        name: "plugin",
        path: "usr/lib/holo/holo-demo",
        text: PLUGIN,
        is_of_version_3: true,
        around: |root| root.file("etc/holorc.d/10-demo", "plugin demo\n").dir("usr/share/holo/demo"),
    },
    Kind {
        name: "generator",
        path: "usr/share/holo/generators/10-x/make",
        text: TOUCH,
        is_of_version_3: true,
        around: |root| root,
    },
    Kind {
        name: "holoscript",
        path: "usr/share/holo/files/10-x/etc/motd.holoscript",
        text: "#!/bin/sh\ncat\ntouch \"$HOLO_ROOT_DIR/etc/obeyed\"\n",
        is_of_version_3: true,
        around: |root| root.file("etc/motd", "stock\n"),
    },
    Kind {
        name: "run-script",
        path: "usr/share/holo/run-scripts/10-x",
        text: TOUCH,
        is_of_version_3: true,
        around: |root| root.plugin("run-scripts"),
    },
    Kind {
        name: "definition",
        path: "etc/holo/resources/files/x.toml",
        text: "[[file]]\npath = \"/etc/obeyed\"\ncontent = \"x\"\n",
        is_of_version_3: false,
        around: |root| root,
    },
    Kind {
        name: "data",
        path: "etc/holo/data/common.toml",
        text: "name = \"obeyed\"\n",
        is_of_version_3: false,
        around: |root| {
            let template = "[[file]]\npath = \"/etc/{{ data.name }}\"\ncontent = \"x\"\n";
            root.resource("files/x.toml.jinja", template)
        },
    },
    Kind {
        name: "facts",
        path: "etc/holo/facts.d/site",
        text: "#!/bin/sh\ntouch \"$HOLO_ROOT_DIR/etc/obeyed\"\necho '{}'\n",
        is_of_version_3: false,
        around: |root| root.resource("files/x.toml.jinja", "# {{ facts.hostname }}\n"),
    },
];

/// A way in which other users may modify a file.
struct Way {
    name: &'static str,
    /// Makes the file at this path untrusted.
    open: fn(&ScratchRoot, &Path),
    /// Part of the description.
    says: &'static str,
    /// Part of the command that fixes it.
    remedy: &'static str,
}

const WAYS: [Way; 6] = [
    Way {
        name: "writable for everyone",
        open: |_, path| add_mode(path, 0o002),
        says: " is writable for other users (mode 0",
        remedy: "chmod go-w ",
    },
    Way {
        name: "writable for its group",
        open: |_, path| add_mode(path, 0o020),
        says: " is writable for other users (mode 0",
        remedy: "chmod go-w ",
    },
    Way {
        name: "owned by a user",
        open: |_, path| chown(path, Some(USER), None).unwrap(),
        says: " belongs to user 4711 (mode 0",
        remedy: "chown -h root: ",
    },
    Way {
        name: "in a writable directory",
        open: |_, path| add_mode(path.parent().unwrap(), 0o002),
        says: " is writable for other users (mode 0",
        remedy: "chmod go-w ",
    },
    Way {
        name: "in a directory of a user",
        open: |_, path| chown(path.parent().unwrap(), Some(USER), None).unwrap(),
        says: " belongs to user 4711 (mode 0",
        remedy: "chown -h root: ",
    },
    Way {
        name: "a symlink into a home",
        open: |root, path| {
            let home = root.join("home/jane");
            fs::create_dir_all(&home).unwrap();
            lchown(&home, Some(USER), None).unwrap();
            let file = home.join(path.file_name().unwrap());
            fs::rename(path, &file).unwrap();
            // Absolute symlinks of data lead to the same place as in the real root.
            let up = path.strip_prefix(root.path()).unwrap().components().skip(1).map(|_| "..");
            let file = up.collect::<PathBuf>().join(file.strip_prefix(root.path()).unwrap());
            symlink(file, path).unwrap();
        },
        says: "home/jane belongs to user 4711 (mode 0",
        remedy: "chown -h root: ",
    },
];

fn add_mode(path: &Path, bits: u32) {
    let mode = fs::metadata(path).unwrap().permissions().mode();
    fs::set_permissions(path, Permissions::from_mode(mode | bits)).unwrap();
}

fn apply(root: &ScratchRoot) -> Run {
    root.holo(&["apply"])
}

/// Returns a root with this file, which nothing is wrong with yet.
fn machine(kind: &Kind) -> ScratchRoot {
    let root = ScratchRoot::new().binary(built("holo")).dir("run").plugin("files");
    let root = root.file("etc/os-release", "ID=debian\n");
    let root = (kind.around)(root);
    if kind.text.starts_with("#!") { root.script(kind.path, kind.text) } else { root.file(kind.path, kind.text) }
}

fn treated_by_mode(kind: &Kind, way: &Way) {
    let trusted = machine(kind);
    let run = apply(&trusted);
    assert!(run.success() && run.stderr.is_empty() && trusted.exists(EVIDENCE), "{run}");
    for (mode, is_refused) in
        [("", !kind.is_of_version_3), ("[trust]\nmode = 'enforce'\n", true), ("[trust]\nmode = 'warn'\n", false)]
    {
        let root = machine(kind).file("etc/holo/engine.toml", mode);
        (way.open)(&root, &root.join(kind.path));
        let run = apply(&root);
        // A symlink is not a generator.
        let is_refused = is_refused || kind.name == "generator" && way.name == "a symlink into a home";
        let said = format!("{}{}", run.stdout_lossy(), run.stderr_lossy());
        assert!(said.contains(way.says), "{mode}: {run}");
        assert!(run.success() || is_refused, "{mode}: {run}");
        assert_eq!(root.exists(EVIDENCE), !is_refused, "{mode}: {run}");
        let run = root.holo(&["doctor"]);
        let lines: Vec<String> = run.stdout_lossy().lines().map(str::to_owned).collect();
        let found = lines.iter().position(|line| line.contains("permissions") && line.contains(way.says));
        let found = found.unwrap_or_else(|| panic!("{mode}: {run}"));
        assert!(lines[found + 1].contains(way.remedy), "{mode}: {run}");
        assert_eq!(run.status, Some(2), "{mode}: {run}");
    }
}

fn definition(path: &str) -> String {
    format!("[[file]]\npath = \"{path}\"\ncontent = \"x\"\n")
}

/// Returns a root with the files /etc/one and /etc/two, defined in a file each.
fn two_files() -> ScratchRoot {
    let root = ScratchRoot::new().binary(built("holo")).dir("run").dir("etc").plugin("files");
    root.resource("files/one.toml", definition("/etc/one")).resource("files/two.toml", definition("/etc/two"))
}

fn only_its_entities() {
    let root = two_files().mode("usr/share/holo/files/two.toml", 0o666);
    let run = root.holo(&["check"]);
    assert_eq!(run.status, Some(1), "{run}");
    let refused = "files/two.toml is writable for other users (mode 0666), so none of its entities is applied";
    for (verb, is_applied) in [("check", false), ("diff", false), ("apply", true)] {
        let run = root.holo(&[verb]);
        assert!(format!("{run}").contains(refused), "{run}");
        assert!(!run.success(), "{run}");
        assert_eq!((root.exists("etc/one"), root.exists("etc/two")), (is_applied, false), "{run}");
    }
    let run = root.holo(&["apply", "file:/etc/one"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    let root = root.mode("usr/share/holo/files/two.toml", 0o644);
    let run = apply(&root);
    assert!(run.success() && root.exists("etc/two"), "{run}");
}

fn orphans_are_kept() {
    let root = two_files().file("etc/holo/engine.toml", "[trust]\nmode = \"enforce\"\n");
    assert!(apply(&root).success());
    fs::remove_file(root.join("usr/share/holo/files/two.toml")).unwrap();
    let root = root.mode("usr/share/holo/files", 0o777);
    for verb in ["check", "apply"] {
        let run = root.holo(&[verb]);
        assert_eq!(run.status, Some(1), "{run}");
        assert!(format!("{run}").contains("files is writable for other users (mode 0777)"), "{run}");
        assert!(root.exists("etc/two"), "{run}");
    }
    let root = root.mode("usr/share/holo/files", 0o755);
    assert!(apply(&root).success() && !root.exists("etc/two") && root.exists("etc/one"));
}

fn directory_of_several_programs() {
    let root = ScratchRoot::new().file("etc/os-release", "ID=unittest\n");
    for plugin in ["one", "two", "three"] {
        root.write_script(
            format!("usr/lib/holo/holo-{plugin}"),
            "#!/bin/sh\n[ $1 != info ] || echo MIN_API_VERSION=3\n",
        );
        root.write(format!("usr/share/holo/{plugin}/x"), "");
    }
    root.write("etc/holorc", "plugin one\nplugin two\nplugin three\n");
    let root = root.mode("usr/lib/holo", 0o777);
    let run = root.holo(&["scan"]);
    assert_eq!(run.stderr_lossy().matches("usr/lib/holo is writable for other users").count(), 1, "{run}");
}

fn settings_are_checked() {
    let root = two_files().file("etc/holo/engine.toml", "[trust]\nmode = \"warn\"\n");
    let root = root.mode("usr/share/holo/files/two.toml", 0o666).mode("etc/holo/engine.toml", 0o666);
    let run = apply(&root);
    assert!(!run.success() && !root.exists("etc/one"), "{run}");
    assert!(run.stderr_lossy().contains("engine.toml is writable for other users"), "{run}");
}

fn verbs_that_read_facts() {
    for verb in [&["facts"][..], &["data"], &["definitions", "files"]] {
        let facts = KINDS.iter().find(|kind| kind.name == "facts").unwrap();
        let root = machine(facts).mode(facts.path, 0o777);
        let run = root.holo(verb);
        assert!(!run.success() && run.stderr_lossy().contains("is writable for other users"), "{run}");
        assert!(!root.exists(EVIDENCE), "{run}");
    }
}

fn owner_of_the_root() {
    let root = two_files();
    for path in ["", "usr/share/holo/files", "usr/share/holo/files/two.toml"] {
        chown(root.join(path), Some(USER), Some(USER)).unwrap();
    }
    let root = root.mode("usr/share/holo/files", 0o775);
    let run = apply(&root);
    assert!(run.success() && run.stderr.is_empty() && root.exists("etc/two"), "{run}");
}
