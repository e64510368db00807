//! The tools that manage users and groups, a file each kind.

mod shadow;

pub(crate) use shadow::Shadow;

use crate::provider::AccountProvider;
use holo_plugin::Host;
use holo_plugin::provider::Providers;

/// All of them.
static ALL: Providers<dyn AccountProvider> = Providers::new(&[&Shadow]);

/// Returns those of a host.
pub(crate) fn for_host(host: &Host) -> &'static dyn AccountProvider {
    ALL.best(host).unwrap_or(&Shadow)
}
