//! Kills the plugin and its child processes at every system call that changes anything: runlevels and their records
//! stay consistent.

use super::{DAEMON, Host};
use holo_testing::binaries::built;
use holo_testing::disturb::{self, Disturbance, Seen};

const ARGUMENTS: &str = "/run/strace-arguments";
const LOG: &str = "/run/strace-log";
/// The system calls for saving and removing records, and that of `rc-update`, which adds a service to a runlevel by a
/// symlink.
const CALLS: [&str; 8] = ["write", "fsync", "renameat", "linkat", "mkdirat", "unlinkat", "unlink", OF_RUNLEVELS];
const OF_RUNLEVELS: &str = "symlink";

const BEFORE: &str = "boot sysinit";
const WANTED: &str = "boot default";
const DEFINITION: &str =
    "[[service]]\nname = 'killed'\nensure = 'unmanaged'\nenable = true\nrunlevels = ['boot', 'default']\n";

pub(super) fn at_every_call(host: &Host) {
    host.script("killed", DAEMON);
    let program = built("holo-services");
    let wrapper = format!(
        "#!/bin/sh\nif [ \"$1\" != info ] && [ -e {ARGUMENTS} ]; then IFS='\n'; exec strace $(cat {ARGUMENTS}) '{0}' \"$@\"; fi\nexec '{0}' \"$@\"\n",
        program.display()
    );
    host.system.script("/usr/local/sbin/holo-services-traced", wrapper);
    let holorc = host.system.read("/etc/holorc");
    host.system.write("/etc/holorc", "plugin services=/usr/local/sbin/holo-services-traced\n");
    let mut in_runlevels = 0;
    let applied = disturb::everywhere(&CALLS, |call, number| {
        begin(host);
        host.declare(DEFINITION);
        let seen = killed_at(host, call, number);
        in_runlevels += usize::from(seen.is_disturbed() && call == OF_RUNLEVELS);
        settles(host, WANTED, &format!("applied, killed at {call} number {number}"));
        host.declare("");
        settles(host, BEFORE, &format!("scrubbed after it was killed at {call} number {number}"));
        seen
    });
    assert!(applied > 10 && in_runlevels > 0, "only {applied} kills, {in_runlevels} of rc-update");
    let scrubbed = disturb::everywhere(&CALLS, |call, number| {
        begin(host);
        host.declare(DEFINITION);
        host.apply();
        host.declare("");
        let seen = killed_at(host, call, number);
        settles(host, BEFORE, &format!("scrubbed, killed at {call} number {number}"));
        let records = host.system.sh(r#"holo state export | grep '"store":"services"'"#);
        assert_eq!(records.stdout_lossy(), "", "killed at {call} number {number}");
        seen
    });
    assert!(scrubbed > 3, "only {scrubbed} kills");
    host.system.must("rm /etc/runlevels/*/killed");
    host.system.write("/etc/holorc", holorc);
}

fn begin(host: &Host) {
    host.tidy();
    host.system.must("rm -f /etc/runlevels/*/killed; rc-update add killed boot; rc-update add killed sysinit");
}

/// Applies everything, and kills the plugin and its child processes at a call.
fn killed_at(host: &Host, call: &str, number: usize) -> Seen {
    let inject = format!("inject={call}:signal=SIGKILL:when={number}");
    host.system.write(ARGUMENTS, ["-f", "-qq", "-o", LOG, "-e", &format!("trace={call}"), "-e", &inject].join("\n"));
    let run = host.system.holo(&["apply"]);
    assert!(!run.stderr_lossy().contains("panicked"), "{run}");
    Seen::new(host.system.sh(&format!("rm {ARGUMENTS}; cat {LOG}; rm {LOG}")).stdout, Disturbance::Kill)
}

/// Checks that the next apply reaches the desired state, and that this is stable.
#[track_caller]
fn settles(host: &Host, levels: &str, what: &str) {
    let run = host.system.holo(&["apply"]);
    assert!(run.success(), "{what}: {run}");
    assert_eq!(host.levels("killed"), levels, "{what}");
    let run = host.system.holo(&["check"]);
    assert!(run.success(), "{what}: {run}");
}
