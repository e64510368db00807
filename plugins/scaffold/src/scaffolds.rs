//! The plugin, which lists the scaffolds, and the operations that the dispatcher requests for them.

use crate::definition::ScaffoldDefinition;
use crate::entity::{PREFIX, Scaffold, claim};
use crate::error::ScaffoldError;
use crate::executor::Executor;
use crate::record::Record;
use crate::together::Together;
use crate::{difference, render, witnesses};
use bstr::BString;
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::claims::{self, Claim};
use holo_change::error::PathError;
use holo_change::tracked::State;
use holo_change::{CanonicalPaths, Notices, Tree};
use holo_plugin::declared::Declared;
use holo_plugin::{
    Applied, Entity, EntityReport, FilePair, ForceTo, ForgetError, Host, Job, Mode, Origin, Output, Plugin, ScanError,
    SetAnswers, Silence, Span, Verdict, Witness, apply_concurrently, check_concurrently, definitions,
};
use serde::de::IgnoredAny;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The `scaffold` plugin.
#[derive(Default)]
pub(crate) struct Scaffolds {
    together: Together,
}

impl Plugin for Scaffolds {
    type Entity = Declared<Scaffold>;

    const READS: &'static [&'static str] = &["*.toml", "*.toml.jinja", "*/**"];

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
        let holders: Vec<String> = known.keys().cloned().collect();
        let mut orphans: Vec<Remembered<Record>> = Vec::new();
        for id in known.keys().filter(|id| definitions.is_orphan(id)) {
            match store.recall(id) {
                Ok(orphan) => orphans.extend(orphan),
                Err(error) => output.unreadable_record(&error),
            }
        }
        let canonical = Tree::open(host.root()).ok().map(|root| CanonicalPaths::new(&root));
        let canonical = |target: &Path| canonical.as_ref().and_then(|canonical| canonical.of(target).ok());
        let unusable: Vec<Claim> = definitions
            .unusable(known.keys())
            .into_iter()
            .filter_map(|id| {
                let target = PathBuf::from(id.strip_prefix(PREFIX)?);
                Some(claim(id, canonical(&target).as_deref().unwrap_or(&target), &[]))
            })
            .collect();
        let mut scaffolds = Vec::new();
        for defined in definitions.valid.into_values() {
            let file = defined.common.sources.first().cloned().unwrap_or_default();
            let mut scaffold = Scaffold::new(defined.definition, file, defined.common.keys.timeout, host);
            if let Some(found) = canonical(&scaffold.target) {
                scaffold.canonical = found;
            }
            let inside =
                targets.iter().filter(|other| other.starts_with(&scaffold.target) && **other != scaffold.target);
            scaffold.others = inside.cloned().collect();
            scaffolds.push(Declared::new(scaffold, defined.common));
        }
        let mut claims: Vec<Claim> = scaffolds
            .iter()
            .filter(|declared| declared.common.skipped.is_none() && declared.entity.wanted().is_some())
            .map(|declared| declared.entity.claim(&declared.common.sources))
            .collect();
        find_overlaps(&mut scaffolds, &claims, host, output);
        claims.extend(unusable);
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

    fn scan_witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        // Besides the definitions, the list rests on symlinks to the targets, which are compared for the scaffolds.
        Some(vec![Witness::file(host.resources().weakest())])
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
}

pub(crate) fn ids(set: &[Job<'_, Declared<Scaffold>>]) -> BTreeSet<String> {
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

impl Entity for Scaffold {
    fn report(&self) -> EntityReport {
        self.to_report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        let executor = self.usable().and_then(|()| Executor::in_set(host, &self.together.shared()));
        let has_begun = || executor.as_ref().is_ok_and(Executor::has_begun);
        let applied = executor.as_ref().map_err(Clone::clone).and_then(|executor| executor.apply(self, mode, output));
        executor.iter().for_each(|executor| warn(executor, output));
        match applied {
            Ok(applied) => applied,
            Err(ScaffoldError::NeedsForce(reason)) => Applied::NeedsForce(ForceTo::Proceed(reason)),
            Err(ScaffoldError::Never(reason)) => {
                output.error(reason);
                if has_begun() { Applied::FAILED } else { Applied::FAILED_UNCHANGED }
            }
        }
    }

    fn forget(&self, host: &Host, output: &mut Output<'_>) -> Result<(), ForgetError> {
        let forgotten = Executor::open(host).and_then(|executor| executor.forget(self, output));
        forgotten.map_err(|(ScaffoldError::NeedsForce(reason) | ScaffoldError::Never(reason))| reason.into())
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        let executor = self.usable().and_then(|()| Executor::in_set(host, &self.together.shared()));
        let checked = executor.and_then(|executor| {
            let executor = executor.foreseeing(self.wanted().is_none());
            let checked = executor.check(self, mode);
            warn(&executor, output);
            checked
        });
        match checked {
            Ok(verdict) => verdict,
            Err(ScaffoldError::NeedsForce(reason)) => Verdict::NeedsForce(ForceTo::Proceed(reason)),
            Err(ScaffoldError::Never(reason)) => {
                output.error(reason);
                Verdict::Failed
            }
        }
    }

    fn witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        witnesses::of(self, host)
    }

    fn parts(&self, host: &Host) -> Vec<BString> {
        witnesses::parts(self, host)
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        difference::find(self, host).ok().flatten()
    }

    fn blame(&self, host: &Host, path: Option<&Path>) -> Option<Vec<Span>> {
        blame(self, path?, host).ok().flatten()
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        Executor::open(host).and_then(|executor| executor.preview(self)).ok().flatten()
    }
}

fn warn(executor: &Executor<'_>, output: &mut Output<'_>) {
    executor.take_warnings().iter().for_each(|warning| output.warning(warning));
}

/// Returns the origins of the lines of a file, or `None` if the path is not a file of the scaffold.
pub(crate) fn blame(entity: &Scaffold, path: &Path, host: &Host) -> Result<Option<Vec<Span>>, ScaffoldError> {
    let Some(definition) = entity.wanted() else { return Ok(None) };
    let executor = Executor::open(host)?;
    let path = executor.tracker.canonical(path)?;
    let target = executor.tracker.canonical(&entity.target)?;
    let Ok(below) = path.strip_prefix(&target) else { return Ok(None) };
    let Some(traced) = render::trace(definition, (&entity.file, host), below)? else { return Ok(None) };
    let place = executor.inside(&target)?.place(&path);
    let mut current = Vec::new();
    let read = place.open()?.read_to_end(&mut current);
    read.map_err(|error| PathError::new("read", place.shown(), error))?;
    // Programs that are run after rendering may have changed the rendered file.
    let record = executor.recall(entity)?.map(|remembered| remembered.base);
    let provisioned = record.as_ref().and_then(|record| record.tracks().get(&path)?.provisioned.clone());
    let is_as_made = provisioned.is_some_and(|made| executor.tracker.state(&path).is_ok_and(|state| state == made));
    let has_programs = !definition.post.is_empty();
    let other = if is_as_made && has_programs { Origin::Other("a program of post".into()) } else { Origin::Edited };
    Ok(Some(traced.become_text(current, |_, _| other.clone()).into_spans()))
}
