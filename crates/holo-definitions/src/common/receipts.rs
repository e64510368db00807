//! Keys of a definition that receive values from other entities.

use super::NAMES;
use holo_protocol::sent::is_name;
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;
use std::fmt;

/// The keys of a definition that receive values from other entities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipts(Vec<Receipt>);

/// A key of a definition that receives a value from another entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The key, or `KEY.KEY` for a key in a nested table.
    pub key: String,
    /// The ID of the sender.
    pub sender: String,
    /// The name under which the value is sent.
    pub name: String,
}

/// The reason why a key cannot receive a value.
#[derive(Debug, thiserror::Error)]
enum ReceiptError {
    #[error("{0:?} is not a key of letters, digits, _ and -")]
    Key(String),
    #[error("{0} cannot be received, as every definition can have it")]
    Common(String),
    #[error("{0}: expected \"ENTITY#NAME\", found {1:?}")]
    Value(String, String),
    #[error("{0}names no key: write KEY = \"ENTITY#NAME\", or remove it")]
    Empty(String),
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}#{}", self.key, self.sender, self.name)
    }
}

impl Receipts {
    /// Returns all receipts, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = &Receipt> {
        self.0.iter()
    }

    /// Adds the receipts of another table. If both tables define the same key differently, returns both values.
    pub(super) fn unite(&mut self, other: &Receipts) -> Option<(String, String)> {
        for receipt in &other.0 {
            match self.0.iter().find(|own| own.key == receipt.key) {
                Some(own) if own != receipt => return Some((own.to_string(), receipt.to_string())),
                Some(_) => {}
                None => self.0.push(receipt.clone()),
            }
        }
        self.0.sort_by(|one, other| one.key.cmp(&other.key));
        None
    }
}

/// `KEY = "ENTITY#NAME"`, or a table of such keys.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Written {
    /// The ID of the sender, and the name under which it sends the value.
    Value(String),
    /// The keys of a nested table.
    Table(BTreeMap<String, Written>),
}

impl<'de> Deserialize<'de> for Receipts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Receipts, D::Error> {
        let mut receipts = Vec::new();
        collect("", BTreeMap::deserialize(deserializer)?, &mut receipts).map_err(de::Error::custom)?;
        Ok(Receipts(receipts))
    }
}

fn collect(within: &str, written: BTreeMap<String, Written>, receipts: &mut Vec<Receipt>) -> Result<(), ReceiptError> {
    if written.is_empty() {
        let table = within.strip_suffix('.').map(|table| format!("{table}: ")).unwrap_or_default();
        return Err(ReceiptError::Empty(table));
    }
    for (part, written) in written {
        // A key in quotes can be the path of a key in a nested table.
        let is_key = |key: &str| {
            !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        };
        if !part.split('.').all(is_key) {
            return Err(ReceiptError::Key(part));
        }
        let key = format!("{within}{part}");
        match written {
            Written::Table(table) => collect(&format!("{key}."), table, receipts)?,
            Written::Value(_) if within.is_empty() && NAMES.contains(&&*key) => {
                return Err(ReceiptError::Common(key));
            }
            Written::Value(text) => {
                let Some((sender, name)) = sender_and_name(&text) else { return Err(ReceiptError::Value(key, text)) };
                receipts.push(Receipt { key, sender: sender.to_owned(), name: name.to_owned() });
            }
        }
    }
    Ok(())
}

/// Splits `ENTITY#NAME` at the last `#`, as an entity's ID may contain one too.
fn sender_and_name(text: &str) -> Option<(&str, &str)> {
    let (sender, name) = text.rsplit_once('#')?;
    let is_id = sender.contains(':') && !sender.contains(char::is_control) && sender.trim() == sender;
    (is_name(name.into()) && is_id).then_some((sender, name))
}
