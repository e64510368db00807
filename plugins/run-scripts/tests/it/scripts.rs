//! Running scripts: output is shown immediately, they end with their parent, and version 3 shows the same output.

use holo_process::{Ended, Program};
use holo_testing::processes::{Signal, is_running, parent, send, wait_until_gone};
use holo_testing::{Run, ScratchRoot, binaries::built};
use libtest_mimic::Trial;
use std::fs;
use std::time::Duration;

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        what_names_no_interpreter_is_run_by_the_shell_and_signals_are_named,
        what_a_script_says_is_seen_at_once,
        a_signal_ends_the_scripts_too,
        a_script_does_not_outlive_a_plugin_that_is_killed,
        version_3_shows_the_same,
        under_version_3_comments_are_comments,
        a_script_that_cannot_be_read_or_named_harms_no_other,
        an_unknown_script_is_named,
        a_script_that_cannot_be_executed_is_found,
        while_the_system_is_not_running_scripts_that_are_due_are_deferred,
    ]
}

fn while_the_system_is_not_running_scripts_that_are_due_are_deferred() {
    let waits = "# holo: subscribes file:/x\necho x >>run/ran";
    let root = root(&[("10-always", "echo x >>run/ran"), ("20-waits", waits)]).env("HOLO_OFFLINE", "1");
    // The entity that it subscribes to does not exist.
    let deferred = |root: &ScratchRoot| {
        root.holo(&["apply"]).stderr_lossy().matches(">> deferred: the system is not running\n").count()
    };
    assert_eq!((deferred(&root), root.exists("run/ran")), (2, false));
    assert_eq!(root.holo(&["check"]).status, Some(3));
    let root = root.env("HOLO_OFFLINE", "");
    assert!(root.holo(&["apply"]).success());
    assert_eq!(root.read("run/ran"), "x\nx\n");
    // The second one has succeeded.
    let root = root.env("HOLO_OFFLINE", "1");
    assert_eq!(deferred(&root), 1);
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);

fn root(scripts: &[(&str, &str)]) -> ScratchRoot {
    let root = ScratchRoot::new().binary(built("holo")).file("etc/os-release", "ID=unittest\n").plugin("run-scripts");
    scripts.iter().fold(root, |root, (name, script)| {
        root.script(format!("usr/share/holo/run-scripts/{name}"), format!("#!/bin/sh\n{script}\n"))
    })
}

/// Changes the root so that the plugin only supports version 3.
fn as_version_3(root: ScratchRoot) -> ScratchRoot {
    let info = r"[ $1 != info ] || { printf 'MIN_API_VERSION=3\nMAX_API_VERSION=3\n'; exit; }";
    let plugin = built("holo-run-scripts");
    let root = root.script("plugin", format!("#!/bin/sh\n{info}\nexec '{}' \"$@\"\n", plugin.display()));
    let path = root.join("plugin");
    root.holorc(format!("plugin run-scripts={}\n", path.display()))
}

/// Runs an apply, and calls `seen` with all of the output so far whenever there is new output.
///
/// Both streams share one pipe. With two, output of one stream could be read before earlier output of the other.
fn apply(root: &ScratchRoot, mut seen: impl FnMut(&str)) -> (Ended, String) {
    let mut holo = Program::new("/bin/sh");
    holo.args(["-c", "exec \"$0\" apply 2>&1"]).arg(built("holo")).timeout(LONG).current_dir(root.path());
    holo.env("HOLO_ROOT_DIR", root.path()).env("TMPDIR", root.join("tmp"));
    let mut said = String::new();
    let ended = holo.run(|_, bytes| {
        said.push_str(&String::from_utf8_lossy(bytes));
        seen(&said);
    });
    (ended.unwrap(), said)
}

/// Returns the number after a word, if its line is complete.
fn number_after(said: &str, word: &str) -> Option<u32> {
    let (line, _) = said.split_once(word)?.1.split_once('\n')?;
    line.trim().parse().ok()
}

fn what_names_no_interpreter_is_run_by_the_shell_and_signals_are_named() {
    let dies = [
        ("10-term", "kill -TERM $$"),
        ("20-kill", "kill -KILL $$"),
        ("30-segv", "ulimit -c 0; kill -SEGV $$"),
        ("40-exits", "exit 143"),
    ];
    for root in [root(&dies), as_version_3(root(&dies))] {
        let root = root.script("usr/share/holo/run-scripts/50-plain", "echo \"plain ${0##*/}\"\n");
        let (ended, said) = apply(&root, |_| {});
        assert_eq!(ended.code(), Some(1), "{said}");
        let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("!! ")).collect();
        let expected =
            ["!! signal: terminated", "!! signal: killed", "!! signal: segmentation fault", "!! exit status 143"];
        assert_eq!(errors, expected, "{said}");
        assert!(said.ends_with("\n\nplain 50-plain\n\n"), "{said}");
    }
}

fn what_a_script_says_is_seen_at_once() {
    let script = "echo waiting; while ! [ -e etc/go ]; do sleep 0.01; done; echo gone";
    for root in [root(&[("waits", script)]), as_version_3(root(&[("waits", script)]))] {
        let (ended, said) = apply(&root, |said| {
            if said.contains("waiting\n") && !root.exists("etc/go") {
                assert!(!said.contains("gone"));
                root.write("etc/go", "");
            }
        });
        assert_eq!(ended.failure(), None, "{said}");
        assert!(said.ends_with("waiting\ngone\n\n"), "{said}");
    }
}

fn a_signal_ends_the_scripts_too() {
    let script = "sleep 600 & echo \"sleeps $!\"; echo \"script $$\"; wait; echo never";
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        for root in [root(&[("a", script), ("b", script)]), as_version_3(root(&[("a", script), ("b", script)]))] {
            let mut is_sent = false;
            let (ended, said) = apply(&root, |said| {
                if let (Some(script), false) = (number_after(said, "script "), is_sent) {
                    is_sent = true;
                    send(parent(parent(script).unwrap()).unwrap(), signal);
                }
            });
            assert_eq!(ended.code(), Some(status), "{said}");
            assert!(!is_running(number_after(&said, "script ").unwrap()), "{said}");
            wait_until_gone(number_after(&said, "sleeps ").unwrap());
            assert!(!said.contains("never") && !said.contains("script:b"), "{said}");
            assert_eq!(fs::read_dir(root.join("tmp")).unwrap().count(), 0);
        }
    }
}

fn a_script_does_not_outlive_a_plugin_that_is_killed() {
    let script = "sleep 600 & echo \"sleeps $!\"; echo \"script $$\"; wait";
    let root = root(&[("a", script), ("b", "echo the next one")]);
    let mut is_sent = false;
    let (ended, said) = apply(&root, |said| {
        if let (Some(script), false) = (number_after(said, "script "), is_sent) {
            is_sent = true;
            send(parent(script).unwrap(), Signal::KILL);
        }
    });
    assert_eq!(ended.code(), Some(1), "{said}");
    assert!(said.contains("!! signal: killed\n") && said.contains("the next one\n"), "{said}");
    wait_until_gone(number_after(&said, "script ").unwrap());
    wait_until_gone(number_after(&said, "sleeps ").unwrap());
}

fn version_3_shows_the_same() {
    let scripts = [
        ("10-talks", "echo out; echo err >&2; pwd | sed 's,.*/,,'"),
        ("20-fails", "echo before; exit 3"),
        ("21-prompts", "printf prompt; exit 4"),
        ("22-is-silent", "exit 5"),
        ("30-dies", "kill -TERM $$"),
        ("31-is-silent-and-good", "exit 0"),
        ("40-leaves", "sleep 600 & kill -KILL $!; echo left"),
    ];
    let fill = |root: ScratchRoot| {
        root.dir("usr/share/holo/run-scripts/folder").file("usr/share/holo/run-scripts/text", "#!/bin/sh\necho never\n")
    };
    let (version_4, version_3) = (fill(root(&scripts)), as_version_3(fill(root(&scripts))));
    let said = |root: &ScratchRoot, run: &Run| {
        let shown = |text: &str| text.replace(root.path().to_str().unwrap(), "ROOT").replace(root_name(root), "NAME");
        (run.status, shown(&run.stdout_lossy()), shown(&run.stderr_lossy()))
    };
    for arguments in [&["scan"][..], &["scan", "-p"], &["apply"], &["apply", "script:20-fails"], &["diff"]] {
        let (new, old) = (version_4.holo(arguments), version_3.holo(arguments));
        assert_eq!(said(&version_4, &new), said(&version_3, &old), "{arguments:?}");
        assert!(!new.stdout_lossy().contains("never"), "{new}");
    }
}

fn root_name(root: &ScratchRoot) -> &str {
    root.path().file_name().unwrap().to_str().unwrap()
}

fn under_version_3_comments_are_comments() {
    let scripts = [("a", "# holo: subscribes file:/etc/motd\necho runs"), ("b", "# holo: nonsense\necho runs too")];
    let root = as_version_3(root(&scripts));
    for _ in 0..2 {
        let run = root.holo(&["apply"]);
        assert!(run.success() && run.stderr.is_empty(), "{run}");
        assert!(run.stdout_lossy().contains("\nruns\n") && run.stdout_lossy().contains("\nruns too\n"), "{run}");
    }
    assert!(!root.exists("var/lib/holo/run-scripts/.succeeded"));
}

fn a_script_that_cannot_be_read_or_named_harms_no_other() {
    let root = root(&[("a\nb", "echo never"), ("c", "echo c")]);
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("a script's name must not hold a newline"), "{run}");
    assert!(run.stdout_lossy().contains("\nc\n") && !run.stdout_lossy().contains("never"), "{run}");
    // Scripts run, again and again, if the record cannot be read or written.
    let root = self::root(&[("d", "# holo: subscribes script:d-does-not-exist\necho d")]);
    let root = root.dir("var/lib/holo/run-scripts/.succeeded");
    for _ in 0..2 {
        let run = root.holo(&["apply"]);
        assert!(run.stdout_lossy().contains("\nd\n"), "{run}");
        assert!(run.stderr_lossy().contains(">> it will be run again: "), "{run}");
    }
}

fn an_unknown_script_is_named() {
    let root = root(&[("a", "echo a")]);
    for id in ["script:b", "script:", "script:.", "script:../run-scripts/a", "scrip:a", "a"] {
        let folder = root.join("usr/share/holo/run-scripts");
        let mut plugin = Program::new(built("holo-run-scripts"));
        plugin.args(["apply", id]).env("HOLO_ROOT_DIR", root.path()).env("HOLO_RESOURCE_DIR", folder);
        plugin.env("HOLO_STATE_DIR", root.path()).env("HOLO_CACHE_DIR", root.path());
        let output = plugin.output().unwrap();
        assert_eq!(output.ended.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("!! unknown entity ID \"{id}\"\n"));
    }
}

fn a_script_that_cannot_be_executed_is_found() {
    let root = root(&[("a", "echo a")]);
    root.write("usr/share/holo/run-scripts/README", "no script\n");
    assert!(!root.holo(&["doctor"]).stdout_lossy().contains("run-scripts/"));
    root.write("usr/share/holo/run-scripts/b", "#!/bin/sh\n");
    let run = root.holo(&["doctor"]);
    let path = root.join("usr/share/holo/run-scripts/b");
    assert!(run.stdout_lossy().contains(&format!("{} is a script that cannot be executed", path.display())), "{run}");
    assert_eq!(run.status, Some(1), "{run}");
}
