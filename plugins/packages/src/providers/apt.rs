//! apt and dpkg: Debian, Ubuntu and derivatives.

mod words;

use crate::model::{Answers, Installed, Item, Key, KeyError, Kind, Mark, Offers, PackageError, Step, Transaction};
use crate::providers::{PackageProvider, Repair, RepairBy, rank};
use crate::repository::{self, Address, Repository, RepositoryFile};
use crate::system::System;
use crate::version;
use holo_change::error::PathError;
use holo_plugin::Host;
use holo_plugin::definitions::Invalid;
use holo_plugin::process::{Captured, Program};
use holo_plugin::provider::Provider;
use holo_plugin::system::{PackageManager, Root, package_manager};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The environment variable with the path of apt's configuration. If the caller sets it, it is assumed to cover the root.
const CONFIG: &str = "APT_CONFIG";
const STATUS: &str = "var/lib/dpkg/status";
/// The first line is the native architecture. Without the file there are no foreign ones.
const ARCHITECTURES: &str = "var/lib/dpkg/arch";
const JOURNAL: &str = "var/lib/dpkg/updates";
const AUTOMATIC: &str = "var/lib/apt/extended_states";

pub(crate) struct Apt;

impl Provider for Apt {
    fn name(&self) -> &'static str {
        self.manager().name
    }

    fn rank(&self, host: &Host) -> Option<u8> {
        rank(self.manager(), host)
    }
}

impl PackageProvider for Apt {
    fn manager(&self) -> &'static PackageManager {
        &package_manager::APT
    }

    fn compare(&self, a: &str, b: &str) -> Ordering {
        version::compare_debian(a, b)
    }

    fn validate(&self, key: &Key) -> Result<(), KeyError> {
        let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "+-.".contains(letter);
        let begins_well = key.name.starts_with(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit());
        if key.name.len() < 2 || !begins_well || !key.name.chars().all(fits) {
            let why = "it must have two or more characters, lowercase letters, digits and +-., and begin with a letter or digit";
            return Err(KeyError::Name { key: key.to_string(), of: "Debian", why: Some(why) });
        }
        Ok(())
    }

    fn installed(&self, system: &System<'_>) -> Result<Installed, PackageError> {
        let mut installed = Installed::default();
        if !system.path(STATUS).exists() {
            return Ok(installed);
        }
        words::read_packages(&query(system, words::FORMAT)?, &mut installed)?;
        words::read_automatic(&system.text(AUTOMATIC)?, &mut installed);
        installed.native = self.native_arch(&Root::new(&system.path("")));
        installed.foreign = system.text(ARCHITECTURES)?.lines().map(str::to_owned).collect();
        Ok(installed)
    }

    fn witnesses(&self) -> Option<&'static [&'static str]> {
        Some(&[ARCHITECTURES, JOURNAL, AUTOMATIC])
    }

    fn native_arch(&self, root: &Root) -> Option<String> {
        let first = root.text(ARCHITECTURES).and_then(|text| text.lines().next().map(str::to_owned));
        Some(first.unwrap_or_else(|| words::architecture(std::env::consts::ARCH).to_owned()))
    }

    fn chosen(&self, system: &System<'_>, installed: &Installed) -> Result<BTreeSet<Key>, PackageError> {
        if installed.packages.is_empty() {
            return Ok(BTreeSet::new());
        }
        let text = query(system, FORMAT)?;
        let base = Base::read(&text);
        Ok(installed.not_automatic().filter(|key| !base.contains(&key.name)).collect())
    }

    fn offers(&self, system: &System<'_>, keys: &[&Key]) -> Result<BTreeMap<Key, Offers>, PackageError> {
        let mut policy = apt(system, "apt-cache")?;
        policy.args(["policy", "--"]).args(keys.iter().map(ToString::to_string));
        let captured = system.read(&mut policy)?;
        let by_name = words::read_policy(&String::from_utf8_lossy(&captured.stdout));
        let find = |key: &Key| by_name.get(&key.to_string()).or_else(|| by_name.get(&key.name)).cloned();
        Ok(keys.iter().filter_map(|&key| Some((key.clone(), find(key)?))).collect())
    }

    fn index_files(&self) -> &'static [&'static str] {
        &["var/lib/apt/lists", "var/lib/apt/periodic/update-success-stamp"]
    }

    fn names(&self, system: &System<'_>) -> Result<BTreeSet<String>, PackageError> {
        let mut program = apt(system, "apt-cache")?;
        program.arg("pkgnames");
        let captured = system.read(&mut program)?;
        Ok(String::from_utf8_lossy(&captured.stdout).lines().map(str::to_owned).collect())
    }

    fn provided_by(&self, system: &System<'_>, name: &str) -> Result<BTreeSet<String>, PackageError> {
        let mut program = apt(system, "apt-cache")?;
        let captured = system.read(program.args(["showpkg", "--", name]))?;
        Ok(words::read_provided_by(&String::from_utf8_lossy(&captured.stdout)))
    }

    fn refresh(&self, system: &System<'_>) -> Result<Program, PackageError> {
        let mut program = apt(system, "apt-get")?;
        // By default, apt only warns if an index cannot be downloaded, and uses the old one.
        program.args(["--quiet", "-o", "APT::Update::Error-Mode=any", "update"]);
        Ok(program)
    }

    fn repository(&self, repository: &Repository) -> Result<Vec<RepositoryFile>, Invalid> {
        files(repository)
    }

    fn simulate(&self, system: &System<'_>, transaction: &Transaction) -> Result<Vec<Step>, PackageError> {
        let mut program = apt(system, "apt-get")?;
        program.arg("--simulate");
        words::ask(&mut program, transaction);
        let captured = system.read(&mut program)?;
        Ok(words::read_simulation(&String::from_utf8_lossy(&captured.stdout)))
    }

    fn download(&self, system: &System<'_>, transaction: &Transaction) -> Result<Option<Program>, PackageError> {
        let mut program = apt(system, "apt-get")?;
        program.args(["--quiet", "--download-only"]);
        if !transaction.may_remove {
            program.arg("--no-remove");
        }
        words::ask(&mut program, transaction);
        Ok((transaction.kind == Kind::Install).then_some(program))
    }

    fn interrupted(&self, system: &System<'_>) -> Result<Vec<Repair>, PackageError> {
        // dpkg keeps a journal in this directory until it has finished.
        let is_journal = |entry: fs::DirEntry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
        if !fs::read_dir(system.path(JOURNAL)).into_iter().flatten().flatten().any(is_journal) {
            return Ok(mended(system)?.into_iter().collect());
        }
        let command = "dpkg --configure --pending".to_owned();
        let said = format!("dpkg was interrupted; its work was completed with {command}");
        let by = RepairBy::Running(Box::new(configure_pending(system)?));
        let first = Repair { said, command, steps: Vec::new(), by };
        Ok([first].into_iter().chain(mended(system).ok().flatten()).collect())
    }

    /// apt processes pending triggers only if it has other work.
    fn complete(&self, system: &System<'_>) -> Result<Option<Program>, PackageError> {
        configure_pending(system).map(Some)
    }

    fn programs(&self, system: &System<'_>, transaction: &Transaction) -> Result<Vec<Program>, PackageError> {
        let mut program = apt(system, "apt-get")?;
        program.args(QUIET);
        if transaction.kind == Kind::Install {
            program.args(KEEP_CONFIGURATION);
            if !transaction.may_remove {
                program.arg("--no-remove");
            }
        }
        words::ask(&mut program, transaction);
        Ok(vec![program])
    }

    fn file_suffix(&self) -> &'static str {
        ".deb"
    }

    fn describe(&self, path: &Path) -> Option<Program> {
        let mut program = Program::new("dpkg-deb");
        program.args(["--show", "--showformat=${Package} ${Version}\\n", "--"]).arg(path);
        Some(program)
    }

    fn takes_answers(&self) -> bool {
        true
    }

    /// The real type of a question is determined when its package asks it.
    fn answer(&self, system: &System<'_>, key: &Key, answers: &Answers) -> Option<Program> {
        let kind = if answers.sensitive { "password" } else { "string" };
        let line = |(question, answer): (&String, &String)| format!("{} {question} {kind} {answer}\n", key.name);
        let lines: String = answers.all.iter().map(line).collect();
        let mut program = Program::new("debconf-set-selections");
        own_answers(system, &mut program);
        program.stdin(lines.into_bytes());
        Some(program)
    }

    fn starts_daemons(&self) -> bool {
        true
    }

    fn knows_recommendations(&self) -> bool {
        true
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Held, Mark::Released, Mark::ByHand, Mark::Automatic]
    }

    fn mark(&self, system: &System<'_>, mark: Mark, items: &[Item]) -> Result<Program, PackageError> {
        let word = match mark {
            Mark::Held => "hold",
            Mark::Released => "unhold",
            Mark::ByHand => "manual",
            Mark::Automatic => "auto",
        };
        let mut program = apt(system, "apt-mark")?;
        program.args([word, "--"]).args(items.iter().map(|item| item.key.to_string()));
        Ok(program)
    }

    fn is_general(&self, captured: &Captured) -> bool {
        words::says_general(&String::from_utf8_lossy(&captured.stderr))
    }

    fn is_locked(&self, captured: &Captured) -> bool {
        words::says_locked(&String::from_utf8_lossy(&captured.stderr))
    }
}

/// The plugin waits for locks itself, because its wait can be interrupted.
const QUIET: [&str; 5] = ["--quiet", "-o", "DPkg::Lock::Timeout=0", "-o", "DPkg::Use-Pty=0"];
/// Configuration files that were changed by the administrator are kept. Others are replaced without a question.
const KEEP_CONFIGURATION: [&str; 4] =
    ["-o", "DPkg::Options::=--force-confdef", "-o", "DPkg::Options::=--force-confold"];

/// Returns the repair of unmet dependencies of installed packages, if there are any. Until then, apt refuses everything else.
///
/// # Errors If apt cannot repair them.
fn mended(system: &System<'_>) -> Result<Option<Repair>, PackageError> {
    let mut simulation = apt(system, "apt-get")?;
    let captured = system.ask(simulation.args(["--simulate", "install"]))?;
    if captured.ended.failure().is_none() || !words::says_broken(&String::from_utf8_lossy(&captured.stderr)) {
        return Ok(None);
    }
    let command = "apt-get --fix-broken install".to_owned();
    let failed = |problem| PackageError {
        summary: format!("apt cannot repair unmet dependencies of installed packages; run {command}"),
        is_general: true,
        ..problem
    };
    let captured = system.read(simulation.arg("--fix-broken")).map_err(failed)?;
    let mut program = apt(system, "apt-get")?;
    program.args(QUIET).args(KEEP_CONFIGURATION);
    program.args(["--yes", "-o", "APT::Get::AutomaticRemove=false", "--fix-broken", "install"]);
    Ok(Some(Repair {
        said: format!("unmet dependencies of installed packages were repaired with {command}"),
        steps: words::read_simulation(&String::from_utf8_lossy(&captured.stdout)),
        by: RepairBy::Running(Box::new(program)),
        command,
    }))
}

/// Returns the output of dpkg-query for all packages.
fn query(system: &System<'_>, format: &str) -> Result<String, PackageError> {
    let mut query = Program::new("dpkg-query");
    if let Some(root) = system.root() {
        query.arg(format!("--admindir={}", root.join("var/lib/dpkg").display()));
    }
    query.args(["--show", format]);
    Ok(String::from_utf8_lossy(&system.read_local(&mut query)?.stdout).into_owned())
}

/// Returns the program that configures all unpacked packages and processes all triggers.
fn configure_pending(system: &System<'_>) -> Result<Program, PackageError> {
    let mut options = apt(system, "apt-config")?;
    options.args(["--format", "%v%n", "dump", "DPkg::Options"]);
    let options = system.read(&mut options)?;
    let mut program = apt(system, "dpkg")?;
    program.args(String::from_utf8_lossy(&options.stdout).lines().filter(|line| line.starts_with('-')));
    program.args(["--force-confdef", "--force-confold", "--configure", "--pending"]);
    Ok(program)
}

/// Returns a program of apt, set up to work on the root of the system without asking questions.
fn apt(system: &System<'_>, name: &str) -> Result<Program, PackageError> {
    let mut program = Program::new(name);
    program.env("DEBIAN_FRONTEND", "noninteractive");
    program.env("APT_LISTCHANGES_FRONTEND", "none").env("APT_LISTBUGS_FRONTEND", "none");
    // List services only, as restarting them is up to their own definitions.
    program.env("NEEDRESTART_MODE", "l");
    own_answers(system, &mut program);
    if let Some(root) = system.root().filter(|_| std::env::var_os(CONFIG).is_none()) {
        if root.as_os_str().as_encoded_bytes().iter().any(|byte| b"\"\n\\".contains(byte)) {
            return Err(PackageError::new(format!("apt cannot work below {}, because of its name", root.display())));
        }
        let path = system.cache_dir().join("apt.conf");
        let failed = |error| PackageError::new(PathError::new("write", &path, error).to_string());
        fs::create_dir_all(system.cache_dir()).and_then(|()| fs::write(&path, configuration(root))).map_err(failed)?;
        program.env(CONFIG, path);
    }
    Ok(program)
}

/// Makes debconf store answers below the root instead of on this machine.
fn own_answers(system: &System<'_>, program: &mut Program) {
    if let Some(root) = system.root() {
        let file = root.join("var/cache/debconf/config.dat");
        program.env("DEBCONF_DB_OVERRIDE", format!("File{{{}}}", file.display()));
    }
}

/// Returns the configuration that makes apt and dpkg work below a root. The root's own configuration is read after it.
fn configuration(root: &Path) -> String {
    let root = root.display();
    format!(
        "Dir \"{root}/\";\n\
         Dir::State::status \"{root}/{STATUS}\";\n\
         Dir::Bin::dpkg \"/usr/bin/dpkg\";\n\
         DPkg::Options {{ \"--root={root}\"; \"--log={root}/var/log/dpkg.log\"; }};\n"
    )
}

/// One line for each package, also for packages that are not installed.
const FORMAT: &str =
    "--showformat=${db:Status-Status}\\t${Package}\\t${Essential}\\t${Priority}\\t${Pre-Depends}, ${Depends}\\n";

/// The names of packages that every system has, or that others of the usual system depend on. Packages of priority important are not among
/// them unless they are dependencies: smaller systems, such as those of containers, lack them.
#[derive(Debug, Default)]
struct Base<'t>(BTreeSet<&'t str>);

impl<'t> Base<'t> {
    /// Parses the output of dpkg-query in this format.
    fn read(text: &'t str) -> Base<'t> {
        let mut dependencies: BTreeMap<&str, &str> = BTreeMap::new();
        let (mut pending, mut important) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [status, name, essential, priority, depends] = fields[..] else { continue };
            if ["not-installed", "config-files"].contains(&status) {
                continue;
            }
            dependencies.insert(name, depends);
            match priority {
                _ if essential == "yes" => pending.push(name),
                "required" => pending.push(name),
                "important" => important.push(depends),
                _ => {}
            }
        }
        pending.extend(important.into_iter().flat_map(first_choices));
        let mut base = BTreeSet::new();
        while let Some(name) = pending.pop() {
            let Some(depends) = dependencies.get(name) else { continue };
            if base.insert(name) {
                pending.extend(first_choices(depends));
            }
        }
        Base(base)
    }

    fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

/// Returns the names in a list of dependencies such as `a (>= 1), b:any | c`. Only the first alternative counts, as another one is
/// installed only by choice.
fn first_choices(list: &str) -> impl Iterator<Item = &str> {
    let choices = list.split(',').filter_map(|part| part.split('|').next()?.split_whitespace().next());
    choices.filter_map(|name| name.split(':').next())
}

#[cfg(test)]
mod base_tests {
    use super::*;

    const SYSTEM: &str = "installed\tdpkg\tyes\trequired\tlibc6 (>= 2.3), tar | ed\n\
                          installed\tlibc6\t\toptional\t, libgcc-s1\n\
                          installed\tlibgcc-s1\t\toptional\t\n\
                          installed\ted\t\toptional\t\n\
                          installed\tnginx\t\toptional\tlibc6, libpcre2-8-0:any\n\
                          installed\tlibpcre2-8-0\t\toptional\tlibc6\n\
                          installed\tcron\t\timportant\tcron-daemon-common:any, exim4 | mail-transport-agent\n\
                          installed\tcron-daemon-common\t\toptional\t, \n\
                          installed\tpostfix\t\toptional\t\n\
                          config-files\tbusybox\t\trequired\tnginx\n";

    #[test]
    fn base_has_required_packages_and_dependencies() {
        let base = Base::read(SYSTEM);
        let all: Vec<&str> = base.0.iter().copied().collect();
        assert_eq!(all, ["cron-daemon-common", "dpkg", "libc6", "libgcc-s1"]);
        assert!(!base.contains("nginx") && !base.contains("ed") && !base.contains("postfix"));
    }

    #[test]
    fn dependencies_are_parsed_without_versions_and_architectures() {
        let list = "a (>= 1:2.0~), b:any | c (= 1) , , libc6";
        assert_eq!(first_choices(list).collect::<Vec<_>>(), ["a", "b", "libc6"]);
    }
}

/// Returns the files of a repository.
///
/// # Errors The key that is missing, or that conflicts with others.
fn files(repository: &Repository) -> Result<Vec<RepositoryFile>, Invalid> {
    let name = &repository.name;
    let source = format!("/etc/apt/sources.list.d/{name}.sources");
    if repository.is_gone() {
        let old = format!("/etc/apt/sources.list.d/{name}.list");
        return Ok(vec![RepositoryFile::absent(source), RepositoryFile::absent(old)]);
    }
    validate(repository)?;
    let mut files = vec![RepositoryFile::new(source, stanza(repository))];
    if let Some(repository::Key::Text(key)) = repository.key() {
        files.push(RepositoryFile::new(keyring(name), format!("{key}\n")));
    }
    if let Some(priority) = repository.pin {
        files.push(RepositoryFile::new(format!("/etc/apt/preferences.d/{name}.pref"), pins(repository, priority)));
    }
    if repository.has_login() {
        let (path, content) = (format!("/etc/apt/auth.conf.d/{name}.conf"), Some(logins(repository)));
        files.push(RepositoryFile { path, content, sensitive: true });
    }
    Ok(files)
}

fn validate(repository: &Repository) -> Result<(), Invalid> {
    if repository.suites.is_empty() {
        return Err(Invalid::new("suites", "is missing; that of a repository without suites is \"./\""));
    }
    let is_flat = |suite: &String| suite.ends_with('/');
    match (repository.suites.iter().all(is_flat), repository.suites.iter().any(is_flat)) {
        (true, _) if !repository.components.is_empty() => {
            Err(Invalid::new("components", "a suite that ends with a slash has no components"))
        }
        (false, true) => Err(Invalid::new("suites", "either all suites or none must end with a slash")),
        (false, false) if repository.components.is_empty() => Err(Invalid::new("components", "is missing")),
        _ => Ok(()),
    }
}

fn keyring(name: &str) -> String {
    format!("/etc/apt/keyrings/{name}.asc")
}

fn stanza(repository: &Repository) -> String {
    let uris: Vec<String> = repository.addresses().map(|address| address.plain).collect();
    let key = repository.key().map(|key| match key {
        repository::Key::Path(path) => path.to_owned(),
        repository::Key::Text(_) => keyring(&repository.name),
    });
    let fields = [
        ("Types", "deb".to_owned()),
        ("URIs", uris.join(" ")),
        ("Suites", repository.suites.join(" ")),
        ("Components", repository.components.join(" ")),
        ("Architectures", repository.architectures.join(" ")),
        ("Signed-By", key.unwrap_or_default()),
        ("Trusted", if repository.trusted { "yes" } else { "" }.to_owned()),
    ];
    let said = fields.iter().filter(|(_, value)| !value.is_empty());
    said.map(|(name, value)| format!("{name}: {value}\n")).collect()
}

/// Returns the pins for all packages from the repository's hosts. A local directory has an empty host name.
fn pins(repository: &Repository, priority: i32) -> String {
    let hosts: BTreeSet<String> = repository.addresses().map(|address| address.host).collect();
    let pin = |host: &String| format!("Package: *\nPin: origin \"{host}\"\nPin-Priority: {priority}\n");
    let pins: Vec<String> = hosts.iter().map(pin).collect();
    pins.join("\n")
}

fn logins(repository: &Repository) -> String {
    let login = |address: Address| {
        let (user, password) = address.login?;
        let machine = address.plain.trim_end_matches('/');
        Some(format!("machine {machine} login {user} password {password}\n"))
    };
    repository.addresses().filter_map(login).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(definition: &str) -> Result<Vec<RepositoryFile>, Invalid> {
        files(&toml::from_str(definition).unwrap())
    }

    #[test]
    fn repository_has_source_key_pin_and_login_files() {
        let definition = "name = 'vendor'\n\
        uris = ['https://me:s3cret@deb.example.org/', 'http://mirror.example.org/']\n\
        suites = ['stable']\ncomponents = ['main', 'extra']\narchitectures = ['amd64']\npin = 100\n\
        signed_by = '''\n-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nx\n'''\n";
        let files = of(definition).unwrap();
        let shown: Vec<(&str, &str, bool)> =
            files.iter().map(|file| (&*file.path, file.content.as_deref().unwrap(), file.sensitive)).collect();
        assert_eq!(
            shown,
            [
                (
                    "/etc/apt/sources.list.d/vendor.sources",
                    "Types: deb\nURIs: https://deb.example.org/ http://mirror.example.org/\nSuites: stable\n\
                 Components: main extra\nArchitectures: amd64\nSigned-By: /etc/apt/keyrings/vendor.asc\n",
                    false
                ),
                ("/etc/apt/keyrings/vendor.asc", "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nx\n", false),
                (
                    "/etc/apt/preferences.d/vendor.pref",
                    "Package: *\nPin: origin \"deb.example.org\"\nPin-Priority: 100\n\n\
                 Package: *\nPin: origin \"mirror.example.org\"\nPin-Priority: 100\n",
                    false
                ),
                (
                    "/etc/apt/auth.conf.d/vendor.conf",
                    "machine https://deb.example.org login me password s3cret\n",
                    true
                ),
            ]
        );
    }

    #[test]
    fn suites_require_components_unless_flat() {
        let problem = |more: &str| {
            let definition = format!("name = 'x'\nuris = ['file:///srv']\n{more}");
            of(&definition).err().map(|invalid| invalid.key.into_owned())
        };
        assert_eq!(problem("suites = ['./']"), None);
        assert_eq!(problem("suites = ['a', 'b']\ncomponents = ['main']"), None);
        for (more, key) in [
            ("", "suites"),
            ("suites = ['a']", "components"),
            ("suites = ['a/']\ncomponents = ['main']", "components"),
            ("suites = ['a', 'b/']\ncomponents = ['main']", "suites"),
        ] {
            assert_eq!(problem(more).as_deref(), Some(key), "{more}");
        }
    }
}
