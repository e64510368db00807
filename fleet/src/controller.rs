//! The controller: advances, halts and rolls back rollouts.
//!
//! It keeps nothing itself: all that it decides on is on the server, and each step is a single write that fails if somebody
//! else was faster. It can be killed, and another one goes on from there.

use crate::channel::Channel;
use crate::error::FleetError;
use crate::names::Label;
use crate::rollout::{Progress, State, advance};
use crate::store::{CHANNELS, Store};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The key of the lease, whose holder decides. No channel has a dot in its name.
const LEASE: &str = "controller.lease";
/// The interval between two looks.
pub(crate) const LOOK: Duration = Duration::from_secs(2);
/// The time after which a lease that was not renewed is over.
const LEASE_TIME: SignedDuration = SignedDuration::from_secs(15);
/// The interval between renewals.
const RENEW: SignedDuration = SignedDuration::from_secs(5);

/// Who decides on rollouts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Lease {
    id: String,
    /// The host and process, for people.
    holder: String,
}

/// A controller, which may hold the lease.
pub(crate) struct Controller {
    store: Store,
    lease: Lease,
}

/// A change of a rollout.
pub(crate) struct Change {
    pub(crate) channel: Channel,
    pub(crate) progress: Progress,
}

impl Controller {
    pub(crate) fn new(store: Store) -> Controller {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let (process, time) = (std::process::id(), Timestamp::now().as_nanosecond());
        let lease = Lease { id: format!("{host}-{process}-{time}"), holder: format!("{host}, process {process}") };
        Controller { store, lease }
    }

    /// Renews the lease if it is held or free. Returns true if it is held.
    async fn hold(&self, now: Timestamp) -> Result<bool, FleetError> {
        let bucket = self.store.bucket(CHANNELS).await?;
        let kept = bucket.get(LEASE).await?;
        let revision = kept.as_ref().map_or(0, |kept| kept.revision);
        if let Some(kept) = &kept {
            let age = now.duration_since(kept.time);
            let is_ours = serde_json::from_slice::<Lease>(&kept.value).is_ok_and(|lease| lease.id == self.lease.id);
            if is_ours && age < RENEW {
                return Ok(true);
            }
            if !is_ours && age < LEASE_TIME && !kept.value.is_empty() {
                return Ok(false);
            }
        }
        let text = serde_json::to_vec(&self.lease).map_err(|error| FleetError::about("the lease", error))?;
        Ok(bucket.set(LEASE, text, revision).await?.is_some())
    }

    /// Gives the lease back, so that another controller need not wait.
    pub(crate) async fn release(&self) -> Result<(), FleetError> {
        let bucket = self.store.bucket(CHANNELS).await?;
        let Some(kept) = bucket.get(LEASE).await? else { return Ok(()) };
        if serde_json::from_slice::<Lease>(&kept.value).is_ok_and(|lease| lease.id == self.lease.id) {
            bucket.set(LEASE, Vec::new(), kept.revision).await?;
        }
        Ok(())
    }

    /// Looks once at all rollouts, or at one of them, and returns those that have changed.
    pub(crate) async fn step(&self, only: Option<&Label>) -> Result<Vec<Change>, FleetError> {
        let now = self.store.now().await?;
        let mut changes = Vec::new();
        if !self.hold(now).await? {
            return Ok(changes);
        }
        let channels = self.store.channels().await?;
        let mut running = channels.into_iter().filter(|channel| channel.state() == State::Running).peekable();
        if running.peek().is_none() {
            return Ok(changes);
        }
        let hosts = self.store.hosts().await?;
        for channel in running.filter(|channel| only.is_none_or(|only| channel.record.channel == *only)) {
            let next = match &channel.progress {
                // The operator's program has ended between the two writes.
                None => Some(Progress::begin(&channel.record, now)),
                Some(progress) => advance(&channel.record, progress, &channel.members(&hosts), now),
            };
            if let Some(progress) = next
                && self.store.set_progress(&channel, &progress).await?.is_some()
            {
                changes.push(Change { channel, progress });
            }
        }
        Ok(changes)
    }
}

/// Returns who decides on rollouts at present.
pub(crate) async fn holder(store: &Store, now: Timestamp) -> Result<Option<String>, FleetError> {
    let kept = store.bucket(CHANNELS).await?.get(LEASE).await?;
    let alive = kept.filter(|kept| now.duration_since(kept.time) < LEASE_TIME);
    Ok(alive.and_then(|kept| serde_json::from_slice::<Lease>(&kept.value).ok()).map(|lease| lease.holder))
}
