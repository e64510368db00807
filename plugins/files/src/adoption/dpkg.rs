//! What dpkg knows of files: which package has brought them, and what its configuration files were.

use bstr::{BString, ByteSlice};
use holo_plugin::Host;
use holo_plugin::system::Root;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const STATUS: &str = "var/lib/dpkg/status";
const LISTS: &str = "var/lib/dpkg/info";

/// A package that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) architecture: String,
}

/// A configuration file.
#[derive(Debug)]
pub(super) struct Conffile {
    /// The index of its package.
    package: usize,
    /// The MD5 sum that it was brought with, in digits; none if the package has brought none yet.
    pub(super) sum: Option<String>,
}

/// Paths, each with the index of the package that has brought it; none if several have.
pub(super) type Owned = HashMap<BString, Option<usize>>;

/// The packages that are installed, and their configuration files.
#[derive(Debug, Default)]
pub(super) struct Packages {
    packages: Vec<Package>,
    /// By their paths.
    pub(super) conffiles: HashMap<BString, Conffile>,
}

impl Packages {
    /// Reads the database of a system; nothing where there is none.
    pub(super) fn read(host: &Host) -> Packages {
        let text = Root::new(host.root()).read(STATUS).ok().flatten().unwrap_or_default();
        Packages::parse(&text)
    }

    fn parse(text: &[u8]) -> Packages {
        let mut all = Packages::default();
        for paragraph in text.split_str("\n\n") {
            let field = |name: &str| {
                let value = paragraph.lines().find_map(|line| line.strip_prefix(name.as_bytes()));
                value.map(|value| value.trim().to_str_lossy().into_owned())
            };
            let (Some(name), Some(version)) = (field("Package:"), field("Version:")) else { continue };
            if !field("Status:").is_some_and(|status| status.ends_with(" installed")) {
                continue;
            }
            let package = all.packages.len();
            let architecture = field("Architecture:").unwrap_or_default();
            all.packages.push(Package { name, version, architecture });
            let conffiles = paragraph.lines().skip_while(|line| line.trim() != b"Conffiles:").skip(1);
            for line in conffiles.take_while(|line| line.starts_with(b" ")) {
                let words: Vec<&[u8]> = line.trim().split_str(" ").collect();
                if let [path, sum, ref rest @ ..] = words[..]
                    && !rest.contains(&&b"obsolete"[..])
                {
                    let sum = sum.to_str().ok().filter(|sum| sum.len() == 32).map(str::to_owned);
                    all.conffiles.insert(path.into(), Conffile { package, sum });
                }
            }
        }
        all
    }

    /// Returns the package of a configuration file.
    pub(super) fn of_conffile(&self, path: &[u8]) -> Option<&Package> {
        self.packages.get(self.conffiles.get(path.as_bstr())?.package)
    }

    /// Returns the package that has brought a file.
    pub(super) fn owner(&self, path: &Path, host: &Host) -> Option<Package> {
        if let Some(package) = self.of_conffile(path.as_os_str().as_bytes()) {
            return Some(package.clone());
        }
        let root = Root::new(host.root());
        let path = unmerged(path.as_os_str().as_bytes());
        let mut packages = self.packages.iter();
        packages.find(|package| list(&root, package).lines().any(|line| unmerged(line) == path)).cloned()
    }

    /// Returns true if nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        self.packages.is_empty()
    }

    /// Returns the name of a package.
    pub(super) fn name(&self, package: usize) -> Option<&str> {
        self.packages.get(package).map(|package| &*package.name)
    }

    /// Returns the paths that packages have brought, of those that begin in one of these ways.
    pub(super) fn owned(&self, beginnings: &[&str], host: &Host) -> Owned {
        let root = Root::new(host.root());
        let mut owned = Owned::new();
        for (index, package) in self.packages.iter().enumerate() {
            let text = list(&root, package);
            let paths = text.lines().map(unmerged);
            for path in paths.filter(|path| beginnings.iter().any(|beginning| path.starts_with(beginning.as_bytes()))) {
                owned.entry(path.into()).and_modify(|owner| *owner = None).or_insert(Some(index));
            }
        }
        owned
    }
}

/// Returns the paths that a package has brought, a line each.
fn list(root: &Root, package: &Package) -> Vec<u8> {
    let Package { name, architecture, .. } = package;
    let names = [format!("{LISTS}/{name}.list"), format!("{LISTS}/{name}:{architecture}.list")];
    names.iter().find_map(|name| root.read(name).ok().flatten()).unwrap_or_default()
}

/// Returns a path as it is where the directories below `/` are links to those below `/usr`: packages may have either.
fn unmerged(path: &[u8]) -> Vec<u8> {
    let below_root = [&b"/bin/"[..], b"/sbin/", b"/lib/", b"/lib64/"].iter().any(|start| path.starts_with(start));
    if below_root { [b"/usr", path].concat() } else { path.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_files_are_those_of_installed_packages() {
        let text = b"Package: a\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1:2-3\nConffiles:\n /etc/a 0123456789abcdef0123456789abcdef\n /etc/old 0123456789abcdef0123456789abcdef obsolete\n /etc/new newconffile\nDescription: x\n /etc/no y\n\nPackage: b\nStatus: deinstall ok config-files\nVersion: 1\nConffiles:\n /etc/b 0123456789abcdef0123456789abcdef\n";
        let packages = Packages::parse(text);
        let package = Package { name: "a".into(), version: "1:2-3".into(), architecture: "amd64".into() };
        assert_eq!(packages.of_conffile(b"/etc/a"), Some(&package));
        assert_eq!(packages.conffiles.len(), 2);
        assert_eq!(packages.conffiles[&BString::from("/etc/new")].sum, None);
    }
}
