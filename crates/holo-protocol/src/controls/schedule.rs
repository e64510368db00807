//! Weekly schedules in local time, without knowledge of time zones.

use super::ControlError;
use std::fmt;
use std::str::FromStr;

const MINUTES_OF_DAY: u16 = 24 * 60;
const NAMES: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Times at which an entity may be changed: these hours of these days.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The hours; every hour if `None`.
    pub hours: Option<Hours>,
    /// The days; every day if `None`.
    pub days: Option<Days>,
}

/// Ranges of hours, excluding their ends: `2-5,22:30-4`. A range whose end is not after its start continues past
/// midnight, and belongs to the day on which it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hours(Vec<Window>);

/// A range of minutes of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first minute, counted from midnight.
    pub from: u16,
    /// The first minute after the range.
    pub to: u16,
}

/// Ranges of weekdays: `mon-fri`, `sat,sun`, `fri-mon`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Days(Vec<(Day, Day)>);

/// A weekday, counted from 0 for Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day(u8);

impl Schedule {
    /// Returns true if the schedule includes this minute of this day.
    #[must_use]
    pub fn contains(&self, day: Day, minute: u16) -> bool {
        let is_day = |day| self.days.as_ref().is_none_or(|days| days.contain(day));
        self.windows().iter().any(|window| {
            if window.from < window.to {
                is_day(day) && (window.from..window.to).contains(&minute)
            } else {
                (is_day(day) && minute >= window.from) || (is_day(day.before()) && minute < window.to)
            }
        })
    }

    /// Returns the minutes of this day at which a range starts.
    pub fn begins(&self, day: Day) -> impl Iterator<Item = u16> {
        let is_day = self.days.as_ref().is_none_or(|days| days.contain(day));
        self.windows().iter().filter(move |_| is_day).map(|window| window.from)
    }

    fn windows(&self) -> &[Window] {
        const ALL_DAY: &[Window] = &[Window { from: 0, to: MINUTES_OF_DAY }];
        self.hours.as_ref().map_or(ALL_DAY, |hours| &hours.0)
    }
}

impl Day {
    /// Returns the weekday with this number, where 0 is Monday. Larger numbers wrap around.
    #[must_use]
    pub fn from_monday(number: u8) -> Day {
        Day(number % 7)
    }

    fn before(self) -> Day {
        Day((self.0 + 6) % 7)
    }
}

impl Days {
    fn contain(&self, day: Day) -> bool {
        self.0.iter().any(|&(first, last)| {
            if first.0 <= last.0 { (first.0..=last.0).contains(&day.0) } else { day.0 >= first.0 || day.0 <= last.0 }
        })
    }
}

impl FromStr for Schedule {
    type Err = ControlError;

    /// Parses the form used in scan reports.
    fn from_str(text: &str) -> Result<Schedule, ControlError> {
        let mut schedule = Schedule::default();
        for word in text.split_whitespace() {
            let is_new = match word.split_once('=') {
                Some(("hours", hours)) => schedule.hours.replace(hours.parse()?).is_none(),
                Some(("days", days)) => schedule.days.replace(days.parse()?).is_none(),
                _ => false,
            };
            if !is_new {
                return Err(ControlError::Schedule);
            }
        }
        if schedule == Schedule::default() { Err(ControlError::Schedule) } else { Ok(schedule) }
    }
}

impl FromStr for Hours {
    type Err = ControlError;

    fn from_str(text: &str) -> Result<Hours, ControlError> {
        let window = |range: &str| {
            let (from, to) = range.split_once('-')?;
            let (from, to) = (minute(from)?, minute(to)?);
            (from != to && from < MINUTES_OF_DAY).then_some(Window { from, to })
        };
        let windows = text.split(',').map(|range| window(range.trim()));
        windows.collect::<Option<_>>().map(Hours).ok_or(ControlError::Hours)
    }
}

/// Parses `5` or `5:30`, up to `24`, into minutes.
fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':').unwrap_or((text, "00"));
    let number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse::<u16>().ok());
    let hour = number(hour).flatten().filter(|&hour| hour <= 24)?;
    let minute = number(minute).flatten().filter(|&of_hour| of_hour < 60 && minute.len() == 2)?;
    Some(hour * 60 + minute).filter(|&minute| minute <= MINUTES_OF_DAY)
}

impl FromStr for Days {
    type Err = ControlError;

    fn from_str(text: &str) -> Result<Days, ControlError> {
        let day = |name: &str| {
            let index = NAMES.iter().position(|known| *known == name.trim());
            index.and_then(|index| u8::try_from(index).ok()).map(Day)
        };
        let range = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((day(first)?, day(last)?))
        };
        text.split(',').map(range).collect::<Option<_>>().map(Days).ok_or(ControlError::Days)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.hours, &self.days) {
            (Some(hours), Some(days)) => write!(f, "hours={hours} days={days}"),
            (Some(hours), None) => write!(f, "hours={hours}"),
            (None, Some(days)) => write!(f, "days={days}"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |minute: u16| match (minute / 60, minute % 60) {
            (hour, 0) => hour.to_string(),
            (hour, minute) => format!("{hour}:{minute:02}"),
        };
        let ranges = self.0.iter().map(|window| format!("{}-{}", time(window.from), time(window.to)));
        f.write_str(&ranges.collect::<Vec<_>>().join(","))
    }
}

impl fmt::Display for Days {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |day: Day| NAMES.get(usize::from(day.0)).copied().unwrap_or_default();
        let range = |&(first, last): &(Day, Day)| match first == last {
            true => name(first).to_owned(),
            false => format!("{}-{}", name(first), name(last)),
        };
        f.write_str(&self.0.iter().map(range).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MONDAY: Day = Day(0);
    const FRIDAY: Day = Day(4);
    const SATURDAY: Day = Day(5);
    const SUNDAY: Day = Day(6);

    fn schedule(text: &str) -> Schedule {
        text.parse().unwrap()
    }

    #[test]
    fn hours_go_up_to_their_end() {
        let at = schedule("hours=2-5,12:30-13");
        for (minute, is_in) in
            [(119, false), (120, true), (299, true), (300, false), (749, false), (750, true), (780, false)]
        {
            assert_eq!(at.contains(MONDAY, minute), is_in, "{minute}");
        }
        assert_eq!(at.begins(SUNDAY).collect::<Vec<_>>(), [120, 750]);
        assert!((0..MINUTES_OF_DAY).all(|minute| schedule("hours=0-24").contains(MONDAY, minute)));
    }

    #[test]
    fn a_night_belongs_to_the_day_of_its_evening() {
        let at = schedule("hours=22-4 days=fri,sun");
        assert!(at.contains(FRIDAY, 22 * 60) && at.contains(SATURDAY, 239) && at.contains(MONDAY, 0));
        assert!(!at.contains(FRIDAY, 0) && !at.contains(SATURDAY, 240) && !at.contains(SATURDAY, 23 * 60));
        assert_eq!(at.begins(SATURDAY).count(), 0);
    }

    #[test]
    fn days_go_on_over_the_end_of_the_week() {
        let at = schedule("days=sat-mon");
        assert!([SATURDAY, SUNDAY, MONDAY].iter().all(|&day| at.contains(day, 0) && at.contains(day, 1439)));
        assert!(!at.contains(FRIDAY, 1439));
    }

    #[test]
    fn odd_times_are_refused() {
        for text in [
            "", "-", "2", "2-", "2-2", "5-25", "24-3", "2:60-3", "2:-3", "+2-3", "02:5-3", "2-5,", "100-3", "a-b",
            "2-5-7",
        ] {
            assert_eq!(text.parse::<Hours>(), Err(ControlError::Hours), "{text}");
        }
        for text in ["", "mo", "Monday", "mon-", "mon-fri-sun", "mon fri", "1-5"] {
            assert_eq!(text.parse::<Days>(), Err(ControlError::Days), "{text}");
        }
    }
}
