//! The operations on a scaffold: report, check, apply, compare and blame.

use crate::entity::Scaffold;
use crate::error::{Result, ScaffoldError};
use crate::executor::Executor;
use crate::{difference, render};
use holo_change::error::PathError;
use holo_plugin::{Applied, Entity, EntityReport, FilePair, ForceTo, Host, Mode, Origin, Output, Span, Verdict};
use std::io::Read;
use std::path::Path;

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

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        let executor = self.usable().and_then(|()| Executor::in_set(host, &self.together.shared()));
        let checked = executor.and_then(|executor| {
            let checked = executor.check(self);
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
pub(crate) fn blame(entity: &Scaffold, path: &Path, host: &Host) -> Result<Option<Vec<Span>>> {
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
