//! Schedules in the system's time zone.

pub use holo_protocol::Schedule;

use holo_protocol::controls::Day;
use jiff::civil::Time;
use jiff::{ToSpan, Zoned};

/// Returns true if the schedule permits changes at this time.
#[must_use]
pub fn is_open(schedule: &Schedule, now: &Zoned) -> bool {
    let minute = i32::from(now.hour()) * 60 + i32::from(now.minute());
    schedule.contains(day(now), u16::try_from(minute).unwrap_or_default())
}

/// Returns the next time at which a closed schedule permits changes; `None` if there is none.
#[must_use]
pub fn next_opening(schedule: &Schedule, now: &Zoned) -> Option<Zoned> {
    // If the start falls into the hour skipped by a clock change, it is an hour later, or in the following week.
    (0..=8).find_map(|days| {
        let date = now.checked_add(days.days()).ok()?;
        let begin = |minute: u16| {
            let time = Time::new(i8::try_from(minute / 60).ok()?, i8::try_from(minute % 60).ok()?, 0, 0).ok()?;
            date.date().to_datetime(time).to_zoned(now.time_zone().clone()).ok()
        };
        schedule.begins(day(&date)).filter_map(begin).filter(|begin| begin > now).min()
    })
}

/// Returns the next time at which the schedule opens or closes; `None` if it does neither within eight days.
#[must_use]
pub fn next_change(schedule: &Schedule, now: &Zoned) -> Option<Zoned> {
    let is_open_now = is_open(schedule, now);
    let minute = now.round(jiff::ZonedRound::new().smallest(jiff::Unit::Minute).mode(jiff::RoundMode::Trunc)).ok()?;
    let minutes = (1..=8 * 24 * 60).map_while(|minutes: i32| minute.checked_add(minutes.minutes()).ok());
    minutes.into_iter().find(|time| is_open(schedule, time) != is_open_now)
}

fn day(time: &Zoned) -> Day {
    Day::from_monday(u8::try_from(time.weekday().to_monday_zero_offset()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Zoned {
        text.parse().unwrap()
    }

    #[test]
    fn it_is_local_time_that_counts() {
        let schedule: Schedule = "hours=2-5 days=mon-fri".parse().unwrap();
        // This is a Friday.
        assert!(is_open(&schedule, &at("2026-11-20T04:59:59+01:00[Europe/Berlin]")));
        assert!(!is_open(&schedule, &at("2026-11-20T05:00:00+01:00[Europe/Berlin]")));
        assert!(!is_open(&schedule, &at("2026-11-21T03:00:00+01:00[Europe/Berlin]")));
    }

    #[test]
    fn the_next_change_may_be_an_opening_or_a_closing() {
        let next =
            |schedule: &str, now: &str| next_change(&schedule.parse().unwrap(), &at(now)).map(|time| time.to_string());
        let friday = "2026-11-20T04:59:59.9+01:00[Europe/Berlin]";
        assert_eq!(next("hours=2-5 days=mon-fri", friday).as_deref(), Some("2026-11-20T05:00:00+01:00[Europe/Berlin]"));
        let closed = "2026-11-20T05:00:00+01:00[Europe/Berlin]";
        assert_eq!(next("hours=2-5 days=mon-fri", closed).as_deref(), Some("2026-11-23T02:00:00+01:00[Europe/Berlin]"));
        assert_eq!(next("days=mon-sun", closed), None);
        // An hour that occurs twice is open twice.
        let twice = "2026-10-25T02:30:00+02:00[Europe/Berlin]";
        assert_eq!(next("hours=1-3", twice).as_deref(), Some("2026-10-25T03:00:00+01:00[Europe/Berlin]"));
    }

    #[test]
    fn the_next_opening_may_be_days_away() {
        let next = |schedule: &str, now: &str| next_opening(&schedule.parse().unwrap(), &at(now)).unwrap().to_string();
        let friday = "2026-11-20T05:00:00+01:00[Europe/Berlin]";
        assert_eq!(next("hours=2-5 days=mon-fri", friday), "2026-11-23T02:00:00+01:00[Europe/Berlin]");
        assert_eq!(next("hours=12-13,6:30-7", friday), "2026-11-20T06:30:00+01:00[Europe/Berlin]");
        assert_eq!(next("days=fri", friday), "2026-11-27T00:00:00+01:00[Europe/Berlin]");
        // There is no 2:30 in that night.
        let before = "2026-03-29T01:00:00+01:00[Europe/Berlin]";
        assert_eq!(next("hours=2:30-5", before), "2026-03-29T03:30:00+02:00[Europe/Berlin]");
    }
}
