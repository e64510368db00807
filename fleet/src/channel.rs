//! Channels and hosts as the server knows them.

use crate::error::FleetError;
use crate::names::{Host, Label};
use crate::record::Signed;
use crate::report::HostReport;
use crate::rollout::ChannelRecord;
use crate::rollout::{Member, Progress, Rank, Standing, State, Tally, standing};
use crate::signing::{Namespace, Signers};
use crate::store::{CHANNELS, HOSTS, Kept, Store};
use holo_facts::{LocatedError, holds};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::path::Path;

/// A channel, and how far its rollout has got.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    pub(crate) record: ChannelRecord,
    /// The revision of the record.
    pub(crate) revision: u64,
    pub(crate) progress: Option<Progress>,
    /// The revision of the progress, or 0.
    pub(crate) progress_revision: u64,
}

/// A host that has reported.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) report: HostReport,
    /// The time of its last report, by the clock of the server.
    pub(crate) time: Timestamp,
    /// The revision of the report.
    pub(crate) revision: u64,
}

impl Seen {
    fn new(kept: &Kept) -> Option<Seen> {
        let report: HostReport = serde_json::from_slice(&kept.value).ok()?;
        // A host can only report under its own key, so that is its name.
        let is_its_own = Host::from_token(&kept.key)? == report.host;
        is_its_own.then_some(Seen { report, time: kept.time, revision: kept.revision })
    }
}

/// Returns the key of a channel's progress.
pub(crate) fn progress_key(channel: &Label) -> String {
    format!("{channel}.progress")
}

impl Channel {
    fn new(record: &Kept, progress: Option<&Kept>) -> Result<Channel, FleetError> {
        let parsed: ChannelRecord =
            Signed::read(&record.value).map_err(|error| FleetError::about(format!("channel {}", record.key), error))?;
        let of_progress = progress.map(|kept| serde_json::from_slice::<Progress>(&kept.value));
        let progress_revision = progress.map_or(0, |kept| kept.revision);
        // Progress of an earlier record, or what cannot be read, is replaced by the next one.
        let serial = parsed.serial;
        let progress = of_progress.and_then(Result::ok).filter(|progress| progress.serial == serial);
        Ok(Channel { record: parsed, revision: record.revision, progress, progress_revision })
    }

    /// Returns the state of its rollout.
    pub(crate) fn state(&self) -> State {
        self.progress.as_ref().map_or(State::Running, |progress| progress.state)
    }

    /// Returns the number of the current wave of its rollout, from 1.
    pub(crate) fn wave(&self) -> usize {
        self.progress.as_ref().map_or(0, |progress| progress.wave).saturating_add(1)
    }

    /// Returns the hosts of the channel, with their ranks.
    pub(crate) fn members<'h>(&self, hosts: impl IntoIterator<Item = &'h Seen>) -> Vec<Member> {
        let channel = &self.record.channel;
        let ours = hosts.into_iter().filter(|seen| seen.report.channel.as_ref() == Some(channel));
        let plan = &self.record.rollout;
        let member = |seen: &Seen| {
            let rank = rank(&plan.id, plan.first.as_deref(), &seen.report);
            Member { report: seen.report.clone(), seen: seen.time, rank }
        };
        ours.map(member).collect()
    }

    /// Returns how many hosts of the channel are what. Hosts whose wave has not come are pending.
    pub(crate) fn tally<'h>(&self, hosts: impl IntoIterator<Item = &'h Seen>, now: Timestamp) -> Tally {
        let mut tally = Tally::default();
        for (_, standing) in self.standings(hosts, now) {
            tally.add(standing);
        }
        tally
    }

    /// Returns what each host of the channel is to its rollout.
    pub(crate) fn standings<'h>(
        &self,
        hosts: impl IntoIterator<Item = &'h Seen>,
        now: Timestamp,
    ) -> Vec<(Member, Standing)> {
        let rolled_back = (self.state() == State::RolledBack).then_some(self.record.previous.as_ref()).flatten();
        let bundle = rolled_back.unwrap_or(&self.record.bundle);
        let silent_after = self.record.rollout.silent_after;
        let retry = self.progress.as_ref().map_or(0, |progress| progress.retry);
        let standing = |member: Member| {
            let standing = standing(bundle, &member.report, (member.seen, now), silent_after, retry);
            (member, standing)
        };
        self.members(hosts).into_iter().map(standing).collect()
    }
}

/// Returns the rank of a host in a rollout. If the expression for the first ones does not apply to it, it is a later one.
pub(crate) fn rank(rollout: &str, first: Option<&str>, host: &HostReport) -> Rank {
    let is_first = first.is_some_and(|first| matches(first, host).unwrap_or(false));
    Rank::of(rollout, host.host.as_str(), is_first)
}

/// Returns whether an expression applies to a host. Names that it does not have are errors.
fn matches(expression: &str, host: &HostReport) -> Result<bool, LocatedError> {
    holds(expression, &host.scope())
}

/// Returns the hosts to which an expression applies; all without one. Hosts that lack a name in it do not match.
///
/// # Errors
/// If it applies to no host because of an error.
pub(crate) fn select<'s>(expression: Option<&str>, hosts: &'s [Seen]) -> Result<Vec<&'s Seen>, FleetError> {
    let Some(expression) = expression else { return Ok(hosts.iter().collect()) };
    let (mut found, mut error) = (Vec::new(), None);
    for seen in hosts {
        match matches(expression, &seen.report) {
            Ok(true) => found.push(seen),
            Ok(false) => error = Some(None),
            Err(wrong) => error = error.or(Some(Some(wrong))),
        }
    }
    // A name that no host has is misspelt.
    match error {
        Some(Some(wrong)) if found.is_empty() => Err(FleetError(wrong.to_string())),
        _ => Ok(found),
    }
}

impl Store {
    /// Returns a channel.
    pub(crate) async fn channel(&self, name: &Label) -> Result<Option<Channel>, FleetError> {
        let bucket = self.bucket(CHANNELS).await?;
        let Some(record) = bucket.get(name.as_str()).await? else { return Ok(None) };
        let progress = bucket.get(&progress_key(name)).await?;
        Channel::new(&record, progress.as_ref()).map(Some)
    }

    /// Returns a channel that must exist.
    pub(crate) async fn existing_channel(&self, name: &Label) -> Result<Channel, FleetError> {
        let channel = self.channel(name).await?;
        channel
            .ok_or_else(|| FleetError(format!("there is no channel {name}; start one with: holo-fleet rollout start")))
    }

    /// Returns all channels, by name.
    pub(crate) async fn channels(&self) -> Result<Vec<Channel>, FleetError> {
        let kept = self.bucket(CHANNELS).await?.all(">").await?;
        let by_key: BTreeMap<&str, &Kept> = kept.iter().map(|kept| (kept.key.as_str(), kept)).collect();
        let records = by_key.iter().filter(|(key, _)| !key.contains('.'));
        records
            .map(|(key, record)| Channel::new(record, by_key.get(format!("{key}.progress").as_str()).copied()))
            .collect()
    }

    /// Returns all hosts that have reported, by name.
    pub(crate) async fn hosts(&self) -> Result<Vec<Seen>, FleetError> {
        let kept = self.bucket(HOSTS).await?.all(">").await?;
        Ok(kept.iter().filter_map(Seen::new).collect())
    }

    /// Returns a host if it has reported.
    pub(crate) async fn host(&self, name: &Host) -> Result<Option<Seen>, FleetError> {
        Ok(self.bucket(HOSTS).await?.get(&name.token()).await?.as_ref().and_then(Seen::new))
    }

    /// Stores a record of a channel in place of the current one, if nobody else has in the meantime.
    pub(crate) async fn set_channel(
        &self,
        record: ChannelRecord,
        current: Option<&Channel>,
        key: &Path,
    ) -> Result<Channel, FleetError> {
        let stored = Signed::seal(&record, Namespace::Channel, key)?;
        let name = &record.channel;
        let revision = current.map_or(0, |channel| channel.revision);
        let set = self.bucket(CHANNELS).await?.set(name.as_str(), stored, revision).await?;
        let faster =
            || FleetError(format!("channel {name}: another operator was faster; look at: holo-fleet log {name}"));
        let revision = set.ok_or_else(faster)?;
        // It is not read back: a server of a cluster may not have it yet.
        let progress_revision = current.map_or(0, |channel| channel.progress_revision);
        Ok(Channel { record, revision, progress: None, progress_revision })
    }

    /// Stores the progress of a channel, and returns its revision; `None` if somebody else has in the meantime.
    pub(crate) async fn set_progress(&self, channel: &Channel, progress: &Progress) -> Result<Option<u64>, FleetError> {
        let text = serde_json::to_vec(progress).map_err(|error| FleetError::about("the progress", error))?;
        let bucket = self.bucket(CHANNELS).await?;
        bucket.set(&progress_key(&channel.record.channel), text, channel.progress_revision).await
    }

    /// Verifies the current record of a channel, before an operator signs another one that refers to it.
    pub(crate) async fn verify_channel(&self, name: &Label, signers: &Signers) -> Result<(), FleetError> {
        match self.bucket(CHANNELS).await?.get(name.as_str()).await?.filter(|_| signers.exist()) {
            Some(kept) => Signed::open::<ChannelRecord>(&kept.value, Namespace::Channel, signers).map(|_| ()),
            None => Ok(()),
        }
    }
}
