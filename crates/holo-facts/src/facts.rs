//! Facts: built-in ones about the machine, and those from custom sources.

mod kernel;
mod network;
mod shared;
mod sources;
mod system;
mod virtualization;

use crate::warning::Warning;
use holo_system::Root;
use serde_json::{Map, Value};
use std::path::Path;

/// All facts: a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts(Value);

impl Facts {
    /// Gathers all facts of the system below the root, including those of sources below `inputs`. Kernel facts are
    /// those of the running kernel.
    ///
    /// A source that fails or hangs is left out with a warning; all sources together take less than two seconds.
    #[must_use]
    pub fn gather(root: &Path, inputs: &Path) -> (Facts, Vec<Warning>) {
        let mut warnings = Vec::new();
        let given = sources::gather(&Root::new(inputs), &mut warnings);
        let root = Root::new(root);
        let mut facts = built_in(&root);
        for table in given {
            overlay(&mut facts, table);
        }
        (Facts(Value::Object(facts)), warnings)
    }

    /// Returns the facts of this run: the first caller gathers them and writes them to the file, all others read it.
    ///
    /// Only the caller that gathers them gets warnings, so that they are reported once.
    #[must_use]
    pub fn of_run(root: &Path, inputs: &Path, file: &Path) -> (Facts, Vec<Warning>) {
        shared::once(file, || Facts::gather(root, inputs))
    }

    /// The table.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.0
    }
}

/// Returns the facts that need no program. All names always exist: an unknown value is empty, or 0.
fn built_in(root: &Root) -> Map<String, Value> {
    let mut facts = Map::new();
    system::add(root, &mut facts);
    kernel::add(&mut facts);
    facts.insert("network".to_owned(), network::facts());
    facts.insert("virtualization".to_owned(), virtualization::facts());
    facts
}

/// Merges a table into another: nested tables are merged, all other values replaced.
fn overlay(under: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Object(under)), Value::Object(over)) => overlay(under, over),
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tables_go_into_each_other() {
        let mut facts = json!({"os": {"id": "debian", "like": ["x"]}, "a": 1});
        let Value::Object(over) = json!({"os": {"like": ["y"], "site": "z"}, "a": {"b": 2}}) else { panic!() };
        if let Value::Object(under) = &mut facts {
            overlay(under, over);
        }
        assert_eq!(facts, json!({"os": {"id": "debian", "like": ["y"], "site": "z"}, "a": {"b": 2}}));
    }

    #[test]
    fn all_names_are_there_below_an_empty_root() {
        let folder = tempfile::tempdir().unwrap();
        let (facts, warnings) = Facts::gather(folder.path(), folder.path());
        assert_eq!(warnings, []);
        let names = [
            "architecture",
            "domain",
            "fqdn",
            "hostname",
            "init",
            "kernel.name",
            "kernel.release",
            "kernel.version",
            "memory.total",
            "mounts",
            "network.interfaces",
            "network.ipv4.address",
            "network.ipv4.gateway",
            "network.ipv4.interface",
            "network.ipv6.address",
            "network.ipv6.gateway",
            "network.ipv6.interface",
            "os.codename",
            "os.id",
            "os.id_like",
            "os.name",
            "os.pretty_name",
            "os.variant_id",
            "os.version",
            "os.version_id",
            "package_manager",
            "processors.count",
            "processors.model",
            "swap.total",
            "virtualization.kind",
            "virtualization.name",
        ];
        for name in names {
            let found = crate::key::find(facts.value(), name).unwrap();
            assert!(found.is_some_and(|value| !value.is_null()), "{name}");
        }
        assert_eq!(facts.value()["os"]["id"], "linux");
        assert_ne!(facts.value()["hostname"], "");
    }
}
