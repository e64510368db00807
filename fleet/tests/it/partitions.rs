//! Servers that go away and come back, and those that are not to be trusted.

use crate::harness::{Host, NATS, NEEDS, Operator, PATIENCE, Server, as_server, prepared, put};
use crate::link::{Condition, Link};
use async_nats::jetstream::Context;
use holo_testing::random::Random;
use holo_testing::require::{WRONG_CLOCK, trial_of};
use holo_testing::{Need, processes};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial_of("events of an outage arrive once, and hosts work on without a server", &NEEDS, outage),
        trial_of("a server that has lost its data is prepared again", &NEEDS, lost_data),
        trial_of("a cluster of three loses a server in the middle of a rollout", &NEEDS, cluster),
        trial_of("a slow link that drops again and again brings a bundle as a whole", &NEEDS, slow_link),
        trial_of("a link that is cut without a word does not stop a rollout for the others", &NEEDS, cut_link),
        trial_of("clocks that are a year wrong do not matter", &WITH_CLOCK, wrong_clocks),
        trial_of("a server cannot replay, exchange or change what operators have signed", &NEEDS, wrong_hands),
        trial_of("a bundle that the server has only a part of is not installed", &NEEDS, incomplete),
        trial_of("the program of a host is started again, and ends with the agent", &WITH_PGREP, with_the_agent),
        trial_of("a second machine with the same name is refused, and takes it over later", &NEEDS, same_name),
    ]
}

const WITH_CLOCK: [Need; 3] = [NATS, Need::Program("ssh-keygen"), WRONG_CLOCK];
const WITH_PGREP: [Need; 3] = [NATS, Need::Program("ssh-keygen"), Need::Program("pgrep")];

fn with_the_agent() {
    let (_server, operator, mut host) = running();
    let first = host.fleet_program();
    processes::send(first, Signal::KILL);
    host.until_said("not connected to the fleet: holo-fleet has ended: signal: killed");
    operator.until(&["events", "--json", "--kind", "fleet"], |lines| {
        let states: Vec<&str> = lines.iter().map(|line| line["state"].as_str().unwrap()).collect();
        states == ["connected", "disconnected", "connected"]
    });
    let second = host.fleet_program();
    assert_ne!(first, second);
    host.kill();
    processes::wait_until_gone(second);
}

fn running() -> (Server, Operator, Host) {
    let mut server = Server::stopped();
    server.start_again();
    let operator = Operator::new(&server);
    operator.must(&["init"]);
    let host = Host::start(&server, &operator, "web1", "channel = \"web\"");
    operator.until(&["hosts", "--json"], |lines| lines.len() == 1);
    roll_out(&operator, "1", "port 80");
    (server, operator, host)
}

fn roll_out(operator: &Operator, version: &str, content: &str) {
    let bundle = operator.publish("site", version, content);
    operator.must(&["rollout", "start", "web", &bundle, "--waves", "100%", "--soak", "0s", "--follow"]);
}

/// The numbers of the events of the host.
fn numbers(operator: &Operator) -> Vec<u64> {
    let events = operator.json(&["events", "--json", "--host", "web1"]);
    events.iter().map(|event| event["seq"].as_u64().unwrap()).collect()
}

fn outage() {
    let (mut server, operator, mut host) = running();
    server.kill();
    host.until_said("not connected to the fleet");
    let refused = operator.run(&["status"]);
    assert!(
        !refused.success() && refused.stderr_lossy().contains("no connection to nats://127.0.0.1"),
        "{}",
        refused.stderr_lossy()
    );
    host.root.write("srv/app/conf", "by hand\n");
    std::fs::remove_file(host.root.join("srv/app/conf")).unwrap();
    assert!(host.agent(&["run-now", "--wait"]).stdout_lossy().contains("apply"));
    host.agent(&["pause", "--reason", "outage"]);
    server.start_again();
    operator.until(&["events", "--json", "--kind", "paused"], |lines| lines.len() == 1);
    host.agent(&["resume"]);
    operator.until(&["events", "--json", "--kind", "resumed"], |lines| lines.len() == 1);
    // Also over a restart of the agent.
    host.stop();
    host.start_again();
    operator.until(&["events", "--json", "--kind", "fleet"], |lines| {
        lines.iter().filter(|line| line["state"] == "connected").count() >= 2
    });
    let numbers = numbers(&operator);
    let once: BTreeSet<u64> = numbers.iter().copied().collect();
    assert_eq!(once.len(), numbers.len());
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}

fn cluster() {
    let mut servers = Server::cluster(3);
    let urls: Vec<String> = servers.iter().map(|server| format!("{:?}", server.url())).collect();
    let operator = Operator::new(&servers[0]);
    let urls = format!("[{}]", urls.join(", "));
    operator.root.write("etc/holo/fleet.toml", format!("url = {urls}\nsigning_key = \"/root/.ssh/id\"\n"));
    // The servers elect a leader first.
    operator.until_success(&["init", "--replicas", "3"]);
    let names = ["web1", "web2", "web3"];
    let host = |name: &&str| Host::start_at(&urls, &operator, name, "channel = \"web\"");
    let mut hosts: Vec<Host> = names.iter().map(host).collect();
    operator.until(&["hosts", "--json"], |lines| lines.len() == 3);
    let bundle = operator.publish("site", "1", "port 80");
    operator.must(&["rollout", "start", "web", &bundle, "--waves", "1,100%", "--soak", "1s", "--follow"]);
    let bundle = operator.publish("site", "2", "port 82");
    let _controller = operator.background(&["controller"]);
    operator.must(&["rollout", "start", "web", &bundle, "--waves", "1,2,100%", "--soak", "4s"]);
    let leader = leader_of("KV_holo-channels", &servers[0]);
    servers[leader].kill();
    let is_over = |line: &Value| line["state"] == "complete" && line["bundle"] == "site@2";
    operator.until(&["rollout", "status", "web", "--json"], |lines| lines.first().is_some_and(is_over));
    for host in &mut hosts {
        host.until_file("srv/app/conf", "port 82\n");
    }
}

/// Content that cannot be compressed to less than half.
fn noise(bytes: usize) -> String {
    let mut random = Random::new(1);
    (0..bytes).map(|_| format!("{:x}", random.below(16))).collect()
}

/// Each connection lasts for less time than the bundle needs.
fn slow_link() {
    let (server, operator) = prepared();
    let link = Link::to(&server.url());
    let mut host = Host::start_at(&format!("{:?}", link.url()), &operator, "web1", "channel = \"web\"");
    operator.until(&["hosts", "--json"], |lines| lines.len() == 1);
    roll_out(&operator, "1", "port 80");
    host.until_file("srv/app/conf", "port 80\n");
    let noise = noise(1 << 20);
    link.set(Condition::Slow(Duration::from_millis(200), 40_000));
    let bundle = operator.publish("site", "2", &noise);
    let _controller = operator.background(&["controller"]);
    operator.must(&["rollout", "start", "web", &bundle, "--waves", "100%", "--soak", "0s"]);
    let (begun, mut drops) = (Instant::now(), 0);
    let is_complete = || operator.run(&["rollout", "status", "web"]).status == Some(0);
    while !is_complete() {
        assert!(begun.elapsed() < PATIENCE, "{}", host.listen());
        if begun.elapsed() > Duration::from_secs(8) * (drops + 1) {
            link.drop_connections();
            drops += 1;
        }
        host.listen();
    }
    assert!(drops >= 1, "the bundle came too fast");
    host.until_file("srv/app/conf", &format!("{noise}\n"));
    let events = operator.json(&["events", "--json", "--host", "web1", "--kind", "bundle"]);
    let states: Vec<&str> = events.iter().filter_map(|event| event["state"].as_str()).collect();
    assert_eq!(states, ["fetched", "installed", "fetched", "installed"]);
    assert!(link.passed() < 3 << 20, "{}", link.passed());
}

/// The host is silent, and the rollout goes on without it; when it hears of it, it changes as well.
fn cut_link() {
    let (server, operator, mut host) = running();
    let link = Link::to(&server.url());
    let mut far = Host::start_at(&format!("{:?}", link.url()), &operator, "far", "channel = \"web\"");
    far.until_file("srv/app/conf", "port 80\n");
    link.set(Condition::Cut);
    let bundle = operator.publish("site", "2", "port 82");
    let arguments = ["--waves", "100%", "--soak", "0s", "--silent-after", "5s", "--max-failed", "1", "--follow"];
    operator.must(&[&["rollout", "start", "web", &bundle], &arguments[..]].concat());
    host.until_file("srv/app/conf", "port 82\n");
    assert_eq!(far.root.read("srv/app/conf"), "port 80\n");
    // What nobody has told the ends is noticed when the link is there again, or at the latest by their pings.
    link.set(Condition::Good);
    far.until_file("srv/app/conf", "port 82\n");
    operator.until(&["status", "--json"], |lines| lines[0]["hosts"]["in_step"] == json!(2));
}

fn wrong_clocks() {
    let (server, operator) = prepared();
    let host = |name: &str| Host::start(&server, &operator, name, "channel = \"web\"");
    let mut hosts = ["past", "future", "present"].map(host);
    hosts[0].set_clock("-400d");
    hosts[1].set_clock("+400d");
    operator.until(&["events", "--json", "--kind", "fleet"], |lines| lines.len() >= 3);
    for (version, content) in [("1", "port 80"), ("2", "port 82")] {
        roll_out(&operator, version, content);
        for host in &mut hosts {
            host.until_file("srv/app/conf", &format!("{content}\n"));
        }
        operator.root.write("data.toml", format!("text = \"{content}\"\n"));
        operator.must(&["data", "set", "common", &operator.root.join("data.toml").to_string_lossy()]);
        for host in &mut hosts {
            host.until_file("etc/holo/fleet-data/01-common.toml", &format!("text = \"{content}\"\n"));
        }
    }
    operator.until(&["status", "--json"], |lines| lines[0]["hosts"]["in_step"] == json!(3));
    // The server says when they were seen, and they say themselves when something has happened.
    let seen: Vec<i64> = operator.json(&["hosts", "--json"]).iter().map(|line| age(&line["seen"])).collect();
    assert!(seen.iter().all(|age| age.abs() < 1), "{seen:?}");
    let events = operator.json(&["events", "--json", "--host", "past", "--kind", "bundle"]);
    assert!(events.iter().all(|event| age(&event["time"]) > 390), "{events:#?}");
    // Another machine with the name of one that is alive is refused, whatever it believes the time to be.
    let mut second = Host::start_as(&server, &operator, "past", "another machine", "channel = \"web\"");
    second.set_clock("+400d");
    second.until_said("a name was refused: another machine");
}

/// Returns the age of a time in days.
fn age(time: &Value) -> i64 {
    let time: jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
    jiff::Timestamp::now().duration_since(time).as_hours() / 24
}

/// Returns the index of the server that leads a stream.
fn leader_of(stream: &str, server: &Server) -> usize {
    let mut leader = None;
    as_server(server, async |context| {
        let info = context.get_stream(stream).await.unwrap().cached_info().cluster.clone();
        leader = info.unwrap().leader;
    });
    leader.unwrap().trim_start_matches('s').parse().unwrap()
}

fn lost_data() {
    let (mut server, operator, mut host) = running();
    let set_data = |text: &str| {
        operator.root.write("data.toml", text);
        operator.must(&["data", "set", "common", &operator.root.join("data.toml").to_string_lossy()]);
    };
    set_data("port = 80\n");
    host.until_file("etc/holo/fleet-data/01-common.toml", "port = 80\n");
    server.kill();
    server.lose_data();
    server.start_again();
    let missing = operator.run(&["hosts"]);
    assert!(missing.stderr_lossy().contains("holo-fleet init?"), "{}", missing.stderr_lossy());
    operator.must(&["init"]);
    let hosts = operator.until(&["hosts", "--json"], |lines| lines.len() == 1);
    assert_eq!(hosts[0]["bundle"], "site@1");
    // What is stored is newer than what the host knows.
    set_data("port = 82\n");
    host.until_file("etc/holo/fleet-data/01-common.toml", "port = 82\n");
    roll_out(&operator, "2", "port 82");
    host.until_file("srv/app/conf", "port 82\n");
}

async fn get(context: &Context, bucket: &str, key: &str) -> Vec<u8> {
    context.get_key_value(bucket).await.unwrap().get(key).await.unwrap().unwrap().to_vec()
}

fn wrong_hands() {
    let (server, operator, mut host) = running();
    operator.root.write("data.toml", "port = 80\n");
    let data = operator.root.join("data.toml").to_string_lossy().into_owned();
    operator.must(&["data", "set", "common", &data]);
    host.until_file("etc/holo/fleet-data/01-common.toml", "port = 80\n");
    let (mut first, mut layer) = (Vec::new(), Vec::new());
    as_server(&server, async |context| {
        first = get(context, "holo-channels", "web").await;
        layer = get(context, "holo-data", "common").await;
    });
    roll_out(&operator, "2", "port 82");
    operator.root.write("data.toml", "port = 82\n");
    operator.must(&["data", "set", "common", &data]);
    host.until_file("etc/holo/fleet-data/01-common.toml", "port = 82\n");
    host.until_file("srv/app/conf", "port 82\n");
    // The previous bundle and layer again.
    as_server(&server, async |context| put(context, "holo-channels", "web", first.clone()).await);
    host.until_said("channel web: the server has record ");
    host.until_said("so that it is refused");
    as_server(&server, async |context| put(context, "holo-data", "common", layer.clone()).await);
    host.until_said("data layer common: the server has record ");
    // A record that nobody has signed.
    let mut changed: Value = serde_json::from_slice(&first).unwrap();
    let record = changed["record"].as_str().unwrap().replace("\"serial\":", "\"serial\":9");
    changed["record"] = json!(record);
    as_server(&server, async |context| put(context, "holo-data", "common", Vec::from("{}")).await);
    as_server(&server, async |context| {
        put(context, "holo-channels", "web", changed.to_string().into_bytes()).await;
        let progress =
            json!({"serial": u64::MAX, "state": "complete", "wave": 0, "since": "2026-01-01T00:00:00Z", "by": "x"});
        put(context, "holo-channels", "web.progress", progress.to_string().into_bytes()).await;
    });
    host.until_said("channel web: the signature is not of anyone who may sign for holo-channel");
    assert_eq!(host.root.read("srv/app/conf"), "port 82\n");
    assert_eq!(host.root.read("etc/holo/fleet-data/01-common.toml"), "port = 82\n");
    // The record of another channel.
    operator.must(&["rollout", "start", "other", "site@1", "--soak", "0s", "--follow"]);
    let mut other = Vec::new();
    as_server(&server, async |context| other = get(context, "holo-channels", "other").await);
    as_server(&server, async |context| put(context, "holo-channels", "web", other).await);
    host.until_said("channel web: the server has the record of channel other there");
    assert_eq!(host.root.read("srv/app/conf"), "port 82\n");
}

fn incomplete() {
    let (server, operator, mut host) = running();
    let bundle = operator.publish("site", "2", "port 82");
    as_server(&server, async |context| {
        // The last chunk is that of the last bundle.
        let stream = context.get_stream("OBJ_holo-bundles").await.unwrap();
        let chunk = stream.get_last_raw_message_by_subject("$O.holo-bundles.C.>").await.unwrap();
        stream.delete_message(chunk.sequence).await.unwrap();
    });
    let _controller = operator.background(&["controller"]);
    operator.must(&["rollout", "start", "web", &bundle, "--waves", "100%", "--soak", "0s"]);
    host.until_said("the server has not all of it");
    assert_eq!(host.root.read("srv/app/conf"), "port 80\n");
    let hosts = operator.json(&["hosts", "--json"]);
    assert_eq!(hosts[0]["bundle"], "site@1");
}

fn same_name() {
    let (server, operator, mut host) = running();
    let mut second = Host::start_as(&server, &operator, "web1", "another machine", "channel = \"web\"");
    second.until_said("a name was refused: another machine");
    host.until_said("a name was refused: another machine");
    assert!(!second.root.exists("srv/app/conf"));
    operator.must(&["hosts", "remove", "web1"]);
    host.stop();
    operator.run(&["hosts", "remove", "web1"]);
    second.until_file("srv/app/conf", "port 80\n");
}
