//! Managed files as entities: overlays, declared files, and edits.

use crate::declared::{self, Contradicted, DeclaredFile};
use crate::edits::{self, EditEntity};
use crate::overlay::FileEntity;
use crate::sidecars::{self, Sidecars};
use bstr::BString;
use holo_change::tracked::Digest;
use holo_change::{Image, Tree};
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{HealthCheck, Hindrance};
use holo_plugin::{
    Applied, Entity, EntityReport, FilePair, ForgetError, Host, Mode, Output, Sent, Span, Verdict, Witness,
};
use std::path::{Path, PathBuf};

pub(crate) enum ManagedFile {
    /// An overlay on a file that was installed otherwise.
    Overlay(FileEntity),
    /// An overlay with a sidecar.
    WithSidecar(Box<Declared<FileEntity>>),
    /// An overlay on a file that was declared before.
    OverlayAfter(Box<DeclaredFile>, Box<Declared<FileEntity>>),
    /// A declared file, or an orphan of one.
    Declared(Box<Declared<DeclaredFile>>),
    /// Edited lines of a file that is managed otherwise.
    Edit(Box<Declared<EditEntity>>),
    /// A file with conflicting definitions, which is left alone.
    Contradicted(Box<Contradicted>),
}

impl ManagedFile {
    /// Creates an overlay, with its sidecar if it has one.
    pub(crate) fn laid(overlay: FileEntity, sidecars: &mut Sidecars) -> ManagedFile {
        if !sidecars.contains_key(&overlay.path) {
            return ManagedFile::Overlay(overlay);
        }
        let overlay = sidecars::attach(overlay, sidecars);
        match overlay.entity.sidecar {
            Some(_) => ManagedFile::WithSidecar(Box::new(overlay)),
            None => ManagedFile::Overlay(overlay.entity),
        }
    }

    /// Returns true if the file is or was declared, or has a conflict.
    pub(crate) fn is_declared(&self) -> bool {
        matches!(self, ManagedFile::OverlayAfter(..) | ManagedFile::Declared(_) | ManagedFile::Contradicted(_))
    }

    /// Returns true if an apply may restore the state from before a declaration.
    pub(crate) fn may_be_put_back(&self) -> bool {
        match self {
            ManagedFile::Declared(entity) => entity.entity.definition.is_none(),
            ManagedFile::OverlayAfter(..) => true,
            ManagedFile::Overlay(_)
            | ManagedFile::WithSidecar(_)
            | ManagedFile::Edit(_)
            | ManagedFile::Contradicted(_) => false,
        }
    }

    /// Returns the path of a file that is managed as a whole.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            ManagedFile::Overlay(entity) => Some(&entity.path),
            ManagedFile::WithSidecar(entity) | ManagedFile::OverlayAfter(_, entity) => Some(&entity.entity.path),
            ManagedFile::Declared(entity) => Some(&entity.entity.path),
            ManagedFile::Edit(_) | ManagedFile::Contradicted(_) => None,
        }
    }

    /// Returns the files of others that this entity changes, by defined and canonical path. Overlays with a base are left out, because the
    /// base identifies them.
    pub(crate) fn layers(&self) -> Vec<(PathBuf, Option<String>)> {
        match self {
            _ if self.is_left_out() || self.is_orphan() => Vec::new(),
            ManagedFile::Overlay(entity) if entity.has_base => Vec::new(),
            ManagedFile::Overlay(_) | ManagedFile::WithSidecar(_) | ManagedFile::OverlayAfter(..) => {
                self.path().map(|path| (path.to_owned(), None)).into_iter().collect()
            }
            ManagedFile::Edit(edit) => {
                let paths = [edit.entity.path(), edit.entity.file()];
                paths.map(|path| (path.to_owned(), Some(edit.entity.id().to_owned()))).into()
            }
            ManagedFile::Declared(_) | ManagedFile::Contradicted(_) => Vec::new(),
        }
    }

    /// Returns the overlay if it is about to be removed.
    pub(crate) fn leaving(&self) -> Option<&FileEntity> {
        let overlay = match self {
            ManagedFile::Overlay(overlay) => overlay,
            ManagedFile::WithSidecar(overlay) | ManagedFile::OverlayAfter(_, overlay) => &overlay.entity,
            ManagedFile::Declared(_) | ManagedFile::Edit(_) | ManagedFile::Contradicted(_) => return None,
        };
        overlay.is_orphan().then_some(overlay)
    }

    /// Returns the edit if it is an orphan.
    pub(crate) fn orphaned_edit(&self) -> Option<&EditEntity> {
        match self {
            ManagedFile::Edit(edit) if edit.entity.is_orphan() => Some(&edit.entity),
            _ => None,
        }
    }

    /// Returns true if the entity is an orphan.
    pub(crate) fn is_orphan(&self) -> bool {
        match self {
            ManagedFile::Overlay(entity) => entity.is_orphan(),
            ManagedFile::WithSidecar(entity) | ManagedFile::OverlayAfter(_, entity) => entity.entity.is_orphan(),
            ManagedFile::Declared(entity) => entity.entity.definition.is_none(),
            ManagedFile::Edit(entity) => entity.entity.is_orphan(),
            ManagedFile::Contradicted(_) => false,
        }
    }

    /// Returns true if a condition skips the entity.
    pub(crate) fn is_left_out(&self) -> bool {
        match self {
            ManagedFile::WithSidecar(entity) | ManagedFile::OverlayAfter(_, entity) => entity.common.skipped.is_some(),
            ManagedFile::Declared(entity) => entity.common.skipped.is_some(),
            ManagedFile::Edit(entity) => entity.common.skipped.is_some(),
            ManagedFile::Overlay(_) | ManagedFile::Contradicted(_) => false,
        }
    }

    pub(crate) fn apply_alone(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        let ends_well = |applied: &Applied| {
            matches!(applied, Applied::Changed(_) | Applied::ChangedQuietly(_) | Applied::Unchanged)
        };
        match self {
            ManagedFile::Overlay(entity) => entity.apply(host, mode, output),
            ManagedFile::WithSidecar(entity) => entity.apply(host, mode, output),
            ManagedFile::Declared(entity) => entity.apply(host, mode, output),
            ManagedFile::Edit(entity) => entity.apply(host, mode, output),
            ManagedFile::OverlayAfter(declared, overlay) => {
                // An orphaned overlay is scrubbed first.
                let steps: [&dyn Entity; 2] =
                    if overlay.entity.is_orphan() { [&**overlay, &**declared] } else { [&**declared, &**overlay] };
                let first = steps[0].apply(host, mode, output);
                if !ends_well(&first) {
                    return first;
                }
                match steps[1].apply(host, mode, output) {
                    Applied::Unchanged => first,
                    second if first.may_have_changed() => second.after_a_change(),
                    second => second,
                }
            }
            ManagedFile::Contradicted(contradicted) => {
                output.error(format!("skipping target: {}", contradicted.reason));
                Applied::FAILED_UNCHANGED
            }
        }
    }
}

impl ManagedFile {
    /// Returns true if the content is secret.
    fn is_sensitive(&self) -> bool {
        let overlay = |entity: &FileEntity| entity.sidecar.as_ref().is_some_and(|sidecar| sidecar.sensitive);
        match self {
            ManagedFile::Overlay(entity) => overlay(entity),
            ManagedFile::WithSidecar(entity) | ManagedFile::OverlayAfter(_, entity) => overlay(&entity.entity),
            ManagedFile::Declared(entity) => {
                entity.entity.definition.as_ref().is_some_and(|definition| definition.sensitive)
            }
            ManagedFile::Edit(_) | ManagedFile::Contradicted(_) => true,
        }
    }
}

/// Returns the target of a new overlay as it is after orphans have restored it; `None` if none does so before.
fn without_orphans(overlay: &FileEntity, host: &Host) -> Option<Option<Image>> {
    if overlay.is_orphan() || overlay.has_base {
        return None;
    }
    edits::without_orphans(&overlay.path, host).or_else(|| declared::without_orphans(&overlay.path, host))
}

/// Sends the digest of a file if it was requested. It is as sensitive as the file, because a short secret can be guessed from its digest.
fn send_digest(digest: &Digest, sensitive: bool, names: &[BString], output: &mut Output<'_>) {
    if names.iter().any(|name| name == "sha256") {
        output.send_value(&Sent { sensitive, ..Sent::new("sha256", digest.as_str()) });
    }
}

impl Entity for ManagedFile {
    fn report(&self) -> EntityReport {
        match self {
            ManagedFile::Overlay(entity) => entity.report(),
            ManagedFile::OverlayAfter(_, entity) if entity.entity.sidecar.is_none() => entity.entity.report(),
            ManagedFile::OverlayAfter(_, entity) => entity.report(),
            ManagedFile::WithSidecar(entity) => entity.report(),
            ManagedFile::Declared(entity) => entity.report(),
            ManagedFile::Edit(entity) => entity.report(),
            ManagedFile::Contradicted(contradicted) => contradicted.report.clone(),
        }
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        let applied = self.apply_alone(host, mode, output);
        if self.is_declared() {
            // With version 3, each other entity has its own process.
            let id = self.report().id;
            tidy_up(host, |other| id == other, output);
        }
        applied
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        match self {
            ManagedFile::Overlay(entity) => match without_orphans(entity, host) {
                Some(before) => entity.check_after(before, host, mode, output),
                None => entity.check(host, mode, output),
            },
            ManagedFile::WithSidecar(entity) => {
                match without_orphans(&entity.entity, host).filter(|_| entity.common.skipped.is_none()) {
                    Some(before) => entity.entity.check_after(before, host, entity.mode(mode), output),
                    None => entity.check(host, mode, output),
                }
            }
            ManagedFile::OverlayAfter(declared, overlay) => {
                if overlay.entity.is_orphan() || overlay.common.skipped.is_some() {
                    return overlay.check(host, mode, output);
                }
                // The overlay is applied to the restored file, so that manual changes are changes of the declared content.
                let first = declared.check(host, mode, output);
                if !matches!(first, Verdict::WouldChange(_) | Verdict::InDesiredState) {
                    return first;
                }
                let second = match declared.restored(host) {
                    Some(restored) => overlay.entity.check_after(restored, host, mode, output),
                    None => overlay.entity.check(host, mode, output),
                };
                match (first, second) {
                    (Verdict::WouldChange(restored), Verdict::WouldChange(laid)) => {
                        Verdict::WouldChange([restored, laid].concat())
                    }
                    (first, Verdict::InDesiredState) => first,
                    (_, second) => second,
                }
            }
            ManagedFile::Declared(entity) => entity.check(host, mode, output),
            ManagedFile::Edit(entity) => entity.check(host, mode, output),
            ManagedFile::Contradicted(contradicted) => {
                output.error(format!("skipping target: {}", contradicted.reason));
                Verdict::Failed
            }
        }
    }

    fn forget(&self, host: &Host, output: &mut Output<'_>) -> Result<(), ForgetError> {
        match self {
            ManagedFile::Overlay(entity) => entity.forget(host, output),
            ManagedFile::WithSidecar(entity) => entity.forget(host, output),
            ManagedFile::Declared(entity) => entity.forget(host, output),
            ManagedFile::Edit(entity) => entity.forget(host, output),
            ManagedFile::OverlayAfter(declared, overlay) => {
                declared.forget(host, output).and_then(|()| overlay.forget(host, output))
            }
            ManagedFile::Contradicted(contradicted) => Err((&contradicted.reason).into()),
        }
    }

    fn send(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        if let Some(path) = self.path()
            && let Ok(Some(mut file)) = Tree::open(host.root()).and_then(|root| root.place(path).open_if_file())
            && let Ok(digest) = Digest::of(&mut file)
        {
            send_digest(&digest, self.is_sensitive(), names, output);
        }
    }

    fn foresee(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        if let ManagedFile::Declared(declared) = self
            && let Some(digest) = declared.entity.declared_content(host)
        {
            send_digest(&digest, self.is_sensitive(), names, output);
        }
    }

    fn hindrance(&self) -> Option<&Hindrance> {
        match self {
            ManagedFile::Overlay(_) | ManagedFile::Contradicted(_) => None,
            ManagedFile::WithSidecar(entity) | ManagedFile::OverlayAfter(_, entity) => entity.hindrance(),
            ManagedFile::Declared(entity) => entity.hindrance(),
            ManagedFile::Edit(entity) => entity.hindrance(),
        }
    }

    fn health_checks(&self) -> &[HealthCheck] {
        match self {
            ManagedFile::Overlay(_) | ManagedFile::Contradicted(_) => &[],
            ManagedFile::WithSidecar(entity) | ManagedFile::OverlayAfter(_, entity) => entity.health_checks(),
            ManagedFile::Declared(entity) => entity.health_checks(),
            ManagedFile::Edit(entity) => entity.health_checks(),
        }
    }

    fn witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        match self {
            ManagedFile::Overlay(entity) => entity.witnesses(host),
            ManagedFile::Declared(entity) => entity.witnesses(host),
            // A table may name accounts. Other edits of a file, and their definitions, decide about the same lines.
            ManagedFile::WithSidecar(_)
            | ManagedFile::OverlayAfter(..)
            | ManagedFile::Edit(_)
            | ManagedFile::Contradicted(_) => None,
        }
    }

    fn parts(&self, host: &Host) -> Vec<BString> {
        if let ManagedFile::Declared(entity) = self { entity.parts(host) } else { Vec::new() }
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        match self {
            ManagedFile::Overlay(entity) => entity.diff(host),
            ManagedFile::WithSidecar(entity) => entity.diff(host),
            ManagedFile::OverlayAfter(_, entity) => entity.diff(host),
            ManagedFile::Declared(entity) => entity.diff(host),
            ManagedFile::Edit(entity) => entity.diff(host),
            ManagedFile::Contradicted(_) => None,
        }
    }

    fn blame(&self, host: &Host, path: Option<&Path>) -> Option<Vec<Span>> {
        match self {
            ManagedFile::Overlay(entity) => entity.blame(host, path),
            ManagedFile::WithSidecar(entity) => entity.blame(host, path),
            ManagedFile::OverlayAfter(_, entity) => entity.blame(host, path),
            ManagedFile::Declared(entity) => entity.blame(host, path),
            ManagedFile::Edit(entity) => entity.blame(host, path),
            ManagedFile::Contradicted(_) => None,
        }
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        let preview = |overlay: &FileEntity| match without_orphans(overlay, host) {
            Some(before) => overlay.preview_after(host, &before?, true),
            None => overlay.preview(host),
        };
        match self {
            ManagedFile::Overlay(entity) => preview(entity),
            ManagedFile::WithSidecar(entity) if entity.common.skipped.is_some() => None,
            ManagedFile::WithSidecar(entity) => preview(&entity.entity),
            ManagedFile::OverlayAfter(declared, overlay) => {
                // The overlay is applied to the restored file, unless the overlay is an orphan or skipped.
                let restored = declared.restored(host);
                let is_left_out = overlay.common.skipped.is_some();
                match (restored, overlay.entity.is_orphan() || is_left_out) {
                    (Some(Some(restored)), false) => overlay.entity.preview_after(host, &restored, false),
                    (None, false) => overlay.entity.preview(host),
                    _ => declared.preview(host),
                }
            }
            ManagedFile::Declared(entity) => entity.preview(host),
            ManagedFile::Edit(entity) => entity.preview(host),
            ManagedFile::Contradicted(_) => None,
        }
    }
}

/// Removes records that are no longer needed of entities for which `is_ours` returns true.
pub(crate) fn tidy_up(host: &Host, is_ours: impl Fn(&str) -> bool, output: &mut Output<'_>) {
    if let Err(error) = declared::tidy(host, is_ours, output) {
        output.warning(error.to_string());
    }
}
