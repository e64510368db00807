//! The commands that test mode has printed, so that the next apply treats them as done.

use holo_change::error::{PathError, Result};
use holo_change::{OnDisk, PathHandle, Tree};
use holo_plugin::Host;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

/// In the state directory: one name per line.
const FILE: &str = ".mocked";

/// The names of the commands.
pub(crate) struct Mocks {
    place: PathHandle,
    names: BTreeSet<String>,
}

impl Mocks {
    /// Reads the names from earlier applies.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn open(host: &Host) -> Result<Mocks> {
        let place = Tree::open(host.state_dir())?.place(Path::new(FILE));
        let mut text = String::new();
        if let Some(mut file) = place.open_if_file()? {
            file.read_to_string(&mut text).map_err(|error| PathError::new("read", place.shown(), error))?;
        }
        Ok(Mocks { place, names: text.lines().map(str::to_owned).collect() })
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Adds a command.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn add(mut self, name: &str) -> Result<()> {
        self.names.insert(name.to_owned());
        let text: String = self.names.iter().flat_map(|name| [name, "\n"]).collect();
        self.place.replace(text.as_bytes(), 0o600, OnDisk::Nothing)
    }
}
