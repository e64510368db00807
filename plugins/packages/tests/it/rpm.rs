//! Tests with dnf and zypper in separate roots, and packages that are built for them.

use crate::support::{
    DNF, Manager, ZYPPER, applied, apply, changes_of, checked_and_applied, define, is_dnf_5, must, packages,
};
use holo_testing::ScratchRoot;
use libtest_mimic::Trial;
use std::path::Path;

const LONG: &str = "a-package-with-a-name-that-is-much-too-long-for-any-column-of-a-table";

pub(crate) fn trials() -> Vec<Trial> {
    let test = |manager: Manager, name: &str, test: fn(&ScratchRoot)| -> Trial {
        manager.trial(&format!("{}: {name}", manager.name), move |root| {
            // Fetch the index, as on a machine in use.
            must(root, if manager.name == "dnf" { FETCH_DNF } else { FETCH_ZYPPER });
            test(root);
        })
    };
    let mut trials = Vec::new();
    for manager in [DNF, ZYPPER] {
        trials.extend([
            test(manager, "packages are installed, changed and removed as declared", life),
            test(manager, "an undeclared package is not removed or downgraded", refusals),
            test(manager, "only the package that causes a failure fails", culprits),
            test(manager, "an orphan is restored", orphans),
            test(
                manager,
                "packages installed on request are adopted",
                if manager.name == "dnf" { adopts_dnf } else { adopts_zypper },
            ),
        ]);
    }
    trials.push(test(DNF, "check reports a missing index", nothing_there));
    trials.push(test(DNF, "a replacement of another package needs force", obsoletes));
    trials.push(test(ZYPPER, "a lock by a pattern holds each matching package", pattern_locks));
    trials.push(test(Manager { system: "suse", ..ZYPPER }, "holds are set, released and respected", holds));
    // In Debian, zypper and the plugins of dnf conflict, so that one of these tests cannot run there.
    trials.push(if Path::new(VERSIONLOCK).exists() || is_dnf_5() {
        test(DNF, "holds are set, released and respected", holds)
    } else {
        test(DNF, "a hold without the plugin for it is an error", no_holds)
    });
    trials
}

const VERSIONLOCK: &str = "/usr/lib/python3/dist-packages/dnf-plugins/versionlock.py";
const FETCH_DNF: &str = "dnf -q --installroot=$R makecache >/dev/null 2>&1";
const FETCH_ZYPPER: &str = "zypper --root $R --non-interactive refresh >/dev/null";

/// Returns the installed packages in the format of rpm.
fn state(root: &ScratchRoot) -> String {
    let format = "'%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n'";
    must(root, &format!("rpm --root $R -qa --qf {format} | sort | tr '\\n' ';'"))
}

fn life(root: &ScratchRoot) {
    let wanted = ["bar", "baz", "foo ensure=\"1.0\""];
    checked_and_applied(root, &wanted, &["installed bar 1.0-1", "installed baz 1.0-1", "installed foo 1.0-1"]);
    assert_eq!(state(root), "bar 0:1.0-1;baz 0:1.0-1;foo 0:1.0-1;");
    // Omitted parts of a version match any value.
    for same in ["1.0-1", "0:1.0", "0:1.0-1", "1.00"] {
        applied(root, &["bar", "baz", &format!("foo ensure=\"{same}\"")], &[]);
    }
    checked_and_applied(root, &["bar", "baz", "foo ensure=\"1.1\""], &["upgraded foo 1.0-1 to 1.1-1"]);
    checked_and_applied(root, &["bar", "baz", "foo ensure=\"latest\""], &["upgraded foo 1.1-1 to 2:0.9-1"]);
    let wanted = ["bar", "baz ensure=\"absent\"", "foo ensure=\"0.9\"", LONG];
    let installed = format!("installed {LONG} 1.0-1");
    checked_and_applied(root, &wanted, &[&installed, "removed baz 1.0-1"]);
    assert_eq!(state(root), format!("{LONG} 0:1.0-1;bar 0:1.0-1;foo 2:0.9-1;"));
    applied(root, &["bar", "baz ensure=\"purged\"", "foo", LONG], &[]);
}

fn adopts_dnf(root: &ScratchRoot) {
    must(root, "dnf -q -y --installroot=$R install bar");
    crate::support::adopted(root);
}

fn adopts_zypper(root: &ScratchRoot) {
    must(root, "zypper --root $R --non-interactive install bar");
    crate::support::adopted(root);
}

fn refusals(root: &ScratchRoot) {
    // One package stays installed, because zypper cannot handle a database from which all packages were removed.
    let stays = format!("installed {LONG} 1.0-1");
    let wanted = [LONG, "bar", "baz", "foo"];
    applied(root, &wanted, &[&stays, "installed bar 1.0-1", "installed baz 1.0-1", "installed foo 2:0.9-1"]);
    root.forget_records("packages");
    let run = apply(root, &["baz ensure=\"absent\"", "foo ensure=\"absent\""], &[], 1);
    assert!(run.stderr_lossy().contains("removing foo would remove bar 1.0-1 (use --force"), "{run}");
    assert_eq!(state(root), format!("{LONG} 0:1.0-1;bar 0:1.0-1;foo 2:0.9-1;"));
    let run = apply(root, &["bar", "baz ensure=\"absent\"", "foo ensure=\"1.0\""], &[], 1);
    assert!(run.stderr_lossy().contains("foo 2:0.9-1 is newer than 1.0-1 (use --force"), "{run}");
    let run = apply(root, &["bar", "baz ensure=\"absent\"", "foo ensure=\"1.0\""], &["--force"], 0);
    assert_eq!(changes_of(&run), ["downgraded foo 2:0.9-1 to 1.0-1"], "{run}");
    assert_eq!(state(root), format!("{LONG} 0:1.0-1;bar 0:1.0-1;foo 0:1.0-1;"));
    let wanted = ["bar ensure=\"absent\"", "baz ensure=\"absent\"", "foo ensure=\"absent\""];
    checked_and_applied(root, &wanted, &["removed bar 1.0-1", "removed foo 1.0-1"]);
    assert_eq!(state(root), format!("{LONG} 0:1.0-1;"));
}

fn culprits(root: &ScratchRoot) {
    let wanted = ["baz", "broken", "foo", "nosuch", "old ensure=\"2.0\"", "rival"];
    let run = apply(root, &wanted, &[], 1);
    assert_eq!(changes_of(&run), ["installed baz 1.0-1", "installed foo 2:0.9-1"], "{run}");
    let stderr = run.stderr_lossy();
    assert!(stderr.contains("has no package nosuch\n"), "{run}");
    assert!(stderr.contains("has no old 2.0, only 1.0-1\n"), "{run}");
    // The output of the package manager is shown.
    assert!(
        stderr.contains("PREIN scriptlet in rpm package broken") || stderr.contains("it is broken by design"),
        "{run}"
    );
    assert!(stderr.contains("rival") && stderr.contains("conflict"), "{run}");
    assert_eq!(state(root), "baz 0:1.0-1;foo 2:0.9-1;");
    // A conflicting package is removed if its removal is declared.
    let run = apply(root, &["baz ensure=\"absent\"", "foo", "rival"], &[], 0);
    assert_eq!(state(root), "foo 2:0.9-1;rival 0:1.0-1;", "{run}");
}

fn orphans(root: &ScratchRoot) {
    applied(root, &["foo ensure=\"1.0\"", "rival"], &["installed foo 1.0-1", "installed rival 1.0-1"]);
    root.forget_records("packages");
    let wanted = ["bar", "foo ensure=\"1.1\"", "rival ensure=\"absent\""];
    applied(root, &wanted, &["installed bar 1.0-1", "upgraded foo 1.0-1 to 1.1-1", "removed rival 1.0-1"]);
    checked_and_applied(root, &[], &["removed bar 1.0-1", "installed rival 1.0-1"]);
    assert_eq!(state(root), "foo 0:1.1-1;rival 0:1.0-1;");
    assert!(root.records("packages").is_empty());
}

fn nothing_there(root: &ScratchRoot) {
    must(root, "rm -rf $R/var/cache/dnf $R/var/cache/libdnf5 $R/var/lib/dnf $R/var/lib/rpm $R/root");
    define(root, &packages(&["baz", "foo ensure=\"absent\""]));
    let run = root.holo(&["check"]);
    assert_eq!(changes_of(&run), ["would fetch the index of packages, and install baz"], "{run}");
    assert!(!root.exists("var/lib/rpm") && !root.exists("root"));
    applied(root, &["baz", "foo ensure=\"absent\""], &["installed baz 1.0-1"]);
}

fn obsoletes(root: &ScratchRoot) {
    applied(root, &["baz"], &["installed baz 1.0-1"]);
    root.forget_records("packages");
    let run = apply(root, &["foo", "heir"], &[], 1);
    assert!(run.stderr_lossy().contains("installing heir would remove baz 1.0-1 (use --force"), "{run}");
    assert_eq!(state(root), "baz 0:1.0-1;foo 2:0.9-1;");
    apply(root, &["foo", "heir"], &["--force"], 0);
    assert_eq!(state(root), "foo 2:0.9-1;heir 0:1.0-1;");
}

fn no_holds(root: &ScratchRoot) {
    let run = apply(root, &["baz", "foo hold=true"], &[], 1);
    assert!(run.stderr_lossy().contains("No such command: versionlock"), "{run}");
    assert_eq!(changes_of(&run), ["installed baz 1.0-1"], "{run}");
}

/// A lock of zypper may be a pattern.
fn pattern_locks(root: &ScratchRoot) {
    applied(root, &["foo ensure=\"1.0\"", "baz"], &["installed baz 1.0-1", "installed foo 1.0-1"]);
    must(root, "zypper --root $R --non-interactive addlock 'f*o' >/dev/null");
    let wanted = ["foo ensure=\"1.1\"", "baz"];
    define(root, &packages(&wanted));
    for run in [root.holo(&["check"]), apply(root, &wanted, &[], 1)] {
        assert!(run.stderr_lossy().contains("foo is held at 1.0-1 (use --force to proceed)"), "{run}");
    }
}

fn holds(root: &ScratchRoot) {
    let is_locked = || {
        let read = |path: &str| if root.exists(path) { root.read(path).to_string() } else { String::new() };
        let dnf = read("etc/dnf/plugins/versionlock.list");
        dnf.lines().any(|line| line.starts_with("foo-"))
            || read("etc/zypp/locks").contains("solvable_name: foo")
            || read("etc/dnf/versionlock.toml").contains("name = \"foo\"")
    };
    checked_and_applied(root, &["foo ensure=\"1.0\" hold=true"], &["installed foo 1.0-1", "held foo"]);
    assert!(is_locked());
    checked_and_applied(root, &["foo ensure=\"1.1\" hold=true"], &["upgraded foo 1.0-1 to 1.1-1"]);
    assert!(is_locked());
    let run = apply(root, &["foo ensure=\"latest\""], &[], 1);
    assert!(run.stderr_lossy().contains("foo is held at 1.1-1 (use --force to proceed)"), "{run}");
    apply(root, &["foo ensure=\"latest\""], &["--force"], 0);
    assert_eq!(state(root), "foo 2:0.9-1;");
    assert!(is_locked());
    // A hold that was released for a failed change is restored.
    must(root, "sh $D/build-rpm.sh make foo 1.0 1 3 '' '%pre -p <lua>\nerror(\"it is broken by design\")'");
    must(root, &format!("{FETCH_ZYPPER} || {FETCH_DNF}"));
    let run = apply(root, &["foo ensure=\"latest\""], &["--force"], 1);
    assert_eq!(state(root), "foo 2:0.9-1;", "{run}");
    assert!(is_locked(), "{run}");
    must(root, "rm $R/repo/*/foo-1.0-1*; sh $D/build-rpm.sh make foo 1.0 1");
    must(root, &format!("{FETCH_ZYPPER} || {FETCH_DNF}"));
    checked_and_applied(root, &["foo hold=false"], &["released foo"]);
    assert!(!is_locked());
    applied(root, &["foo"], &[]);
    // A hold by holo does not prevent the removal.
    checked_and_applied(root, &["baz", "foo hold=true"], &["installed baz 1.0-1", "held foo"]);
    checked_and_applied(root, &["baz"], &["removed foo 2:0.9-1"]);
    assert_eq!(state(root), "baz 0:1.0-1;");
}
