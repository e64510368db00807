//! Packages that come from files.

use crate::support::{APT, DNF, Manager, PACMAN, ZYPPER, deeds_of, define, must};
use holo_testing::ScratchRoot;
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let test = |manager: Manager, test: fn(&ScratchRoot)| {
        let name = "a package comes from a file, and what it needs from repositories";
        manager.trial(&format!("{}: {name}", manager.name), test)
    };
    let rpm = |root: &ScratchRoot| {
        must(
            root,
            "mkdir $R/srv; mv $R/repo/noarch/bar-1.0-1.noarch.rpm $R/srv/bar.pkg.rpm; sh $D/build-rpm.sh make baz 1.0 1",
        );
        life(root, "bar.pkg.rpm", "1.0-1");
    };
    vec![
        test(APT, |root| {
            must(root, "mkdir $R/srv; mv $R/repo/pool/bar_* $R/srv/bar.deb; sh $D/build-deb.sh index");
            life(root, "bar.deb", "1.0");
            refused(root);
        }),
        test(DNF, rpm),
        test(ZYPPER, rpm),
        test(PACMAN, |root| {
            must(root, "mkdir $R/srv; mv $R/repo/bar-1.0-1-any.pkg.tar.zst $R/srv/bar.pkg.tar.zst");
            must(root, "pacman --root $R --dbpath $R/var/lib/pacman --config $R/etc/pacman.conf --noconfirm -Sy");
            life(root, "bar.pkg.tar.zst", "1.0-1");
        }),
    ]
}

/// A second package of a repository stays, since zypper cannot cope with a database from which everything has gone.
fn life(root: &ScratchRoot, file: &str, version: &str) {
    let stays = "[[package]]\nname = \"baz\"\n";
    define(root, stays);
    assert!(root.holo(&["apply"]).success());
    let digest = must(root, &format!("sha256sum <$R/srv/{file} | cut -d ' ' -f 1"));
    let source = |digest: &str| {
        let source = format!("source = \"/srv/{file}\"\nchecksum = \"sha256:{digest}\"\n");
        format!("{stays}[[package]]\nname = \"bar\"\n{source}")
    };
    define(root, &source(&"0".repeat(64)));
    for command in ["check", "apply"] {
        let run = root.holo(&[command]);
        assert_eq!(run.status, Some(1), "{run}");
        assert!(run.stderr_lossy().contains(&format!("has the checksum sha256:{digest}, not ")), "{run}");
    }
    define(root, &source(&digest));
    let check = root.holo(&["check"]);
    assert_eq!(deeds_of(&check), [format!("would install bar {version} with foo")], "{check}");
    let run = root.holo(&["apply"]);
    assert_eq!(deeds_of(&run), [format!("installed bar {version}")], "{run}");
    for command in ["check", "apply"] {
        let again = root.holo(&[command]);
        assert!(again.success() && again.stdout.is_empty() && again.stderr.is_empty(), "{again}");
    }
    define(root, stays);
    let run = root.holo(&["apply"]);
    assert_eq!(deeds_of(&run).first(), Some(&format!("removed bar {version}")), "{run}");
}

fn refused(root: &ScratchRoot) {
    for (keys, problem) in [
        ("source = \"/srv/nowhere.deb\"", "!! source: open "),
        ("source = \"https://h/x.deb\"", "10-test.toml:3: package:foo: source: "),
        ("source = \"x.deb\"", "10-test.toml:3: package:foo: source: "),
        ("source = \"/srv/bar.deb\"\nensure = \"1.0\"", "10-test.toml:3: package:foo: source: "),
        ("source = \"/srv/bar.deb\"", "has the package bar, not foo"),
        ("checksum = \"sha256:x\"", "10-test.toml:3: package:foo: checksum: "),
    ] {
        define(root, &format!("[[package]]\nname = \"foo\"\n{keys}\n"));
        let run = root.holo(&["apply"]);
        assert!(run.status == Some(1) && run.stderr_lossy().contains(problem), "{keys}: {run}");
    }
}
