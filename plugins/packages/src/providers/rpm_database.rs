//! The RPM database, which several package managers share.

use crate::error::{KeyError, PackageError};
use crate::model::{Installed, Instance, Key, Status};
use crate::system::System;
use holo_plugin::process::{Captured, Program};
use holo_plugin::system::package_manager::RPM_DATABASES;

const FORMAT: &str = "%{NAME}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\t%{ARCH}\\n";

/// Returns all installed packages.
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
            return Err(PackageError::new(format!("cannot parse the output of rpm: {line:?}")));
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

/// Returns the path of the database below the root, or `None`. Checked first because a query would create the database.
pub(super) fn path(system: &System<'_>) -> Result<Option<String>, PackageError> {
    if let Some(usual) = RPM_DATABASES.iter().find(|path| system.path(path).exists()) {
        return Ok(usual.rsplit_once('/').map(|(folder, _)| format!("/{folder}")));
    }
    // On a foreign distribution, rpm may be configured with any path.
    let captured = system.read_local(Program::new("rpm").args(["--eval", "%{_dbpath}"]))?;
    let configured = String::from_utf8_lossy(&captured.stdout).trim().to_owned();
    let exists = system.path(configured.trim_start_matches('/')).exists();
    Ok(exists.then_some(configured))
}

/// Checks that a query leaves no files behind in a run that must not change anything.
///
/// # Errors If there is no database yet.
pub(super) fn may_ask(system: &System<'_>) -> Result<(), PackageError> {
    if system.only_looks && path(system)?.is_none() {
        return Err(PackageError::new("the RPM database does not exist yet"));
    }
    Ok(())
}

/// Returns true if RPM failed only because another process is running. It does not wait.
pub(super) fn is_locked(captured: &Captured) -> bool {
    [&captured.stderr, &captured.stdout]
        .into_iter()
        .any(|text| String::from_utf8_lossy(text).contains("can't create transaction lock"))
}

/// Returns a version without an epoch of zero.
pub(super) fn plain(version: &str) -> &str {
    version.strip_prefix("0:").or_else(|| version.strip_prefix("(none):")).unwrap_or(version)
}

/// Validates the name of an RPM package.
pub(super) fn validate(key: &Key) -> Result<(), KeyError> {
    if key.name.contains(':') {
        return Err(KeyError::Name { key: key.to_string(), of: "RPM", why: None });
    }
    Ok(())
}
