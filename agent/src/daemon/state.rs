//! The status of the agent, as reported to systemd and clients, and its external inputs: configuration changes and termination.

use super::whole_runs::CatchUp;
use super::{Daemon, Input};
use crate::config::Mode;
use crate::event::Header;
use crate::report::{Doing, Status, StatusKind};
use crate::service::{self, Level, say};
use jiff::{Timestamp, Unit};
use tokio::time::Instant;

impl Daemon<'_> {
    /// Reports the current activity to systemd and the metrics if it has changed.
    pub(super) fn tell(&mut self) {
        self.outlets.metrics.set_watching(self.watch.is_running().then(|| self.watch.applies()));
        self.outlets.metrics.set_watch_up(self.watch.is_up());
        self.outlets.metrics.set_paused(self.last.pause().is_some());
        let doing = self.doing().to_string();
        let doing = self.last.pause().map_or(doing.clone(), |pause| format!("{doing}; paused {pause}"));
        if doing != self.told {
            service::status(&doing);
            self.told = doing;
        }
    }

    fn doing(&self) -> Doing {
        if self.is_stopping {
            return Doing::Stopping;
        }
        match &self.run {
            None if self.catch_up.is_some() => Doing::Preparing,
            Some(run) => Doing::Running { verb: run.verb.to_owned(), since: run.began },
            None if self.watch.is_ending() => Doing::Preparing,
            None if self.watch.is_running() => {
                Doing::Watching { entities: self.watch.entities(), apply: self.watch.applies() }
            }
            None if self.config.watch => Doing::Preparing,
            None => Doing::Waiting,
        }
    }

    /// Returns the current status.
    #[must_use]
    pub fn status(&self) -> Status {
        let wait = self.next_run.saturating_duration_since(Instant::now());
        let next = self.clock.now().checked_add(wait).ok();
        let round = |time: Timestamp| time.round(Unit::Second).unwrap_or(time);
        let endpoint_error = || self.outlets.endpoint_error().map(str::to_owned);
        Status {
            header: Header::new(self.clock.now(), self.outlets.last_seq()),
            kind: StatusKind::Status,
            pid: std::process::id(),
            started: self.started,
            mode: if self.config.mode == Mode::Enforce { "enforce" } else { "report" }.to_owned(),
            doing: self.doing(),
            paused: self.last.pause().cloned(),
            last: self.last.run().cloned(),
            last_good: self.last.good(),
            next: next.map(round).filter(|_| self.run.is_none() && !self.is_stopping),
            drifted: self.known.drifted.clone(),
            failed: self.known.failed.clone(),
            health: self.known.health.clone(),
            connection: self.fleet.connection(self.config.fleet.is_some()),
            config_error: self.config_error.clone().or_else(endpoint_error),
            watch_error: self.watch.error().filter(|_| self.config.watch).map(str::to_owned),
            spool_error: self.outlets.spool_error().map(str::to_owned),
        }
    }
}

impl Daemon<'_> {
    pub(super) fn take(&mut self, input: Input) {
        match input {
            // An agent that ends after one round keeps its configuration.
            Input::Reload if self.is_once => {}
            Input::Reload => self.reload(),
            Input::ClockSet => self.look_at_window(Instant::now()),
            Input::End => {
                service::stopping();
                self.is_stopping = true;
                let now = Instant::now();
                self.run.iter_mut().for_each(|run| run.end(now));
                self.catch_up.iter().for_each(CatchUp::end);
                self.watch.end(now);
                self.health.abandon(now);
                self.fleet.end(now);
            }
            Input::Request(request, answer) => self.meet(request, answer),
        }
    }

    fn reload(&mut self) {
        service::reloading();
        match self.source.load() {
            Ok(config) => {
                if config.interval != self.config.interval && self.requested.is_none() {
                    let (now, last) = (self.clock.now(), self.last.run().map(|run| run.began));
                    self.next_run = Instant::now() + self.rhythm.until_next(now, last, config.interval);
                }
                self.config = config;
                self.look_at_window(Instant::now());
                self.config_error = None;
                say(Level::Info, "the configuration was reloaded");
                self.use_config();
            }
            Err(error) => {
                say(Level::Error, format_args!("{error}; the configuration from before goes on to count"));
                self.config_error = Some(error.to_string());
            }
        }
        service::ready();
    }
}
