//! Sensitive values, which are hidden in all output.

use crate::attributes::{Attributes, text, texts};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The placeholder for hidden text.
pub const HIDDEN: &str = "(sensitive)";
/// The minimum length of a hidden text; shorter ones would match everywhere.
const SHORTEST: usize = 4;

/// Texts that are hidden wherever they occur.
#[derive(Clone, Default)]
pub struct Sensitive {
    names: BTreeSet<String>,
    /// Longest first, so that a text is replaced before its parts.
    texts: Vec<String>,
}

impl std::fmt::Debug for Sensitive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sensitive").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Sensitive {
    /// Collects the values of the sensitive names from all attributes that may have them.
    #[must_use]
    pub fn new<'a>(names: &[String], attributes: impl IntoIterator<Item = &'a Attributes>) -> Sensitive {
        let mut sensitive = Sensitive { names: names.iter().cloned().collect(), texts: Vec::new() };
        attributes.into_iter().for_each(|attributes| sensitive.add_values(attributes.iter()));
        sensitive
    }

    /// Adds the values of the sensitive names in further attributes.
    pub fn add_values<'a>(&mut self, values: impl IntoIterator<Item = (&'a str, &'a Value)>) {
        values.into_iter().for_each(|(name, value)| self.add_named(name, value));
        self.sort();
    }

    /// Adds the texts of another instance: a module may print in one answer what it received earlier.
    pub fn unite(&mut self, other: &Sensitive) {
        if other.texts.iter().any(|text| !self.texts.contains(text)) {
            self.texts.extend(other.texts.iter().cloned());
            self.sort();
        }
    }

    /// Returns true if there are no names or texts to hide.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.texts.is_empty()
    }

    /// Returns true if the attribute's value is hidden.
    #[must_use]
    pub fn hides(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Returns a text with all sensitive parts hidden.
    #[must_use]
    pub fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut hidden = Cow::Borrowed(text);
        for secret in &self.texts {
            if hidden.contains(secret.as_str()) {
                hidden = Cow::Owned(hidden.replace(secret.as_str(), HIDDEN));
            }
        }
        hidden
    }

    /// Adds the value of a sensitive name, or those of the sensitive names in a table or list.
    fn add_named(&mut self, name: &str, value: &Value) {
        match value {
            _ if self.names.contains(name) => self.add(value),
            Value::Object(fields) => fields.iter().for_each(|(name, value)| self.add_named(name, value)),
            Value::Array(items) => items.iter().for_each(|value| self.add_named("", value)),
            _ => {}
        }
    }

    fn add(&mut self, value: &Value) {
        let nested = texts(value).into_iter().map(str::to_owned);
        for secret in nested.chain(text(value)) {
            // Line-wise output never contains the whole text.
            let lines = secret.lines().map(str::to_owned);
            for part in lines.chain([secret.clone()]).collect::<BTreeSet<String>>() {
                self.texts.extend([escaped(&part, false), escaped(&part, true), part]);
            }
        }
    }

    fn sort(&mut self) {
        self.texts.retain(|text| text.len() >= SHORTEST);
        self.texts.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        self.texts.dedup();
    }
}

/// Returns the text in JSON notation without the quotes; with only ASCII if requested, like some serializers.
#[must_use]
pub fn escaped(text: &str, only_ascii: bool) -> String {
    let quoted = Value::from(text).to_string();
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
    if !only_ascii || inner.is_ascii() {
        return inner.to_owned();
    }
    let mut ascii = String::new();
    for letter in inner.chars() {
        if letter.is_ascii() {
            ascii.push(letter);
        } else {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(ascii, "\\u{unit:04x}");
            }
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sensitive(value: Value) -> Sensitive {
        let mut attributes = Attributes::default();
        attributes.insert("token", value);
        attributes.insert("open", "sesame!");
        Sensitive::new(&["token".to_owned()], [&attributes])
    }

    #[test]
    fn a_value_is_hidden_wherever_it_occurs() {
        let hides = sensitive(json!("s3cr\"et"));
        assert_eq!(hides.hide("s3cr\"et and s3cr\"et, sesame!"), "(sensitive) and (sensitive), sesame!");
        assert_eq!(hides.hide("{\"a\": \"s3cr\\\"et\"}"), "{\"a\": \"(sensitive)\"}");
        assert!(hides.hides("token") && !hides.hides("open"));
        assert!(!format!("{hides:?}").contains("s3cr"));
    }

    #[test]
    fn sensitive_names_count_in_nested_tables() {
        let mut attributes = Attributes::default();
        attributes.insert("options", json!([{"token": "s3cret", "name": "open"}]));
        let hides = Sensitive::new(&["token".to_owned()], [&attributes]);
        assert_eq!(hides.hide("s3cret and open"), "(sensitive) and open");
    }

    #[test]
    fn its_json_escape_counts_whatever_it_leaves_in_ascii() {
        let hides = sensitive(json!("pässwörd\t😀"));
        for said in ["pässwörd\t😀", "pässwörd\\t😀", "p\\u00e4ssw\\u00f6rd\\t\\ud83d\\ude00"] {
            assert_eq!(hides.hide(said), HIDDEN, "{said}");
        }
    }

    #[test]
    fn nested_texts_numbers_and_lines_count() {
        let hides = sensitive(json!({"key name": ["inner text", 5], "n": {"m": "first line\nsecond line"}}));
        assert_eq!(hides.hide("inner text: second line first line"), "(sensitive): (sensitive) (sensitive)");
        assert_eq!(hides.hide("first line\nsecond line"), HIDDEN);
        assert_eq!(sensitive(json!(12345)).hide("a 12345"), "a (sensitive)");
    }

    #[test]
    fn what_is_short_would_be_found_everywhere() {
        assert_eq!(sensitive(json!("abc")).hide("abc"), "abc");
        assert_eq!(sensitive(json!(["long enough", "no"])).hide("no, long enough"), "no, (sensitive)");
    }

    #[test]
    fn the_longest_is_hidden_first() {
        let hides = sensitive(json!(["secret", "secret word"]));
        assert_eq!(hides.hide("secret word, secret"), "(sensitive), (sensitive)");
        let mut united = Sensitive::default();
        united.unite(&hides);
        assert_eq!(united.hide("secret word"), HIDDEN);
    }
}
