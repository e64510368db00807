//! The two conventions by which providers are called.

pub(crate) mod json;
pub(crate) mod simple;

use crate::provider::{CallError, Outcome};
use std::collections::BTreeMap;

/// A call of a provider.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) arguments: Vec<String>,
    /// Its standard input, if it gets any.
    pub(crate) input: Option<Vec<u8>>,
}

/// Calls the provider, and returns its standard output.
pub(crate) type Caller<'c> = dyn FnMut(&Call) -> Result<Vec<u8>, CallError> + 'c;

/// The answer to an update.
#[derive(Debug, Default)]
pub(crate) struct Update {
    /// What became of the resources that were asked for, by name.
    pub(crate) outcomes: BTreeMap<String, Outcome>,
    /// Changes of resources that nobody has asked for, in words.
    pub(crate) others: Vec<String>,
}
