//! Other processes that hold locks, foreign architectures that were removed, and scripts that print control characters.

use crate::support::{APT, DNF, Manager, ZYPPER, applied, apply, changes_of, define, is_dnf_5, must, packages};
use holo_testing::disturb::{self, Disturbance};
use holo_testing::{Need, ScratchRoot};
use libtest_mimic::Trial;
use std::time::Duration;

pub(crate) fn trials() -> Vec<Trial> {
    const TOOLS: [&[&str]; 2] = [
        &["rpmbuild", "createrepo_c", "rpm", "python3", "dnf"],
        &["rpmbuild", "createrepo_c", "rpm", "python3", "zypper"],
    ];
    let rpm = |manager: Manager, name: &str, test: fn(&ScratchRoot, Manager)| {
        let tools = TOOLS[usize::from(manager.name == "zypper")];
        Manager { tools, ..manager }.trial(&format!("{}: {name}", manager.name), move |root| {
            must(root, if manager.name == "dnf" { FETCH_DNF } else { FETCH_ZYPPER });
            // The RPM database exists only after the first installation.
            applied(root, &["foo"], &["installed foo 2:0.9-1"]);
            test(root, manager);
        })
    };
    let killed = holo_testing::trial_of(
        "apt: a transaction may be killed at any point, and the next apply ends it",
        &[Need::Root, Need::Program("apt-ftparchive"), Need::Program("dpkg-deb"), Need::Program("strace")],
        killed,
    );
    vec![
        killed,
        rpm(DNF, "another one at work is waited for, but not for ever", dnf_at_work),
        rpm(ZYPPER, "another one at work is waited for, but not for ever", zypper_at_work),
        rpm(DNF, "RPM at work is waited for, but not for ever", rpm_at_work),
        rpm(ZYPPER, "RPM at work is waited for, but not for ever", rpm_at_work),
        APT.trial("apt: an orphan of a removed architecture is forgotten", no_architecture),
        APT.trial("apt: control characters in script output are escaped", escapes),
    ]
}

const FETCH_DNF: &str = "dnf -q --installroot=$R makecache >/dev/null 2>&1";
const FETCH_ZYPPER: &str = "zypper --root $R --non-interactive refresh >/dev/null";

/// Asserts that a lock delays an apply, and that a lock that is never released fails all packages once.
fn waits(root: &ScratchRoot, locked_for: &dyn Fn(u32) -> String, words: &str) {
    must(root, &locked_for(3));
    applied(root, &["baz", "foo"], &["installed baz 1.0-1"]);
    // Wait until the first process has ended, as it would release the lock of the second.
    must(root, "while kill -0 $(cat $R/other) 2>/dev/null; do sleep 0.1; done");
    must(root, &locked_for(600));
    let run = apply(root, &["bar timeout=\"2s\"", "baz", "foo", "old ensure=\"absent\""], &[], 1);
    // With its children.
    must(root, "kill -- -$(cat $R/other)");
    assert!(run.stderr_lossy().contains(words), "{run}");
    assert_eq!(changes_of(&run), [""; 0], "{run}");
}

/// The lock of dnf 4 is a file with a process ID. The lock of dnf 5 is an fcntl lock.
fn dnf_at_work(root: &ScratchRoot, _: Manager) {
    if is_dnf_5() {
        let locked = |seconds: u32| held("$R/var/lib/dnf/system-repo.lock", seconds);
        return waits(root, &locked, "!! dnf: ");
    }
    let path = "$R/var/cache/dnf/metadata_lock.pid";
    waits(root, &|seconds| held_by_pid(path, seconds), "metadata already locked by ");
}

/// The lock of zypper is a file with a process ID.
fn zypper_at_work(root: &ScratchRoot, _: Manager) {
    let words = "System management is locked by the application with pid";
    waits(root, &|seconds| held_by_pid("$R/run/zypp.pid", seconds), words);
}

/// Returns a script that holds a lock for some seconds by writing a process ID to a file. The process writes it itself,
/// when it has left the session of the script and so is not killed with it.
fn held_by_pid(path: &str, seconds: u32) -> String {
    format!(
        "rm -f $R/other; setsid sh -c 'echo $$ >{path}; echo $$ >$R/.other; mv $R/.other $R/other; sleep {seconds}; rm {path}' \
         >/dev/null 2>&1 & until test -e $R/other; do sleep 0.1; done"
    )
}

/// The lock of RPM is an fcntl lock.
fn rpm_at_work(root: &ScratchRoot, _: Manager) {
    let path = "$(find $R -name .rpm.lock | grep -v /build/)";
    let words = if is_dnf_5() { "Rpm transaction failed" } else { "can't create transaction lock" };
    waits(root, &|seconds| held(path, seconds), words);
}

/// Returns a script that holds an fcntl lock for some seconds.
fn held(path: &str, seconds: u32) -> String {
    format!(
        "rm -f $R/locked; path={path}; setsid python3 -c \"import fcntl, sys, time\n\
         lock = open(sys.argv[1], 'w')\nfcntl.lockf(lock, fcntl.LOCK_EX)\nopen(sys.argv[2], 'w').close()\n\
         time.sleep({seconds})\" $path $R/locked >/dev/null 2>&1 & echo $! >$R/other; until test -e $R/locked; do sleep 0.1; done"
    )
}

fn apt(root: &ScratchRoot, command: &str) {
    let config = "printf 'Dir \"%s/\";\\nDir::State::status \"%s/var/lib/dpkg/status\";\\nDir::Bin::dpkg \"/usr/bin/dpkg\";\\n\
         DPkg::Options { \"--root=%s\"; };\\n' $R $R $R >$R/apt.conf; export APT_CONFIG=$R/apt.conf DEBIAN_FRONTEND=noninteractive";
    must(root, &format!("{config}; {command}"));
}

fn no_architecture(root: &ScratchRoot) {
    apt(root, "apt-get -q update; apt-get -qy install multi:i386");
    applied(root, &["foo", "multi:i386 ensure=\"absent\""], &["installed foo 2:0.9", "removed multi:i386 1.0"]);
    must(root, "sed -i /i386/d $R/var/lib/dpkg/arch; grep -q amd64 $R/var/lib/dpkg/arch");
    let run = apply(root, &["foo"], &[], 0);
    let warning = ">> apt is not configured for i386 any more; multi:i386 is left as it is and no longer managed";
    assert_eq!(run.stderr_lossy().trim(), warning, "{run}");
    applied(root, &["foo"], &[]);
}

/// Kills the plugin, apt and dpkg, each at its system call with this number: at startup, while packages are unpacked, and later.
fn killed() {
    let points =
        [("rename", [1, 4, 9, 16]), ("renameat2", [1, 2, 3, 5]), ("fsync", [2, 7, 14, 25]), ("mkdir", [1, 2, 3, 5])];
    let mut kills = 0;
    for (call, number) in points.into_iter().flat_map(|(call, numbers)| numbers.map(|number| (call, number))) {
        let root = ScratchRoot::new().time_limit(Duration::from_secs(180)).env("LC_ALL", "C");
        let root = disturb::configure(root.file("etc/os-release", "ID=debian\n"), "packages");
        must(&root, APT.build);
        define(&root, &packages(&["baz", "foo ensure=\"1.0\"", "plus"]));
        assert!(root.holo(&["apply"]).success());
        define(&root, &packages(&["bar", "foo ensure=\"latest\"", "plus ensure=\"absent\"", "rival"]));
        let (run, seen) = disturb::at(&root, &["apply"], call, number, Disturbance::Kill);
        kills += usize::from(seen.is_disturbed());
        assert!(!run.stderr_lossy().contains("panicked"), "{run}");
        let next = root.holo(&["apply"]);
        assert!(next.success(), "killed at {call} number {number}: {next}\nafter {run}");
        let query = "dpkg-query --admindir=$R/var/lib/dpkg -W -f '${Package} ${Version} ${db:Status-Abbrev};' | grep -o '[^;]* ii ;' || true";
        let state = must(&root, query);
        let installed: Vec<&str> = state.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(installed, ["bar", "foo", "rival"], "killed at {call} number {number}: {next}");
        let again = root.holo(&["apply"]);
        assert!(again.success() && again.stdout.is_empty() && again.stderr.is_empty(), "{call} {number}: {again}");
    }
    assert!(kills > 5, "only {kills} kills: the test does not test what it says");
}

fn escapes(root: &ScratchRoot) {
    must(root, "sh $D/build-deb.sh make rude 1.0 all '' 'printf \"\\033[2J\\033]0;owned\\007gone\\n\" >&2; exit 1'");
    let run = apply(root, &["rude"], &[], 1);
    assert!(run.stderr_lossy().contains("\\u{1b}[2J\\u{1b}]0;owned\\u{7}gone\n"), "{run}");
    assert!(!run.stderr.contains(&0x1b) && !run.stdout.contains(&0x1b), "{run}");
}
