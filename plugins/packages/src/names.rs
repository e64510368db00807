//! The unique name of each package, however definitions refer to it.

use crate::declaration::Package;
use crate::model::Key;
use crate::providers::{self, PackageProvider};
use crate::records::Base;
use holo_change::base_store::Things;
use holo_plugin::Host;
use holo_plugin::definitions::Definition;
use holo_plugin::system::Root;
use std::collections::BTreeMap;

/// Computes the unique names of packages.
pub(crate) struct FullNames {
    native: BTreeMap<&'static str, Option<String>>,
}

impl FullNames {
    pub(crate) fn new(host: &Host) -> FullNames {
        let root = Root::new(host.root());
        let native = |provider: &dyn PackageProvider| (provider.name(), provider.native_arch(&root));
        FullNames { native: providers::ALL.iter().map(native).collect() }
    }

    pub(crate) fn name(&self, key: &Key, provider: Option<&dyn PackageProvider>) -> String {
        let native = provider.and_then(|provider| self.native.get(provider.name()));
        key.full_name(native.and_then(Option::as_deref))
    }

    pub(crate) fn name_of_base(&self, base: &Base) -> String {
        self.name(&base.key(), providers::ALL.named(&base.provider).ok())
    }
}

/// Returns how bases are matched to packages.
pub(crate) fn things<'a>(name_of: &'a dyn Fn(&Base) -> String) -> Things<'a, Base> {
    Things { entity_type: Package::TABLE, name_of }
}
