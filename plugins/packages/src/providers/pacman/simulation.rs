//! Simulates transactions without access to the system.
//!
//! pacman detects conflicts only when it carries out a transaction, not with --print. Therefore it is started on a copy of the database,
//! which contains only the descriptions of installed packages, and its final question is answered with no. Packages that are taken as
//! installed or removed are added to that copy, or left out of it.

use super::{DATABASE, PRINT, listed, operations, pacman, repository_of};
use crate::model::{Item, Kind, PackageError, Step, Transaction};
use crate::system::System;
use holo_change::error::PathError;
use holo_plugin::process::Program;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, io};

/// Answers questions about conflicting and ignored packages with yes, and all others with no.
const NO_BUT: [&str; 3] = ["--noscriptlet", "--ask", "5"];
/// The maximum number of questions to answer.
const QUESTIONS: usize = 256;
/// The fields that decide about conflicts, as pacman prints them and as it stores them.
const LISTS: [(&str, &str); 4] =
    [("Depends On", "DEPENDS"), ("Provides", "PROVIDES"), ("Conflicts With", "CONFLICTS"), ("Replaces", "REPLACES")];

/// Returns the effects of a transaction.
pub(super) fn simulate(system: &System<'_>, transaction: &Transaction) -> Result<Vec<Step>, PackageError> {
    let database = Database::new(system, transaction)?;
    let start = || database.pacman(system);
    let mut steps = Vec::new();
    // Packages from files and packages from repositories take separate operations.
    for mut program in operations(system, transaction, &[PRINT, "--print-format", "%n %v"], &start)? {
        let captured = system.read(&mut program)?;
        steps.extend(read_steps(&String::from_utf8_lossy(&captured.stdout), transaction.kind));
    }
    // Only root can start a transaction.
    if transaction.kind == Kind::Install && rustix::process::geteuid().is_root() {
        for mut program in operations(system, transaction, &NO_BUT, &start)? {
            // pacman would proceed without an answer.
            let captured = system.ask(program.stdin("n\n".repeat(QUESTIONS).into_bytes()))?;
            let said = [&captured.stderr[..], &captured.stdout[..]].concat();
            let said = String::from_utf8_lossy(&said);
            if let Some(failure) = captured.ended.failure().filter(|_| said.contains("error:")) {
                return Err(PackageError::from_program(&program, &failure, &captured));
            }
            steps.extend(in_the_way(&said).map(|name| Step {
                name: name.to_owned(),
                arch: None,
                from: None,
                to: None,
            }));
        }
    }
    Ok(steps)
}

/// Returns the packages to be removed, from questions such as `:: foo and bar are in conflict. Remove bar? [y/N]`.
fn in_the_way(said: &str) -> impl Iterator<Item = &str> {
    said.split("Remove ").skip(1).filter_map(|rest| rest.split_once("? [y/N]")).map(|(name, _)| name)
}

/// Parses lines of the form `NAME VERSION`. For files, pacman also prints `loading packages...`.
fn read_steps(text: &str, kind: Kind) -> Vec<Step> {
    let step = |line: &str| {
        let (name, version) = line.split_once(' ').filter(|_| !line.ends_with("..."))?;
        let version = Some(version.to_owned());
        let (from, to) = if kind == Kind::Install { (None, version) } else { (version, None) };
        Some(Step { name: name.to_owned(), arch: None, from, to })
    };
    text.lines().filter_map(step).collect()
}

/// A temporary copy of the database in an empty root.
struct Database {
    folder: PathBuf,
}

impl Database {
    /// Copies the descriptions of installed packages, and adds the given ones.
    fn new(system: &System<'_>, transaction: &Transaction) -> Result<Database, PackageError> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let database = Database { folder: system.cache_dir().join(format!("pacman-{number}")) };
        let failed = |error| PackageError::new(PathError::new("write", &database.folder, error).to_string());
        database.describe(&system.path(DATABASE), transaction).map_err(failed)?;
        for (_, item) in transaction.given.iter().filter(|(kind, _)| *kind == Kind::Install) {
            let text = description(system, item)?;
            database.add(item, &text).map_err(failed)?;
        }
        Ok(database)
    }

    fn describe(&self, real: &Path, transaction: &Transaction) -> io::Result<()> {
        for folder in ["root", "local"] {
            fs::create_dir_all(self.folder.join(folder))?;
        }
        symlink(real.join("sync"), self.folder.join("sync"))?;
        let is_given = |folder: &str| {
            let name = folder.rsplitn(3, '-').last().unwrap_or_default();
            transaction.given.iter().any(|(_, item)| item.key.name == name)
        };
        for entry in fs::read_dir(real.join("local"))? {
            let entry = entry?;
            let copy = self.folder.join("local").join(entry.file_name());
            if !entry.file_type()?.is_dir() {
                fs::copy(entry.path(), copy)?;
            } else if !is_given(&entry.file_name().to_string_lossy()) {
                fs::create_dir(&copy)?;
                for file in ["desc", "files"] {
                    symlink(entry.path().join(file), copy.join(file))?;
                }
            }
        }
        Ok(())
    }

    fn add(&self, item: &Item, description: &str) -> io::Result<()> {
        let version = item.version.as_deref().unwrap_or_default();
        let folder = self.folder.join("local").join(format!("{}-{version}", item.key.name));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("desc"), description)?;
        fs::write(folder.join("files"), "%FILES%\n")
    }

    /// Returns pacman with this database and an empty root.
    fn pacman(&self, system: &System<'_>) -> Program {
        let mut program = Program::new("pacman");
        program.arg("--root").arg(self.folder.join("root")).arg("--dbpath").arg(&self.folder);
        for folder in ["--cachedir", "--hookdir"] {
            program.arg(folder).arg(self.folder.join("root"));
        }
        program.arg("--config").arg(system.path("etc/pacman.conf"));
        program.arg("--gpgdir").arg(system.path("etc/pacman.d/gnupg"));
        program.args(["--logfile", "/dev/null"]);
        program
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The cache is removed at the end of the run anyway.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the description that the database would contain after the installation of a package.
fn description(system: &System<'_>, item: &Item) -> Result<String, PackageError> {
    let mut program = pacman(system);
    match (&item.file, repository_of(&listed(system)?, item)) {
        (Some(file), _) => program.args(["--query", "--info", "--file", "--"]).arg(file),
        (None, Some(repository)) => {
            program.args(["--sync", "--info", "--", &format!("{repository}/{}", item.key.name)])
        }
        (None, None) => program.args(["--query", "--info", "--", &item.key.name]),
    };
    let captured = system.read(&mut program)?;
    Ok(from_information(item, &String::from_utf8_lossy(&captured.stdout)))
}

/// Converts lines such as `Depends On      : foo>=1.0  bar` to the format of the database.
fn from_information(item: &Item, shown: &str) -> String {
    let version = item.version.as_deref().unwrap_or_default();
    let mut text = format!("%NAME%\n{}\n\n%VERSION%\n{version}\n\n", item.key.name);
    let fields = shown.lines().filter_map(|line| line.split_once(" : "));
    for (key, value) in fields.map(|(key, value)| (key.trim(), value.trim())).filter(|(_, value)| *value != "None") {
        if let Some((_, kept)) = LISTS.iter().find(|(shown, _)| *shown == key) {
            let values: Vec<&str> = value.split_whitespace().collect();
            text += &format!("%{kept}%\n{}\n\n", values.join("\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Key;

    #[test]
    fn information_is_converted_to_database_format() {
        let shown =
            "Name            : bar\nProvides        : None\nDepends On      : foo>=1.0  sh\nConflicts With  : baz\n";
        let key = Key { name: "bar".to_owned(), arch: None };
        let item = Item { key, version: Some("1.0-1".to_owned()), exactly: false, file: None };
        let expected = "%NAME%\nbar\n\n%VERSION%\n1.0-1\n\n%DEPENDS%\nfoo>=1.0\nsh\n\n%CONFLICTS%\nbaz\n\n";
        assert_eq!(from_information(&item, shown), expected);
    }

    #[test]
    fn conflicting_packages_are_parsed() {
        let said = ":: a-1 and b-2 are in conflict. Remove b? [y/N] :: c and d are in conflict (x). Remove d? [y/N] \n\
                    :: Proceed with installation? [Y/n] ";
        assert_eq!(in_the_way(said).collect::<Vec<_>>(), ["b", "d"]);
    }
}
