//! Units as entities, with their states.

use crate::plan::{Circumstances, Ensure, Wanted, plan};
use crate::providers::{self, Subject, UnitState};
use crate::record::Record;
use crate::unit::UnitName;
use holo_change::base_store::{BaseStore, Legacy, Orphan};
use holo_plugin::{Asset, EntityReport, Host, Mode, Output, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time for which states that a check has found may be used for others: nothing is changed while units are checked in turn.
const FRESH: Duration = Duration::from_secs(1);

/// The ID of the step that has the files of units read again. It comes after all units, as files may go once nothing uses them any more.
pub(crate) const FILES: &str = "systemd:unit-files";

/// Something that the plugin takes care of.
#[derive(Debug)]
pub(crate) enum Service {
    /// The task of reading the files of all units again when they have changed.
    Files(Arc<AllUnits>),
    Unit(Box<Unit>),
}

/// A unit that is defined, or was.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) id: String,
    /// Its main name.
    pub(crate) name: UnitName,
    /// The name in its definition, which may be an alias.
    pub(crate) given: UnitName,
    pub(crate) past: Past,
    pub(crate) wanted: Wanted,
    /// The time limit of one attempt.
    pub(crate) timeout: Option<Duration>,
    /// With all edges, also those that its definition declares.
    pub(crate) full_report: EntityReport,
    /// All units together, so that they are asked for together.
    pub(crate) all: Arc<AllUnits>,
}

/// The records that concern a unit.
#[derive(Debug)]
pub(crate) enum Past {
    /// It is defined, and may have been under another name.
    Living(Legacy<Record>),
    /// Nothing defines it any more.
    Orphan(Box<Orphan<Record>>),
}

/// All units that are managed, and how they are.
#[derive(Debug, Default)]
pub(crate) struct AllUnits {
    pub(crate) names: BTreeMap<String, UnitName>,
    /// The records of units that are not kept under their own IDs yet.
    elsewhere: BTreeMap<String, Record>,
    found: Mutex<Option<Found>>,
    /// The names of files that belong to none of the units, and have been read again without anybody having said so.
    read: Mutex<BTreeSet<String>>,
}

type States = BTreeMap<String, Result<UnitState, String>>;

#[derive(Debug)]
struct Found {
    at: Instant,
    states: Result<(States, BTreeSet<String>), String>,
}

impl AllUnits {
    pub(crate) fn new(names: BTreeMap<String, UnitName>, elsewhere: BTreeMap<String, Record>) -> AllUnits {
        AllUnits { names, elsewhere, ..AllUnits::default() }
    }

    /// Forgets how they are, as that is about to change.
    pub(crate) fn forget_states(&self) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn state(&self, host: &Host, id: &str) -> Result<UnitState, String> {
        let state = self.find(host, |(states, _)| states.get(id).cloned())?;
        state.unwrap_or_else(|| Ok(UnitState::default()))
    }

    /// Takes note of files that have been read again, and belong to none of the units.
    pub(crate) fn note_read(&self, names: BTreeSet<String>) {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
    }

    /// The files that have been read again, to be said once.
    pub(crate) fn take_read(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.read.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The files that have changed and belong to none of the units.
    pub(crate) fn changes_of_others(&self, host: &Host) -> Result<BTreeSet<String>, String> {
        let mut names = self.find(host, |(_, changes)| changes.clone())?;
        names.remove(providers::FOLDER);
        for own in self.names.values().flat_map(file_names) {
            names.remove(&own);
        }
        Ok(names)
    }

    /// Picks from what was found out just now, or is found out.
    fn find<T>(&self, host: &Host, pick: impl Fn(&(States, BTreeSet<String>)) -> T) -> Result<T, String> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = match found.take().filter(|found| found.at.elapsed() <= FRESH) {
            Some(fresh) => fresh,
            None => Found { at: Instant::now(), states: self.states(host) },
        };
        let picked = fresh.states.as_ref().map(pick).map_err(Clone::clone);
        *found = Some(fresh);
        picked
    }

    fn states(&self, host: &Host) -> Result<(States, BTreeSet<String>), String> {
        let memory = BaseStore::open(host.locations()).map_err(|error| error.to_string())?;
        let mut records = Vec::new();
        let mut problems = BTreeMap::new();
        for id in self.names.keys() {
            if let Some(record) = self.elsewhere.get(id) {
                records.push(record.clone());
                continue;
            }
            let record = memory.recall::<Record>(id).unwrap_or_else(|error| {
                problems.insert(id.clone(), Err(error.to_string()));
                None
            });
            records.push(record.map(|remembered| remembered.base).unwrap_or_default());
        }
        let subjects: Vec<Subject<'_>> =
            self.names.values().zip(&records).map(|(unit, record)| Subject { unit, record }).collect();
        let manager = providers::manager(host);
        let changes = manager.unread_files()?;
        let states = manager.states(&subjects)?;
        let outdated = |(name, state): (&UnitName, Result<UnitState, String>)| {
            let is_outdated = file_names(name).any(|file| changes.contains(&file));
            state.map(|state| UnitState { is_outdated: state.is_outdated || is_outdated, ..state })
        };
        let states = self.names.values().zip(states).map(outdated);
        let mut states: States = self.names.keys().cloned().zip(states).collect();
        states.extend(problems);
        Ok((states, changes))
    }
}

impl Unit {
    /// Returns the part of a unit's report that only this plugin knows.
    pub(crate) fn report_of(id: &str, name: &UnitName, given: &UnitName, wanted: &Wanted) -> EntityReport {
        let mut report = EntityReport::new(id);
        let mut words = vec![if wanted.ensure == Some(Ensure::Running) { "running" } else { "stopped" }];
        words.extend(wanted.enable.map(|enabled| if enabled { "enabled" } else { "disabled" }));
        words.extend(wanted.mask.map(|masked| if masked { "masked" } else { "not masked" }));
        report.inform("unit", format!("{name} ({})", words.join(", ")));
        let edges = &mut report.edges;
        let mut need = |kind: &str, value: &str| edges.needs.push(asset(kind, value));
        need("unit", name.as_str());
        // Packages are often called as what they bring.
        need("package", name.stem());
        let mut files = name.files();
        files.extend(given.files().into_iter().filter(|file| !name.files().contains(file)));
        for file in files {
            let path = format!("/etc/systemd/system/{file}");
            need("path", &path);
            need("path", &format!("{path}.d"));
            edges.watch.extend([path.as_str().into(), format!("{path}.d").into()]);
        }
        edges.watch.push(format!("/usr/lib/systemd/system/{}", name.files().pop().unwrap_or_default()).into());
        // It needs the unit, and provides the unit as declared.
        edges.provides.push(asset("service", name.as_str()));
        edges.owns.push(asset("unit", name.as_str()));
        report
    }

    /// The names of the files and folders that are about it, right below systemd's directories.
    pub(crate) fn file_names(&self) -> BTreeSet<String> {
        file_names(&self.name).chain(file_names(&self.given)).collect()
    }

    /// Returns true if nothing defines it any more.
    pub(crate) fn is_orphan(&self) -> bool {
        self.wanted.restores
    }
}

fn file_names(name: &UnitName) -> impl Iterator<Item = String> {
    name.files().into_iter().flat_map(|file| [format!("{file}.d"), file])
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
        Unit::report_of(&self.id, &self.name, &self.given, &self.wanted)
    }

    /// Finds out what applying it would do.
    pub(crate) fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        let state = match self.all.state(host, &self.id) {
            Ok(state) => state,
            Err(problem) => {
                output.error(format!("{}: {problem}", self.name));
                return Verdict::Failed;
            }
        };
        // Anything that comes before it in a run may bring it.
        let circumstances = Circumstances { refresh: mode.refresh, may_come: true };
        let plan = plan(&self.name, &self.wanted, &state, circumstances);
        if !plan.problems.is_empty() {
            plan.problems.iter().for_each(|problem| output.error(problem));
            return Verdict::Failed;
        }
        let mut changes: Vec<String> = plan.steps.iter().map(|step| step.would(&self.name)).collect();
        if state.is_outdated {
            changes.insert(0, format!("would read the files of {} again", self.name));
        }
        if self.is_orphan() && changes.is_empty() {
            changes.push(format!("would forget {}", self.id));
        }
        if changes.is_empty() { Verdict::InDesiredState } else { Verdict::WouldChange(changes) }
    }
}
