//! Tests of what events say. The harness validates each line against the schema.

use crate::faults::{process, root_with_steps};
use crate::harness::{Agent, PATIENCE, events, program, root};
use holo_process::Program;
use holo_testing::binaries::built;
use holo_testing::{ScratchRoot, trial_of};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::time::Instant;

pub(crate) fn trials() -> Vec<Trial> {
    let case = |name, case: fn()| trial_of(name, &[], case);
    vec![
        case(
            "an error in a definition is an event with file and line, once until the file changes or the error is gone",
            definition_errors,
        ),
        case("a failure has the same kind and the plugin's reason in a run and in the watch", failures),
        case("a lock that is held makes a run busy, and its holder is named", busy),
        case("a storm is one event with a count and a sample", storm),
        case("a storm is recorded even if the agent is killed before it is over", storm_and_kill),
        case("old events take no memory", old_events),
    ]
}

/// Returns the events of a kind.
fn of_kind(root: &ScratchRoot, kind: &str) -> Vec<Value> {
    events(root).into_iter().filter(|event| event["kind"] == kind).collect()
}

fn run_now(root: &ScratchRoot) -> String {
    let output = program(root, &["run-now", "--wait"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn definition_errors() {
    let root = root("watch = false\n");
    let mut agent = Agent::start(&root);
    agent.until_said("changed: 1 entity");
    let file = root.join("usr/share/holo/files/app.toml");
    let broken = "[[file]]\npath = \"/srv/app/conf\"\nconten = \"\"\n";
    fs::write(&file, broken).unwrap();
    let said = run_now(&root);
    assert!(
        said.contains(" failed: ") && said.contains("app.toml:3: file:/srv/app/conf: conten: unknown key"),
        "{said}"
    );
    run_now(&root);
    let errors = of_kind(&root, "definition_error");
    assert_eq!((errors.len(), &errors[0]["line"]), (1, &3.into()), "{errors:?}");
    assert_eq!(errors[0]["file"], file.to_str().unwrap());
    assert!(errors[0]["reason"].as_str().unwrap().starts_with("file:/srv/app/conf: conten: "), "{errors:?}");
    fs::write(&file, format!("\n{broken}")).unwrap();
    run_now(&root);
    let lines: Vec<Value> = of_kind(&root, "definition_error").iter().map(|error| error["line"].clone()).collect();
    assert_eq!(lines, [3, 4]);
    // The file stays the same, and its data come and go.
    fs::remove_file(&file).unwrap();
    root.write(
        "usr/share/holo/files/site.toml.jinja",
        "[[file]]\npath = \"/srv/app/conf\"\ncontent = \"{{ data.port + 1 }}\"\n",
    );
    for number in [1, 2] {
        run_now(&root);
        run_now(&root);
        assert_eq!(of_kind(&root, "definition_error").len(), 2 + number);
        root.write("etc/holo/data/common.toml", "port = 80\n");
        assert!(run_now(&root).contains(" changed: ") || number == 2);
        fs::remove_file(root.join("etc/holo/data/common.toml")).unwrap();
    }
    agent.stop();
}

fn old_events() {
    const SIZE: usize = 4 << 20;
    let root = root("");
    let file = root.join("var/lib/holo-agent/events.jsonl");
    let memory = || {
        let mut agent = Agent::start(&root);
        agent.until_watching();
        let status = fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
        agent.stop();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
    };
    let (new, events) = (memory(), fs::read(&file).unwrap());
    let many = events.repeat(SIZE / events.len() + 1);
    fs::write(&file, &many).unwrap();
    let old = memory();
    assert!(old < new + 1000, "{new} kB became {old} kB");
    // They were too many for further ones.
    assert!(fs::metadata(&file).unwrap().len() < SIZE as u64 * 3 / 4);
}

fn failures() {
    let root = root("");
    let mut agent = Agent::start(&root);
    agent.until_watching();
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    agent.until_said("repaired file:/srv/app/conf");
    let in_the_way = || {
        fs::remove_file(root.join("srv/app/conf")).unwrap();
        fs::create_dir(root.join("srv/app/conf")).unwrap();
    };
    let out_of_the_way = || fs::remove_dir(root.join("srv/app/conf")).unwrap();
    in_the_way();
    agent.until_said("failed file:/srv/app/conf: ");
    out_of_the_way();
    agent.until_said("repaired file:/srv/app/conf");
    root.write("etc/holo/agent.toml", "watch = false\n");
    agent.signal(Signal::HUP);
    agent.until_status("that nothing is watched", |status| status["doing"]["state"] == "waiting");
    in_the_way();
    let said = run_now(&root);
    assert!(said.contains(" failed: 1 entity: 1 failed") && said.contains(": file:/srv/app/conf: "), "{said}");
    agent.stop();
    let failed = of_kind(&root, "failed");
    let reasons: Vec<&str> = failed.iter().map(|event| event["reason"].as_str().unwrap()).collect();
    assert!(reasons.len() == 2 && reasons.iter().all(|reason| reason.contains("is a directory")), "{reasons:?}");
    assert_eq!(reasons[0], reasons[1]);
}

fn busy() {
    let root = root_with_steps();
    let mut holo = Program::new(built("holo"));
    holo.arg("apply").env("HOLO_ROOT_DIR", root.path()).env("TMPDIR", root.join("tmp"));
    let mut other = holo.start().unwrap();
    process(&root, "srv/holo");
    let mut agent = Agent::start(&root);
    let said = agent.until_said("holds the lock");
    assert!(said.contains(&format!(" could not be done: holo[{}] holds the lock", other.id())), "{said}");
    fs::remove_file(root.join("srv/waits")).unwrap();
    agent.until_said(" unchanged: 4 entities");
    agent.stop();
    other.wait(None, &mut |_| {}).unwrap();
    let runs = of_kind(&root, "run");
    assert_eq!((&runs[0]["result"], &runs[0]["busy"]["pid"]), (&"busy".into(), &other.id().into()), "{runs:?}");
    assert_eq!(runs[0]["busy"]["command"], "holo");
}

fn root_with_many() -> ScratchRoot {
    let define = |number: usize| format!("[[file]]\npath = \"/srv/app/{number}\"\ncontent = \"\"\n");
    root("").resource("files/many.toml", (0..100).map(define).collect::<String>())
}

/// Checks that a hundred events of each kind were recorded.
#[track_caller]
fn hundred_of_each(root: &ScratchRoot) {
    for kind in ["drifted", "repaired"] {
        let single = of_kind(root, kind).len();
        let storms: Vec<Value> = of_kind(root, "storm").into_iter().filter(|storm| storm["of"] == kind).collect();
        let counted: u64 = storms.iter().map(|storm| storm["count"].as_u64().unwrap()).sum();
        assert!(single >= 20 && single as u64 + counted == 100 && storms.len() <= 5, "{kind}: {single}, {storms:?}");
        for storm in &storms {
            let (sample, count) = (storm["sample"].as_array().unwrap(), storm["count"].as_u64().unwrap());
            assert!(sample.len() as u64 == count.min(10), "{storms:?}");
            assert!(sample[0].as_str().unwrap().starts_with("file:/srv/app/"), "{storms:?}");
        }
    }
}

/// What has been counted is recorded once by the next agent, with numbers that no other event has.
fn storm_and_kill() {
    let root = root_with_many();
    let mut agent = Agent::start(&root);
    agent.until_watching();
    (0..100).for_each(|number| fs::remove_file(root.join(format!("srv/app/{number}"))).unwrap());
    let begun = Instant::now();
    let held = |kind: &str| {
        // On a slow machine, a storm may be over and recorded already. One that is recorded in between is not counted twice.
        let recorded = of_kind(&root, "storm");
        let events = fs::read_to_string(root.join("run/holo-agent/events.jsonl")).unwrap_or_default();
        // The last line may be incomplete.
        let held = events.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let storms = held.chain(recorded).filter(|storm| storm["of"] == kind);
        storms.filter_map(|storm| storm["count"].as_u64()).sum::<u64>()
    };
    while ["drifted", "repaired"].iter().any(|kind| held(kind) + (of_kind(&root, kind).len() as u64) < 100) {
        assert!(begun.elapsed() < PATIENCE, "{}", held("drifted"));
    }
    agent.signal(Signal::KILL);
    assert_eq!(agent.end().0, None);
    let mut agent = Agent::start(&root);
    agent.until_watching();
    agent.stop();
    hundred_of_each(&root);
    let numbers: Vec<u64> = events(&root).iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|one, other| one < other), "{numbers:?}");
    assert!(!root.exists("run/holo-agent/events.jsonl"));
}

fn storm() {
    let root = root_with_many();
    let mut agent = Agent::start(&root);
    agent.until_watching();
    (0..100).for_each(|number| fs::remove_file(root.join(format!("srv/app/{number}"))).unwrap());
    agent.until_said("repaired ");
    agent.until_said("more entities: ");
    agent.stop();
    hundred_of_each(&root);
}
