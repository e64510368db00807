//! The status of the agent, as reported to systemd and clients.

use super::Daemon;
use crate::config::Mode;
use crate::service;
use crate::status::{Connection, Doing, Status};
use jiff::{Timestamp, Unit};
use tokio::time::Instant;

impl Daemon<'_> {
    /// Reports the current activity to systemd and the metrics if it has changed.
    pub(super) fn tell(&mut self) {
        self.outlets.metrics.set_watching(self.watch.is_running().then(|| self.watch.applies()));
        let doing = self.doing().to_string();
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
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started: self.started,
            mode: if self.config.mode == Mode::Enforce { "enforce" } else { "report" }.to_owned(),
            doing: self.doing(),
            last: self.last.run().cloned(),
            last_good: self.last.good(),
            next: next.map(round).filter(|_| self.run.is_none() && !self.is_stopping),
            drifted: self.known.drifted.clone(),
            failed: self.known.failed.clone(),
            health: self.known.health.clone(),
            connection: Connection::None,
            config_error: self.config_error.clone().or_else(endpoint_error),
            spool_error: self.outlets.spool_error().map(str::to_owned),
        }
    }
}
