//! Messages for a file that is not valid TOML.

use toml::de::Error;

/// Returns true if the error is a duplicate key.
#[must_use]
pub fn is_duplicate(error: &Error) -> bool {
    error.message().starts_with("duplicate key")
}

/// Returns the message, with the key of the line if any, and its location. Values are not shown, as they may be
/// secrets.
#[must_use]
pub fn syntax(text: &str, error: &Error) -> (String, usize) {
    let mut offset = error.span().map_or(0, |span| span.start).min(text.len());
    for (kind, quotes) in [("basic", "\"\"\""), ("literal", "'''")] {
        // The parser reports the end of the file, but the opening quotes are more helpful.
        if error.message().starts_with(&format!("invalid multi-line {kind} string")) {
            offset = text.get(..offset).and_then(|before| before.rfind(quotes)).unwrap_or(offset);
        }
    }
    let start = text.as_bytes().iter().take(offset).rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let line = text.get(start..).unwrap_or_default().lines().next().unwrap_or_default();
    let words = words(error, line, || earlier(text, start, line));
    (if let Some(key) = key(line) { format!("{key}: {words}") } else { words }, offset)
}

fn words(error: &Error, line: &str, earlier: impl Fn() -> Option<usize>) -> String {
    let message = error.message().lines().collect::<Vec<_>>().join(", ");
    let message = message.strip_suffix(", expected nothing").unwrap_or(&message);
    let value = line.split_once('=').map_or("", |(_, value)| value.trim());
    let is_value = key(line).is_some() && line.contains('=');
    if is_duplicate(error) {
        return match earlier() {
            Some(line) => format!("is already set in line {line}"),
            None => "is set twice".to_owned(),
        };
    }
    if line.trim_start().starts_with('{') {
        return "expected TOML, and this looks like JSON".to_owned();
    }
    let has_said = |beginning: &str| message.starts_with(beginning);
    if is_value && (value.is_empty() || value.starts_with('#')) {
        return "has no value".to_owned();
    }
    if has_said("unexpected leading zero") {
        let is_mode = key(line).is_some_and(|key| key.contains("mode") || key.contains("mask"));
        return format!("a number cannot begin with 0{}", if is_mode { "; write it in quotes" } else { "" });
    }
    let bare = value.split(|letter: char| letter.is_whitespace() || letter == '#').next().unwrap_or_default();
    if is_value && ["true", "false"].iter().any(|truth| bare.eq_ignore_ascii_case(truth)) && has_said("invalid boolean")
    {
        return "true and false are written in small letters".to_owned();
    }
    let is_bare =
        value.starts_with(|letter: char| letter.is_alphanumeric() || "/.~$-_\u{201c}\u{201e}".contains(letter));
    if is_value
        && is_bare
        && ["string values must be quoted", "invalid float", "invalid boolean"].iter().any(|what| has_said(what))
    {
        if ["yes", "no", "on", "off"].iter().any(|truth| bare.eq_ignore_ascii_case(truth)) {
            return format!("expected true or false, or a string in quotes: \"{bare}\"");
        }
        return "a string has to be in quotes: \"...\"".to_owned();
    }
    if has_said("key with no value") {
        return if line.trim_start().starts_with(['[', '#', '<']) || key(line).is_none() {
            "expected KEY = VALUE or [[TABLE]]".to_owned()
        } else {
            "expected KEY = VALUE".to_owned()
        };
    }
    if has_said("invalid basic string, expected `\"`") || has_said("invalid literal string, expected `'`") {
        return "the quote is not closed".to_owned();
    }
    if has_said("invalid multi-line") && message.contains(", expected `\"`") | message.contains(", expected `'`") {
        return "the three quotes are not closed".to_owned();
    }
    if has_said("missing escaped value") {
        return "a backslash has to be doubled between double quotes, or the string be in single quotes".to_owned();
    }
    if has_said("unclosed array table") {
        return "the brackets are not closed, expected ]]".to_owned();
    }
    if has_said("missing comma between array elements") {
        return "expected a comma, or ] at the end of a list".to_owned();
    }
    if has_said("missing comma between key-value pairs") {
        return "expected a comma, or } at the end of a table".to_owned();
    }
    if message.contains("recurs") {
        return "this is nested too deeply".to_owned();
    }
    message.to_owned()
}

/// Returns the key at the start of a line.
fn key(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let is_part = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
    let end = line.find(|letter| !is_part(letter)).unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    (!key.is_empty() && rest.trim_start().starts_with(['=', ':'])).then_some(key)
}

/// Returns the line of the first occurrence of the line's key in the same table.
fn earlier(text: &str, start: usize, line: &str) -> Option<usize> {
    let wanted = key(line)?;
    let before: Vec<&str> = text.get(..start)?.lines().collect();
    let from = before.iter().rposition(|line| line.trim_start().starts_with('[')).map_or(0, |header| header + 1);
    let found = before.iter().skip(from).position(|line| key(line) == Some(wanted))?;
    Some(from + found + 1)
}
