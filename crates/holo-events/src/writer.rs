//! The process that modified a file.

use crate::Text;
use bstr::ByteSlice;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

#[cfg(test)]
use schemars::JsonSchema;

/// A process that modified a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Writer<'a> {
    /// Its ID.
    pub pid: u32,
    /// The name of its command, unless the process had already ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Text<'a>>,
}

impl Writer<'_> {
    /// Returns an owned copy.
    #[must_use]
    pub fn into_owned(self) -> Writer<'static> {
        Writer { pid: self.pid, command: self.command.map(|command| Text(Cow::Owned(command.into_owned()))) }
    }
}

impl fmt::Display for Writer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.command {
            Some(command) => write!(f, "{}[{}]", command.as_bstr().escape_bytes(), self.pid),
            None => write!(f, "process {}, which has ended", self.pid),
        }
    }
}
