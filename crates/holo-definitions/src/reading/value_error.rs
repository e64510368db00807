//! Errors in deserialized values, with an explanation of what is valid, such as the name that a misspelt one probably stands for.

use serde::de::{self, Expected, Unexpected};
use std::fmt::{self, Display};
use std::ops::Range;
use toml::de::DeValue;

/// An error in a table: `KEY: PROBLEM`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    /// The path to the value, from the inside out.
    path: Vec<Part>,
    span: Option<Range<usize>>,
    problem: Problem,
}

/// A step of the path to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Key(String),
    Index(usize),
}

/// The kind of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The key is unknown; these are valid.
    UnknownKey(&'static [&'static str]),
    /// The key is required.
    Missing,
    /// The value has another type than expected.
    Type {
        /// The expected value, in words.
        expected: String,
        /// The actual value, in words.
        found: String,
    },
    /// Any other error, in words.
    Other(String),
}

impl ValueError {
    /// Sets the location, unless a more precise one is known already.
    pub(super) fn at(mut self, span: &Range<usize>) -> ValueError {
        self.span.get_or_insert_with(|| span.clone());
        self
    }

    pub(super) fn within(mut self, part: Part) -> ValueError {
        self.path.push(part);
        self
    }

    /// Sets the actual value, as written in the file.
    pub(super) fn found(mut self, text: String) -> ValueError {
        if let Problem::Type { found, .. } = &mut self.problem {
            *found = text;
        }
        self
    }

    /// Handles a text where another type was expected: the text is only shown if it would be valid without the quotes.
    pub(super) fn found_text(self, text: &str) -> ValueError {
        let Problem::Type { expected, .. } = &self.problem else { return self };
        let is_expected = match expected.as_str() {
            "true or false" => text == "true" || text == "false",
            "a number" => text.parse::<f64>().is_ok(),
            expected => expected.starts_with("a whole number") && text.parse::<i64>().is_ok(),
        };
        if is_expected { self.found(format!("{text:?}")) } else { self }
    }

    pub(super) fn of_no_variant(variants: &[&str], found: &str) -> ValueError {
        ValueError::new(Problem::Type { expected: one_of(variants), found: found.to_owned() })
    }

    fn new(problem: Problem) -> ValueError {
        ValueError { path: Vec::new(), span: None, problem }
    }

    /// Returns the problem.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Returns the location in the file.
    #[must_use]
    pub fn span(&self) -> Option<Range<usize>> {
        self.span.clone()
    }

    /// Returns the key in the root table.
    #[must_use]
    pub fn top_key(&self) -> Option<&str> {
        match self.path.last() {
            Some(Part::Key(key)) => Some(key),
            _ => None,
        }
    }

    /// Returns true if the error is about a key of the root table, not one in a nested value.
    #[must_use]
    pub fn is_at_top(&self) -> bool {
        self.path.len() == 1
    }

    /// Returns the message without the key.
    #[must_use]
    pub fn message(&self) -> String {
        match &self.problem {
            Problem::UnknownKey(known) => {
                let key = self.key();
                unknown_key(key.rsplit('.').next().unwrap_or_default(), known, "")
            }
            Problem::Missing => "is missing".to_owned(),
            Problem::Type { expected, found } => {
                format!("expected {expected}, found {found}{}", hint(expected, found))
            }
            Problem::Other(text) => text.clone(),
        }
    }

    /// Returns the path to the value, such as `health_check[0].command`.
    #[must_use]
    pub fn key(&self) -> String {
        let mut key = String::new();
        for part in self.path.iter().rev() {
            match part {
                Part::Key(part) => {
                    if !key.is_empty() {
                        key.push('.');
                    }
                    if part.chars().any(char::is_control) {
                        key.extend(part.escape_debug());
                    } else {
                        key.push_str(part);
                    }
                }
                Part::Index(index) => key.push_str(&format!("[{index}]")),
            }
        }
        key
    }
}

impl Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key();
        if !key.is_empty() {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.message())
    }
}

/// Returns the message for an unknown key, with the valid ones. `more` describes further valid keys.
#[must_use]
pub fn unknown_key(key: &str, known: &[&str], more: &str) -> String {
    match (did_you_mean(key, known.iter().copied()), known) {
        (Some(hint), _) => format!("unknown key, {hint}"),
        (None, []) => "unknown key".to_owned(),
        (None, known) => format!("unknown key, expected {}{more}", one_of(known)),
    }
}

fn one_of(names: &[&str]) -> String {
    match names {
        [one] => (*one).to_owned(),
        names => format!("one of {}", names.join(", ")),
    }
}

/// Returns a remedy for a value of the wrong type, if there is an obvious one.
fn hint(expected: &str, found: &str) -> String {
    let is_number = found.starts_with(|letter: char| letter.is_ascii_digit()) && !found.contains(' ');
    match expected {
        "a string" if is_number => {
            let digits = found.strip_prefix("0o").unwrap_or(found);
            format!("; write it in quotes: \"{digits}\"")
        }
        // A text is only shown if its content is a valid value in quotes.
        _ if found.starts_with('"') => "; write it without quotes".to_owned(),
        "a list" => "; write it in brackets: [...]".to_owned(),
        _ => String::new(),
    }
}

/// Returns serde's expectation in TOML terms.
fn expected_words(expected: &dyn Expected) -> String {
    let words = expected.to_string();
    match words.as_str() {
        "u8" => "a whole number from 0 to 255".to_owned(),
        "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative".to_owned(),
        "i8" | "i16" | "i32" | "i64" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        _ if words.starts_with("struct ") => "a table".to_owned(),
        _ => words.replace("an array of length ", "a list of "),
    }
}

/// Returns the valid range for a number that is too large for its type.
fn limit(expected: &dyn Expected) -> Option<String> {
    let most = match expected.to_string().as_str() {
        "u16" => u32::from(u16::MAX),
        "u32" => u32::MAX,
        _ => return None,
    };
    Some(format!("a whole number up to {most}"))
}

/// Returns the kind of a value.
#[must_use]
pub fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// Describes the actual value. Texts are not shown.
fn found_words(found: &Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(truth) => truth.to_string(),
        Unexpected::Unsigned(number) => number.to_string(),
        Unexpected::Signed(number) => number.to_string(),
        Unexpected::Float(number) => number.to_string(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a table".to_owned(),
        Unexpected::Str(_) | Unexpected::Char(_) => "a string".to_owned(),
        other => other.to_string(),
    }
}

impl de::Error for ValueError {
    fn custom<T: Display>(text: T) -> ValueError {
        ValueError::new(Problem::Other(text.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> ValueError {
        let too_large =
            if let Unexpected::Signed(0..) | Unexpected::Unsigned(_) = found { limit(expected) } else { None };
        let expected = too_large.unwrap_or_else(|| expected_words(expected));
        ValueError::new(Problem::Type { expected, found: found_words(&found) })
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> ValueError {
        ValueError::invalid_type(found, expected)
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> ValueError {
        ValueError::new(Problem::Type { expected: expected_words(expected), found: format!("{length} of them") })
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> ValueError {
        let hint = did_you_mean(variant, expected.iter().copied());
        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
        ValueError::new(Problem::Other(format!("expected {}, found {variant:?}{hint}", one_of(expected))))
    }

    fn unknown_field(_: &str, expected: &'static [&'static str]) -> ValueError {
        ValueError::new(Problem::UnknownKey(expected))
    }

    fn missing_field(field: &'static str) -> ValueError {
        ValueError::new(Problem::Missing).within(Part::Key(field.to_owned()))
    }

    fn duplicate_field(field: &'static str) -> ValueError {
        ValueError::new(Problem::Other("is set twice".to_owned())).within(Part::Key(field.to_owned()))
    }
}

impl std::error::Error for ValueError {}

/// At most one in this many letters of a word may differ.
const SLIPS: usize = 3;
/// The maximum length in bytes of words that are compared.
const MAX_LENGTH: usize = 160;

/// Returns the word that was probably meant, if any is similar enough.
#[must_use]
pub fn similar<'w>(written: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let plain = |word: &str| word.to_ascii_lowercase().replace(['-', ' '], "_");
    let written = plain(written);
    // Comparing long words is slow.
    if written.len() > MAX_LENGTH {
        return None;
    }
    let all = words.into_iter().filter(|word| word.len().abs_diff(written.len()) * SLIPS <= word.len() + SLIPS);
    let all = all.map(|word| {
        let word_plain = plain(word);
        // An extra or missing s is the most common slip, even in short words.
        let is_plural =
            written.strip_suffix('s') == Some(&word_plain) || word_plain.strip_suffix('s') == Some(&written);
        let distance = if is_plural { 1 } else { strsim::damerau_levenshtein(&written, &word_plain) };
        // So are two transposed letters.
        let is_slip = is_plural || (distance == 1 && sorted(&written) == sorted(&word_plain));
        (distance, is_slip, word)
    });
    let close = all.filter(|(distance, is_slip, word)| *is_slip || *distance * SLIPS < word.len());
    close.min_by_key(|(distance, ..)| *distance).map(|(.., word)| word)
}

fn sorted(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
}

/// Returns a question that suggests the similar word.
#[must_use]
pub fn did_you_mean<'w>(written: &str, words: impl IntoIterator<Item = &'w str>) -> Option<String> {
    similar(written, words).map(|word| format!("did you mean {word}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        let words = ["name", "ensure", "refresh_only", "path", "mode", "if", "now", "git"];
        for (written, meant) in [
            ("nmae", Some("name")),
            ("Name", Some("name")),
            ("names", Some("name")),
            ("ensrue", Some("ensure")),
            ("refreshonly", Some("refresh_only")),
            ("refresh-only", Some("refresh_only")),
            ("Mode", Some("mode")),
            ("state", None),
            ("x", None),
            ("of", None),
            ("mod", Some("mode")),
            ("pat", Some("path")),
            ("not", None),
            ("gti", Some("git")),
            ("got", None),
            ("", None),
        ] {
            assert_eq!(similar(written, words), meant, "{written}");
        }
    }
}
