//! The two conventions for calling providers, and the types that both have in common.

pub(crate) mod json;
pub(crate) mod simple;

use crate::attribute::Values;
use crate::compare::Difference;
use holo_bridge::StartError;
use holo_plugin::process::ProgramError;
use std::collections::BTreeMap;

/// A call of a provider.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) arguments: Vec<String>,
    /// Its standard input, if any.
    pub(crate) input: Option<Vec<u8>>,
}

/// Calls the provider and returns its standard output.
type Caller<'c> = dyn FnMut(&Call) -> Result<Vec<u8>, CallError> + 'c;

/// The answer to an update.
#[derive(Debug, Default)]
pub(crate) struct Update {
    /// The outcomes for the requested resources by name.
    pub(crate) outcomes: BTreeMap<String, Outcome>,
    /// Descriptions of changes to other resources.
    pub(crate) others: Vec<String>,
}

/// The state of a resource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reading {
    /// The reported attributes.
    Known(Values),
    /// The resource neither exists nor can be created.
    Unknown,
    /// The provider failed for this reason.
    Failed(String),
}

/// The outcome of an update for a resource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The changed attributes; empty if the provider considers no change necessary.
    Changed(Vec<Change>),
    Failed(String),
}

/// An attribute that was changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) name: String,
    pub(crate) was: String,
    pub(crate) is: String,
}

/// The reason why there is no valid answer from a provider.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("cannot start {program}: {error}")]
    Program { program: String, error: ProgramError },
    /// The provider reported an error.
    #[error("{0}")]
    Refused(String),
    /// The answer is invalid, or the provider did not end normally.
    #[error("{0}")]
    Answer(String),
}

/// A requested resource with its actual and desired state.
pub(crate) struct Request<'r> {
    pub(crate) name: &'r str,
    pub(crate) is: &'r Values,
    pub(crate) should: &'r Values,
    pub(crate) differences: &'r [Difference],
}
