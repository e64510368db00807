//! The refreshes that are due, kept on disk from before the change that asks for one until it is done.
//!
//! A refresh that is lost is a daemon that never learns of its new configuration. So what a change may make due is written down before
//! the change, and struck out after the refresh: neither a failure nor a kill in between can lose it.

use crate::error::Fatal;
use crate::root::Root;
use bstr::{BStr, BString};
use holo_protocol::Text;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What is written down.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ledger {
    version: u32,
    refreshes: Vec<Refresh>,
}

const LEDGER_VERSION: u32 = 1;

/// A refresh that is due, or will be if its source changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refresh {
    source: Text,
    target: Text,
    /// Whether the source is known to have changed, or has to be taken to have.
    due: bool,
}

/// The refreshes that are due, or may become so.
#[derive(Debug)]
pub struct Refreshes {
    path: PathBuf,
    refreshes: Vec<Refresh>,
    written: Vec<Refresh>,
    /// Whether a run that was killed has left something behind that is of no use.
    is_untidy: bool,
}

impl Refreshes {
    /// What earlier runs have left. Where they did not come to say whether a source changed, it is taken to have changed.
    ///
    /// # Errors
    /// If it cannot be read: then going on might lose a refresh.
    pub fn load(root: &Root) -> Result<Refreshes, Fatal> {
        let path = root.engine_state().join("refreshes.json");
        let refreshes = match fs::read(&path) {
            Ok(text) => understand(&text, &path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Fatal::io("open", &path, &error)),
        };
        let is_untidy = refreshes.is_empty() && root.engine_state().exists();
        let written = refreshes.clone();
        let refreshes = refreshes.into_iter().map(|refresh| Refresh { due: true, ..refresh }).collect();
        Ok(Refreshes { path, refreshes, written, is_untidy })
    }

    /// Forgets the refreshes of entities that do not exist any more.
    pub fn retain(&mut self, exists: impl Fn(&BStr) -> bool) {
        self.refreshes.retain(|refresh| exists(refresh.target.as_bstr()));
    }

    /// If the source changes, the target is to be refreshed. To be [`save`](Refreshes::save)d before the source is applied.
    pub fn expect(&mut self, source: &BStr, target: &BStr) {
        let is_known = |refresh: &Refresh| refresh.source.as_bstr() == source && refresh.target.as_bstr() == target;
        if !self.refreshes.iter().any(is_known) {
            let text = |id: &BStr| Text(BString::from(id));
            self.refreshes.push(Refresh { source: text(source), target: text(target), due: false });
        }
    }

    /// The source has changed: what was expected of it is due.
    pub fn changed(&mut self, source: &BStr) {
        self.refreshes
            .iter_mut()
            .filter(|refresh| refresh.source.as_bstr() == source)
            .for_each(|refresh| refresh.due = true);
    }

    /// The source has not changed: only what was due before still is.
    pub fn unchanged(&mut self, source: &BStr) {
        self.refreshes.retain(|refresh| refresh.due || refresh.source.as_bstr() != source);
    }

    /// Whether the target is to be refreshed.
    #[must_use]
    pub fn is_due(&self, target: &BStr) -> bool {
        self.refreshes.iter().any(|refresh| refresh.due && refresh.target.as_bstr() == target)
    }

    /// The target has been refreshed.
    pub fn done(&mut self, target: &BStr) {
        self.refreshes.retain(|refresh| !refresh.due || refresh.target.as_bstr() != target);
    }

    /// Writes down what has changed; nothing is written if nothing has, and nothing is left if nothing is due.
    ///
    /// # Errors
    /// If it cannot be written, or is not safely on disk.
    pub fn save(&mut self) -> Result<(), Fatal> {
        if self.refreshes == self.written && !self.is_untidy {
            return Ok(());
        }
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let saved = if self.refreshes.is_empty() { forget(&self.path, folder) } else { self.write(folder) };
        saved.map_err(|error| Fatal::io("write", &self.path, &error))?;
        self.written.clone_from(&self.refreshes);
        self.is_untidy = false;
        Ok(())
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let ledger = Ledger { version: LEDGER_VERSION, refreshes: self.refreshes.clone() };
        let new = self.path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(&ledger)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        // The folder may be new too.
        File::open(folder)?.sync_all()?;
        folder.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
    }
}

fn forget(path: &Path, folder: &Path) -> io::Result<()> {
    for file in [path.to_owned(), path.with_extension("new")] {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    // Others may keep something there too.
    let _ = fs::remove_dir(folder);
    Ok(())
}

fn understand(text: &[u8], path: &Path) -> Result<Vec<Refresh>, Fatal> {
    let cannot = |reason: String| {
        let path = path.display();
        Fatal::CouldNotRun(format!(
            "cannot read the refreshes that are due from {path}: {reason}; remove it to forget them"
        ))
    };
    let ledger: Ledger = serde_json::from_slice(text).map_err(|error| cannot(error.to_string()))?;
    if ledger.version == LEDGER_VERSION {
        Ok(ledger.refreshes)
    } else {
        Err(cannot(format!("it is of version {}, and only {LEDGER_VERSION} is known", ledger.version)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(Some(folder.path().into()));
        (folder, root)
    }

    fn id(name: &str) -> &BStr {
        name.into()
    }

    #[test]
    fn a_refresh_is_due_until_it_is_done() {
        let (folder, root) = root();
        let mut refreshes = Refreshes::load(&root).unwrap();
        refreshes.expect(id("file"), id("service"));
        refreshes.save().unwrap();
        assert!(!refreshes.is_due(id("service")));
        refreshes.changed(id("file"));
        assert!(refreshes.is_due(id("service")) && !refreshes.is_due(id("file")));
        refreshes.save().unwrap();
        let mut later = Refreshes::load(&root).unwrap();
        later.unchanged(id("file"));
        assert!(later.is_due(id("service")));
        later.done(id("service"));
        later.save().unwrap();
        assert_eq!(fs::read_dir(folder.path().join("var/lib/holo")).unwrap().count(), 0);
    }

    #[test]
    fn a_run_that_ended_before_it_could_tell_is_taken_to_have_changed_something() {
        let (_folder, root) = root();
        let mut refreshes = Refreshes::load(&root).unwrap();
        refreshes.expect(id("file"), id("service"));
        refreshes.save().unwrap();
        drop(refreshes);
        let mut later = Refreshes::load(&root).unwrap();
        later.unchanged(id("file"));
        assert!(later.is_due(id("service")));
    }

    #[test]
    fn nothing_is_written_if_there_is_nothing_to_keep() {
        let (folder, root) = root();
        let mut refreshes = Refreshes::load(&root).unwrap();
        refreshes.expect(id("file"), id("service"));
        refreshes.unchanged(id("file"));
        refreshes.save().unwrap();
        assert!(!folder.path().join("var").exists());
    }

    #[test]
    fn the_refreshes_of_what_is_gone_are_forgotten() {
        let (_folder, root) = root();
        let mut refreshes = Refreshes::load(&root).unwrap();
        refreshes.expect(id("file"), id("service"));
        refreshes.changed(id("file"));
        refreshes.retain(|id| id == "file");
        assert!(!refreshes.is_due(id("service")));
    }

    #[test]
    fn what_a_killed_run_has_left_is_tidied_up() {
        let (folder, root) = root();
        fs::create_dir_all(root.engine_state()).unwrap();
        fs::write(root.engine_state().join("refreshes.new"), "half").unwrap();
        Refreshes::load(&root).unwrap().save().unwrap();
        assert_eq!(fs::read_dir(folder.path().join("var/lib/holo")).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_file_is_an_error_that_says_what_to_do() {
        let (_folder, root) = root();
        fs::create_dir_all(root.engine_state()).unwrap();
        for text in ["", "{", r#"{"version":2,"refreshes":[]}"#, r#"{"version":1,"refreshes":[],"x":1}"#] {
            fs::write(root.engine_state().join("refreshes.json"), text).unwrap();
            let message = Refreshes::load(&root).unwrap_err().to_string();
            assert!(message.contains("refreshes.json") && message.ends_with("remove it to forget them"), "{message}");
        }
    }
}
