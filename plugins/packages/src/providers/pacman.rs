//! pacman: Arch Linux and derivatives.

mod simulation;

use crate::model::{
    Installed, Instance, Item, Key, KeyError, Kind, Mark, Offers, PackageError, Status, Step, Transaction,
};
use crate::providers::{PackageProvider, Repair, RepairBy, rank};
use crate::repository::{Repository, RepositoryFile};
use crate::system::System;
use crate::version;
use holo_change::error::PathError;
use holo_plugin::Host;
use holo_plugin::definitions::{Globs, Invalid};
use holo_plugin::process::{Captured, Program};
use holo_plugin::provider::Provider;
use holo_plugin::system::{PackageManager, Root, package_manager};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

const DATABASE: &str = "var/lib/pacman";
const CONFIGURATION: &str = "etc/pacman.conf";
const LOCK: &str = "var/lib/pacman/db.lck";
const PRINT: &str = "--print";
/// Answers questions about conflicting packages with yes, against the default, so that they are removed.
const REMOVES: [&str; 2] = ["--ask", "4"];
const CACHE: &str = "var/cache/pacman/pkg";

pub(crate) struct Pacman;

impl Provider for Pacman {
    fn name(&self) -> &'static str {
        self.manager().name
    }

    fn rank(&self, host: &Host) -> Option<u8> {
        rank(self.manager(), host)
    }
}

impl PackageProvider for Pacman {
    fn manager(&self) -> &'static PackageManager {
        &package_manager::PACMAN
    }

    fn compare(&self, a: &str, b: &str) -> Ordering {
        version::compare_pacman(a, b)
    }

    fn validate(&self, key: &Key) -> Result<(), KeyError> {
        if key.name.contains([':', '~']) {
            return Err(KeyError::Name { key: key.to_string(), of: "Arch Linux", why: None });
        }
        match &key.arch {
            Some(arch) => Err(KeyError::Arch { key: key.to_string(), manager: self.name(), arch: arch.clone() }),
            None => Ok(()),
        }
    }

    fn installed(&self, system: &System<'_>) -> Result<Installed, PackageError> {
        let mut installed = Installed::default();
        if !system.path("var/lib/pacman/local").exists() {
            return Ok(installed);
        }
        let automatic = list(system, "-Qqd")?;
        let automatic: BTreeSet<&str> = automatic.lines().collect();
        let ignored = ignored(system)?;
        let partial = partial(system)?;
        for line in list(system, "-Q")?.lines() {
            let Some((name, version)) = line.split_once(' ') else { continue };
            let instance = Instance {
                version: version.to_owned(),
                arch: "any".to_owned(),
                status: if partial.contains_key(name) { Status::Partial } else { Status::Installed },
                held: ignored.cover(Path::new(name)),
                automatic: automatic.contains(name),
            };
            installed.add(name, instance);
        }
        Ok(installed)
    }

    fn base_names(&self) -> &'static [&'static str] {
        &["base"]
    }

    fn offers(&self, system: &System<'_>, keys: &[&Key]) -> Result<BTreeMap<Key, Offers>, PackageError> {
        let captured = system.read(pacman(system).arg("-Sl"))?;
        let mut all: BTreeMap<Key, Offers> = BTreeMap::new();
        for line in String::from_utf8_lossy(&captured.stdout).lines() {
            let mut words = line.split(' ').skip(1);
            let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
            for key in keys.iter().filter(|key| key.name == name) {
                // The first of several repositories takes precedence.
                let offers = all.entry((*key).clone()).or_default();
                offers.candidate.get_or_insert_with(|| version.to_owned());
                offers.versions.push(version.to_owned());
            }
        }
        for key in keys {
            let kept = in_cache(system, &key.name).into_iter().map(|(version, _)| version);
            all.entry((*key).clone()).or_default().versions.extend(kept);
        }
        all.retain(|_, offers| !offers.versions.is_empty());
        Ok(all)
    }

    fn index_files(&self) -> &'static [&'static str] {
        &["var/lib/pacman/sync"]
    }

    fn names(&self, system: &System<'_>) -> Result<BTreeSet<String>, PackageError> {
        let mut program = pacman(system);
        program.arg("-Slq");
        let captured = system.read(&mut program)?;
        Ok(String::from_utf8_lossy(&captured.stdout).lines().map(str::to_owned).collect())
    }

    fn provided_by(&self, system: &System<'_>, name: &str) -> Result<BTreeSet<String>, PackageError> {
        let captured = system.read(pacman(system).args(["--sync", "--info"]))?;
        let (mut providers, mut current) = (BTreeSet::new(), "");
        let text = String::from_utf8_lossy(&captured.stdout);
        for (field, value) in text.lines().filter_map(|line| line.split_once(" : ")) {
            let mut provided = value.split_whitespace().map(|one| one.split('=').next().unwrap_or_default());
            match field.trim() {
                "Name" => current = value,
                "Provides" if provided.any(|provided| provided == name) => drop(providers.insert(current.to_owned())),
                _ => {}
            }
        }
        Ok(providers)
    }

    fn refresh(&self, system: &System<'_>) -> Result<Program, PackageError> {
        let mut program = pacman(system);
        program.args(["--noconfirm", "--noprogressbar", "-Sy"]);
        Ok(program)
    }

    fn repository(&self, repository: &Repository) -> Result<Vec<RepositoryFile>, Invalid> {
        files(repository)
    }

    fn repository_needs(&self) -> &'static [&'static str] {
        &[CONFIGURATION_PATH]
    }

    fn repository_obstacle(&self, root: &Root) -> Option<String> {
        obstacle(root)
    }

    fn simulate(&self, system: &System<'_>, transaction: &Transaction) -> Result<Vec<Step>, PackageError> {
        if transaction.kind == Kind::Install {
            let partial = partial(system)?;
            let folder = transaction.items.iter().find_map(|item| partial.get_key_value(&item.key.name));
            if let Some((name, folder)) = folder {
                let folder = folder.display();
                return Err(PackageError::new(format!(
                    "{name} is only half installed: {folder}/desc is missing; \
                     remove {folder}, and run pacman -S --overwrite '*' {name}"
                )));
            }
        }
        simulation::simulate(system, transaction)
    }

    fn interrupted(&self, system: &System<'_>) -> Result<Vec<Repair>, PackageError> {
        let lock = system.path(LOCK);
        // A running process keeps the lock file open.
        if !lock.exists() || is_open(&lock) {
            return Ok(Vec::new());
        }
        let said = format!("pacman was interrupted and left {} behind, which is removed", lock.display());
        let command = format!("rm {}", lock.display());
        Ok(vec![Repair { said, command, steps: Vec::new(), by: RepairBy::Removing(lock) }])
    }

    fn programs(&self, system: &System<'_>, transaction: &Transaction) -> Result<Vec<Program>, PackageError> {
        let mut options = vec!["--noconfirm", "--noprogressbar"];
        if transaction.kind == Kind::Install && transaction.may_remove {
            options.extend(REMOVES);
        }
        operations(system, transaction, &options, &|| pacman(system))
    }

    fn file_suffix(&self) -> &'static str {
        ".pkg.tar"
    }

    fn describe(&self, path: &Path) -> Option<Program> {
        let mut program = Program::new("pacman");
        program.args(["--query", "--file", "--"]).arg(path);
        Some(program)
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::ByHand, Mark::Automatic]
    }

    fn mark(&self, system: &System<'_>, mark: Mark, items: &[Item]) -> Result<Program, PackageError> {
        let mut program = pacman(system);
        let word = if mark == Mark::Automatic { "--asdeps" } else { "--asexplicit" };
        program.args(["-D", "--quiet", word, "--"]).args(items.iter().map(|item| item.key.name.as_str()));
        Ok(program)
    }

    fn is_locked(&self, captured: &Captured) -> bool {
        String::from_utf8_lossy(&captured.stderr).contains("unable to lock database")
    }
}

/// Returns the directories of packages whose installation was killed, by package name. They have no description, as pacman writes it last.
fn partial(system: &System<'_>) -> Result<BTreeMap<String, PathBuf>, PackageError> {
    let local = system.path(DATABASE).join("local");
    let failed = |error| PackageError::new(PathError::new("read", &local, error).to_string());
    let mut partial = BTreeMap::new();
    for entry in fs::read_dir(&local).map_err(failed)? {
        let folder = entry.map_err(failed)?.path();
        let package = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // The name is followed by the version and the release.
        if let Some((name, _)) = package.rsplit_once('-').and_then(|(rest, _)| rest.rsplit_once('-'))
            && folder.is_dir()
            && !folder.join("desc").exists()
        {
            partial.insert(name.to_owned(), folder);
        }
    }
    Ok(partial)
}

/// Returns true if a process has a file open, or if that cannot be determined.
fn is_open(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    let is_process = |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
    processes.flatten().filter(is_process).any(|process| match fs::read_dir(process.path().join("fd")) {
        Ok(mut open) => {
            open.any(|file| file.is_ok_and(|file| fs::read_link(file.path()).is_ok_and(|file| file == path)))
        }
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    })
}

/// Returns the output of a query. pacman exits with 1 if the list is empty.
fn list(system: &System<'_>, query: &str) -> Result<String, PackageError> {
    let mut program = pacman(system);
    let captured = system.run(program.arg(query))?;
    // The description of a package may be missing, see `partial`.
    let is_fatal = |line: &str| line.contains("error:") && !line.contains("/desc: ");
    let is_empty = captured.stdout.is_empty() && !String::from_utf8_lossy(&captured.stderr).lines().any(is_fatal);
    match captured.ended.failure() {
        Some(failure) if !is_empty || captured.ended.code() != Some(1) => {
            Err(PackageError::from_program(&program, &failure, &captured))
        }
        _ => Ok(String::from_utf8_lossy(&captured.stdout).into_owned()),
    }
}

/// Returns the names of packages that pacman is configured to ignore, directly or through their groups.
fn ignored(system: &System<'_>) -> Result<Globs, PackageError> {
    if !system.path(CONFIGURATION).exists() {
        return Ok(Globs::default());
    }
    let configured = |key: &str| -> Result<Vec<String>, PackageError> {
        let mut program = Program::new("pacman-conf");
        program.arg("--config").arg(system.path(CONFIGURATION)).arg(key);
        let captured = system.read_local(&mut program)?;
        Ok(String::from_utf8_lossy(&captured.stdout).lines().map(str::to_owned).collect())
    };
    let mut names = configured("IgnorePkg")?;
    for group in configured("IgnoreGroup")? {
        let mut program = pacman(system);
        program.args(["-Qgq", "--"]).arg(group);
        // The query fails if no package of the group is installed.
        let captured = system.ask(&mut program)?;
        names.extend(String::from_utf8_lossy(&captured.stdout).lines().map(str::to_owned));
    }
    // A name that is not a valid glob here matches no package in pacman either.
    names.retain(|name| Globs::new(std::slice::from_ref(name)).is_ok());
    Ok(Globs::new(&names).unwrap_or_default())
}

fn pacman(system: &System<'_>) -> Program {
    let mut program = Program::new("pacman");
    if let Some(root) = system.root() {
        let below = |path: &str| root.join(path);
        program.arg("--root").arg(root).arg("--dbpath").arg(below(DATABASE)).arg("--cachedir").arg(below(CACHE));
        program.arg("--config").arg(below(CONFIGURATION)).arg("--gpgdir").arg(below("etc/pacman.d/gnupg"));
        program.arg("--logfile").arg(below("var/log/pacman.log")).arg("--hookdir").arg(below("etc/pacman.d/hooks"));
    }
    program
}

/// Returns the programs for a transaction. Packages from repositories and packages from the cache take separate operations.
fn operations(
    system: &System<'_>,
    transaction: &Transaction,
    options: &[&str],
    start: &dyn Fn() -> Program,
) -> Result<Vec<Program>, PackageError> {
    if transaction.kind != Kind::Install {
        let mut program = start();
        // This also removes packages that depend on them. The simulation refuses it if their removal is not declared.
        program.arg(if transaction.cleans { "-Rcs" } else { "-Rc" });
        // pacman refuses this option together with --print.
        if transaction.kind == Kind::Purge && !options.contains(&PRINT) {
            program.arg("--nosave");
        }
        program.args(options).arg("--").args(transaction.items.iter().map(|item| item.key.name.as_str()));
        return Ok(vec![program]);
    }
    if system.mock.is_some() {
        let mut program = start();
        program.arg("-S").args(options).arg("--").args(transaction.items.iter().map(|item| item.key.name.as_str()));
        return Ok(vec![program]);
    }
    let listed = listed(system)?;
    let (mut names, mut files) = (Vec::new(), Vec::new());
    for item in &transaction.items {
        let (name, version) = (&item.key.name, item.version.as_deref().unwrap_or_default());
        if let Some(file) = &item.file {
            files.push(file.clone());
            continue;
        }
        let kept = || in_cache(system, name).into_iter().find(|(kept, _)| kept == version);
        match repository_of(&listed, item) {
            Some(repository) => names.push(format!("{repository}/{name}")),
            None => files.extend(kept().map(|(_, path)| path)),
        }
    }
    let mut programs = Vec::new();
    if !names.is_empty() {
        let mut program = start();
        program.arg("-S").args(options).arg("--").args(names);
        programs.push(program);
    }
    if !files.is_empty() {
        let mut program = start();
        program.arg("-U").args(options).arg("--").args(files);
        programs.push(program);
    }
    Ok(programs)
}

/// Returns all packages of all repositories, as lines of the form `REPOSITORY NAME VERSION`.
fn listed(system: &System<'_>) -> Result<String, PackageError> {
    let listed = system.read(pacman(system).arg("-Sl"))?;
    Ok(String::from_utf8_lossy(&listed.stdout).into_owned())
}

/// Returns the repository that has this version of a package.
fn repository_of<'l>(listed: &'l str, item: &Item) -> Option<&'l str> {
    let version = item.version.as_deref().unwrap_or_default();
    listed.lines().find_map(|line| {
        let mut words = line.split(' ');
        let repository = words.next()?;
        (words.next()? == item.key.name && words.next()? == version).then_some(repository)
    })
}

/// Returns the versions of a package that are in the cache, and their paths.
fn in_cache(system: &System<'_>, name: &str) -> Vec<(String, PathBuf)> {
    let folder = system.path(CACHE);
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        if let Some(version) = version_of_file(&file, name) {
            found.push((version.to_owned(), folder.join(file)));
        }
    }
    found.sort();
    found
}

/// Returns the version in a file name of the form `NAME-VERSION-RELEASE-ARCH.pkg.tar.zst`.
fn version_of_file<'f>(file: &'f str, name: &str) -> Option<&'f str> {
    let (stem, suffix) = file.split_once(".pkg.tar")?;
    let rest = stem.strip_prefix(name)?.strip_prefix('-')?;
    let (version, _arch) = rest.rsplit_once('-')?;
    let is_version =
        version.matches('-').count() == 1 && version.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    (is_version && !suffix.ends_with(".sig")).then_some(version)
}

/// The main configuration file.
const CONFIGURATION_PATH: &str = "/etc/pacman.conf";
const DIRECTORY: &str = "/etc/pacman.d/repositories";
const REFUSED: [(&str, &str); 5] = [
    ("suites", "does not support suites"),
    ("components", "does not support components"),
    ("architectures", "has no architectures for a repository; they are part of its address"),
    ("signed_by", "has a keyring of its own; add the key with pacman-key"),
    ("pin", "prefers the repositories that come first"),
];

/// Returns the file of a repository.
///
/// # Errors The key that pacman does not support.
fn files(repository: &Repository) -> Result<Vec<RepositoryFile>, Invalid> {
    let path = format!("{DIRECTORY}/{}.conf", repository.name);
    if repository.is_gone() {
        return Ok(vec![RepositoryFile::absent(path)]);
    }
    repository.refuse("pacman", &REFUSED)?;
    let mut text = format!("[{}]\n", repository.name);
    if repository.trusted {
        text += "SigLevel = Never\n";
    }
    repository.uris.iter().for_each(|uri| text += &format!("Server = {uri}\n"));
    Ok(vec![RepositoryFile { path, content: Some(text), sensitive: repository.has_login() }])
}

/// Returns the reason why pacman would ignore the file, if any.
fn obstacle(root: &Root) -> Option<String> {
    let configuration = root.text(CONFIGURATION_PATH.trim_start_matches('/')).unwrap_or_default();
    let included = configuration.lines().filter_map(|line| {
        let (key, value) = line.trim().split_once('=')?;
        (key.trim() == "Include").then_some(value.trim())
    });
    // In test mode, the configuration may name a directory below the root.
    let mut files = included.filter_map(|value| value.split_once(DIRECTORY)).map(|(_, rest)| rest);
    let words = || {
        let path = root.shown(CONFIGURATION_PATH);
        format!("{} has no line \"Include = {DIRECTORY}/*.conf\", so pacman would not see this", path.display())
    };
    (!files.any(|rest| ["/*", "/*.conf"].contains(&rest))).then(words)
}
