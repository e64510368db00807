//! Tests of outlines: each table of an outline equals the table parsed from the whole file.

use super::*;
use holo_testing::random::{self, Random};
use std::fmt::Write as _;
use toml::Table;

const VALUES: &[&str] = &[
    "\"plain\"",
    "'literal \\'",
    "\"with \\\" # and ] \\\\\"",
    "\"\"",
    "''",
    "\"\"\"\n[[thing]]\nname = \"not one\"\n\"\"\"",
    "\"\"\"quotes \"\" at the end\"\"\"\"\"",
    "'''\n# no comment ''\n[[thing]]'''",
    "\"\"\"\\\"\"\"\"",
    "[1, # one ]\n  2, \"]\", [\"[\"]]",
    "{ a = \"}\", b = [1, 2] }",
    "[]",
    "-3.5e7",
    "true # \"comment",
    "1979-05-27 07:32:00",
    "[\n\"\"\"\n]\n\"\"\"\n]",
    "\"\\\\\\\"\\\\\"",
    "\"\"\"\\\\\"\\\"\"\\\\\"\"\"",
];
const KEYS: &[&str] = &["name", "size", "a-b", "x_1", "2"];
const INNER: &[&str] = &["[thing.inner]\nk = [1]\n", "[[thing.list]]\n", "[ thing . sub ]\nname = 'x'\n"];

/// The roles of keys: only the size affects other entities.
fn role(_: &str, key: &str) -> Role {
    match key {
        "name" => Role::Name,
        "size" => Role::Other,
        _ => Role::SelfContained,
    }
}

/// Returns a random file with tables.
pub(crate) fn file(random: &mut Random) -> String {
    let mut text = random.pick(&["", "# comment \" [[\n", "\n\n", "\t# x\r\n"]).to_string();
    for _ in 0..random.below(5) {
        let header: &&str = random.pick(&["[[thing]]\n", "[[other]] # [[x]]\n", "  [[thing]]\r\n", "[[ thing ]]\n"]);
        text.push_str(header);
        let mut keys = KEYS.to_vec();
        random.shuffle(&mut keys);
        for key in keys.iter().take(random.below(4)) {
            let (before, equals, value, after) = (
                random.pick(&["", "  ", "\t", "\n# a line ' \n"]),
                random.pick(&["=", " = ", "\t=  "]),
                random.pick(VALUES),
                random.pick(&["\n", " \n", " # end ]\"\n", "\r\n"]),
            );
            let _ = write!(text, "{before}{key}{equals}{value}{after}");
        }
        if random.chance(20) && header.contains("thing") {
            let inner: &&str = random.pick(INNER);
            text.push_str(inner);
        }
    }
    if random.chance(20) { text.trim_end().to_owned() } else { text }
}

#[test]
fn what_is_outlined_is_what_is_read() {
    random::cases(2000, |random| {
        let text = file(random);
        let whole: Table = text.parse().unwrap_or_else(|error| panic!("{text}\n{error}"));
        let outlined = outline(&text, role).unwrap_or_else(|| panic!("no outline of\n{text}"));
        let mut again = Table::new();
        for table in &outlined {
            assert_eq!(&text[table.start..table.start + table.text.len()], table.text);
            let part: Table = table.text.parse().unwrap_or_else(|error| panic!("{}\n{error}", table.text));
            let one = part[table.table].as_array().unwrap().clone();
            assert_eq!(one.len(), 1, "{}", table.text);
            let read = one[0].as_table().unwrap();
            let is_plain = read.values().all(|value| !value.is_table() && !value.is_array());
            let name = table.text_of("name");
            assert!(!is_plain || table.may_concern_others == read.contains_key("size"), "{}", table.text);
            assert!(table.may_concern_others || table.name == name, "{}", table.text);
            let has_tables = ["inner", "list", "sub"].into_iter().any(|key| read.contains_key(key));
            assert!(table.may_concern_others || !has_tables && !read.contains_key("size"), "{}", table.text);
            if let Some(name) = name {
                assert_eq!(read["name"].as_str(), Some(name), "{}", table.text);
            }
            match again.entry(table.table).or_insert_with(|| toml::Value::Array(Vec::new())) {
                toml::Value::Array(all) => all.extend(one),
                other => panic!("{other}"),
            }
        }
        assert_eq!(again, whole, "{text}");
    });
}

#[test]
fn what_an_outline_cannot_show_has_none() {
    for text in [
        "stray = 1\n",
        "[thing]\n",
        "[[thing.inner]]\n",
        "[['thing']]\n",
        "[[a]]\n[b.c]\n",
        "[[thing]]\n\"name\" = 1\n",
        "[[thing]]\na.b = 1\n",
        "[[thing]]\nname = \"\n",
        "[[thing]]\nname = [\n",
        "[[thing]]\nname\n",
        "[[thing\n",
    ] {
        assert_eq!(outline(text, role), None, "{text}");
    }
}

#[test]
fn the_text_of_a_key_is_told_if_it_is_a_plain_string() {
    let outlined =
        outline("[[thing]]\na = \"x y\"\nb = 'x\\y'\nc = \"x\\ny\"\nd = 1\ne = \"\"\"x\"\"\"\n", role).unwrap();
    let texts = ["a", "b", "c", "d", "e", "f"].map(|key| outlined[0].text_of(key));
    assert_eq!(texts, [Some("x y"), None, None, None, None, None]);
}

#[test]
fn an_id_is_compared_without_being_made() {
    let id = TableId { entity_type: "file", key: "path", name: "/a:b" };
    assert_eq!(id.to_string(), "file:/a:b");
    for prefix in ["", "fi", "file", "file:", "file:/a", "file:/a:b"] {
        assert!(id.starts_with(prefix.as_bytes()) && id.is(prefix.as_bytes()) == (prefix == "file:/a:b"), "{prefix}");
    }
    for other in ["file:/a:bc", "file/", "files", "file:/b", "x", "file:/a:c"] {
        assert!(!id.starts_with(other.as_bytes()) && !id.is(other.as_bytes()), "{other}");
    }
}
