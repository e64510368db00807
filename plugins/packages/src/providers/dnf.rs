//! dnf: Fedora, RHEL and derivatives.

mod command;
mod words;

use super::rpm_database;
use super::rpm_repository;
use crate::error::{KeyError, PackageError};
use crate::model::{IndexPaths, Installed, Item, Key, Mark, Offers, Step, Transaction};
use crate::provider::{PackageProvider, rank};
use crate::repository::{Repository, RepositoryFile};
use crate::system::System;
use crate::version::rpm;
use command::{Version, ask, dnf, read, simulate};
use holo_plugin::Host;
use holo_plugin::definitions::Invalid;
use holo_plugin::process::{Captured, Program};
use holo_plugin::provider::Provider;
use holo_plugin::system::{PackageManager, package_manager};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

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
        rpm::compare(a, b)
    }

    fn matches(&self, asked: &str, version: &str) -> bool {
        rpm::matches(asked, version)
    }

    fn validate(&self, key: &Key) -> Result<(), KeyError> {
        rpm_database::validate(key)
    }

    fn installed(&self, system: &System<'_>) -> Result<Installed, PackageError> {
        let mut installed = rpm_database::installed(system)?;
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

    fn chosen(&self, system: &System<'_>, installed: &Installed) -> Result<BTreeSet<Key>, PackageError> {
        if rpm_database::path(system)?.is_none() {
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
        rpm_database::may_ask(system)?;
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

    fn index_paths(&self) -> IndexPaths {
        IndexPaths { made: &["var/cache/dnf/last_makecache", "var/cache/libdnf5"], sources: &["etc/yum.repos.d"] }
    }

    fn names(&self, system: &System<'_>) -> Result<BTreeSet<String>, PackageError> {
        let mut program = dnf(system);
        program.args(["--cacheonly", "--quiet", "repoquery", "--available", "--queryformat", "%{name}\\n"]);
        let captured = read(system, &mut program)?;
        Ok(String::from_utf8_lossy(&captured.stdout).lines().map(str::to_owned).collect())
    }

    fn refresh(&self, system: &System<'_>) -> Result<Program, PackageError> {
        let mut program = dnf(system);
        program.args(["--quiet", "makecache", "--refresh"]);
        Ok(program)
    }

    fn repository(&self, repository: &Repository) -> Result<Vec<RepositoryFile>, Invalid> {
        rpm_repository::files(repository, self.name(), REPOSITORIES)
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
        captured.ended.code() == Some(LOCKED) || rpm_database::is_locked(captured) || words::has_not_begun(captured)
    }
}
