//! Values sent by other entities, which become the values of a definition's keys, and the file in which the dispatcher
//! passes them.

mod fill;

use crate::common::Receipt;
use holo_protocol::sent::Sending;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fmt, fs};
use toml::Spanned;
use toml::de::DeTable;

pub use fill::{Candidate, Filled, Keys, ReceiveError, fill_with};
pub(crate) use fill::{fill, fill_untyped, hide_of};

/// A source of values that entities have sent.
pub trait Received {
    /// Returns the last value that an entity has sent under this name, or `None`.
    fn value(&self, sender: &str, name: &str) -> Option<ReceivedValue>;
}

/// A value sent by an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedValue {
    /// The bytes of the value.
    pub bytes: Vec<u8>,
    /// True if the value must not be shown.
    pub is_sensitive: bool,
}

/// A source without values.
#[derive(Clone, Copy, Debug)]
pub struct NothingReceived;

impl Received for NothingReceived {
    fn value(&self, _: &str, _: &str) -> Option<ReceivedValue> {
        None
    }
}

/// Why a received key has no value, so that the entity can be neither checked nor applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// The value has not been sent yet.
    NotSent(Receipt),
    /// The value that was sent is not valid for the key. The message names file and line, key and sender.
    Unfit(String),
}

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hindrance::NotSent(receipt) => write!(f, "receives {receipt}, which has not been sent yet"),
            Hindrance::Unfit(message) => f.write_str(message),
        }
    }
}

/// Returns the location of a receipt in the table of common keys.
fn span_of(common: &Spanned<DeTable<'_>>, key: &str) -> Range<usize> {
    let table = common.get_ref().get("receive");
    let mut span = table.map_or_else(|| common.span(), Spanned::span);
    let mut table = table.and_then(|table| table.get_ref().as_table());
    if let Some((quoted, _)) = table.and_then(|table| table.get_key_value(key)) {
        return quoted.span();
    }
    for part in key.split('.') {
        let Some((found, value)) = table.and_then(|table| table.get_key_value(part)) else { break };
        span = found.span();
        table = value.get_ref().as_table();
    }
    span
}

/// The values in the file of a run. The file is read when a value is first needed.
#[derive(Debug, Default)]
pub struct ReceivedFile {
    path: Option<PathBuf>,
    known: Mutex<Option<Values>>,
}

type Values = HashMap<(Vec<u8>, Vec<u8>), ReceivedValue>;

impl ReceivedFile {
    /// Creates a source for the file at `path`, which may not exist.
    #[must_use]
    pub fn at(path: Option<PathBuf>) -> ReceivedFile {
        ReceivedFile { path, known: Mutex::default() }
    }

    /// Discards the values, so that the file is read again.
    pub fn forget(&self) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Received for ReceivedFile {
    fn value(&self, sender: &str, name: &str) -> Option<ReceivedValue> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_with(|| self.path.as_deref().map(read).unwrap_or_default());
        known.get(&(sender.into(), name.into())).cloned()
    }
}

fn read(path: &Path) -> Values {
    let sendings = Sending::read_all(&fs::read(path).unwrap_or_default());
    let value = |Sending { entity, sent }: Sending| {
        let value = ReceivedValue { bytes: sent.value.0.into(), is_sensitive: sent.sensitive };
        ((entity.0.into(), sent.name.0.into()), value)
    };
    sendings.into_iter().map(value).collect()
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod file_tests {
    use super::*;

    #[test]
    fn received_file_is_read_once_until_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let values = ReceivedFile::at(Some(folder.path().join("values")));
        assert_eq!(values.value("a:b", "x"), None);
        let text =
            "{\"entity\":\"a:b\",\"sent\":{\"name\":\"x\",\"value\":\"1\\n2\",\"sensitive\":true}}\n{\"entity\":";
        fs::write(folder.path().join("values"), text).unwrap();
        assert_eq!(values.value("a:b", "x"), None);
        values.forget();
        let expected = ReceivedValue { bytes: b"1\n2".to_vec(), is_sensitive: true };
        assert_eq!((values.value("a:b", "x"), values.value("a:b", "y")), (Some(expected), None));
        assert_eq!(ReceivedFile::default().value("a:b", "x"), None);
    }
}
