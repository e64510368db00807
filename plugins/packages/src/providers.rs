//! The package managers, a file each.

pub(crate) mod apk;
pub(crate) mod apt;
pub(crate) mod dnf;
pub(crate) mod pacman;
mod rpm_database;
pub(crate) mod zypper;
