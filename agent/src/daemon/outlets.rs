//! The outlets for information about the machine: events, metrics and the journal.

use super::storms::Storms;
use crate::config::Config;
use crate::event::{BundleState, Event, EventSink, FleetState, Header, WatchState, What};
use crate::metrics::{Metrics, state_name};
use crate::report::{cause, definition_error, in_storm, of_bundle, of_fleet, of_watch, resumed};
use crate::service::{Level, say};
use crate::spool;
use holo_events::HealthState;
use holo_metrics::Endpoint;
use jiff::Timestamp;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// The interval for retrying to write events.
const RETRY_SPOOL: Duration = Duration::from_secs(60);

/// The outlets for information about the machine.
pub(super) struct Outlets<'a> {
    sink: Box<dyn EventSink + 'a>,
    pub(super) metrics: Metrics,
    textfile: Option<PathBuf>,
    endpoint: Option<Endpoint>,
    endpoint_error: Option<String>,
    retry_spool: Option<Instant>,
    storms: Storms,
    /// True if there was a storm that was not over when the storms were kept last.
    is_stormy: bool,
}

impl<'a> Outlets<'a> {
    pub(super) fn new(sink: Box<dyn EventSink + 'a>, metrics: Metrics) -> Outlets<'a> {
        let (textfile, endpoint, endpoint_error, retry_spool) = (None, None, None, None);
        let (storms, is_stormy) = (Storms::default(), false);
        Outlets { sink, metrics, textfile, endpoint, endpoint_error, retry_spool, storms, is_stormy }
    }

    /// Applies a new configuration.
    pub(super) fn use_config(&mut self, config: &Config) {
        self.textfile.clone_from(&config.textfile);
        let is_open = self.endpoint.as_ref().map(Endpoint::address) == config.metrics;
        if !is_open || self.endpoint_error.is_some() {
            self.endpoint = None;
            self.endpoint_error = None;
            config.metrics.iter().for_each(|address| self.open_endpoint(*address));
        }
        self.write_textfile();
    }

    fn open_endpoint(&mut self, address: SocketAddr) {
        match Endpoint::open(address, self.metrics.registry()) {
            Ok(endpoint) => self.endpoint = Some(endpoint),
            Err(error) => {
                let error = format!("no metrics at {address}: {error}");
                say(Level::Error, &error);
                self.endpoint_error = Some(error);
            }
        }
    }

    /// Returns the reason why metrics cannot be served at the configured address.
    pub(super) fn endpoint_error(&self) -> Option<&str> {
        self.endpoint_error.as_deref()
    }

    /// Returns the reason why events cannot be written to disk.
    pub(super) fn spool_error(&self) -> Option<&str> {
        self.sink.obstacle()
    }

    /// Returns true if the event of the run that began at this time has been recorded.
    pub(super) fn has_run(&self, began: Timestamp) -> bool {
        self.sink.has_run(began)
    }

    /// Records events, and logs those of interest to users.
    pub(super) fn publish(&mut self, news: Vec<What>, now: Timestamp) {
        for what in news {
            self.count(&what);
            if let Some(what) = self.storms.take(what, now, Instant::now()) {
                self.record(what, now);
            }
        }
        self.keep_storms();
        self.note_spool();
        self.write_textfile();
    }

    /// Has the storms recorded as they are if the agent is killed.
    fn keep_storms(&mut self) {
        let events: Vec<Event> =
            self.storms.brewing().map(|storm| self.event(What::Storm(storm.clone()), storm.ended)).collect();
        let is_stormy = !events.is_empty();
        if is_stormy || self.is_stormy {
            self.sink.hold(events);
        }
        self.is_stormy = is_stormy;
    }

    /// Records the storms that are over; all of them if the agent ends.
    pub(super) fn end_storms(&mut self, now: Timestamp, is_end: bool) {
        let over = self.storms.over(Instant::now(), is_end);
        if !over.is_empty() {
            over.into_iter().for_each(|what| self.record(what, now));
            self.keep_storms();
            self.note_spool();
        }
    }

    /// Returns the number of the last event.
    pub(super) fn last_seq(&self) -> u64 {
        self.sink.last_seq()
    }

    fn record(&mut self, what: What, time: Timestamp) {
        announce(&what);
        self.sink.record(self.event(what, time));
    }

    fn event(&self, what: What, time: Timestamp) -> Event {
        let header = Header::new(time, self.sink.last_seq() + 1);
        let id = match &what {
            What::Run(event) if event.run.is_some() => event.run.clone().unwrap_or_default(),
            // It is the same as long as the storm lasts, so that after a crash nothing is recorded twice.
            What::Storm(storm) => format!("{}-{}-{}", storm.began.as_microsecond(), std::process::id(), storm.of),
            // Unlike the number, it differs even if the file of events was removed.
            _ => format!("{}-{}-{}", time.as_microsecond(), std::process::id(), header.seq),
        };
        Event { header, id, what }
    }

    fn count(&self, what: &What) {
        match what {
            What::Drifted { .. } | What::Edited { .. } | What::Refused { .. } => self.metrics.drifted(),
            What::Repaired { .. } => self.metrics.repaired(),
            _ => {}
        }
    }

    /// Retries to write events that the previous agent could not write.
    pub(super) fn begin(&mut self) {
        self.sink.retry();
        self.note_spool();
    }

    /// Retries to write pending events if a retry is due.
    pub(super) fn retry(&mut self, now: Instant) {
        if self.retry_spool.is_some_and(|at| at <= now) {
            self.sink.retry();
            self.note_spool();
        }
    }

    /// Retries for the last time before the agent ends.
    pub(super) fn end(&mut self) {
        if self.retry_spool.is_some() {
            self.sink.retry();
        }
        if let Some(obstacle) = self.sink.obstacle() {
            say(
                Level::Error,
                format_args!(
                    "the events that wait are lost with the runtime directory, as they cannot be kept: {obstacle}"
                ),
            );
        }
    }

    /// Returns the time of the next retry, or of the end of a storm.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        [self.retry_spool, self.storms.next()].into_iter().flatten().min()
    }

    /// Schedules a retry if events are pending.
    fn note_spool(&mut self) {
        let is_new = self.retry_spool.is_none();
        self.retry_spool = self.sink.obstacle().map(|obstacle| {
            if is_new {
                say(Level::Error, format_args!("events wait in memory, as they cannot be kept: {obstacle}"));
            }
            Instant::now() + RETRY_SPOOL
        });
    }

    fn write_textfile(&self) {
        let Some(path) = &self.textfile else { return };
        // Collectors run as other users.
        if let Err(error) = spool::replace(path, &self.metrics.text(), 0o644) {
            say(Level::Error, format_args!("{}: {error}", path.display()));
        }
    }
}

/// Logs an event, unless it was logged already.
fn announce(what: &What) {
    match what {
        What::Drifted { entity, reason, writer } => {
            let cause = cause(reason.as_deref(), writer.as_ref());
            say(Level::Warning, format_args!("drifted {entity}{cause}"));
        }
        What::Edited { entity, reason, writer } => {
            let cause = cause(Some(reason), writer.as_ref());
            say(Level::Warning, format_args!("edited {entity}{cause}"));
        }
        What::Refused { entity, reason } => say(Level::Warning, format_args!("refused {entity}: {reason}")),
        What::DefinitionError(error) => say(Level::Error, definition_error(error)),
        What::Storm(storm) => say(Level::Warning, in_storm(storm)),
        What::Repaired { entity, .. } => say(Level::Info, format_args!("repaired {entity}")),
        What::Returned { entity } => say(Level::Info, format_args!("returned {entity}")),
        What::Failed { entity, reason } => say(Level::Error, format_args!("failed {entity}: {reason}")),
        What::Health { entity, state, text } => {
            let level = if *state == HealthState::Ok { Level::Info } else { Level::Warning };
            let cause = cause(text.as_deref(), None);
            say(level, format_args!("health of {entity}: {}{cause}", state_name(*state)));
        }
        What::Paused(pause) => say(Level::Warning, format_args!("paused {pause}")),
        What::Resumed { by } => say(Level::Info, resumed(by.as_deref())),
        What::Watch { state: WatchState::Restarted, reason } => {
            say(Level::Info, of_watch(WatchState::Restarted, reason.as_deref()));
        }
        What::Fleet { state: FleetState::Connected, reason } => {
            say(Level::Info, of_fleet(FleetState::Connected, reason.as_deref()));
        }
        What::Fleet { state, reason } => say(Level::Warning, of_fleet(*state, reason.as_deref())),
        What::Bundle(bundle) => {
            let level = if bundle.state == BundleState::Refused { Level::Error } else { Level::Info };
            say(level, of_bundle(bundle));
        }
        What::Run(_) | What::Watch { .. } | What::Merged(_) => {}
    }
}
