//! Errors that prevent a scenario from running.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::IoError;
use crate::tree::ParseError;

/// A scenario that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder has no `source-tree`, so it is not a scenario.
    #[error("{}: no source-tree; a scenario is a folder with a source-tree, and perhaps env.sh and expected-*", dir.display())]
    NoSourceTree {
        /// The folder.
        dir: PathBuf,
    },
    /// The `source-tree` is invalid.
    #[error("{}/{reason}", dir.display())]
    SourceTree {
        /// The scenario.
        dir: PathBuf,
        /// The error and its line.
        reason: ParseError,
    },
    /// An indented line of `steps` belongs to no command.
    #[error("{}/steps:{line}: an indented line follows no command; commands begin with two blanks and `$ `", dir.display())]
    Steps {
        /// The scenario.
        dir: PathBuf,
        /// The line number, counted from 1.
        line: usize,
    },
    /// A command exceeded its timeout and was killed. Its output until then is in `colored-*-output`.
    #[error("{}: {during} was ended after {limit:?}", dir.display())]
    TimedOut {
        /// The scenario.
        dir: PathBuf,
        /// The running command, such as `holo diff` or `env.sh`.
        during: String,
        /// The timeout.
        limit: Duration,
    },
    /// The shell that reads `env.sh` ended before the last command.
    #[error("{}: the shell ended with status {status} during {during}; {script} and its functions must neither call exit nor fail under set -e{output}", dir.display())]
    ShellEnded {
        /// The scenario.
        dir: PathBuf,
        /// The running command, such as `holo diff` or `env.sh`.
        during: String,
        /// The script that the shell reads.
        script: &'static str,
        /// The exit status of the shell; 128 + N for signal N.
        status: i32,
        /// The output of `env.sh`, with each line indented.
        output: String,
    },
    /// A file or directory could not be accessed, or a program could not be run.
    #[error(transparent)]
    Io(#[from] IoError),
}
