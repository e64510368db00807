//! Human-readable durations, as in command lines, the environment and definitions.

use std::fmt;
use std::time::Duration;

/// The maximum length of a duration, and of a run of digits in it.
const MAX_LENGTH: usize = 100;
const MAX_DIGITS: usize = 9;

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text is longer than any sensible duration.
    #[error("that is too long for a duration")]
    TooLong,
    /// The duration is too large to represent.
    #[error("that is too long, or too exact, for a duration")]
    Overflow,
    /// A number has no unit.
    #[error("a duration needs a unit, as in {0}s, {0}m or {0}h")]
    NoUnit(u64),
    /// A unit is unknown.
    #[error("{0:?} is not a unit of durations, which are ms, s, m, h and d")]
    UnknownUnit(String),
    /// The text has another form.
    #[error("a duration is a number with a unit, or several, as in 500ms, 90s, 1m30s, 1.5h or 1d")]
    Form,
}

/// Parses numbers with units: `500ms`, `90s`, `1m30s`, `1.5h`, `1d`. A number without a unit is not a duration.
///
/// # Errors
/// If the text is not a duration.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let is_too_long = text.split(|letter: char| !letter.is_ascii_digit()).any(|digits| digits.len() > MAX_DIGITS);
    if is_too_long || text.len() > MAX_LENGTH {
        return Err(DurationError::TooLong);
    }
    humantime::parse_duration(text).map_err(|error| match error {
        humantime::DurationError::UnknownUnit { unit, value, .. } if unit.is_empty() => DurationError::NoUnit(value),
        humantime::DurationError::UnknownUnit { unit, .. } => DurationError::UnknownUnit(unit),
        humantime::DurationError::NumberOverflow => DurationError::Overflow,
        _ => DurationError::Form,
    })
}

/// Formats a duration as [`parse`] reads it.
pub fn shown(duration: Duration) -> impl fmt::Display {
    humantime::format_duration(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("90s", 90_000),
            ("1.5s", 1_500),
            ("5m", 300_000),
            ("1m30s", 90_000),
            ("1h 30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("1d", 86_400_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_explained() {
        for (text, says) in [
            ("5", "a duration needs a unit, as in 5s, 5m or 5h"),
            ("1m30", "a duration needs a unit, as in 30s, 30m or 30h"),
            ("5 parsecs", "\"parsecs\" is not a unit"),
            ("", "a number with a unit"),
            ("s", "a number with a unit"),
            ("-1s", "a number with a unit"),
            ("1,5s", "a number with a unit"),
            ("99999999999999999999s", "too long"),
            ("999999999y", ""),
            ("0.0000000001s", "too long"),
        ] {
            let result = parse(text);
            assert!(says.is_empty() || result.clone().unwrap_err().to_string().contains(says), "{text}: {result:?}");
        }
        // Overflow is an error, not a panic.
        let most = ["999999999y"; 10].concat();
        assert!(parse(&most).is_ok() && parse(&format!("{most}1s")).is_err());
    }
}
