//! The plugin, which lists the scaffolds, and the state that they share in a set or in a run.

use crate::definition::ScaffoldDefinition;
use crate::entity::{PREFIX, Scaffold};
use crate::executor::Executor;
use crate::record::{Known, Record};
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::claims::{self, Claim, Claims, Layers};
use holo_change::tracked::{HeldPaths, State, Tracker};
use holo_change::{CanonicalPaths, Notices, Tree};
use holo_plugin::declared::Declared;
use holo_plugin::{
    Host, Job, Output, Plugin, ScanError, SetAnswers, Silence, Verdict, apply_concurrently, check_concurrently,
    definitions,
};
use serde::de::IgnoredAny;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The `scaffold` plugin.
#[derive(Default)]
pub(crate) struct Scaffolds {
    together: Together,
}

impl Plugin for Scaffolds {
    type Entity = Declared<Scaffold>;

    const CONCURRENT: bool = true;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Declared<Scaffold>>, ScanError> {
        let definitions = definitions::read::<ScaffoldDefinition>(host, output);
        let store = BaseStore::open(host.locations());
        // For defined scaffolds, the record of each path is read when the scaffold is processed.
        let known = store.all::<IgnoredAny>(output).map_err(|error| {
            output.error(error.to_string());
            ScanError
        })?;
        let target = |id: &String| id.strip_prefix(PREFIX).map(PathBuf::from);
        // Scaffolds whose definition is invalid keep their files.
        let living = definitions.valid.keys().chain(known.keys().filter(|id| !definitions.is_orphan(id)));
        let targets: BTreeSet<PathBuf> = living.filter_map(target).collect();
        // Scaffolds whose definition is invalid keep their claims.
        let is_known = |id: &&String| definitions.valid.contains_key(*id) || definitions.is_orphan(id);
        let holders: Vec<String> = known.keys().filter(is_known).cloned().collect();
        let mut orphans: Vec<Remembered<Record>> = Vec::new();
        for id in known.keys().filter(|id| definitions.is_orphan(id)) {
            match store.recall(id) {
                Ok(orphan) => orphans.extend(orphan),
                Err(error) => output.unreadable_record(&error),
            }
        }
        let canonical = Tree::open(host.root()).ok().map(|root| CanonicalPaths::new(&root));
        let mut scaffolds = Vec::new();
        for defined in definitions.valid.into_values() {
            let file = defined.common.sources.first().cloned().unwrap_or_default();
            let mut scaffold = Scaffold::new(defined.definition, file, defined.common.keys.timeout, host);
            if let Some(found) = canonical.as_ref().and_then(|canonical| canonical.of(&scaffold.target).ok()) {
                scaffold.canonical = found;
            }
            let inside =
                targets.iter().filter(|other| other.starts_with(&scaffold.target) && **other != scaffold.target);
            scaffold.others = inside.cloned().collect();
            scaffolds.push(Declared::new(scaffold, defined.common));
        }
        let claims: Vec<Claim> = scaffolds
            .iter()
            .filter(|declared| declared.common.skipped.is_none() && declared.entity.wanted().is_some())
            .map(|declared| declared.entity.claim(&declared.common.sources))
            .collect();
        find_overlaps(&mut scaffolds, &claims, host, output);
        // A path that a scaffold created may belong to another entity by now.
        if (!claims.is_empty() || !holders.is_empty())
            && let Err(error) = claims::publish(host.locations(), &claims, &holders)
        {
            output.error(error.to_string());
        }
        for remembered in orphans {
            let Some(target) = target(&remembered.id) else { continue };
            let mut report = remembered.orphan_report();
            let was_absent = remembered.base.tracks().get(&target).is_some_and(|track| track.base == State::Absent);
            let key = if was_absent { "delete" } else { "restore" };
            report.inform(key, host.below_root(&target).display().to_string());
            scaffolds.push(Declared::orphan(Scaffold::orphan(target, report)));
        }
        for declared in &mut scaffolds {
            declared.entity.together = self.together.clone();
        }
        Ok(scaffolds)
    }

    fn apply_set(&self, host: &Host, set: &[Job<'_, Declared<Scaffold>>], answers: &mut dyn SetAnswers) {
        let ids = ids(set);
        self.together.begin(&ids);
        apply_concurrently(host, set, host.jobs(), answers);
        self.together.end();
        // There is no output any more. The next apply finds and reports what could not be removed.
        let _ = Executor::open(host)
            .and_then(|executor| executor.tidy(|id| ids.contains(id), &mut Output::new(&mut Silence)));
    }

    fn check_set(&self, host: &Host, set: &[Job<'_, Declared<Scaffold>>], answers: &mut dyn SetAnswers<Verdict>) {
        self.together.begin(&ids(set));
        check_concurrently(host, set, host.jobs(), answers);
        self.together.end();
    }

    fn end(&self, host: &Host) {
        self.together.end_run(host);
    }
}

fn ids(set: &[Job<'_, Declared<Scaffold>>]) -> BTreeSet<String> {
    set.iter().map(|job| job.entity.entity.id()).collect()
}

/// Finds scaffolds that are nested in each other. From version 4 on, the dispatcher compares the paths that entities
/// own.
fn find_overlaps(scaffolds: &mut [Declared<Scaffold>], claims: &[Claim], host: &Host, output: &mut Output<'_>) {
    if host.api_version() >= 4 {
        return;
    }
    for declared in scaffolds {
        let id = declared.entity.id();
        let Some(own) = claims.iter().find(|claim| claim.id == id) else { continue };
        let overlaps = |other: &&Claim| other.id != id && (other.covers(&own.path()) || own.covers(&other.path()));
        if let Some(other) = claims.iter().find(overlaps) {
            let problem = format!("{} and {} overlap; one of both has to go", own.shown(), other.shown());
            output.error(&problem);
            declared.entity.problem = Some(problem);
        }
    }
}

/// The state that the scaffolds of the plugin share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Together {
    /// The state of the current set.
    set: Arc<Mutex<Option<Arc<Shared>>>>,
    /// The state of the whole run.
    known: Arc<OnceLock<Known>>,
}

/// The records that are read once per set.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The paths that entities hold.
    pub(crate) held: HeldPaths,
    claims: OnceLock<RunClaims>,
    layers: OnceLock<Layers>,
}

/// The claims of a run's entities.
#[derive(Debug)]
pub(crate) struct RunClaims {
    /// The claims to single paths.
    pub(crate) paths: Claims,
    pub(crate) all: Claims,
}

impl Together {
    fn set(&self) -> MutexGuard<'_, Option<Arc<Shared>>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the record of unchanged files.
    pub(crate) fn known(&self, host: &Host) -> &Known {
        self.known.get_or_init(|| Known::open(host))
    }

    /// Saves the record of unchanged files.
    pub(crate) fn end_run(&self, host: &Host) {
        self.known.get().iter().for_each(|known| known.keep(host));
    }

    /// Starts a set with these IDs.
    pub(crate) fn begin(&self, ids: &BTreeSet<String>) {
        let only = ids.first().filter(|_| ids.len() == 1);
        let held = only.map_or_else(HeldPaths::default, |id| HeldPaths::of_others_than(id));
        *self.set() = Some(Arc::new(Shared { held, ..Shared::default() }));
    }

    /// Ends the set.
    pub(crate) fn end(&self) {
        *self.set() = None;
    }

    /// Returns true if a set has been started.
    pub(crate) fn is_set(&self) -> bool {
        self.set().is_some()
    }

    /// Returns the state that is shared within the set. Without a set, it is shared with no other scaffold.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.set().clone().unwrap_or_default()
    }
}

impl Shared {
    /// Returns the files that other entities lay something over, or edit.
    pub(crate) fn layers(&self, host: &Host, tracker: &Tracker) -> &Layers {
        self.layers.get_or_init(|| {
            let canonical = |path: PathBuf| tracker.canonical(&path).unwrap_or(path);
            claims::layers(host.locations()).into_iter().map(|(path, edit)| (canonical(path), edit)).collect()
        })
    }

    pub(crate) fn claims(&self, host: &Host) -> &RunClaims {
        self.claims.get_or_init(|| {
            let all = claims::all(host.locations());
            let paths = all.iter().filter(|claim: &&Claim| !claim.is_tree).cloned().collect();
            RunClaims { paths, all: all.into_iter().collect() }
        })
    }
}
