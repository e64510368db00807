//! YAML 1.2 with its core schema, limited to values that TOML and JSON can represent, with line numbers.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::{Map, Number, Value};
use std::collections::HashMap;

/// The maximum nesting depth of values.
const DEPTH: usize = 128;
/// The maximum number of values in a document with expanded aliases: a few lines could expand to billions.
const VALUES: usize = 1_000_000;
/// The key that merges other tables into one.
const MERGE: &str = "<<";

/// A value with the line numbers of its keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// The entries in order, each with the line number of its key.
    Table(Vec<(String, usize, Node)>),
    /// A list.
    List(Vec<Node>),
    /// Any other value.
    Plain(Value),
}

/// An error with its line number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct YamlError {
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Node {
    /// Returns the value without line numbers.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Node::Table(entries) => {
                let entries = entries.into_iter().map(|(key, _, node)| (key, node.into_value()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
            Node::List(nodes) => nodes.into_iter().map(Node::into_value).collect(),
            Node::Plain(value) => value,
        }
    }

    /// Returns the line number of the key at this path.
    pub(crate) fn line(&self, way: &[String]) -> Option<usize> {
        let (first, rest) = way.split_first()?;
        let Node::Table(entries) = self else { return None };
        let (_, line, node) = entries.iter().find(|(key, _, _)| key == first)?;
        if rest.is_empty() { Some(*line) } else { node.line(rest) }
    }

    fn size(&self) -> usize {
        match self {
            Node::Table(entries) => entries.iter().fold(1, |size, (_, _, node)| size + node.size()),
            Node::List(nodes) => nodes.iter().fold(1, |size, node| size + node.size()),
            Node::Plain(_) => 1,
        }
    }
}

/// Parses the single document of a text; an empty text is an empty table.
///
/// # Errors
/// The first error.
pub(crate) fn parse(text: &str) -> Result<Node, YamlError> {
    let mut composer = Composer::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| syntax(&error))?;
        composer.take(event, span)?;
    }
    Ok(match composer.document {
        None | Some(Node::Plain(Value::Null)) => Node::Table(Vec::new()),
        Some(document) => document,
    })
}

fn syntax(error: &ScanError) -> YamlError {
    YamlError { text: error.info().to_owned(), line: error.marker().line() }
}

/// Builds values from parser events.
#[derive(Default)]
struct Composer {
    document: Option<Node>,
    /// The unfinished collections, outermost first.
    open: Vec<Open>,
    /// The values of anchors.
    anchors: HashMap<usize, Node>,
    /// The number of values so far.
    values: usize,
}

/// An unfinished list or table.
struct Open {
    anchor: usize,
    kind: Kind,
}

enum Kind {
    List(Vec<Node>),
    Table(Table),
}

#[derive(Default)]
struct Table {
    entries: Vec<(String, usize, Node)>,
    /// The key of the next value.
    key: Option<Key>,
    /// Tables to merge, with the line numbers of their merge keys.
    merged: Vec<(usize, Node)>,
}

struct Key {
    text: String,
    line: usize,
    is_merge: bool,
}

impl Composer {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlError> {
        let line = span.start.line();
        let wrong = |text: &str| Err(YamlError { text: text.to_owned(), line });
        match event {
            Event::DocumentStart(_) if self.document.is_some() => wrong("this is a second document"),
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(_) if self.is_key_due() => wrong("a key is an alias"),
                Some(node) => self.add(node.size(), node, 0, line),
                None => wrong("this alias is in what it stands for"),
            },
            Event::Scalar(text, style, anchor, tag) => {
                let value = value(&text, style, tag.as_deref(), line)?;
                if self.is_key_due() {
                    let is_merge = style == ScalarStyle::Plain && text == MERGE;
                    return self.key(Key { text: text.into_owned(), line, is_merge });
                }
                self.add(1, Node::Plain(value), anchor, line)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(Open { anchor, kind: Kind::List(Vec::new()) }, "seq", tag.as_deref(), line)
            }
            Event::MappingStart(anchor, tag) => {
                self.begin(Open { anchor, kind: Kind::Table(Table::default()) }, "map", tag.as_deref(), line)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open { anchor, kind: Kind::List(nodes) }) => self.add(1, Node::List(nodes), anchor, line),
                Some(Open { anchor, kind: Kind::Table(table) }) => {
                    let node = table.with_merged()?;
                    self.add(1, node, anchor, line)
                }
                None => wrong("this ends what has not begun"),
            },
            _ => Ok(()),
        }
    }

    fn is_key_due(&self) -> bool {
        matches!(self.open.last(), Some(Open { kind: Kind::Table(Table { key: None, .. }), .. }))
    }

    fn begin(&mut self, open: Open, kind: &str, tag: Option<&Tag>, line: usize) -> Result<(), YamlError> {
        let wrong = |text: String| Err(YamlError { text, line });
        if self.is_key_due() {
            return wrong("a key is a list or a table".to_owned());
        }
        if let Some(tag) = tag.filter(|tag| !(tag.handle == CORE && tag.suffix == kind)) {
            return wrong(unknown(tag));
        }
        if self.open.len() >= DEPTH {
            return wrong(format!("this is nested deeper than {DEPTH} times"));
        }
        self.open.push(open);
        Ok(())
    }

    /// Sets the key of the next value.
    fn key(&mut self, key: Key) -> Result<(), YamlError> {
        if let Some(Open { kind: Kind::Table(table), .. }) = self.open.last_mut() {
            let is_same = |(other, _, _): &&(String, usize, Node)| !key.is_merge && *other == key.text;
            if let Some((_, earlier, _)) = table.entries.iter().find(is_same) {
                let text = format!("{}: is already set in line {earlier}", key.text);
                return Err(YamlError { text, line: key.line });
            }
            table.key = Some(key);
        }
        Ok(())
    }

    /// Adds a value, which counts as `count` values, to the innermost unfinished collection or as the document.
    fn add(&mut self, count: usize, node: Node, anchor: usize, line: usize) -> Result<(), YamlError> {
        self.values += count;
        if self.values > VALUES {
            return Err(YamlError { text: format!("there are more than {VALUES} values"), line });
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None => self.document = Some(node),
            Some(Open { kind: Kind::List(nodes), .. }) => nodes.push(node),
            Some(Open { kind: Kind::Table(table), .. }) => match table.key.take() {
                Some(key) if key.is_merge => table.merged.push((key.line, node)),
                Some(key) => table.entries.push((key.text, key.line, node)),
                None => return Err(YamlError { text: "a value has no key".to_owned(), line }),
            },
        }
        Ok(())
    }
}

impl Table {
    /// Returns the table with merged entries: its own have precedence, then those of earlier tables.
    fn with_merged(mut self) -> Result<Node, YamlError> {
        for (line, node) in self.merged {
            let tables = match node {
                Node::List(nodes) => nodes,
                other => vec![other],
            };
            for table in tables {
                let Node::Table(entries) = table else {
                    let text = format!("{MERGE}: expected a table, or a list of tables");
                    return Err(YamlError { text, line });
                };
                for entry in entries {
                    if self.entries.iter().all(|(own, _, _)| *own != entry.0) {
                        self.entries.push(entry);
                    }
                }
            }
        }
        Ok(Node::Table(self.entries))
    }
}

/// The prefix of the core schema's tags.
const CORE: &str = "tag:yaml.org,2002:";

/// Returns the message for an unknown tag.
fn unknown(tag: &Tag) -> String {
    format!("the tag {}{} has no meaning here", tag.handle, tag.suffix)
}

/// Returns the value of a scalar according to the core schema: only plain scalars can be anything other than strings.
fn value(text: &str, style: ScalarStyle, tag: Option<&Tag>, line: usize) -> Result<Value, YamlError> {
    let wrong = |text: String| Err(YamlError { text, line });
    let wanted = match tag {
        None => None,
        Some(tag) if tag.handle == CORE => Some(tag.suffix.as_str()),
        Some(tag) => return wrong(unknown(tag)),
    };
    let is_string = wanted == Some("str") || (style != ScalarStyle::Plain && wanted.is_none());
    let value = if is_string { Value::from(text) } else { resolve(text, line)? };
    let is_wanted = match wanted {
        None | Some("str") => true,
        Some("null") => value.is_null(),
        Some("bool") => value.is_boolean(),
        Some("int") => value.is_i64() || value.is_u64(),
        Some("float") => value.is_number(),
        Some(other) => return wrong(format!("the tag !!{other} has no meaning here")),
    };
    if is_wanted { Ok(value) } else { wrong(format!("{text:?} does not match its tag")) }
}

/// Returns the value of a plain scalar.
fn resolve(text: &str, line: usize) -> Result<Value, YamlError> {
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    let radix = |prefix: &str, radix| {
        let digits = text.strip_prefix(prefix).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        digits.and_then(|digits| i64::from_str_radix(digits, radix).ok())
    };
    let is_decimal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        _ if is_decimal => match (text.parse::<i64>(), digits.parse::<u64>()) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) if sign > 0 => number.into(),
            _ => return Err(YamlError { text: format!("{text} is too large a number"), line }),
        },
        _ if is_float(digits) => match text.parse::<f64>().ok().and_then(Number::from_f64) {
            Some(number) => Value::Number(number),
            None => return Err(YamlError { text: format!("{text} is not a usable number"), line }),
        },
        _ if matches!(digits, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") => {
            return Err(YamlError { text: format!("{text} is not a usable number"), line });
        }
        _ => radix("0o", 8).or_else(|| radix("0x", 16)).map_or_else(|| text.into(), Value::from),
    })
}

/// Returns true if unsigned digits contain a decimal point or an exponent.
fn is_float(digits: &str) -> bool {
    let (mantissa, exponent) =
        digits.split_once(['e', 'E']).map_or((digits, None), |(mantissa, rest)| (mantissa, Some(rest)));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_exponent = |text: &str| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        !digits.is_empty() && all_digits(digits)
    };
    all_digits(whole)
        && all_digits(part)
        && !(whole.is_empty() && part.is_empty())
        && exponent.is_none_or(is_exponent)
        && (exponent.is_some() || mantissa.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(text: &str) -> Value {
        parse(text).unwrap().into_value()
    }

    fn wrong(text: &str) -> String {
        let YamlError { text, line } = parse(text).unwrap_err();
        format!("{line}: {text}")
    }

    #[test]
    fn values_are_those_of_the_core_schema() {
        let text = "a: 1\nb: [1.5, true, ~, no, 'true', \"7\", 0o17, 0x1F, 1e3, -2, +3, 012, 1_000, 2026-01-02]\n1: one\n\"<<\": x\n";
        assert_eq!(
            value(text),
            json!({"a": 1, "b": [1.5, true, null, "no", "true", "7", 15, 31, 1000.0, -2, 3, 12, "1_000", "2026-01-02"],
                "1": "one", "<<": "x"})
        );
        assert_eq!(value("a: |\n  x\n  y\nb: >-\n  x\n  y\n"), json!({"a": "x\ny\n", "b": "x y"}));
        assert_eq!(value("a: !!str 1\nb: !!int \"1\"\n"), json!({"a": "1", "b": 1}));
        assert_eq!(value("a: 18446744073709551615\nb: -9223372036854775808"), json!({"a": u64::MAX, "b": i64::MIN}));
        for empty in ["", "---\n", "# nothing\n", "~\n"] {
            assert_eq!(value(empty), json!({}), "{empty:?}");
        }
        assert_eq!(value("[1]"), json!([1]));
    }

    #[test]
    fn anchors_can_be_used_again() {
        let text = "base: &base {a: 1, b: 1}\nmore: &more {b: 2, c: 2}\nx:\n  <<: *base\n  b: 3\ny: {<<: [*more, *base]}\nz: *base\n";
        let value = value(text);
        assert_eq!(value["x"], json!({"a": 1, "b": 3}));
        assert_eq!(value["y"], json!({"a": 1, "b": 2, "c": 2}));
        assert_eq!(value["z"], json!({"a": 1, "b": 1}));
    }

    #[test]
    fn errors_come_with_their_line() {
        for (text, begins) in [
            ("a: 1\nb: 2\na: 3\n", "3: a: is already set in line 1"),
            ("a: 1\n---\nb: 1\n", "2: this is a second document"),
            ("a: 1\n? [b]\n: 2\n", "2: a key is a list or a table"),
            ("a: !mine 1\n", "1: the tag !mine has no meaning here"),
            ("a: !!int x\n", "1: \"x\" does not match its tag"),
            ("a: 1\nb: .nan\n", "2: .nan is not a usable number"),
            ("a: 99999999999999999999\n", "1: 99999999999999999999 is too large a number"),
            ("x: &x 1\n<<: *x\n", "2: <<: expected a table, or a list of tables"),
            ("a: &a [*a]\n", "1: this alias is in what it stands for"),
        ] {
            assert_eq!(wrong(text), begins, "{text}");
        }
        assert!(wrong("a: 1\nb: [1\n").starts_with(['2', '3']), "{}", wrong("a: 1\nb: [1\n"));
        assert!(parse("a:\n\tb: 2\n").is_err(), "a TAB is not indentation");
        assert_eq!(wrong(&"[".repeat(100_000)), "1: recursion limit exceeded");
        assert!(wrong(&"- ".repeat(10_000)).contains("nested deeper than 128"));
        let laughs: String = (1..20)
            .map(|level| format!("l{level}: &l{level} [{}]\n", format!("*l{},", level - 1).repeat(10)))
            .collect();
        assert!(wrong(&format!("l0: &l0 ha\n{laughs}")).contains("more than 1000000 values"));
    }

    #[test]
    fn keys_are_found_with_their_lines() {
        let node = parse("a: 1\nb:\n  c:\n    - 1\n  d: {e: 1,\n    f: 2}\n").unwrap();
        for (way, line) in [
            (&["a"][..], Some(1)),
            (&["b"], Some(2)),
            (&["b", "c"], Some(3)),
            (&["b", "d", "f"], Some(6)),
            (&["b", "x"], None),
            (&["a", "x"], None),
        ] {
            let way: Vec<String> = way.iter().map(ToString::to_string).collect();
            assert_eq!(node.line(&way), line, "{way:?}");
        }
    }
}
