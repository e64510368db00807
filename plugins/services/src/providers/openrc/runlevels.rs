//! The runlevels of services.

use holo_plugin::system::Root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The directory with a directory of symlinks for each runlevel.
const DIRECTORY: &str = "etc/runlevels";
/// The default runlevel for enabled services.
pub(super) const DEFAULT: &str = "default";

/// The runlevels by service.
pub(super) struct Runlevels(BTreeMap<String, BTreeSet<String>>);

impl Runlevels {
    pub(super) fn read(root: &Root) -> Runlevels {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for level in names(root, Path::new(DIRECTORY)) {
            for service in names(root, &Path::new(DIRECTORY).join(&level)) {
                all.entry(service).or_default().insert(level.clone());
            }
        }
        Runlevels(all)
    }

    /// Returns the runlevels of a service.
    pub(super) fn of(&self, service: &str) -> BTreeSet<String> {
        self.0.get(service).cloned().unwrap_or_default()
    }

    /// Returns the services that are in any runlevel, ordered by name.
    pub(super) fn services(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

fn names(root: &Root, path: &Path) -> Vec<String> {
    let names = root.names(path).unwrap_or_default();
    names.into_iter().filter_map(|name| name.into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_service_may_be_in_several() {
        let folder = tempfile::tempdir().unwrap();
        for (level, service) in [("boot", "a"), ("default", "a"), ("default", "b")] {
            let level = folder.path().join(DIRECTORY).join(level);
            std::fs::create_dir_all(&level).unwrap();
            symlink(format!("/etc/init.d/{service}"), level.join(service)).unwrap();
        }
        let levels = Runlevels::read(&Root::new(folder.path()));
        assert_eq!(levels.of("a"), ["boot", "default"].map(str::to_owned).into());
        assert_eq!((levels.of("b"), levels.of("c")), ([DEFAULT.to_owned()].into(), BTreeSet::new()));
        assert_eq!(levels.services().collect::<Vec<_>>(), ["a", "b"]);
    }
}
