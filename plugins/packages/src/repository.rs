//! What is said of a repository, and the files that it is made of.

mod address;
mod definition;

pub(crate) use address::{Address, masked};
pub(crate) use definition::{Key, Repository};

/// The kind of the asset that repositories provide and packages need: an index with everything that there is by then.
pub(crate) const INDEX: &str = "package-index";

/// A file that a repository is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepositoryFile {
    /// Its path, absolute below the root.
    pub(crate) path: String,
    /// Its content; none if it is not to be there.
    pub(crate) content: Option<String>,
    /// True if nobody but root may see it.
    pub(crate) sensitive: bool,
}

impl RepositoryFile {
    /// A file that everybody may read.
    pub(crate) fn new(path: String, content: String) -> RepositoryFile {
        RepositoryFile { path, content: Some(content), sensitive: false }
    }

    /// A file that is not to be there.
    pub(crate) fn absent(path: String) -> RepositoryFile {
        RepositoryFile { path, content: None, sensitive: false }
    }
}
