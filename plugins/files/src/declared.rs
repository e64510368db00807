//! Declared files: files, directories and symlinks that are defined in TOML.

mod access;
mod blame;
mod declaration;
mod definition;
mod entity;
mod executor;
mod found;
mod inspection;
mod preview;
mod unchanged;
mod wanted;
mod words;

use access::Accesses;
pub(crate) use definition::FileDefinition;
pub(crate) use entity::DeclaredFile;
pub(crate) use executor::{apply, remove_empty_folder, tidy};
pub(crate) use found::{Contradicted, DeclaredScan};

use holo_change::Image;
use holo_change::tracked::Digest;
use holo_plugin::declared::Declared;
use holo_plugin::{Applied, Entity, EntityReport, FilePair, ForceTo, Host, Mode, Output, Span, Verdict, apply_one};
use inspection::Inspection;
use std::path::Path;
use unchanged::UnchangedFiles;
use wanted::DeclaredError;

impl DeclaredFile {
    /// Returns the image that the path will have after its declaration is removed, or `None` if the path will not exist or this is unknown.
    pub(crate) fn restored(&self, host: &Host) -> Option<Image> {
        preview::restored(self, host).ok().flatten()
    }

    /// Returns the digest of the declared content, if there is one and it can be read.
    pub(crate) fn declared_content(&self, host: &Host) -> Option<Digest> {
        let content = wanted::content(self.definition.as_ref()?, host).ok()??;
        Some(Digest::of_bytes(&content))
    }
}

impl Entity for DeclaredFile {
    fn report(&self) -> EntityReport {
        self.to_report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        // A process for a single entity does not read the record of unchanged files.
        apply_one(self, mode, output, |set, answers| apply(host, set, false, answers))
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        Checks::open(host, 0).verdict(self, output)
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        if self.definition.as_ref().is_some_and(|definition| definition.sensitive) {
            return None;
        }
        let inspection = Inspection::open(host).ok()?;
        // The content may be equal while ACLs or other attributes differ.
        match inspection.difference(self).filter(|pair| pair.from != pair.to) {
            None if access::has_records(host) => {
                let access = Accesses::open(&inspection).and_then(|accesses| accesses.difference(self));
                access.ok().flatten().or_else(|| inspection.difference(self))
            }
            None => inspection.difference(self),
            different => different,
        }
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        let inspection = Inspection::open(host).ok()?;
        let preview = preview::preview(self, &inspection).ok().flatten();
        let access = || Accesses::open(&inspection).and_then(|accesses| accesses.preview(self)).ok().flatten();
        preview.or_else(|| if Accesses::concern(self, || access::has_records(host)) { access() } else { None })
    }

    fn blame(&self, host: &Host, _: Option<&Path>) -> Option<Vec<Span>> {
        blame::blame(self, host)
    }
}

/// Checks declared files.
pub(crate) struct Checks<'a>(Result<(Inspection<'a>, UnchangedFiles), DeclaredError>);

impl<'a> Checks<'a> {
    /// Opens the host's files. With enough files, the record of unchanged files is used.
    pub(crate) fn open(host: &'a Host, recorded: usize) -> Checks<'a> {
        Checks(Inspection::open(host).map(|inspection| {
            let known = UnchangedFiles::open(host, recorded);
            (inspection, known)
        }))
    }

    /// Returns the effect of applying a file. Prints errors.
    pub(crate) fn check(&self, declared: &Declared<DeclaredFile>, output: &mut Output<'_>) -> Verdict {
        match &declared.common.skipped {
            Some(reason) => Verdict::Skipped(reason.clone()),
            None => self.verdict(&declared.entity, output),
        }
    }

    fn verdict(&self, entity: &DeclaredFile, output: &mut Output<'_>) -> Verdict {
        let checked = self.0.as_ref().map_err(Clone::clone).and_then(|(inspection, known)| {
            let deciding = known.deciding(entity, inspection);
            if deciding.is_some_and(|deciding| known.is_unchanged(&deciding)) {
                return Ok(Verdict::InDesiredState);
            }
            let verdict = inspection.check(entity)?;
            match Accesses::concern(entity, || access::has_records(inspection.host)) {
                true => Accesses::open(inspection)?.verdict(entity, verdict),
                false => Ok(verdict),
            }
        });
        match checked {
            Ok(verdict) => verdict,
            Err(DeclaredError::NeedsForce(reason)) => Verdict::NeedsForce(ForceTo::Proceed(reason)),
            Err(DeclaredError::Meanwhile) => Verdict::NeedsForce(ForceTo::Overwrite),
            Err(DeclaredError::Never(reason)) => {
                output.error(format!("skipping target: {reason}"));
                Verdict::Failed
            }
        }
    }
}
