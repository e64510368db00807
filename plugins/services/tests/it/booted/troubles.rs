//! Cases of units that cannot reach their desired states.

use super::Case;
use super::host::Host;

pub(crate) const ALL: &[Case] = &[
    ("a unit that fails is shown with its last lines, and keeps no other from starting", fails),
    ("a unit that fails right after it was started has failed", fails_after_start),
    ("a unit that fails at every apply and is as before refreshes nothing", fails_again),
    ("a failed unit is started again when it is mended", mended),
    ("one that cannot be enabled keeps no other from being", one_by_one),
    ("a unit that does not exist is stopped and disabled, and nothing else", missing),
    ("a unit whose own file is where its mask would be is left as it is", in_the_way),
    ("definitions of units that contradict each other are errors", contradictions),
    ("a unit that vanishes is no obstacle to forgetting it", vanishes),
    ("static units cannot be enabled, and say so", cannot_be_enabled),
    ("a broken file is named", broken),
    ("a time limit holds", time_limit),
    ("a unit that is being started is waited for, and has failed if it is not up in time", never_ready),
    ("every state that a real system has is understood", every_state),
];

fn fails(host: &Host) {
    let failing = "[Service]\nType=oneshot\nExecStart=sh -c 'echo no such port >&2; exit 7'\n";
    host.unit("fails.service", failing);
    host.daemon("works.service");
    host.declare("[[service]]\nname = 'fails'\n[[service]]\nname = 'works'\nenable = true\n");
    let said = host.apply_fails();
    assert!(said.contains("!! cannot start fails.service: Job for fails.service failed"), "{said}");
    assert!(said.contains("no such port") && said.contains("status=7"), "{said}");
    assert!(!said.contains("cannot start works.service"), "{said}");
    assert!(host.is_active("works"));
    let check = host.check();
    assert!(check.stdout_lossy().contains("would start fails.service"), "{check}");
    host.declare_nothing();
    host.apply();
}

fn contradictions(host: &Host) {
    let unit = |section: &str| format!("[Unit]\n{section}\n[Service]\nExecStart=sleep 86400\n");
    host.unit("one.service", &unit(""));
    host.unit("rival.service", &unit("Conflicts=one.service"));
    host.unit("needs.service", &unit("BindsTo=one.service\nAfter=one.service"));
    host.unit("part.service", &unit("PartOf=one.service"));
    let one = |ensure: &str| format!("[[service]]\nname = 'one'\nensure = '{ensure}'\n");
    let also = |name: &str| format!("[[service]]\nname = '{name}'\n");
    // The manager knows only of loaded units that they are parts of others.
    host.declare(&(one("running") + &also("part")));
    host.apply();
    let cases = [
        (
            one("stopped") + &also("part"),
            "!! one.service has the part part.service, which must run according to service:part",
        ),
        (
            one("running") + &also("rival"),
            "!! rival.service conflicts with one.service, which must run according to service:one",
        ),
        (
            one("stopped") + &also("needs"),
            "!! needs.service requires one.service, which must be stopped according to service:one",
        ),
    ];
    for (definitions, problem) in cases {
        host.declare(&definitions);
        let check = host.check();
        assert!(check.status == Some(1) && check.stderr_lossy().contains(problem), "{problem}\n{check}");
        let said = host.apply_fails();
        assert!(said.contains(problem), "{said}");
        assert!(!host.is_active("rival") && !host.is_active("needs"), "{said}");
    }
    // A definition that goes is none.
    host.declare(&also("rival"));
    host.apply();
    assert!(host.is_active("rival") && !host.is_active("one"));
    host.declare_nothing();
    host.apply();
}

fn fails_after_start(host: &Host) {
    host.unit("flees.service", "[Service]\nExecStart=sh -c 'echo cannot stay; exit 9'\n");
    host.unit("ends.service", "[Service]\nExecStart=true\n");
    host.unit("retries.service", "[Service]\nExecStart=false\nRestart=always\nRestartSec=1h\n");
    host.declare("[[service]]\nname = 'flees'\n[[service]]\nname = 'ends'\n[[service]]\nname = 'retries'\n");
    let said = host.apply_fails();
    assert!(said.contains("!! flees.service does not run: it is failed (failed), exit-code 9"), "{said}");
    assert!(said.contains("cannot stay"), "{said}");
    assert!(said.contains("!! ends.service does not run: it is inactive (dead)"), "{said}");
    assert!(said.contains("!! retries.service does not run: it is activating (auto-restart), exit-code 1"), "{said}");
    host.declare("[[service]]\nname = 'retries'\nensure = 'stopped'\n");
    host.apply();
    assert_eq!(host.property("retries", "ActiveState"), "inactive");
}

fn fails_again(host: &Host) {
    host.unit("fails.service", "[Service]\nType=exec\nExecStartPre=false\nExecStart=sleep 86400\n");
    host.unit("flees.service", "[Service]\nExecStart=sh -c 'exit 9'\n");
    host.daemon("listens.service");
    host.system.must("systemctl daemon-reload");
    let listens = "[[service]]\nname = 'listens'\nsubscribes = ['service:fails', 'service:flees']\n";
    host.declare(&format!("[[service]]\nname = 'fails'\n[[service]]\nname = 'flees'\n{listens}"));
    for first in [true, false, false] {
        let said = host.apply_fails();
        assert!(
            said.contains("!! cannot start fails.service: ") && said.contains("!! flees.service does not run"),
            "{said}"
        );
        assert_eq!(said.contains("\nstarted listens.service\n"), first, "{said}");
        assert!(!said.contains("restarted listens.service"), "{said}");
    }
    // A unit that was running and is not any more has changed.
    host.unit("flees.service", "[Service]\nExecStart=sleep 86400\n");
    let said = host.apply_fails();
    assert!(said.contains("started flees.service\n") && said.contains("restarted listens.service\n"), "{said}");
    host.declare_nothing();
    host.apply();
}

fn mended(host: &Host) {
    // systemd refuses to start it again within the hour.
    let limit = "[Unit]\nStartLimitBurst=1\nStartLimitIntervalSec=1h\n";
    let service = "[Service]\nType=exec\nExecStartPre=test -e /run/mended\nExecStart=sleep 86400\n";
    host.unit("mended.service", &format!("{limit}{service}"));
    assert!(!host.system.sh("systemctl start mended").success());
    host.service("mended", "");
    let said = host.apply_fails();
    assert!(said.contains("cannot start mended.service"), "{said}");
    host.system.must("touch /run/mended");
    assert!(!host.system.sh("systemctl start mended").success());
    let said = host.apply();
    assert!(said.contains("started mended.service"), "{said}");
    host.declare_nothing();
    host.apply();
    assert!(host.is_active("mended"), "it was not stopped before us, but had failed");
    host.system.must("systemctl stop mended");
}

fn one_by_one(host: &Host) {
    host.unit("0-odd.service", "[Service]\nExecStart=sleep 86400\n[Install]\nAlias=other-type.socket\n");
    host.daemon("1-even.service");
    host.daemon("2-even.service");
    let declared = ["0-odd", "1-even", "2-even"].map(|name| format!("[[service]]\nname = '{name}'\nenable = true\n"));
    host.declare(&declared.concat());
    // As if systemd refused all of them because of one.
    let refuses =
        "case \"$*\" in *enable*-odd*-even*) echo Refused >&2; exit 1;; esac\nexec /usr/bin/systemctl \"$@\"\n";
    host.system.script("/usr/local/sbin/systemctl", format!("#!/bin/sh\n{refuses}"));
    let said = host.apply_fails();
    host.spy();
    assert!(said.contains("!! cannot enable 0-odd.service: Failed to enable unit: Cannot alias"), "{said}");
    assert!(!said.contains("cannot enable 1-even"), "{said}");
    for unit in ["1-even", "2-even"] {
        assert!(host.is_active(unit) && host.enablement(unit) == "enabled", "{unit}");
    }
    host.declare_nothing();
    host.apply();
}

fn missing(host: &Host) {
    host.service("missing", "ensure = 'stopped'\nenable = false");
    host.nothing_to_do();
    host.service("missing", "enable = true");
    let check = host.check();
    let problem = "!! missing.service does not exist\n";
    assert!(check.status == Some(1) && check.stderr_lossy().contains(problem), "nothing may bring it: {check}");
    // Another plugin may still create it as long as any of its entities is pending.
    host.system.write("/usr/share/holo/files/10-case.toml", "[[file]]\npath = '/etc/brings'\ncontent = 'x'\n");
    let check = host.check();
    assert!(check.status == Some(3) && check.stdout_lossy().contains("would start missing.service"), "{check}");
    assert!(host.system.holo(&["apply", "file:/etc/brings"]).success());
    let check = host.check();
    assert!(check.status == Some(1) && check.stderr_lossy().contains(problem), "{check}");
    host.system.must("rm /usr/share/holo/files/10-case.toml /etc/brings");
    let said = host.apply_fails();
    assert!(said.contains("!! missing.service does not exist\n"), "{said}");
    let run = host.system.sh(r#"holo state export | grep '"store":"services"'"#);
    assert!(run.stdout.is_empty(), "nothing was changed, so nothing is remembered: {run}");
}

fn in_the_way(host: &Host) {
    host.daemon("own.service");
    host.system.write("/opt/linked.service", "[Service]\nExecStart=sleep 86400\n[Install]\nWantedBy=basic.target\n");
    host.system.must("systemctl link /opt/linked.service; systemctl enable --now own linked");
    host.declare(&["own", "linked"].map(|name| format!("[[service]]\nname = '{name}'\nmask = true\n")).concat());
    for verb in ["check", "apply"] {
        host.calls();
        let run = host.system.holo(&[verb]);
        assert_eq!(run.status, Some(1), "{run}");
        for name in ["own", "linked"] {
            let why =
                format!("!! {name}.service cannot be masked, as /etc/systemd/system/{name}.service is in the way\n");
            assert!(run.stderr_lossy().contains(&why), "{run}");
            assert!(host.is_active(name) && host.enablement(name) == "enabled", "{name}");
        }
        assert_eq!(host.verbs(), ["show"], "{verb}");
    }
    // A file that comes before it cannot create it.
    host.system.must("systemctl disable --now linked");
    host.system.write(
        "/usr/share/holo/files/10-case.toml",
        "[[file]]\npath = '/etc/systemd/system/own.service'\nensure = 'absent'\n",
    );
    host.service("own", "mask = true");
    let check = host.check();
    assert!(check.status == Some(3) && check.stdout_lossy().contains("would mask own.service"), "{check}");
    host.system.must("rm /usr/share/holo/files/10-case.toml; systemctl disable --now own");
}

fn vanishes(host: &Host) {
    host.daemon("vanishes.service");
    host.service("vanishes", "enable = true");
    host.apply();
    host.system.must("rm /etc/systemd/system/vanishes.service; systemctl daemon-reload");
    let said = host.apply_fails();
    assert!(said.contains("!! vanishes.service"), "{said}");
    assert!(host.is_active("vanishes"));
    host.system.must("systemctl stop vanishes");
    host.declare_nothing();
    host.apply();
    host.nothing_to_do();
    // A running unit whose file was removed is stopped.
    host.daemon("lingers.service");
    host.service("lingers", "");
    host.apply();
    host.system.must("rm /etc/systemd/system/lingers.service; systemctl daemon-reload");
    host.declare_nothing();
    host.apply();
    assert!(!host.is_active("lingers"));
}

fn cannot_be_enabled(host: &Host) {
    host.unit("static.service", "[Service]\nExecStart=sleep 86400\n");
    host.service("static", "enable = true");
    let said = host.apply_fails();
    let why = "static.service is static: its file does not say what would start it, and cannot be enabled";
    assert!(said.contains(why), "{said}");
    let check = host.check();
    assert!(check.status == Some(1) && check.stderr_lossy().contains(why), "{check}");
    host.service("static", "enable = false");
    host.apply();
    assert!(host.is_active("static"));
    host.nothing_to_do();
    host.declare_nothing();
    host.apply();
}

fn broken(host: &Host) {
    host.unit("broken.service", "[Service]\nExecStrat=sleep 86400\n");
    host.service("broken", "");
    let said = host.apply_fails();
    assert!(said.contains("!! broken.service has a file that systemd cannot use: "), "{said}");
    host.service("broken", "ensure = 'stopped'");
    host.nothing_to_do();
}

fn time_limit(host: &Host) {
    host.unit("slow.service", "[Service]\nType=oneshot\nExecStart=sleep 86400\n");
    host.daemon("quick.service");
    host.declare("[[service]]\nname = 'slow'\ntimeout = '500ms'\n[[service]]\nname = 'quick'\n");
    let said = host.apply_fails();
    assert!(said.contains("!! cannot start slow.service: timed out after 500ms"), "{said}");
    assert!(host.is_active("quick"));
    host.system.must("systemctl stop slow quick");
}

fn never_ready(host: &Host) {
    host.unit("never.service", "[Service]\nType=notify\nTimeoutStartSec=infinity\nExecStart=sleep 86400\n");
    host.unit("later.service", "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=sleep 2\n");
    host.service("never", "timeout = '500ms'");
    for _ in 0..2 {
        let said = host.apply_fails();
        assert!(said.contains("!! cannot start never.service: timed out after 500ms"), "{said}");
        assert_eq!(host.property("never", "ActiveState"), "activating");
        let check = host.check();
        assert!(check.status == Some(3) && check.stdout_lossy().contains("would start never.service"), "{check}");
    }
    host.system.must("systemctl stop never; systemctl start --no-block later");
    host.service("later", "");
    let said = host.apply();
    assert!(said.contains("started later.service"), "{said}");
    assert!(host.is_active("later"));
    host.nothing_to_do();
    host.declare_nothing();
    host.apply();
    assert!(host.is_active("later"), "it was on its way up before us");
    host.system.must("systemctl stop later");
}

fn every_state(host: &Host) {
    let units = "systemctl list-units --all --full --plain --no-legend | awk '{ print $1 }'";
    host.system.must(&format!(
        "{units} | while read -r unit; do printf \"[[service]]\\nname = '%s'\\nensure = 'stopped'\\n\" \"$unit\"; done \
         >/usr/share/holo/services/all.toml"
    ));
    let check = host.check();
    let said = check.stderr_lossy();
    assert!(!said.contains("unknown"), "{check}");
    // At least process 1, the root file system and the slices are running.
    let running = check.stdout_lossy().matches("would stop").count();
    assert!(running > 20, "{check}");
    let words = host.system.must("systemctl --state=help").to_string();
    assert!(words.contains("Available service unit substates"), "{words}");
}

/// Tests of a system that is not booted.
pub(crate) fn without_systemd(host: &Host) {
    host.daemon("offline.service");
    host.service("offline", "enable = true");
    let said = host.apply_fails();
    assert!(said.contains("offline.service cannot be started: systemd is not running here"), "{said}");
    assert!(host.system.exists("/etc/systemd/system/basic.target.wants/offline.service"));
    let check = host.check();
    assert_eq!(check.status, Some(1), "{check}");
    host.service("offline", "ensure = \"stopped\"\nenable = true");
    host.apply();
    host.declare_nothing();
    host.apply();
    assert!(!host.system.exists("/etc/systemd/system/basic.target.wants/offline.service"));
}
