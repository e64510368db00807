//! Commands that change the system.

use holo_plugin::quoted;
use std::fmt;

/// A command that changes the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) program: &'static str,
    pub(crate) arguments: Vec<String>,
}

impl fmt::Display for Command {
    /// Formats the command roughly as for a shell: empty arguments and arguments with blanks are quoted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program)?;
        for argument in &self.arguments {
            write!(f, " {}", quoted(argument))?;
        }
        Ok(())
    }
}
