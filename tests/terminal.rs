//! What only a person at a terminal sees, in a terminal that `script` makes.
#![expect(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use holo_testing::{Need, Run, ScratchRoot, binaries::built, trial};
use libtest_mimic::Arguments;
use std::process::ExitCode;

const IN_PROCESSES: &str = r#"#!/bin/sh
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\n' ;;
scan) echo 'ENTITY: slow:load' ;;
apply) echo 'progress: 1/8 too early to be seen' >&3; sleep 1.2; echo 'progress: 2/8 unpacking' >&3; sleep 0.2
    echo 'progress: nearly there' >&3; echo 'changed: unpacked' >&3 ;;
esac
"#;

const IN_A_SESSION: &str = r#"#!/bin/sh
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\nSESSION=1\n' ;;
session) say() { printf '{"answer":%s}\n' "$*" >&3; }
    while read -r request; do
        number=$(expr "$request" : '.*"request":\([0-9]*\)')
        case $request in
        *'"scan"'*) say '"report","request":'$number',"text":"ENTITY: slow:load\n"' ;;
        *'"apply"'*) say '"begin","request":'$number',"entity":"slow:load"'
            sleep 1.2
            say '"progress","request":'$number',"entity":"slow:load","text":"2/8 unpacking"'
            sleep 0.2
            say '"progress","request":'$number',"entity":"slow:load","text":"nearly there"'
            say '"result","request":'$number',"entity":"slow:load","messages":["changed: unpacked"],"result":"done"' ;;
        esac
        say '"end","request":'$number',"result":"done"'
    done ;;
esac
"#;

fn main() -> ExitCode {
    let needs = [Need::Program("script")];
    let stories = [("processes", IN_PROCESSES), ("a session", IN_A_SESSION)];
    let trials = stories.map(|(manner, plugin)| {
        trial(&format!("a plugin in {manner} says how far it has come"), &needs, move || {
            progress(plugin);
            Ok(())
        })
    });
    holo_testing::require::run(&Arguments::from_args(), trials.into())
}

fn progress(plugin: &str) {
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .holorc("plugin slow\n")
        .script("usr/lib/holo/holo-slow", plugin)
        .dir("usr/share/holo/slow");
    let run = on_a_terminal(&root, "apply");
    let shown = run.stdout_lossy();
    for line in ["\r\x1b[K[#####               ]  25% slow:load: unpacking", "\r\x1b[Kslow:load: nearly there"] {
        assert!(shown.contains(line), "{line:?} is not in {shown:?}");
    }
    assert!(!shown.contains("too early"), "{shown:?}");
    // What it showed is gone before anything else is shown.
    let rest = shown.rsplit_once("\x1b[K").unwrap().1;
    assert!(rest.contains("unpacked") && rest.contains("1 entity: 1 changed"), "{shown:?}");
    // There is no trace of it where nobody looks.
    let run = root.holo(&["apply"]);
    assert_eq!((run.stdout_lossy(), run.stderr_lossy()), ("\nWorking on slow:load\n\nunpacked\n\n".into(), "".into()));
    let run = root.holo(&["apply", "--json"]);
    assert!(run.success() && !run.stdout_lossy().contains("there"), "{run}");
    assert!(on_a_terminal(&root, "apply --json").stdout_lossy().starts_with('{'));
}

fn on_a_terminal(root: &ScratchRoot, arguments: &str) -> Run {
    let command = format!("script -qec '{} {arguments}' /dev/null </dev/null", built("holo").display());
    root.run("sh", &["-c", &command])
}
