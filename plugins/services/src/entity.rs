//! Units as entities, with their states and unique names.

use crate::plan::{Circumstances, Ensure, Step, Wanted, plan};
use crate::providers::{FOLDER, Manager, ManagerError, Relation, Relations, ServiceProvider, Subject};
use crate::record::Record;
use crate::state::{Aspects, UnitState};
use crate::unit::{UnitName, UnitNameError};
use holo_change::base_store::{BaseStore, Legacy, Orphan, Things};
use holo_plugin::definitions::Definition;
use holo_plugin::system::Root;
use holo_plugin::{Asset, EntityReport, Host, Mode, Output, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time for which the states found by a check, or used by it, may be reused for the next one: no changes are made
/// between checks of consecutive units, regardless of their number and duration.
const FRESH: Duration = Duration::from_secs(1);

/// An entity of this plugin.
#[derive(Debug)]
pub(crate) enum Service {
    /// The step that reloads the files of all units if they have changed. It comes after all units, as files may be
    /// removed when they are no longer used.
    Files(FilesStep),
    Unit(Box<Unit>),
}

/// The step that reloads files.
#[derive(Debug)]
pub(crate) struct FilesStep {
    pub(crate) id: &'static str,
    pub(crate) all: Arc<AllUnits>,
}

/// A defined unit or an orphan.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) id: String,
    /// Its main name.
    pub(crate) name: UnitName,
    /// The name in its definition, which may be an alias.
    pub(crate) given: UnitName,
    pub(crate) records: EntityRecords,
    pub(crate) wanted: Wanted,
    /// The timeout for one attempt.
    pub(crate) timeout: Option<Duration>,
    /// The report with all edges, including those that its definition declares.
    pub(crate) full_report: EntityReport,
    /// All units, which are queried together.
    pub(crate) all: Arc<AllUnits>,
}

/// The records of a unit.
#[derive(Debug)]
pub(crate) enum EntityRecords {
    /// It is defined, and may have records under other names.
    Living(Legacy<Record>),
    /// It is an orphan.
    Orphan(Box<Orphan<Record>>),
}

/// All managed units and their states.
pub(crate) struct AllUnits {
    pub(crate) provider: &'static dyn ServiceProvider,
    root: Root,
    pub(crate) names: BTreeMap<String, UnitName>,
    /// The users and groups as which each unit runs.
    accounts: BTreeMap<String, Vec<Asset>>,
    /// The desired state of each unit.
    wanted: BTreeMap<String, Wanted>,
    /// Records of units that are not stored under their current IDs yet.
    elsewhere: BTreeMap<String, Record>,
    found: Mutex<Option<CachedStates>>,
    /// The names of files that belong to none of the units, and were reloaded without having been reported.
    read: Mutex<BTreeSet<String>>,
}

impl std::fmt::Debug for AllUnits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AllUnits").field("names", &self.names).finish_non_exhaustive()
    }
}

type States = BTreeMap<String, Result<UnitState, ManagerError>>;

/// What a check has found out about all units.
#[derive(Debug)]
struct Looked {
    states: States,
    /// The names of files that have changed since they were loaded.
    changes: BTreeSet<String>,
    /// The relations of the units that an apply would start or stop.
    relations: Relations,
}

#[derive(Debug)]
struct CachedStates {
    last_used: Instant,
    looked: Result<Looked, ManagerError>,
}

impl AllUnits {
    pub(crate) fn new(
        provider: &'static dyn ServiceProvider,
        root: Root,
        names: BTreeMap<String, UnitName>,
        wanted: BTreeMap<String, Wanted>,
        elsewhere: BTreeMap<String, Record>,
    ) -> AllUnits {
        let accounts = provider.accounts(&root, &names);
        let (found, read) = Default::default();
        AllUnits { provider, root, names, accounts, wanted, elsewhere, found, read }
    }

    /// Returns the users and groups as which a unit runs. They have to exist as long as it runs.
    pub(crate) fn accounts_of(&self, id: &str) -> &[Asset] {
        self.accounts.get(id).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns whether a unit must be enabled according to its definition; `None` if it does not specify it.
    pub(crate) fn shall_be_enabled(&self, unit: &UnitName) -> Option<bool> {
        let mut wanted = self.names.iter().filter(|(_, name)| *name == unit).filter_map(|(id, _)| self.wanted.get(id));
        wanted.find(|wanted| !wanted.restores)?.enable
    }

    /// Clears the cached states before a change.
    pub(crate) fn forget_states(&self) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn state(&self, host: &Host, id: &str) -> Result<UnitState, ManagerError> {
        let state = self.find(host, |looked| looked.states.get(id).cloned())?;
        state.unwrap_or_else(|| Ok(UnitState::default()))
    }

    /// Records reloaded files that belong to none of the units.
    pub(crate) fn note_read(&self, names: BTreeSet<String>) {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
    }

    /// Returns the reloaded files, so that they are reported once.
    pub(crate) fn take_read(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.read.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the relations of units that are about to be started or stopped, if there are other units.
    pub(crate) fn relations(&self, manager: &dyn Manager, acting: &[&UnitName]) -> Relations {
        if acting.is_empty() || self.names.len() == 1 { Relations::new() } else { manager.relations(acting) }
    }

    /// Returns the contradictions between these steps for a unit and the definitions of others, worded like the problems of a plan. Steps
    /// that only change files affect no other unit.
    pub(crate) fn contradictions(&self, relations: &Relations, unit: &UnitName, steps: &[Step]) -> Vec<String> {
        let Some(relations) = relations.get(&unit.qualified()).filter(|_| affects_others(steps)) else {
            return Vec::new();
        };
        let starts = steps.iter().any(|step| step.starts());
        let others = self.names.iter().filter(|(_, name)| name.scope() == unit.scope() && *name != unit);
        let contradicts = |(id, name): (&String, &UnitName)| {
            let wanted = self.wanted.get(id).filter(|wanted| !wanted.restores)?;
            let is_related = |relation| relations.contains(&(relation, name.as_str().to_owned()));
            let words = match wanted.ensure? {
                Ensure::Running if starts && is_related(Relation::Conflicts) => "conflicts with",
                Ensure::Stopped if starts && is_related(Relation::Requires) => "requires",
                Ensure::Running if !starts && is_related(Relation::RequiredBy) => "is required by",
                Ensure::Running if !starts && is_related(Relation::HasPart) => "has the part",
                _ => return None,
            };
            let must = if wanted.ensure == Some(Ensure::Running) { "run" } else { "be stopped" };
            Some(format!("{unit} {words} {name}, which must {must} according to {id}"))
        };
        others.filter_map(contradicts).collect()
    }

    /// Returns the changed files that belong to none of the units.
    pub(crate) fn changes_of_others(&self, host: &Host) -> Result<BTreeSet<String>, ManagerError> {
        let mut names = self.find(host, |looked| looked.changes.clone())?;
        names.remove(FOLDER);
        for own in self.names.values().flat_map(|name| self.provider.file_names(name)) {
            names.remove(&own);
        }
        Ok(names)
    }

    /// Returns a part of the cached states, which are queried if necessary.
    fn find<T>(&self, host: &Host, pick: impl Fn(&Looked) -> T) -> Result<T, ManagerError> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let looked = match found.take().filter(|found| found.last_used.elapsed() <= FRESH) {
            Some(fresh) => fresh.looked,
            None => self.look(host),
        };
        let picked = looked.as_ref().map(pick).map_err(Clone::clone);
        *found = Some(CachedStates { last_used: Instant::now(), looked });
        picked
    }

    fn look(&self, host: &Host) -> Result<Looked, ManagerError> {
        let memory = BaseStore::open(host.locations());
        let mut records = Vec::new();
        let mut problems = BTreeMap::new();
        for id in self.names.keys() {
            if let Some(record) = self.elsewhere.get(id) {
                records.push(record.clone());
                continue;
            }
            let record = memory.recall::<Record>(id).unwrap_or_else(|error| {
                problems.insert(id.clone(), Err(error.into()));
                None
            });
            records.push(record.map(|remembered| remembered.base).unwrap_or_default());
        }
        let subject = |((id, unit), record)| {
            // The unit will not be started, which would reveal errors in its files.
            let aspects = Aspects {
                loading: true,
                ..self.wanted.get(id).map(|wanted| wanted.aspects(false)).unwrap_or_default()
            };
            Subject { unit, record, aspects }
        };
        let subjects: Vec<Subject<'_>> = self.names.iter().zip(&records).map(subject).collect();
        let manager = self.provider.manager(host);
        let changes = manager.unread_files()?;
        let states = manager.states(&subjects)?;
        let outdated = |(name, state): (&UnitName, Result<UnitState, ManagerError>)| {
            let is_outdated = self.provider.file_names(name).iter().any(|file| changes.contains(file));
            state.map(|state| UnitState { is_outdated: state.is_outdated || is_outdated, ..state })
        };
        let states = self.names.values().zip(states).map(outdated);
        let mut states: States = self.names.keys().cloned().zip(states).collect();
        states.extend(problems);
        let acts = |(id, name): &(&String, &UnitName)| {
            let (Some(Ok(state)), Some(wanted)) = (states.get(*id), self.wanted.get(*id)) else { return false };
            let plan = plan(name, wanted, state, Circumstances::default());
            !wanted.restores && plan.problems.is_empty() && affects_others(&plan.steps)
        };
        let acting: Vec<&UnitName> = self.names.iter().filter(acts).map(|(_, name)| name).collect();
        let relations = self.relations(&*manager, &acting);
        Ok(Looked { states, changes, relations })
    }
}

impl Unit {
    /// Returns the part of a unit's report that is specific to this plugin.
    pub(crate) fn report_of(
        all: &AllUnits,
        id: &str,
        name: &UnitName,
        given: &UnitName,
        wanted: &Wanted,
    ) -> EntityReport {
        let mut report = EntityReport::new(id);
        let mut words = vec![match wanted.ensure {
            Some(Ensure::Running) => "running",
            Some(Ensure::Stopped) => "stopped",
            None => "unmanaged",
        }];
        words.extend(wanted.enable.map(|enabled| if enabled { "enabled" } else { "disabled" }));
        words.extend(wanted.mask.map(|masked| if masked { "masked" } else { "not masked" }));
        report.inform("unit", format!("{name} ({})", words.join(", ")));
        let edges = &mut report.edges;
        let unit = name.qualified();
        edges.needs.push(asset("unit", &unit));
        all.provider.add_edges(&all.root, name, given, edges);
        // It needs the unit itself, and provides the declared service.
        edges.provides.push(asset("service", &unit));
        edges.owns.push(asset("unit", &unit));
        if wanted.mask == Some(true) {
            // A package would start it when it is installed.
            edges.needs.retain(|asset| asset.kind != "package");
            edges.before.push("package:*".into());
        } else {
            edges.needs.extend_from_slice(all.accounts_of(id));
        }
        report
    }

    /// Returns the names of the files and directories that affect it.
    pub(crate) fn file_names(&self) -> BTreeSet<String> {
        [&self.name, &self.given].into_iter().flat_map(|name| self.all.provider.file_names(name)).collect()
    }

    /// Returns true if it has no definition any more.
    pub(crate) fn is_orphan(&self) -> bool {
        self.wanted.restores
    }
}

/// Returns true if any of these steps starts a stopped unit, or stops a running one.
pub(crate) fn affects_others(steps: &[Step]) -> bool {
    steps.iter().any(|step| matches!(step, Step::Start | Step::Stop))
}

fn asset(kind: &str, value: &str) -> Asset {
    Asset::new(kind, value)
}

impl Unit {
    /// Returns its report.
    pub(crate) fn report(&self) -> EntityReport {
        if self.is_orphan() {
            return self.full_report.clone();
        }
        Unit::report_of(&self.all, &self.id, &self.name, &self.given, &self.wanted)
    }

    /// Returns its state with the time at which it was started.
    fn with_time(&self, host: &Host) -> Result<UnitState, ManagerError> {
        let (record, aspects) = (Record::default(), Aspects { time: true, ..Aspects::default() });
        let subject = Subject { unit: &self.name, record: &record, aspects };
        let state = self.all.provider.manager(host).states(&[subject])?.pop();
        state.unwrap_or_else(|| Ok(UnitState::default()))
    }

    /// Determines what applying it would change.
    pub(crate) fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        let state = match self.all.state(host, &self.id) {
            Ok(state) => state,
            Err(problem) => {
                output.error(format!("{}: {problem}", self.name));
                return Verdict::Failed;
            }
        };
        let state = match mode.due_since.map(|_| self.with_time(host)) {
            Some(Ok(with_time)) => UnitState { begun: with_time.begun, ..state },
            _ => state,
        };
        let (refresh, may_come) = (mode.refresh && !state.was_started_after(mode.due_since), mode.pending);
        let is_offline = host.is_offline();
        let circumstances = Circumstances { manager: self.all.provider.name(), is_offline, refresh, may_come };
        let mut plan = plan(&self.name, &self.wanted, &state, circumstances);
        if !self.is_orphan() && affects_others(&plan.steps) {
            let relations = self.all.find(host, |found| found.relations.clone()).unwrap_or_default();
            plan.problems.extend(self.all.contradictions(&relations, &self.name, &plan.steps));
        }
        if !plan.problems.is_empty() {
            plan.problems.iter().for_each(|problem| output.error(problem));
            return Verdict::Failed;
        }
        if let Some(remark) = &plan.remark {
            output.warning(remark);
        }
        let mut changes: Vec<String> = plan.steps.iter().map(|step| step.would(&self.name)).collect();
        if plan.is_deferred {
            changes.push(Step::Start.would(&self.name));
        }
        if state.is_outdated {
            changes.insert(0, format!("would read the files of {} again", self.name));
        }
        if self.is_orphan() && changes.is_empty() {
            changes.push(format!("would forget {}", self.id));
        }
        if changes.is_empty() { Verdict::InDesiredState } else { Verdict::WouldChange(changes) }
    }
}

/// Returns the main name of the unit in a record.
///
/// # Errors
/// If the name is invalid.
pub(crate) fn main_name(
    provider: &dyn ServiceProvider,
    root: &Root,
    record: &Record,
) -> Result<UnitName, UnitNameError> {
    let name = provider.unit_name(&record.unit)?.in_scope(record.scope.clone());
    Ok(provider.main_name(root, &name))
}

/// Like `main_name`, but returns a name that is unique among all managers.
pub(crate) fn name_of(provider: &dyn ServiceProvider, root: &Root, record: &Record) -> String {
    main_name(provider, root, record).map_or_else(|_| record.scope.qualify(&record.unit), |name| name.qualified())
}

/// Returns the units in records, with aliases resolved.
pub(crate) fn things<'a>(name_of: &'a dyn Fn(&Record) -> String) -> Things<'a, Record> {
    Things { entity_type: crate::definition::Service::TABLE, name_of }
}
