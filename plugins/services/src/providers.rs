//! The kinds of service managers, a file each.

mod openrc;
mod systemd;

use crate::provider::ServiceProvider;
use crate::unit::UnitNameError;
use holo_plugin::Host;
use holo_plugin::provider::Providers;

/// All of them.
pub(crate) static ALL: Providers<dyn ServiceProvider> = Providers::new(&[&systemd::Systemd, &openrc::OpenRc]);

/// Returns the one of a host.
pub(crate) fn for_host(host: &Host) -> &'static dyn ServiceProvider {
    ALL.best(host).unwrap_or(&systemd::Systemd)
}

/// Checks that a unit can have this name.
///
/// # Errors
/// If none of them would take it.
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
