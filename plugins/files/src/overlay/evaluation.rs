//! Errors and helpers of the evaluation of resource files.

use holo_change::error::PathError;
use holo_change::{Content, Image, Unmanageable};
use std::io::Read;

/// Why the desired image of a target cannot be determined. Contains the complete message.
#[derive(Debug)]
pub(crate) struct EvaluationError(pub(crate) String);

impl From<Unmanageable> for EvaluationError {
    fn from(error: Unmanageable) -> Self {
        EvaluationError(format!("skipping target: {error}"))
    }
}

impl From<PathError> for EvaluationError {
    fn from(error: PathError) -> Self {
        EvaluationError::from(Unmanageable::from(error))
    }
}

/// Returns the content of a file, or `None` for a symlink.
pub(crate) fn read(image: &Image) -> Result<Option<Vec<u8>>, EvaluationError> {
    let Content::File { place, .. } = &image.content else { return Ok(None) };
    let mut content = Vec::new();
    let read = place.open()?.read_to_end(&mut content);
    read.map_err(|error| PathError::new("read", place.shown(), error))?;
    Ok(Some(content))
}
