//! A host: follows its channel and its data layers, installs what is meant for it, and reports how it is.
//!
//! It runs beside `holo-agent`, which applies what is installed here. What it knows of the server is only ever a hint: each
//! message leads to a request for the current value, and each value is verified.

mod agent;
mod events;
mod layers;
mod memory;
pub(crate) mod requests;
mod services;
mod target;

use crate::channel::progress_key;
use crate::config::{HostConfig, Root};
use crate::connection::{Refusals, check_version, keep_connected};
use crate::error::FleetError;
use crate::report::{Health, HostReport, Outcome};
use crate::store::{HOSTS, Kept, LATE, Store};
use agent::{Agent, Changes};
use events::Events;
use futures_util::StreamExt;
use futures_util::stream::select_all;
use holo_facts::Knowledge;
use holo_process::streams;
use jiff::{SignedDuration, Timestamp};
use memory::Memory;
use serde::Serialize;
use serde_json::{Map, Value};
use services::Services;
use std::fs;
use std::time::Duration;
use target::Target;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// The time for which another machine with the same name must have been silent.
const TAKE_OVER: SignedDuration = SignedDuration::from_mins(3);
/// The pause after an error, which doubles with each further one.
const RETRY: Duration = Duration::from_secs(2);
/// The longest pause.
const MAX_RETRY: Duration = Duration::from_secs(60);
/// The time after which a connection that ends was a good one.
const LASTING: Duration = Duration::from_secs(60);
/// The time that a connection has to work before it is said that there is none.
const NO_CONNECTION: Duration = Duration::from_secs(5);

/// What a host tells the agent, as a line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum News {
    /// The connection has changed.
    Fleet {
        state: Connection,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Something has happened to a bundle.
    Bundle {
        state: BundleState,
        name: String,
        #[serde(rename = "bundle_version")]
        version: String,
        digest: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Connection {
    Connected,
    Disconnected,
    NameRefused,
    NameTaken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BundleState {
    Fetched,
    Installed,
    Refused,
}

/// Says something to the agent, and to whoever reads the journal.
fn say(news: &News) {
    // Without a reader, nobody wants to know.
    let _ = crate::session::print_json(news);
}

/// A host with what it knows.
struct Machine {
    root: Root,
    config: HostConfig,
    /// The credentials in use.
    credentials: Option<String>,
    id: String,
    store: Store,
    agent: Agent,
    changes: Changes,
    memory: Memory,
    target: Target,
    services: Services,
    facts: Map<String, Value>,
    /// Why a data layer stays as it is.
    refused_layer: Option<String>,
    /// The report that was sent last, and when.
    sent: Option<(HostReport, Instant)>,
    /// What was said last about the connection.
    said: Option<News>,
    /// The machine that has tried last to use the name of this one.
    claimed_by: Option<String>,
}

/// Follows the channel until it is asked to end.
pub(crate) async fn run(root: &Root) -> Result<(), FleetError> {
    let config = HostConfig::read(root)?;
    let signals = |kind| signal(kind).map_err(|error| FleetError(error.to_string()));
    let (mut terminate, mut interrupt) = (signals(SignalKind::terminate())?, signals(SignalKind::interrupt())?);
    let (sender, mut connections) = watch::channel(0_u64);
    let credentials = config.link.read_credentials().ok().flatten();
    let client = keep_connected(&config.link, move |is_connected| {
        sender.send_modify(|count| *count = if is_connected { (*count | 1) + 2 } else { (*count + 2) & !1 });
    });
    let (client, refusals) = client.await?;
    let store = Store::new(client);
    let id = fs::read_to_string(root.join("etc/machine-id")).unwrap_or_default().trim().to_owned();
    let memory = Memory::read(root);
    requests::remove_previews(root);
    let agent = Agent::new(root);
    let target = Target::new(root, &config)?;
    let changes = agent.changes()?;
    let services = Services::new(root, &config.host);
    let (facts, refused_layer, sent, said, claimed_by) = (Map::new(), None, None, None, None);
    let root = root.clone();
    let mut machine = Machine {
        root,
        config,
        credentials,
        id,
        store,
        agent,
        changes,
        memory,
        target,
        services,
        facts,
        refused_layer,
        sent,
        said,
        claimed_by,
    };
    let mut ended = agent::ended()?;
    tokio::select! {
        () = machine.live(&mut connections, refusals) => {}
        Some(()) = ended.recv() => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    if is_connected(*connections.borrow()) {
        machine.services.withdraw(&machine.store).await;
    }
    Ok(())
}

/// Returns true if the count of changes of a connection says that it is there.
fn is_connected(count: u64) -> bool {
    count & 1 == 1
}

impl Machine {
    async fn live(&mut self, connections: &mut watch::Receiver<u64>, mut refusals: Refusals) {
        let mut failures = 0_u32;
        loop {
            let count = *connections.borrow_and_update();
            if !is_connected(count) {
                tokio::select! {
                    _ = connections.changed() => continue,
                    () = sleep(NO_CONNECTION) => {}
                }
                self.tell_connection(
                    Connection::Disconnected,
                    Some(format!("no connection to {}", self.config.link.urls.join(", "))),
                );
                // Nothing is to be done until it is there.
                tokio::select! {
                    changed = connections.changed() => if changed.is_err() { return },
                    // The agent starts this program again, which then uses the new ones.
                    () = self.has_new_credentials() => return,
                }
                continue;
            }
            let begun = Instant::now();
            let worked = tokio::select! {
                worked = self.session() => worked,
                Some(refused) = refusals.recv() => Err(refused),
                // What was subscribed may be lost.
                _ = connections.changed() => continue,
            };
            failures = if begun.elapsed() > LASTING { 0 } else { failures + 1 };
            if let Err(error) = worked
                && !self.is_name_refused()
            {
                self.tell_connection(Connection::Disconnected, Some(error.to_string()));
            }
            // What the server refuses for good must not fill it with events.
            sleep((RETRY * 2_u32.pow(failures.min(6))).min(MAX_RETRY)).await;
        }
    }

    /// Waits until the file with the credentials has changed, because those in use may have been revoked.
    async fn has_new_credentials(&self) {
        while self.config.link.read_credentials().is_ok_and(|credentials| credentials == self.credentials) {
            sleep(RETRY).await;
        }
    }

    fn is_name_refused(&self) -> bool {
        matches!(self.said, Some(News::Fleet { state: Connection::NameRefused, .. }))
    }

    fn tell_connection(&mut self, state: Connection, reason: Option<String>) {
        let news = News::Fleet { state, reason };
        if self.said.as_ref() != Some(&news) {
            say(&news);
            self.said = Some(news);
        }
    }

    /// Works for as long as a connection lasts.
    async fn session(&mut self) -> Result<(), FleetError> {
        check_version(&self.store.client)?;
        self.claim_name().await?;
        // A server that has lost its data does not know this host any more.
        self.sent = None;
        self.services.begin();
        self.facts = gather(&self.root, &self.config.report_facts).await;
        let mut subjects = vec![format!("holo.claim.{}", self.config.host.token())];
        if let Some(channel) = &self.config.channel {
            subjects.extend(
                [channel.to_string(), progress_key(channel)].map(|key| format!("$KV.{}.{key}", crate::store::CHANNELS)),
            );
        }
        subjects.extend(layers::keys(&self.config).iter().map(|key| format!("$KV.{}.{key}", crate::store::DATA)));
        let mut subscriptions = Vec::new();
        for subject in subjects {
            let subscribed = self.store.client.subscribe(subject.clone()).await;
            subscriptions.push(subscribed.map_err(|error| FleetError::about(subject, error))?);
        }
        let mut hints = select_all(subscriptions);
        let mut requests = requests::subscribe(&self.store.client, &self.config).await?;
        // Hints of what happens from now on must not be lost.
        self.store.client.flush().await.map_err(|error| FleetError(error.to_string()))?;
        let mut events = Events::new(&self.root, &self.config.host);
        let mut look_again: Option<Instant> = None;
        let mut must_sync = true;
        loop {
            if std::mem::take(&mut must_sync) {
                self.sync().await?;
            }
            events.send(&self.store, &mut self.memory).await?;
            let status = self.agent.status().await;
            self.target.try_again(&status);
            if self.target.is_due(&status) {
                self.target.pursue(&self.store, &self.config, &self.agent).await;
            }
            let next = self.report(&status).await?;
            let services = self.services.sync(&self.store).await?;
            let next = [self.target.next_try(), services].into_iter().flatten().fold(next, Instant::min);
            // Only now has the server answered everything that is needed.
            self.tell_connection(Connection::Connected, None);
            tokio::select! {
                hint = hints.next() => match hint {
                    Some(hint) if hint.subject.starts_with("holo.claim.") => self.hear_claim(&hint.payload),
                    Some(_) => {
                        must_sync = true;
                        look_again = Some(Instant::now() + LATE);
                    }
                    None => return Err(FleetError("the server has ended the subscriptions".to_owned())),
                },
                request = requests.next() => match request {
                    Some(request) => requests::answer(&self.store, &self.config, &self.root, request),
                    None => return Err(FleetError("the server has ended the subscriptions".to_owned())),
                },
                () = self.changes.next() => {}
                is_there = self.services.have_changed() => if !is_there {
                    return Err(FleetError("the server has ended the subscriptions".to_owned()));
                },
                () = self.target.has_run() => {}
                () = sleep_until(look_again.unwrap_or_else(Instant::now)), if look_again.is_some() => {
                    look_again = None;
                    must_sync = true;
                }
                () = sleep_until(next) => {}
            }
        }
    }

    /// Fails if another machine that is alive has the name of this one.
    async fn claim_name(&mut self) -> Result<(), FleetError> {
        let host = self.config.host.clone();
        let bucket = self.store.bucket(HOSTS).await?;
        let Some(kept) = bucket.get(&host.token()).await? else { return Ok(()) };
        let other = machine_of(&kept);
        if other.is_empty() || other == self.id {
            return Ok(());
        }
        let age = self.store.now().await?.duration_since(kept.time);
        if age > TAKE_OVER {
            self.tell_connection(
                Connection::NameTaken,
                Some(format!("machine {other} had the name {host} until {}", kept.time)),
            );
            return Ok(());
        }
        let subject = format!("holo.claim.{}", host.token());
        let _ = self.store.client.publish(subject, self.id.clone().into()).await;
        let reason = format!(
            "another machine ({other}) is called {host}, and is alive; give this one another name with fleet.host in \
             agent.toml, or run: holo-fleet hosts remove {host}"
        );
        self.tell_connection(Connection::NameRefused, Some(reason.clone()));
        Err(FleetError(reason))
    }

    /// Another machine has tried to use the name of this one.
    fn hear_claim(&mut self, payload: &[u8]) {
        let other = String::from_utf8_lossy(payload);
        if *other != *self.id && self.claimed_by.as_ref().is_none_or(|known| **known != *other) {
            self.claimed_by = Some(other.clone().into_owned());
            let host = &self.config.host;
            let reason =
                Some(format!("another machine ({}) is called {host} as well, and was refused", other.escape_default()));
            say(&News::Fleet { state: Connection::NameRefused, reason });
        }
    }

    /// Requests everything that is meant for this host.
    async fn sync(&mut self) -> Result<(), FleetError> {
        let layers = layers::sync(&self.root, &self.config, &self.store, &mut self.memory).await?;
        if layers.refused != self.refused_layer {
            layers.refused.iter().for_each(|error| streams::complain(format_args!("holo-fleet: {error}")));
            self.refused_layer = layers.refused;
        }
        let this = self.describe(&Value::Null);
        self.target.sync(&self.store, &mut self.memory, &this).await?;
        if layers.has_changed {
            self.target.run_again();
        }
        Ok(())
    }

    /// Sends a report if it is due, and returns the time of the next one.
    async fn report(&mut self, status: &Value) -> Result<Instant, FleetError> {
        let (report, interval) = (self.describe(status), self.target.report_interval());
        if let Some((sent, at)) = &self.sent
            && sent.is_like(&report)
            && at.elapsed() < interval
        {
            return Ok(*at + interval);
        }
        let text = serde_json::to_vec(&report).map_err(|error| FleetError::about("the report", error))?;
        self.store.bucket(HOSTS).await?.put(&self.config.host.token(), text).await?;
        let now = Instant::now();
        self.sent = Some((report, now));
        Ok(now + interval)
    }

    /// Returns what is reported, from the status of the agent.
    fn describe(&self, status: &Value) -> HostReport {
        let count = |key: &str| status.get(key).and_then(Value::as_object).map_or(0, Map::len);
        let (result, reason) = self.target.outcome(status);
        HostReport {
            host: self.config.host.clone(),
            machine: self.id.clone(),
            channel: self.config.channel.clone(),
            roles: self.config.roles.clone(),
            bundle: self.target.installed(),
            refused: self.target.refused(),
            retry: self.target.retry(),
            result,
            reason: reason.or_else(|| self.refused_layer.clone()),
            waiting: agent::waiting(status),
            health: health(status),
            drift: count("drifted") + count("failed"),
            facts: self.facts.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            time: Timestamp::now(),
        }
    }
}

fn machine_of(kept: &Kept) -> String {
    let report: Option<Value> = serde_json::from_slice(&kept.value).ok();
    report.and_then(|report| report.get("machine")?.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Returns the worst state of the health checks.
fn health(status: &Value) -> Health {
    let states = status.get("health").and_then(Value::as_object).into_iter().flat_map(Map::values);
    let rank = |state: &Value| match state.get("state").and_then(Value::as_str) {
        Some("ok") => (1, Health::Ok),
        Some("warning") => (2, Health::Warning),
        Some("critical") => (4, Health::Critical),
        _ => (3, Health::Unknown),
    };
    states.map(rank).max_by_key(|(rank, _)| *rank).map_or(Health::None, |(_, health)| health)
}

/// Returns the facts with these keys.
async fn gather(root: &Root, keys: &[String]) -> Map<String, Value> {
    if keys.is_empty() {
        return Map::new();
    }
    let (root, keys) = (root.path().to_owned(), keys.to_vec());
    let gathered = tokio::task::spawn_blocking(move || {
        let knowledge = Knowledge::new(&root, None);
        let all = knowledge.facts().value().clone();
        let mut found = Map::new();
        for key in keys {
            let pointer = format!("/{}", key.replace('.', "/"));
            if let Some(value) = all.pointer(&pointer) {
                insert(&mut found, &key, value.clone());
            }
        }
        found
    });
    gathered.await.unwrap_or_default()
}

/// Inserts a value at a key with dots.
fn insert(table: &mut Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

/// Returns an outcome by its name in events.
fn outcome(name: &str) -> Outcome {
    match name {
        "unchanged" => Outcome::Unchanged,
        "changed" => Outcome::Changed,
        "pending" => Outcome::Pending,
        "refused" => Outcome::Refused,
        "busy" => Outcome::Busy,
        _ => Outcome::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_worst_health_is_reported() {
        let status =
            json!({ "health": { "a": { "state": "ok" }, "b": { "state": "critical" }, "c": { "state": "warning" } } });
        assert_eq!(health(&status), Health::Critical);
        assert_eq!(health(&json!({})), Health::None);
    }

    #[test]
    fn facts_keep_their_places() {
        let mut table = Map::new();
        insert(&mut table, "os.id", json!("debian"));
        insert(&mut table, "os.version", json!("12"));
        insert(&mut table, "host", json!(1));
        assert_eq!(Value::Object(table), json!({ "os": { "id": "debian", "version": "12" }, "host": 1 }));
    }
}
