//! The refreshes that are due, kept on disk from before the change that asks for one until it is done.
//!
//! A refresh that is lost is a daemon that never learns of its new configuration. So what a change may make due is written down before
//! the change, and struck out after the refresh: neither a failure nor a kill in between can lose it.
//!
//! The ledger is a journal of lines, each of which says what has become of one refresh; the last one that names it counts. A run that
//! writes begins it anew, in a file of its own that takes the old one's place, and appends from then on. What is expected is synced
//! before anything is changed. What comes of it need not be: without it, a later run refreshes once too often, and never too seldom.

use crate::error::Fatal;
use crate::root::Root;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::Text;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The first line of the ledger.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    version: u32,
}

const LEDGER_VERSION: u32 = 2;

/// Any other line: what has become of a refresh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    source: Text,
    target: Text,
    /// The ID of the target's plugin.
    plugin: String,
    state: Stage,
    /// The values that the source has sent to the target, each `KEY=VALUE`, no key twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sent: Vec<Text>,
}

/// The stage of a refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Stage {
    /// It will be due if the source changes. A later run that finds this takes it that it did.
    Expected,
    /// The source has changed.
    Due,
    /// It is over.
    Done,
}

/// The refreshes that are due, or may become so.
#[derive(Debug)]
pub struct Refreshes {
    path: PathBuf,
    /// By source and target.
    refreshes: BTreeMap<BString, BTreeMap<BString, State>>,
    /// The sources by their targets.
    sources: BTreeMap<BString, BTreeSet<BString>>,
    /// The refreshes that differ from the ledger, with their states there: a refresh may come and go within a run without being written.
    in_ledger: BTreeMap<(BString, BString), Option<State>>,
    /// The ledger, once this run has begun it anew.
    journal: Option<Journal>,
    /// True if an earlier run has left something behind that is of no use.
    is_untidy: bool,
}

/// An open ledger.
#[derive(Debug)]
struct Journal {
    file: File,
    /// The number of its lines.
    lines: usize,
    is_synced: bool,
}

/// A refresh that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    due: bool,
    /// The ID of the target's plugin.
    plugin: String,
    sent: Vec<BString>,
}

impl Refreshes {
    /// Loads what earlier runs have left. Where they did not come to say whether a source changed, it is taken to have changed.
    ///
    /// # Errors
    /// If it cannot be read: then going on might lose a refresh.
    pub fn load(root: &Root) -> Result<Refreshes, Fatal> {
        let path = root.engine_state().join("refreshes.json");
        let records = match fs::read(&path) {
            Ok(text) => understand(&text, &path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Fatal::io("open", &path, &error)),
        };
        let mut refreshes = Refreshes {
            path,
            refreshes: BTreeMap::new(),
            sources: BTreeMap::new(),
            in_ledger: BTreeMap::new(),
            journal: None,
            is_untidy: false,
        };
        for Record { source: Text(source), target: Text(target), plugin, state, sent } in records {
            let sent = sent.into_iter().map(|Text(text)| text).collect();
            let state = (state != Stage::Done).then_some(State { due: state == Stage::Due, plugin, sent });
            refreshes.set(source.as_bstr(), target.as_bstr(), state);
        }
        refreshes.is_untidy = refreshes.refreshes.is_empty() && root.engine_state().exists();
        let is_untold = |targets: &BTreeMap<BString, State>| targets.values().any(|state| !state.due);
        let untold: Vec<BString> = refreshes
            .refreshes
            .iter()
            .filter(|(_, targets)| is_untold(targets))
            .map(|(source, _)| source.clone())
            .collect();
        untold.iter().for_each(|source| refreshes.changed(source.as_bstr()));
        Ok(refreshes)
    }

    /// Forgets the refreshes of targets that are gone, which has the target's ID and that of its plugin to say it.
    pub fn forget(&mut self, is_gone: impl Fn(&BStr, &str) -> bool) {
        let targets: Vec<BString> = self.sources.keys().cloned().collect();
        for target in targets {
            for source in self.sources_of(target.as_bstr()) {
                let state = self.get(source.as_bstr(), target.as_bstr());
                if state.is_some_and(|state| is_gone(target.as_bstr(), &state.plugin)) {
                    self.put(source.as_bstr(), target.as_bstr(), None);
                }
            }
        }
    }

    /// Has the refreshes of a target done by those that take over from it, each given with the ID of its plugin.
    pub fn hand_over(&mut self, target: &BStr, successors: &[(&BStr, &str)]) {
        for source in self.sources_of(target) {
            let Some(handed) = self.get(source.as_bstr(), target).cloned() else { continue };
            for &(successor, plugin) in successors.iter().filter(|(successor, _)| *successor != source) {
                let mut state = State { plugin: plugin.to_owned(), ..handed.clone() };
                if let Some(own) = self.get(source.as_bstr(), successor) {
                    // What was sent to the successor itself was sent later.
                    state.sent.retain(|sent| own.sent.iter().all(|other| key(other) != key(sent)));
                    state.sent.extend(own.sent.iter().cloned());
                    state.due |= own.due;
                }
                self.put(source.as_bstr(), successor, Some(state));
            }
            self.put(source.as_bstr(), target, None);
        }
    }

    /// If the source changes, the target, which belongs to this plugin, is to be refreshed. To be [`secure`](Refreshes::secure)d before
    /// the source is applied.
    pub fn expect(&mut self, source: &BStr, target: &BStr, plugin: &str) {
        if self.get(source, target).is_none() {
            let state = State { due: false, plugin: plugin.to_owned(), sent: Vec::new() };
            self.put(source, target, Some(state));
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

    /// Returns true if the target is to be refreshed.
    #[must_use]
    pub fn is_due(&self, target: &BStr) -> bool {
        self.due_states(target).next().is_some()
    }

    /// Returns the values that were sent to the target, as it is to be refreshed: one source after the other, in the order of their IDs.
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

    /// Gives a refresh another state, or none, and remembers how it is in the ledger.
    fn put(&mut self, source: &BStr, target: &BStr, state: Option<State>) {
        let before = self.set(source, target, state);
        let place = (source.to_owned(), target.to_owned());
        let in_ledger = self.in_ledger.entry(place.clone()).or_insert(before).as_ref();
        if in_ledger == self.refreshes.get(source).and_then(|targets| targets.get(target)) {
            self.in_ledger.remove(&place);
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

    /// Writes down what has changed, and returns when it is safely on disk. Nothing is written if nothing has changed.
    ///
    /// # Errors
    /// If it cannot be written, or not be synced.
    pub fn secure(&mut self) -> Result<(), Fatal> {
        self.record()?;
        self.attempt(|refreshes| refreshes.journal.as_mut().map_or(Ok(()), Journal::sync))
    }

    /// Writes down what has changed, so that nothing but a crash of the whole machine can lose it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record(&mut self) -> Result<(), Fatal> {
        if self.in_ledger.is_empty() {
            return Ok(());
        }
        self.attempt(|refreshes| match refreshes.journal.take() {
            None => refreshes.begin_journal(),
            Some(mut journal) => {
                let changed = refreshes.in_ledger.keys();
                journal.append(changed.map(|(source, target)| refreshes.record_of(source, target)))?;
                refreshes.journal = Some(journal);
                Ok(())
            }
        })?;
        self.in_ledger.clear();
        Ok(())
    }

    /// Writes down what has changed when the run ends: nothing is left on disk if nothing is due.
    ///
    /// # Errors
    /// If it cannot be written, or not be synced.
    pub fn finish(&mut self) -> Result<(), Fatal> {
        if self.refreshes.is_empty() {
            let is_in_ledger = !self.in_ledger.is_empty();
            if self.journal.take().is_some() || is_in_ledger || self.is_untidy {
                self.attempt(|refreshes| remove(&refreshes.path, refreshes.folder()))?;
                (self.in_ledger, self.is_untidy) = (BTreeMap::new(), false);
            }
            return Ok(());
        }
        let count: usize = self.refreshes.values().map(BTreeMap::len).sum();
        if self.journal.as_ref().is_some_and(|journal| journal.lines > 2 * count) {
            self.attempt(Refreshes::begin_journal)?;
            self.in_ledger.clear();
        }
        self.secure()
    }

    fn attempt(&mut self, write: impl FnOnce(&mut Refreshes) -> io::Result<()>) -> Result<(), Fatal> {
        write(self).map_err(|error| Fatal::io("write", &self.path, &error))
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Begins a ledger that has nothing but what is not over, in the place of the old one.
    fn begin_journal(&mut self) -> io::Result<()> {
        let folder = self.folder();
        fs::create_dir_all(folder)?;
        let new = self.path.with_extension("new");
        let mut journal = Journal { file: File::create(&new)?, lines: 0, is_synced: false };
        journal.file.write_all(&line(&Header { version: LEDGER_VERSION })?)?;
        let all =
            self.refreshes.iter().flat_map(|(source, targets)| targets.keys().map(move |target| (source, target)));
        journal.append(all.map(|(source, target)| self.record_of(source, target)))?;
        journal.sync()?;
        fs::rename(&new, &self.path)?;
        // The folder may be new too.
        File::open(folder)?.sync_all()?;
        folder.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())?;
        self.journal = Some(journal);
        Ok(())
    }

    fn record_of(&self, source: &BString, target: &BString) -> Record {
        let (source_text, target_text) = (Text(source.clone()), Text(target.clone()));
        let (state, plugin, sent) = match self.get(source.as_bstr(), target.as_bstr()) {
            Some(State { due, plugin, sent }) => (
                if *due { Stage::Due } else { Stage::Expected },
                plugin.clone(),
                sent.iter().cloned().map(Text).collect(),
            ),
            None => (Stage::Done, String::new(), Vec::new()),
        };
        Record { source: source_text, target: target_text, plugin, state, sent }
    }
}

impl Journal {
    fn append(&mut self, records: impl Iterator<Item = Record>) -> io::Result<()> {
        let mut text = Vec::new();
        for record in records {
            text.extend(line(&record)?);
            self.lines += 1;
        }
        self.is_synced = false;
        // In one call, so that a kill leaves all of it or nothing.
        self.file.write_all(&text)
    }

    fn sync(&mut self) -> io::Result<()> {
        if !self.is_synced {
            self.file.sync_data()?;
            self.is_synced = true;
        }
        Ok(())
    }
}

fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// The key of `KEY=VALUE`.
fn key(value: &BString) -> &[u8] {
    value.split_once_str("=").map_or(&value[..], |(key, _)| key)
}

fn remove(path: &Path, folder: &Path) -> io::Result<()> {
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

/// The records of a ledger. What a crash has left half written at its end was not synced, so nothing was done because of it.
fn understand(text: &[u8], path: &Path) -> Result<Vec<Record>, Fatal> {
    let cannot = |reason: String| {
        let path = path.display();
        Fatal::CouldNotRun(format!(
            "cannot read the refreshes that are due from {path}: {reason}; remove it to forget them"
        ))
    };
    let whole = text.rfind_byte(b'\n').and_then(|end| text.get(..end)).unwrap_or_default();
    let mut lines = whole.split_str("\n");
    let header = serde_json::from_slice::<serde_json::Value>(lines.next().unwrap_or_default());
    let version = header.map_err(|error| cannot(error.to_string()))?.get("version").cloned().unwrap_or_default();
    if version != LEDGER_VERSION {
        return Err(cannot(format!("it is of version {version}, and only {LEDGER_VERSION} is known")));
    }
    lines.map(|line| serde_json::from_slice(line).map_err(|error| cannot(error.to_string()))).collect()
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
        refreshes.expect(id("file"), id("service"), "p");
        refreshes.secure().unwrap();
        assert!(!refreshes.is_due(id("service")));
        refreshes.changed(id("file"));
        assert!(refreshes.is_due(id("service")) && !refreshes.is_due(id("file")));
        refreshes.secure().unwrap();
        let mut later = Refreshes::load(&root).unwrap();
        later.unchanged(id("file"));
        assert!(later.is_due(id("service")));
        later.done(id("service"));
        later.finish().unwrap();
        assert_eq!(fs::read_dir(folder.path().join("var/lib/holo")).unwrap().count(), 0);
    }

    #[test]
    fn a_run_that_ended_before_it_could_tell_is_taken_to_have_changed_something() {
        let (_folder, root) = root();
        let mut refreshes = Refreshes::load(&root).unwrap();
        refreshes.expect(id("file"), id("service"), "p");
        refreshes.secure().unwrap();
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
            refreshes.expect(id(source), id("service"), "p");
            refreshes.expect(id(source), id("other"), "p");
        }
        // Nothing is due because of it yet.
        refreshes.send(id("b"), &values(&["MODE=0"]));
        refreshes.changed(id("b"));
        refreshes.send(id("b"), &values(&["MODE=1", "X=", "MODE=2"]));
        refreshes.secure().unwrap();
        assert_eq!(refreshes.received(id("service")), ["X=", "MODE=2"]);
        let mut later = Refreshes::load(&root).unwrap();
        later.changed(id("a"));
        later.send(id("a"), &values(&["MODE=3"]));
        later.done(id("other"));
        later.secure().unwrap();
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
            refreshes.expect(name(number).as_bstr(), name(number % 7).as_bstr(), "p");
        }
        for number in 0..50_000 {
            refreshes.changed(name(number).as_bstr());
            assert!(refreshes.is_due(name(number % 7).as_bstr()));
        }
        (0..7).for_each(|number| refreshes.done(name(number).as_bstr()));
        assert!(refreshes.refreshes.is_empty() && refreshes.sources.is_empty() && refreshes.in_ledger.is_empty());
    }

    #[test]
    fn nothing_is_written_if_there_is_nothing_to_keep() {
        let (folder, root) = root();
        let mut refreshes = Refreshes::load(&root).unwrap();
        refreshes.expect(id("file"), id("service"), "p");
        refreshes.unchanged(id("file"));
        refreshes.secure().unwrap();
        refreshes.finish().unwrap();
        assert!(!folder.path().join("var").exists());
    }

    #[test]
    fn the_refreshes_of_what_is_gone_are_forgotten() {
        let (_folder, root) = root();
        let mut refreshes = Refreshes::load(&root).unwrap();
        refreshes.expect(id("file"), id("service"), "p");
        refreshes.changed(id("file"));
        refreshes.forget(|id, plugin| id == "service" && plugin == "p");
        assert!(!refreshes.is_due(id("service")));
    }

    #[test]
    fn the_ledger_is_appended_to_and_made_short_again() {
        let (_folder, root) = root();
        let path = root.engine_state().join("refreshes.json");
        let lines = || fs::read(&path).unwrap().lines().count();
        let name = |number: usize| BString::from(number.to_string());
        let mut refreshes = Refreshes::load(&root).unwrap();
        for number in 0..100 {
            refreshes.expect(name(number).as_bstr(), name(number + 1).as_bstr(), "p");
            refreshes.secure().unwrap();
            refreshes.changed(name(number).as_bstr());
            refreshes.done(name(number).as_bstr());
            refreshes.record().unwrap();
            // This is what a run leaves that is killed here.
            let later = Refreshes::load(&root).unwrap();
            assert!(later.is_due(name(number + 1).as_bstr()) && !later.is_due(name(number).as_bstr()));
            // A header, and three stages of each but the first and the last, of which there are two.
            assert_eq!(lines(), 1 + (3 * number) + 2);
        }
        refreshes.finish().unwrap();
        assert_eq!(lines(), 2);
        let mut later = Refreshes::load(&root).unwrap();
        later.done(id("100"));
        later.record().unwrap();
        assert!(!Refreshes::load(&root).unwrap().is_due(id("100")));
        later.finish().unwrap();
        assert!(!root.engine_state().exists());
    }

    #[test]
    fn what_was_not_written_whole_does_not_count() {
        let (_folder, root) = root();
        let mut refreshes = Refreshes::load(&root).unwrap();
        refreshes.expect(id("file"), id("service"), "p");
        refreshes.secure().unwrap();
        refreshes.expect(id("file"), id("other"), "p");
        refreshes.record().unwrap();
        let path = root.engine_state().join("refreshes.json");
        let text = fs::read(&path).unwrap();
        let second = text.trim_end().rfind_byte(b'\n').unwrap() + 1;
        for end in second..text.len() {
            fs::write(&path, &text[..end]).unwrap();
            let mut later = Refreshes::load(&root).unwrap();
            assert!(later.is_due(id("service")) && !later.is_due(id("other")), "{end}");
            later.finish().unwrap();
            assert!(Refreshes::load(&root).unwrap().is_due(id("service")));
        }
    }

    #[test]
    fn what_a_killed_run_has_left_is_tidied_up() {
        let (folder, root) = root();
        fs::create_dir_all(root.engine_state()).unwrap();
        fs::write(root.engine_state().join("refreshes.new"), "half").unwrap();
        Refreshes::load(&root).unwrap().finish().unwrap();
        assert_eq!(fs::read_dir(folder.path().join("var/lib/holo")).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_file_is_an_error_that_says_what_to_do() {
        let (_folder, root) = root();
        fs::create_dir_all(root.engine_state()).unwrap();
        for text in ["", "{", "{\"version\":2}", "{\"version\":1}\n", "{\"version\":2}\n{}\n", "{\"version\":2}\n{\n\n"]
        {
            fs::write(root.engine_state().join("refreshes.json"), text).unwrap();
            let message = Refreshes::load(&root).unwrap_err().to_string();
            assert!(message.contains("refreshes.json") && message.ends_with("remove it to forget them"), "{message}");
        }
    }
}
