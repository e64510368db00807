//! Tests of writing and reading records, with interruptions.

use super::*;
use crate::host::engine;
use crate::host::root::Root;
use crate::host::settings::RunId;
use holo_protocol::Text;
use holo_state::Database;
use jiff::Timestamp;
use std::fs;
use std::rc::Rc;
use std::time::Duration;
use tempfile::TempDir;

fn root() -> (TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::new(Some(folder.path().into()));
    (folder, root)
}

fn database(root: &Root) -> Rc<Database> {
    Rc::new(Database::new(root.state_database()))
}

fn begin(root: &Root, began: &Began) -> Writer {
    Writer::begin(&database(root), began).unwrap()
}

/// The beginning of a run at this second, by a process that no longer exists.
fn began(second: i64) -> Began {
    let time = Timestamp::new(1_795_338_843 + second, 0).unwrap();
    Began {
        version: VERSION,
        run: RunId::at(time),
        time,
        holo: "4".to_owned(),
        command: vec!["holo".into(), "apply".into()],
        who: Who::default(),
        process: ProcessMark { pid: 1, ..ProcessMark::default() },
    }
}

fn entity(began: &Began, id: impl Into<Text>) -> EntityRecord {
    EntityRecord {
        run: began.run.clone(),
        id: id.into(),
        plugin: "p".to_owned(),
        time: began.time,
        duration: Duration::from_millis(12),
        result: RunResult::Changed,
        changes: vec!["made it".into()],
        refused: Vec::new(),
        reason: None,
        output: None,
        refreshed_by: Vec::new(),
        diffs: Vec::new(),
    }
}

fn ended(began: &Began) -> Ended {
    Ended {
        run: began.run.clone(),
        time: began.time,
        result: RunResult::Changed,
        duration: Some(Duration::from_secs(1)),
        exit_code: Some(0),
        counts: Counts { changed: 1, ..Counts::default() },
        error: None,
    }
}

/// Writes the records of a complete run.
fn whole(root: &Root, second: i64, id: &str) -> Began {
    let began = began(second);
    let mut writer = begin(root, &began);
    writer.append(&entity(&began, id)).unwrap();
    writer.end(&ended(&began), &engine::Runs::default()).unwrap();
    began
}

/// Formats the runs of a root, newest first: the state, and the entities.
fn shown(root: &Root) -> Vec<String> {
    let show = |run: Run| {
        let ids: Vec<String> = run.entities().map(|entity| entity.id.0.to_string()).collect();
        let state = match run.state() {
            RunState::Running => "running",
            RunState::Ended(result) => result.name(),
        };
        format!("{state} {}", ids.join(" ")).trim_end().to_owned()
    };
    History::open(root).unwrap().runs().map(show).collect()
}

#[test]
fn records_round_trip() {
    let (_folder, root) = root();
    assert!(shown(&root).is_empty());
    let first = whole(&root, 0, "file:/a");
    whole(&root, 1, "file:/b");
    assert_eq!(shown(&root), ["changed file:/b", "changed file:/a"]);
    let history = History::open(&root).unwrap();
    let found = history.find(first.run.as_str()).unwrap();
    assert_eq!((found.began.clone(), found.ended.clone()), (Some(first.clone()), Some(ended(&first))));
    assert_eq!(found.entities().collect::<Vec<_>>(), [entity(&first, "file:/a")]);
    assert_eq!(history.find("2026").unwrap_err().len(), 2);
    assert!(history.find("1").unwrap_err().is_empty());
}

#[test]
fn run_without_work_leaves_only_its_time() {
    let (_folder, root) = root();
    let began = began(0);
    let writer = begin(&root, &began);
    assert_eq!(shown(&root), ["interrupted"]);
    let last = LastRun {
        version: VERSION,
        run: began.run,
        time: began.time,
        duration: Duration::from_millis(1500),
        counts: Counts { unchanged: 3, ..Counts::default() },
    };
    writer.end_unchanged(&last).unwrap();
    assert!(shown(&root).is_empty());
    assert_eq!(History::open(&root).unwrap().last_unchanged(), Some(last));
}

#[test]
fn killed_run_is_recorded_once() {
    for kills in 0..3 {
        let (_folder, root) = root();
        whole(&root, 0, "file:/a");
        let killed = began(1);
        let mut writer = begin(&root, &killed);
        if kills > 0 {
            writer.append(&entity(&killed, "file:/b")).unwrap();
        }
        drop(writer);
        let expected = if kills > 0 { "interrupted file:/b" } else { "interrupted" };
        assert_eq!(shown(&root), [expected, "changed file:/a"]);
        if kills > 1 {
            // The next run is killed as well, right after it has recorded the end of this one.
            drop(begin(&root, &began(2)));
            whole(&root, 3, "file:/c");
            assert_eq!(shown(&root), ["changed file:/c", "interrupted", expected, "changed file:/a"]);
            continue;
        }
        whole(&root, 3, "file:/c");
        assert_eq!(shown(&root), ["changed file:/c", expected, "changed file:/a"]);
    }
}

#[test]
fn run_with_a_live_process_is_running() {
    let (_folder, root) = root();
    let living = Began { process: ProcessMark::own(), ..began(1) };
    let mut writer = begin(&root, &living);
    assert_eq!(shown(&root), ["running"]);
    writer.append(&entity(&living, "file:/b")).unwrap();
    assert_eq!(shown(&root), ["running file:/b"]);
}

#[test]
fn records_of_a_newer_version_do_not_hide_others() {
    let (_folder, root) = root();
    whole(&root, 0, "file:/a");
    database(&root).add_run("later", "{\"version\":9}", "{}").unwrap();
    assert_eq!(shown(&root), ["interrupted", "changed file:/a"]);
    assert_eq!(History::open(&root).unwrap().find("later").unwrap().began, None);
}

#[test]
fn names_that_are_not_utf_8_survive() {
    let (_folder, root) = root();
    let began = began(0);
    let mut writer = begin(&root, &began);
    writer.append(&entity(&began, &b"file:/caf\xe9"[..])).unwrap();
    let run = History::open(&root).unwrap().runs().next().unwrap();
    assert_eq!(run.entities().next().unwrap().id, Text::from(&b"file:/caf\xe9"[..]));
}

#[test]
fn uncreatable_database_is_an_error_with_its_path() {
    let (folder, root) = root();
    fs::write(folder.path().join("var"), "in the way").unwrap();
    let error = Writer::begin(&database(&root), &began(0)).unwrap_err().to_string();
    assert!(error.starts_with("cannot use ") && error.contains("/var/lib/holo/state.db: "), "{error}");
}

#[test]
fn records_are_written_together() {
    let (_folder, root) = root();
    let began = began(0);
    let mut writer = begin(&root, &began);
    let entries = || {
        let reader = Database::snapshot(root.state_database());
        reader.run_entries(reader.runs(None, 1).unwrap()[0].sequence, &[]).unwrap().len()
    };
    writer.append(&entity(&began, "file:/a")).unwrap();
    assert_eq!(entries(), 1, "nothing follows at once");
    writer.hold(true).unwrap();
    writer.append(&entity(&began, "file:/b")).unwrap();
    writer.append(&entity(&began, "file:/c")).unwrap();
    assert_eq!(entries(), 1);
    writer.hold(false).unwrap();
    assert_eq!(entries(), 3);
    writer.hold(true).unwrap();
    writer.append(&entity(&began, "x".repeat(100_000))).unwrap();
    assert_eq!(entries(), 4, "too much to be kept in memory");
    // Ending a run while records are held loses none of them.
    writer.append(&entity(&began, "file:/d")).unwrap();
    writer.end(&ended(&began), &engine::Runs::default()).unwrap();
    assert_eq!(entries(), 5);
    assert!(shown(&root)[0].starts_with("changed file:/a file:/b file:/c x"), "{:?}", shown(&root));
}
