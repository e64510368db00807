//! Limits on when, and how often, an entity may be checked or changed, and the services that it registers.

mod schedule;

pub use schedule::{Day, Days, Hours, Schedule, Window};

use crate::duration::{self, DurationError};
use crate::registration::{Registration, RegistrationError};
use bstr::{BStr, ByteSlice};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The shortest polling interval.
const LEAST: Duration = Duration::from_secs(1);

const NOOP: &str = "NOOP";
const POLL: &str = "POLL";
const LIMIT: &str = "LIMIT";
const SEMAPHORE: &str = "SEMAPHORE";
const SCHEDULE: &str = "SCHEDULE";
const REGISTER: &str = "REGISTER";

/// When, and how often, an entity may be checked or changed, and the services that it registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controls {
    /// True if the entity is only checked, never applied (`NOOP: yes`).
    pub noop: bool,
    /// The interval at which a watch checks the entity (`POLL`).
    pub poll: Option<Duration>,
    /// The maximum rate at which a watch repairs the entity (`LIMIT`).
    pub limit: Option<Limit>,
    /// The maximum number of entities of this semaphore applied concurrently (`SEMAPHORE`).
    pub semaphore: Option<Semaphore>,
    /// The only times at which the entity is changed (`SCHEDULE`).
    pub schedule: Option<Schedule>,
    /// The services that are published while the entity is in its desired state and healthy (`REGISTER`, once for each).
    pub register: Vec<Registration>,
}

/// A maximum number of repairs in a period: `3/10m`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The maximum number of repairs.
    pub times: u32,
    /// The period.
    pub within: Duration,
}

/// A named limit on the number of entities worked on concurrently: `db:2`.
#[derive(Clone, PartialEq, Eq)]
pub struct Semaphore {
    /// The name.
    pub name: String,
    /// The maximum number of entities.
    pub count: u32,
}

/// The policy for an entity that a person has changed since it was applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnEdit {
    /// It is not changed without `--force`.
    #[default]
    Refuse,
    /// Its edited version is kept, and then overwritten.
    Overwrite,
}

impl OnEdit {
    /// All policies by their names.
    pub const NAMES: [(&str, OnEdit); 2] = [("refuse", OnEdit::Refuse), ("overwrite", OnEdit::Overwrite)];
}

impl FromStr for OnEdit {
    type Err = ControlError;

    fn from_str(text: &str) -> Result<OnEdit, ControlError> {
        let named = OnEdit::NAMES.iter().find(|(name, _)| *name == text);
        named.map(|(_, policy)| *policy).ok_or(ControlError::OnEdit)
    }
}

impl fmt::Display for OnEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = OnEdit::NAMES.iter().find(|(_, policy)| policy == self);
        f.write_str(named.map_or("refuse", |(name, _)| name))
    }
}

/// A control with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// Neither absent nor `yes`.
    #[error("expected \"yes\", or no such line")]
    Noop,
    /// An invalid duration.
    #[error(transparent)]
    Duration(#[from] DurationError),
    /// An interval shorter than a second.
    #[error("that is too short: a second is the least")]
    TooShort,
    /// An invalid limit.
    #[error("expected a number, a slash and a duration, as in \"3/10m\"")]
    Limit,
    /// A limit of zero repairs.
    #[error("at least one repair has to be allowed; to prevent changes, use \"noop\"")]
    NoRepair,
    /// An invalid semaphore.
    #[error("expected a name, a colon and a number of entities, at least 1, as in \"db:2\"")]
    Semaphore,
    /// Invalid hours.
    #[error("expected ranges of hours, as in \"2-5\", \"22-4\" or \"2-5,12:30-13\"")]
    Hours,
    /// Invalid days.
    #[error("expected days of the week, as in \"mon-fri\" or \"sat,sun\"")]
    Days,
    /// An unknown policy for edited entities.
    #[error("expected \"refuse\" or \"overwrite\"")]
    OnEdit,
    /// An invalid schedule.
    #[error("expected \"hours=RANGES\", \"days=RANGES\" or both, as in \"hours=2-5 days=mon-fri\"")]
    Schedule,
    /// An invalid registration.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
}

impl Controls {
    /// No limits at all.
    pub const NONE: Controls =
        Controls { noop: false, poll: None, limit: None, semaphore: None, schedule: None, register: Vec::new() };

    /// Parses a line of a scan report. Returns true if its key is a control.
    pub(crate) fn take(&mut self, key: &BStr, value: &BStr) -> Result<bool, ControlError> {
        let text = value.to_str().unwrap_or_default().trim();
        match key.to_str().unwrap_or_default() {
            NOOP if text == "yes" => self.noop = true,
            NOOP => return Err(ControlError::Noop),
            POLL => self.poll = Some(interval(duration::parse(text)?)?),
            LIMIT => self.limit = Some(text.parse()?),
            SEMAPHORE => self.semaphore = Some(text.parse()?),
            SCHEDULE => self.schedule = Some(text.parse()?),
            REGISTER => self.register.push(Registration::parse(text)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Writes a line for each control that is set.
    pub(crate) fn write(&self, line: &mut impl FnMut(&[u8], &[u8])) {
        let Controls { noop, poll, limit, semaphore, schedule, register } = self;
        let values = [
            (NOOP, noop.then(|| "yes".to_owned())),
            (POLL, poll.map(|poll| duration::shown(poll).to_string())),
            (LIMIT, limit.as_ref().map(ToString::to_string)),
            (SEMAPHORE, semaphore.as_ref().map(ToString::to_string)),
            (SCHEDULE, schedule.as_ref().map(ToString::to_string)),
        ];
        for (key, value) in values {
            value.iter().for_each(|value| line(key.as_bytes(), value.as_bytes()));
        }
        register.iter().for_each(|service| line(REGISTER.as_bytes(), service.to_string().as_bytes()));
    }
}

/// Checks that an interval is long enough for polling.
///
/// # Errors
/// If it is shorter than a second.
pub fn interval(duration: Duration) -> Result<Duration, ControlError> {
    if duration < LEAST { Err(ControlError::TooShort) } else { Ok(duration) }
}

impl Limit {
    /// The limit for entities that do not set one.
    pub const DEFAULT: Limit = Limit { times: 3, within: Duration::from_secs(10 * 60) };
}

impl FromStr for Limit {
    type Err = ControlError;

    fn from_str(text: &str) -> Result<Limit, ControlError> {
        let (times, within) = text.split_once('/').ok_or(ControlError::Limit)?;
        let times = times.trim().parse().map_err(|_| ControlError::Limit)?;
        let within = interval(duration::parse(within.trim())?)?;
        if times == 0 { Err(ControlError::NoRepair) } else { Ok(Limit { times, within }) }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.times, duration::shown(self.within))
    }
}

impl FromStr for Semaphore {
    type Err = ControlError;

    fn from_str(text: &str) -> Result<Semaphore, ControlError> {
        let (name, count) = text.rsplit_once(':').ok_or(ControlError::Semaphore)?;
        let count = count.parse().ok().filter(|&count| count > 0).ok_or(ControlError::Semaphore)?;
        let is_name = !name.is_empty() && name.trim() == name && !name.contains(char::is_control);
        if is_name { Ok(Semaphore { name: name.to_owned(), count }) } else { Err(ControlError::Semaphore) }
    }
}

impl fmt::Display for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.count)
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[(&str, &str)]) -> Result<Controls, ControlError> {
        let mut controls = Controls::NONE;
        for (key, value) in lines {
            assert!(controls.take(BStr::new(key), BStr::new(value))?, "{key}");
        }
        Ok(controls)
    }

    #[test]
    fn what_is_written_is_read_again() {
        let controls = read(&[
            ("NOOP", "yes"),
            ("POLL", "90s"),
            ("LIMIT", "5/1h"),
            ("SEMAPHORE", "a:b:2"),
            ("SCHEDULE", "days=mon-fri hours=22:30-4,12-13"),
            ("REGISTER", r#"{"cluster":"a","service":"b","protocol":"c","port":1,"priority":2,"ttl":9}"#),
            ("REGISTER", r#"{"cluster":"a","service":"b","protocol":"c","port":2,"priority":2,"ttl":9}"#),
        ])
        .unwrap();
        assert_eq!(controls.poll, Some(Duration::from_secs(90)));
        assert_eq!(controls.limit, Some(Limit { times: 5, within: Duration::from_secs(3600) }));
        assert_eq!(controls.semaphore, Some(Semaphore { name: "a:b".to_owned(), count: 2 }));
        let mut lines = Vec::new();
        controls.write(&mut |key, value| {
            lines.push((String::from_utf8(key.into()).unwrap(), String::from_utf8(value.into()).unwrap()));
        });
        assert_eq!(controls.register.iter().map(|service| service.port).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(lines[4].1, "hours=22:30-4,12-13 days=mon-fri");
        let again: Vec<(&str, &str)> = lines.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(read(&again).unwrap(), controls);
        assert_eq!(Controls::default().take(BStr::new("AFTER"), BStr::new("x")), Ok(false));
    }

    #[test]
    fn wrong_values_are_refused() {
        for (key, value, says) in [
            ("NOOP", "no", "expected \"yes\""),
            ("POLL", "5", "needs a unit"),
            ("POLL", "10ms", "too short"),
            ("LIMIT", "3", "as in \"3/10m\""),
            ("LIMIT", "x/10m", "as in \"3/10m\""),
            ("LIMIT", "-1/10m", "as in \"3/10m\""),
            ("LIMIT", "0/10m", "at least one repair"),
            ("LIMIT", "3/0s", "too short"),
            ("SEMAPHORE", "db", "as in \"db:2\""),
            ("SEMAPHORE", ":2", "as in \"db:2\""),
            ("SEMAPHORE", "db:0", "as in \"db:2\""),
            ("SCHEDULE", "", "hours=RANGES"),
            ("SCHEDULE", "hours=2-5 hours=3-4", "hours=RANGES"),
            ("SCHEDULE", "2-5", "hours=RANGES"),
            ("SCHEDULE", "hours=2", "as in \"2-5\""),
            ("SCHEDULE", "days=weekdays", "as in \"mon-fri\""),
            ("REGISTER", "web", "as JSON"),
        ] {
            let error = read(&[(key, value)]).unwrap_err().to_string();
            assert!(error.contains(says), "{key}: {value}: {error}");
        }
    }
}
