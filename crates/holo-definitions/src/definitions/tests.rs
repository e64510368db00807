//! Tests of reading definition files and of reported errors.
use super::*;
use crate::receive::NothingReceived;
use crate::testing::{NoTemplates, said};
use std::fs;
use std::path::Path;
use std::time::Duration;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Thing {
    name: String,
    #[serde(default)]
    color: Option<String>,
    #[serde(default)]
    parts: Vec<String>,
    #[serde(default)]
    size: u8,
    #[serde(default = "round")]
    shape: Shape,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    None,
    Round,
}

fn round() -> Shape {
    Shape::Round
}

impl Definition for Thing {
    const TABLE: &'static str = "thing";
    const UNITED: &'static [&'static str] = &["parts"];

    fn invalid_values(&self) -> Vec<Invalid> {
        let luck = if self.size == 13 { Err(Invalid::new("size", "13 is bad luck")) } else { Ok(()) };
        let colors = self.color.iter().try_for_each(|color| match color.as_str() {
            "" => Err(Invalid::new("color", "is empty")),
            _ => Ok(()),
        });
        Invalid::all([luck, colors])
    }

    fn validate(&self) -> Result<(), Invalid> {
        if self.size > 0 && self.shape == Shape::None { Err(Invalid::new("size", "needs a shape")) } else { Ok(()) }
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let said = |lines: &str| read(&[("x.toml", &format!("[[thing]]\nname = \"a\"\n{lines}"))]).1;
    // Several invalid values, and invalid values next to a value of the wrong type, which is treated as unknown.
    let both = "x.toml:3: thing:a: size: 13 is bad luck\n!! x.toml:4: thing:a: color: is empty\n";
    assert_eq!(said("size = 13\ncolor = \"\"\n"), format!("!! {both}"));
    let shape = "!! x.toml:5: thing:a: shape: expected one of none, round, found \"ruond\"; did you mean round?\n";
    assert_eq!(said("size = 13\ncolor = \"\"\nshape = \"ruond\"\n"), format!("!! {both}{shape}"));
    // The shape is unknown, so that its combination with the size cannot be checked.
    assert_eq!(said("\n\nshape = \"ruond\"\nsize = 3\n"), shape);
    assert_eq!(said("size = 3\nshape = \"none\"\n"), "!! x.toml:3: thing:a: size: needs a shape\n");
    // A missing key does not prevent other checks.
    let said = read_as::<Strict>(&[("x.toml", "[[thing]]\nname = \"a\"\ncolor = \"\"\n")]).1;
    assert_eq!(said, "!! x.toml:1: thing:a: words: is missing\n!! x.toml:3: thing:a: color: is empty\n");
    let said = read_as::<Strict>(&[("x.toml", "[[thing]]\nname = \"a\"\nwords = 3\ncolor = \"\"\n")]).1;
    assert!(said.starts_with("!! x.toml:3: thing:a: words: expected"), "{said}");
    assert!(said.ends_with("!! x.toml:4: thing:a: color: is empty\n"), "{said}");
}

/// A definition with a required key.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Strict {
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "words")]
    _words: Vec<String>,
    #[serde(default)]
    color: Option<String>,
}

impl Definition for Strict {
    const TABLE: &'static str = "thing";

    fn invalid_values(&self) -> Vec<Invalid> {
        Invalid::all([if self.color.as_deref() == Some("") { Err(Invalid::new("color", "is empty")) } else { Ok(()) }])
    }
}

/// Returns the definitions in the files, and the findings without the directory's path.
fn read(files: &[(&str, &str)]) -> (Definitions<Thing>, String) {
    read_as(files)
}

fn read_as<D: Definition>(files: &[(&str, &str)]) -> (Definitions<D>, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let (definitions, findings) = Definitions::read(&folder.path().to_owned().into(), &NoTemplates, &NothingReceived);
    (definitions, said(&findings, folder.path()))
}

#[test]
fn reads_tables_with_their_own_and_common_keys() {
    let (definitions, said) = read(&[(
        "01.toml",
        "[[thing]]\nname = \"a b\"\nsize = 3\nrequires = [\"x:y\"]\nretries = 2\ntimeout = \"5m\"\nretry_delay = 3\n\
         health_check = [{ command = \"check 'a b' c\", tries = 4 }]\n",
    )]);
    assert_eq!(said, "");
    let thing = &definitions.valid["thing:a b"];
    assert_eq!((thing.definition.name.as_str(), thing.definition.size), ("a b", 3));
    let keys = &thing.common.keys;
    assert_eq!(
        (keys.retries, keys.timeout, keys.delay(1)),
        (2, Some(Duration::from_secs(300)), Duration::from_secs(3))
    );
    assert_eq!(keys.health_check[0].probe.to_string(), "check a b c");
    assert_eq!(keys.requires, ["x:y"]);
    assert!(thing.common.sources[0].ends_with("01.toml"));
    assert!(!definitions.is_orphan("thing:a b") && definitions.is_orphan("thing:c"));
}

#[test]
fn several_files_say_more_together() {
    let (definitions, said) = read(&[
        ("01.toml", "[[thing]]\nname = \"a\"\ncolor = \"red\"\nparts = [\"x\", \"y\"]\nafter = [\"p\"]\n"),
        ("02.toml", "[[thing]]\nname = \"a\"\nsize = 3\ncolor = \"red\"\nparts = [\"y\", \"z\"]\nafter = [\"q\"]\n"),
        ("03.toml", "[[thing]]\nname = \"b\"\ncolor = \"red\"\n"),
        ("04.toml", "\n[[thing]]\nname = \"b\"\n\ncolor = \"blue\"\n"),
    ]);
    let thing = &definitions.valid["thing:a"];
    assert_eq!(thing.definition.color.as_deref(), Some("red"));
    assert_eq!(thing.definition.parts, ["x", "y", "z"]);
    assert_eq!(thing.common.keys.after, ["p", "q"]);
    assert_eq!(thing.common.sources.len(), 2);
    assert_eq!(said, "!! 04.toml:5: thing:b: color: contradicts 03.toml:3\n");
    assert!(!definitions.valid.contains_key("thing:b") && !definitions.is_orphan("thing:b"));
}

#[test]
fn mistakes_are_named_with_file_line_and_key_and_break_only_their_entity() {
    for (text, complaint) in [
        ("colour = \"x\"", "colour: unknown key, did you mean color?"),
        ("odd = 1", "odd: unknown key, expected one of name, color, parts, size, shape, or a common key"),
        ("Retries = 1", "Retries: unknown key, did you mean retries?"),
        ("health_checks = []", "health_checks: unknown key, did you mean health_check?"),
        ("size = \"x\"", "size: expected a whole number from 0 to 255, found a string"),
        ("size = 300", "size: expected a whole number from 0 to 255, found 300"),
        ("size = 13", "size: 13 is bad luck"),
        (
            "color = 1\nsize = true",
            "color: expected a string, found 1; write it in quotes: \"1\"\n\
                                  !! a.toml:4: thing:b: size: expected a whole number from 0 to 255, found true",
        ),
        ("color = \"a\"\nsize = 1\ncolor = \"b\"", "\n"),
        ("parts = [\"a\", 1]", "parts[1]: expected a string, found 1; write it in quotes: \"1\""),
        ("after = \"x\"", "after: expected a list, found a string; write it in brackets: [...]"),
        ("after = [\"x\\ny\"]", "after: \"x\\ny\" is not an entity ID"),
        ("timeout = \"5 parsecs\"", "timeout: \"parsecs\" is not a unit of durations, which are ms, s, m, h and d"),
        ("timeout = \"5\"", "timeout: a duration needs a unit, as in 5s, 5m or 5h"),
        ("timeout = 0", "timeout: must be longer than 0; remove the key for the default"),
        ("timeout = \"0ms\"", "timeout: must be longer than 0; remove the key for the default"),
        ("retries = -1", "retries: expected a whole number that is not negative, found -1"),
        ("if = true", "if: expected a string, found true"),
        (
            "health_check = [{ command = \"a 'b\" }]",
            "health_check[0].command: a quote or backslash is not closed in \"a 'b\"",
        ),
        ("health_check = [{ command = [] }]", "health_check[0].command: the command is empty"),
        (
            "health_check = [{ unit = \"a\", tries = 0 }]",
            "health_check[0].tries: must be at least 1; remove the check if it should not run",
        ),
        (
            "health_check = [{ unit = \"a\", interval = 0 }]",
            "health_check[0].interval: must be longer than 0; remove the key for the default",
        ),
        (
            "health_check = [{ unit = \"a\", timeout = 0 }]",
            "health_check[0].timeout: must be longer than 0; remove the key for the default",
        ),
        ("health_check = [{ tries = 1 }]", "health_check[0]: needs one of command, http, tcp and unit"),
        (
            "health_check = [{ tcp = \"a:1\", unit = \"b\" }]",
            "health_check[0]: needs one of command, http, tcp and unit",
        ),
        ("health_check = [{ tcp = \"a:1\", status = 200 }]", "health_check[0]: status and contains are for http only"),
        (
            "health_check = [{ http = \"ftp://a/\" }]",
            "health_check[0]: \"ftp://a/\" is not a URL that begins with http:// or https:// and a host, without user and password",
        ),
        (
            "health_check = [{ http = \"http://u:p@a/\" }]",
            "health_check[0]: \"http://u:p@a/\" is not a URL that begins with http:// or https:// and a host, without user and password",
        ),
        (
            "health_check = [{ http = \"http://a/\", status = 99 }]",
            "health_check[0]: 99 is not a status of HTTP, which is from 100 to 599",
        ),
        (
            "health_check = [{ tcp = \"localhost\" }]",
            "health_check[0]: \"localhost\" is not a host and a port, such as \"localhost:5432\" or \"[::1]:80\"",
        ),
        (
            "health_check = [{ tcp = \"::1:80\" }]",
            "health_check[0]: \"::1:80\" is not a host and a port, such as \"localhost:5432\" or \"[::1]:80\"",
        ),
        ("health_check = [{ unit = \"--version\" }]", "health_check[0]: \"--version\" is not the name of a unit"),
        (
            "health_check = { command = \"a\" }",
            "health_check: expected a list, found a table; write it in brackets: [...]",
        ),
        ("health_check = [\"a\"]", "health_check[0]: expected a table, found a string"),
        (
            "health_check = [{ command = \"a\", frequency = 1 }]",
            "health_check[0].frequency: unknown key, expected one of command, http, status, contains, tcp, unit, tries, interval, timeout",
        ),
        ("[[thing]]\nname = \"b\"", "is already defined in a.toml:1"),
        (
            "[thing.extra]\nx = 1",
            "extra: unknown key, expected one of name, color, parts, size, shape, or a common key",
        ),
    ] {
        let (definitions, said) =
            read(&[("a.toml", &format!("[[thing]]\nname = \"b\"\n{text}\n\n[[thing]]\nname = \"c\"\n"))]);
        let complaint = match complaint {
            "\n" => "!! a.toml:5: thing:b: color: is already set in line 3\n".to_owned(),
            complaint => format!("!! a.toml:3: thing:b: {complaint}\n"),
        };
        assert_eq!(said, complaint, "{text}");
        assert_eq!(definitions.valid.keys().collect::<Vec<_>>(), ["thing:c"], "{text}");
        assert!(!definitions.is_orphan("thing:b") && definitions.is_orphan("thing:d"), "{text}");
    }
}

#[test]
fn entity_that_names_itself_is_refused() {
    for key in ["after", "before", "requires", "subscribes", "notifies"] {
        let (things, said) =
            read(&[("x.toml", &format!("[[thing]]\nname = \"a\"\n{key} = [\"b:c\", \n\"thing:a\"]\n"))]);
        assert_eq!(said, format!("!! x.toml:4: thing:a: {key}: thing:a is this entity itself\n"));
        assert!(things.valid.is_empty());
    }
    let (_, said) = read(&[("x.toml", "[[thing]]\nname = \"a\"\nreceive.color = \"thing:a#color\"\n")]);
    assert_eq!(said, "!! x.toml:3: thing:a: receive: thing:a is this entity itself\n");
}

#[test]
fn an_unreadable_definition_makes_nothing_an_orphan() {
    for (text, complaint) in [
        ("[[thing]\n", "!! a.toml:1: the brackets are not closed, expected ]]\n"),
        ("[[thing]]\nname = x\n", "!! a.toml:2: name: a string has to be in quotes: \"...\"\n"),
        ("[[thing]]\nsize = 1\n", "!! a.toml:1: [[thing]]: name: is missing\n"),
        ("[[thing]]\nNmae = \"b\"\n", "!! a.toml:2: [[thing]]: Nmae: unknown key, did you mean name?\n"),
        ("[[thing]]\nname = 1\n", "!! a.toml:2: [[thing]]: name: expected a string, found a number\n"),
        ("[[thing]]\nname = \"\"\n", "!! a.toml:2: [[thing]]: name: is empty\n"),
        ("[[thing]]\nname = \"a\\nb\"\n", "!! a.toml:2: [[thing]]: name: \"a\\nb\" contains control characters\n"),
        ("[thing]\nname = \"b\"\n", "!! a.toml:1: [thing] has to be written as [[thing]]\n"),
        ("thing = [\"b\"]\n", "!! a.toml:1: thing has to be written as [[thing]]\n"),
        ("[[things]]\nname = \"b\"\n", "!! a.toml:1: unknown table [[things]], did you mean [[thing]]?\n"),
        ("[[package]]\nname = \"b\"\n", "!! a.toml:1: unknown table [[package]], expected [[thing]]\n"),
        ("[package]\nname = \"b\"\n", "!! a.toml:1: unknown table [package], expected [[thing]]\n"),
        ("name = \"b\"\nsize = 1\n", "!! a.toml:1: name: this key is in no table; write the line [[thing]] above it\n"),
        (
            "[[thing]]\nname = \"b\"\n[thing]\nname = \"c\"\n",
            "!! a.toml:3: [thing] has to be written as [[thing]]\n!! a.toml:3: is set twice\n",
        ),
    ] {
        let (definitions, said) = read(&[("a.toml", text), ("b.toml", "[[thing]]\nname = \"c\"\n")]);
        assert_eq!(said, complaint, "{text}");
        assert!(!definitions.is_complete(), "{text}");
        assert_eq!(definitions.valid.keys().collect::<Vec<_>>(), ["thing:c"], "{text}");
        assert!(!definitions.is_orphan("thing:d"), "{text}");
    }
}

#[test]
fn files_that_are_not_definitions_are_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("folder.toml")).unwrap();
    fs::write(folder.path().join("README"), "no TOML").unwrap();
    fs::write(folder.path().join("latin.toml"), b"# x\n# \xff\n").unwrap();
    fs::write(folder.path().join("empty.toml"), b"").unwrap();
    std::os::unix::fs::symlink(Path::new("nowhere"), folder.path().join("dangling.toml")).unwrap();
    std::os::unix::fs::symlink(Path::new("/dev/null"), folder.path().join("device.toml")).unwrap();
    let (definitions, findings) =
        Definitions::<Thing>::read(&folder.path().to_owned().into(), &NoTemplates, &NothingReceived);
    assert!(definitions.valid.is_empty() && !definitions.is_orphan("thing:a"));
    assert_eq!(
        said(&findings, folder.path()),
        "!! dangling.toml: this is a symlink to nowhere, which does not exist\n\
         !! device.toml: this is not a regular file\n\
         >> folder.toml: a folder\n\
         !! latin.toml:2: this is not UTF-8\n"
    );
}

#[test]
fn many_definitions_in_one_file_take_no_longer_than_in_many() {
    let text: String = (0..20_000).map(|number| format!("[[thing]]\nname = \"n{number}\"\nodd = 1\n")).collect();
    let (definitions, said) = read(&[("a.toml", &text)]);
    assert!(definitions.valid.is_empty());
    assert!(said.ends_with(
        "!! a.toml:29997: thing:n9998: odd: unknown key, expected one of name, color, parts, size, shape, or a common key\n\
        !! a.toml:30000: thing:n9999: odd: unknown key, expected one of name, color, parts, size, shape, or a common key\n"
    ));
}

#[test]
fn conditions_leave_out() {
    let (definitions, said) = read(&[(
        "a.toml",
        "[[thing]]\nname = \"a\"\nif = \"true\"\n[[thing]]\nname = \"b\"\nif = \"false\"\n\
         [[thing]]\nname = \"c\"\nunless = \"true\"\n[[thing]]\nname = \"d\"\nif = \"odd\"\n",
    )]);
    let skipped = |name: &str| definitions.valid[name].common.skipped.clone();
    assert_eq!(skipped("thing:a"), None);
    assert_eq!(skipped("thing:b").unwrap(), "false is false");
    assert_eq!(skipped("thing:c").unwrap(), "true is true");
    assert!(said.starts_with("!! a.toml:12: thing:d: if: the expression cannot be evaluated: odd: "), "{said}");
    assert!(!definitions.valid.contains_key("thing:d") && !definitions.is_orphan("thing:d"));
}
