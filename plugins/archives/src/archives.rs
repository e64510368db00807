//! The plugin: which archives there are.

use crate::definition::Archive;
use crate::entity::{ArchiveEntity, Defined, InTurn};
use crate::record::Record;
use crate::scene::{self, Scene, Shared, canonical};
use holo_change::Tree;
use holo_change::base_store::BaseStore;
use holo_change::claims::{self, Claim};
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{self, Definitions};
use holo_plugin::{Host, Job, Output, Plugin, ScanError, SetAnswers, apply_concurrently};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The plugin `archives`.
#[derive(Default)]
pub(crate) struct Archives {
    shared: Arc<Shared>,
}

impl Plugin for Archives {
    type Entity = Declared<ArchiveEntity>;

    const CONCURRENT: bool = true;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Self::Entity>, ScanError> {
        let definitions = definitions::read::<Archive>(host, output);
        let mut orphans = BTreeMap::new();
        match BaseStore::open(host.locations()).and_then(|memory| memory.all::<Record>(output)) {
            Ok(all) => orphans.extend(all.into_iter().filter(|(id, _)| definitions.is_orphan(id))),
            Err(error) => output.error(error.to_string()),
        }
        let mut scene = Scene { orphans, defined: Vec::new() };
        if let Ok(root) = Tree::open(host.root()) {
            let kept = definitions.valid.iter().filter(|(_, defined)| defined.common.skipped.is_none());
            scene.defined.extend(kept.map(|(id, defined)| scene::Defined {
                id: id.clone(),
                path: canonical(&root, &defined.definition.path, false),
                tree: defined.definition.extract_to.as_deref().map(|directory| canonical(&root, directory, true)),
                ensure: defined.definition.ensure,
            }));
        }
        publish(&scene, &definitions, host, output);
        let scene = Arc::new(scene);
        let entity = |id, defined| {
            let (scene, shared) = (Arc::clone(&scene), Arc::clone(&self.shared));
            ArchiveEntity { id, defined, scene, shared }
        };
        let mut entities = Vec::new();
        for (id, orphan) in &scene.orphans {
            entities.push(Declared::orphan(entity(id.clone(), Defined::Nowhere(Box::new(orphan.clone())))));
        }
        for (id, defined) in definitions.valid {
            let timeout = defined.common.keys.timeout;
            let as_defined = Defined::As(Box::new(defined.definition), timeout);
            entities.push(Declared::new(entity(id, as_defined), defined.common));
        }
        Ok(entities)
    }

    fn apply_set(&self, host: &Host, set: &[Job<'_, Self::Entity>], answers: &mut dyn SetAnswers) {
        let entities = || set.iter().map(|job| &job.entity.entity);
        self.shared.turns.announce(entities().map(|archive| (archive.id.clone(), archive.areas(host))));
        let wrapped: Vec<InTurn<'_, Self::Entity>> = set
            .iter()
            .map(|job| InTurn { id: &job.entity.entity.id, entity: job.entity, shared: &self.shared })
            .collect();
        let jobs: Vec<Job<'_, InTurn<'_, Self::Entity>>> =
            wrapped.iter().zip(set).map(|(entity, job)| Job { entity, mode: job.mode }).collect();
        apply_concurrently(host, &jobs, host.jobs(), answers);
    }
}

/// Has other plugins know where downloads are. What is extracted is known only when it has been.
fn publish(scene: &Scene, definitions: &Definitions<Archive>, host: &Host, output: &mut Output<'_>) {
    let claim = |defined: &scene::Defined| {
        let sources = definitions.valid.get(&defined.id).map(|valid| valid.common.sources.as_slice());
        Claim::new(&defined.id, &defined.path, sources.unwrap_or_default())
    };
    let claims: Vec<Claim> = scene.defined.iter().map(claim).collect();
    if !claims.is_empty()
        && let Err(error) = claims::publish(host.locations(), &claims, &[])
    {
        output.error(error.to_string());
    }
}
