//! All definitions of a plugin: its files, read and stacked.
//!
//! A file is read whole; what is wrong in it is found with file, line and key. A definition that is wrong is broken: its entity is
//! neither listed nor taken for an orphan, and the others go on.

mod known_files;
mod reader;
mod several;
mod unread;

pub use known_files::KnownFiles;
pub use several::{DefinitionSet, read_several, read_some_of_several};

use crate::common::CommonKeys;
use crate::declarations::{Declaration, Declarations, NoDeclaration};
use crate::definition::{Definition, Invalid};
use crate::finding::{DefinitionError, Finding};
use crate::location::Location;
use crate::receive::{Hindrance, Received};
use crate::resource_dirs::ResourceDirs;
use crate::templates::Templates;
use reader::{Reader, TableType, Tables};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use unread::UnreadIds;

/// All definitions of one type.
#[derive(Debug)]
pub struct Definitions<D> {
    /// Those that can be used, by the entity's ID.
    pub valid: BTreeMap<String, Box<Defined<D>>>,
    broken: BTreeSet<String>,
    /// Those that are right, and were not asked for.
    unread: UnreadIds,
    complete: bool,
}

/// A definition, as all files together say it.
#[derive(Clone, Debug)]
pub struct Defined<D> {
    /// The keys that only entities of its type have.
    pub definition: D,
    /// The properties that every entity can have.
    pub common: Common,
}

/// The properties that every entity can have.
#[derive(Clone, Debug, Default)]
pub struct Common {
    /// The files that define it, as the user knows them.
    pub sources: Vec<PathBuf>,
    /// The location of the first of its tables.
    pub location: Location,
    /// The locations of the keys that only its type has, and of those in their tables as `KEY.KEY`.
    pub key_locations: Vec<(String, Location)>,
    /// The keys that every definition can have; those that have none of them share these.
    pub keys: Arc<CommonKeys>,
    /// The reason why its own conditions leave the entity out, if they do.
    pub skipped: Option<String>,
    /// The received keys without a value; the definition has something else for them.
    pub hindrances: Vec<Hindrance>,
}

impl<D: Definition> Definitions<D> {
    /// Reads all definition files. What is found in them is in the order in which a person is told.
    pub fn read(
        directories: &ResourceDirs,
        templates: &dyn Templates,
        received: &dyn Received,
    ) -> (Definitions<D>, Vec<Finding>) {
        let (definitions, _, findings) = Definitions::read_with::<NoDeclaration>(directories, templates, received);
        (definitions, findings)
    }

    /// Reads all definition files, and what they declare for all definitions.
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

    /// Makes a definition broken that turns out to be wrong when it is seen beside others: nothing becomes an orphan. The mistakes are
    /// returned with their places.
    pub fn refuse(&mut self, id: &str, invalid: &[Invalid]) -> Vec<Finding> {
        let Some(common) = self.valid.remove(id).map(|defined| defined.common) else { return Vec::new() };
        self.broken.insert(id.to_owned());
        let located = |invalid: &Invalid| {
            let (location, message) = (common.location_of(&invalid.key).clone(), format!("{id}: {invalid}"));
            Finding::Error(DefinitionError::Wrong { location, message })
        };
        invalid.iter().map(located).collect()
    }

    /// Returns true if an entity known from earlier is an orphan now: nothing defines it, and nothing that may is unreadable.
    #[must_use]
    pub fn is_orphan(&self, id: &str) -> bool {
        self.complete && !self.is_defined(id)
    }

    /// Returns true if something defines it, be that right or wrong.
    #[must_use]
    pub fn is_defined(&self, id: &str) -> bool {
        self.valid.contains_key(id) || self.broken.contains(id) || self.unread.contains(id)
    }

    /// Returns true if none was left out that is right and was not asked for.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.unread.is_empty()
    }

    /// Returns true if it is defined, but wrong: it has been said why.
    #[must_use]
    pub fn is_broken(&self, id: &str) -> bool {
        self.broken.contains(id)
    }

    /// Returns true if all that defines entities could be read: otherwise there are no orphans.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

impl Common {
    /// Returns the file and line of a key that only the entity's type has, or of `KEY.KEY` in its table; or of the definition if it does
    /// not say it.
    #[must_use]
    pub fn location_of(&self, key: &str) -> &Location {
        let find = |key: &str| self.key_locations.iter().find(|(known, _)| known == key);
        let found = find(key).or_else(|| find(key.split_once('.')?.0));
        found.map_or(&self.location, |(_, location)| location)
    }
}

#[cfg(test)]
mod tests;
