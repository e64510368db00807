//! The packages that RPM has installed, by whatever package manager.

use crate::model::{Installed, Instance, Key, Status};
use crate::problem::Problem;
use crate::system::System;
use holo_plugin::process::Program;
use holo_plugin::system::package_manager::RPM_DATABASES;

const FORMAT: &str = "%{NAME}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\t%{ARCH}\\n";

/// Asks for all packages.
pub(super) fn installed(system: &System<'_>) -> Result<Installed, Problem> {
    let mut installed = Installed::default();
    let Some(place) = place(system)? else { return Ok(installed) };
    let mut query = Program::new("rpm");
    if let Some(root) = system.root() {
        query.arg("--root").arg(root);
    }
    query.arg("--dbpath").arg(place);
    query.args(["--query", "--all", "--queryformat", FORMAT]);
    let captured = system.read(&mut query)?;
    for line in String::from_utf8_lossy(&captured.stdout).lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, version, arch] = fields[..] else {
            return Err(Problem::new(format!("cannot understand what rpm says: {line:?}")));
        };
        let instance = Instance {
            version: plain(version).to_owned(),
            arch: arch.to_owned(),
            status: Status::Installed,
            held: false,
            automatic: false,
        };
        installed.add(name, instance);
    }
    Ok(installed)
}

/// Returns the path of the database below the root, if there is one. A query would make one.
pub(super) fn place(system: &System<'_>) -> Result<Option<String>, Problem> {
    if let Some(usual) = RPM_DATABASES.iter().find(|place| system.path(place).exists()) {
        return Ok(usual.rsplit_once('/').map(|(folder, _)| format!("/{folder}")));
    }
    // On a system that is not made with it, it may be anywhere.
    let captured = system.read(Program::new("rpm").args(["--eval", "%{_dbpath}"]))?;
    let configured = String::from_utf8_lossy(&captured.stdout).trim().to_owned();
    let exists = system.path(configured.trim_start_matches('/')).exists();
    Ok(exists.then_some(configured))
}

/// Fails where even a question would leave something behind, and nothing shall be.
pub(super) fn may_ask(system: &System<'_>) -> Result<(), Problem> {
    if system.only_looks && place(system)?.is_none() {
        return Err(Problem::new("there is no database of RPM yet"));
    }
    Ok(())
}

/// A version without an epoch that is none.
pub(super) fn plain(version: &str) -> &str {
    version.strip_prefix("0:").or_else(|| version.strip_prefix("(none):")).unwrap_or(version)
}

/// Checks the name of a package of RPM.
pub(super) fn validate(key: &Key) -> Result<(), String> {
    if key.name.contains(':') {
        return Err(format!("{key} is not a valid RPM package name"));
    }
    Ok(())
}
