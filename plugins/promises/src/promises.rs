//! The scan for promises and orphans.

use crate::definition::{ActionPolicy, Module, Promise};
use crate::entity::{EntityRecords, PromiseEntity, Scrub};
use crate::module::{Context, DeclaredModule};
use crate::names::Subject;
use holo_bridge::{Invocation, Sensitive, order};
use holo_change::base_store::{BaseStore, Remembered};
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{self, Declarations, Defined, Definitions, Invalid, Location, did_you_mean};
use holo_plugin::{EntityReport, Host, Job, Output, Plugin, ScanError, SetAnswers};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The plugin.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    context: Arc<Context>,
}

/// The records of earlier runs, by entity ID.
type Records = BTreeMap<String, Remembered<Scrub>>;

impl Plugin for Promises {
    type Entity = Declared<PromiseEntity>;

    const CONCURRENT: bool = true;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Declared<PromiseEntity>>, ScanError> {
        let (mut definitions, mut declarations) = definitions::read_with::<Promise, Module>(host, output);
        let modules = modules(&mut declarations, host, output);
        refuse_unknown_types(&mut definitions, &declarations, output);
        let store = BaseStore::open(host.locations()).all::<Scrub>(output);
        let mut records = store.map_err(|error| {
            output.error(error.to_string());
            ScanError
        })?;
        let mut entities = Vec::new();
        for (id, defined) in std::mem::take(&mut definitions.valid) {
            let remembered = records.remove(&id);
            if let (Some(module), Some((declared, _))) =
                (modules.get(&defined.definition.kind), declarations.valid.get(&defined.definition.kind))
            {
                entities.push(self.living(host, id, *defined, declared, Arc::clone(module), remembered));
            }
        }
        // The other records belong to promises that are broken, or were refused.
        let orphans: Records = records.into_iter().filter(|(id, _)| definitions.is_orphan(id)).collect();
        entities.extend(orphans.into_values().map(|remembered| self.orphan(host, remembered)));
        Ok(entities)
    }

    fn apply_set(&self, host: &Host, set: &[Job<'_, Declared<PromiseEntity>>], answers: &mut dyn SetAnswers) {
        order::apply_by_module(host, set, |promise| promise.module.real_file.clone(), answers);
    }

    fn end(&self, _: &Host) {
        self.context.end();
    }
}

impl Promises {
    fn living(
        &self,
        host: &Host,
        id: String,
        defined: Defined<Promise>,
        declared: &Module,
        module: Arc<DeclaredModule>,
        remembered: Option<Remembered<Scrub>>,
    ) -> Declared<PromiseEntity> {
        let Defined { definition: promise, common } = defined;
        let subject = Subject {
            kind: promise.kind,
            promiser: promise.promiser,
            attributes: promise.attributes,
            log_level: promise.log_level,
            filename: filename(common.location.path()),
            line: common.location.line(),
        };
        let sensitive = Sensitive::new(
            &promise.sensitive,
            [Some(&subject.attributes), promise.scrub.as_ref()].into_iter().flatten(),
        );
        let scrub = promise.scrub.map(|scrub| {
            Box::new(Scrub {
                kind: subject.kind.clone(),
                promiser: subject.promiser.clone(),
                scrub,
                sensitive: promise.sensitive,
                path: declared.path.clone(),
                interpreter: declared.interpreter.clone(),
                respects_root: declared.respects_root,
                filename: subject.filename.clone(),
                line: subject.line,
            })
        });
        let entity = PromiseEntity {
            id,
            subject,
            sensitive,
            timeout: common.keys.timeout,
            location: common.location.to_string(),
            warn_only: promise.action_policy != ActionPolicy::Fix,
            records: EntityRecords::Living { scrub, remembered: remembered.map(Box::new) },
            context: Arc::clone(&self.context),
            needs: needs(host, &module),
            module,
        };
        Declared::new(entity, common)
    }

    fn orphan(&self, host: &Host, remembered: Remembered<Scrub>) -> Declared<PromiseEntity> {
        let base = &remembered.base;
        let invocation = Invocation::new(host, &base.path, base.interpreter.clone(), base.respects_root);
        Declared::orphan(PromiseEntity {
            id: remembered.id.clone(),
            subject: base.subject(),
            module: Arc::new(DeclaredModule::new(invocation, None)),
            sensitive: Sensitive::new(&base.sensitive, [&base.scrub]),
            timeout: None,
            location: format!("{}:{}", base.filename, base.line),
            warn_only: false,
            context: Arc::clone(&self.context),
            needs: Vec::new(),
            records: EntityRecords::Orphan(Box::new(remembered)),
        })
    }
}

/// Returns the assets without which a module cannot be started.
fn needs(host: &Host, module: &DeclaredModule) -> Vec<holo_plugin::Asset> {
    let mut report = EntityReport::new("");
    module.invocation.add_needs(host, &mut report);
    report.edges.needs.into_iter().collect()
}

/// Returns the path of a definition file for requests.
fn filename(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Returns the declared modules by type. A file with two interpreters is an error of the type that is declared later.
fn modules(
    declarations: &mut Declarations<Module>,
    host: &Host,
    output: &mut Output<'_>,
) -> BTreeMap<String, Arc<DeclaredModule>> {
    let mut in_order: Vec<(String, Module, Location)> = declarations
        .valid
        .iter()
        .map(|(kind, (module, location))| (kind.clone(), module.clone(), location.clone()))
        .collect();
    in_order.sort_by(|(_, _, one), (_, _, other)| one.cmp(other));
    let mut modules = BTreeMap::new();
    let mut known: BTreeMap<PathBuf, (Module, Location)> = BTreeMap::new();
    for (kind, module, location) in in_order {
        let invocation = Invocation::new(host, &module.path, module.interpreter.clone(), module.respects_root);
        let declared = DeclaredModule::new(invocation, module.provides.clone());
        match known.get(&declared.real_file) {
            Some((first, other)) if first.interpreter != module.interpreter => {
                let shown = |module: &Module| match &module.interpreter {
                    Some(interpreter) => serde_json::json!(interpreter.words()).to_string(),
                    None => "none".to_owned(),
                };
                let (path, own) = (&module.path, shown(&module));
                output.error(format!(
                    "{location}: module {kind}: interpreter: {own} for {path}, where {other} says {}",
                    shown(first)
                ));
                declarations.refuse(&kind);
                continue;
            }
            Some(_) => {}
            None => {
                known.insert(declared.real_file.clone(), (module, location));
            }
        }
        modules.insert(kind, Arc::new(declared));
    }
    modules
}

/// Refuses promises whose type is undeclared, or has an invalid declaration.
fn refuse_unknown_types(
    definitions: &mut Definitions<Promise>,
    declarations: &Declarations<Module>,
    output: &mut Output<'_>,
) {
    let unknown: Vec<(String, String)> = definitions
        .valid
        .iter()
        .filter(|(_, defined)| !declarations.valid.contains_key(&defined.definition.kind))
        .map(|(id, defined)| (id.clone(), defined.definition.kind.clone()))
        .collect();
    for (id, kind) in unknown {
        // The errors of declarations have been reported already.
        let is_said = declarations.is_broken(&kind);
        let hint = did_you_mean(&kind, declarations.valid.keys().map(String::as_str));
        let hint = hint.map_or_else(String::new, |hint| format!(", {hint}"));
        let problem = format!("no module declares the type {kind:?}{hint}");
        let invalid = if is_said { Vec::new() } else { vec![Invalid::new("type", problem)] };
        definitions::say(definitions.refuse(&id, &invalid), output);
    }
}
