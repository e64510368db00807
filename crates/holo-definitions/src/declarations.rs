//! Tables that define no entity: they declare something for all definitions of the plugin, whatever file they stand in.

use crate::definition::Invalid;
use crate::finding::Finding;
use crate::location::Location;
use crate::naming::{self, NameError, NameKeys};
use crate::source::Sources;
use crate::stack::plain;
use crate::tolerant::{Problem, Read, read_all};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A table that declares something. Unknown keys are refused if the type says `#[serde(deny_unknown_fields)]`, which it has to.
pub trait Declaration: DeserializeOwned {
    /// The name of the tables: `module` for `[[module]]`.
    const TABLE: &'static str;
    /// The key whose value tells one declaration from another; none if there is but one.
    const KEY: Option<&'static str> = None;

    /// Looks for what no type can tell of a value, for each key by itself.
    fn invalid_values(&self) -> Vec<Invalid> {
        Vec::new()
    }
}

/// The declarations of a plugin whose definitions need none.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoDeclaration {}

impl Declaration for NoDeclaration {
    const TABLE: &'static str = "";
}

/// The declarations of all files together.
#[derive(Debug)]
pub struct Declarations<M> {
    /// Those that can be used, by the value of their key, with the location of the first of their tables.
    pub valid: BTreeMap<String, (M, Location)>,
    broken: BTreeSet<String>,
}

impl<M> Declarations<M> {
    /// Returns true if it is declared, but wrong: it has been said why, and nothing can be said of what uses it.
    #[must_use]
    pub fn is_broken(&self, name: &str) -> bool {
        self.broken.contains(name)
    }

    /// Takes a declaration for wrong after all, which has been said.
    pub fn refuse(&mut self, name: &str) {
        self.valid.remove(name);
        self.broken.insert(name.to_owned());
    }
}

/// The tables that declare something, as they have been read so far, by name.
#[derive(Default)]
pub(crate) struct DeclaredTables<'s>(BTreeMap<String, Tables<'s>>);

/// The tables about one name.
struct Tables<'s> {
    /// The keys that are known, and the table that each is from.
    table: Spanned<DeTable<'s>>,
    origins: BTreeMap<String, Range<usize>>,
    contradictions: Vec<Contradiction>,
    problems: Vec<Problem>,
}

/// A key that another table has with another value.
struct Contradiction {
    span: Range<usize>,
    key: String,
    value: String,
    other: String,
    /// The other table.
    origin: Range<usize>,
}

impl<'s> DeclaredTables<'s> {
    /// Takes one more table, in which these keys stand twice.
    ///
    /// # Errors
    /// If it has no name.
    pub(crate) fn take<M: Declaration>(
        &mut self,
        value: Spanned<DeValue<'s>>,
        twice: Vec<(usize, String)>,
    ) -> Result<(), NameError> {
        let table = naming::table(value)?;
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

    /// Reads all of them.
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

/// The value as it may be written.
fn shown(value: &Spanned<DeValue<'_>>) -> String {
    plain(value).map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
