//! Tests of `run-now`, `pause` and `resume`.

use crate::harness::{Agent, events, kinds, program, root};
use holo_process::Program;
use holo_testing::binaries::built;
use holo_testing::{ScratchRoot, copy_program, trial_of};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::json;
use std::cell::Cell;
use std::fs;

pub(crate) fn trials() -> Vec<Trial> {
    let case = |name, case: fn()| trial_of(name, &[], case);
    vec![
        case("run-now applies everything at once, and shows the result if it is waited for", run_now),
        case("run-now during a run begins another one", run_now_twice),
        case("a paused agent reports drift, changes nothing, and survives a crash", pause),
        case("a pause with an end resumes by itself", pause_with_end),
        case("what is fought over is left alone, whoever repairs it, until resume", fights),
        case("a command without guards runs once in each interval", acts_once),
        case("bundles are shown and rolled back by holo-fleet, if it is installed", bundles),
        case("a pause needs a reason, and a period that is not 0", wrong_pauses),
    ]
}

/// Runs a command of the agent, and returns its exit status, standard output and standard error.
fn command(root: &ScratchRoot, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = program(root, arguments).env("SUDO_USER", "alice").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.ended.code(), text(&output.stdout), text(&output.stderr))
}

fn run_now() {
    let root = root("watch = false\n");
    let mut agent = Agent::start(&root);
    agent.until_status("that it waits", |status| status["last"]["result"] == "changed");
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    let (code, said, _) = command(&root, &["run-now", "--wait"]);
    assert_eq!(code, Some(0));
    assert!(said.starts_with("apply ") && said.contains(" changed: 1 entity: 1 changed in "), "{said}");
    assert_eq!(root.read("srv/app/conf"), "port 80\n");
    assert_eq!(command(&root, &["run-now"]), (Some(0), String::new(), String::new()));
    agent.until_status("the run", |status| status["last"]["result"] == "unchanged");
    root.write("usr/share/holo/files/app.toml", "[[file]]\npath = \"relative\"\ncontent = \"\"\n");
    let (code, said, _) = command(&root, &["run-now", "--wait"]);
    assert_eq!(code, Some(1), "{said}");
    agent.stop();
    assert_eq!(command(&root, &["run-now", "--wait"]).0, Some(1));
    assert_eq!(kinds(&events(&root))[..3], ["run changed", "run changed", "run unchanged"]);
}

fn fights() {
    let root = root("interval = \"3s\"\n");
    let path = root.join("srv/app/conf");
    let appeared = Cell::new(0);
    // Removes the file as soon as it appears, until the agent leaves it alone.
    let fight = |agent: &mut Agent<'_>, times: usize| {
        agent.until_status("that it is left alone, or was often enough repaired", |status| {
            appeared.set(appeared.get() + usize::from(fs::remove_file(&path).is_ok()));
            let trouble = &status["failed"]["file:/srv/app/conf"]["reason"];
            trouble.as_str().is_some_and(|reason| reason.contains("repaired 3 times within 10m"))
                || appeared.get() == times
        });
        appeared.get()
    };
    let mut agent = Agent::start(&root);
    assert_eq!(fight(&mut agent, 2), 2);
    agent.stop();
    // Neither another agent nor its whole runs and watches count anew. The first time was no repair.
    let mut agent = Agent::start(&root);
    assert_eq!(fight(&mut agent, 9), 4);
    let runs = || kinds(&events(&root)).iter().filter(|kind| kind.starts_with("run")).count();
    let before = runs();
    agent.until_status("more runs", |_| runs() > before + 2);
    assert!(!path.exists());
    let failed = kinds(&events(&root)).iter().filter(|kind| *kind == "failed").count();
    assert_eq!(failed, 1, "{:?}", kinds(&events(&root)));
    assert_eq!(command(&root, &["resume"]).0, Some(0));
    agent.until_status("that it is repaired", |_| path.exists());
    agent.stop();
}

/// Its entity is an action.
const ACT: &str = r#"#!/bin/sh
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\n' ;;
scan) printf 'ENTITY: act:it\nALWAYS: yes\n' ;;
check) echo 'would change: act' >&3 ;;
apply) echo >>"$HOLO_ROOT_DIR/acts"; echo 'changed: acted' >&3 ;;
esac
"#;

fn acts_once() {
    let root = root("interval = \"4s\"\n").file("etc/holorc.d/50-act", "plugin act\n").dir("usr/share/holo/act");
    let root = root.script("usr/lib/holo/holo-act", ACT);
    let acts = || fs::read_to_string(root.join("acts")).unwrap_or_default().lines().count();
    let runs = || kinds(&events(&root)).iter().filter(|kind| kind.starts_with("run")).count();
    let mut agent = Agent::start(&root);
    agent.until_watching();
    assert_eq!(acts(), 1);
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    agent.until_said("repaired file:/srv/app/conf");
    agent.stop();
    let mut agent = Agent::start(&root);
    agent.until_status("some runs", |_| runs() >= 3);
    agent.until_watching();
    agent.stop();
    assert_eq!(acts(), runs());
    let drifted = fs::read_to_string(root.join("var/lib/holo-agent/events.jsonl")).unwrap();
    assert!(!drifted.contains("act:it"), "{drifted}");
}

fn run_now_twice() {
    let root = root("watch = false\n").script(
        "holo",
        "#!/bin/sh\necho run >>\"$HOLO_ROOT_DIR/runs\"\nwhile [ ! -e \"$HOLO_ROOT_DIR/go\" ]; do sleep 0.05; done\n\
         echo '{\"version\":1,\"event\":\"summary\",\"exit_code\":0}'\n",
    );
    root.write("etc/holo/agent.toml", format!("holo = \"{}\"\nwatch = false\n", root.join("holo").display()));
    let mut agent = Agent::start(&root);
    agent.until_status("that it runs", |status| status["doing"]["state"] == "running");
    assert_eq!(command(&root, &["run-now"]).0, Some(0));
    root.write("go", "");
    agent.until_said("apply unchanged");
    agent.until_said("apply unchanged");
    agent.stop();
    // Each run is followed by a round of health checks.
    let runs = events(&root).len();
    assert_eq!(runs, 2);
}

fn pause() {
    let root = root("interval = \"1h\"\n");
    let mut agent = Agent::start(&root);
    agent.until_watching();
    assert_eq!(command(&root, &["pause", "--reason", "moving the disks"]), (Some(0), String::new(), String::new()));
    agent.until_said("paused since ");
    let status = agent.until_status("that it only watches", |status| {
        status["doing"]["apply"] == false && status["doing"]["entities"].is_number()
    });
    let paused = &status["paused"];
    assert_eq!((&paused["by"], &paused["reason"]), (&json!("alice"), &json!("moving the disks")));
    assert!(paused["since"].is_string() && paused["until"].is_null(), "{status:#}");
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    agent.until_said("drifted file:/srv/app/conf");
    let (code, _, said) = command(&root, &["run-now", "--wait"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("the agent is paused since ") && said.contains(" by alice: moving the disks; "), "{said}");
    agent.signal(Signal::KILL);
    agent.end();

    let mut agent = Agent::start(&root);
    let again = agent.until_status("that it watches again", |status| status["doing"]["entities"].is_number());
    assert_eq!((&again["paused"], &again["doing"]["apply"]), (paused, &json!(false)));
    let shown = root.holo(&["status"]);
    let line = "agent: watching, changing nothing: paused since ";
    assert!(shown.stdout_lossy().contains(line) && shown.stdout_lossy().contains(" by alice: moving the disks\n"));
    let shown = root.holo(&["status", "--json"]).stdout_lossy().into_owned();
    assert!(shown.contains("\"agent_paused\":{\"since\":\"") && shown.contains("\"by\":\"alice\""), "{shown}");
    assert!(command(&root, &["status"]).1.contains("    paused since "));
    assert!(!root.exists("srv/app/conf"));

    assert_eq!(command(&root, &["resume"]), (Some(0), String::new(), String::new()));
    agent.until_said("resumed by alice");
    agent.until_said("1 changed");
    assert_eq!(root.read("srv/app/conf"), "port 80\n");
    let status = agent.until_status("that it repairs again", |status| status["doing"]["apply"] == true);
    assert!(status["paused"].is_null());
    // Without a pause, there is only a run.
    assert_eq!(command(&root, &["resume"]).0, Some(0));
    agent.until_said("apply ");
    agent.stop();
    let kinds = kinds(&events(&root));
    assert_eq!(kinds[..3], ["run changed", "paused", "drifted"], "{kinds:?}");
    assert!(kinds.ends_with(&["resumed", "returned", "run changed", "run unchanged"].map(str::to_owned)), "{kinds:?}");
}

fn pause_with_end() {
    let textfile = "metrics/holo.prom";
    let root = root("");
    root.write("etc/holo/agent.toml", format!("textfile = \"{}\"\n", root.join(textfile).display()));
    let mut agent = Agent::start(&root);
    agent.until_watching();
    assert_eq!(command(&root, &["pause", "--for", "2s", "--reason", "x"]).0, Some(0));
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    agent.until_said("drifted file:/srv/app/conf");
    assert!(root.read(textfile).to_string().contains("holo_agent_paused 1\n"), "{}", root.read(textfile));
    agent.until_said("resumed, as the time is over");
    agent.until_said("1 changed");
    assert!(root.read(textfile).to_string().contains("holo_agent_paused 0\n"), "{}", root.read(textfile));
    agent.stop();
}

fn bundles() {
    let root = root("").dir("bin");
    let agent = root.join("bin/holo-agent");
    copy_program(built("holo-agent"), &agent);
    let says = |path: &str, arguments: &[&str]| {
        let output = Program::new(&agent).args(arguments).env("PATH", path).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.ended.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let missing = "holo-agent: holo-fleet is not installed; install it to use bundles\n".to_owned();
    assert_eq!(says("/nonexistent", &["bundle", "show"]), (Some(1), missing));
    root.write_script("other/holo-fleet", "#!/bin/sh\necho elsewhere \"$@\"\n");
    let other = root.join("other").display().to_string();
    assert_eq!(says(&other, &["bundle", "rollback"]), (Some(0), "elsewhere host rollback\n".to_owned()));
    root.write_script("bin/holo-fleet", "#!/bin/sh\necho beside \"$@\"\nexit 3\n");
    assert_eq!(says(&other, &["bundle", "show", "--json"]), (Some(3), "beside host show --json\n".to_owned()));
    assert_eq!(says(&other, &["bundle", "show"]), (Some(3), "beside host show\n".to_owned()));
}

fn wrong_pauses() {
    let root = root("");
    for (arguments, says) in [
        (&["pause"][..], "--reason <TEXT>"),
        (&["pause", "--reason", " "], "is empty"),
        (&["pause", "--reason", "a\nb"], "must be a single line"),
        (&["pause", "--reason", "x", "--for", "0s"], "too short"),
        (&["pause", "--reason", "x", "--for", "2"], "needs a unit"),
    ] {
        let (code, _, said) = command(&root, arguments);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
    let (code, _, said) = command(&root, &["pause", "--reason", "x"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("is holo-agent.service running?"), "{said}");
}
