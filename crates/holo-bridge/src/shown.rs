//! Attributes as shown to users: in reports, and in the output of test mode.

use crate::attributes::Attributes;
use crate::sensitive::{HIDDEN, Sensitive};
use holo_plugin::{EntityReport, quoted};
use serde_json::Value;

/// The maximum length of a value that is shown.
const LONGEST: usize = 200;

/// Adds a line `with: NAME = VALUE` for each attribute.
pub fn inform(report: &mut EntityReport, attributes: &Attributes, sensitive: &Sensitive) {
    for (name, value) in attributes.iter() {
        report.inform("with", format!("{name} = {}", value_of(name, value, sensitive)));
    }
}

/// Returns the line of test mode for a request to a module: `MOCK: KIND WORD … NAME=VALUE …`.
#[must_use]
pub fn mock(words: &[&str], attributes: &Attributes, sensitive: &Sensitive) -> String {
    let mut line = String::from("MOCK:");
    let settings = attributes.iter().map(|(name, value)| format!("{name}={}", value_of(name, value, sensitive)));
    for word in words.iter().map(|word| one_line(word)).chain(settings) {
        line.push(' ');
        line.push_str(&quoted(&word));
    }
    line
}

/// Returns the value of an attribute as shown to users.
#[must_use]
pub fn value_of(name: &str, value: &Value, sensitive: &Sensitive) -> String {
    if sensitive.hides(name) { HIDDEN.to_owned() } else { cut(&sensitive.hide(&compact(value))) }
}

/// Returns compact JSON, without the quotes of a plain string.
#[must_use]
pub fn compact(value: &Value) -> String {
    let text = value.to_string();
    match value {
        Value::String(_) => text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(&text).to_owned(),
        _ => text,
    }
}

/// Returns a text with line breaks escaped.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.replace("\r\n", "\\n").replace('\n', "\\n").replace('\r', "\\r")
}

fn cut(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = (0..=LONGEST).rev().find(|&end| text.is_char_boundary(end)).unwrap_or_default();
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn attributes() -> Attributes {
        let mut attributes = Attributes::default();
        attributes.insert("b", json!({"x": [1, "two"], "a": null}));
        attributes.insert("a", "a line\nand \"more\"");
        attributes.insert("n", 2.5);
        attributes.insert("empty", "");
        attributes.insert("token", "hidden text");
        attributes.insert("url", "http://hidden text@host/");
        attributes
    }

    #[test]
    fn a_report_has_a_line_for_each_attribute() {
        let attributes = attributes();
        let sensitive = Sensitive::new(&["token".to_owned()], [&attributes]);
        let mut report = EntityReport::new("a:b");
        inform(&mut report, &attributes, &sensitive);
        let lines: Vec<String> =
            report.information.iter().map(|line| format!("{}: {}", line.key, line.value)).collect();
        assert_eq!(
            lines,
            [
                "with: a = a line\\nand \\\"more\\\"",
                "with: b = {\"a\":null,\"x\":[1,\"two\"]}",
                "with: empty = ",
                "with: n = 2.5",
                "with: token = (sensitive)",
                "with: url = http://(sensitive)@host/",
            ]
        );
    }

    #[test]
    fn a_long_value_is_cut_between_letters() {
        let shown = |text: String| value_of("a", &Value::from(text), &Sensitive::default());
        assert_eq!(shown("x".repeat(200)), "x".repeat(200));
        assert_eq!(shown("x".repeat(201)), format!("{}…", "x".repeat(200)));
        assert_eq!(shown(format!("x{}", "ä".repeat(100))), format!("x{}…", "ä".repeat(99)));
    }

    #[test]
    fn what_would_be_asked_is_quoted_as_in_version_3() {
        let attributes = attributes();
        let sensitive = Sensitive::new(&["token".to_owned()], [&attributes]);
        assert_eq!(
            mock(&["promise", "git", "/a b"], &attributes, &sensitive),
            "MOCK: promise git '/a b' 'a=a line\\nand \\\"more\\\"' b={\"a\":null,\"x\":[1,\"two\"]} empty= n=2.5 \
             token=(sensitive) url=http://(sensitive)@host/"
        );
        assert_eq!(mock(&["task", ""], &Attributes::default(), &sensitive), "MOCK: task ''");
    }
}
