//! Finds the units that are defined, and those that were.

use crate::apply;
use crate::definition::Service;
use crate::entity::{AllUnits, Unit};
use crate::providers;
use crate::record::Record;
use crate::unit::UnitName;
use holo_plugin::declared::{Declared, apply_together};
use holo_plugin::definitions::{Defined, Definitions, values};
use holo_plugin::memory::Memory;
use holo_plugin::{Host, Job, Output, Plugin, ScanError, SetAnswers};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The plugin.
pub(crate) struct Services;

impl Plugin for Services {
    type Entity = Declared<Unit>;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Declared<Unit>>, ScanError> {
        let mut definitions = Definitions::<Service>::read(host, output);
        let memory = match Memory::open(host) {
            Ok(memory) => memory,
            Err(error) => {
                output.error(error.to_string());
                return Err(ScanError);
            }
        };
        let orphans = memory.orphans::<Record, _>(&definitions, output);
        let defined = usable(std::mem::take(&mut definitions.valid), output);
        let mut names: BTreeMap<String, UnitName> =
            defined.iter().map(|(id, (name, _))| (id.clone(), name.clone())).collect();
        let mut known = Vec::new();
        for orphan in orphans {
            match UnitName::new(&orphan.base.unit) {
                Ok(name) => {
                    names.insert(orphan.id.clone(), name.clone());
                    known.push((name, orphan));
                }
                Err(problem) => output.error(format!("cannot use what is remembered of {}: {problem}", orphan.id)),
            }
        }
        let all = Arc::new(AllUnits::new(names));
        let mut entities = Vec::new();
        for (id, (name, Defined { definition, common })) in defined {
            let wanted = definition.wanted();
            let mut full_report = Unit::report_of(&id, &name, &wanted);
            common.complete(&mut full_report);
            let timeout = common.keys.timeout;
            let unit = Unit { id, name, wanted, timeout, full_report, all: all.clone() };
            entities.push(Declared::new(unit, common));
        }
        for (name, orphan) in known {
            let (wanted, full_report) = (orphan.base.restored(), orphan.orphan_report());
            let unit = Unit { id: orphan.id, name, wanted, timeout: None, full_report, all: all.clone() };
            entities.push(Declared::orphan(unit));
        }
        Ok(entities)
    }

    fn apply_set(&self, host: &Host, set: &[Job<'_, Declared<Unit>>], answers: &mut dyn SetAnswers) {
        apply_together(host, set, answers, |jobs, answers| apply::apply(host, jobs, answers));
    }
}

/// The definitions that go together; what is wrong is said.
fn usable(
    valid: BTreeMap<String, Defined<Service>>,
    output: &mut Output<'_>,
) -> BTreeMap<String, (UnitName, Defined<Service>)> {
    let mut usable = BTreeMap::new();
    let mut owners: BTreeMap<UnitName, String> = BTreeMap::new();
    for (id, defined) in valid {
        // It has been looked at when the definition was.
        let Ok(name) = UnitName::new(&defined.definition.name) else { continue };
        let place = &defined.common.place;
        if let Some(provider) = defined.common.keys.provider.as_deref().filter(|name| !providers::NAMES.contains(name))
        {
            let problem = values::unknown_provider(provider, &providers::NAMES);
            output.error(format!("{place}: {id}: provider: {problem}"));
            continue;
        }
        if let Some(first) = owners.get(&name) {
            output.error(format!("{place}: {id}: name: {name} is {first} already"));
            continue;
        }
        owners.insert(name.clone(), id.clone());
        usable.insert(id, (name, defined));
    }
    usable
}
