//! The inputs to compare: those of a generation, or the current ones.

use crate::entities::resources::Generated;
use crate::error::IoError;
use crate::generations::inputs::{self, GENERATED, Inputs, Node, Places};
use crate::generations::recording::{RecordingError, inputs_of};
use crate::generations::store::Store;
use crate::host::root::Root;
use holo_change::Kind;
use holo_change::tracked::Digest;
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::PathBuf;

/// Inputs, and the source of their contents.
pub struct Version {
    inputs: Inputs,
    source: Source,
}

enum Source {
    Kept(Store, u32),
    Today(Places),
}

impl Version {
    /// Returns the inputs of a generation.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub fn kept(store: &Store, number: u32) -> Result<Version, RecordingError> {
        let generation = store.generation(number)?;
        Ok(Version { inputs: store.inputs(generation.number)?, source: Source::Kept(store.clone(), number) })
    }

    /// Returns the current inputs, without generated files.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn today(root: &Root) -> Result<Version, RecordingError> {
        let places = Places { root: root.clone(), virtual_root: PathBuf::new() };
        let found = inputs::find(&places, &Generated::new())?.found;
        let mut digests = Vec::new();
        for input in &found {
            let at = places.at(&input.path);
            let digest = || Digest::of(&mut File::open(&at)?);
            digests.push(match input.kind() {
                Kind::File => Some(digest().map_err(|error| IoError::new("read", &at, error))?),
                _ => None,
            });
        }
        Ok(Version { inputs: inputs_of(found, digests, &places)?, source: Source::Today(places) })
    }

    /// Returns the inputs.
    #[must_use]
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// Removes generated files.
    pub fn leave_out_generated(&mut self) {
        self.inputs.retain(|path, _| !path.starts_with(GENERATED));
    }

    /// Returns the contents of those of the paths that are files.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn contents<'a>(
        &self,
        paths: impl Iterator<Item = &'a PathBuf>,
    ) -> Result<HashMap<PathBuf, Vec<u8>>, RecordingError> {
        let mut contents = HashMap::new();
        let mut kept: HashMap<Digest, Vec<PathBuf>> = HashMap::new();
        for path in paths {
            let Some(Node::File { content, .. }) = self.inputs.get(path) else { continue };
            match &self.source {
                Source::Kept(..) => kept.entry(content.clone()).or_default().push(path.clone()),
                Source::Today(places) => {
                    let at = places.at(path);
                    let read = fs::read(&at).map_err(|error| IoError::new("read", &at, error))?;
                    contents.insert(path.clone(), read);
                }
            }
        }
        if let Source::Kept(store, number) = &self.source {
            store.read_files(*number, kept, |paths, content| {
                let mut bytes = Vec::new();
                content.read_to_end(&mut bytes).map_err(|error| IoError::new("read", &store.directory, error))?;
                contents.extend(paths.into_iter().map(|path| (path, bytes.clone())));
                Ok(())
            })?;
        }
        Ok(contents)
    }
}
