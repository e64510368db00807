//! What JetStream holds: buckets of bundles, channels, data, hosts and registrations, and the stream of events.

use crate::error::FleetError;
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::kv::{self, UpdateErrorKind};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::object_store::{self, ObjectStore};
use async_nats::jetstream::stream::{self, DirectGetErrorKind, DiscardPolicy, Stream};
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{Client, HeaderMap};
use futures_util::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
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
/// The maximum size of all events in bytes, which the server reserves on its disk.
const EVENTS_SIZE: i64 = 1 << 30;
/// The number of events that are kept of each kind of a host, so that a host cannot push out those of others.
const EVENTS_OF_KIND: i64 = 10_000;
/// The time within which an event that is sent again is recognized.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(60 * 60);

/// The number of requests that wait for answers at the same time.
pub(crate) const AT_ONCE: usize = 64;
/// The time after the message about a change at which the value is requested again: a server of a cluster may not have it
/// yet.
pub(crate) const LATE: Duration = Duration::from_secs(2);
/// The header of messages that mark a removal.
const OPERATION: &str = "KV-Operation";

/// The buckets and streams on a server.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) client: Client,
    pub(crate) context: Context,
    /// The buckets that were used.
    buckets: Arc<Mutex<BTreeMap<&'static str, Bucket>>>,
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
        Store { client, context, buckets: Arc::default() }
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
        let known = self.buckets.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(bucket) = known {
            return Ok(bucket);
        }
        let store = self.context.get_key_value(name).await.map_err(|error| self.not_here(name, &error))?;
        let bucket = Bucket { store, name };
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner).insert(name, bucket.clone());
        Ok(bucket)
    }

    /// Returns the bucket of bundles.
    pub(crate) async fn bundles(&self) -> Result<ObjectStore, FleetError> {
        self.context.get_object_store(BUNDLES).await.map_err(|error| self.not_here(BUNDLES, &error))
    }

    pub(crate) fn not_here(&self, name: &str, error: &dyn Display) -> FleetError {
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

/// Returns the last message of each subject that matches a filter, by subject.
///
/// Each one is requested by itself. A consumer might be placed on a server of a cluster that has just gone, which would
/// then have to be waited for.
pub(crate) async fn last_of(stream: &Stream, filter: &str) -> Result<Vec<StreamMessage>, FleetError> {
    let info = stream.info_with_subjects(filter).await.map_err(|error| FleetError(error.to_string()))?;
    let subjects: Vec<(String, usize)> = info.try_collect().await.map_err(|error| FleetError(error.to_string()))?;
    let get = async |(subject, _)| match stream.direct_get_last_for_subject(subject).await {
        Ok(message) => Ok(Some(message)),
        // It was removed in the meantime.
        Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
        Err(error) => Err(FleetError(error.to_string())),
    };
    let requests = futures_util::stream::iter(subjects.into_iter().map(get)).buffer_unordered(AT_ONCE);
    let messages: Vec<Option<StreamMessage>> = requests.try_collect().await?;
    let mut messages: Vec<StreamMessage> = messages.into_iter().flatten().collect();
    messages.sort_by(|one, other| one.subject.cmp(&other.subject));
    Ok(messages)
}

/// Returns true if these are the headers of a message that marks a removal.
pub(crate) fn is_removal(headers: &HeaderMap) -> bool {
    headers.get(OPERATION).is_some()
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
        match self.store.stream.direct_get_last_for_subject(self.subject(key)).await {
            Ok(message) => Ok(self.present(&message)),
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.about(key, &error)),
        }
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

    /// Removes a key with everything up to a revision, without a trace.
    pub(crate) async fn erase(&self, key: &str, revision: u64) -> Result<(), FleetError> {
        let purge = self.store.stream.purge().filter(self.subject(key)).sequence(revision.saturating_add(1)).await;
        purge.map(|_| ()).map_err(|error| self.about(key, &error))
    }

    /// Returns the current values of all keys that match a filter, by key.
    pub(crate) async fn all(&self, filter: &str) -> Result<Vec<Kept>, FleetError> {
        let last = self.last(filter).await?;
        Ok(last.into_iter().filter(|(_, is_removal)| !is_removal).map(|(kept, _)| kept).collect())
    }

    /// Like [`all`](Self::all), but with the removals that the server remembers, for which the flag is true.
    pub(crate) async fn last(&self, filter: &str) -> Result<Vec<(Kept, bool)>, FleetError> {
        let messages = last_of(&self.store.stream, &self.subject(filter)).await;
        let messages = messages.map_err(|error| self.about(filter, &error))?;
        Ok(messages.iter().filter_map(|message| Some((self.kept(message)?, is_removal(&message.headers)))).collect())
    }

    /// Returns the values of a key that are kept, oldest first.
    pub(crate) async fn history(&self, key: &str) -> Result<Vec<Kept>, FleetError> {
        let (mut found, mut next) = (Vec::new(), 1);
        loop {
            let message = self.store.stream.direct_get_next_for_subject(self.subject(key), Some(next)).await;
            let message = match message {
                Ok(message) => message,
                Err(error) if error.kind() == DirectGetErrorKind::NotFound => return Ok(found),
                Err(error) => return Err(self.about(key, &error)),
            };
            next = message.sequence + 1;
            found.extend(self.present(&message));
        }
    }

    fn subject(&self, key: &str) -> String {
        format!("$KV.{}.{key}", self.name)
    }

    /// Returns the value in a message, unless it marks a removal.
    fn present(&self, message: &StreamMessage) -> Option<Kept> {
        self.kept(message).filter(|_| !is_removal(&message.headers))
    }

    fn kept(&self, message: &StreamMessage) -> Option<Kept> {
        let key = message.subject.strip_prefix(&self.subject(""))?.to_owned();
        let time = Timestamp::from_nanosecond(message.time.unix_timestamp_nanos()).unwrap_or_default();
        Some(Kept { key, value: message.payload.to_vec(), revision: message.sequence, time })
    }

    fn about(&self, key: &str, error: &dyn Display) -> FleetError {
        FleetError(format!("{} {key}: {error}", self.name))
    }
}
