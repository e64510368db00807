//! Errors in lines.

/// A text that is not a valid line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The text is not JSON, or required fields are missing.
    #[error("not a line of holo --json: {0}")]
    NotALine(serde_json::Error),
    /// The version is not supported.
    #[error("a line of version {version}, while only version {} is known", crate::VERSION)]
    Version {
        /// The version of the line.
        version: u8,
    },
}
