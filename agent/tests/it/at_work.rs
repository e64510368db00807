//! Tests of the agent with a real `holo` on a temporary root.

use crate::harness::{Agent, PATIENCE, events, kinds, program, root, system_calls};
use holo_testing::binaries::built;
use holo_testing::require::FANOTIFY;
use holo_testing::{Need, ScratchRoot, trial_of};
use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

pub(crate) fn trials() -> Vec<Trial> {
    let case = |name, case: fn()| trial_of(name, &[], case);
    vec![
        case("it applies at once, repairs what drifts, and says so", keeps),
        trial_of("who writes what it has repaired is in its events and its state", &[Need::Root, FANOTIFY], writers),
        case("what a person has edited is kept and overwritten if that is the policy", overwrites),
        case("it only reports in the mode for that", reports),
        case("whole runs come again after the interval, and the watch goes on in between", again),
        case("a watch that is stopped is noticed within a minute, and replaced", stopped_watch),
        case("why nothing is watched is in its status as long as that is so", blind_watch),
        case("another policy for what a person has edited counts at once", another_policy),
        case("a configuration that is broken is named, and the one from before counts", reloads),
        case("a configuration that is broken from the first ends it", broken_from_the_first),
        case("a second agent does not take the first one's place", second),
        case("a socket that a crash has left is taken over", crashed),
        case("a holo that is missing, dies, or says other things is named, and tried again", bad_holo),
        case("a holo that hangs is ended when its time is over", hanging),
        case("it ends while a run is at work, and waits for that", ends_with_its_child),
        case("status without an agent says so", no_agent),
        trial_of("metrics are as promtool wants them, by HTTP and in a file", &[Need::Program("promtool")], metrics),
        trial_of("it is small and makes no system call while nothing happens", &[Need::Program("strace")], idle),
    ]
}

fn keeps() {
    let root = root("");
    let mut agent = Agent::start(&root);
    agent.until_said("changed: 1 entity: 1 changed");
    let status = agent.until_watching();
    assert_eq!(root.read("srv/app/conf"), "port 80\n");
    assert_eq!((status["last"]["result"].as_str(), status["mode"].as_str()), (Some("changed"), Some("enforce")));
    assert_eq!(status["connection"], "none");
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    agent.until_said("drifted file:/srv/app/conf");
    agent.until_said("repaired file:/srv/app/conf");
    assert_eq!(root.read("srv/app/conf"), "port 80\n");
    // A change that requires force is reported, but not repaired.
    root.write("srv/app/conf", "port 81\n");
    agent.until_said("edited file:/srv/app/conf (it was ");
    let status = agent.status();
    assert!(status["drifted"]["file:/srv/app/conf"]["since"].is_string(), "{status:#}");
    let mode = |path| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("run/holo-agent/control.sock"), mode("var/lib/holo-agent/events.jsonl")), (0o600, 0o600));
    assert_eq!((mode("run/holo-agent"), mode("var/lib/holo-agent")), (0o700, 0o700));
    agent.stop();
    assert_eq!(kinds(&events(&root)), ["run changed", "drifted", "repaired", "edited"]);
    let people = program(&root, &["events"]).output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&people).contains(" repaired file:/srv/app/conf\n"));
}

fn overwrites() {
    let root = root("[defaults]\non_edit = \"overwrite\"\n");
    let mut agent = Agent::start(&root);
    agent.until_watching();
    root.write("srv/app/conf", "port 81\n");
    agent.until_said("repaired file:/srv/app/conf");
    assert_eq!(root.read("srv/app/conf"), "port 80\n");
    agent.stop();
    assert_eq!(kinds(&events(&root)), ["run changed", "drifted", "repaired"]);
    assert_eq!(root.holo(&["history", "edited", "file:/srv/app/conf"]).stdout, "port 81\n");
    // What was edited while no agent was at work is found when one starts.
    root.write("srv/app/conf", "port 82\n");
    let mut agent = Agent::start(&root);
    agent.until_said("repaired file:/srv/app/conf");
    agent.stop();
    assert_eq!(root.holo(&["history", "edited", "file:/srv/app/conf"]).stdout, "port 82\n");
}

/// Writes a file, and then sleeps long enough to be detected.
const WRITER: &str = "#!/bin/sh\necho 'port 82' >\"$1\"\nsleep 2\n";

fn writers() {
    let root = root("").script("other-manager", WRITER);
    let mut agent = Agent::start(&root);
    agent.until_watching();
    // Writing processes are only tracked after a repair.
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    agent.until_said("repaired file:/srv/app/conf");
    let mut writer = holo_process::Program::new(root.join("other-manager"));
    let writer = writer.arg(root.join("srv/app/conf")).start().unwrap();
    let named = format!("written by other-manager[{}]", writer.id());
    agent.until_said(&named);
    let status = agent.status();
    assert_eq!(status["drifted"]["file:/srv/app/conf"]["writer"]["pid"], writer.id(), "{status:#}");
    let people = |command: &str| {
        let output = program(&root, &[command]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(people("status").contains(&named), "{}", people("status"));
    agent.stop();
    assert_eq!(events(&root).last().unwrap()["writer"]["command"], "other-manager");
    assert!(people("events").contains(&named), "{}", people("events"));
}

fn reports() {
    let root = root("mode = \"report\"\n");
    let mut agent = Agent::start(&root);
    let said = agent.until_said("check");
    assert!(said.contains("pending: 1 entity: 1 pending"), "{said}");
    let status = agent.until_watching();
    assert_eq!(status["doing"]["apply"], false);
    assert!(status["drifted"]["file:/srv/app/conf"].is_object(), "{status:#}");
    assert!(!root.exists("srv/app/conf"));
    // A manual apply repairs it.
    assert!(root.holo(&["apply"]).success());
    agent.until_said("returned file:/srv/app/conf");
    agent.stop();
}

/// Returns the PID of the agent's watch.
fn watch_of(agent: &Agent<'_>) -> Option<Pid> {
    let parent = format!("PPid:\t{}\n", agent.pid());
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let mut watches = pids.filter(|pid: &i32| {
        let read = |file| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        read("status").contains(&parent) && read("cmdline").contains("\0watch\0")
    });
    Pid::from_raw(watches.next()?)
}

fn again() {
    let root = root("interval = \"2s\"\n");
    let mut agent = Agent::start(&root);
    agent.until_said("changed");
    agent.until_watching();
    let watch = watch_of(&agent);
    assert!(watch.is_some());
    for _ in 0..2 {
        agent.until_said("unchanged: 1 entity: 1 unchanged");
    }
    // What is repaired by a run that a person asks for is no drift.
    root.write("usr/share/holo/files/more.toml", "[[file]]\npath = \"/srv/app/more\"\ncontent = \"x\"\n");
    let run = program(&root, &["run-now", "--wait"]).output().unwrap();
    assert_eq!(run.ended.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(root.read("srv/app/more"), "x");
    agent.until_watching();
    assert_eq!(watch_of(&agent), watch, "the same watch has done all that");
    agent.stop();
    assert_eq!(watch_states(&root), ["started"]);
}

/// Returns the states of watches in events.
fn watch_states(root: &ScratchRoot) -> Vec<String> {
    let events = events(root);
    events
        .iter()
        .filter(|event| event["kind"] == "watch")
        .map(|event| event["state"].as_str().unwrap().into())
        .collect()
}

fn stopped_watch() {
    let root = root("");
    let mut agent = Agent::start(&root);
    agent.until_watching();
    let watch = watch_of(&agent).unwrap();
    kill_process(watch, Signal::STOP).unwrap();
    let begun = Instant::now();
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    while watch_states(&root).len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", agent.status());
        std::thread::sleep(Duration::from_millis(100));
    }
    let status = agent.status();
    assert_eq!(status["watch_error"], "it did not answer for 54s", "{status:#}");
    agent.until_said("repaired file:/srv/app/conf");
    assert_eq!(watch_states(&root), ["started", "hung", "restarted"]);
    let status = agent.until_watching();
    assert!(status["watch_error"].is_null() && watch_of(&agent) != Some(watch), "{status:#}");
    agent.stop();
}

fn blind_watch() {
    let root = root("");
    let mut agent = Agent::start(&root);
    agent.until_watching();
    root.write("etc/holorc.d/99-bad", "plugn files\n");
    let status = agent.until_status("why nothing is watched", |status| status["watch_error"].is_string());
    let error = status["watch_error"].as_str().unwrap();
    assert!(error.contains("unknown command: plugn files") && status["doing"]["entities"].is_null(), "{status:#}");
    fs::remove_file(root.join("etc/holorc.d/99-bad")).unwrap();
    assert!(agent.until_watching()["watch_error"].is_null());
    agent.stop();
}

fn another_policy() {
    let root = root("");
    let mut agent = Agent::start(&root);
    agent.until_watching();
    root.write("srv/app/conf", "port 81\n");
    agent.until_said("edited file:/srv/app/conf");
    root.write("etc/holo/agent.toml", "[defaults]\non_edit = \"overwrite\"\n");
    agent.signal(Signal::HUP);
    agent.until_said("repaired file:/srv/app/conf");
    // A run that it is asked for has the same policy.
    let run = program(&root, &["run-now", "--wait"]).output().unwrap();
    assert_eq!(run.ended.code(), Some(0));
    agent.stop();
}

fn reloads() {
    let root = root("");
    let mut agent = Agent::start(&root);
    agent.until_watching();
    root.write("etc/holo/agent.toml", "watch = true\nmode = \"reports\"\n");
    agent.signal(Signal::HUP);
    let said = agent.until_said("goes on to count");
    assert!(said.contains("etc/holo/agent.toml:2: mode: "), "{said}");
    let status = agent.until_status("the error", |status| status["config_error"].is_string());
    assert_eq!(status["mode"], "enforce");
    root.write("etc/holo/agent.toml", "mode = \"report\"\n");
    agent.signal(Signal::HUP);
    agent.until_status("the new mode", |status| status["doing"]["apply"] == false && status["config_error"].is_null());
    root.write("etc/holo/agent.toml", "watch = false\n");
    agent.signal(Signal::HUP);
    agent.until_status("that nothing is watched", |status| status["doing"]["state"] == "waiting");
    agent.stop();
}

fn broken_from_the_first() {
    let root = root("interval = 0\n");
    let (code, said) = Agent::start(&root).end();
    assert_eq!(code, Some(1));
    assert!(said.contains("etc/holo/agent.toml:1: interval: "), "{said}");
    let checked = program(&root, &["check-config"]).output().unwrap();
    assert_eq!((checked.ended.code(), String::from_utf8_lossy(&checked.stderr).into_owned()), (Some(1), said));
    root.write("other.toml", "interval = \"1h\"\n");
    assert_eq!(program(&root, &["check-config", "other.toml"]).output().unwrap().ended.code(), Some(0));
    assert_eq!(program(&root, &["check-config", "none.toml"]).output().unwrap().ended.code(), Some(1));
}

fn second() {
    let root = root("");
    let mut agent = Agent::start(&root);
    agent.until_watching();
    let (code, said) = Agent::start(&root).end();
    assert_eq!(code, Some(1));
    assert!(said.contains("an agent runs already"), "{said}");
    agent.until_watching();
    agent.stop();
}

fn crashed() {
    let root = root("");
    let mut agent = Agent::start(&root);
    agent.until_said("changed");
    agent.until_watching();
    agent.signal(Signal::KILL);
    assert_eq!(agent.end().0, None);
    assert!(root.exists("run/holo-agent/control.sock"));
    let mut agent = Agent::start(&root);
    // The last run is recent, so that none is due.
    let status = agent.until_watching();
    assert_eq!(status["last"]["result"], "changed");
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    // The first agent's watch has ended with it.
    agent.until_said("repaired file:/srv/app/conf");
    let said = agent.stop();
    assert!(!said.contains("apply"), "{said}");
}

/// Returns a root whose agent runs this script instead of holo.
fn with_script(script: &str, config: &str) -> ScratchRoot {
    let root = root("").script("holo", script);
    root.write("etc/holo/agent.toml", format!("holo = \"{}\"\n{config}", root.join("holo").display()));
    root
}

fn bad_holo() {
    let summary = "{\"version\":1,\"event\":\"summary\",\"exit_code\":0}";
    for (script, says) in [
        ("#!/bin/sh\necho 'out of order' >&2\nexit 9\n", "exit status 9: out of order"),
        ("#!/bin/sh\nkill -SEGV $$\n", "signal: segmentation fault"),
        ("#!/bin/sh\necho Hello\n", "exit status 0"),
        ("#!/nowhere/interpreter\n", "holo"),
        (&format!("#!/bin/sh\necho '{summary}'\nexit 3\n"), "exit status 3"),
    ] {
        let root = with_script(script, "watch = false\n");
        let mut agent = Agent::start(&root);
        let said = agent.until_said("could not be done: ");
        assert!(said.contains(says), "{script}: {said}");
        agent.stop();
        assert_eq!(kinds(&events(&root)), ["run error"], "{script}");
    }
    // A missing program may appear later.
    let root = with_script("", "interval = \"1s\"\n");
    fs::remove_file(root.join("holo")).unwrap();
    let mut agent = Agent::start(&root);
    agent.until_said("no such file");
    agent.until_said("holo watch: ");
    let status = agent.status();
    assert!(status["watch_error"].as_str().is_some_and(|error| error.contains("no such file")), "{status:#}");
    root.write_script("holo", format!("#!/bin/sh\necho '{summary}'\n"));
    agent.until_said("apply unchanged");
    // A watch that ends by itself is logged and retried.
    agent.until_said("holo watch has ended (exit status 0)");
    agent.until_said("holo watch was started again: exit status 0");
    agent.until_said("holo watch has ended (exit status 0)");
    let shown = program(&root, &["status"]).output().unwrap().stdout;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(shown.contains("     error nothing is watched: exit status 0\n"), "{shown}");
    // With the usual holo, the error is over.
    fs::remove_file(root.join("holo")).unwrap();
    std::os::unix::fs::symlink(built("holo"), root.join("holo")).unwrap();
    assert!(agent.until_watching()["watch_error"].is_null());
    agent.stop();
    let states: Vec<String> = kinds(&events(&root)).into_iter().filter(|kind| kind.starts_with("watch")).collect();
    assert_eq!(states[..3], ["watch ended", "watch restarted", "watch ended"], "{states:?}");
}

fn hanging() {
    let root = with_script("#!/bin/sh\nexec sleep 600\n", "watch = false\ntimeout = \"1s\"\n");
    let mut agent = Agent::start(&root);
    let said = agent.until_said("was ended");
    assert!(said.contains("it took too long"), "{said}");
    agent.stop();
    assert_eq!(kinds(&events(&root)), ["run interrupted"]);
}

fn ends_with_its_child() {
    // Like an apply that finishes a step that must not be interrupted.
    let script = "#!/bin/sh\ntrap 'sleep 1; echo done >\"$HOLO_ROOT_DIR/done\"; exit 143' TERM\n\
                  echo begun >\"$HOLO_ROOT_DIR/begun\"\nwhile :; do sleep 0.1; done\n";
    let root = with_script(script, "");
    let mut agent = Agent::start(&root);
    agent.until_status("that it runs", |status| status["doing"]["state"] == "running");
    let begun = Instant::now();
    while !root.exists("begun") && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    agent.signal(Signal::TERM);
    agent.until_status("that it ends", |status| status["doing"]["state"] == "stopping");
    agent.stop();
    assert_eq!(root.read("done"), "done\n");
    assert_eq!(kinds(&events(&root)), ["run interrupted"]);
}

fn no_agent() {
    let root = root("");
    let output = program(&root, &["status"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.ended.code(), Some(1));
    assert!(said.contains("no agent answers at ") && said.contains("is holo-agent.service running?"), "{said}");
}

/// Returns an unused address.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn metrics() {
    let root = root("");
    let address = free_address();
    let textfile = root.join("metrics/holo.prom");
    root.write("etc/holo/agent.toml", format!("metrics = \"{address}\"\ntextfile = \"{}\"\n", textfile.display()));
    let mut agent = Agent::start(&root);
    agent.until_watching();
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    agent.until_said("repaired file:/srv/app/conf");
    // Clients that only connect do not block others.
    let _idle: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    let began = Instant::now();
    let answer = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    // Otherwise it would wait for their timeouts of ten seconds.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("version=0.0.4"), "{head}");
    for line in [
        "holo_runs_total{result=\"changed\",verb=\"apply\"} 1",
        "holo_runs_total{result=\"failed\",verb=\"check\"} 0",
        "holo_entities{plugin=\"files\",result=\"changed\"} 1",
        "holo_drift_events_total 1",
        "holo_repairs_total 1",
        "holo_watching{mode=\"apply\"} 1",
        "holo_run_duration_seconds_count{verb=\"apply\"} 1",
    ] {
        assert!(body.lines().any(|given| given == line), "{line} is missing: {body}");
    }
    assert!(ask(address, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(
        ask(address, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").starts_with("HTTP/1.1 405 ")
    );
    assert!(ask(address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let written = fs::read_to_string(&textfile).unwrap();
    assert!(written.contains("holo_repairs_total 1\n"), "{written}");
    assert_eq!(fs::metadata(&textfile).unwrap().permissions().mode() & 0o777, 0o644);
    for text in [body, &written] {
        let mut promtool = holo_process::Program::new("promtool");
        let judged = promtool.args(["check", "metrics"]).stdin(text.as_bytes()).output().unwrap();
        let said = [judged.stdout, judged.stderr].concat();
        assert_eq!((judged.ended.code(), String::from_utf8_lossy(&said).as_ref()), (Some(0), ""), "{text}");
    }
    agent.stop();
}

fn idle() {
    let root = root("");
    let mut agent = Agent::start(&root);
    agent.until_watching();
    // Wait until the start is completed, and the events are synced.
    std::thread::sleep(Duration::from_millis(3500));
    let calls = system_calls(&root, &[agent.pid()]);
    assert!(calls.is_empty(), "{calls:?}");
    let status = fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: u32 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 15 * 1024, "{resident}");
    agent.stop();
}
