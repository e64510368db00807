//! Packages from files and URLs.

use crate::support::{APT, DNF, Manager, PACMAN, ZYPPER, changes_of, define, must};
use holo_download::testing::{Reply, Server};
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
        fetched(APT, |root| {
            must(root, "mkdir $R/srv; mv $R/repo/pool/bar_* $R/srv/bar; sh $D/build-deb.sh index");
            from_url(root, "1.0");
        }),
        fetched(DNF, fetched_rpm),
        fetched(ZYPPER, fetched_rpm),
        fetched(PACMAN, |root| {
            must(root, "mkdir $R/srv; mv $R/repo/bar-1.0-1-any.pkg.tar.zst $R/srv/bar");
            must(root, "pacman --root $R --dbpath $R/var/lib/pacman --config $R/etc/pacman.conf --noconfirm -Sy");
            from_url(root, "1.0-1");
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

fn fetched(manager: Manager, test: fn(&ScratchRoot)) -> Trial {
    manager.trial(&format!("{}: only an apply fetches a package from a URL", manager.name), test)
}

fn fetched_rpm(root: &ScratchRoot) {
    let script = "mkdir $R/srv; mv $R/repo/noarch/bar-1.0-1.noarch.rpm $R/srv/bar; sh $D/build-rpm.sh make baz 1.0 1";
    must(root, script);
    from_url(root, "1.0-1");
}

/// The file name in the URL has no suffix.
fn from_url(root: &ScratchRoot, version: &str) {
    let stays = "[[package]]\nname = \"baz\"\n";
    define(root, stays);
    assert!(root.holo(&["apply"]).success());
    let content = root.read("srv/bar").to_vec();
    let digest = must(root, "sha256sum <$R/srv/bar | cut -d ' ' -f 1");
    let server = Server::new(move |_| Reply::of(content.clone()));
    let url = server.url("/get?name=bar").replace("http://", "http://fred:secret@");
    let source = |digest: &str| {
        format!("{stays}[[package]]\nname = \"bar\"\nsource = \"{url}\"\nchecksum = \"sha256:{digest}\"\n")
    };
    let shown = server.url("/get?…");
    define(root, &source(&digest));
    let check = root.holo(&["check"]);
    assert_eq!(changes_of(&check), [format!("would fetch {shown}, and install bar")], "{check}");
    assert_eq!(server.asked().len(), 0);
    define(root, &source(&"0".repeat(64)));
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    let words = format!("!! source: cannot download {shown}: the checksum is sha256:{digest}, not sha256:000");
    assert!(run.stderr_lossy().contains(&words), "{run}");
    define(root, &source(&digest));
    let run = root.holo(&["apply"]);
    assert_eq!(changes_of(&run), [format!("installed bar {version}")], "{run}");
    assert!(!format!("{run}").contains("secret"), "{run}");
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].header("authorization"), Some("Basic ZnJlZDpzZWNyZXQ="));
    // The content is known from the first download.
    for command in ["check", "apply"] {
        let again = root.holo(&[command]);
        assert!(again.success() && again.stdout.is_empty() && again.stderr.is_empty(), "{again}");
    }
    assert_eq!(server.asked().len(), 2);
    define(root, stays);
    let run = root.holo(&["apply"]);
    assert_eq!(changes_of(&run).first(), Some(&format!("removed bar {version}")), "{run}");
    // The file is downloaded again if the package is defined again.
    define(root, &source(&digest));
    assert_eq!(changes_of(&root.holo(&["apply"])), [format!("installed bar {version}")]);
    assert_eq!(server.asked().len(), 3);
}

/// A second package of a repository stays installed, because zypper cannot handle a database from which all packages were removed.
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
    assert_eq!(changes_of(&check), [format!("would install bar {version} with foo")], "{check}");
    let run = root.holo(&["apply"]);
    assert_eq!(changes_of(&run), [format!("installed bar {version}")], "{run}");
    for command in ["check", "apply"] {
        let again = root.holo(&[command]);
        assert!(again.success() && again.stdout.is_empty() && again.stderr.is_empty(), "{again}");
    }
    define(root, stays);
    let run = root.holo(&["apply"]);
    assert_eq!(changes_of(&run).first(), Some(&format!("removed bar {version}")), "{run}");
}

fn refused(root: &ScratchRoot) {
    for (keys, problem) in [
        ("source = \"/srv/nowhere.deb\"", "!! source: open "),
        ("source = \"http://127.0.0.1:1/x.deb\"", "10-test.toml:3: package:foo: source: is fetched without encryption"),
        ("source = \"ftp://h/x.deb\"", "10-test.toml:3: package:foo: source: "),
        ("source = \"https://127.0.0.1:1/x.deb\"", "!! source: cannot download https://127.0.0.1:1/x.deb: "),
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
