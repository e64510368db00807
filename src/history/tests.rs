//! Records as they are written and read, whatever happens in between.

use super::*;
use crate::retention;
use crate::root::Root;
use crate::run_id::RunId;
use holo_protocol::Text;
use jiff::Timestamp;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tempfile::TempDir;

fn root() -> (TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::new(Some(folder.path().into()));
    (folder, root)
}

/// The beginning of a run of this second, by a process that is gone.
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

fn entity(began: &Began, id: impl Into<Text>) -> Record {
    Record::Entity(EntityRecord {
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
    })
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

/// Writes the records of a whole run.
fn whole(root: &Root, second: i64, id: &str) -> Began {
    let began = began(second);
    let mut writer = Writer::begin(root, began.clone()).unwrap();
    writer.append(&entity(&began, id)).unwrap();
    writer.end(ended(&began), &retention::Runs::default()).unwrap();
    began
}

/// Shows the runs of a root, the newest first: the state, and the entities.
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

fn month(root: &Root) -> std::path::PathBuf {
    root.runs().join("2026-11.jsonl")
}

fn append(root: &Root, text: &[u8]) {
    OpenOptions::new().append(true).open(month(root)).unwrap().write_all(text).unwrap();
}

#[test]
fn what_is_written_is_read() {
    let (_folder, root) = root();
    assert!(shown(&root).is_empty());
    let first = whole(&root, 0, "file:/a");
    whole(&root, 1, "file:/b");
    assert_eq!(shown(&root), ["changed file:/b", "changed file:/a"]);
    let history = History::open(&root).unwrap();
    let found = history.find(first.run.as_str()).unwrap();
    assert_eq!((found.began.clone(), found.ended.clone()), (Some(first.clone()), Some(ended(&first))));
    assert_eq!(found.entities().map(Record::Entity).collect::<Vec<_>>(), [entity(&first, "file:/a")]);
    assert_eq!(history.find("2026").unwrap_err().len(), 2);
    assert!(history.find("1").unwrap_err().is_empty());
    for (path, mode) in [(root.engine_state(), 0o700), (root.runs(), 0o700), (month(&root), 0o600)] {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode, "{path:?}");
    }
}

#[test]
fn a_run_with_nothing_to_do_leaves_only_its_time() {
    let (_folder, root) = root();
    let began = began(0);
    let writer = Writer::begin(&root, began.clone()).unwrap();
    assert_eq!(shown(&root), ["interrupted"]);
    let last = LastRun {
        version: VERSION,
        run: began.run,
        time: began.time,
        duration: Duration::from_millis(1500),
        counts: Counts { unchanged: 3, ..Counts::default() },
    };
    writer.end_unchanged(&last).unwrap();
    assert!(shown(&root).is_empty() && !month(&root).exists());
    assert_eq!(History::open(&root).unwrap().last_unchanged(), Some(last));
}

#[test]
fn a_run_that_was_killed_is_known_and_counted_once() {
    for kills in 0..3 {
        let (_folder, root) = root();
        whole(&root, 0, "file:/a");
        let killed = began(1);
        let mut writer = Writer::begin(&root, killed.clone()).unwrap();
        if kills > 0 {
            writer.append(&entity(&killed, "file:/b")).unwrap();
        }
        drop(writer);
        let expected = if kills > 0 { "interrupted file:/b" } else { "interrupted" };
        assert_eq!(shown(&root), [expected, "changed file:/a"]);
        if kills > 1 {
            // The next one is killed as well, when it has just written down what became of this one.
            drop(Writer::begin(&root, began(2)).unwrap());
            let page = serde_json::to_vec(&begun::Begun { has_ended: false, began: killed.clone() }).unwrap();
            fs::write(root.runs().join(begun::NAME), page).unwrap();
        }
        whole(&root, 3, "file:/c");
        assert_eq!(shown(&root), ["changed file:/c", expected, "changed file:/a"]);
        let text = fs::read_to_string(month(&root)).unwrap();
        assert_eq!(text.matches("\"began\"").count(), 3, "{text}");
        assert_eq!(text.matches("\"interrupted\"").count(), 1, "{text}");
    }
}

#[test]
fn a_run_whose_process_lives_is_running() {
    let (_folder, root) = root();
    let living = Began { process: ProcessMark::own(), ..began(1) };
    let mut writer = Writer::begin(&root, living.clone()).unwrap();
    assert_eq!(shown(&root), ["running"]);
    writer.append(&entity(&living, "file:/b")).unwrap();
    assert_eq!(shown(&root), ["running file:/b"]);
}

#[test]
fn damage_is_passed_over() {
    let (_folder, root) = root();
    whole(&root, 0, "file:/a");
    append(&root, b"\0\xff garbage\n{\"record\":\"ended\"}\n\n{\"record\":\"entity\",\"run\":\"20261122T");
    whole(&root, 1, "file:/b");
    assert_eq!(shown(&root), ["changed file:/b", "changed file:/a"]);
    let history = History::open(&root).unwrap();
    let mut runs = history.runs();
    runs.by_ref().for_each(drop);
    assert_eq!(runs.damaged, 3);
    // Whatever the page and the summary hold, the next run goes on.
    for file in [begun::NAME, "last.json"] {
        fs::write(root.runs().join(file), b"\xff{").unwrap();
    }
    whole(&root, 2, "file:/c");
    assert_eq!(shown(&root).len(), 3);
    assert_eq!(History::open(&root).unwrap().last_unchanged(), None);
}

#[test]
fn a_run_without_its_beginning_is_still_shown() {
    let (_folder, root) = root();
    let began = whole(&root, 0, "file:/a");
    let text = fs::read_to_string(month(&root)).unwrap();
    fs::write(month(&root), text.split_once('\n').unwrap().1).unwrap();
    assert_eq!(shown(&root), ["changed file:/a"]);
    assert_eq!(History::open(&root).unwrap().find(began.run.as_str()).unwrap().began, None);
}

#[test]
fn names_that_are_not_utf_8_survive() {
    let (_folder, root) = root();
    let began = began(0);
    let mut writer = Writer::begin(&root, began.clone()).unwrap();
    writer.append(&entity(&began, &b"file:/caf\xe9"[..])).unwrap();
    let run = History::open(&root).unwrap().runs().next().unwrap();
    assert_eq!(run.entities().next().unwrap().id, Text::from(&b"file:/caf\xe9"[..]));
}

#[test]
fn what_cannot_be_written_is_an_error_with_its_path() {
    let (_folder, root) = root();
    fs::create_dir_all(root.states()).unwrap();
    fs::write(root.engine_state(), "in the way").unwrap();
    let error = Writer::begin(&root, began(0)).unwrap_err().to_string();
    assert!(error.starts_with("mkdir ") && error.contains("/.engine/runs: "), "{error}");
}

#[test]
fn records_wait_for_those_that_follow_at_once() {
    let (_folder, root) = root();
    let began = began(0);
    let mut writer = Writer::begin(&root, began.clone()).unwrap();
    let lines = || fs::read_to_string(month(&root)).unwrap().lines().count();
    writer.append(&entity(&began, "file:/a")).unwrap();
    assert_eq!(lines(), 2, "nothing follows at once");
    writer.hold(true).unwrap();
    writer.append(&entity(&began, "file:/b")).unwrap();
    writer.append(&entity(&began, "file:/c")).unwrap();
    assert_eq!(lines(), 2);
    writer.hold(false).unwrap();
    assert_eq!(lines(), 4);
    writer.hold(true).unwrap();
    writer.append(&entity(&began, "x".repeat(100_000))).unwrap();
    assert_eq!(lines(), 5, "too much to be kept in memory");
    // A run that ends while something is held loses nothing.
    writer.append(&entity(&began, "file:/d")).unwrap();
    writer.end(ended(&began), &retention::Runs::default()).unwrap();
    assert_eq!(lines(), 7);
    assert!(shown(&root)[0].starts_with("changed file:/a file:/b file:/c x"), "{:?}", shown(&root));
}
