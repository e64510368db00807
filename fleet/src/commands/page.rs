//! `holo-fleet report`: an HTML page about all channels and hosts.

use super::look::word;
use super::rollout::{Done, history};
use crate::channel::{Channel, Seen};
use crate::disk::replace;
use crate::error::FleetError;
use crate::names::{Host, Label};
use crate::report::{Health, Outcome};
use crate::rollout::{Standing, State, Tally};
use crate::session::{Session, local, print};
use clap::Args;
use holo_facts::page;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const TEMPLATE: &str = include_str!("page.html");
/// The maximum number of hosts on a page. The first ones are those that need attention.
const MOST_HOSTS: usize = 5000;
/// The number of changes of rollouts on a page.
const MOST_CHANGES: usize = 50;
/// Lists of up to this length are shown expanded.
const FEW: usize = 50;
/// The time without a report after which a host without a rollout is silent.
const SILENT_AFTER: SignedDuration = SignedDuration::from_mins(3);

/// `holo-fleet report`
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// The file to write, or - for standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// The line of `holo-fleet report --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Written<'a> {
    /// The file with the page.
    page: &'a Path,
}

/// Writes the page.
pub(crate) async fn report(arguments: &Report, session: &Session) -> Result<ExitCode, FleetError> {
    let store = &session.store;
    let (channels, hosts, now) = (store.channels().await?, store.hosts().await?, store.now().await?);
    let changes = history(store, channels.iter().map(|channel| channel.record.channel.clone())).await?;
    let server = session.operator.link.urls.iter().map(|url| without_password(url)).collect::<Vec<_>>().join(", ");
    let contents = Contents::new(server, &channels, &hosts, changes, now);
    let html = page::render(TEMPLATE, &contents).map_err(|error| FleetError(error.to_string()))?;
    if arguments.output == Path::new("-") {
        print(html)?;
    } else {
        // It shows what not everyone on this machine may know.
        replace(&arguments.output, format!("{html}\n").as_bytes(), 0o600)?;
        session.output.show_json(&Written { page: &arguments.output })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns an address without the user and password that it may contain.
fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://{place}"),
        (None, Some((_, place))) => place.to_owned(),
        (_, None) => url.to_owned(),
    }
}

/// Everything on the page.
#[derive(Serialize)]
struct Contents {
    server: String,
    time: Moment,
    version: &'static str,
    total: usize,
    counts: BTreeMap<&'static str, usize>,
    channels: Vec<ChannelRow>,
    /// The names of channels whose rollout was halted or rolled back.
    stopped: Vec<Label>,
    /// The hosts that need attention.
    bad: Vec<HostRow>,
    others: Vec<HostRow>,
    left_out: usize,
    is_short: bool,
    changes: Vec<ChangeRow>,
}

/// A time for people and for machines.
#[derive(Serialize)]
struct Moment {
    shown: String,
    machine: String,
}

impl Moment {
    fn new(time: Timestamp) -> Moment {
        Moment { shown: local(time), machine: time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() }
    }
}

#[derive(Serialize)]
struct ChannelRow {
    name: Label,
    bundle: String,
    state: String,
    tone: &'static str,
    wave: usize,
    waves: usize,
    operator: String,
    message: Option<String>,
    total: usize,
    in_step: usize,
    /// The numbers of other hosts, in words.
    counts: String,
}

#[derive(Serialize)]
struct HostRow {
    host: Host,
    channel: Option<Label>,
    bundle: Option<String>,
    standing: &'static str,
    tone: &'static str,
    result: String,
    health: String,
    drift: usize,
    /// What is wrong, and why the host makes no changes.
    remarks: Vec<String>,
    seen: Moment,
    #[serde(skip)]
    rank: u8,
}

#[derive(Serialize)]
struct ChangeRow {
    time: Moment,
    channel: Label,
    what: String,
    tone: &'static str,
    bundle: String,
    wave: Option<usize>,
    by: String,
    message: Option<String>,
}

impl Contents {
    fn new(server: String, channels: &[Channel], hosts: &[Seen], changes: Vec<Done>, now: Timestamp) -> Contents {
        let (mut rows, mut standings, mut tally) = (Vec::new(), BTreeMap::new(), Tally::default());
        for channel in channels {
            let mut of_channel = Tally::default();
            for (member, standing) in channel.standings(hosts, now) {
                of_channel.add(standing);
                standings.insert(member.report.host, standing);
            }
            rows.push(ChannelRow::new(channel, &of_channel));
        }
        let mut all: Vec<HostRow> = Vec::new();
        for seen in hosts {
            let in_rollout = standings.get(&seen.report.host).copied();
            let standing = in_rollout.unwrap_or_else(|| alone(seen, now));
            tally.add(standing);
            all.push(HostRow::new(seen, standing, in_rollout.is_some()));
        }
        // Hosts are in the order of their names already.
        all.sort_by_key(|row| row.rank);
        let left_out = all.len().saturating_sub(MOST_HOSTS);
        all.truncate(MOST_HOSTS);
        let (bad, others): (Vec<HostRow>, Vec<HostRow>) = all.into_iter().partition(|row| row.rank <= LAST_BAD);
        let stopped = channels.iter().filter(|channel| tone(channel.state()) == "bad");
        Contents {
            server,
            time: Moment::new(now),
            version: env!("CARGO_PKG_VERSION"),
            total: tally.total,
            counts: [
                ("failed", tally.failed + tally.unhealthy),
                ("silent", tally.silent),
                ("pending", tally.pending),
                ("waiting", tally.waiting),
            ]
            .into(),
            channels: rows,
            stopped: stopped.map(|channel| channel.record.channel.clone()).collect(),
            is_short: others.len() <= FEW,
            bad,
            others,
            left_out,
            changes: changes.into_iter().rev().take(MOST_CHANGES).map(ChangeRow::new).collect(),
        }
    }
}

/// Returns how a host is whose channel has no rollout.
fn alone(seen: &Seen, now: Timestamp) -> Standing {
    let report = &seen.report;
    match report.result {
        _ if now.duration_since(seen.time) > SILENT_AFTER => Standing::Silent,
        Some(Outcome::Failed | Outcome::Refused) => Standing::Failed,
        _ if report.health == Health::Critical => Standing::Unhealthy,
        _ if report.waiting.is_some() => Standing::Waiting,
        _ => Standing::InStep,
    }
}

/// Returns the tone of the state of a rollout.
fn tone(state: State) -> &'static str {
    match state {
        State::Complete => "good",
        State::Halted | State::RolledBack => "bad",
        State::Paused | State::Aborted => "warn",
        State::Running => "",
    }
}

impl ChannelRow {
    fn new(channel: &Channel, tally: &Tally) -> ChannelRow {
        let (record, progress) = (&channel.record, channel.progress.as_ref());
        let message = progress.and_then(|progress| progress.message.clone()).or_else(|| record.message.clone());
        ChannelRow {
            name: record.channel.clone(),
            bundle: record.bundle.to_string(),
            state: channel.state().name().replace('_', " "),
            tone: tone(channel.state()),
            wave: channel.wave(),
            waves: record.rollout.waves.len(),
            operator: record.operator.clone(),
            message,
            total: tally.total,
            in_step: tally.in_step,
            counts: tally.others().join(", "),
        }
    }
}

/// The last rank of hosts that need attention.
const LAST_BAD: u8 = 2;

impl HostRow {
    fn new(seen: &Seen, standing: Standing, has_rollout: bool) -> HostRow {
        let report = &seen.report;
        let (rank, tone) = match standing {
            Standing::Failed => (0, "bad"),
            Standing::Unhealthy => (1, "bad"),
            Standing::Silent => (LAST_BAD, "bad"),
            Standing::Waiting => (3, "warn"),
            Standing::Pending => (4, "warn"),
            Standing::InStep => (5, if has_rollout { "good" } else { "" }),
        };
        HostRow {
            host: report.host.clone(),
            channel: report.channel.clone(),
            bundle: report.bundle.as_ref().map(ToString::to_string),
            standing: match standing {
                Standing::InStep if !has_rollout => "no rollout",
                Standing::InStep => "in step",
                _ => standing.name(),
            },
            tone,
            result: word(&report.result),
            health: word(&report.health),
            drift: report.drift,
            remarks: [&report.reason, &report.waiting].into_iter().flatten().cloned().collect(),
            seen: Moment::new(seen.time),
            rank,
        }
    }
}

impl ChangeRow {
    fn new(done: Done) -> ChangeRow {
        let Done { time, channel, what, bundle, wave, by, message, .. } = done;
        let tone = match what.as_str() {
            "halted" | "rolled_back" => "bad",
            "complete" => "good",
            _ => "",
        };
        let what = what.replace('_', " ");
        ChangeRow { time: Moment::new(time), channel, what, tone, bundle, wave, by, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_passwords() {
        for (url, shown) in [
            ("tls://nats.example.org:4222", "tls://nats.example.org:4222"),
            ("nats://anna:s@cret@nats:4222", "nats://nats:4222"),
            ("anna:secret@nats", "nats"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
