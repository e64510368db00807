//! What is exchanged with a provider, whatever the convention.

use crate::attribute::Values;
use crate::compare::Difference;
use holo_bridge::StartError;
use holo_plugin::process::ProgramError;
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

/// The state of a resource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reading {
    /// These attributes are reported.
    Known(Values),
    /// It neither exists nor can be made.
    Unknown,
    /// The provider cannot tell, for this reason.
    Failed(String),
}

/// The outcome of an update, for one resource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// These attributes have changed; none if the provider holds that nothing was to do.
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

/// A provider that gives no answer, or none that can be understood.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("cannot start {program}: {error}")]
    Program { program: String, error: ProgramError },
    /// It said that it failed, or said something else than an answer.
    #[error("{0}")]
    Answer(String),
}

/// A resource that is asked for, with what is known and wanted of it.
pub(crate) struct Request<'r> {
    pub(crate) name: &'r str,
    pub(crate) is: &'r Values,
    pub(crate) should: &'r Values,
    pub(crate) differences: &'r [Difference],
}
