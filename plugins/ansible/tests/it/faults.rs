//! Tests of faulty modules and Python installations: each fails only its own task, with a reason.

use crate::ansible::{Root, Version, host, said, with_each};
use holo_testing::processes::{is_running, wait_until_gone};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

const MODULES: &str = "usr/share/ansible/collections/ansible_collections/local/test/plugins/modules";
const NO_PYTHON: &str = "!! no Python with ansible-core: install it, or say [[host]] python\n";

/// The name of a test, and a test for a version.
type Case = (&'static str, fn(Version));

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [Case; 17] = [
        ("a module that crashes fails its task alone", crashes),
        ("output beside the answer is shown, without what is sensitive", words),
        ("a module ends as Python does", ends_late),
        ("a module that takes too long is ended with what it has started", late),
        ("a module that does not listen is killed", deaf),
        ("a module that says too much is ended", flood),
        ("a module that kills its host fails its task alone", host_is_killed),
        ("what a module leaves behind lives on, and is not waited for", leaves),
        ("a change that would be made again is warned of", changes_always),
        ("a module is not run that others may change", untrusted),
        ("a module that has changed since has another process", changed_module),
        ("modules that do not exist are mistakes of the definition", no_module),
        ("a Python that cannot be used is said with the reason", no_python),
        ("two Pythons contradict each other", two_pythons),
        ("Python is not started again and again", given_up),
        ("a signal ends modules too", interrupted),
        ("while the system is not running, no module is run", offline),
    ];
    cases.into_iter().flat_map(|(name, case)| with_each(name, &[], case)).collect()
}

/// Returns a root with a task that ends in this way.
fn crash(version: Version, how: &str, lines: &str) -> Root {
    let task = format!("[[task]]\nname = 'x'\nmodule = 'local.test.crash'\nargs.how = '{how}'\n{lines}\n");
    Root::new(version, &task).with_own_collection()
}

fn offline(version: Version) {
    let root = Root(crash(version, "raise", "").0.env("HOLO_OFFLINE", "1"));
    let output = root.apply(0);
    assert!(output.ends_with(">> deferred: the system is not running\n") && !output.contains("broken"), "{output}");
    assert_eq!(root.holo(&["check"]).0, 3);
}

/// Returns the PIDs that a module has written.
fn noted(root: &Root) -> Vec<u32> {
    let text = fs::read_to_string(root.0.join("pids")).unwrap_or_default();
    text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

fn crashes(version: Version) {
    let ways = [
        (
            "raise",
            "RuntimeError: broken: (sensitive)\n!! local.test.crash: exit status 1: RuntimeError: broken: (sensitive)\n",
        ),
        ("exit", "!! local.test.crash: exit status 7\n"),
        ("no answer", "\nwords and no answer\n"),
        ("no answer", "!! local.test.crash: it has not answered\n"),
        ("fail quietly", "!! local.test.crash: it does not say why it failed\n"),
        ("kill", "!! local.test.crash: signal: killed\n"),
        ("unknown", "!! value of how must be one of: raise, "),
    ];
    let task = |(number, (how, _)): (usize, &(&str, &str))| {
        format!(
            "[[task]]\nname = '{number}'\nmodule = 'local.test.crash'\nargs = {{ how = '{how}', secret = 'very secret' }}\n\
             sensitive = ['secret']\n[[task]]\nname = '{number}, afterwards'\nmodule = 'ping'\nafter = ['ansible:{number}']\n\
             [[task]]\nname = '{number}, perhaps'\nmodule = 'ping'\nrequires = ['ansible:{number}']\n"
        )
    };
    let root = Root::new(version, &ways.iter().enumerate().map(task).collect::<String>()).with_own_collection();
    let said = root.apply(1);
    for (_, words) in ways {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("very secret") && !said.contains("afterwards"), "{said}");
    assert_eq!(said.matches("perhaps").count(), ways.len(), "{said}");
}

fn words(version: Version) {
    let root = crash(version, "words", "args.secret = 'very secret'\nsensitive = ['secret']");
    let said = root.apply(0);
    assert!(said.contains("\nwords before the answer: (sensitive)\n"), "{said}");
    assert!(said.contains("words on standard error: (sensitive)\n>> deprecated: (sensitive) is old"), "{said}");
    assert!(!said.contains("very secret"), "{said}");
    let root = crash(version, "write to parent", "");
    assert_eq!(root.apply(0), "");
}

/// Threads are joined, exit handlers called, and temporary files removed.
fn ends_late(version: Version) {
    let root = crash(version, "end late", "");
    let said = root.apply(0);
    assert!(said.contains("\nin a buffer\n"), "{said}");
    assert_eq!(root.0.read("work/told"), "thread\natexit\n");
    assert_eq!(fs::read_dir(root.0.join("work")).unwrap().count(), 1);
}

fn late(version: Version) {
    let root = crash(version, "sleep", "timeout = '1s'\n[[task]]\nname = 'y'\nmodule = 'ping'\nafter = ['ansible:x']");
    let said = root.apply(1);
    assert!(said.contains("sleeping\n!! local.test.crash did not answer within 1s\n"), "{said}");
    assert!(!said.contains("ansible:y"), "{said}");
    assert_eq!(noted(&root).len(), 2);
    noted(&root).into_iter().for_each(wait_until_gone);
}

fn deaf(version: Version) {
    let root = crash(version, "deaf", "timeout = '500ms'");
    let begun = Instant::now();
    let said = root.apply(1);
    assert!(said.contains("!! local.test.crash did not answer within 500ms\n"), "{said}");
    assert!(begun.elapsed() > Duration::from_secs(5));
    noted(&root).into_iter().for_each(wait_until_gone);
}

fn flood(version: Version) {
    let root = crash(version, "flood", "[[task]]\nname = 'y'\nmodule = 'ping'\nafter = ['ansible:x']");
    let said = root.apply(1);
    assert!(said.ends_with("!! local.test.crash answered with more than 16777216 bytes\n"), "{} bytes", said.len());
    assert!(!said.contains("ansible:y") && said.len() < 1000, "{} bytes", said.len());
}

fn host_is_killed(version: Version) {
    let root = crash(version, "kill parent", "[[task]]\nname = 'y'\nmodule = 'ping'\nafter = ['ansible:x']");
    let said = root.apply(1);
    let python = version.python().display().to_string();
    assert!(said.contains(&format!("!! {python} ended before its answer was complete: signal: killed")), "{said}");
    assert!(!said.contains("ansible:y"), "{said}");
    noted(&root).into_iter().for_each(wait_until_gone);
}

fn leaves(version: Version) {
    let root = crash(version, "leave", "");
    let begun = Instant::now();
    assert_eq!(root.apply(0), "");
    assert!(begun.elapsed() < Duration::from_secs(30));
    let left = noted(&root).pop().unwrap();
    assert!(is_running(left));
    holo_testing::processes::send(left, holo_testing::processes::Signal::KILL);
}

fn changes_always(version: Version) {
    let said = crash(version, "change always", "").apply(0);
    assert!(
        said.contains("\n>> the module would change it again\n")
            || said.ends_with(">> the module would change it again\n"),
        "{said}"
    );
    assert!(said.contains("once more\n"), "{said}");
    let said = crash(version, "change always", "check_mode = false").apply(0);
    assert!(said.contains("once more\n") && !said.contains(">> "), "{said}");
}

fn untrusted(version: Version) {
    let root = crash(version, "words", "[[task]]\nname = 'y'\nmodule = 'ping'\n");
    let open = |path: &str, mode| fs::set_permissions(root.0.join(path), fs::Permissions::from_mode(mode)).unwrap();
    for (path, mode, usual) in [(format!("{MODULES}/crash.py"), 0o666, 0o644), (MODULES.to_owned(), 0o777, 0o755)] {
        open(&path, mode);
        let said = root.apply(1);
        let refused = format!(
            "!! ROOT/{path} is writable for other users (mode {mode:04o}), and is not used; to fix this: chmod go-w ROOT/{path}\n"
        );
        assert!(said.contains(&refused) && !said.contains("words before") && !said.contains("ansible:y"), "{said}");
        assert_eq!(root.holo(&["check"]).0, 1);
        open(&path, usual);
    }
    root.apply(0);
}

fn changed_module(version: Version) {
    // The module has changed when it is run for the second time.
    let change =
        "cmd = \"sed -i 's/words before the answer/other words/' ROOT/MODULES/crash.py\"".replace("MODULES", MODULES);
    let root = crash(
        version,
        "words",
        &format!(
            "[[task]]\nname = 'y'\nmodule = 'command'\nargs = {{ {change} }}\nafter = ['ansible:x']\n[[task]]\nname = 'z'\n\
             module = 'local.test.crash'\nargs.how = 'words'\nafter = ['ansible:y']\n"
        ),
    );
    let said = root.apply(0);
    assert!(said.contains("\nwords before the answer: None\n") && said.contains("\nother words: None\n"), "{said}");
}

fn no_module(version: Version) {
    let root = crash(version, "words", "");
    root.define("[[task]]\nname = 'a'\nmodule = 'pong'\n[[task]]\nname = 'b'\nmodule = 'local.test.keyfil'\n[[task]]\nname = 'c'\nmodule = 'a.b.c'\n");
    let at = |line: u32| format!("!! ROOT/usr/share/holo/ansible/10-case.toml:{line}: ansible:");
    let (status, said) = root.holo(&["check"]);
    assert_eq!(status, 1, "{said}");
    for words in [
        format!("{}a: module: there is no ansible.builtin.pong in ", at(3)),
        format!("{}b: module: there is no local.test.keyfil in ROOT/{MODULES}, did you mean keyfile?\n", at(6)),
        format!("{}c: module: there is no collection a.b in ROOT/usr/share/ansible/collections", at(9)),
    ] {
        assert!(said.contains(&words), "{words}: {said}");
    }
    root.apply(1);
}

fn no_python(version: Version) {
    let root = crash(version, "words", "");
    // A program in a directory for temporary files is not trusted, but the arguments of a shell are not checked.
    root.0.write("prints", "echo hello\n");
    root.0.write("ends", "echo broken >&2\nexit 3\n");
    root.0.write("lacks", "exec /usr/bin/python3 -S -E \"$@\"\n");
    for (python, reason) in [
        ("['/bin/sh', 'ROOT/prints']", ">> /bin/sh: \"hello\" is no header\n"),
        ("['/bin/sh', 'ROOT/ends']", "broken\n>> /bin/sh ended before its header: exit status 3\n"),
        ("['/bin/sh', 'ROOT/lacks']", ">> /bin/sh: ModuleNotFoundError: No module named 'ansible'\n"),
        (
            "'/no/python'",
            ">> cannot start /no/python: no such file or directory; write [\"/usr/bin/env\", \"python\"]\n",
        ),
        (
            "'/usr/bin/env python3'",
            ">> cannot start /usr/bin/env python3: no such file or directory; write [\"/usr/bin/env\", \"python3\"]\n",
        ),
    ] {
        declare(&root, python);
        let said = root.apply(1);
        assert!(said.contains(&format!("{reason}{NO_PYTHON}")), "{python}: {said}");
        // The scan does not detect it.
        assert_eq!(root.holo(&["scan", "--short"]), (0, "ansible:x\n".to_owned()));
    }
    declare(&root, "'ROOT/prints'");
    fs::set_permissions(root.0.join("prints"), fs::Permissions::from_mode(0o777)).unwrap();
    let said = root.apply(1);
    assert!(said.contains(" is writable for other users (mode "), "{said}");
    assert!(!said.contains(NO_PYTHON), "{said}");
}

fn declare(root: &Root, python: &str) {
    let table = format!("[[host]]\nrespects_root = true\npython = {python}\n");
    root.0.write("usr/share/holo/ansible/00-host.toml", root.here(&table));
}

fn two_pythons(version: Version) {
    let root = crash(version, "words", "");
    root.0.write("usr/share/holo/ansible/01-host.toml", host(Path::new("/no/python"), ""));
    let said = root.apply(1);
    assert!(said.contains("!! ROOT/usr/share/holo/ansible/01-host.toml:2: host: python: "), "{said}");
    assert!(said.contains(", where ROOT/usr/share/holo/ansible/00-host.toml:1 says "), "{said}");
    assert!(!said.contains("Working on"), "{said}");
}

fn given_up(version: Version) {
    let tasks: String = (0..5).map(|number| format!("[[task]]\nname = '{number}'\nmodule = 'ping'\n")).collect();
    let root = Root::new(version, &tasks);
    root.0.write("ends", root.here("echo started >>ROOT/started\nexit 3\n"));
    declare(&root, "['/bin/sh', 'ROOT/ends']");
    let said = root.apply(1);
    assert_eq!(root.0.read("started"), "started\n".repeat(3));
    assert_eq!(said.matches(NO_PYTHON).count(), 3, "{said}");
    assert_eq!(said.matches("!! /bin/sh failed 3 times in a row, and is not started again\n").count(), 2, "{said}");
}

fn interrupted(version: Version) {
    let root = crash(version, "sleep", "");
    let holo = holo_testing::binaries::built("holo").display().to_string();
    let run = root.0.run(
        "sh",
        &["-c", "$0 apply & until [ -s \"$1/pids\" ]; do sleep 0.1; done; kill $!; wait $!", &holo, &root.here("ROOT")],
    );
    assert_eq!(run.status, Some(143), "{run}");
    assert!(said(&run).contains("sleeping\n"), "{run}");
    assert_eq!(noted(&root).len(), 2);
    noted(&root).into_iter().for_each(wait_until_gone);
}
