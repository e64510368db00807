//! Tests with apt and dpkg in a separate root, and packages that are built for it.

use crate::support::{APT, applied, apply, changes_of, checked_and_applied, define, must, packages, sh};
use holo_testing::{Run, ScratchRoot, binaries::built};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let test = |name: &str, test: fn(&ScratchRoot)| APT.trial(name, test);
    vec![
        test("packages are installed in one transaction", installs),
        test("check reports what an apply would do", checks),
        test("check lists packages that come along", others),
        test("packages installed on request are adopted", adopts),
        test("versions are compared as dpkg does", versions),
        test("an older version needs force", downgrades),
        test("latest changes nothing if the latest version is installed", latest),
        test("only the package that causes a failure fails", culprits),
        test("an undeclared package is not removed with another one", removals),
        test("an undeclared package is not removed because of a conflict", conflicts),
        test("holds are set, released and respected", holds),
        test("a package with only configuration left counts as absent", leftovers),
        test("manually changed configuration is kept", conffiles),
        test("an orphan is restored", orphans),
        test("an orphan that declared packages need is kept", needed_orphans),
        test("a declared package is marked as installed by hand", marks),
        test("a watch notices that a package is removed", watched),
        test("a name may have an architecture", multi_arch),
        test("the index is fetched at most once per run if a package is unknown", refreshes),
        test("the lock of another process delays an apply", locks),
        test("a transaction is not interrupted by a signal to holo", signal_to_holo),
        test("a transaction is not interrupted by a signal to the plugin", signal_to_plugin),
        test("a transaction is not interrupted when the plugin is killed", plugin_killed),
        test("a transaction is not interrupted by its timeout", overtime),
        test("an interrupted transaction of dpkg is repaired first", interrupted),
        test("a general failure stops further attempts", tried_once),
        test("a repeated failure without a change triggers no refresh", fails_again),
        test("changes name the version that was installed", other_version),
        test("a name may end with a plus sign", plus_signs),
        test("applying entities one by one gives the same result", one_by_one),
    ]
}

/// Returns the installed packages in the format of dpkg-query.
fn state(root: &ScratchRoot) -> String {
    let format = "'${binary:Package} ${Version} ${db:Status-Abbrev};'";
    must(root, &format!("dpkg-query --admindir=$R/var/lib/dpkg -W -f={format}")).replace(" ;", ";")
}

/// Runs a command with apt set up for the root, as an administrator would.
fn apt(root: &ScratchRoot, command: &str) -> String {
    let config = "printf 'Dir \"%s/\";\\nDir::State::status \"%s/var/lib/dpkg/status\";\\nDir::Bin::dpkg \"/usr/bin/dpkg\";\\n\
         DPkg::Options { \"--root=%s\"; };\\n' $R $R $R >$R/apt.conf; export APT_CONFIG=$R/apt.conf DEBIAN_FRONTEND=noninteractive";
    must(root, &format!("{config}; {command}"))
}

fn transactions(root: &ScratchRoot) -> usize {
    must(root, "cat $R/var/log/apt/history.log 2>/dev/null || true").matches("Start-Date").count()
}

fn installs(root: &ScratchRoot) {
    let wanted = ["bar", "baz", "foo ensure=\"1.1\""];
    applied(root, &wanted, &["installed bar 1.0", "installed baz 1.0", "installed foo 1.1"]);
    assert_eq!(state(root), "bar 1.0 ii;baz 1.0 ii;foo 1.1 ii;");
    assert_eq!(transactions(root), 1);
}

fn checks(root: &ScratchRoot) {
    apt(root, "apt-get -q update; apt-get -qy install foo=1.0 old baz");
    let before = must(root, "cat $R/var/lib/dpkg/status $R/var/lib/apt/extended_states 2>&1 | sha256sum");
    let wanted = ["bar hold=true", "baz ensure=\"purged\"", "foo", "old ensure=\"absent\"", "plus"];
    define(root, &packages(&wanted));
    assert_eq!(root.holo(&["check"]).status, Some(3));
    assert_eq!(must(root, "cat $R/var/lib/dpkg/status $R/var/lib/apt/extended_states 2>&1 | sha256sum"), before);
    assert!(root.records("packages").is_empty());
    let deeds = ["installed bar 1.0", "held bar", "purged baz 1.0", "removed old 1.0", "installed plus 1.0"];
    checked_and_applied(root, &wanted, &deeds);
    assert_eq!(state(root), "bar 1.0 hi;foo 1.0 ii;old 1.0 rc;plus 1.0 ii;");
    // Without an index, a check still has a result.
    must(root, "rm -rf $R/var/lib/apt $R/var/cache/apt $R/var/lib/holo; echo >$R/var/lib/dpkg/status");
    define(root, &packages(&["foo"]));
    let run = root.holo(&["check"]);
    assert_eq!(changes_of(&run), ["would fetch the index of packages, and install foo"], "{run}");
}

fn adopts(root: &ScratchRoot) {
    apt(root, "apt-get -q update; apt-get -qy install bar");
    crate::support::adopted(root);
}

fn others(root: &ScratchRoot) {
    apt(root, "apt-get -q update; apt-get -qy install foo=0.9~rc1");
    define(root, &packages(&["bar"]));
    assert_eq!(changes_of(&root.holo(&["check"])), ["would install bar 1.0, changing foo"]);
    apt(root, "apt-get -qy purge foo");
    let pending = |wanted: &[&str], arguments: &[&str]| {
        define(root, &packages(wanted));
        changes_of(&root.holo(arguments))
    };
    assert_eq!(pending(&["bar", "baz"], &["check"]), ["would install bar 1.0 with foo", "would install baz 1.0"]);
    assert_eq!(pending(&["bar", "baz"], &["check", "package:bar"]), ["would install bar 1.0 with foo"]);
    // A declared package comes along as well.
    assert_eq!(pending(&["bar", "foo"], &["check", "package:bar"]), ["would install bar 1.0 with foo"]);
}

fn versions(root: &ScratchRoot) {
    applied(root, &["foo ensure=\"1.0\""], &["installed foo 1.0"]);
    for same in ["0:1.0", "1.00", "1.0-0"] {
        applied(root, &[&format!("foo ensure=\"{same}\"")], &[]);
    }
    checked_and_applied(root, &["foo ensure=\"1.01\""], &["upgraded foo 1.0 to 1.1"]);
    checked_and_applied(root, &["foo ensure=\"2:0.9\""], &["upgraded foo 1.1 to 2:0.9"]);
    let run = apply(root, &["foo ensure=\"1.2\""], &[], 1);
    assert!(run.stderr_lossy().contains("!! apt has no foo 1.2, only 2:0.9, 1.1, 1.0, 0.9~rc1"), "{run}");
}

fn downgrades(root: &ScratchRoot) {
    applied(root, &["foo"], &["installed foo 2:0.9"]);
    let run = apply(root, &["foo ensure=\"1.0\"", "baz"], &[], 1);
    assert!(run.stderr_lossy().contains("foo 2:0.9 is newer than 1.0 (use --force to proceed)"), "{run}");
    assert_eq!(state(root), "baz 1.0 ii;foo 2:0.9 ii;");
    // Another package that needs an older version does not justify a downgrade.
    let run = apply(root, &["baz", "foo", "old"], &[], 1);
    assert!(run.stderr_lossy().contains("old : Depends: foo (= 1.0)"), "{run}");
    let run = apply(root, &["foo ensure=\"1.0\"", "baz"], &["--force"], 0);
    assert_eq!(changes_of(&run), ["downgraded foo 2:0.9 to 1.0"], "{run}");
    assert_eq!(state(root), "baz 1.0 ii;foo 1.0 ii;");
}

fn latest(root: &ScratchRoot) {
    applied(root, &["foo ensure=\"1.0\"", "baz"], &["installed baz 1.0", "installed foo 1.0"]);
    let before = transactions(root);
    checked_and_applied(root, &["foo ensure=\"latest\"", "baz ensure=\"latest\""], &["upgraded foo 1.0 to 2:0.9"]);
    assert_eq!(transactions(root), before + 1);
    // An installed version that is newer than all available ones is kept.
    must(root, "rm $R/repo/pool/foo_2*; sh $D/build-deb.sh index");
    apt(root, "apt-get -q update");
    applied(root, &["foo ensure=\"latest\"", "baz ensure=\"latest\""], &[]);
}

fn culprits(root: &ScratchRoot) {
    let wanted = ["baz", "broken", "foo", "nosuch", "old ensure=\"2.0\"", "plus", "rival"];
    let run = apply(root, &wanted, &[], 1);
    assert_eq!(changes_of(&run), ["installed baz 1.0", "installed foo 2:0.9", "installed plus 1.0"], "{run}");
    let stderr = run.stderr_lossy();
    assert!(stderr.contains("!! apt has no package nosuch\n"), "{run}");
    assert!(stderr.contains("!! apt has no old 2.0, only 1.0\n"), "{run}");
    // The output of the package manager is shown.
    assert!(stderr.contains("it is broken by design") && stderr.contains("error exit status 3"), "{run}");
    assert!(stderr.contains("rival : Conflicts: baz") || stderr.contains("Conflicts: baz"), "{run}");
    assert_eq!(state(root), "baz 1.0 ii;broken 1.0 iF;foo 2:0.9 ii;plus 1.0 ii;");
    // A package that is only half installed counts as failed.
    let run = apply(root, &["bar", "baz", "broken", "foo", "plus"], &[], 1);
    assert!(changes_of(&run).contains(&"installed bar 1.0".to_owned()), "{run}");
    must(root, "touch $R/mended");
    applied(root, &["bar", "baz", "broken", "foo", "plus"], &["completed the installation of broken 1.0"]);
}

fn removals(root: &ScratchRoot) {
    apt(root, "apt-get -q update; apt-get -qy install bar baz");
    let run = apply(root, &["baz ensure=\"absent\"", "foo ensure=\"absent\""], &[], 1);
    assert!(run.stderr_lossy().contains("removing foo would remove bar 1.0 (use --force to proceed)"), "{run}");
    assert_eq!(changes_of(&run), ["removed baz 1.0"], "{run}");
    assert_eq!(state(root), "bar 1.0 ii;baz 1.0 rc;foo 2:0.9 ii;");
    // If both are declared, both are removed in one transaction.
    let before = transactions(root);
    let wanted = ["bar ensure=\"absent\"", "baz ensure=\"absent\"", "foo ensure=\"absent\""];
    checked_and_applied(root, &wanted, &["removed bar 1.0", "removed foo 2:0.9"]);
    assert_eq!(transactions(root), before + 1);
    // The user may force the removal.
    apt(root, "apt-get -qy install bar");
    let run = apply(root, &["baz ensure=\"absent\"", "foo ensure=\"absent\""], &["--force"], 0);
    assert_eq!(state(root), "bar 1.0 rc;baz 1.0 rc;foo 2:0.9 rc;", "{run}");
}

fn conflicts(root: &ScratchRoot) {
    apt(root, "apt-get -q update; apt-get -qy install baz");
    let run = apply(root, &["rival", "foo"], &[], 1);
    assert!(run.stderr_lossy().contains("installing rival would remove baz 1.0 (use --force"), "{run}");
    assert_eq!(state(root), "baz 1.0 ii;foo 2:0.9 ii;");
    let wanted = ["rival", "baz ensure=\"absent\""];
    let run = apply(root, &wanted, &[], 0);
    assert_eq!(state(root), "baz 1.0 rc;foo 2:0.9 rc;rival 1.0 ii;", "{run}");
}

fn holds(root: &ScratchRoot) {
    apt(root, "apt-get -q update");
    checked_and_applied(root, &["foo ensure=\"1.0\" hold=true"], &["installed foo 1.0", "held foo"]);
    assert_eq!(state(root), "foo 1.0 hi;");
    // A hold by holo does not prevent changes.
    checked_and_applied(root, &["foo ensure=\"1.1\" hold=true"], &["upgraded foo 1.0 to 1.1"]);
    assert_eq!(state(root), "foo 1.1 hi;");
    // A manual hold does.
    let run = apply(root, &["foo ensure=\"latest\""], &[], 1);
    assert!(run.stderr_lossy().contains("foo is held at 1.1 (use --force to proceed)"), "{run}");
    apply(root, &["foo ensure=\"latest\""], &["--force"], 0);
    assert_eq!(state(root), "foo 2:0.9 hi;");
    checked_and_applied(root, &["foo hold=false"], &["released foo"]);
    assert_eq!(state(root), "foo 2:0.9 ii;");
    applied(root, &["foo"], &[]);
    // A held package is not changed for another package either.
    apt(root, "apt-get -qy --allow-downgrades install foo=1.0; apt-mark hold foo");
    must(root, "sh $D/build-deb.sh make needy 1.0 all 'Depends: foo (>= 1.1)'");
    let run = apply(root, &["foo", "needy"], &[], 1);
    assert!(!run.stderr_lossy().is_empty(), "{run}");
    assert_eq!(state(root), "foo 1.0 hi;");
    define(root, &packages(&["foo hold=true ensure=\"absent\""]));
    let run = root.holo(&["apply"]);
    assert!(
        run.stderr_lossy()
            .contains("10-test.toml:3: package:foo: hold: a package that is not installed cannot be held"),
        "{run}"
    );
}

fn leftovers(root: &ScratchRoot) {
    apt(root, "apt-get -q update; apt-get -qy install baz; apt-get -qy remove baz");
    assert_eq!(state(root), "baz 1.0 rc;");
    applied(root, &["baz ensure=\"absent\""], &[]);
    checked_and_applied(root, &["baz"], &["installed baz 1.0"]);
    applied(root, &["baz ensure=\"absent\""], &["removed baz 1.0"]);
    assert_eq!(state(root), "baz 1.0 rc;");
    assert!(root.exists("etc/baz.conf"));
    checked_and_applied(root, &["baz ensure=\"purged\""], &["purged baz"]);
    assert_eq!(state(root), "");
    assert!(!root.exists("etc/baz.conf"));
}

fn conffiles(root: &ScratchRoot) {
    applied(root, &["foo ensure=\"1.0\"", "baz"], &["installed baz 1.0", "installed foo 1.0"]);
    root.write("etc/foo.conf", "a person's\n");
    applied(root, &["foo ensure=\"1.1\"", "baz"], &["upgraded foo 1.0 to 1.1"]);
    assert_eq!(root.read("etc/foo.conf"), "a person's\n");
    assert_eq!(root.read("etc/foo.conf.dpkg-dist"), "stock 1.1\n");
    must(root, "rm $R/etc/foo.conf.dpkg-dist; echo 'stock 1.1' >$R/etc/foo.conf");
    applied(root, &["foo ensure=\"latest\"", "baz"], &["upgraded foo 1.1 to 2:0.9"]);
    assert_eq!(root.read("etc/foo.conf"), "stock 2:0.9\n");
}

fn orphans(root: &ScratchRoot) {
    apt(
        root,
        "apt-get -q update; apt-get -qy install foo=1.0 plus; apt-mark hold plus; apt-get -qy install bar; apt-mark auto foo",
    );
    let wanted =
        ["bar ensure=\"absent\"", "baz hold=true", "foo ensure=\"1.1\"", "plus hold=false", "plus++ ensure=\"absent\""];
    let deeds = [
        "removed bar 1.0",
        "installed baz 1.0",
        "held baz",
        "upgraded foo 1.0 to 1.1",
        "marked foo as installed by hand",
    ];
    checked_and_applied(root, &wanted, &[&deeds[..], &["released plus"]].concat());
    assert_eq!(state(root), "bar 1.0 rc;baz 1.0 hi;foo 1.1 ii;plus 1.0 ii;");
    define(root, "");
    let scan = root.holo(&["scan"]);
    assert!(scan.stdout_lossy().contains("package:baz (all definition files have been deleted)"), "{scan}");
    // A package that needed no change was never recorded.
    assert!(!scan.stdout_lossy().contains("plus++"), "{scan}");
    let deeds = ["installed bar 1.0", "removed baz 1.0", "marked foo as installed for others", "held plus"];
    checked_and_applied(root, &[], &deeds);
    assert_eq!(state(root), "bar 1.0 ii;baz 1.0 rc;foo 1.1 ii;plus 1.0 hi;");
    assert_eq!(apt(root, "apt-mark showauto"), "foo");
    assert!(root.records("packages").is_empty());
    assert!(root.holo(&["scan"]).stdout.is_empty() || root.holo(&["scan"]).stdout_lossy().trim().is_empty());
}

fn needed_orphans(root: &ScratchRoot) {
    applied(root, &["bar", "foo"], &["installed bar 1.0", "installed foo 2:0.9"]);
    let run = apply(root, &["bar"], &[], 0);
    assert_eq!(changes_of(&run), ["left foo to bar"], "{run}");
    assert_eq!(apt(root, "apt-mark showauto"), "foo");
    applied(root, &["bar"], &[]);
    applied(root, &[], &["removed bar 1.0"]);
    apt(root, "apt-get -qy autoremove");
    assert_eq!(state(root), "bar 1.0 rc;foo 2:0.9 rc;");
}

fn marks(root: &ScratchRoot) {
    apt(root, "apt-get -q update; apt-get -qy install bar");
    checked_and_applied(root, &["foo"], &["marked foo as installed by hand"]);
    apt(root, "apt-get -qy remove bar; apt-get -qy autoremove");
    assert_eq!(state(root), "bar 1.0 rc;foo 2:0.9 ii;");
}

fn watched(root: &ScratchRoot) {
    apt(root, "apt-get -q update");
    applied(root, &["foo"], &["installed foo 2:0.9"]);
    // The watch ends at the first event, or after the given time.
    let watch = format!("{} watch --apply --json --once --for 60s >$R/log", built("holo").display());
    apt(
        root,
        &format!(
            "HOLO_ROOT_DIR=$R {watch} & until grep -q watching $R/log; do sleep 0.1; done; apt-get -qy remove foo; wait $!"
        ),
    );
    let log = root.read("log").to_string();
    assert!(log.contains(r#""event":"drifted","id":"package:foo""#), "{log}");
    assert!(log.contains(r#""event":"repaired","id":"package:foo""#), "{log}");
    assert_eq!(state(root), "foo 2:0.9 ii;");
}

fn multi_arch(root: &ScratchRoot) {
    apt(root, "apt-get -q update");
    applied(root, &["multi:i386"], &["installed multi:i386 1.0"]);
    assert_eq!(state(root), "multi:i386 1.0 ii;");
    checked_and_applied(root, &["multi", "multi:i386"], &["installed multi 1.0"]);
    assert_eq!(state(root), "multi:amd64 1.0 ii;multi:i386 1.0 ii;");
    checked_and_applied(root, &["multi", "multi:i386 ensure=\"absent\""], &["removed multi:i386 1.0"]);
    // The definition has the same ID, but refers to another package.
    let run = apply(root, &["multi arch=\"i386\""], &[], 0);
    assert_eq!(changes_of(&run), ["installed multi:i386 1.0", "removed multi 1.0"], "{run}");
    assert_eq!(run.stderr_lossy().trim(), ">> package:multi takes over from package:multi:i386", "{run}");
    // The package was not installed before, under any name.
    let run = apply(root, &["multi:i386"], &[], 0);
    assert_eq!(run.stderr_lossy().trim(), ">> package:multi:i386 takes over from package:multi", "{run}");
    assert_eq!(state(root), "multi:i386 1.0 ii;");
    applied(root, &[], &["removed multi:i386 1.0"]);
    assert_eq!(state(root), "");
}

fn refreshes(root: &ScratchRoot) {
    let updates = || must(root, "cat $R/updates 2>/dev/null || true").lines().count();
    let run = apply(root, &["foo", "nosuch", "nosuch-either requires=[\"package:foo\"]"], &[], 1);
    assert!(run.stderr_lossy().contains("apt has no package nosuch-either"), "{run}");
    assert_eq!(updates(), 1);
    applied(root, &["baz", "foo"], &["installed baz 1.0"]);
    assert_eq!(updates(), 1);
    must(root, "sh $D/build-deb.sh make new 1.0");
    applied(root, &["baz", "foo", "new"], &["installed new 1.0"]);
    assert_eq!(updates(), 2);
    // A failed refresh is reported, but does not fail other packages.
    must(root, "rm $R/repo/Release $R/repo/Packages");
    let run = apply(root, &["bar", "baz", "nosuch"], &[], 1);
    assert!(
        run.stderr_lossy().contains("apt-get: exit status 100")
            && run.stderr_lossy().contains("apt has no package nosuch"),
        "{run}"
    );
    assert!(changes_of(&run).contains(&"installed bar 1.0".to_owned()), "{run}");
}

fn locks(root: &ScratchRoot) {
    apt(root, "apt-get -q update");
    define(root, &packages(&["baz"]));
    // Another installation runs for two more seconds.
    apt(root, "setsid apt-get -qy install slow >$R/log 2>&1 & while ! test -e $R/slow-begun; do sleep 0.05; done");
    let run = root.holo(&["apply"]);
    assert_eq!(changes_of(&run), ["installed baz 1.0"], "{run}");
    assert_eq!(state(root), "baz 1.0 ii;slow 1.0 ii;");
    // The wait has a limit.
    must(root, "rm $R/slow-begun");
    apt(
        root,
        "apt-get -qy purge slow; setsid apt-get -qy install slow >$R/log 2>&1 & while ! test -e $R/slow-begun; do sleep 0.05; done",
    );
    let run = apply(root, &["baz ensure=\"absent\" timeout=\"1s\""], &[], 1);
    assert!(run.stderr_lossy().contains("lock"), "{run}");
}

fn plus_signs(root: &ScratchRoot) {
    applied(root, &["plus++"], &["installed plus++ 1.0"]);
    let run = apply(root, &["plus+", "foo+"], &[], 1);
    assert!(run.stderr_lossy().contains("apt has no package plus+"), "{run}");
    assert_eq!(state(root), "plus++ 1.0 rc;", "{run}");
    for bad in ["-y", "--purge", "foo-", "foo=1", "foo/x", "fo*", "a b", "Foo"] {
        define(root, &format!("[[package]]\nname = \"{bad}\"\n"));
        let run = root.holo(&["apply"]);
        let expected = if bad == "Foo" { "is not a valid Debian package name" } else { "10-test.toml:2: package:" };
        assert!(run.stderr_lossy().contains(expected), "{bad}: {run}");
    }
}

fn one_by_one(root: &ScratchRoot) {
    let environment = "export HOLO_ROOT_DIR=$R HOLO_API_VERSION=3 HOLO_RESOURCE_DIR=$R/usr/share/holo/packages \
        HOLO_STATE_DIR=$R/var/lib/holo/packages HOLO_CACHE_DIR=$R/tmp/cache; mkdir -p $HOLO_CACHE_DIR $HOLO_STATE_DIR";
    let plugin = built("holo-packages");
    define(root, &packages(&["baz", "foo ensure=\"1.0\"", "nosuch"]));
    let call = |word: &str, id: &str| {
        sh(root, &format!("{environment}; {} {word} {id} 3>$R/messages && cat $R/messages", plugin.display()))
    };
    let run = call("apply", "package:foo");
    assert_eq!(run.stdout, "installed foo 1.0\n", "{run}");
    assert_eq!(call("apply", "package:foo").stdout, "not changed\n");
    assert_eq!(call("apply", "package:baz").stdout, "installed baz 1.0\n");
    assert_eq!(call("apply", "package:nosuch").status, Some(1));
    define(root, &packages(&["foo ensure=\"0.9~rc1\""]));
    assert!(
        call("apply", "package:foo").stderr_lossy().contains("foo 1.0 is newer than 0.9~rc1 (use --force to proceed)")
    );
    assert_eq!(call("force-apply", "package:foo").stdout, "downgraded foo 1.0 to 0.9~rc1\n");
    assert_eq!(call("apply", "package:baz").stdout, "removed baz 1.0\n");
    assert_eq!(state(root), "baz 1.0 rc;foo 0.9~rc1 ii;");
}

/// Starts an apply in the background, with `$holo` as its process ID, waits until a maintainer script has started, and runs a script.
fn during(root: &ScratchRoot, begun: &str, script: &str) -> String {
    let holo = built("holo");
    let begin = format!(
        "export HOLO_ROOT_DIR=$R; {} apply >$R/said 2>&1 & holo=$!; while ! test -e $R/{begun}; do sleep 0.05; done",
        holo.display()
    );
    must(root, &format!("{begin}; plugin=$(cat /proc/$holo/task/$holo/children); {script}"))
}

fn signal_to_holo(root: &ScratchRoot) {
    define(root, &packages(&["foo", "slower"]));
    // This takes longer than any process has after it receives a signal.
    let status = during(root, "slower-begun", "kill -TERM $holo; wait $holo && echo 0 || echo $?");
    let said = root.read("said").to_string();
    assert_eq!(status, "143", "{said}");
    assert!(said.contains(">> apt-get is completed first, which may take up to 1800s\n"), "{said}");
    assert_eq!(state(root), "foo 2:0.9 ii;slower 1.0 ii;", "{said}");
    applied(root, &["foo", "slower"], &[]);
}

fn signal_to_plugin(root: &ScratchRoot) {
    define(root, &packages(&["foo", "slow"]));
    let status = during(root, "slow-begun", "kill -TERM $plugin; wait $holo && echo 0 || echo $?");
    let said = root.read("said").to_string();
    assert_eq!(status, "1", "{said}");
    assert!(said.contains(">> apt-get is completed first") && said.contains("!! signal: terminated"), "{said}");
    assert_eq!(state(root), "foo 2:0.9 ii;slow 1.0 ii;", "{said}");
    applied(root, &["foo", "slow"], &[]);
}

fn plugin_killed(root: &ScratchRoot) {
    define(root, &packages(&["foo", "slow"]));
    during(root, "slow-begun", "kill -KILL $plugin; wait $holo || true");
    // The next apply waits for the process that is still running.
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    assert_eq!(state(root), "foo 2:0.9 ii;slow 1.0 ii;");
    applied(root, &["foo", "slow"], &[]);
}

fn overtime(root: &ScratchRoot) {
    // The longest timeout applies to the whole transaction.
    let run = apply(root, &["foo timeout=\"1s\"", "slow timeout=\"10ms\"", "baz"], &[], 0);
    assert_eq!(changes_of(&run), ["installed baz 1.0", "installed foo 2:0.9", "installed slow 1.0"], "{run}");
    assert!(run.stderr_lossy().contains("longer than its timeout of 1s, but was not interrupted"), "{run}");
    applied(root, &["foo", "slow", "baz"], &[]);
}

fn interrupted(root: &ScratchRoot) {
    let begin = "setsid apt-get -qy install slow >$R/log 2>&1 & while ! test -e $R/slow-begun; do sleep 0.05; done";
    // Only kill the dpkg that this apt has started.
    let kill = "kill -KILL $(cat /proc/$!/task/$!/children) $!";
    apt(root, &format!("apt-get -q update; {begin}; {kill}; wait || true"));
    assert_ne!(must(root, "ls $R/var/lib/dpkg/updates"), "");
    let check = root.holo(&["check"]);
    assert!(check.stderr.is_empty(), "{check}");
    let run = apply(root, &["foo"], &[], 0);
    assert!(run.stderr_lossy().starts_with(">> dpkg was interrupted; "), "{run}");
    assert_eq!(changes_of(&run), ["installed foo 2:0.9"], "{run}");
    assert_eq!(state(root), "foo 2:0.9 ii;slow 1.0 ii;");
    applied(root, &["foo", "slow"], &[]);
}

fn tried_once(root: &ScratchRoot) {
    let begin = "setsid apt-get -qy install slower >$R/log 2>&1 & while ! test -e $R/slower-begun; do sleep 0.05; done";
    apt(root, &format!("apt-get -q update; {begin}"));
    let begun = std::time::Instant::now();
    let wanted = ["bar", "baz timeout=\"1s\"", "foo", "plus", "rival"];
    let run = apply(root, &wanted, &[], 1);
    assert!(begun.elapsed() < std::time::Duration::from_secs(4), "{run}");
    let stderr = run.stderr_lossy();
    assert_eq!(stderr.matches("Could not get lock").count() + stderr.matches("dpkg frontend lock").count(), 1, "{run}");
    assert_eq!(stderr.matches("!! ").count(), 5, "{run}");
    assert_eq!(stderr.matches(", so no further changes were attempted\n").count(), 4, "{run}");
}

/// Defines a command that subscribes to packages.
fn subscribe(root: &ScratchRoot, packages: &str) {
    let plugin = |id: &str| format!("plugin {id}={}\n", built(&format!("holo-{id}")).display());
    root.write("etc/holorc", plugin("packages") + &plugin("exec"));
    let definition =
        format!("[[exec]]\nname = \"listens\"\ncommand = \"true\"\nrefresh_only = true\nsubscribes = [{packages}]\n");
    root.write("usr/share/holo/exec/01.toml", definition);
}

fn fails_again(root: &ScratchRoot) {
    subscribe(root, "'package:broken', 'package:nosuch', 'package:old'");
    let wanted = ["broken", "nosuch", "old ensure=\"2.0\""];
    let is_refreshed = |run: &Run| run.stdout_lossy().contains("Executing exec:listens");
    // The first apply unpacks the package, which the next run reports to the subscriber. No apply can configure it.
    for refreshes in [false, true, false, false] {
        let run = apply(root, &wanted, &[], 1);
        assert!(run.stderr_lossy().contains("it is broken by design"), "{run}");
        assert_eq!((&*state(root), is_refreshed(&run)), ("broken 1.0 iF;", refreshes), "{run}");
    }
    // An unreadable database is no change either.
    must(root, "mv $R/var/lib/dpkg/status $R/status; mkdir $R/var/lib/dpkg/status");
    for _ in 0..2 {
        let run = apply(root, &wanted, &[], 1);
        assert!(!is_refreshed(&run), "{run}");
    }
    must(root, "rmdir $R/var/lib/dpkg/status; mv $R/status $R/var/lib/dpkg/status; touch $R/mended");
    let run = apply(root, &wanted, &[], 1);
    assert!(run.stdout_lossy().contains("completed the installation of broken 1.0\n") && is_refreshed(&run), "{run}");
}

fn other_version(_: &ScratchRoot) {
    let path = std::env::var("PATH").unwrap();
    let root = crate::support::root().file("etc/os-release", "ID=debian\n");
    let path = format!("{}:{path}", root.join("bin").display());
    // Simulate a repository that has changed since it was queried.
    let apt_get = "#!/bin/bash\nexec /usr/bin/apt-get \"${@/#foo=2:0.9/foo=1.1}\"\n";
    let root = root.script("bin/apt-get", apt_get).env("PATH", path);
    must(&root, "sh $D/build-deb.sh");
    applied(&root, &["foo"], &["installed foo 1.1"]);
    assert_eq!(state(&root), "foo 1.1 ii;");
}
