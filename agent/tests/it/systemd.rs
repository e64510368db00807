//! Tests of the units on a system with a real systemd: start, reload, stop in the middle of a transaction, watchdog,
//! and a kill.

use crate::harness::{PATIENCE, kinds};
use bstr::ByteSlice;
use holo_process::Program;
use holo_testing::binaries::built;
use holo_testing::overlay::NEEDS_TO_BOOT;
use holo_testing::{Need, Overlay, trial_of};
use libtest_mimic::Trial;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// A repository with a package whose installation lasts as long as a file exists.
pub(crate) const REPOSITORY: &str = r#"
mkdir -p /srv/repository /srv/slow/DEBIAN
cat >/srv/slow/DEBIAN/control <<'END'
Package: slow
Version: 1
Architecture: all
Maintainer: Test <test@example.org>
Description: takes its time
END
printf '#!/bin/sh\ntouch /srv/begun\nwhile [ -e /srv/waits ]; do sleep 0.1; done\ntouch /srv/done\n' >/srv/slow/DEBIAN/postinst
chmod 755 /srv/slow/DEBIAN/postinst
dpkg-deb --build --root-owner-group /srv/slow /srv/repository/slow_1_all.deb
cd /srv/repository && dpkg-scanpackages . >Packages
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list
apt-get update
"#;

/// What that needs.
pub(crate) const PROGRAMS: [&str; 3] = ["apt-get", "dpkg-deb", "dpkg-scanpackages"];

pub(crate) fn trials() -> Vec<Trial> {
    let needs: Vec<Need> = NEEDS_TO_BOOT.iter().copied().chain(PROGRAMS.map(Need::Program)).collect();
    vec![
        trial_of("a service is started, reloaded, killed, hangs, and is stopped", NEEDS_TO_BOOT, service),
        trial_of("a service that is stopped waits for a transaction", &needs, transaction),
        trial_of(
            "health checks by HTTP, TCP and unit follow a server that goes away and comes back",
            NEEDS_TO_BOOT,
            health,
        ),
        trial_of("timers apply and check without an agent", NEEDS_TO_BOOT, timers),
        trial_of("what a command of a service mounts is mounted for the machine", NEEDS_TO_BOOT, mounts),
        trial_of("units are restricted as far as their work allows", &[Need::Program("systemd-analyze")], restrictions),
    ]
}

/// Boots a machine with the programs and units installed as by `make install`.
pub(crate) fn machine(plugin: &str) -> Overlay {
    let machine = Overlay::booted();
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../units");
    for program in ["holo", "holo-agent"] {
        machine.must(&format!("cp {} /usr/bin/{program}", built(program).display()));
    }
    for unit in fs::read_dir(units).unwrap() {
        let unit = unit.unwrap();
        let path = Path::new("/usr/lib/systemd/system").join(unit.file_name());
        machine.write(path, fs::read(unit.path()).unwrap());
    }
    machine.must("systemctl daemon-reload");
    machine.plugin(plugin)
}

/// Boots a machine with a declared file.
pub(crate) fn machine_with_file() -> Overlay {
    let machine = machine("files");
    machine.resource("files/app.toml", "[[file]]\npath = \"/srv/conf\"\ncontent = \"port 80\\n\"\n")
}

pub(crate) fn status(machine: &Overlay) -> Value {
    serde_json::from_slice(&machine.must("holo-agent status --json")).unwrap()
}

/// Waits until a shell script succeeds.
#[track_caller]
pub(crate) fn until(machine: &Overlay, script: &str) {
    let begun = Instant::now();
    while !machine.sh(script).success() {
        let journal = || machine.sh("journalctl --no-pager -u 'holo*' | tail -40; systemctl status holo-agent");
        assert!(begun.elapsed() < PATIENCE, "{script} does not succeed: {}", journal());
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn events(machine: &Overlay) -> Vec<Value> {
    let text = machine.must("holo-agent events --json");
    text.lines().map(|line| serde_json::from_slice(line).unwrap()).collect()
}

fn service() {
    let machine = machine_with_file();
    machine.must("systemd-analyze verify --man=no /usr/lib/systemd/system/holo-agent.service");
    machine.must("systemctl enable holo-agent && systemctl start multi-user.target --no-block");
    until(&machine, "systemctl is-active --quiet holo-agent && test -e /srv/conf");
    until(&machine, "systemctl status holo-agent | grep -q 'Status: \"watching 1 entity\"'");
    let modes = machine.must("stat -c '%a %U' /run/holo-agent /run/holo-agent/control.sock /var/lib/holo-agent");
    assert_eq!(modes, "700 root\n600 root\n700 root\n");
    machine.must("rm /srv/conf");
    until(&machine, "test -e /srv/conf");

    // A reload with an invalid configuration has no effect, and a valid one is used.
    machine.write("/etc/holo/agent.toml", "mode = \"off\"\n");
    machine.must("systemctl reload holo-agent");
    until(&machine, "holo-agent status | grep -q 'agent.toml:1: mode'");
    assert_eq!(status(&machine)["mode"], "enforce");
    machine.write("/etc/holo/agent.toml", "mode = \"report\"\n");
    machine.must("systemctl reload holo-agent");
    until(&machine, "holo-agent status | grep -q 'mode report'");
    machine.write("/etc/holo/agent.toml", "");
    machine.must("systemctl reload holo-agent");
    until(&machine, "holo-agent status | grep -q 'watching 1 entity$'");

    // After a crash, systemd starts another agent, which takes over the socket and continues.
    machine.must("systemctl kill --kill-whom=main --signal=KILL holo-agent");
    until(&machine, "test \"$(systemctl show -P NRestarts holo-agent)\" = 1 && holo-agent status >/dev/null 2>&1");
    machine.must("rm /srv/conf");
    until(&machine, "test -e /srv/conf");

    // The watchdog restarts an agent that hangs.
    machine.write("/etc/systemd/system/holo-agent.service.d/quick.conf", "[Service]\nWatchdogSec=2\nRestartSec=1\n");
    machine.must("systemctl daemon-reload && systemctl restart holo-agent");
    // It is not restarted while it notifies the watchdog.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(machine.must("systemctl show -P NRestarts holo-agent"), "0\n");
    machine.must("kill -STOP $(systemctl show -P MainPID holo-agent)");
    until(&machine, "test \"$(systemctl show -P NRestarts holo-agent)\" = 1 && holo-agent status >/dev/null 2>&1");

    machine.must("systemctl stop holo-agent");
    let result = machine.must("systemctl show -P Result holo-agent; ls /run/holo-agent 2>&1 || true");
    assert!(result.starts_with(b"success\nls: cannot access"), "{result}");
    until(&machine, "! pgrep -x holo");
    let kinds = kinds(&events(&machine));
    assert_eq!(kinds[0], "run changed");
    assert!(kinds.iter().filter(|kind| *kind == "drifted").count() >= 2, "{kinds:?}");
}

fn transaction() {
    let machine = machine("packages").resource("packages/slow.toml", "[[package]]\nname = \"slow\"\n");
    machine.must(REPOSITORY);
    machine.must("touch /srv/waits && systemctl start holo-agent");
    until(&machine, "test -e /srv/begun");
    // It ends after the package is installed, and not before.
    machine.must("systemctl stop --no-block holo-agent");
    until(&machine, "holo-agent status | grep -q stopping");
    std::thread::sleep(Duration::from_secs(1));
    machine.must("test ! -e /srv/done && test \"$(systemctl show -P ActiveState holo-agent)\" = deactivating");
    machine.must("rm /srv/waits && systemctl stop holo-agent && test -e /srv/done && dpkg -s slow | grep -q 'install ok installed'");
    assert_eq!(machine.must("systemctl show -P Result holo-agent"), "success\n");
    assert!(machine.must("dpkg --audit").is_empty());
    // The next agent has no changes to make.
    machine.must("systemctl start holo-agent");
    until(&machine, "holo-agent status | grep -q 'apply unchanged, 1 entity'");
    machine.must("systemctl stop holo-agent");

    // If it is killed in the middle of a run, the run continues, and the next agent waits for it.
    machine.must("apt-get purge -y slow && rm /srv/begun /srv/done && rm -rf /var/lib/holo-agent/last.json");
    machine.must("touch /srv/waits && systemctl start holo-agent");
    until(&machine, "test -e /srv/begun");
    machine.must("test ! -e /srv/done && systemctl kill --kill-whom=main --signal=KILL holo-agent && rm /srv/waits");
    until(&machine, "test -e /srv/done && dpkg -s slow | grep -q 'install ok installed'");
    until(&machine, "holo-agent status 2>/dev/null | grep -q 'apply unchanged, 1 entity'");
    machine.must("systemctl stop holo-agent");
}

/// A server that answers each request with a new process.
const SERVER: [(&str, &str); 2] = [
    ("web.socket", "[Socket]\nListenStream=127.0.0.1:8080\nAccept=yes\n"),
    ("web@.service", "[Service]\nStandardInput=socket\nExecStart=/srv/answer\n"),
];
const ANSWER: &str = r#"#!/bin/sh
while read -r line && [ "$line" != "$(printf '\r')" ]; do :; done
printf 'HTTP/1.1 %s\r\nContent-Length: 3\r\nConnection: close\r\n\r\nup\n' "$(cat /srv/answers)"
"#;
const CHECKED: &str = r#"
file = [
    { path = "/srv/http", content = "", health_check = [{ http = "http://127.0.0.1:8080/ready", contains = "up" }] },
    { path = "/srv/tcp", content = "", health_check = [{ tcp = "127.0.0.1:8080" }] },
    { path = "/srv/unit", content = "", health_check = [{ unit = "web.socket" }] },
]
"#;

fn health() {
    let machine = machine("files").resource("files/app.toml", CHECKED);
    SERVER.iter().for_each(|(unit, content)| machine.write(format!("/etc/systemd/system/{unit}"), content));
    machine.script("/srv/answer", ANSWER);
    machine.write("/srv/answers", "200 OK");
    machine.write("/etc/holo/agent.toml", "mode = \"report\"\nhealth_interval = \"1s\"\n");
    assert!(built("holo-probe").exists());
    machine.must("systemctl daemon-reload && systemctl start web.socket && systemctl start holo-agent");
    let are = |states: [&str; 3]| {
        let begun = Instant::now();
        loop {
            let health = status(&machine)["health"].clone();
            let found = ["http", "tcp", "unit"].map(|name| health[format!("file:/srv/{name}")]["state"].clone());
            if found == states {
                return health;
            }
            assert!(begun.elapsed() < PATIENCE, "{states:?} are not so, but {health:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    are(["ok"; 3]);
    // It accepts connections, but responds with an error.
    machine.write("/srv/answers", "503 Service Unavailable");
    let health = are(["critical", "ok", "ok"]);
    assert!(health["file:/srv/http"]["text"].as_str().unwrap().contains("503"), "{health:#}");
    machine.must("systemctl stop web.socket");
    let health = are(["critical"; 3]);
    for (name, says) in [("http", "refused"), ("tcp", "refused"), ("unit", "web.socket is inactive")] {
        let text = health[format!("file:/srv/{name}")]["text"].as_str().unwrap().to_owned();
        assert!(text.contains(says), "{name}: {text}");
    }
    machine.write("/srv/answers", "200 OK");
    machine.must("systemctl start web.socket");
    are(["ok"; 3]);
    machine.must("systemctl stop holo-agent");
    let events = events(&machine);
    let changes = |name: &str| {
        let is_of = |event: &&Value| event["kind"] == "health" && event["entity"] == format!("file:/srv/{name}");
        let states = events.iter().filter(is_of).map(|event| event["state"].as_str().unwrap());
        states.collect::<Vec<_>>()
    };
    for name in ["http", "tcp", "unit"] {
        assert_eq!(changes(name), ["critical", "ok"], "{name}");
    }
}

fn timers() {
    let machine = machine_with_file();
    machine.must("systemd-analyze verify --man=no /usr/lib/systemd/system/holo-apply.timer /usr/lib/systemd/system/holo-check.timer");
    machine.must("systemctl start holo-check.service && test ! -e /srv/conf");
    machine.must("systemctl start holo-apply.service && test -e /srv/conf");
    machine.must("systemctl start holo-check.service");
    machine.must("systemctl enable --now holo-apply.timer holo-check.timer");
    assert_eq!(machine.must("systemctl is-active holo-apply.timer holo-check.timer"), "active\nactive\n");
    assert!(machine.must("holo history --json").contains_str("holo-apply.service"));
}

/// A setting that needs a mount namespace would hide the mount.
fn mounts() {
    let machine = machine("exec");
    let machine = ["applied", "kept"].into_iter().fold(machine, |machine, name| {
        machine.must(&format!("mkdir /srv/{name}"));
        machine.resource(
            format!("exec/{name}.toml"),
            format!(
                "[[exec]]\nname = \"{name}\"\nshell = true\ncommand = \"mount -t tmpfs none /srv/{name}\"\n\
                 unless_command = \"mountpoint --quiet /srv/{name}\"\n"
            ),
        )
    });
    machine.must("systemctl start holo-apply.service && mountpoint /srv/applied && umount /srv/kept");
    // A check runs the guards with its own restrictions.
    let check = "systemctl start holo-check.service && journalctl --no-pager -o cat -u holo-check";
    let seen = machine.must(check);
    assert!(seen.contains_str("exec:kept") && !seen.contains_str("exec:applied"), "{seen}");
    machine.must("systemctl start holo-agent.service");
    until(&machine, "mountpoint --quiet /srv/kept");
}

/// The exposure levels that `systemd-analyze security` may compute at most, in tenths. Versions of systemd differ a little.
const EXPOSURE: [(&str, u32); 3] = [("holo-agent", 90), ("holo-apply", 90), ("holo-check", 70)];

fn restrictions() {
    for (unit, limit) in EXPOSURE {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../units/{unit}.service"));
        let mut analyze = Program::new("systemd-analyze");
        analyze.args(["security", "--no-pager", "--offline=true", &format!("--threshold={limit}")]).arg(path);
        let output = analyze.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("Overall exposure level"), "{output:?}");
        assert_eq!(output.ended.failure(), None, "{unit}: {text}");
    }
}
