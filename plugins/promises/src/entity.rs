//! A promise as an entity, and its record, which replaces the promise when it has no definition any more.

use crate::module::{Context, DeclaredModule, lock};
use crate::names::Subject;
use crate::outcome::Task;
use holo_bridge::{Attributes, Interpreter, NO_DEFINITION, Sensitive, digest, shown};
use holo_change::base_store::{BaseStore, Remembered};
use holo_plugin::{Action, Applied, Asset, Entity, EntityReport, FilePair, Host, Mode, Output, Verdict};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// A promise.
#[derive(Debug)]
pub(crate) struct PromiseEntity {
    pub(crate) id: String,
    pub(crate) subject: Subject,
    pub(crate) module: Arc<DeclaredModule>,
    pub(crate) sensitive: Sensitive,
    pub(crate) timeout: Option<Duration>,
    /// The file and line of the definition.
    pub(crate) location: String,
    /// True if it never changes the system.
    pub(crate) warn_only: bool,
    pub(crate) records: EntityRecords,
    pub(crate) context: Arc<Context>,
    /// The assets without which the module cannot be started.
    pub(crate) needs: Vec<Asset>,
}

/// The existing and the required record of a promise.
#[derive(Debug)]
pub(crate) enum EntityRecords {
    Living {
        /// The required record, if the definition has a `scrub` table.
        scrub: Option<Box<Scrub>>,
        /// The existing record.
        remembered: Option<Box<Remembered<Scrub>>>,
    },
    Orphan(Box<Remembered<Scrub>>),
}

impl Entity for PromiseEntity {
    fn report(&self) -> EntityReport {
        let mut report = self.own_report();
        report.inform("module", holo_change::path_bytes(self.module.invocation.file()));
        shown::inform(&mut report, &self.subject.attributes, &self.sensitive);
        report
    }

    fn apply(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Applied {
        let applied = if self.module.invocation.is_mocked(host) {
            self.mock(host, output)
        } else if self.warn_only {
            self.with_task(host, |task| task.warn_only(output))
        } else {
            self.with_task(host, |task| task.keep(output))
        };
        match applied {
            Applied::Unchanged | Applied::Changed(_) => self.remember(host, applied, output),
            failed => failed,
        }
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        if host.is_offline() {
            // Modules may examine the running system.
            return Verdict::Unknown;
        }
        if !self.module.invocation.is_mocked(host) {
            return self.with_task(host, |task| task.check(self.warn_only, output));
        }
        match self.context.mocks.is_known(host, &self.id, &self.digest()) {
            Ok(true) => Verdict::InDesiredState,
            Ok(false) => Verdict::WouldChange(vec![format!("would ask {}", self.module.invocation.file().display())]),
            Err(error) => {
                output.error(error);
                Verdict::Failed
            }
        }
    }

    fn needs_running_system(&self) -> bool {
        true
    }

    fn diff(&self, _: &Host) -> Option<FilePair> {
        None
    }
}

impl PromiseEntity {
    /// Returns the report without the module and the attributes.
    fn own_report(&self) -> EntityReport {
        let mut report = match &self.records {
            EntityRecords::Living { .. } => EntityReport::new(self.id.as_str()),
            EntityRecords::Orphan(remembered) => {
                let mut report = remembered.orphan_report();
                report.action = Action::because("Scrubbing", NO_DEFINITION);
                return report;
            }
        };
        report.edges.needs.extend_from_slice(&self.needs);
        let is_line = !self.subject.promiser.contains(char::is_control);
        if let Some(kind) = self.module.provides.as_deref().filter(|_| is_line) {
            report.edges.provides.push(Asset::new(kind, self.subject.promiser.as_str()));
        }
        report
    }

    fn with_task<T>(&self, host: &Host, work: impl FnOnce(&mut Task<'_>) -> T) -> T {
        let module = self.context.module(&self.module);
        let mut module = lock(&module);
        work(&mut Task {
            host,
            module: &mut module,
            subject: &self.subject,
            sensitive: &self.sensitive,
            timeout: self.timeout,
            id: &self.id,
            location: &self.location,
            distrusted: &self.context.distrusted,
        })
    }

    /// Returns a digest of the promise.
    fn digest(&self) -> String {
        let Subject { kind, promiser, attributes, .. } = &self.subject;
        digest(&(kind, promiser, attributes, self.warn_only))
    }

    /// Prints the request that is not sent in test mode.
    fn mock(&self, host: &Host, output: &mut Output<'_>) -> Applied {
        let digest = self.digest();
        let mocks = &self.context.mocks;
        let noted = mocks.is_known(host, &self.id, &digest).and_then(|is_known| {
            if is_known {
                return Ok(Applied::Unchanged);
            }
            let Subject { kind, promiser, attributes, .. } = &self.subject;
            output.print(format!("{}\n", shown::mock(&["promise", kind, promiser], attributes, &self.sensitive)));
            mocks.note(host, &self.id, &digest)?;
            Ok(if self.warn_only { Applied::Unchanged } else { Applied::Changed(Vec::new()) })
        });
        noted.unwrap_or_else(|error| {
            output.error(error);
            Applied::FAILED
        })
    }

    /// Saves the record of the promise, or removes it.
    fn remember(&self, host: &Host, applied: Applied, output: &mut Output<'_>) -> Applied {
        let done = match &self.records {
            EntityRecords::Living { scrub: None, remembered: None } => return applied,
            EntityRecords::Living { scrub: Some(scrub), remembered } => {
                let now = Remembered::new(&self.own_report(), (**scrub).clone());
                if remembered.as_deref() == Some(&now) {
                    return applied;
                }
                BaseStore::open(host.locations()).keep(&now)
            }
            EntityRecords::Living { scrub: None, remembered: Some(_) } | EntityRecords::Orphan(_) => {
                BaseStore::open(host.locations()).forget(&self.id)
            }
        };
        if let (EntityRecords::Orphan(_), true) = (&self.records, self.module.invocation.is_mocked(host))
            && let Err(error) = self.context.mocks.forget(host, &self.id)
        {
            output.warning(error);
        }
        match done {
            Ok(()) => applied,
            Err(error) => {
                output.error(error.to_string());
                Applied::FAILED
            }
        }
    }
}

/// A promise with its replacement, and the declaration of its module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scrub {
    /// The type of the promise.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) promiser: String,
    /// The attributes of the final promise.
    pub(crate) scrub: Attributes,
    /// The names of attributes whose values are not shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sensitive: Vec<String>,
    /// The module's file, as declared.
    pub(crate) path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interpreter: Option<Interpreter>,
    #[serde(default)]
    pub(crate) respects_root: bool,
    /// The file of the definition.
    pub(crate) filename: String,
    pub(crate) line: usize,
}

impl Scrub {
    /// Returns the promise that replaces it.
    pub(crate) fn subject(&self) -> Subject {
        Subject {
            kind: self.kind.clone(),
            promiser: self.promiser.clone(),
            attributes: self.scrub.clone(),
            log_level: crate::module_log::LogLevel::default(),
            filename: self.filename.clone(),
            line: self.line,
        }
    }
}
