//! Cases of events during a watch.

use super::Case;
use super::host::Host;
use holo_testing::binaries::built;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const ALL: &[Case] = &[
    ("a unit that dies is noticed over the bus, without polling, and started again", |host| dies(host, Way::Bus)),
    ("a unit that dies is noticed over systemd's own socket, without polling, and started again", |host| {
        dies(host, Way::Socket);
    }),
    ("when the bus ends, a watch goes on over systemd's own socket", bus_ends),
    ("when systemd is started anew, a watch goes on over its own socket", systemd_anew),
    ("a unit that is disabled is noticed over the bus", |host| disabled(host, Way::Bus)),
    ("a unit that is disabled is noticed over systemd's own socket", |host| disabled(host, Way::Socket)),
    ("a unit that is to be stopped, and is not loaded, is not looked at again and again", quiet),
];

/// The timeout for waiting for an event on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until the watch has printed these words, and returns all of its output.
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

/// The way in which systemd's signals are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Bus,
    Socket,
}

impl Way {
    /// Prepares this way, and returns the environment for the watch.
    fn open(self, host: &Host) -> &'static str {
        match self {
            Way::Bus => {
                host.system.must("/usr/bin/systemctl start dbus.socket dbus.service");
                ""
            }
            Way::Socket => "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/no-bus",
        }
    }
}

/// Returns true if the plugin is connected to the bus, according to the bus.
fn is_on_bus(host: &Host) -> bool {
    let run = host.system.run("busctl", &["--no-pager", "--no-legend", "list"]);
    run.stdout_lossy().contains("holo-services")
}

/// Returns true if the plugin is running.
fn is_running(host: &Host) -> bool {
    host.system.run("pgrep", &["--exact", "holo-services"]).success()
}

/// Runs a case during a watch, which starts when all plugins are listening.
fn watching(host: &Host, way: Way, case: impl FnOnce()) {
    host.system.must(": >/run/watch.log");
    let (holo, environment) = (built("holo"), way.open(host));
    let _watch = host.system.background(&format!(
        "echo ready; exec env {environment} {} watch --apply --json >/run/watch.log 2>&1",
        holo.display()
    ));
    said(host, "\"watching\"");
    thread::sleep(Duration::from_secs(2));
    assert!(is_running(host), "the plugin does not watch: {}", host.system.must("cat /run/watch.log"));
    assert_eq!(is_on_bus(host), way == Way::Bus, "it is not by {way:?} that it listens");
    case();
}

/// Kills a unit, and checks that this watch notices and restarts it.
#[track_caller]
fn kill(host: &Host, name: &str) {
    host.system.must(": >/run/watch.log");
    host.system.must(&format!("/usr/bin/systemctl kill --signal=KILL {name}.service"));
    said(host, &format!(r#""event":"drifted","id":"service:{name}","reason":"it is failed now""#));
    said(host, &format!(r#""event":"repaired","id":"service:{name}""#));
    assert!(host.is_active(name));
}

fn bus_ends(host: &Host) {
    host.daemon("dies.service");
    host.service("dies", "");
    host.apply();
    watching(host, Way::Bus, || {
        host.system.must("/usr/bin/systemctl stop dbus.socket dbus.service");
        // It reconnects after a second.
        thread::sleep(Duration::from_secs(3));
        kill(host, "dies");
        host.system.must("/usr/bin/systemctl start dbus.socket");
    });
    host.declare_nothing();
    host.apply();
}

fn systemd_anew(host: &Host) {
    host.daemon("dies.service");
    host.service("dies", "");
    host.apply();
    watching(host, Way::Socket, || {
        host.system.must("/usr/bin/systemctl daemon-reexec");
        thread::sleep(Duration::from_secs(3));
        kill(host, "dies");
    });
    host.declare_nothing();
    host.apply();
}

fn dies(host: &Host, way: Way) {
    host.daemon("dies.service");
    host.daemon("other.service");
    host.declare("[[service]]\nname = 'dies'\n[[service]]\nname = 'other'\n");
    host.apply();
    watching(host, way, || {
        host.calls();
        let begun = Instant::now();
        host.system.must("/usr/bin/systemctl kill --signal=KILL dies.service");
        said(host, r#""event":"drifted","id":"service:dies","reason":"it is failed now""#);
        let noticed = begun.elapsed();
        said(host, r#""event":"repaired","id":"service:dies""#);
        assert!(host.is_active("dies"));
        assert!(noticed < Duration::from_secs(10), "it took {noticed:?}");
        // The repair is checked once more; the other unit is not queried.
        thread::sleep(Duration::from_secs(1));
        host.calls();
        thread::sleep(Duration::from_secs(3));
        assert_eq!(host.calls(), [""; 0]);
    });
    host.declare_nothing();
    host.apply();
}

fn disabled(host: &Host, way: Way) {
    host.daemon("enabled.service");
    host.service("enabled", "enable = true");
    host.apply();
    watching(host, way, || {
        host.system.must("/usr/bin/systemctl disable enabled.service");
        // systemctl also makes systemd reload its units, and the signal that comes first is the reason.
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
    watching(host, Way::Socket, || {
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
