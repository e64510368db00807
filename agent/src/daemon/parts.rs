//! The parts that an agent is made of, and what comes to it from outside. Tests have others of them.

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

/// Something from outside.
#[derive(Debug)]
pub enum Input {
    /// The configuration is to be read anew.
    Reload,
    /// The clock was set to another time.
    ClockSet,
    /// The agent is to end.
    End,
    /// Somebody asks for the state.
    Status(oneshot::Sender<Status>),
}

/// The time of day.
pub trait Clock {
    /// Returns it.
    fn now(&self) -> Timestamp;

    /// Returns it in the time zone of the machine.
    fn local(&self) -> Zoned {
        self.now().to_zoned(TimeZone::system())
    }
}

/// The clock of the system.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The parts that the agent is made of.
pub struct Parts<'a> {
    /// The source of the configuration.
    pub source: Box<dyn ConfigSource + 'a>,
    /// The starter of children.
    pub launcher: Box<dyn Launcher + 'a>,
    /// The sink of events.
    pub sink: Box<dyn EventSink + 'a>,
    /// The time of day.
    pub clock: Box<dyn Clock + 'a>,
    /// The moment of this machine.
    pub rhythm: Rhythm,
    /// The file of the last runs.
    pub last: PathBuf,
    /// The metrics.
    pub metrics: Metrics,
}
