//! The units that are not enabled, disabled or masked as they would be by default: according to presets, or, on Debian, to the records of
//! its package manager.

use super::files::{self, Directories};
use super::tool::{self, Tool};
use super::words::{self, UnitFileState};
use crate::providers::{ManagerError, Notice, Noticed};
use crate::state::Enablement;
use crate::unit::{Scope, UnitName};
use glob::Pattern;
use holo_plugin::system::Root;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Lists the units of which a person has decided if they are started at boot, and those that are.
pub(super) fn noticed(root: &Path, is_live: bool) -> Result<Vec<Noticed>, ManagerError> {
    let option = format!("--root={}", root.display());
    let options: &[&str] = if is_live { &[] } else { &[&option] };
    let arguments = [options, &["list-unit-files", "--full", "--no-legend"]].concat();
    let captured = Tool::default().systemctl(&arguments, &[]).output()?;
    // Without any unit it ends with 1, and without a word.
    let is_empty = captured.stdout.is_empty() && captured.stderr.is_empty() && captured.ended.code() == Some(1);
    let text = if is_empty { String::new() } else { tool::said(&captured)? };
    let root = Root::new(root);
    let presets = Presets::read(&root);
    let mut found: BTreeMap<UnitName, Notice> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(state)) = (words.next(), words.next()) else { continue };
        let enablement = UnitFileState::parse(state)?.meaning;
        // A template is none; its instances are not in the list.
        let Ok(unit) = words::complete(name) else { continue };
        if let Some(notice) = notice(name, enablement, words.next().unwrap_or("-"), &presets, &root) {
            found.insert(unit, notice);
        }
    }
    found.extend(instances(&root, &presets).into_iter().map(|unit| (unit, Notice::Enabled)));
    found.extend(of_all_users(&root));
    let noticed = |(unit, notice): (UnitName, Notice)| {
        let directories = Directories::find(&root, unit.scope()).unwrap_or_else(Directories::of_system);
        let file = files::path(&root, &directories, &unit).map(|path| Path::new("/").join(path));
        Noticed { unit, notice, file }
    };
    Ok(found.into_iter().map(noticed).collect())
}

fn notice(name: &str, enablement: Enablement, preset: &str, presets: &Presets<'_>, root: &Root) -> Option<Notice> {
    match enablement {
        // A unit that only starts others reads no configuration of its own.
        Enablement::Enabled if presets.enables(name, preset) => {
            let has_processes = [".service", ".socket"].iter().any(|kind| name.ends_with(kind));
            has_processes.then_some(Notice::EnabledAsUsual)
        }
        Enablement::Enabled => Some(Notice::Enabled),
        Enablement::Disabled => presets.would_enable(name, preset).then_some(Notice::Disabled),
        Enablement::Masked => {
            let link = root.link(Path::new(files::ADMINISTRATORS).join(name)).ok().flatten();
            let is_own = link.is_some_and(|target| target == Path::new("/dev/null"));
            (is_own && !presets.masks(name)).then_some(Notice::Masked)
        }
        _ => None,
    }
}

/// Returns the instances of templates that were enabled manually: symlinks to them exist, and no preset enables them.
fn instances(root: &Root, presets: &Presets<'_>) -> Vec<UnitName> {
    let mut found = Vec::new();
    for folder in root.names(files::ADMINISTRATORS).unwrap_or_default() {
        let Some(folder) = folder.to_str().filter(|name| name.ends_with(".wants") || name.ends_with(".requires"))
        else {
            continue;
        };
        for link in root.names(Path::new(files::ADMINISTRATORS).join(folder)).unwrap_or_default() {
            let unit = link.to_str().and_then(|name| words::complete(name).ok());
            let Some(unit) = unit else { continue };
            let Some(template) = words::template(&unit) else { continue };
            let text = files::path(root, &Directories::of_system(), &unit)
                .and_then(|path| root.text(path))
                .unwrap_or_default();
            let usual = text.lines().find_map(|line| line.trim().strip_prefix("DefaultInstance="));
            let is_usual = usual.is_some() && usual == words::instance(&unit) && presets.enables(&template, "enabled");
            if !is_usual && !found.contains(&unit) {
                found.push(unit);
            }
        }
    }
    found
}

/// Returns the units that were enabled or masked manually for all users.
fn of_all_users(root: &Root) -> Vec<(UnitName, Notice)> {
    let own = Path::new(FOR_ALL_USERS);
    let unit = |name: &str| words::complete(name).ok().map(|unit| unit.in_scope(Scope::AllUsers));
    let named = named(root, &PRESETS_OF_USERS);
    let is_usual = |link: &Path, name: &str| {
        root.has(Path::new(ENABLED_FOR_ALL_USERS).join(link)) || named.iter().any(|pattern| pattern.matches(name))
    };
    let mut found = Vec::new();
    for name in root.names(own).unwrap_or_default() {
        let Some(name) = name.to_str() else { continue };
        if name.ends_with(".wants") || name.ends_with(".requires") {
            let links = root.names(own.join(name)).unwrap_or_default();
            let links = links.iter().filter_map(|link| link.to_str());
            let by_hand = links.filter(|link| !is_usual(&Path::new(name).join(link), link));
            found.extend(by_hand.filter_map(unit).map(|unit| (unit, Notice::Enabled)));
        } else if root.link(own.join(name)).ok().flatten().is_some_and(|target| target == Path::new("/dev/null")) {
            found.extend(unit(name).map(|unit| (unit, Notice::Masked)));
        }
    }
    found
}

/// The directory in which units are enabled and masked for all users.
const FOR_ALL_USERS: &str = "etc/systemd/user";
/// The records of Debian's packages about these units, as below [`ENABLED_BY_PACKAGES`].
const ENABLED_FOR_ALL_USERS: &str = "var/lib/systemd/deb-systemd-user-helper-enabled";
/// The directories of presets of users in order of precedence, highest first.
const PRESETS_OF_USERS: [&str; 4] = [
    "etc/systemd/user-preset",
    "run/systemd/user-preset",
    "usr/local/lib/systemd/user-preset",
    "usr/lib/systemd/user-preset",
];
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
struct Presets<'a> {
    root: &'a Root,
    /// The units that presets enable by name, if packages keep records.
    recorded: Option<Vec<Pattern>>,
}

impl<'a> Presets<'a> {
    pub(super) fn read(root: &'a Root) -> Presets<'a> {
        Presets { root, recorded: root.has(ENABLED_BY_PACKAGES).then(|| named(root, &DIRECTORIES)) }
    }

    /// Returns true if a unit is enabled by default. `preset` is the preset shown by `systemctl`.
    fn enables(&self, unit: &str, preset: &str) -> bool {
        match &self.recorded {
            None => preset == "enabled",
            Some(named) => {
                let by_preset = || named.iter().any(|pattern| pattern.matches(unit));
                self.package_enables(unit) || (by_preset() && !NOT_ON_DEBIAN.contains(&unit))
            }
        }
    }

    /// Returns true if a unit would be enabled unless a user had disabled it.
    fn would_enable(&self, unit: &str, preset: &str) -> bool {
        if self.recorded.is_some() { self.package_enables(unit) } else { preset == "enabled" }
    }

    /// Returns true if a package has masked a unit on removal.
    fn masks(&self, unit: &str) -> bool {
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
fn named(root: &Root, directories: &[&str]) -> Vec<Pattern> {
    let mut files: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for directory in directories.iter().map(Path::new) {
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
    use std::os::unix::fs::symlink;

    #[test]
    fn units_of_all_users_are_told_from_those_of_packages() {
        let folder = tempfile::tempdir().unwrap();
        let path = |path: &str| folder.path().join(path);
        let own = "etc/systemd/user/default.target.wants";
        let record = "var/lib/systemd/deb-systemd-user-helper-enabled/default.target.wants";
        for directory in [own, record, "usr/lib/systemd/user-preset"] {
            fs::create_dir_all(path(directory)).unwrap();
        }
        fs::write(path(record).join("sound.service"), "").unwrap();
        fs::write(path("usr/lib/systemd/user-preset/90.preset"), "enable agent.socket\n").unwrap();
        for unit in ["sound.service", "agent.socket", "greet.service"] {
            symlink("/x", path(own).join(unit)).unwrap();
        }
        symlink("/dev/null", path("etc/systemd/user/quiet.service")).unwrap();
        let mut found: Vec<_> = of_all_users(&Root::new(folder.path()))
            .into_iter()
            .map(|(unit, notice)| (unit.scope().qualify(unit.as_str()), notice))
            .collect();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        let expected = [("@users/greet.service", Notice::Enabled), ("@users/quiet.service", Notice::Masked)];
        assert_eq!(found, expected.map(|(name, notice)| (name.to_owned(), notice)));
    }

    #[test]
    fn what_a_person_has_decided_is_told_from_what_packages_have() {
        let folder = tempfile::tempdir().unwrap();
        let path = |path: &str| folder.path().join(path);
        for directory in
            ["etc/systemd/system/x.wants", "usr/lib/systemd/system", "var/lib/systemd/deb-systemd-helper-enabled"]
        {
            fs::create_dir_all(path(directory)).unwrap();
        }
        let record = path("var/lib/systemd/deb-systemd-helper-enabled");
        fs::write(record.join("nginx.service.dsh-also"), "/etc/systemd/system/x.wants/nginx.service\n").unwrap();
        fs::create_dir_all(record.join("x.wants")).unwrap();
        fs::write(record.join("x.wants/nginx.service"), "").unwrap();
        fs::write(path("usr/lib/systemd/system/getty@.service"), "[Install]\nDefaultInstance=tty1\n").unwrap();
        fs::create_dir_all(path("usr/lib/systemd/system-preset")).unwrap();
        fs::write(path("usr/lib/systemd/system-preset/90.preset"), "enable getty@.service\n").unwrap();
        symlink("/dev/null", path("etc/systemd/system/cups.service")).unwrap();
        symlink("/dev/null", path("usr/lib/systemd/system/hwclock.service")).unwrap();
        for instance in ["getty@tty1.service", "getty@tty2.service", "plain.service"] {
            symlink("/x", path("etc/systemd/system/x.wants").join(instance)).unwrap();
        }
        let root = Root::new(folder.path());
        let presets = Presets::read(&root);
        let notice = |name: &str, enablement| notice(name, enablement, "enabled", &presets, &root);
        assert_eq!(notice("nginx.service", Enablement::Enabled), Some(Notice::EnabledAsUsual));
        assert_eq!(notice("nginx.service", Enablement::Disabled), Some(Notice::Disabled));
        assert_eq!(notice("getty@.service", Enablement::Enabled), Some(Notice::EnabledAsUsual));
        assert_eq!(notice("mine.service", Enablement::Enabled), Some(Notice::Enabled));
        assert_eq!(notice("mine.service", Enablement::Disabled), None);
        assert_eq!(notice("cups.service", Enablement::Masked), Some(Notice::Masked));
        assert_eq!(notice("hwclock.service", Enablement::Masked), None);
        assert_eq!(notice("x.service", Enablement::EnabledForNow), None);
        assert_eq!(instances(&root, &presets).iter().map(UnitName::as_str).collect::<Vec<_>>(), ["getty@tty2.service"]);
    }

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
