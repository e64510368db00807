//! Definition files, and locations in them.

#[cfg(test)]
mod tests;

use crate::finding::{DefinitionError, Finding, LocatedError, Location};
use crate::outline::{OutlinedTable, Role, outline};
use crate::reading::value_error::similar;
use crate::reading::{is_duplicate, syntax};
use crate::resource_dirs::{ListError, ResourceDirs, ResourceFile};
use crate::templates::{MISTAKE, Rendered, Templates};
use std::borrow::Cow;
use std::fs::{self, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// The suffix of files that are rendered before they are read.
const TEMPLATE_SUFFIX: &str = ".toml.jinja";
const SUFFIX: &str = ".toml";
/// The number of bytes for which a line count is kept: a number per line would need a lot of memory for files with
/// short lines.
const BLOCK: usize = 1024;

/// All files. Spans count from the start of the first file, as if the files were concatenated, so that a single number
/// identifies a position in any file.
#[derive(Default)]
pub struct Sources(Vec<Source>);

/// The metadata of a definition file before it was read, by which changes are detected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileState {
    path: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    /// The times of the last content and inode change, in seconds and nanoseconds.
    changed: [(i64, i64); 2],
}

impl FileState {
    fn new(path: &Path, metadata: &Metadata) -> FileState {
        let changed = [(metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec())];
        let (device, inode, size) = (metadata.dev(), metadata.ino(), metadata.size());
        FileState { path: path.to_owned(), device, inode, size, changed }
    }

    /// Returns the time of the last change in seconds.
    #[must_use]
    pub fn changed_at(&self) -> u64 {
        self.changed.iter().map(|(seconds, _)| u64::try_from(*seconds).unwrap_or_default()).max().unwrap_or_default()
    }
}

/// A definition file.
pub(crate) struct Source {
    /// As shown to the user.
    path: Arc<PathBuf>,
    state: FileState,
    text: String,
    /// The number of lines that end before each block.
    lines_before: Vec<usize>,
    /// The total length of the preceding files.
    offset: usize,
    rendered: bool,
    /// The ranges of the text that must not be shown.
    hidden: Vec<Range<usize>>,
    /// The text with placeholders for these ranges.
    disguised: Option<String>,
}

/// Returns a warning for an expression in a file that is not a template. Formats of Go, such as `{{.Names}}` for
/// docker, are none. The values of `vars` are rendered later.
fn unrendered(path: &Path, text: &str, rendered: bool) -> Option<Finding> {
    let has_expression = |line: &str| {
        let expression = line.split_once("{{").and_then(|(_, rest)| rest.split_once("}}")).map_or("", |(text, _)| text);
        let is_expression = expression.starts_with(|first: char| first.is_alphabetic() || " -_".contains(first))
            && !expression.split_whitespace().any(|word| word.starts_with('.'));
        is_expression && !["#", "vars.", "vars ", "vars="].iter().any(|start| line.trim_start().starts_with(start))
    };
    let number = text.lines().position(has_expression).filter(|_| !rendered)? + 1;
    let text = "{{ }} has no effect here: rename the file to .toml.jinja to make it a template, or write {\\u007B to keep the braces";
    Some(Finding::Unrendered(LocatedError::new(path.display().to_string(), text).at(Some(number))))
}

impl Sources {
    /// Reads all definition files in the order of their names, and returns findings for those that cannot be read.
    pub(crate) fn read(directories: &ResourceDirs, templates: &dyn Templates) -> (Sources, Vec<Finding>) {
        let mut sources = Sources::default();
        let paths = match files_in(directories) {
            Ok(paths) => paths,
            Err(ListError { path, error }) => return (sources, vec![Finding::Error(unreadable(&path, error))]),
        };
        let mut unread = Vec::new();
        for path in paths {
            let rendered = path.as_os_str().as_encoded_bytes().ends_with(TEMPLATE_SUFFIX.as_bytes());
            let text = text_of(&path).and_then(|(text, state)| match rendered {
                true => {
                    let text = templates.render(&path.display().to_string(), &text);
                    Ok((text.map_err(|error| Finding::Error(error.into()))?, state))
                }
                false => Ok((Rendered::new(text), state)),
            });
            match text {
                Ok((text, state)) => {
                    unread.extend(text.text.contains("{{").then(|| unrendered(&path, &text.text, rendered)).flatten());
                    sources.add(path, text, state, rendered);
                }
                Err(finding) => unread.push(finding),
            }
        }
        (sources, unread)
    }

    fn add(&mut self, path: PathBuf, content: Rendered, state: FileState, rendered: bool) {
        let hidden = content.hidden();
        let Rendered { text, disguised } = content;
        let offset = self.0.last().map_or(0, |source| source.offset + source.text.len() + 1);
        let count = |lines: &mut usize, block: &[u8]| Some(std::mem::replace(lines, *lines + newlines(block)));
        let lines_before = text.as_bytes().chunks(BLOCK).scan(0, count).collect();
        self.0.push(Source { path: Arc::new(path), state, text, lines_before, offset, rendered, hidden, disguised });
    }

    /// Returns the states of the files; `None` if the content of any depends on more than the file.
    pub(crate) fn states(&self) -> Option<Vec<FileState>> {
        self.0.iter().map(|source| (!source.rendered).then(|| source.state.clone())).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Source> {
        self.0.iter()
    }

    pub(crate) fn path(&self, index: usize) -> PathBuf {
        self.0.get(index).map(|source| source.path.to_path_buf()).unwrap_or_default()
    }

    /// Returns the file and line of the start of a span.
    pub(crate) fn location(&self, span: &Range<usize>) -> Location {
        let after = self.0.partition_point(|source| source.offset <= span.start);
        let Some(source) = after.checked_sub(1).and_then(|index| self.0.get(index)) else {
            return Location::default();
        };
        source.location(span.start - source.offset)
    }

    /// Returns true if any part of a span must not be shown.
    pub(crate) fn hides(&self, span: &Range<usize>) -> bool {
        let after = self.0.partition_point(|source| source.offset <= span.start);
        let source = after.checked_sub(1).and_then(|index| self.0.get(index));
        source.is_some_and(|source| source.hides(&(span.start - source.offset..span.end - source.offset)))
    }

    /// Returns an error at a span.
    pub(crate) fn error(&self, span: &Range<usize>, message: &str) -> DefinitionError {
        DefinitionError::Wrong { location: self.location(span), message: message.to_owned() }
    }
}

impl Source {
    fn location(&self, offset: usize) -> Location {
        let block = (offset / BLOCK).min(self.lines_before.len().saturating_sub(1));
        let within = self.text.as_bytes().get(block * BLOCK..offset.min(self.text.len())).unwrap_or_default();
        let line = 1 + self.lines_before.get(block).unwrap_or(&0) + newlines(within);
        Location::new(Arc::clone(&self.path), line, self.rendered)
    }

    fn hides(&self, span: &Range<usize>) -> bool {
        // An empty span counts as hidden too if its position is.
        self.hidden.iter().any(|hidden| hidden.start < span.end.max(span.start + 1) && span.start < hidden.end)
    }

    /// Returns a substitute for an error message that must not be shown. Its wording does not depend on the encrypted
    /// values.
    fn shown_mistake(&self) -> String {
        let disguised = self.disguised.as_deref().unwrap_or_default();
        let found = DeTable::parse(disguised).err().map(|error| syntax(disguised, &error).0);
        found.unwrap_or_else(|| MISTAKE.to_owned())
    }

    /// Returns the tables of the file, with spans counted from the start of the first file.
    ///
    /// A duplicate key only invalidates the table that contains it: its second value is left out and reported.
    pub(crate) fn parse(&self) -> Result<Parsed<'_>, DefinitionError> {
        self.parse_part(&self.text, 0)
    }

    /// Returns the outline of the file; `None` if the file contains syntax that outlines do not support.
    pub(crate) fn outline(&self, role: impl Fn(&str, &str) -> Role) -> Option<Vec<OutlinedTable<'_>>> {
        outline(&self.text, role)
    }

    /// Returns the tables of the file one by one, with their names; `None` if the file must be parsed as a whole,
    /// because it has errors or unknown tables.
    ///
    /// Parsing by table saves memory, as the parser needs much more than its result for the text that it parses at
    /// once.
    pub(crate) fn parse_by_table<'s>(
        &'s self,
        is_known: impl Fn(&str) -> bool,
    ) -> Option<Vec<(&'s str, CompactTable<'s>)>> {
        let outline = self.outline(|_, _| Role::Other).filter(|outline| {
            !outline.is_empty()
                && self.disguised.is_none()
                && self.hidden.is_empty()
                && outline.iter().all(|table| is_known(table.table))
        })?;
        let ends = outline.iter().skip(1).map(|next| next.start).chain([self.text.len()]);
        let mut start = 0;
        let mut tables = Vec::with_capacity(outline.len());
        for (table, end) in outline.iter().zip(ends) {
            let name = table.table;
            // There may also be errors between two tables.
            let (parsed, errors) = DeTable::parse_recoverable(self.text.get(start..end)?);
            let [(_, only)] = <[_; 1]>::try_from(parsed.into_inner().into_iter().collect::<Vec<_>>()).ok()?;
            let (DeValue::Array(list), true) = (only.into_inner(), errors.is_empty()) else { return None };
            let [table] = <[_; 1]>::try_from(list.into_iter().collect::<Vec<_>>()).ok()?;
            let (span, DeValue::Table(table)) = (table.span(), table.into_inner()) else { return None };
            let table = shift_table(Spanned::new(span, table), self.offset + start);
            tables.push((name, CompactTable::new(table)));
            start = end;
        }
        Some(tables)
    }

    /// Parses a table of the outline.
    pub(crate) fn parse_table<'s>(&'s self, table: &OutlinedTable<'s>) -> Result<Parsed<'s>, DefinitionError> {
        self.parse_part(table.text, table.start)
    }

    /// Parses a part of the text that starts at this offset.
    fn parse_part<'s>(&'s self, text: &'s str, start: usize) -> Result<Parsed<'s>, DefinitionError> {
        let (table, errors) = DeTable::parse_recoverable(text);
        if let Some(error) = errors.iter().find(|error| !is_duplicate(error)) {
            let (message, offset) = syntax(text, error);
            let message = if self.disguised.is_some() { self.shown_mistake() } else { message };
            return Err(DefinitionError::Wrong { location: self.location(start + offset), message });
        }
        if let Some(span) = key_that(table.get_ref(), &|span| self.hides(span)) {
            let message = "a key or the name of a table depends on a value that is encrypted, and would be shown";
            return Err(DefinitionError::Wrong { location: self.location(span.start), message: message.to_owned() });
        }
        let duplicate = |error| {
            let (words, offset) = syntax(text, error);
            (offset + self.offset + start, words)
        };
        let duplicates = errors.iter().map(duplicate).collect();
        let offset = self.offset + start;
        Ok(Parsed { table: shift_table(table, offset), duplicates, end: offset + text.len() })
    }
}

/// Returns the number of newlines among some bytes.
fn newlines(bytes: &[u8]) -> usize {
    // Chunks whose count fits a byte are counted with a few instructions.
    let count = |some: &[u8]| usize::from(some.iter().map(|&byte| u8::from(byte == b'\n')).sum::<u8>());
    bytes.chunks(usize::from(u8::MAX)).map(count).sum()
}

/// Returns the span of the first key, at any depth, for which a predicate is true.
fn key_that(table: &DeTable<'_>, is_meant: &dyn Fn(&Range<usize>) -> bool) -> Option<Range<usize>> {
    table.iter().find_map(
        |(key, value)| {
            if is_meant(&key.span()) { Some(key.span()) } else { key_within(value.get_ref(), is_meant) }
        },
    )
}

fn key_within(value: &DeValue<'_>, is_meant: &dyn Fn(&Range<usize>) -> bool) -> Option<Range<usize>> {
    match value {
        DeValue::Table(table) => key_that(table, is_meant),
        DeValue::Array(list) => list.iter().find_map(|value| key_within(value.get_ref(), is_meant)),
        _ => None,
    }
}

/// A parsed file.
pub(crate) struct Parsed<'s> {
    pub(crate) table: Spanned<DeTable<'s>>,
    /// Duplicate keys: their positions and messages.
    pub(crate) duplicates: Vec<(usize, String)>,
    /// The end of the file.
    pub(crate) end: usize,
}

/// Returns the paths of definition files in the order of their names.
fn files_in(directories: &ResourceDirs) -> Result<Vec<PathBuf>, ListError> {
    let is_definition = |file: &ResourceFile| {
        let name = file.below.as_os_str().as_encoded_bytes();
        name.ends_with(SUFFIX.as_bytes()) || name.ends_with(TEMPLATE_SUFFIX.as_bytes())
    };
    let mut files: Vec<ResourceFile> = directories.list(Path::new(""))?.into_iter().filter(is_definition).collect();
    files.sort_by(|one, other| one.below.as_os_str().cmp(other.below.as_os_str()));
    Ok(files.into_iter().map(|file| file.path).collect())
}

/// Returns the text of a definition file, and the file's state before it was read.
fn text_of(path: &Path) -> Result<(String, FileState), Finding> {
    let wrong = |message| Finding::Error(DefinitionError::File { path: path.to_owned(), message });
    let metadata = fs::metadata(path).map_err(|error| match fs::read_link(path) {
        Ok(target) if error.kind() == io::ErrorKind::NotFound => {
            wrong(format!("this is a symlink to {}, which does not exist", target.display()))
        }
        _ => Finding::Error(unreadable(path, error)),
    })?;
    if metadata.is_dir() {
        return Err(Finding::Folder(path.to_owned()));
    }
    if !metadata.is_file() {
        return Err(wrong("this is not a regular file".to_owned()));
    }
    let bytes = holo_system::read_file(path).map_err(|error| Finding::Error(unreadable(path, error)))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes().iter().take(valid).filter(|byte| **byte == b'\n').count();
        let location = Location::new(Arc::new(path.to_owned()), line, false);
        Finding::Error(DefinitionError::Wrong { location, message: "this is not UTF-8".to_owned() })
    })?;
    Ok((text, FileState::new(path, &metadata)))
}

fn unreadable(path: &Path, error: io::Error) -> DefinitionError {
    DefinitionError::Unreadable { path: path.to_owned(), error }
}

fn shift_span(span: Range<usize>, by: usize) -> Range<usize> {
    span.start + by..span.end + by
}

fn shift_table(table: Spanned<DeTable<'_>>, by: usize) -> Spanned<DeTable<'_>> {
    let span = shift_span(table.span(), by);
    let shift = |(key, value): (Spanned<_>, _)| {
        let span = shift_span(key.span(), by);
        (Spanned::new(span, key.into_inner()), shift_value(value, by))
    };
    Spanned::new(span, table.into_inner().into_iter().map(shift).collect())
}

fn shift_value(value: Spanned<DeValue<'_>>, by: usize) -> Spanned<DeValue<'_>> {
    let span = shift_span(value.span(), by);
    let inner = match value.into_inner() {
        DeValue::Array(array) => {
            let mut shifted = DeArray::new();
            array.into_iter().for_each(|value| shifted.push(shift_value(value, by)));
            DeValue::Array(shifted)
        }
        DeValue::Table(table) => DeValue::Table(shift_table(Spanned::new(0..0, table), by).into_inner()),
        other => other,
    };
    Spanned::new(span, inner)
}

/// A key of a file that is not a valid table, with the form to use instead.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TableError {
    #[error("[{0}] has to be written as [[{0}]]")]
    OneTable(String),
    #[error("{0} has to be written as [[{0}]]")]
    NoTables(String),
    #[error("unknown table {shown}, {hint}")]
    Unknown { shown: String, hint: String },
    #[error("{key}: this key is in no table; write the line [[{table}]] above it")]
    Stray { key: String, table: &'static str },
}

/// Returns the tables of a key of the file, which must be one of `known` (empty names are ignored).
///
/// # Errors
/// The form to use instead.
pub(crate) fn tables_of<'s>(
    key: &str,
    value: Spanned<DeValue<'s>>,
    known: &[&'static str],
) -> Result<Vec<Spanned<DeValue<'s>>>, TableError> {
    let is_list_of_tables = |list: &DeArray<'_>| list.iter().all(|item| item.get_ref().is_table());
    let is_known = !key.is_empty() && known.contains(&key);
    let unknown = |shown| Err(TableError::Unknown { shown, hint: expected_table(key, known) });
    match value.into_inner() {
        DeValue::Array(list) if is_known && is_list_of_tables(&list) => Ok(list.into_iter().collect()),
        DeValue::Table(_) if is_known => Err(TableError::OneTable(key.to_owned())),
        DeValue::Array(_) | DeValue::Table(_) if is_known => Err(TableError::NoTables(key.to_owned())),
        DeValue::Table(_) => unknown(format!("[{key}]")),
        DeValue::Array(list) if is_list_of_tables(&list) && !list.is_empty() => unknown(format!("[[{key}]]")),
        _ => Err(TableError::Stray { key: key.to_owned(), table: known.first().copied().unwrap_or_default() }),
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

/// A table without spare capacity. A map reserves room for more entries, and there may be very many tables.
pub(crate) struct CompactTable<'s> {
    span: Range<usize>,
    entries: Box<[Entry<'s>]>,
}

impl<'s> CompactTable<'s> {
    pub(crate) fn new(table: Spanned<DeTable<'s>>) -> CompactTable<'s> {
        CompactTable { span: table.span(), entries: table.into_inner().into_iter().collect() }
    }

    pub(crate) fn into_table(self) -> Spanned<DeTable<'s>> {
        Spanned::new(self.span, self.entries.into_iter().collect())
    }
}

/// A key and its value.
type Entry<'s> = (Spanned<Cow<'s, str>>, Spanned<DeValue<'s>>);
