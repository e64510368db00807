//! systemd units, managed with its own tool.

mod adoption;
mod directories;
mod files;
mod install;
mod lists;
mod live;
mod managers;
mod names;
mod offline;
mod preset;
mod show;
mod signals;
mod tool;
mod words;

use crate::notice::Noticed;
use crate::plan::Wanted;
use crate::provider::{Links, Manager, ManagerError, ServiceProvider, UnitEvent};
use crate::scope::Scope;
use crate::unit::{UnitName, UnitNameError};
use holo_plugin::provider::Provider;
use holo_plugin::system::{self, Root};
use holo_plugin::{Asset, Edges, Host};
use std::io;

/// The name in definitions and messages.
const NAME: &str = "systemd";

/// systemd.
pub(crate) struct Systemd;

impl Provider for Systemd {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Used wherever units can be enabled by files, even if it does not run.
    fn rank(&self, _: &Host) -> Option<u8> {
        Some(1)
    }
}

impl ServiceProvider for Systemd {
    fn has_users(&self) -> bool {
        true
    }

    fn unit_name(&self, name: &str) -> Result<UnitName, UnitNameError> {
        names::complete(name)
    }

    fn short_name<'a>(&self, name: &'a UnitName) -> &'a str {
        name.as_str().strip_suffix(".service").unwrap_or(name.as_str())
    }

    fn main_name(&self, root: &Root, name: &UnitName) -> UnitName {
        files::main_name(root, name)
    }

    fn also(&self, root: &Root, name: &UnitName) -> Vec<UnitName> {
        install::also(root, name)
    }

    fn links(&self, root: &Root, name: &UnitName) -> Links {
        install::links(root, name)
    }

    fn relink(&self, root: &Root, name: &UnitName, links: &Links) -> io::Result<bool> {
        install::relink(root, name, links)
    }

    fn file_names(&self, name: &UnitName) -> Vec<String> {
        if !name.scope().is_system() {
            return Vec::new();
        }
        names::files(name).into_iter().flat_map(|file| [format!("{file}.d"), file]).collect()
    }

    fn unsupported(&self, _: &Scope, wanted: &Wanted) -> Option<(&'static str, &'static str)> {
        (!wanted.runlevels.is_empty()).then_some(("runlevels", "systemd has none"))
    }

    fn add_edges(&self, root: &Root, name: &UnitName, given: &UnitName, edges: &mut Edges) {
        let mut need = |kind: &str, value: &str| edges.needs.push(Asset::new(kind, value));
        // Packages often have the names of their units.
        need("package", names::stem(name));
        if let Some(user) = name.scope().user() {
            need("user", user);
        }
        let mut files = names::files(name);
        files.extend(names::files(given).into_iter().filter(|file| !names::files(name).contains(file)));
        let (directories, of_packages) = directories::of_people(root, name.scope());
        for (directory, file) in
            directories.iter().flat_map(|directory| files.iter().map(move |file| (directory, file)))
        {
            let path = format!("{}/{file}", directory.display());
            need("path", &path);
            need("path", &format!("{path}.d"));
            edges.watch.extend([path.as_str().into(), format!("{path}.d/").into()]);
        }
        edges.watch.push(format!("{of_packages}/{}", names::files(name).pop().unwrap_or_default()).into());
    }

    fn listen(&self, host: &Host, hear: &mut dyn FnMut(UnitEvent<'_>) -> bool) -> Result<(), ManagerError> {
        while !is_live(host) {
            // Changes of files are detected by watching their paths.
            std::thread::park();
        }
        signals::listen(hear)
    }

    fn programs(&self) -> &'static [&'static str] {
        &["systemctl"]
    }

    fn how_to_read_files(&self) -> &'static str {
        "systemctl daemon-reload"
    }

    fn reading_files(&self, host: &Host) -> Option<&'static str> {
        is_live(host).then_some("systemd:unit-files")
    }

    fn noticed(&self, host: &Host) -> Result<Vec<Noticed>, ManagerError> {
        adoption::noticed(host.root(), is_live(host))
    }

    /// Returns systemd for the system or a user if it runs; otherwise a manager that only changes files.
    fn manager(&self, host: &Host) -> Box<dyn Manager> {
        Box::new(managers::Managers::new(host, is_live(host)))
    }
}

/// Returns true if systemd runs and manages the units of this host.
fn is_live(host: &Host) -> bool {
    !host.test_mode() && system::is_run_by_systemd()
}
