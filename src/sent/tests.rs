//! Tests of the values that are kept, and of the file that plugins read.
use super::*;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

struct Place {
    folder: TempDir,
    root: Root,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(Some(folder.path().join("root").into_os_string()));
        Place { folder, root }
    }

    fn load(&self) -> SentValues {
        SentValues::load(&self.root, self.folder.path()).unwrap()
    }

    fn ledger(&self) -> PathBuf {
        self.root.engine_state().join(FILE)
    }

    fn published(&self) -> Vec<Sending> {
        Sending::read_all(&fs::read(self.folder.path().join(cache::VALUES)).unwrap_or_default())
    }
}

fn id(id: &str) -> &BStr {
    id.into()
}

#[test]
fn a_value_is_there_in_the_next_run() {
    let place = Place::new();
    let mut values = place.load();
    values.take(id("a:b"), "a", &[Sent::new("x", "1"), Sent { sensitive: true, ..Sent::new("y", "2\n3") }]);
    values.take(id("a:b"), "a", &[Sent::new("x", "4")]);
    values.record().unwrap();
    // Nothing more is said, as after a kill.
    let later = place.load();
    assert_eq!(later.get(id("a:b"), id("x")), Some(&Sent::new("x", "4")));
    let secret = later.get(id("a:b"), id("y")).unwrap();
    assert_eq!((secret.value.as_bstr(), secret.sensitive), (id("2\n3"), true));
    assert!(!later.is_fresh(id("a:b"), id("x")) && later.get(id("a:c"), id("x")).is_none());
    assert_eq!(fs::metadata(place.ledger()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn nothing_is_written_if_nothing_is_new() {
    let place = Place::new();
    place.load().finish().unwrap();
    assert!(!place.root.engine_state().exists());
    let mut values = place.load();
    values.take(id("a:b"), "a", &[Sent::new("x", "1")]);
    values.finish().unwrap();
    let before = fs::read(place.ledger()).unwrap();
    fs::set_permissions(place.ledger(), fs::Permissions::from_mode(0o640)).unwrap();
    let mut again = place.load();
    again.take(id("a:b"), "a", &[Sent::new("x", "1")]);
    assert!(again.is_fresh(id("a:b"), id("x")));
    again.finish().unwrap();
    assert_eq!(fs::read(place.ledger()).unwrap(), before);
    assert_eq!(fs::metadata(place.ledger()).unwrap().permissions().mode() & 0o777, 0o640, "it is another file");
}

#[test]
fn the_ledger_is_made_short_again() {
    let place = Place::new();
    let mut values = place.load();
    for number in 0..50 {
        values.take(id("a:b"), "a", &[Sent::new("x", number.to_string())]);
        values.record().unwrap();
    }
    assert_eq!(fs::read(place.ledger()).unwrap().lines().count(), 51);
    values.finish().unwrap();
    assert_eq!(fs::read(place.ledger()).unwrap().lines().count(), 2);
    assert_eq!(place.load().get(id("a:b"), id("x")), Some(&Sent::new("x", "49")));
}

#[test]
fn the_values_of_those_that_are_gone_are_forgotten() {
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
    assert!(!place.root.engine_state().exists());
}

#[test]
fn plugins_read_what_is_known_and_are_told_what_becomes_new() {
    let place = Place::new();
    publish(&place.root, place.folder.path()).unwrap();
    assert!(!place.folder.path().join(cache::VALUES).exists());
    let mut values = place.load();
    values.take(id("a:b"), "a", &[Sent::new("x", "1"), Sent::new("y", "1")]);
    values.finish().unwrap();
    publish(&place.root, place.folder.path()).unwrap();
    assert_eq!(place.published().len(), 2);
    let mut values = place.load();
    assert_eq!((values.change(id("a:b"), id("x")), values.change(id("a:b"), id("z"))), (0, 0));
    values.take(id("a:b"), "a", &[Sent::new("x", "2"), Sent::new("y", "1")]);
    assert_eq!((values.change(id("a:b"), id("x")), values.change(id("a:b"), id("y"))), (1, 0));
    values.publish().unwrap();
    assert_eq!(place.published()[0].sent, Sent::new("x", "2"));
    // Somebody else has applied since they have read it.
    values.finish().unwrap();
    let file = place.folder.path().join(cache::VALUES);
    fs::write(&file, b"").unwrap();
    let later = place.load();
    assert_eq!((later.change(id("a:b"), id("x")), later.change(id("a:b"), id("y"))), (1, 1));
}

#[test]
fn a_half_written_line_is_none() {
    let place = Place::new();
    let mut values = place.load();
    values.take(id("a:b"), "a", &[Sent::new("x", "1")]);
    values.record().unwrap();
    let whole = fs::read(place.ledger()).unwrap();
    values.take(id("a:b"), "a", &[Sent::new("x", "2")]);
    values.record().unwrap();
    let longer = fs::read(place.ledger()).unwrap();
    for length in whole.len()..longer.len() {
        fs::write(place.ledger(), &longer[..length]).unwrap();
        assert_eq!(place.load().get(id("a:b"), id("x")), Some(&Sent::new("x", "1")));
    }
    fs::write(place.ledger(), "{\"version\":9}\n").unwrap();
    let fatal = SentValues::load(&place.root, place.folder.path()).unwrap_err();
    let message = fatal.message().unwrap_or_default();
    assert!(message.starts_with("cannot read the values that entities have sent from "), "{message}");
    assert!(message.ends_with("it is of version 9, and only 1 is known; remove it to forget them"), "{message}");
}
