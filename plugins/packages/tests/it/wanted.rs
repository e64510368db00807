//! What definitions can request: version patterns, recommended packages, a fresh index, and checks of names.

use crate::support::{
    APT, DNF, Manager, PACMAN, ZYPPER, applied, apply, changes_of, checked_and_applied, define, must, packages,
};
use holo_testing::ScratchRoot;
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let apt = |name: &str, test: fn(&ScratchRoot)| APT.trial(&format!("apt: {name}"), test);
    let rpm = |manager: Manager| {
        let name = "versions fit a pattern, and recommended packages may be left out";
        manager.trial(&format!("{}: {name}", manager.name), rpm_patterns)
    };
    let each = |name: &'static str, test: fn(&ScratchRoot, Manager)| {
        [DNF, ZYPPER, PACMAN]
            .map(|manager| manager.trial(&format!("{}: {name}", manager.name), move |root| test(root, manager)))
    };
    let mut trials = vec![
        apt("the newest version that fits a pattern is installed", patterns),
        apt("a version that fits stays, and one that does not is replaced", fitting),
        apt("recommended packages come along or are left out", recommended),
        apt("an unknown name is an error of check if the index is fresh", unknown_names),
        apt("the index is fetched when it is older than a definition allows", old_index),
        rpm(DNF),
        rpm(ZYPPER),
        PACMAN.trial("pacman: versions fit a pattern, and recommendations are refused", |root| {
            applied(root, &["baz", "foo ensure=\"1.0*\""], &["installed baz 1.0-1", "installed foo 1.0-1"]);
            checked_and_applied(root, &["baz", "foo ensure=\">1.0\""], &["upgraded foo 1.0-1 to 1.1-1"]);
            let run = apply(root, &["foo recommends=false"], &[], 1);
            assert!(
                run.stderr_lossy().contains("!! recommends: pacman does not support recommended packages\n"),
                "{run}"
            );
            let run = apply(root, &["foo debconf={\"a/b\"=\"c\"}"], &[], 1);
            assert!(run.stderr_lossy().contains("!! debconf: packages of pacman ask no questions\n"), "{run}");
        }),
    ];
    trials.extend(each("an unknown name is an error of check if the index is fresh", unknown_names_of));
    let name = "what provides a name that is no package is named";
    trials.push(apt(name, |root| provided(root, APT)));
    trials.extend(each(name, provided));
    trials.extend(each("the index is fetched when it is older than a definition allows", old_index_of));
    trials
}

fn updates(root: &ScratchRoot) -> usize {
    must(root, "cat $R/updates 2>/dev/null || true").lines().count()
}

/// Returns a definition whose value contains blanks, which the short form does not support.
fn versions(asked: &str) -> String {
    format!("[[package]]\nname = \"foo\"\nensure = \"{asked}\"\n")
}

fn patterns(root: &ScratchRoot) {
    // Available are 0.9~rc1, 1.0, 1.1 and 2:0.9.
    for (asked, expected) in [
        (">= 1.0, < 2", "installed foo 1.1"),
        ("1.*", "installed foo 1.1"),
        ("< 1.1", "installed foo 1.0"),
        (">= 1.0, != 2:0.9, != 1.1", "installed foo 1.0"),
        ("0.9*", "installed foo 2:0.9"),
        ("0.9~*", "installed foo 0.9~rc1"),
    ] {
        define(root, &versions(asked));
        let run = root.holo(&["apply"]);
        assert_eq!(changes_of(&run), [expected], "{asked}: {run}");
        assert!(run.stderr.is_empty(), "{run}");
        for command in ["apply", "check"] {
            let again = root.holo(&[command]);
            assert!(again.success() && again.stdout.is_empty(), "{asked}: {again}");
        }
        define(root, "");
        assert!(root.holo(&["apply"]).success());
    }
    define(root, &versions(">= 3:0"));
    for command in ["check", "apply"] {
        let run = root.holo(&[command]);
        assert!(run.stderr_lossy().contains("!! apt has no foo >= 3:0, only 2:0.9, 1.1, 1.0, 0.9~rc1\n"), "{run}");
    }
    define(root, &versions(">= 1, < $(x)"));
    let run = root.holo(&["scan"]);
    assert!(run.stderr_lossy().contains("10-test.toml:3: package:foo: ensure: "), "{run}");
}

fn fitting(root: &ScratchRoot) {
    applied(root, &["foo ensure=\"1.0\""], &["installed foo 1.0"]);
    define(root, &versions(">= 1.0, < 2"));
    for command in ["check", "apply"] {
        let run = root.holo(&[command]);
        assert!(run.success() && run.stdout.is_empty(), "{run}");
    }
    define(root, &versions(">= 1.1, < 2"));
    let check = root.holo(&["check"]);
    assert_eq!(changes_of(&check), ["would upgrade foo 1.0 to 1.1"], "{check}");
    let run = root.holo(&["apply"]);
    assert_eq!(changes_of(&run), ["upgraded foo 1.0 to 1.1"], "{run}");
    define(root, &versions("< 1.1"));
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("foo 1.1 is newer than 1.0 (use --force to proceed)"), "{run}");
    let run = root.holo(&["apply", "--force"]);
    assert_eq!(changes_of(&run), ["downgraded foo 1.1 to 1.0"], "{run}");
}

fn is_there(root: &ScratchRoot, name: &str) -> bool {
    must(root, "dpkg-query --admindir=$R/var/lib/dpkg -W -f='${Package} ${db:Status-Status}\\n'")
        .contains(&format!("{name} installed"))
}

fn recommended(root: &ScratchRoot) {
    must(
        root,
        "sh $D/build-deb.sh make host 1.0 all 'Recommends: plus'; sh $D/build-deb.sh make other 1.0 all 'Recommends: baz'",
    );
    define(root, &packages(&["host recommends=false", "other recommends=true"]));
    let run = root.holo(&["apply"]);
    assert_eq!(changes_of(&run), ["installed host 1.0", "installed other 1.0"], "{run}");
    assert!(!is_there(root, "plus") && is_there(root, "baz"), "{run}");
    // Without a definition, the configuration of the system decides.
    must(root, "echo 'APT::Install-Recommends \"false\";' >$R/etc/apt/apt.conf.d/60test");
    define(root, "");
    assert!(root.holo(&["apply"]).success());
    must(root, "sh $D/build-deb.sh make third 1.0 all 'Recommends: rival'");
    applied(root, &["third"], &["installed third 1.0"]);
    assert!(!is_there(root, "rival"));
}

fn unknown_names(root: &ScratchRoot) {
    define(root, &packages(&["rivla"]));
    // Without an index, no name is known to be wrong. The directory alone is none, however new it is.
    must(root, "sleep 0.02; mkdir -p $R/var/lib/apt/lists/partial; touch $R/var/lib/apt/lists");
    let run = root.holo(&["check"]);
    assert_eq!(changes_of(&run), ["would fetch the index of packages, and install rivla"], "{run}");
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("!! apt has no package rivla, did you mean rival?\n"), "{run}");
    let run = root.holo(&["check"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("!! apt has no package rivla, did you mean rival?\n"), "{run}");
    // A new source may have the package.
    must(root, "sleep 0.01; echo >>$R/etc/apt/sources.list");
    let run = root.holo(&["check"]);
    assert_eq!(changes_of(&run), ["would fetch the index of packages, and install rivla"], "{run}");
    must(
        root,
        "rm -r $R/var/lib/holo; touch -d '3 hours ago' $R/etc/apt/sources.list* $R/var/lib/apt/lists; touch -d '2 hours ago' $R/var/lib/apt/lists",
    );
    let run = root.holo(&["check"]);
    assert_eq!(changes_of(&run), ["would fetch the index of packages, and install rivla"], "{run}");
    define(root, &packages(&["rivla refresh=\"1d\""]));
    let run = root.holo(&["check"]);
    assert!(run.stderr_lossy().contains("did you mean rival?"), "{run}");
}

fn old_index(root: &ScratchRoot) {
    applied(root, &["foo ensure=\"1.0\""], &["installed foo 1.0"]);
    let before = updates(root);
    must(root, "sh $D/build-deb.sh make foo 3:1.0");
    // The index is less than an hour old.
    applied(root, &["foo ensure=\"latest\" refresh=\"1h\""], &["upgraded foo 1.0 to 2:0.9"]);
    assert_eq!(updates(root), before);
    must(
        root,
        "touch -d '2 hours ago' $R/var/lib/apt/lists $R/var/lib/holo/packages/index/apt; touch -d '3 hours ago' $R/etc/apt/sources.list*",
    );
    define(root, &packages(&["foo ensure=\"latest\""]));
    assert!(root.holo(&["check"]).stdout.is_empty());
    define(root, &packages(&["foo ensure=\"latest\" refresh=\"1h\""]));
    let check = root.holo(&["check"]);
    assert!(!check.success() && changes_of(&check).iter().all(|deed| !deed.contains("upgrade")), "{check}");
    assert_eq!(updates(root), before);
    let run = root.holo(&["apply"]);
    assert_eq!(changes_of(&run), ["upgraded foo 2:0.9 to 3:1.0"], "{run}");
    assert_eq!(updates(root), before + 1);
    applied(root, &["foo ensure=\"latest\" refresh=\"1h\""], &[]);
    assert_eq!(updates(root), before + 1);
    // The age of the index does not matter if no decision depends on it.
    must(root, "touch -d '2 hours ago' $R/var/lib/apt/lists $R/var/lib/holo/packages/index/apt");
    applied(root, &["foo refresh=\"1h\""], &[]);
    assert_eq!(updates(root), before + 1);
}

fn unknown_names_of(root: &ScratchRoot, manager: Manager) {
    define(root, &packages(&["rivla"]));
    let run = root.holo(&["check"]);
    assert_eq!(changes_of(&run), ["would fetch the index of packages, and install rivla"], "{run}");
    let words = format!("!! {} has no package rivla, did you mean rival?\n", manager.name);
    for verb in ["apply", "check"] {
        let run = root.holo(&[verb]);
        assert_eq!(run.status, Some(1), "{run}");
        assert!(run.stderr_lossy().contains(&words), "{run}");
    }
}

fn provided(root: &ScratchRoot, manager: Manager) {
    let build = match manager.name {
        "apt" => "for name in one two; do sh $D/build-deb.sh make $name 1.0 all 'Provides: mail-agent'; done",
        "pacman" => "for name in one two; do bash $D/build-arch.sh make $name 1.0-1 'provides = mail-agent=1'; done",
        _ => "for name in one two; do sh $D/build-rpm.sh make $name 1.0 1 0 'Provides: mail-agent'; done",
    };
    must(root, build);
    define(root, &packages(&["mail-agent"]));
    let words = format!("!! {} has no package mail-agent; it is provided by one, two\n", manager.name);
    for verb in ["apply", "check"] {
        let run = root.holo(&[verb]);
        assert!(run.status == Some(1) && run.stderr_lossy().contains(&words), "{run}");
    }
}

fn old_index_of(root: &ScratchRoot, manager: Manager) {
    let (build, middle, new) = match manager.name {
        "pacman" => ("bash $D/build-arch.sh make foo 3.0-1", "1.1-1", "3.0-1"),
        _ => ("sh $D/build-rpm.sh make foo 3.0 1 3", "2:0.9-1", "3:3.0-1"),
    };
    // Keep dnf from refreshing the index by itself.
    must(
        root,
        "if test -e $R/etc/dnf/dnf.conf; then sed -i 's/^metadata_expire=.*/metadata_expire=-1/' $R/etc/dnf/dnf.conf; fi",
    );
    // This refreshes the index and records the time.
    applied(root, &["baz refresh=\"1h\"", "foo ensure=\"1.0\""], &["installed baz 1.0-1", "installed foo 1.0-1"]);
    must(root, build);
    // The index is less than an hour old.
    applied(root, &["baz", "foo ensure=\"latest\" refresh=\"1h\""], &[&format!("upgraded foo 1.0-1 to {middle}")]);
    must(
        root,
        "for index in $R/var/lib/holo/packages/index/* $R/var/cache/dnf/last_makecache $R/var/cache/libdnf5 $R/var/lib/pacman/sync; do \
         if test -e $index; then touch -d '2 hours ago' $index; fi; done; find $R/etc -exec touch -d '3 hours ago' {} +",
    );
    applied(root, &["baz", "foo ensure=\"latest\""], &[]);
    define(root, &packages(&["baz", "foo ensure=\"latest\" refresh=\"1h\""]));
    let check = root.holo(&["check"]);
    assert!(!check.success() && changes_of(&check).iter().all(|deed| !deed.contains("upgrade")), "{check}");
    applied(root, &["baz", "foo ensure=\"latest\" refresh=\"1h\""], &[&format!("upgraded foo {middle} to {new}")]);
}

fn rpm_patterns(root: &ScratchRoot) {
    must(root, "sh $D/build-rpm.sh make host 1.0 1 0 'Recommends: baz'");
    let installed = "installed foo 1.1-1";
    define(root, &(versions(">= 1.0, < 2") + &packages(&["host recommends=false"])));
    let run = root.holo(&["apply"]);
    // In comparisons, a missing epoch means no epoch.
    assert_eq!(changes_of(&run), [installed, "installed host 1.0-1"], "{run}");
    let names = || must(root, "rpm --root $R -qa --qf '%{NAME}\\n' | sort | tr '\\n' ' '");
    assert_eq!(names(), "foo host");
    let again = root.holo(&["apply"]);
    assert!(again.success() && again.stdout.is_empty(), "{again}");
    checked_and_applied(root, &["foo ensure=\"0.9-*\"", "host"], &["upgraded foo 1.1-1 to 2:0.9-1"]);
    must(root, "sh $D/build-rpm.sh make other 1.0 1 0 'Recommends: bar'");
    define(root, &packages(&["foo", "host", "other recommends=true"]));
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert_eq!(names(), "bar foo host other");
}
