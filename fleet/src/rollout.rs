//! Rollouts: which hosts run a bundle when, and when it goes on, halts and is rolled back.
//!
//! The plan is part of the signed record of a channel. The progress is not signed: whoever can write it decides when hosts
//! change, but only between the bundle of the record and, if the plan permits it, the one before.

use crate::error::FleetError;
use crate::names::{BundleId, Label, NameError};
use crate::record::next_serial;
use crate::report::{Health, HostReport, Outcome};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::str::FromStr;

/// A number of hosts, or a share of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Share {
    Hosts(u64),
    Percent(f64),
}

impl FromStr for Share {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Share, NameError> {
        let wrong = || NameError::new(text, "a number of hosts or a percentage, such as 1 or 5%");
        match text.strip_suffix('%') {
            Some(percent) => {
                let percent: f64 = percent.parse().map_err(|_| wrong())?;
                (0.0..=100.0).contains(&percent).then_some(Share::Percent(percent)).ok_or_else(wrong)
            }
            None => text.parse().map(Share::Hosts).map_err(|_| wrong()),
        }
    }
}

impl Share {
    /// Returns the number of hosts of a wave: at least one.
    fn wave(self, hosts: usize) -> usize {
        match self {
            Share::Hosts(number) => usize::try_from(number).unwrap_or(hosts).clamp(1, hosts.max(1)),
            Share::Percent(percent) => ((hosts as f64 * percent / 100.0).ceil() as usize).clamp(1, hosts.max(1)),
        }
    }

    /// Returns true if more than this part of `all` hosts failed.
    fn is_exceeded(self, failed: usize, all: usize) -> bool {
        match self {
            Share::Hosts(number) => failed as u64 > number,
            Share::Percent(percent) => failed as f64 > all as f64 * percent / 100.0,
        }
    }
}

impl Serialize for Share {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&match self {
            Share::Hosts(number) => number.to_string(),
            Share::Percent(percent) => format!("{percent}%"),
        })
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Share, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The place of a host in the order in which hosts of a channel change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Rank {
    /// False for the hosts that come first.
    pub(crate) is_later: bool,
    pub(crate) hash: u64,
}

impl Rank {
    const LAST: Rank = Rank { is_later: true, hash: u64::MAX };

    /// Returns the rank of a host. It differs in each rollout, so that it is not always the same hosts that go first.
    pub(crate) fn of(rollout: &str, host: &str, is_first: bool) -> Rank {
        let digest = Sha256::new().chain_update(rollout).chain_update([0]).chain_update(host).finalize();
        let hash = digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte));
        Rank { is_later: !is_first, hash }
    }
}

/// How a bundle is rolled out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) id: String,
    /// The last rank of each wave.
    pub(crate) waves: Vec<Rank>,
    /// The expression for the hosts that come first.
    pub(crate) first: Option<String>,
    /// The time for which all hosts of a wave must be well, in seconds.
    pub(crate) soak: u64,
    pub(crate) max_failed: Share,
    /// The time without a report after which a host is silent, in seconds.
    pub(crate) silent_after: u64,
    pub(crate) auto_rollback: bool,
    pub(crate) skip_waiting: bool,
}

impl Plan {
    /// Returns the last rank of each wave, for hosts that are known at the start.
    pub(crate) fn limits(mut ranks: Vec<Rank>, waves: &[Share]) -> Result<Vec<Rank>, FleetError> {
        ranks.sort();
        let mut limits: Vec<Rank> = Vec::new();
        for wave in waves {
            let number = wave.wave(ranks.len());
            let is_all = number >= ranks.len() || *wave == Share::Percent(100.0);
            let limit = ranks.get(number - 1).filter(|_| !is_all).copied().unwrap_or(Rank::LAST);
            if limits.last().is_some_and(|last| *last > limit) {
                return Err(FleetError(
                    "--waves: each wave must include the one before it, such as 1,5%,25%,100%".into(),
                ));
            }
            // With few hosts, waves may be the same.
            if limits.last() != Some(&limit) {
                limits.push(limit);
            }
        }
        // Otherwise, some hosts would never change.
        if limits.last() != Some(&Rank::LAST) {
            limits.push(Rank::LAST);
        }
        Ok(limits)
    }

    /// Returns the index of the wave of a host.
    pub(crate) fn wave(&self, rank: Rank) -> usize {
        self.waves.partition_point(|limit| *limit < rank)
    }
}

/// What a channel is to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChannelRecord {
    pub(crate) channel: Label,
    /// Higher than that of all earlier records of the channel.
    pub(crate) serial: u64,
    pub(crate) bundle: BundleId,
    /// What the channel ran completely before.
    pub(crate) previous: Option<BundleId>,
    pub(crate) rollout: Plan,
    /// The name of the operator.
    pub(crate) operator: String,
    pub(crate) message: Option<String>,
    pub(crate) time: Timestamp,
}

/// The state of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Running,
    Paused,
    Halted,
    Complete,
    RolledBack,
    Aborted,
}

impl State {
    pub(crate) const ALL: [State; 6] =
        [State::Running, State::Paused, State::Halted, State::Complete, State::RolledBack, State::Aborted];

    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Paused => "paused",
            State::Halted => "halted",
            State::Complete => "complete",
            State::RolledBack => "rolled_back",
            State::Aborted => "aborted",
        }
    }

    /// Returns true if it will change by itself, or can be resumed.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, State::Running | State::Paused | State::Halted)
    }
}

/// How far a rollout has got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// The serial of the channel's record.
    pub(crate) serial: u64,
    pub(crate) state: State,
    /// The index of the current wave.
    pub(crate) wave: usize,
    /// The time since when this is the current wave.
    pub(crate) since: Timestamp,
    /// The time since when all hosts of the current wave are well.
    pub(crate) well_since: Option<Timestamp>,
    /// The number of the last resumption after a halt: hosts that have failed before it try again. It differs from those of
    /// earlier rollouts.
    #[serde(default)]
    pub(crate) retry: u64,
    /// Who or what changed it last, and why.
    pub(crate) by: String,
    pub(crate) message: Option<String>,
}

impl Progress {
    /// Returns the start of a rollout.
    pub(crate) fn begin(record: &ChannelRecord, now: Timestamp) -> Progress {
        let (serial, by, message) = (record.serial, record.operator.clone(), record.message.clone());
        Progress { serial, state: State::Running, wave: 0, since: now, well_since: None, retry: 0, by, message }
    }

    /// Returns the same place after a halt. Hosts that have failed are waited for like at the beginning of a wave.
    pub(crate) fn try_again(&self, by: &str, message: Option<String>, now: Timestamp) -> Progress {
        Progress { since: now, retry: next_serial(Some(self.retry)), ..self.with(State::Running, by, message) }
    }

    /// Returns the same place in another state.
    pub(crate) fn with(&self, state: State, by: &str, message: Option<String>) -> Progress {
        Progress { state, well_since: None, by: by.to_owned(), message, ..self.clone() }
    }
}

/// Returns the bundle that a host is to run now; `None` if it keeps what it has.
pub(crate) fn wanted<'r>(
    record: &'r ChannelRecord,
    progress: Option<&Progress>,
    rank: Rank,
    has_any: bool,
) -> Option<&'r BundleId> {
    // The progress of another rollout says nothing about this one.
    let progress = progress.filter(|progress| progress.serial == record.serial);
    let before = || record.previous.as_ref().filter(|_| !has_any);
    let Some(progress) = progress else { return before() };
    match progress.state {
        State::Complete => Some(&record.bundle),
        State::RolledBack if record.rollout.auto_rollback => record.previous.as_ref(),
        State::Running if record.rollout.wave(rank) <= progress.wave => Some(&record.bundle),
        // Hosts that have changed stay as they are, and others do not begin to.
        _ => before(),
    }
}

/// What a host is to the rollout of its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    InStep,
    Pending,
    Waiting,
    Failed,
    Unhealthy,
    Silent,
}

impl Standing {
    pub(crate) const ALL: [Standing; 6] = [
        Standing::InStep,
        Standing::Pending,
        Standing::Waiting,
        Standing::Failed,
        Standing::Unhealthy,
        Standing::Silent,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Standing::InStep => "in_step",
            Standing::Pending => "pending",
            Standing::Waiting => "waiting",
            Standing::Failed => "failed",
            Standing::Unhealthy => "unhealthy",
            Standing::Silent => "silent",
        }
    }
}

/// Returns what a host is to the rollout of its channel.
pub(crate) fn standing(
    bundle: &BundleId,
    host: &HostReport,
    (seen, now): (Timestamp, Timestamp),
    silent_after: u64,
    retry: u64,
) -> Standing {
    if is_older(seen, now, silent_after) {
        return Standing::Silent;
    }
    let may_fail = host.retry >= retry;
    let has_it = host.bundle.as_ref().is_some_and(|installed| installed.digest == bundle.digest);
    let was_refused = host.refused.as_ref().is_some_and(|refused| refused.digest == bundle.digest);
    let has_failed = was_refused || (has_it && matches!(host.result, Some(Outcome::Failed | Outcome::Refused)));
    let is_unhealthy = has_it && host.health == Health::Critical;
    if may_fail && has_failed {
        return Standing::Failed;
    }
    if may_fail && is_unhealthy {
        return Standing::Unhealthy;
    }
    let is_done = has_it && !is_unhealthy && matches!(host.result, Some(Outcome::Unchanged | Outcome::Changed));
    match (is_done, host.waiting.is_some()) {
        (true, _) => Standing::InStep,
        (false, true) => Standing::Waiting,
        (false, false) => Standing::Pending,
    }
}

fn is_older(time: Timestamp, now: Timestamp, seconds: u64) -> bool {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    now.duration_since(time) > SignedDuration::from_secs(seconds)
}

/// The numbers of hosts of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Tally {
    /// All that have reported.
    pub(crate) total: usize,
    /// Those that run the bundle, and whose last run was good.
    pub(crate) in_step: usize,
    /// Those that do not run it yet.
    pub(crate) pending: usize,
    /// Those that are paused, or outside of their maintenance window.
    pub(crate) waiting: usize,
    /// Those that have refused the bundle, or whose run has failed.
    pub(crate) failed: usize,
    /// Those that run it, with a critical health check.
    pub(crate) unhealthy: usize,
    /// Those that have not reported for a while.
    pub(crate) silent: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, standing: Standing) {
        self.total += 1;
        *match standing {
            Standing::InStep => &mut self.in_step,
            Standing::Pending => &mut self.pending,
            Standing::Waiting => &mut self.waiting,
            Standing::Failed => &mut self.failed,
            Standing::Unhealthy => &mut self.unhealthy,
            Standing::Silent => &mut self.silent,
        } += 1;
    }

    /// Returns the numbers of hosts that are not in step, in words.
    pub(crate) fn others(&self) -> Vec<String> {
        let counts = [
            (self.pending, Standing::Pending),
            (self.waiting, Standing::Waiting),
            (self.failed, Standing::Failed),
            (self.unhealthy, Standing::Unhealthy),
            (self.silent, Standing::Silent),
        ];
        let present = counts.iter().filter(|(count, _)| *count > 0);
        present.map(|(count, standing)| format!("{count} {}", standing.name())).collect()
    }
}

/// A host of a channel, as the controller sees it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) report: HostReport,
    /// The time of its last report, by the clock of the server.
    pub(crate) seen: Timestamp,
    pub(crate) rank: Rank,
}

/// Returns the next progress of a running rollout; `None` if nothing changes.
pub(crate) fn advance(
    record: &ChannelRecord,
    progress: &Progress,
    members: &[Member],
    now: Timestamp,
) -> Option<Progress> {
    let plan = &record.rollout;
    if progress.state != State::Running || progress.serial != record.serial {
        return None;
    }
    let (mut tally, mut bad, mut names) = (Tally::default(), 0, Vec::new());
    for member in members.iter().filter(|member| plan.wave(member.rank) <= progress.wave) {
        let standing = standing(&record.bundle, &member.report, (member.seen, now), plan.silent_after, progress.retry);
        tally.add(standing);
        let went_silent = standing == Standing::Silent && !is_older(member.seen, progress.since, plan.silent_after);
        if went_silent || matches!(standing, Standing::Failed | Standing::Unhealthy) {
            bad += 1;
            names.push(member.report.host.as_str());
        }
    }
    if plan.max_failed.is_exceeded(bad, tally.total) {
        names.truncate(5);
        let rest = if bad > names.len() { ", …" } else { "" };
        let message = format!("{bad} of {} hosts failed: {}{rest}", tally.total, names.join(", "));
        let can_go_back = plan.auto_rollback && record.previous.is_some();
        let state = if can_go_back { State::RolledBack } else { State::Halted };
        return Some(progress.with(state, "controller", Some(message)));
    }
    let is_well = tally.pending == 0 && (plan.skip_waiting || tally.waiting == 0);
    match (is_well, progress.well_since) {
        (false, None) => None,
        (false, Some(_)) => Some(Progress { well_since: None, ..progress.clone() }),
        (true, None) if plan.soak > 0 => Some(Progress { well_since: Some(now), ..progress.clone() }),
        (true, since) if since.is_none_or(|since| is_older(since, now, plan.soak.saturating_sub(1))) => {
            let is_last = progress.wave.saturating_add(1) >= plan.waves.len();
            let by = "controller".to_owned();
            let (state, wave) = if is_last {
                (State::Complete, progress.wave)
            } else {
                (State::Running, progress.wave.saturating_add(1))
            };
            Some(Progress { state, wave, since: now, well_since: None, by, message: None, ..progress.clone() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
