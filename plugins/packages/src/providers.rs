//! The package managers, one module for each.

mod apk;
mod apt;
mod dnf;
mod pacman;
mod rpm_database;
mod rpm_repository;
mod zypper;

use crate::provider::PackageProvider;
use holo_plugin::Host;
use holo_plugin::provider::Providers;

/// All package managers. The first one is the default.
pub(crate) static ALL: Providers<dyn PackageProvider> =
    Providers::new(&[&apt::Apt, &dnf::Dnf, &zypper::Zypper, &pacman::Pacman, &apk::Apk]);

/// Returns the package manager of the system. In test mode, the first one is mocked if there is none.
pub(crate) fn for_host(host: &Host) -> Option<&'static dyn PackageProvider> {
    ALL.best(host).or_else(|| ALL.first().filter(|_| host.test_mode()))
}
