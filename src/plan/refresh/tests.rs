//! Tests of pending refreshes.

use super::*;

fn database() -> (tempfile::TempDir, Rc<Database>) {
    let folder = tempfile::tempdir().unwrap();
    let database = Rc::new(Database::new(folder.path().join("state.db")));
    (folder, database)
}

fn files(folder: &tempfile::TempDir) -> usize {
    std::fs::read_dir(folder.path()).unwrap().count()
}

fn id(name: &str) -> &BStr {
    name.into()
}

#[test]
fn refresh_is_due_until_done() {
    let (folder, database) = database();
    let mut refreshes = Refreshes::load(&database).unwrap();
    refreshes.expect(id("file"), id("service"), "p");
    refreshes.secure().unwrap();
    assert!(!refreshes.is_due(id("service")));
    refreshes.changed(id("file"));
    assert!(refreshes.is_due(id("service")) && !refreshes.is_due(id("file")));
    refreshes.secure().unwrap();
    let mut later = Refreshes::load(&database).unwrap();
    later.unchanged(id("file"));
    assert!(later.is_due(id("service")));
    later.done(id("service"));
    later.secure().unwrap();
    database.tidy().unwrap();
    assert_eq!(files(&folder), 0);
}

#[test]
fn killed_run_counts_as_having_changed_its_sources() {
    let (_folder, database) = database();
    let mut refreshes = Refreshes::load(&database).unwrap();
    refreshes.expect(id("file"), id("service"), "p");
    refreshes.secure().unwrap();
    drop(refreshes);
    let mut later = Refreshes::load(&database).unwrap();
    later.unchanged(id("file"));
    assert!(later.is_due(id("service")));
}

#[test]
fn due_refresh_has_a_time() {
    let (_folder, database) = database();
    let since = |text: &str| text.parse::<Timestamp>().ok();
    let mut refreshes = Refreshes::load(&database).unwrap();
    refreshes.expect(id("file"), id("service"), "p");
    assert_eq!(refreshes.due_since(id("service")), None);
    refreshes.changed(id("file"));
    assert!(refreshes.due_since(id("service")).is_some());
    // Later writes about other refreshes do not change the time.
    let refresh = |source: &str, is_due, time: Option<&str>| Refresh {
        source: source.into(),
        target: "service".into(),
        plugin: "p".to_owned(),
        is_due,
        since: time.and_then(since).map(Timestamp::as_second),
        sent: Vec::new(),
    };
    let earlier = [
        refresh("file", true, Some("2025-02-01T00:00:00Z")),
        refresh("killed", false, None),
        refresh("undated", true, None),
    ];
    database.write_refreshes(&earlier, [], Durability::Process).unwrap();
    let mut later = Refreshes::load(&database).unwrap();
    later.expect(id("new"), id("service"), "p");
    later.changed(id("new"));
    later.expect(id("file"), id("service"), "p");
    later.unchanged(id("file"));
    later.secure().unwrap();
    let mut last = Refreshes::load(&database).unwrap();
    assert_eq!(last.due_since(id("service")), since("2025-02-01T00:00:00Z"));
    last.hand_over(id("service"), &[(id("daemon"), "p")]);
    assert_eq!(last.due_since(id("daemon")), since("2025-02-01T00:00:00Z"));
    // The time of some changes is unknown.
    assert_eq!(last.left_since(id("service")), None);
    let (_folder, database) = self::database();
    database.write_refreshes(&earlier[..1], [], Durability::Process).unwrap();
    let mut left = Refreshes::load(&database).unwrap();
    assert_eq!(left.left_since(id("service")), since("2025-02-01T00:00:00Z"));
    left.expect(id("new"), id("service"), "p");
    assert!(left.left_since(id("service")).is_some());
    left.changed(id("new"));
    assert_eq!(left.left_since(id("service")), None);
}

#[test]
fn change_of_a_source_whose_refresh_is_due_counts_anew() {
    let left = |what: &dyn Fn(&mut Refreshes)| {
        let (_folder, database) = database();
        let refresh = Refresh {
            source: "file".into(),
            target: "service".into(),
            plugin: "p".to_owned(),
            is_due: true,
            since: Some(1_740_000_000),
            sent: Vec::new(),
        };
        database.write_refreshes(&[refresh], [], Durability::Process).unwrap();
        let mut refreshes = Refreshes::load(&database).unwrap();
        refreshes.expect(id("file"), id("service"), "p");
        refreshes.secure().unwrap();
        what(&mut refreshes);
        refreshes.record().unwrap();
        let now = refreshes.left_since(id("service"));
        let later = Refreshes::load(&database).unwrap();
        assert!(refreshes.is_due(id("service")) && later.is_due(id("service")));
        [now, later.left_since(id("service"))].map(|time| time.map(Timestamp::as_second))
    };
    assert_eq!(left(&|refreshes| refreshes.unchanged(id("file"))), [Some(1_740_000_000); 2]);
    let [now, later] = left(&|refreshes| refreshes.changed(id("file")));
    assert!(now.is_none() && later > Some(1_740_000_000), "{later:?}");
    // A killed run, or a source that has failed, may have changed it.
    assert_eq!(left(&|_| {}), [None; 2]);
}

#[test]
fn refresh_is_newer_than_what_was_done_before_its_last_change() {
    let (_folder, database) = database();
    let mut refreshes = Refreshes::load(&database).unwrap();
    let before = Timestamp::now();
    refreshes.expect(id("file"), id("service"), "p");
    assert!(!refreshes.is_due_since(id("service"), before) && !refreshes.is_new(id("service")));
    refreshes.changed(id("file"));
    assert!(refreshes.is_due_since(id("service"), before) && refreshes.is_new(id("service")));
    refreshes.secure().unwrap();
    let later = Refreshes::load(&database).unwrap();
    assert!(later.is_due_since(id("service"), before) && !later.is_new(id("service")));
    let after = Timestamp::from_second(before.as_second() + 60).unwrap();
    assert!(!later.is_due_since(id("service"), after));
}

#[test]
fn values_are_sent_with_the_refresh() {
    let (_folder, database) = database();
    let mut refreshes = Refreshes::load(&database).unwrap();
    let values = |values: &[&str]| values.iter().map(|&value| Sent::parse(value.into()).unwrap()).collect::<Vec<_>>();
    for source in ["b", "a"] {
        refreshes.expect(id(source), id("service"), "p");
        refreshes.expect(id(source), id("other"), "p");
    }
    // No refresh is due because of it yet.
    refreshes.send(id("b"), &values(&["MODE=0"]));
    refreshes.changed(id("b"));
    refreshes.send(id("b"), &values(&["MODE=1", "X=", "MODE=2"]));
    refreshes.secure().unwrap();
    assert_eq!(refreshes.received(id("service")), ["X=", "MODE=2"]);
    let mut later = Refreshes::load(&database).unwrap();
    later.changed(id("a"));
    later.send(id("a"), &values(&["MODE=3"]));
    later.done(id("other"));
    later.secure().unwrap();
    let last = Refreshes::load(&database).unwrap();
    assert_eq!(last.received(id("service")), ["MODE=3", "X=", "MODE=2"]);
    assert!(last.received(id("other")).is_empty() && !last.is_due(id("other")));
}

#[test]
fn thousands_of_refreshes_are_handled() {
    let (_folder, database) = database();
    let mut refreshes = Refreshes::load(&database).unwrap();
    let name = |number: usize| BString::from(number.to_string());
    for number in 0..50_000 {
        refreshes.expect(name(number).as_bstr(), name(number % 7).as_bstr(), "p");
    }
    for number in 0..50_000 {
        refreshes.changed(name(number).as_bstr());
        assert!(refreshes.is_due(name(number % 7).as_bstr()));
    }
    (0..7).for_each(|number| refreshes.done(name(number).as_bstr()));
    assert!(refreshes.refreshes.is_empty() && refreshes.sources.is_empty() && refreshes.unwritten.is_empty());
}

#[test]
fn unchanged_refreshes_are_not_written() {
    let (folder, database) = database();
    let mut refreshes = Refreshes::load(&database).unwrap();
    refreshes.expect(id("file"), id("service"), "p");
    refreshes.unchanged(id("file"));
    refreshes.secure().unwrap();
    assert_eq!(files(&folder), 0);
}

#[test]
fn successors_inherit_refreshes() {
    let (_folder, database) = database();
    let mut refreshes = Refreshes::load(&database).unwrap();
    let values = |values: &[&str]| values.iter().map(|&value| Sent::parse(value.into()).unwrap()).collect::<Vec<_>>();
    for (source, target) in [("file", "old"), ("file", "known"), ("new", "old"), ("quiet", "old"), ("quiet", "known")] {
        refreshes.expect(id(source), id(target), "p");
    }
    refreshes.changed(id("file"));
    refreshes.send(id("file"), &values(&["A=1", "B=1"]));
    refreshes.done(id("known"));
    refreshes.expect(id("file"), id("known"), "p");
    refreshes.changed(id("new"));
    refreshes.send(id("file"), &values(&["B=2"]));
    refreshes.hand_over(id("old"), &[(id("new"), "q"), (id("known"), "p")]);
    assert!(!refreshes.is_due(id("old")) && refreshes.sources_of(id("old")).is_empty());
    // A due refresh stays due, even for a successor that only expected it, and an entity does not refresh itself.
    assert!(refreshes.is_due(id("new")) && refreshes.is_due(id("known")));
    assert_eq!(refreshes.get(id("new"), id("new")), None);
    assert!(!refreshes.get(id("quiet"), id("known")).unwrap().due);
    assert_eq!(refreshes.received(id("new")), ["A=1", "B=2"]);
    // The successor's plugin determines whether it still exists.
    let _ = refreshes.forget(|_, plugin| plugin == "p");
    assert!(refreshes.is_due(id("new")) && !refreshes.is_due(id("known")));
}

#[test]
fn refreshes_of_removed_targets_are_dropped() {
    let (_folder, database) = database();
    let mut refreshes = Refreshes::load(&database).unwrap();
    refreshes.expect(id("file"), id("service"), "p");
    refreshes.changed(id("file"));
    refreshes.expect(id("file"), id("other"), "p");
    let dropped = refreshes.forget(|_, plugin| plugin == "p");
    assert_eq!(Vec::from_iter(dropped), ["service"], "the refresh of the other one was only expected");
    assert!(!refreshes.is_due(id("service")));
}

#[test]
fn every_write_survives_a_kill() {
    let (folder, database) = database();
    let name = |number: usize| BString::from(number.to_string());
    let mut refreshes = Refreshes::load(&database).unwrap();
    for number in 0..100 {
        refreshes.expect(name(number).as_bstr(), name(number + 1).as_bstr(), "p");
        refreshes.secure().unwrap();
        refreshes.changed(name(number).as_bstr());
        refreshes.done(name(number).as_bstr());
        refreshes.record().unwrap();
        let later = Refreshes::load(&database).unwrap();
        assert!(later.is_due(name(number + 1).as_bstr()) && !later.is_due(name(number).as_bstr()));
    }
    assert_eq!(database.refreshes().unwrap().len(), 1);
    let mut later = Refreshes::load(&database).unwrap();
    later.done(id("100"));
    later.record().unwrap();
    assert!(!Refreshes::load(&database).unwrap().is_due(id("100")));
    database.tidy().unwrap();
    assert_eq!(files(&folder), 0);
}

#[test]
fn damaged_database_is_an_error_with_a_remedy() {
    let (folder, _) = database();
    let path = folder.path().join("state.db");
    std::fs::write(&path, "garbage").unwrap();
    let message = Refreshes::load(&Rc::new(Database::new(path))).unwrap_err().to_string();
    assert!(message.contains("state.db is damaged: ") && message.contains("`holo state repair`"), "{message}");
}
