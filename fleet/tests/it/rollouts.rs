//! Rollouts, from an empty server to files on hosts.

use crate::harness::{Host, NATS, NEEDS, Operator, PATIENCE, Server, free_port, get, prepared};
use holo_process::Program;
use holo_testing::Need;
use holo_testing::ScratchRoot;
use holo_testing::binaries::built;
use holo_testing::require::trial_of;
use libtest_mimic::Trial;
use serde_json::json;
use std::fs;
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial_of("hosts report, answer and get data", &NEEDS, hosts_report),
        trial_of("a bundle reaches three hosts in waves", &NEEDS, three_hosts),
        trial_of("every command writes JSON", &NEEDS, every_command),
        trial_of("a bundle that makes a host unhealthy halts at the first wave and is rolled back", &NEEDS, unhealthy),
        trial_of(
            "a bundle that fails halts, and a rollout is resumed, aborted, rolled back and promoted",
            &NEEDS,
            failing,
        ),
        trial_of("a preview shows what a bundle would change, and changes nothing", &NEEDS, a_preview_changes_nothing),
        trial_of("hosts that failed and refused try again when a rollout is resumed", &NEEDS, mended),
        trial_of("metrics of a controller are as promtool wants them", &WITH_PROMTOOL, metrics),
        trial_of("a controller that is killed is replaced, and a paused host is waited for", &NEEDS, takeover),
    ]
}

fn three_hosts() {
    let (server, operator) = prepared();
    assert!(operator.must(&["init"]).lines().all(|line| line.starts_with("unchanged")));
    let mut hosts =
        ["web1", "web2.example.org", "web3"].map(|name| Host::start(&server, &operator, name, "channel = \"web\""));
    operator.until(&["hosts", "--json"], |lines| lines.len() == 3);
    let bundle = operator.publish("site", "1", "port 80");
    let run = operator
        .run(&["rollout", "start", "web", &bundle, "--waves", "1,100%", "--soak", "1s", "--follow", "-m", "first"]);
    assert!(run.success(), "{}{}", run.stdout_lossy(), run.stderr_lossy());
    for host in &mut hosts {
        host.until_file("srv/app/conf", "port 80\n");
    }
    let status = operator.json(&["status", "--json"]);
    assert_eq!(
        status[0]["hosts"],
        json!({"total": 3, "in_step": 3, "pending": 0, "waiting": 0, "failed": 0, "unhealthy": 0, "silent": 0})
    );
    assert_eq!((&status[0]["bundle"], &status[0]["rollout"]["state"]), (&json!("site@1"), &json!("complete")));
    let log = operator.must(&["log", "web"]);
    assert!(log.contains("started") && log.contains("first") && log.contains("complete"), "{log}");
}

fn every_command() {
    let (server, operator) = prepared();
    let mut host = Host::start(&server, &operator, "web1", "channel = \"web\"");
    operator.until(&["hosts", "--json"], |lines| lines.len() == 1);
    let path = |path: &str| operator.root.join(path).to_string_lossy().into_owned();
    let lines = |arguments: &[&str]| operator.json(&[arguments, &["--json"]].concat());
    let only = |arguments: &[&str], key: &str| {
        let mut lines = lines(arguments);
        assert!(lines.len() == 1 && !lines[0][key].is_null(), "{arguments:?}: {lines:#?}");
        lines.remove(0)[key].take()
    };
    let made = lines(&["init"]);
    assert!(made.len() == 6 && made.iter().all(|line| line["state"] == "unchanged"), "{made:#?}");
    operator.root.write("users.toml", "[[host]]\nname = \"web1\"\nchannel = \"web\"\n");
    assert_eq!(only(&["accounts", "--hosts", &path("users.toml"), "--output", &path("users")], "users"), 1);

    operator.root.write("srv/b/holo-bundle.toml", "name = \"site\"\nversion = \"1\"\n");
    operator.root.write("srv/b/etc/holo/data/common.toml", "port = 80\n");
    let file = path("site.tar.zst");
    assert_eq!(only(&["bundle", "build", &path("srv/b"), "--output", &file], "name"), "site");
    assert_eq!(only(&["bundle", "sign", &file], "file"), path("site.tar.zst.sig"));
    assert_eq!(only(&["bundle", "verify", &file], "signed_by"), "anna");
    assert_eq!(only(&["bundle", "push", &file], "signed"), true);
    assert_eq!(only(&["bundle", "show", "site"], "version"), "1");

    operator.root.write("port.toml", "port = 81\n");
    assert_eq!(only(&["data", "set", "role.web", &path("port.toml")], "layer"), "role.web");
    assert_eq!(only(&["data", "get", "role.web"], "data"), json!({"port": 81}));
    assert_eq!(only(&["data", "list"], "layer"), "role.web");

    assert_eq!(only(&["rollout", "start", "web", "site", "--waves", "1"], "state"), "running");
    assert_eq!(only(&["rollout", "pause", "web", "-m", "lunch"], "message"), "lunch");
    assert_eq!(only(&["rollout", "resume", "web"], "state"), "running");
    assert_eq!(only(&["rollout", "abort", "web"], "state"), "aborted");
    let followed = lines(&["rollout", "start", "web", "site", "--waves", "100%", "--soak", "1s", "--follow"]);
    assert_eq!(followed.last().unwrap()["state"], "complete", "{followed:#?}");
    assert_eq!(only(&["promote", "web", "other"], "channel"), "other");
    assert_eq!(lines(&["log", "web"]).last().unwrap()["what"], "complete");
    assert_eq!(only(&["report", "--output", &path("page.html")], "page"), path("page.html"));
    assert_eq!(only(&["run", "--hosts", "true", "check"], "exit_code"), 0);
    let installed = host.root.run(built("holo-fleet"), &["host", "show", "--json"]);
    assert!(installed.stdout_lossy().contains("\"installed\":{\"name\":\"site\""), "{installed}");
    host.stop();
    assert_eq!(only(&["hosts", "remove", "web1"], "host"), "web1");

    operator.publish("site", "2", "x");
    assert_eq!(only(&["bundle", "delete", "site@2"], "version"), "2");
    operator.publish("site", "3", "x");
    assert_eq!(only(&["bundle", "prune", "--keep", "0"], "version"), "3");
}

fn hosts_report() {
    let (server, operator) = prepared();
    let section = "roles = [\"eu\", \"web\"]\nreport_facts = [\"os.id\"]";
    let mut host = Host::start(&server, &operator, "web2.example.org", section);
    let hosts =
        operator.until(&["hosts", "--json"], |lines| lines.first().is_some_and(|line| line["result"] == "unchanged"));
    assert_eq!(
        (&hosts[0]["host"], &hosts[0]["facts"]),
        (&json!("web2.example.org"), &json!({"os": {"id": "unittest"}}))
    );
    assert!(
        operator
            .must(&["hosts", "--where", "facts.os.id == \"unittest\" and \"eu\" in roles"])
            .contains("web2.example.org")
    );
    assert_eq!(operator.must(&["hosts", "--where", "facts.os.id == \"debian\""]), "");
    let events = operator.until(&["events", "--json", "--host", "web2.example.org"], |lines| lines.len() >= 3);
    assert!(events.iter().all(|event| event["host"] == "web2.example.org"), "{events:#?}");
    assert!(events.iter().any(|event| event["kind"] == "fleet" && event["state"] == "connected"), "{events:#?}");

    operator.root.write("data.toml", "port = 80\nname = \"common\"\n");
    operator.must(&["data", "set", "common", &operator.root.join("data.toml").to_string_lossy()]);
    operator.root.write("web.toml", "port = 8080\n");
    operator.must(&["data", "set", "role.web", &operator.root.join("web.toml").to_string_lossy()]);
    host.until_file("etc/holo/fleet-data/01-role.web.toml", "port = 8080\n");
    let data = host
        .root
        .run(built("holo"), &["data", "--explain"])
        .stdout_lossy()
        .replace(&*host.root.path().to_string_lossy(), "");
    let expected = "name: common\n    from /etc/holo/fleet-data/03-common.toml:2\nport: 8080\n    from /etc/holo/fleet-data/01-role.web.toml:1\n    over /etc/holo/fleet-data/03-common.toml:1: 80\n";
    assert_eq!(data, expected);

    let run = operator.run(&["run", "--hosts", "true", "check"]);
    assert_eq!(run.stdout_lossy(), "== web2.example.org\n");
    let run = operator.run(&["run", "--hosts", "true", "apply"]);
    assert!(!run.success() && run.stdout_lossy().contains("does not allow apply"), "{}", run.stdout_lossy());
    host.stop();
    let run = operator.run(&["run", "--hosts", "true", "check", "--deadline", "1s"]);
    assert!(run.stderr_lossy().contains("web2.example.org: no answer"), "{}", run.stderr_lossy());
}

/// Starts hosts of a channel, which run a first bundle.
fn running(server: &Server, operator: &Operator, names: &[&str]) -> Vec<Host> {
    let section = "channel = \"web\"";
    let host = |name: &&str| Host::with_files(server, operator, name, section, with_pulse);
    let hosts: Vec<Host> = names.iter().map(host).collect();
    operator.until(&["hosts", "--json"], |lines| lines.len() == names.len());
    let bundle = operator.publish("site", "1", "port 80");
    operator.must(&["rollout", "start", "web", &bundle, "--waves", "100%", "--soak", "0s", "--follow"]);
    hosts
}

/// Hosts say what a bundle would change, or why they would refuse it, and stay as they are.
fn a_preview_changes_nothing() {
    let (server, operator) = prepared();
    let mut hosts = running(&server, &operator, &["w1", "w2"]);
    operator.root.write("srv/next/holo-bundle.toml", "name = \"site\"\nversion = \"2\"\n");
    let definition = "[[file]]\npath = \"/srv/app/other\"\ncontent = \"{{ data.text }}\\n\"\n";
    operator.root.write("srv/next/usr/share/holo/files/20-other.toml.jinja", definition);
    operator.root.write("srv/next/etc/holo/data/common.toml", "text = \"as previewed\"\n");
    let holorc = format!("plugin files={}\n", built("holo-files").display());
    operator.root.write("srv/next/etc/holorc.d/10-files", holorc);
    let bundle = operator.publish_folder("srv/next", "site", "2");
    let definition = hosts[1].root.read("usr/share/holo/files/10-app.toml");
    hosts[1].root.write("usr/share/holo/files/10-app.toml", format!("{definition}# a person's\n"));
    // The agent writes to its own directories at any time.
    let list = "find etc srv usr -type f -exec sha256sum {} + | sort; find etc srv usr | sort; ls -A var/lib/holo-fleet/previews";
    let state = |host: &Host| host.root.run("sh", &["-c", list]).stdout;
    let before: Vec<_> = hosts.iter().map(state).collect();
    let run = operator.run(&["rollout", "preview", "web", &bundle]);
    assert_eq!(run.status, Some(1), "{run}");
    let shown = run.stdout_lossy();
    for part in ["would remove", "/srv/app/conf", "would make", "/srv/app/other", "+as previewed"] {
        assert!(shown.contains(part), "{run}");
    }
    assert!(shown.contains("/usr/share/holo/files/10-app.toml was changed since the bundle was installed"), "{run}");
    let answers = operator.json(&["rollout", "preview", "web", &bundle, "--hosts", "host == 'w1'", "--json"]);
    assert_eq!((answers.len(), &answers[0]["host"], &answers[0]["exit_code"]), (1, &json!("w1"), &json!(3)));
    let none = operator.run(&["rollout", "preview", "db", &bundle]);
    assert!(none.stderr_lossy().contains("no such host follows channel db"), "{none}");
    let after: Vec<_> = hosts.iter().map(state).collect();
    assert_eq!(before, after);
    let rollout =
        ["rollout", "start", "web", &bundle, "--waves", "100%", "--soak", "0s", "--max-failed", "50%", "--follow"];
    operator.must(&rollout);
    hosts[0].until_file("srv/app/other", "as previewed\n");
    assert!(!hosts[0].root.exists("srv/app/conf"));
}

/// Returns the content of a file on each host.
fn contents(hosts: &[Host]) -> Vec<String> {
    hosts.iter().map(|host| host.root.read("srv/app/conf").to_string()).collect()
}

/// Publishes the second version of the bundle, with a definition.
fn second(operator: &Operator, definition: &str) -> String {
    operator.root.write("srv/second/holo-bundle.toml", "name = \"site\"\nversion = \"2\"\n");
    operator.root.write("srv/second/usr/share/holo/files/10-app.toml", definition);
    let plugin = format!("plugin files={}\n", built("holo-files").display());
    operator.root.write("srv/second/etc/holorc.d/10-files", plugin);
    operator.publish_folder("srv/second", "site", "2")
}

/// A plugin with an entity that is not healthy with the second version.
const PULSE: &str = r#"#!/bin/sh
cd "$HOLO_ROOT_DIR" || exit 1
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\nHEALTH=1\n' ;;
scan) echo 'ENTITY: pulse:app' ;;
check | apply) echo 'not changed' >&3 ;;
health)
    state=ok
    ! grep -q 81 srv/app/conf || state=critical
    printf '%s\tpulse:app\t%s\n' $state 'it says so' >&3 ;;
esac
"#;

/// Adds that plugin to a host.
fn with_pulse(root: ScratchRoot) -> ScratchRoot {
    let root = root.file("etc/holorc.d/50-pulse", "plugin pulse\n").script("usr/lib/holo/holo-pulse", PULSE);
    root.dir("usr/share/holo/pulse")
}

const FIRST: &str = "[[file]]\npath = \"/srv/app/conf\"\ncontent = \"port 80\\n\"\n";
/// It is below a file.
const FAILING: &str = r#"[[file]]
path = "/etc/os-release/conf"
content = "port 81\n"
"#;

fn unhealthy() {
    let (server, operator) = prepared();
    let mut hosts = running(&server, &operator, &["web1", "web2", "web3"]);
    let before = operator.json(&["events", "--json", "--kind", "bundle"]).len();
    let bundle = second(&operator, FIRST.replace("80", "81").as_str());
    let start =
        ["rollout", "start", "web", &bundle, "--waves", "1,100%", "--soak", "30s", "--auto-rollback", "--follow"];
    let run = operator.run(&start);
    assert_eq!(run.status, Some(1), "{}{}", run.stdout_lossy(), run.stderr_lossy());
    let status = operator.json(&["rollout", "status", "web", "--json"]);
    assert_eq!((&status[0]["state"], &status[0]["wave"]), (&json!("rolled_back"), &json!(1)));
    for host in &mut hosts {
        host.until_file("srv/app/conf", "port 80\n");
    }
    operator.until(&["status", "--json"], |lines| lines[0]["hosts"]["in_step"] == 3);
    // The others never notice.
    let events = operator.json(&["events", "--json", "--kind", "bundle"]);
    let concerned: std::collections::BTreeSet<&str> =
        events[before..].iter().map(|event| event["host"].as_str().unwrap()).collect();
    assert_eq!(concerned.len(), 1, "{events:#?}");
    let log = operator.must(&["log", "web"]);
    assert!(log.contains("rolled_back") && log.contains("1 of 1 hosts failed: web"), "{log}");
}

fn failing() {
    let (server, operator) = prepared();
    let mut hosts = running(&server, &operator, &["web1", "web2"]);
    let bundle = second(&operator, FAILING);
    let run = operator.run(&["rollout", "start", "web", &bundle, "--waves", "1,100%", "--soak", "0s", "--follow"]);
    assert_eq!(run.status, Some(1), "{}{}", run.stdout_lossy(), run.stderr_lossy());
    assert!(run.stdout_lossy().contains("halted"), "{}", run.stdout_lossy());
    let hosts_now = operator.json(&["hosts", "--json"]);
    let failed: Vec<&serde_json::Value> = hosts_now.iter().filter(|host| host["result"] == "failed").collect();
    assert!(failed.len() == 1 && failed[0]["bundle"] == "site@2" && failed[0]["reason"].is_string(), "{hosts_now:#?}");
    // It halts again while the host fails.
    assert_eq!(operator.run(&["rollout", "resume", "web", "--follow"]).status, Some(1));
    assert_eq!(operator.run(&["rollout", "start", "web", "site@1", "--waves", "x"]).status, Some(2));
    operator.must(&["rollout", "abort", "web", "-m", "wrong directory"]);
    assert_eq!(operator.run(&["rollout", "status", "web"]).status, Some(1));
    operator.must(&["rollback", "web", "--waves", "100%", "--soak", "0s", "--follow"]);
    for host in &mut hosts {
        host.until_file("srv/app/conf", "port 80\n");
    }
    // What web runs is rolled out to a channel that has no hosts yet.
    operator.must(&["promote", "web", "live", "--soak", "0s", "--follow"]);
    let status = operator.json(&["status", "--json"]);
    assert_eq!((&status[0]["channel"], &status[0]["bundle"]), (&json!("live"), &json!("site@1")));
    let mut late = Host::start(&server, &operator, "late", "channel = \"live\"");
    late.until_file("srv/app/conf", "port 80\n");
    // It cannot be deleted while it is used, and then it can.
    let kept = operator.run(&["bundle", "delete", "site@1"]);
    assert!(!kept.success() && kept.stderr_lossy().contains("in use"), "{}", kept.stderr_lossy());
}

/// A plugin whose entity needs a file that an administrator has to provide.
const LICENSED: &str = r#"#!/bin/sh
cd "$HOLO_ROOT_DIR" || exit 1
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\n' ;;
scan) ! grep -q 82 usr/share/holo/files/10-app.toml || echo 'ENTITY: licensed:app' ;;
check | apply) [ -e srv/app/license ] || { echo 'there is no license' >&2; exit 1; } ;;
esac
"#;

fn mended() {
    let (server, operator) = prepared();
    let section = "channel = \"web\"";
    let host = |name: &&str| {
        Host::with_files(&server, &operator, name, section, |root| {
            let root = root.file("etc/holorc.d/50-licensed", "plugin licensed\n").dir("usr/share/holo/licensed");
            root.script("usr/lib/holo/holo-licensed", LICENSED)
        })
    };
    let mut hosts: Vec<Host> = ["web1", "web2"].iter().map(host).collect();
    operator.until(&["hosts", "--json"], |lines| lines.len() == 2);
    let bundle = operator.publish("site", "1", "port 80");
    operator.must(&["rollout", "start", "web", &bundle, "--waves", "100%", "--soak", "0s", "--follow"]);
    // One host has a file of its own where the next bundle has one, and the other one has no license.
    hosts[0].root.write("srv/app/license", "x");
    hosts[0].root.write("usr/share/holo/files/90-own.toml", "");
    let definition = FIRST.replace("80", "82");
    operator.root.write("srv/second/usr/share/holo/files/90-own.toml", "");
    let bundle = second(&operator, &definition);
    let run = operator.run(&[
        "rollout",
        "start",
        "web",
        &bundle,
        "--waves",
        "100%",
        "--soak",
        "0s",
        "--max-failed",
        "1",
        "--follow",
    ]);
    assert_eq!(run.status, Some(1), "{}{}", run.stdout_lossy(), run.stderr_lossy());
    let results = || -> Vec<String> {
        operator
            .json(&["hosts", "--json"])
            .iter()
            .map(|host| host["result"].as_str().unwrap_or("-").to_owned())
            .collect()
    };
    assert_eq!(results(), ["refused", "failed"]);

    // They try again, and fail as before. A controller is killed meanwhile.
    let before = operator.json(&["events", "--json", "--kind", "bundle"]).len();
    operator.must(&["rollout", "resume", "web"]);
    let mut controller = operator.background(&["controller"]);
    operator.until(&["events", "--json", "--kind", "bundle"], |events| events.len() > before);
    controller.kill();
    let _other = operator.background(&["controller"]);
    operator.until(&["rollout", "status", "web", "--json"], |lines| lines[0]["state"] == "halted");
    assert_eq!(results(), ["refused", "failed"]);

    fs::remove_file(hosts[0].root.join("usr/share/holo/files/90-own.toml")).unwrap();
    hosts[1].root.write("srv/app/license", "x");
    let run = operator.run(&["rollout", "resume", "web", "-m", "mended", "--follow"]);
    assert!(run.success(), "{}{}", run.stdout_lossy(), run.stderr_lossy());
    for host in &mut hosts {
        host.until_file("srv/app/conf", "port 82\n");
    }
    let log = operator.must(&["log", "web"]);
    assert!(log.lines().last().unwrap().contains("complete") && log.contains("mended"), "{log}");
}

const WITH_PROMTOOL: [Need; 3] = [NATS, Need::Program("ssh-keygen"), Need::Program("promtool")];

/// Waits until a port is open.
#[track_caller]
fn until_open(address: &str) {
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(begun.elapsed() < PATIENCE, "{address}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until metrics have these lines, and returns them.
#[track_caller]
fn until_metrics(address: &str, expected: &[&str]) -> String {
    let begun = Instant::now();
    loop {
        let text = get(address, "/metrics");
        let has = |line: &&&str| text.lines().any(|found| found == **line);
        match expected.iter().find(|line| !has(line)) {
            None => return text,
            Some(missing) => assert!(begun.elapsed() < PATIENCE, "{missing}: {text}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Returns the value of a metric.
fn value(metrics: &str, name: &str) -> f64 {
    let found = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    found.unwrap_or_else(|| panic!("no {name}: {metrics}"))
}

fn metrics() {
    let (server, operator) = prepared();
    let _hosts = running(&server, &operator, &["web1", "web2"]);
    let [first, standby] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let wrong = operator.run(&["controller", "--metrics", "9190"]);
    assert!(wrong.status == Some(2) && wrong.stderr_lossy().contains("such as 127.0.0.1:9190"), "{wrong}");

    let mut controller = operator.background(&["controller", "--metrics", &first]);
    until_open(&first);
    let in_step = "holo_fleet_hosts{channel=\"web\",state=\"in_step\"} 2";
    let complete = "holo_fleet_rollout_state{channel=\"web\",state=\"complete\"} 1";
    until_metrics(&first, &[in_step, complete, "holo_fleet_controller_lease 1"]);
    let taken = operator.run(&["controller", "--metrics", &first]);
    let says = format!("no metrics at {first}: Address already in use");
    assert!(taken.status == Some(1) && taken.stderr_lossy().contains(&says), "{taken}");
    let _other = operator.background(&["controller", "--metrics", &standby]);
    until_open(&standby);
    until_metrics(&standby, &[in_step, "holo_fleet_controller_lease 0"]);

    let bundle = second(&operator, FAILING);
    operator.must(&["rollout", "start", "web", &bundle, "--waves", "1,100%", "--soak", "0s"]);
    let halted = [
        "holo_fleet_rollout_state{channel=\"web\",state=\"halted\"} 1",
        "holo_fleet_rollout_state{channel=\"web\",state=\"complete\"} 0",
        "holo_fleet_rollout_wave{channel=\"web\"} 1",
        "holo_fleet_rollout_waves{channel=\"web\"} 2",
        "holo_fleet_hosts{channel=\"web\",state=\"failed\"} 1",
    ];
    until_metrics(&standby, &halted);
    let answer = until_metrics(&first, &halted);
    let text = answer.split_once("\r\n\r\n").unwrap().1;
    let judged = Program::new("promtool").args(["check", "metrics"]).stdin(text.as_bytes()).output().unwrap();
    assert!(judged.ended.failure().is_none() && judged.stderr.is_empty(), "{judged:?}\n{text}");
    let now = jiff::Timestamp::now().as_second() as f64;
    for time in [
        "holo_fleet_last_report_timestamp_seconds{channel=\"web\"}",
        "holo_fleet_controller_last_contact_timestamp_seconds",
    ] {
        assert!((now - value(text, time)).abs() < 120.0, "{time}: {text}");
    }
    // The other one decides within seconds.
    controller.kill();
    until_metrics(&standby, &["holo_fleet_controller_lease 1"]);
}

fn takeover() {
    let (server, operator) = prepared();
    let mut hosts = running(&server, &operator, &["web1", "web2"]);
    let bundle = operator.publish("site", "2", "port 82");
    assert!(hosts[0].agent(&["pause", "--reason", "new disks"]).success());
    operator.until(&["hosts", "--json"], |lines| lines.iter().any(|line| line["waiting"].is_string()));
    let alone = operator.run(&["rollout", "start", "web", &bundle, "--waves", "100%", "--soak", "1s"]);
    assert!(alone.stderr_lossy().contains("no controller is alive"), "{}", alone.stderr_lossy());
    let mut first = operator.background(&["controller"]);
    hosts[1].until_file("srv/app/conf", "port 82\n");
    operator.until(&["rollout", "status", "web", "--json"], |lines| lines[0]["waiting"] == 1);
    assert_eq!(operator.run(&["rollout", "status", "web"]).status, Some(3));
    assert_eq!(contents(&hosts), ["port 80\n", "port 82\n"]);
    first.kill();
    let _second = operator.background(&["controller"]);
    assert!(hosts[0].agent(&["resume"]).success());
    hosts[0].until_file("srv/app/conf", "port 82\n");
    operator.until(&["rollout", "status", "web", "--json"], |lines| lines[0]["state"] == "complete");
}
