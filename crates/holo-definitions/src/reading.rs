//! Deserializes TOML into types, with errors that name the key and explain what is valid.
//!
//! A string of the wrong type is not shown, as it may be a secret.

mod syntax;
#[cfg(test)]
mod tests;
pub(crate) mod value_error;

pub use syntax::{is_duplicate, syntax};
pub use value_error::{Problem, ValueError, kind, unknown_key};

use serde::Deserializer;
use serde::de::value::{StrDeserializer, StringDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Error as _, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeArray, DeInteger, DeTable, DeValue, ValueDeserializer};
use value_error::Part;

/// Deserializes a table into a type.
///
/// # Errors
/// The first error, with its key and location.
pub fn read<T: DeserializeOwned>(table: &Spanned<DeTable<'_>>) -> Result<T, ValueError> {
    T::deserialize(Reader { value: Value::Table(table.get_ref()), span: table.span() })
}

/// Deserializes a value into a type.
///
/// # Errors
/// The first error, with its location.
pub fn read_value<T: DeserializeOwned>(value: &Spanned<DeValue<'_>>) -> Result<T, ValueError> {
    T::deserialize(Reader::new(value))
}

/// A part of a file being deserialized.
struct Reader<'a, 'i> {
    value: Value<'a, 'i>,
    span: Range<usize>,
}

enum Value<'a, 'i> {
    /// The root table.
    Table(&'a DeTable<'i>),
    Other(&'a DeValue<'i>),
}

impl<'a, 'i> Reader<'a, 'i> {
    fn new(value: &'a Spanned<DeValue<'i>>) -> Reader<'a, 'i> {
        Reader { value: Value::Other(value.get_ref()), span: value.span() }
    }
}

impl<'de> Deserializer<'de> for Reader<'_, '_> {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        let span = self.span.clone();
        let read = match self.value {
            Value::Table(table) | Value::Other(DeValue::Table(table)) => {
                visitor.visit_map(Entries { entries: entries(table), value: None })
            }
            Value::Other(DeValue::Array(list)) => visitor.visit_seq(Items { list, next: 0 }),
            Value::Other(DeValue::String(text)) => {
                visitor.visit_str(text).map_err(|wrong: ValueError| wrong.found_text(text))
            }
            Value::Other(DeValue::Boolean(truth)) => visitor.visit_bool(*truth),
            Value::Other(DeValue::Integer(number)) => integer(number, visitor),
            Value::Other(DeValue::Float(number)) => match number.as_str().parse() {
                // Show the number as written: a user who wrote 1.0 would not recognize 1.
                Ok(float) => visitor.visit_f64(float).map_err(|wrong: ValueError| wrong.found(number.to_string())),
                Err(_) => Err(ValueError::custom(format!("{} is not a number", number.as_str()))),
            },
            Value::Other(DeValue::Datetime(time)) => {
                let value = ValueDeserializer::from(Spanned::new(span.clone(), DeValue::Datetime(*time)));
                value.deserialize_any(visitor).map_err(|error| ValueError::custom(error.message()))
            }
        };
        read.map_err(|wrong: ValueError| wrong.at(&span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        let wrong = match self.value {
            Value::Other(DeValue::String(text)) => {
                let name: StringDeserializer<ValueError> = text.clone().into_owned().into_deserializer();
                return visitor.visit_enum(name).map_err(|wrong| wrong.at(&self.span));
            }
            Value::Table(_) => ValueError::of_no_variant(variants, "a table"),
            Value::Other(DeValue::Boolean(truth)) => ValueError::of_no_variant(variants, &truth.to_string()),
            Value::Other(other) => ValueError::of_no_variant(variants, kind(other)),
        };
        Err(wrong.at(&self.span))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

fn integer<'de, V: Visitor<'de>>(number: &DeInteger<'_>, visitor: V) -> Result<V::Value, ValueError> {
    match i64::from_str_radix(number.as_str(), number.radix()) {
        // Show the number as written: a user who wrote 0o644 would not recognize 420.
        Ok(value) => visitor.visit_i64(value).map_err(|wrong: ValueError| wrong.found(number.to_string())),
        Err(_) => {
            let wrong = ValueError::invalid_value(Unexpected::Other("a number"), &visitor);
            Err(wrong.found(number.to_string()))
        }
    }
}

/// Returns the entries in file order, so that the first error in the file is reported first.
fn entries<'a, 'i>(table: &'a DeTable<'i>) -> std::vec::IntoIter<Entry<'a, 'i>> {
    let mut entries: Vec<Entry<'a, 'i>> =
        table.iter().map(|(key, value)| Entry { key: key.get_ref(), place: key.span(), value }).collect();
    entries.sort_by_key(|entry| entry.place.start);
    entries.into_iter()
}

struct Entry<'a, 'i> {
    key: &'a str,
    place: Range<usize>,
    value: &'a Spanned<DeValue<'i>>,
}

struct Entries<'a, 'i> {
    entries: std::vec::IntoIter<Entry<'a, 'i>>,
    value: Option<Entry<'a, 'i>>,
}

impl<'de> MapAccess<'de> for Entries<'_, '_> {
    type Error = ValueError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ValueError> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        let name: StrDeserializer<'_, ValueError> = entry.key.into_deserializer();
        let key = seed.deserialize(name).map_err(|wrong| wrong.at(&entry.place).within(Part::Key(entry.key.into())))?;
        self.value = Some(entry);
        Ok(Some(key))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ValueError> {
        let Some(entry) = self.value.take() else { return Err(ValueError::custom("a value without a key")) };
        let read = seed.deserialize(Reader::new(entry.value));
        read.map_err(|wrong| wrong.at(&entry.place).within(Part::Key(entry.key.into())))
    }
}

struct Items<'a, 'i> {
    list: &'a DeArray<'i>,
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = ValueError;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, ValueError> {
        let index = self.next;
        let Some(item) = self.list.get(index) else { return Ok(None) };
        self.next += 1;
        seed.deserialize(Reader::new(item)).map(Some).map_err(|wrong| wrong.within(Part::Index(index)))
    }
}

/// An error in a settings file.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The file cannot be read.
    #[error("{}: {}", path.display(), holo_protocol::words::reason(source))]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file has an invalid value.
    #[error("{}:{line}: {message}", path.display())]
    Mistake {
        /// Its path.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The error, including its key.
        message: String,
    },
}

/// Reads a file into a type. Returns `None` if the file does not exist.
///
/// # Errors
/// If the file cannot be read, or the first error in it.
pub fn read_document<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, DocumentError> {
    match holo_system::read_file(path).and_then(|text| String::from_utf8(text).map_err(io::Error::other)) {
        Ok(text) => parse_document(path, &text).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(DocumentError::Unreadable { path: path.to_owned(), source }),
    }
}

/// Parses the text of a file into a type.
///
/// # Errors
/// The first error.
pub fn parse_document<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, DocumentError> {
    let mistake = |message, offset| {
        let line = 1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count();
        DocumentError::Mistake { path: path.to_owned(), line, message }
    };
    let table = DeTable::parse(text).map_err(|error| {
        let (message, offset) = syntax(text, &error);
        mistake(message, offset)
    })?;
    read(&table).map_err(|error| mistake(error.to_string(), error.span().map_or(0, |span| span.start)))
}
