//! OpenRC services, managed with its own tools.

mod live;
mod mocked;
mod runlevels;
mod status;

use crate::notice::{Notice, Noticed};
use crate::plan::Wanted;
use crate::provider::{Links, Manager, ManagerError, ServiceProvider, UnitEvent};
use crate::scope::Scope;
use crate::unit::{UnitName, UnitNameError};
use holo_plugin::provider::Provider;
use holo_plugin::system::{self, Root};
use holo_plugin::{Asset, Edges, Host};
use std::io;
use std::path::Path;

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
        let enabled = runlevels::Runlevels::read(&Root::new(host.root()));
        let names = enabled.services().filter_map(|name| self.unit_name(name).ok());
        Ok(names.map(noticed).collect())
    }

    fn manager(&self, host: &Host) -> Box<dyn Manager> {
        let root = Root::new(host.root());
        if host.test_mode() {
            return Box::new(mocked::Mocked { root });
        }
        Box::new(live::Live { root, runs: system::is_run_by_openrc() })
    }
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
