//! The definition of a repository, and its files.

mod address;
mod definition;

pub(crate) use address::{Address, masked};
pub(crate) use definition::{Key, Repository};

/// The kind of the asset that repositories provide and packages need: an up-to-date index.
pub(crate) const INDEX: &str = "package-index";

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepositoryFile {
    /// The absolute path below the root.
    pub(crate) path: String,
    /// The content, or `None` if the file must not exist.
    pub(crate) content: Option<String>,
    /// True if only root may read the file.
    pub(crate) sensitive: bool,
}

impl RepositoryFile {
    /// Creates a file that is world-readable.
    pub(crate) fn new(path: String, content: String) -> RepositoryFile {
        RepositoryFile { path, content: Some(content), sensitive: false }
    }

    /// Creates a file that must not exist.
    pub(crate) fn absent(path: String) -> RepositoryFile {
        RepositoryFile { path, content: None, sensitive: false }
    }
}
