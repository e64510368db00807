//! OpenRC services, managed with its own tools. In test mode, commands are printed instead of being run.

mod live;

use crate::plan::{Step, Wanted};
use crate::providers::{
    Done, Links, Manager, ManagerError, Notice, Noticed, PID_IN_TEST_MODE, ServiceProvider, Subject, Task, UnitEvent,
};
use crate::state::{Enablement, Load, Phase, UnitState};
use crate::unit::{Scope, UnitName, UnitNameError};
use holo_plugin::provider::Provider;
use holo_plugin::system::{self, Root};
use holo_plugin::{Asset, Edges, Host};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::Duration;

/// The name in definitions and messages.
const NAME: &str = "openrc";
/// The directory of service scripts.
const SCRIPTS: &str = "etc/init.d";
/// The directory of service configuration.
const SETTINGS: &str = "etc/conf.d";
/// The directory with an entry for each running service.
const STARTED: &str = "/run/openrc/started/";
const LONGEST: usize = 128;

/// OpenRC.
pub(crate) struct OpenRc;

impl Provider for OpenRc {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Used if it runs, or if it is the only one installed, such as while an image is built.
    fn rank(&self, host: &Host) -> Option<u8> {
        let root = Root::new(host.root());
        let runs = system::init_system(&root);
        let is_ours = runs == NAME || (runs.is_empty() && system::installed_init_system(&root) == NAME);
        is_ours.then_some(2)
    }
}

impl ServiceProvider for OpenRc {
    fn has_users(&self) -> bool {
        false
    }

    fn unit_name(&self, name: &str) -> Result<UnitName, UnitNameError> {
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || ":-_.@".contains(letter);
        let is_valid = !name.is_empty()
            && name.len() <= LONGEST
            && !name.starts_with(['-', '.', '@'])
            && !name.ends_with('@')
            && name.chars().all(is_allowed);
        if is_valid {
            Ok(UnitName::from_whole(name.to_owned()))
        } else {
            Err(UnitNameError::new(name, "is not a valid name of a service of OpenRC"))
        }
    }

    /// A symlink to a script, such as `net.eth0`, is a separate service.
    fn main_name(&self, _: &Root, name: &UnitName) -> UnitName {
        name.clone()
    }

    fn also(&self, _: &Root, _: &UnitName) -> Vec<UnitName> {
        Vec::new()
    }

    fn links(&self, _: &Root, _: &UnitName) -> Links {
        Links::new()
    }

    fn relink(&self, _: &Root, _: &UnitName, _: &Links) -> io::Result<bool> {
        Ok(false)
    }

    /// OpenRC reads a script whenever it runs it.
    fn file_names(&self, _: &UnitName) -> Vec<String> {
        Vec::new()
    }

    fn unsupported(&self, scope: &Scope, wanted: &Wanted) -> Option<(&'static str, &'static str)> {
        if !scope.is_system() {
            return Some(("scope", "services of users are managed by systemd alone"));
        }
        (wanted.mask == Some(true)).then_some(("mask", "OpenRC cannot mask services"))
    }

    fn add_edges(&self, _: &Root, name: &UnitName, _: &UnitName, edges: &mut Edges) {
        let stem = name.as_str().split('.').next().unwrap_or(name.as_str());
        // Packages often have the names of their services.
        edges.needs.push(Asset::new("package", stem));
        for directory in [SCRIPTS, SETTINGS] {
            let path = format!("/{directory}/{name}");
            edges.needs.push(Asset::new("path", path.as_str()));
            edges.watch.push(path.as_str().into());
        }
        edges.watch.push(STARTED.into());
    }

    /// There are no signals; the state files are watched instead.
    fn listen(&self, _: &Host, _: &mut dyn FnMut(UnitEvent<'_>) -> bool) -> Result<(), ManagerError> {
        loop {
            std::thread::park();
        }
    }

    fn programs(&self) -> &'static [&'static str] {
        &["rc-service", "rc-status", "rc-update"]
    }

    fn how_to_read_files(&self) -> &'static str {
        "rc-update --update"
    }

    fn reading_files(&self, _: &Host) -> Option<&'static str> {
        None
    }

    /// Packages do not add services to runlevels, so these were added by a user or the installer.
    fn noticed(&self, host: &Host) -> Result<Vec<Noticed>, ManagerError> {
        let noticed = |unit: UnitName| {
            let file = Some(Path::new("/").join(SCRIPTS).join(unit.as_str()));
            Noticed { unit, notice: Notice::Enabled, file }
        };
        let enabled = Runlevels::read(&Root::new(host.root()));
        let names = enabled.services().filter_map(|name| self.unit_name(name).ok());
        Ok(names.map(noticed).collect())
    }

    fn manager(&self, host: &Host) -> Box<dyn Manager> {
        let root = Root::new(host.root());
        if host.test_mode() {
            return Box::new(Mocked { root, runs: !host.is_offline() });
        }
        Box::new(live::Live { root, runs: system::is_run_by_openrc() })
    }
}

struct Mocked {
    root: Root,
    /// True if services can be started.
    runs: bool,
}

impl Manager for Mocked {
    fn states(&self, subjects: &[Subject<'_>]) -> Result<Vec<Result<UnitState, ManagerError>>, ManagerError> {
        let levels = Runlevels::read(&self.root);
        let state = |subject: &Subject<'_>| {
            let (mock, runlevels) = (&subject.record.mock, levels.of(subject.unit.as_str()));
            let is_enabled = mock.enabled.unwrap_or(!runlevels.is_empty());
            Ok(UnitState {
                phase: self.runs.then_some(if mock.runs == Some(true) { Phase::Up } else { Phase::Down }),
                // The command that would install it may only have been printed.
                load: Load::Loaded,
                enablement: if is_enabled { Enablement::Enabled } else { Enablement::Disabled },
                runlevels,
                can_reload: true,
                is_imagined: mock.enabled.is_some() || !self.root.has(Path::new(SCRIPTS).join(subject.unit.as_str())),
                ..UnitState::default()
            })
        };
        Ok(subjects.iter().map(state).collect())
    }

    fn read_files(&self, _: &Scope) -> Result<(), ManagerError> {
        Ok(())
    }

    fn act(&self, step: Step, tasks: &[Task<'_>], _: Option<Duration>) -> Vec<Done> {
        let mocked = |task: &Task<'_>| {
            let command = match step {
                Step::Enable => {
                    let levels = task.wanted.runlevels.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
                    format!("rc-update add {} {}", task.unit, if levels.is_empty() { DEFAULT } else { &levels })
                }
                Step::Disable => format!("rc-update --all del {}", task.unit),
                _ => format!("rc-service {} {}", task.unit, live::verb(step)),
            };
            Done::Mocked(command)
        };
        tasks.iter().map(mocked).collect()
    }

    fn last_words(&self, _: &UnitName) -> Vec<String> {
        Vec::new()
    }

    fn main_pid(&self, _: &UnitName) -> Option<u32> {
        Some(PID_IN_TEST_MODE)
    }

    fn boot(&self) -> Option<String> {
        None
    }
}

/// The directory with a directory of symlinks for each runlevel.
const DIRECTORY: &str = "etc/runlevels";
/// The default runlevel for enabled services.
const DEFAULT: &str = "default";

/// The runlevels by service.
struct Runlevels(BTreeMap<String, BTreeSet<String>>);

impl Runlevels {
    fn read(root: &Root) -> Runlevels {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for level in names(root, Path::new(DIRECTORY)) {
            for service in names(root, &Path::new(DIRECTORY).join(&level)) {
                all.entry(service).or_default().insert(level.clone());
            }
        }
        Runlevels(all)
    }

    /// Returns the runlevels of a service.
    fn of(&self, service: &str) -> BTreeSet<String> {
        self.0.get(service).cloned().unwrap_or_default()
    }

    /// Returns the services that are in any runlevel, ordered by name.
    fn services(&self) -> impl Iterator<Item = &str> {
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

    #[test]
    fn names_are_those_of_scripts() {
        for name in ["nginx", "net.eth0", "agetty.tty1", "a_b-c:d@e"] {
            assert_eq!(OpenRc.unit_name(name).unwrap().as_str(), name);
        }
        for odd in ["", "a b", "a/b", "..", "-x", "a@", "ä", "a\n", &"x".repeat(129)] {
            assert!(OpenRc.unit_name(odd).is_err(), "{odd}");
        }
    }
}

#[cfg(test)]
mod runlevels_tests {
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
