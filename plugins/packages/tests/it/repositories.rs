//! Tests of repositories with apt, dnf, zypper and pacman in separate roots: they are defined, manually changed, and removed.

use crate::support::{APT, DNF, Manager, PACMAN, ZYPPER, changes_of, define, must};
use holo_testing::{Run, ScratchRoot};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let apt = |name: &str, test: fn(&ScratchRoot)| {
        APT.trial(&format!("apt: {name}"), move |root| {
            must(root, "mv $R/etc/apt/sources.list $R/sources.list");
            test(root);
        })
    };
    let rpm = |manager: Manager| {
        manager.trial(&format!("{}: packages come from a declared repository", manager.name), move |root| {
            must(root, "rm $R/etc/*/repos.d/test.repo $R/etc/yum.repos.d/test.repo");
            life(root, if manager.name == "dnf" { "etc/yum.repos.d/test.repo" } else { "etc/zypp/repos.d/test.repo" });
        })
    };
    vec![
        apt("packages come from a declared repository, and the index is fetched once", apt_life),
        apt("what a person has changed needs force, and what was there comes back", changed),
        apt("the difference is shown, but no password", shown),
        apt("a priority decides which version is installed", pinned),
        apt("an unreachable repository fails, and is put back, until it is reachable", unreachable),
        apt("a repository is absent", absent),
        apt("a package that a repository needs comes before it", bootstrap),
        apt("a file of a repository is taken over from files, and given back", handed_over),
        apt("one file has one owner", owners),
        apt("a key that other users may replace is refused", key),
        rpm(DNF),
        rpm(ZYPPER),
        PACMAN.trial("pacman: packages come from a declared repository", |root| {
            pacman(root);
        }),
    ]
}

/// Returns definitions of the built repository and of packages.
fn definitions(root: &ScratchRoot, keys: &str, packages: &[&str]) -> String {
    let uri = format!("copy:{}/repo", root.path().display());
    let repository = format!("[[repository]]\nname = \"test\"\nuris = [\"{uri}\"]\n{keys}\n");
    repository + &crate::support::packages(packages)
}

const FLAT: &str = "suites = [\"./\"]\ntrusted = true";
const SOURCE: &str = "etc/apt/sources.list.d/test.sources";

fn updates(root: &ScratchRoot) -> usize {
    must(root, "cat $R/updates 2>/dev/null || true").lines().count()
}

#[track_caller]
fn done(root: &ScratchRoot, arguments: &[&str], expected: &[String]) -> Run {
    let run = root.holo(arguments);
    assert_eq!(changes_of(&run), expected, "{run}");
    assert_eq!(run.stderr_lossy(), "", "{run}");
    run
}

#[track_caller]
fn silent(root: &ScratchRoot) {
    for command in ["apply", "check"] {
        let run = root.holo(&[command]);
        assert!(run.success() && run.stdout.is_empty() && run.stderr.is_empty(), "{run}");
    }
}

fn apt_life(root: &ScratchRoot) {
    define(root, &definitions(root, FLAT, &["baz", "foo ensure=\"1.0\""]));
    let path = root.join(SOURCE).display().to_string();
    let would =
        ["would fetch the index of packages, and install baz", "would fetch the index of packages, and install foo"];
    let would =
        [format!("would write {path}"), "would fetch the index of packages".into(), would[0].into(), would[1].into()];
    done(root, &["check"], &would);
    assert!(!root.exists(SOURCE) && updates(root) == 0);
    let fetched = [format!("wrote {path}"), "fetched the index of packages".into()];
    let installed = ["installed baz 1.0".to_owned(), "installed foo 1.0".to_owned()];
    done(root, &["apply"], &[&fetched[..], &installed].concat());
    assert_eq!(updates(root), 1);
    let uri = format!("copy:{}/repo", root.path().display());
    assert_eq!(root.read(SOURCE), format!("Types: deb\nURIs: {uri}\nSuites: ./\nTrusted: yes\n"));
    silent(root);
    // All definitions are gone. Packages are removed first.
    define(root, "");
    let gone = ["removed baz 1.0".to_owned(), "removed foo 1.0".to_owned()];
    let back = [format!("removed {path}"), "fetched the index of packages".into()];
    let run = root.holo(&["apply"]);
    assert_eq!(changes_of(&run), [&gone[..], &back].concat(), "{run}");
    assert!(!root.exists(SOURCE) && root.records("packages").is_empty(), "{run}");
    silent(root);
}

fn changed(root: &ScratchRoot) {
    root.write(SOURCE, "# a person's\n");
    define(root, &definitions(root, FLAT, &[]));
    assert!(root.holo(&["apply"]).success());
    root.write(SOURCE, "# edited\n");
    for command in ["check", "apply"] {
        let run = root.holo(&[command]);
        assert!(!run.success() && run.stderr_lossy().contains("--force"), "{run}");
    }
    assert_eq!(root.read(SOURCE), "# edited\n");
    let diff = root.holo(&["diff", "repository:test"]);
    assert!(diff.stdout_lossy().contains("+# edited"), "{diff}");
    assert!(root.holo(&["apply", "--force"]).success());
    silent(root);
    root.write(SOURCE, "# edited\n");
    define(root, "");
    assert!(!root.holo(&["apply"]).success());
    assert_eq!(root.read(SOURCE), "# edited\n");
    assert!(root.holo(&["apply", "--force"]).success());
    assert_eq!(root.read(SOURCE), "# a person's\n");
    silent(root);
}

fn shown(root: &ScratchRoot) {
    let at = |address: &str| {
        let keys = format!("suites = [\"./\"]\nuris = [\"{address}\"]\npin = 5\ntrusted = true");
        define(root, &format!("[[repository]]\nname = \"test\"\n{keys}\n"));
    };
    at("https://me:s3cret@localhost:1/x");
    let run = root.holo(&["check", "--diff"]);
    let said = run.stdout_lossy();
    assert!(said.contains("+URIs: https://localhost:1/x") && said.contains("+Pin-Priority: 5"), "{run}");
    assert!(said.contains("+(sensitive)"), "{run}");
    // No server answers at this address.
    let refused = root.holo(&["apply"]);
    assert!(refused.status == Some(1) && !root.exists("etc/apt/auth.conf.d/test.conf"), "{refused}");
    let path = format!("{}/repo", root.path().display());
    at(&format!("copy://me:s3cret@{path}"));
    let applied = root.holo(&["apply"]);
    assert!(applied.success(), "{applied}");
    let auth = "etc/apt/auth.conf.d/test.conf";
    assert_eq!(root.read(auth), format!("machine copy://{path} login me password s3cret\n"));
    assert_eq!(must(root, &format!("stat -c %a $R/{auth}")), "600");
    let all = [
        run,
        refused,
        applied,
        root.holo(&["scan", "--json"]),
        root.holo(&["scan"]),
        root.holo(&["diff"]),
        root.holo(&["check", "--json"]),
    ];
    for run in all {
        assert!(!run.to_string().contains("s3cret"), "{run}");
    }
    let scan = root.holo(&["scan"]);
    assert!(scan.stdout_lossy().contains("copy://me:***@/"), "{scan}");
    let readable = must(root, "grep -rl s3cret $R/var/lib/holo | xargs -r stat -c %a | sort -u");
    assert!(["", "600"].contains(&&*readable), "{readable}");
}

fn pinned(root: &ScratchRoot) {
    define(root, &definitions(root, FLAT, &["foo"]));
    assert!(root.holo(&["apply"]).success());
    define(root, &definitions(root, &format!("{FLAT}\npin = -1"), &["baz", "foo"]));
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("apt has no version of baz that may be installed"), "{run}");
    assert!(root.exists("etc/apt/preferences.d/test.pref"));
    define(root, &definitions(root, FLAT, &["baz", "foo"]));
    let run = root.holo(&["apply"]);
    assert_eq!(changes_of(&run).last().map(String::as_str), Some("installed baz 1.0"), "{run}");
    assert!(!root.exists("etc/apt/preferences.d/test.pref"));
    silent(root);
}

fn unreachable(root: &ScratchRoot) {
    // A failure that is not due to the repository leaves it as it is.
    root.write("etc/apt/apt.conf.d/60fail", "APT::Update::Pre-Invoke { \"false\"; };\n");
    define(root, &definitions(root, FLAT, &[]));
    let run = root.holo(&["apply"]);
    assert!(run.status == Some(1) && root.exists(SOURCE), "{run}");
    done(root, &["check", "repository:test"], &["would fetch the index of packages".into()]);
    must(root, "rm $R/etc/apt/apt.conf.d/60fail");
    must(root, "mv $R/repo $R/elsewhere");
    define(root, &definitions(root, FLAT, &["foo"]));
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("apt-get: exit status 100"), "{run}");
    assert!(run.stderr_lossy().contains("; its changes were undone\n"), "{run}");
    let words = "!! apt has no package foo; it may be in repository:test, which failed\n";
    assert!(run.stderr_lossy().contains(words), "{run}");
    assert!(!root.exists(SOURCE) && root.records("packages").is_empty(), "{run}");
    let wrote = format!("wrote {}", root.join(SOURCE).display());
    let would = [wrote.replace("wrote", "would write"), "would fetch the index of packages".into()];
    done(root, &["check", "repository:test"], &would);
    must(root, "mv $R/elsewhere $R/repo");
    done(root, &["apply"], &[wrote, "fetched the index of packages".into(), "installed foo 2:0.9".into()]);
    silent(root);
    // A change that makes it fail is undone. Another repository comes.
    let source = root.read(SOURCE);
    let bad = definitions(root, "suites = [\"none/\"]\ntrusted = true\npin = 7", &["foo", "tool"]);
    must(root, "sh $D/build-deb.sh sign");
    let uri = format!("copy:{}/signed", root.path().display());
    let good = format!(
        "[[repository]]\nname = \"good\"\nuris = [\"{uri}\"]\nsuites = [\"stable\"]\n\
        components = [\"main\"]\narchitectures = [\"amd64\"]\ntrusted = true\n"
    );
    define(root, &(bad + &good));
    let run = root.holo(&["apply"]);
    assert!(run.status == Some(1) && root.read(SOURCE) == source, "{run}");
    assert!(!root.exists("etc/apt/preferences.d/test.pref"), "{run}");
    let deeds = changes_of(&run);
    assert!(
        deeds.contains(&"installed tool 1.0".into()) && root.exists("etc/apt/sources.list.d/good.sources"),
        "{run}"
    );
    define(root, &(definitions(root, FLAT, &["foo", "tool"]) + &good));
    silent(root);
}

fn absent(root: &ScratchRoot) {
    let list = "etc/apt/sources.list.d/test.list";
    must(root, &format!("mkdir $R/etc/apt/sources.list.d; cp $R/sources.list $R/{list}"));
    define(root, "[[repository]]\nname = \"test\"\nensure = \"absent\"\n");
    let removed = format!("removed {}", root.join(list).display());
    done(root, &["apply"], &[removed, "fetched the index of packages".into()]);
    assert!(!root.exists(list));
    silent(root);
    define(root, "");
    assert!(root.holo(&["apply"]).success());
    assert!(root.exists(list));
}

fn bootstrap(root: &ScratchRoot) {
    must(root, "cp $R/sources.list $R/etc/apt/sources.list");
    let keys = format!("{FLAT}\nrequires = [\"package:baz\"]");
    define(root, &definitions(root, &keys, &["baz", "foo"]));
    let run = root.holo(&["apply"]);
    let deeds = changes_of(&run);
    assert_eq!(deeds.first().map(String::as_str), Some("installed baz 1.0"), "{run}");
    assert_eq!(deeds.last().map(String::as_str), Some("installed foo 2:0.9"), "{run}");
}

fn handed_over(root: &ScratchRoot) {
    let plugin = |id: &str| format!("plugin {id}={}\n", holo_testing::binaries::built(&format!("holo-{id}")).display());
    root.write("etc/holorc", plugin("packages") + &plugin("files"));
    root.write(SOURCE, "# a person's\n");
    root.write("usr/share/holo/files/a.toml", format!("[[file]]\npath = \"/{SOURCE}\"\ncontent = \"# ours\"\n"));
    assert!(root.holo(&["apply"]).success());
    must(root, "rm $R/usr/share/holo/files/a.toml");
    define(root, &definitions(root, FLAT, &[]));
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stderr_lossy().contains("repository:test takes over from file:/"), "{run}");
    silent(root);
    define(root, "");
    root.write("usr/share/holo/files/a.toml", format!("[[file]]\npath = \"/{SOURCE}\"\ncontent = \"# ours\"\n"));
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stderr_lossy().contains("takes over from repository:test"), "{run}");
    assert_eq!(root.read(SOURCE), "# ours");
    must(root, "rm $R/usr/share/holo/files/a.toml");
    assert!(root.holo(&["apply"]).success());
    assert_eq!(root.read(SOURCE), "# a person's\n");
}

fn owners(root: &ScratchRoot) {
    let plugin = |id: &str| format!("plugin {id}={}\n", holo_testing::binaries::built(&format!("holo-{id}")).display());
    root.write("etc/holorc", plugin("packages") + &plugin("files"));
    define(root, &definitions(root, FLAT, &[]));
    root.write("usr/share/holo/files/a.toml", format!("[[file]]\npath = \"/{SOURCE}\"\ncontent = \"# ours\"\n"));
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("repository:test") && !root.exists(SOURCE), "{run}");
}

fn key(root: &ScratchRoot) {
    const KEY: &str = "usr/share/keyrings/x.asc";
    define(root, &definitions(root, &format!("suites = [\"./\"]\nsigned_by = \"/{KEY}\""), &[]));
    root.write(KEY, "");
    for (mode, is_refused) in [("0666", true), ("0644", false)] {
        must(root, &format!("chmod {mode} $R/{KEY}"));
        for verb in ["check", "apply"] {
            let run = root.holo(&[verb]);
            let said = run.stderr_lossy();
            assert_eq!(said.contains("is writable for other users (mode 0666), and is not used"), is_refused, "{run}");
            assert!(!is_refused || run.status == Some(1) && !root.exists(SOURCE), "{run}");
        }
    }
    // An empty key has signed nothing.
    assert!(!root.exists(SOURCE));
}

/// Asserts that a repository is put back if its index cannot be fetched.
#[track_caller]
fn put_back(root: &ScratchRoot, file: &str, words: &str) {
    must(root, "mv $R/repo $R/elsewhere");
    let run = root.holo(&["apply"]);
    assert!(run.status == Some(1) && run.stderr_lossy().contains("; its changes were undone\n"), "{run}");
    assert!(run.stderr_lossy().contains(words), "{run}");
    assert!(!root.exists(file) && root.records("packages").is_empty(), "{run}");
    must(root, "mv $R/elsewhere $R/repo");
}

/// Tests a package manager of RPM packages.
fn life(root: &ScratchRoot, file: &str) {
    let uri = format!("file://{}/repo", root.path().display());
    let repository = format!("[[repository]]\nname = \"test\"\nuris = [\"{uri}\"]\ntrusted = true\n");
    define(root, &(repository.clone() + "suites = [\"x\"]\n"));
    let run = root.holo(&["scan"]);
    assert!(run.stderr_lossy().contains("10-test.toml:5: repository:test: suites: "), "{run}");
    define(root, &(repository.clone() + &crate::support::packages(&["baz", "foo ensure=\"1.0\""])));
    let path = root.join(file).display().to_string();
    let run = root.holo(&["check", "repository:test"]);
    assert_eq!(changes_of(&run), [format!("would write {path}"), "would fetch the index of packages".into()], "{run}");
    put_back(root, file, " has no package baz; it may be in repository:test, which failed\n");
    let fetched = [format!("wrote {path}"), "fetched the index of packages".into()];
    let installed = ["installed baz 1.0-1".to_owned(), "installed foo 1.0-1".to_owned()];
    done(root, &["apply"], &[&fetched[..], &installed].concat());
    silent(root);
    root.write(file, "[test]\n");
    assert_eq!(root.holo(&["apply"]).status, Some(1));
    assert!(root.holo(&["apply", "--force"]).success());
    // One package stays installed, because zypper cannot handle a database from which all packages were removed.
    define(root, &crate::support::packages(&["baz"]));
    let run = root.holo(&["apply"]);
    assert!(run.success() && !root.exists(file), "{run}");
    assert!(changes_of(&run).contains(&"removed foo 1.0-1".to_owned()), "{run}");
}

fn pacman(root: &ScratchRoot) {
    let uri = format!("file://{}/repo", root.path().display());
    let repository = format!("[[repository]]\nname = \"test\"\nuris = [\"{uri}\"]\ntrusted = true\n");
    define(root, &(repository.clone() + "pin = 1\n"));
    let run = root.holo(&["scan"]);
    assert!(run.stderr_lossy().contains("repository:test: pin: pacman prefers"), "{run}");
    define(root, &(repository + &crate::support::packages(&["baz"])));
    must(root, "sed -i '/^.test/,$d' $R/etc/pacman.conf");
    for command in ["check", "apply"] {
        let run = root.holo(&[command, "repository:test"]);
        assert!(run.stderr_lossy().contains("has no line \"Include = /etc/pacman.d/repositories/*.conf\""), "{run}");
    }
    must(root, "echo \"Include = $R/etc/pacman.d/repositories/*.conf\" >>$R/etc/pacman.conf");
    // pacman refuses a pattern without files.
    must(root, "mkdir $R/etc/pacman.d/repositories; touch $R/etc/pacman.d/repositories/none.conf");
    put_back(root, "etc/pacman.d/repositories/test.conf", "no usable package repositories configured");
    must(root, "rm -r $R/etc/pacman.d/repositories");
    let file = root.join("etc/pacman.d/repositories/test.conf").display().to_string();
    let expected = [format!("wrote {file}"), "fetched the index of packages".into(), "installed baz 1.0-1".to_owned()];
    done(root, &["apply"], &expected);
    silent(root);
    define(root, "");
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert!(!root.exists("etc/pacman.d/repositories/test.conf") && !root.exists("etc/pacman.d/repositories"), "{run}");
}
