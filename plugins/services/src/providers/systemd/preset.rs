//! The units that are enabled without a person: as the presets have it, or, on Debian, as the packages have recorded.

use glob::Pattern;
use holo_plugin::system::Root;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The directories of presets, the strongest first.
const DIRECTORIES: [&str; 5] = [
    "etc/systemd/system-preset",
    "run/systemd/system-preset",
    "usr/local/lib/systemd/system-preset",
    "usr/lib/systemd/system-preset",
    "lib/systemd/system-preset",
];
/// The record of Debian's packages: a file `UNIT.dsh-also` with the links that would enable a unit, and a file for each link that was made,
/// where the link is below `/etc/systemd/system`. Presets count for systemd's own units only.
const ENABLED_BY_PACKAGES: &str = "var/lib/systemd/deb-systemd-helper-enabled";
/// The beginning of the paths of links.
const LINKS: &str = "/etc/systemd/system/";
/// The units that packages mask when they go, a file each.
const MASKED_BY_PACKAGES: &str = "var/lib/systemd/deb-systemd-helper-masked";
/// systemd's own units that its presets enable, and Debian's package of it does not.
const NOT_ON_DEBIAN: [&str; 3] = ["systemd-homed.service", "systemd-networkd.service", "systemd-resolved.service"];

/// The state in which units are without a person.
#[derive(Debug)]
pub(super) struct Presets<'a> {
    root: &'a Root,
    /// The units that presets enable by name, if packages keep a record.
    recorded: Option<Vec<Pattern>>,
}

impl<'a> Presets<'a> {
    pub(super) fn read(root: &'a Root) -> Presets<'a> {
        Presets { root, recorded: root.has(ENABLED_BY_PACKAGES).then(|| named(root)) }
    }

    /// Returns true if a unit is enabled without a person. `preset` is what `systemctl` shows as its preset.
    pub(super) fn enables(&self, unit: &str, preset: &str) -> bool {
        match &self.recorded {
            None => preset == "enabled",
            Some(named) => {
                let by_preset = || named.iter().any(|pattern| pattern.matches(unit));
                self.package_enables(unit) || (by_preset() && !NOT_ON_DEBIAN.contains(&unit))
            }
        }
    }

    /// Returns true if a unit would be enabled but for a person.
    pub(super) fn would_enable(&self, unit: &str, preset: &str) -> bool {
        if self.recorded.is_some() { self.package_enables(unit) } else { preset == "enabled" }
    }

    /// Returns true if a package has masked a unit when it went.
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

/// Returns the patterns of units that presets enable, but for one that is about all.
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

/// Reads a line `enable PATTERN`, perhaps with instances behind it.
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
        // A package only says how it would be enabled.
        assert_eq!(enables("rsync.service"), (false, false));
        // Nobody has recorded it, so a person has enabled it, if it is.
        assert_eq!(enables("mine.service"), (false, false));
        // systemd's own package enables it, or does not: that it is not says nothing.
        assert_eq!(enables("getty@.service"), (true, false));
        assert_eq!(enables("systemd-pstore.service"), (true, false));
        assert_eq!(enables("systemd-networkd.service"), (false, false));
        assert!(presets.masks("gone.service") && !presets.masks("nginx.service"));
    }
}
