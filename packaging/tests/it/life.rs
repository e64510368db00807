//! The life of the package `holo` on a machine: it follows other packages, is upgraded, and goes without a trace.

use crate::{Format, packages, set_up};
use holo_testing::overlay::NEEDS;
use holo_testing::{Need, Overlay, ScratchRoot, binaries, trial_of};
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::path::Path;

pub(crate) fn trials() -> Vec<Trial> {
    let need =
        |program| NEEDS.iter().copied().chain([Need::Program("bash"), Need::Program(program)]).collect::<Vec<_>>();
    let mut trials = Vec::new();
    for format in [Format::Deb, Format::Rpm, Format::Arch] {
        let program = format.manager();
        let name = |test: &str| format!("{test} ({program})");
        trials.push(trial_of(&name("entities follow their packages"), &need(program), move || follow(format)));
        trials.push(trial_of(&name("a purge leaves no file"), &need(program), move || purge(format)));
        trials.push(trial_of(&name("a removal keeps what is managed"), &need(program), move || keep(format)));
        trials.push(trial_of(&name("version 3 is replaced"), &need(program), move || replace(format)));
        trials.push(trial_of(&name("a package that calls holo itself is installed"), &need(program), move || {
            call(format);
        }));
        trials.push(trial_of(&name("a failure does not fail a transaction"), &need(program), move || fail(format)));
    }
    trials
}

/// A machine on which the package `holo` is installed, and no other holo.
pub(crate) struct Machine {
    pub(crate) system: Overlay,
    format: Format,
    _scratch: ScratchRoot,
}

impl Machine {
    pub(crate) fn new(format: Format) -> Machine {
        let machine = Machine::without_holo(format);
        machine.install_holo();
        machine
    }

    fn without_holo(format: Format) -> Machine {
        Machine::prepare(format, |scratch| Overlay::with(&[scratch]))
    }

    /// Returns a booted machine.
    pub(crate) fn booted(format: Format) -> Machine {
        let machine = Machine::prepare(format, |scratch| Overlay::booted_with(&[scratch]));
        machine.install_holo();
        machine
    }

    fn prepare(format: Format, system: impl FnOnce(&Path) -> Overlay) -> Machine {
        let scratch = ScratchRoot::new();
        let packages = packages(&scratch, format);
        let system = system(scratch.path());
        set_up(&system);
        system.must("rm -rf /etc/holorc* /usr/share/holo /var/lib/holo");
        system.must(&format!("mkdir -p /srv; ln -s '{}' /srv/packages", packages.display()));
        system.write("/etc/motd", "stock\n");
        Machine { system, format, _scratch: scratch }
    }

    #[track_caller]
    fn install_holo(&self) -> String {
        self.manager(&format!("{} /srv/packages/{}", self.format.install(), self.format.file("holo")))
    }

    /// Runs a package manager that must succeed, and returns its output.
    #[track_caller]
    pub(crate) fn manager(&self, command: &str) -> String {
        self.system.must(&format!("cd /srv; ({command}) 2>&1")).to_string()
    }

    /// Builds a package whose own scripts do not call holo.
    #[track_caller]
    pub(crate) fn build(&self, name: &str, version: &str, path: &str, content: &str) {
        let tree = format!(
            "rm -rf /srv/tree; mkdir -p \"/srv/tree$(dirname {path})\"; printf '{content}' >/srv/tree{path}; cd /srv/tree"
        );
        self.system.must(&match self.format {
            Format::Deb => format!(
                "{tree}; mkdir DEBIAN; printf 'Package: {name}\\nVersion: {version}\\nArchitecture: all\\n\
                 Maintainer: J <j@x>\\nDescription: x\\n' >DEBIAN/control; dpkg-deb -b . /srv/{name}-{version}"
            ),
            Format::Rpm => format!(
                "{tree}; printf 'Name: {name}\\nVersion: {version}\\nRelease: 1\\nSummary: x\\nLicense: x\\n\
                 BuildArch: noarch\\n%%description\\nx\\n%%files\\n{path}\\n' >/srv/spec
                 rpmbuild --quiet --buildroot /srv/tree -bb /srv/spec --define '_rpmdir /srv/rpms' --noclean --noprep 2>&1
                 mv /srv/rpms/noarch/{name}-{version}-1.noarch.rpm /srv/{name}-{version}"
            ),
            Format::Arch => format!(
                "{tree}; printf 'pkgname = {name}\\npkgbase = {name}\\npkgver = {version}-1\\npkgdesc = x\\narch = any\\n\
                 size = 1\\n' >.PKGINFO; tar -cJf /srv/{name}-{version} .PKGINFO $(ls)"
            ),
        });
    }

    pub(crate) fn install(&self, package: &str) -> String {
        self.manager(&format!("{} {package}", self.format.install()))
    }

    fn remove(&self, package: &str) -> String {
        self.manager(&format!("{} {package}", self.format.remove()))
    }

    pub(crate) fn motd(&self) -> String {
        self.system.read("/etc/motd").to_string()
    }
}

const MOTD: &str = "/usr/share/holo/files/50-site/etc/motd";

/// A package with a resource file comes, is upgraded, and goes.
fn follow(format: Format) {
    let machine = Machine::new(format);
    machine.build("site", "1.0", MOTD, "one\\n");
    machine.build("site", "2.0", MOTD, "two\\n");
    machine.build("other", "1.0", "/opt/other", "x");
    machine.install("site-1.0");
    assert_eq!(machine.motd(), "one\n");
    let output = machine.install("site-2.0");
    assert_eq!(machine.motd(), "two\n", "{output}");
    assert!(output.contains("Working on file:/etc/motd"), "{output}");
    let runs = machine.system.must("holo history | wc -l");
    assert!(!machine.install("other-1.0").contains("Working on"));
    assert_eq!(machine.system.must("holo history | wc -l"), runs);
    machine.remove("site");
    assert_eq!(machine.motd(), "stock\n");
    let history = machine.system.must("holo history --json").to_string();
    let manager = format.manager();
    assert!(history.contains(&format!("\"trigger\":\"{manager}\"")), "{history}");
}

/// The packages of version 3 are replaced, and what they manage is taken over.
fn replace(format: Format) {
    let machine = Machine::without_holo(format);
    let (system, build) = (&machine.system, binaries::built("holo-build"));
    let name = format.name();
    for (package, path) in [("holo", "/usr/bin/holo"), ("holo-files", "/usr/lib/holo/holo-files")] {
        let description = format!(
            "[package]\nname = \"{package}\"\nversion = \"3.0\"\nauthor = \"J <j@x>\"\n[[file]]\npath = \"{path}\"\ncontent = \"3\"\n"
        );
        system.write("/srv/old.toml", description);
        system.must(&format!("cd /srv; {} --no-check --format {name} -o {package}-3.0 old.toml", build.display()));
    }
    machine.install("holo-3.0 holo-files-3.0");
    machine.build("site", "1.0", MOTD, "one\\n");
    machine.install("site-1.0");
    system.write("/etc/motd", "one\n");
    system.write("/var/lib/holo/files/base/etc/motd", "stock\n");
    system.write("/var/lib/holo/files/provisioned/etc/motd", "one\n");
    // pacman asks before it replaces a package.
    let output = machine.manager(&match format {
        Format::Arch => format!("yes | pacman -U /srv/packages/{}", format.file("holo")),
        _ => format!("{} /srv/packages/{}", format.install(), format.file("holo")),
    });
    assert!(!output.contains("!!"), "{output}");
    assert_eq!(system.must("holo --version; readlink /usr/lib/holo/holo-files"), "4.0.0\n../../bin/holo\n");
    if format == Format::Arch {
        system.must("pacman -T holo-files HOLO_API_VERSION=3");
    }
    machine.remove("site");
    assert_eq!(machine.motd(), "stock\n");
}

/// Lists all files on the machine, except for logs, caches and databases of package managers.
fn files(system: &Overlay) -> BTreeSet<String> {
    let list = system.must(
        "set --; for path in /proc /sys /dev /tmp /srv /root /var/log /var/cache /var/lib/dpkg /var/lib/rpm \
            /var/lib/pacman /usr/lib/sysimage; do set -- \"$@\" -path $path -o; done
         find / -xdev \\( \"$@\" -false \\) -prune -o -print",
    );
    list.to_string().lines().map(str::to_owned).collect()
}

/// After the documented step, and a purge, the machine is as before.
fn purge(format: Format) {
    let machine = Machine::without_holo(format);
    let before = files(&machine.system);
    machine.install_holo();
    machine.build("site", "1.0", MOTD, "one\\n");
    machine.install("site-1.0");
    assert_eq!(machine.motd(), "one\n");
    machine.system.must("holo scrub --all");
    assert_eq!(machine.motd(), "stock\n");
    let output = machine.manager(&format!("{} holo", format.purge()));
    assert!(!output.contains("holo: "), "{output}");
    machine.remove("site");
    let after = files(&machine.system);
    // rpm leaves directories that its last package has not declared: those of the site, and those that every Fedora has. pacman removes a directory of
    // this Debian that is empty, because it does not know dpkg's packages.
    let is_of_the_system = |path: &&String| {
        let paths: &[&str] = match format {
            Format::Deb => &[],
            Format::Rpm => &["/usr/share/holo", "/usr/share/licenses", "/usr/share/zsh/site-functions"],
            Format::Arch => &["/usr/share/fish/vendor_completions.d"],
        };
        paths.iter().any(|prefix| path.starts_with(prefix))
    };
    let new: Vec<&String> = after.difference(&before).filter(|path| !is_of_the_system(path)).collect();
    let lost: Vec<&String> = before.difference(&after).filter(|path| !is_of_the_system(path)).collect();
    assert!(new.is_empty() && lost.is_empty(), "new: {new:?}\nlost: {lost:?}");
}

/// Entities are only restored on request: the removal says so, and keeps their original state, which a new installation knows.
fn keep(format: Format) {
    let machine = Machine::new(format);
    machine.build("site", "1.0", MOTD, "one\\n");
    machine.install("site-1.0");
    let output = machine.manager(&format!("{} holo", format.purge()));
    assert!(output.contains("'holo scrub --all' before the removal restores their original state"), "{output}");
    assert_eq!(machine.motd(), "one\n");
    assert_eq!(machine.system.read("/var/lib/holo/files/base/etc/motd"), "stock\n");
    machine.install_holo();
    machine.remove("site");
    assert_eq!(machine.motd(), "stock\n");
}

/// A package of holo-build, which calls holo in its own scripts, is installed and removed even if an entity is deferred, fails, or is refused.
fn call(format: Format) {
    let machine = Machine::new(format);
    let build = binaries::built("holo-build");
    let name = format.name();
    let description = "[package]\nname = \"site\"\nversion = \"1.0\"\nauthor = \"J <j@x>\"\n\
        [[file]]\npath = \"/usr/share/holo/files/50-site/etc/motd\"\ncontent = \"one\"\n\
        [[file]]\npath = \"/usr/share/holo/files/50-site/etc/missing\"\ncontent = \"one\"\n\
        [[file]]\npath = \"/usr/share/holo/packages/site.toml\"\ncontent = \"[[package]]\\nname = 'no-such-package'\\n\"\n";
    machine.system.write("/srv/site.toml", description);
    machine.system.must(&format!("cd /srv; {} --no-check --format {name} -o site-1.0 site.toml", build.display()));
    let output = machine.install("site-1.0");
    assert!(output.contains("Working on file:/etc/missing"), "{output}");
    assert_eq!(machine.motd(), "one");
    machine.system.write("/etc/motd", "edited\n");
    machine.remove("site");
    assert_ne!(machine.motd(), "one");
}

/// What goes wrong is printed and recorded.
fn fail(format: Format) {
    let machine = Machine::new(format);
    machine.build("broken", "1.0", "/usr/share/holo/files/broken.toml", "[[file]]\\n");
    machine.build("site", "1.0", MOTD, "one\\n");
    let output = machine.install("broken-1.0");
    assert!(output.contains("/usr/share/holo/files/broken.toml"), "{output}");
    machine.install("site-1.0");
    assert_eq!(machine.motd(), "one\n");
    // A killed hook leaves the rest to the next apply.
    machine.system.must("mv /usr/bin/holo /usr/bin/holo.real; printf '#!/bin/sh\\nkill -9 $PPID\\n' >/usr/bin/holo; chmod 755 /usr/bin/holo");
    machine.build("site", "2.0", MOTD, "two\\n");
    let killed = machine.system.sh(&format!("cd /srv; {} site-2.0 2>&1", format.install()));
    machine.system.must("mv /usr/bin/holo.real /usr/bin/holo");
    machine.system.must("holo apply || :");
    assert_eq!(machine.motd(), "two\n", "{killed}");
}
