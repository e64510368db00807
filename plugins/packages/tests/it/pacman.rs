//! Tests with pacman in a separate root, and packages that are built for it.

use crate::support::{self, applied, apply, changes_of, checked_and_applied, define, must, packages};
use holo_testing::ScratchRoot;
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let test = |name: &str, test: fn(&ScratchRoot)| support::PACMAN.trial(name, test);
    vec![
        test("packages that pacman ignores are held", ignored),
        test("packages are installed, changed and removed as declared", life),
        test("undeclared packages are not removed", refusals),
        test("only the package that causes a failure fails", culprits),
        test("an orphan is restored", orphans),
        test("the lock of another process delays an apply", locks),
        test("packages installed on request are adopted", adopts),
    ]
}

const PACMAN: &str = "pacman --root $R --dbpath $R/var/lib/pacman --config $R/etc/pacman.conf --cachedir $R/var/cache/pacman/pkg \
    --logfile $R/log --gpgdir $R/etc/pacman.d/gnupg --noconfirm";

/// Returns the installed packages in the format of pacman.
fn state(root: &ScratchRoot) -> String {
    must(root, &format!("{PACMAN} -Q | tr '\\n' ';'"))
}

fn life(root: &ScratchRoot) {
    let wanted = ["bar", "baz", "foo ensure=\"1.0\""];
    // The packages are unknown until the index is refreshed.
    applied(root, &wanted, &["installed bar 1.0-1", "installed baz 1.0-1", "installed foo 1.0-1"]);
    assert_eq!(state(root), "bar 1.0-1;baz 1.0-1;foo 1.0-1;");
    applied(root, &["bar", "baz", "foo ensure=\"1.0-1\""], &[]);
    checked_and_applied(root, &["bar", "baz", "foo ensure=\"latest\""], &["upgraded foo 1.0-1 to 1.1-1"]);
    let wanted = ["bar", "baz ensure=\"absent\"", "foo ensure=\"1.1\""];
    root.write("etc/baz.conf", "a person's\n");
    checked_and_applied(root, &wanted, &["removed baz 1.0-1"]);
    assert_eq!(root.read("etc/baz.conf.pacsave"), "a person's\n");
    let run = apply(root, &["bar", "baz ensure=\"absent\"", "foo ensure=\"1.0\""], &[], 1);
    assert!(run.stderr_lossy().contains("foo 1.1-1 is newer than 1.0-1 (use --force to proceed)"), "{run}");
    let run = apply(root, &["bar", "baz ensure=\"absent\"", "foo ensure=\"1.0\""], &["--force"], 0);
    assert_eq!(changes_of(&run), ["downgraded foo 1.1-1 to 1.0-1"], "{run}");
    let run = apply(root, &["bar", "foo hold=true"], &[], 1);
    assert!(run.stderr_lossy().contains("pacman cannot hold packages"), "{run}");
}

fn ignored(root: &ScratchRoot) {
    must(
        root,
        "bash $D/build-arch.sh make grouped 1.0-1 'group = pinned'; bash $D/build-arch.sh make user 1.0-1 'depend = foo>=1.1'",
    );
    must(root, &format!("{PACMAN} -Sy grouped; {PACMAN} -U $R/repo/foo-1.0-1-any.pkg.tar.zst"));
    must(root, "bash $D/build-arch.sh make grouped 2.0-1 'group = pinned'");
    must(root, "sed -i '/^Architecture/a IgnorePkg = f?o other\\nIgnoreGroup = pinned empty' $R/etc/pacman.conf");
    must(root, &format!("{PACMAN} -Sy"));
    let wanted = ["foo ensure=\"latest\"", "grouped ensure=\"latest\"", "baz"];
    define(root, &packages(&wanted));
    for run in [root.holo(&["check"]), apply(root, &wanted, &[], 1)] {
        let stderr = run.stderr_lossy();
        assert!(stderr.contains("foo is held at 1.0-1 (use --force to proceed)"), "{run}");
        assert!(stderr.contains("grouped is held at 1.0-1 (use --force to proceed)"), "{run}");
    }
    assert_eq!(state(root), "baz 1.0-1;foo 1.0-1;grouped 1.0-1;");
    // It is not changed for another package either.
    let wanted = ["foo", "grouped", "user"];
    define(root, &packages(&wanted));
    let (check, run) = (root.holo(&["check"]), apply(root, &wanted, &[], 1));
    assert!(!check.stderr_lossy().is_empty() && !run.stderr_lossy().is_empty(), "{check}\n{run}");
    assert!(state(root).contains("foo 1.0-1;") && !state(root).contains("user"), "{run}");
    // A definition or the user may override this.
    checked_and_applied(root, &["foo hold=false ensure=\"latest\"", "grouped"], &["upgraded foo 1.0-1 to 1.1-1"]);
    let run = apply(root, &["foo", "grouped ensure=\"latest\""], &["--force"], 0);
    assert_eq!(changes_of(&run), ["upgraded grouped 1.0-1 to 2.0-1"], "{run}");
}

fn adopts(root: &ScratchRoot) {
    must(root, &format!("{PACMAN} -Sy bar"));
    support::adopted(root);
}

fn refusals(root: &ScratchRoot) {
    must(root, &format!("{PACMAN} -Sy bar"));
    let run = apply(root, &["foo ensure=\"absent\""], &[], 1);
    assert!(run.stderr_lossy().contains("removing foo would remove bar 1.0-1 (use --force to proceed)"), "{run}");
    assert_eq!(state(root), "bar 1.0-1;foo 1.1-1;");
    let wanted = ["bar ensure=\"absent\"", "foo ensure=\"purged\""];
    checked_and_applied(root, &wanted, &["removed bar 1.0-1", "purged foo 1.1-1"]);
    must(root, &format!("{PACMAN} -S bar"));
    let run = apply(root, &["foo ensure=\"absent\""], &["--force"], 0);
    assert_eq!(state(root), "", "{run}");
}

fn culprits(root: &ScratchRoot) {
    must(root, "bash $D/build-arch.sh make needy 1.0-1 'depend = nothing-there'");
    let run = apply(root, &["baz", "foo", "needy", "nosuch", "rival"], &[], 1);
    assert_eq!(changes_of(&run), ["installed baz 1.0-1", "installed foo 1.1-1"], "{run}");
    let stderr = run.stderr_lossy();
    assert!(stderr.contains("!! pacman has no package nosuch\n"), "{run}");
    assert!(stderr.contains("nothing-there") && stderr.contains("conflict"), "{run}");
    // A conflicting package is removed if its removal is declared.
    let run = apply(root, &["baz ensure=\"absent\"", "foo", "rival"], &[], 0);
    assert_eq!(state(root), "foo 1.1-1;rival 1.0-1;", "{run}");
}

fn orphans(root: &ScratchRoot) {
    must(root, &format!("{PACMAN} -Sy bar baz"));
    let wanted = ["baz ensure=\"absent\"", "foo", "rival"];
    let deeds = ["removed baz 1.0-1", "marked foo as installed by hand", "installed rival 1.0-1"];
    applied(root, &wanted, &deeds);
    assert_eq!(must(root, &format!("{PACMAN} -Qqd || true")), "");
    apply(root, &[], &[], 0);
    assert_eq!(state(root), "bar 1.0-1;baz 1.0-1;foo 1.1-1;");
    assert_eq!(must(root, &format!("{PACMAN} -Qqd")), "foo");
    assert!(root.records("packages").is_empty());
}

fn locks(root: &ScratchRoot) {
    // A running process keeps the lock file open.
    let other = |then: &str| {
        format!(
            "rm -f $R/begun; setsid sh -c 'exec 9>$R/var/lib/pacman/db.lck; touch $R/begun; sleep 2; {then}' >/dev/null 2>&1 & \
             while ! test -e $R/begun; do sleep 0.05; done"
        )
    };
    must(root, &other("rm $R/var/lib/pacman/db.lck"));
    applied(root, &["baz"], &["installed baz 1.0-1"]);
    must(root, &other("true"));
    let run = apply(root, &["baz ensure=\"absent\" timeout=\"1s\"", "foo"], &[], 1);
    assert_eq!(run.stderr_lossy().matches("unable to lock database").count(), 1, "{run}");
    assert!(run.stderr_lossy().contains("!! pacman: exit status 1, so no further changes were attempted\n"), "{run}");
    // A lock file that no process has open was left behind.
    must(root, "sleep 2");
    let run = apply(root, &["baz ensure=\"absent\""], &[], 0);
    assert!(run.stderr_lossy().starts_with(">> pacman was interrupted and left "), "{run}");
    assert_eq!(changes_of(&run), ["removed baz 1.0-1"], "{run}");
}
