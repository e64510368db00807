//! dnf: Fedora, RHEL and their like.

use super::rpm_database::{self, plain};
use super::rpm_repository;
use crate::error::{KeyError, PackageError};
use crate::model::{IndexPaths, Installed, Item, Key, Kind, Mark, Offers, Step, Transaction};
use crate::provider::{PackageProvider, rank};
use crate::repository::{Repository, RepositoryFile};
use crate::system::System;
use crate::version::rpm;
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
/// Another dnf is at work.
const LOCKED: i32 = 200;
/// Packages that every system has, beside that with the distribution's release.
const BASE: [&str; 4] = ["basesystem", "dnf", "filesystem", "setup"];
/// Each on a line of its own, whether or not dnf ends lines itself.
const FORMAT: &str = "%{name}|%{epoch}:%{version}-%{release}|%{arch}\\n";

/// dnf.
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
        for name in locked(&system.text(LOCKS)?) {
            let instances = installed.packages.get_mut(name).into_iter().flatten();
            instances.for_each(|instance| instance.held = true);
        }
        Ok(installed)
    }

    fn chosen(&self, system: &System<'_>, installed: &Installed) -> Result<BTreeSet<Key>, PackageError> {
        if rpm_database::path(system)?.is_none() {
            return Ok(BTreeSet::new());
        }
        let mut query = dnf(system);
        query.args(["--cacheonly", "--quiet", "--disablerepo=*", "repoquery", "--userinstalled", "--queryformat"]);
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
        query.args(["--quiet", "--disableplugin=versionlock", "repoquery", "--available", "--showduplicates"]);
        query.args(["--queryformat", FORMAT, "--"]).args(keys.iter().map(|key| key.name.as_str()));
        let captured = read(system, &mut query)?;
        Ok(read_offers(&String::from_utf8_lossy(&captured.stdout), keys))
    }

    fn index_paths(&self) -> IndexPaths {
        IndexPaths { made: &["var/cache/dnf/last_makecache"], sources: &["etc/yum.repos.d"] }
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
        // Nothing is in the way in most cases, so that nothing has to go.
        let first = simulate(system, &Transaction { may_remove: false, ..transaction.clone() });
        if first.is_err() && transaction.may_remove { simulate(system, transaction).or(first) } else { first }
    }

    fn programs(&self, system: &System<'_>, transaction: &Transaction) -> Result<Vec<Program>, PackageError> {
        let mut program = dnf(system);
        program.args(["--quiet", "--assumeyes"]);
        ask(&mut program, transaction);
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
        captured.ended.code() == Some(LOCKED) || rpm_database::is_locked(captured)
    }
}

fn dnf(system: &System<'_>) -> Program {
    let mut program = Program::new("dnf");
    if let Some(root) = system.root() {
        program.arg(format!("--installroot={}", root.display()));
    }
    // It would wait for others without end.
    program.arg("--setopt=exit_on_lock=True");
    program
}

/// Asks dnf something; as long as another one is at work, again.
fn run(system: &System<'_>, program: &mut Program) -> Result<Captured, PackageError> {
    system.wait_for_others(|captured| captured.ended.code() == Some(LOCKED), || system.run(program))
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
    ask(&mut program, transaction);
    let captured = run(system, &mut program)?;
    let text = String::from_utf8_lossy(&captured.stdout);
    let errors = String::from_utf8_lossy(&captured.stderr);
    if errors.contains("nknown argument \"shell\"") {
        // Version 5 takes one command only.
        return simulate(system, &Transaction { given: Vec::new(), ..transaction.clone() });
    }
    // It ends with 1 if nobody has said yes, and its shell always ends with 0.
    let is_told =
        ["Transaction Summary", "Nothing to do"].iter().any(|sign| text.contains(sign) || errors.contains(sign));
    if is_told {
        return Ok(read_table(&text));
    }
    let failure = captured.ended.failure().unwrap_or_else(|| "cannot do this together".to_owned());
    Err(PackageError::from_program(&program, &failure, &captured))
}

/// Adds the words for a transaction.
fn ask(program: &mut Program, transaction: &Transaction) {
    if transaction.changes_held {
        program.arg("--disableplugin=versionlock");
    }
    let cleans = if transaction.cleans { "True" } else { "False" };
    program.arg(format!("--setopt=clean_requirements_on_remove={cleans}"));
    if let Some(recommends) = transaction.recommends {
        program.arg(format!("--setopt=install_weak_deps={}", if recommends { "True" } else { "False" }));
    }
    let (coming, going) = transaction.coming_and_going();
    if transaction.may_remove && !coming.is_empty() {
        program.arg("--allowerasing");
    }
    let coming = Vec::from_iter(coming.into_iter().map(|item| specification(item, Kind::Install)));
    let going = Vec::from_iter(going.into_iter().map(|item| specification(item, Kind::Remove)));
    match (coming.is_empty(), going.is_empty()) {
        (false, true) => program.args(["install", "--"]).args(coming),
        (true, _) => program.args(["remove", "--"]).args(going),
        (false, false) => {
            let line = |verb: &str, names: &[String]| {
                let quoted = names.iter().map(|name| format!(" '{}'", name.replace('\'', "'\\''")));
                format!("{verb}{}\n", quoted.collect::<String>())
            };
            let script = line("install", &coming) + &line("remove", &going) + "run\nexit\n";
            program.args(["shell", "/dev/stdin"]).stdin(script.into_bytes())
        }
    };
}

/// Names a package so exactly that nothing else can be meant: dnf installs an older version just as well then.
fn specification(item: &Item, kind: Kind) -> String {
    if let Some(file) = item.file.as_ref().filter(|_| kind == Kind::Install) {
        return file.display().to_string();
    }
    let version = item.version.as_ref().filter(|_| kind == Kind::Install).map(|version| format!("-{version}"));
    let arch = item.key.arch.as_ref().map(|arch| format!(".{arch}"));
    format!("{}{}{}", item.key.name, version.unwrap_or_default(), arch.unwrap_or_default())
}

/// Reads lines `NAME|EPOCH:VERSION-RELEASE|ARCH`.
fn read_offers(text: &str, keys: &[&Key]) -> BTreeMap<Key, Offers> {
    let mut all: BTreeMap<Key, Offers> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.trim().split('|').collect();
        let [name, version, arch] = fields[..] else { continue };
        let fits = |key: &&&Key| key.name == name && key.arch.as_deref().is_none_or(|wanted| wanted == arch);
        for key in keys.iter().filter(fits).filter(|_| arch != "src") {
            let offers = all.entry((*key).clone()).or_default();
            offers.versions.push(plain(version).to_owned());
        }
    }
    for offers in all.values_mut() {
        offers.versions.sort_by(|a, b| rpm::compare(b, a));
        offers.versions.dedup();
        offers.candidate = offers.versions.first().cloned();
    }
    all
}

/// The names in a list of locks, whose lines are like `foo-0:1.0-1.*`.
fn locked(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', '!']));
    lines.filter_map(|line| {
        let (rest, _release) = line.rsplit_once('-')?;
        let (name, version) = rest.rsplit_once('-')?;
        version.contains(':').then_some(name)
    })
}

/// Reads the table of a transaction. A row whose first column is too wide goes on in the next line.
fn read_table(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut section = Section::Other;
    let mut words: Vec<&str> = Vec::new();
    for line in text.lines() {
        if !line.starts_with(' ') {
            section = Section::from_heading(line);
            words.clear();
            continue;
        }
        let mut fields: Vec<&str> = line.split_whitespace().collect();
        if fields.first() == Some(&"replacing") {
            // A package that replaces another one says so below its own row.
            steps.extend(replaced(&fields, &steps));
            continue;
        }
        if line.starts_with("  ") && words.is_empty() {
            continue;
        }
        words.append(&mut fields);
        // NAME ARCH VERSION REPOSITORY SIZE UNIT
        if let [name, _, version, _, ..] = words[..]
            && section != Section::Other
        {
            steps.push(section.step(name, plain(version)));
            words.clear();
        }
    }
    steps
}

/// `replacing foo.noarch 1.0-1`, or, in version 5, `replacing foo noarch 1.0-1 …`. Only what has another name goes.
fn replaced(fields: &[&str], steps: &[Step]) -> Option<Step> {
    let (name, version) = match *fields {
        [_, name, _, version, _, ..] => (name, version),
        [_, name, version, ..] => (name.rsplit_once('.').map_or(name, |(name, _)| name), version),
        _ => return None,
    };
    let by = steps.last()?;
    (by.name != name).then(|| Step { name: name.to_owned(), from: Some(plain(version).to_owned()), to: None })
}

/// The subject of the rows below a heading.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Coming,
    Going,
    Other,
}

impl Section {
    fn from_heading(heading: &str) -> Section {
        match heading.split(' ').next() {
            Some("Installing" | "Installing:" | "Upgrading" | "Upgrading:" | "Reinstalling:" | "Downgrading:") => {
                Section::Coming
            }
            Some("Removing" | "Removing:") => Section::Going,
            _ => Section::Other,
        }
    }

    fn step(self, name: &str, version: &str) -> Step {
        let (name, version) = (name.to_owned(), Some(version.to_owned()));
        match self {
            Section::Going => Step { name, from: version, to: None },
            // The table does not say which version is there.
            Section::Coming | Section::Other => Step { name, from: None, to: version },
        }
    }
}

#[cfg(test)]
mod tests;
