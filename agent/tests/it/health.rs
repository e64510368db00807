//! Tests of health checks between runs, with a real `holo` and a plugin whose entities are controlled by files.

use crate::harness::{Agent, PATIENCE, events, kinds, program, root};
use holo_testing::{Need, ScratchRoot, trial_of};
use libtest_mimic::Trial;
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};

/// Applying `pulse:app` repairs it if possible; it requires `pulse:db`.
const PULSE: &str = r#"#!/bin/sh
cd "$HOLO_ROOT_DIR" || exit 1
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\nHEALTH=1\n' ;;
scan) printf 'ENTITY: pulse:app\nREQUIRES: pulse:db\nENTITY: pulse:db\n' ;;
check) echo 'not changed' >&3 ;;
apply)
    echo "$2" >>applied
    [ "$2" != pulse:app ] || [ -e incurable ] || echo ok >state
    echo 'not changed' >&3 ;;
health) printf '%s\tpulse:app\t%s\n' "$(cat state)" 'it says so' >&3 ;;
esac
"#;

pub(crate) fn trials() -> Vec<Trial> {
    let case = |name, case: fn()| trial_of(name, &[], case);
    vec![
        case("what becomes critical is applied with what it requires, and is well again", heals),
        case("what stays critical is applied three times, and then left alone", limited),
        case("what is not well is told, and stays in report mode", only_told),
        case("one round ends by itself, and its exit status says how it is", once),
        case("a round of one agent does not begin beside another agent", once_beside_another),
        trial_of("health is in metrics as promtool wants them", &[Need::Program("promtool")], metrics),
    ]
}

fn root_with_pulse(state: &str, config: &str) -> ScratchRoot {
    root(&format!("health_interval = \"1s\"\n{config}"))
        .file("etc/holorc.d/50-pulse", "plugin pulse\n")
        .script("usr/lib/holo/holo-pulse", PULSE)
        .dir("usr/share/holo/pulse")
        .file("state", state)
        .file("applied", "")
}

fn health(status: &Value) -> &Value {
    &status["health"]["pulse:app"]["state"]
}

fn heals() {
    let root = root_with_pulse("ok", "");
    let mut agent = Agent::start(&root);
    agent.until_watching();
    agent.until_status("that it is well", |status| health(status) == "ok");
    root.write("applied", "");
    root.write("state", "critical");
    agent.until_said("health of pulse:app: critical (it says so)");
    let said = agent.until_said("health of pulse:app: ok");
    assert!(said.contains("apply ") && said.contains(" unchanged: 2 entities: 2 unchanged"), "{said}");
    assert_eq!(root.read("applied"), "pulse:db\npulse:app\n");
    // The last complete run is unchanged, and the watch runs again.
    let status = agent.until_watching();
    assert_eq!(status["last"]["tally"]["changed"], 1, "{status:#}");
    agent.stop();
    let events = events(&root);
    assert_eq!(kinds(&events), ["run changed", "health", "run unchanged", "health"]);
    let run = events.iter().filter(|event| event["kind"] == "run").nth(1).unwrap();
    assert_eq!(run["entities"], serde_json::json!(["pulse:app", "pulse:db"]));
    let people = program(&root, &["events"]).output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&people).contains(" health of pulse:app: critical (it says so)\n"));
}

fn limited() {
    let root = root_with_pulse("critical", "").file("incurable", "");
    let mut agent = Agent::start(&root);
    agent.until_said("pulse:app: repaired 3 times within 10m");
    // Once by the complete run.
    let times = || root.read("applied").to_string().matches("pulse:app").count();
    assert_eq!(times(), 4);
    // It is not even asked for again.
    let runs = || kinds(&events(&root)).iter().filter(|kind| kind.starts_with("run")).count();
    agent.until_watching();
    assert_eq!(runs(), 5);
    let begun = Instant::now();
    agent.until_status("that rounds have passed", |_| begun.elapsed() > Duration::from_secs(3));
    assert_eq!((times(), runs()), (4, 5));
    agent.stop();
}

fn only_told() {
    let root = root_with_pulse("warning", "mode = \"report\"\n");
    let mut agent = Agent::start(&root);
    agent.until_said("health of pulse:app: warning (it says so)");
    root.write("state", "critical");
    agent.until_said("health of pulse:app: critical (it says so)");
    let people = program(&root, &["status"]).output().unwrap().stdout;
    let people = String::from_utf8_lossy(&people).into_owned();
    for line in ["\n    health 0 of 1 ok\n", "\n    unwell pulse:app (it says so), since "] {
        assert!(people.contains(line), "{line} is missing: {people}");
    }
    agent.stop();
    assert_eq!(root.read("applied"), "");
}

fn once() {
    let root = root_with_pulse("ok", "");
    let begun = Instant::now();
    let run = |says: Option<&str>| {
        let output = program(&root, &["run", "--once"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(says.is_none_or(|says| said.contains(says)), "{said}");
        (output.ended.code(), said)
    };
    assert_eq!(run(Some("changed: 3 entities: 1 changed, 2 unchanged")).0, Some(0));
    // Even if there was a run just before.
    let (code, said) = run(Some("unchanged: 3 entities"));
    assert!(code == Some(0) && !said.contains("health of"), "{said}");
    root.write("incurable", "");
    root.write("state", "critical");
    let (code, said) = run(Some("health of pulse:app: critical"));
    assert_eq!((code, said.matches("apply ").count()), (Some(1), 2), "{said}");
    fs::remove_file(root.join("incurable")).unwrap();
    root.write("state", "critical");
    // The complete run repairs it before its health is checked.
    assert_eq!(run(None).0, Some(0));
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert!(!root.exists("run/holo-agent/control.sock"));
    assert_eq!(kinds(&events(&root)).iter().filter(|kind| kind.starts_with("run")).count(), 5);
}

fn once_beside_another() {
    let root = root_with_pulse("ok", "");
    let mut agent = Agent::start(&root);
    agent.until_watching();
    let output = program(&root, &["run", "--once"]).output().unwrap();
    assert_eq!(output.ended.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("an agent runs already"));
    agent.stop();
}

fn metrics() {
    let root = root_with_pulse("critical", "mode = \"report\"\n");
    let textfile = root.join("holo.prom");
    let config = root.read("etc/holo/agent.toml");
    root.write("etc/holo/agent.toml", format!("{config}textfile = \"{}\"\n", textfile.display()));
    let mut agent = Agent::start(&root);
    agent.until_status("that it is critical", |status| health(status) == "critical");
    let text = fs::read_to_string(&textfile).unwrap();
    for line in ["holo_entity_health{entity=\"pulse:app\"} 2", "holo_refreshes_due 0", "holo_generation 0"] {
        assert!(text.lines().any(|given| given == line), "{line} is missing: {text}");
    }
    let mut promtool = holo_process::Program::new("promtool");
    let judged = promtool.args(["check", "metrics"]).stdin(text.as_bytes()).output().unwrap();
    let said = [judged.stdout, judged.stderr].concat();
    assert_eq!((judged.ended.code(), String::from_utf8_lossy(&said).as_ref()), (Some(0), ""), "{text}");
    agent.stop();
}
