//! External inputs: configuration changes, termination and status requests.

use super::catch_up::CatchUp;
use super::{Daemon, Input};
use crate::service::{self, Level, say};
use tokio::time::Instant;

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
            }
            // The client may have disconnected.
            Input::Status(answer) => drop(answer.send(self.status())),
        }
    }

    fn reload(&mut self) {
        service::reloading();
        match self.source.load() {
            Ok(config) => {
                if config.interval != self.config.interval {
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
