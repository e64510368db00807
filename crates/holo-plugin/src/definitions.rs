//! Definitions: TOML files in the resource directory, each with tables that say what an entity shall be.
//!
//! A file is read whole; what is wrong in it is said with file, line and key. A definition that is wrong is broken: its entity is
//! neither listed nor taken for an orphan, and the others go on.

mod apart;
mod keys;
mod source;
mod stack;
pub mod values;
mod words;

#[cfg(feature = "schema")]
pub use keys::schema;
pub use keys::{Command, CommonKeys, HealthCheck};
pub use words::words_of;

use crate::templates::Templates;
use crate::{EntityReport, Host, Output};
use serde::de::DeserializeOwned;
use source::Sources;
use stack::Stack;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use toml::Spanned;
use toml::de::{DeTable, Deserializer};

/// What a table of a definition says. Unknown keys are refused if the type says `#[serde(deny_unknown_fields)]`, which it has to.
pub trait Definition: DeserializeOwned {
    /// What the tables are called: `package` for `[[package]]`, which is also what IDs begin with.
    const TABLE: &'static str;
    /// The key whose value is the entity's name.
    const KEY: &'static str = "name";
    /// Keys whose lists are united when a definition is stacked over several files, beside the common ones.
    const UNITED: &'static [&'static str] = &[];

    /// Looks for what no type can tell.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    fn validate(&self) -> Result<(), Invalid> {
        Ok(())
    }
}

/// What is wrong with a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    key: &'static str,
    problem: String,
}

impl Invalid {
    /// A key whose value cannot be, and why, in words that read after "KEY: ".
    pub fn new(key: &'static str, problem: impl Into<String>) -> Invalid {
        Invalid { key, problem: problem.into() }
    }
}

/// All definitions of one type.
#[derive(Debug)]
pub struct Definitions<D> {
    /// Those that can be used, by the entity's ID.
    pub valid: BTreeMap<String, Defined<D>>,
    broken: BTreeSet<String>,
    complete: bool,
}

/// A definition, as all files together say it.
#[derive(Clone, Debug)]
pub struct Defined<D> {
    /// What only entities of its type have.
    pub definition: D,
    /// What every entity can have.
    pub common: Common,
}

/// What every entity can have.
#[derive(Clone, Debug, Default)]
pub struct Common {
    /// The files that define it, as the user knows them.
    pub sources: Vec<PathBuf>,
    /// The keys that every definition can have.
    pub keys: CommonKeys,
    /// Why the entity is left out: what its own conditions say.
    pub skipped: Option<String>,
}

impl<D: Definition> Definitions<D> {
    /// Reads all definition files of the plugin; what is wrong is said on `output`.
    pub fn read(host: &Host, output: &mut Output<'_>) -> Definitions<D> {
        let templates = Templates::new(host);
        let mut sources = Sources::default();
        let mut definitions = Definitions { valid: BTreeMap::new(), broken: BTreeSet::new(), complete: true };
        if let Err(problem) = sources.read(host, &templates, &mut |problem| {
            definitions.complete = false;
            output.error(problem);
        }) {
            definitions.complete = false;
            output.error(problem);
        }
        let mut stacks: BTreeMap<String, Stack<'_>> = BTreeMap::new();
        for (index, source) in sources.iter().enumerate() {
            let tables = match source.parse() {
                Ok(tables) => tables,
                Err(problem) => {
                    definitions.complete = false;
                    output.error(problem);
                    continue;
                }
            };
            definitions.take_file(tables, index, &sources, &mut stacks, output);
        }
        for (id, stack) in stacks {
            definitions.finish(id, stack, &sources, &templates, output);
        }
        templates.warn(output);
        if !definitions.complete {
            output.warning("no entity is scrubbed until this is mended, as its definition may be what is missing");
        }
        definitions
    }

    /// Whether an entity that we know from earlier is an orphan now: nothing defines it, and nothing that may is unreadable.
    #[must_use]
    pub fn is_orphan(&self, id: &str) -> bool {
        self.complete && !self.valid.contains_key(id) && !self.broken.contains(id)
    }

    fn take_file<'s>(
        &mut self,
        tables: Spanned<DeTable<'s>>,
        index: usize,
        sources: &'s Sources,
        stacks: &mut BTreeMap<String, Stack<'s>>,
        output: &mut Output<'_>,
    ) {
        let mut seen = BTreeSet::new();
        for (key, value) in tables.into_inner() {
            let place = sources.place(&key.span());
            let array = match (&**key.get_ref() == D::TABLE).then(|| value.into_inner()) {
                Some(toml::de::DeValue::Array(array)) => array,
                Some(_) => {
                    self.complete = false;
                    output.error(format!("{place}: {key} must be written as [[{key}]]", key = D::TABLE));
                    continue;
                }
                None => {
                    self.complete = false;
                    output.error(format!("{place}: unknown table {:?}, expected [[{}]]", key.get_ref(), D::TABLE));
                    continue;
                }
            };
            for value in array {
                let place = sources.place(&value.span());
                let Some((id, table)) = self.named(value, sources, output) else {
                    self.complete = false;
                    continue;
                };
                if !seen.insert(id.clone()) {
                    output.error(format!("{place}: {id} is defined twice in this file"));
                    self.broken.insert(id.clone());
                }
                stacks.entry(id).or_default().lay(table, index, D::UNITED, sources);
            }
        }
    }

    /// The entity's ID and what is said of it.
    fn named<'s>(
        &self,
        value: Spanned<toml::de::DeValue<'s>>,
        sources: &Sources,
        output: &mut Output<'_>,
    ) -> Option<(String, Spanned<DeTable<'s>>)> {
        let span = value.span();
        let place = sources.place(&span);
        let (table, key) = (D::TABLE, D::KEY);
        let toml::de::DeValue::Table(entries) = value.into_inner() else {
            output.error(format!("{place}: {table} must be written as [[{table}]]"));
            return None;
        };
        match entries.get(key).map(|name| (name.get_ref().as_str(), name.span())) {
            None => output.error(format!("{place}: this {table} has no {key}")),
            Some((None, span)) => output.error(format!("{}: {key} must be a string", sources.place(&span))),
            Some((Some(name), span)) if name.is_empty() || name.contains(char::is_control) => {
                output.error(format!("{}: {key} {name:?} is empty or holds control characters", sources.place(&span)));
            }
            Some((Some(name), _)) => return Some((format!("{table}:{name}"), Spanned::new(span, entries))),
        }
        None
    }

    fn finish(
        &mut self,
        id: String,
        stack: Stack<'_>,
        sources: &Sources,
        templates: &Templates<'_>,
        output: &mut Output<'_>,
    ) {
        let paths = stack.files.iter().map(|&index| sources.path(index)).collect();
        let problems = stack.problems.clone();
        let (own, common) = keys::split(stack);
        // Where a key stands has to be known after the table has been read.
        let place_of = |key: &str| {
            let span = own.get_ref().get_key_value(key).map_or_else(|| own.span(), |(key, _)| key.span());
            sources.place(&span)
        };
        let places: BTreeMap<String, source::Location> =
            own.get_ref().keys().map(|key| (key.get_ref().to_string(), place_of(key.get_ref()))).collect();
        let fallback = sources.place(&own.span());
        let mut wrong: Vec<String> = problems;
        let mut complain = |error: &toml::de::Error| {
            let place = error.span().map_or_else(|| fallback.clone(), |span| sources.place(&span));
            let common = if error.message().starts_with("unknown field") { ", or a common key" } else { "" };
            wrong.push(format!("{place}: {id}: {}{common}", error.message().trim_end()));
        };
        let definition = D::deserialize(Deserializer::from(own)).map_err(|error| complain(&error)).ok();
        let keys = <CommonKeys as serde::Deserialize>::deserialize(Deserializer::from(common))
            .map_err(|error| complain(&error))
            .ok();
        if let Some(Err(Invalid { key, problem })) = definition.as_ref().map(D::validate) {
            let place = places.get(key).unwrap_or(&fallback);
            wrong.push(format!("{place}: {id}: {key}: {problem}"));
        }
        let skipped = keys.as_ref().map(|keys| keys.why_skipped(templates)).transpose().unwrap_or_else(|problem| {
            wrong.push(format!("{fallback}: {id}: {problem}"));
            None
        });
        for problem in &wrong {
            output.error(problem);
        }
        match (definition, keys) {
            (Some(definition), Some(keys)) if wrong.is_empty() && !self.broken.contains(&id) => {
                let common = Common { sources: paths, keys, skipped: skipped.flatten() };
                self.valid.insert(id, Defined { definition, common });
            }
            _ => {
                self.broken.insert(id);
            }
        }
    }
}

impl Common {
    /// Puts to a report what every entity has: where it is defined, what it depends on, and whether it is left out.
    pub fn complete(&self, report: &mut EntityReport) {
        self.keys.complete(report);
        for source in self.sources.iter().rev() {
            let path = crate::path_bytes(source);
            report.sources.insert(0, path.clone());
            report.information.insert(0, holo_protocol::report::Information { key: "found in".into(), value: path });
        }
        if let Some(reason) = &self.skipped {
            report.action = crate::Action::because("Skipping", reason.as_str());
        }
    }
}

#[cfg(test)]
mod tests;
