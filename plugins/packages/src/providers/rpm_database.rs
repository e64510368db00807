//! The packages that RPM has installed, by whatever package manager.

use crate::error::{KeyError, PackageError};
use crate::model::{Installed, Instance, Key, Status};
use crate::system::System;
use holo_plugin::process::{Captured, Program};
use holo_plugin::system::package_manager::RPM_DATABASES;

const FORMAT: &str = "%{NAME}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\t%{ARCH}\\n";

/// Asks for all packages.
pub(super) fn installed(system: &System<'_>) -> Result<Installed, PackageError> {
    let mut installed = Installed::default();
    let Some(path) = path(system)? else { return Ok(installed) };
    let mut query = Program::new("rpm");
    if let Some(root) = system.root() {
        query.arg("--root").arg(root);
    }
    query.arg("--dbpath").arg(path);
    query.args(["--query", "--all", "--queryformat", FORMAT]);
    let captured = system.read_local(&mut query)?;
    for line in String::from_utf8_lossy(&captured.stdout).lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, version, arch] = fields[..] else {
            return Err(PackageError::new(format!("cannot understand what rpm says: {line:?}")));
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
pub(super) fn path(system: &System<'_>) -> Result<Option<String>, PackageError> {
    if let Some(usual) = RPM_DATABASES.iter().find(|path| system.path(path).exists()) {
        return Ok(usual.rsplit_once('/').map(|(folder, _)| format!("/{folder}")));
    }
    // On a system that is not made with it, it may be anywhere.
    let captured = system.read_local(Program::new("rpm").args(["--eval", "%{_dbpath}"]))?;
    let configured = String::from_utf8_lossy(&captured.stdout).trim().to_owned();
    let exists = system.path(configured.trim_start_matches('/')).exists();
    Ok(exists.then_some(configured))
}

/// Fails where even a question would leave something behind, and nothing shall be.
pub(super) fn may_ask(system: &System<'_>) -> Result<(), PackageError> {
    if system.only_looks && path(system)?.is_none() {
        return Err(PackageError::new("there is no database of RPM yet"));
    }
    Ok(())
}

/// Returns true if RPM has failed only because another process is at work. It does not wait.
pub(super) fn is_locked(captured: &Captured) -> bool {
    [&captured.stderr, &captured.stdout]
        .into_iter()
        .any(|text| String::from_utf8_lossy(text).contains("can't create transaction lock"))
}

/// A version without an epoch that is none.
pub(super) fn plain(version: &str) -> &str {
    version.strip_prefix("0:").or_else(|| version.strip_prefix("(none):")).unwrap_or(version)
}

/// Checks the name of a package of RPM.
pub(super) fn validate(key: &Key) -> Result<(), KeyError> {
    if key.name.contains(':') {
        return Err(KeyError::Name { key: key.to_string(), of: "RPM", why: None });
    }
    Ok(())
}
