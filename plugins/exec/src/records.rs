//! Records about commands: the results of their last successful runs, and, in test mode, which of them were printed.

use holo_change::error::{PathError, Result};
use holo_change::tracked::Digest;
use holo_change::{OnDisk, PathHandle, Tree};
use holo_plugin::Host;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::Path;

/// In the state directory: a file for each command.
const FOLDER: &str = ".runs";

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastRun {
    /// The exit status.
    pub(crate) status: i32,
    /// The output without a final newline; `None` if it is too long to be sent, or cannot be an environment variable.
    pub(crate) stdout: Option<Vec<u8>>,
}

impl LastRun {
    /// Reads the result of a command's last run; `None` if there is none or it cannot be read, as the next run will
    /// replace it.
    pub(crate) fn read(host: &Host, name: &str) -> Option<LastRun> {
        let file = place(host, name).ok()?.open_if_file().ok()??;
        serde_json::from_reader(io::BufReader::new(file)).ok()
    }

    /// Saves the result.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn keep(&self, host: &Host, name: &str) -> Result<()> {
        let place = place(host, name)?;
        let failed = |error| PathError::new("write", place.shown(), io::Error::from(error));
        place.replace(&serde_json::to_vec(self).map_err(failed)?, 0o600, OnDisk::Nothing)
    }
}

/// Removes the results of all other commands. If one cannot be removed, the next run tries again.
pub(crate) fn forget_others<'n>(host: &Host, names: impl Iterator<Item = &'n str>) {
    let Ok(any) = place(host, "") else { return };
    let Ok(kept) = any.siblings() else { return };
    if !kept.is_empty() {
        let names: BTreeSet<String> = names.map(file_name).collect();
        let is_other = |kept: &&std::ffi::OsString| !kept.to_str().is_some_and(|kept| names.contains(kept));
        kept.iter().filter(is_other).for_each(|kept| drop(any.sibling(kept).remove()));
    }
}

fn place(host: &Host, name: &str) -> Result<PathHandle> {
    Ok(Tree::open(host.state_dir())?.place(&Path::new(FOLDER).join(OsStr::new(&file_name(name)))))
}

/// Returns a name that is valid on all file systems.
fn file_name(name: &str) -> String {
    Digest::of_bytes(name.as_bytes()).as_str().to_owned()
}

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
