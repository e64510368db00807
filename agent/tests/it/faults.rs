//! Tests that events and refreshes are neither lost nor duplicated after a full disk, a power cut, or a kill between a
//! change and its refresh.

use crate::harness::{Agent, PATIENCE, events, kinds, root};
use crate::systemd::{self, machine_with_file, status, until};
use holo_testing::overlay::NEEDS_TO_BOOT;
use holo_testing::require::{WRONG_CLOCK, clock_library};
use holo_testing::{Overlay, ScratchRoot, trial_of};
use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::time::{Duration, Instant};

/// `steps:a` changes once; `steps:b` comes after it, and waits as long as a file exists; `steps:c`, the last, is
/// refreshed.
const STEPS: &str = r#"#!/bin/sh
cd "$HOLO_ROOT_DIR/srv" || exit 1
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\n' ;;
scan) printf 'ENTITY: steps:a\nENTITY: steps:b\nAFTER: steps:a\nENTITY: steps:c\nAFTER: steps:b\nSUBSCRIBES: steps:a\n' ;;
check) echo 'not changed' >&3 ;;
apply)
    case $2 in
    steps:a) [ ! -e is-a ] || echo 'not changed' >&3; echo >>is-a ;;
    steps:b) [ ! -e waits ] || echo $PPID >holo; while [ -e waits ]; do sleep 0.05; done; echo 'not changed' >&3 ;;
    steps:c) if [ "$HOLO_REFRESH" ]; then echo refreshed >>refreshes; else echo 'not changed' >&3; fi ;;
    esac ;;
esac
"#;

pub(crate) fn trials() -> Vec<Trial> {
    let booted = |name, case: fn()| trial_of(name, NEEDS_TO_BOOT, case);
    vec![
        trial_of("a holo that is killed between a change and its refresh", &[], holo_is_killed),
        trial_of("an agent that is killed between a change and its refresh", &[], agent_is_killed),
        trial_of("events that cannot be kept survive a crash of the agent", &[], killed_with_events),
        trial_of("a clock that jumps by years, forward and back, changes nothing", &[WRONG_CLOCK], clock_jumps),
        booted("a full disk delays events, and loses none", full_disk),
        booted("a power cut in the middle of a run is caught up with", power_cut),
        booted("a reboot in the middle of a run ends it in order", reboot),
    ]
}

pub(crate) fn root_with_steps() -> ScratchRoot {
    root("watch = false\ninterval = \"1s\"\n")
        .file("etc/holorc.d/50-steps", "plugin steps\n")
        .script("usr/lib/holo/holo-steps", STEPS)
        .dir("usr/share/holo/steps")
        .file("srv/waits", "")
}

/// Waits until a file is not empty, and returns its content.
#[track_caller]
fn content(root: &ScratchRoot, path: &str) -> String {
    let begun = Instant::now();
    loop {
        let content = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        if content.ends_with('\n') {
            return content;
        }
        assert!(begun.elapsed() < PATIENCE, "there is no {path}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn process(root: &ScratchRoot, path: &str) -> Pid {
    Pid::from_raw(content(root, path).trim().parse().unwrap()).unwrap()
}

/// Checks that the refresh is done exactly once.
#[track_caller]
fn refreshes_once(root: &ScratchRoot, agent: &mut Agent<'_>) {
    content(root, "srv/refreshes");
    for _ in 0..2 {
        agent.until_said(" unchanged: 4 entities");
    }
    assert_eq!(root.read("srv/refreshes"), "refreshed\n");
}

/// Checks that no event occurs twice.
#[track_caller]
fn are_different(events: &[Value]) {
    let mut ids: Vec<_> = events.iter().map(|event| event["id"].as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), events.len());
}

fn holo_is_killed() {
    let root = root_with_steps();
    let mut agent = Agent::start(&root);
    let holo = process(&root, "srv/holo");
    assert!(root.exists("srv/is-a") && !root.exists("srv/refreshes"));
    kill_process(holo, Signal::KILL).unwrap();
    agent.until_said("apply could not be done: signal: killed");
    std::fs::remove_file(root.join("srv/waits")).unwrap();
    refreshes_once(&root, &mut agent);
    agent.stop();
    let kinds = kinds(&events(&root));
    assert_eq!(kinds[..2], ["run error", "run changed"], "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "run changed").count(), 1, "{kinds:?}");
}

fn agent_is_killed() {
    let root = root_with_steps();
    let agent = Agent::start(&root);
    process(&root, "srv/holo");
    agent.signal(Signal::KILL);
    assert_eq!(agent.end().0, None);
    // Its run continues, and the next agent waits for it.
    let mut agent = Agent::start(&root);
    std::fs::remove_file(root.join("srv/waits")).unwrap();
    refreshes_once(&root, &mut agent);
    agent.stop();
    let events = events(&root);
    assert_eq!(kinds(&events).iter().filter(|kind| *kind == "run changed").count(), 1, "{:?}", kinds(&events));
    are_different(&events);
}

fn killed_with_events() {
    let root = root("interval = \"1h\"\n");
    let mut agent = Agent::start(&root);
    agent.until_watching();
    // Writing to a directory fails, as on a full disk.
    let (events, aside) = (root.join("var/lib/holo-agent/events.jsonl"), root.join("srv/aside"));
    std::fs::rename(&events, &aside).unwrap();
    std::fs::create_dir(&events).unwrap();
    std::fs::remove_file(root.join("srv/app/conf")).unwrap();
    agent.until_said("repaired file:/srv/app/conf");
    agent.until_status("an obstacle", |status| status["spool_error"].is_string());
    agent.signal(Signal::KILL);
    assert_eq!(agent.end().0, None);
    let mut agent = Agent::start(&root);
    agent.until_said("events wait in memory, as they cannot be kept: ");
    agent.signal(Signal::KILL);
    assert_eq!(agent.end().0, None);
    std::fs::remove_dir(&events).unwrap();
    std::fs::rename(&aside, &events).unwrap();
    let mut agent = Agent::start(&root);
    agent.until_watching();
    assert!(agent.status()["spool_error"].is_null());
    agent.stop();
    let events = crate::harness::events(&root);
    assert_eq!(kinds(&events)[1..3], ["drifted", "repaired"], "{:?}", kinds(&events));
    are_different(&events);
}

/// Repairs, whole runs at their interval, and events go on.
fn clock_jumps() {
    let file = "[[file]]\npath = \"/srv/app/conf\"\ncontent = \"port 80\\n\"\nlimit = \"100/10m\"\n";
    let root = root("interval = \"2s\"\n").resource("files/app.toml", file).file("run/clock", "+0\n");
    let mut agent = Agent::start_with(&root, |agent| {
        agent.env("LD_PRELOAD", clock_library().unwrap()).env("FAKETIME_TIMESTAMP_FILE", root.join("run/clock"));
        agent.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("NO_FAKE_STAT", "1");
    });
    agent.until_watching();
    const JUMPS: [&str; 6] = ["+400d", "-400d", "+3h", "-20y", "-10d", "+0"];
    for jump in JUMPS {
        // Replaced, so that no program reads half of it.
        root.write("run/clock.new", format!("{jump}\n"));
        std::fs::rename(root.join("run/clock.new"), root.join("run/clock")).unwrap();
        std::fs::remove_file(root.join("srv/app/conf")).unwrap();
        agent.until_said("repaired file:/srv/app/conf");
        for _ in 0..2 {
            agent.until_said(" unchanged: 1 entity");
        }
    }
    assert!(agent.status()["errors"].as_array().is_none_or(Vec::is_empty), "{}", agent.status());
    agent.stop();
    let events = events(&root);
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    are_different(&events);
    let year = |event: &Value| event["time"].as_str().unwrap()[..4].parse::<u32>().unwrap();
    assert!(events.iter().any(|event| year(event) < 2010), "the clock has not jumped");
    let kinds = kinds(&events);
    for kind in ["drifted", "repaired"] {
        assert_eq!(kinds.iter().filter(|other| *other == kind).count(), JUMPS.len(), "{kinds:?}");
    }
    assert!(root.holo(&["check"]).success() && root.holo(&["history"]).success());
}

/// Fills the agent's disk, including the last block of its event file.
pub(crate) const FILL: &str = r#"
cd /var/lib/holo-agent
cat /dev/zero >filler 2>/dev/null || true
head -c $(((4096 - $(stat -c %s events.jsonl) % 4096) % 4096)) /dev/zero | tr '\0' '\n' >>events.jsonl
"#;

fn full_disk() {
    let file = "[[file]]\npath = \"/srv/conf\"\ncontent = \"port 80\\n\"\nlimit = \"100/10m\"\n";
    let machine = machine_with_file().resource("files/app.toml", file);
    machine.must("mkdir -m 700 /var/lib/holo-agent && mount -t tmpfs -o size=64k,mode=700 tmpfs /var/lib/holo-agent");
    machine.must("systemctl start holo-agent");
    until(&machine, "holo-agent status | grep -q 'watching 1 entity'");
    let drifts_until = |times: usize| {
        machine.must("rm /srv/conf");
        let said = "journalctl -o cat -u holo-agent | grep -c '^repaired file:/srv/conf'";
        until(&machine, &format!("test -e /srv/conf && test $({said}) = {times}"));
    };
    let are_kept = |times: usize| {
        assert_eq!(kinds(&systemd::events(&machine))[1..], ["drifted", "repaired"].repeat(times));
    };
    machine.must(FILL);
    drifts_until(1);
    let obstacle = status(&machine)["spool_error"].as_str().unwrap_or_default().to_owned();
    assert!(obstacle.contains("events.jsonl: No space left on device"), "{obstacle:?}");
    until(
        &machine,
        "journalctl -u holo-agent | grep -q 'events wait in memory, as they cannot be kept: .*No space left'",
    );
    machine.must("holo-agent status | grep -q 'No space left'");
    drifts_until(2);
    are_kept(0);
    // When there is space again, the pending events are written with the next one.
    machine.must("rm /var/lib/holo-agent/filler");
    drifts_until(3);
    assert!(status(&machine)["spool_error"].is_null());
    are_kept(3);
    // Ending the agent also writes pending events.
    machine.must(FILL);
    drifts_until(4);
    assert!(status(&machine)["spool_error"].is_string());
    machine.must("rm /var/lib/holo-agent/filler && systemctl stop holo-agent");
    are_kept(4);
    machine.must("test ! -e /run/holo-agent");
    // Events that are lost nevertheless are logged.
    machine.must("systemctl start holo-agent");
    until(&machine, "holo-agent status | grep -q 'watching 1 entity'");
    machine.must(FILL);
    drifts_until(5);
    machine.must("systemctl stop holo-agent");
    until(
        &machine,
        "journalctl -u holo-agent | grep -q 'events that wait are lost with the runtime directory, .*No space left'",
    );
    assert_eq!(machine.must("systemctl show -P NRestarts -P Result holo-agent | sort"), "0\nsuccess\n");
}

/// Boots a machine whose agent is in the middle of a run.
fn machine_at_work() -> Overlay {
    let machine = machine_with_file();
    machine.script("/srv/holo-steps", STEPS);
    machine.write("/etc/holorc", "plugin steps=/srv/holo-steps\n");
    machine.write("/etc/holo/agent.toml", "watch = false\ninterval = \"1s\"\n");
    machine.must("mkdir -p /usr/share/holo/steps && touch /srv/waits && systemctl enable holo-agent");
    machine.must("systemctl start holo-agent");
    until(&machine, "test -s /srv/holo");
    machine.must("test -s /srv/is-a && test ! -e /srv/refreshes");
    machine
}

/// Lets the run continue, and checks that the refresh is done exactly once.
#[track_caller]
fn catches_up(machine: &Overlay) {
    machine.must("rm /srv/waits && systemctl start multi-user.target --no-block");
    until(machine, "test -s /srv/refreshes && test $(holo-agent events | grep -c ' unchanged') -ge 2");
    assert_eq!(machine.read("/srv/refreshes"), "refreshed\n");
    machine.must("systemctl stop holo-agent");
}

/// Checks for the event of an interrupted run, then that of the run that catches up, and no other with changes.
#[track_caller]
fn was_interrupted_once(events: &[Value]) {
    let kinds = kinds(events);
    assert_eq!(kinds[..2], ["run interrupted", "run changed"], "{kinds:?}");
    assert!(kinds[2..].iter().all(|kind| kind == "run unchanged"), "{kinds:?}");
    are_different(events);
}

fn reboot() {
    let mut machine = machine_at_work();
    machine.reboot();
    catches_up(&machine);
    let events = systemd::events(&machine);
    was_interrupted_once(&events);
    // The agent itself has reported it before the machine went down.
    let error = events[0]["error"].as_str().unwrap();
    assert_eq!(error, "interrupted by signal 15 while steps:b was at work");
}

fn power_cut() {
    let mut machine = machine_at_work();
    machine.cut_power();
    catches_up(&machine);
    was_interrupted_once(&systemd::events(&machine));
}
