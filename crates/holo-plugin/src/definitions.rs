//! Definitions: TOML files in the resource directory, each with tables that say what an entity shall be.
//!
//! A file is read whole; what is wrong in it is said with file, line and key. A definition that is wrong is broken: its entity is
//! neither listed nor taken for an orphan, and the others go on.

mod apart;
mod declarations;
mod keys;
mod naming;
#[cfg(feature = "schema")]
mod schema;
mod source;
mod stack;
pub mod values;
mod words;

pub use declarations::{Declaration, Declarations, NoDeclaration};
pub use keys::{Command, CommonKeys, HealthCheck};
pub use naming::{NameError, NameKeys};
#[cfg(feature = "schema")]
pub use schema::{schema, schema_with};
pub use source::Location;
pub use words::{meant_for_a_shell, words_of};

use crate::templates::Templates;
use crate::{EntityReport, Host, Output};
use declarations::DeclaredTables;
use holo_facts::reading::{self, similar};
use serde::de::DeserializeOwned;
use source::{Parsed, Sources, UnreadError};
use stack::Stack;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// A table of a definition. Unknown keys are refused if the type says `#[serde(deny_unknown_fields)]`, which it has to.
pub trait Definition: DeserializeOwned {
    /// The name of the tables: `package` for `[[package]]`.
    const TABLE: &'static str;
    /// The first part of its entities' IDs.
    const ENTITY_TYPE: &'static str = Self::TABLE;
    /// The key whose value is the entity's name.
    const KEY: &'static str = "name";
    /// Keys whose lists are united when a definition is stacked over several files, beside the common ones.
    const UNITED: &'static [&'static str] = &[];

    /// True if folders in the resource directory are something else, whatever they are called.
    const HAS_FOLDERS: bool = false;

    /// Returns the entity's name: what its ID has after the type.
    ///
    /// # Errors
    /// If the keys that it is made of are missing or cannot be a name.
    fn entity_name(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
        keys.required(Self::KEY).map(str::to_owned)
    }

    /// Returns what can be, but is hardly meant: the key, and the reason. It is said, and the definition counts.
    fn doubts(&self) -> Vec<Invalid> {
        Vec::new()
    }

    /// Looks for what no type can tell of a value, for each key by itself. It is called even if other keys cannot be read, so that everything
    /// that is wrong can be said at once; what the definition then has for those is of no account.
    fn invalid_values(&self) -> Vec<Invalid> {
        Vec::new()
    }

    /// Looks for what no type can tell of keys that do not go together.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    fn validate(&self) -> Result<(), Invalid> {
        Ok(())
    }

    /// All that is wrong: with values, and with keys that do not go together.
    fn invalid(&self) -> Vec<Invalid> {
        let mut invalid = self.invalid_values();
        let together = self.validate().err();
        let together = together.filter(|problem| invalid.iter().all(|known| known.key != problem.key));
        invalid.extend(together);
        invalid
    }
}

/// A mistake in a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    key: &'static str,
    problem: String,
}

impl Invalid {
    /// All that is wrong, of results that are about a key each.
    pub fn all(results: impl IntoIterator<Item = Result<(), Invalid>>) -> Vec<Invalid> {
        results.into_iter().filter_map(Result::err).collect()
    }

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
    /// The file and line of the first of them.
    pub place: String,
    /// The keys that every definition can have.
    pub keys: CommonKeys,
    /// The reason why its own conditions leave the entity out, if they do.
    pub skipped: Option<String>,
    /// The location of the first of its tables.
    pub location: Location,
    /// The locations of the keys that only its type has, and of those in their tables as `KEY.KEY`.
    pub key_locations: Vec<(String, Location)>,
}

impl<D: Definition> Definitions<D> {
    /// Reads all definition files of the plugin; what is wrong is said on `output`.
    pub fn read(host: &Host, output: &mut Output<'_>) -> Definitions<D> {
        Definitions::read_with::<NoDeclaration>(host, output).0
    }

    /// Reads all definition files of the plugin, and what they declare for all definitions; what is wrong is said on `output`.
    pub fn read_with<M: Declaration>(host: &Host, output: &mut Output<'_>) -> (Definitions<D>, Declarations<M>) {
        let templates = Templates::new(host);
        let mut sources = Sources::default();
        let mut definitions = Definitions { valid: BTreeMap::new(), broken: BTreeSet::new(), complete: true };
        for found in sources.read(host, &templates) {
            match found {
                UnreadError::Folder(_) if D::HAS_FOLDERS => {}
                UnreadError::Folder(path) => {
                    output.advise(format!("{}: this is a directory, which is not read", path.display()));
                }
                UnreadError::File(problem) => {
                    definitions.complete = false;
                    output.error(problem);
                }
            }
        }
        let mut stacks: BTreeMap<String, Stack<'_>> = BTreeMap::new();
        let mut declared = DeclaredTables::default();
        for (index, source) in sources.iter().enumerate() {
            let parsed = match source.parse() {
                Ok(parsed) => parsed,
                Err(problem) => {
                    definitions.complete = false;
                    output.error(problem);
                    continue;
                }
            };
            definitions.take_file::<M>(parsed, index, &sources, &mut stacks, &mut declared, output);
        }
        let declarations = declared.finish(&sources, output);
        for (id, stack) in stacks {
            definitions.finish(id, stack, &sources, &templates, output);
        }
        templates.warn(output);
        if !definitions.complete {
            output.warning("no entity is scrubbed until this is mended, as its definition may be what is missing");
        }
        (definitions, declarations)
    }

    /// Makes a definition broken that turns out to be wrong when it is seen beside others: it is said, and nothing becomes an orphan.
    pub fn refuse(&mut self, id: &str, invalid: &[Invalid], output: &mut Output<'_>) {
        let Some(Defined { common, .. }) = self.valid.remove(id) else { return };
        for Invalid { key, problem } in invalid {
            output.error(format!("{}: {id}: {key}: {problem}", common.location_of(key)));
        }
        self.broken.insert(id.to_owned());
    }

    /// Returns true if an entity known from earlier is an orphan now: nothing defines it, and nothing that may is unreadable.
    #[must_use]
    pub fn is_orphan(&self, id: &str) -> bool {
        self.complete && !self.valid.contains_key(id) && !self.broken.contains(id)
    }

    fn take_file<'s, M: Declaration>(
        &mut self,
        parsed: Parsed<'s>,
        index: usize,
        sources: &'s Sources,
        stacks: &mut BTreeMap<String, Stack<'s>>,
        declared: &mut DeclaredTables<'s>,
        output: &mut Output<'_>,
    ) {
        let Parsed { table, mut duplicates, end } = parsed;
        let mut complain = |definitions: &mut Self, span: &Range<usize>, problem: &str| {
            definitions.complete = false;
            output.error(format!("{}: {problem}", sources.place(span)));
        };
        let mut entries: Vec<_> = table.into_inner().into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut tables = Vec::new();
        let mut has_stray = false;
        for (key, value) in entries {
            let is_stray = !matches!(value.get_ref(), DeValue::Array(_) | DeValue::Table(_));
            let declares = *key.get_ref() == M::TABLE;
            match tables_of(key.get_ref(), value, &[D::TABLE, M::TABLE]) {
                Ok(found) => tables.extend(found.into_iter().map(|table| (declares, table))),
                // One missing line makes strays of all keys below it.
                Err(_) if is_stray && has_stray => {}
                Err(problem) => complain(self, &key.span(), &problem),
            }
            has_stray |= is_stray;
        }
        let mut seen: BTreeMap<String, Range<usize>> = BTreeMap::new();
        tables.sort_by_key(|(_, table)| table.span().start);
        let ends: Vec<usize> = tables.iter().skip(1).map(|(_, table)| table.span().start).chain([end]).collect();
        for ((declares, table), end) in tables.into_iter().zip(ends) {
            let (start, span) = (table.span().start, table.span());
            let twice: Vec<_> = duplicates.extract_if(.., |(place, _)| (start..=end).contains(place)).collect();
            if declares {
                if let Err(NameError { span, problem }) = declared.take::<M>(table, twice) {
                    complain(self, &span, &format!("[[{}]]: {problem}", M::TABLE));
                }
                continue;
            }
            let (id, table) = match naming::named::<D>(table) {
                Ok(named) => named,
                Err(NameError { span, problem }) => {
                    complain(self, &span, &format!("[[{}]]: {problem}", D::TABLE));
                    continue;
                }
            };
            let stack = stacks.entry(id.clone()).or_default();
            stack.problems.extend(twice.into_iter().map(|(place, words)| (place..place, words)));
            if let Some(first) = seen.get(&id) {
                stack.problems.push((span, format!("is defined in {} already", sources.place(first))));
                continue;
            }
            seen.insert(id, span);
            stack.lay(table, index, D::UNITED, sources);
        }
        for (place, words) in duplicates {
            complain(self, &(place..place), &words);
        }
    }

    fn finish(
        &mut self,
        id: String,
        mut stack: Stack<'_>,
        sources: &Sources,
        templates: &Templates<'_>,
        output: &mut Output<'_>,
    ) {
        let paths = stack.files.iter().map(|&index| sources.path(index)).collect();
        let mut wrong = std::mem::take(&mut stack.problems);
        let (own, common) = keys::split(stack.table);
        let whole = own.span();
        let place_of = |key: &str| {
            let own = own.get_ref().get_key_value(key).or_else(|| common.get_ref().get_key_value(key));
            own.map_or_else(|| whole.clone(), |(key, _)| key.span())
        };
        let read: Option<Read<D>> = read_all(own.clone(), true, &mut wrong);
        let invalid = read.as_ref().map(Read::invalid).unwrap_or_default();
        wrong.extend(invalid.iter().map(|Invalid { key, problem }| (place_of(key), format!("{key}: {problem}"))));
        let definition = read.and_then(Read::whole);
        let mut keys = read_all(common.clone(), false, &mut wrong).and_then(Read::<CommonKeys>::whole);
        if let Some(keys) = &mut keys {
            keys.locate(common.get_ref(), |span| sources.place(span).to_string());
        }
        let skipped =
            keys.as_ref().map(|keys| keys.why_skipped(templates)).transpose().unwrap_or_else(|(key, problem)| {
                wrong.push((place_of(key), format!("{key}: {problem}")));
                None
            });
        wrong.sort_by_key(|(span, _)| span.start);
        for (span, problem) in &wrong {
            output.error(format!("{}: {id}: {problem}", sources.place(span)));
        }
        let doubts = definition.iter().flat_map(D::doubts).chain(keys.iter().flat_map(CommonKeys::doubts));
        for Invalid { key, problem } in doubts {
            output.advise(format!("{}: {id}: {key}: {problem}", sources.place(&place_of(key))));
        }
        match (definition, keys) {
            (Some(definition), Some(keys)) if wrong.is_empty() => {
                let location = sources.place(&whole);
                let common = Common {
                    sources: paths,
                    place: location.to_string(),
                    keys,
                    skipped: skipped.flatten(),
                    location,
                    key_locations: locations(own.get_ref(), sources),
                };
                self.valid.insert(id, Defined { definition, common });
            }
            _ => {
                self.broken.insert(id);
            }
        }
    }
}

/// The tables that a key of the file stands for, which has to be one of `known`, of which an empty name is none.
///
/// # Errors
/// The form that is to be written instead.
fn tables_of<'s>(
    key: &str,
    value: Spanned<DeValue<'s>>,
    known: &[&'static str],
) -> Result<Vec<Spanned<DeValue<'s>>>, String> {
    let is_list_of_tables = |list: &DeArray<'_>| list.iter().all(|item| item.get_ref().is_table());
    let is_known = !key.is_empty() && known.contains(&key);
    match value.into_inner() {
        DeValue::Array(list) if is_known && is_list_of_tables(&list) => Ok(list.into_iter().collect()),
        DeValue::Table(_) if is_known => Err(format!("[{key}] has to be written as [[{key}]]")),
        DeValue::Array(_) | DeValue::Table(_) if is_known => Err(format!("{key} has to be written as [[{key}]]")),
        DeValue::Table(_) => Err(format!("unknown table [{key}], {}", expected_table(key, known))),
        DeValue::Array(list) if is_list_of_tables(&list) && !list.is_empty() => {
            Err(format!("unknown table [[{key}]], {}", expected_table(key, known)))
        }
        _ => {
            let table = known.first().copied().unwrap_or_default();
            Err(format!("{key}: this key is in no table; write the line [[{table}]] above it"))
        }
    }
}

fn expected_table(key: &str, known: &[&'static str]) -> String {
    let known = || known.iter().copied().filter(|table| !table.is_empty());
    match similar(key, known()) {
        Some(table) => format!("did you mean [[{table}]]?"),
        None => {
            let tables: Vec<String> = known().map(|table| format!("[[{table}]]")).collect();
            format!("expected {}", tables.join(" or "))
        }
    }
}

/// The locations of the keys of a table, and of those in its tables.
fn locations(table: &DeTable<'_>, sources: &Sources) -> Vec<(String, Location)> {
    let mut locations = Vec::new();
    for (key, value) in table {
        locations.push((key.get_ref().to_string(), sources.place(&key.span())));
        for inner in value.get_ref().as_table().into_iter().flat_map(DeTable::keys) {
            locations.push((format!("{}.{}", key.get_ref(), inner.get_ref()), sources.place(&inner.span())));
        }
    }
    locations
}

type Problem = (Range<usize>, String);

/// Reads a table into a type, and says everything that is wrong: what is wrong with one key says nothing of the next one.
fn read_all<T: DeserializeOwned>(
    mut table: Spanned<DeTable<'_>>,
    is_own: bool,
    wrong: &mut Vec<Problem>,
) -> Option<Read<T>> {
    let mut left_out = BTreeSet::new();
    let mut stand_ins: BTreeMap<String, std::array::IntoIter<DeValue<'_>, 5>> = BTreeMap::new();
    loop {
        let problem = match reading::read::<T>(&table) {
            Ok(value) => return Some(Read { value, left_out }),
            Err(problem) => problem,
        };
        let Some(key) = problem.top_key().map(str::to_owned) else {
            wrong.push((problem.span().unwrap_or_else(|| table.span()), problem.to_string()));
            return None;
        };
        let words = match problem.problem() {
            reading::Problem::UnknownKey(known) if is_own && problem.is_at_top() => {
                // The key that was meant may be a common one too.
                let all: Vec<&str> = known.iter().copied().chain(keys::NAMES).collect();
                let (known, more) = if similar(&key, all.iter().copied()).is_some() {
                    (&all[..], "")
                } else {
                    (*known, ", or a common key")
                };
                format!("{key}: {}", reading::unknown_key(&key, known, more))
            }
            _ => problem.to_string(),
        };
        // A key that has been left out is missing because of that.
        if !left_out.contains(&key) {
            wrong.push((problem.span().unwrap_or_else(|| table.span()), words));
        }
        let was_there = table.get_mut().remove(key.as_str()).is_some();
        if left_out.contains(&key) || !was_there {
            // It has to be there: anything will do, for the others to be read.
            let stand_in = stand_ins.entry(key.clone()).or_insert_with(of_every_type).next()?;
            table.get_mut().insert(Spanned::new(0..0, key.clone().into()), Spanned::new(0..0, stand_in));
        }
        left_out.insert(key);
    }
}

fn of_every_type<'i>() -> std::array::IntoIter<DeValue<'i>, 5> {
    let (number, list, table) = (toml::de::DeInteger::default(), DeArray::default(), DeTable::default());
    let text = DeValue::String("".into());
    [text, DeValue::Array(list), DeValue::Integer(number), DeValue::Boolean(false), DeValue::Table(table)].into_iter()
}

/// The part of a table that could be read.
struct Read<T> {
    value: T,
    /// The keys that could not be read, which the value has something else for.
    left_out: BTreeSet<String>,
}

impl<T> Read<T> {
    fn whole(self) -> Option<T> {
        self.left_out.is_empty().then_some(self.value)
    }
}

impl<D: Definition> Read<D> {
    /// Returns the mistakes in the values that could be read.
    fn invalid(&self) -> Vec<Invalid> {
        if self.left_out.is_empty() {
            return self.value.invalid();
        }
        // As long as a key is unknown, it cannot be told how keys go together.
        let mut invalid = self.value.invalid_values();
        invalid.retain(|problem| !self.left_out.contains(problem.key));
        invalid
    }
}

impl Common {
    /// Returns the file and line of a key that only the entity's type has, or of `KEY.KEY` in its table; or of the definition if it does
    /// not say it.
    #[must_use]
    pub fn location_of(&self, key: &str) -> &Location {
        let found = self.key_locations.iter().find(|(known, _)| known == key);
        found.map_or(&self.location, |(_, location)| location)
    }

    /// Adds to a report what every entity has: the place of its definition, its edges, and whether it is left out.
    pub fn complete(&self, report: &mut EntityReport) {
        self.keys.complete(report);
        for source in self.sources.iter().rev() {
            let path = holo_change::path_bytes(source);
            report.sources.insert(0, path.clone());
            report.information.insert(0, holo_protocol::report::Information { key: "found in".into(), value: path });
        }
        if let Some(reason) = &self.skipped {
            report.action = crate::Action::because("Skipping", reason.as_str());
            // Another definition may be for the case that this one is not.
            report.edges.owns.clear();
        }
    }
}

#[cfg(test)]
mod tests;
