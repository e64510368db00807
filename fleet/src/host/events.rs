//! The events of the agent, sent in order, each once.

use super::memory::Memory;
use crate::config::Root;
use crate::error::FleetError;
use crate::names::Host;
use crate::store::{EVENT_SUBJECT, Store};
use async_nats::HeaderMap;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The number of events that are sent before their receipt is waited for.
const AT_ONCE: usize = 100;

/// The events that the agent keeps.
pub(super) struct Events {
    path: PathBuf,
    host: Host,
    /// The inode, size and time of the file when all its events were sent.
    done: Option<(u64, u64, i64, i64)>,
}

impl Events {
    pub(super) fn new(root: &Root, host: &Host) -> Events {
        Events { path: root.join("var/lib/holo-agent/events.jsonl"), host: host.clone(), done: None }
    }

    /// Sends the events that were not sent yet.
    pub(super) async fn send(&mut self, store: &Store, memory: &mut Memory) -> Result<(), FleetError> {
        let Ok(metadata) = fs::metadata(&self.path) else { return Ok(()) };
        let mark = Some((metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec()));
        if self.done == mark {
            return Ok(());
        }
        let content = fs::read(&self.path).map_err(|error| FleetError::about(self.path.display(), error))?;
        let lines = content.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let events: Vec<Value> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let seq = |event: &Value| event.get("seq").and_then(Value::as_u64).unwrap_or(0);
        let newest = events.iter().map(seq).max().unwrap_or(0);
        // The file was removed, and the numbers begin again.
        let last = if newest < memory.last_event() { 0 } else { memory.last_event() };
        let new: Vec<&Value> = events.iter().filter(|event| seq(event) > last).collect();
        for some in new.chunks(AT_ONCE) {
            let mut receipts = Vec::new();
            for event in some {
                receipts.push(self.publish(store, event).await?);
            }
            for receipt in receipts {
                receipt.await.map_err(|error| FleetError::about("events", error))?;
            }
            if let Some(event) = some.last() {
                memory.set_last_event(seq(event))?;
            }
        }
        self.done = mark;
        Ok(())
    }

    async fn publish(
        &self,
        store: &Store,
        event: &Value,
    ) -> Result<async_nats::jetstream::context::PublishAckFuture, FleetError> {
        let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or("unknown").to_owned();
        let token = self.host.token();
        let mut event_of_host = event.clone();
        if let Some(object) = event_of_host.as_object_mut() {
            object.insert("host".to_owned(), Value::String(self.host.to_string()));
        }
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_MESSAGE_ID, format!("{token}/{}", text("id")));
        let subject = format!("{EVENT_SUBJECT}.{token}.{}", text("kind"));
        let payload = event_of_host.to_string();
        let published = store.context.publish_with_headers(subject, headers, payload.into()).await;
        published.map_err(|error| FleetError::about("events", error))
    }
}
