//! Declared files: what TOML files in the resource directory say of files, directories and symlinks.

mod blame;
mod definition;
mod entity;
mod executor;
mod inspection;
mod preview;
mod unchanged;
mod wanted;
mod words;

pub(crate) use definition::FileDefinition;
pub(crate) use entity::DeclaredFile;
pub(crate) use executor::{apply, remove_empty_folder, tidy};

use crate::overlay::{FileEntity, PREFIX};
use bstr::ByteSlice;
use definition::Ensure;
use holo_change::base_store::Remembered;
use holo_change::claims::{self, Claim};
use holo_change::tracked::{Digest, State, Tracks};
use holo_change::{CanonicalPaths, Image, Tree};
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{Defined, Definitions};
use holo_plugin::index::{Table, define_index};
use holo_plugin::{Applied, Entity, EntityReport, FilePair, ForceTo, Host, Mode, Output, Span, Verdict, apply_one};
use inspection::Inspection;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use unchanged::Known;
use wanted::DeclaredError;

/// The declarations, and the records of earlier ones.
pub(crate) struct Found {
    definitions: Definitions<FileDefinition>,
    records: BTreeMap<String, Remembered<Tracks>>,
}

impl DeclaredFile {
    /// Returns what its path is going to be when nothing declares it any more; none if nothing, or that cannot be told.
    pub(crate) fn restored(&self, host: &Host) -> Option<Image> {
        preview::restored(self, host).ok().flatten()
    }
}

impl Entity for DeclaredFile {
    fn report(&self) -> EntityReport {
        self.to_report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        // A process for one entity does not look at what is recorded of all of them.
        apply_one(self, mode, output, |set, answers| apply(host, set, false, answers))
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        Checks::open(host, 0).verdict(self, output)
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        if self.definition.as_ref().is_some_and(|definition| definition.sensitive) {
            return None;
        }
        Inspection::open(host).ok()?.difference(self)
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        preview::preview(self, &Inspection::open(host).ok()?).ok().flatten()
    }

    fn blame(&self, host: &Host, _: Option<&Path>) -> Option<Vec<Span>> {
        blame::blame(self, host)
    }
}

/// Finds out what applying declared files would do.
pub(crate) struct Checks<'a>(Result<(Inspection<'a>, Known), DeclaredError>);

impl<'a> Checks<'a> {
    /// Opens the host's files. Of so many, what is known from earlier applies to be unchanged is not read again.
    pub(crate) fn open(host: &'a Host, recorded: usize) -> Checks<'a> {
        Checks(Inspection::open(host).map(|inspection| {
            let known = Known::open(host, &inspection, recorded);
            (inspection, known)
        }))
    }

    /// Returns the effect of applying a file. Errors are said on `output`.
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
            inspection.check(entity)
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

/// A file with two contradicting declarations; it is left alone.
pub(crate) struct Contradicted {
    pub(crate) report: EntityReport,
    /// The two that one has to choose between.
    pub(crate) reason: String,
}

/// Managed files that are declared, were declared, or had to do with one of those.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) declared: Vec<Declared<DeclaredFile>>,
    /// Those that have an overlay now.
    pub(crate) leaving: BTreeMap<PathBuf, DeclaredFile>,
    pub(crate) contradicted: Vec<Contradicted>,
}

/// A declaration with the path that it is about.
struct Declaration {
    id: String,
    path: PathBuf,
    canonical: PathBuf,
    /// The symlinks that the path leads through.
    symlinks: Vec<PathBuf>,
    defined: Defined<FileDefinition>,
    /// The reason why it cannot be applied.
    problem: Option<String>,
}

impl DeclaredFile {
    /// Returns the digest of the content that is declared, if one is, and it can be read.
    pub(crate) fn declared_content(&self, host: &Host) -> Option<Digest> {
        let content = wanted::content(self.definition.as_ref()?, host).ok()??;
        Some(Digest::of_bytes(&content))
    }
}

impl Found {
    /// Takes what is declared, beside what is remembered.
    pub(crate) fn new(definitions: Definitions<FileDefinition>, host: &Host, output: &mut Output<'_>) -> Found {
        let records = match inspection::bases(host).and_then(|bases| bases.all(output)) {
            Ok(records) => records,
            Err(error) => {
                output.error(error.to_string());
                BTreeMap::new()
            }
        };
        Found { definitions, records }
    }

    /// Returns the locations of declarations, by the IDs of their entities.
    pub(crate) fn locations(&self) -> BTreeMap<String, String> {
        let defined = self.definitions.valid.iter();
        defined.map(|(id, defined)| (id.clone(), defined.common.location.to_string())).collect()
    }

    /// Returns true if nothing is declared, as on a machine that has overlays alone.
    pub(crate) fn is_empty(&self) -> bool {
        self.definitions.valid.is_empty() && self.records.is_empty()
    }

    /// The entities, given those that have an overlay. Where a path has been both, what is wanted now takes the other one with it: an
    /// overlay that nothing lays over any more goes before the declared file comes, and the other way round. Where it is to be both, it is
    /// neither, and stays as it is.
    pub(crate) fn into_entities(
        self,
        overlays: &mut BTreeMap<PathBuf, FileEntity>,
        host: &Host,
        output: &mut Output<'_>,
    ) -> Files {
        let mut files = Files::default();
        let paths = Paths::new(host);
        let overlaid: HashMap<PathBuf, PathBuf> =
            overlays.keys().map(|path| (paths.canonical(path), path.clone())).collect();
        let orphans: Vec<&Remembered<Tracks>> =
            self.records.values().filter(|record| self.definitions.is_orphan(&record.id)).collect();
        let mut declarations = Table::new();
        for (id, defined) in &self.definitions.valid {
            let (id, path, defined) = (id.clone(), defined.definition.path().to_owned(), defined.clone());
            let (canonical, symlinks) = (paths.canonical(&path), paths.symlinks(&path));
            declarations.push(Declaration { id, canonical, symlinks, path, defined, problem: None });
        }
        find_contradictions(&mut declarations, host);
        publish(&declarations, &orphans, &self.records, host, output);
        let (mut contradicted, mut said) = (BTreeSet::new(), BTreeSet::new());
        for mut declaration in declarations {
            let overlay_path = overlaid.get(&declaration.canonical);
            if let Some(overlay) = overlay_path.and_then(|path| overlays.get(path))
                && !overlay.is_orphan()
                && declaration.is_effective()
            {
                let resources: Vec<String> = overlay
                    .resources
                    .iter()
                    .map(|resource| overlay.shown_resource(resource).display().to_string())
                    .collect();
                let shown = declaration.claim().shown();
                let resources = resources.join(", ");
                let problem =
                    format!("{shown} is declared and has resource files too ({resources}); one of both has to go");
                contradicted.insert((overlay.path.clone(), problem.clone()));
                declaration.problem = Some(problem);
            }
            let overlay = overlay_path.filter(|_| declaration.problem.is_none() && declaration.is_effective());
            let overlay = overlay.cloned().and_then(|path| overlays.remove(&path));
            let problem = declaration.problem.take();
            let entity = declaration.into_entity(overlay);
            match problem {
                None => files.declared.push(entity),
                Some(reason) => {
                    if said.insert(reason.clone()) {
                        output.error(&reason);
                    }
                    let mut report = entity.report();
                    // It is said already what is wrong.
                    report.edges.owns.clear();
                    files.contradicted.push(Contradicted { report, reason });
                }
            }
        }
        for (path, reason) in contradicted {
            let Some(overlay) = overlays.remove(&path) else { continue };
            let report = overlay.to_report();
            if files.contradicted.iter().all(|contradicted| contradicted.report.id != report.id) {
                files.contradicted.push(Contradicted { report, reason });
            }
        }
        for remembered in orphans {
            let Some(path) = remembered.id.as_bytes().strip_prefix(PREFIX) else { continue };
            let path = path.to_path_lossy().into_owned();
            let mut report = remembered.orphan_report();
            let was_absent = remembered.base.get(&path).is_some_and(|track| track.base == State::Absent);
            report.inform(if was_absent { "delete" } else { "restore" }, host.below_root(&path).display().to_string());
            let entity = DeclaredFile {
                canonical: path.clone(),
                path: path.clone(),
                sources: Vec::new(),
                timeout: None,
                definition: None,
                overlay: None,
                orphan: Some(report),
            };
            if overlays.contains_key(&path) {
                files.leaving.insert(path, entity);
            } else if files.contradicted.iter().all(|contradicted| contradicted.report.id != remembered.id) {
                files.declared.push(Declared::orphan(entity));
            }
        }
        files
    }
}

define_index! {
    /// The index of a declaration among all.
    DeclarationIndex
}

impl Declaration {
    /// Returns true if nothing can be below its path.
    fn is_in_the_way(&self) -> bool {
        matches!(self.defined.definition.ensure, Ensure::Absent | Ensure::Present)
    }

    /// Returns true if no condition leaves it out.
    fn is_effective(&self) -> bool {
        self.defined.common.skipped.is_none()
    }

    fn claim(&self) -> Claim {
        let mut claim = Claim::new(&self.id, &self.canonical, &self.defined.common.sources);
        claim.is_directory = self.defined.definition.ensure == Ensure::Directory;
        claim
    }

    fn into_entity(self, overlay: Option<FileEntity>) -> Declared<DeclaredFile> {
        let entity = DeclaredFile {
            path: self.path,
            canonical: self.canonical,
            sources: self.defined.common.sources.clone(),
            timeout: self.defined.common.keys.timeout,
            definition: Some(self.defined.definition),
            overlay,
            orphan: None,
        };
        Declared::new(entity, self.defined.common)
    }
}

/// Finds contradicting declarations.
fn find_contradictions(declarations: &mut Table<DeclarationIndex, Declaration>, host: &Host) {
    let mut by_path: HashMap<PathBuf, DeclarationIndex> = HashMap::new();
    let mut problems: Vec<(DeclarationIndex, String)> = Vec::new();
    for (index, declaration) in declarations.entries().filter(|(_, declaration)| declaration.is_effective()) {
        let other = by_path.insert(declaration.canonical.clone(), index).map(|other| (other, &declarations[other]));
        // Under version 4, the dispatcher compares what entities own.
        if let Some((other_index, other)) = other.filter(|_| host.api_version() < 4) {
            let problem = format!(
                "{} and {} are the same file; one of both has to go",
                other.claim().shown(),
                declaration.claim().shown()
            );
            problems.extend([(index, problem.clone()), (other_index, problem)]);
        }
    }
    for (index, declaration) in declarations.entries().filter(|(_, declaration)| declaration.is_effective()) {
        if declaration.defined.definition.ensure == Ensure::Absent {
            continue;
        }
        // A symlink that is to go leads nowhere then.
        let spelled = declaration.path.ancestors().skip(1).chain(declaration.symlinks.iter().map(PathBuf::as_path));
        let above = declaration.canonical.ancestors().skip(1).chain(spelled);
        let above = above.filter_map(|above| by_path.get(above)).find(|other| declarations[**other].is_in_the_way());
        let Some((other_index, other)) = above.map(|other| (*other, &declarations[*other])) else { continue };
        let wrong = match other.defined.definition.ensure {
            Ensure::Absent => "is to be absent",
            Ensure::Present => "is to be a file",
            Ensure::Directory | Ensure::Symlink => continue,
        };
        let problem = format!(
            "{} {wrong}, so that {} cannot be in it; one of both has to go",
            other.claim().shown(),
            declaration.claim().shown()
        );
        problems.extend([(index, problem.clone()), (other_index, problem)]);
    }
    for (index, problem) in problems {
        declarations[index].problem.get_or_insert(problem);
    }
}

/// Publishes the declarations, and the entities that have something that is not theirs any more.
fn publish(
    declarations: &Table<DeclarationIndex, Declaration>,
    orphans: &[&Remembered<Tracks>],
    records: &BTreeMap<String, Remembered<Tracks>>,
    host: &Host,
    output: &mut Output<'_>,
) {
    let claims: Vec<Claim> =
        declarations.iter().filter(|declaration| declaration.is_effective()).map(Declaration::claim).collect();
    let mut holders: Vec<String> = orphans.iter().map(|orphan| orphan.id.clone()).collect();
    let absent: BTreeSet<&Path> = declarations
        .iter()
        .filter(|declaration| declaration.is_effective() && declaration.defined.definition.ensure == Ensure::Absent)
        .map(|declaration| declaration.canonical.as_path())
        .collect();
    for declaration in declarations {
        // A directory that is removed takes over from everything in it.
        let goes_with_another = declaration.canonical.ancestors().skip(1).any(|above| absent.contains(above));
        let has_others =
            |record: &Remembered<Tracks>| record.base.iter().any(|(path, _)| path != declaration.canonical);
        if records.get(&declaration.id).is_some_and(|record| {
            goes_with_another || !declaration.is_effective() || declaration.problem.is_some() || has_others(record)
        }) {
            holders.push(declaration.id.clone());
        }
    }
    if let Err(error) = claims::publish(host.locations(), &claims, &holders) {
        output.error(error.to_string());
    }
}

/// Finds the canonical paths of many.
struct Paths {
    canonical: Option<CanonicalPaths>,
}

impl Paths {
    fn new(host: &Host) -> Paths {
        Paths { canonical: Tree::open(host.root()).ok().map(|root| CanonicalPaths::new(&root)) }
    }

    /// Returns the path itself if it cannot be looked at.
    fn canonical(&self, path: &Path) -> PathBuf {
        self.canonical.as_ref().and_then(|canonical| canonical.of(path).ok()).unwrap_or_else(|| path.to_owned())
    }

    fn symlinks(&self, path: &Path) -> Vec<PathBuf> {
        self.canonical.as_ref().and_then(|canonical| canonical.symlinks(path).ok()).unwrap_or_default()
    }
}
