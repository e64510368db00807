//! Tests of what Ansible's controller does in a playbook: sources, templates, conditions, users, and answers that are
//! hard to read.

use crate::ansible::{Root, Version, with_each};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// The name of a test, and a test for a version.
type Case = (&'static str, fn(Version));

const TASKS: &str = "usr/share/holo/ansible";

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [Case; 15] = [
        ("a directory is copied with the modes of the task", copies_tree),
        ("content is not copied into a directory", content_into_directory),
        ("names that are not Unicode do not fail a task", unusual_answers),
        ("a long answer is an answer, and long output is cut", long_answers),
        ("an object after the answer is a warning", stray_line),
        ("secret arguments are hidden before and after the first run", no_log),
        ("the values of secret expressions are hidden", computed_secrets),
        ("renamed modules are found", redirects),
        ("changed_when and failed_when decide on the answer", conditions),
        ("registered values can be received", registered),
        ("later tasks use the answers, facts and variables of earlier ones", answers),
        ("a template is rendered as in Ansible", template),
        ("a script is run", script),
        ("a task runs as another user, with its own environment", other_user),
        ("a handler runs when it is refreshed", handler),
    ];
    cases.into_iter().flat_map(|(name, case)| with_each(name, &[], case)).collect()
}

fn task(name: &str, module: &str, lines: &str) -> String {
    format!("[[task]]\nname = '{name}'\nmodule = '{module}'\n{lines}\n")
}

fn mode(root: &Root, path: &str) -> u32 {
    fs::metadata(root.0.join(path)).unwrap().permissions().mode() & 0o7777
}

fn copies_tree(version: Version) {
    let args = "args = { src = 'site', dest = 'ROOT/work', mode = '0600', directory_mode = '0710' }";
    let root = Root::new(version, &task("x", "copy", args));
    root.0.write(format!("{TASKS}/files/site/index.html"), "hello\n");
    root.0.write(format!("{TASKS}/files/site/deep/er/page"), "page\n");
    assert_eq!(root.holo(&["check"]).0, 3);
    root.apply(0);
    assert_eq!(root.0.read("work/site/deep/er/page"), "page\n");
    for (path, expected) in
        [("index.html", 0o600), ("deep/er/page", 0o600), ("", 0o710), ("deep", 0o710), ("deep/er", 0o710)]
    {
        assert_eq!(mode(&root, &format!("work/site/{path}")), expected, "{path}");
    }
    assert!(root.0.exists(format!("{TASKS}/files/site/index.html")));
    assert_eq!(root.apply(0), "");
    root.0.write("work/site/deep/er/page", "mine\n");
    root.apply(0);
    assert_eq!(root.0.read("work/site/deep/er/page"), "page\n");
}

fn content_into_directory(version: Version) {
    let root = Root::new(version, &task("x", "copy", "args = { content = 'x', dest = 'ROOT/work' }"));
    for verb in ["apply", "check"] {
        let (status, said) = root.holo(&[verb]);
        let refused = ":3: ansible:x: args: cannot use content when dest is a directory: ROOT/work\n";
        assert!(status == 1 && said.contains(refused), "{said}");
    }
    assert_eq!(fs::read_dir(root.0.join("work")).unwrap().count(), 0);
}

fn unusual_answers(version: Version) {
    let crash = |how: &str| task(how, "local.test.crash", &format!("args.how = '{how}'"));
    let find = task("find", "find", "args = { paths = 'ROOT/work' }");
    let root = Root::new(version, &[crash("not a number"), crash("surrogate"), find].concat()).with_own_collection();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs::write(root.0.join("work").join(name), "").unwrap();
    let said = root.apply(0);
    assert!(said.contains("a lone \u{fffd}\n") && !said.contains("!! "), "{said}");
}

fn long_answers(version: Version) {
    let root = Root::new(version, &task("x", "local.test.crash", "args.how = 'long answer'")).with_own_collection();
    let said = root.apply(0);
    assert!(said.contains("\nlong\n"), "{} bytes", said.len());
    let cases = [
        ("long output", 0, 3_000_001),
        ("long failure", 1, 3_000_000),
        ("long warning", 0, 3_000_000),
        // Its long line has become several.
        ("long error", 0, 3_000_033),
    ];
    for (how, status, length) in cases {
        root.define(&task("x", "local.test.crash", &format!("args.how = '{how}'")));
        let said = root.apply(status);
        let rest =
            said.lines().find_map(|line| line.split_once("bytes more: the rest is in ROOT/")).map(|(_, path)| path);
        let path = rest.unwrap_or_else(|| panic!("{how}: {} bytes", said.len()));
        assert!(said.len() < 20_000 && !said.contains("not shown"), "{how}: {} bytes", said.len());
        assert_eq!((root.0.read(path).to_string().len(), mode(&root, path)), (length, 0o600), "{how}");
    }
    // The command of a failed module is shown as well.
    root.define(&task("x", "command", "args.argv = ['python3', '-c', 'import sys; sys.exit(\"x\" * 3000000)']"));
    let said = root.apply(1);
    assert!(said.contains("bytes more: the rest is in ROOT/") && said.len() < 20_000, "{} bytes", said.len());
}

fn stray_line(version: Version) {
    let root =
        Root::new(version, &task("x", "local.test.crash", "args.how = 'object after answer'")).with_own_collection();
    let said = root.apply(0);
    assert!(said.contains("\nthe answer\n"), "{said}");
    assert!(said.contains(">> local.test.crash wrote after its answer: {\"failed\": true}\n"), "{said}");
}

/// Guessed by its name or not, the argument is only shown if the module has not declared it as secret.
fn no_log(version: Version) {
    let args = "args = { how = 'hidden', hidden = 'very secret', password = 'not in use' }";
    let root = Root::new(version, &task("x", "local.test.crash", args)).with_own_collection();
    let (_, said) = root.holo(&["scan"]);
    assert!(said.contains("password = (sensitive)") && !said.contains("not in use"), "{said}");
    let said = root.apply(0);
    assert!(said.contains("hidden: (sensitive)\n"), "{said}");
    for verb in ["scan", "check", "apply"] {
        let (_, said) = root.holo(&[verb]);
        assert!(!said.contains("very secret"), "{verb}: {said}");
        assert!(verb != "scan" || said.contains("password = not in use"), "{verb}: {said}");
    }
}

/// The value of a sensitive argument is not known before the module is run.
fn computed_secrets(version: Version) {
    let lines = "vars.word = 'very {{ \"secret\" }}'\nexpressions._raw_params = '\"cat /\" ~ word'\nsensitive = ['_raw_params']";
    let root = Root::new(version, &task("x", "command", lines));
    let said = root.apply(1);
    assert!(said.contains("!! ") && !said.contains("very secret"), "{said}");
    let args = "args.how = 'hidden'\nvars.word = 'very {{ \"secret\" }}'\nexpressions = { hidden = 'word', password = '\"in use\"' }";
    let root = Root::new(version, &task("x", "local.test.crash", args)).with_own_collection();
    let (_, said) = root.holo(&["scan"]);
    assert!(said.contains("password = (sensitive)") && !said.contains("in use"), "{said}");
    let said = root.apply(0);
    assert!(said.contains("hidden: (sensitive)\n"), "{said}");
}

fn redirects(version: Version) {
    let root =
        Root::new(version, &task("x", "local.test.old_name", "args = { path = '/work/x', key = 'a', value = 'b' }"));
    let root = root.with_own_collection();
    root.apply(0);
    assert_eq!(root.0.read("work/x"), "a=b\n");
    root.define(&task("x", "local.test.gone", ""));
    let said = root.apply(1);
    assert!(said.contains("local.test.gone was removed: Use keyfile.\n"), "{said}");
    root.define(&task("x", "local.test.two_parts", ""));
    let said = root.apply(1);
    assert!(said.contains("local.test.two_parts has a part that Ansible's controller does"), "{said}");
    root.define(&task("x", "local.test.two_parts", "module_only = true"));
    root.apply(0);
}

fn conditions(version: Version) {
    let command = |name: &str, lines: &str| task(name, "command", &format!("args.cmd = 'ls ROOT/work/x'\n{lines}"));
    let root = Root::new(version, "");
    root.0.write("etc/holo/data/common.toml", "allowed = [2]\n");
    let cases = [
        ("changed_when = false\nfailed_when = false", 0, None),
        ("changed_when = 'rc == 2'\nfailed_when = 'rc not in allowed'", 0, Some("changed")),
        ("register = 'r'\nfailed_when = ['r.rc == 2', \"'No such' not in r.stderr\"]\nchanged_when = false", 0, None),
        ("failed_when = ['result.rc == 2', 'stderr is search(\"No such\")']", 1, Some("!! non-zero return code")),
        ("failed_when = 'nonsense > 1'", 1, Some("!! failed_when: 'nonsense' is undefined")),
    ];
    for (lines, status, words) in cases {
        root.define(&command("x", lines));
        let said = root.apply(status);
        match words {
            Some(words) => assert!(said.contains(words), "{lines}: {said}"),
            None => assert_eq!(said, "", "{lines}"),
        }
    }
    root.define(&command("x", "changed_when = false\nfailed_when = false"));
    assert_eq!(root.holo(&["check"]), (0, String::new()));
    root.define(&command("x", "changed_when = '{{ rc }}'"));
    assert!(root.apply(1).contains("changed_when: an expression is written without {{ }}"));
}

fn registered(version: Version) {
    let sender = task("version", "command", "args.cmd = 'echo 1.2'\nregister = 'r'\nchanged_when = false");
    let receiver =
        task("x", "copy", "args.dest = 'ROOT/work/x'\nreceive = { \"args.content\" = 'ansible:version#stdout' }");
    let root = Root::new(version, &[sender, receiver].concat());
    root.apply(0);
    assert_eq!(root.0.read("work/x"), "1.2");
    assert_eq!(root.apply(0), "");
}

fn answers(version: Version) {
    let tasks = [
        // The check after the change does not replace its answer.
        task("line", "lineinfile", "args = { path = 'ROOT/work/x', line = 'a', create = true }\nregister = 'line'"),
        task("variables", "include_vars", "args = { file = 'names.yml' }"),
        task(
            "fact",
            "set_fact",
            "expressions = { greeting = \"word ~ ' ' ~ name\" }\nvars = { word = '{{ \"hi\" | regex_replace(\"^(h)i$\", \"\\1ello\") }}' }",
        ),
        task("users", "getent", "args = { database = 'passwd', key = 'root' }"),
        task(
            "assertion",
            "assert",
            "args = { that = ['greeting is search(name)', \"'root' in ansible_facts.getent_passwd\"] }",
        ),
        task(
            "changed",
            "copy",
            "args = { dest = 'ROOT/work/y' }\nexpressions = { content = 'greeting', mode = 'unset.some[0] | default(omit)' }\nwhen = ['line is changed', \"ansible_facts.system == 'Linux'\"]",
        ),
        task("never", "fail", "args = { msg = 'not reached' }\nwhen = 'line is not changed'"),
        task("bad", "command", "args = { cmd = 'false' }\nregister = 'bad'\nignore_errors = true"),
        task("after", "shell", "args = { cmd = 'echo failed >ROOT/work/z' }\nwhen = 'bad is failed'"),
    ];
    let root = Root::new(version, &tasks.concat());
    root.0.write(format!("{TASKS}/vars/names.yml"), "name: world\n");
    let said = root.apply(0);
    assert!(said.contains(">> the failure is ignored: ") && !said.contains("not reached"), "{said}");
    assert_eq!((root.0.read("work/y"), root.0.read("work/z")), ("hello world".into(), "failed\n".into()));
    root.define(&task("assertion", "assert", "args = { that = ['1 == 2'], fail_msg = 'no' }"));
    assert!(root.apply(1).contains("!! no"));
    root.define(&task("x", "command", "args = { cmd = 'true' }\nwhen = 'unknown.rc == 0'"));
    assert!(root.apply(1).contains("'unknown' is undefined"));
}

fn template(version: Version) {
    let args = "args = { src = 'x.j2', dest = 'ROOT/work/x', mode = '0640' }\nvars = { item = 'one' }";
    let root = Root::new(version, &task("x", "template", args));
    root.0.write("etc/holo/data/common.toml", "port = 80\non = true\nnames = ['a', 'b']\n");
    let text = "# {{ ansible_managed }}\n{% for name in names %}\n{{ name | upper }}={{ on }}\n{% endfor %}\n\
        {{ port }} {{ item }} {{ names }} {{ names | join(',') }} {{ facts.hostname is defined }}\n";
    root.0.write(format!("{TASKS}/templates/x.j2"), text);
    assert_eq!(root.holo(&["check"]).0, 3);
    root.apply(0);
    assert_eq!(root.0.read("work/x"), "# Ansible managed\nA=True\nB=True\n80 one ['a', 'b'] a,b True\n");
    assert_eq!(mode(&root, "work/x"), 0o640);
    assert_eq!(root.apply(0), "");
    root.0.write(format!("{TASKS}/templates/x.j2"), "{{ nonsense }}\n");
    let said = root.apply(1);
    assert!(said.contains("!! UndefinedError: 'nonsense' is undefined"), "{said}");
}

fn script(version: Version) {
    let root = Root::new(version, &task("x", "script", "args = { cmd = \"run.sh 'a b'\", creates = 'ROOT/work/x' }"));
    root.0.write(format!("{TASKS}/files/run.sh"), root.here("#!/bin/sh\necho \"$1\" >ROOT/work/x\n"));
    assert_eq!(root.holo(&["check"]).0, 3);
    root.apply(0);
    assert_eq!(root.0.read("work/x"), "a b\n");
    assert_eq!((root.apply(0), root.holo(&["check"]).0), (String::new(), 0));
}

fn other_user(version: Version) {
    let id = "args.cmd = 'id -un >ROOT/work/who; printenv COLOUR HOME HOLO_SECRET >ROOT/work/environment; grep NoNewPrivs /proc/self/status >ROOT/work/privileges'";
    let lines = |more: &str| format!("become_user = 'nobody'\nenvironment = {{ COLOUR = 'blue' }}\n{more}");
    let copy = task("copy", "copy", &format!("args = {{ src = 'secret', dest = 'ROOT/work/copied' }}\n{}", lines("")));
    let root = Root::new(version, &(task("x", "shell", &format!("{id}\n{}", lines(""))) + &copy));
    fs::set_permissions(root.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(root.0.join("work"), fs::Permissions::from_mode(0o777)).unwrap();
    root.0.write(format!("{TASKS}/files/secret"), "for root\n");
    fs::set_permissions(root.0.join(format!("{TASKS}/files/secret")), fs::Permissions::from_mode(0o600)).unwrap();
    if version.python() != Path::new("/usr/bin/python3") {
        // Other users cannot enter the directory of the tests.
        let python = version.python().display().to_string();
        let script = "cp -r \"${1%/bin/*}\"/lib/python3*/site-packages \"$2\"";
        let copied = root.0.run("sh", &["-c", script, "sh", &python, &root.here("ROOT/site")]);
        assert!(copied.success(), "{copied}");
        let words = "['/usr/bin/env', 'PYTHONPATH=ROOT/site', '/usr/bin/python3']";
        let host = format!("[[host]]\nrespects_root = true\npython = {words}\n");
        root.0.write(format!("{TASKS}/00-host.toml"), root.here(&host));
    }
    root.apply(0);
    assert_eq!(root.0.read("work/who"), "nobody\n");
    assert_eq!(root.0.read("work/environment"), "blue\n/nonexistent\n");
    assert_eq!(root.0.read("work/privileges"), "NoNewPrivs:\t1\n");
    assert_eq!(root.0.read("work/copied"), "for root\n");
    assert_ne!(fs::metadata(root.0.join("work/copied")).unwrap().uid(), 0);
    root.define(&task("x", "shell", &format!("{id}\n{}", lines("become_exec = true"))));
    root.apply(0);
    assert_eq!(root.0.read("work/privileges"), "NoNewPrivs:\t0\n");
    root.define(&task("x", "shell", &format!("{id}\n{}", lines("").replace("nobody", "no-such-user"))));
    let said = root.apply(1);
    assert!(said.contains("no-such-user"), "{said}");
}

fn handler(version: Version) {
    let line = task("line", "lineinfile", "args = { path = 'ROOT/work/x', line = 'a', create = true }");
    let handler = task(
        "handler",
        "shell",
        "args.cmd = 'echo ran >>ROOT/work/ran'\nrefresh_only = true\nsubscribes = ['ansible:line']",
    );
    let root = Root::new(version, &(line + &handler));
    root.apply(0);
    assert_eq!(root.0.read("work/ran"), "ran\n");
    assert_eq!((root.apply(0), root.holo(&["check"]).0), (String::new(), 0));
    assert_eq!(root.0.read("work/ran"), "ran\n");
}
