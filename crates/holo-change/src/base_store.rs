//! The bases of entities: a record an entity, kept from before the first change until the entity is an orphan and scrubbed.

mod journal;
mod succession;

pub use succession::{Legacy, Orphan, Records, Things};

use crate::error::{PathError, Result};
use crate::image::Stamp;
use crate::locations::Locations;
use crate::notices::Notices;
use crate::path_handle::Durability;
use crate::path_handle::{Kind, OnDisk, PathHandle, Tree, remove_all, replace_all};
use holo_protocol::report::{Action, Asset, EntityReport};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder in the state directory; version 3's plugins keep their bases there too.
const FOLDER: &str = "base";
const SUFFIX: &str = ".json";
const RECORD_MODE: u32 = 0o600;
/// The size of a record that is read at once.
const SHORT: usize = 4096;
/// The longest name that an ID gives; more would leave no room for suffixes.
const NAME_MAX: usize = 200;

/// The records of a plugin's entities.
#[derive(Clone, Debug)]
pub struct BaseStore {
    state: Arc<Tree>,
    /// The folder in the state directory in which everything is.
    folder: PathBuf,
    journal: journal::SharedJournal,
}

/// The record of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remembered<T> {
    /// The entity's ID.
    pub id: String,
    /// The assets that it needed when it was last defined: an orphan is scrubbed before those.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    needs: Box<[(String, String)]>,
    /// The assets that it provided when it was last defined: an orphan is scrubbed after what needed them.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    provides: Box<[(String, String)]>,
    /// The assets that it owned when it was last defined: whoever owns them now takes over from it.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    owns: Box<[(String, String)]>,
    /// The entities that it came after.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    after: Box<[String]>,
    /// The state in which it was found.
    pub base: T,
}

impl<T> Remembered<T> {
    /// The state in which an entity was found, and the edges that its report has. IDs and assets that are not UTF-8 are left out.
    pub fn new(report: &EntityReport, base: T) -> Remembered<T> {
        let text = |bytes: &bstr::BString| String::from_utf8(bytes.to_vec()).ok();
        let pairs = |assets: &[Asset]| {
            assets.iter().filter_map(|asset| Some((text(&asset.kind)?, text(&asset.value)?))).collect()
        };
        let edges = &report.edges;
        let before = [&edges.after, &edges.requires, &edges.subscribes];
        Remembered {
            id: report.id.to_string(),
            needs: pairs(&edges.needs),
            provides: pairs(&edges.provides),
            owns: pairs(&edges.owns),
            after: before.into_iter().flatten().filter_map(text).collect(),
            base,
        }
    }

    /// The report of an orphan: what it will do, and the edges it had, which are followed against their direction.
    #[must_use]
    pub fn orphan_report(&self) -> EntityReport {
        let mut report = EntityReport::new(self.id.as_str());
        report.action = Action::because("Scrubbing", "all definition files have been deleted");
        let assets = |pairs: &[(String, String)]| {
            pairs.iter().map(|(kind, value)| Asset::new(kind.as_str(), value.as_str())).collect()
        };
        report.edges.orphan = true;
        report.edges.needs = assets(&self.needs);
        report.edges.provides = assets(&self.provides);
        report.edges.owns = assets(&self.owns);
        report.edges.after = self.after.iter().map(|id| id.as_str().into()).collect();
        report
    }
}

impl BaseStore {
    /// The records in the plugin's state directory.
    ///
    /// # Errors
    /// If that cannot be opened.
    pub fn open(locations: &Locations) -> Result<BaseStore> {
        BaseStore::open_in(locations, Path::new(""))
    }

    /// The records in a folder of the plugin's state directory, for a plugin that keeps other things there.
    ///
    /// # Errors
    /// If the state directory cannot be opened.
    pub fn open_in(locations: &Locations, folder: &Path) -> Result<BaseStore> {
        Ok(BaseStore::at(&Tree::open(locations.state_dir())?, folder))
    }

    /// The records in a folder of the state directory of another plugin.
    pub(crate) fn at(state: &Arc<Tree>, folder: &Path) -> BaseStore {
        BaseStore { state: Arc::clone(state), folder: folder.to_owned(), journal: Arc::default() }
    }

    /// Opens the same once more, for another thread.
    pub(crate) fn reopen(&self) -> Result<BaseStore> {
        Ok(BaseStore { state: self.state.reopen()?, ..self.clone() })
    }

    /// Forgets the directories that were used last: others may have removed them, and made them again.
    pub fn forget_directories(&self) {
        self.state.forget();
    }

    pub(crate) fn tree(&self) -> &Arc<Tree> {
        &self.state
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Everything that is remembered, by ID. What cannot be read is noticed and left alone.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn all<T: DeserializeOwned>(&self, notices: &mut dyn Notices) -> Result<BTreeMap<String, Remembered<T>>> {
        let mut all = self.beginning("", notices)?;
        all.extend(self.all_pending()?.into_iter().map(|remembered| (remembered.id.clone(), remembered)));
        Ok(all)
    }

    /// Everything that is remembered of other entities than these, as far as that can be told without reading.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn all_but<T: DeserializeOwned>(
        &self,
        is_left_out: impl Fn(&str) -> bool,
        notices: &mut dyn Notices,
    ) -> Result<BTreeMap<String, Remembered<T>>> {
        let is_read = |name: &[u8]| id_of(name).is_none_or(|id| !is_left_out(&id));
        let mut some = self.read_where(is_read, notices)?;
        some.extend(self.all_pending()?.into_iter().map(|remembered| (remembered.id.clone(), remembered)));
        some.retain(|id, _| !is_left_out(id));
        Ok(some)
    }

    /// The same of the entities of one type, for a plugin whose types have different records. None may be in a journal.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn all_of<T: DeserializeOwned>(
        &self,
        entity_type: &str,
        notices: &mut dyn Notices,
    ) -> Result<BTreeMap<String, Remembered<T>>> {
        self.beginning(&format!("{entity_type}:"), notices)
    }

    fn beginning<T: DeserializeOwned>(
        &self,
        prefix: &str,
        notices: &mut dyn Notices,
    ) -> Result<BTreeMap<String, Remembered<T>>> {
        self.read_where(|name| name.starts_with(prefix.as_bytes()), notices)
    }

    /// Returns the records whose files have such names.
    fn read_where<T: DeserializeOwned>(
        &self,
        is_read: impl Fn(&[u8]) -> bool,
        notices: &mut dyn Notices,
    ) -> Result<BTreeMap<String, Remembered<T>>> {
        let mut all = BTreeMap::new();
        let folder = self.state.place(&self.folder.join(FOLDER).join("x"));
        for (name, kind) in folder.siblings_with_kinds()? {
            let bytes = name.as_encoded_bytes();
            if !bytes.ends_with(SUFFIX.as_bytes()) || !is_read(bytes) {
                continue;
            }
            let place = folder.sibling(&name);
            // What is listed as a file need not be looked at before it is opened.
            let short = if kind == Some(Kind::File) { read_short::<T>(&place) } else { None };
            match short.map_or_else(|| read::<T>(&place), |short| Ok(Some(short))) {
                Ok(Some(remembered)) => {
                    all.insert(remembered.id.clone(), remembered);
                }
                Ok(None) => {}
                Err(error) => notices.unreadable_record(&error),
            }
        }
        Ok(all)
    }

    /// Everything that is remembered and can be read.
    pub(crate) fn all_readable<T: DeserializeOwned>(&self) -> Vec<Remembered<T>> {
        let folder = self.state.place(&self.folder.join(FOLDER).join("x"));
        let mut names = folder.siblings().unwrap_or_default();
        names.retain(|name| name.as_encoded_bytes().ends_with(SUFFIX.as_bytes()));
        let mut pending: Vec<Remembered<T>> = self.all_pending().unwrap_or_default();
        let is_pending: BTreeSet<String> = pending.iter().map(|record| record.id.clone()).collect();
        let in_place = names.iter().filter_map(|name| read::<T>(&folder.sibling(name)).ok()?);
        pending.extend(in_place.filter(|record| !is_pending.contains(&record.id)));
        pending
    }

    /// Returns the record of one entity.
    ///
    /// # Errors
    /// If it cannot be read or makes no sense.
    pub fn recall<T: DeserializeOwned>(&self, id: &str) -> Result<Option<Remembered<T>>> {
        match self.pending(id)? {
            None => read(&self.place(id)),
            pending => Ok(pending),
        }
    }

    /// Returns the stamp of the folder of the records, by which it is seen that one has come, was replaced or is gone; none if there is none.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn folder_stamp(&self) -> Result<Option<Stamp>> {
        Stamp::of(&self.state.place(&self.folder.join(FOLDER)))
    }

    /// Returns the stamp of an entity's record, by which a change of it is seen without reading.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn stamp(&self, id: &str) -> Result<Option<Stamp>> {
        Stamp::of(&self.place(id))
    }

    /// Remembers an entity, whatever was remembered of it: when this returns, it is on disk.
    ///
    /// # Errors
    /// If it cannot be written; then what was remembered before still is.
    pub fn keep<T: Serialize>(&self, remembered: &Remembered<T>) -> Result<()> {
        self.keep_all([remembered])
    }

    /// Writes the record of an entity [beside](PathHandle::replacement) its place, which is returned.
    pub(crate) fn write_beside<T: Serialize>(&self, remembered: &Remembered<T>) -> Result<PathHandle> {
        let place = self.place(&remembered.id);
        place.create_folder()?;
        place.write_replacement(&to_json(remembered, &place)?, RECORD_MODE)?;
        Ok(place)
    }

    /// Remembers many entities.
    ///
    /// # Errors
    /// If one cannot be written.
    pub fn keep_all<'r, T: Serialize + 'r>(&self, all: impl IntoIterator<Item = &'r Remembered<T>>) -> Result<()> {
        self.settle()?;
        replace_records(self, all)
    }

    /// Remembers an entity unless it is remembered already: a base is what was there before the first change.
    ///
    /// # Errors
    /// If it cannot be written, or what is there makes no sense.
    pub fn keep_first<T: Serialize + DeserializeOwned>(&self, remembered: &Remembered<T>) -> Result<()> {
        if self.recall::<T>(&remembered.id)?.is_some() { Ok(()) } else { self.keep(remembered) }
    }

    /// Removes the records that a killed process has not completed. No other one may be at work.
    ///
    /// # Errors
    /// If one cannot be removed.
    pub fn tidy(&self) -> Result<()> {
        self.settle()?;
        self.remove_unfinished_journal()?;
        self.state.place(&self.folder.join(FOLDER).join("x")).remove_replacements()
    }

    /// Forgets an entity: when this returns, it is forgotten on disk.
    ///
    /// # Errors
    /// If the record cannot be removed.
    pub fn forget(&self, id: &str) -> Result<()> {
        self.forget_all(&[id])
    }

    /// Forgets many entities.
    ///
    /// # Errors
    /// If a record cannot be removed.
    pub fn forget_all(&self, ids: &[impl AsRef<str>]) -> Result<()> {
        self.settle()?;
        let places: Vec<PathHandle> = ids.iter().map(|id| self.place(id.as_ref())).collect();
        let removed = remove_all(&places)?;
        let places: Vec<PathHandle> =
            places.into_iter().zip(removed).filter_map(|(place, was_there)| was_there.then_some(place)).collect();
        Durability::of(places.len()).sync([], &places)?;
        if let Some(place) = places.first() {
            place.remove_empty_folders(Path::new(""));
        }
        Ok(())
    }

    pub(crate) fn place(&self, id: &str) -> PathHandle {
        self.state.place(&self.folder.join(FOLDER).join(file_name(id)))
    }
}

fn replace_records<'r, T: Serialize + 'r>(
    store: &BaseStore,
    all: impl IntoIterator<Item = &'r Remembered<T>>,
) -> Result<()> {
    let written = |remembered: &Remembered<T>| {
        let place = store.place(&remembered.id);
        let text = to_json(remembered, &place)?;
        Ok((place, text))
    };
    let written: Vec<(PathHandle, Vec<u8>)> = all.into_iter().map(written).collect::<Result<_>>()?;
    let files: Vec<(&PathHandle, &[u8])> = written.iter().map(|(place, text)| (place, &text[..])).collect();
    replace_all(&files, RECORD_MODE, OnDisk::New)
}

fn to_json<T: Serialize>(remembered: &Remembered<T>, place: &PathHandle) -> Result<Vec<u8>> {
    let failed = |error| PathError::new("write", place.shown(), io::Error::from(error));
    let mut text = serde_json::to_vec_pretty(remembered).map_err(failed)?;
    text.push(b'\n');
    Ok(text)
}

/// Reads a record that is short, as most are, in as few calls as can be; none if it is not, or cannot be read.
fn read_short<T: DeserializeOwned>(place: &PathHandle) -> Option<Remembered<T>> {
    let mut text = Vec::with_capacity(SHORT);
    rustix::io::read(place.open().ok()?, rustix::buffer::spare_capacity(&mut text)).ok()?;
    // A part of a record is none.
    serde_json::from_slice(&text).ok()
}

fn read<T: DeserializeOwned>(place: &PathHandle) -> Result<Option<Remembered<T>>> {
    let Some(text) = place.read_if_file()? else { return Ok(None) };
    let failed = |error: serde_json::Error| PathError::new("read", place.shown(), io::Error::from(error));
    serde_json::from_slice(&text).map(Some).map_err(failed)
}

/// A name that no other ID gives, and that people recognize.
fn file_name(id: &str) -> String {
    let mut name = String::new();
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || b":._@+-".contains(&byte) {
            name.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(name, "%{byte:02x}");
        }
    }
    if name.len() > NAME_MAX {
        // Two IDs that meet here would have to be made for it.
        name.truncate(NAME_MAX - 17);
        let _ = write!(name, "~{:016x}", crate::paths::fingerprint(id.as_bytes()));
    }
    name + SUFFIX
}

/// Returns the ID that gives a file this name; none if there may be several, or none.
fn id_of(name: &[u8]) -> Option<String> {
    let mut rest = name.strip_suffix(SUFFIX.as_bytes())?;
    let mut id = Vec::with_capacity(rest.len());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            id.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        id.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(id).ok().filter(|id| file_name(id).as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The records that could not be read, in words.
    #[derive(Default)]
    struct Unreadable(Vec<String>);

    impl Notices for Unreadable {
        fn unreadable_record(&mut self, error: &PathError) {
            self.0.push(error.to_string());
        }

        fn taken_over(&mut self, _: &str, _: &str) {}
    }

    fn memory(folder: &Path) -> BaseStore {
        BaseStore::open(&Locations::new("/".into(), folder.into(), "x".into())).unwrap()
    }

    fn remembered(id: &str, base: u32) -> Remembered<u32> {
        let mut report = EntityReport::new(id);
        report.edges.needs.push(Asset::new("user", "fred"));
        report.edges.requires.push("a:b".into());
        Remembered::new(&report, base)
    }

    #[test]
    fn remembers_until_it_forgets() {
        let folder = tempfile::tempdir().unwrap();
        let memory = memory(folder.path());
        let long = format!("file:/{}", "x/".repeat(300));
        let other = format!("{long}y");
        for (number, id) in (0..).zip(["package:nginx", "file:/etc/a b", &long, &other]) {
            assert_eq!(memory.recall::<u32>(id).unwrap(), None);
            memory.keep_first(&remembered(id, number)).unwrap();
            memory.keep_first(&remembered(id, 99)).unwrap();
            assert_eq!(memory.recall(id).unwrap(), Some(remembered(id, number)));
        }
        let all = memory.all::<u32>(&mut Unreadable::default()).unwrap();
        assert_eq!(all.len(), 4);
        memory.keep_all(&[remembered(&long, 7), remembered(&other, 8)]).unwrap();
        assert_eq!(memory.recall(&long).unwrap(), Some(remembered(&long, 7)));
        for id in all.keys() {
            memory.forget(id).unwrap();
            assert_eq!(memory.recall::<u32>(id).unwrap(), None);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn names_of_files_are_cut_only_where_they_would_be_too_long() {
        let longest = "x".repeat(NAME_MAX);
        assert_eq!(file_name(&longest), format!("{longest}.json"));
        let cut = file_name(&format!("{longest}y"));
        assert_eq!(cut.len(), NAME_MAX + ".json".len());
        assert!(cut.starts_with(&format!("{}~", "x".repeat(NAME_MAX - 17))), "{cut}");
        assert_eq!(file_name("file:/a b_é"), "file:%2fa%20b_%c3%a9.json");
    }

    #[test]
    fn what_is_left_out_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let memory = memory(folder.path());
        let long = format!("file:/{}", "x/".repeat(300));
        let ids = ["file:/a b%2f", "file:/é", &long, "file:/other"];
        memory.keep_all(&ids.map(|id| remembered(id, 1))).unwrap();
        for id in ids {
            let others: Vec<String> =
                memory.all_but::<u32>(|other| other == id, &mut Unreadable::default()).unwrap().into_keys().collect();
            let mut expected: Vec<&str> = ids.into_iter().filter(|other| *other != id).collect();
            expected.sort_unstable();
            assert_eq!(others, expected);
        }
        std::fs::write(folder.path().join("base").join(file_name("file:/other")), "{").unwrap();
        let mut unreadable = Unreadable::default();
        assert_eq!(memory.all_but::<u32>(|id| id == "file:/other", &mut unreadable).unwrap().len(), 3);
        assert!(unreadable.0.is_empty(), "{:?}", unreadable.0);
    }

    #[test]
    fn the_name_of_a_file_tells_the_id_if_it_is_whole() {
        for id in ["file:/a b%2f", "x", "", "file:/é\n"] {
            assert_eq!(id_of(file_name(id).as_bytes()).as_deref(), Some(id));
        }
        for name in ["a%2F.json", "a%zz.json", "a%.json", "a%ff.json", "a b.json", "a", "a%61.json"] {
            assert_eq!(id_of(name.as_bytes()), None, "{name}");
        }
        assert_eq!(id_of(file_name(&"x".repeat(300)).as_bytes()), None);
    }

    #[test]
    fn what_a_killed_process_has_not_completed_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let memory = memory(folder.path());
        memory.keep(&remembered("a:b", 1)).unwrap();
        memory.write_beside(&remembered("c:d", 2)).unwrap();
        let names = || std::fs::read_dir(folder.path().join("base")).unwrap().count();
        assert_eq!(names(), 2);
        assert_eq!(memory.all_readable::<u32>(), [remembered("a:b", 1)]);
        memory.tidy().unwrap();
        assert_eq!((names(), memory.recall("a:b").unwrap()), (1, Some(remembered("a:b", 1))));
    }

    #[test]
    fn a_folder_that_others_have_made_again_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let memory = memory(folder.path());
        memory.keep(&remembered("a:b", 1)).unwrap();
        std::fs::rename(folder.path().join("base"), folder.path().join("old")).unwrap();
        std::fs::create_dir(folder.path().join("base")).unwrap();
        memory.forget_directories();
        assert_eq!(memory.recall::<u32>("a:b").unwrap(), None);
    }

    #[test]
    fn only_we_can_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        memory(folder.path()).keep(&remembered("a:b", 1)).unwrap();
        let file = folder.path().join("base/a:b.json");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn invalid_records_are_named_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let memory = memory(folder.path());
        memory.keep(&remembered("a:b", 1)).unwrap();
        let damaged = folder.path().join("base/c:d.json");
        std::fs::write(&damaged, "{").unwrap();
        let mut unreadable = Unreadable::default();
        let all = memory.all::<u32>(&mut unreadable).unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["a:b"]);
        assert!(unreadable.0.len() == 1 && unreadable.0[0].contains("base/c:d.json: "), "{:?}", unreadable.0);
        assert!(memory.recall::<u32>("c:d").is_err() && damaged.exists());
    }

    #[test]
    fn an_orphan_has_the_edges_that_it_had() {
        let report = remembered("user:fred", 1).orphan_report();
        assert!(report.edges.orphan);
        assert_eq!(report.edges.needs, [Asset::new("user", "fred")]);
        assert_eq!(report.edges.after, ["a:b"]);
    }
}
