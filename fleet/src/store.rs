//! What JetStream holds: buckets of bundles, channels, data, hosts and registrations, and the stream of events.

use crate::error::FleetError;
use async_nats::Client;
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::kv::{self, Entry, Operation, UpdateErrorKind};
use async_nats::jetstream::object_store::{self, ObjectStore};
use async_nats::jetstream::stream::{self, DiscardPolicy};
use async_nats::jetstream::{self, Context, ErrorCode};
use futures_util::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

/// The bucket of bundles.
pub(crate) const BUNDLES: &str = "holo-bundles";
/// The bucket of channels.
pub(crate) const CHANNELS: &str = "holo-channels";
/// The bucket of data layers.
pub(crate) const DATA: &str = "holo-data";
/// The bucket of hosts.
pub(crate) const HOSTS: &str = "holo-hosts";
/// The bucket of registrations.
pub(crate) const REGISTRY: &str = "holo-registry";
/// The stream of events.
pub(crate) const EVENTS: &str = "HOLO_EVENTS";
/// The subjects of events, followed by the host and the kind.
pub(crate) const EVENT_SUBJECT: &str = "holo.event";

/// The number of versions that are kept of channels and data.
const HISTORY: i64 = 64;
/// The time after which events are removed.
const EVENTS_AGE: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// The maximum size of all events in bytes.
const EVENTS_SIZE: i64 = 4 << 30;
/// The number of events that are kept of each kind of a host, so that a host cannot push out those of others.
const EVENTS_OF_KIND: i64 = 10_000;
/// The time within which an event that is sent again is recognized.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(60 * 60);

/// The buckets and streams on a server.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) client: Client,
    pub(crate) context: Context,
}

/// What `init` has done to a bucket or stream.
pub(crate) enum Made {
    Created,
    Unchanged,
    /// It differs in these respects, and was left alone.
    Different(Vec<String>),
}

impl Store {
    pub(crate) fn new(client: Client) -> Store {
        let context = jetstream::new(client.clone());
        Store { client, context }
    }

    /// Creates what is missing.
    pub(crate) async fn init(&self, replicas: usize) -> Result<Vec<(&'static str, Made)>, FleetError> {
        let account = self.context.query_account().await;
        account.map_err(|error| {
            FleetError(format!("JetStream does not answer: {error}; is the server started with -js or jetstream {{}}?"))
        })?;
        let mut made = Vec::new();
        for (name, history) in [(CHANNELS, HISTORY), (DATA, HISTORY), (HOSTS, 1), (REGISTRY, 1)] {
            let config = kv::Config { bucket: name.to_owned(), history, num_replicas: replicas, ..Default::default() };
            let expected = [("history", history), ("replicas", replicas as i64)];
            let differences = self.differences(&format!("KV_{name}"), &expected).await?;
            if differences.is_none() {
                self.context.create_key_value(config).await.map_err(|error| FleetError::about(name, error))?;
            }
            made.push((name, as_made(differences)));
        }
        let expected = [("replicas", replicas as i64)];
        let differences = self.differences(&format!("OBJ_{BUNDLES}"), &expected).await?;
        if differences.is_none() {
            let bucket = BUNDLES.to_owned();
            let config = object_store::Config { bucket, num_replicas: replicas, ..Default::default() };
            self.context.create_object_store(config).await.map_err(|error| FleetError::about(BUNDLES, error))?;
        }
        made.insert(0, (BUNDLES, as_made(differences)));
        let expected = [("replicas", replicas as i64), ("messages per subject", EVENTS_OF_KIND)];
        let differences = self.differences(EVENTS, &expected).await?;
        if differences.is_none() {
            let config = stream::Config {
                name: EVENTS.to_owned(),
                subjects: vec![format!("{EVENT_SUBJECT}.*.*")],
                max_age: EVENTS_AGE,
                max_bytes: EVENTS_SIZE,
                max_messages_per_subject: EVENTS_OF_KIND,
                discard: DiscardPolicy::Old,
                duplicate_window: DUPLICATE_WINDOW,
                num_replicas: replicas,
                allow_direct: true,
                ..Default::default()
            };
            self.context.create_stream(config).await.map_err(|error| FleetError::about(EVENTS, error))?;
        }
        made.push((EVENTS, as_made(differences)));
        Ok(made)
    }

    /// Returns how a stream differs from what is expected; `None` if there is none.
    async fn differences(&self, name: &str, expected: &[(&str, i64)]) -> Result<Option<Vec<String>>, FleetError> {
        let stream = match self.context.get_stream(name).await {
            Ok(stream) => stream,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(FleetError::about(name, error)),
        };
        let config = &stream.cached_info().config;
        let differs = expected.iter().filter_map(|(what, expected)| {
            let found = match *what {
                "replicas" => config.num_replicas as i64,
                _ => config.max_messages_per_subject,
            };
            (found != *expected).then(|| format!("{what}: {found} instead of {expected}"))
        });
        Ok(Some(differs.collect()))
    }

    /// Returns a bucket of keys and values.
    pub(crate) async fn bucket(&self, name: &'static str) -> Result<Bucket, FleetError> {
        match self.context.get_key_value(name).await {
            Ok(store) => Ok(Bucket { store, name }),
            Err(error) => Err(self.not_here(name, &error)),
        }
    }

    /// Returns the bucket of bundles.
    pub(crate) async fn bundles(&self) -> Result<ObjectStore, FleetError> {
        self.context.get_object_store(BUNDLES).await.map_err(|error| self.not_here(BUNDLES, &error))
    }

    fn not_here(&self, name: &str, error: &dyn Display) -> FleetError {
        FleetError(format!("{name}: {error}; was the server prepared with: holo-fleet init?"))
    }

    /// Returns the time of the server, which the times of entries are to be compared with.
    pub(crate) async fn now(&self) -> Result<Timestamp, FleetError> {
        let subject = format!("STREAM.INFO.KV_{HOSTS}");
        let info: Value =
            self.context.request(subject, &json!({})).await.map_err(|error| FleetError::about("the server", error))?;
        let time = info.get("ts").and_then(Value::as_str).and_then(|time| time.parse().ok());
        // The server has always sent it since 2.10.
        Ok(time.unwrap_or_else(Timestamp::now))
    }
}

fn as_made(differences: Option<Vec<String>>) -> Made {
    match differences {
        None => Made::Created,
        Some(differences) if differences.is_empty() => Made::Unchanged,
        Some(differences) => Made::Different(differences),
    }
}

fn is_missing(error: &GetStreamError) -> bool {
    matches!(error.kind(), GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// A bucket of keys and values.
#[derive(Clone)]
pub(crate) struct Bucket {
    store: kv::Store,
    name: &'static str,
}

/// A value with its place in the history of its key.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) key: String,
    pub(crate) value: Vec<u8>,
    pub(crate) revision: u64,
    /// The time at which the server received it.
    pub(crate) time: Timestamp,
}

impl Bucket {
    /// Returns the current value of a key.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<Kept>, FleetError> {
        let entry = self.store.entry(key).await.map_err(|error| self.about(key, &error))?;
        Ok(entry.and_then(present))
    }

    /// Sets the value of a key, if nobody else has in the meantime: `revision` is that of the known value, or 0. Returns
    /// the new revision; `None` if somebody else was faster.
    pub(crate) async fn set(&self, key: &str, value: Vec<u8>, revision: u64) -> Result<Option<u64>, FleetError> {
        match self.store.update(key, value.into(), revision).await {
            Ok(revision) => Ok(Some(revision)),
            Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Ok(None),
            Err(error) => Err(self.about(key, &error)),
        }
    }

    /// Sets the value of a key.
    pub(crate) async fn put(&self, key: &str, value: Vec<u8>) -> Result<u64, FleetError> {
        self.store.put(key, value.into()).await.map_err(|error| self.about(key, &error))
    }

    /// Removes a key, with its history.
    pub(crate) async fn remove(&self, key: &str) -> Result<(), FleetError> {
        self.store.purge(key).await.map_err(|error| self.about(key, &error))
    }

    /// Returns the current values of all keys that match a filter.
    pub(crate) async fn all(&self, filter: &str) -> Result<Vec<Kept>, FleetError> {
        let about = |error: &dyn Display| self.about(filter, error);
        if self.is_empty(filter).await? {
            return Ok(Vec::new());
        }
        let mut watch = self.watch(filter).await?;
        let mut found = BTreeMap::new();
        while let Some(entry) = watch.next().await {
            let entry = entry.map_err(|error| about(&error))?;
            let is_last = entry.delta == 0;
            found.insert(entry.key.clone(), present(entry));
            if is_last {
                break;
            }
        }
        Ok(found.into_values().flatten().collect())
    }

    async fn is_empty(&self, filter: &str) -> Result<bool, FleetError> {
        let subject = format!("$KV.{}.{filter}", self.name);
        let info = self.store.stream.info_with_subjects(subject).await.map_err(|error| self.about(filter, &error))?;
        let subjects: Vec<(String, usize)> = info.try_collect().await.map_err(|error| self.about(filter, &error))?;
        Ok(subjects.is_empty())
    }

    /// Returns the values of a key that are kept, oldest first.
    pub(crate) async fn history(&self, key: &str) -> Result<Vec<Kept>, FleetError> {
        let about = |error: &dyn Display| self.about(key, error);
        if self.is_empty(key).await? {
            return Ok(Vec::new());
        }
        let history = self.store.history(key).await.map_err(|error| about(&error))?;
        let entries: Vec<Entry> = history.try_collect().await.map_err(|error| about(&error))?;
        Ok(entries.into_iter().filter_map(present).collect())
    }

    /// Returns the current values of the keys that match a filter, and then their changes. The filter is in the subject of
    /// the request, so that the server can permit or refuse it.
    pub(crate) async fn watch(&self, filter: &str) -> Result<kv::Watch, FleetError> {
        self.store.watch_with_history(filter).await.map_err(|error| self.about(filter, &error))
    }

    fn about(&self, key: &str, error: &dyn Display) -> FleetError {
        FleetError(format!("{} {key}: {error}", self.name))
    }
}

/// Returns the value of an entry, unless it marks a removal.
pub(crate) fn present(entry: Entry) -> Option<Kept> {
    let time = Timestamp::from_nanosecond(entry.created.unix_timestamp_nanos()).unwrap_or_default();
    (entry.operation == Operation::Put).then(|| Kept {
        key: entry.key,
        value: entry.value.to_vec(),
        revision: entry.revision,
        time,
    })
}
