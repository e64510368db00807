//! Durations as people write them: on command lines and in definitions.

use std::time::Duration;

/// Understands a number with a unit: `500ms`, `90s`, `5m`, `1h`; without one it is seconds.
///
/// # Errors
/// What is wrong with it, in words.
pub fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let milliseconds = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("a duration is a number with ms, s, m or h".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "a duration begins with a number".to_owned())?;
    number.checked_mul(milliseconds).map(Duration::from_millis).ok_or_else(|| "that is too long".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, milliseconds) in
            [("500ms", 500), ("90s", 90_000), ("90", 90_000), ("5m", 300_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)));
        }
        for text in ["", "s", "5d", "-1s", "1.5s", "99999999999999999999s", "9999999999999999999h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
