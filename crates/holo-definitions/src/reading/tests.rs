//! Tests of typical definitions and their error messages.
use super::*;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Thing {
    name: String,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    size: u8,
    #[serde(default)]
    count: Option<u64>,
    #[serde(default)]
    shell: bool,
    #[serde(default)]
    ensure: Ensure,
    #[serde(default)]
    pair: Option<[String; 2]>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    checks: Vec<Check>,
    #[serde(default)]
    data: toml::Table,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Ensure {
    #[default]
    Present,
    Absent,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it is only read into")]
struct Check {
    command: Vec<String>,
    #[serde(default)]
    tries: u32,
}

fn thing(text: &str) -> Result<Thing, (String, usize)> {
    let text = format!("name = 'x'\n{text}\n");
    let line = |offset: usize| text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1;
    let table = DeTable::parse(&text).unwrap();
    read(&table).map_err(|wrong: ValueError| (wrong.to_string(), wrong.span().map_or(0, |span| line(span.start))))
}

#[test]
fn valid_values_are_read() {
    let text = "mode = '0644'\nsize = 0xff\ncount = 1_000\nshell = true\nensure = 'absent'\npair = ['[[', ']]']\nheaders.a = 'b'\n\
                checks = [{ command = ['true'] }]\n[data]\nwhen = 2026-01-02T03:04:05Z\nhow = 1.5\nlist = [1, { a = 'b' }]";
    let thing = thing(text).unwrap();
    assert_eq!(
        (thing.name.as_str(), thing.mode.as_deref(), thing.size, thing.count),
        ("x", Some("0644"), 255, Some(1000))
    );
    assert!(thing.shell && thing.ensure == Ensure::Absent && thing.pair.is_some() && thing.headers["a"] == "b");
    assert_eq!(thing.checks.len(), 1);
    assert_eq!(thing.data["when"].to_string(), "2026-01-02T03:04:05Z");
    assert_eq!((thing.data["how"].as_float(), thing.data["list"][1]["a"].as_str()), (Some(1.5), Some("b")));
}

#[test]
fn mistakes_are_named_by_key_and_line() {
    for (text, words, line) in [
        ("mode = 644", "mode: expected a string, found 644; write it in quotes: \"644\"", 2),
        ("mode = 0o644", "mode: expected a string, found 0o644; write it in quotes: \"644\"", 2),
        ("mode = ['a']", "mode: expected a string, found a list", 2),
        ("size = 300", "size: expected a whole number from 0 to 255, found 300", 2),
        ("size = -1", "size: expected a whole number from 0 to 255, found -1", 2),
        ("size = '3'", "size: expected a whole number from 0 to 255, found \"3\"; write it without quotes", 2),
        ("size = 99999999999999999999", "size: expected a whole number from 0 to 255, found 99999999999999999999", 2),
        (
            "checks = [{ command = [], tries = 4294967296 }]",
            "checks[0].tries: expected a whole number up to 4294967295, found 4294967296",
            2,
        ),
        ("count = -1", "count: expected a whole number that is not negative, found -1", 2),
        ("shell = 'true'", "shell: expected true or false, found \"true\"; write it without quotes", 2),
        ("shell = '/bin/bash'", "shell: expected true or false, found a string", 2),
        ("size = '1G'", "size: expected a whole number from 0 to 255, found a string", 2),
        ("shell = 1", "shell: expected true or false, found 1", 2),
        ("ensure = true", "ensure: expected one of present, absent, found true", 2),
        ("ensure = ['absent']", "ensure: expected one of present, absent, found a list", 2),
        ("ensure = 'abesnt'", "ensure: expected one of present, absent, found \"abesnt\"; did you mean absent?", 2),
        ("ensure = 'latest'", "ensure: expected one of present, absent, found \"latest\"", 2),
        ("pair = ['a']", "pair: expected a list of 2, found 1 of them", 2),
        ("pair = ['a', 1]", "pair[1]: expected a string, found 1; write it in quotes: \"1\"", 2),
        ("headers = 'Authorization: secret'", "headers: expected a table, found a string", 2),
        ("headers = { 'X-A' = 1 }", "headers.X-A: expected a string, found 1; write it in quotes: \"1\"", 2),
        ("checks = 'true'", "checks: expected a list, found a string; write it in brackets: [...]", 2),
        ("checks = { command = ['a'] }", "checks: expected a list, found a table; write it in brackets: [...]", 2),
        ("checks = [\n{ command = ['a'] },\n{ tries = 1 },\n]", "checks[1].command: is missing", 4),
        (
            "checks = [{ command = ['a'],\ninterval = 1 }]",
            "checks[0].interval: unknown key, expected one of command, tries",
            3,
        ),
        ("checks = [{ command = ['a'], triez = 1 }]", "checks[0].triez: unknown key, did you mean tries?", 2),
        ("\nEnsure = 'absent'", "Ensure: unknown key, did you mean ensure?", 3),
    ] {
        assert_eq!(thing(text).unwrap_err(), (words.to_owned(), line), "{text}");
    }
}

#[test]
fn invalid_toml_is_explained() {
    for (text, words, line) in [
        ("a = 1\nmode = 0644", "mode: a number cannot begin with 0; write it in quotes", 2),
        ("name = nginx", "name: a string has to be in quotes: \"...\"", 1),
        ("path = /etc/motd # why", "path: a string has to be in quotes: \"...\"", 1),
        ("time = 5m", "time: a string has to be in quotes: \"...\"", 1),
        ("name = \u{201c}x\u{201d}", "name: a string has to be in quotes: \"...\"", 1),
        ("hold = True", "hold: true and false are written in small letters", 1),
        ("hold = yes", "hold: expected true or false, or a string in quotes: \"yes\"", 1),
        ("name =", "name: has no value", 1),
        ("name: x", "name: expected KEY = VALUE", 1),
        ("---\nname: x", "expected KEY = VALUE or [[TABLE]]", 1),
        ("{ \"name\": 1 }", "expected TOML, and this looks like JSON", 1),
        ("name = \"x", "name: the quote is not closed", 1),
        ("name = 'x", "name: the quote is not closed", 1),
        (
            "name = \"\\d\"",
            "name: a backslash has to be doubled between double quotes, or the string be in single quotes",
            1,
        ),
        ("[[thing]\nname = 'x'", "the brackets are not closed, expected ]]", 1),
        ("[a]\nx = 1\n[b]\ny = 1\nx = 1\nx = 2", "x: is already set in line 5", 6),
        ("a.b = 1\na = 2", "a: is set twice", 2),
        ("a = 1\ntext = \"\"\"x\ny\nz", "text: the three quotes are not closed", 2),
        ("a = 1\ntext = '''x\ny\nz", "text: the three quotes are not closed", 2),
        ("uid = 0100", "uid: a number cannot begin with 0", 1),
        ("list = ['a' 'b']", "list: expected a comma, or ] at the end of a list", 1),
    ] {
        let error = DeTable::parse(text).unwrap_err();
        let (said, offset) = syntax(text, &error);
        let found = text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1;
        assert_eq!((said.as_str(), found), (words, line), "{text}: {}", error.message());
    }
}
