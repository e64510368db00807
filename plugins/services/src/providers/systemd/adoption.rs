//! The units that are not enabled, disabled or masked as they would be without a person.

use super::directories::Directories;
use super::preset::Presets;
use super::tool::{self, Tool};
use super::words::UnitFileState;
use super::{files, names};
use crate::notice::{Notice, Noticed};
use crate::provider::ManagerError;
use crate::state::Enablement;
use crate::unit::UnitName;
use holo_plugin::system::Root;
use std::collections::BTreeMap;
use std::path::Path;

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
        let Ok(unit) = names::complete(name) else { continue };
        if let Some(notice) = notice(name, enablement, words.next().unwrap_or("-"), &presets, &root) {
            found.insert(unit, notice);
        }
    }
    found.extend(instances(&root, &presets).into_iter().map(|unit| (unit, Notice::Enabled)));
    let noticed = |(unit, notice): (UnitName, Notice)| {
        let file = files::path(&root, &Directories::of_system(), &unit).map(|path| Path::new("/").join(path));
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
            let unit = link.to_str().and_then(|name| names::complete(name).ok());
            let Some(unit) = unit else { continue };
            let Some(template) = names::template(&unit) else { continue };
            let text = files::path(root, &Directories::of_system(), &unit)
                .and_then(|path| root.text(path))
                .unwrap_or_default();
            let usual = text.lines().find_map(|line| line.trim().strip_prefix("DefaultInstance="));
            let is_usual = usual.is_some() && usual == names::instance(&unit) && presets.enables(&template, "enabled");
            if !is_usual && !found.contains(&unit) {
                found.push(unit);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

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
}
