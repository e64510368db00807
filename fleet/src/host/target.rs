//! The bundle that a host is to run: what the channel says, what is installed, and what is between them.

use super::agent::{Agent, waiting};
use super::memory::Memory;
use super::{BundleState, News, health, outcome, say};
use crate::bundle::{self, Bundle, BundleError};
use crate::channel::{progress_key, rank};
use crate::config::{HostConfig, Root};
use crate::error::FleetError;
use crate::names::BundleId;
use crate::names::Label;
use crate::published::Fetched;
use crate::record::Signed;
use crate::report::{Health, HostReport, Outcome};
use crate::rollout::ChannelRecord;
use crate::rollout::{Progress, wanted};
use crate::signing::{Namespace, Signers};
use crate::store::{CHANNELS, Store};
use jiff::Timestamp;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The pause before a bundle that could not be fetched is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// The longest interval between reports.
const REPORT: Duration = Duration::from_secs(60);
/// The shortest one, whatever the record of the channel says.
const MIN_REPORT: Duration = Duration::from_secs(1);
/// The time after a resumption of a rollout within which a host that is not healthy has to become so. Health checks are a
/// minute apart by default.
const HEALTHY_WITHIN: Duration = Duration::from_secs(2 * 60);

/// The bundle that a host is to run.
pub(super) struct Target {
    root: Root,
    channel: Option<Label>,
    signers: Signers,
    /// The record that was verified last, as it is stored.
    accepted: Option<(Vec<u8>, ChannelRecord)>,
    wanted: Option<BundleId>,
    installed: Option<BundleId>,
    /// What has arrived of the bundle that is wanted.
    fetched: Fetched,
    /// What cannot be installed, and why.
    refused: Option<(BundleId, String)>,
    /// Why the channel is not followed at present.
    error: Option<String>,
    /// The time at which the bundle was installed, or the data has changed.
    since: Option<Timestamp>,
    must_run: bool,
    /// The last resumption of the rollout that was announced, and the last one that was heeded.
    announced_retry: u64,
    announced: Instant,
    retry: u64,
    /// The time before which nothing is tried again.
    not_before: Option<Instant>,
    /// Tells that a run has ended.
    runs: watch::Sender<()>,
    ended: watch::Receiver<()>,
}

impl Target {
    pub(super) fn new(root: &Root, config: &HostConfig) -> Result<Target, FleetError> {
        let (runs, ended) = watch::channel(());
        // An installation that was interrupted is finished first.
        let resumed = bundle::resume(root).map_err(|error| FleetError(error.to_string()))?;
        Ok(Target {
            root: root.clone(),
            channel: config.channel.clone(),
            signers: Signers::new(root.allowed_signers()),
            accepted: None,
            wanted: None,
            installed: resumed.installed.map(|installed| installed.id()),
            fetched: Fetched::default(),
            refused: None,
            error: None,
            since: None,
            must_run: false,
            announced_retry: 0,
            announced: Instant::now(),
            retry: 0,
            not_before: None,
            runs,
            ended,
        })
    }

    pub(super) fn installed(&self) -> Option<BundleId> {
        self.installed.clone()
    }

    /// Returns the time after which a report is due even if nothing has changed: it must not be taken for a sign of
    /// silence if one is lost.
    pub(super) fn report_interval(&self) -> Duration {
        let silent_after = self.accepted.as_ref().map(|(_, record)| Duration::from_secs(record.rollout.silent_after));
        silent_after.map_or(REPORT, |time| (time / 3).clamp(MIN_REPORT, REPORT))
    }

    pub(super) fn refused(&self) -> Option<BundleId> {
        self.refused.as_ref().map(|(bundle, _)| bundle.clone())
    }

    /// Returns the last resumption of the rollout that was heeded.
    pub(super) fn retry(&self) -> u64 {
        self.retry
    }

    /// After a resumption of the rollout, forgets a failure, so that this host tries again.
    pub(super) fn try_again(&mut self, status: &Value) {
        // Without an answer of the agent, it is not known whether this host has failed.
        if self.announced_retry <= self.retry || status.is_null() {
            return;
        }
        let is_wanted = |bundle: &BundleId| self.wanted.as_ref() == Some(bundle);
        let is_critical = health(status) == Health::Critical && self.installed.as_ref().is_some_and(is_wanted);
        // The next health check may be good.
        if is_critical && self.announced.elapsed() < HEALTHY_WITHIN {
            return;
        }
        self.retry = self.announced_retry;
        let is_bad = matches!(self.outcome(status).0, Some(Outcome::Failed | Outcome::Refused));
        if self.refused.as_ref().is_some_and(|(refused, _)| is_wanted(refused)) {
            self.refused = None;
            self.not_before = None;
        } else if is_bad && self.installed.as_ref().is_some_and(is_wanted) {
            self.must_run = true;
            // The result of earlier runs says nothing any more, even if this one has to wait.
            self.since = Some(Timestamp::now());
        }
    }

    /// Requests a complete run.
    pub(super) fn run_again(&mut self) {
        self.must_run = true;
    }

    /// Fetches what the channel says, and decides what this host is to run.
    pub(super) async fn sync(
        &mut self,
        store: &Store,
        memory: &mut Memory,
        host: &HostReport,
    ) -> Result<(), FleetError> {
        let Some(channel) = self.channel.clone() else { return Ok(()) };
        let bucket = store.bucket(CHANNELS).await?;
        let Some(kept) = bucket.get(channel.as_str()).await? else { return Ok(()) };
        let accepted = self.accept(&channel, &kept.value, memory);
        let record = match accepted {
            Ok(record) => record,
            Err(error) => {
                // What is installed stays.
                let error = error.to_string();
                if self.error.as_ref() != Some(&error) {
                    holo_process::streams::complain(format_args!("holo-fleet: {error}"));
                }
                (self.wanted, self.error) = (None, Some(error));
                return Ok(());
            }
        };
        self.error = None;
        let progress = bucket.get(&progress_key(&channel)).await?;
        let progress: Option<Progress> = progress.and_then(|kept| serde_json::from_slice(&kept.value).ok());
        let retry =
            progress.as_ref().filter(|progress| progress.serial == record.serial).map(|progress| progress.retry);
        if let Some(retry) = retry.filter(|retry| *retry > self.announced_retry) {
            (self.announced_retry, self.announced) = (retry, Instant::now());
        }
        let rank = rank(&record.rollout.id, record.rollout.first.as_deref(), host);
        let wanted = wanted(&record, progress.as_ref(), rank, self.installed.is_some()).cloned();
        if wanted != self.wanted {
            self.not_before = None;
            self.wanted = wanted;
        }
        Ok(())
    }

    fn accept(&mut self, channel: &Label, stored: &[u8], memory: &mut Memory) -> Result<ChannelRecord, FleetError> {
        if let Some((_, record)) = self.accepted.as_ref().filter(|(known, _)| known == stored) {
            return Ok(record.clone());
        }
        let about = |error: FleetError| FleetError::about(format!("channel {channel}"), error);
        let record: ChannelRecord = Signed::open(stored, Namespace::Channel, &self.signers).map_err(about)?;
        if record.channel != *channel {
            return Err(about(FleetError(format!("the server has the record of channel {} there", record.channel))));
        }
        memory.accept_channel(channel.as_str(), record.serial).map_err(about)?;
        self.accepted = Some((stored.to_vec(), record.clone()));
        Ok(record)
    }

    /// Returns true if there is something to do, and the agent makes changes.
    pub(super) fn is_due(&self, status: &Value) -> bool {
        let is_refused = |wanted: &BundleId| self.refused.as_ref().is_some_and(|(refused, _)| refused == wanted);
        let is_new =
            self.wanted.as_ref().is_some_and(|wanted| self.installed.as_ref() != Some(wanted) && !is_refused(wanted));
        let is_time = self.not_before.is_none_or(|time| time <= Instant::now());
        (is_new || self.must_run) && is_time && waiting(status).is_none()
    }

    /// Returns the time at which a bundle is to be fetched again.
    pub(super) fn next_try(&self) -> Option<Instant> {
        self.not_before.filter(|time| *time > Instant::now())
    }

    /// Installs the bundle, and has it applied.
    pub(super) async fn pursue(&mut self, store: &Store, config: &HostConfig, agent: &Agent) {
        self.not_before = None;
        if let Some(wanted) = self.wanted.clone().filter(|wanted| self.installed.as_ref() != Some(wanted)) {
            match self.install(&wanted, store, config).await {
                Ok(()) => {
                    (self.installed, self.refused) = (Some(wanted), None);
                    self.must_run = true;
                }
                Err(Failure::Fetch(error)) => {
                    holo_process::streams::complain(format_args!("holo-fleet: {error}"));
                    self.error = Some(error.to_string());
                    self.not_before = Some(Instant::now() + RETRY);
                    return;
                }
                Err(Failure::Refuse(error)) => {
                    tell(BundleState::Refused, &wanted, Some(error.to_string()));
                    self.refused = Some((wanted, error.to_string()));
                    return;
                }
            }
        }
        if std::mem::take(&mut self.must_run) {
            self.since = Some(Timestamp::now());
            let (agent, runs) = (agent.clone(), self.runs.clone());
            tokio::spawn(async move {
                if let Err(error) = agent.run_now().await {
                    holo_process::streams::complain(format_args!("holo-fleet: {error}"));
                }
                let _ = runs.send(());
            });
        }
    }

    /// Waits until a run has ended that was requested here.
    pub(super) async fn has_run(&mut self) {
        // The sender is here, so that this does not fail.
        let _ = self.ended.changed().await;
    }

    async fn install(&mut self, wanted: &BundleId, store: &Store, config: &HostConfig) -> Result<(), Failure> {
        let bundle = fetch(wanted, store, &self.signers, config.allow_unsigned, &mut self.fetched).await?;
        tell(BundleState::Fetched, wanted, None);
        bundle::install(&bundle, &self.root).map_err(Failure::refuse)?;
        tell(BundleState::Installed, wanted, None);
        Ok(())
    }

    /// Returns the result of the last complete run since there was a reason for one, and what is wrong.
    pub(super) fn outcome(&self, status: &Value) -> (Option<Outcome>, Option<String>) {
        if let Some((bundle, reason)) = &self.refused {
            return (Some(Outcome::Refused), Some(format!("{bundle}: {reason}")));
        }
        let text = |pointer: &str| status.pointer(pointer).and_then(Value::as_str);
        let began = text("/last/began").and_then(|time| time.parse::<Timestamp>().ok());
        let is_current = began.is_some_and(|began| self.since.is_none_or(|since| began >= since));
        let result = text("/last/result").filter(|_| is_current).map(outcome);
        let error = text("/last/error").filter(|_| is_current).map(str::to_owned);
        let silent = status.is_null().then(|| "holo-agent does not answer".to_owned());
        (result, self.error.clone().or(error).or(silent))
    }
}

/// Fetches a bundle, and verifies it.
pub(super) async fn fetch(
    wanted: &BundleId,
    store: &Store,
    signers: &Signers,
    allow_unsigned: bool,
    so_far: &mut Fetched,
) -> Result<Bundle, Failure> {
    let (bytes, signature) = store.fetch(&wanted.digest, so_far).await.map_err(Failure::Fetch)?;
    let shown = Path::new(&wanted.digest);
    let bundle = Bundle::verified(shown, bytes, signature, signers, allow_unsigned).map_err(Failure::refuse)?;
    if bundle.id() != *wanted {
        return Err(Failure::Refuse(FleetError(format!("the server has {} instead of it", bundle.id()))));
    }
    Ok(bundle)
}

/// Why a bundle is not installed.
pub(super) enum Failure {
    /// It is tried again.
    Fetch(FleetError),
    /// It is not tried again.
    Refuse(FleetError),
}

impl Failure {
    fn refuse(error: impl Into<BundleError>) -> Failure {
        Failure::Refuse(FleetError(error.into().to_string()))
    }
}

fn tell(state: BundleState, bundle: &BundleId, reason: Option<String>) {
    let BundleId { name, version, digest } = bundle.clone();
    say(&News::Bundle { state, name: name.to_string(), version, digest, reason });
}
