//! Programs that have to find a new content well before it takes the place of the old.

use crate::definitions::Command;
use crate::host::Host;
use crate::output::Output;
use crate::process::{self, Program, ProgramError};
use holo_change::{PathError, Tree};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// A program with the way in which it is run.
#[derive(Clone, Copy, Debug)]
pub struct Validation<'a> {
    /// The program; `{}` in its arguments stands for the path of a copy.
    pub command: &'a Command,
    /// True if what it says is shown nowhere.
    pub sensitive: bool,
    /// The time limit.
    pub timeout: Option<Duration>,
}

/// The reason why a content is not written; the text is whole.
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
    /// Runs the program on a copy of what shall be at a path.
    ///
    /// # Errors
    /// If the program finds something wrong with it, or cannot be run.
    pub fn run(self, path: &Path, content: &[u8], host: &Host, output: &mut Output<'_>) -> Result<(), ValidationError> {
        let Validation { command, sensitive, timeout } = self;
        // Programs may go by the name, and some by its ending.
        let name = path.file_name().unwrap_or_default();
        let folder = format!("validate-{}", holo_change::image_store::path_digest(path));
        let place = Tree::open(host.cache_dir())?.place(&Path::new(&folder).join(name));
        place.create_folder()?;
        place.create()?.write_all(content).map_err(|error| PathError::new("write", place.shown(), error))?;
        let copy = place.shown().display().to_string();
        let mut program = Program::from_words(command.words().iter().map(|word| word.replace("{}", &copy)));
        program.timeout(timeout);
        let ended = if sensitive { program.run(|_, _| {}) } else { process::run(&program, output) };
        let removed = place.remove();
        place.remove_empty_folders(Path::new(""));
        removed?;
        let silence = if sensitive { "; what it says is not shown, as the file is sensitive" } else { "" };
        match ended?.failure() {
            None => Ok(()),
            Some(failure) => {
                let command = command.words().join(" ");
                Err(ValidationError(format!("validation by `{command}` failed: {failure}{silence}")))
            }
        }
    }
}
