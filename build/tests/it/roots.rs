//! The guide `docs/packages.md`, step by step on temporary copies of this machine, with its real package managers.

use crate::support::{BASE, Desk};
use holo_testing::overlay::NEEDS;
use holo_testing::{Need, Overlay, binaries, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;

pub(crate) fn trials() -> Vec<Trial> {
    let need = |programs: &[&'static str]| {
        let programs = programs.iter().map(|program| Need::Program(program));
        NEEDS.iter().copied().chain(programs).collect::<Vec<_>>()
    };
    vec![
        trial_of("guide_works_on_debian", &need(&["apt-get", "dpkg"]), guide_works_on_debian),
        trial_of("guide_works_with_dnf", &need(&["dnf", "rpm"]), guide_works_with_dnf),
        trial_of("guide_works_with_pacman", &need(&["pacman"]), guide_works_with_pacman),
        trial_of("guide_adopts_changes", &need(&["dpkg"]), guide_adopts_changes),
        trial_of("repository_of_apt_resolves_dependencies", &need(&["apt-get", "apt-ftparchive"]), repository_of_apt),
        trial_of("repository_of_dnf_resolves_dependencies", &need(&["dnf", "createrepo_c"]), repository_of_dnf),
        trial_of("repository_of_pacman_resolves_dependencies", &need(&["pacman", "repo-add"]), repository_of_pacman),
        trial_of("owners_are_those_of_the_description", &need(&["dpkg", "rpm", "pacman"]), owners_of_the_description),
    ]
}

/// The package that provides the plugins, as far as dependencies are concerned.
const HOLO: &str = "[package]\nname = 'holo'\nversion = '4.0.0'\nauthor = 'J <j@x>'\n\
                    provides = ['holo-files', 'holo-users-groups']\n\
                    [[directory]]\npath = '/usr/share/holo/files'\n\
                    [[directory]]\npath = '/usr/share/holo/users-groups'\n";

/// A system with holo, its plugins and `holo-build`, and a package that provides them in `/srv`.
fn system(format: &str) -> Overlay {
    let system = Overlay::new();
    for program in ["holo", "holo-build"] {
        system.must(&format!("ln -s {} /usr/bin/{program}", binaries::built(program).display()));
    }
    for plugin in ["holo-files", "holo-users-groups"] {
        let _ = binaries::built(plugin);
    }
    system.write("/etc/holorc", "plugin files\nplugin users-groups\n");
    system.must("rm -rf /etc/holorc.d /usr/share/holo");
    system.write("/etc/motd", "stock\n");
    system.write("/srv/holo.toml", HOLO);
    system.must(&format!("cd /srv; holo-build --no-check --format {format} holo.toml; rm holo.toml"));
    system
}

/// The blocks of the guide in a language, in the section with this title.
fn blocks(section: &str, language: &str) -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/packages.md");
    let guide = fs::read_to_string(guide).unwrap();
    let section = guide.split("\n## ").find(|text| text.starts_with(&format!("{section}\n"))).unwrap();
    let fence = format!("```{language}\n");
    let blocks = section.split(&fence).skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// Runs the commands of a section, and compares their output. That of package managers is not in the guide.
fn follow(system: &Overlay, section: &str) {
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in blocks(section, "console").concat().lines() {
        match line.strip_prefix("$ ").or_else(|| line.strip_prefix("# ").filter(|rest| !rest.starts_with("mine"))) {
            Some(command) => commands.push((command.to_owned(), String::new())),
            None => {
                *commands.last_mut().unwrap() = {
                    let (command, output) = commands.last().unwrap();
                    (command.clone(), format!("{output}{line}\n"))
                }
            }
        }
    }
    assert!(!commands.is_empty());
    for (command, expected) in commands {
        let run = system.run("sh", &["-c", &format!("cd /srv/site; exec 2>&1; {command}")]);
        let is_manager = ["apt-get", "dnf", "pacman"].iter().any(|manager| command.starts_with(manager));
        if is_manager {
            assert!(run.success(), "{command}: {run}");
        } else {
            assert_eq!(run.stdout, expected, "{command}");
        }
    }
}

fn start(format: &str) -> Overlay {
    let system = system(format);
    system.write("/srv/site/motd", &blocks("Two files", "text")[0]);
    system.write("/srv/site/site.toml", &blocks("Two files", "toml")[0]);
    follow(&system, "Two files");
    system
}

fn guide_works_on_debian() {
    let system = start("debian");
    system.must("dpkg --install /srv/holo_*.deb");
    follow(&system, "Debian");
    assert!(!system.exists("/usr/share/holo/files/50-site/etc/motd"));
    follow(&system, "Preview");
}

fn guide_adopts_changes() {
    let system = system("debian");
    system.must("mkdir -p /srv/site; dpkg --install /srv/holo_*.deb");
    follow(&system, "From a machine that was set up by hand");
}

/// Makes dnf use no repository, as the machine's distribution has none for it.
fn set_up_dnf(system: &Overlay) {
    system.write("/etc/dnf/dnf.conf", "[main]\ngpgcheck=0\nreposdir=/srv/repos\nplugins=0\n");
    system.must("mkdir -p /srv/repos; rm -rf /etc/yum.repos.d");
}

fn guide_works_with_dnf() {
    let system = start("rpm");
    set_up_dnf(&system);
    system.must("rpm -i /srv/holo-*.rpm");
    follow(&system, "Fedora");
    assert!(!system.exists("/usr/share/holo/files/50-site/etc/motd"));
}

fn guide_works_with_pacman() {
    let system = start("pacman");
    set_up_pacman(&system);
    system.must("pacman -U --noconfirm /srv/holo-*.xz");
    follow(&system, "Arch");
    assert!(!system.exists("/usr/share/holo/files/50-site/etc/motd"));
}

pub(crate) fn set_up_pacman(system: &Overlay) {
    let repository = "[ours]\nServer = file:///srv\n";
    system.write("/etc/pacman.conf", format!("[options]\nArchitecture = auto\nSigLevel = Never\n{repository}"));
    system.must("mkdir -p /var/lib/pacman/local");
}

/// A description that requires another package of ours in a certain version, and has a file for holo.
const SITE: &str = "[package]\nname = 'site'\nversion = '2.0'\nepoch = 1\nbeta = 3\nauthor = 'J <j@x>'\n\
    requires = ['base >= 1:1.0']\n[[file]]\npath = '/usr/share/holo/files/50-site/etc/motd'\ncontent = 'ours'\n\
    [[file]]\npath = '/opt/site/x'\ncontent = 'x'\nmode = '0600'\n[[symlink]]\npath = '/opt/site/y'\ntarget = 'x'\n\
    [[directory]]\npath = '/opt/site/z'\nmode = '2775'\n";
const DEPENDENCY: &str = "[package]\nname = 'base'\nversion = '1.0'\nepoch = 1\nauthor = 'J <j@x>'\n";

/// Installs and removes `site` from a repository, and checks that the files are as described in between.
fn install_from_repository(format: &str, prepare: &str, install: &str, verify: &str, remove: &str) {
    let system = system(format);
    set_up_dnf(&system);
    set_up_pacman(&system);
    system.write("/srv/site.toml", SITE);
    system.write("/srv/base.toml", DEPENDENCY);
    system
        .must(&format!("cd /srv; for name in site base; do holo-build --format {format} $name.toml; done; {prepare}"));
    system.must(install);
    assert_eq!(system.must("cat /etc/motd /opt/site/y; stat -c %a /opt/site/x /opt/site/z"), "oursx600\n2775\n");
    assert_eq!(system.must(verify), "");
    system.must(remove);
    assert_eq!(system.read("/etc/motd"), "stock\n");
    assert!(!system.exists("/opt/site/x") && !system.exists("/usr/share/holo/files/50-site/etc/motd"));
    // rpm only removes directories that a package declares.
    assert_eq!(system.exists("/opt/site") || system.exists("/usr/share/holo/files/50-site"), format == "rpm");
}

fn repository_of_apt() {
    install_from_repository(
        "debian",
        "apt-ftparchive packages . >Packages; apt-ftparchive release . >Release; rm -rf /etc/apt/sources.list.d
         echo 'deb [trusted=yes] file:/srv ./' >/etc/apt/sources.list; apt-get update -qq",
        "DEBIAN_FRONTEND=noninteractive apt-get install -qq -y site; dpkg -s base holo >/dev/null",
        "dpkg --verify site",
        "apt-get purge -qq -y site; ! dpkg -s site 2>&1 | grep Status",
    );
}

fn repository_of_dnf() {
    install_from_repository(
        "rpm",
        "createrepo_c -q .; printf '[ours]\\nname=ours\\nbaseurl=file:///srv\\n' >/srv/repos/ours.repo",
        "dnf install -q -y site; rpm -q base holo",
        "rpm -V site",
        "dnf remove -q -y site",
    );
}

fn repository_of_pacman() {
    install_from_repository(
        "pacman",
        "repo-add -q ours.db.tar.gz *.pkg.tar.xz 2>&1",
        "pacman -Sy --noconfirm site; pacman -Q base holo",
        "pacman -Qkkq site 2>&1",
        "pacman -R --noconfirm site",
    );
}

fn owners_of_the_description() {
    let desk = Desk::new(&format!(
        "{BASE}[[file]]\npath = '/opt/foo'\ncontent = 'x'\nmode = '4755'\nowner = 1234\ngroup = 'daemon'\n\
         [[file]]\npath = '/opt/bar'\ncontent = 'x'\nowner = 1234\ngroup = 5\n"
    ));
    // pacman compares with the packed group, as its format has no other.
    for (format, install, verify, expected) in [
        ("debian", "dpkg --install", "dpkg --verify foo", ""),
        ("rpm", "rpm --install", "rpm -V foo", ""),
        ("pacman", "pacman -U --noconfirm", "! pacman -Qkkq foo 2>/dev/null", "foo /opt/foo\n"),
    ] {
        let package = desk.build(format);
        let system = Overlay::with(&[desk.root.path()]);
        set_up_pacman(&system);
        system.must(&format!("{install} {}", desk.root.path().join(package).display()));
        let owners = system.must("stat -c '%a %u %G' /opt/foo; stat -c '%a %u %g' /opt/bar");
        assert_eq!(owners, "4755 1234 daemon\n644 1234 5\n", "{format}");
        assert_eq!(system.must(verify), expected, "{format}");
    }
}
