//! `holo health` runs the checks of the selected entities, and nothing else.

use holo_testing::{ScratchRoot, binaries::built};
use libtest_mimic::Trial;
use serde_json::Value;

/// A plugin whose entities and their health are read from a file.
const PULSE: &str = r#"#!/bin/sh
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\nHEALTH=1\n' ;;
scan)
    printf 'ENTITY: pulse:app\nREQUIRES: pulse:db\nENTITY: pulse:db\nREQUIRES: pulse:disk\n'
    printf 'ENTITY: pulse:disk\nENTITY: pulse:quiet\n' ;;
health)
    echo "$*" >>"$HOLO_ROOT_DIR/asked"
    cat "$HOLO_ROOT_DIR/health" >&3
    [ ! -e "$HOLO_ROOT_DIR/fails" ] || exit 3 ;;
*) echo "$*" >>"$HOLO_ROOT_DIR/asked" ;;
esac
"#;
const SILENT: &str = "#!/bin/sh\n[ \"$1\" != info ] || printf 'MIN_API_VERSION=3\\nMAX_API_VERSION=4\\n'\n\
    [ \"$1\" != scan ] || printf 'ENTITY: silent:x\\n'\n[ \"$1\" != health ] || exit 9\n";

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        health_is_shown_and_sets_the_exit_status,
        health_runs_no_other_operation,
        health_covers_selected_entities_only,
        json_lines_name_requirements,
        what_plugins_do_wrong_is_said
    ]
}

fn text(output: &[u8]) -> &str {
    str::from_utf8(output).unwrap()
}

/// Returns a root with an entity that does not work.
pub(crate) fn root() -> ScratchRoot {
    ScratchRoot::new()
        .binary(built("holo"))
        .holorc("plugin pulse\nplugin silent\n")
        .script("usr/lib/holo/holo-pulse", PULSE)
        .script("usr/lib/holo/holo-silent", SILENT)
        .dir("usr/share/holo/pulse")
        .dir("usr/share/holo/silent")
        .file("health", "critical\tpulse:app\tHTTP 500\nok\tpulse:db\t\n")
}

fn health_is_shown_and_sets_the_exit_status() {
    let root = root();
    let run = root.holo(&["health"]);
    assert_eq!((run.status, text(&run.stdout)), (Some(1), "critical\tpulse:app\tHTTP 500\nok\tpulse:db\t-\n"), "{run}");
    root.write("health", "ok\tpulse:app\n");
    let run = root.holo(&["health"]);
    assert_eq!((run.status, text(&run.stdout)), (Some(0), "ok\tpulse:app\t-\n"), "{run}");
    root.write("health", "");
    let run = root.holo(&["health"]);
    assert_eq!((run.status, text(&run.stdout)), (Some(0), ""), "{run}");
}

fn health_runs_no_other_operation() {
    let root = root();
    assert_eq!(root.holo(&["health"]).status, Some(1));
    assert_eq!(root.read("asked"), "health pulse:app pulse:db pulse:disk pulse:quiet\n");
    assert!(!root.exists("var/lib/holo/pulse"), "nothing is kept");
}

fn health_covers_selected_entities_only() {
    let root = root();
    // A plugin may report more entities than requested.
    let run = root.holo(&["health", "pulse:db", "pulse:quiet"]);
    assert_eq!((run.status, text(&run.stdout)), (Some(0), "ok\tpulse:db\t-\n"), "{run}");
    assert_eq!(root.read("asked"), "health pulse:db pulse:quiet\n");
    assert_eq!(root.holo(&["health", "silent"]).status, Some(0));
    let run = root.holo(&["health", "pulse:none"]);
    assert_eq!(run.status, Some(255), "{run}");
}

fn json_lines_name_requirements() {
    let run = root().holo(&["health", "--json"]);
    let lines: Vec<Value> = text(&run.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = serde_json::json!({
        "version": 1, "event": "health", "id": "pulse:app", "plugin": "pulse", "state": "critical", "text": "HTTP 500",
        "requires": ["pulse:db", "pulse:disk"],
    });
    assert_eq!(lines[0], expected, "{run}");
    assert_eq!((&lines[2]["event"], &lines[2]["exit_code"]), (&"summary".into(), &1.into()));
}

fn what_plugins_do_wrong_is_said() {
    let root = root();
    root.write("health", "fine\tpulse:app\nok\tpulse:db\n");
    let run = root.holo(&["health"]);
    assert_eq!((run.status, text(&run.stdout)), (Some(1), "\nok\tpulse:db\t-\n"), "{run}");
    assert!(text(&run.stderr).contains("\"fine\\tpulse:app\" is not the health of an entity"), "{run}");
    root.write("fails", "");
    let run = root.holo(&["health"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(text(&run.stderr).contains("exit status 3"), "{run}");
}
