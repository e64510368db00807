//! Units that are enabled by default: according to presets, or, on Debian, to the records of packages.

use glob::Pattern;
use holo_plugin::system::Root;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The directories of presets in order of precedence, highest first.
const DIRECTORIES: [&str; 5] = [
    "etc/systemd/system-preset",
    "run/systemd/system-preset",
    "usr/local/lib/systemd/system-preset",
    "usr/lib/systemd/system-preset",
    "lib/systemd/system-preset",
];
/// The records of Debian's packages: a file `UNIT.dsh-also` with the symlinks that would enable a unit, and a file for
/// each symlink that was created, with the same path as that below `/etc/systemd/system`. Presets only apply to
/// systemd's own units.
const ENABLED_BY_PACKAGES: &str = "var/lib/systemd/deb-systemd-helper-enabled";
/// The prefix of the symlinks' paths.
const LINKS: &str = "/etc/systemd/system/";
/// The units that packages mask when they are removed, one file each.
const MASKED_BY_PACKAGES: &str = "var/lib/systemd/deb-systemd-helper-masked";
/// systemd's own units that its presets enable, but Debian's package does not.
const NOT_ON_DEBIAN: [&str; 3] = ["systemd-homed.service", "systemd-networkd.service", "systemd-resolved.service"];

/// The default state of units.
#[derive(Debug)]
pub(super) struct Presets<'a> {
    root: &'a Root,
    /// The units that presets enable by name, if packages keep records.
    recorded: Option<Vec<Pattern>>,
}

impl<'a> Presets<'a> {
    pub(super) fn read(root: &'a Root) -> Presets<'a> {
        Presets { root, recorded: root.has(ENABLED_BY_PACKAGES).then(|| named(root)) }
    }

    /// Returns true if a unit is enabled by default. `preset` is the preset shown by `systemctl`.
    pub(super) fn enables(&self, unit: &str, preset: &str) -> bool {
        match &self.recorded {
            None => preset == "enabled",
            Some(named) => {
                let by_preset = || named.iter().any(|pattern| pattern.matches(unit));
                self.package_enables(unit) || (by_preset() && !NOT_ON_DEBIAN.contains(&unit))
            }
        }
    }

    /// Returns true if a unit would be enabled unless a user had disabled it.
    pub(super) fn would_enable(&self, unit: &str, preset: &str) -> bool {
        if self.recorded.is_some() { self.package_enables(unit) } else { preset == "enabled" }
    }

    /// Returns true if a package has masked a unit on removal.
    pub(super) fn masks(&self, unit: &str) -> bool {
        self.root.has(Path::new(MASKED_BY_PACKAGES).join(unit))
    }

    fn package_enables(&self, unit: &str) -> bool {
        let record = Path::new(ENABLED_BY_PACKAGES);
        let links = self.root.text(record.join(format!("{unit}.dsh-also"))).unwrap_or_default();
        let mut links = links.lines().filter_map(|link| link.strip_prefix(LINKS));
        links.any(|link| link.ends_with(unit) && self.root.has(record.join(link)))
    }
}

/// Returns the patterns of units that presets enable, except for one that matches all units.
fn named(root: &Root) -> Vec<Pattern> {
    let mut files: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for directory in DIRECTORIES.iter().map(Path::new) {
        for name in root.names(directory).unwrap_or_default() {
            let path = directory.join(&name);
            files.entry(PathBuf::from(name)).or_insert(path);
        }
    }
    files.retain(|name, _| name.extension().is_some_and(|extension| extension == "preset"));
    let texts = files.values().filter_map(|path| root.text(path));
    texts.flat_map(|text| text.lines().filter_map(enabled).collect::<Vec<_>>()).collect()
}

/// Parses a line `enable PATTERN`, which may be followed by instances.
fn enabled(line: &str) -> Option<Pattern> {
    let mut words = line.split_whitespace();
    let pattern = words.next().filter(|word| *word == "enable").and_then(|_| words.next())?;
    Pattern::new(pattern).ok().filter(|_| pattern != "*")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn root(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let root = Root::new(folder.path());
        (folder, root)
    }

    #[test]
    fn without_a_record_the_preset_counts() {
        let (_folder, root) = root(&[("usr/lib/systemd/system-preset/90.preset", "enable a.service\n")]);
        let presets = Presets::read(&root);
        assert!(presets.enables("b.service", "enabled") && presets.would_enable("b.service", "enabled"));
        assert!(!presets.enables("a.service", "disabled") && !presets.would_enable("a.service", "disabled"));
    }

    #[test]
    fn on_debian_the_record_of_packages_counts() {
        let (_folder, root) = root(&[
            (
                "var/lib/systemd/deb-systemd-helper-enabled/nginx.service.dsh-also",
                "/etc/systemd/system/a.wants/nginx.service\n",
            ),
            ("var/lib/systemd/deb-systemd-helper-enabled/a.wants/nginx.service", ""),
            (
                "var/lib/systemd/deb-systemd-helper-enabled/rsync.service.dsh-also",
                "/etc/systemd/system/a.wants/rsync.service\n",
            ),
            ("var/lib/systemd/deb-systemd-helper-masked/gone.service", ""),
            (
                "usr/lib/systemd/system-preset/90.preset",
                "# x\nenable getty@.service\nenable *\nenable systemd-*\ndisable x\n",
            ),
        ]);
        let presets = Presets::read(&root);
        let enables = |unit: &str| (presets.enables(unit, "enabled"), presets.would_enable(unit, "enabled"));
        assert_eq!(enables("nginx.service"), (true, true));
        // The package only records how it would be enabled.
        assert_eq!(enables("rsync.service"), (false, false));
        // It has no record, so if it is enabled, a user has done that.
        assert_eq!(enables("mine.service"), (false, false));
        // systemd's own package may or may not enable it, so that a disabled unit is not remarkable.
        assert_eq!(enables("getty@.service"), (true, false));
        assert_eq!(enables("systemd-pstore.service"), (true, false));
        assert_eq!(enables("systemd-networkd.service"), (false, false));
        assert!(presets.masks("gone.service") && !presets.masks("nginx.service"));
    }
}
