//! Declarations and conflicts between them.

use super::definition::{Ensure, FileDefinition};
use super::entity::{DeclaredFile, Nesting};
use super::wanted::{TEMPLATE_SUFFIX, source_directories};
use crate::overlay::FileEntity;
use holo_change::base_store::Remembered;
use holo_change::claims::{self, Claim};
use holo_change::tracked::Tracks;
use holo_plugin::declared::Declared;
use holo_plugin::definitions::Defined;
use holo_plugin::index::{Table, define_index};
use holo_plugin::{Host, Output};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// A declaration of a path.
pub(super) struct Declaration {
    pub(super) id: String,
    pub(super) path: PathBuf,
    pub(super) canonical: PathBuf,
    /// The symlinks in the path.
    pub(super) symlinks: Vec<PathBuf>,
    pub(super) defined: Box<Defined<FileDefinition>>,
    /// The reason why it cannot be applied.
    pub(super) problem: Option<String>,
}

define_index! {
    /// The index of a declaration.
    pub(super) DeclarationIndex
}

impl Declaration {
    /// Returns true if no other path can be below this one.
    fn is_in_the_way(&self) -> bool {
        matches!(self.defined.definition.ensure, Ensure::Absent | Ensure::Present)
    }

    /// Returns true if the declaration is not skipped by a condition.
    pub(super) fn is_effective(&self) -> bool {
        self.defined.common.skipped.is_none()
    }

    fn is_to_be_absent(&self) -> bool {
        self.is_effective() && self.problem.is_none() && self.defined.definition.ensure == Ensure::Absent
    }

    pub(super) fn claim(&self) -> Claim {
        let mut claim = Claim::new(&self.id, &self.canonical, &self.defined.common.sources);
        claim.is_directory = self.defined.definition.ensure == Ensure::Directory;
        claim.recursive = self.defined.definition.recursive();
        claim
    }

    pub(super) fn into_entity(
        self,
        overlay: Option<FileEntity>,
        nesting: Nesting,
        host: &Host,
    ) -> Declared<DeclaredFile> {
        let Defined { definition, common } = *self.defined;
        let template = definition.source.as_ref().filter(|source| source.ends_with(TEMPLATE_SUFFIX));
        let template = template.map(|source| {
            let (directories, below) = source_directories(source, host);
            directories.shown(below)
        });
        let keys = &common.keys;
        let has_order = [&keys.after, &keys.requires, &keys.subscribes].iter().any(|ids| !ids.is_empty());
        let manager = host.system().package_manager().filter(|manager| manager.is_configured_by(&self.path));
        let entity = DeclaredFile {
            configures: manager.filter(|_| !has_order).map(|manager| manager.name),
            path: self.path,
            canonical: self.canonical,
            sources: common.sources.clone(),
            template,
            timeout: common.keys.timeout,
            definition: Some(definition),
            nesting,
            overlay: overlay.map(Box::new),
            orphan: None,
        };
        Declared::new(entity, common)
    }
}

/// Returns the places of paths that are to be absent, by the IDs of their declarations.
pub(super) fn nested_absences(declarations: &Table<DeclarationIndex, Declaration>) -> HashMap<String, Nesting> {
    let absent = || declarations.iter().filter(|declaration| declaration.is_to_be_absent());
    let by_path: HashMap<&Path, &str> = absent().map(|it| (it.canonical.as_path(), it.id.as_str())).collect();
    let mut nested: HashMap<String, Nesting> = HashMap::new();
    for inner in absent() {
        if let Some(outer) = inner.canonical.ancestors().skip(1).find_map(|above| by_path.get(above)) {
            nested.entry((*outer).to_owned()).or_default().inner.push(inner.id.clone());
            nested.entry(inner.id.clone()).or_default().is_inner = true;
        }
    }
    nested
}

/// Finds conflicting declarations.
pub(super) fn find_contradictions(declarations: &mut Table<DeclarationIndex, Declaration>, host: &Host) {
    let mut by_path: HashMap<PathBuf, DeclarationIndex> = HashMap::new();
    let mut problems: Vec<(DeclarationIndex, String)> = Vec::new();
    for (index, declaration) in declarations.entries().filter(|(_, declaration)| declaration.is_effective()) {
        let other = by_path.insert(declaration.canonical.clone(), index).map(|other| (other, &declarations[other]));
        // With version 4 of the protocol, the dispatcher detects this from the entities' assets.
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
        // A path through a symlink that is removed leads nowhere.
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

/// Publishes the declarations, the claims of invalid ones, and the entities that hold paths which they no longer own.
pub(super) fn publish(
    (declarations, unusable): (&Table<DeclarationIndex, Declaration>, Vec<Claim>),
    orphans: &[&Remembered<Tracks>],
    records: Option<&BTreeMap<String, Remembered<Tracks>>>,
    host: &Host,
    output: &mut Output<'_>,
) {
    let effective = declarations.iter().filter(|declaration| declaration.is_effective());
    let claims: Vec<Claim> = effective.map(Declaration::claim).chain(unusable).collect();
    let Some(records) = records else {
        if let Err(error) = claims::publish_some(host.locations(), claims) {
            output.error(error.to_string());
        }
        return;
    };
    let mut holders: Vec<String> = orphans.iter().map(|orphan| orphan.id.clone()).collect();
    let absent: BTreeSet<&Path> = declarations
        .iter()
        .filter(|declaration| declaration.is_effective() && declaration.defined.definition.ensure == Ensure::Absent)
        .map(|declaration| declaration.canonical.as_path())
        .collect();
    for declaration in declarations {
        // Removing a directory takes over the paths of all entities in it.
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
