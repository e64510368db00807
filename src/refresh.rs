//! The refreshes that are due, kept on disk from before the change that asks for one until it is done.
//!
//! A refresh that is lost is a daemon that never learns of its new configuration. So what a change may make due is written down before
//! the change, and struck out after the refresh: neither a failure nor a kill in between can lose it.

use crate::error::Fatal;
use crate::root::Root;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::Text;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
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
    /// What the source has sent to the target, each `KEY=VALUE`, no key twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sent: Vec<Text>,
}

/// The refreshes that are due, or may become so.
#[derive(Debug)]
pub struct Refreshes {
    path: PathBuf,
    /// By source and target.
    refreshes: BTreeMap<BString, BTreeMap<BString, State>>,
    /// The sources by their targets.
    sources: BTreeMap<BString, BTreeSet<BString>>,
    /// What is not as it is on disk, and how it is there: a refresh may come and go within a run without being written.
    on_disk: BTreeMap<(BString, BString), Option<State>>,
    /// Whether a run that was killed has left something behind that is of no use.
    is_untidy: bool,
}

/// How far a refresh has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    due: bool,
    sent: Vec<BString>,
}

impl Refreshes {
    /// What earlier runs have left. Where they did not come to say whether a source changed, it is taken to have changed.
    ///
    /// # Errors
    /// If it cannot be read: then going on might lose a refresh.
    pub fn load(root: &Root) -> Result<Refreshes, Fatal> {
        let path = root.engine_state().join("refreshes.json");
        let written = match fs::read(&path) {
            Ok(text) => understand(&text, &path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Fatal::io("open", &path, &error)),
        };
        let is_untidy = written.is_empty() && root.engine_state().exists();
        let mut refreshes = Refreshes {
            path,
            refreshes: BTreeMap::new(),
            sources: BTreeMap::new(),
            on_disk: BTreeMap::new(),
            is_untidy,
        };
        let mut untold = Vec::new();
        for Refresh { source: Text(source), target: Text(target), due, sent } in written {
            if !due {
                untold.push(source.clone());
            }
            let sent = sent.into_iter().map(|Text(text)| text).collect();
            refreshes.set(source.as_bstr(), target.as_bstr(), Some(State { due, sent }));
        }
        untold.iter().for_each(|source| refreshes.changed(source.as_bstr()));
        Ok(refreshes)
    }

    /// Forgets the refreshes of entities that do not exist any more.
    pub fn retain(&mut self, exists: impl Fn(&BStr) -> bool) {
        let gone: Vec<BString> = self.sources.keys().filter(|target| !exists(target.as_bstr())).cloned().collect();
        for target in gone {
            for source in self.sources_of(target.as_bstr()) {
                self.put(source.as_bstr(), target.as_bstr(), None);
            }
        }
    }

    /// If the source changes, the target is to be refreshed. To be [`save`](Refreshes::save)d before the source is applied.
    pub fn expect(&mut self, source: &BStr, target: &BStr) {
        if self.get(source, target).is_none() {
            self.put(source, target, Some(State::default()));
        }
    }

    /// The source has changed: what was expected of it is due.
    pub fn changed(&mut self, source: &BStr) {
        for (target, state) in self.targets_of(source) {
            self.put(source, target.as_bstr(), Some(State { due: true, ..state }));
        }
    }

    /// The source has something to say to all targets whose refresh is due because of it: each value is `KEY=VALUE`, and takes the place
    /// of what was said of the same key before.
    pub fn send(&mut self, source: &BStr, values: &[BString]) {
        for (target, mut state) in self.targets_of(source).into_iter().filter(|(_, state)| state.due) {
            for value in values {
                state.sent.retain(|sent| key(sent) != key(value));
                state.sent.push(value.clone());
            }
            self.put(source, target.as_bstr(), Some(state));
        }
    }

    /// The source has not changed: only what was due before still is.
    pub fn unchanged(&mut self, source: &BStr) {
        for (target, _) in self.targets_of(source).into_iter().filter(|(_, state)| !state.due) {
            self.put(source, target.as_bstr(), None);
        }
    }

    /// Whether the target is to be refreshed.
    #[must_use]
    pub fn is_due(&self, target: &BStr) -> bool {
        self.due_states(target).next().is_some()
    }

    /// What was sent to the target, as it is to be refreshed: one source after the other, in the order of their IDs.
    #[must_use]
    pub fn received(&self, target: &BStr) -> Vec<BString> {
        self.due_states(target).flat_map(|state| &state.sent).cloned().collect()
    }

    /// The target has been refreshed.
    pub fn done(&mut self, target: &BStr) {
        for source in self.sources_of(target) {
            if self.get(source.as_bstr(), target).is_some_and(|state| state.due) {
                self.put(source.as_bstr(), target, None);
            }
        }
    }

    fn get(&self, source: &BStr, target: &BStr) -> Option<&State> {
        self.refreshes.get(source)?.get(target)
    }

    fn targets_of(&self, source: &BStr) -> Vec<(BString, State)> {
        let targets = self.refreshes.get(source).into_iter().flatten();
        targets.map(|(target, state)| (target.clone(), state.clone())).collect()
    }

    fn sources_of(&self, target: &BStr) -> Vec<BString> {
        self.sources.get(target).into_iter().flatten().cloned().collect()
    }

    fn due_states<'a>(&'a self, target: &'a BStr) -> impl Iterator<Item = &'a State> {
        let sources = self.sources.get(target).into_iter().flatten();
        sources.filter_map(move |source| self.get(source.as_bstr(), target)).filter(|state| state.due)
    }

    /// Gives a refresh another state, or none, and remembers how it is on disk.
    fn put(&mut self, source: &BStr, target: &BStr, state: Option<State>) {
        let before = self.set(source, target, state);
        let place = (source.to_owned(), target.to_owned());
        let as_on_disk = self.on_disk.entry(place.clone()).or_insert(before).as_ref();
        if as_on_disk == self.refreshes.get(source).and_then(|targets| targets.get(target)) {
            self.on_disk.remove(&place);
        }
    }

    /// Gives a refresh another state, or none; the one before.
    fn set(&mut self, source: &BStr, target: &BStr, state: Option<State>) -> Option<State> {
        if let Some(state) = state {
            self.sources.entry(target.to_owned()).or_default().insert(source.to_owned());
            return self.refreshes.entry(source.to_owned()).or_default().insert(target.to_owned(), state);
        }
        if let Some(sources) = self.sources.get_mut(target) {
            sources.remove(source);
            if sources.is_empty() {
                self.sources.remove(target);
            }
        }
        let targets = self.refreshes.get_mut(source)?;
        let before = targets.remove(target);
        if targets.is_empty() {
            self.refreshes.remove(source);
        }
        before
    }

    /// Writes down what has changed; nothing is written if nothing has, and nothing is left if nothing is due.
    ///
    /// # Errors
    /// If it cannot be written, or is not safely on disk.
    pub fn save(&mut self) -> Result<(), Fatal> {
        if self.on_disk.is_empty() && !self.is_untidy {
            return Ok(());
        }
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let saved = if self.refreshes.is_empty() { forget(&self.path, folder) } else { self.write(folder) };
        saved.map_err(|error| Fatal::io("write", &self.path, &error))?;
        self.on_disk.clear();
        self.is_untidy = false;
        Ok(())
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let new = self.path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(&self.ledger())?)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        // The folder may be new too.
        File::open(folder)?.sync_all()?;
        folder.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
    }

    fn ledger(&self) -> Ledger {
        let of_source = |(source, targets): (&BString, &BTreeMap<BString, State>)| {
            let refresh = |(target, state): (&BString, &State)| Refresh {
                source: Text(source.clone()),
                target: Text(target.clone()),
                due: state.due,
                sent: state.sent.iter().cloned().map(Text).collect(),
            };
            targets.iter().map(refresh).collect::<Vec<_>>()
        };
        Ledger { version: LEDGER_VERSION, refreshes: self.refreshes.iter().flat_map(of_source).collect() }
    }
}

/// The key of `KEY=VALUE`.
fn key(value: &BString) -> &[u8] {
    value.split_once_str("=").map_or(&value[..], |(key, _)| key)
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
    fn what_is_sent_goes_with_the_refresh() {
        let (_folder, root) = root();
        let mut refreshes = Refreshes::load(&root).unwrap();
        let values = |values: &[&str]| values.iter().map(|&value| BString::from(value)).collect::<Vec<_>>();
        for source in ["b", "a"] {
            refreshes.expect(id(source), id("service"));
            refreshes.expect(id(source), id("other"));
        }
        // Nothing is due because of it yet.
        refreshes.send(id("b"), &values(&["MODE=0"]));
        refreshes.changed(id("b"));
        refreshes.send(id("b"), &values(&["MODE=1", "X=", "MODE=2"]));
        refreshes.save().unwrap();
        assert_eq!(refreshes.received(id("service")), ["X=", "MODE=2"]);
        let mut later = Refreshes::load(&root).unwrap();
        later.changed(id("a"));
        later.send(id("a"), &values(&["MODE=3"]));
        later.done(id("other"));
        later.save().unwrap();
        let last = Refreshes::load(&root).unwrap();
        assert_eq!(last.received(id("service")), ["MODE=3", "X=", "MODE=2"]);
        assert!(last.received(id("other")).is_empty() && !last.is_due(id("other")));
    }

    #[test]
    fn thousands_come_and_go() {
        let (_folder, root) = root();
        let mut refreshes = Refreshes::load(&root).unwrap();
        let name = |number: usize| BString::from(number.to_string());
        for number in 0..50_000 {
            refreshes.expect(name(number).as_bstr(), name(number % 7).as_bstr());
        }
        for number in 0..50_000 {
            refreshes.changed(name(number).as_bstr());
            assert!(refreshes.is_due(name(number % 7).as_bstr()));
        }
        (0..7).for_each(|number| refreshes.done(name(number).as_bstr()));
        assert!(refreshes.refreshes.is_empty() && refreshes.sources.is_empty() && refreshes.on_disk.is_empty());
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
