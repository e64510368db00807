//! The plugin: its entities, and applying sets of them, in which archives wait for others that they need.

use crate::definition::{Archive, Ensure};
use crate::entity::{ArchiveEntity, Desired};
use crate::shared::Shared;
use crate::store::{ArchiveRecord, DefinedArchive, Inventory, canonical};
use holo_change::Tree;
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::claims::{self, Claim};
use holo_download::Address;
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{self, Definitions};
use holo_plugin::{
    Applied, Entity, EntityReport, FilePair, Host, Job, Mode, Output, Plugin, ScanError, SetAnswers, Verdict, Witness,
    apply_concurrently, check_concurrently,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The `archives` plugin.
#[derive(Default)]
pub(crate) struct Archives {
    shared: Arc<Shared>,
}

impl Plugin for Archives {
    type Entity = Declared<ArchiveEntity>;

    const READS: &'static [&'static str] = &["*.toml", "*.toml.jinja"];

    const CONCURRENT: bool = true;

    const SENDS: &'static [&'static str] = &["archive#sha256", "archive#etag"];

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Self::Entity>, ScanError> {
        let definitions = definitions::read::<Archive>(host, output);
        let (mut orphans, mut holders, mut unusable) = (BTreeMap::new(), Vec::new(), Vec::new());
        match BaseStore::open(host.locations()).all::<ArchiveRecord>(output) {
            Ok(all) => {
                holders.extend(all.keys().cloned());
                unusable.extend(
                    definitions.unusable(all.keys()).into_iter().filter_map(|id| all.get(id)).flat_map(recorded_claims),
                );
                orphans.extend(all.into_iter().filter(|(id, _)| definitions.is_orphan(id)));
            }
            Err(error) => {
                output.error(error.to_string());
                return Err(ScanError);
            }
        }
        let mut inventory = Inventory { orphans, defined: Vec::new() };
        if let Ok(root) = Tree::open(host.root()) {
            let kept = definitions.valid.iter().filter(|(_, defined)| defined.common.skipped.is_none());
            inventory.defined.extend(kept.map(|(id, defined)| DefinedArchive {
                id: id.clone(),
                path: canonical(&root, &defined.definition.path, false),
                tree: defined.definition.extract_to.as_deref().map(|directory| canonical(&root, directory, true)),
                ensure: defined.definition.ensure,
            }));
        }
        publish(&inventory, &definitions, (unusable, &holders), host, output);
        let inventory = Arc::new(inventory);
        let entity = |id, desired| {
            let (inventory, shared) = (Arc::clone(&inventory), Arc::clone(&self.shared));
            let local_source = match &desired {
                Desired::Defined(archive, _) => archive.addresses().first().and_then(Address::file),
                Desired::Undefined(_) => None,
            };
            let local_source = local_source.map(|file| host.below_root(&file)).filter(|file| file.exists());
            ArchiveEntity { id, desired, inventory, shared, local_source }
        };
        let mut entities = Vec::new();
        for (id, orphan) in &inventory.orphans {
            entities.push(Declared::orphan(entity(id.clone(), Desired::Undefined(Box::new(orphan.clone())))));
        }
        for (id, defined) in definitions.valid {
            let timeout = defined.common.keys.timeout;
            let desired = Desired::Defined(Box::new(defined.definition), timeout);
            entities.push(Declared::new(entity(id, desired), defined.common));
        }
        Ok(entities)
    }

    fn scan_witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        // Besides the definitions, the list rests on symlinks and local sources, which are witnesses of the archives.
        Some(vec![Witness::file(host.resources().weakest())])
    }

    fn apply_set(&self, host: &Host, set: &[Job<'_, Self::Entity>], answers: &mut dyn SetAnswers) {
        let _set = self.shared.begin_set();
        let entities = || set.iter().map(|job| &job.entity.entity);
        self.shared.queue.enter(entities().map(|archive| (archive.id.clone(), archive.work_paths(host))));
        let wrapped: Vec<Queued<'_, Self::Entity>> = set
            .iter()
            .map(|job| Queued { id: &job.entity.entity.id, entity: job.entity, shared: &self.shared })
            .collect();
        let jobs: Vec<Job<'_, Queued<'_, Self::Entity>>> =
            wrapped.iter().zip(set).map(|(entity, job)| Job { entity, mode: job.mode }).collect();
        apply_concurrently(host, &jobs, host.jobs(), answers);
    }

    fn check_set(&self, host: &Host, set: &[Job<'_, Self::Entity>], answers: &mut dyn SetAnswers<Verdict>) {
        let _set = self.shared.begin_set();
        check_concurrently(host, set, host.jobs(), answers);
    }
}

/// Writes the claims to the paths of downloads and to the target directories, and the archives from which other plugins
/// can take over paths: the paths in an archive are only known after it was extracted.
fn publish(
    inventory: &Inventory,
    definitions: &Definitions<Archive>,
    (unusable, holders): (Vec<Claim>, &[String]),
    host: &Host,
    output: &mut Output<'_>,
) {
    let defined = inventory.defined.iter().flat_map(|archive| claims_of(archive, definitions));
    let claims: Vec<Claim> = defined.chain(unusable).collect();
    if (!claims.is_empty() || !holders.is_empty())
        && let Err(error) = claims::publish(host.locations(), &claims, holders)
    {
        output.error(error.to_string());
    }
}

/// Returns the claims of an archive whose definition is invalid. Its files are left alone by others, too.
fn recorded_claims(archive: &Remembered<ArchiveRecord>) -> Vec<Claim> {
    let claim = |path: &String| Claim::new(&archive.id, Path::new(path), &[]);
    let tree = |path| {
        let mut claim = claim(path);
        claim.is_tree = true;
        claim
    };
    archive.base.path.iter().map(claim).chain(archive.base.trees.iter().map(tree)).collect()
}

fn claims_of(archive: &DefinedArchive, definitions: &Definitions<Archive>) -> Vec<Claim> {
    let sources = definitions.valid.get(&archive.id).map(|valid| valid.common.sources.as_slice()).unwrap_or_default();
    let mut claims = vec![Claim::new(&archive.id, &archive.path, sources)];
    if let Some(tree) = archive.tree.as_ref().filter(|_| archive.ensure == Ensure::Present) {
        let mut claim = Claim::new(&archive.id, tree, sources);
        claim.is_tree = true;
        claims.push(claim);
    }
    claims
}

/// An archive of a set. The next archive that uses the same paths begins when all attempts of this one have ended.
pub(crate) struct Queued<'a, E> {
    pub(crate) id: &'a str,
    pub(crate) entity: &'a E,
    pub(crate) shared: &'a Shared,
}

impl<E: Entity> Entity for Queued<'_, E> {
    fn report(&self) -> EntityReport {
        self.entity.report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        /// Leaves the queue even after a panic.
        struct Leave<'a>(&'a Shared, &'a str);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.queue.leave(self.1);
            }
        }
        let _leave = Leave(self.shared, self.id);
        self.entity.apply(host, mode, output)
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        self.entity.diff(host)
    }
}
