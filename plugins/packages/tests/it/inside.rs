//! Applies inside of a transaction of a package manager, on a complete system: in the install script of a package, and in a hook.

use crate::support::{self, Manager, changes_of};
use holo_testing::{Need, Overlay, Run, binaries::built, overlay, trial_of};
use libtest_mimic::Trial;

const DEFINITIONS: &str = "/usr/share/holo/packages/10-test.toml";
/// The output of the applies in install scripts, each followed by its exit status.
const SAID: &str = "/srv/said";

pub(crate) fn trials() -> Vec<Trial> {
    let test = |manager: Manager, name: &str, more: &[&'static str], test: fn(&Overlay)| -> Trial {
        let programs: Vec<Need> = manager.tools.iter().chain(more).copied().map(Need::Program).collect();
        trial_of(&format!("{}: {name}", manager.name), &[overlay::NEEDS, &programs].concat(), move || {
            let system = Overlay::new().plugin("packages");
            for (path, script) in SCRIPTS {
                system.write(format!("/srv/{path}"), script);
            }
            system.write("/srv/apply", format!("{} apply >>{SAID} 2>&1 || echo $? >>{SAID}", built("holo").display()));
            system.must("mkdir -p /srv/tmp /srv/etc");
            test(&system);
        })
    };
    vec![
        test(support::APT, "installations are deferred", &[], apt),
        test(support::APT, "a lock of an ancestor with any name is noticed", &["python3"], any_name),
        test(support::DNF, "installations are deferred", &["dnf"], dnf),
        test(support::ZYPPER, "installations are deferred", &["zypper"], zypper),
        test(support::PACMAN, "installations are deferred", &[], pacman),
    ]
}

const SCRIPTS: [(&str, &str); 3] = [
    ("build-deb.sh", include_str!("build-deb.sh")),
    ("build-rpm.sh", include_str!("build-rpm.sh")),
    ("build-arch.sh", include_str!("build-arch.sh")),
];

fn define(system: &Overlay, packages: &[&str], provider: &str) {
    let table = |name: &&str| format!("[[package]]\nname = \"{name}\"\nprovider = \"{provider}\"\n");
    system.write(DEFINITIONS, packages.iter().map(table).collect::<String>());
}

/// Runs a transaction in which holo is called, and returns what holo said.
#[track_caller]
fn said_in(system: &Overlay, transaction: &str) -> String {
    system.must(&format!("rm -f {SAID}; {transaction} >/srv/log 2>&1 || {{ cat /srv/log; exit 1; }}; touch {SAID}"));
    system.read(SAID).to_string()
}

/// Asserts that these transactions, each with the program that it is deferred for, succeed and change nothing that is declared; that the
/// next apply does it; and that a last transaction finds nothing to do.
#[track_caller]
fn deferred(system: &Overlay, provider: &str, packages: &[&str], transactions: &[(&str, &str)], last: &str) -> Run {
    define(system, packages, provider);
    for (transaction, program) in transactions {
        let said = said_in(system, transaction);
        let is_entity = |line: &&str| line.starts_with("Working on ");
        // A package may have several scripts.
        let (all, reason) = (said.lines().filter(is_entity).count(), format!(">> deferred: {program} is running\n"));
        assert!(all > 0 && all.is_multiple_of(packages.len()), "{transaction}: {said}");
        assert_eq!(said.matches(&reason).count(), all, "{transaction}: {said}");
        assert!(!said.ends_with("\n3\n") && !said.contains("!!"), "{transaction}: {said}");
    }
    // Records are written with the first change.
    let exported = system.holo(&["state", "export"]).stdout_lossy().into_owned();
    assert!(!exported.contains(r#""table":"record""#), "{exported}");
    assert!(exported.contains(r#"\"result\":\"pending\",\"reason\":\"deferred: "#), "{exported}");
    let run = system.holo(&["apply"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    let again = system.holo(&["apply"]);
    assert!(again.success() && again.stdout.is_empty() && again.stderr.is_empty(), "{again}");
    assert_eq!(said_in(system, last), "");
    run
}

fn apt(system: &Overlay) {
    system.must("R=/srv sh /srv/build-deb.sh; R=/srv sh /srv/build-deb.sh make caller 1.0 all '' 'sh /srv/apply'");
    system.must("rm -rf /etc/apt/sources.list.d/*; echo 'deb [trusted=yes] copy:/srv/repo ./' >/etc/apt/sources.list");
    system.must("apt-get -q update");
    let reinstall = "apt-get -qy install --reinstall caller";
    let transactions = [
        ("apt-get -qy install caller", "apt-get"),
        ("dpkg -i /srv/repo/pool/caller_1.0_all.deb", "dpkg"),
        (reinstall, "apt-get"),
        ("apt-get -qy -o DPkg::Post-Invoke::='sh /srv/apply' purge caller", "apt-get"),
        ("apt-get -qy install caller", "apt-get"),
        ("dpkg-reconfigure caller", "dpkg-reconfigure"),
    ];
    let run = deferred(system, "apt", &["bar", "foo"], &transactions, reinstall);
    assert_eq!(changes_of(&run), ["installed bar 1.0", "installed foo 2:0.9"], "{run}");
    // What depends on a package waits too, and a check tells what an apply would do.
    let repository =
        "[[repository]]\nname = \"example\"\nuris = [\"file:///srv/repo\"]\nsuites = [\"./\"]\ntrusted = true\n";
    let packages = "[[package]]\nname = \"baz\"\n[[package]]\nname = \"foo\"\nrequires = [\"package:baz\"]\nensure = \"absent\"\n\
                    [[package]]\nname = \"bar\"\nensure = \"absent\"\n[[package]]\nname = \"plus\"\nensure = \"latest\"\nrefresh = \"1s\"\n";
    system.write(DEFINITIONS, format!("{repository}{packages}"));
    let said = said_in(system, reinstall);
    let reason = ">> deferred: apt-get is running";
    let lines: Vec<&str> = said.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).collect();
    let requires = ">> requires package:baz, which is deferred";
    let expected = [
        ["Working on repository:example", reason],
        ["Working on package:bar", reason],
        ["Working on package:baz", reason],
        ["Working on package:foo", requires],
        ["Working on package:plus", reason],
    ];
    assert_eq!(lines, expected.concat());
    // A caller that asks for it learns that something is left to do.
    system.must("sed -i 's/^/HOLO_EXIT_ZERO=0 /' /srv/apply");
    assert!(said_in(system, reinstall).ends_with("\n3\n"));
    assert!(!system.exists("/etc/apt/sources.list.d/example.sources"));
    system.must("sed -i 's/ apply / check /' /srv/apply");
    let said = said_in(system, reinstall);
    assert!(said.contains("would write /etc/apt/sources.list.d/example.sources\n"), "{said}");
    assert!(said.contains("would install baz 1.0\n") && said.contains("would remove foo 2:0.9\n"), "{said}");
    let run = system.holo(&["apply"]);
    assert!(run.success() && changes_of(&run).contains(&"removed foo 2:0.9".to_owned()), "{run}");
}

/// The lock is that of a program which holo does not know.
fn any_name(system: &Overlay) {
    system.must("R=/srv sh /srv/build-deb.sh");
    define(system, &["foo"], "apt");
    let lock = "import fcntl, subprocess, sys\nlock = open('/var/lib/dpkg/lock-frontend', 'w')\n\
                fcntl.lockf(lock, fcntl.LOCK_EX)\nsubprocess.run(sys.argv[1:], check=True)\n";
    system.write("/srv/lock.py", lock);
    let said = said_in(system, "python3 /srv/lock.py sh /srv/apply");
    assert!(said.contains(">> deferred: python3 is running\n") && !said.ends_with("\n3\n"), "{said}");
    // Without a lock, a program of this name is none of holo's business.
    let said = said_in(system, "sed -i /lockf/d /srv/lock.py; apt-get -q update; python3 /srv/lock.py sh /srv/apply");
    assert!(!said.contains("deferred"), "{said}");
}

/// Builds packages of which one calls holo, and one stands for the shell that its scripts need.
fn rpms(system: &Overlay) {
    system.must("R=/srv sh /srv/build-rpm.sh; R=/srv sh /srv/build-rpm.sh make shell 1.0 1 0 'Provides: /bin/sh\\n'");
    for version in ["1", "2", "3"] {
        let scripts = "%post\nsh /srv/apply\n%posttrans\nsh /srv/apply";
        system.must(&format!("R=/srv sh /srv/build-rpm.sh make caller {version} 1 0 '' '{scripts}'"));
    }
    system.must("mkdir -p /etc/dnf /etc/yum.repos.d /etc/zypp/repos.d; cp /srv/etc/dnf/dnf.conf /etc/dnf/dnf.conf");
    system.must("for to in yum.repos.d zypp/repos.d; do cp /srv/etc/yum.repos.d/test.repo /etc/$to; done");
    system.must("rpm -i /srv/repo/noarch/shell-1.0-1.noarch.rpm");
}

fn dnf(system: &Overlay) {
    rpms(system);
    system.must("dnf -q makecache");
    let [install, upgrade] = ["dnf -qy install caller-1", "dnf -qy upgrade caller"];
    deferred_rpms(system, "dnf", install, upgrade, "dnf -qy reinstall caller");
}

fn zypper(system: &Overlay) {
    rpms(system);
    system.must("zypper --non-interactive refresh");
    let [install, upgrade] = ["zypper --non-interactive install caller=1", "zypper --non-interactive update caller"];
    deferred_rpms(system, "zypper", install, upgrade, "zypper --non-interactive install --force caller");
}

/// Installs and upgrades the package that calls holo with a package manager, and in between with rpm.
#[track_caller]
fn deferred_rpms(system: &Overlay, manager: &str, install: &str, upgrade: &str, last: &str) {
    let rpm = "rpm -U /srv/repo/noarch/caller-2-1.noarch.rpm";
    let transactions = [(install, manager), (rpm, "rpm"), (upgrade, manager)];
    let run = deferred(system, manager, &["bar", "foo"], &transactions, last);
    assert_eq!(changes_of(&run), ["installed bar 1.0-1", "installed foo 2:0.9-1"], "{run}");
}

fn pacman(system: &Overlay) {
    let install = "post_install() {\nsh /srv/apply\n}\npost_upgrade() {\nsh /srv/apply\n}";
    system.must(&format!(
        "export R=/srv; bash /srv/build-arch.sh; bash /srv/build-arch.sh make caller 1.0-1 '' '{install}'"
    ));
    system.must("mkdir -p /var/lib/pacman /var/cache/pacman/pkg; cp /srv/etc/pacman.conf /etc/pacman.conf; pacman -Sy");
    let transactions = [
        ("pacman -U --noconfirm /srv/repo/caller-1.0-1-any.pkg.tar.zst", "pacman"),
        ("pacman -S --noconfirm caller", "pacman"),
    ];
    let last = "pacman -S --noconfirm caller";
    let run = deferred(system, "pacman", &["bar", "foo"], &transactions, last);
    assert_eq!(changes_of(&run), ["installed bar 1.0-1", "installed foo 1.1-1"], "{run}");
    // In a hook after the transaction.
    let hook = "[Trigger]\nOperation = Remove\nType = Package\nTarget = caller\n\
                [Action]\nWhen = PostTransaction\nExec = /bin/sh /srv/apply\n";
    system.write("/etc/pacman.d/hooks/holo.hook", hook);
    define(system, &["baz"], "pacman");
    let said = said_in(system, "pacman -R --noconfirm caller");
    assert!(said.contains(">> deferred: pacman is running\n") && !said.ends_with("\n3\n"), "{said}");
    let run = system.holo(&["apply"]);
    assert!(run.success() && changes_of(&run).contains(&"installed baz 1.0-1".to_owned()), "{run}");
}
