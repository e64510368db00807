//! Tests of the refreshes that are due.

use super::*;
use std::fs;

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
fn it_is_known_since_when_a_refresh_is_due() {
    let (_folder, root) = root();
    let since = |text: &str| text.parse::<Timestamp>().ok();
    let mut refreshes = Refreshes::load(&root).unwrap();
    refreshes.expect(id("file"), id("service"), "p");
    assert_eq!(refreshes.due_since(id("service")), None);
    refreshes.changed(id("file"));
    assert!(refreshes.due_since(id("service")).is_some());
    // What is written about other refreshes later does not make it younger.
    let record = |source: &str, state: &str, time: &str| {
        format!("{{\"source\":\"{source}\",\"target\":\"service\",\"plugin\":\"p\",\"state\":\"{state}\"{time}}}\n")
    };
    let lines = [
        record("file", "due", ",\"since\":\"2025-02-01T00:00:00Z\""),
        record("killed", "expected", ",\"since\":\"2025-01-01T00:00:00Z\""),
        record("old", "due", ""),
    ];
    let folder = root.engine_state();
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(FILE), format!("{{\"version\":2}}\n{}", lines.concat())).unwrap();
    let mut later = Refreshes::load(&root).unwrap();
    later.expect(id("new"), id("service"), "p");
    later.changed(id("new"));
    later.changed(id("file"));
    later.finish().unwrap();
    let mut last = Refreshes::load(&root).unwrap();
    assert_eq!(last.due_since(id("service")), since("2025-01-01T00:00:00Z"));
    last.hand_over(id("service"), &[(id("daemon"), "p")]);
    assert_eq!(last.due_since(id("daemon")), since("2025-01-01T00:00:00Z"));
}

#[test]
fn what_is_sent_goes_with_the_refresh() {
    let (_folder, root) = root();
    let mut refreshes = Refreshes::load(&root).unwrap();
    let values = |values: &[&str]| values.iter().map(|&value| Sent::parse(value.into()).unwrap()).collect::<Vec<_>>();
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
fn successors_do_the_refreshes_of_what_they_take_over() {
    let (_folder, root) = root();
    let mut refreshes = Refreshes::load(&root).unwrap();
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
    // What is due stays due, also for a successor of which it was only expected, and nothing refreshes itself.
    assert!(refreshes.is_due(id("new")) && refreshes.is_due(id("known")));
    assert_eq!(refreshes.get(id("new"), id("new")), None);
    assert!(!refreshes.get(id("quiet"), id("known")).unwrap().due);
    assert_eq!(refreshes.received(id("new")), ["A=1", "B=2"]);
    // Its plugin is asked what is left of it.
    refreshes.forget(|_, plugin| plugin == "p");
    assert!(refreshes.is_due(id("new")) && !refreshes.is_due(id("known")));
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
    for text in ["", "{", "{\"version\":2}", "{\"version\":1}\n", "{\"version\":2}\n{}\n", "{\"version\":2}\n{\n\n"] {
        fs::write(root.engine_state().join("refreshes.json"), text).unwrap();
        let message = Refreshes::load(&root).unwrap_err().to_string();
        assert!(message.contains("refreshes.json") && message.ends_with("remove it to forget them"), "{message}");
    }
}
