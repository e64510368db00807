//! All definitions of a plugin: its files, read and stacked.
//!
//! A file is read whole; what is wrong in it is found with file, line and key. A definition that is wrong is broken: its entity is
//! neither listed nor taken for an orphan, and the others go on.

use crate::common::{self, CommonKeys};
use crate::declarations::{Declaration, Declarations, DeclaredTables, NoDeclaration};
use crate::definition::{Definition, Invalid};
use crate::finding::{DefinitionError, Finding};
use crate::location::Location;
use crate::naming::{self, NameError, NameKeys};
use crate::resource_dirs::ResourceDirs;
use crate::source::{Parsed, Sources};
use crate::stack::Stack;
use crate::tables::tables_of;
use crate::templates::Templates;
use crate::tolerant::{Problem, Read, read_all};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

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
    /// The keys that only entities of its type have.
    pub definition: D,
    /// The properties that every entity can have.
    pub common: Common,
}

/// The properties that every entity can have.
#[derive(Clone, Debug, Default)]
pub struct Common {
    /// The files that define it, as the user knows them.
    pub sources: Vec<PathBuf>,
    /// The location of the first of its tables.
    pub location: Location,
    /// The locations of the keys that only its type has, and of those in their tables as `KEY.KEY`.
    pub key_locations: Vec<(String, Location)>,
    /// The keys that every definition can have.
    pub keys: CommonKeys,
    /// The reason why its own conditions leave the entity out, if they do.
    pub skipped: Option<String>,
}

impl<D: Definition> Definitions<D> {
    /// Reads all definition files. What is found in them is in the order in which a person is told.
    pub fn read(directories: &ResourceDirs, templates: &dyn Templates) -> (Definitions<D>, Vec<Finding>) {
        let (definitions, _, findings) = Definitions::read_with::<NoDeclaration>(directories, templates);
        (definitions, findings)
    }

    /// Reads all definition files, and what they declare for all definitions.
    pub fn read_with<M: Declaration>(
        directories: &ResourceDirs,
        templates: &dyn Templates,
    ) -> (Definitions<D>, Declarations<M>, Vec<Finding>) {
        let (sources, unread) = Sources::read(directories, templates);
        let definitions = Definitions { valid: BTreeMap::new(), broken: BTreeSet::new(), complete: true };
        let mut reader = Reader { definitions, findings: Vec::new(), sources: &sources };
        for finding in unread {
            match finding {
                Finding::Folder(_) if D::HAS_FOLDERS => {}
                Finding::Error(error) => reader.miss(error),
                doubt => reader.findings.push(doubt),
            }
        }
        let mut stacks: BTreeMap<String, Stack<'_>> = BTreeMap::new();
        let mut declared = DeclaredTables::default();
        for (index, source) in sources.iter().enumerate() {
            match source.parse() {
                Ok(parsed) => reader.take_file::<M>(parsed, index, &mut stacks, &mut declared),
                Err(error) => reader.miss(error),
            }
        }
        let declarations = declared.finish(&sources, &mut reader.findings);
        for (id, stack) in stacks {
            reader.finish(id, stack, templates);
        }
        (reader.definitions, declarations, reader.findings)
    }

    /// Makes a definition broken that turns out to be wrong when it is seen beside others: nothing becomes an orphan. The mistakes are
    /// returned with their places.
    pub fn refuse(&mut self, id: &str, invalid: &[Invalid]) -> Vec<Finding> {
        let Some(Defined { common, .. }) = self.valid.remove(id) else { return Vec::new() };
        self.broken.insert(id.to_owned());
        let located = |invalid: &Invalid| {
            let (location, message) = (common.location_of(&invalid.key).clone(), format!("{id}: {invalid}"));
            Finding::Error(DefinitionError::Wrong { location, message })
        };
        invalid.iter().map(located).collect()
    }

    /// Returns true if an entity known from earlier is an orphan now: nothing defines it, and nothing that may is unreadable.
    #[must_use]
    pub fn is_orphan(&self, id: &str) -> bool {
        self.complete && !self.valid.contains_key(id) && !self.broken.contains(id)
    }

    /// Returns true if all that defines entities could be read: otherwise there are no orphans.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

/// Definitions that are being read.
struct Reader<'s, D> {
    definitions: Definitions<D>,
    findings: Vec<Finding>,
    sources: &'s Sources,
}

/// The tables of a file in their order, each with whether it declares something instead of defining an entity.
type Tables<'s> = Vec<(bool, Spanned<DeValue<'s>>)>;

impl<'s, D: Definition> Reader<'s, D> {
    /// Notes a mistake that may hide the definition of an entity.
    fn miss(&mut self, error: DefinitionError) {
        self.definitions.complete = false;
        self.findings.push(Finding::Error(error));
    }

    fn miss_at(&mut self, span: &Range<usize>, message: &str) {
        self.miss(self.sources.error(span, message));
    }

    fn take_file<M: Declaration>(
        &mut self,
        parsed: Parsed<'s>,
        index: usize,
        stacks: &mut BTreeMap<String, Stack<'s>>,
        declared: &mut DeclaredTables<'s>,
    ) {
        let Parsed { table, mut duplicates, end } = parsed;
        let tables = self.tables::<M>(table.into_inner());
        let mut seen: BTreeMap<String, Range<usize>> = BTreeMap::new();
        let ends: Vec<usize> = tables.iter().skip(1).map(|(_, table)| table.span().start).chain([end]).collect();
        for ((declares, table), end) in tables.into_iter().zip(ends) {
            let (start, span) = (table.span().start, table.span());
            let twice: Vec<_> = duplicates.extract_if(.., |(offset, _)| (start..=end).contains(offset)).collect();
            if declares {
                if let Err(NameError { span, problem }) = declared.take::<M>(table, twice) {
                    self.miss_at(&span, &format!("[[{}]]: {problem}", M::TABLE));
                }
                continue;
            }
            let (id, table) = match named::<D>(table) {
                Ok(named) => named,
                Err(NameError { span, problem }) => {
                    self.miss_at(&span, &format!("[[{}]]: {problem}", D::TABLE));
                    continue;
                }
            };
            let stack = stacks.entry(id.clone()).or_default();
            stack.problems.extend(twice.into_iter().map(|(offset, words)| (offset..offset, words)));
            if let Some(first) = seen.get(&id) {
                stack.problems.push((span, format!("is already defined in {}", self.sources.location(first))));
                continue;
            }
            seen.insert(id, span);
            stack.lay(table, index, D::UNITED, self.sources);
        }
        for (offset, words) in duplicates {
            self.miss_at(&(offset..offset), &words);
        }
    }

    fn tables<M: Declaration>(&mut self, file: DeTable<'s>) -> Tables<'s> {
        let mut entries: Vec<_> = file.into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut tables = Tables::new();
        let mut has_stray = false;
        for (key, value) in entries {
            let is_stray = !matches!(value.get_ref(), DeValue::Array(_) | DeValue::Table(_));
            let declares = *key.get_ref() == M::TABLE;
            match tables_of(key.get_ref(), value, &[D::TABLE, M::TABLE]) {
                Ok(found) => tables.extend(found.into_iter().map(|table| (declares, table))),
                // One missing line makes strays of all keys below it.
                Err(_) if is_stray && has_stray => {}
                Err(error) => self.miss_at(&key.span(), &error.to_string()),
            }
            has_stray |= is_stray;
        }
        tables.sort_by_key(|(_, table)| table.span().start);
        tables
    }

    fn finish(&mut self, id: String, mut stack: Stack<'_>, templates: &dyn Templates) {
        let sources = self.sources;
        let paths = stack.files.iter().map(|&index| sources.path(index)).collect();
        let mut wrong = std::mem::take(&mut stack.problems);
        let (own, common) = common::split(stack.table);
        let whole = own.span();
        let span_of = |key: &str| span_of(own.get_ref(), key).or_else(|| span_of(common.get_ref(), key));
        let at_key = |invalid: &Invalid| -> Problem {
            (span_of(&invalid.key).unwrap_or_else(|| whole.clone()), invalid.to_string())
        };
        let read: Option<Read<D>> = read_all(own.clone(), true, &mut wrong);
        wrong.extend(read.as_ref().map(Read::invalid).unwrap_or_default().iter().map(at_key));
        let definition = read.and_then(Read::whole);
        let mut keys = read_all(common.clone(), false, &mut wrong).and_then(Read::<CommonKeys>::whole);
        if let Some(keys) = &mut keys {
            keys.locate(common.get_ref(), |span| sources.location(span).to_string());
        }
        let skipped = keys.as_ref().map(|keys| keys.why_skipped(templates)).transpose().unwrap_or_else(|invalid| {
            wrong.push(at_key(&invalid));
            None
        });
        wrong.sort_by_key(|(span, _)| span.start);
        let located = |(span, problem): &Problem| sources.error(span, &format!("{id}: {problem}"));
        self.findings.extend(wrong.iter().map(|problem| Finding::Error(located(problem))));
        let doubts = definition.iter().flat_map(D::doubts).chain(keys.iter().flat_map(CommonKeys::doubts));
        self.findings.extend(doubts.map(|doubt| Finding::Doubt(located(&at_key(&doubt)))));
        match (definition, keys) {
            (Some(definition), Some(keys)) if wrong.is_empty() => {
                let (location, key_locations) = (sources.location(&whole), locations(own.get_ref(), sources));
                let common = Common { sources: paths, location, key_locations, keys, skipped: skipped.flatten() };
                self.definitions.valid.insert(id, Defined { definition, common });
            }
            _ => {
                self.definitions.broken.insert(id);
            }
        }
    }
}

/// Returns the entity's ID and what is said of it.
///
/// # Errors
/// The mistake in the name, and its location.
fn named<D: Definition>(value: Spanned<DeValue<'_>>) -> Result<(String, Spanned<DeTable<'_>>), NameError> {
    let entries = naming::table(value)?;
    let name = D::entity_name(&NameKeys::new(entries.get_ref(), entries.span()))?;
    Ok((format!("{}:{name}", D::ENTITY_TYPE), entries))
}

/// Returns the place of a key, or of `KEY.KEY` in a table of the table, whatever part of its value is meant: at least of that table, if there
/// is nothing else.
fn span_of(table: &DeTable<'_>, key: &str) -> Option<Range<usize>> {
    let (outer, inner) = key.split_once('.').map_or((key, None), |(outer, inner)| (outer, Some(inner)));
    let (outer, value) = table.get_key_value(outer)?;
    let inner = inner.and_then(|inner| {
        let (table, first) = (value.get_ref().as_table()?, inner.split(['.', '[']).next().unwrap_or_default());
        table.get_key_value(inner).or_else(|| table.get_key_value(first))
    });
    Some(inner.map_or_else(|| outer.span(), |(key, _)| key.span()))
}

/// Returns the locations of the keys of a table, and of those in its tables.
fn locations(table: &DeTable<'_>, sources: &Sources) -> Vec<(String, Location)> {
    let mut locations = Vec::new();
    for (key, value) in table {
        locations.push((key.get_ref().to_string(), sources.location(&key.span())));
        for inner in value.get_ref().as_table().into_iter().flat_map(DeTable::keys) {
            locations.push((format!("{}.{}", key.get_ref(), inner.get_ref()), sources.location(&inner.span())));
        }
    }
    locations
}

impl Common {
    /// Returns the file and line of a key that only the entity's type has, or of `KEY.KEY` in its table; or of the definition if it does
    /// not say it.
    #[must_use]
    pub fn location_of(&self, key: &str) -> &Location {
        let find = |key: &str| self.key_locations.iter().find(|(known, _)| known == key);
        let found = find(key).or_else(|| find(key.split_once('.')?.0));
        found.map_or(&self.location, |(_, location)| location)
    }
}

#[cfg(test)]
mod tests;
