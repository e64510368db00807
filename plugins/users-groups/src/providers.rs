//! The tools that manage users and groups, one module for each provider.

mod shadow;

pub(crate) use shadow::Shadow;

use crate::provider::AccountProvider;
use holo_plugin::Host;
use holo_plugin::provider::Providers;

/// All providers.
static ALL: Providers<dyn AccountProvider> = Providers::new(&[&Shadow]);

/// Returns the provider for a host.
pub(crate) fn for_host(host: &Host) -> &'static dyn AccountProvider {
    ALL.best(host).unwrap_or(&Shadow)
}
