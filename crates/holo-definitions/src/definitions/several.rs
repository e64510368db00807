//! Definitions of several types in the same files.

use super::Definitions;
use super::known_files::KnownFiles;
use super::reader::{Reader, TableType, Tables};
use crate::declarations::NoDeclaration;
use crate::definition::Definition;
use crate::finding::Finding;
use crate::receive::Received;
use crate::resource_dirs::ResourceDirs;
use crate::source::Sources;
use crate::templates::Templates;

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
