//! Tests of modules that work on files: their check changes nothing and predicts the apply, after which there are no
//! more changes.

use crate::ansible::{COLLECTIONS, Root, Version, collections, host, with_each, with_newest};
use holo_testing::Need;
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A task in a root.
#[derive(Clone, Copy)]
struct Case {
    module: &'static str,
    args: &'static str,
    /// The files before, as paths and contents.
    before: &'static [(&'static str, &'static str)],
    /// The description of the change.
    change: &'static str,
    /// A line of the difference; `None` if the module reports none.
    difference: Option<&'static str>,
    /// The files afterwards.
    after: &'static [(&'static str, &'static str)],
}

const KEY: &str = "host.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC5bdvhBGmPIe+H26T6NYSni7qEaHNMD3U+PRVoFb4La";

const CASES: [Case; 12] = [
    Case {
        module: "lineinfile",
        args: "path = 'ROOT/work/x', line = 'hello'",
        before: &[("x", "a\n")],
        change: "line added",
        difference: Some("-hello"),
        after: &[("x", "a\nhello\n")],
    },
    Case {
        module: "ansible.builtin.blockinfile",
        args: "path = 'ROOT/work/x', block = \"b\\nc\", marker = '# {mark}'",
        before: &[("x", "a\n")],
        change: "Block inserted",
        difference: Some("-# BEGIN"),
        after: &[("x", "a\n# BEGIN\nb\nc\n# END\n")],
    },
    Case {
        module: "replace",
        args: "path = 'ROOT/work/x', regexp = '^a', replace = 'b'",
        before: &[("x", "ab\nba\n")],
        change: "1 replacements made",
        difference: Some("-bb"),
        after: &[("x", "bb\nba\n")],
    },
    Case {
        module: "copy",
        args: "dest = 'ROOT/work/y', content = \"hi\\n\", mode = '0640'",
        before: &[],
        change: "changed",
        difference: Some("-hi"),
        after: &[("y", "hi\n")],
    },
    Case {
        module: "copy",
        args: "dest = 'ROOT/work/y', content = { a = [1, 'b'] }",
        before: &[("y", "old\n")],
        change: "changed",
        difference: Some("-{\"a\": [1, \"b\"]}"),
        after: &[("y", "{\"a\": [1, \"b\"]}")],
    },
    Case {
        module: "copy",
        args: "src = 'ROOT/work/x', dest = 'ROOT/work/y'",
        before: &[("x", "a\n"), ("y", "b\n")],
        change: "changed",
        difference: Some("-a"),
        after: &[("x", "a\n"), ("y", "a\n")],
    },
    Case {
        module: "copy",
        args: "src = '../../../../work/tree', dest = 'ROOT/work/copy'",
        before: &[("tree/a", "a\n"), ("tree/b/c", "c\n")],
        change: "changed",
        difference: Some("-a"),
        after: &[("copy/tree/a", "a\n"), ("copy/tree/b/c", "c\n"), ("tree/a", "a\n")],
    },
    Case {
        module: "file",
        args: "path = 'ROOT/work/d', state = 'directory', mode = '0750'",
        before: &[],
        change: "changed",
        difference: Some("-  \"state\": \"directory\""),
        after: &[],
    },
    Case {
        module: "file",
        args: "path = 'ROOT/work/x', state = 'absent'",
        before: &[("x", "a\n"), ("y", "b\n")],
        change: "changed",
        difference: Some("-  \"state\": \"absent\""),
        after: &[("y", "b\n")],
    },
    Case {
        module: "known_hosts",
        args: "path = 'ROOT/work/hosts', name = 'host.example', key = 'KEY'",
        before: &[],
        change: "changed",
        difference: Some("-host.example"),
        after: &[("hosts", "KEY\n")],
    },
    Case {
        module: "command",
        args: "cmd = \"cp 'ROOT/work/x' ROOT/work/y\", creates = 'ROOT/work/y'",
        before: &[("x", "a\n")],
        change: "Command would have run if not in check mode",
        difference: None,
        after: &[("x", "a\n"), ("y", "a\n")],
    },
    Case {
        module: "shell",
        args: "cmd = 'tr a b <ROOT/work/x >ROOT/work/y; test -s ROOT/work/y', creates = 'ROOT/work/y'",
        before: &[("x", "a\n")],
        change: "Command would have run if not in check mode",
        difference: None,
        after: &[("x", "a\n"), ("y", "b\n")],
    },
];

const INI: Case = Case {
    module: "community.general.ini_file",
    args: "path = 'ROOT/work/x', section = 's', option = 'o', value = 'v'",
    before: &[("x", "[s]\no = w\n")],
    change: "option changed",
    difference: Some("-o = v"),
    after: &[("x", "[s]\no = v\n")],
};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials =
        with_newest("modules that work on files foretell what they do", &[Need::Program("ssh-keygen")], |version| {
            CASES.iter().for_each(|case| converges(&Root::new(version, ""), *case));
        });
    trials.extend(with_each("a module of a collection that lies somewhere is found", &[COLLECTIONS], of_a_collection));
    trials.extend(with_each(
        "an archive is unpacked unless what it creates exists",
        &[Need::Program("tar")],
        unarchive,
    ));
    trials.extend(with_each("parts are put together", &[], assemble));
    trials.extend(with_each("a source of copy is below the definitions, and stays", &[], relative_source));
    trials.extend(with_each("version 3 of the interface does as well", &[], version_3));
    trials.extend(with_each("nothing is left of content that was copied", &[], content_is_removed));
    trials
}

#[track_caller]
fn converges(root: &Root, case: Case) {
    let text = |text: &str| text.replace("KEY", KEY);
    for (path, content) in case.before {
        root.0.write(format!("work/{path}"), content);
    }
    root.define(&format!("[[task]]\nname = 'x'\nmodule = '{}'\nargs = {{ {} }}\n", case.module, text(case.args)));
    let before = root.0.dump();
    let (status, said) = root.holo(&["check"]);
    assert_eq!(status, 3, "{}: {said}", case.module);
    assert!(said.contains(&format!("\n{}\n", case.change)), "{}: {said}", case.module);
    let (status, said) = root.holo(&["diff"]);
    assert_eq!(status, 0, "{}: {said}", case.module);
    match case.difference {
        Some(line) => assert!(said.lines().any(|shown| shown.starts_with(line)), "{}: {said}", case.module),
        None => assert_eq!(said, "", "{}", case.module),
    }
    assert_eq!(root.0.dump(), before, "{}", case.module);
    let said = root.apply(0);
    assert!(said.contains("\nWorking on ansible:x\n") && !said.contains(">> "), "{}: {said}", case.module);
    for (path, content) in case.after {
        assert_eq!(root.0.read(format!("work/{path}")), *text(content), "{}", case.module);
    }
    let gone = case.before.iter().filter(|(path, _)| !case.after.iter().any(|(kept, _)| kept == path));
    gone.for_each(|(path, _)| assert!(path.contains('/') || !root.0.exists(format!("work/{path}")), "{}", case.module));
    assert_eq!(root.apply(0), "", "{}", case.module);
    assert_eq!(root.holo(&["check"]).0, 0, "{}", case.module);
    assert_eq!(root.holo(&["diff"]), (0, String::new()), "{}", case.module);
}

fn of_a_collection(version: Version) {
    let root = Root::new(version, "");
    // The machine's directories are visible below the root too.
    let more = "respects_root = true\ncollections = ['/collections']\n";
    root.0.write("usr/share/holo/ansible/00-host.toml", host(&version.python(), more));
    let from = format!("{}/.", collections().display());
    let copied = root.0.run("cp", &["-r", &from, &root.here("ROOT/collections")]);
    assert!(copied.success(), "{copied}");
    converges(&root, INI);
}

fn unarchive(version: Version) {
    let root = Root::new(
        version,
        "[[task]]\nname = 'x'\nmodule = 'unarchive'\nargs = { src = 'files/x.tar', dest = 'ROOT/work/to', creates = 'ROOT/work/to/a' }\n",
    );
    root.0.write("work/a", "a\n");
    root.0.write("work/to/b", "b\n");
    root.0.write("usr/share/holo/ansible/files/README", "");
    let packed = root.0.run(
        "tar",
        &["-C", &root.here("ROOT/work"), "-cf", &root.here("ROOT/usr/share/holo/ansible/files/x.tar"), "a"],
    );
    assert!(packed.success(), "{packed}");
    assert_eq!(root.holo(&["check"]).0, 3);
    let said = root.apply(0);
    assert!(said.contains("Working on ansible:x\n"), "{said}");
    assert_eq!(root.0.read("work/to/a"), "a\n");
    root.0.write("work/to/a", "mine\n");
    assert_eq!((root.apply(0), root.holo(&["check"]).0), (String::new(), 0));
    assert_eq!(root.0.read("work/to/a"), "mine\n");
}

/// Version 2.14 of this module does not support check mode.
fn assemble(version: Version) {
    let definition =
        "[[task]]\nname = 'x'\nmodule = 'assemble'\nargs = { src = 'ROOT/work/parts', dest = 'ROOT/work/whole' }\n";
    let root = Root::new(version, definition);
    root.0.write("work/parts/1", "a\n");
    root.0.write("work/parts/2", "b\n");
    assert_eq!(root.holo(&["check"]).0, 3);
    assert!(!root.0.exists("work/whole"));
    root.apply(0);
    assert_eq!(root.0.read("work/whole"), "a\nb\n");
    assert_eq!(root.apply(0), "");
    assert!(root.0.exists("work/parts/1"));
}

fn relative_source(version: Version) {
    let root = Root::new(
        version,
        "[[task]]\nname = 'x'\nmodule = 'copy'\nargs = { src = 'files/motd', dest = 'ROOT/work/motd', mode = '0644' }\n",
    );
    root.0.write("usr/share/holo/ansible/files/motd", "hello\n");
    root.apply(0);
    assert_eq!(root.0.read("work/motd"), "hello\n");
    assert_eq!(root.0.read("usr/share/holo/ansible/files/motd"), "hello\n");
}

/// Each operation has its own process.
fn version_3(version: Version) {
    let task = "[[task]]\nname = 'x'\nmodule = 'lineinfile'\nargs = { path = 'ROOT/work/x', line = 'hello' }\nsend = ['msg']\n\
        [[task]]\nname = 'y'\nmodule = 'copi'\n";
    let root = Root::new(version, task);
    root.0.write("work/x", "a\n");
    let plugin = holo_testing::binaries::built("holo-ansible");
    let info = r"[ $1 != info ] || { printf 'MIN_API_VERSION=3\nMAX_API_VERSION=3\n'; exit; }";
    root.0.write("plugin", format!("#!/bin/sh\n{info}\nexec '{}' \"$@\"\n", plugin.display()));
    fs::set_permissions(root.0.join("plugin"), fs::Permissions::from_mode(0o755)).unwrap();
    root.0.write("etc/holorc", root.here("plugin ansible=ROOT/plugin\n"));
    let (status, said) = root.holo(&["diff", "ansible:x"]);
    assert!(status == 0 && said.lines().any(|line| line == "-hello"), "{said}");
    let said = root.apply(1);
    assert!(
        said.contains("\nline added\n") && said.contains("!! ROOT/usr/share/holo/ansible/10-case.toml:8: ansible:y: "),
        "{said}"
    );
    assert_eq!(root.0.read("work/x"), "a\nhello\n");
    assert_eq!(root.holo(&["apply", "ansible:x"]), (0, String::new()));
}

fn content_is_removed(version: Version) {
    let task = |name: &str, dest: &str| {
        format!("[[task]]\nname = '{name}'\nmodule = 'copy'\nargs = {{ dest = '{dest}', content = 'x' }}\n")
    };
    let look = "[[task]]\nname = 'look'\nmodule = 'command'\nargs = { cmd = \"sh -c 'find ROOT/tmp -type f >ROOT/work/found'\" }\n\
        after = ['ansible:bad', 'ansible:good']\n";
    let root = Root::new(
        version,
        &[task("bad", "ROOT/no/such/folder"), task("good", "ROOT/work/y"), look.to_owned()].concat(),
    );
    root.apply(1);
    let found = root.0.read("work/found").to_string();
    assert!(found.contains("/host.py\n") && !found.contains("/tmp/tmp"), "{found}");
}
