//! dnf: Fedora, RHEL and derivatives.

mod words;

use super::rpm;
use crate::model::{Installed, Item, Key, KeyError, Kind, Mark, Offers, PackageError, Step, Transaction};
use crate::providers::{PackageProvider, rank};
use crate::repository::{Repository, RepositoryFile};
use crate::system::System;
use crate::version;
use holo_plugin::Host;
use holo_plugin::definitions::Invalid;
use holo_plugin::process::{self, Captured, Program};
use holo_plugin::provider::Provider;
use holo_plugin::system::{PackageManager, package_manager};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use words::read_table;

const REPOSITORIES: &str = "/etc/yum.repos.d";
const LOCKS: &str = "etc/dnf/plugins/versionlock.list";
/// The locks of version 5, which needs no plugin for them.
const LOCKS_OF_5: &str = "etc/dnf/versionlock.toml";
/// The exit status if another dnf is running.
const LOCKED: i32 = 200;
/// Packages of every system, in addition to the release package of the distribution.
const BASE: [&str; 4] = ["basesystem", "dnf", "filesystem", "setup"];
/// The newline is explicit because not all versions of dnf end lines by themselves.
const FORMAT: &str = "%{name}|%{epoch}:%{version}-%{release}|%{arch}\\n";

pub(crate) struct Dnf;

impl Provider for Dnf {
    fn name(&self) -> &'static str {
        self.manager().name
    }

    fn rank(&self, host: &Host) -> Option<u8> {
        rank(self.manager(), host)
    }
}

impl PackageProvider for Dnf {
    fn manager(&self) -> &'static PackageManager {
        &package_manager::DNF
    }

    fn begins_from_nothing(&self) -> bool {
        true
    }

    fn compare(&self, a: &str, b: &str) -> Ordering {
        version::compare_rpm(a, b)
    }

    fn matches(&self, asked: &str, version: &str) -> bool {
        version::matches_rpm(asked, version)
    }

    fn validate(&self, key: &Key) -> Result<(), KeyError> {
        rpm::validate(key)
    }

    fn installed(&self, system: &System<'_>) -> Result<Installed, PackageError> {
        let mut installed = rpm::installed(system)?;
        let names: Vec<String> = match Version::of(system) {
            Version::Four => words::locked(&system.text(LOCKS)?).map(str::to_owned).collect(),
            Version::Five => words::locked_by_5(&system.text(LOCKS_OF_5)?)
                .map_err(|error| PackageError::new(format!("cannot read {LOCKS_OF_5}: {}", error.message())))?,
        };
        for name in names {
            let instances = installed.packages.get_mut(&name).into_iter().flatten();
            instances.for_each(|instance| instance.held = true);
        }
        Ok(installed)
    }

    fn witnesses(&self) -> Option<&'static [&'static str]> {
        Some(&[LOCKS, LOCKS_OF_5])
    }

    fn chosen(&self, system: &System<'_>, installed: &Installed) -> Result<BTreeSet<Key>, PackageError> {
        if rpm::path(system)?.is_none() {
            return Ok(BTreeSet::new());
        }
        let mut query = dnf(system);
        let no_repository = match Version::of(system) {
            Version::Four => "--disablerepo=*",
            Version::Five => "--disable-repo=*",
        };
        query.args(["--cacheonly", "--quiet", no_repository, "repoquery", "--userinstalled", "--queryformat"]);
        query.arg("%{name}\\n");
        let captured = read(system, &mut query)?;
        let text = String::from_utf8_lossy(&captured.stdout);
        let names: BTreeSet<&str> = text.lines().map(str::trim).collect();
        let is_base = |name: &str| BASE.contains(&name) || name.ends_with("-release");
        Ok(installed.not_automatic().filter(|key| names.contains(&*key.name) && !is_base(&key.name)).collect())
    }

    fn offers(&self, system: &System<'_>, keys: &[&Key]) -> Result<BTreeMap<Key, Offers>, PackageError> {
        rpm::may_ask(system)?;
        let mut query = dnf(system);
        if system.only_looks {
            query.arg("--cacheonly");
        }
        query.arg("--quiet");
        match Version::of(system) {
            Version::Four => query.args(Version::Four.without_locks()).args(["repoquery", "--showduplicates"]),
            // It lists all versions, including locked ones.
            Version::Five => query.arg("repoquery"),
        };
        query.args(["--available", "--queryformat", FORMAT, "--"]).args(keys.iter().map(|key| key.name.as_str()));
        let captured = read(system, &mut query)?;
        Ok(words::read_offers(&String::from_utf8_lossy(&captured.stdout), keys))
    }

    fn index_files(&self) -> &'static [&'static str] {
        &["var/cache/dnf/last_makecache", "var/cache/libdnf5"]
    }

    fn names(&self, system: &System<'_>) -> Result<BTreeSet<String>, PackageError> {
        let mut program = dnf(system);
        program.args(["--cacheonly", "--quiet", "repoquery", "--available", "--queryformat", "%{name}\\n"]);
        let captured = read(system, &mut program)?;
        Ok(String::from_utf8_lossy(&captured.stdout).lines().map(str::to_owned).collect())
    }

    fn provided_by(&self, system: &System<'_>, name: &str) -> Result<BTreeSet<String>, PackageError> {
        let mut program = dnf(system);
        program.args(["--cacheonly", "--quiet", "repoquery", "--available", "--queryformat", "%{name}\\n"]);
        let captured = read(system, program.arg(format!("--whatprovides={name}")))?;
        Ok(String::from_utf8_lossy(&captured.stdout).split_whitespace().map(str::to_owned).collect())
    }

    fn refresh(&self, system: &System<'_>) -> Result<Program, PackageError> {
        let mut program = dnf(system);
        program.args(["--quiet", "makecache", "--refresh"]);
        Ok(program)
    }

    fn repository(&self, repository: &Repository) -> Result<Vec<RepositoryFile>, Invalid> {
        rpm::files(repository, self.name(), REPOSITORIES)
    }

    fn simulate(&self, system: &System<'_>, transaction: &Transaction) -> Result<Vec<Step>, PackageError> {
        // Try without removals first, as conflicts are rare.
        let first = simulate(system, &Transaction { may_remove: false, ..transaction.clone() });
        if first.is_err() && transaction.may_remove { simulate(system, transaction).or(first) } else { first }
    }

    fn programs(&self, system: &System<'_>, transaction: &Transaction) -> Result<Vec<Program>, PackageError> {
        let mut program = dnf(system);
        program.args(["--quiet", "--assumeyes"]);
        let version = Version::of(system);
        if transaction.changes_held && version == Version::Four {
            program.args(version.without_locks());
        }
        ask(&mut program, transaction, version);
        Ok(vec![program])
    }

    fn file_suffix(&self) -> &'static str {
        ".rpm"
    }

    fn describe(&self, path: &Path) -> Option<Program> {
        let mut program = Program::new("rpm");
        program.args(["--query", "--nosignature", "--queryformat", "%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n"]);
        program.arg("--package").arg("--").arg(path);
        Some(program)
    }

    fn knows_recommendations(&self) -> bool {
        true
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Held, Mark::Released]
    }

    fn mark(&self, system: &System<'_>, mark: Mark, items: &[Item]) -> Result<Program, PackageError> {
        let mut program = dnf(system);
        let word = if mark == Mark::Held { "add" } else { "delete" };
        program.args(["--quiet", "versionlock", word]).args(items.iter().map(|item| item.key.name.as_str()));
        Ok(program)
    }

    fn releases_first(&self) -> bool {
        true
    }

    fn is_locked(&self, captured: &Captured) -> bool {
        captured.ended.code() == Some(LOCKED) || rpm::is_locked(captured) || words::has_not_begun(captured)
    }
}

/// The major version of dnf, which decides about its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Four,
    Five,
}

impl Version {
    /// Detects the version of `dnf`: version 5 is a symlink to `dnf5`.
    fn of(system: &System<'_>) -> Version {
        let program =
            process::find("dnf").filter(|_| system.mock.is_none()).and_then(|path| fs::canonicalize(path).ok());
        let is_five = program.is_some_and(|path| path.file_name().is_some_and(|name| name == "dnf5"));
        if is_five { Version::Five } else { Version::Four }
    }

    /// Returns the options that disable locks.
    fn without_locks(self) -> [&'static str; 1] {
        match self {
            Version::Four => ["--disableplugin=versionlock"],
            Version::Five => ["--setopt=disable_excludes=*"],
        }
    }
}

fn dnf(system: &System<'_>) -> Program {
    let mut program = Program::new("dnf");
    if let Some(root) = system.root() {
        program.arg(format!("--installroot={}", root.display()));
    }
    // Otherwise dnf would wait for other processes indefinitely.
    program.arg("--setopt=exit_on_lock=True");
    program
}

/// Runs a query. Retries while another dnf is running.
fn run(system: &System<'_>, program: &mut Program) -> Result<Captured, PackageError> {
    system.wait_for_others(|captured| captured.ended.code() == Some(LOCKED), || system.ask(program))
}

fn read(system: &System<'_>, program: &mut Program) -> Result<Captured, PackageError> {
    let captured = run(system, program)?;
    let failure = captured.ended.failure();
    failure.map_or(Ok(captured.clone()), |failure| Err(PackageError::from_program(program, &failure, &captured)))
}

fn simulate(system: &System<'_>, transaction: &Transaction) -> Result<Vec<Step>, PackageError> {
    let mut program = dnf(system);
    program.arg("--assumeno");
    let (coming, _) = transaction.coming_and_going();
    if system.only_looks && !coming.is_empty() {
        program.arg("--cacheonly");
    }
    let version = Version::of(system);
    if transaction.changes_held {
        program.args(version.without_locks());
    }
    ask(&mut program, transaction, version);
    let captured = run(system, &mut program)?;
    let text = String::from_utf8_lossy(&captured.stdout);
    let errors = String::from_utf8_lossy(&captured.stderr);
    // With --assumeno, dnf exits with 1, and its shell always exits with 0.
    let is_told =
        ["Transaction Summary", "Nothing to do"].iter().any(|sign| text.contains(sign) || errors.contains(sign));
    if is_told {
        return Ok(read_table(&text));
    }
    let failure = captured.ended.failure().unwrap_or_else(|| "these changes conflict".to_owned());
    Err(PackageError::from_program(&program, &failure, &captured))
}

/// Adds the arguments of a transaction.
fn ask(program: &mut Program, transaction: &Transaction, version: Version) {
    let cleans = if transaction.cleans { "True" } else { "False" };
    program.arg(format!("--setopt=clean_requirements_on_remove={cleans}"));
    if let Some(recommends) = transaction.recommends {
        program.arg(format!("--setopt=install_weak_deps={}", if recommends { "True" } else { "False" }));
    }
    program.args(transaction.without.iter().map(|name| format!("--exclude={name}")));
    let (coming, going) = transaction.coming_and_going();
    let allowed: &[&str] = if transaction.may_remove && !coming.is_empty() { &["--allowerasing"] } else { &[] };
    let coming = Vec::from_iter(coming.into_iter().map(|item| specification(item, Kind::Install)));
    let going = Vec::from_iter(going.into_iter().map(|item| specification(item, Kind::Remove)));
    match (coming.is_empty(), going.is_empty(), version) {
        (false, true, Version::Five) => program.arg("install").args(allowed).arg("--").args(coming),
        (false, true, Version::Four) => program.args(allowed).args(["install", "--"]).args(coming),
        (true, ..) => program.args(["remove", "--"]).args(going),
        (false, false, Version::Five) => {
            program.arg("do").args(allowed).arg("--action=install").args(coming).arg("--action=remove").args(going)
        }
        (false, false, Version::Four) => {
            let line = |verb: &str, names: &[String]| {
                let quoted = names.iter().map(|name| format!(" '{}'", name.replace('\'', "'\\''")));
                format!("{verb}{}\n", quoted.collect::<String>())
            };
            let script = line("install", &coming) + &line("remove", &going) + "run\nexit\n";
            program.args(allowed).args(["shell", "/dev/stdin"]).stdin(script.into_bytes())
        }
    };
}

/// Returns the exact specification of a package. With it, dnf also installs older versions.
fn specification(item: &Item, kind: Kind) -> String {
    if let Some(file) = item.file.as_ref().filter(|_| kind == Kind::Install) {
        return file.display().to_string();
    }
    let version = item.version.as_ref().filter(|_| kind == Kind::Install).map(|version| format!("-{version}"));
    let arch = item.key.arch.as_ref().map(|arch| format!(".{arch}"));
    format!("{}{}{}", item.key.name, version.unwrap_or_default(), arch.unwrap_or_default())
}
