//! Reads all definition files: their tables by type and entity, and their errors.

use super::{Common, Defined, Definitions, KnownFiles, UnreadIds};
use crate::common::{self, CommonKeys};
use crate::declarations::{Declaration, DeclaredTables};
use crate::definition::{self, Definition, Invalid, NameError, NameKeys};
use crate::finding::{DefinitionError, Finding, Location};
use crate::hidden;
use crate::outline::{OutlinedTable, Role, TableId};
use crate::receive::{Candidate, Filled, Received, fill};
use crate::resource_dirs::ResourceDirs;
use crate::source::{Parsed, Sources, tables_of};
use crate::stack::Stack;
use crate::templates::Templates;
use crate::tolerant::{Problem, Read, read_all};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A type of definitions to read.
pub struct TableType {
    table: &'static str,
    united: &'static [&'static str],
    pub(super) has_folders: bool,
    has_expressions: bool,
    key: &'static str,
    entity_type: &'static str,
    self_contained: &'static [&'static str],
    strings: &'static [&'static str],
    named: Named,
}

/// Returns the ID of the entity that a table defines, and the rest of the table; or the error in the name.
type Named = for<'s> fn(Spanned<DeValue<'s>>) -> Result<(String, Spanned<DeTable<'s>>), NameError>;

impl TableType {
    pub(super) fn of<D: Definition>() -> TableType {
        TableType {
            table: D::TABLE,
            united: D::UNITED,
            has_folders: D::HAS_FOLDERS,
            has_expressions: D::HAS_EXPRESSIONS,
            key: D::KEY,
            entity_type: D::ENTITY_TYPE,
            self_contained: D::SELF_CONTAINED,
            strings: D::STRINGS,
            named: named::<D>,
        }
    }

    /// Returns the ID of the entity that a table defines, if the table can be skipped unless requested because it
    /// affects no other entity.
    fn id_without_reading<'s>(&self, table: &OutlinedTable<'s>) -> Option<TableId<'s>> {
        let name = table.name.filter(|_| !table.may_concern_others)?;
        Some(TableId { entity_type: self.entity_type, key: self.key, name })
    }

    fn role(&self, key: &str) -> Role {
        match key {
            _ if self.strings.contains(&key) => Role::Other,
            _ if !self.self_contained.contains(&key) && !common::is_self_contained(key) => Role::Other,
            _ if key == self.key => Role::Name,
            _ => Role::SelfContained,
        }
    }
}

/// Findings from reading definitions.
pub struct Reader<'c> {
    pub(super) findings: Vec<Finding>,
    received: &'c dyn Received,
    /// False if an error may hide the definition of an entity.
    pub(super) complete: bool,
    /// Shared by all definitions without common keys, of which there may be very many.
    no_keys: Arc<CommonKeys>,
}

/// The tables of each entity by its ID.
pub(super) type Stacks<'s> = BTreeMap<String, Stack<'s>>;

/// The tables of all files read so far.
pub struct Tables<'s, M> {
    types: Vec<TableType>,
    /// Stacks by table name.
    stacks: BTreeMap<&'static str, Stacks<'s>>,
    /// Entities whose tables were not read, by table name.
    unread: BTreeMap<&'static str, UnreadIds>,
    pub(super) declared: DeclaredTables<'s>,
    declarations: PhantomData<M>,
}

/// A table of a file, or the invalid value in its place, with its name.
type OneTable<'s> = (Cow<'s, str>, Spanned<DeValue<'s>>);

impl<'s, M: Declaration> Tables<'s, M> {
    pub(super) fn new(types: Vec<TableType>) -> Tables<'s, M> {
        Tables {
            types,
            stacks: BTreeMap::new(),
            unread: BTreeMap::new(),
            declared: DeclaredTables::default(),
            declarations: PhantomData,
        }
    }

    pub(super) fn take_files(&mut self, sources: &'s Sources, reader: &mut Reader<'_>) {
        for (index, source) in sources.iter().enumerate() {
            match source.parse_by_table(|table| self.names().any(|known| known == table)) {
                Some(tables) => {
                    for (name, table) in tables {
                        let table = table.into_table();
                        let (span, table) = (table.span(), DeValue::Table(table.into_inner()));
                        self.take_table((name.into(), Spanned::new(span, table)), Vec::new(), index, sources, reader);
                    }
                }
                None => match source.parse() {
                    Ok(parsed) => self.take_file(parsed, index, sources, reader),
                    Err(error) => reader.miss(error),
                },
            }
        }
    }

    /// Returns the valid table names.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.types.iter().map(|kind| kind.table).chain([M::TABLE])
    }

    /// Reads the tables of files that were valid the last time, except for those that were not requested and affect no
    /// other entity. Returns false if that is not possible.
    pub(super) fn take_some(&mut self, sources: &'s Sources, known: &dyn KnownFiles, reader: &mut Reader<'_>) -> bool {
        let role = |table: &str, key: &str| {
            self.types.iter().find(|kind| kind.table == table).map_or(Role::Other, |kind| kind.role(key))
        };
        let outlines: Option<Vec<_>> = sources.iter().map(|source| source.outline(role)).collect();
        let Some(outlines) = outlines else { return false };
        let lengths: Vec<usize> = outlines.iter().map(Vec::len).collect();
        let all: Vec<(OutlinedTable<'s>, Option<TableId<'s>>)> = outlines
            .into_iter()
            .flatten()
            .map(|table| {
                let kind = self.types.iter().find(|kind| kind.table == table.table);
                let id = kind.and_then(|kind| kind.id_without_reading(&table));
                (table, id)
            })
            .collect();
        let Some(chosen) = known.choose(&all) else { return false };
        let mut tables = all.into_iter().zip(chosen);
        for (index, (source, length)) in sources.iter().zip(lengths).enumerate() {
            for ((table, id), chosen) in tables.by_ref().take(length) {
                match (id, self.types.iter().find(|kind| kind.table == table.table)) {
                    (Some(id), Some(kind)) if !chosen => {
                        self.unread.entry(kind.table).or_default().add(id);
                    }
                    _ => match source.parse_table(&table) {
                        Ok(parsed) => self.take_file(parsed, index, sources, reader),
                        Err(error) => reader.miss(error),
                    },
                }
            }
        }
        true
    }

    /// Takes the IDs of the entities of a type whose tables were not read.
    pub(super) fn take_unread<D: Definition>(&mut self) -> UnreadIds {
        self.unread.remove(D::TABLE).unwrap_or_default()
    }

    /// Takes the tables of a type.
    pub(super) fn take<D: Definition>(&mut self) -> Stacks<'s> {
        self.stacks.remove(D::TABLE).unwrap_or_default()
    }

    fn take_file(&mut self, parsed: Parsed<'s>, index: usize, sources: &Sources, reader: &mut Reader<'_>) {
        let Parsed { table, mut duplicates, end } = parsed;
        let tables = split(&self.names().collect::<Vec<_>>(), table.into_inner(), sources, reader);
        let ends: Vec<usize> = tables.iter().skip(1).map(|(_, table)| table.span().start).chain([end]).collect();
        for (table, end) in tables.into_iter().zip(ends) {
            let start = table.1.span().start;
            let twice: Vec<_> = duplicates.extract_if(.., |(offset, _)| (start..=end).contains(offset)).collect();
            self.take_table(table, twice, index, sources, reader);
        }
        for (offset, words) in duplicates {
            reader.miss(sources.error(&(offset..offset), &words));
        }
    }

    /// Adds a table of a file. `twice` are the duplicate keys in it.
    fn take_table(
        &mut self,
        (name, table): OneTable<'s>,
        twice: Vec<(usize, String)>,
        index: usize,
        sources: &Sources,
        reader: &mut Reader<'_>,
    ) {
        let span = table.span();
        let mut miss = |span: &Range<usize>, problem: &str| {
            reader.miss(sources.error(span, &format!("[[{name}]]: {problem}")));
        };
        let Some(kind) = self.types.iter().find(|kind| kind.table == name) else {
            if hidden::is_hidden(&table, sources) {
                miss(&span, "an encrypted value cannot be used here, because it would be shown");
            } else if let Err(NameError { problem, .. }) = self.declared.take::<M>(table, twice) {
                miss(&span, &problem);
            }
            return;
        };
        let (id, table) = match (kind.named)(table) {
            Ok(named) => named,
            Err(NameError { span, problem }) => return miss(&span, &problem),
        };
        if let Some(NameError { span, problem }) = hidden::in_name(&id, &table, sources) {
            return miss(&span, &problem);
        }
        let stack = self.stacks.entry(kind.table).or_default().entry(id).or_default();
        stack.problems.extend(twice.into_iter().map(|(offset, words)| (offset..offset, words)));
        if stack.files.contains(&index) {
            stack.problems.push((span, format!("is already defined in {}", sources.location(&stack.last))));
        } else {
            stack.lay(table, index, kind.united, sources);
        }
    }
}

/// Returns the tables of a file in order.
fn split<'s>(
    known: &[&'static str],
    file: DeTable<'s>,
    sources: &Sources,
    reader: &mut Reader<'_>,
) -> Vec<OneTable<'s>> {
    let mut entries: Vec<_> = file.into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let mut tables = Vec::new();
    let mut has_stray = false;
    for (key, value) in entries {
        let is_stray = !matches!(value.get_ref(), DeValue::Array(_) | DeValue::Table(_));
        match tables_of(key.get_ref(), value, known) {
            Ok(found) => tables.extend(found.into_iter().map(|table| (key.get_ref().clone(), table))),
            // If one table header is missing, all keys below are misplaced: report only the first.
            Err(_) if is_stray && has_stray => {}
            Err(error) => reader.miss(sources.error(&key.span(), &error.to_string())),
        }
        has_stray |= is_stray;
    }
    tables.sort_by_key(|(_, table)| table.span().start);
    tables
}

impl<'c> Reader<'c> {
    /// Opens the files, and records those that cannot be read.
    pub(super) fn open(
        directories: &ResourceDirs,
        templates: &dyn Templates,
        received: &'c dyn Received,
        types: &[TableType],
    ) -> (Sources, Reader<'c>) {
        let (sources, unread) = Sources::read(directories, templates);
        let mut reader = Reader { findings: Vec::new(), received, complete: true, no_keys: Arc::default() };
        for finding in unread {
            match finding {
                Finding::Folder(_) if types.iter().any(|kind| kind.has_folders) => {}
                Finding::Unrendered(_) if types.iter().any(|kind| kind.has_expressions) => {}
                Finding::Error(error) => reader.miss(error),
                doubt => reader.findings.push(doubt),
            }
        }
        (sources, reader)
    }

    /// Records an error that may hide the definition of an entity.
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
        let mut broken = BTreeSet::new();
        let finished = stacks.into_iter().filter_map(|(id, stack)| {
            let defined = self.finish(&id, stack, sources, templates);
            match defined {
                Some(defined) => Some((id, Box::new(defined))),
                None => {
                    broken.insert(id);
                    None
                }
            }
        });
        // Collected in one go, because maps that grow at one end are half empty.
        let valid = finished.collect();
        Definitions { valid, broken, unread: UnreadIds::default(), complete: self.complete }
    }

    /// Reads the definition of an entity. Records the errors and returns `None` if it is invalid.
    fn finish<D: Definition>(
        &mut self,
        id: &str,
        mut stack: Stack<'_>,
        sources: &Sources,
        templates: &dyn Templates,
    ) -> Option<Defined<D>> {
        let paths = stack.files.iter().map(|&index| sources.path(index)).collect();
        let mut wrong = std::mem::take(&mut stack.problems);
        let (own, mut common) = common::split(stack.take_table(), D::STRINGS);
        let whole = own.span();
        hidden::refuse(&mut common, sources, &mut wrong);
        let hidden_values = hidden::hidden_values(own.get_ref(), sources);
        let own = hidden::hide::<D>(own, &hidden_values, &mut wrong);
        let mut keys =
            read_all(common.clone(), &BTreeSet::new(), false, &mut wrong).and_then(Read::<CommonKeys>::whole);
        wrong.extend(keys.iter().flat_map(|keys| keys.self_references(id, &common)));
        let receipts = keys.as_ref().map(|keys| keys.receive.clone()).unwrap_or_default();
        let candidates = Candidate::all(&receipts, &common, self.received);
        let describe =
            |span: &Range<usize>, problem: &str| sources.error(span, &format!("{id}: {problem}")).to_string();
        let Filled { table: own, hindrances, left_out } = fill::<D>(own, &candidates, &mut wrong, &describe);
        let span_of = |key: &str| span_of(own.get_ref(), key).or_else(|| span_of(common.get_ref(), key));
        let at_key = |invalid: &Invalid| -> Problem {
            (span_of(&invalid.key).unwrap_or_else(|| whole.clone()), invalid.to_string())
        };
        let read: Option<Read<D>> = read_all(own.clone(), &left_out, true, &mut wrong);
        wrong.extend(read.as_ref().map(Read::invalid).unwrap_or_default().iter().map(at_key));
        let definition = read.and_then(|read| read.whole_but(&left_out));
        if let Some(keys) = &mut keys {
            keys.locate(common.get_ref(), |span| sources.location(span).to_string());
        }
        let skipped = keys.as_ref().map(|keys| keys.why_skipped(templates)).transpose().unwrap_or_else(|invalid| {
            wrong.push(at_key(&invalid));
            None
        });
        wrong = wrong.into_iter().map(|problem| hidden::shown(problem, &hidden_values)).collect();
        wrong.sort_by_key(|(span, _)| span.start);
        let located = |(span, problem): &Problem| sources.error(span, &format!("{id}: {problem}"));
        self.findings.extend(wrong.iter().map(|problem| Finding::Error(located(problem))));
        let doubts = definition.iter().flat_map(D::doubts).chain(keys.iter().flat_map(CommonKeys::doubts));
        self.findings
            .extend(doubts.map(|doubt| Finding::Warning(located(&hidden::shown(at_key(&doubt), &hidden_values)))));
        match (definition, keys) {
            (Some(definition), Some(keys)) if wrong.is_empty() => {
                let keys = if common.get_ref().is_empty() { self.no_keys.clone() } else { Arc::new(keys) };
                let (location, key_locations) = (sources.location(&whole), locations(own.get_ref(), sources));
                let skipped = skipped.flatten();
                let common = Common { sources: paths, location, key_locations, keys, skipped, hindrances };
                Some(Defined { definition, common })
            }
            _ => None,
        }
    }
}

/// Returns the entity's ID and the rest of the table.
///
/// # Errors
/// The error in the name, with its location.
fn named<D: Definition>(value: Spanned<DeValue<'_>>) -> Result<(String, Spanned<DeTable<'_>>), NameError> {
    let entries = definition::table(value)?;
    let name = D::entity_name(&NameKeys::new(entries.get_ref(), entries.span()))?;
    Ok((format!("{}:{name}", D::ENTITY_TYPE), entries))
}

/// Returns the span of a key, or of `KEY.KEY` in a nested table, or of a part of its value; or that of the nested table
/// if the key is missing.
fn span_of(table: &DeTable<'_>, key: &str) -> Option<Range<usize>> {
    let (outer, inner) = key.split_once('.').map_or((key, None), |(outer, inner)| (outer, Some(inner)));
    let (outer, value) = table.get_key_value(outer)?;
    let inner = inner.and_then(|inner| {
        let (table, first) = (value.get_ref().as_table()?, inner.split(['.', '[']).next().unwrap_or_default());
        table.get_key_value(inner).or_else(|| table.get_key_value(first))
    });
    Some(inner.map_or_else(|| outer.span(), |(key, _)| key.span()))
}

/// Returns the locations of the keys of a table and of nested tables.
fn locations(table: &DeTable<'_>, sources: &Sources) -> Vec<(String, Location)> {
    let mut locations = Vec::new();
    for (key, value) in table {
        locations.push((key.get_ref().to_string(), sources.location(&key.span())));
        for inner in value.get_ref().as_table().into_iter().flat_map(DeTable::keys) {
            locations.push((format!("{}.{}", key.get_ref(), inner.get_ref()), sources.location(&inner.span())));
        }
    }
    // Saves memory, as there may be very many tables.
    locations.shrink_to_fit();
    locations
}
