//! Puts received values into tables, converted to the types of the keys.

use super::{Hindrance, Received, ReceivedValue, span_of};
use crate::common::{Receipt, Receipts};
use crate::definition::Definition;
use crate::reading;
use crate::tolerant::{Problem, Read, read_all};
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Why a value cannot be received.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ReceiveError(String);

impl ReceiveError {
    /// Creates an error with this message, which should name the key.
    #[must_use]
    pub fn new(words: impl Into<String>) -> ReceiveError {
        ReceiveError(words.into())
    }
}

/// The keys of the tables of definitions.
pub trait Keys {
    /// Parses a table and checks the value of `key`, which is located at `span`.
    ///
    /// # Errors If the value is not valid for the key.
    fn check(&self, table: &Spanned<DeTable<'_>>, key: &str, span: &Range<usize>) -> Result<(), ReceiveError>;

    /// Checks that a key exists, before its value is known.
    ///
    /// # Errors If definitions have no such key.
    fn find(&self, key: &str) -> Result<(), ReceiveError>;

    /// Returns true if the value of a key is never shown, so that it may be sensitive.
    fn is_secret(&self, _: &str) -> bool {
        false
    }
}

/// The keys of a definition type.
struct KeysOf<D>(PhantomData<D>);

/// The key that hides a definition, or parts of it.
const SENSITIVE: &str = "sensitive";

/// A received value in all forms that it can have in TOML.
#[derive(Debug)]
pub struct Candidate<'r> {
    receipt: &'r Receipt,
    /// The location of the key in `receive`.
    span: Range<usize>,
    /// The value as TOML: as a string, and as another type if it can be parsed as such. `None` if it has not been sent; an error if it
    /// cannot be in a definition.
    forms: Result<Option<Vec<String>>, ReceiveError>,
    is_sensitive: bool,
}

impl<'r> Candidate<'r> {
    /// Returns the values of all keys that a definition receives. `common` is the table with its common keys.
    #[must_use]
    pub fn all(receipts: &'r Receipts, common: &Spanned<DeTable<'_>>, received: &dyn Received) -> Vec<Candidate<'r>> {
        let candidate = |receipt: &'r Receipt| {
            let value = received.value(&receipt.sender, &receipt.name);
            let is_sensitive = value.as_ref().is_some_and(|value| value.is_sensitive);
            let forms = value.map(|ReceivedValue { bytes, .. }| forms(bytes)).transpose();
            Candidate { receipt, span: span_of(common, &receipt.key), forms, is_sensitive }
        };
        receipts.iter().map(candidate).collect()
    }
}

/// Returns a value as TOML: first as a string, because values are sent as text.
fn forms(bytes: Vec<u8>) -> Result<Vec<String>, ReceiveError> {
    let text = String::from_utf8(bytes).map_err(|_| ReceiveError("the value is not UTF-8".to_owned()))?;
    let digits = text.strip_prefix('-').unwrap_or(&text);
    let is_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // Only the canonical form of a number counts, so that a number round-trips when it is shown.
    let is_whole = text == "0" || (is_digits && !digits.starts_with('0'));
    let is_other = is_whole || is_float(digits) || text == "true" || text == "false";
    let string = toml::Value::String(text.clone()).to_string();
    Ok([string].into_iter().chain(is_other.then_some(text)).collect())
}

/// Returns true if the text is a TOML float without sign and exponent.
fn is_float(digits: &str) -> bool {
    let all = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = |whole: &str| all(whole) && (whole == "0" || !whole.starts_with('0'));
    digits.split_once('.').is_some_and(|(whole, rest)| is_whole(whole) && all(rest))
}

/// A table with received values filled in.
#[derive(Debug)]
pub struct Filled<'a> {
    /// The table.
    pub table: Spanned<DeTable<'a>>,
    /// The keys that have no value, or an invalid one.
    pub hindrances: Vec<Hindrance>,
    /// The top-level keys of those.
    pub left_out: BTreeSet<String>,
}

/// Adds received values to the table of a definition. Conflicts with the definition are added to `wrong`. An invalid value is only a
/// hindrance, because the next value may be valid.
pub(crate) fn fill<'a, D: Definition>(
    own: Spanned<DeTable<'a>>,
    candidates: &'a [Candidate<'_>],
    wrong: &mut Vec<Problem>,
    describe: &dyn Fn(&Range<usize>, &str) -> String,
) -> Filled<'a> {
    fill_with(own, candidates, &KeysOf::<D>(PhantomData), wrong, describe)
}

/// Like `fill`, but for other kinds of keys.
pub fn fill_with<'a>(
    own: Spanned<DeTable<'a>>,
    candidates: &'a [Candidate<'_>],
    keys: &dyn Keys,
    wrong: &mut Vec<(Range<usize>, String)>,
    describe: &dyn Fn(&Range<usize>, &str) -> String,
) -> Filled<'a> {
    let mut filled = Filled { table: own, hindrances: Vec::new(), left_out: BTreeSet::new() };
    for candidate in candidates {
        let Candidate { receipt, span, forms, .. } = candidate;
        let unfit = |problem: String| Hindrance::Unfit(describe(span, &problem) + &sent_by(receipt));
        if let Err(problem) = keys.find(&receipt.key).and_then(|()| room(filled.table.get_ref(), receipt)) {
            wrong.push((span.clone(), problem.to_string()));
            continue;
        }
        let fitting = match forms {
            Ok(None) => Err(Hindrance::NotSent((*receipt).clone())),
            Ok(Some(forms)) => fit(&filled.table, candidate, forms, keys).map_err(|error| unfit(error.to_string())),
            Err(problem) => Err(unfit(format!("{}: {problem}", receipt.key))),
        };
        match fitting {
            Ok(table) => filled.table = table,
            Err(hindrance) => {
                filled.hindrances.push(hindrance);
                filled.left_out.extend(receipt.key.split('.').next().map(str::to_owned));
            }
        }
    }
    filled
}

fn sent_by(Receipt { sender, name, .. }: &Receipt) -> String {
    format!(" (sent by {sender} as {name})")
}

/// Returns the table with the value in the first form that fits.
///
/// # Errors If no form fits.
fn fit<'a>(
    table: &Spanned<DeTable<'a>>,
    candidate: &Candidate<'_>,
    forms: &'a [String],
    keys: &dyn Keys,
) -> Result<Spanned<DeTable<'a>>, ReceiveError> {
    let Candidate { receipt, span, is_sensitive, .. } = candidate;
    let mut problem = format!("{}: the value does not fit", receipt.key);
    for form in forms {
        let Ok(value) = DeValue::parse(form) else { continue };
        let mut attempt = table.clone();
        put(attempt.get_mut(), &receipt.key, value.into_inner(), span);
        let Err(found) = keys.check(&attempt, &receipt.key, span) else {
            return if *is_sensitive {
                hide(attempt, &receipt.key, keys).ok_or_else(|| shown(receipt))
            } else {
                Ok(attempt)
            };
        };
        if !is_sensitive {
            problem = found.0;
        }
    }
    Err(ReceiveError(problem))
}

fn shown(receipt: &Receipt) -> ReceiveError {
    ReceiveError(format!("{}: a sensitive value cannot be received here, because it would be shown", receipt.key))
}

/// Marks the value of `key` as sensitive. Returns `None` if it would still be shown.
pub(crate) fn hide_of<'a, D: Definition>(table: Spanned<DeTable<'a>>, key: &str) -> Option<Spanned<DeTable<'a>>> {
    hide(table, key, &KeysOf::<D>(PhantomData))
}

fn hide<'a>(table: Spanned<DeTable<'a>>, key: &str, keys: &dyn Keys) -> Option<Spanned<DeTable<'a>>> {
    let (top, inner) = key.split_once('.').unwrap_or((key, key));
    if keys.is_secret(top) {
        return Some(table);
    }
    let name = || Spanned::new(0..0, DeValue::String(inner.to_owned().into()));
    let mut list = match table.get_ref().get(SENSITIVE).map(Spanned::get_ref) {
        Some(DeValue::Array(list)) => list.clone(),
        _ => toml::de::DeArray::new(),
    };
    list.push(name());
    for value in [DeValue::Boolean(true), DeValue::Array(list)] {
        let mut attempt = table.clone();
        attempt.get_mut().remove(SENSITIVE);
        put(attempt.get_mut(), SENSITIVE, value, &(0..0));
        if keys.check(&attempt, SENSITIVE, &(0..0)).is_ok() {
            return Some(attempt);
        }
    }
    None
}

impl<D: Definition> Keys for KeysOf<D> {
    fn check(&self, table: &Spanned<DeTable<'_>>, key: &str, span: &Range<usize>) -> Result<(), ReceiveError> {
        let mut wrong = Vec::new();
        let read: Option<Read<D>> = read_all(table.clone(), &BTreeSet::new(), true, &mut wrong);
        if let Some((_, words)) = wrong.into_iter().find(|(place, _)| place == span) {
            return Err(ReceiveError(words));
        }
        let invalid = read.map(|read| read.invalid()).unwrap_or_default();
        let found = invalid.into_iter().find(|invalid| {
            let rest = key.strip_prefix(&*invalid.key).or_else(|| invalid.key.strip_prefix(key));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        });
        found.map_or(Ok(()), |invalid| Err(ReceiveError(invalid.to_string())))
    }

    fn find(&self, key: &str) -> Result<(), ReceiveError> {
        let mut table = DeTable::new();
        put(&mut table, key, DeValue::String("".into()), &(0..0));
        match reading::read::<D>(&Spanned::new(0..0, table)) {
            Err(error) if matches!(error.problem(), reading::Problem::UnknownKey(_)) => {
                Err(ReceiveError(format!("receive: {error}")))
            }
            // Other errors are about the value or missing keys.
            _ => Ok(()),
        }
    }

    fn is_secret(&self, key: &str) -> bool {
        D::SECRETS.contains(&key)
    }
}

/// Checks that a received key has no value yet.
///
/// # Errors If it has one, or if its parent is not a table.
fn room(table: &DeTable<'_>, receipt: &Receipt) -> Result<(), ReceiveError> {
    let mut table = Some(table);
    for part in receipt.key.split('.') {
        let Some(value) = table.and_then(|table| table.get(part)) else {
            return match table {
                Some(_) => Ok(()),
                None => Err(ReceiveError(format!("receive: {} is in nothing that is a table", receipt.key))),
            };
        };
        table = value.get_ref().as_table();
    }
    Err(ReceiveError(format!("receive: {} is also set in the definition", receipt.key)))
}

/// Inserts a value into a table. Creates the inner tables of a dotted key.
fn put<'a>(table: &mut DeTable<'a>, key: &str, value: DeValue<'a>, span: &Range<usize>) {
    let spanned_key = |key: &str| Spanned::new(span.clone(), key.to_owned().into());
    match key.split_once('.') {
        None => drop(table.insert(spanned_key(key), Spanned::new(span.clone(), value))),
        Some((outer, inner)) => {
            if !table.contains_key(outer) {
                let empty = DeValue::Table(DeTable::new());
                table.insert(spanned_key(outer), Spanned::new(span.clone(), empty));
            }
            if let Some(DeValue::Table(table)) = table.get_mut(outer).map(Spanned::get_mut) {
                put(table, inner, value, span);
            }
        }
    }
}

/// Puts values as strings into a table whose keys have no types. Returns the keys without a value. A value that no definition can contain
/// counts as missing, with a warning: the definition itself is valid, and the next value may be valid too.
pub(crate) fn fill_untyped<'a>(
    own: &mut DeTable<'a>,
    candidates: &'a [Candidate<'_>],
    wrong: &mut Vec<Problem>,
    doubts: &mut Vec<Problem>,
) -> Vec<String> {
    let mut missing = Vec::new();
    for Candidate { receipt, span, forms, .. } in candidates {
        if let Err(problem) = room(own, receipt) {
            wrong.push((span.clone(), problem.to_string()));
            continue;
        }
        match forms.as_ref().map(|forms| forms.as_ref().and_then(|forms| forms.first())) {
            Ok(Some(form)) => {
                if let Ok(value) = DeValue::parse(form) {
                    put(own, &receipt.key, value.into_inner(), span);
                }
            }
            Ok(None) => missing.push(receipt.key.clone()),
            Err(problem) => {
                missing.push(receipt.key.clone());
                doubts.push((span.clone(), format!("{}: {problem}{}", receipt.key, sent_by(receipt))));
            }
        }
    }
    missing
}
