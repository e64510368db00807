//! What RPM has installed, whoever has asked for it.

use crate::model::{Installed, Instance, Key, Status};
use crate::system::{Problem, System};
use holo_plugin::process::Program;

/// Where the database is, or was.
pub(super) const PLACES: &[&str] =
    &["var/lib/rpm/rpmdb.sqlite", "usr/lib/sysimage/rpm/rpmdb.sqlite", "var/lib/rpm/Packages", "usr/lib/sysimage/rpm/Packages.db", "var/lib/rpm/Packages.db"];
const FORMAT: &str = "%{NAME}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\t%{ARCH}\\n";

/// Asks for all packages.
pub(super) fn installed(system: &System<'_>) -> Result<Installed, Problem> {
    let mut installed = Installed::default();
    if !PLACES.iter().any(|place| system.path(place).exists()) {
        return Ok(installed);
    }
    let mut query = Program::new("rpm");
    if let Some(root) = system.root() {
        query.arg("--root").arg(root);
    }
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

/// A version without an epoch that is none.
pub(super) fn plain(version: &str) -> &str {
    version.strip_prefix("0:").or_else(|| version.strip_prefix("(none):")).unwrap_or(version)
}

/// What a package of RPM can be called.
pub(super) fn validate(key: &Key) -> Result<(), String> {
    if key.name.contains(':') {
        return Err(format!("{key} is no name of an RPM package"));
    }
    Ok(())
}
