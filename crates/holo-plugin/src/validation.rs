//! Programs that must accept a new content before it replaces the old one.

use crate::definitions::Command;
use crate::host::Host;
use crate::output::Output;
use crate::process::{self, Program, ProgramError};
use holo_change::{PathError, Tree};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// A validation program and its settings.
#[derive(Clone, Copy, Debug)]
pub struct Validation<'a> {
    /// The program; `{}` in its arguments is replaced with the path of a copy.
    pub command: &'a Command,
    /// True if its output must not be displayed.
    pub sensitive: bool,
    /// The timeout.
    pub timeout: Option<Duration>,
}

/// The complete message why a content was rejected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ValidationError(pub String);

impl From<PathError> for ValidationError {
    fn from(error: PathError) -> Self {
        ValidationError(error.to_string())
    }
}

impl From<ProgramError> for ValidationError {
    fn from(error: ProgramError) -> Self {
        ValidationError(error.to_string())
    }
}

impl Validation<'_> {
    /// Runs the program on a copy of the new content for a path.
    ///
    /// # Errors
    /// If the program rejects the content, or cannot be run.
    pub fn run(self, path: &Path, content: &[u8], host: &Host, output: &mut Output<'_>) -> Result<(), ValidationError> {
        let Validation { command, sensitive, timeout } = self;
        // Some programs depend on the file name, or its suffix.
        let name = path.file_name().unwrap_or_default();
        let folder = format!("validate-{}", holo_change::image_store::path_digest(path));
        let place = Tree::open(host.cache_dir())?.place(&Path::new(&folder).join(name));
        place.create_folder()?;
        place.create()?.write_all(content).map_err(|error| PathError::new("write", place.shown(), error))?;
        let copy = place.shown().display().to_string();
        let mut program = Program::from_words(command.words().iter().map(|word| word.replace("{}", &copy)));
        program.timeout(timeout);
        let ended = if sensitive { program.run(|_, _| {}) } else { process::run(&mut program, output) };
        let removed = place.remove();
        place.remove_empty_folders(Path::new(""));
        removed?;
        let silence = if sensitive { "; its output is not shown, because the file is sensitive" } else { "" };
        match ended?.failure() {
            None => Ok(()),
            Some(failure) => {
                let command = command.words().join(" ");
                Err(ValidationError(format!("validation by `{command}` failed: {failure}{silence}")))
            }
        }
    }
}
