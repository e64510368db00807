//! Tests of received values: which types they become, and what is said where they do not fit.
use super::*;
use crate::testing::{NoTemplates, said};
use crate::{Definition, Definitions, Invalid, UntypedDefinition};
use holo_testing::random::cases;
use std::collections::BTreeMap;
use std::fs;

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Thing {
    name: String,
    text: Option<String>,
    number: Option<i64>,
    port: Option<u16>,
    ratio: Option<f64>,
    truth: Option<bool>,
    #[serde(default)]
    table: BTreeMap<String, toml::Value>,
    #[serde(default)]
    sensitive: bool,
    needed: String,
}

impl Definition for Thing {
    const TABLE: &'static str = "thing";

    fn invalid_values(&self) -> Vec<Invalid> {
        let port = if self.port == Some(0) { Err(Invalid::new("port", "there is no port 0")) } else { Ok(()) };
        Invalid::all([port])
    }
}

/// A source with one value under every name.
struct SameValue(Option<&'static [u8]>, bool);

impl Received for SameValue {
    fn value(&self, sender: &str, name: &str) -> Option<ReceivedValue> {
        assert_eq!((sender, name), ("exec:a#b", "stdout"));
        self.0.map(|bytes| ReceivedValue { bytes: bytes.to_owned(), is_sensitive: self.1 })
    }
}

/// A source with one text under every name.
struct Sent(String);

impl Received for Sent {
    fn value(&self, _: &str, _: &str) -> Option<ReceivedValue> {
        Some(ReceivedValue { bytes: self.0.clone().into_bytes(), is_sensitive: false })
    }
}

fn read(lines: &str, received: &dyn Received) -> (Definitions<Thing>, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.toml"), format!("[[thing]]\nname = 'a'\n{lines}")).unwrap();
    let (definitions, findings) = Definitions::read(&folder.path().to_owned().into(), &NoTemplates, received);
    let mut definitions: Definitions<Thing> = definitions;
    for defined in definitions.valid.values_mut() {
        for hindrance in &mut defined.common.hindrances {
            if let Hindrance::Unfit(message) = hindrance {
                *message = message.replace(&format!("{}/", folder.path().display()), "");
            }
        }
    }
    (definitions, said(&findings, folder.path()))
}

fn receiving(key: &str, received: &dyn Received) -> (Thing, Vec<Hindrance>) {
    let lines = format!("needed = 'x'\nreceive = {{ {key} = 'exec:a#b#stdout' }}\n");
    let (mut definitions, said) = read(&lines, received);
    assert_eq!(said, "");
    let defined = definitions.valid.remove("thing:a").unwrap();
    (defined.definition, defined.common.hindrances)
}

fn unfit(key: &str, value: &'static [u8]) -> String {
    match &receiving(key, &SameValue(Some(value), false)).1[..] {
        [Hindrance::Unfit(message)] => message.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn received_value_is_converted_to_the_type_of_its_key() {
    let one = |value| SameValue(Some(value), false);
    assert_eq!(receiving("text", &one(b"17")).0.text.as_deref(), Some("17"));
    assert_eq!(receiving("number", &one(b"-17")).0.number, Some(-17));
    assert_eq!(receiving("port", &one(b"80")).0.port, Some(80));
    assert_eq!(receiving("ratio", &one(b"0.5")).0.ratio, Some(0.5));
    assert_eq!(receiving("truth", &one(b"true")).0.truth, Some(true));
    assert_eq!(receiving("text", &one(b"two\nlines \"'''\\ \t")).0.text.as_deref(), Some("two\nlines \"'''\\ \t"));
    let inner = receiving("table.x.y", &one(b"v")).0.table;
    assert_eq!(inner["x"].get("y").and_then(toml::Value::as_str), Some("v"));
}

#[test]
fn invalid_received_value_fails_only_its_entity() {
    let said = "x.toml:4: thing:a: port: expected a whole number up to 65535, found 65536 (sent by exec:a#b as stdout)";
    assert_eq!(unfit("port", b"65536"), said);
    assert!(unfit("port", b"0").contains("thing:a: port: there is no port 0 (sent by exec:a#b as"));
    assert!(unfit("truth", b"yes").contains("thing:a: truth: expected true or false"), "{}", unfit("truth", b"yes"));
    for odd in ["007", "1_000", "0x10", "+1", " 1", "1 ", "", "-", "1e3", "1\n", "true]"] {
        let value: &'static [u8] = odd.as_bytes();
        assert!(unfit("number", value).contains("number: expected a"), "{odd}");
    }
    assert!(unfit("text", b"\xff").contains("text: the value is not UTF-8"));
    // A secret appears in no message, and its definition is hidden.
    let (thing, hindrances) = receiving("text", &SameValue(Some(b"secret"), true));
    assert!(thing.sensitive && hindrances.is_empty());
    let (_, hindrances) = receiving("number", &SameValue(Some(b"secret"), true));
    assert!(!hindrances.is_empty() && !format!("{hindrances:?}").contains("secret"), "{hindrances:?}");
}

#[test]
fn entity_without_sent_value_stays_defined() {
    let receipt = Receipt { key: "text".into(), sender: "exec:a#b".into(), name: "stdout".into() };
    let (thing, hindrances) = receiving("text", &SameValue(None, false));
    assert_eq!((thing.text, &hindrances[..]), (None, &[Hindrance::NotSent(receipt)][..]));
    assert_eq!(hindrances[0].to_string(), "receives text from exec:a#b#stdout, which has not been sent yet");
    // The key would be missing if it were not known to be received.
    let (definitions, said) = read("receive = { needed = 'exec:a#b#stdout' }\n", &SameValue(None, false));
    assert_eq!((definitions.valid.len(), said.as_str()), (1, ""));
    let (definitions, said) = read("receive = { text = 'exec:a#b#stdout' }\n", &SameValue(None, false));
    assert_eq!((definitions.valid.len(), said.as_str()), (0, "!! x.toml:1: thing:a: needed: is missing\n"));
}

#[test]
fn mistakes_in_receive_are_reported_with_line() {
    let said = |receive: &str| read(&format!("needed = 'x'\n{receive}\n"), &SameValue(Some(b"v"), false)).1;
    let place = "!! x.toml:4: thing:a: receive";
    for (receive, problem) in [
        ("receive = { text = 'exec:a' }", ": text: expected \"ENTITY#NAME\", found \"exec:a\""),
        ("receive = { text = 'a#b' }", ": text: expected \"ENTITY#NAME\", found \"a#b\""),
        ("receive = { text = 'a:b#1' }", ": text: expected \"ENTITY#NAME\", found \"a:b#1\""),
        ("receive = { after = 'a:b#c' }", ": after cannot be received, as every definition can have it"),
        ("receive = { 'a b' = 'a:b#c' }", ": \"a b\" is not a key of letters, digits, _ and -"),
        ("receive = { needed = 'exec:a#b#stdout' }", ": needed is also set in the definition"),
        ("receive = { needed.x = 'exec:a#b#stdout' }", ": needed.x is in nothing that is a table"),
        ("receive = { name = 'exec:a#b#stdout' }", ": name is also set in the definition"),
        ("receive = { 'table.' = 'exec:a#b#stdout' }", ": \"table.\" is not a key of letters, digits, _ and -"),
        ("receive = { 'needed.x' = 'exec:a#b#stdout' }", ": needed.x is in nothing that is a table"),
    ] {
        assert!(said(receive).starts_with(&format!("{place}{problem}")), "{receive}: {}", said(receive));
    }
    // Also before the value is known.
    for received in [SameValue(Some(b"v"), false), SameValue(None, false)] {
        let said = |receive: &str| read(&format!("needed = 'x'\n{receive}\n"), &received).1;
        for (receive, problem) in [
            ("receive = { tetx = 'exec:a#b#stdout' }", ": tetx: unknown key, did you mean text?"),
            ("receive = {}", ": names no key: write KEY = \"ENTITY#NAME\", or remove it"),
            ("receive = { table = {} }", ": table: names no key: write KEY = \"ENTITY#NAME\", or remove it"),
        ] {
            assert!(said(receive).starts_with(&format!("{place}{problem}")), "{receive}: {}", said(receive));
        }
        assert!(
            said("receive = { nonsense = 'exec:a#b#stdout' }")
                .contains(": nonsense: unknown key, expected one of name, text")
        );
    }
}

#[test]
fn untyped_definitions_receive_strings() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[[note]]\nname = 'a'\nreceive = { port = 'exec:a#b#stdout', t.x = 'exec:a#b#stdout' }\n";
    fs::write(folder.path().join("x.toml"), text).unwrap();
    let read = |received: &dyn Received| {
        UntypedDefinition::read_all(&folder.path().to_owned().into(), &NoTemplates, received).0.remove(0)
    };
    let known = read(&SameValue(Some(b"80"), false));
    assert_eq!(known.keys.to_string(), "name = \"a\"\nport = \"80\"\n\n[t]\nx = \"80\"\n");
    assert_eq!(known.not_received, [""; 0]);
    assert_eq!(read(&SameValue(None, false)).not_received, ["port", "t.x"]);
    // A value that no definition can contain does not discard the rest of the definition.
    let source = folder.path().to_owned().into();
    let (definitions, findings) = UntypedDefinition::read_all(&source, &NoTemplates, &SameValue(Some(b"\xff"), false));
    assert_eq!(definitions[0].not_received, ["port", "t.x"]);
    assert!(findings.iter().all(|finding| matches!(finding, crate::Finding::Warning(_))) && findings.len() == 2);
}

/// Any text stays unchanged where a string is expected, even if it could be another type.
#[test]
fn text_is_received_unchanged_in_random_cases() {
    cases(300, |random| {
        let letters =
            ["a", "0", "1", "-", ".", "\n", "\r", "\"", "'", "\\", " ", "\u{fc}", "\u{7f}", "\t", "true", "{", "#"];
        let text: String = (0..random.below(12)).map(|_| *random.pick(&letters)).collect();
        let (thing, hindrances) = receiving_any("text", &text);
        assert_eq!((thing.text, hindrances), (Some(text), Vec::new()));
    });
}

/// A canonical number is converted where a number is expected.
#[test]
fn numbers_are_received_as_numbers_in_random_cases() {
    cases(300, |random| {
        let number = random.number().cast_signed() >> random.below(64);
        assert_eq!(receiving_any("number", &number.to_string()).0.number, Some(number));
        let padded = format!("{}{}", "0".repeat(1 + random.below(3)), number.unsigned_abs());
        assert_eq!(receiving_any("number", &padded).1.len(), usize::from(padded != "0"), "{padded}");
        assert_eq!(receiving_any("text", &padded).0.text, Some(padded));
    });
}

/// For any value, a key has a value of its type or none, and other keys keep theirs.
#[test]
fn value_is_valid_or_left_out_in_random_cases() {
    cases(500, |random| {
        let parts =
            ["-", "+", "0", "1", "7", "65535", ".", "e", "_", "\"", " ", "true", "false", "\n", "nan", "inf", "[", "x"];
        let text: String = (0..random.below(4)).map(|_| *random.pick(&parts)).collect();
        let keys = ["number", "port", "ratio", "truth"];
        let key: &&str = random.pick(&keys);
        let (thing, hindrances) = receiving_any(key, &text);
        assert_eq!((thing.name.as_str(), thing.needed.as_str()), ("a", "x"));
        let has_value = [thing.number.is_some(), thing.port.is_some(), thing.ratio.is_some(), thing.truth.is_some()];
        assert_eq!(has_value.contains(&true), hindrances.is_empty(), "{text:?}: {thing:?} {hindrances:?}");
        for shown in [thing.number.map(|number| number.to_string()), thing.truth.map(|truth| truth.to_string())] {
            assert!(shown.is_none_or(|shown| shown == text), "{text:?}");
        }
    });
}

fn receiving_any(key: &str, text: &str) -> (Thing, Vec<Hindrance>) {
    receiving(key, &Sent(text.to_owned()))
}
