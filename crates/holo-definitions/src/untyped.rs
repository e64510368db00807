//! Definitions of plugins without Rust types, such as those in shell or Python.

use crate::common::{self, CommonKeys};
use crate::definition::{self, Invalid, NameError, NameKeys};
use crate::finding::{DefinitionError, Finding, Location};
use crate::hidden;
use crate::receive::{Candidate, Received, fill_untyped};
use crate::resource_dirs::ResourceDirs;
use crate::source::{Parsed, Sources};
use crate::stack::{Stack, plain};
use crate::templates::Templates;
use crate::tolerant::{Problem, Read, read_all};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

/// The keys that may contain the name, in order of precedence.
const NAME_KEYS: [&str; 2] = ["name", "path"];
/// Shown instead of a value that must not be shown.
const HIDDEN: &str = "(sensitive)";
/// The keys of a sensitive definition whose values are shown: they do not contain what it hides.
const SHOWN_IF_SENSITIVE: [&str; 8] = ["name", "path", "source", "target", "mode", "owner", "group", "ensure"];
/// Common keys that are durations, in any unit.
const DURATIONS: [&str; 3] = ["timeout", "retry_delay", "poll"];

/// A definition, merged from all files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UntypedDefinition {
    /// The ID of its entity: the table's name, a colon and the entity's name.
    pub id: String,
    /// The name of its table.
    pub table: String,
    /// Its name.
    pub name: String,
    /// The file in which it starts.
    pub file: String,
    /// The line on which it starts.
    pub line: usize,
    /// All files that define it.
    pub sources: Vec<String>,
    /// The keys that are not common ones.
    pub keys: Table,
    /// The common keys; durations are numbers of seconds.
    pub common: Table,
    /// The location of each key as `FILE:LINE`.
    pub lines: BTreeMap<String, String>,
    /// The reason why the entity's own conditions leave it out, if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// The keys whose values must not be shown, because they come from encrypted data.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<String>,
    /// The received keys that have no value yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_received: Vec<String>,
}

impl UntypedDefinition {
    /// Reads all definition files, renders templates and checks the common keys. Invalid definitions are left out; the
    /// findings are in the order in which they are reported.
    #[must_use]
    pub fn read_all(
        directories: &ResourceDirs,
        templates: &dyn Templates,
        received: &dyn Received,
    ) -> (Vec<UntypedDefinition>, Vec<Finding>) {
        let (sources, mut findings) = Sources::read(directories, templates);
        // Such a plugin may give folders any meaning.
        findings.retain(|finding| !matches!(finding, Finding::Folder(_)));
        let mut reader = Reader { sources: &sources, stacks: BTreeMap::new(), findings };
        for (index, source) in sources.iter().enumerate() {
            match source.parse() {
                Ok(parsed) => reader.take_file(parsed, index),
                Err(error) => reader.findings.push(Finding::Error(error)),
            }
        }
        let Reader { stacks, mut findings, .. } = reader;
        let finished = stacks.into_iter().filter_map(|((table, name), stack)| {
            finish(table, name, stack, &sources, (templates, received), &mut findings)
        });
        let definitions = finished.collect();
        (definitions, findings)
    }

    /// Replaces each value that must not be shown with a word. Of a definition that is sensitive as a whole, only values
    /// that say where and how remain.
    pub fn hide_secrets(&mut self) {
        if self.keys.get("sensitive").and_then(Value::as_bool) == Some(true) {
            let may_be_secret = |(key, value): &(&String, &Value)| {
                !SHOWN_IF_SENSITIVE.contains(&key.as_str()) && !matches!(value, Value::Boolean(_))
            };
            self.sensitive.extend(self.keys.iter().filter(may_be_secret).map(|(key, _)| key.clone()));
            self.sensitive.sort();
            self.sensitive.dedup();
        }
        hide_in(&mut self.keys, "", &self.sensitive);
    }
}

fn hide_in(table: &mut Table, within: &str, sensitive: &[String]) {
    for (key, value) in table.iter_mut() {
        let name = format!("{within}{key}");
        match value {
            _ if sensitive.contains(&name) => *value = Value::String(HIDDEN.to_owned()),
            Value::Table(table) => hide_in(table, &format!("{name}."), sensitive),
            _ => {}
        }
    }
}

struct Reader<'s> {
    sources: &'s Sources,
    /// By table and name.
    stacks: BTreeMap<(String, String), Stack<'s>>,
    findings: Vec<Finding>,
}

impl<'s> Reader<'s> {
    fn wrong(&mut self, NameError { span, problem }: &NameError, table: &str) {
        let message = format!("[[{table}]]: {problem}");
        self.findings.push(Finding::Error(self.sources.error(span, &message)));
    }

    fn take_file(&mut self, parsed: Parsed<'s>, index: usize) {
        let Parsed { table, duplicates, .. } = parsed;
        for (offset, words) in duplicates {
            self.findings.push(Finding::Error(self.sources.error(&(offset..offset), &words)));
        }
        for (key, value) in table.into_inner() {
            let (span, key) = (key.span(), key.into_inner().into_owned());
            let DeValue::Array(tables) = value.into_inner() else {
                let problem = format!("a definition is written below a line such as [[{key}]]");
                self.findings.push(Finding::Error(self.sources.error(&span, &problem)));
                continue;
            };
            for table in tables {
                match named(table) {
                    Ok((name, table)) => {
                        if let Some(error) = hidden::in_name(&name, &table, self.sources) {
                            self.wrong(&error, &key);
                            continue;
                        }
                        let stack = self.stacks.entry((key.clone(), name)).or_default();
                        if stack.files.contains(&index) {
                            let error =
                                NameError { span: table.span(), problem: "is defined twice in this file".into() };
                            self.wrong(&error, &key);
                        } else {
                            stack.lay(table, index, &[], self.sources);
                        }
                    }
                    Err(error) => self.wrong(&error, &key),
                }
            }
        }
    }
}

fn named(value: Spanned<DeValue<'_>>) -> Result<(String, Spanned<DeTable<'_>>), NameError> {
    let entries = definition::table(value)?;
    let keys = NameKeys::new(entries.get_ref(), entries.span());
    let [first, others @ ..] = NAME_KEYS;
    let mut found = keys.optional(first)?;
    for key in others {
        found = if found.is_none() { keys.optional(key)? } else { found };
    }
    let name = found.map_or_else(|| keys.required(first), Ok)?.to_owned();
    Ok((name, entries))
}

fn finish(
    table: String,
    name: String,
    mut stack: Stack<'_>,
    sources: &Sources,
    (templates, received): (&dyn Templates, &dyn Received),
    findings: &mut Vec<Finding>,
) -> Option<UntypedDefinition> {
    let id = format!("{table}:{name}");
    let files = stack.files.iter().map(|&index| sources.path(index).display().to_string()).collect();
    let mut wrong: Vec<Problem> = std::mem::take(&mut stack.problems);
    let (mut own, mut common) = common::split(stack.take_table(), &[]);
    hidden::refuse(&mut common, sources, &mut wrong);
    let hidden_values = hidden::hidden_values(own.get_ref(), sources);
    let keys = read_all(common.clone(), &BTreeSet::new(), false, &mut wrong).and_then(Read::<CommonKeys>::whole);
    wrong.extend(keys.iter().flat_map(|keys| keys.self_references(&id, &common)));
    let receipts = keys.as_ref().map(|keys| keys.receive.clone()).unwrap_or_default();
    let candidates = Candidate::all(&receipts, &common, received);
    let mut doubts = Vec::new();
    let not_received = fill_untyped(own.get_mut(), &candidates, &mut wrong, &mut doubts);
    let skipped =
        keys.as_ref().map(|keys| keys.why_skipped(templates)).transpose().unwrap_or_else(|invalid: Invalid| {
            wrong.push((common.span(), invalid.to_string()));
            None
        });
    wrong = wrong.into_iter().map(|problem| hidden::shown(problem, &hidden_values)).collect();
    let located = |(span, problem): &Problem| -> DefinitionError { sources.error(span, &format!("{id}: {problem}")) };
    findings.extend(wrong.iter().map(|problem| Finding::Error(located(problem))));
    findings.extend(doubts.iter().map(|problem| Finding::Warning(located(problem))));
    let keys = keys.filter(|_| wrong.is_empty())?;
    let whole: Location = sources.location(&own.span());
    let of_both = own.get_ref().iter().chain(common.get_ref());
    let lines =
        of_both.map(|(key, _)| (key.get_ref().to_string(), sources.location(&key.span()).to_string())).collect();
    let mut common = values(common.get_ref());
    for (key, duration) in DURATIONS.into_iter().zip([keys.timeout, keys.retry_delay, keys.poll]) {
        if let Some(duration) = duration {
            common.insert(key.to_owned(), Value::Float(duration.as_secs_f64()));
        }
    }
    let (file, line) = (whole.path().display().to_string(), whole.line());
    let keys = values(own.get_ref());
    Some(UntypedDefinition {
        id,
        table,
        name,
        file,
        line,
        sources: files,
        keys,
        common,
        lines,
        skipped: skipped.flatten(),
        sensitive: hidden_values.into_iter().map(|value| value.key).collect(),
        not_received,
    })
}

fn values(table: &DeTable<'_>) -> Table {
    table.iter().filter_map(|(key, value)| Some((key.get_ref().to_string(), simple(plain(value)?)))).collect()
}

/// Returns the value with times as strings, as JSON has no type for times.
fn simple(value: Value) -> Value {
    match value {
        Value::Datetime(time) => Value::String(time.to_string()),
        Value::Array(list) => Value::Array(list.into_iter().map(simple).collect()),
        Value::Table(table) => Value::Table(table.into_iter().map(|(key, value)| (key, simple(value))).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::NothingReceived;
    use crate::testing::NoTemplates;
    use std::fs;

    fn read(files: &[(&str, &str)]) -> (Vec<UntypedDefinition>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let (definitions, findings) =
            UntypedDefinition::read_all(&folder.path().to_owned().into(), &NoTemplates, &NothingReceived);
        let prefix = format!("{}/", folder.path().display());
        let words = |finding| match finding {
            Finding::Error(error) => error.to_string().replace(&prefix, ""),
            other => format!("{other:?}"),
        };
        (definitions, findings.into_iter().map(words).collect())
    }

    #[test]
    fn what_several_files_say_is_one_definition() {
        let (found, wrong) = read(&[
            ("a.toml", "\n[[note]]\nname = \"x\"\ntext = \"t\"\nretry_delay = \"1m30s\"\nafter = [\"a:b\"]\n"),
            ("b.toml", "[[note]]\nname = \"x\"\nafter = [\"a:c\"]\nwhen = 1979-05-27\n[[pen]]\npath = \"/p\"\n"),
        ]);
        assert_eq!(wrong, [""; 0]);
        let [note, pen] = &found[..] else { panic!("{found:?}") };
        assert_eq!((note.id.as_str(), note.line, note.sources.len()), ("note:x", 2, 2));
        assert_eq!(note.keys.to_string(), "name = \"x\"\ntext = \"t\"\nwhen = \"1979-05-27\"\n");
        assert_eq!(note.common.to_string(), "after = [\"a:b\", \"a:c\"]\nretry_delay = 90.0\n");
        assert!(note.lines["text"].ends_with("a.toml:4") && note.lines["when"].ends_with("b.toml:4"));
        assert_eq!((pen.id.as_str(), pen.name.as_str()), ("pen:/p", "/p"));
    }

    #[test]
    fn contents_of_sensitive_definitions_are_hidden() {
        let (mut found, _) = read(&[(
            "a.toml",
            "[[file]]\npath = \"/x\"\nmode = \"0600\"\ncontent = \"TOP\"\nsensitive = true\nlines = [\"TOP\"]\nx.y = \"TOP\"\n\
             [[file]]\npath = \"/y\"\ncontent = \"open\"\nsensitive = false\n",
        )]);
        found.iter_mut().for_each(UntypedDefinition::hide_secrets);
        let [hidden, open] = &found[..] else { panic!("{found:?}") };
        let text = format!("{:?}", hidden.keys);
        assert!(!text.contains("TOP") && text.contains("0600"), "{text}");
        assert_eq!(hidden.sensitive, ["content", "lines", "x"]);
        assert_eq!(open.keys["content"].as_str(), Some("open"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let (found, wrong) = read(&[
            ("a.toml", "stray = 1\n[[note]]\ntext = \"t\"\n[[note]]\nname = \"x\"\ntimeout = \"long\"\n"),
            ("b.toml", "[[note]]\nname = \"y\"\na = 1\n[[note]]\nname = \"y\"\n"),
            ("c.toml", "[[note]]\nname = \"y\"\na = 2\n"),
            ("d.toml", "[[note\n"),
        ]);
        assert_eq!(found, []);
        let expected = [
            "d.toml:1: ",
            "a.toml:1: a definition is written below a line such as [[stray]]",
            "a.toml:2: [[note]]: name: is missing",
            "b.toml:4: [[note]]: is defined twice in this file",
            "a.toml:6: note:x: timeout: ",
            "c.toml:3: note:y: a: contradicts ",
        ];
        for beginning in expected {
            assert!(wrong.iter().any(|found| found.starts_with(beginning)), "{beginning}\n{wrong:#?}");
        }
        assert_eq!(wrong.len(), expected.len(), "{wrong:#?}");
    }
}
