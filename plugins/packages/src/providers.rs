//! The package managers, a file each.

mod apk;
mod apt;
mod dnf;
mod pacman;
mod rpm_database;
mod zypper;

use crate::provider::PackageProvider;
use holo_plugin::provider::Providers;

/// All package managers; where nothing else decides, the first.
pub(crate) static ALL: Providers<dyn PackageProvider> =
    Providers::new(&[&apt::Apt, &dnf::Dnf, &zypper::Zypper, &pacman::Pacman, &apk::Apk]);
