//! Tests of stored values, and of the file that plugins read.

use super::*;
use tempfile::TempDir;

struct Place {
    folder: TempDir,
    database: Rc<Database>,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let database = Rc::new(Database::new(folder.path().join("state.db")));
        Place { folder, database }
    }

    fn load(&self) -> SentValues {
        SentValues::load(&self.database, self.folder.path()).unwrap()
    }

    fn published(&self) -> Vec<Sending> {
        Sending::read_all(&fs::read(self.folder.path().join(cache::VALUES)).unwrap_or_default())
    }
}

fn id(id: &str) -> &BStr {
    id.into()
}

#[test]
fn value_is_kept_for_the_next_run() {
    let place = Place::new();
    let mut values = place.load();
    values.take(id("a:b"), "a", &[Sent::new("x", "1"), Sent { sensitive: true, ..Sent::new("y", "2\n3") }]);
    values.take(id("a:b"), "a", &[Sent::new("x", "4")]);
    values.record().unwrap();
    // Without `finish`, as after a kill.
    let later = place.load();
    assert_eq!(later.get(id("a:b"), id("x")), Some(&Sent::new("x", "4")));
    let secret = later.get(id("a:b"), id("y")).unwrap();
    assert_eq!((secret.value.as_bstr(), secret.sensitive), (id("2\n3"), true));
    assert!(!later.is_fresh(id("a:b"), id("x")) && later.get(id("a:c"), id("x")).is_none());
}

#[test]
fn unchanged_values_are_not_written() {
    let place = Place::new();
    place.load().finish().unwrap();
    assert!(!place.database.path().exists());
    let mut values = place.load();
    values.take(id("a:b"), "a", &[Sent::new("x", "1")]);
    values.finish().unwrap();
    let log = place.folder.path().join("state.db-wal");
    let before = fs::read(&log).unwrap();
    let mut again = place.load();
    again.take(id("a:b"), "a", &[Sent::new("x", "1")]);
    assert!(again.is_fresh(id("a:b"), id("x")));
    again.finish().unwrap();
    assert_eq!(fs::read(&log).unwrap(), before);
}

#[test]
fn values_of_removed_senders_are_dropped() {
    let place = Place::new();
    let mut values = place.load();
    values.take(id("a:b"), "a", &[Sent::new("x", "1")]);
    values.take(id("c:d"), "c", &[Sent::new("x", "2")]);
    values.finish().unwrap();
    let mut values = place.load();
    values.forget(|sender, plugin| sender == "a:b" && plugin == "a");
    values.record().unwrap();
    let mut values = place.load();
    assert!(values.get(id("a:b"), id("x")).is_none() && values.get(id("c:d"), id("x")).is_some());
    values.forget(|_, _| true);
    values.finish().unwrap();
    place.database.tidy().unwrap();
    assert!(!place.database.path().exists());
}

#[test]
fn plugins_read_stored_values_and_receive_changes() {
    let place = Place::new();
    publish(&place.database, place.folder.path()).unwrap();
    assert!(!place.folder.path().join(cache::VALUES).exists());
    let mut values = place.load();
    values.take(id("a:b"), "a", &[Sent::new("x", "1"), Sent::new("y", "1")]);
    values.finish().unwrap();
    publish(&place.database, place.folder.path()).unwrap();
    assert_eq!(place.published().len(), 2);
    let mut values = place.load();
    assert_eq!((values.change(id("a:b"), id("x")), values.change(id("a:b"), id("z"))), (0, 0));
    values.take(id("a:b"), "a", &[Sent::new("x", "2"), Sent::new("y", "1")]);
    assert_eq!((values.change(id("a:b"), id("x")), values.change(id("a:b"), id("y"))), (1, 0));
    values.publish().unwrap();
    assert_eq!(place.published()[0].sent, Sent::new("x", "2"));
    // Another run has applied since plugins read the file.
    values.finish().unwrap();
    let file = place.folder.path().join(cache::VALUES);
    fs::write(&file, b"").unwrap();
    let later = place.load();
    assert_eq!((later.change(id("a:b"), id("x")), later.change(id("a:b"), id("y"))), (1, 1));
}
