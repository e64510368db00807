//! Hooks on a booted machine: what a transaction leaves undone is done after it.

use crate::Format;
use crate::life::Machine;
use holo_testing::overlay::NEEDS_TO_BOOT;
use holo_testing::{Need, Overlay, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::thread;
use std::time::{Duration, Instant};

/// The time for work in the background.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn trials() -> Vec<Trial> {
    let programs = ["bash", "apt-get", "apt-ftparchive"].map(Need::Program);
    let needs: Vec<Need> = NEEDS_TO_BOOT.iter().copied().chain(programs).collect();
    vec![
        trial_of("a package that another one declares is installed after the transaction", &needs, declared_package),
        trial_of("resources that an apply brings are applied after it", &needs, nested),
    ]
}

const DECLARATION: &str = "/usr/share/holo/packages/site.toml";
const MOTD: &str = "/usr/share/holo/files/50-site/etc/motd";

/// The service has nothing more to do.
const IDLE: &str = "test ! -e /run/holo-apply.due && systemctl show -P ActiveState holo-apply | grep -q inactive";

/// A booted machine with the package `holo`, and a repository.
fn machine() -> Machine {
    let machine = Machine::booted(Format::Deb);
    let system = &machine.system;
    system.must(
        "rm -rf /etc/apt/sources.list.d; echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list",
    );
    machine
}

/// Puts packages into the repository.
fn publish(machine: &Machine, packages: &[&str]) {
    for package in packages {
        machine.system.must(&format!("mkdir -p /srv/repository; mv /srv/{package} /srv/repository/{package}.deb"));
    }
    machine.system.must(
        "cd /srv/repository; apt-ftparchive packages . >Packages; apt-ftparchive release . >Release; apt-get update -qq",
    );
}

#[track_caller]
fn until(system: &Overlay, script: &str) {
    let begun = Instant::now();
    while !system.sh(script).success() {
        let journal = || system.sh("journalctl --no-pager -u 'holo*' | tail -60");
        assert!(begun.elapsed() < PATIENCE, "{script} does not succeed: {}", journal());
        thread::sleep(Duration::from_millis(100));
    }
}

/// dpkg runs the hook while it holds its lock: the file is applied at once, the package later.
fn declared_package() {
    let machine = machine();
    machine.build("tool", "1.0", "/opt/tool", "x");
    machine.build("site", "1.0", DECLARATION, "[[package]]\\nname = \"tool\"\\n");
    machine.build("motd", "1.0", MOTD, "one\\n");
    publish(&machine, &["tool-1.0"]);
    // In one transaction, and in two of which the second follows at once.
    let output = machine.install("motd-1.0 site-1.0");
    assert!(output.contains("deferred: dpkg is running"), "{output}");
    assert_eq!(machine.motd(), "one\n");
    machine.build("motd", "2.0", MOTD, "two\\n");
    machine.install("motd-2.0");
    until(&machine.system, "dpkg -s tool 2>/dev/null | grep -q 'ok installed'");
    until(&machine.system, &format!("grep -q two /etc/motd && {IDLE}"));
    assert_eq!(machine.system.must("holo check"), "");
    // The package goes with its declaration.
    machine.manager("dpkg --remove site");
    until(&machine.system, "! dpkg -s tool 2>/dev/null | grep -q 'ok installed'");
    assert_eq!(machine.system.must("systemctl show -P Result holo-apply"), "success\n");
}

/// An apply installs a package with resources of its own. Neither its hook nor its own script can apply them, because an apply is running.
fn nested() {
    let machine = machine();
    let description = "[package]\nname = \"motd\"\nversion = \"1.0\"\nauthor = \"J <j@x>\"\n\
                       [[file]]\npath = \"/usr/share/holo/files/50-site/etc/motd\"\ncontent = \"one\"\n";
    machine.system.write("/srv/motd.toml", description);
    machine.system.must(&format!("cd /srv; {} --no-check -o motd-1.0 motd.toml", built("holo-build").display()));
    publish(&machine, &["motd-1.0"]);
    machine.system.write(DECLARATION, "[[package]]\nname = \"motd\"\n");
    machine.system.must("holo apply");
    until(&machine.system, "grep -q one /etc/motd");
    until(&machine.system, IDLE);
    assert_eq!(machine.system.must("holo check"), "");
    assert_eq!(machine.system.must("dpkg -s motd | grep Status"), "Status: install ok installed\n");
}
