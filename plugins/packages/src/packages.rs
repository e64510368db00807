//! Finds the packages that are defined, and those that nothing defines any more.

use crate::base::Base;
use crate::declaration::{Package, Wanted};
use crate::entity::{PackageEntity, Shared};
use crate::provider::{self, Provider};
use crate::transaction;
use holo_plugin::declared::{Declared, apply_together};
use holo_plugin::definitions::{Common, Definitions, values};
use holo_plugin::memory::{Memory, Remembered};
use holo_plugin::{Host, Job, Output, Plugin, ScanError, SetAnswers};
use std::sync::Arc;

/// The plugin.
pub(crate) struct Packages;

type Manager = Result<&'static dyn Provider, String>;

impl Plugin for Packages {
    type Entity = Declared<PackageEntity>;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Self::Entity>, ScanError> {
        let definitions = Definitions::<Package>::read(host, output);
        let memory = Memory::open(host).map_err(|error| {
            output.error(error.to_string());
            ScanError
        })?;
        let orphans = memory.orphans::<Base, _>(&definitions, output);
        let own = own_manager(host);
        let mut found: Vec<(Wanted, Manager, Option<Remembered<Base>>, Common)> = Vec::new();
        for (id, defined) in definitions.valid {
            let manager = match &defined.common.keys.provider {
                Some(name) => named(name),
                None => own.clone(),
            };
            let wanted = defined.definition.wanted(&id, defined.common.keys.timeout);
            found.push((wanted, manager, None, defined.common));
        }
        for orphan in orphans {
            let manager = named(&orphan.base.provider);
            found.push((orphan.base.wanted(&orphan.id), manager, Some(orphan), Common::default()));
        }
        let taken_part = found.iter().filter(|(.., common)| common.skipped.is_none());
        let all = taken_part.filter_map(|(wanted, manager, ..)| Some((wanted.clone(), *manager.as_ref().ok()?)));
        let shared = Arc::new(Shared::new(all.collect()));
        let entity = |(wanted, provider, remembered, common)| {
            Declared::new(PackageEntity { wanted, provider, remembered, shared: Arc::clone(&shared) }, common)
        };
        Ok(found.into_iter().map(entity).collect())
    }

    fn apply_set(&self, host: &Host, set: &[Job<'_, Self::Entity>], answers: &mut dyn SetAnswers) {
        apply_together(host, set, answers, |jobs, answers| transaction::apply(host, jobs, answers));
    }
}

fn named(name: &str) -> Manager {
    let unknown = || values::unknown_provider(name, &provider::PROVIDERS.map(Provider::name));
    provider::named(name).ok_or_else(|| format!("provider: {}", unknown()))
}

/// The package manager of the system; in test mode, the first one stands for one where there is none.
fn own_manager(host: &Host) -> Manager {
    let found = host.system().package_manager().and_then(|manager| provider::named(manager.name));
    let found = found.or_else(|| provider::PROVIDERS.first().copied().filter(|_| host.test_mode()));
    found.ok_or_else(|| "no package manager was found on this system".to_owned())
}
