//! The components and inputs of the agent. Tests replace the components.

use crate::agenda::Rhythm;
use crate::child::Launcher;
use crate::config::ConfigSource;
use crate::event::EventSink;
use crate::metrics::Metrics;
use crate::status::Status;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::path::PathBuf;
use tokio::sync::oneshot;

/// An external input.
#[derive(Debug)]
pub enum Input {
    /// Reload the configuration.
    Reload,
    /// The clock was set.
    ClockSet,
    /// Terminate the agent.
    End,
    /// Return the status.
    Status(oneshot::Sender<Status>),
}

/// The time of day.
pub trait Clock {
    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Returns the current time in the machine's time zone.
    fn local(&self) -> Zoned {
        self.now().to_zoned(TimeZone::system())
    }
}

/// The system's clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The components of the agent.
pub struct Parts<'a> {
    /// The source of the configuration.
    pub source: Box<dyn ConfigSource + 'a>,
    /// Starts children.
    pub launcher: Box<dyn Launcher + 'a>,
    /// Records events.
    pub sink: Box<dyn EventSink + 'a>,
    /// The time of day.
    pub clock: Box<dyn Clock + 'a>,
    /// The run times of this machine.
    pub rhythm: Rhythm,
    /// The file for the last runs.
    pub last: PathBuf,
    /// The metrics.
    pub metrics: Metrics,
}
