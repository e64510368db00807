//! The services of this host in the registry, and the snapshot of the registry for its templates.

use crate::config::Root;
use crate::disk::replace;
use crate::error::FleetError;
use crate::names::Host;
use crate::registry::{Entry, Live};
use crate::store::{REGISTRY, Store};
use holo_definitions::Registration;
use holo_facts::REGISTRY_SNAPSHOT;
use holo_process::streams;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The number of renewals within the time to live.
const RENEWALS: u32 = 3;
/// The time for which an entity may be out of order before its services are withdrawn: most drift is repaired within it.
const TOLERANCE: Duration = Duration::from_secs(2);
/// The timeout for withdrawing all services.
const WITHDRAWAL: Duration = Duration::from_secs(5);

/// What the agent writes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wanted {
    /// True if templates read the registry.
    read: bool,
    /// The services of entities that are in order.
    services: Vec<Registration>,
}

/// The services of this host, and those of others if templates read the registry.
pub(super) struct Services {
    host: Host,
    wanted: PathBuf,
    published: BTreeMap<String, Published>,
    live: Live,
    snapshot: PathBuf,
    /// What the snapshot contains.
    written: Vec<u8>,
    /// What was complained about last.
    trouble: Option<String>,
}

struct Published {
    entry: Entry,
    /// The time of its renewal, or of its withdrawal.
    due: Instant,
    /// True if it is about to be withdrawn.
    is_gone: bool,
}

impl Services {
    pub(super) fn new(root: &Root, host: &Host) -> Services {
        let snapshot = root.join(REGISTRY_SNAPSHOT);
        let written = fs::read(&snapshot).unwrap_or_default();
        Services {
            host: host.clone(),
            wanted: root.join("var/lib/holo-agent/registry.json"),
            published: BTreeMap::new(),
            live: Live::new(serde_json::from_slice(&written).unwrap_or_default()),
            snapshot,
            written,
            trouble: None,
        }
    }

    /// Prepares for a new connection: the server may have lost everything.
    pub(super) fn begin(&mut self) {
        self.published.values_mut().for_each(|published| published.due = Instant::now());
        self.live.rest();
    }

    /// Publishes, renews and withdraws services, and writes the snapshot. Returns the time at which this is due again, if it
    /// is.
    pub(super) async fn sync(&mut self, store: &Store) -> Result<Option<Instant>, FleetError> {
        let text = fs::read(&self.wanted).unwrap_or_default();
        let Wanted { read, services } = serde_json::from_slice(&text).unwrap_or_default();
        let mut trouble = self.publish(store, services, TOLERANCE).await?;
        match (read, self.live.follows()) {
            (true, false) => self.live.follow(store).await?,
            (false, true) => self.live.rest(),
            _ => {}
        }
        if read {
            self.live.expire();
            // A full disk is no reason not to report.
            trouble = trouble.or(self.write_snapshot().err().map(|error| error.to_string()));
        }
        if trouble != self.trouble {
            trouble.iter().for_each(|trouble| streams::complain(format_args!("holo-fleet: {trouble}")));
            self.trouble = trouble;
        }
        let renewals = self.published.values().map(|published| published.due);
        Ok(renewals.chain(self.live.next_expiry().filter(|_| read)).min())
    }

    /// Publishes and renews these services, and withdraws others after a time. Returns why one is not published.
    async fn publish(
        &mut self,
        store: &Store,
        services: Vec<Registration>,
        tolerance: Duration,
    ) -> Result<Option<String>, FleetError> {
        let (mut entries, mut trouble) = (BTreeMap::new(), None);
        for service in services {
            match Entry::new(&self.host, service) {
                Ok(entry) => drop(entries.insert(entry.key(), entry)),
                Err(error) => trouble = Some(format!("{error}; it is not registered")),
            }
        }
        let now = Instant::now();
        for (_, gone) in self.published.iter_mut().filter(|(key, _)| !entries.contains_key(*key)) {
            let latest = now + tolerance;
            gone.due = if gone.is_gone { gone.due.min(latest) } else { latest };
            gone.is_gone = true;
        }
        let is_over = |(_, published): &(&String, &Published)| published.is_gone && published.due <= now;
        let over: Vec<String> = self.published.iter().filter(is_over).map(|(key, _)| key.clone()).collect();
        for key in over {
            store.bucket(REGISTRY).await?.remove(&key).await?;
            self.published.remove(&key);
        }
        for (key, entry) in entries {
            let known = self.published.get(&key);
            if known.is_none_or(|known| known.entry != entry || known.is_gone || known.due <= now) {
                entry.put(store).await?;
                let due = now + entry.service.ttl() / RENEWALS;
                self.published.insert(key, Published { entry, due, is_gone: false });
            }
        }
        Ok(trouble)
    }

    fn write_snapshot(&mut self) -> Result<(), FleetError> {
        let text = serde_json::to_vec(&self.live.entries()).map_err(|error| FleetError::about(REGISTRY, error))?;
        if text != self.written {
            replace(&self.snapshot, &text, 0o600)?;
            self.written = text;
        }
        Ok(())
    }

    /// Waits until other hosts' services have changed. Returns false if the server has ended the subscription.
    pub(super) async fn have_changed(&mut self) -> bool {
        self.live.changed().await.is_some()
    }

    /// Withdraws all services. If the server does not answer, they expire.
    pub(super) async fn withdraw(&mut self, store: &Store) {
        let _ = timeout(WITHDRAWAL, self.publish(store, Vec::new(), Duration::ZERO)).await;
    }
}
