//! Scripts that run on behalf of other packages, and when a package goes: how often the real package managers run them.

use crate::roots::set_up_pacman;
use crate::support::{BASE, Desk};
use holo_testing::overlay::NEEDS;
use holo_testing::{Need, Overlay, binaries, trial_of};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let need = |program| NEEDS.iter().copied().chain([Need::Program(program)]).collect::<Vec<_>>();
    vec![
        trial_of("triggers_of_dpkg", &need("dpkg"), || triggers(&DPKG)),
        trial_of("triggers_of_pacman", &need("pacman"), || triggers(&PACMAN)),
        trial_of("triggers_of_rpm", &need("rpm"), || triggers(&RPM)),
        trial_of("paths_of_triggers_match_literally", &need("pacman"), paths_of_triggers_match_literally),
        trial_of("failures_of_triggers_are_reported", &need("dpkg"), failures_of_triggers_are_reported),
        trial_of("triggers_of_rpm_need_not_read", &need("rpm"), triggers_of_rpm_need_not_read),
        trial_of("triggers_are_those_of_rpmbuild", &[Need::Program("rpmbuild")], triggers_are_those_of_rpmbuild),
        trial_of("actions_of_dpkg", &need("dpkg"), || actions(&DPKG)),
        trial_of("actions_of_pacman", &need("pacman"), || actions(&PACMAN)),
        trial_of("actions_of_rpm", &need("rpm"), || actions(&RPM)),
        trial_of("provided_versions_satisfy_dpkg", &need("dpkg"), || provided_versions(&DPKG)),
        trial_of("provided_versions_satisfy_pacman", &need("pacman"), || provided_versions(&PACMAN)),
        trial_of("provided_versions_satisfy_rpm", &need("rpm"), || provided_versions(&RPM)),
    ]
}

/// The commands of a package manager.
struct Manager {
    format: &'static str,
    install: &'static str,
    remove: &'static str,
    purge: &'static str,
}

const DPKG: Manager =
    Manager { format: "debian", install: "dpkg --install", remove: "dpkg --remove", purge: "dpkg --purge" };
const PACMAN: Manager = Manager {
    format: "pacman",
    install: "pacman -U --noconfirm",
    remove: "pacman -R --noconfirm",
    purge: "pacman -Rn --noconfirm",
};
const RPM: Manager = Manager { format: "rpm", install: "rpm -U", remove: "rpm -e", purge: "rpm -e" };

/// A system with a package manager, whose packages write to a log.
struct Machine {
    system: Overlay,
    manager: &'static Manager,
}

impl Machine {
    fn new(manager: &'static Manager) -> Machine {
        let system = Overlay::new();
        set_up_pacman(&system);
        Machine { system, manager }
    }

    /// Builds a package as `/srv/NAME-VERSION`.
    #[track_caller]
    fn build(&self, name: &str, version: &str, rest: &str) {
        let text = format!("[package]\nname = '{name}'\nversion = '{version}'\nauthor = 'J <j@x>'\n{rest}");
        self.system.write("/srv/p.toml", text);
        let (program, format) = (binaries::built("holo-build"), self.manager.format);
        let command = format!("{} --no-check --format {format} -f -o", program.display());
        self.system.must(&format!("cd /srv; {command} {name}-{version} p.toml"));
    }

    /// Builds a package with one file.
    #[track_caller]
    fn build_file(&self, name: &str, version: &str, path: &str) {
        self.build(name, version, &format!("[[file]]\npath = '''{path}'''\ncontent = '{version}'\n"));
    }

    /// Runs a command in `/srv`, and returns what the packages have written to the log, in one line.
    #[track_caller]
    fn log_of(&self, command: &str) -> String {
        self.system.must(&format!("cd /srv; : >log; {command} >&2"));
        self.log()
    }

    fn log(&self) -> String {
        self.system.read("/srv/log").to_string().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    fn install(&self, packages: &str) -> String {
        self.log_of(&format!("{} {packages}", self.manager.install))
    }

    #[track_caller]
    fn remove(&self, packages: &str) -> String {
        self.log_of(&format!("{} {packages}", self.manager.remove))
    }
}

/// A trigger that writes a word to the log. It exits, which must not prevent others.
fn trigger(path: &str, word: &str) -> String {
    format!("[[trigger]]\npath = '''{path}'''\nscript = 'echo {word} >>/srv/log; exit 0'\n")
}

fn action(on: &str) -> String {
    format!("[[action]]\non = '{on}'\nscript = 'echo {on} >>/srv/log'\n")
}

fn triggers(manager: &'static Manager) {
    let machine = Machine::new(manager);
    let rest = format!("{}{}{}", trigger("/opt/a", "A"), trigger("/opt/b", "B"), action("setup"));
    machine.build("trig", "1.0", &rest);
    machine.build("trig", "2.0", &rest);
    machine.build("trig", "3.0", &format!("{rest}[[file]]\npath = '/opt/b/own'\ncontent = 'x'\n"));
    machine.build_file("in-a", "1.0", "/opt/a/deep/file");
    machine.build_file("in-a", "2.0", "/opt/a/deep/file");
    machine.build_file("in-a", "3.0", "/opt/a/other");
    machine.build_file("in-b", "1.0", "/opt/b/file");
    // The beginning of its path is the same.
    machine.build_file("beside", "1.0", "/opt/ab/file");
    // An upgrade removes and installs files, for which rpm has one script each.
    let (format, upgrade) = (manager.format, if manager.format == "rpm" { "A A" } else { "A" });
    // Packages for pacman run nothing only because they are there.
    let existing = |word: &'static str| if format == "pacman" { "" } else { word };

    assert_eq!(machine.install("trig-1.0"), "setup");
    assert_eq!(machine.install("beside-1.0"), "");
    assert_eq!(machine.install("in-a-1.0"), "A");
    assert_eq!(machine.install("in-a-2.0"), upgrade);
    assert_eq!(machine.install("in-a-3.0"), upgrade);
    assert_eq!(machine.install("in-b-1.0"), "B");
    assert_eq!(machine.remove("beside"), "");
    assert_eq!(machine.remove("in-a"), "A");
    assert_eq!(machine.remove("in-b"), "B");
    assert_eq!(machine.install("in-a-1.0 in-b-1.0"), "A B");
    assert_eq!(machine.remove("in-a"), "A");
    assert_eq!(machine.install("trig-2.0"), format!("setup {}", existing("B")).trim_end());
    assert_eq!(machine.remove("in-b"), "B");
    // The package's own files.
    assert_eq!(machine.install("trig-3.0"), "setup B");
    assert_eq!(machine.remove("trig"), "");
    assert_eq!(machine.install("in-a-1.0"), "");
    // Both packages at once: neither is installed before the other.
    assert_eq!(machine.install("in-a-2.0 trig-3.0"), if format == "rpm" { "setup A A B" } else { "setup A B" });
    assert_eq!(machine.remove("trig in-a"), "");
}

fn paths_of_triggers_match_literally() {
    for manager in [&DPKG, &PACMAN, &RPM] {
        let machine = Machine::new(manager);
        let mut paths = vec!["/opt/#x", "/opt/it's*?[a]$(x)`\\\"", "/!opt", "/*opt"];
        if manager.format != "debian" {
            paths.extend(["/opt/a b", "/ opt", "/opt/é", "/opt/c = d"]);
        }
        let triggers = paths.iter().zip(1..).map(|(path, number)| trigger(path, &number.to_string()));
        machine.build("trig", "1.0", &triggers.collect::<String>());
        machine.install("trig-1.0");
        machine.build_file("beside", "1.0", "/opt/#y/file");
        machine.build(
            "other",
            "1.0",
            "[[file]]\npath = '/opt/itsX'\ncontent = 'x'\n[[file]]\npath = '/xopt/x'\ncontent = 'x'\n",
        );
        assert_eq!(machine.install("beside-1.0 other-1.0"), "");
        for (path, number) in paths.iter().zip(1..) {
            machine.build_file(&format!("in-{number}"), "1.0", &format!("{path}/file"));
            assert_eq!(machine.install(&format!("in-{number}-1.0")), number.to_string(), "{path}");
        }
    }
}

fn failures_of_triggers_are_reported() {
    let machine = Machine::new(&DPKG);
    let fails =
        "[[trigger]]\npath = '/opt/a'\nscript = \"\"\"\nset -e\necho A >>/srv/log\nfalse\necho no >>/srv/log\"\"\"\n";
    machine.build("trig", "1.0", &format!("{fails}{}", trigger("/opt", "B")));
    machine.build_file("in-a", "1.0", "/opt/a/file");
    machine.install("trig-1.0");
    let command =
        "! dpkg --install in-a-1.0 2>err; grep -q 'processing package trig' err; dpkg -s in-a | grep -q ' installed'";
    assert_eq!(machine.log_of(command), "A B");
}

fn triggers_of_rpm_need_not_read() {
    let machine = Machine::new(&RPM);
    // Neither is stdin with the names read by mistake, nor is it an error that nobody reads it.
    let cat = "[[trigger]]\npath = '/opt/b'\nscript = 'echo B >>/srv/log; cat >>/srv/log'\n";
    machine.build("trig", "1.0", &format!("{}{cat}", trigger("/opt/a", "A")));
    let file = |directory: &str, number: u32| {
        let name = "a-long-name".repeat(9);
        format!("[[file]]\npath = '/opt/{directory}/{name}-{number}'\ncontent = 'x'\n")
    };
    let files = (0..2000).map(|number| file("a", number) + &file("b", number));
    machine.build("many", "1.0", &files.collect::<String>());
    assert_eq!(machine.install("trig-1.0"), "");
    assert_eq!(machine.install("many-1.0"), "A B");
    assert_eq!(machine.remove("many"), "A B");
}

fn triggers_are_those_of_rpmbuild() {
    let path = |path: &str, script: &str| format!("[[trigger]]\npath = '{path}'\nscript = '{script}'\n");
    let triggers = [("/opt/b", "echo b"), ("/opt/a", "echo a"), ("/opt/b", "echo c")];
    let described: String = triggers.iter().map(|(directory, script)| path(directory, script)).collect();
    let desk = Desk::new(&format!("{BASE}{described}[[action]]\non = 'removal'\nscript = 'echo removal'\n"));
    let ours = desk.build("rpm");
    let mut spec = "Name: foo\nVersion: 1.0\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n\
                    %description\n%files\n%preun\nif [ \"$1\" -ne 0 ]; then exit 0; fi\necho removal\n\n"
        .to_owned();
    for (directory, script) in triggers {
        for tag in ["in", "postun"] {
            spec += &format!("%transfiletrigger{tag} -- {directory}/\nexec </dev/null\n{script}\n\n");
        }
    }
    desk.root.write("foo.spec", spec);
    desk.sh("rpmbuild -bb --define \"_topdir $PWD/rpmbuild\" foo.spec >&2");
    // Scripts of ours end with a newline.
    let tags = ["SCRIPTS", "SCRIPTPROG", "SCRIPTFLAGS", "NAME", "INDEX", "VERSION", "FLAGS", "PRIORITIES"];
    let listed = tags.map(|tag| format!("{tag}: [%{{TRANSFILETRIGGER{tag}}}|]\\n")).concat();
    let format = format!("{listed}%{{PREUN}}%{{PREUNPROG}} [%{{PREUNFLAGS}}]");
    let shown = |package: &str| desk.must("rpm", &["-qp", "--qf", &format, package]).replace("\n|", "|");
    let (ours, theirs) = (shown(&format!("./{ours}")), shown("rpmbuild/RPMS/noarch/foo-1.0-1.noarch.rpm"));
    assert_eq!(ours.replace("\n/bin", "/bin"), theirs.replace("\n/bin", "/bin"));
    assert!(ours.contains("NAME: /opt/a/|/opt/a/|/opt/b/|"), "{ours}");
}

fn actions(manager: &'static Manager) {
    let machine = Machine::new(manager);
    let actions = ["setup", "removal", "cleanup", "purge"].map(action).concat();
    // dpkg forgets a package without configuration.
    let rest = format!("{actions}[[file]]\npath = '/etc/foo.conf'\ncontent = 'x'\nconfig = true\n");
    machine.build("foo", "1.0", &rest);
    machine.build("foo", "2.0", &rest);
    assert_eq!(machine.install("foo-1.0"), "setup");
    assert_eq!(machine.install("foo-2.0"), "setup");
    let has_purge = manager.format == "debian";
    let purged = if has_purge { "" } else { " purge" };
    assert_eq!(machine.remove("foo"), format!("removal cleanup{purged}"));
    if has_purge {
        assert!(machine.system.exists("/etc/foo.conf"));
        assert_eq!(machine.log_of("dpkg --purge foo"), "purge");
    }
    assert!(!machine.system.exists("/etc/foo.conf"));
    assert_eq!(machine.install("foo-1.0"), "setup");
    assert_eq!(machine.log_of(&format!("{} foo", manager.purge)), "removal cleanup purge");

    // Each alone.
    machine.build("foo", "1.0", &action("purge"));
    machine.build("foo", "2.0", &action("purge"));
    assert_eq!(machine.install("foo-1.0") + &machine.install("foo-2.0"), "");
    assert_eq!(machine.remove("foo"), purged.trim_start());
    assert_eq!(if has_purge { machine.log_of("dpkg --purge foo") } else { machine.log() }, "purge");
    machine.build("foo", "1.0", &action("removal"));
    machine.build("foo", "2.0", &action("removal"));
    assert_eq!(machine.install("foo-1.0") + &machine.install("foo-2.0"), "");
    assert_eq!(machine.log_of(&format!("{} foo", manager.purge)), "removal");
}

fn provided_versions(manager: &'static Manager) {
    let machine = Machine::new(manager);
    machine.build("api-provider", "1.0", "provides = ['some-api = 2:3.0']\n");
    machine.build("user", "1.0", "requires = ['some-api >= 2:2.9']\n");
    machine.build("newer", "1.0", "requires = ['some-api > 2:3.0']\n");
    machine.install("api-provider-1.0");
    machine.install("user-1.0");
    let run = machine.system.sh(&format!("cd /srv; LC_ALL=C {} newer-1.0 2>&1", manager.install));
    assert!(!run.success() && run.stdout.to_string().contains("some-api"), "{run}");
}
