//! Human-readable status.

use crate::event::{Event, What};
use crate::health::state_name;
use crate::status::{Doing, Health, Status, Trouble};
use holo_events::{HealthState, Writer};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::fmt::{self, Display};

/// The maximum number of entities named.
const NAMED: usize = 20;

impl Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doing::Waiting => f.write_str("waiting"),
            Doing::Preparing => f.write_str("preparing"),
            Doing::Watching { entities, apply } => {
                match entities {
                    Some(1) => f.write_str("watching 1 entity")?,
                    Some(entities) => write!(f, "watching {entities} entities")?,
                    None => f.write_str("looking at all entities, to watch them")?,
                }
                if *apply { Ok(()) } else { f.write_str(", changing nothing") }
            }
            Doing::Running { verb, .. } => write!(f, "holo {verb}"),
            Doing::Stopping => f.write_str("stopping"),
        }
    }
}

/// Formats a time in the system's time zone.
fn time(time: Timestamp) -> impl Display {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

impl Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "     agent {} (process {}, since {})", self.version, self.pid, time(self.started))?;
        writeln!(f, "      mode {}", self.mode)?;
        writeln!(f, "     doing {}", self.doing)?;
        match &self.last {
            Some(run) => {
                writeln!(f, "  last run {}: {} {}, {}", time(run.began), run.verb, run.result.name(), run.tally)?;
                run.error.iter().try_for_each(|error| writeln!(f, "           {error}"))?;
            }
            None => writeln!(f, "  last run none")?,
        }
        if let Some(good) = self.last_good {
            writeln!(f, " last good {}", time(good))?;
        }
        if let Some(next) = self.next {
            writeln!(f, "  next run {}", time(next))?;
        }
        if !self.health.is_empty() {
            let ok = self.health.values().filter(|health| health.state == HealthState::Ok).count();
            writeln!(f, "    health {ok} of {} ok", self.health.len())?;
        }
        writeln!(f, "connection none")?;
        for (heading, troubles) in [("drifted", &self.drifted), ("failed", &self.failed)] {
            list(f, heading, troubles)?;
        }
        let unwell: BTreeMap<String, Trouble> = self.health.iter().filter_map(unwell).collect();
        list(f, "unwell", &unwell)?;
        for error in [&self.config_error, &self.spool_error].into_iter().flatten() {
            writeln!(f, "     error {error}")?;
        }
        Ok(())
    }
}

/// Returns an entity that is not healthy, with its state.
fn unwell((entity, health): (&String, &Health)) -> Option<(String, Trouble)> {
    let Health { state, since, text } = health;
    // The message of a check starts with its state.
    let reason = text.clone().unwrap_or_else(|| state_name(*state).to_owned());
    let trouble = Trouble { since: *since, reason: Some(reason), writer: None };
    (*state != HealthState::Ok).then(|| (entity.clone(), trouble))
}

fn list(f: &mut fmt::Formatter<'_>, heading: &str, troubles: &BTreeMap<String, Trouble>) -> fmt::Result {
    for (entity, trouble) in troubles.iter().take(NAMED) {
        let cause = cause(trouble.reason.as_deref(), trouble.writer.as_ref());
        writeln!(f, "{heading:>10} {entity}{cause}, since {}", time(trouble.since))?;
    }
    match troubles.len().saturating_sub(NAMED) {
        0 => Ok(()),
        more => writeln!(f, "{heading:>10} and {more} more"),
    }
}

/// Returns the reason and the writing process in brackets, if known.
pub(crate) fn cause(reason: Option<&str>, writer: Option<&Writer<'_>>) -> String {
    let writer = writer.map(|writer| format!("written by {writer}"));
    let words: Vec<&str> = reason.into_iter().chain(writer.as_deref()).collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

impl Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", time(self.time))?;
        match &self.what {
            What::Run(run) => {
                write!(f, "{} {}: {}", run.verb, run.result.name(), run.tally)?;
                run.error.iter().try_for_each(|error| write!(f, " ({error})"))
            }
            What::Drifted { entity, reason, writer } => {
                write!(f, "drifted {entity}{}", cause(reason.as_deref(), writer.as_ref()))
            }
            What::Returned { entity } => write!(f, "returned {entity}"),
            What::Repaired { entity, .. } => write!(f, "repaired {entity}"),
            What::Failed { entity, reason } => write!(f, "failed {entity}: {reason}"),
            What::Health { entity, state, text } => {
                write!(f, "health of {entity}: {}", state_name(*state))?;
                text.iter().try_for_each(|text| write!(f, " ({text})"))
            }
            What::Merged(counts) => write!(f, "{} earlier events", counts.total()),
        }
    }
}
