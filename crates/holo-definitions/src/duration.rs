//! Durations as people write them: on command lines, in the environment and in definitions.

use humantime::DurationError;
use std::time::Duration;

/// The longest text that is looked at, and the most digits in a row: what is longer is not meant.
const MAX_LENGTH: usize = 100;
const MAX_DIGITS: usize = 9;

/// Parses numbers with units: `500ms`, `90s`, `1m30s`, `1.5h`, `1d`. A number without a unit is not a duration.
///
/// # Errors
/// The mistake, in words.
pub fn parse(text: &str) -> Result<Duration, String> {
    let is_too_long = text.split(|letter: char| !letter.is_ascii_digit()).any(|digits| digits.len() > MAX_DIGITS);
    if is_too_long || text.len() > MAX_LENGTH {
        return Err("that is too long for a duration".to_owned());
    }
    humantime::parse_duration(text).map_err(|error| match error {
        DurationError::UnknownUnit { unit, value, .. } if unit.is_empty() => {
            format!("a duration needs a unit, as in {value}s, {value}m or {value}h")
        }
        DurationError::NumberOverflow => "that is too long, or too exact, for a duration".to_owned(),
        DurationError::UnknownUnit { unit, .. } => {
            format!("{unit:?} is not a unit of durations, which are ms, s, m, h and d")
        }
        _ => "a duration is a number with a unit, or several, as in 500ms, 90s, 1m30s, 1.5h or 1d".to_owned(),
    })
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
            assert!(says.is_empty() || result.clone().unwrap_err().contains(says), "{text}: {result:?}");
        }
        // However much is added up, nothing panics.
        let most = ["999999999y"; 10].concat();
        assert!(parse(&most).is_ok() && parse(&format!("{most}1s")).is_err());
    }
}
