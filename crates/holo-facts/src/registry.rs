//! The services that are registered with a fleet, as templates see them.
//!
//! `holo-fleet` keeps a snapshot of the registry on each machine that reads it, and has checked its values.

use holo_definitions::LocatedError;
use holo_process::words::reason;
use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr, Serde};
use serde_json::{Map, Value as Json, json};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The snapshot of the registry, below the root.
pub const SNAPSHOT: &str = "var/lib/holo-fleet/registry.json";

/// The fields by which services are selected, in the order of the arguments of `registrations`.
const FIELDS: [&str; 4] = ["cluster", "protocol", "service", "address"];

/// Reads the snapshot. There are no services if there is none.
pub(crate) fn read(root: &Path) -> Result<Vec<Json>, LocatedError> {
    let path = root.join(SNAPSHOT);
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| LocatedError::new(path.display(), error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(LocatedError::new(path.display(), reason(&error))),
    }
}

/// Returns the services with these values of cluster, protocol, service and address. `*`, or no value, stands for any.
pub(crate) fn select(services: &[Json], wanted: &[&str]) -> Vec<Json> {
    let is_wanted = |service: &&Json| {
        let mut pairs = FIELDS.iter().zip(wanted);
        pairs.all(|(field, wanted)| *wanted == "*" || service.get(field).and_then(Json::as_str) == Some(*wanted))
    };
    services.iter().filter(is_wanted).cloned().collect()
}

/// Returns the text of a file for the service discovery of Prometheus, `file_sd_configs`: a group for each service, with
/// cluster, service, protocol, host and annotations as labels.
#[must_use]
pub fn prometheus_file_sd(services: &[Json]) -> String {
    let text = |service: &Json, key: &str| service.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
    let group = |service: &Json| {
        let address = text(service, "address");
        let address = if address.contains(':') { format!("[{address}]") } else { address };
        let annotations = service.get("annotations").and_then(Json::as_object).into_iter().flatten();
        let mut labels: Map<String, Json> =
            annotations.filter_map(|(name, value)| Some((label(name)?, value.clone()))).collect();
        for key in ["cluster", "service", "protocol", "host"] {
            labels.insert(key.to_owned(), text(service, key).into());
        }
        let port = service.get("port").and_then(Json::as_u64).unwrap_or_default();
        json!({ "targets": [format!("{address}:{port}")], "labels": labels })
    };
    let groups: Vec<Json> = services.iter().map(group).collect();
    format!("{:#}\n", Json::Array(groups))
}

/// Returns the label for an annotation. There is none for names with two leading underscores: these are Prometheus' own,
/// such as `__address__`, and decide what it scrapes.
fn label(name: &str) -> Option<String> {
    let label: String = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    let label = if label.starts_with(|letter: char| letter.is_ascii_digit()) { format!("_{label}") } else { label };
    (!label.starts_with("__")).then_some(label)
}

/// A list of services in a template.
#[derive(Debug)]
pub(crate) struct Services(pub(crate) Vec<Json>);

impl Object for Services {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        if key.as_str() == Some("prometheus_file_sd") {
            return Some(prometheus_file_sd(&self.0).into());
        }
        self.0.get(key.as_usize()?).map(|service| Value::from(Serde(service)))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Knowledge;

    #[test]
    fn registrations_are_selected_by_field() {
        let root = tempfile::tempdir().unwrap();
        let render = |template: &str| {
            let knowledge = Knowledge::new(root.path(), None);
            let rendered = knowledge.renderer().render("t", template, &Map::new());
            (rendered.map(|rendered| rendered.text), knowledge.is_used(), knowledge.reads_registry())
        };
        let all = "{% for service in registrations('*', '*', '*', '*') %}{{ service.address }}:{{ service.port }} {% endfor %}";
        assert_eq!(render(all), (Ok(String::new()), true, true));
        assert_eq!(render("plain"), (Ok("plain".to_owned()), false, false));
        let service = |service: &str, address: &str, port: u16| {
            json!({
                "cluster": "eu", "service": service, "protocol": "http", "address": address, "port": port, "host": "a",
                "priority": 1, "ttl": 60, "annotations": { "zone": "b", "__address__": "evil:1", "1.x": "y" }
            })
        };
        let services =
            json!([service("db", "db1", 5432), service("web", "10.0.0.1", 80), service("web", "fe80::1", 81)]);
        fs::create_dir_all(root.path().join(SNAPSHOT).parent().unwrap()).unwrap();
        fs::write(root.path().join(SNAPSHOT), services.to_string()).unwrap();
        let text = |template: &str| render(template).0.unwrap();
        assert_eq!(text(all), "db1:5432 10.0.0.1:80 fe80::1:81 ");
        assert_eq!(text("{{ registrations('eu', '*', 'web')|length }}{{ registrations('us')|length }}"), "20");
        assert_eq!(text("{{ (registrations('eu', 'http', 'web', '10.0.0.1')|first).annotations.zone }}"), "b");
        let found: Json =
            serde_json::from_str(&text("{{ registrations('*', '*', 'web', '*').prometheus_file_sd }}")).unwrap();
        assert_eq!(found[1]["targets"], json!(["[fe80::1]:81"]));
        let labels = json!({
            "_1_x": "y", "zone": "b", "cluster": "eu", "service": "web", "protocol": "http", "host": "a"
        });
        assert_eq!(found[0], json!({ "targets": ["10.0.0.1:80"], "labels": labels }));
        fs::write(root.path().join(SNAPSHOT), "{").unwrap();
        let error = render(all).0.unwrap_err().to_string();
        assert!(error.contains("registry.json"), "{error}");
        assert!(render("{{ registrations(1) }}").0.is_err());
    }
}
