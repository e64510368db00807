//! The bases of entities: one record per entity, kept from before the first change until the orphaned entity is
//! scrubbed.

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

/// The directory below the state directory, which is shared with version 3 of the plugins.
const FOLDER: &str = "base";
const SUFFIX: &str = ".json";
const RECORD_MODE: u32 = 0o600;
/// The buffer size for reading short records in one call.
const SHORT: usize = 4096;
/// The maximum length of a file name that is derived from an ID; the rest is reserved for suffixes.
const NAME_MAX: usize = 200;

/// The records of the entities of a plugin.
#[derive(Clone, Debug)]
pub struct BaseStore {
    state: Arc<Tree>,
    /// The parent of the records, relative to the state directory.
    folder: PathBuf,
    journal: journal::SharedJournal,
}

/// The record of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remembered<T> {
    /// The ID of the entity.
    pub id: String,
    /// The assets that the entity needed in its last definition. An orphan is scrubbed before them.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    needs: Box<[(String, String)]>,
    /// The assets that the entity provided in its last definition. An orphan is scrubbed after the entities that needed
    /// them.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    provides: Box<[(String, String)]>,
    /// The assets that the entity owned in its last definition. Their new owner takes over from this entity.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    owns: Box<[(String, String)]>,
    /// The entities that this entity came after.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    after: Box<[String]>,
    /// The original state.
    pub base: T,
}

impl<T> Remembered<T> {
    /// Creates a record from the original state of an entity, and the edges of its report. IDs and assets that are not
    /// UTF-8 are omitted.
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

    /// Returns the report of an orphan, with its action and its former edges, which are followed in reverse.
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
    /// Opens the records in the plugin's state directory.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub fn open(locations: &Locations) -> Result<BaseStore> {
        BaseStore::open_in(locations, Path::new(""))
    }

    /// Opens the records in a subdirectory of the plugin's state directory, for a plugin that has other records there.
    ///
    /// # Errors
    /// If the state directory cannot be opened.
    pub fn open_in(locations: &Locations, folder: &Path) -> Result<BaseStore> {
        Ok(BaseStore::at(&Tree::open(locations.state_dir())?, folder))
    }

    /// Returns the records in a subdirectory of another plugin's state directory.
    pub(crate) fn at(state: &Arc<Tree>, folder: &Path) -> BaseStore {
        BaseStore { state: Arc::clone(state), folder: folder.to_owned(), journal: Arc::default() }
    }

    /// Opens the store again, for another thread.
    pub(crate) fn reopen(&self) -> Result<BaseStore> {
        Ok(BaseStore { state: self.state.reopen()?, ..self.clone() })
    }

    /// Drops cached directories, which other processes may have removed and created again.
    pub fn forget_directories(&self) {
        self.state.forget();
    }

    pub(crate) fn tree(&self) -> &Arc<Tree> {
        &self.state
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns all records by ID. Unreadable records are reported and left unchanged.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn all<T: DeserializeOwned>(&self, notices: &mut dyn Notices) -> Result<BTreeMap<String, Remembered<T>>> {
        let mut all = self.beginning("", notices)?;
        all.extend(self.all_pending()?.into_iter().map(|remembered| (remembered.id.clone(), remembered)));
        Ok(all)
    }

    /// Returns all records except those of certain entities, which are not read if their file names show their IDs.
    ///
    /// # Errors
    /// If the directory cannot be read.
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

    /// Like [`all`](Self::all), for the entities of one type, for plugins whose types have different records. Such
    /// records must not be in a journal.
    ///
    /// # Errors
    /// If the directory cannot be read.
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

    /// Returns the records whose file names match.
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
            // Entries that are listed as regular files can be opened without a stat call.
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

    /// Returns all readable records.
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

    /// Returns the record of an entity.
    ///
    /// # Errors
    /// If it cannot be read, or is invalid.
    pub fn recall<T: DeserializeOwned>(&self, id: &str) -> Result<Option<Remembered<T>>> {
        match self.pending(id)? {
            None => read(&self.place(id)),
            pending => Ok(pending),
        }
    }

    /// Returns the stamp of the directory with the records, which shows whether a record was added, replaced or
    /// removed. `None` if the directory does not exist.
    ///
    /// # Errors
    /// If the directory cannot be examined.
    pub fn folder_stamp(&self) -> Result<Option<Stamp>> {
        Stamp::of(&self.state.place(&self.folder.join(FOLDER)))
    }

    /// Returns the stamp of an entity's record, which shows changes without reading it.
    ///
    /// # Errors
    /// If the record cannot be examined.
    pub fn stamp(&self, id: &str) -> Result<Option<Stamp>> {
        Stamp::of(&self.place(id))
    }

    /// Writes the record of an entity, replacing an existing one. When this returns, the record is on disk.
    ///
    /// # Errors
    /// If the record cannot be written. An existing record remains unchanged then.
    pub fn keep<T: Serialize>(&self, remembered: &Remembered<T>) -> Result<()> {
        self.keep_all([remembered])
    }

    /// Writes the record of an entity to a [temporary file](PathHandle::replacement), and returns its final path.
    pub(crate) fn write_beside<T: Serialize>(&self, remembered: &Remembered<T>) -> Result<PathHandle> {
        let place = self.place(&remembered.id);
        place.create_folder()?;
        place.write_replacement(&to_json(remembered, &place)?, RECORD_MODE)?;
        Ok(place)
    }

    /// Writes the records of several entities.
    ///
    /// # Errors
    /// If a record cannot be written.
    pub fn keep_all<'r, T: Serialize + 'r>(&self, all: impl IntoIterator<Item = &'r Remembered<T>>) -> Result<()> {
        self.settle()?;
        replace_records(self, all)
    }

    /// Writes the record of an entity unless it exists, because a base is the state before the first change.
    ///
    /// # Errors
    /// If the record cannot be written, or the existing one is invalid.
    pub fn keep_first<T: Serialize + DeserializeOwned>(&self, remembered: &Remembered<T>) -> Result<()> {
        if self.recall::<T>(&remembered.id)?.is_some() { Ok(()) } else { self.keep(remembered) }
    }

    /// Removes incomplete records of a killed process. No other process may use the store.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn tidy(&self) -> Result<()> {
        self.settle()?;
        self.remove_unfinished_journal()?;
        self.state.place(&self.folder.join(FOLDER).join("x")).remove_replacements()
    }

    /// Removes the record of an entity. When this returns, the removal is on disk.
    ///
    /// # Errors
    /// If the record cannot be removed.
    pub fn forget(&self, id: &str) -> Result<()> {
        self.forget_all(&[id])
    }

    /// Removes the records of several entities.
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

/// Reads a short record, which most are, with as few system calls as possible; `None` if it is longer or cannot be
/// read.
fn read_short<T: DeserializeOwned>(place: &PathHandle) -> Option<Remembered<T>> {
    let mut text = Vec::with_capacity(SHORT);
    rustix::io::read(place.open().ok()?, rustix::buffer::spare_capacity(&mut text)).ok()?;
    // A truncated record is invalid JSON.
    serde_json::from_slice(&text).ok()
}

fn read<T: DeserializeOwned>(place: &PathHandle) -> Result<Option<Remembered<T>>> {
    let Some(text) = place.read_if_file()? else { return Ok(None) };
    let failed = |error: serde_json::Error| PathError::new("read", place.shown(), io::Error::from(error));
    serde_json::from_slice(&text).map(Some).map_err(failed)
}

/// Returns a unique and readable file name for an ID.
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
        // IDs with equal names would have to be constructed for this purpose.
        name.truncate(NAME_MAX - 17);
        let _ = write!(name, "~{:016x}", crate::paths::fingerprint(id.as_bytes()));
    }
    name + SUFFIX
}

/// Returns the ID for a file name; `None` if the name is ambiguous or invalid.
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

    /// The messages for unreadable records.
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
