//! A unit as an entity: what is reported of it, checked and applied.

use crate::apply;
use crate::plan::{Circumstances, Ensure, Wanted, plan};
use crate::providers::{self, Subject, UnitState};
use crate::record::Record;
use crate::unit::UnitName;
use holo_plugin::memory::Memory;
use holo_plugin::{Applied, Asset, Entity, EntityReport, FilePair, Host, Mode, Output, Verdict, alone};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long what was found out for a check may be used for others: nothing is changed while they are checked one after the other.
const FRESH: Duration = Duration::from_secs(1);

/// A unit that is defined, or was.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) id: String,
    pub(crate) name: UnitName,
    pub(crate) wanted: Wanted,
    /// How long one attempt may take.
    pub(crate) timeout: Option<Duration>,
    /// With all edges, also those that its definition declares.
    pub(crate) full_report: EntityReport,
    /// All units together, so that they are asked for together.
    pub(crate) all: Arc<AllUnits>,
}

/// All units that are managed, and how they are.
#[derive(Debug, Default)]
pub(crate) struct AllUnits {
    pub(crate) names: BTreeMap<String, UnitName>,
    found: Mutex<Option<Found>>,
}

type States = BTreeMap<String, Result<UnitState, String>>;

#[derive(Debug)]
struct Found {
    at: Instant,
    states: Result<States, String>,
}

impl AllUnits {
    pub(crate) fn new(names: BTreeMap<String, UnitName>) -> AllUnits {
        AllUnits { names, found: Mutex::default() }
    }

    /// Forgets how they are, as that is about to change.
    pub(crate) fn forget_states(&self) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn state(&self, host: &Host, id: &str) -> Result<UnitState, String> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.as_ref().is_none_or(|found| found.at.elapsed() > FRESH) {
            let states = self.states(host);
            *found = Some(Found { at: Instant::now(), states });
        }
        let states = found.as_ref().map_or(Ok(None), |found| found.states.as_ref().map(|states| states.get(id)));
        states?.cloned().unwrap_or_else(|| Ok(UnitState::default()))
    }

    fn states(&self, host: &Host) -> Result<States, String> {
        let memory = Memory::open(host).map_err(|error| error.to_string())?;
        let mut records = Vec::new();
        let mut problems = BTreeMap::new();
        for id in self.names.keys() {
            let record = memory.recall::<Record>(id).unwrap_or_else(|error| {
                problems.insert(id.clone(), Err(error.to_string()));
                None
            });
            records.push(record.map(|remembered| remembered.base).unwrap_or_default());
        }
        let subjects: Vec<Subject<'_>> =
            self.names.values().zip(&records).map(|(unit, record)| Subject { unit, record }).collect();
        let states = providers::manager(host).states(&subjects)?;
        let mut states: States = self.names.keys().cloned().zip(states).collect();
        states.extend(problems);
        Ok(states)
    }
}

impl Unit {
    /// What only this plugin knows of the unit's report.
    pub(crate) fn report_of(id: &str, name: &UnitName, wanted: &Wanted) -> EntityReport {
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
        for file in name.files() {
            let path = format!("/etc/systemd/system/{file}");
            need("path", &path);
            need("path", &format!("{path}.d"));
            edges.watch.extend([path.as_str().into(), format!("{path}.d").into()]);
        }
        edges.watch.push(format!("/usr/lib/systemd/system/{}", name.files().pop().unwrap_or_default()).into());
        // What it needs is the unit; what it gives is that the unit is as declared.
        edges.provides.push(asset("service", name.as_str()));
        report
    }

    /// Whether nothing defines it any more.
    pub(crate) fn is_orphan(&self) -> bool {
        self.wanted.restores
    }
}

fn asset(kind: &str, value: &str) -> Asset {
    Asset::new(kind, value)
}

impl Entity for Unit {
    fn report(&self) -> EntityReport {
        if self.is_orphan() { self.full_report.clone() } else { Unit::report_of(&self.id, &self.name, &self.wanted) }
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        alone(self, mode, output, |set, answers| apply::apply(host, set, answers))
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        let state = match self.all.state(host, &self.id) {
            Ok(state) => state,
            Err(problem) => {
                output.error(format!("{}: {problem}", self.name));
                return Verdict::Failed;
            }
        };
        // Whatever comes before it in a run may bring it.
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

    fn diff(&self, _: &Host) -> Option<FilePair> {
        None
    }
}
