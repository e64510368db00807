//! Roots with package managers, and how holo is run on them.

use holo_testing::{Need, Run, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::path::Path;
use std::time::Duration;

/// Returns a root where holo manages packages. Its environment does not refer to the package managers of this machine.
pub(crate) fn root() -> ScratchRoot {
    let root = ScratchRoot::new().binary(built("holo")).plugin("packages").time_limit(Duration::from_secs(180));
    root.env("LC_ALL", "C")
}

/// A package manager for which packages are built.
#[derive(Clone, Copy)]
pub(crate) struct Manager {
    pub(crate) name: &'static str,
    /// The ID of a distribution that uses it, and further lines of `os-release`.
    pub(crate) system: &'static str,
    /// The script that builds the packages and a repository.
    pub(crate) build: &'static str,
    /// The programs that the script needs, besides a manager of RPM packages.
    pub(crate) tools: &'static [&'static str],
}

const RPM: &[&str] = &["rpmbuild", "createrepo_c", "rpm"];

pub(crate) const APT: Manager = Manager {
    name: "apt",
    system: "debian",
    build: "sh $D/build-deb.sh",
    tools: &["apt-get", "apt-ftparchive", "dpkg-deb"],
};
pub(crate) const DNF: Manager = Manager { name: "dnf", system: "fedora", build: "sh $D/build-rpm.sh", tools: RPM };
pub(crate) const ZYPPER: Manager = Manager { name: "zypper", system: "opensuse-leap\nID_LIKE=suse", ..DNF };
pub(crate) const PACMAN: Manager = Manager {
    name: "pacman",
    system: "arch",
    build: "bash $D/build-arch.sh",
    tools: &["pacman", "repo-add", "bsdtar", "zstd"],
};

impl Manager {
    /// Creates a test with a root and the built packages.
    pub(crate) fn trial(self, name: &str, test: impl FnOnce(&ScratchRoot) + Send + 'static) -> Trial {
        let mut programs = self.tools.to_vec();
        if self.tools == RPM {
            programs.push(self.name);
        }
        let needs: Vec<Need> = [Need::Root].into_iter().chain(programs.into_iter().map(Need::Program)).collect();
        trial_of(name, &needs, move || {
            let root = root().file("etc/os-release", format!("ID={}\n", self.system));
            must(&root, self.build);
            test(&root);
        })
    }
}

/// Runs a script, which must succeed. `$R` is the root, `$D` the directory of these tests.
#[track_caller]
pub(crate) fn must(root: &ScratchRoot, script: &str) -> String {
    let run = sh(root, script);
    assert!(run.success(), "{script}: {run}");
    run.stdout_lossy().trim_end().to_owned()
}

#[track_caller]
pub(crate) fn sh(root: &ScratchRoot, script: &str) -> Run {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let places = format!("export R={} D={}; ", root.path().display(), tests.display());
    root.run("/bin/sh", &["-ec", &(places + script)])
}

/// Replaces the definitions.
pub(crate) fn define(root: &ScratchRoot, definitions: &str) {
    root.write("usr/share/holo/packages/10-test.toml", definitions);
}

/// Creates definitions from lines such as `foo ensure="1.0" hold=true`.
pub(crate) fn packages(lines: &[&str]) -> String {
    let table = |line: &&str| {
        let (name, keys) = line.split_once(' ').unwrap_or((line, ""));
        format!("[[package]]\nname = \"{name}\"\n{}\n", keys.replace(' ', "\n"))
    };
    lines.iter().map(table).collect()
}

/// Applies definitions, and asserts an exit status.
#[track_caller]
pub(crate) fn apply(root: &ScratchRoot, lines: &[&str], arguments: &[&str], status: i32) -> Run {
    define(root, &packages(lines));
    let run = root.holo(&[&["apply"], arguments].concat());
    assert_eq!(run.status, Some(status), "{run}");
    run
}

/// Applies definitions, and asserts that exactly these changes were made.
#[track_caller]
pub(crate) fn applied(root: &ScratchRoot, lines: &[&str], deeds: &[&str]) {
    let run = apply(root, lines, &[], 0);
    assert_eq!(changes_of(&run), deeds, "{run}");
    assert_eq!(run.stderr_lossy(), "", "{run}");
    let again = root.holo(&["apply"]);
    assert!(again.success() && again.stdout.is_empty() && again.stderr.is_empty(), "applied again: {again}");
}

/// Asserts that a check of definitions reports these changes, and that an apply reports and makes them.
#[track_caller]
pub(crate) fn checked_and_applied(root: &ScratchRoot, lines: &[&str], deeds: &[&str]) {
    define(root, &packages(lines));
    let check = root.holo(&["check"]);
    let would: Vec<String> = changes_of(&check).iter().map(|deed| past(deed)).collect();
    assert_eq!(would, deeds, "{check}");
    applied(root, lines, deeds);
}

/// Converts `would install foo with bar, changing baz` to `installed foo`.
fn past(would: &str) -> String {
    let would = would.split_once(" with ").map_or(would, |(own, _)| own);
    let would = would.split_once(", changing ").map_or(would, |(own, _)| own);
    let verbs = [("would hold", "held"), ("would mark", "marked"), ("would upgrade", "upgraded")];
    let verbs = verbs.into_iter().chain([("would install", "installed"), ("would remove", "removed")]);
    let verbs =
        verbs.chain([("would purge", "purged"), ("would release", "released"), ("would downgrade", "downgraded")]);
    let verbs = verbs.chain([("would complete", "completed")]);
    let mut verbs = verbs.filter_map(|(would_do, done)| Some(format!("{done}{}", would.strip_prefix(would_do)?)));
    verbs.next().unwrap_or_else(|| would.to_owned())
}

/// Returns the lines about entities, without their reports.
pub(crate) fn changes_of(run: &Run) -> Vec<String> {
    let stdout = run.stdout_lossy().into_owned();
    let is_deed = |line: &&str| {
        !line.is_empty()
            && !line.starts_with(' ')
            && !["Working on", "Scrubbing"].iter().any(|verb| line.starts_with(verb))
    };
    stdout.lines().filter(is_deed).map(str::to_owned).collect()
}

/// Asserts that `bar` is adopted, which was installed along with its dependency `foo`, and that an apply then changes nothing.
#[track_caller]
pub(crate) fn adopted(root: &ScratchRoot) {
    define(root, "");
    let run = root.holo(&["adopt", "--all"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    let said = run.stdout_lossy().into_owned();
    let found: Vec<&str> = said.lines().filter(|line| line.starts_with("package:")).collect();
    assert_eq!(found, ["package:bar (installed by hand)"], "{run}");
    assert!(root.read("etc/holo/resources/packages/adopted-bar.toml").ends_with(b"[[package]]\nname = \"bar\"\n"));
    let check = root.holo(&["check"]);
    assert!(check.success() && check.stdout.is_empty() && check.stderr.is_empty(), "{check}");
    let run = root.holo(&["adopt", "package:nosuch"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("!! package nosuch is not installed\n"), "{run}");
}

/// Returns true if `dnf` is version 5, which has locks without a plugin.
pub(crate) fn is_dnf_5() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("dnf")).find(|path| path.is_file());
    found.is_some_and(|path| path.canonicalize().is_ok_and(|path| path.ends_with("dnf5")))
}
