//! The part of the soak test that needs a running system: units, accounts and packages, and a disk that is full.

use super::SECONDS;
use crate::faults::FILL;
use crate::systemd::{REPOSITORY, events, machine, status, until};
use holo_testing::binaries::built;
use holo_testing::{Overlay, Random, random};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const PLUGINS: [&str; 5] = ["exec", "files", "packages", "services", "users-groups"];

/// What is defined. Its limits are never reached.
const DEFINITIONS: [(&str, &str); 5] = [
    ("exec", "[[exec]]\nname = \"soak\"\ncommand = \"touch /srv/made\"\ncreates = \"/srv/made\"\npoll = \"1s\"\n"),
    ("files", "[[file]]\npath = \"/srv/conf\"\ncontent = \"port 80\\n\"\n"),
    ("packages", "[[package]]\nname = \"slow\"\n"),
    ("services", "[[service]]\nname = \"soak\"\nenable = true\nmask = false\n"),
    ("users-groups", "[[user]]\nname = \"soak\"\ngroups = [\"audio\"]\ncomment = \"it\"\n"),
];
const LIMIT: &str = "limit = \"1000000/1h\"\n";
const UNIT: &str = "[Service]\nExecStart=sleep infinity\n[Install]\nWantedBy=multi-user.target\n";

/// Drifts: an entity, what is done to it, and what succeeds if it is as defined.
const DRIFTS: [(&str, &str, &str); 10] = [
    ("service:soak", "systemctl stop soak", RUNS),
    ("service:soak", "systemctl disable soak", "systemctl is-enabled soak"),
    ("service:soak", "systemctl kill --signal=KILL soak", RUNS),
    ("service:soak", "systemctl disable --now soak", "systemctl is-enabled soak && systemctl is-active soak"),
    ("service:soak", "systemctl mask --now soak", "systemctl is-enabled soak && systemctl is-active soak"),
    ("user:soak", "gpasswd --delete soak audio", "id --name --groups soak | grep audio"),
    ("user:soak", "usermod --comment other soak", "getent passwd soak | grep :it:"),
    ("package:slow", "dpkg --remove slow", "dpkg --status slow | grep 'install ok installed'"),
    ("exec:soak", "rm /srv/made", "test -e /srv/made"),
    ("file:/srv/conf", "rm /srv/conf", "grep 80 /srv/conf"),
];
/// The largest number of rounds of which all events are kept.
const MOST: usize = 200;
const RUNS: &str = "systemctl is-active soak";

pub(super) fn soak() {
    let given = random::given(SECONDS);
    let seed = random::given(random::SEED).unwrap_or(0);
    let machine = defined();
    let mut random = Random::new(seed);
    let (mut expected, mut times) = (BTreeMap::<String, usize>::new(), Vec::new());
    let end = Instant::now() + Duration::from_secs(given.unwrap_or(0));
    let mut rounds = 0;
    while rounds == 0 || Instant::now() < end && rounds < MOST {
        let mut drifts = DRIFTS;
        random.shuffle(&mut drifts);
        let full = random.below(drifts.len());
        for (number, (entity, drift, is_restored)) in drifts.into_iter().enumerate() {
            if number == full {
                machine.must(FILL);
            }
            machine.must(drift);
            let begun = Instant::now();
            until(&machine, is_restored);
            times.push(begun.elapsed());
            // The next one is about something new.
            let said = format!("journalctl -o cat -u holo-agent | grep -c '^repaired {entity}$'");
            let count = expected.entry(entity.to_owned()).or_default();
            *count += 1;
            until(&machine, &format!("test $({said}) = {count}"));
            if number == full {
                assert!(status(&machine)["spool_error"].is_string(), "the disk is not full");
                machine.must("rm /var/lib/holo-agent/filler");
            }
        }
        rounds += 1;
    }
    let status = status(&machine);
    assert!(status["drifted"] == serde_json::json!({}) && status["failed"] == serde_json::json!({}), "{status:#}");
    machine.must("systemctl stop holo-agent && test \"$(holo check | wc -c)\" = 0");
    are_complete(&events(&machine), &expected);
    times.sort_unstable();
    let of = |percent: usize| times[times.len() * percent / 100];
    println!(
        "soak: {}={seed}, {rounds} rounds on a booted machine: {:.2?} (median), {:.2?} (99 %)",
        random::SEED,
        of(50),
        of(99)
    );
}

/// Boots a machine on which everything is as defined.
fn defined() -> Overlay {
    let machine = machine("files");
    let lines = PLUGINS.map(|plugin| format!("plugin {plugin}={}\n", built(&format!("holo-{plugin}")).display()));
    machine.write("/etc/holorc", lines.concat());
    for (plugin, definition) in DEFINITIONS {
        machine.write(format!("/usr/share/holo/{plugin}/soak.toml"), format!("{definition}{LIMIT}"));
    }
    // A unit in /etc cannot be masked.
    machine.write("/usr/lib/systemd/system/soak.service", UNIT);
    machine.must(REPOSITORY);
    machine.write("/etc/holo/agent.toml", "interval = \"1h\"\n[defaults]\non_edit = \"overwrite\"\n");
    machine.must("mkdir -m 700 /var/lib/holo-agent && mount -t tmpfs -o size=8m,mode=700 tmpfs /var/lib/holo-agent");
    machine.must("systemctl daemon-reload && systemctl start holo-agent");
    until(&machine, "holo-agent status | grep -q 'watching 6 entities'");
    machine
}

/// Checks that each drift and each repair is an event once, in the order of their numbers.
fn are_complete(events: &[Value], expected: &BTreeMap<String, usize>) {
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(1..=events.len() as u64), "{numbers:?}");
    for kind in ["drifted", "repaired"] {
        let mut found = BTreeMap::new();
        for event in events.iter().filter(|event| event["kind"] == kind) {
            *found.entry(event["entity"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        assert_eq!(&found, expected, "{kind}: {events:#?}");
    }
}
