//! Adoption: existing files and manual changes become resource files.

mod exclusions;
mod search;
mod unmanaged;

use crate::managed::ManagedFile;
use crate::overlay::{self, FileEntity, PREFIX};
use bstr::{BStr, BString, ByteSlice};
use holo_plugin::{Adopted, Adoption, Candidate, Entity, Host, Mode, Output, ScanError, Silence, Verdict};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Lists the files that could be adopted.
pub(crate) fn candidates(host: &Host, managed: &[ManagedFile], output: &mut Output<'_>) -> Vec<Candidate> {
    let mut found = search::candidates(host, managed, output);
    leave_out(&mut found, output);
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
        let exists = host.below_root(&id.to_path_lossy()).symlink_metadata().is_ok();
        // The answer with the ID is a single line.
        if exists && id.contains(&b'\n') {
            output.error(format!("cannot adopt {id:?}: its path contains control characters"));
            return Adopted::Failed;
        }
        let id = [PREFIX, id].concat();
        let is_known = exists || matches!(find(id.as_bstr(), &mut Output::new(&mut Silence)), Ok(Some(_)));
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
    if verdict == Verdict::InDesiredState && !overlaid.is_orphan() {
        return Adopted::Unchanged;
    }
    overlay::adopt::adopt(overlaid, host, adoption, output)
}

/// The maximum number of files without a package in a manually maintained directory.
const MOST_BY_HAND: usize = 50;

/// Removes the files of directories that contain too many, with a warning.
fn leave_out(found: &mut Vec<Candidate>, output: &mut Output<'_>) {
    let mut counts: BTreeMap<BString, usize> = BTreeMap::new();
    let is_nobodys = |candidate: &Candidate| candidate.reason.contains_str("of no package");
    for candidate in found.iter().filter(|candidate| is_nobodys(candidate)) {
        *counts.entry(directory(candidate).to_owned()).or_default() += 1;
    }
    counts.retain(|_, count| *count > MOST_BY_HAND);
    found.retain(|candidate| !is_nobodys(candidate) || !counts.contains_key(directory(candidate)));
    for (directory, count) in counts {
        let directory = directory.strip_prefix(PREFIX).unwrap_or(&directory).as_bstr();
        output.warning(format!(
            "{count} files of no package in {directory} are not adopted: such a large directory is installed software, which an archive can provide"
        ));
    }
}

/// Returns the ID of the directory that contains a candidate.
fn directory(candidate: &Candidate) -> &BStr {
    candidate.id.rsplit_once_str("/").map_or(b"".as_bstr(), |(directory, _)| directory.as_bstr())
}

#[cfg(test)]
mod trees_tests {
    use super::*;
    use holo_plugin::{Sink, Stream};

    struct OutputBuffer(String);

    impl Sink for OutputBuffer {
        fn write(&mut self, _: Stream, bytes: &[u8]) {
            self.0.push_str(&bytes.to_str_lossy());
        }
    }

    #[test]
    fn large_trees_are_left_out_with_a_warning() {
        let ids = (0..51).map(|number| format!("file:/usr/local/libexec/x/{number}"));
        let ids = ids.chain((0..50).map(|number| format!("file:/usr/local/bin/{number}")));
        let mut found: Vec<Candidate> = ids.map(|id| Candidate::new(id, "a file of no package")).collect();
        let mut said = OutputBuffer(String::new());
        leave_out(&mut found, &mut Output::new(&mut said));
        assert_eq!(found.len(), 50);
        assert!(found.iter().all(|candidate| candidate.id.starts_with(b"file:/usr/local/bin/")));
        assert_eq!(
            said.0,
            ">> 51 files of no package in /usr/local/libexec/x are not adopted: such a large directory is installed software, which an archive can provide\n"
        );
    }
}
