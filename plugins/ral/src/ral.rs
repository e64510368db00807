//! Finds the defined resources and orphans.

use crate::apply;
use crate::definition::{DeclaredProvider, Resource};
use crate::entity::{Context, EntityRecords, Record, ResourceEntity, as_toml};
use crate::item::Item;
use crate::known::KnownProviders;
use holo_bridge::{Attributes, Invocation, Sensitive, digest, shown};
use holo_change::base_store::{BaseStore, Remembered};
use holo_plugin::declared::{Declared, apply_together};
use holo_plugin::definitions::{self, Declarations, Defined};
use holo_plugin::{
    Applied, Asset, Entity, EntityReport, FilePair, Host, Job, Mode, Output, Plugin, ScanError, SetAnswers, Verdict,
    apply_one,
};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// The plugin.
#[derive(Debug, Default)]
pub(crate) struct Ral;

impl Plugin for Ral {
    type Entity = Declared<ResourceEntity>;

    const CONCURRENT: bool = true;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Declared<ResourceEntity>>, ScanError> {
        let (mut definitions, declarations) = definitions::read_with::<Resource, DeclaredProvider>(host, output);
        let store = BaseStore::open(host.locations()).all::<Record>(output);
        let mut records = store.map_err(|error| {
            output.error(error.to_string());
            ScanError
        })?;
        let context = Arc::new(Context::new(in_order(declarations)));
        let known = KnownProviders::read(host);
        let mut entities = Vec::new();
        for (id, defined) in std::mem::take(&mut definitions.valid) {
            let remembered = records.remove(&id);
            entities.push(living(host, &context, &known, id, *defined, remembered));
        }
        // The other records belong to resources that are broken, or not defined.
        let orphans = records.into_iter().filter(|(id, _)| definitions.is_orphan(id));
        entities.extend(orphans.map(|(_, remembered)| orphan(&context, remembered)));
        Ok(entities)
    }

    fn apply_set(&self, host: &Host, set: &[Job<'_, Declared<ResourceEntity>>], answers: &mut dyn SetAnswers) {
        apply_together(host, set, answers, |set, answers| apply::apply(host, set, answers));
    }
}

/// Returns the declared providers in order.
pub(crate) fn in_order(declarations: Declarations<DeclaredProvider>) -> Vec<DeclaredProvider> {
    let mut declared: Vec<_> = declarations.valid.into_values().collect();
    declared.sort_by(|(_, one), (_, other)| one.cmp(other));
    declared.into_iter().map(|(provider, _)| provider).collect()
}

fn living(
    host: &Host,
    context: &Arc<Context>,
    known: &KnownProviders,
    id: String,
    defined: Defined<Resource>,
    remembered: Option<Remembered<Record>>,
) -> Declared<ResourceEntity> {
    let Defined { definition: resource, common } = defined;
    let entity = ResourceEntity {
        id,
        needs: needs(host, context, known, &resource.kind, common.keys.provider.as_deref()),
        kind: resource.kind,
        provider: common.keys.provider.clone(),
        name: resource.name,
        sensitive: Sensitive::new(&resource.sensitive, [&resource.attributes]),
        attributes: resource.attributes,
        sensitive_names: resource.sensitive,
        timeout: common.keys.timeout,
        location: Some(common.location.clone()),
        records: EntityRecords::Living(remembered.map(Box::new)),
        context: Arc::clone(context),
    };
    Declared::new(entity, common)
}

fn orphan(context: &Arc<Context>, remembered: Remembered<Record>) -> Declared<ResourceEntity> {
    let record = &remembered.base;
    let mut attributes = Attributes::default();
    for (name, value) in record.to_restore() {
        attributes.insert(name, value.clone());
    }
    let mut left = Attributes::default();
    record.left.iter().for_each(|(name, value)| left.insert(name.clone(), value.clone()));
    Declared::orphan(ResourceEntity {
        id: remembered.id.clone(),
        kind: record.kind.clone(),
        provider: Some(record.provider.clone()),
        name: record.name.clone(),
        sensitive: Sensitive::new(&record.sensitive, [&attributes, &left]),
        sensitive_names: record.sensitive.clone(),
        attributes,
        timeout: None,
        location: None,
        context: Arc::clone(context),
        needs: Vec::new(),
        records: EntityRecords::Orphan(Box::new(remembered)),
    })
}

/// Returns the assets that the provider of a resource needs, as far as they are known without running any.
fn needs(host: &Host, context: &Context, known: &KnownProviders, kind: &str, provider: Option<&str>) -> Vec<Asset> {
    let mut report = EntityReport::new("");
    let is_named = |declared: &&DeclaredProvider| {
        provider.is_some_and(|name| Path::new(&declared.path).file_stem() == Some(name.as_ref()))
    };
    if let Some(declared) = context.declared.iter().find(is_named) {
        let interpreter = declared.interpreter.clone();
        Invocation::new(host, &declared.path, interpreter, declared.respects_root).add_needs(host, &mut report);
    }
    let commands = known.commands(kind, provider);
    report.edges.needs.extend(commands.map(|command| Asset::new("command", command)));
    report.edges.needs.into_iter().collect()
}

impl Entity for ResourceEntity {
    fn report(&self) -> EntityReport {
        let mut report = self.own_report();
        let provider = match &self.provider {
            Some(name) => format!("{}::{name}", self.kind),
            None => self.kind.clone(),
        };
        report.inform("provider", provider);
        shown::inform(&mut report, &self.attributes, &self.sensitive);
        report
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        apply_one(self, mode, output, |set, answers| apply::apply(host, set, answers))
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        if host.is_offline() {
            // Providers may examine the running system.
            return Verdict::Unknown;
        }
        if !self.is_mocked(host) {
            return Item::new(0, self, mode.force).check(host, output);
        }
        match self.context.mocks.is_known(host, &self.id, &self.digest()) {
            Ok(true) => Verdict::InDesiredState,
            Ok(false) => Verdict::WouldChange(vec![format!("would ask a provider of type {}", self.kind)]),
            Err(error) => {
                output.error(error);
                Verdict::Failed
            }
        }
    }

    fn needs_running_system(&self) -> bool {
        true
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        if host.is_offline() || self.is_mocked(host) { None } else { files(self, host) }
    }
}

/// Writes both files. A resource that does not exist has none.
pub(crate) fn files(entity: &ResourceEntity, host: &Host) -> Option<FilePair> {
    let (desired, actual) = Item::new(0, entity, false).states(host)?;
    let name: String = digest(&entity.id).chars().take(16).collect();
    let folder = host.cache_dir().join(format!("ral-{name}"));
    fs::create_dir_all(&folder).ok()?;
    let pair = FilePair::new(folder.join("desired.toml"), folder.join("actual.toml"));
    let hides = |name: &str| entity.sensitive.hides(name);
    fs::write(&pair.from, as_toml(&desired, &desired, hides)).ok()?;
    match actual {
        Some(actual) => fs::write(&pair.to, as_toml(&actual, &desired, hides)).ok()?,
        // It may exist from an earlier diff in this run.
        None if pair.to.exists() => fs::remove_file(&pair.to).ok()?,
        None => {}
    }
    // The paths of the copies differ in each run.
    Some(pair.with_applied_label(&entity.id).with_to_label(entity.id.as_bytes()))
}
