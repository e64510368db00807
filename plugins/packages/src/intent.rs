//! Records the versions that a transaction is about to install. If the plugin is killed before it learns the result, they still count as
//! installed by holo. Also records the versions of packages that were fetched from a URL.

use holo_change::error::{PathError, Result};
use holo_change::{OnDisk, PathHandle, Tree};
use holo_plugin::Host;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// A file in the state directory. Each line contains the ID of a package, a tab, and the version.
const INTENDED: &str = ".intended";
/// Like `INTENDED`, but the version is preceded by the digest of the source.
const FETCHED: &str = ".fetched";

/// The recorded version of each package.
pub(crate) struct Intent {
    file: PathHandle,
    versions: BTreeMap<String, String>,
}

impl Intent {
    /// Reads the versions that earlier applies intended to install.
    pub(crate) fn open(host: &Host) -> Result<Intent> {
        Intent::read(host, INTENDED)
    }

    /// Reads the versions that earlier applies fetched.
    pub(crate) fn fetched(host: &Host) -> Result<Intent> {
        Intent::read(host, FETCHED)
    }

    fn read(host: &Host, name: &str) -> Result<Intent> {
        let file = Tree::open(host.state_dir())?.place(Path::new(name));
        let mut text = Vec::new();
        if let Some(mut open) = file.open_if_file()? {
            open.read_to_end(&mut text).map_err(|error| PathError::new("read", file.shown(), error))?;
        }
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        let versions = lines.map(|(id, version)| (id.to_owned(), version.to_owned())).collect();
        Ok(Intent { file, versions })
    }

    /// Returns the recorded version of a package.
    pub(crate) fn version(&self, id: &str) -> Option<&str> {
        self.versions.get(id).map(String::as_str)
    }

    /// Records versions by package ID, and removes the entries of packages without a version. The file is on disk when this returns.
    pub(crate) fn note<'a>(&mut self, about: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Result<()> {
        let before = self.versions.clone();
        for (id, version) in about {
            match version {
                Some(version) => drop(self.versions.insert(id.to_owned(), version.to_owned())),
                None => drop(self.versions.remove(id)),
            }
        }
        self.write(&before)
    }

    fn write(&self, before: &BTreeMap<String, String>) -> Result<()> {
        if self.versions == *before {
            return Ok(());
        }
        if self.versions.is_empty() {
            return self.file.remove();
        }
        let text: String = self.versions.iter().map(|(id, version)| format!("{id}\t{version}\n")).collect();
        self.file.replace(text.as_bytes(), 0o644, OnDisk::New)
    }
}
