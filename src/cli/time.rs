//! Parses times as people write them.

use jiff::civil::DateTime;
use jiff::{Timestamp, ToSpan, Zoned};

/// A text that is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a time is a duration until now, as in 90m, 12h or 7d; a date, as in 2026-11-22; a date and a time, as in \"2026-11-22 09:14\"; today or yesterday"
)]
pub struct TimeError;

/// Parses a time: a duration before now, or a date in the system's time zone or the one that it names.
///
/// # Errors
/// If the text is not a time.
pub fn parse(text: &str) -> Result<Timestamp, TimeError> {
    parse_at(text, &Zoned::now())
}

fn parse_at(text: &str, now: &Zoned) -> Result<Timestamp, TimeError> {
    let midnight = |day: Zoned| day.start_of_day().map(|day| day.timestamp()).map_err(|_| TimeError);
    match text {
        "now" => return Ok(now.timestamp()),
        "today" => return midnight(now.clone()),
        "yesterday" => return midnight(now.checked_sub(1.day()).map_err(|_| TimeError)?),
        _ => {}
    }
    if let Ok(duration) = holo_definitions::duration::parse(text) {
        return now.timestamp().checked_sub(duration).map_err(|_| TimeError);
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let time: DateTime = text.parse().map_err(|_| TimeError)?;
    time.to_zoned(now.time_zone().clone()).map(|time| time.timestamp()).map_err(|_| TimeError)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    #[test]
    fn times_use_their_own_zone_or_the_systems() {
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let now = "2026-11-22T09:14:03Z".parse::<Timestamp>().unwrap().to_zoned(zone);
        for (text, expected) in [
            ("now", "2026-11-22T09:14:03Z"),
            ("today", "2026-11-21T23:00:00Z"),
            ("yesterday", "2026-11-20T23:00:00Z"),
            ("90m", "2026-11-22T07:44:03Z"),
            ("7d", "2026-11-15T09:14:03Z"),
            ("2026-11-20", "2026-11-19T23:00:00Z"),
            ("2026-11-20 14:30", "2026-11-20T13:30:00Z"),
            ("2026-11-20T14:30:00Z", "2026-11-20T14:30:00Z"),
            ("2026-11-20T14:30:00+02:00", "2026-11-20T12:30:00Z"),
        ] {
            assert_eq!(parse_at(text, &now).unwrap().to_string(), expected, "{text}");
        }
        for text in ["", "soon", "5", "2026-13-01", "-1h", "999999999y"] {
            assert_eq!(parse_at(text, &now), Err(TimeError), "{text}");
        }
    }
}
