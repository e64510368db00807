//! A resource as an entity: its operations, its differences as files, and its record, with which it can be restored.

use crate::attribute::Values;
use crate::catalog::Catalog;
use crate::compare::{ENSURE, is_gone};
use crate::definition::DeclaredProvider;
use holo_bridge::{Attributes, DigestStore, HIDDEN, NO_DEFINITION, Sensitive, digest, shown};
use holo_change::base_store::Remembered;
use holo_plugin::definitions::Location;
use holo_plugin::{Action, Applied, Asset, EntityReport, Host, Output};
use serde::{Deserialize, Serialize};
use serde_json::Value;
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
pub(crate) fn as_toml(values: &Values, names: &Values, hide: impl Fn(&str) -> bool) -> String {
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
