//! A resource as an entity.

use crate::attribute::Values;
use crate::catalog::Catalog;
use crate::definition::DeclaredProvider;
use crate::record::Record;
use holo_bridge::{Attributes, DigestStore, NO_DEFINITION, Sensitive, digest, shown};
use holo_change::base_store::Remembered;
use holo_plugin::definitions::Location;
use holo_plugin::{Action, Applied, Asset, EntityReport, Host, Output};
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
        let is_gone = self.attributes.get(crate::compare::ENSURE).is_some_and(crate::compare::is_gone);
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
