//! All definitions of a plugin: its files are read and stacked.
//!
//! Each file is read as a whole, and errors are reported with file, line and key. An invalid definition is broken: its
//! entity is neither listed nor considered an orphan, and all other definitions are used.

mod known_files;
mod reader;
mod several;
mod unread;

use crate::common::CommonKeys;
use crate::declarations::{Declaration, Declarations, NoDeclaration};
use crate::definition::{Definition, Invalid};
use crate::finding::{DefinitionError, Finding, Location};
use crate::receive::{Hindrance, Received};
use crate::resource_dirs::ResourceDirs;
use crate::templates::Templates;
use reader::{Reader, TableType, Tables};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use unread::UnreadIds;

pub use known_files::KnownFiles;
pub use several::{DefinitionSet, read_several, read_some_of_several};

/// All definitions of one type.
#[derive(Debug)]
pub struct Definitions<D> {
    /// The valid definitions by entity ID.
    pub valid: BTreeMap<String, Box<Defined<D>>>,
    broken: BTreeSet<String>,
    /// The IDs of valid definitions that were not requested.
    unread: UnreadIds,
    complete: bool,
}

/// A definition, merged from all files.
#[derive(Clone, Debug)]
pub struct Defined<D> {
    /// The keys of its type.
    pub definition: D,
    /// The properties that every entity has.
    pub common: Common,
}

/// The properties that every entity has.
#[derive(Clone, Debug, Default)]
pub struct Common {
    /// The files that define it, as shown to the user.
    pub sources: Vec<PathBuf>,
    /// The location of its first table.
    pub location: Location,
    /// The locations of the keys of its type, and of those in nested tables as `KEY.KEY`.
    pub key_locations: Vec<(String, Location)>,
    /// The common keys; all definitions without any share the same value.
    pub keys: Arc<CommonKeys>,
    /// The reason why the entity's own conditions leave it out, if they do.
    pub skipped: Option<String>,
    /// The received keys without a value, for which the definition contains placeholders.
    pub hindrances: Vec<Hindrance>,
}

impl<D: Definition> Definitions<D> {
    /// Reads all definition files. The findings are in the order in which they are reported.
    pub fn read(
        directories: &ResourceDirs,
        templates: &dyn Templates,
        received: &dyn Received,
    ) -> (Definitions<D>, Vec<Finding>) {
        let (definitions, _, findings) = Definitions::read_with::<NoDeclaration>(directories, templates, received);
        (definitions, findings)
    }

    /// Reads all definition files, including declarations.
    pub fn read_with<M: Declaration>(
        directories: &ResourceDirs,
        templates: &dyn Templates,
        received: &dyn Received,
    ) -> (Definitions<D>, Declarations<M>, Vec<Finding>) {
        let types = vec![TableType::of::<D>()];
        let (sources, mut reader) = Reader::open(directories, templates, received, &types);
        let mut read = Tables::<M>::new(types);
        read.take_files(&sources, &mut reader);
        let stacks = read.take::<D>();
        let declarations = read.declared.finish(&sources, &mut reader.findings);
        let definitions = reader.finish_all(stacks, &sources, templates);
        (definitions, declarations, reader.findings)
    }

    /// Marks a definition as broken, because it conflicts with other definitions; it does not become an orphan. Returns
    /// the errors with their locations.
    pub fn refuse(&mut self, id: &str, invalid: &[Invalid]) -> Vec<Finding> {
        let Some(common) = self.valid.remove(id).map(|defined| defined.common) else { return Vec::new() };
        self.broken.insert(id.to_owned());
        let located = |invalid: &Invalid| {
            let (location, message) = (common.location_of(&invalid.key).clone(), format!("{id}: {invalid}"));
            Finding::Error(DefinitionError::Wrong { location, message })
        };
        invalid.iter().map(located).collect()
    }

    /// Returns true if a previously known entity is an orphan: it has no definition, and no unreadable file may contain
    /// one.
    #[must_use]
    pub fn is_orphan(&self, id: &str) -> bool {
        self.complete && !self.is_defined(id)
    }

    /// Returns true if the entity has a definition, valid or not.
    #[must_use]
    pub fn is_defined(&self, id: &str) -> bool {
        self.valid.contains_key(id) || self.broken.contains(id) || self.unread.contains(id)
    }

    /// Returns true if all valid definitions have been read, not only requested ones.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.unread.is_empty()
    }

    /// Returns true if the definition exists, but is invalid. The error has been reported already.
    #[must_use]
    pub fn is_broken(&self, id: &str) -> bool {
        self.broken.contains(id)
    }

    /// Returns true if all files that may define entities could be read: otherwise there are no orphans.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

impl Common {
    /// Returns the location of a key of the entity's type, or of `KEY.KEY` in a nested table; or of the definition if
    /// it does not contain the key.
    #[must_use]
    pub fn location_of(&self, key: &str) -> &Location {
        let find = |key: &str| self.key_locations.iter().find(|(known, _)| known == key);
        let found = find(key).or_else(|| find(key.split_once('.')?.0));
        found.map_or(&self.location, |(_, location)| location)
    }
}

#[cfg(test)]
mod tests;
