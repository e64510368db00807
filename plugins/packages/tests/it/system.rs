//! A complete Debian system: its own apt, all of its packages, and the examples of the man page.

use crate::support::{changes_of, packages};
use holo_testing::{Need, Overlay, overlay, trial_of};
use libtest_mimic::Trial;
use std::fmt::Write as _;
use std::path::Path;

const BUILD: &str = include_str!("build-deb.sh");
const DEFINITIONS: &str = "/usr/share/holo/packages/10-test.toml";

pub(crate) fn trials() -> Vec<Trial> {
    let apt = [Need::Program("apt-get"), Need::Program("apt-ftparchive"), Need::Program("dpkg-deb")];
    let strace = [Need::Program("strace")];
    let gpg = [Need::Program("gpg")];
    let test = |name: &str, more: &[Need], test: fn(&Overlay)| -> Trial {
        trial_of(name, &[overlay::NEEDS, &apt, more].concat(), move || {
            let system = Overlay::new().plugin("packages");
            system.write("/srv/build-deb.sh", BUILD);
            system.must("mkdir -p /srv/tmp; R=/srv sh /srv/build-deb.sh; rm -rf /etc/apt/sources.list.d/*");
            system.must("echo 'deb [trusted=yes] copy:/srv/repo ./' >/etc/apt/sources.list");
            test(&system);
        })
    };
    vec![
        test("packages are installed and removed on a complete system", &[], life),
        test("installed packages are queried once", &strace, all_installed),
        test("a repository is trusted by its key alone", &gpg, signed),
        test("debconf answers are set before installation", &[Need::Program("debconf-set-selections")], answers),
        test("the examples of the man page work as described", &gpg, examples),
    ]
}

fn define(system: &Overlay, lines: &[&str]) {
    system.write(DEFINITIONS, packages(lines));
}

fn life(system: &Overlay) {
    define(system, &["bar", "foo ensure=\"1.0\" hold=true"]);
    let check = system.holo(&["check"]);
    let would =
        ["would fetch the index of packages, and install bar", "would fetch the index of packages, and install foo"];
    assert_eq!(changes_of(&check), would, "{check}");
    let run = system.holo(&["apply"]);
    assert_eq!(changes_of(&run), ["installed bar 1.0", "installed foo 1.0", "held foo"], "{run}");
    assert!(system.exists("/usr/share/doc/foo/version-all"));
    assert_eq!(system.must("apt-mark showhold"), "foo\n");
    assert!(system.holo(&["apply"]).stdout.is_empty());
    define(system, &["bar"]);
    let run = system.holo(&["apply"]);
    assert_eq!(changes_of(&run), ["left foo to bar"], "{run}");
    system.must(&format!("rm {DEFINITIONS}"));
    let run = system.holo(&["apply"]);
    assert_eq!(changes_of(&run), ["removed bar 1.0"], "{run}");
}

/// The key is part of the definition.
fn signed(system: &Overlay) {
    system.must("R=/srv sh /srv/build-deb.sh sign");
    let repository = "[[repository]]\nname = \"example\"\nuris = [\"file:///srv/signed\"]\nsuites = [\"stable\"]\n\
                      components = [\"main\"]\narchitectures = [\"amd64\"]\n";
    let package = "[[package]]\nname = \"tool\"\nprovider = \"apt\"\n";
    system.write(DEFINITIONS, format!("{repository}{package}"));
    let run = system.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("is not signed") || run.stderr_lossy().contains("NO_PUBKEY"), "{run}");
    let key = system.read("/srv/example.asc").to_string();
    system.write(DEFINITIONS, format!("{repository}signed_by = \"\"\"\n{key}\"\"\"\n{package}"));
    let run = system.holo(&["apply"]);
    let deeds = [
        "wrote /etc/apt/sources.list.d/example.sources",
        "wrote /etc/apt/keyrings/example.asc",
        "fetched the index of packages",
        "installed tool 1.0",
    ];
    assert_eq!(changes_of(&run), deeds, "{run}");
    assert_eq!(system.read("/etc/apt/keyrings/example.asc"), key);
    let again = system.holo(&["apply"]);
    assert!(again.success() && again.stdout.is_empty() && again.stderr.is_empty(), "{again}");
    system.must(&format!("rm {DEFINITIONS}"));
    let run = system.holo(&["apply"]);
    assert!(run.success() && changes_of(&run).contains(&"removed tool 1.0".to_owned()), "{run}");
    assert!(!system.exists("/etc/apt/keyrings/example.asc"), "{run}");
}

/// Answers get the type that the question has.
fn answers(system: &Overlay) {
    let templates = "Template: asks/kind\\nType: select\\nChoices: Internet Site, Local only\\nDefault: Internet Site\\n\
                     Description: kind\\n x\\n\\nTemplate: asks/flag\\nType: boolean\\nDefault: false\\nDescription: flag\\n x\\n\\n\
                     Template: asks/secret\\nType: password\\nDescription: secret\\n x";
    let postinst = ". /usr/share/debconf/confmodule\n\
                    for question in kind flag secret; do db_get asks/$question; echo \"$RET\" >>/srv/answers; done";
    system.write("/srv/postinst", postinst);
    system.write("/srv/templates", templates);
    system.must("R=/srv sh /srv/build-deb.sh make asks 1.0 all '' \"$(cat /srv/postinst)\" \"$(cat /srv/templates)\"");
    let define = |more: &str| {
        let debconf =
            "debconf = { \"asks/kind\" = \"Local only\", \"asks/flag\" = \"true\", \"asks/secret\" = \"s3cret\" }";
        system.write(DEFINITIONS, format!("[[package]]\nname = \"asks\"\n{debconf}\n{more}"));
    };
    define("sensitive = true\n");
    let runs = [system.holo(&["check"]), system.holo(&["scan", "--json"]), system.holo(&["apply"])];
    let [.., applied] = &runs;
    assert_eq!(changes_of(applied), ["installed asks 1.0"], "{applied}");
    assert_eq!(system.read("/srv/answers"), "Local only\ntrue\ns3cret\n");
    for run in &runs {
        assert!(!run.to_string().contains("s3cret"), "{run}");
    }
    let files =
        system.must("grep -rl s3cret /var/lib/holo /var/cache/debconf/config.dat | grep -v '/state.db' || true");
    assert_eq!(files, "");
    // The definitions are kept for a rollback, which only root can read.
    let state = system.holo(&["state", "export"]).stdout_lossy().into_owned();
    assert!(!state.lines().any(|line| line.contains("s3cret") && !line.contains("[[package]]")), "{state}");
    // Answers are used during installation only, and are not managed.
    define("");
    let again = system.holo(&["apply"]);
    assert!(again.success() && again.stdout.is_empty() && again.stderr.is_empty(), "{again}");
}

/// Declares all packages that are installed on the machine.
fn all_installed(system: &Overlay) {
    let names =
        system.must("dpkg-query -W -f '${db:Status-Abbrev}${binary:Package}\\n' | sed -n 's/^.i //p' | sort -u");
    let mut definitions = String::new();
    for name in names.to_string().lines() {
        write!(definitions, "[[package]]\nname = \"{name}\"\n").unwrap();
    }
    system.write(DEFINITIONS, definitions);
    // Automatically installed packages are marked once.
    let run = system.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert!(changes_of(&run).iter().all(|deed| deed.starts_with("marked ")), "{run}");
    let run = system.sh(&format!(
        "strace -f -qq -o /srv/log -e trace=execve {} apply",
        holo_testing::binaries::built("holo").display()
    ));
    assert!(run.success() && run.stdout.is_empty() && run.stderr.is_empty(), "{run}");
    let log = system.read("/srv/log").to_string();
    let started: Vec<&str> = log.lines().filter(|line| line.ends_with(" = 0") && !line.contains("holo")).collect();
    assert_eq!(started.len(), 1, "{log}");
    assert!(started[0].contains("/dpkg-query\""), "{log}");
}

/// The man page contains definitions, each followed by the output of check or apply.
fn examples(system: &Overlay) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../man/holo-packages.8");
    let page = std::fs::read_to_string(page).unwrap();
    let examples = page.split(".Sh EXAMPLES").nth(1).unwrap().split(".Sh ").next().unwrap();
    let blocks: Vec<String> = examples
        .split(".Bd -literal")
        .skip(1)
        .map(|block| {
            block.split(".Ed").next().unwrap().split_once('\n').unwrap().1.replace("\\e", "\\").replace("\\-", "-")
        })
        .collect();
    // The machine may have these packages installed in any version.
    let installed =
        system.must("dpkg-query -W -f '${db:Status-Status} ${Package}\\n' nginx apache2 redis 2>/dev/null || :");
    let installed = installed.to_string();
    let names: Vec<_> = installed.lines().filter_map(|line| line.strip_prefix("installed ")).collect();
    if !names.is_empty() {
        system.must(&format!("apt-get -qy --allow-change-held-packages purge {} >/dev/null", names.join(" ")));
    }
    // Build empty packages with the names and versions of the man page.
    for package in ["nginx 1.22.1-9", "apache2 2.4.57-2", "redis 5:7.0.11-1", "redis 5:7.0.15-1"] {
        system.must(&format!("R=/srv sh /srv/build-deb.sh make {package}"));
    }
    system.must("apt-get -q update; apt-get -qy install apache2 redis=5:7.0.11-1");
    system.must("R=/srv sh /srv/build-deb.sh sign; cp /srv/example.asc /usr/share/keyrings/example.asc");
    let mut sayings = 0;
    for block in blocks {
        if let Some(command) = block.strip_prefix("# holo ") {
            let (command, expected) = command.split_once('\n').unwrap();
            let run = system.holo(&command.split(' ').collect::<Vec<_>>());
            assert_eq!(changes_of(&run).join("\n"), expected.trim(), "{run}");
            sayings += 1;
        } else if let Some(command) = block.strip_prefix("# ") {
            system.must(command);
        } else {
            system.write(DEFINITIONS, block.replace("https://deb.example.org/", "file:///srv/signed"));
        }
    }
    assert!(sayings >= 4);
}
