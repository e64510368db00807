//! The reasons that keep a scenario from being run.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::IoError;
use crate::tree::ParseError;

/// A scenario that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no `source-tree`, so this is no scenario.
    #[error("{}: no source-tree; a scenario is a folder with a source-tree, and perhaps env.sh and expected-*", dir.display())]
    NoSourceTree {
        /// The folder.
        dir: PathBuf,
    },
    /// The `source-tree` cannot be understood.
    #[error("{}/{reason}", dir.display())]
    SourceTree {
        /// The scenario.
        dir: PathBuf,
        /// The problem, and its line.
        reason: ParseError,
    },
    /// A line of `steps` is indented, and belongs to no command.
    #[error("{}/steps:{line}: an indented line follows no command; commands begin with two blanks and `$ `", dir.display())]
    Steps {
        /// The scenario.
        dir: PathBuf,
        /// The line's number, from 1.
        line: usize,
    },
    /// A command took too long and was ended. What it had printed is in its `colored-*-output`.
    #[error("{}: {during} was ended after {limit:?}", dir.display())]
    TimedOut {
        /// The scenario.
        dir: PathBuf,
        /// The command that was running: `holo diff`, say, or `env.sh`.
        during: String,
        /// The time that it had.
        limit: Duration,
    },
    /// The shell that reads `env.sh` ended before the last command did.
    #[error("{}: the shell ended with status {status} during {during}; {script} and its functions must neither call exit nor fail under set -e{output}", dir.display())]
    ShellEnded {
        /// The scenario.
        dir: PathBuf,
        /// The command that was running: `holo diff`, say, or `env.sh`.
        during: String,
        /// The scenario's file that the shell reads.
        script: &'static str,
        /// The status of the shell, 128 + N for signal N.
        status: i32,
        /// The output of `env.sh`, each line indented on a line of its own.
        output: String,
    },
    /// A file or directory could not be worked with, or a program not run.
    #[error(transparent)]
    Io(#[from] IoError),
}
