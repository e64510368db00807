//! Lines that cannot be read.

/// A text that is not a line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It is not JSON, or lacks what such a line has.
    #[error("not a line of holo --json: {0}")]
    NotALine(serde_json::Error),
    /// It is of a version that is not known here.
    #[error("a line of version {version}, while only version {} is known", crate::VERSION)]
    Version {
        /// Its version.
        version: u8,
    },
}
