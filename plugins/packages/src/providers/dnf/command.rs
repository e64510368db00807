//! The commands of dnf, for version 4 and version 5.

use super::LOCKED;
use super::words::read_table;
use crate::error::PackageError;
use crate::model::{Item, Kind, Step, Transaction};
use crate::system::System;
use holo_plugin::process::{self, Captured, Program};
use std::fs;

/// The major version of dnf, which decides about its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Four,
    Five,
}

impl Version {
    /// Detects the version of `dnf`: version 5 is a symlink to `dnf5`.
    pub(super) fn of(system: &System<'_>) -> Version {
        let program =
            process::find("dnf").filter(|_| system.mock.is_none()).and_then(|path| fs::canonicalize(path).ok());
        let is_five = program.is_some_and(|path| path.file_name().is_some_and(|name| name == "dnf5"));
        if is_five { Version::Five } else { Version::Four }
    }

    /// Returns the options that disable locks.
    pub(super) fn without_locks(self) -> [&'static str; 1] {
        match self {
            Version::Four => ["--disableplugin=versionlock"],
            Version::Five => ["--setopt=disable_excludes=*"],
        }
    }
}

pub(super) fn dnf(system: &System<'_>) -> Program {
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

pub(super) fn read(system: &System<'_>, program: &mut Program) -> Result<Captured, PackageError> {
    let captured = run(system, program)?;
    let failure = captured.ended.failure();
    failure.map_or(Ok(captured.clone()), |failure| Err(PackageError::from_program(program, &failure, &captured)))
}

pub(super) fn simulate(system: &System<'_>, transaction: &Transaction) -> Result<Vec<Step>, PackageError> {
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
pub(super) fn ask(program: &mut Program, transaction: &Transaction, version: Version) {
    let cleans = if transaction.cleans { "True" } else { "False" };
    program.arg(format!("--setopt=clean_requirements_on_remove={cleans}"));
    if let Some(recommends) = transaction.recommends {
        program.arg(format!("--setopt=install_weak_deps={}", if recommends { "True" } else { "False" }));
    }
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
