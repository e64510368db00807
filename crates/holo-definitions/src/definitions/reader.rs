//! Reading all definition files: their tables, by type and entity, and what is wrong with them.

use super::{Common, Defined, Definitions};
use crate::common::{self, CommonKeys};
use crate::declarations::{Declaration, DeclaredTables};
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
use std::marker::PhantomData;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The second type of a plugin whose definitions have one.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoDefinition {}

impl Definition for NoDefinition {
    const TABLE: &'static str = "";
}

/// What is found while definitions are read.
pub(super) struct Reader {
    pub(super) findings: Vec<Finding>,
    /// False if there is a mistake that may hide the definition of an entity.
    complete: bool,
}

/// The tables about each entity, by its ID.
type Stacks<'s> = BTreeMap<String, Stack<'s>>;

/// The tables of all files that have been read so far.
pub(super) struct Tables<'s, D, E, M> {
    pub(super) stacks: Stacks<'s>,
    pub(super) others: Stacks<'s>,
    pub(super) declared: DeclaredTables<'s>,
    types: PhantomData<(D, E, M)>,
}

impl<D, E, M> Default for Tables<'_, D, E, M> {
    fn default() -> Self {
        Tables { stacks: Stacks::new(), others: Stacks::new(), declared: DeclaredTables::default(), types: PhantomData }
    }
}

/// What a table is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// It defines an entity.
    Defines,
    /// It is of the second type.
    DefinesOther,
    /// It declares something for all definitions.
    Declares,
}

/// A table of a file, or what stands there instead of one.
type OneTable<'s> = (Purpose, Spanned<DeValue<'s>>);

impl<'s, D: Definition, E: Definition, M: Declaration> Tables<'s, D, E, M> {
    pub(super) fn take_files(&mut self, sources: &'s Sources, reader: &mut Reader) {
        for (index, source) in sources.iter().enumerate() {
            match source.parse() {
                Ok(parsed) => self.take_file(parsed, index, sources, reader),
                Err(error) => reader.miss(error),
            }
        }
    }

    fn take_file(&mut self, parsed: Parsed<'s>, index: usize, sources: &Sources, reader: &mut Reader) {
        let Parsed { table, mut duplicates, end } = parsed;
        let tables = Self::split(table.into_inner(), sources, reader);
        let mut seen: [BTreeMap<String, Range<usize>>; 2] = Default::default();
        let [seen, seen_others] = &mut seen;
        let ends: Vec<usize> = tables.iter().skip(1).map(|(_, table)| table.span().start).chain([end]).collect();
        for ((purpose, table), end) in tables.into_iter().zip(ends) {
            let (start, span) = (table.span().start, table.span());
            let twice: Vec<_> = duplicates.extract_if(.., |(offset, _)| (start..=end).contains(offset)).collect();
            let file = (index, sources);
            let (name, taken) = match purpose {
                Purpose::Declares => (M::TABLE, self.declared.take::<M>(table, twice)),
                Purpose::Defines => (D::TABLE, take::<D>(table, twice, file, &mut self.stacks, seen)),
                Purpose::DefinesOther => (E::TABLE, take::<E>(table, twice, file, &mut self.others, seen_others)),
            };
            if let Err(NameError { span: at, problem }) = taken {
                let span = if purpose == Purpose::Declares { span } else { at };
                reader.miss(sources.error(&span, &format!("[[{name}]]: {problem}")));
            }
        }
        for (offset, words) in duplicates {
            reader.miss(sources.error(&(offset..offset), &words));
        }
    }

    /// Returns the tables of a file in their order.
    fn split(file: DeTable<'s>, sources: &Sources, reader: &mut Reader) -> Vec<OneTable<'s>> {
        let mut entries: Vec<_> = file.into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut tables = Vec::new();
        let mut has_stray = false;
        for (key, value) in entries {
            let is_stray = !matches!(value.get_ref(), DeValue::Array(_) | DeValue::Table(_));
            let purpose = match &**key.get_ref() {
                table if table == M::TABLE => Purpose::Declares,
                table if table == E::TABLE => Purpose::DefinesOther,
                _ => Purpose::Defines,
            };
            match tables_of(key.get_ref(), value, &[D::TABLE, E::TABLE, M::TABLE]) {
                Ok(found) => tables.extend(found.into_iter().map(|table| (purpose, table))),
                // One missing line makes strays of all keys below it.
                Err(_) if is_stray && has_stray => {}
                Err(error) => reader.miss(sources.error(&key.span(), &error.to_string())),
            }
            has_stray |= is_stray;
        }
        tables.sort_by_key(|(_, table)| table.span().start);
        tables
    }
}

/// Lays a table of this type over those that are known of its entity, given what was seen in the same file.
///
/// # Errors
/// The mistake in the name, and its location.
fn take<'s, D: Definition>(
    table: Spanned<DeValue<'s>>,
    twice: Vec<(usize, String)>,
    (index, sources): (usize, &Sources),
    stacks: &mut Stacks<'s>,
    seen: &mut BTreeMap<String, Range<usize>>,
) -> Result<(), NameError> {
    let span = table.span();
    let (id, table) = named::<D>(table)?;
    let stack = stacks.entry(id.clone()).or_default();
    stack.problems.extend(twice.into_iter().map(|(offset, words)| (offset..offset, words)));
    if let Some(first) = seen.get(&id) {
        stack.problems.push((span, format!("is already defined in {}", sources.location(first))));
        return Ok(());
    }
    seen.insert(id, span);
    stack.lay(table, index, D::UNITED, sources);
    Ok(())
}

impl Reader {
    /// Reads the files; what cannot be read is noted.
    pub(super) fn open<D: Definition>(directories: &ResourceDirs, templates: &dyn Templates) -> (Sources, Reader) {
        let (sources, unread) = Sources::read(directories, templates);
        let mut reader = Reader { findings: Vec::new(), complete: true };
        for finding in unread {
            match finding {
                Finding::Folder(_) if D::HAS_FOLDERS => {}
                Finding::Error(error) => reader.miss(error),
                doubt => reader.findings.push(doubt),
            }
        }
        (sources, reader)
    }

    /// Notes a mistake that may hide the definition of an entity.
    fn miss(&mut self, error: DefinitionError) {
        self.complete = false;
        self.findings.push(Finding::Error(error));
    }

    pub(super) fn finish_all<D: Definition>(
        &mut self,
        stacks: Stacks<'_>,
        sources: &Sources,
        templates: &dyn Templates,
    ) -> Definitions<D> {
        let mut definitions = Definitions { valid: BTreeMap::new(), broken: BTreeSet::new(), complete: self.complete };
        for (id, stack) in stacks {
            match self.finish(&id, stack, sources, templates) {
                Some(defined) => drop(definitions.valid.insert(id, defined)),
                None => drop(definitions.broken.insert(id)),
            }
        }
        definitions
    }

    /// Reads what is known of one entity; nothing if it is wrong, which is noted.
    fn finish<D: Definition>(
        &mut self,
        id: &str,
        mut stack: Stack<'_>,
        sources: &Sources,
        templates: &dyn Templates,
    ) -> Option<Defined<D>> {
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
                Some(Defined { definition, common })
            }
            _ => None,
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
