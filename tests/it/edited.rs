//! `on_edit = "overwrite"` and force: what a person has edited is kept, and then overwritten.

use bstr::{BString, ByteSlice};
use holo_testing::disturb::{self, Disturbance};
use holo_testing::{ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = holo_testing::trials![
        overlay_is_refused_overwritten_and_adopted,
        what_was_right_at_first_is_not_overwritten_later,
        what_is_adopted_is_not_overwritten_later,
        definition_decides_before_the_option,
        every_kind_keeps_what_it_overwrites,
        other_plugins_and_orphans_refuse,
        sensitive_contents_are_not_shown,
        force_keeps_what_it_overwrites,
        large_contents_links_and_old_versions,
        versions_are_removed_with_old_records,
    ];
    for kind in &KINDS {
        let name = format!("what a person has edited survives a kill at any system call: {}", kind.name);
        trials.push(trial_of(&name, disturb::NEEDS, || survives(kind, &OVERWRITE, Disturbance::Kill)));
        let name = format!("what a person has edited survives a kill of a forced run: {}", kind.name);
        trials.push(trial_of(&name, disturb::NEEDS, || survives(kind, &["apply", "--force"], Disturbance::Kill)));
        let name = format!("what a person has edited survives a full disk: {}", kind.name);
        trials.push(trial_of(&name, disturb::NEEDS, || survives(kind, &OVERWRITE, Disturbance::Error("ENOSPC"))));
    }
    trials
}

/// A kind of entity that keeps what it overwrites.
struct Kind {
    name: &'static str,
    plugin: &'static str,
    id: &'static str,
    /// A resource file.
    resource: (&'static str, &'static str),
    /// The managed file.
    path: &'static str,
    edited: &'static str,
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "an overlay",
        plugin: "files",
        id: "file:/etc/motd",
        resource: ("10-site/etc/motd", "hello\n"),
        path: "etc/motd",
        edited: "hello, and welcome\n",
    },
    Kind {
        name: "a declared file",
        plugin: "files",
        id: "file:/etc/app.conf",
        resource: ("app.toml", "[[file]]\npath = \"/etc/app.conf\"\ncontent = \"port 80\\n\"\n"),
        path: "etc/app.conf",
        edited: "port 81\n",
    },
    Kind {
        name: "an edit",
        plugin: "files",
        id: "line:/etc/motd",
        resource: ("app.toml", "[[line]]\npath = \"/etc/motd\"\nmatch = \"^port\"\nline = \"port = 80\"\n"),
        path: "etc/motd",
        edited: "stock\nport = 81\n",
    },
    Kind {
        name: "a repository",
        plugin: "packages",
        id: "repository:site",
        resource: (
            "site.toml",
            "[[repository]]\nname = \"site\"\nuris = [\"http://example.org/debian\"]\nsuites = [\"stable\"]\ncomponents = [\"main\"]\nsigned_by = \"/usr/share/keyrings/site.gpg\"\n",
        ),
        path: "etc/apt/sources.list.d/site.sources",
        edited: "# none\n",
    },
    Kind {
        name: "a scaffold",
        plugin: "scaffold",
        id: "scaffold:/srv/app",
        resource: ("app.toml", "[[scaffold]]\ntarget = \"/srv/app\"\nsource = \"app\"\n"),
        path: "srv/app/conf",
        edited: "port 81\n",
    },
];

impl Kind {
    /// Returns a root where the entity was applied.
    fn root(&self) -> ScratchRoot {
        let root = ScratchRoot::in_memory()
            .file("etc/os-release", "ID=debian\n")
            .file("etc/motd", "stock\n")
            .dir("etc/apt/sources.list.d")
            .dir("srv");
        let root = disturb::configure(root, self.plugin);
        let (path, text) = self.resource;
        root.write(format!("usr/share/holo/{}/{path}", self.plugin), text);
        root.write("usr/share/holo/scaffold/app/conf", "port 80\n");
        let run = root.holo(&["apply"]);
        assert!(run.success(), "{run}");
        root
    }

    fn edit(&self, root: &ScratchRoot) {
        assert!(root.exists(self.path), "{}", self.name);
        fs::write(root.join(self.path), self.edited).unwrap();
    }
}

const OVERWRITE: [&str; 2] = ["apply", "--on-edit=overwrite"];

/// Returns the output of a command that succeeds.
#[track_caller]
fn said(root: &ScratchRoot, arguments: &[&str]) -> BString {
    let run = root.holo(arguments);
    assert!(run.success(), "{run}");
    run.stdout
}

/// Returns the columns of `holo history edited` without the times.
#[track_caller]
fn listed(root: &ScratchRoot) -> Vec<String> {
    let list = said(root, &["history", "edited"]).to_string();
    let line = |line: &str| {
        line.split('\t')
            .enumerate()
            .filter(|(index, _)| *index != 2)
            .map(|(_, cell)| cell)
            .collect::<Vec<_>>()
            .join(" ")
    };
    list.lines().map(line).collect()
}

fn overlay_is_refused_overwritten_and_adopted() {
    let kind = &KINDS[0];
    let root = kind.root().env("HOLO_HISTORY", "1");
    kind.edit(&root);
    let run = root.holo(&["apply"]);
    assert!(!run.success() && run.stderr_lossy().contains("has been modified by user"), "{run}");
    assert!(listed(&root).is_empty());
    // A check says exactly what an apply does.
    let run = root.holo(&["check", "--json", "--on-edit", "overwrite"]);
    assert!(run.stdout.contains_str("would keep the edited version of "), "{run}");
    let run = root.holo(&["check"]);
    assert!(run.stdout.contains_str("by user") || run.stderr_lossy().contains("by user"), "{run}");
    said(&root, &OVERWRITE);
    assert_eq!(root.read(kind.path), "hello\n");
    assert_eq!(listed(&root), ["file:/etc/motd 1 file 19 /etc/motd"]);
    assert_eq!(said(&root, &["history", "edited", kind.id]), kind.edited);
    let history = said(&root, &["history", "show"]);
    assert!(history.contains_str("kept the edited version of "), "{history}");
    // The person's version becomes a resource file, and the next apply writes it.
    said(&root, &["adopt", "--edited", kind.id]);
    assert_eq!(root.read(kind.path), "hello\n");
    said(&root, &["apply"]);
    assert_eq!(root.read(kind.path), kind.edited);
    let run = root.holo(&["adopt", "--edited", "file:/etc/other"]);
    assert!(run.stderr_lossy().contains("no edited version of file:/etc/other is kept"), "{run}");
}

fn what_was_right_at_first_is_not_overwritten_later() {
    let root = ScratchRoot::new().binary(built("holo")).plugin("files").plugin("scaffold");
    let declaration = |content: &str| format!("[[file]]\npath = \"/etc/motd\"\ncontent = \"{content}\"\n");
    root.write("etc/motd", "hello\n");
    root.write("usr/share/holo/files/motd.toml", declaration("hello\\n"));
    root.write("srv/tree/one", "one\n");
    root.write("usr/share/holo/scaffold/tree/one", "one\n");
    root.write("usr/share/holo/scaffold/tree.toml", "[[scaffold]]\ntarget = \"/srv/tree\"\nsource = \"tree\"\n");
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stdout.is_empty(), "{run}");
    let edited = [("etc/motd", "hello\nperson\n"), ("srv/tree/one", "one\nperson\n")];
    edited.iter().for_each(|(path, content)| root.write(path, content));
    for verb in ["check", "apply"] {
        let run = root.holo(&[verb]);
        assert!(!run.success() && run.stderr_lossy().matches("--force").count() == 2, "{run}");
        edited.iter().for_each(|(path, content)| assert_eq!(root.read(path), *content, "{run}"));
    }
    // What they have written becomes what is defined, and goes with the definition.
    root.write("usr/share/holo/files/motd.toml", declaration("hello\\nperson\\n"));
    root.write("usr/share/holo/scaffold/tree/one", "one\nperson\n");
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stdout.is_empty(), "{run}");
    fs::remove_file(root.join("usr/share/holo/files/motd.toml")).unwrap();
    fs::remove_file(root.join("usr/share/holo/scaffold/tree.toml")).unwrap();
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert_eq!((root.read("etc/motd"), root.read("srv/tree/one")), ("hello\n".into(), "one\n".into()), "{run}");
}

fn what_is_adopted_is_not_overwritten_later() {
    let root = ScratchRoot::new().binary(built("holo")).plugin("files");
    root.write("etc/issue", "ours\n");
    let adopted = root.holo(&["adopt".as_ref(), root.join("etc/issue").as_os_str()]);
    assert!(adopted.success(), "{adopted}");
    assert!(root.holo(&["check"]).success());
    root.write("etc/issue", "ours\nperson\n");
    let run = root.holo(&["apply"]);
    assert!(!run.success() && run.stderr_lossy().contains("--force"), "{run}");
    assert_eq!(root.read("etc/issue"), "ours\nperson\n");
}

fn definition_decides_before_the_option() {
    let kind = &KINDS[1];
    let root = kind.root();
    let with = |policy: &str| {
        let text = format!("{}on_edit = \"{policy}\"\n", kind.resource.1);
        root.write(format!("usr/share/holo/files/{}", kind.resource.0), text);
    };
    kind.edit(&root);
    with("refuse");
    let run = root.holo(&OVERWRITE);
    assert!(!run.success() && run.stderr_lossy().contains("by user"), "{run}");
    with("overwrite");
    let check = root.holo(&["check", "--json"]).stdout;
    assert!(check.contains_str("would keep the edited version of "), "{check}");
    said(&root, &["apply"]);
    assert_eq!(root.read(kind.path), "port 80\n");
    // What is defined cannot be adopted, and the way to the edited version is named.
    let run = root.holo(&["adopt", "--edited", kind.id]);
    assert!(
        !run.success()
            && run.stderr_lossy().contains("no resource file was made of the edited version of file:/etc/app.conf"),
        "{run}"
    );
    with("ask");
    let run = root.holo(&["apply"]);
    assert!(
        run.stderr_lossy().contains("app.toml:4: file:/etc/app.conf: on_edit: expected \"refuse\" or \"overwrite\""),
        "{run}"
    );
}

fn every_kind_keeps_what_it_overwrites() {
    for kind in &KINDS {
        let root = kind.root();
        let made = root.read(kind.path);
        kind.edit(&root);
        let run = root.holo(&["apply"]);
        assert!(!run.success(), "{}: {run}", kind.name);
        assert_eq!(root.read(kind.path), kind.edited, "{}", kind.name);
        let check = root.holo(&["check", "--json", "--on-edit=overwrite"]).stdout;
        assert!(check.contains_str("would keep the edited version of "), "{}: {check}", kind.name);
        let run = root.holo(&["apply", "--json", "--on-edit=overwrite"]);
        assert!(run.success() && run.stdout.contains_str("\"kept the edited version of "), "{}: {run}", kind.name);
        assert_eq!(root.read(kind.path), made, "{}", kind.name);
        assert_eq!(said(&root, &["history", "edited", kind.id]), kind.edited, "{}", kind.name);
        assert!(!root.holo(&["adopt", "--edited", kind.id]).success() || kind.name == "an overlay", "{}", kind.name);
        let run = root.holo(&["apply", "--on-edit=overwrite"]);
        assert!(run.success() && listed(&root).len() == 1, "{}: {run}", kind.name);
    }
}

fn other_plugins_and_orphans_refuse() {
    // An entity that is no longer defined.
    let kind = &KINDS[1];
    let root = kind.root();
    kind.edit(&root);
    root.write("usr/share/holo/files/app.toml", "");
    let run = root.holo(&OVERWRITE);
    assert!(!run.success() && run.stderr_lossy().contains("by user"), "{run}");
    assert_eq!(root.read(kind.path), kind.edited);
    // A plugin that cannot keep what it overwrites.
    let root = ScratchRoot::new().binary(built("holo")).plugin("archives").file("usr/share/one", "one\n").dir("srv");
    let root = root.file("etc/os-release", "ID=unittest\n");
    let text = "[[archive]]\npath = \"/srv/data\"\nurl = \"file:///usr/share/one\"\non_edit = \"overwrite\"\n";
    let root = root.resource("archives/data.toml", text);
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    root.write("srv/data", "edited\n");
    let check = root.holo(&["check"]);
    let apply = root.holo(&["apply"]);
    for run in [&check, &apply] {
        assert!(!run.success() && run.stderr_lossy().contains("--force"), "{run}");
    }
    assert_eq!(root.read("srv/data"), "edited\n");
}

fn sensitive_contents_are_not_shown() {
    let kind = &KINDS[1];
    let root = kind.root();
    root.write("usr/share/holo/files/app.toml", format!("{}sensitive = true\n", kind.resource.1));
    said(&root, &["apply"]);
    fs::write(root.join(kind.path), "password 1\n").unwrap();
    said(&root, &OVERWRITE);
    let run = root.holo(&["history", "edited", kind.id]);
    assert!(!run.success() && run.stderr_lossy().contains("is sensitive; --output FILE writes it"), "{run}");
    assert!(!format!("{run}").contains("password 1"), "{run}");
    let json = said(&root, &["history", "edited", "--json"]);
    assert!(json.contains_str("\"sensitive\":true") && !json.contains_str("password 1"), "{json}");
    let file = root.join("saved");
    said(&root, &["history", "edited", kind.id, "--output", file.to_str().unwrap()]);
    assert_eq!(root.read("saved"), "password 1\n");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let run = root.holo(&["history", "edited", kind.id, "--output", file.to_str().unwrap()]);
    assert!(!run.success() && run.stderr_lossy().contains("exists"), "{run}");
}

fn force_keeps_what_it_overwrites() {
    for kind in &KINDS {
        for is_sensitive in [false, true] {
            let root = kind.root();
            let made = root.read(kind.path);
            let (path, resource) = kind.resource;
            if is_sensitive && !["a repository", "a scaffold"].contains(&kind.name) {
                let resource = if kind.name == "an overlay" { "[[overlay]]\npath = \"/etc/motd\"\n" } else { resource };
                root.write("usr/share/holo/files/app.toml", format!("{resource}sensitive = true\n"));
                said(&root, &["apply"]);
            }
            kind.edit(&root);
            // More than the differences of a run contain.
            let more = "#\n".repeat(50_000);
            fs::write(root.join(kind.path), format!("{}{more}", kind.edited)).unwrap();
            let edited = root.read(kind.path);
            let run = said(&root, &["apply", "--force", "--json"]);
            // An edit leaves the other lines alone.
            let more = if kind.name == "an edit" { more.as_str() } else { "" };
            assert_eq!(root.read(kind.path), format!("{made}{more}").as_str(), "{}", kind.name);
            let kept = || {
                let file = root.join("saved");
                said(&root, &["history", "edited", kind.id, "--output", file.to_str().unwrap()]);
                let content = fs::read_to_string(&file).unwrap();
                fs::remove_file(file).unwrap();
                content
            };
            assert_eq!(kept(), edited, "{}: {run}", kind.name);
            kind.edit(&root);
            let folder = root.join("usr/share/holo").join(kind.plugin);
            fs::remove_file(folder.join("app.toml")).or_else(|_| fs::remove_file(folder.join(path))).unwrap();
            let _ = fs::remove_file(folder.join(path));
            let run = said(&root, &["apply", "--force", "--json"]);
            assert!(!root.exists(kind.path) || root.read(kind.path) != kind.edited, "{}: {run}", kind.name);
            assert_eq!(kept(), kind.edited, "{}: {run}", kind.name);
        }
    }
}

fn large_contents_links_and_old_versions() {
    let kind = &KINDS[1];
    let root = kind.root();
    let large = "x".repeat((1 << 20) + 1);
    for content in ["one\n", "two\n", "one\n", &large] {
        fs::write(root.join(kind.path), content).unwrap();
        said(&root, &OVERWRITE);
    }
    fs::remove_file(root.join(kind.path)).unwrap();
    symlink("elsewhere", root.join(kind.path)).unwrap();
    said(&root, &OVERWRITE);
    assert_eq!(root.read(kind.path), "port 80\n");
    let mut kinds: Vec<String> =
        listed(&root).iter().map(|line| line.split(' ').skip(2).take(2).collect::<Vec<_>>().join(" ")).collect();
    kinds.sort();
    // The same version is kept once.
    assert_eq!(kinds, ["file 1048577", "file 4", "file 4", "symlink -"]);
    let folder = root.join("var/lib/holo/.engine/edited");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(root.join("var/lib/holo/state.db")).unwrap().permissions().mode() & 0o777, 0o600);
    let number = (1..=4).map(|number| number.to_string());
    let shown = number.filter(|number| root.holo(&["history", "edited", kind.id, number]).stdout == large.as_str());
    assert_eq!(shown.count(), 1);
    let run = root.holo(&["history", "edited", kind.id, "5"]);
    assert!(
        run.stderr_lossy().contains("there is no edited version 5 of file:/etc/app.conf; the last one is 4"),
        "{run}"
    );
}

fn versions_are_removed_with_old_records() {
    let kind = &KINDS[1];
    let root = kind.root().env("HOLO_HISTORY", "1");
    root.write("etc/holo/engine.toml", "[runs]\nsize = \"8\"\n");
    kind.edit(&root);
    said(&root, &OVERWRITE);
    assert_eq!(listed(&root).len(), 1);
    fs::write(root.join(kind.path), "another\n").unwrap();
    said(&root, &OVERWRITE);
    assert!(listed(&root).iter().all(|line| line.ends_with("8 /etc/app.conf")), "{:?}", listed(&root));
}

/// Disturbs an apply that overwrites, at every call. What the person has edited is at its path, or is kept; and the next
/// apply completes the work.
fn survives(kind: &Kind, arguments: &[&str], what: Disturbance<'_>) {
    let disturbed = disturb::everywhere(disturb::CALLS, |call, number| {
        let root = kind.root();
        let made = root.read(kind.path);
        kind.edit(&root);
        let (run, was_disturbed) = disturb::at(&root, arguments, call, number, what);
        assert!(!run.stderr_lossy().contains("panicked"), "{run}");
        let moment = format!("{} at {call} number {number}", kind.name);
        let is_there = root.exists(kind.path) && root.read(kind.path) == kind.edited;
        let is_kept = || root.holo(&["history", "edited", kind.id]).stdout == kind.edited;
        assert!(is_there || is_kept(), "{moment}: the edited version is lost\n{run}");
        let run = root.holo(arguments);
        assert!(run.success(), "{moment}: {run}");
        assert_eq!(root.read(kind.path), made, "{moment}");
        assert!(is_kept() && listed(&root).len() == 1, "{moment}: {:?}", listed(&root));
        was_disturbed
    });
    assert!(disturbed > 3, "only {disturbed} disturbances: the test does not test what it says");
}
