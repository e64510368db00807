//! The IDs of runs, which sort by time.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The ID of a run, such as `20261122T091403-8f2c1`: its start time in UTC, and the microseconds of that second in five
/// hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(String);

impl RunId {
    /// Returns the ID of a run that begins now.
    #[must_use]
    pub fn now() -> RunId {
        RunId::at(Timestamp::now())
    }

    /// Returns the ID of a run that begins at this time.
    #[must_use]
    pub fn at(time: Timestamp) -> RunId {
        let microseconds = time.subsec_microsecond().unsigned_abs();
        let time = time.to_zoned(TimeZone::UTC).datetime();
        RunId(format!(
            "{:04}{:02}{:02}T{:02}{:02}{:02}-{microseconds:05x}",
            time.year(),
            time.month(),
            time.day(),
            time.hour(),
            time.minute(),
            time.second()
        ))
    }

    /// Wraps the text of an ID.
    #[must_use]
    pub fn from_text(text: &str) -> RunId {
        RunId(text.to_owned())
    }

    /// Returns the text of the ID.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the month of the run in the form used in file names: `2026-11`. `None` if the ID has another form.
    #[must_use]
    pub fn month(&self) -> Option<String> {
        let (year, month) = (self.0.get(..4)?, self.0.get(4..6)?);
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        (is_number(year) && is_number(month)).then(|| format!("{year}-{month}"))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_sort_by_time() {
        let at = |text: &str| RunId::at(text.parse().unwrap());
        assert_eq!(at("2026-11-22T09:14:03.586433Z").as_str(), "20261122T091403-8f2c1");
        assert_eq!(at("2026-11-22T09:14:03.586433Z").month().unwrap(), "2026-11");
        let times =
            ["0999-01-01T00:00:00Z", "2026-11-22T09:14:03.000009Z", "2026-11-22T09:14:03.9Z", "2026-11-22T09:14:04Z"];
        let ids = times.map(at);
        assert!(ids.is_sorted(), "{ids:?}");
        assert_eq!(serde_json::to_string(&ids[1]).unwrap(), "\"20261122T091403-00009\"");
        assert_eq!(serde_json::from_str::<RunId>("\"?\"").unwrap().month(), None);
    }
}
