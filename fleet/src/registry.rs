//! The registry: services that are up.
//!
//! An entry lasts for its time to live, counted from when the server received it: no clock of another machine decides.

use crate::error::FleetError;
use crate::names::{Host, token};
use crate::store::{REGISTRY, Store, is_removal};
use async_nats::{Message, Subscriber};
use futures_util::StreamExt;
use holo_definitions::Registration;
use holo_process::streams;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// The maximum size of an entry in bytes, and of all together: they come from other machines.
const MAX_ENTRY: usize = 16 << 10;
const MAX_ALL: usize = 8 << 20;
/// The maximum number of entries of a host, so that it cannot push out those of others.
const MAX_OF_HOST: usize = 256;
/// The interval between two removals of expired entries.
const SWEEP: Duration = Duration::from_secs(60);
/// The time after which a server need not remember that an entry was removed.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);

/// A service that is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The host that has registered it.
    pub(crate) host: Host,
    /// The service, which always has an address here.
    #[serde(flatten)]
    pub(crate) service: Registration,
}

impl Entry {
    /// Returns the entry of a host. Without an address, the service is at the name of the host.
    pub(crate) fn new(host: &Host, service: Registration) -> Result<Entry, FleetError> {
        let address = service.address.clone().unwrap_or_else(|| host.to_string());
        let service = Registration { address: Some(address), ..service };
        service.check().map_err(|error| FleetError::about(format!("service {}", service.service), error))?;
        Ok(Entry { host: host.clone(), service })
    }

    /// Reads an entry, which may come from anywhere.
    fn read(key: &str, value: &[u8]) -> Result<Entry, FleetError> {
        if value.len() > MAX_ENTRY {
            return Err(FleetError("it is too large".to_owned()));
        }
        let entry: Entry = serde_json::from_slice(value).map_err(|error| FleetError(error.to_string()))?;
        entry.service.check().map_err(|error| FleetError(error.to_string()))?;
        // The server lets each host write only keys with its name.
        if entry.service.address.is_none() || entry.key() != key {
            return Err(FleetError("it has the key of another entry".to_owned()));
        }
        Ok(entry)
    }

    pub(crate) fn address(&self) -> &str {
        self.service.address.as_deref().unwrap_or_default()
    }

    /// Returns its key. The host has a place of its own in it, which permissions refer to.
    pub(crate) fn key(&self) -> String {
        let Registration { cluster, protocol, service, port, .. } = &self.service;
        let place = format!("{}:{port}", self.address());
        let names = [cluster, protocol, service].map(|name| token(name)).join(".");
        format!("{names}.{}.{}", self.host.token(), token(&place))
    }

    fn text(&self) -> Result<Vec<u8>, FleetError> {
        serde_json::to_vec(self).map_err(|error| FleetError::about("registry", error))
    }

    /// Publishes or renews it.
    pub(crate) async fn put(&self, store: &Store) -> Result<(), FleetError> {
        store.bucket(REGISTRY).await?.put(&self.key(), self.text()?).await.map(|_| ())
    }

    /// Returns what entries are sorted by.
    fn rank(&self) -> impl Ord + use<'_> {
        let Registration { cluster, protocol, service, priority, port, .. } = &self.service;
        (cluster, protocol, service, *priority, self.address(), *port, &self.host)
    }
}

/// Returns the entries that have not expired, sorted, each with the time at which it does.
pub(crate) async fn current(store: &Store) -> Result<Vec<(Entry, Timestamp)>, FleetError> {
    let now = store.now().await?;
    let kept = store.bucket(REGISTRY).await?.all(">").await?;
    let mut entries: Vec<(Entry, Timestamp)> = kept
        .into_iter()
        .filter_map(|kept| {
            let entry = Entry::read(&kept.key, &kept.value).ok()?;
            let end = kept.time.checked_add(entry.service.ttl()).ok()?;
            (end > now).then_some((entry, end))
        })
        .collect();
    entries.sort_by(|(one, _), (other, _)| one.rank().cmp(&other.rank()));
    Ok(entries)
}

/// A change of the registry.
pub(crate) enum Change {
    /// It is new, or has changed.
    Added(Entry),
    Removed(Entry),
    /// It was not renewed.
    Expired(Entry),
}

/// The entries as they are now.
#[derive(Default)]
pub(crate) struct Live {
    table: Table,
    /// What the server tells of, while it is followed.
    hints: Option<Subscriber>,
}

/// The entries by their keys.
#[derive(Default)]
struct Table {
    entries: BTreeMap<String, Lasting>,
    /// The size of all entries together.
    size: usize,
    /// True once it was said that an entry is ignored.
    has_warned: bool,
}

struct Lasting {
    entry: Entry,
    size: usize,
    until: Instant,
}

impl Live {
    /// Begins with entries that are known from before.
    pub(crate) fn new(known: Vec<Entry>) -> Live {
        let mut live = Live::default();
        for entry in known {
            let (key, text) = (entry.key(), entry.text().unwrap_or_default());
            live.table.put(&key, &text, entry.service.ttl());
        }
        live
    }

    /// Returns the entries, sorted.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.table.entries.values().map(|lasting| lasting.entry.clone()).collect();
        entries.sort_by(|one, other| one.rank().cmp(&other.rank()));
        entries
    }

    /// Returns true if it follows the registry.
    pub(crate) fn follows(&self) -> bool {
        self.hints.is_some()
    }

    /// Does not follow the registry any more. The entries stay as they are.
    pub(crate) fn rest(&mut self) {
        self.hints = None;
    }

    /// Follows the registry from now on.
    ///
    /// What is known and missing there, or expired, stays for its time to live: after a failure of the server, others need
    /// time to renew their entries. What was removed is removed.
    pub(crate) async fn follow(&mut self, store: &Store) -> Result<(), FleetError> {
        let hints = store.client.subscribe(format!("$KV.{REGISTRY}.>")).await;
        let hints = hints.map_err(|error| FleetError::about(REGISTRY, error))?;
        // What happens from now on must not be missed.
        store.client.flush().await.map_err(|error| FleetError(error.to_string()))?;
        let (bucket, now, begun) = (store.bucket(REGISTRY).await?, store.now().await?, Instant::now());
        for lasting in self.table.entries.values_mut() {
            lasting.until = begun + lasting.entry.service.ttl();
        }
        for (kept, is_removal) in bucket.last(">").await? {
            if is_removal {
                self.table.remove(&kept.key);
            } else {
                let age = now.duration_since(kept.time).try_into().unwrap_or_default();
                self.table.put(&kept.key, &kept.value, age);
            }
        }
        self.hints = Some(hints);
        Ok(())
    }

    /// Waits for the next change that the server tells of; forever if the registry is not followed. `None` if the server has
    /// ended the subscription.
    pub(crate) async fn changed(&mut self) -> Option<Change> {
        let Some(hints) = &mut self.hints else { return std::future::pending().await };
        loop {
            if let Some(change) = self.table.hear(&hints.next().await?) {
                return Some(change);
            }
        }
    }

    /// Removes entries that were not renewed.
    pub(crate) fn expire(&mut self) -> Vec<Change> {
        let now = Instant::now();
        let over = self.table.entries.iter().filter(|(_, lasting)| lasting.until <= now);
        let over: Vec<String> = over.map(|(key, _)| key.clone()).collect();
        over.iter().filter_map(|key| self.table.remove(key)).map(Change::Expired).collect()
    }

    /// Returns the time at which the next entry expires.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.table.entries.values().map(|lasting| lasting.until).min()
    }
}

impl Table {
    fn hear(&mut self, message: &Message) -> Option<Change> {
        let key = message.subject.strip_prefix(&format!("$KV.{REGISTRY}."))?;
        if message.headers.as_ref().is_some_and(is_removal) {
            return self.remove(key).map(Change::Removed);
        }
        self.put(key, &message.payload, Duration::ZERO)
    }

    /// Takes over an entry of this age. Returns the change, unless it was only renewed. An invalid one is ignored.
    fn put(&mut self, key: &str, value: &[u8], age: Duration) -> Option<Change> {
        let entry = match Entry::read(key, value).and_then(|entry| self.admit(key, entry, value.len())) {
            Ok(entry) => entry,
            Err(error) => {
                if !std::mem::replace(&mut self.has_warned, true) {
                    let key = key.escape_default();
                    streams::complain(format_args!(
                        "holo-fleet: registry: {key}: {error}; it is ignored, like any other such entry"
                    ));
                }
                return None;
            }
        };
        let left = entry.service.ttl().checked_sub(age).filter(|left| !left.is_zero())?;
        let lasting = Lasting { entry: entry.clone(), size: value.len(), until: Instant::now() + left };
        self.size += value.len();
        let before = self.entries.insert(key.to_owned(), lasting);
        self.size -= before.as_ref().map_or(0, |before| before.size);
        before.is_none_or(|before| before.entry != entry).then_some(Change::Added(entry))
    }

    /// Refuses an entry for which there is no room.
    fn admit(&self, key: &str, entry: Entry, size: usize) -> Result<Entry, FleetError> {
        let before = self.entries.get(key).map_or(0, |lasting| lasting.size);
        if self.size - before + size > MAX_ALL {
            return Err(FleetError(format!("all entries together exceed {} MiB", MAX_ALL >> 20)));
        }
        let of_host = || self.entries.values().filter(|other| other.entry.host == entry.host).count();
        if !self.entries.contains_key(key) && of_host() >= MAX_OF_HOST {
            return Err(FleetError(format!("{} has more than {MAX_OF_HOST} entries", entry.host)));
        }
        Ok(entry)
    }

    fn remove(&mut self, key: &str) -> Option<Entry> {
        let lasting = self.entries.remove(key)?;
        self.size -= lasting.size;
        Some(lasting.entry)
    }
}

/// Removes expired entries from the server, and what it remembers of removed ones.
#[derive(Default)]
pub(crate) struct Sweep {
    /// The time of the next look.
    due: Option<Instant>,
    /// The revisions that were found to be over when it was looked last.
    over: BTreeMap<String, u64>,
}

impl Sweep {
    /// Looks, if it is time to. An entry is removed if it is still the same at the next look: after a failure of the server,
    /// all of them may have expired, and come back.
    pub(crate) async fn step(&mut self, store: &Store) -> Result<(), FleetError> {
        if self.due.is_some_and(|due| due > Instant::now()) {
            return Ok(());
        }
        self.due = Some(Instant::now() + SWEEP);
        let before = std::mem::take(&mut self.over);
        let (bucket, now) = (store.bucket(REGISTRY).await?, store.now().await?);
        for (kept, is_removal) in bucket.last(">").await? {
            let ttl = match Entry::read(&kept.key, &kept.value) {
                Ok(entry) if !is_removal => entry.service.ttl(),
                _ => REMEMBERED,
            };
            let age: Duration = now.duration_since(kept.time).try_into().unwrap_or_default();
            if age <= ttl {
                continue;
            }
            if before.get(&kept.key) == Some(&kept.revision) {
                bucket.erase(&kept.key, kept.revision).await?;
            } else {
                self.over.insert(kept.key, kept.revision);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(host: &str, port: u16) -> Entry {
        let name = |name: &str| name.to_owned();
        let service = Registration {
            cluster: name("eu"),
            service: name("web"),
            protocol: name("http"),
            address: None,
            port,
            priority: 1,
            ttl: 60,
            annotations: BTreeMap::new(),
        };
        Entry::new(&Host::new(host).unwrap(), service).unwrap()
    }

    fn put(table: &mut Table, key: &str, entry: &Entry) -> bool {
        table.put(key, &entry.text().unwrap(), Duration::ZERO).is_some()
    }

    #[test]
    fn keys_name_the_host_and_lie_about_nothing() {
        let mut table = Table::default();
        let one = entry("web1.example.org", 80);
        assert_eq!(one.key(), "eu.http.web.web1=2Eexample=2Eorg.web1=2Eexample=2Eorg=3A80");
        assert!(put(&mut table, &one.key(), &one));
        // Renewed.
        assert!(!put(&mut table, &one.key(), &one));
        assert!(!put(&mut table, &entry("web2", 80).key(), &one));
        assert!(table.put("a.b.c.d.e", b"{}", Duration::ZERO).is_none() && table.has_warned);
        assert!(table.put(&one.key(), &[b' '; MAX_ENTRY + 1], Duration::ZERO).is_none());
        // What has expired changes nothing that is known.
        let two = entry("web2", 80);
        assert!(table.put(&two.key(), &two.text().unwrap(), Duration::from_secs(60)).is_none());
        assert_eq!(table.entries.len(), 1);
        assert!(table.remove(&one.key()).is_some() && table.size == 0);
    }

    #[test]
    fn a_host_cannot_push_out_the_entries_of_others() {
        let mut table = Table::default();
        for port in 1..=1000 {
            let entry = entry("greedy", port);
            put(&mut table, &entry.key(), &entry);
        }
        assert_eq!(table.entries.len(), MAX_OF_HOST);
        let other = entry("web1", 80);
        assert!(put(&mut table, &other.key(), &other));
        // Its own can still be renewed.
        let first = Entry { service: Registration { priority: 2, ..entry("greedy", 1).service }, ..entry("greedy", 1) };
        assert!(put(&mut table, &first.key(), &first));
        assert_eq!(table.size, table.entries.values().map(|lasting| lasting.size).sum::<usize>());
    }

    #[test]
    fn a_host_whose_name_is_no_address_needs_one() {
        let service = entry("a", 1).service;
        let host = Host::new("a;b").unwrap();
        let error = Entry::new(&host, Registration { address: None, ..service.clone() }).unwrap_err().to_string();
        assert!(error.contains("\"a;b\" is not a host name"), "{error}");
        assert!(Entry::new(&host, service).is_ok());
    }
}
