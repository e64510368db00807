//! What a controller knows of the server: all channels, and the hosts while they matter.
//!
//! It subscribes to their changes. Like on a host, a message is only a hint, which leads to a request for the current
//! value. Messages can get lost, so everything is requested again at a slow interval, and after the connection was lost.

use crate::channel::{Channel, Seen};
use crate::error::FleetError;
use crate::names::{Host, Label};
use crate::report::HostReport;
use crate::rollout::{Progress, State};
use crate::store::{AT_ONCE, CHANNELS, HOSTS, LATE, Store};
use async_nats::{Message, Subscriber};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The key of the lease, whose holder decides on rollouts. No channel has a dot in its name.
pub(crate) const LEASE: &str = "controller.lease";
/// The interval at which everything is requested again during a rollout.
const REFRESH: Duration = Duration::from_secs(20);
/// The interval at which everything is requested again otherwise.
const IDLE_REFRESH: Duration = Duration::from_secs(60);
/// The least interval between two requests of all hosts, as a multiple of the time that these take.
const PAUSE: u32 = 10;
/// The time for which hints are gathered: with many hosts, a multiple of the time that the work on them takes.
const SETTLE: Duration = Duration::from_millis(100);
const MAX_SETTLE: Duration = Duration::from_secs(1);
const SETTLE_SHARE: u32 = 4;
/// The time for which reports that were requested are current enough for a halt.
const CURRENT: Duration = Duration::from_secs(1);

/// All channels, and the hosts while they matter.
pub(crate) struct View {
    store: Store,
    channels: Vec<Channel>,
    channel_hints: Option<Subscriber>,
    /// The time at which all channels were requested; `None` if they have to be.
    channels_read: Option<Instant>,
    /// The time at which channels are requested once more after a hint.
    look_again: Option<Instant>,
    hosts: BTreeMap<Host, Seen>,
    host_hints: Option<Subscriber>,
    hosts_read: Option<Instant>,
    /// The time that the last request of all hosts took.
    hosts_took: Duration,
    /// The hosts whose reports have changed.
    stale: BTreeSet<Host>,
    /// The time by the clock of the server.
    clock: (Timestamp, Instant),
    /// The number of connections so far.
    connects: u64,
    /// The number of messages that were received so far, and when that was noticed.
    received: (u64, Timestamp),
    /// The end of the last wait.
    waited: Instant,
    /// Whether the holder of the lease has given it back.
    lease_is_free: bool,
}

impl View {
    pub(crate) fn new(store: Store) -> View {
        View {
            store,
            channels: Vec::new(),
            channel_hints: None,
            channels_read: None,
            look_again: None,
            hosts: BTreeMap::new(),
            host_hints: None,
            hosts_read: None,
            hosts_took: Duration::ZERO,
            stale: BTreeSet::new(),
            clock: (Timestamp::now(), Instant::now()),
            connects: 0,
            received: (0, Timestamp::now()),
            waited: Instant::now(),
            lease_is_free: false,
        }
    }

    /// Returns the time by the clock of the server.
    pub(crate) fn now(&self) -> Timestamp {
        let (time, at) = self.clock;
        SignedDuration::try_from(at.elapsed()).map_or(time, |elapsed| time + elapsed)
    }

    /// Returns the time at which the server was last heard from, by the clock of this machine.
    pub(crate) fn last_contact(&self) -> Timestamp {
        self.received.1
    }

    pub(crate) fn channels(&self) -> &[Channel] {
        &self.channels
    }

    pub(crate) fn channel(&self, name: &Label) -> Option<&Channel> {
        self.channels.iter().find(|channel| channel.record.channel == *name)
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Seen> {
        self.hosts.values()
    }

    pub(crate) fn is_rollout_running(&self) -> bool {
        self.channels.iter().any(|channel| channel.state() == State::Running)
    }

    /// Returns whether the holder of the lease has given it back since the last call.
    pub(crate) fn take_lease_is_free(&mut self) -> bool {
        std::mem::take(&mut self.lease_is_free)
    }

    /// Requests all channels at the next update.
    pub(crate) fn forget_channels(&mut self) {
        self.channels_read = None;
    }

    /// Changes the progress of a channel to what was just stored.
    pub(crate) fn set_progress(&mut self, name: &Label, progress: &Progress, revision: u64) {
        for channel in self.channels.iter_mut().filter(|channel| channel.record.channel == *name) {
            (channel.progress, channel.progress_revision) = (Some(progress.clone()), revision);
        }
    }

    /// Waits until a message arrives, at most for some time.
    pub(crate) async fn wait(&mut self, limit: Duration) {
        let settle = (self.waited.elapsed() * SETTLE_SHARE).clamp(SETTLE, MAX_SETTLE);
        let heard = tokio::select! {
            message = next(&mut self.channel_hints) => Some(message),
            message = next(&mut self.host_hints) => Some(message),
            () = sleep(limit) => None,
        };
        if let Some(message) = heard {
            self.hear(&message);
            sleep(settle).await;
        }
        self.waited = Instant::now();
    }

    /// Brings the channels up to date.
    pub(crate) async fn update_channels(&mut self) -> Result<(), FleetError> {
        if self.channel_hints.is_none() {
            self.channel_hints = Some(self.subscribe(CHANNELS).await?);
        }
        while let Some(message) = next(&mut self.channel_hints).now_or_never() {
            self.hear(&message);
        }
        while let Some(message) = next(&mut self.host_hints).now_or_never() {
            self.hear(&message);
        }
        let statistics = self.store.client.statistics();
        let received = statistics.in_messages.load(Ordering::Relaxed);
        if received != self.received.0 {
            self.received = (received, Timestamp::now());
        }
        let connects = statistics.connects.load(Ordering::Relaxed);
        if connects != self.connects {
            (self.connects, self.channels_read, self.hosts_read) = (connects, None, None);
        }
        let must_look_again = self.look_again.is_some_and(|time| time <= Instant::now());
        if self.is_due(self.channels_read, Duration::ZERO) || must_look_again {
            let (now, at) = (self.store.now().await?, Instant::now());
            self.channels = self.store.channels().await?;
            (self.clock, self.channels_read) = ((now, at), Some(at));
            self.look_again.take_if(|_| must_look_again);
        }
        Ok(())
    }

    /// Brings the hosts up to date if they are needed.
    pub(crate) async fn update_hosts(&mut self, are_needed: bool) -> Result<(), FleetError> {
        if !are_needed {
            (self.host_hints, self.hosts_read) = (None, None);
            self.hosts.clear();
            self.stale.clear();
            return Ok(());
        }
        if self.host_hints.is_none() {
            self.host_hints = Some(self.subscribe(HOSTS).await?);
        }
        if self.is_due(self.hosts_read, self.hosts_took * PAUSE) {
            return self.read_hosts().await;
        }
        let store = &self.store;
        let get = async |host: Host| store.host(&host).await.map(|seen| (host, seen));
        let stale = std::mem::take(&mut self.stale);
        let requests = futures_util::stream::iter(stale.into_iter().map(get)).buffer_unordered(AT_ONCE);
        let found: Vec<(Host, Option<Seen>)> = requests.try_collect().await.inspect_err(|_| self.hosts_read = None)?;
        for (host, seen) in found {
            let Some(seen) = seen else {
                self.hosts.remove(&host);
                continue;
            };
            // A server of a cluster may not have the change yet.
            if self.hosts.get(&host).is_some_and(|known| known.revision >= seen.revision) {
                self.stale.insert(host);
            } else {
                self.hosts.insert(host, seen);
            }
        }
        Ok(())
    }

    /// Requests the reports of all hosts, unless this was just done.
    pub(crate) async fn confirm_hosts(&mut self) -> Result<(), FleetError> {
        match self.hosts_read {
            Some(time) if time.elapsed() < CURRENT => Ok(()),
            _ => self.read_hosts().await,
        }
    }

    async fn read_hosts(&mut self) -> Result<(), FleetError> {
        let begun = Instant::now();
        let hosts = self.store.hosts().await?;
        self.hosts = hosts.into_iter().map(|seen| (seen.report.host.clone(), seen)).collect();
        self.stale.clear();
        (self.hosts_read, self.hosts_took) = (Some(Instant::now()), begun.elapsed());
        Ok(())
    }

    fn is_due(&self, read: Option<Instant>, pause: Duration) -> bool {
        let interval = if self.is_rollout_running() { REFRESH } else { IDLE_REFRESH };
        read.is_none_or(|time| time.elapsed() >= interval.max(pause))
    }

    /// Subscribes to the changes of a bucket. Requests that follow do not miss what happens after them.
    async fn subscribe(&self, bucket: &str) -> Result<Subscriber, FleetError> {
        let subject = format!("$KV.{bucket}.>");
        let subscribed = self.store.client.subscribe(subject.clone()).await;
        subscribed.map_err(|error| FleetError::about(subject, error))
    }

    fn hear(&mut self, message: &Message) {
        let mut tokens = message.subject.splitn(3, '.').skip(1);
        let (Some(bucket), Some(key)) = (tokens.next(), tokens.next()) else { return };
        if key == LEASE {
            self.lease_is_free |= message.payload.is_empty();
        } else if bucket == CHANNELS {
            (self.channels_read, self.look_again) = (None, Some(Instant::now() + LATE));
        } else if let Some(host) = Host::from_token(key) {
            let (report, now) = (serde_json::from_slice::<HostReport>(&message.payload), self.now());
            match (report, self.hosts.get_mut(&host)) {
                // A report without news only says that the host is alive.
                (Ok(report), Some(known)) if known.report.is_like(&report) => known.time = now,
                _ => drop(self.stale.insert(host)),
            }
        }
    }
}

/// Waits for the next message of a subscription, forever if there is none.
async fn next(hints: &mut Option<Subscriber>) -> Message {
    let message = match hints {
        Some(hints) => hints.next().await,
        None => None,
    };
    // If the connection was closed for good, the next request says so.
    match message {
        Some(message) => message,
        None => pending().await,
    }
}
