//! The services that entities register with a fleet: a file contains those of entities that are in their desired state and
//! healthy, and `holo-fleet` publishes them.

use super::Daemon;
use super::known::Known;
use crate::service::{Level, say};
use crate::spool;
use holo_events::{HealthState, RegisteredService};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use tokio::time::Instant;

/// The services of this machine.
#[derive(Debug)]
pub(super) struct Registry {
    path: PathBuf,
    /// All services in definitions.
    services: Vec<RegisteredService<'static>>,
    /// True if templates read the registry.
    is_read: bool,
    /// True if the running watch has reported services.
    is_reported: bool,
    /// The entities whose health was not checked since their services were reported.
    unchecked: BTreeSet<String>,
    /// What the file contains, once it is known.
    written: Option<Contents>,
}

/// What the file contains.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Contents {
    /// True if templates read the registry.
    read: bool,
    services: Vec<RegisteredService<'static>>,
}

impl Registry {
    pub(super) fn new(path: PathBuf) -> Registry {
        Registry {
            path,
            services: Vec::new(),
            is_read: false,
            is_reported: false,
            unchecked: BTreeSet::new(),
            written: None,
        }
    }

    /// Prepares for a new watch, which reports services only if there are any.
    pub(super) fn begin_watch(&mut self) {
        self.is_reported = false;
    }

    /// Notes that the watch has checked all entities.
    pub(super) fn is_surveyed(&mut self) {
        if !self.is_reported {
            (self.services, self.is_read) = (Vec::new(), false);
        }
    }

    /// Notes that the health of all entities was checked.
    pub(super) fn is_checked(&mut self) {
        self.unchecked.clear();
    }

    /// Takes over what the watch reports. Returns true if there are entities whose health may be unknown.
    fn hear(&mut self, services: &[RegisteredService<'_>], is_read: bool) -> bool {
        let known: BTreeSet<String> = self.services.iter().map(|service| service.id.to_string()).collect();
        self.services = services.iter().cloned().map(RegisteredService::into_owned).collect();
        (self.is_read, self.is_reported) = (is_read, true);
        let ids = self.services.iter().map(|service| service.id.to_string());
        let new: Vec<String> = ids.filter(|id| !known.contains(id)).collect();
        let is_any_new = !new.is_empty();
        self.unchecked.extend(new);
        is_any_new
    }

    fn contents(&self, known: &Known) -> Contents {
        let is_in_order = |service: &&RegisteredService<'_>| {
            let id = service.id.to_string();
            let has_trouble = known.drifted.contains_key(&id) || known.failed.contains_key(&id);
            let health = known.health.get(&id).map(|health| health.state);
            let is_healthy = matches!(health, None | Some(HealthState::Ok | HealthState::Warning));
            !has_trouble && is_healthy && !self.unchecked.contains(&id)
        };
        Contents { read: self.is_read, services: self.services.iter().filter(is_in_order).cloned().collect() }
    }

    /// Writes the file if it would be another one.
    fn write(&mut self, contents: Contents) {
        if self.written.as_ref() == Some(&contents) {
            return;
        }
        let is_absent = self.written.is_none() && contents == Contents::default() && !self.path.exists();
        if !is_absent {
            let written = serde_json::to_vec(&contents).map_err(Into::into);
            if let Err(error) = written.and_then(|text| spool::replace(&self.path, &text, 0o600)) {
                say(Level::Error, format_args!("{}: {error}; no service is registered", self.path.display()));
                // A service that is no longer in order must not stay registered.
                let _ = fs::remove_file(&self.path);
            }
        }
        self.written = Some(contents);
    }
}

impl Daemon<'_> {
    pub(super) fn hear_registry(&mut self, services: &[RegisteredService<'_>], is_read: bool) {
        if self.registry.hear(services, is_read) {
            // A round that runs already does not know of them.
            self.health.abandon(Instant::now());
            self.health.look_at_all(Instant::now());
        }
    }

    /// Writes the services of entities that are in order, for `holo-fleet`.
    pub(super) fn write_registry(&mut self) {
        if self.config.fleet.is_some() {
            let contents = self.registry.contents(&self.known);
            self.registry.write(contents);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Health;
    use holo_definitions::Registration;
    use jiff::Timestamp;

    fn service(id: &str) -> RegisteredService<'_> {
        let name = || "a".to_owned();
        RegisteredService {
            id: id.as_bytes().into(),
            service: Registration {
                cluster: name(),
                service: name(),
                protocol: name(),
                address: None,
                port: 1,
                priority: 1,
                ttl: 60,
                annotations: std::collections::BTreeMap::new(),
            },
        }
    }

    #[test]
    fn services_of_entities_in_order_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let (mut registry, mut known) = (Registry::new(folder.path().join("registry.json")), Known::default());
        let written = |registry: &mut Registry, known: &Known| {
            let contents = registry.contents(known);
            registry.write(contents);
            let text = fs::read(&registry.path).ok()?;
            let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
            let services = value["services"].as_array().unwrap().iter();
            Some((value["read"] == true, services.map(|of| of["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()))
        };
        assert_eq!(written(&mut registry, &known), None);
        registry.begin_watch();
        assert!(registry.hear(&[service("x"), service("y")], true));
        registry.is_surveyed();
        assert_eq!(written(&mut registry, &known), Some((true, vec![])));
        registry.is_checked();
        assert_eq!(written(&mut registry, &known), Some((true, vec!["x".to_owned(), "y".to_owned()])));
        for (state, is_in_order) in [
            (HealthState::Critical, false),
            (HealthState::Warning, true),
            (HealthState::Unknown, false),
            (HealthState::Ok, true),
        ] {
            known.health.insert("x".to_owned(), Health { state, since: Timestamp::UNIX_EPOCH, text: None });
            assert_eq!(written(&mut registry, &known).unwrap().1.len() == 2, is_in_order, "{state:?}");
        }
        // A new watch that reports none has found none.
        registry.begin_watch();
        assert_eq!(written(&mut registry, &known).unwrap().1.len(), 2);
        registry.is_surveyed();
        assert_eq!(written(&mut registry, &known), Some((false, vec![])));
    }
}
