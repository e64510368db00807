//! Dotted keys, such as `os.id`, `mounts.0.path` or `hosts."web1.example.org".role`.

use serde_json::Value;

/// A text that is not a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A part is empty.
    #[error("{0:?} is not a key: a part of it is empty")]
    EmptyPart(String),
    /// A quote is not closed.
    #[error("{0:?} is not a key: a quote is not closed")]
    OpenQuote(String),
}

/// Splits a key at its dots. A part in double quotes may contain dots; a backslash escapes the next letter.
///
/// # Errors
/// If a part is empty or a quote is not closed.
pub fn parts(key: &str) -> Result<Vec<String>, KeyError> {
    let mut parts = vec![String::new()];
    let (mut quoted, mut was_quoted) = (false, false);
    let mut letters = key.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => (quoted, was_quoted) = (!quoted, true),
            '.' if !quoted => {
                if !was_quoted && parts.last().is_some_and(String::is_empty) {
                    return Err(KeyError::EmptyPart(key.to_owned()));
                }
                was_quoted = false;
                parts.push(String::new());
            }
            letter => {
                let letter = if quoted && letter == '\\' { letters.next() } else { Some(letter) };
                parts.last_mut().into_iter().zip(letter).for_each(|(part, letter)| part.push(letter));
            }
        }
    }
    if quoted {
        Err(KeyError::OpenQuote(key.to_owned()))
    } else if !was_quoted && parts.last().is_some_and(String::is_empty) {
        Err(KeyError::EmptyPart(key.to_owned()))
    } else {
        Ok(parts)
    }
}

/// Appends a part to a key, quoted if it would be ambiguous otherwise.
#[must_use]
pub fn join(key: &str, part: &str) -> String {
    let plain = !part.is_empty() && !part.contains(['.', '"', '\\']) && !part.contains(char::is_control);
    let part = if plain { part.to_owned() } else { format!("\"{}\"", part.replace('\\', r"\\").replace('"', "\\\"")) };
    if key.is_empty() { part } else { format!("{key}.{part}") }
}

/// Returns a key for messages, escaped if it contains control characters.
#[must_use]
pub fn shown(key: &str) -> String {
    if key.contains(char::is_control) { format!("{key:?}") } else { key.to_owned() }
}

/// Returns the value of a key. Numbers are indexes into lists, counted from 0.
///
/// # Errors
/// If the key is invalid ([`parts`]).
pub fn find<'a>(value: &'a Value, key: &str) -> Result<Option<&'a Value>, KeyError> {
    let mut found = Some(value);
    for part in parts(key)? {
        found = match found {
            Some(Value::Object(table)) => table.get(&part),
            Some(Value::Array(list)) => part.parse().ok().and_then(|place: usize| list.get(place)),
            _ => None,
        };
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_taken_apart_and_put_together() {
        for (key, expected) in [
            ("a", vec!["a"]),
            ("a.b c.0", vec!["a", "b c", "0"]),
            (r#"a."b.c".d"#, vec!["a", "b.c", "d"]),
            (r#""""#, vec![""]),
            (r#""a\"\\b""#, vec![r#"a"\b"#]),
        ] {
            let parts = parts(key).unwrap();
            assert_eq!(parts, expected);
            assert_eq!(parts.iter().fold(String::new(), |key, part| join(&key, part)), key);
        }
        for key in ["", ".", "a.", ".a", "a..b", "\"a", "a.\"b"] {
            assert!(parts(key).is_err(), "{key}");
        }
    }

    #[test]
    fn keys_lead_through_tables_and_lists() {
        let value = json!({"a": {"b.c": [1, {"d": null}]}});
        let find = |key| find(&value, key).unwrap();
        assert_eq!(find("a.\"b.c\".0"), Some(&json!(1)));
        assert_eq!(find("a.\"b.c\".1.d"), Some(&Value::Null));
        for missing in ["b", "a.b", "a.\"b.c\".2", "a.\"b.c\".x", "a.\"b.c\".0.x"] {
            assert_eq!(find(missing), None, "{missing}");
        }
    }
}
