//! zypper: openSUSE and SLES.

use super::rpm::{self, plain};
use crate::model::{Installed, Item, Key, KeyError, Kind, Mark, Offers, PackageError, Step, Transaction, shown};
use crate::providers::{PackageProvider, rank};
use crate::repository::{Repository, RepositoryFile};
use crate::system::System;
use crate::version;
use holo_plugin::Host;
use holo_plugin::definitions::{Globs, Invalid};
use holo_plugin::process::{Captured, Program};
use holo_plugin::provider::Provider;
use holo_plugin::system::{PackageManager, package_manager};
use roxmltree::{Document, Node};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const REPOSITORIES: &str = "/etc/zypp/repos.d";
const LOCKS: &str = "etc/zypp/locks";
/// The names of automatically installed packages, one a line.
const AUTOMATIC: &str = "var/lib/zypp/AutoInstalled";
/// Prefixes of packages of every system. A pattern stands for the packages that it installs.
const BASE: [&str; 5] = ["filesystem", "openSUSE-release", "patterns-base-", "product-builder-", "sles-release"];
/// The exit status of a search without results.
const NOT_FOUND: i32 = 104;
/// The exit status if another zypper is running after the timeout for locks.
const LOCKED: i32 = 7;
/// The lowest exit status of a success with information, such as 102 for a required reboot.
const INFORMATION: i32 = 100;

pub(crate) struct Zypper;

impl Provider for Zypper {
    fn name(&self) -> &'static str {
        self.manager().name
    }

    fn rank(&self, host: &Host) -> Option<u8> {
        rank(self.manager(), host)
    }
}

impl PackageProvider for Zypper {
    fn manager(&self) -> &'static PackageManager {
        &package_manager::ZYPPER
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
        for lock in locked(&system.text(LOCKS)?).filter_map(|name| Globs::new(&[name]).ok()) {
            let held = installed.packages.iter_mut().filter(|(name, _)| lock.cover(Path::new(name)));
            held.flat_map(|(_, instances)| instances).for_each(|instance| instance.held = true);
        }
        Ok(installed)
    }

    fn witnesses(&self) -> Option<&'static [&'static str]> {
        Some(&[LOCKS])
    }

    fn chosen(&self, system: &System<'_>, installed: &Installed) -> Result<BTreeSet<Key>, PackageError> {
        let automatic = system.text(AUTOMATIC)?;
        let automatic: BTreeSet<&str> = automatic.lines().map(str::trim).collect();
        let is_base = |name: &str| BASE.iter().any(|base| name.starts_with(base));
        Ok(installed.not_automatic().filter(|key| !automatic.contains(&*key.name) && !is_base(&key.name)).collect())
    }

    fn offers(&self, system: &System<'_>, keys: &[&Key]) -> Result<BTreeMap<Key, Offers>, PackageError> {
        rpm::may_ask(system)?;
        let mut search = zypper(system);
        search.args(["--no-refresh", "--xmlout", "search", "--details", "--match-exact", "--type", "package", "--"]);
        search.args(keys.iter().map(|key| key.name.as_str()));
        let captured = system.ask(&mut search)?;
        match (captured.ended.code(), captured.ended.failure()) {
            (Some(NOT_FOUND), _) => Ok(BTreeMap::new()),
            (_, Some(failure)) => Err(told(&search, &failure, &captured)),
            (_, None) => read_offers(&String::from_utf8_lossy(&captured.stdout), keys),
        }
    }

    fn names(&self, system: &System<'_>) -> Result<BTreeSet<String>, PackageError> {
        search(system, &[])
    }

    fn provided_by(&self, system: &System<'_>, name: &str) -> Result<BTreeSet<String>, PackageError> {
        search(system, &["--provides", "--match-exact", "--", name])
    }

    fn refresh(&self, system: &System<'_>) -> Result<Program, PackageError> {
        let mut program = zypper(system);
        program.args(["--quiet", "refresh"]);
        Ok(program)
    }

    fn repository(&self, repository: &Repository) -> Result<Vec<RepositoryFile>, Invalid> {
        rpm::files(repository, self.name(), REPOSITORIES)
    }

    /// zypper would ask about the key, or accept any key. This one is declared.
    fn trust(&self, system: &System<'_>, repository: &Repository) -> Option<Program> {
        repository.key()?;
        let mut program = Program::new("rpm");
        if let Some(root) = system.root() {
            program.arg("--root").arg(root);
        }
        program.arg("--import").arg(system.path(rpm::key_path(repository).trim_start_matches('/')));
        Some(program)
    }

    fn simulate(&self, system: &System<'_>, transaction: &Transaction) -> Result<Vec<Step>, PackageError> {
        // Try without removals first, as conflicts are rare.
        let first = simulate(system, &Transaction { may_remove: false, ..transaction.clone() });
        if first.is_err() && transaction.may_remove { simulate(system, transaction).or(first) } else { first }
    }

    fn programs(&self, system: &System<'_>, transaction: &Transaction) -> Result<Vec<Program>, PackageError> {
        let mut program = zypper(system);
        program.args(["--quiet", "--no-refresh"]);
        ask(&mut program, transaction, &[]);
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
        let mut program = zypper(system);
        program.args(["--quiet", if mark == Mark::Held { "addlock" } else { "removelock" }, "--"]);
        program.args(items.iter().map(|item| item.key.name.as_str()));
        Ok(program)
    }

    fn releases_first(&self) -> bool {
        true
    }

    fn is_locked(&self, captured: &Captured) -> bool {
        captured.ended.code() == Some(LOCKED) || rpm::is_locked(captured)
    }
}

/// Returns the names of all packages, or of those that these arguments of a search select.
fn search(system: &System<'_>, arguments: &[&str]) -> Result<BTreeSet<String>, PackageError> {
    let mut program = zypper(system);
    program.args(["--no-refresh", "--xmlout", "search", "--type", "package"]).args(arguments);
    let captured = system.read(&mut program)?;
    let text = String::from_utf8_lossy(&captured.stdout);
    let document = parse(&text)?;
    let solvables = document.descendants().filter(|node| node.has_tag_name("solvable"));
    Ok(solvables.filter_map(|node| node.attribute("name")).map(str::to_owned).collect())
}

fn zypper(system: &System<'_>) -> Program {
    let mut program = Program::new("zypper");
    if let Some(root) = system.root() {
        program.arg("--root").arg(root);
    }
    program.arg("--non-interactive");
    if system.inside.is_some() {
        // Queries are made without the lock, which another process holds.
        program.env("ZYPP_READONLY_HACK", "1");
    }
    program.env("ZYPP_LOCK_TIMEOUT", system.lock_limit().as_secs().to_string());
    program
}

fn simulate(system: &System<'_>, transaction: &Transaction) -> Result<Vec<Step>, PackageError> {
    let mut program = zypper(system);
    program.args(["--no-refresh", "--xmlout"]);
    ask(&mut program, transaction, &["--dry-run"]);
    let captured = system.ask(&mut program)?;
    match captured.ended.failure() {
        Some(failure) if captured.ended.code().is_none_or(|code| code < INFORMATION || code == NOT_FOUND) => {
            Err(told(&program, &failure, &captured))
        }
        _ => read_summary(&String::from_utf8_lossy(&captured.stdout)),
    }
}

/// Adds the arguments of a transaction.
fn ask(program: &mut Program, transaction: &Transaction, options: &[&str]) {
    let (coming, going) = transaction.coming_and_going();
    let comes = !coming.is_empty();
    if comes {
        program.args(["install", "--name", "--auto-agree-with-licenses"]);
        if transaction.may_downgrade {
            program.arg("--oldpackage");
        }
        if transaction.may_remove {
            program.arg("--force-resolution");
        }
        if coming.iter().any(|item| item.file.is_some()) {
            program.arg("--allow-unsigned-rpm");
        }
        if let Some(recommends) = transaction.recommends {
            program.arg(if recommends { "--recommends" } else { "--no-recommends" });
        }
    } else {
        program.args(["remove", if transaction.cleans { "--clean-deps" } else { "--no-clean-deps" }]);
    }
    // In `zypper install`, the sign marks packages that are removed.
    let sign = if comes { "!" } else { "" };
    let going = going.into_iter().map(|item| format!("{sign}{}", specification(item, Kind::Remove)));
    program.args(options).arg("--");
    program.args(coming.into_iter().map(|item| specification(item, Kind::Install))).args(going);
}

fn specification(item: &Item, kind: Kind) -> String {
    if let Some(file) = item.file.as_ref().filter(|_| kind == Kind::Install) {
        return file.display().to_string();
    }
    let version = item.version.as_ref().filter(|_| kind == Kind::Install).map(|version| format!("={version}"));
    let arch = item.key.arch.as_ref().map(|arch| format!(".{arch}"));
    format!("{}{}{}", item.key.name, arch.unwrap_or_default(), version.unwrap_or_default())
}

/// Returns the error with the messages from zypper's XML output.
fn told(program: &Program, failure: &str, captured: &Captured) -> PackageError {
    let mut problem = PackageError::from_program(program, failure, captured);
    let text = String::from_utf8_lossy(&captured.stdout);
    if let Ok(document) = Document::parse(&text) {
        let is_telling = |node: &Node<'_, '_>| {
            node.has_tag_name("message") && ["error", "warning"].contains(&node.attribute("type").unwrap_or_default())
                || node.has_tag_name("description")
        };
        let messages = document.descendants().filter(is_telling).filter_map(|node| node.text());
        let lines: Vec<String> = messages.flat_map(str::lines).map(shown).collect();
        if !lines.is_empty() {
            problem.lines = lines;
        }
    }
    problem
}

fn parse(text: &str) -> Result<Document<'_>, PackageError> {
    Document::parse(text).map_err(|error| PackageError::new(format!("cannot parse the output of zypper: {error}")))
}

/// Parses the result of a search.
fn read_offers(text: &str, keys: &[&Key]) -> Result<BTreeMap<Key, Offers>, PackageError> {
    let document = parse(text)?;
    let mut all: BTreeMap<Key, Offers> = BTreeMap::new();
    for solvable in document.descendants().filter(|node| node.has_tag_name("solvable")) {
        let attribute = |name: &str| solvable.attribute(name).unwrap_or_default();
        // An installed version that is in no repository is not available.
        if attribute("kind") != "package" || attribute("repository").starts_with('(') {
            continue;
        }
        let fits = |key: &&&Key| {
            key.name == attribute("name") && key.arch.as_deref().is_none_or(|arch| arch == attribute("arch"))
        };
        for key in keys.iter().filter(fits) {
            all.entry((*key).clone()).or_default().versions.push(plain(attribute("edition")).to_owned());
        }
    }
    for offers in all.values_mut() {
        offers.versions.sort_by(|a, b| version::compare_rpm(b, a));
        offers.versions.dedup();
        offers.candidate = offers.versions.first().cloned();
    }
    Ok(all)
}

/// Parses the summary of a simulation.
fn read_summary(text: &str) -> Result<Vec<Step>, PackageError> {
    let document = parse(text)?;
    let mut steps = Vec::new();
    for solvable in document.descendants().filter(|node| node.has_tag_name("solvable")) {
        let attribute = |name: &str| solvable.attribute(name).map(|value| plain(value).to_owned());
        let section = solvable.parent().map(|parent| parent.tag_name().name()).unwrap_or_default();
        let Some(name) = attribute("name").filter(|_| solvable.attribute("type") == Some("package")) else { continue };
        let (from, to) = match section {
            "to-remove" => (attribute("edition"), None),
            _ => (attribute("edition-old"), attribute("edition")),
        };
        steps.push(Step { name, arch: None, from, to });
    }
    Ok(steps)
}

/// Returns the names in a list of locks, which consists of paragraphs with lines such as `solvable_name: foo`.
fn locked(text: &str) -> impl Iterator<Item = String> + '_ {
    let is_exact = |paragraph: &&str| !paragraph.contains("\nversion:") && !paragraph.contains("repo:");
    let names = text.split("\n\n").filter(is_exact).flat_map(str::lines);
    names.filter_map(|line| line.strip_prefix("solvable_name:")).map(|name| name.trim().to_owned())
}

#[cfg(test)]
mod tests;
