//! `holo-fleet rollout`, `rollback`, `promote` and `log`.

use super::run::Question;
use crate::channel::{Channel, Seen, rank, select};
use crate::controller::{self, Controller, LOOK};
use crate::error::FleetError;
use crate::host::requests::{PREVIEW, Request};
use crate::names::BundleId;
use crate::names::Label;
use crate::record::{Signed, next_serial};
use crate::rollout::ChannelRecord;
use crate::rollout::{Plan, Progress, Rank, Share, State, Tally};
use crate::session::{Session, local};
use crate::store::{CHANNELS, Kept, Store};
use clap::{Args, Subcommand};
use holo_definitions::duration;
use holo_process::streams;
use jiff::Timestamp;
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The time within which all servers of a cluster know what was written.
const KNOWN_WITHIN: Duration = Duration::from_secs(30);

/// The commands for rollouts.
#[derive(Debug, Subcommand)]
pub(crate) enum RolloutVerb {
    /// Roll out a bundle to the hosts of a channel
    Start(Start),
    /// Show how far a rollout has got
    Status(Status),
    /// Let no more hosts change for now
    Pause(Stop),
    /// Go on after a pause or a halt
    Resume(Resume),
    /// End a rollout; hosts that have changed stay as they are
    Abort(Stop),
    /// Show what a bundle would change on the hosts of a channel; nothing is changed
    Preview(Preview),
}

/// `holo-fleet rollout start`
#[derive(Debug, Args)]
pub(crate) struct Start {
    /// The channel
    #[arg(value_name = "CHANNEL")]
    channel: Label,
    /// The bundle: NAME@VERSION, NAME for the last published one, or the beginning of a digest
    #[arg(value_name = "BUNDLE")]
    bundle: String,
    #[command(flatten)]
    how: How,
}

/// `holo-fleet rollout preview`
#[derive(Debug, Args)]
pub(crate) struct Preview {
    /// The channel
    #[arg(value_name = "CHANNEL")]
    channel: Label,
    /// The bundle: NAME@VERSION, NAME for the last published one, or the beginning of a digest
    #[arg(value_name = "BUNDLE")]
    bundle: String,
    /// Only these hosts of the channel, as an expression
    #[arg(long, value_name = "EXPR")]
    hosts: Option<String>,
    /// The time to wait for answers
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    deadline: Duration,
}

/// How a bundle is rolled out.
#[derive(Debug, Args)]
pub(crate) struct How {
    /// The hosts of each wave, including the waves before it: a number, or a percentage
    #[arg(long, value_name = "WAVES", value_delimiter = ',', default_value = "1,5%,25%,100%")]
    waves: Vec<Share>,
    /// The hosts that come first, as an expression
    #[arg(long, value_name = "EXPR")]
    first: Option<String>,
    /// The time for which the hosts of a wave must be well
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::parse)]
    soak: Duration,
    /// The number or percentage of hosts that may fail
    #[arg(long, value_name = "SHARE", default_value = "2%")]
    max_failed: Share,
    /// The time without a report after which a host is silent
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = duration::parse)]
    silent_after: Duration,
    /// Return to the previous bundle instead of halting
    #[arg(long)]
    auto_rollback: bool,
    /// Do not wait for hosts that are paused or outside of their maintenance window
    #[arg(long)]
    skip_waiting: bool,
    #[command(flatten)]
    note: Note,
    /// Advance the rollout, and show how it goes, until it ends
    #[arg(long)]
    follow: bool,
}

/// Why an operator does something.
#[derive(Debug, Args)]
pub(crate) struct Note {
    /// The reason, for the log
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
}

/// `holo-fleet rollout status`
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The channel
    #[arg(value_name = "CHANNEL")]
    channel: Label,
}

/// `holo-fleet rollout pause` and `abort`
#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// The channel
    #[arg(value_name = "CHANNEL")]
    channel: Label,
    #[command(flatten)]
    note: Note,
}

/// `holo-fleet rollout resume`
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The channel
    #[arg(value_name = "CHANNEL")]
    channel: Label,
    #[command(flatten)]
    note: Note,
    /// Advance the rollout, and show how it goes, until it ends
    #[arg(long)]
    follow: bool,
}

/// `holo-fleet rollback`
#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// The channel
    #[arg(value_name = "CHANNEL")]
    channel: Label,
    #[command(flatten)]
    how: How,
}

/// `holo-fleet promote`
#[derive(Debug, Args)]
pub(crate) struct Promote {
    /// The channel whose bundle is rolled out
    #[arg(value_name = "FROM")]
    from: Label,
    /// The channel whose hosts are to run it
    #[arg(value_name = "TO")]
    to: Label,
    #[command(flatten)]
    how: How,
}

/// `holo-fleet log`
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// The channel [default: all]
    #[arg(value_name = "CHANNEL")]
    channel: Option<Label>,
}

/// Asks the hosts of a channel what a bundle would change.
async fn preview(arguments: &Preview, session: &Session) -> Result<ExitCode, FleetError> {
    let bundle = session.store.find_bundle(&arguments.bundle).await?.id;
    let hosts = session.store.hosts().await?;
    let mut selected = select(arguments.hosts.as_deref(), &hosts)?;
    selected.retain(|seen| seen.report.channel.as_ref() == Some(&arguments.channel));
    if selected.is_empty() {
        return Err(FleetError(format!(
            "no such host follows channel {}; look at: holo-fleet hosts",
            arguments.channel
        )));
    }
    let question = Question {
        asked: PREVIEW,
        request: Request { selectors: Vec::new(), bundle: Some(bundle) },
        deadline: arguments.deadline,
    };
    // As for `holo check`, which ends with 3 if something is pending.
    question.put(&selected, session, |code| code == 0 || code == 3).await
}

pub(crate) async fn run(verb: &RolloutVerb, session: &Session) -> Result<ExitCode, FleetError> {
    match verb {
        RolloutVerb::Start(arguments) => {
            let bundle = session.store.find_bundle(&arguments.bundle).await?.id;
            start(&arguments.channel, bundle, &arguments.how, session).await
        }
        RolloutVerb::Status(arguments) => {
            let channel = session.store.existing_channel(&arguments.channel).await?;
            let (hosts, now) = (session.store.hosts().await?, session.store.now().await?);
            let line = line(&channel, &channel.tally(&hosts, now));
            let message = line.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
            let text = format!("{} {}\n  started by {}{message}", line.id, summary(&line), line.operator);
            session.output.show(&line, text)?;
            Ok(exit_code(channel.state()))
        }
        RolloutVerb::Pause(stop) => {
            let paused = change(&stop.channel, State::Paused, &[State::Running], &stop.note, session).await?;
            show_json(&paused, session).await?;
            Ok(ExitCode::SUCCESS)
        }
        RolloutVerb::Abort(stop) => {
            let from = [State::Running, State::Paused, State::Halted];
            let aborted = change(&stop.channel, State::Aborted, &from, &stop.note, session).await?;
            show_json(&aborted, session).await?;
            Ok(ExitCode::SUCCESS)
        }
        RolloutVerb::Preview(arguments) => preview(arguments, session).await,
        RolloutVerb::Resume(resume) => {
            let from = [State::Paused, State::Halted];
            let resumed = change(&resume.channel, State::Running, &from, &resume.note, session).await?;
            if resume.follow {
                return follow(&resume.channel, Some(resumed.progress_revision), session).await;
            }
            show_json(&resumed, session).await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Rolls back a channel: starts a rollout of the bundle that it ran completely before.
pub(crate) async fn rollback(arguments: &Rollback, session: &Session) -> Result<ExitCode, FleetError> {
    let channel = session.store.existing_channel(&arguments.channel).await?;
    let previous = channel.record.previous.clone();
    let name = &arguments.channel;
    let previous = previous.ok_or_else(|| FleetError(format!("channel {name} has run no bundle before this one")))?;
    if channel.state().is_open() {
        let aborted = set_state(&channel, State::Aborted, Some("rolled back".to_owned()), session).await?;
        until_known(name, aborted.progress_revision, session).await?;
    }
    start(name, previous, &arguments.how, session).await
}

/// Rolls out to a channel what another one runs completely.
pub(crate) async fn promote(arguments: &Promote, session: &Session) -> Result<ExitCode, FleetError> {
    let Promote { from, to, how } = arguments;
    let channel = session.store.existing_channel(from).await?;
    session.store.verify_channel(from, &session.signers()).await?;
    if channel.state() != State::Complete {
        let state = channel.state().name();
        return Err(FleetError(format!("channel {from} runs no bundle completely: its rollout is {state}")));
    }
    start(to, channel.record.bundle, how, session).await
}

async fn start(name: &Label, bundle: BundleId, how: &How, session: &Session) -> Result<ExitCode, FleetError> {
    let store = &session.store;
    let key = session.signing_key()?;
    let current = store.channel(name).await?;
    let hosts = store.hosts().await?;
    select(how.first.as_deref(), &hosts)?;
    if let Some(channel) = current.as_ref().filter(|channel| matches!(channel.state(), State::Running | State::Paused))
    {
        let state = channel.state().name();
        return Err(FleetError(format!(
            "channel {name}: the rollout of {} is {state}; end it with: holo-fleet rollout abort {name}",
            channel.record.bundle
        )));
    }
    // What is signed now refers to it.
    store.verify_channel(name, &session.signers()).await?;
    let now = store.now().await?;
    let record = record(name, bundle, how, current.as_ref(), &hosts, (session.operator_name(), now))?;
    let mut channel = store.set_channel(record, current.as_ref(), &key).await?;
    let progress = Progress::begin(&channel.record, now);
    let begun = store.set_progress(&channel, &progress).await?;
    channel.progress = Some(progress);
    let record = &channel.record;
    let waves = record.rollout.waves.len();
    streams::complain(format_args!("channel {name}: the rollout of {} has begun, in {waves} waves", record.bundle));
    if how.follow {
        return follow(name, begun, session).await;
    }
    if controller::holder(store, now).await?.is_none() {
        streams::complain(format_args!(
            "no controller is alive, so that it stays in its first wave: run holo-fleet controller, or: holo-fleet rollout resume --follow {name}"
        ));
    }
    show_json(&channel, session).await?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the record of a new rollout.
fn record(
    name: &Label,
    bundle: BundleId,
    how: &How,
    current: Option<&Channel>,
    hosts: &[Seen],
    (operator, time): (String, Timestamp),
) -> Result<ChannelRecord, FleetError> {
    let ours: Vec<&Seen> = hosts.iter().filter(|seen| seen.report.channel.as_ref() == Some(name)).collect();
    let serial = next_serial(current.map(|channel| channel.record.serial));
    let id = format!("{name}-{serial}");
    let ranks: Vec<Rank> = ours.iter().map(|seen| rank(&id, how.first.as_deref(), &seen.report)).collect();
    let previous = current.and_then(|channel| match channel.state() {
        State::Complete => Some(channel.record.bundle.clone()),
        _ => channel.record.previous.clone(),
    });
    let rollout = Plan {
        id,
        waves: Plan::limits(ranks, &how.waves)?,
        first: how.first.clone(),
        soak: how.soak.as_secs(),
        max_failed: how.max_failed,
        silent_after: how.silent_after.as_secs(),
        auto_rollback: how.auto_rollback,
        skip_waiting: how.skip_waiting,
    };
    let (channel, message) = (name.clone(), how.note.message.clone());
    Ok(ChannelRecord { channel, serial, bundle, previous, rollout, operator, message, time })
}

async fn change(
    name: &Label,
    to: State,
    from: &[State],
    note: &Note,
    session: &Session,
) -> Result<Channel, FleetError> {
    let channel = session.store.existing_channel(name).await?;
    let state = channel.state();
    if !from.contains(&state) {
        return Err(FleetError(format!(
            "channel {name}: the rollout of {} is {}",
            channel.record.bundle,
            state.name()
        )));
    }
    set_state(&channel, to, note.message.clone(), session).await
}

/// Sets the state of a rollout, and returns the channel as it is then.
async fn set_state(
    channel: &Channel,
    to: State,
    message: Option<String>,
    session: &Session,
) -> Result<Channel, FleetError> {
    let now = session.store.now().await?;
    let progress = channel.progress.clone().unwrap_or_else(|| Progress::begin(&channel.record, now));
    let operator = session.operator_name();
    let progress = match (progress.state, to) {
        (State::Halted, State::Running) => progress.try_again(&operator, message, now),
        _ => progress.with(to, &operator, message),
    };
    let name = &channel.record.channel;
    let faster = || FleetError(format!("channel {name}: the rollout has changed in the meantime; try again"));
    let progress_revision = session.store.set_progress(channel, &progress).await?.ok_or_else(faster)?;
    Ok(Channel { progress: Some(progress), progress_revision, ..channel.clone() })
}

/// Waits until the server answers with progress of at least this revision, and returns the channel.
async fn until_known(name: &Label, revision: u64, session: &Session) -> Result<Channel, FleetError> {
    let until = Instant::now() + KNOWN_WITHIN;
    loop {
        let channel = session.store.channel(name).await?;
        match channel.filter(|channel| channel.progress_revision >= revision) {
            Some(channel) => return Ok(channel),
            None if Instant::now() > until => {
                return Err(FleetError(format!(
                    "channel {name}: the server does not answer with what was just written"
                )));
            }
            None => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Advances a rollout until it ends, and shows how it goes. Progress before the given revision is not that of this rollout:
/// a server of a cluster may not have a newer one yet.
async fn follow(name: &Label, begun: Option<u64>, session: &Session) -> Result<ExitCode, FleetError> {
    let mut controller = Controller::new(session.store.clone(), true);
    let mut shown = None;
    loop {
        controller.step(Some(name)).await?;
        let view = controller.view();
        let is_known = |channel: &&Channel| begun.is_none_or(|begun| channel.progress_revision >= begun);
        let Some(channel) = view.channel(name).filter(is_known) else {
            until_known(name, begun.unwrap_or(0), session).await?;
            controller.forget_channels();
            continue;
        };
        let line = line(channel, &channel.tally(view.hosts(), view.now()));
        let (text, state) = (summary(&line), channel.state());
        if shown.as_ref() != Some(&text) {
            session.output.show(&line, &text)?;
            shown = Some(text);
        }
        if state != State::Running {
            controller.release().await?;
            return Ok(exit_code(state));
        }
        controller.wait(LOOK.min(Duration::from_secs(1))).await;
    }
}

fn exit_code(state: State) -> ExitCode {
    match state {
        State::Complete => ExitCode::SUCCESS,
        State::Running | State::Paused => ExitCode::from(3),
        State::Halted | State::RolledBack | State::Aborted => ExitCode::FAILURE,
    }
}

/// A line of `holo-fleet rollout`, `rollback` and `promote` with `--json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Line {
    /// The ID of the rollout.
    id: String,
    channel: Label,
    /// The bundle, as `NAME@VERSION`.
    bundle: String,
    state: State,
    /// The number of the current wave, from 1.
    wave: usize,
    /// The number of waves.
    waves: usize,
    /// The number of hosts that run the bundle, and whose last run was good.
    reported: usize,
    /// The number of hosts that make no changes now.
    waiting: usize,
    /// The number of hosts that have failed, have refused the bundle, or are unhealthy.
    failed: usize,
    /// The number of hosts that have not reported for a while.
    silent: usize,
    /// Who has started it.
    operator: String,
    /// Why it is in this state, or was started.
    message: Option<String>,
}

fn line(channel: &Channel, tally: &Tally) -> Line {
    let progress = channel.progress.as_ref();
    let message = progress.map_or(&channel.record.message, |progress| &progress.message);
    Line {
        id: channel.record.rollout.id.clone(),
        channel: channel.record.channel.clone(),
        bundle: channel.record.bundle.to_string(),
        state: channel.state(),
        wave: channel.wave(),
        waves: channel.record.rollout.waves.len(),
        reported: tally.in_step,
        waiting: tally.waiting,
        failed: tally.failed + tally.unhealthy,
        silent: tally.silent,
        operator: channel.record.operator.clone(),
        message: message.clone().or_else(|| channel.record.message.clone()),
    }
}

fn summary(line: &Line) -> String {
    let Line { bundle, state, wave, waves, reported, waiting, failed, silent, .. } = line;
    format!(
        "{bundle} {}: wave {wave} of {waves}, {reported} in step, {waiting} waiting, {failed} failed, {silent} silent",
        state.name()
    )
}

/// Shows a channel whose rollout a command has changed, to programs.
async fn show_json(channel: &Channel, session: &Session) -> Result<(), FleetError> {
    if !session.output.json {
        return Ok(());
    }
    let (hosts, now) = (session.store.hosts().await?, session.store.now().await?);
    session.output.show_json(&line(channel, &channel.tally(&hosts, now)))
}

/// A line of `holo-fleet log` and `controller` with `--json`: a change of a rollout.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Done {
    /// When it happened, in UTC.
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) time: Timestamp,
    pub(crate) channel: Label,
    /// What happened: `started`, or the new state.
    pub(crate) what: String,
    /// The ID of the rollout.
    pub(crate) rollout: String,
    /// The bundle, as `NAME@VERSION`.
    pub(crate) bundle: String,
    /// The number of the wave that has begun, from 1.
    pub(crate) wave: Option<usize>,
    /// Who did it.
    pub(crate) by: String,
    /// Why.
    pub(crate) message: Option<String>,
}

impl Done {
    /// Returns what has happened at a time, after which a rollout has this progress.
    pub(super) fn new(time: Timestamp, record: &ChannelRecord, progress: Progress, is_start: bool) -> Done {
        Done {
            time,
            channel: record.channel.clone(),
            what: if is_start { "started".to_owned() } else { progress.state.name().to_owned() },
            rollout: record.rollout.id.clone(),
            bundle: record.bundle.to_string(),
            wave: (progress.state == State::Running).then_some(progress.wave.saturating_add(1)),
            by: progress.by,
            message: progress.message,
        }
    }
}

/// Returns the changes of rollouts that are on record, oldest first.
pub(crate) async fn history(store: &Store, names: impl IntoIterator<Item = Label>) -> Result<Vec<Done>, FleetError> {
    let bucket = store.bucket(CHANNELS).await?;
    let mut all = Vec::new();
    for name in names {
        let records = bucket.history(name.as_str()).await?;
        let records: Vec<(Timestamp, ChannelRecord)> =
            records.iter().filter_map(|kept| Some((kept.time, Signed::read(&kept.value).ok()?))).collect();
        let mut before: Option<(u64, State, usize)> = None;
        for (time, progress) in bucket.history(&crate::channel::progress_key(&name)).await?.iter().filter_map(parsed) {
            let Some((_, record)) = records.iter().find(|(_, record)| record.serial == progress.serial) else {
                continue;
            };
            let here = (progress.serial, progress.state, progress.wave);
            let is_start = before.is_none_or(|(serial, ..)| serial != progress.serial);
            // That a wave is well, and since when, is no event.
            if before.replace(here) == Some(here) {
                continue;
            }
            all.push(Done::new(time, record, progress, is_start));
        }
    }
    all.sort_by_key(|done| done.time);
    Ok(all)
}

/// Shows who did what when.
pub(crate) async fn log(arguments: &Log, session: &Session) -> Result<ExitCode, FleetError> {
    let store = &session.store;
    let names = match &arguments.channel {
        Some(name) => vec![store.existing_channel(name).await?.record.channel],
        None => store.channels().await?.into_iter().map(|channel| channel.record.channel).collect(),
    };
    let all = history(store, names).await?;
    let cells = |done: &Done| {
        let wave = done.wave.map(|wave| format!(" (wave {wave})")).unwrap_or_default();
        vec![
            local(done.time),
            done.channel.to_string(),
            format!("{}{wave}", done.what),
            done.bundle.clone(),
            format!("by {}", done.by),
            done.message.clone().unwrap_or_default(),
        ]
    };
    session.output.list(&all, "", cells)?;
    Ok(ExitCode::SUCCESS)
}

fn parsed(kept: &Kept) -> Option<(Timestamp, Progress)> {
    Some((kept.time, serde_json::from_slice(&kept.value).ok()?))
}
