//! Tests of the assignment of records to entities, and of taking them over.

use super::*;
use crate::error::PathError;
use crate::locations::Locations;
use std::path::Path;

/// The messages for unreadable records.
#[derive(Default)]
struct Unreadable(Vec<String>);

impl Notices for Unreadable {
    fn unreadable_record(&mut self, error: &PathError) {
        self.0.push(error.to_string());
    }

    fn taken_over(&mut self, _: &str, _: &str) {}
}

fn store(folder: &Path) -> BaseStore {
    BaseStore::open(&Locations::new("/".into(), folder.join("x"), "x".into()))
}

fn remembered(id: &str, base: u32) -> Remembered<u32> {
    let mut report = EntityReport::new(id);
    report.edges.needs.push(Asset::new("user", "fred"));
    report.edges.requires.push("a:b".into());
    Remembered::new(&report, base)
}

#[test]
fn first_record_is_kept_until_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    assert_eq!(store.recall::<u32>("a:b").unwrap(), None);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "reading creates no database");
    let long = format!("file:/{}", "x/".repeat(300));
    let other = format!("{long}y");
    for (number, id) in (0..).zip(["package:nginx", "file:/etc/a b", &long, &other]) {
        store.keep_first(&remembered(id, number)).unwrap();
        store.keep_first(&remembered(id, 99)).unwrap();
        assert_eq!(store.recall(id).unwrap(), Some(remembered(id, number)));
    }
    store.keep_all(&[remembered(&long, 7), remembered(&other, 8)]).unwrap();
    assert_eq!(store.recall(&long).unwrap(), Some(remembered(&long, 7)));
    let all = store.all::<u32>(&mut Unreadable::default()).unwrap();
    assert_eq!((all.len(), store.ids().unwrap()), (4, all.keys().cloned().collect()));
    assert_eq!(store.all_of::<u32>("file:", &mut Unreadable::default()).unwrap().len(), 3);
    store.forget_all(&Vec::from_iter(all.keys())).unwrap();
    assert_eq!(store.ids().unwrap(), [""; 0]);
}

#[test]
fn kinds_and_plugins_have_separate_records() {
    let folder = tempfile::tempdir().unwrap();
    let locations = Locations::new("/".into(), folder.path().join("x"), "x".into());
    let kind = BaseStore::open_kind(&locations, "access");
    kind.keep(&remembered("a:b", 1)).unwrap();
    assert_eq!(BaseStore::open(&locations).ids().unwrap(), [""; 0]);
    assert_eq!(BaseStore::of(&locations, "y", "access").ids().unwrap(), [""; 0]);
    assert_eq!(BaseStore::of(&locations, "x", "access").ids().unwrap(), ["a:b"]);
}

#[test]
fn invalid_record_is_named_and_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    store.keep(&remembered("a:b", 1)).unwrap();
    store.keep(&Remembered::new(&EntityReport::new("c:d"), "text")).unwrap();
    let mut unreadable = Unreadable::default();
    let all = store.all::<u32>(&mut unreadable).unwrap();
    assert_eq!(all.keys().collect::<Vec<_>>(), ["a:b"]);
    let problem = &unreadable.0[0];
    assert!(problem.contains("state.db, record c:d of x: invalid type"), "{problem}");
    assert!(store.recall::<u32>("c:d").is_err() && store.text("c:d").unwrap().is_some());
}

#[test]
fn an_orphan_has_the_edges_that_it_had() {
    let report = remembered("user:fred", 1).orphan_report();
    assert!(report.edges.orphan);
    assert_eq!(report.edges.needs, [Asset::new("user", "fred")]);
    assert_eq!(report.edges.after, ["a:b"]);
}

/// Records of files, for which `./x` and `x` are the same object.
struct Case {
    _folder: tempfile::TempDir,
    bases: BaseStore,
}

const THINGS: Things<'static, String> =
    Things { entity_type: "file", name_of: &|base| base.trim_start_matches("./").to_owned() };

/// The reported takeovers. Unreadable records do not occur.
#[derive(Default)]
struct Told(Vec<String>);

impl Notices for Told {
    fn unreadable_record(&mut self, error: &PathError) {
        panic!("{error}");
    }

    fn taken_over(&mut self, by: &str, from: &str) {
        self.0.push(format!("{by} from {from}"));
    }
}

impl Case {
    fn new(records: &[(&str, &str)]) -> Case {
        let folder = tempfile::tempdir().unwrap();
        let locations = Locations::new("/".into(), folder.path().join("x"), "x".into());
        let bases = BaseStore::open(&locations);
        for (id, base) in records {
            bases.keep(&Remembered::new(&EntityReport::new(*id), (*base).to_owned())).unwrap();
        }
        Case { _folder: folder, bases }
    }

    /// Sorts the records for these entities and the names of their files. IDs that begin with `other:` are never
    /// orphans.
    fn records(&self, living: &[(&str, &str)]) -> Records<String> {
        let living = living.iter().map(|(id, name)| ((*id).to_owned(), (*name).to_owned())).collect();
        let is_orphan = |id: &str| id.starts_with("file:");
        self.bases.records(&living, &THINGS, is_orphan, &mut Told::default()).unwrap()
    }

    /// Lets the entities take over records, and returns the reported takeovers.
    fn take_over(&self, living: &[(&str, &str)]) -> Vec<String> {
        let mut told = Told::default();
        for (id, legacy) in &self.records(living).legacies {
            self.bases.take_over(&EntityReport::new(id.as_str()), legacy, &THINGS, &mut told).unwrap();
        }
        told.0
    }

    /// Returns all records, as `ID base`.
    fn kept(&self) -> Vec<String> {
        let all = self.bases.all::<String>(&mut Told::default()).unwrap();
        all.into_iter().map(|(id, remembered)| format!("{id} {}", remembered.base)).collect()
    }
}

fn orphans(records: &Records<String>) -> Vec<(&str, &str)> {
    records.orphans.iter().map(|orphan| (orphan.remembered.id.as_str(), orphan.kept_as.as_str())).collect()
}

#[test]
fn a_record_of_what_its_entity_manages_is_left_alone() {
    let case = Case::new(&[("file:a", "./a"), ("other:b", "b")]);
    let records = case.records(&[("file:a", "a")]);
    assert!(records.legacies.is_empty() && records.orphans.is_empty(), "{records:?}");
}

#[test]
fn a_record_that_nobody_follows_is_an_orphans() {
    let case = Case::new(&[("file:a", "a"), ("file:b", "b")]);
    let records = case.records(&[("file:a", "a")]);
    assert_eq!(orphans(&records), [("file:b", "file:b")]);
    assert!(records.legacies.is_empty());
    case.bases.forget_orphans([&records.orphans[0]], &THINGS).unwrap();
    assert_eq!(case.kept(), ["file:a a"]);
}

#[test]
fn whoever_manages_a_thing_now_takes_its_base_over() {
    let case = Case::new(&[("file:old", "./x"), ("file:z", "x")]);
    let living = [("file:new", "x")];
    let records = case.records(&living);
    let legacy = &records.legacies["file:new"];
    assert!(!legacy.is_empty() && records.orphans.is_empty());
    assert_eq!(legacy.base().unwrap(), "./x", "the first one's");
    assert_eq!(case.take_over(&living), ["file:new from file:old", "file:new from file:z"]);
    assert_eq!(case.kept(), ["file:new ./x"]);
    assert!(case.take_over(&living).is_empty());
}

#[test]
fn a_base_of_its_own_stays_what_it_was() {
    let case = Case::new(&[("file:new", "./x"), ("file:old", "x")]);
    let living = [("file:new", "x")];
    assert_eq!(case.take_over(&living), ["file:new from file:old"]);
    assert_eq!(case.kept(), ["file:new ./x"]);
    let report = EntityReport::new("file:new");
    let nothing = Legacy::default();
    assert!(nothing.is_empty() && nothing.base().is_none());
    case.bases.take_over(&report, &nothing, &THINGS, &mut Told::default()).unwrap();
    assert_eq!(case.kept(), ["file:new ./x"]);
}

#[test]
fn an_entity_that_manages_something_else_leaves_its_record_to_an_orphan() {
    let case = Case::new(&[("file:a", "./x")]);
    let living = [("file:a", "y")];
    let records = case.records(&living);
    assert_eq!(orphans(&records), [("file:x", "file:a")]);
    let legacy = &records.legacies["file:a"];
    assert!(!legacy.is_empty() && legacy.base().is_none());
    assert!(case.take_over(&living).is_empty());
    assert_eq!(case.kept(), ["file:x ./x"]);
    // The orphan was found before its record was moved.
    case.bases.forget_orphans([&records.orphans[0]], &THINGS).unwrap();
    assert!(case.kept().is_empty());
}

#[test]
fn entities_that_change_places_change_records() {
    let case = Case::new(&[("file:a", "x"), ("file:b", "y")]);
    let living = [("file:a", "y"), ("file:b", "x")];
    assert!(orphans(&case.records(&living)).is_empty());
    case.take_over(&living);
    let kept = case.kept();
    assert!(kept.contains(&"file:a y".to_owned()) && kept.contains(&"file:b x".to_owned()), "{kept:?}");
}

#[test]
fn a_record_that_is_about_something_else_by_now_is_not_forgotten() {
    let case = Case::new(&[("file:gone", "x")]);
    let records = case.records(&[]);
    case.bases.keep(&Remembered::new(&EntityReport::new("file:gone"), "y".to_owned())).unwrap();
    case.bases.forget_orphans([&records.orphans[0]], &THINGS).unwrap();
    assert_eq!(case.kept(), ["file:gone y"]);
}
