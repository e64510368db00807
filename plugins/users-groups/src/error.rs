//! The error of work on an account.

use crate::images::ImageError;
use holo_change::error::PathError;

/// The reason why an account is not as it should be, in words.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct AccountError(pub(crate) String);

impl From<String> for AccountError {
    fn from(reason: String) -> Self {
        AccountError(reason)
    }
}

impl From<PathError> for AccountError {
    fn from(error: PathError) -> Self {
        AccountError(error.to_string())
    }
}

impl From<ImageError> for AccountError {
    fn from(error: ImageError) -> Self {
        AccountError(error.to_string())
    }
}
