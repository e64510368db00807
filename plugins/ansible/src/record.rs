//! Records of tasks: how to undo them when they have no definition any more.

use crate::definition::Options;
use crate::module::ModuleName;
use holo_bridge::Attributes;
use holo_change::base_store::{BaseStore, Remembered};
use holo_plugin::{EntityReport, Host};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The call that undoes a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    module: String,
    pub(crate) scrub: Attributes,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sensitive: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<Duration>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) options: Options,
}

fn is_default(options: &Options) -> bool {
    *options == Options::default()
}

impl Record {
    /// Creates a record.
    pub(crate) fn new(
        module: &ModuleName,
        scrub: Attributes,
        sensitive: &[String],
        timeout: Option<Duration>,
        options: Options,
    ) -> Record {
        Record { module: module.to_string(), scrub, sensitive: sensitive.to_vec(), timeout, options }
    }

    /// Returns the module.
    ///
    /// # Errors
    /// If the name is invalid, because the record was modified.
    pub(crate) fn module(&self) -> Result<ModuleName, String> {
        ModuleName::parse(&self.module)
    }

    /// Saves the record of a task with this report, unless it is unchanged.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn keep(
        &self,
        host: &Host,
        report: &EntityReport,
        kept: Option<&Remembered<Record>>,
    ) -> Result<(), String> {
        let remembered = Remembered::new(report, self.clone());
        if kept == Some(&remembered) {
            return Ok(());
        }
        let kept = BaseStore::open(host.locations()).keep(&remembered);
        kept.map_err(|error| error.to_string())
    }

    /// Removes the record of a task.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(crate) fn forget(host: &Host, id: &str) -> Result<(), String> {
        BaseStore::open(host.locations()).forget(id).map_err(|error| error.to_string())
    }
}
