//! Values sent by other entities, which become the values of a definition's keys.

mod file;
mod fill;

pub use file::ReceivedFile;
pub use fill::{Candidate, Filled, Keys, ReceiveError, fill_with};
pub(crate) use fill::{fill, fill_untyped, hide_of};

use crate::common::Receipt;
use std::fmt;
use std::ops::Range;
use toml::Spanned;
use toml::de::DeTable;

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

#[cfg(test)]
mod tests;
