//! The origins of the lines of a scaffold's files.

use crate::entity::Scaffold;
use crate::error::Result;
use crate::executor::Executor;
use crate::render;
use holo_change::error::PathError;
use holo_plugin::{Host, Origin, Span};
use std::io::Read;
use std::path::Path;

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
