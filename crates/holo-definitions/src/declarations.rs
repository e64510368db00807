//! Tables that define no entity, but declare properties for all definitions of the plugin, in any file.

use crate::definition::{self, Invalid, NameError, NameKeys};
use crate::finding::{Finding, Location};
use crate::source::Sources;
use crate::stack::plain;
use crate::tolerant::{Problem, Read, read_all};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A declaration. The type must be `#[serde(deny_unknown_fields)]`, so that unknown keys are refused.
pub trait Declaration: DeserializeOwned {
    /// The name of the tables, such as `module` for `[[module]]`.
    const TABLE: &'static str;
    /// The key whose value identifies a declaration; `None` if there is only one.
    const KEY: Option<&'static str> = None;

    /// Returns errors that the type cannot express, each for a single key.
    fn invalid_values(&self) -> Vec<Invalid> {
        Vec::new()
    }
}

/// For plugins without declarations.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoDeclaration {}

impl Declaration for NoDeclaration {
    const TABLE: &'static str = "";
}

/// The declarations of all files.
#[derive(Debug)]
pub struct Declarations<M> {
    /// The valid declarations by the value of their key, each with the location of its first table.
    pub valid: BTreeMap<String, (M, Location)>,
    broken: BTreeSet<String>,
}

impl<M> Declarations<M> {
    /// Returns true if the declaration exists, but is invalid. The error has been reported already, and definitions
    /// that use it cannot be checked.
    #[must_use]
    pub fn is_broken(&self, name: &str) -> bool {
        self.broken.contains(name)
    }

    /// Marks a declaration as invalid after its error was reported.
    pub fn refuse(&mut self, name: &str) {
        self.valid.remove(name);
        self.broken.insert(name.to_owned());
    }
}

/// The declaration tables read so far, by name.
#[derive(Default)]
pub(crate) struct DeclaredTables<'s>(BTreeMap<String, Tables<'s>>);

/// The tables of one name.
struct Tables<'s> {
    /// The keys read so far, each with the table that it comes from.
    table: Spanned<DeTable<'s>>,
    origins: BTreeMap<String, Range<usize>>,
    contradictions: Vec<Contradiction>,
    problems: Vec<Problem>,
}

/// A key that has another value in another table.
struct Contradiction {
    span: Range<usize>,
    key: String,
    value: String,
    other: String,
    /// The other table.
    origin: Range<usize>,
}

impl<'s> DeclaredTables<'s> {
    /// Adds a table. `twice` are the duplicate keys in it.
    ///
    /// # Errors
    /// If the table has no name.
    pub(crate) fn take<M: Declaration>(
        &mut self,
        value: Spanned<DeValue<'s>>,
        twice: Vec<(usize, String)>,
    ) -> Result<(), NameError> {
        let table = definition::table(value)?;
        let keys = NameKeys::new(table.get_ref(), table.span());
        let name = M::KEY.map(|key| keys.required(key)).transpose()?.unwrap_or_default().to_owned();
        let empty = || Tables {
            table: Spanned::new(table.span(), DeTable::new()),
            origins: BTreeMap::new(),
            contradictions: Vec::new(),
            problems: Vec::new(),
        };
        let tables = self.0.entry(name).or_insert_with(empty);
        tables.problems.extend(twice.into_iter().map(|(place, words)| (place..place, words)));
        tables.lay(table);
        Ok(())
    }

    /// Reads all declarations.
    pub(crate) fn finish<M: Declaration>(self, sources: &Sources, findings: &mut Vec<Finding>) -> Declarations<M> {
        let mut declarations = Declarations { valid: BTreeMap::new(), broken: BTreeSet::new() };
        for (name, tables) in self.0 {
            let label = if name.is_empty() { M::TABLE.to_owned() } else { format!("{} {name}", M::TABLE) };
            let location = sources.location(&tables.table.span());
            match tables.read::<M>(sources) {
                Ok(declaration) => {
                    declarations.valid.insert(name, (declaration, location));
                }
                Err(problems) => {
                    let error = |(span, problem)| Finding::Error(sources.error(&span, &format!("{label}: {problem}")));
                    findings.extend(problems.into_iter().map(error));
                    declarations.broken.insert(name);
                }
            }
        }
        declarations
    }
}

impl<'s> Tables<'s> {
    fn lay(&mut self, table: Spanned<DeTable<'s>>) {
        let origin = table.span();
        for (key, value) in table.into_inner() {
            let name = key.get_ref().to_string();
            match self.table.get_ref().get(&*name) {
                Some(known) if plain(known) != plain(&value) => self.contradictions.push(Contradiction {
                    span: key.span(),
                    value: shown(&value),
                    other: shown(known),
                    origin: self.origins.get(&name).cloned().unwrap_or_default(),
                    key: name,
                }),
                Some(_) => {}
                None => {
                    self.table.get_mut().insert(key, value);
                    self.origins.insert(name, origin.clone());
                }
            }
        }
    }

    fn read<M: Declaration>(self, sources: &Sources) -> Result<M, Vec<Problem>> {
        let mut wrong = self.problems;
        wrong.extend(self.contradictions.into_iter().map(|contradiction| {
            let Contradiction { span, key, value, other, origin } = contradiction;
            (span, format!("{key}: {value}, where {} says {other}", sources.location(&origin)))
        }));
        let whole = self.table.span();
        let place_of = |key: &str| self.table.get_ref().get_key_value(key).map_or(whole.clone(), |(key, _)| key.span());
        let read: Option<Read<M>> = read_all(self.table.clone(), &BTreeSet::new(), false, &mut wrong);
        if let Some(Read { value, left_out }) = &read {
            let invalid = value.invalid_values().into_iter().filter(|invalid| !left_out.contains(invalid.key.as_ref()));
            wrong.extend(invalid.map(|invalid| (place_of(&invalid.key), invalid.to_string())));
        }
        wrong.sort_by_key(|(span, _)| span.start);
        match read.and_then(Read::whole) {
            Some(declaration) if wrong.is_empty() => Ok(declaration),
            _ => Err(wrong),
        }
    }
}

/// Returns the value as shown in messages.
fn shown(value: &Spanned<DeValue<'_>>) -> String {
    plain(value).map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
