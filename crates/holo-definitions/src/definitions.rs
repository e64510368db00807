//! All definitions of a plugin: its files are read and stacked.
//!
//! Each file is read as a whole, and errors are reported with file, line and key. An invalid definition is broken: its
//! entity is neither listed nor considered an orphan, and all other definitions are used.

mod reader;
#[cfg(test)]
mod tests;

use crate::common::CommonKeys;
use crate::declarations::{Declaration, Declarations, NoDeclaration};
use crate::definition::{Definition, Invalid};
use crate::finding::{DefinitionError, Finding, Location};
use crate::outline::{OutlinedTable, TableId};
use crate::receive::{Hindrance, Received};
use crate::resource_dirs::ResourceDirs;
use crate::source::{FileState, Sources};
use crate::templates::Templates;
use reader::{Reader, TableType, Tables};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

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

    /// Returns the IDs of invalid definitions, and those of known entities that may be defined in a file that cannot be
    /// read. These entities are left alone, and keep what they own.
    pub fn unusable<'i>(&'i self, known: impl IntoIterator<Item = &'i String>) -> BTreeSet<&'i str> {
        let lost = known.into_iter().filter(|id| !self.complete && !self.is_defined(id));
        self.broken.iter().chain(lost).map(String::as_str).collect()
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

/// Records which files were valid the last time, so that only a part of them has to be read.
pub trait KnownFiles {
    /// Returns true if all of these files, and no others, were valid when last read, and have not changed since.
    fn are_right(&self, files: &[FileState]) -> bool;

    /// Records that these files, which are all that exist, are valid.
    fn found_right(&self, files: &[FileState]);

    /// Returns, for each table, whether it must be read; `None` if all must be. Tables that affect no other entity come
    /// with their IDs; all others are read anyway.
    fn choose(&self, tables: &[(OutlinedTable<'_>, Option<TableId<'_>>)]) -> Option<Vec<bool>>;
}

/// IDs of entities. There may be very many, and most are never looked up.
#[derive(Debug, Default)]
struct UnreadIds {
    /// One per line.
    all: String,
    by_id: OnceLock<HashSet<String>>,
}

impl UnreadIds {
    fn add(&mut self, id: TableId<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.all, "{id}");
    }

    fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn contains(&self, id: &str) -> bool {
        let all = || self.all.split_terminator('\n').map(str::to_owned).collect();
        !self.all.is_empty() && self.by_id.get_or_init(all).contains(id)
    }
}

/// Definitions of several types: a pair of the first type and the rest, `()` for none.
pub trait DefinitionSet: sealed::Read {}

impl<S: sealed::Read> DefinitionSet for S {}

/// Reads all definition files, which contain tables of several types. The findings are in the order in which they are
/// reported. The last value is true if all files that may define entities could be read.
pub fn read_several<S: DefinitionSet>(
    directories: &ResourceDirs,
    templates: &dyn Templates,
    received: &dyn Received,
) -> (S, Vec<Finding>, bool) {
    let types = S::types();
    let (sources, mut reader) = Reader::open(directories, templates, received, &types);
    let mut read = Tables::<NoDeclaration>::new(types);
    read.take_files(&sources, &mut reader);
    let definitions = S::finish(&mut read, &mut reader, &sources, templates);
    (definitions, reader.findings, reader.complete)
}

/// Like [`read_several`], but of files known to be valid only the tables that were requested or may affect other
/// entities are read.
pub fn read_some_of_several<S: DefinitionSet>(
    directories: &ResourceDirs,
    templates: &dyn Templates,
    received: &dyn Received,
    known: &dyn KnownFiles,
) -> (S, Vec<Finding>, bool) {
    let types = S::types();
    let (sources, mut reader) = Reader::open(directories, templates, received, &types);
    let mut read = Tables::<NoDeclaration>::new(types);
    let states = sources.states().filter(|_| reader.findings.is_empty());
    let are_right = states.as_ref().is_some_and(|states| known.are_right(states));
    let is_limited = are_right && read.take_some(&sources, known, &mut reader);
    if !is_limited {
        read.take_files(&sources, &mut reader);
    }
    let definitions = S::finish(&mut read, &mut reader, &sources, templates);
    if let Some(states) = states.filter(|_| !is_limited && reader.complete && reader.findings.is_empty()) {
        known.found_right(&states);
    }
    (definitions, reader.findings, reader.complete)
}

mod sealed {
    use super::{Definition, Definitions, NoDeclaration, Reader, Sources, TableType, Tables, Templates};

    pub trait Read: Sized {
        fn types() -> Vec<TableType>;

        fn finish<'s>(
            read: &mut Tables<'s, NoDeclaration>,
            reader: &mut Reader<'_>,
            sources: &'s Sources,
            templates: &dyn Templates,
        ) -> Self;
    }

    impl Read for () {
        fn types() -> Vec<TableType> {
            Vec::new()
        }

        fn finish<'s>(_: &mut Tables<'s, NoDeclaration>, _: &mut Reader<'_>, _: &'s Sources, _: &dyn Templates) {}
    }

    impl<D: Definition, R: Read> Read for (Definitions<D>, R) {
        fn types() -> Vec<TableType> {
            [vec![TableType::of::<D>()], R::types()].into_iter().flatten().collect()
        }

        fn finish<'s>(
            read: &mut Tables<'s, NoDeclaration>,
            reader: &mut Reader<'_>,
            sources: &'s Sources,
            templates: &dyn Templates,
        ) -> Self {
            let mut first: Definitions<D> = reader.finish_all(read.take::<D>(), sources, templates);
            first.unread = read.take_unread::<D>();
            (first, R::finish(read, reader, sources, templates))
        }
    }
}
