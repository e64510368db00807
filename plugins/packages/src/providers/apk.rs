//! apk: Alpine Linux and derivatives.

use crate::model::{
    Installed, Instance, Item, Key, KeyError, Kind, Mark, Offers, PackageError, Status, Step, Transaction,
};
use crate::providers::{PackageProvider, rank};
use crate::system::System;
use crate::version;
use holo_plugin::Host;
use holo_plugin::process::Program;
use holo_plugin::provider::Provider;
use holo_plugin::system::{PackageManager, package_manager};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

const DATABASES: &[&str] = &["lib/apk/db/installed", "usr/lib/apk/db/installed"];
/// The requested packages, one a line: `foo`, `foo=1.0-r0`, `foo>1`, `foo@edge`.
const WORLD: &str = "etc/apk/world";

pub(crate) struct Apk;

impl Provider for Apk {
    fn name(&self) -> &'static str {
        self.manager().name
    }

    fn rank(&self, host: &Host) -> Option<u8> {
        rank(self.manager(), host)
    }
}

impl PackageProvider for Apk {
    fn manager(&self) -> &'static PackageManager {
        &package_manager::APK
    }

    fn compare(&self, a: &str, b: &str) -> Ordering {
        version::compare_alpine(a, b)
    }

    /// Compares versions. A requested version without a revision matches any revision.
    fn matches(&self, asked: &str, version: &str) -> bool {
        let plain = version.rsplit_once("-r").map_or(version, |(version, _)| version);
        version::compare_alpine(asked, if asked.contains("-r") { version } else { plain }).is_eq()
    }

    fn validate(&self, key: &Key) -> Result<(), KeyError> {
        if key.name.contains([':', '~']) {
            return Err(KeyError::Name { key: key.to_string(), of: "Alpine Linux", why: None });
        }
        match &key.arch {
            Some(arch) => Err(KeyError::Arch { key: key.to_string(), manager: self.name(), arch: arch.clone() }),
            None => Ok(()),
        }
    }

    fn installed(&self, system: &System<'_>) -> Result<Installed, PackageError> {
        let mut text = String::new();
        for database in DATABASES {
            text += &system.text(database)?;
        }
        Ok(read_database(&text, &system.text(WORLD)?))
    }

    fn witnesses(&self) -> Option<&'static [&'static str]> {
        Some(&[WORLD])
    }

    fn base_names(&self) -> &'static [&'static str] {
        &[
            "alpine-base",
            "alpine-baselayout",
            "alpine-keys",
            "alpine-release",
            "apk-tools",
            "busybox",
            "libc-utils",
            "musl-utils",
        ]
    }

    fn offers(&self, system: &System<'_>, keys: &[&Key]) -> Result<BTreeMap<Key, Offers>, PackageError> {
        let mut policy = apk(system);
        policy.args(["policy", "--"]).args(keys.iter().map(|key| key.name.as_str()));
        let captured = system.read(&mut policy)?;
        Ok(read_policy(&String::from_utf8_lossy(&captured.stdout)))
    }

    fn index_files(&self) -> &'static [&'static str] {
        &["var/cache/apk"]
    }

    fn names(&self, system: &System<'_>) -> Result<BTreeSet<String>, PackageError> {
        let mut program = apk(system);
        program.args(["search", "--quiet"]);
        let captured = system.read(&mut program)?;
        Ok(String::from_utf8_lossy(&captured.stdout).lines().map(str::to_owned).collect())
    }

    fn refresh(&self, system: &System<'_>) -> Result<Program, PackageError> {
        let mut program = apk(system);
        program.args(["--quiet", "update"]);
        Ok(program)
    }

    fn simulate(&self, system: &System<'_>, transaction: &Transaction) -> Result<Vec<Step>, PackageError> {
        let mut program = apk(system);
        ask(&mut program, transaction, &["--simulate"]);
        let captured = system.read(&mut program)?;
        Ok(read_simulation(&String::from_utf8_lossy(&captured.stdout)))
    }

    fn programs(&self, system: &System<'_>, transaction: &Transaction) -> Result<Vec<Program>, PackageError> {
        let mut program = apk(system);
        ask(&mut program, transaction, &["--no-progress"]);
        Ok(vec![program])
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Held, Mark::Released, Mark::ByHand]
    }

    /// Adds packages to the world file. Packages with a version are pinned to it.
    fn mark(&self, system: &System<'_>, mark: Mark, items: &[Item]) -> Result<Program, PackageError> {
        let mut program = apk(system);
        program.args(["add", "--quiet", "--no-progress", "--"]);
        program.args(items.iter().map(|item| match item.version.as_ref().filter(|_| mark == Mark::Held) {
            Some(version) => format!("{}={version}", item.key.name),
            None => item.key.name.clone(),
        }));
        Ok(program)
    }

    fn pins(&self) -> bool {
        true
    }
}

fn apk(system: &System<'_>) -> Program {
    let mut program = Program::new("apk");
    if let Some(root) = system.root() {
        program.arg("--root").arg(root);
    }
    program.args(["--wait", &system.lock_limit().as_secs().to_string()]);
    program
}

/// Adds the arguments of a transaction. A version is named only if it was requested, because apk pins the package to it.
fn ask(program: &mut Program, transaction: &Transaction, options: &[&str]) {
    let (coming, going) = transaction.coming_and_going();
    match transaction.kind {
        // This also removes packages that depend on them. The simulation refuses it if their removal is not declared.
        Kind::Remove if coming.is_empty() => program.args(["del", "--rdepends"]),
        Kind::Purge if coming.is_empty() => program.args(["del", "--rdepends", "--purge"]),
        Kind::Install | Kind::Remove | Kind::Purge => program.args(["add", "--upgrade"]),
    };
    // In `apk add`, the sign marks packages that are removed.
    let sign = if coming.is_empty() { "" } else { "!" };
    program.args(options).arg("--");
    program.args(coming.into_iter().map(|item| match item.version.as_ref().filter(|_| item.exactly) {
        Some(version) => format!("{}={version}", item.key.name),
        None => item.key.name.clone(),
    }));
    program.args(going.into_iter().map(|item| format!("{sign}{}", item.key.name)));
}

/// Parses the database, which consists of paragraphs with lines such as `P:foo`, and the world file.
fn read_database(database: &str, world: &str) -> Installed {
    let mut installed = Installed::default();
    for paragraph in database.split("\n\n") {
        let value = |key: &str| paragraph.lines().find_map(|line| line.strip_prefix(key));
        let (Some(name), Some(version)) = (value("P:"), value("V:")) else { continue };
        let wish = world.split_whitespace().find(|wish| wish.split(['=', '<', '>', '~', '@']).next() == Some(name));
        let instance = Instance {
            version: version.to_owned(),
            arch: value("A:").unwrap_or_default().to_owned(),
            status: Status::Installed,
            held: wish.is_some_and(|wish| wish.contains('=') && !wish.contains(['<', '>', '~'])),
            automatic: wish.is_none(),
        };
        installed.add(name, instance);
    }
    installed
}

/// Parses the output of `apk policy`: versions below `foo policy:`, each followed by its sources. The database of installed packages does
/// not count as a source.
fn read_policy(text: &str) -> BTreeMap<Key, Offers> {
    let mut all: BTreeMap<Key, Offers> = BTreeMap::new();
    let (mut name, mut version) = (None, None);
    for line in text.lines() {
        let depth = line.len() - line.trim_start().len();
        let word = line.trim();
        match depth {
            0 => name = word.strip_suffix(" policy:"),
            2 => version = word.strip_suffix(':'),
            // Packages from a tagged repository are available only to those who request the tag.
            _ if DATABASES.contains(&word) || word.starts_with('@') => {}
            _ => {
                let (Some(name), Some(version)) = (name, version) else { continue };
                let offers = all.entry(Key { name: name.to_owned(), arch: None }).or_default();
                if offers.versions.last().map(String::as_str) != Some(version) {
                    offers.versions.push(version.to_owned());
                }
            }
        }
    }
    for offers in all.values_mut() {
        offers.candidate = offers.versions.iter().max_by(|a, b| version::compare_alpine(a, b)).cloned();
    }
    all
}

/// Parses lines such as `(1/2) Upgrading foo (1.0-r0 -> 1.1-r0)`.
fn read_simulation(text: &str) -> Vec<Step> {
    let step = |line: &str| {
        let (_, rest) = line.strip_prefix('(')?.split_once(") ")?;
        let (verb, rest) = rest.split_once(' ')?;
        let (name, rest) = rest.split_once(" (")?;
        let versions = rest.split(')').next()?;
        let (from, to) = match (verb, versions.split_once(" -> ")) {
            ("Purging", _) => (Some(versions), None),
            (_, Some((from, to))) => (Some(from), Some(to)),
            (_, None) => (None, Some(versions)),
        };
        Some(Step { name: name.to_owned(), arch: None, from: from.map(str::to_owned), to: to.map(str::to_owned) })
    };
    text.lines().filter_map(step).collect()
}

#[cfg(test)]
mod tests;
