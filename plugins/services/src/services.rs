//! Finds the defined units and orphans, watches them, and carries out the operations that the dispatcher requests.

use crate::adoption::{self, UnitStates};
use crate::entity::{AllUnits, EntityRecords, FilesStep, Service, Unit, main_name, name_of, things};
use crate::plan::{Ensure, Wanted};
use crate::providers::{self, FOLDER, ServiceProvider, UnitEvent};
use crate::record::Record;
use crate::unit::{UnitName, UnitNameError};
use crate::{apply, definition};
use bstr::BString;
use holo_change::base_store::{BaseStore, Legacy, Orphan, Records, Remembered};
use holo_change::claims;
use holo_plugin::declared::{Declared, apply_together};
use holo_plugin::definitions::{self, Defined};
use holo_plugin::system::Root;
use holo_plugin::{
    API_VERSION_4, Adopted, Adoption, Applied, Asset, Candidate, Diagnosis, Entity, EntityReport, FilePair,
    ForgetError, Host, Job, Level, Mode, Output, Plugin, ScanError, SetAnswers, Silence, Touched, Verdict, WatchLine,
    apply_one, missing_programs, process,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// The plugin.
#[derive(Default)]
pub(crate) struct Services {
    known: UnitStates,
}

impl Plugin for Services {
    type Entity = Declared<Service>;

    const INTERFERES: bool = true;

    const READS: &'static [&'static str] = &["*.toml", "*.toml.jinja"];

    const ADOPTS: bool = true;
    const WATCHES: bool = true;

    const SENDS: &'static [&'static str] = &["service#pid"];

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Declared<Service>>, ScanError> {
        let mut definitions = definitions::read::<definition::Service>(host, output);
        let memory = BaseStore::open(host.locations());
        let root = Root::new(host.root());
        let provider = providers::for_host(host);
        let name_of = |record: &Record| name_of(provider, &root, record);
        let mut names: BTreeMap<String, UnitName> = BTreeMap::new();
        for (id, defined) in &definitions.valid {
            // Validated with the definition.
            if let Ok(given) = given_name(provider, &defined.definition) {
                names.insert(id.clone(), provider.main_name(&root, &given));
            }
        }
        let living = names.iter().map(|(id, name)| (id.clone(), name.qualified())).collect();
        let is_orphan = |id: &str| definitions.is_orphan(id);
        let records = memory.records::<Record>(&living, &things(&name_of), is_orphan, output);
        let Records { mut legacies, orphans } = records.unwrap_or_else(|error| {
            output.error(error.to_string());
            Records::default()
        });
        let defined = usable(std::mem::take(&mut definitions.valid), &names, host, output);
        names.retain(|id, _| defined.contains_key(id));
        let mut known = Vec::new();
        for orphan in orphans {
            let Remembered { id, base, .. } = &orphan.remembered;
            match main_name(provider, &root, base) {
                Ok(name) => {
                    names.insert(id.clone(), name.clone());
                    known.push((name, orphan));
                }
                Err(problem) => output.error(format!("cannot use the stored state of {id}: {problem}")),
            }
        }
        let bases = |legacy: &Legacy<Record>| legacy.base().cloned().unwrap_or_default();
        let mut elsewhere: BTreeMap<String, Record> =
            legacies.iter().map(|(id, legacy)| (id.clone(), bases(legacy))).collect();
        elsewhere.extend(
            known.iter().map(|(_, Orphan { remembered, .. })| (remembered.id.clone(), remembered.base.clone())),
        );
        let mut wanted: BTreeMap<String, Wanted> =
            defined.iter().map(|(id, defined)| (id.clone(), defined.definition.wanted())).collect();
        let restored =
            |(_, Orphan { remembered, .. }): &(_, Orphan<Record>)| (remembered.id.clone(), remembered.base.restored());
        wanted.extend(known.iter().map(restored));
        let is_stopped = |id: &String| {
            wanted.get(id).is_some_and(|wanted| !wanted.restores && wanted.ensure == Some(Ensure::Stopped))
        };
        let stopped = names.iter().filter(|(id, name)| is_stopped(id) && name.scope().is_system());
        let stopped = stopped.map(|(_, name)| name.as_str()).collect();
        if let Err(error) = claims::publish_stopped(host.locations(), &stopped) {
            output.warning(error.to_string());
        }
        let all = Arc::new(AllUnits::new(provider, Root::new(host.root()), names.clone(), wanted, elsewhere));
        let mut entities = Vec::new();
        if let Some(id) = provider.reading_files(host).filter(|_| host.api_version() >= API_VERSION_4) {
            entities.push(Declared::orphan(Service::Files(FilesStep { id, all: Arc::clone(&all) })));
        }
        for (id, defined) in defined {
            let Defined { definition, common } = *defined;
            let (Some(name), Ok(given)) = (names.get(&id).cloned(), given_name(provider, &definition)) else {
                continue;
            };
            let wanted = definition.wanted();
            let mut full_report = Unit::report_of(&all, &id, &name, &given, &wanted);
            definitions::complete(&common, &mut full_report);
            // The record contains them.
            full_report.edges.owns.clear();
            let records = EntityRecords::Living(legacies.remove(&id).unwrap_or_default());
            let timeout = common.keys.timeout;
            let unit = Unit { id, name, given, wanted, timeout, full_report, records, all: all.clone() };
            entities.push(Declared::new(Service::Unit(Box::new(unit)), common));
        }
        for (name, orphan) in known {
            let Remembered { id, base, .. } = &orphan.remembered;
            let mut full_report = orphan.remembered.orphan_report();
            full_report.edges.owns = [Asset::new("unit", name.qualified())].into();
            // The unit may have got its files after the last apply of the service.
            let needs = &mut full_report.edges.needs;
            let new: Vec<Asset> =
                all.accounts_of(id).iter().filter(|account| !needs.contains(account)).cloned().collect();
            needs.extend(new);
            let (id, wanted, given) = (id.clone(), base.restored(), name.clone());
            let records = EntityRecords::Orphan(Box::new(orphan));
            let unit = Unit { id, name, given, wanted, timeout: None, full_report, records, all: all.clone() };
            entities.push(Declared::orphan(Service::Unit(Box::new(unit))));
        }
        Ok(entities)
    }

    fn doctor(&self, host: &Host, _: &mut Output<'_>) -> Vec<Diagnosis> {
        let provider = providers::for_host(host);
        // Without a running manager, no files are cached.
        if provider.reading_files(host).is_none() {
            return Vec::new();
        }
        let missing = missing_programs(host, provider.programs(), "service management");
        if let Some(missing) = missing {
            return vec![missing];
        }
        vec![match provider.manager(host).unread_files() {
            Ok(files) => files_diagnosis(provider, &files),
            Err(error) => {
                Diagnosis::new(Level::Warning, format!("it cannot be told if files of units were read: {error}"), "")
            }
        }]
    }

    fn watch(&self, host: &Host, output: &mut Output<'_>, tell: &mut dyn FnMut(&WatchLine) -> bool) -> bool {
        let Ok(entities) = self.scan(host, &mut Output::new(&mut Silence)) else { return false };
        watch(host, &entities, output, tell)
    }

    fn apply_set(&self, host: &Host, set: &[Job<'_, Declared<Service>>], answers: &mut dyn SetAnswers) {
        self.known.forget();
        apply_together(host, set, answers, |jobs, answers| apply::apply(host, jobs, answers));
    }

    fn candidates(&self, host: &Host, _: &[PathBuf], output: &mut Output<'_>) -> Result<Vec<Candidate>, ScanError> {
        // Without a manager's programs, there are no units.
        if providers::for_host(host).programs().iter().any(|program| process::find(program).is_none()) {
            return Ok(Vec::new());
        }
        let entities = self.scan(host, &mut Output::new(&mut Silence))?;
        let name = |declared: &Declared<Service>| match &declared.entity {
            Service::Unit(unit) if !unit.is_orphan() => Some(unit.name.clone()),
            Service::Unit(_) | Service::Files(_) => None,
        };
        let defined = entities.iter().filter_map(name).collect();
        adoption::candidates(host, &self.known, &defined).map_err(|error| {
            output.error(error.to_string());
            ScanError
        })
    }

    fn adopt(&self, host: &Host, adoption: Adoption<'_>, output: &mut Output<'_>) -> Adopted {
        let entity = self.find(host, adoption.id, &mut Output::new(&mut Silence)).ok().flatten();
        let defined = entity.and_then(|entity| Adopted::defined_already(&entity, host, output));
        defined.unwrap_or_else(|| adoption::adopt(host, &self.known, adoption, output))
    }
}

/// Returns the name of the unit in a definition.
fn given_name(provider: &dyn ServiceProvider, definition: &definition::Service) -> Result<UnitName, UnitNameError> {
    Ok(provider.unit_name(&definition.name)?.in_scope(definition.scope()))
}

/// Returns the definitions without conflicts; errors are reported.
fn usable(
    valid: BTreeMap<String, Box<Defined<definition::Service>>>,
    names: &BTreeMap<String, UnitName>,
    host: &Host,
    output: &mut Output<'_>,
) -> BTreeMap<String, Box<Defined<definition::Service>>> {
    let provider = providers::for_host(host);
    let mut usable = BTreeMap::new();
    let mut owners: BTreeMap<&UnitName, Vec<&str>> = BTreeMap::new();
    for (id, name) in names {
        owners.entry(name).or_default().push(id);
    }
    for (id, defined) in valid {
        let location = &defined.common.location;
        if let Some(error) = unsupported(provider, &defined) {
            output.error(format!("{location}: {id}: {error}"));
            continue;
        }
        let name = names.get(&id);
        let namesakes = name.and_then(|name| owners.get(name)).map_or(&[][..], Vec::as_slice);
        // A dispatcher that supports owners reports this itself, and leaves out both.
        let other = namesakes.iter().find(|other| **other != id && host.api_version() < API_VERSION_4);
        if let (Some(other), Some(name)) = (other, name) {
            output.error(format!("{location}: {id}: name: {name} is what {other} is already"));
            continue;
        }
        usable.insert(id, defined);
    }
    usable
}

/// Returns the reason why the service manager of this host does not support a definition.
fn unsupported(provider: &dyn ServiceProvider, defined: &Defined<definition::Service>) -> Option<String> {
    let definition = &defined.definition;
    if let Some(name) = defined.common.keys.provider.as_deref() {
        match providers::ALL.named(name) {
            Ok(named) if named.name() != provider.name() => {
                return Some(format!("provider: the services of this host are managed by {}", provider.name()));
            }
            Ok(_) => {}
            Err(error) => return Some(format!("provider: {error}")),
        }
    }
    if let Err(error) = provider.unit_name(&definition.name) {
        return Some(format!("name: {error}"));
    }
    provider.unsupported(&definition.scope(), &definition.wanted()).map(|(key, why)| format!("{key}: {why}"))
}

/// The maximum number of files named.
const NAMED: usize = 5;

/// Returns the diagnosis about unit files that have changed since they were loaded.
fn files_diagnosis(provider: &dyn ServiceProvider, files: &BTreeSet<String>) -> Diagnosis {
    let named: Vec<&str> = files.iter().map(String::as_str).filter(|file| *file != FOLDER).collect();
    if files.is_empty() {
        return Diagnosis::new(Level::Ok, format!("{} has read all files of units", provider.name()), "");
    }
    let more = named.len().saturating_sub(NAMED);
    let shown = named.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let what = match (named.len(), more) {
        (0, _) => "a directory of units has changed".to_owned(),
        (_, 0) => format!("these files of units have changed: {shown}"),
        (_, more) => format!("these files of units have changed: {shown} and {more} more"),
    };
    let title = format!("{what} since {} read them", provider.name());
    Diagnosis::new(Level::Warning, title, provider.how_to_read_files())
}

/// Reports events of these entities' units until the output is closed. Returns false on an error.
pub(crate) fn watch(
    host: &Host,
    entities: &[Declared<Service>],
    output: &mut Output<'_>,
    tell: &mut dyn FnMut(&WatchLine) -> bool,
) -> bool {
    let mut ids: HashMap<&str, Vec<&str>> = HashMap::new();
    for declared in entities {
        // Only the system manager's events are received.
        if let Service::Unit(unit) = &declared.entity
            && unit.name.scope().is_system()
        {
            ids.entry(unit.name.as_str()).or_default().push(&unit.id);
        }
    }
    let touched = |id: &str, words: &str| WatchLine::Touched(Touched { id: id.into(), reason: words.into() });
    let listened = providers::for_host(host).listen(host, &mut |event| match event {
        UnitEvent::Listening => tell(&WatchLine::Listening),
        UnitEvent::State { unit, words } => ids.get(unit).into_iter().flatten().all(|id| tell(&touched(id, words))),
        UnitEvent::Any { words } => ids.values().flatten().all(|id| tell(&touched(id, words))),
    });
    listened.map_err(|error| output.error(error.to_string())).is_ok()
}

impl Entity for Service {
    fn report(&self) -> EntityReport {
        match self {
            Service::Unit(unit) => unit.report(),
            Service::Files(FilesStep { id, .. }) => {
                let mut report = EntityReport::new(*id);
                report.edges.unlisted = true;
                report
            }
        }
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        apply_one(self, mode, output, |set, answers| apply::apply(host, set, answers))
    }

    fn forget(&self, host: &Host, _: &mut Output<'_>) -> Result<(), ForgetError> {
        let Service::Unit(unit) = self else { return Err("it has no record".into()) };
        let EntityRecords::Orphan(orphan) = &unit.records else { return Err("it is defined".into()) };
        let (provider, root) = (unit.all.provider, Root::new(host.root()));
        let name = |record: &Record| name_of(provider, &root, record);
        Ok(BaseStore::open(host.locations()).forget_orphans([&**orphan], &things(&name))?)
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        match self {
            Service::Unit(unit) => unit.check(host, mode, output),
            Service::Files(FilesStep { all, .. }) => match all.changes_of_others(host) {
                Ok(names) if names.is_empty() => Verdict::InDesiredState,
                Ok(names) => Verdict::WouldChange(vec![format!("would {}", apply::journal::words_for(&names))]),
                Err(error) => {
                    output.error(error.to_string());
                    Verdict::Failed
                }
            },
        }
    }

    fn send(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        if let Service::Unit(unit) = self
            && unit.wanted.ensure != Some(Ensure::Stopped)
            && names.iter().any(|name| name == "pid")
            && let Some(pid) = unit.all.provider.manager(host).main_pid(&unit.name)
        {
            output.send("pid", pid.to_string());
        }
    }

    fn diff(&self, _: &Host) -> Option<FilePair> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_not_read_are_named() {
        let diagnosis = |files: &[&str]| {
            let files = files.iter().map(|&file| file.to_owned()).collect();
            files_diagnosis(providers::ALL.first().unwrap(), &files).to_line().to_string()
        };
        assert_eq!(diagnosis(&[]), "ok\tsystemd has read all files of units\t\n");
        let read = " since systemd read them\tsystemctl daemon-reload\n";
        assert_eq!(diagnosis(&[FOLDER]), format!("warning\ta directory of units has changed{read}"));
        let six = ["a", "b", "c", "d", "e", "f"];
        let words = "warning\tthese files of units have changed: ";
        assert_eq!(diagnosis(&six[..2]), format!("{words}a, b{read}"));
        assert_eq!(diagnosis(&six), format!("{words}a, b, c, d, e and 1 more{read}"));
    }
}
