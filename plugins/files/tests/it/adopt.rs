//! Files of packages are adopted: as patches of the original if it is available, and with the package that reads them.

use bstr::ByteSlice;
use holo_testing::{Need, ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::fs;

const ORIGINAL: &str = "one\ntwo\nthree\nfour\nfive\n";
const EDITED: &str = "one\ntwo\n3\nfour\nfive\nsix\n";
const PATCH: &str = "etc/holo/resources/files/10-local/etc/web.conf.holopatch";

pub(crate) fn trials() -> Vec<Trial> {
    let needs = [Need::Program("dpkg-deb"), Need::Program("md5sum")];
    vec![
        trial_of("an edit of a package's file is a patch of the original, which is the base", &needs, patched),
        trial_of("a file that others cannot reach is adopted as a private one", &[], private),
        trial_of("a fragment belongs to the package that reads it", &[], fragments),
        trial_of("a mode that is not the package's is adopted or listed", &[], modes),
        trial_of("overrides and diversions of an administrator are listed, with what is in place of a file", &[], dpkg),
        trial_of("files of no package are grouped with none, if there is only one", &[], ungrouped),
    ]
}

const WEB: &str = "Package: web\nStatus: install ok installed\nVersion: 1\nConffiles:\n /etc/web/web.conf \
                   098f6bcd4621d373cade4e832627b4f6\n /etc/web/link.conf 0\n";

/// A machine with one package, whose file contains `test`.
fn with_one_package() -> ScratchRoot {
    ScratchRoot::new()
        .plugin("files")
        .file("etc/os-release", "ID=debian\n")
        .file("var/lib/dpkg/status", WEB)
        .file(
            "var/lib/dpkg/info/web.list",
            "/.\n/etc\n/etc/web\n/etc/web/web.conf\n/etc/web/link.conf\n/etc/os-release\n",
        )
        .file("etc/web/web.conf", "test")
        .symlink("etc/web/link.conf", "web.conf")
}

fn modes() {
    let root = with_one_package().mode("etc/web/web.conf", 0o600);
    let run = root.holo(&["adopt", "--all"]);
    assert!(run.stdout.contains_str("entity file:/etc/web/web.conf\n"), "{run}");
    assert!(run.stdout.contains_str("its mode or owner is unusual"), "{run}");
    assert!(root.join("etc/holo/resources/files/10-local/etc/web/link.conf").is_symlink(), "{run}");
    assert!(root.holo(&["adopt", "file:/etc/web/web.conf"]).success());
    let definition = root.read("etc/holo/resources/files/adopted.toml");
    assert!(definition.ends_with(b"path = \"/etc/web/web.conf\"\nmode = \"0600\"\n"), "{definition}");
    let run = root.holo(&["check"]);
    assert!(run.success() && run.stdout.is_empty(), "{run}");
    // With an edit, it is declared as a whole.
    let root = with_one_package().file("etc/web/web.conf", "edited").mode("etc/web/web.conf", 0o600);
    let run = root.holo(&["adopt", "--all"]);
    assert!(run.success() && run.stdout.contains_str("changed from the version in package web"), "{run}");
    assert!(root.read("etc/holo/resources/files/adopted-web.toml").contains_str("mode = \"0600\"\n"), "{run}");
}

fn ungrouped() {
    let root = with_one_package().file("srv/app/x", "x").file("opt/app/y", "y");
    let [srv, opt] = ["srv", "opt/app"].map(|path| root.join(path).display().to_string());
    let run = root.holo(&["adopt", "--all", "--include", &srv, "--include", &opt]);
    assert!(run.success(), "{run}");
    let definitions = root.read("etc/holo/resources/files/adopted.toml");
    assert!(definitions.contains_str("/srv/app/x") && definitions.contains_str("/opt/app/y"), "{definitions}");
}

fn dpkg() {
    let root = with_one_package()
        .file("usr/bin/web", "own\n")
        .file("usr/bin/web.real", "packaged\n")
        .file("var/lib/dpkg/info/web.postinst", "dpkg-statoverride --add root adm 2755 /usr/bin/by-script\n")
        .file("var/lib/dpkg/statoverride", "root adm 2755 /usr/bin/by-script\nroot adm 750 /usr/bin/by hand\n")
        .file("var/lib/dpkg/diversions", "/usr/bin/web\n/usr/bin/web.real\n:\n/usr/bin/x\n/usr/bin/y\nother\n");
    let list = root.read("var/lib/dpkg/info/web.list");
    root.write("var/lib/dpkg/info/web.list", [&list[..], b"/usr/bin/web\n"].concat());
    let run = root.holo(&["adopt", "--all", "--json"]);
    assert!(run.success(), "{run}");
    for expected in [
        r#""id":"statoverride:/usr/bin/by hand""#,
        r#""command":"dpkg-statoverride --update --add root adm 0750 '/usr/bin/by hand'""#,
        r#""id":"diversion:/usr/bin/web""#,
        r#""command":"dpkg-divert --local --rename --divert /usr/bin/web.real --add /usr/bin/web""#,
    ] {
        assert!(run.stdout.contains_str(expected), "{expected}: {run}");
    }
    assert!(!run.stdout.contains_str("by-script") && !run.stdout.contains_str("/usr/bin/y"), "{run}");
    let definition = root.read("etc/holo/resources/files/adopted-web.toml");
    assert!(definition.contains_str("path = \"/usr/bin/web\"\n"), "{definition}");
    assert!(!definition.contains_str("web.real"), "{definition}");

    // Dpkg itself cannot read these.
    root.write("var/lib/dpkg/statoverride", "root adm 750\n");
    root.write("var/lib/dpkg/diversions", "/usr/bin/web\n/usr/bin/web.real\n");
    let run = root.holo(&["adopt", "--all"]);
    for expected in ["line 1 is not an override", "line 1 is not part of a diversion"] {
        assert!(run.stdout.contains_str(expected), "{run}");
    }
}

fn private() {
    const STATUS: &str =
        "Package: web\nStatus: install ok installed\nVersion: 1\nConffiles:\n /etc/closed/web.conf 0\n";
    let root = ScratchRoot::new()
        .plugin("files")
        .file("etc/os-release", "ID=debian\n")
        .file("var/lib/dpkg/status", STATUS)
        .file("var/lib/dpkg/info/web.list", "/.\n/etc\n/etc/closed\n/etc/closed/web.conf\n")
        .file("etc/closed/web.conf", "private\n")
        .file("etc/closed/below/own.conf", "private\n")
        .mode("etc/closed", 0o750)
        .file("etc/open/own.conf", "public\n")
        .file("etc/open/secret.conf", "private\n")
        .mode("etc/open/secret.conf", 0o640);
    let paths = ["etc/closed/web.conf", "etc/closed/below/own.conf", "etc/open/own.conf", "etc/open/secret.conf"];
    for path in paths {
        let run = root.holo(&["adopt", root.join(path).to_str().unwrap()]);
        assert!(run.success(), "{run}");
    }
    let list = root.run("find", &[root.join("etc/holo").to_str().unwrap(), "-type", "f", "-printf", "%m %P\n"]).stdout;
    let mut list: Vec<&str> = list.to_str().unwrap().lines().collect();
    list.sort_unstable();
    let definitions: Vec<&str> = list.iter().copied().filter(|line| line.ends_with(".toml")).collect();
    let private = list.iter().filter(|line| line.starts_with("600 ")).count();
    assert_eq!((definitions.len(), private, list.len()), (1, 3, 5), "{list:?}");
    assert_eq!(root.holo(&["check"]).status, Some(0));
}

fn patched() {
    let root = ScratchRoot::new()
        .plugin("files")
        .file("etc/os-release", "ID=debian\n")
        .file("build/DEBIAN/control", "Package: web\nVersion: 1:2\nArchitecture: all\nMaintainer: x\nDescription: x\n")
        .file("build/etc/web.conf", ORIGINAL)
        .dir("var/cache/apt/archives")
        .file("var/lib/dpkg/info/web.list", "/.\n/etc\n/etc/web.conf\n")
        .file("etc/web.conf", EDITED);
    let path = |path: &str| root.join(path).display().to_string();
    let sum = root.run("md5sum", &[path("build/etc/web.conf")]).stdout;
    let sum = sum.get(..32).unwrap().to_str().unwrap();
    let status =
        format!("Package: web\nStatus: install ok installed\nVersion: 1:2\nConffiles:\n /etc/web.conf {sum}\n");
    root.write("var/lib/dpkg/status", status);
    let run = root.run(
        "dpkg-deb",
        &["--root-owner-group", "--build", &path("build"), &path("var/cache/apt/archives/web_1%3a2_all.deb")],
    );
    assert!(run.success(), "{run}");
    fs::remove_dir_all(root.join("build")).unwrap();

    let run = root.holo(&["adopt", "--all"]);
    assert!(run.success() && run.stdout.contains_str("changed from the version in package web"), "{run}");
    assert!(root.read(PATCH).contains_str("-three\n+3\n"), "{}", root.read(PATCH));
    // The resource directory of packages may be missing.
    fs::create_dir_all(root.join("usr/share/holo/files")).unwrap();
    let run = root.holo(&["check"]);
    assert!(run.success() && run.stdout.is_empty(), "{run}");
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stdout.is_empty(), "{run}");
    assert_eq!(root.read("var/lib/holo/files/base/etc/web.conf"), ORIGINAL);
    // The edit is also applied to the next version from the package.
    root.write("etc/web.conf.dpkg-dist", ORIGINAL.replace("one", "eins"));
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert_eq!(root.read("etc/web.conf"), EDITED.replace("one", "eins"));
    // A later change goes into the same patch.
    root.write("etc/web.conf", EDITED.replace("one", "eins").replace('3', "drei"));
    let run = root.holo(&["adopt", "/etc/web.conf"]);
    assert!(run.success() && root.read(PATCH).contains_str("-three\n+drei\n"), "{run}");
    assert_eq!(root.read(PATCH).lines().filter(|line| line.starts_with(b"+")).count(), 3, "{}", root.read(PATCH));
    // Without the patch, the original is restored.
    fs::remove_file(root.join(PATCH)).unwrap();
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert_eq!(root.read("etc/web.conf"), ORIGINAL.replace("one", "eins"));
}

fn fragments() {
    const STATUS: &str = "\
Package: rsyslog
Status: install ok installed
Version: 1
Conffiles:
 /etc/rsyslog.conf 5d41402abc4b2a76b9719d911017c592

Package: postfix
Status: install ok installed
Version: 1
Conffiles:
 /etc/init.d/postfix 5d41402abc4b2a76b9719d911017c592
 /etc/rsyslog.d/postfix.conf 5d41402abc4b2a76b9719d911017c592

Package: init
Status: install ok installed
Version: 1
";
    let root = ScratchRoot::new()
        .plugin("files")
        .file("etc/os-release", "ID=debian\n")
        .file("var/lib/dpkg/status", STATUS)
        .file("var/lib/dpkg/info/init.list", "/.\n")
        .file("var/lib/dpkg/info/rsyslog.list", "/.\n/etc\n/etc/rsyslog.conf\n/etc/rsyslog.d\n")
        .file(
            "var/lib/dpkg/info/postfix.list",
            "/.\n/etc\n/etc/init.d\n/etc/init.d/postfix\n/etc/rsyslog.d\n/etc/rsyslog.d/postfix.conf\n",
        )
        .file("etc/rsyslog.conf", "changed\n")
        .file("etc/rsyslog.d/postfix.conf", "changed\n")
        .file("etc/init.d/postfix", "changed\n");
    let run = root.holo(&["adopt", "--all", "--dry-run", "--json"]);
    let group = |path: &str| {
        let of_path = |line: &&[u8]| line.contains_str(format!("\"file:{path}\""));
        let line = run.stdout.lines().find(of_path).unwrap_or_default();
        line.to_str().unwrap().split("\"group\":\"").nth(1).and_then(|rest| rest.split('"').next()).map(str::to_owned)
    };
    let groups = ["/etc/rsyslog.conf", "/etc/rsyslog.d/postfix.conf", "/etc/init.d/postfix"].map(group);
    assert_eq!(groups, ["rsyslog", "rsyslog", "postfix"].map(|name| Some(name.to_owned())), "{run}");
}
