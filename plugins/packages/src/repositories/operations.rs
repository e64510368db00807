//! The operations on repositories that the dispatcher requests, including their previews.

use super::entity::RepositoryEntity;
use super::executor;
use super::inspection::{Inspection, RepositoryError};
use crate::error::PackageError;
use holo_change::tracked::State;
use holo_plugin::{
    Applied, Entity, EntityReport, FilePair, ForceTo, Host, Mode, Output, Preview, SENSITIVE, Shown, Verdict, apply_one,
};
use std::io;
use std::path::{Path, PathBuf};

impl Entity for RepositoryEntity {
    fn report(&self) -> EntityReport {
        self.full_report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        apply_one(self, mode, output, |set, answers| executor::apply(host, set, answers))
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        match Inspection::open(host).and_then(|inspection| inspection.check(self)) {
            Ok(verdict) => verdict,
            Err(RepositoryError::Meanwhile) => Verdict::NeedsForce(ForceTo::Overwrite),
            Err(RepositoryError::Failed(problem)) => {
                problem.tell(output);
                Verdict::Failed
            }
        }
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        Inspection::open(host).ok()?.difference(self)
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        preview(self, &Inspection::open(host).ok()?).ok().flatten()
    }
}

/// The directory that contains all files of repositories.
const TOP: &str = "/etc";

/// Returns two directories with the files that differ, or `None` if there are none.
pub(super) fn preview(
    entity: &RepositoryEntity,
    inspection: &Inspection<'_>,
) -> Result<Option<FilePair>, RepositoryError> {
    let plan = inspection.plan(entity, inspection.recall(entity)?)?;
    let failed = |error: io::Error| PackageError::new(error.to_string());
    let preview = Preview::new(inspection.host, entity.id.as_bytes()).map_err(failed)?;
    let mut is_empty = true;
    let mut show = |path: PathBuf, shown: Option<Shown>| -> Result<(), RepositoryError> {
        if let Some(shown) = shown {
            shown.write(&path).map_err(failed)?;
            is_empty = false;
        }
        Ok(())
    };
    let below = |path: &Path| path.strip_prefix(TOP).or(path.strip_prefix("/")).unwrap_or(path).to_owned();
    let tracks = &plan.remembered.base.tracks;
    let live = |path: &Path| Ok(inspection.tracker.place(path).read_if_file()?.unwrap_or_default());
    for file in plan.files.iter().filter(|file| file.current != file.desired) {
        let is_secret = file.sensitive || tracks.get(&file.path).is_some_and(|track| track.sensitive);
        show(preview.from(&below(&file.path)), shown(&file.current, is_secret, || live(&file.path))?)?;
        let new = file.bytes.clone().map(|content| Shown::File { content, mode: 0o644 });
        show(preview.to(&below(&file.path)), new.map(|new| if is_secret { secret() } else { new }))?;
    }
    for (path, current) in &plan.leftovers {
        let Some(track) = tracks.get(path).filter(|track| track.base != *current) else { continue };
        show(preview.from(&below(path)), shown(current, track.sensitive, || live(path))?)?;
        let content = || match track.base.content() {
            Some(digest) => inspection.tracker.content(digest),
            None => live(path),
        };
        show(preview.to(&below(path)), shown(&track.base, track.sensitive, content)?)?;
    }
    Ok((!is_empty).then(|| preview.pair(Path::new(""), &inspection.host.below_root(Path::new(TOP)))))
}

fn secret() -> Shown {
    Shown::File { content: SENSITIVE.to_vec(), mode: 0o600 }
}

fn shown(
    state: &State,
    is_secret: bool,
    read: impl FnOnce() -> holo_change::error::Result<Vec<u8>>,
) -> Result<Option<Shown>, RepositoryError> {
    let Some(attributes) = state.attributes().filter(|_| state.content().is_some()) else { return Ok(None) };
    if is_secret {
        return Ok(Some(secret()));
    }
    Ok(Some(Shown::File { content: read()?, mode: attributes.mode }))
}
