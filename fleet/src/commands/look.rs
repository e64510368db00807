//! `holo-fleet status`, `hosts` and `events`.

use crate::channel::{Seen, select};
use crate::error::FleetError;
use crate::names::{Host, Label, NameError};
use crate::report::{Health, Outcome};
use crate::rollout::{State, Tally};
use crate::session::{Session, local};
use crate::store::{EVENT_SUBJECT, EVENTS, HOSTS};
use async_nats::datetime;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use clap::{Args, Subcommand};
use futures_util::StreamExt;
use jiff::{Span, Timestamp, Zoned};
use serde::Serialize;
use serde_json::{Map, Value};
use std::process::ExitCode;

/// `holo-fleet hosts`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Hosts {
    #[command(subcommand)]
    verb: Option<HostsVerb>,
    /// Only hosts for which this expression holds, such as 'facts.os.id == "debian"'
    #[arg(long = "where", value_name = "EXPR")]
    filter: Option<String>,
}

/// The commands for hosts.
#[derive(Debug, Subcommand)]
enum HostsVerb {
    /// Forget a host, so that another machine can have its name at once
    Remove(Remove),
}

/// `holo-fleet hosts remove`
#[derive(Debug, Args)]
struct Remove {
    /// Its name
    #[arg(value_name = "HOST")]
    host: Host,
}

/// `holo-fleet events`
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Go on with new events as they come
    #[arg(long)]
    follow: bool,
    /// Only those of a host
    #[arg(long, value_name = "HOST")]
    host: Option<Host>,
    /// Only those of a kind, such as failed
    #[arg(long, value_name = "KIND")]
    kind: Option<Label>,
    /// Only those since a time, such as 2h or 2026-05-01
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
}

/// Parses a point in time, or how long ago it is.
fn since(text: &str) -> Result<Timestamp, NameError> {
    let wrong = || NameError::new(text, "a time, such as 2h, 2026-05-01 or 2026-05-01T12:00:00Z");
    if let Ok(span) = text.parse::<Span>() {
        let now = Zoned::now();
        return now.checked_sub(span.abs()).map(|time| time.timestamp()).map_err(|_| wrong());
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let local = text.parse::<jiff::civil::DateTime>().and_then(|time| time.to_zoned(jiff::tz::TimeZone::system()));
    local.map(|time| time.timestamp()).map_err(|_| wrong())
}

/// A line of `holo-fleet status --json`: a channel.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ChannelLine {
    /// Its name.
    channel: Label,
    /// The bundle that is rolled out, as `NAME@VERSION`.
    bundle: String,
    rollout: RolloutPart,
    hosts: Tally,
}

/// The rollout of a channel.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RolloutPart {
    /// Its ID.
    id: String,
    state: State,
    /// The number of the current wave, from 1.
    wave: usize,
    /// The number of waves.
    waves: usize,
}

/// Shows a line for each channel.
pub(crate) async fn status(session: &Session) -> Result<ExitCode, FleetError> {
    let store = &session.store;
    let (channels, hosts, now) = (store.channels().await?, store.hosts().await?, store.now().await?);
    let line = |channel: &crate::channel::Channel| ChannelLine {
        channel: channel.record.channel.clone(),
        bundle: channel.record.bundle.to_string(),
        rollout: RolloutPart {
            id: channel.record.rollout.id.clone(),
            state: channel.state(),
            wave: channel.wave(),
            waves: channel.record.rollout.waves.len(),
        },
        hosts: channel.tally(&hosts, now),
    };
    let lines: Vec<ChannelLine> = channels.iter().map(line).collect();
    let cells = |line: &ChannelLine| {
        let hosts = &line.hosts;
        vec![
            line.channel.to_string(),
            line.bundle.clone(),
            format!("{} (wave {} of {})", line.rollout.state.name(), line.rollout.wave, line.rollout.waves),
            format!("{} of {} in step", hosts.in_step, hosts.total),
            hosts.others().join(", "),
        ]
    };
    let none = "no channels; start one with: holo-fleet rollout start CHANNEL BUNDLE";
    session.output.list(&lines, none, cells)?;
    Ok(ExitCode::SUCCESS)
}

/// A line of `holo-fleet hosts --json`: a host.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct HostLine<'s> {
    /// Its name.
    host: &'s Host,
    /// The channel that it follows.
    channel: Option<&'s Label>,
    /// The bundle that is installed, as `NAME@VERSION`.
    bundle: Option<String>,
    /// The result of the last complete run since then.
    result: Option<Outcome>,
    /// The worst state of its health checks.
    health: Health,
    /// The number of entities that are not in their desired state.
    drift: usize,
    /// The facts that it reports.
    facts: &'s Map<String, Value>,
    /// The time of its last report, in UTC.
    #[cfg_attr(test, schemars(with = "String"))]
    seen: Timestamp,
    /// Why it makes no changes now.
    waiting: Option<&'s str>,
    /// What is wrong.
    reason: Option<&'s str>,
}

impl<'s> HostLine<'s> {
    fn new(seen: &'s Seen) -> HostLine<'s> {
        let report = &seen.report;
        HostLine {
            host: &report.host,
            channel: report.channel.as_ref(),
            bundle: report.bundle.as_ref().map(ToString::to_string),
            result: report.result,
            health: report.health,
            drift: report.drift,
            facts: &report.facts,
            seen: seen.time,
            waiting: report.waiting.as_deref(),
            reason: report.reason.as_deref(),
        }
    }
}

/// Returns the name of a value in JSON, or `-`.
pub(super) fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_else(|| "-".to_owned())
}

/// Shows a line for each host, or forgets one.
pub(crate) async fn hosts(arguments: &Hosts, session: &Session) -> Result<ExitCode, FleetError> {
    if let Some(HostsVerb::Remove(Remove { host })) = &arguments.verb {
        let bucket = session.store.bucket(HOSTS).await?;
        if bucket.get(&host.token()).await?.is_none() {
            return Err(FleetError(format!("there is no host {host}; look at: holo-fleet hosts")));
        }
        let hosts = if session.output.json { session.store.hosts().await? } else { Vec::new() };
        bucket.remove(&host.token()).await?;
        let removed = hosts.iter().filter(|seen| seen.report.host == *host).map(HostLine::new);
        { removed }.try_for_each(|line| session.output.show_json(&line))?;
        return Ok(ExitCode::SUCCESS);
    }
    let hosts = session.store.hosts().await?;
    let selected = select(arguments.filter.as_deref(), &hosts)?;
    let lines: Vec<HostLine<'_>> = selected.into_iter().map(HostLine::new).collect();
    let cells = |line: &HostLine<'_>| {
        let drift = if line.drift > 0 { format!("{} drifted", line.drift) } else { String::new() };
        let remarks: Vec<&str> = [line.waiting, line.reason, Some(drift.as_str())].into_iter().flatten().collect();
        vec![
            line.host.to_string(),
            line.channel.map_or_else(|| "-".to_owned(), ToString::to_string),
            line.bundle.clone().unwrap_or_else(|| "-".to_owned()),
            word(&line.result),
            format!("health {}", word(&line.health)),
            format!("seen {}", local(line.seen)),
            remarks.into_iter().filter(|remark| !remark.is_empty()).collect::<Vec<_>>().join("; "),
        ]
    };
    session.output.list(&lines, "", cells)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows events.
pub(crate) async fn events(arguments: &Events, session: &Session) -> Result<ExitCode, FleetError> {
    let about = |error: &dyn std::fmt::Display| FleetError::about("events", error);
    let host = arguments.host.as_ref().map_or_else(|| "*".to_owned(), Host::token);
    let kind = arguments.kind.as_ref().map_or("*", Label::as_str);
    let deliver_policy = match arguments.since {
        Some(time) => {
            let start_time = datetime::from_nanos(time.as_nanosecond()).map_err(|error| about(&error))?;
            DeliverPolicy::ByStartTime { start_time }
        }
        None if arguments.follow => DeliverPolicy::New,
        None => DeliverPolicy::All,
    };
    let stream = session.store.context.get_stream(EVENTS).await.map_err(|error| about(&error))?;
    let config = pull::OrderedConfig {
        filter_subject: format!("{EVENT_SUBJECT}.{host}.{kind}"),
        deliver_policy,
        ..Default::default()
    };
    let consumer = stream.create_consumer(config).await.map_err(|error| about(&error))?;
    let mut left = consumer.cached_info().num_pending;
    let mut messages = consumer.messages().await.map_err(|error| about(&error))?;
    while left > 0 || arguments.follow {
        let Some(message) = messages.next().await else { break };
        let message = message.map_err(|error| about(&error))?;
        left = left.saturating_sub(1);
        let Ok(event) = serde_json::from_slice::<Value>(&message.payload) else { continue };
        session.output.show(&event, text_of(&message.subject, &event))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns an event as a line for people.
fn text_of(subject: &str, event: &Value) -> String {
    let mut tokens = subject.rsplit('.');
    let (kind, host) = (tokens.next().unwrap_or_default(), tokens.next().and_then(Host::from_token));
    let time = event.get("time").and_then(Value::as_str).and_then(|time| time.parse().ok()).map(local);
    let known = ["contract", "version", "host", "boot", "time", "seq", "kind", "id"];
    let details: Vec<String> = event
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !known.contains(&key.as_str()))
        .map(|(key, value)| match value {
            Value::String(text) => format!("{key}={text}"),
            value => format!("{key}={value}"),
        })
        .collect();
    let host = host.map_or_else(|| "?".to_owned(), |host| host.to_string());
    format!("{} {host} {kind} {}", time.unwrap_or_default(), details.join(" "))
}
