//! The results of the last successful runs of commands.

use holo_change::error::{PathError, Result};
use holo_change::tracked::Digest;
use holo_change::{OnDisk, PathHandle, Tree};
use holo_plugin::Host;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
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
