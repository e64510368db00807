//! The files that definitions stand in, and where in them something is.

use crate::Host;
use crate::templates::Templates;
use std::fmt::{self, Display};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// What a file's name ends with that is rendered before it is read.
const TEMPLATE_SUFFIX: &str = ".toml.jinja";
const SUFFIX: &str = ".toml";

/// All files, as if they stood one after the other: so a place in any of them is one number.
#[derive(Default)]
pub(super) struct Sources(Vec<Source>);

/// A file.
pub(super) struct Source {
    /// As the user knows it.
    path: PathBuf,
    text: String,
    /// How much text stands in the files before.
    offset: usize,
    rendered: bool,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) path: PathBuf,
    pub(super) line: usize,
    rendered: bool,
}

impl Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.rendered { " as rendered" } else { "" };
        write!(f, "{}:{}{of}", self.path.display(), self.line)
    }
}

impl Sources {
    /// Reads all definition files in the resource directory, in the order of their names. Files that cannot be read are complained of.
    pub(super) fn read(
        &mut self,
        host: &Host,
        templates: &Templates<'_>,
        complain: &mut dyn FnMut(String),
    ) -> Result<(), String> {
        let folder = host.resource_dir();
        let failed = |operation: &str, path: &Path, error: &std::io::Error| {
            format!("cannot {operation} {}: {}", path.display(), holo_protocol::words::reason(error))
        };
        let entries = fs::read_dir(folder).map_err(|error| failed("read", folder, &error))?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| failed("read", folder, &error))?.file_name();
            let bytes = name.as_encoded_bytes();
            if bytes.ends_with(SUFFIX.as_bytes()) || bytes.ends_with(TEMPLATE_SUFFIX.as_bytes()) {
                names.push(name);
            }
        }
        names.sort();
        for path in names.into_iter().map(|name| folder.join(name)) {
            match fs::metadata(&path) {
                Ok(metadata) if !metadata.is_file() => continue,
                Ok(_) => {}
                Err(error) => {
                    complain(failed("read", &path, &error));
                    continue;
                }
            }
            let rendered = path.as_os_str().as_encoded_bytes().ends_with(TEMPLATE_SUFFIX.as_bytes());
            let text = fs::read_to_string(&path).map_err(|error| failed("read", &path, &error));
            let text = text.and_then(|text| if rendered { templates.render(&path, &text) } else { Ok(text) });
            match text {
                Ok(text) => {
                    let offset = self.0.last().map_or(0, |source| source.offset + source.text.len() + 1);
                    self.0.push(Source { path, text, offset, rendered });
                }
                Err(problem) => complain(problem),
            }
        }
        Ok(())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Source> {
        self.0.iter()
    }

    pub(super) fn path(&self, index: usize) -> PathBuf {
        self.0.get(index).map(|source| source.path.clone()).unwrap_or_default()
    }

    /// The file and line in which something begins.
    pub(super) fn place(&self, span: &Range<usize>) -> Location {
        let after = self.0.partition_point(|source| source.offset <= span.start);
        let Some(source) = after.checked_sub(1).and_then(|index| self.0.get(index)) else {
            return Location { path: PathBuf::new(), line: 0, rendered: false };
        };
        source.place(span.start - source.offset)
    }
}

impl Source {
    fn place(&self, offset: usize) -> Location {
        let before = self.text.as_bytes().iter().take(offset);
        let line = 1 + before.filter(|&&byte| byte == b'\n').count();
        Location { path: self.path.clone(), line, rendered: self.rendered }
    }

    /// The tables of the file, every span counted from the beginning of the first file.
    pub(super) fn parse(&self) -> Result<Spanned<DeTable<'_>>, String> {
        match DeTable::parse(&self.text) {
            Ok(table) => Ok(shift_table(table, self.offset)),
            Err(error) => {
                let place = self.place(error.span().map_or(0, |span| span.start));
                Err(format!("{place}: {}", error.message().trim_end()))
            }
        }
    }
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
