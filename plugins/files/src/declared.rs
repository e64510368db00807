//! Declared files: files, directories and symlinks that are defined in TOML.

mod access;
mod declaration;
mod definition;
mod entity;
mod executor;
mod found;
mod inspection;
mod preview;
mod wanted;

pub(crate) use definition::FileDefinition;
pub(crate) use entity::DeclaredFile;
pub(crate) use executor::{apply, tidy};
pub(crate) use found::{Contradicted, DeclaredScan};
pub(crate) use inspection::without_orphans;

use access::{Accesses, ChangedAlong};
use bstr::{BString, ByteSlice};
use holo_change::image_store::{self, BASE};
use holo_change::tracked::{Digest, State};
use holo_change::{Image, Tree};
use holo_plugin::declared::Declared;
use holo_plugin::origins::{TemplateText, Traced};
use holo_plugin::{
    Applied, Entity, EntityReport, FilePair, ForceTo, ForgetError, Host, Mode, Origin, Output, Span, Verdict, Witness,
    apply_one, leads_through_symlink,
};
use inspection::Inspection;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use wanted::{DeclaredError, TEMPLATE_SUFFIX};

impl DeclaredFile {
    /// Returns the image that the path will have after its declaration is removed, or `None` if the path will not exist.
    /// The outer option is `None` if the path stays as it is, or this is unknown.
    pub(crate) fn restored(&self, host: &Host) -> Option<Option<Image>> {
        preview::restored(self, host).ok().flatten()
    }

    /// Returns the state of the path, which may be that of an overlay; `None` if it cannot be determined.
    fn live(&self, host: &Host) -> Option<State> {
        State::of(&Tree::open(host.root()).ok()?.place(&self.path)).ok()
    }

    fn forget_record(&self, host: &Host, output: &mut Output<'_>) -> Result<(), DeclaredError> {
        let _held = Tree::open(host.state_dir())?.hold()?;
        let inspection = Inspection::open(host)?;
        let id = self.id();
        if let Some(record) = inspection.recall(self)? {
            host.keep_originals(&id, (&inspection.tracker, &record.base), output)?;
        }
        if access::has_records(host) {
            access::records(host).forget(&id)?;
        }
        Ok(inspection.tracker.bases().forget(&id)?)
    }

    /// Returns true if it is declared as a regular file.
    pub(crate) fn is_declared_as_file(&self) -> bool {
        self.definition.as_ref().is_some_and(|definition| definition.ensure == definition::Ensure::Present)
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
        apply_one(self, mode, output, |set, answers| apply(host, set, answers))
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        Checks::open(host).verdict(self, mode, output)
    }

    fn forget(&self, host: &Host, output: &mut Output<'_>) -> Result<(), ForgetError> {
        self.forget_record(host, output).map_err(|error| match error {
            DeclaredError::NeedsForce(reason) | DeclaredError::Never(reason) => reason.into(),
            DeclaredError::Meanwhile => "it was changed meanwhile".into(),
        })
    }

    fn witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        let definition = self.definition.as_ref()?;
        let is_plain = self.overlay.is_none() && !definition.declares_access();
        let parent = self.path.parent().unwrap_or(&self.path);
        if !is_plain || leads_through_symlink(host.root(), parent) {
            return None;
        }
        let mut witnesses = host.accounts().witnesses(definition.owner.as_deref(), definition.group.as_deref())?;
        if let Some(source) = &definition.source {
            let (directories, below) = wanted::source_directories(source, host);
            if directories.iter().any(|directory| leads_through_symlink(directory, below)) {
                return None;
            }
            witnesses.extend(directories.iter().map(|directory| Witness::file(&directory.join(below))));
        }
        witnesses.push(Witness::file(&host.below_root(&self.path)));
        // The base of an overlay would make it a file of the overlay.
        witnesses.push(Witness::absent(&host.state_dir().join(image_store::below(BASE, &self.path))));
        Some(witnesses)
    }

    /// The directories below, as owners and modes apply to whatever is in them.
    fn parts(&self, host: &Host) -> Vec<BString> {
        let recurses = self.definition.as_ref().is_some_and(|definition| definition.recurse);
        if recurses { access::directories(&host.below_root(&self.path), &self.path) } else { Vec::new() }
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        if self.definition.as_ref().is_some_and(|definition| definition.sensitive) {
            return None;
        }
        let inspection = Inspection::open(host).ok()?;
        let pair = inspection.difference(self);
        // The content may be equal while ACLs or other attributes differ.
        let shows_more = pair.as_ref().is_none_or(|pair| pair.from == pair.to || is_directory(pair));
        let access = || Accesses::open(&inspection).and_then(|accesses| accesses.difference(self)).ok().flatten();
        if shows_more && access::has_records(host) { access().or(pair) } else { pair }
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        let inspection = Inspection::open(host).ok()?;
        let preview = preview::preview(self, &inspection).ok().flatten();
        let access = || Accesses::open(&inspection).and_then(|accesses| accesses.preview(self)).ok().flatten();
        let shows_more = preview.as_ref().is_none_or(is_directory);
        if shows_more && Accesses::concern(self, || access::has_records(host)) { access().or(preview) } else { preview }
    }

    fn blame(&self, host: &Host, _: Option<&Path>) -> Option<Vec<Span>> {
        blame(self, host)
    }
}

/// Returns true for the modes of a directory. A listing of permissions shows more.
fn is_directory(pair: &FilePair) -> bool {
    pair.from.is_dir()
}

/// Checks declared files.
pub(crate) struct Checks<'a> {
    inspection: Result<Inspection<'a>, DeclaredError>,
    /// Whether there may be records of permissions.
    has_records: OnceLock<bool>,
    changed_along: OnceLock<Result<ChangedAlong, DeclaredError>>,
}

impl<'a> Checks<'a> {
    /// Opens the host's files.
    pub(crate) fn open(host: &'a Host) -> Checks<'a> {
        Checks { inspection: Inspection::open(host), has_records: OnceLock::new(), changed_along: OnceLock::new() }
    }

    /// Returns the effect of applying a file. Prints errors.
    pub(crate) fn check(&self, declared: &Declared<DeclaredFile>, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        match &declared.common.skipped {
            Some(reason) => Verdict::Skipped(reason.clone()),
            None => self.verdict(&declared.entity, declared.mode(mode), output),
        }
    }

    fn verdict(&self, entity: &DeclaredFile, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        let checked = self.inspection.as_ref().map_err(Clone::clone).and_then(|inspection| {
            let has_records = || *self.has_records.get_or_init(|| access::has_records(inspection.host));
            let verdict = match inspection.check(entity, mode, output)? {
                Verdict::InDesiredState if has_records() => {
                    let changed = self.changed_along.get_or_init(|| ChangedAlong::read(inspection.host));
                    changed.as_ref().map_err(Clone::clone)?.verdict(entity, inspection)?
                }
                verdict => verdict,
            };
            match Accesses::concern(entity, has_records) {
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

/// Returns the origins of the lines, if the path is declared as a file and exists.
fn blame(entity: &DeclaredFile, host: &Host) -> Option<Vec<Span>> {
    let definition = entity.definition.as_ref().filter(|definition| !definition.sensitive)?;
    let current = fs::read(host.below_root(&entity.path)).ok()?;
    let Some(content) = wanted::content(definition, host).ok()? else {
        // The content is unmanaged.
        return Some(Traced::uniform(current, &Origin::Base).into_spans());
    };
    let traced = match &definition.source {
        Some(source) => from_source(content, &source_path(source, host)?),
        None => from_definition(content, definition, entity.sources.first()?),
    };
    Some(traced.become_text(current, |_, _| Origin::Edited).into_spans())
}

fn source_path(source: &str, host: &Host) -> Option<PathBuf> {
    let (directories, below) = wanted::source_directories(source, host);
    Some(directories.directory_of(below).ok()?.join(below))
}

fn from_source(content: Vec<u8>, path: &Path) -> Traced {
    if !path.as_os_str().as_encoded_bytes().ends_with(TEMPLATE_SUFFIX.as_bytes()) {
        return Traced::resource(content, path);
    }
    let text = fs::read(path).unwrap_or_default();
    TemplateText { path: path.to_owned(), text }.trace(&[], None, content)
}

/// Maps the lines of a content to the table in the definition file: each to its own line, or all to the line of the key.
fn from_definition(content: Vec<u8>, definition: &FileDefinition, file: &Path) -> Traced {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let names_path = |line: &&str| {
        line.split_once('=').is_some_and(|(key, value)| key.trim() == "path" && value.contains(&definition.path))
    };
    let path_at = lines.iter().position(names_path).unwrap_or(0);
    let is_header = |line: &&str| line.starts_with("[[");
    let start = lines.iter().take(path_at).rposition(is_header).unwrap_or(0);
    let end = lines.iter().skip(path_at).position(is_header).map_or(lines.len(), |next| path_at + next);
    let table = lines.get(start..end).unwrap_or_default();
    let key_at =
        table.iter().position(|line| line.trim_start().starts_with("content")).map_or(path_at, |at| start + at);
    let mut at = key_at;
    Traced::new(content, |_, line| {
        let line = line.trim_end_with(|letter| letter == '\n');
        let own = lines.iter().enumerate().take(end).skip(at + 1).find(|(_, text)| text.as_bytes() == line);
        if let Some((found, _)) = own.filter(|_| !line.is_empty()) {
            at = found;
        }
        let number = own.filter(|_| !line.is_empty()).map_or(key_at, |(found, _)| found);
        Origin::Resource { path: file.to_owned(), line: number + 1 }
    })
}

/// Returns the verbs for a change of a path's state.
fn change(current: &State, desired: &State) -> (String, String) {
    match (current, desired) {
        (_, State::Absent) => ("remove".to_owned(), "removed".to_owned()),
        (State::Absent, _) => ("make".to_owned(), "made".to_owned()),
        _ => match current.differs_by(desired) {
            Some(what) => (format!("change {what} of"), format!("changed {what} of")),
            None => ("write".to_owned(), "wrote".to_owned()),
        },
    }
}

const FORGET: (&str, &str) = ("forget", "forgot");

/// Returns the verbs for restoring a path.
fn back(base: &State, current: &State) -> (&'static str, &'static str) {
    match base {
        base if base == current => FORGET,
        State::Absent => ("remove", "removed"),
        _ => ("restore", "restored"),
    }
}
