//! Cases of units that something happens to while they are watched.

use super::Case;
use super::host::Host;
use holo_testing::binaries::built;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const ALL: &[Case] = &[
    ("a unit that dies is noticed without polling, and started again", dies),
    ("a unit that is disabled is noticed", disabled),
    ("a unit that is to be stopped, and is not loaded, is not looked at again and again", quiet),
];

/// The time within which something has to be noticed on a machine that has much to do.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until the watch has said these words, and returns all that it has said.
#[track_caller]
fn said(host: &Host, words: &str) -> String {
    let begun = Instant::now();
    loop {
        let log = host.system.must("cat /run/watch.log").to_string();
        if log.contains(words) {
            return log;
        }
        assert!(begun.elapsed() < PATIENCE, "{words:?} is not in {log}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Watches while a case goes on, from when all that plugins listen to has been looked at.
fn watching(host: &Host, case: impl FnOnce()) {
    host.system.must(": >/run/watch.log");
    let holo = built("holo");
    let _watch = host
        .system
        .background(&format!("echo ready; exec {} watch --apply --json >/run/watch.log 2>&1", holo.display()));
    said(host, "\"watching\"");
    thread::sleep(Duration::from_secs(2));
    case();
}

fn dies(host: &Host) {
    host.daemon("dies.service");
    host.daemon("other.service");
    host.declare("[[service]]\nname = 'dies'\n[[service]]\nname = 'other'\n");
    host.apply();
    watching(host, || {
        host.calls();
        let begun = Instant::now();
        host.system.must("/usr/bin/systemctl kill --signal=KILL dies.service");
        said(host, r#""event":"drifted","id":"service:dies","reason":"it is failed now""#);
        let noticed = begun.elapsed();
        said(host, r#""event":"repaired","id":"service:dies""#);
        assert!(host.is_active("dies"));
        assert!(noticed < Duration::from_secs(10), "it took {noticed:?}");
        // The repair is checked once more, and nobody asks for the other one, or again.
        thread::sleep(Duration::from_secs(1));
        host.calls();
        thread::sleep(Duration::from_secs(3));
        assert_eq!(host.calls(), [""; 0]);
    });
    host.declare_nothing();
    host.apply();
}

fn disabled(host: &Host) {
    host.daemon("enabled.service");
    host.service("enabled", "enable = true");
    host.apply();
    watching(host, || {
        host.system.must("/usr/bin/systemctl disable enabled.service");
        // systemctl has systemd read its units anew as well, and whichever signal comes first is the reason.
        said(host, r#""event":"drifted","id":"service:enabled","reason":"#);
        said(host, r#""event":"repaired","id":"service:enabled""#);
        assert_eq!(host.enablement("enabled"), "enabled");
    });
    host.declare_nothing();
    host.apply();
}

fn quiet(host: &Host) {
    host.daemon("quiet.service");
    host.service("quiet", "ensure = 'stopped'");
    host.apply();
    watching(host, || {
        host.calls();
        thread::sleep(Duration::from_secs(3));
        assert_eq!(host.calls(), [""; 0]);
        host.system.must("/usr/bin/systemctl start quiet.service");
        said(host, r#""event":"repaired","id":"service:quiet""#);
        assert!(!host.is_active("quiet"));
    });
    host.declare_nothing();
    host.apply();
}
