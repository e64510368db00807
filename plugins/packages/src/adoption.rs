//! Generates definitions of installed packages: those installed on request, or any that is named.

use crate::declaration::Package;
use crate::manager::Manager;
use crate::model::{Installed, Instance, Key, PackageError, Status};
use crate::providers;
use holo_plugin::definitions::Definition;
use holo_plugin::{Adopted, Candidate, Host, Output};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// A cache of the installed packages. It is valid because nothing changes packages during an adoption.
#[derive(Debug, Default)]
pub(crate) struct InstalledCache(Mutex<Option<Arc<Installed>>>);

impl InstalledCache {
    fn installed(&self, manager: &Manager<'_>) -> Result<Arc<Installed>, PackageError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(installed) = &*known {
            return Ok(Arc::clone(installed));
        }
        Ok(Arc::clone(known.insert(Arc::new(manager.installed()?))))
    }

    /// Clears the cache before packages change.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Lists packages that were installed on request and are not defined, ordered by name.
pub(crate) fn candidates(
    host: &Host,
    known: &InstalledCache,
    defined: &BTreeSet<Key>,
) -> Result<Vec<Candidate>, PackageError> {
    // Without a package manager there are no packages.
    let Some(provider) = providers::for_host(host) else { return Ok(Vec::new()) };
    let mut manager = Manager::new(host, provider)?;
    manager.system.only_looks = true;
    let installed = known.installed(&manager)?;
    let chosen = provider.chosen(&manager.system, &installed)?;
    let mut found: Vec<Candidate> = chosen.difference(defined).map(|key| candidate(key, &installed)).collect();
    found.extend(removed(&installed));
    Ok(found)
}

/// Lists the packages of which only configuration files are left, which no definition describes.
fn removed(installed: &Installed) -> impl Iterator<Item = Candidate> {
    let names = installed.packages.iter().filter(|(_, instances)| {
        !instances.is_empty() && instances.iter().all(|instance| instance.status == Status::Leftovers)
    });
    names.map(|(name, _)| {
        Candidate::excluded(format!("{}:{name}", Package::TABLE), "it was removed, except for its configuration files")
    })
}

fn candidate(key: &Key, installed: &Installed) -> Candidate {
    let held = installed.present(key).into_iter().find(|instance| instance.held);
    let reason = match held {
        Some(Instance { version, .. }) => format!("installed by hand, and held at {version}"),
        None => "installed by hand".to_owned(),
    };
    Candidate::new(format!("{}:{key}", Package::TABLE), reason).in_group(key.name.as_str())
}

/// Writes the definition of an installed package.
pub(crate) fn adopt(host: &Host, known: &InstalledCache, id: &str, output: &mut Output<'_>) -> Adopted {
    let Some(name) = id.strip_prefix(Package::TABLE).and_then(|rest| rest.strip_prefix(':')) else {
        return Adopted::Unknown;
    };
    match describe(host, known, name) {
        Ok(definition) => Adopted::Done { definition },
        Err(problem) => {
            problem.tell(output);
            Adopted::Failed
        }
    }
}

fn describe(host: &Host, known: &InstalledCache, name: &str) -> Result<String, PackageError> {
    let none = || PackageError::new("no package manager was found on this system");
    let provider = providers::for_host(host).ok_or_else(none)?;
    let package = Package::named(name);
    if let Some(invalid) = package.invalid().first() {
        return Err(PackageError::new(invalid.to_string()));
    }
    let key = package.wanted(name, None).key;
    provider.validate(&key).map_err(|error| PackageError::new(error.to_string()))?;
    let installed = known.installed(&Manager::new(host, provider)?)?;
    definition(&key, &installed).ok_or_else(|| PackageError::new(format!("package {key} is not installed")))
}

/// Returns the definition of a package, or `None` if it is not installed.
pub(crate) fn definition(key: &Key, installed: &Installed) -> Option<String> {
    let instances = installed.present(key);
    let is_held = instances.iter().any(|instance| instance.held);
    let hold = if is_held { "hold = true\n" } else { "" };
    (!instances.is_empty()).then(|| format!("[[{}]]\nname = \"{key}\"\n{hold}", Package::TABLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed() -> Installed {
        let mut installed = Installed { native: Some("amd64".into()), ..Installed::default() };
        let mut add = |name: &str, arch: &str, status: Status, held: bool, automatic: bool| {
            let (version, arch) = ("1.0-1".to_owned(), arch.to_owned());
            installed.add(name, Instance { version, arch, status, held, automatic });
        };
        add("nginx", "amd64", Status::Installed, true, false);
        add("libc6", "amd64", Status::Installed, false, true);
        add("libc6", "i386", Status::Installed, false, false);
        add("wine", "i386", Status::Leftovers, false, false);
        add("tzdata", "all", Status::Installed, false, false);
        installed
    }

    fn key(name: &str, arch: Option<&str>) -> Key {
        Key { name: name.into(), arch: arch.map(str::to_owned) }
    }

    #[test]
    fn candidates_are_named_like_definitions() {
        let installed = installed();
        let keys: BTreeSet<Key> = installed.not_automatic().collect();
        let said: Vec<_> = keys.iter().map(|key| candidate(key, &installed)).collect();
        assert_eq!(
            said.iter().map(Candidate::to_line).collect::<Vec<_>>(),
            [
                "package:libc6:i386\tinstalled by hand\tlibc6",
                "package:nginx\tinstalled by hand, and held at 1.0-1\tnginx",
                "package:tzdata\tinstalled by hand\ttzdata",
            ]
        );
    }

    #[test]
    fn removed_packages_are_listed() {
        let lines: Vec<_> = removed(&installed()).map(|candidate| candidate.to_line().to_string()).collect();
        assert_eq!(lines, ["package:wine\tit was removed, except for its configuration files\t\texcluded"]);
    }

    #[test]
    fn adopted_definition_has_no_version() {
        let definition = |key: Key| definition(&key, &installed());
        assert_eq!(definition(key("nginx", None)).unwrap(), "[[package]]\nname = \"nginx\"\nhold = true\n");
        assert_eq!(definition(key("libc6", Some("i386"))).unwrap(), "[[package]]\nname = \"libc6:i386\"\n");
        assert_eq!(definition(key("libc6", None)).unwrap(), "[[package]]\nname = \"libc6\"\n");
        assert_eq!(definition(key("wine", Some("i386"))), None);
        assert_eq!(definition(key("nowhere", None)), None);
    }
}
