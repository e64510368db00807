//! `holo forget`: an entity without definition is not known any more, the system stays as it is, and its original is kept.

use holo_testing::{Need, Run, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fs;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = holo_testing::trials![
        what_is_defined_is_refused,
        an_orphan_that_cannot_be_scrubbed_is_forgotten,
        restore_brings_the_original_back,
        removed_lines_are_printed,
        the_run_is_in_the_history,
        a_plugin_of_version_3_cannot_forget,
    ];
    for case in &CASES {
        let name = format!("{} is forgotten", case.name);
        trials.push(trial_of(&name, &[Need::Program("tar")], || is_forgotten(case)));
    }
    trials
}

/// An entity over a file that was there before.
struct Case {
    name: &'static str,
    plugin: &'static str,
    id: &'static str,
    resource: &'static str,
    definition: &'static str,
    /// The file whose original content is `stock`, unless the plugin has none.
    original: Option<&'static str>,
}

const CASES: [Case; 9] = [
    Case {
        name: "an overlay",
        plugin: "files",
        id: "file:/etc/motd",
        resource: "a/etc/motd",
        definition: "ours\n",
        original: Some("etc/motd"),
    },
    Case {
        name: "a declared file",
        plugin: "files",
        id: "file:/etc/motd",
        resource: "x.toml",
        definition: "[[file]]\npath = \"/etc/motd\"\ncontent = \"ours\\n\"\n",
        original: Some("etc/motd"),
    },
    Case {
        name: "a directory whose files have other permissions",
        plugin: "files",
        id: "file:/srv/app",
        resource: "x.toml",
        definition: "[[file]]\npath = \"/srv/app\"\nensure = \"directory\"\nmode = \"0700\"\nrecurse = true\n",
        original: None,
    },
    Case {
        name: "an edit",
        plugin: "files",
        id: "line:/etc/motd",
        resource: "x.toml",
        definition: "[[line]]\npath = \"/etc/motd\"\nline = \"ours\"\n",
        original: None,
    },
    Case {
        name: "a scaffold",
        plugin: "scaffold",
        id: "scaffold:/srv/app",
        resource: "x.toml",
        definition: "[[scaffold]]\nsource = \"app\"\ntarget = \"/srv/app\"\n",
        original: Some("srv/app/data"),
    },
    Case {
        name: "an archive",
        plugin: "archives",
        id: "archive:/opt/app.tar",
        resource: "x.toml",
        definition: "[[archive]]\npath = \"/opt/app.tar\"\nurl = \"file:///usr/share/app.tar\"\nextract_to = \"/srv/app\"\n",
        original: Some("srv/app/data"),
    },
    Case {
        name: "a user",
        plugin: "users-groups",
        id: "user:jane",
        resource: "x.toml",
        definition: "[[user]]\nname = \"jane\"\ngroups = [\"crew\"]\n",
        original: None,
    },
    Case {
        name: "a package",
        plugin: "packages",
        id: "package:nginx",
        resource: "x.toml",
        definition: "[[package]]\nname = \"nginx\"\n",
        original: None,
    },
    Case {
        name: "a set of keys",
        plugin: "ssh-keys",
        id: "ssh-keyset:jane/all",
        resource: "jane/all.pub",
        definition: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBmPkJFJMbqmEMNkFkuNTDXkEzXK7aVzBCIrE4+ShB4r jane\n",
        original: None,
    },
];

fn root(plugin: &str) -> ScratchRoot {
    ScratchRoot::new()
        .env("HOLO_HISTORY", "1")
        .file("etc/os-release", "ID=debian\n")
        .file("etc/holorc", format!("plugin {plugin}={}\n", built(&format!("holo-{plugin}")).display()))
        .file("etc/passwd", "jane:x:1000:100::/home/jane:/bin/sh\n")
        .file("etc/group", "crew:x:999:\n")
        .file("etc/motd", "stock\n")
        .file("srv/app/data", "stock\n")
        .file("usr/share/holo/scaffold/app/data", "ours\n")
        .dir("home/jane")
}

#[track_caller]
fn exits(root: &ScratchRoot, arguments: &[&str], status: i32) -> Run {
    let run = root.holo(arguments);
    assert_eq!(run.status, Some(status), "{arguments:?}: {run}");
    run
}

/// Returns what is on the system, other than the state of holo.
fn tree(root: &ScratchRoot) -> String {
    let list = "find . ! -path './var*' ! -path './run*' ! -path './tmp*' -printf '%p %y %m %s\\n' | sort; cat etc/motd srv/app/data";
    root.run("sh", &["-c", list]).stdout_lossy().into_owned()
}

/// Defines the entity, applies it, and removes the definition.
fn orphan(case: &Case) -> ScratchRoot {
    let root = root(case.plugin);
    let tar = root.run("sh", &["-c", "mkdir x && echo ours >x/data && tar -cf usr/share/app.tar -C x data && rm -r x"]);
    assert!(tar.success(), "{tar}");
    let resource = format!("usr/share/holo/{}/{}", case.plugin, case.resource);
    root.write(&resource, case.definition);
    exits(&root, &["apply"], 0);
    fs::remove_file(root.join(resource)).unwrap();
    assert!(exits(&root, &["scan"], 0).stdout_lossy().contains(case.id));
    root
}

fn is_forgotten(case: &Case) {
    let root = orphan(case);
    let before = tree(&root);
    let run = exits(&root, &["forget", case.id], 0);
    assert!(run.stdout_lossy().contains(&format!("Forgetting {}", case.id)), "{run}");
    assert_eq!(tree(&root), before);
    assert_eq!(exits(&root, &["scan"], 0).stdout, "", "it is still known");
    let applied = exits(&root, &["apply"], 0);
    assert_eq!(applied.stdout, "", "{applied}");
    assert_eq!(tree(&root), before);
    let versions = exits(&root, &["history", "edited"], 0);
    let Some(original) = case.original else {
        assert!(!versions.stdout_lossy().contains(case.id), "{versions}");
        return;
    };
    assert!(run.stdout_lossy().contains("kept the original of"), "{run}");
    let content = exits(&root, &["history", "edited", case.id, "1"], 0);
    assert_eq!(content.stdout, "stock\n");
    assert_eq!(root.read(original), "ours\n");
    // A later definition takes what it finds for the original.
    root.write(format!("usr/share/holo/{}/{}", case.plugin, case.resource), case.definition);
    exits(&root, &["apply", "--force"], 0);
    fs::remove_file(root.join(format!("usr/share/holo/{}/{}", case.plugin, case.resource))).unwrap();
    exits(&root, &["apply"], 0);
    assert_eq!(root.read(original), "ours\n");
}

fn what_is_defined_is_refused() {
    let root = root("files").resource("files/a/etc/motd", "ours\n");
    exits(&root, &["apply"], 0);
    let run = exits(&root, &["forget", "file:/etc/motd"], 255);
    assert!(run.stderr_lossy().contains("cannot forget file:/etc/motd: it is defined"), "{run}");
    exits(&root, &["check"], 0);
    exits(&root, &["forget", "file:/nowhere"], 255);
    exits(&root, &["forget"], 2);
    exits(&root, &["forget", "--keep", "--restore", "file:/etc/motd"], 2);
}

fn an_orphan_that_cannot_be_scrubbed_is_forgotten() {
    for case in CASES.iter().filter(|case| case.id.ends_with(":/etc/motd")) {
        let root = orphan(case);
        fs::remove_file(root.join("etc/motd")).unwrap();
        root.write("etc/motd/theirs", "theirs\n");
        let before = root.run("find", &["etc/motd"]).stdout;
        // Overlays, like those of version 3, and edits give up their file then.
        if case.name == "a declared file" {
            exits(&root, &["apply"], 1);
        }
        exits(&root, &["forget", case.id], 0);
        assert_eq!(root.run("find", &["etc/motd"]).stdout, before);
        assert_eq!(exits(&root, &["apply"], 0).stdout, "");
        if case.original.is_some() {
            assert_eq!(exits(&root, &["history", "edited", case.id, "1"], 0).stdout, "stock\n");
        }
    }
}

fn restore_brings_the_original_back() {
    for case in CASES.iter().filter(|case| case.original.is_some()) {
        let root = orphan(case);
        root.write(case.original.unwrap(), "theirs\n");
        exits(&root, &["forget", "--restore", case.id], 0);
        assert_eq!(root.read(case.original.unwrap()), "stock\n", "{}", case.name);
        assert_eq!(exits(&root, &["scan"], 0).stdout, "");
    }
}

fn removed_lines_are_printed() {
    let root =
        root("files").resource("files/x.toml", "[[line]]\npath = \"/etc/motd\"\nmatch = \"^stock\"\nline = \"ours\"\n");
    exits(&root, &["apply"], 0);
    assert_eq!(root.read("etc/motd"), "ours\n");
    fs::remove_file(root.join("usr/share/holo/files/x.toml")).unwrap();
    let run = exits(&root, &["forget", "line:/etc/motd"], 0);
    assert!(run.stdout_lossy().contains("it had removed from") && run.stdout_lossy().contains("   stock\n"), "{run}");
    assert_eq!(root.read("etc/motd"), "ours\n");
    // The other edits of a file keep their lines.
    let definition = |name: &str| format!("[[line]]\nname = \"{name}\"\npath = \"/etc/motd\"\nline = \"{name}\"\n");
    root.write("usr/share/holo/files/a.toml", definition("a"));
    root.write("usr/share/holo/files/b.toml", definition("b"));
    exits(&root, &["apply"], 0);
    fs::remove_file(root.join("usr/share/holo/files/a.toml")).unwrap();
    exits(&root, &["forget", "line:/etc/motd#a"], 0);
    exits(&root, &["check"], 0);
    fs::remove_file(root.join("usr/share/holo/files/b.toml")).unwrap();
    exits(&root, &["apply"], 0);
    assert_eq!(root.read("etc/motd"), "ours\na\n");
}

fn the_run_is_in_the_history() {
    let root = orphan(&CASES[0]);
    let run = exits(&root, &["forget", "--json", "file:/etc/motd"], 0);
    let output = run.stdout_lossy();
    assert!(output.contains("\"verb\":\"Forgetting\"") && output.contains("\"changed\":1"), "{run}");
    let history = exits(&root, &["history"], 0);
    assert!(history.stdout_lossy().contains("holo forget"), "{history}");
}

fn a_plugin_of_version_3_cannot_forget() {
    let root = ScratchRoot::new().dir("usr/share/holo/demo").script(
        "plugin",
        "#!/bin/sh\ncase $1 in\ninfo) printf 'MIN_API_VERSION=3\\nMAX_API_VERSION=3\\n' ;;\n\
         scan) printf 'ENTITY: demo:x\\nACTION: Scrubbing (deleted)\\n' ;;\nesac\n",
    );
    root.write("etc/holorc", format!("plugin demo={}\n", root.join("plugin").display()));
    let run = exits(&root, &["forget", "demo:x"], 255);
    assert!(run.stderr_lossy().contains("the plugin demo does not support that"), "{run}");
}
