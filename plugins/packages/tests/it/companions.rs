//! A package is removed together with the packages that were installed along with it, and no others.

use crate::support::{
    APT, DNF, Manager, PACMAN, ZYPPER, applied, changes_of, checked_and_applied, define, must, packages,
};
use holo_testing::ScratchRoot;
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let apt = |name: &str, test: fn(&ScratchRoot)| APT.trial(&format!("apt: {name}"), test);
    let rpm = |manager: Manager| {
        manager.trial(&format!("{}: packages that came along are removed with it", manager.name), |root| {
            applied(root, &["bar", "baz"], &["installed bar 1.0-1", "installed baz 1.0-1"]);
            gone(root, &["removed bar 1.0-1", "removed foo 2:0.9-1"]);
        })
    };
    vec![
        apt("packages that came along are removed with it", |root| {
            applied(root, &["bar", "baz"], &["installed bar 1.0", "installed baz 1.0"]);
            gone(root, &["removed bar 1.0", "removed foo 2:0.9"]);
        }),
        apt("what came along stays if somebody needs, wants or holds it", stays),
        apt("what was there, or nobody needs for long, stays", others),
        rpm(DNF),
        rpm(ZYPPER),
        PACMAN.trial("pacman: packages that came along are removed with it", |root| {
            applied(root, &["bar", "baz"], &["installed bar 1.0-1", "installed baz 1.0-1"]);
            gone(root, &["removed bar 1.0-1", "removed foo 1.1-1"]);
        }),
    ]
}

fn gone(root: &ScratchRoot, deeds: &[&str]) {
    define(root, &packages(&["baz"]));
    let check = root.holo(&["check"]);
    let would = deeds[0].replace("removed", "would remove");
    assert_eq!(changes_of(&check), [format!("{would} with foo")], "{check}");
    let run = root.holo(&["apply"]);
    assert_eq!(changes_of(&run), deeds, "{run}");
    assert!(run.stderr.is_empty(), "{run}");
    let again = root.holo(&["apply"]);
    assert!(again.success() && again.stdout.is_empty(), "{again}");
}

fn apt(root: &ScratchRoot, command: &str) -> String {
    let config = "printf 'Dir \"%s/\";\\nDir::State::status \"%s/var/lib/dpkg/status\";\\nDir::Bin::dpkg \"/usr/bin/dpkg\";\\n\
         DPkg::Options { \"--root=%s\"; };\\n' $R $R $R >$R/apt.conf; export APT_CONFIG=$R/apt.conf DEBIAN_FRONTEND=noninteractive";
    must(root, &format!("{config}; {command}"))
}

fn stays(root: &ScratchRoot) {
    must(root, "sh $D/build-deb.sh make second 1.0 all 'Depends: foo'");
    let came = ["installed bar 1.0"];
    // A package that depends on it was installed.
    applied(root, &["bar"], &came);
    apt(root, "apt-get -qy install second");
    checked_and_applied(root, &[], &["removed bar 1.0"]);
    apt(root, "apt-get -qy purge second; apt-get -qy --purge autoremove");
    // It was marked as manually installed.
    applied(root, &["bar"], &came);
    apt(root, "apt-mark manual foo");
    checked_and_applied(root, &[], &["removed bar 1.0"]);
    apt(root, "apt-get -qy purge foo");
    // It is declared by now.
    applied(root, &["bar"], &came);
    applied(root, &["foo"], &["removed bar 1.0", "marked foo as installed by hand"]);
}

fn others(root: &ScratchRoot) {
    // It was installed before, and no package needs it.
    apt(root, "apt-get -q update; apt-get -qy install foo; apt-mark auto foo");
    applied(root, &["bar"], &["installed bar 1.0"]);
    checked_and_applied(root, &[], &["removed bar 1.0"]);
    // Packages that were installed by others stay too.
    apt(root, "apt-get -qy install baz; apt-mark auto baz; apt-get -qy purge foo");
    applied(root, &["bar"], &["installed bar 1.0"]);
    applied(root, &[], &["removed bar 1.0", "removed foo 2:0.9"]);
    assert_eq!(apt(root, "apt-mark showauto"), "baz");
}
