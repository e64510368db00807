//! The files that definitions stand in, and where in them something is.

use crate::compact_table::CompactTable;
use crate::finding::{DefinitionError, Finding};
use crate::location::Location;
use crate::outline::{OutlinedTable, Role, outline};
use crate::reading::{is_duplicate, syntax};
use crate::resource_dirs::{ListError, ResourceDirs, ResourceFile};
use crate::templates::{MISTAKE, Rendered, Templates};
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
/// The number of bytes whose lines are counted together: a number a line would be a large part of a file of short lines.
const BLOCK: usize = 1024;

/// All files, as if they stood one after the other: so a place in any of them is one number.
#[derive(Default)]
pub struct Sources(Vec<Source>);

/// All that the file system says of a definition file by which a change of it shows, from before it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileState {
    path: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    /// The times of the last change of content and inode, in seconds and nanoseconds.
    changed: [(i64, i64); 2],
}

impl FileState {
    fn new(path: &Path, metadata: &Metadata) -> FileState {
        let changed = [(metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec())];
        let (device, inode, size) = (metadata.dev(), metadata.ino(), metadata.size());
        FileState { path: path.to_owned(), device, inode, size, changed }
    }

    /// Returns the second of the last change.
    #[must_use]
    pub fn changed_at(&self) -> u64 {
        self.changed.iter().map(|(seconds, _)| u64::try_from(*seconds).unwrap_or_default()).max().unwrap_or_default()
    }
}

/// A file.
pub(crate) struct Source {
    /// As the user knows it.
    path: Arc<PathBuf>,
    state: FileState,
    text: String,
    /// The number of lines that end before each of its blocks.
    lines_before: Vec<usize>,
    /// The length of the text in the files before.
    offset: usize,
    rendered: bool,
    /// The parts of the text that are not to be shown.
    hidden: Vec<Range<usize>>,
    /// The text with look-alikes instead of these.
    disguised: Option<String>,
}

impl Sources {
    /// Reads all definition files, in the order of their names; what is not read is returned.
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
                Ok((text, state)) => sources.add(path, text, state, rendered),
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

    /// Returns the states of the files; none if what is in one of them depends on more than the file.
    pub(crate) fn states(&self) -> Option<Vec<FileState>> {
        self.0.iter().map(|source| (!source.rendered).then(|| source.state.clone())).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Source> {
        self.0.iter()
    }

    pub(crate) fn path(&self, index: usize) -> PathBuf {
        self.0.get(index).map(|source| source.path.to_path_buf()).unwrap_or_default()
    }

    /// Returns the file and line in which something begins.
    pub(crate) fn location(&self, span: &Range<usize>) -> Location {
        let after = self.0.partition_point(|source| source.offset <= span.start);
        let Some(source) = after.checked_sub(1).and_then(|index| self.0.get(index)) else {
            return Location::default();
        };
        source.location(span.start - source.offset)
    }

    /// Returns true if something in this place is not to be shown.
    pub(crate) fn hides(&self, span: &Range<usize>) -> bool {
        let after = self.0.partition_point(|source| source.offset <= span.start);
        let source = after.checked_sub(1).and_then(|index| self.0.get(index));
        source.is_some_and(|source| source.hides(&(span.start - source.offset..span.end - source.offset)))
    }

    /// Returns a mistake at this place.
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
        // What is not there can be hidden too, at the place where it is not.
        self.hidden.iter().any(|hidden| hidden.start < span.end.max(span.start + 1) && span.start < hidden.end)
    }

    /// Returns a mistake that cannot be shown as it is in words that are the same whatever the values are that are encrypted.
    fn shown_mistake(&self) -> String {
        let disguised = self.disguised.as_deref().unwrap_or_default();
        let found = DeTable::parse(disguised).err().map(|error| syntax(disguised, &error).0);
        found.unwrap_or_else(|| MISTAKE.to_owned())
    }

    /// The tables of the file, every span counted from the beginning of the first file.
    ///
    /// A key that is set twice spoils the table that it is in, and nothing else: the second one is left out, and complained of.
    pub(crate) fn parse(&self) -> Result<Parsed<'_>, DefinitionError> {
        self.parse_part(&self.text, 0)
    }

    /// Returns the tables of the file without their values; none if there is something in it that an outline cannot show.
    pub(crate) fn outline(&self, role: impl Fn(&str, &str) -> Role) -> Option<Vec<OutlinedTable<'_>>> {
        outline(&self.text, role)
    }

    /// Returns the tables of the file one by one, with the names that stand above them; none if that is only certain of the file as a whole:
    /// if something is wrong in it, or it has other tables than those that are known.
    ///
    /// A parser needs much more memory than the result of what it is given at once.
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
            // What is between two tables may be wrong too.
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

    /// Reads a table of the outline.
    pub(crate) fn parse_table<'s>(&'s self, table: &OutlinedTable<'s>) -> Result<Parsed<'s>, DefinitionError> {
        self.parse_part(table.text, table.start)
    }

    /// Reads a part of the text that begins at this offset.
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
    // So many as fit into a byte are counted by a few instructions.
    let count = |some: &[u8]| usize::from(some.iter().map(|&byte| u8::from(byte == b'\n')).sum::<u8>());
    bytes.chunks(usize::from(u8::MAX)).map(count).sum()
}

/// Returns the place of the first key, at whatever depth, of which something is true.
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

/// A file as it was parsed.
pub(crate) struct Parsed<'s> {
    pub(crate) table: Spanned<DeTable<'s>>,
    /// Keys that are there twice: their places, and the words that describe them.
    pub(crate) duplicates: Vec<(usize, String)>,
    /// The end of the file.
    pub(crate) end: usize,
}

/// The paths of definition files, in the order of their names.
fn files_in(directories: &ResourceDirs) -> Result<Vec<PathBuf>, ListError> {
    let is_definition = |file: &ResourceFile| {
        let name = file.below.as_os_str().as_encoded_bytes();
        name.ends_with(SUFFIX.as_bytes()) || name.ends_with(TEMPLATE_SUFFIX.as_bytes())
    };
    let mut files: Vec<ResourceFile> = directories.list(Path::new(""))?.into_iter().filter(is_definition).collect();
    files.sort_by(|one, other| one.below.as_os_str().cmp(other.below.as_os_str()));
    Ok(files.into_iter().map(|file| file.path).collect())
}

/// The text of a definition file, and the state that the file had before it was read.
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
    let bytes = fs::read(path).map_err(|error| Finding::Error(unreadable(path, error)))?;
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

#[cfg(test)]
mod tests;
