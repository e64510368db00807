//! The kinds of service managers, one per file.

mod openrc;
mod systemd;

use crate::provider::ServiceProvider;
use crate::unit::UnitNameError;
use holo_plugin::Host;
use holo_plugin::provider::Providers;

/// All kinds of service managers.
pub(crate) static ALL: Providers<dyn ServiceProvider> = Providers::new(&[&systemd::Systemd, &openrc::OpenRc]);

/// Returns the one for a host.
pub(crate) fn for_host(host: &Host) -> &'static dyn ServiceProvider {
    ALL.best(host).unwrap_or(&systemd::Systemd)
}

/// Checks that a unit name is valid.
///
/// # Errors
/// If it is invalid for all service managers.
pub(crate) fn check_name(name: &str) -> Result<(), UnitNameError> {
    let mut complaint = Ok(());
    for result in ALL.iter().map(|provider| provider.unit_name(name)) {
        match result {
            Ok(_) => return Ok(()),
            Err(error) => complaint = complaint.and(Err(error)),
        }
    }
    complaint
}
