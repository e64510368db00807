//! Adoption: existing files and manual changes become resource files. It searches for edits of managed files and of package files, and for
//! files that belong to no package.

mod dpkg;
mod exclusions;
mod search;
mod unmanaged;

use crate::managed::ManagedFile;
use crate::overlay::{self, FileEntity, PREFIX};
use bstr::{BStr, ByteSlice};
use holo_plugin::{
    Adopted, Adoption, Candidate, Entity, ForceTo, Host, Job, Mode, Output, ScanError, Silence, Verdict,
};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Lists the files that could be adopted, in the usual directories and in those to include.
pub(crate) fn candidates(host: &Host, managed: &[ManagedFile], include: &[PathBuf]) -> Vec<Candidate> {
    let mut found = edited(host, managed);
    let edited_files = managed.iter().filter_map(|file| match file {
        ManagedFile::Edit(edit) => Some([PREFIX, edit.entity.path().as_os_str().as_bytes()].concat().into()),
        _ => None,
    });
    let managed = managed.iter().map(|file| file.report().id).chain(edited_files).collect();
    found.extend(search::candidates(host, managed, include));
    found.sort_by(|one, other| one.id.cmp(&other.id));
    found.dedup_by(|one, other| one.id == other.id);
    found
}

/// Writes resource files for the current state of a file, or its definition.
pub(crate) fn adopt(
    host: &Host,
    adoption: Adoption<'_>,
    output: &mut Output<'_>,
    find: impl Fn(&BStr, &mut Output<'_>) -> Result<Option<ManagedFile>, ScanError>,
    all: &dyn Fn() -> Vec<ManagedFile>,
) -> Adopted {
    let id = adoption.id;
    if id.starts_with(b"/") {
        let path = id.to_path_lossy();
        let exists = host.below_root(&path).symlink_metadata().is_ok();
        // The answer with the ID is a single line.
        if exists && id.contains(&b'\n') {
            output.error(format!("cannot adopt {id:?}: its path contains control characters"));
            return Adopted::Failed;
        }
        let id = [PREFIX, id].concat();
        let is_deleted = || unmanaged::is_deleted(&path, host);
        let is_known =
            exists || is_deleted() || matches!(find(id.as_bstr(), &mut Output::new(&mut Silence)), Ok(Some(_)));
        return if is_known { Adopted::Entity(id.into()) } else { Adopted::Unknown };
    }
    let Some(path) = id.strip_prefix(PREFIX).filter(|path| path.starts_with(b"/")) else { return Adopted::Unknown };
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let Ok(found) = find(id, output) else { return Adopted::Failed };
    let Some(entity) = found else {
        let is_edited = |file: &ManagedFile| matches!(file, ManagedFile::Edit(edit) if edit.entity.path() == path);
        if let Some(ManagedFile::Edit(edit)) = all().iter().find(|file| is_edited(file)) {
            output.error(format!("cannot adopt {id}: it is edited by {}", edit.entity.id()));
            return Adopted::Failed;
        }
        return unmanaged::adopt(path, host, adoption, output);
    };
    match &entity {
        ManagedFile::Overlay(overlaid) => adopt_overlay(overlaid, host, adoption, output),
        ManagedFile::WithSidecar(overlaid) => match &overlaid.common.skipped {
            Some(reason) => {
                output.error(format!("cannot adopt {id}: it is left out, as {reason}"));
                Adopted::Failed
            }
            None => adopt_overlay(&overlaid.entity, host, adoption, output),
        },
        ManagedFile::Declared(_) if adoption.resolved.is_some() => {
            output.error(format!("cannot adopt {id}: its content is that of a definition, not of resource files"));
            Adopted::Failed
        }
        ManagedFile::Declared(declared) => match Adopted::defined_already(&**declared, host, output) {
            Some(adopted) => adopted,
            None => unmanaged::adopt(path, host, adoption, output),
        },
        // The ID of an edit is not that of a file.
        ManagedFile::Edit(_) => Adopted::Unknown,
        ManagedFile::OverlayAfter(..) => {
            output.error(format!("cannot adopt {id}: its definition has changed; apply it first"));
            Adopted::Failed
        }
        ManagedFile::Contradicted(contradicted) => {
            output.error(format!("cannot adopt {id}: {}", contradicted.reason));
            Adopted::Failed
        }
    }
}

fn adopt_overlay(overlaid: &FileEntity, host: &Host, adoption: Adoption<'_>, output: &mut Output<'_>) -> Adopted {
    let verdict = overlaid.check(host, Mode::default(), &mut Output::new(&mut Silence));
    if verdict == Verdict::InDesiredState && !overlaid.is_orphan() && adoption.resolved.is_none() {
        return Adopted::Unchanged;
    }
    overlay::adopt::adopt(overlaid, host, adoption, output)
}

/// Returns the overlays whose targets were changed manually.
fn edited<'e>(host: &'e Host, managed: &'e [ManagedFile]) -> Vec<Candidate> {
    let overlays = managed.iter().filter_map(|file| match file {
        ManagedFile::Overlay(overlaid) => Some(overlaid),
        ManagedFile::WithSidecar(overlaid) => Some(&overlaid.entity).filter(|_| overlaid.common.skipped.is_none()),
        _ => None,
    });
    let overlays: Vec<&FileEntity> = overlays.filter(|overlaid| !overlaid.is_orphan()).collect();
    let job = |entity: &&'e FileEntity| Job { entity: *entity, mode: Mode::default() };
    let jobs: Vec<Job<'_, FileEntity>> = overlays.iter().map(job).collect();
    let mut unheard = Silence;
    let mut output = Output::new(&mut unheard);
    let is_edited = |(checked, overlaid): (Option<overlay::Checked>, &&FileEntity)| {
        let verdict = match checked {
            Some(checked) => checked.tell(&mut output),
            None => overlaid.check(host, Mode::default(), &mut output),
        };
        (verdict == Verdict::NeedsForce(ForceTo::Overwrite))
            .then(|| Candidate::new(overlaid.report().id, "edited since it was applied"))
    };
    overlay::check_many(host, &jobs).into_iter().zip(&overlays).filter_map(is_edited).collect()
}
