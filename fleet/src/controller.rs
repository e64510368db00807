//! The controller: advances, halts and rolls back rollouts.
//!
//! It keeps nothing itself: all that it decides on is on the server, and each step is a single write that fails if somebody
//! else was faster. It can be killed, and another one goes on from there.

use crate::channel::Channel;
use crate::error::FleetError;
use crate::names::Label;
use crate::rollout::{Progress, State, advance};
use crate::store::{CHANNELS, Kept, Store};
use crate::view::{LEASE, View};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::Instant;

/// The longest interval between two steps.
pub(crate) const LOOK: Duration = Duration::from_secs(2);
/// The time after which a lease that was not renewed is over.
const LEASE_TIME: Duration = Duration::from_secs(15);
/// The interval between renewals.
const RENEW: Duration = Duration::from_secs(5);

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
    /// The revision of the lease that is held, and when it was renewed.
    held: Option<(u64, Instant)>,
    /// The time at which the lease of another controller is over, unless that renews it.
    held_until: Option<Instant>,
    view: View,
    /// Whether hosts are of interest even if no rollout is running.
    follows_hosts: bool,
}

/// A change of a rollout.
pub(crate) struct Change {
    pub(crate) channel: Channel,
    pub(crate) progress: Progress,
}

impl Controller {
    /// Returns a controller, which keeps reports of hosts if it `follows_hosts`, and otherwise only if it needs them.
    pub(crate) fn new(store: Store, follows_hosts: bool) -> Controller {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let (process, time) = (std::process::id(), Timestamp::now().as_nanosecond());
        let lease = Lease { id: format!("{host}-{process}-{time}"), holder: format!("{host}, process {process}") };
        let view = View::new(store.clone());
        Controller { store, lease, held: None, held_until: None, view, follows_hosts }
    }

    /// Returns true if this controller decides.
    pub(crate) fn has_lease(&self) -> bool {
        self.held.is_some()
    }

    /// Returns the channels and hosts, as of the last step.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Waits until there may be a reason for a step, at most for some time.
    pub(crate) async fn wait(&mut self, limit: Duration) {
        self.view.wait(limit).await;
    }

    /// Requests all channels in the next step.
    pub(crate) fn forget_channels(&mut self) {
        self.view.forget_channels();
    }

    /// Renews the lease if it is held or free. Returns true if it is held.
    async fn hold(&mut self) -> Result<bool, FleetError> {
        let is_free = self.view.take_lease_is_free();
        let bucket = self.store.bucket(CHANNELS).await?;
        let text = serde_json::to_vec(&self.lease).map_err(|error| FleetError::about("the lease", error))?;
        if self.held.is_some_and(|(_, renewed)| renewed.elapsed() < RENEW) {
            return Ok(true);
        }
        if let Some((revision, _)) = self.held.take() {
            let renewed = bucket.set(LEASE, text.clone(), revision).await?;
            self.held = renewed.map(|revision| (revision, Instant::now()));
            if self.held.is_some() {
                return Ok(true);
            }
        }
        if !is_free && self.held_until.is_some_and(|time| time > Instant::now()) {
            return Ok(false);
        }
        self.held_until = None;
        let kept = bucket.get(LEASE).await?;
        let revision = kept.as_ref().map_or(0, |kept| kept.revision);
        if let Some(kept) = kept.filter(|kept| !kept.value.is_empty()) {
            let age = Duration::try_from(self.view.now().duration_since(kept.time)).unwrap_or_default();
            let is_ours = serde_json::from_slice::<Lease>(&kept.value).is_ok_and(|lease| lease.id == self.lease.id);
            if !is_ours && age < LEASE_TIME {
                self.held_until = Some(Instant::now() + (LEASE_TIME - age));
                return Ok(false);
            }
        }
        self.held = bucket.set(LEASE, text, revision).await?.map(|revision| (revision, Instant::now()));
        Ok(self.held.is_some())
    }

    /// Gives the lease back, so that another controller need not wait.
    pub(crate) async fn release(&mut self) -> Result<(), FleetError> {
        if let Some((revision, _)) = self.held.take() {
            self.store.bucket(CHANNELS).await?.set(LEASE, Vec::new(), revision).await?;
        }
        Ok(())
    }

    /// Looks at all rollouts, or at one of them, and returns those that have changed.
    pub(crate) async fn step(&mut self, only: Option<&Label>) -> Result<Vec<Change>, FleetError> {
        self.view.update_channels().await?;
        let has_lease = self.hold().await?;
        let must_decide = has_lease && self.view.is_rollout_running();
        self.view.update_hosts(self.follows_hosts || must_decide).await?;
        let mut changes = Vec::new();
        if !must_decide {
            return Ok(changes);
        }
        let is_ours = |channel: &&Channel| only.is_none_or(|only| channel.record.channel == *only);
        let running = self.view.channels().iter().filter(|channel| channel.state() == State::Running);
        for channel in running.filter(is_ours).cloned().collect::<Vec<_>>() {
            let Some(progress) = self.next(&channel).await? else { continue };
            match self.store.set_progress(&channel, &progress).await? {
                Some(revision) => {
                    self.view.set_progress(&channel.record.channel, &progress, revision);
                    changes.push(Change { channel, progress });
                }
                None => self.view.forget_channels(),
            }
        }
        Ok(changes)
    }

    async fn next(&mut self, channel: &Channel) -> Result<Option<Progress>, FleetError> {
        let record = &channel.record;
        let Some(progress) = &channel.progress else {
            // The operator's program has ended between the two writes.
            return Ok(Some(Progress::begin(record, self.view.now())));
        };
        let decide = |view: &View| advance(record, progress, &channel.members(view.hosts()), view.now());
        let next = decide(&self.view);
        // A message may have been lost that would change this, such as the report of a host that seems to be silent.
        if next.as_ref().is_some_and(|next| matches!(next.state, State::Halted | State::RolledBack)) {
            self.view.confirm_hosts().await?;
            return Ok(decide(&self.view));
        }
        Ok(next)
    }
}

/// Returns who decides on rollouts at present.
pub(crate) async fn holder(store: &Store, now: Timestamp) -> Result<Option<String>, FleetError> {
    let kept = store.bucket(CHANNELS).await?.get(LEASE).await?;
    let is_alive = |kept: &Kept| now.duration_since(kept.time).unsigned_abs() < LEASE_TIME;
    let alive = kept.filter(is_alive);
    Ok(alive.and_then(|kept| serde_json::from_slice::<Lease>(&kept.value).ok()).map(|lease| lease.holder))
}
