//! Errors of accounts.

use crate::images::ImageError;
use holo_change::error::PathError;

/// The error message for an account.
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
