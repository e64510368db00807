//! A resource as an entity: its operations, its differences as files, and its record, with which it can be restored.

use crate::apply;
use crate::attribute::{ENSURE, Values, is_gone};
use crate::catalog::Catalog;
use crate::definition::DeclaredProvider;
use crate::item::Item;
use holo_bridge::{Attributes, DigestStore, HIDDEN, NO_DEFINITION, Sensitive, digest, shown};
use holo_change::base_store::Remembered;
use holo_plugin::definitions::Location;
use holo_plugin::{Action, Applied, Asset, Entity, EntityReport, FilePair, Host, Mode, Output, Verdict, apply_one};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// State shared by all resources of a process.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) declared: Vec<DeclaredProvider>,
    catalog: Mutex<Option<Arc<Catalog>>>,
    pub(crate) mocks: DigestStore,
}

impl Context {
    pub(crate) fn new(declared: Vec<DeclaredProvider>) -> Context {
        Context { declared, catalog: Mutex::default(), mocks: DigestStore::for_mocks() }
    }

    /// Returns the available providers, which are found on the first call.
    pub(crate) fn catalog(&self, host: &Host) -> Arc<Catalog> {
        let mut catalog = self.catalog.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(catalog.get_or_insert_with(|| Arc::new(Catalog::read(host, &self.declared))))
    }
}

/// A resource.
#[derive(Debug)]
pub(crate) struct ResourceEntity {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) provider: Option<String>,
    pub(crate) name: String,
    pub(crate) attributes: Attributes,
    pub(crate) sensitive_names: Vec<String>,
    pub(crate) sensitive: Sensitive,
    pub(crate) timeout: Option<Duration>,
    /// The location of the definition; `None` for an orphan.
    pub(crate) location: Option<Location>,
    pub(crate) records: EntityRecords,
    pub(crate) context: Arc<Context>,
    /// The assets without which the provider cannot be started.
    pub(crate) needs: Vec<Asset>,
}

/// The records of a resource.
#[derive(Debug)]
pub(crate) enum EntityRecords {
    Living(Option<Box<Remembered<Record>>>),
    Orphan(Box<Remembered<Record>>),
}

impl ResourceEntity {
    /// Returns the report without the provider and the attributes.
    pub(crate) fn own_report(&self) -> EntityReport {
        if let EntityRecords::Orphan(remembered) = &self.records {
            let mut report = remembered.orphan_report();
            report.action = Action::because("Scrubbing", NO_DEFINITION);
            return report;
        }
        let mut report = EntityReport::new(self.id.as_str());
        report.edges.needs.extend_from_slice(&self.needs);
        let is_gone = self.attributes.get(ENSURE).is_some_and(is_gone);
        if !is_gone {
            let kind = if self.kind == "file" { "path" } else { &self.kind };
            report.edges.provides.push(Asset::new(kind, self.name.as_str()));
        }
        report
    }

    /// Returns the desired attributes as written in the definition.
    pub(crate) fn written(&self) -> Values {
        self.attributes.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect()
    }

    /// Returns the record.
    pub(crate) fn record(&self) -> Option<&Record> {
        match &self.records {
            EntityRecords::Living(remembered) => remembered.as_deref().map(|remembered| &remembered.base),
            EntityRecords::Orphan(remembered) => Some(&remembered.base),
        }
    }

    pub(crate) fn is_orphan(&self) -> bool {
        matches!(self.records, EntityRecords::Orphan(_))
    }

    /// Returns true if no provider may be run for it, because it would change another system than the one below the
    /// root.
    pub(crate) fn is_mocked(&self, host: &Host) -> bool {
        host.test_mode() && !self.context.catalog(host).may_know(&self.kind)
    }

    /// Returns a digest of the definition.
    pub(crate) fn digest(&self) -> String {
        digest(&(&self.kind, &self.provider, &self.name, &self.attributes))
    }

    /// Prints the request to the provider in test mode, in which it is not run.
    pub(crate) fn mock(&self, host: &Host, output: &mut Output<'_>) -> Applied {
        let (digest, mocks) = (self.digest(), &self.context.mocks);
        let noted = if self.is_orphan() {
            mocks.forget(host, &self.id).map(|()| Applied::Unchanged)
        } else {
            mocks.is_known(host, &self.id, &digest).and_then(|is_known| {
                if is_known {
                    return Ok(Applied::Unchanged);
                }
                let line = shown::mock(&["resource", &self.kind, &self.name], &self.attributes, &self.sensitive);
                output.print(format!("{line}\n"));
                mocks.note(host, &self.id, &digest)?;
                Ok(Applied::Changed(Vec::new()))
            })
        };
        noted.unwrap_or_else(|error| {
            output.error(error);
            Applied::FAILED
        })
    }
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

    fn diff(&self, host: &Host) -> Option<FilePair> {
        if self.is_mocked(host) { None } else { files(self, host) }
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

/// The record of a changed resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// The type of the resource.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// The provider that has changed it.
    pub(crate) provider: String,
    pub(crate) name: String,
    /// All attributes reported before the first change.
    pub(crate) base: Values,
    /// All attributes that were ever defined, with their last applied values; null if they were not reported.
    pub(crate) left: Values,
    /// The names of attributes whose values are not shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sensitive: Vec<String>,
}

impl Record {
    /// Creates the record of a resource that was never changed.
    pub(crate) fn new(base: &Values) -> Record {
        Record { base: base.clone(), ..Record::default() }
    }

    /// Returns the attributes to restore. A resource that did not exist is removed, regardless of its defined
    /// attributes.
    pub(crate) fn to_restore(&self) -> impl Iterator<Item = (&str, &Value)> {
        let is_restored = |name: &str| self.left.contains_key(name) || (name == ENSURE && self.was_missing());
        self.base.iter().filter(move |(name, _)| is_restored(name)).map(|(name, value)| (name.as_str(), value))
    }

    /// Returns true if the resource did not exist before.
    pub(crate) fn was_missing(&self) -> bool {
        self.base.get(ENSURE).is_some_and(is_gone)
    }
}

/// Formats the desired attributes that the provider reports as lines of TOML.
fn as_toml(values: &Values, names: &Values, hide: impl Fn(&str) -> bool) -> String {
    let lines = names.keys().filter_map(|name| {
        let value = values.get(name)?;
        let shown = if hide(name) { Value::from(HIDDEN) } else { value.clone() };
        Some(format!("{name} = {}\n", toml_value(&shown)))
    });
    lines.collect()
}

/// Formats a value as TOML. JSON values without an equivalent become strings.
pub(crate) fn toml_value(value: &Value) -> String {
    toml::Value::try_from(value)
        .map_or_else(|_| toml::Value::String(value.to_string()).to_string(), |value| value.to_string())
}
