//! The database as a whole: files and modes, snapshots, damage, exports.

use super::*;
use bstr::{BStr, BString};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

fn state() -> (TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let state = Database::new(folder.path().join("state.db"));
    (folder, state)
}

fn value(entity: &str, value: impl Into<BString>) -> SentValue {
    SentValue {
        entity: entity.into(),
        name: "name".into(),
        plugin: "plugin".to_owned(),
        value: value.into(),
        is_sensitive: false,
    }
}

fn put(state: &Database, values: &[SentValue]) {
    state.write_sent_values(values, [], Durability::Process).unwrap();
}

fn record(store: &str, key: &str, value: Option<&str>) -> RecordChange {
    RecordChange { store: store.to_owned(), key: key.to_owned(), value: value.map(str::to_owned) }
}

fn names(folder: &TempDir) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn reading_creates_no_database() {
    let (folder, state) = state();
    assert!(state.sent_values().unwrap().is_empty() && state.refreshes().unwrap().is_empty());
    assert!(state.runs(None, 10).unwrap().is_empty() && state.idle_run().unwrap().is_none());
    state.tidy().unwrap();
    state.sync().unwrap();
    assert!(names(&folder).is_empty());
    fs::write(folder.path().join("state.db"), "").unwrap();
    assert!(Database::read_only(folder.path().join("state.db")).sent_values().unwrap().is_empty());
    put(&state, &[value("a", "1")]);
    assert_eq!(state.sent_values().unwrap(), [value("a", "1")]);
}

#[test]
fn only_the_owner_can_read_its_files() {
    let (folder, state) = state();
    put(&state, &[value("a", "1")]);
    for name in names(&folder) {
        let mode = fs::metadata(folder.path().join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn an_empty_database_is_removed_whole_and_comes_back() {
    let (folder, state) = state();
    put(&state, &[value("a", "1")]);
    state.tidy().unwrap();
    assert_eq!(state.sent_values().unwrap().len(), 1);
    state.write_sent_values(&[], [(BStr::new("a"), BStr::new("name"))], Durability::Disk).unwrap();
    state.tidy().unwrap();
    assert!(names(&folder).is_empty(), "{:?}", names(&folder));
    put(&state, &[value("b", "2")]);
    assert_eq!(state.sent_values().unwrap(), [value("b", "2")]);
}

#[test]
fn a_reader_sees_one_snapshot_and_blocks_no_writer() {
    let (folder, state) = state();
    put(&state, &[value("a", "1")]);
    let reader = Database::snapshot(folder.path().join("state.db"));
    assert_eq!(reader.sent_values().unwrap().len(), 1);
    put(&state, &[value("b", "2")]);
    assert_eq!(reader.sent_values().unwrap().len(), 1);
    assert_eq!(Database::read_only(folder.path().join("state.db")).sent_values().unwrap().len(), 2);
}

#[test]
fn bytes_that_are_not_text_survive_a_round_trip_through_an_export() {
    let (_folder, source) = state();
    let odd = BString::from(b"\xff\"\n\0".as_slice());
    put(&source, &[value("a", odd.clone()), value("b", "[1,2]")]);
    let refresh = Refresh {
        source: odd.clone(),
        target: "b".into(),
        plugin: "p".to_owned(),
        is_due: true,
        since: Some(-1),
        sent: vec![odd, "K=V".into()],
    };
    source.write_refreshes(std::slice::from_ref(&refresh), [], Durability::Disk).unwrap();
    source.begin_run("1", "{}", &[]).unwrap();
    source.append_run_entries("1", &["{\"a\":1}".to_owned()], Durability::Process).unwrap();
    let mut exported = Vec::new();
    source.export(&mut exported).unwrap().unwrap();
    let (_other, target) = state();
    assert_eq!(target.import(&mut exported.as_slice()).unwrap(), 5);
    let mut again = Vec::new();
    target.export(&mut again).unwrap().unwrap();
    assert_eq!(exported, again);
    assert_eq!(target.refreshes().unwrap(), [refresh]);
    assert!(matches!(target.import(&mut exported.as_slice()), Err(ImportError::NotEmpty(_))));
}

#[test]
fn a_line_that_is_no_row_is_named_and_nothing_is_imported() {
    let header = "{\"format\":\"holo state\",\"version\":1}\n";
    for (text, says) in [
        ("{}\n".to_owned(), "line 1: this is no export"),
        ("{\"format\":\"holo state\",\"version\":9}\n".to_owned(), "line 1: only exports of version 1"),
        (format!("{header}{{"), "line 2: EOF"),
        (format!("{header}{{\"table\":\"sqlite_schema\",\"row\":{{}}}}"), "line 2: there is no table"),
        (format!("{header}{{\"table\":\"run\"}}"), "line 2: it has no row"),
        (format!("{header}{{\"table\":\"run\",\"row\":{{\"x\\\"\":1}}}}"), "line 2: there is no column"),
        (format!("{header}{{\"table\":\"run\",\"row\":{{\"id\":[1]}}}}"), "line 2: id: [1] is neither"),
        (format!("{header}{{\"table\":\"run\",\"row\":{{}}}}"), "line 2: NOT NULL"),
    ] {
        let (_folder, state) = state();
        let error = state.import(&mut text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(says), "{error}");
        assert!(state.tables().unwrap().iter().all(|table| table.rows == 0));
    }
}

#[test]
fn a_file_that_is_no_database_is_damage_and_stays_as_it_is() {
    let (folder, state) = state();
    let path = folder.path().join("state.db");
    fs::write(&path, "no database".repeat(100)).unwrap();
    for state in [&state, &Database::snapshot(path.clone()), &Database::read_only(path.clone())] {
        let error = state.sent_values().unwrap_err();
        assert!(error.damage().is_some() && error.to_string().contains("`holo state repair`"), "{error}");
        assert!(state.write_sent_values(&[value("a", "1")], [], Durability::Disk).is_err());
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "no database".repeat(100));
}

#[test]
fn a_database_of_a_later_version_is_left_alone() {
    let (folder, state) = state();
    put(&state, &[value("a", "1")]);
    Connection::open(folder.path().join("state.db")).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let error = Database::new(folder.path().join("state.db")).sent_values().unwrap_err();
    assert!(error.to_string().contains("a later version of holo has written it (schema 2, known is 1)"), "{error}");
}

#[test]
fn a_database_without_the_table_of_repairs_gets_it() {
    let (folder, state) = state();
    put(&state, &[value("a", "1")]);
    state.close();
    Connection::open(folder.path().join("state.db")).unwrap().execute_batch("DROP TABLE repair").unwrap();
    let state = Database::new(folder.path().join("state.db"));
    assert_eq!(state.repairs().unwrap(), []);
    state.write_repairs(&[("file:/a".into(), "{}".to_owned())], &[]).unwrap();
    assert_eq!(state.repairs().unwrap(), [("file:/a".into(), "{}".to_owned())]);
    assert_eq!(state.sent_values().unwrap().len(), 1);
}

#[test]
fn repair_saves_the_rows_around_the_damage() {
    let (folder, state) = state();
    let values: Vec<SentValue> =
        (0..2000).map(|number| value(&format!("entity:{number:04}"), "x".repeat(50))).collect();
    put(&state, &values);
    state.begin_run("1", "{}", &[]).unwrap();
    state.close();
    let path = folder.path().join("state.db");
    Connection::open(&path).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut content = Vec::new();
    file.read_to_end(&mut content).unwrap();
    let at = content.windows(11).position(|window| window == b"entity:1000").unwrap() as u64;
    file.seek(SeekFrom::Start(at / 4096 * 4096)).unwrap();
    file.write_all(&[0xaa; 4096]).unwrap();
    assert!(!state.integrity().unwrap().is_empty());
    let repaired = state.repair(".damaged").unwrap();
    assert_eq!(repaired.incomplete, ["sent_value"]);
    let saved = state.sent_values().unwrap();
    assert!(saved.len() > 1900 && saved.len() < 2000, "{}", saved.len());
    assert_eq!(state.runs(None, 10).unwrap().len(), 1);
    assert!(state.integrity().unwrap().is_empty());
    assert!(repaired.damaged.ends_with("state.db.damaged") && repaired.damaged.exists());
}

#[test]
fn what_cannot_be_opened_says_why() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let error = Database::new(folder.path().join("file/state.db")).begin_run("1", "{}", &[]).unwrap_err();
    assert!(error.to_string().ends_with("/file/state.db: not a directory"), "{error}");
    let path = folder.path().join("state.db");
    fs::create_dir(&path).unwrap();
    let error = Database::new(path.clone()).begin_run("1", "{}", &[]).unwrap_err();
    assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
}

#[test]
fn a_uri_escapes_every_byte_with_a_meaning() {
    assert_eq!(immutable_uri(Path::new("/a b?c#d%\u{fc}")), "file:/a%20b%3fc%23d%25%c3%bc?immutable=1");
}

#[test]
fn shared_reads_see_one_state_until_this_process_writes() {
    let (folder, one) = state();
    let two = Database::new(folder.path().join("state.db"));
    let put = |state: &Database, key, value| {
        state.write_records(&[record("store", key, Some(value))], Durability::Disk).unwrap();
    };
    let seen = || one.record("store", "a").unwrap().unwrap_or_default();
    one.begin_reads();
    assert_eq!(seen(), "");
    put(&two, "a", "1");
    assert_eq!(seen(), "1");
    put(&two, "a", "2");
    assert_eq!(seen(), "1");
    put(&one, "b", "");
    assert_eq!(seen(), "2");
    put(&two, "a", "3");
    assert_eq!(seen(), "2");
    one.end_reads();
    assert_eq!(seen(), "3");
    // Nothing keeps the files in use.
    one.begin_reads();
    one.write_records(&[record("store", "a", None), record("store", "b", None)], Durability::Process).unwrap();
    assert_eq!(seen(), "");
    one.tidy().unwrap();
    assert!(names(&folder).is_empty() && seen().is_empty());
    one.end_reads();
}

#[test]
fn database_removed_by_another_process_is_opened_again() {
    let (folder, one) = state();
    let two = Database::new(folder.path().join("state.db"));
    put(&one, &[value("a", "1")]);
    assert_eq!(two.sent_values().unwrap().len(), 1);
    one.write_sent_values(&[], [(BStr::new("a"), BStr::new("name"))], Durability::Process).unwrap();
    one.tidy().unwrap();
    assert!(names(&folder).is_empty() && two.sent_values().unwrap().is_empty());
    put(&two, &[value("b", "2")]);
    assert_eq!(one.sent_values().unwrap(), [value("b", "2")]);
}

#[test]
fn concurrent_writers_lose_no_record() {
    // The first writes matter most, because all of them find no database and create it.
    for (round, records) in std::iter::repeat_n(1, 100).chain([50]).enumerate() {
        let (folder, state) = state();
        let barrier = std::sync::Barrier::new(5);
        thread::scope(|scope| {
            for thread in 0..4 {
                let state = Database::new(folder.path().join("state.db"));
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    for number in 0..records {
                        let key = format!("{thread}-{number}");
                        state.write_records(&[record("p", &key, Some("1"))], Durability::Process).unwrap();
                    }
                });
            }
            let reader = Database::read_only(folder.path().join("state.db"));
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                for _ in 0..20 {
                    reader.record_keys("p").unwrap();
                }
            });
        });
        assert_eq!(state.record_keys("p").unwrap().len(), 4 * records, "round {round}");
    }
}

#[test]
fn records_are_listed_by_store_and_prefix() {
    let (_folder, state) = state();
    let put = |store: &str, keys: &[&str]| {
        let changes: Vec<RecordChange> = keys.iter().map(|key| record(store, key, Some("1"))).collect();
        state.write_records(&changes, Durability::Process).unwrap();
    };
    put("p", &["a:1", "a:2", "ab:1", "b:1"]);
    put("p/kind", &["a:9"]);
    let listed = |prefix: &str| {
        let mut keys = Vec::new();
        state.each_record("p", prefix, |key, _| keys.push(key.to_owned())).unwrap();
        keys
    };
    assert_eq!(
        (listed("a:"), listed("b"), listed("")),
        (vec!["a:1".into(), "a:2".into()], vec!["b:1".into()], state.record_keys("p").unwrap())
    );
    let changes = [record("p", "b:1", Some("2")), record("p", "a:1", None), record("p", "missing", None)];
    state.write_records(&changes, Durability::Disk).unwrap();
    assert_eq!(state.record("p", "b:1").unwrap().as_deref(), Some("2"));
    assert_eq!(state.record("p", "a:1").unwrap(), None);
    assert_eq!(state.record_stores().unwrap(), ["p", "p/kind"]);
}

#[test]
fn content_is_removed_with_its_last_user() {
    let (_folder, state) = state();
    state.write_blobs("p", [("d1", &b"one"[..]), ("d2", b"two")]).unwrap();
    state.write_blobs("p", [("d1", &b"one"[..])]).unwrap();
    assert!(state.share_blob("q", "d1").unwrap() && !state.share_blob("q", "d3").unwrap());
    state.keep_blobs("p", |_| false).unwrap();
    assert_eq!(state.blob("d2").unwrap(), None);
    assert!(!state.has_blob("p", "d1").unwrap() && state.has_blob("q", "d1").unwrap());
    assert_eq!(state.blob("d1").unwrap().as_deref(), Some(&b"one"[..]));
    state.keep_blobs("q", |digest| digest == "d2").unwrap();
    assert_eq!(state.blob("d1").unwrap(), None);
    assert!(state.integrity().unwrap().is_empty());
}

mod runs {
    use super::*;

    fn limits(oldest: Option<&str>, size: u64) -> RunLimits<'_> {
        RunLimits { oldest, size }
    }

    fn ids(state: &Database) -> Vec<String> {
        state.runs(None, 100).unwrap().into_iter().map(|run| run.id).collect()
    }

    fn run(state: &Database, id: &str, bytes: usize, limits: &RunLimits<'_>) {
        state.begin_run(id, "{}", &[]).unwrap();
        state.end_run(id, &["x".repeat(bytes)], "{}", limits).unwrap();
    }

    #[test]
    fn entries_come_back_in_order_and_by_text() {
        let (_folder, state) = state();
        state.begin_run("1", "began", &[]).unwrap();
        state.append_run_entries("1", &["a b".to_owned(), "c".to_owned()], Durability::Process).unwrap();
        state.end_run("1", &["d b".to_owned()], "ended", &limits(None, 1000)).unwrap();
        let [run] = &*state.runs(None, 10).unwrap() else { panic!("one run") };
        assert_eq!((&*run.began, run.ended.as_deref()), ("began", Some("ended")));
        assert_eq!(state.run_entries(run.sequence, &[]).unwrap(), ["a b", "c", "d b"]);
        assert_eq!(state.run_entries(run.sequence, &["b".into()]).unwrap(), ["a b", "d b"]);
        assert_eq!(state.run_entries(run.sequence, &["c".into(), "d".into()]).unwrap(), ["c", "d b"]);
    }

    #[test]
    fn the_order_is_that_of_beginnings_whatever_the_clock_said() {
        let (_folder, state) = state();
        for id in ["2030", "2026", "2027"] {
            run(&state, id, 1, &limits(None, 1000));
        }
        assert_eq!(ids(&state), ["2027", "2026", "2030"]);
        let before = state.runs(None, 1).unwrap()[0].sequence;
        assert_eq!(state.runs(Some(before), 1).unwrap()[0].id, "2026");
        assert_eq!(state.runs_by_prefix("202").unwrap().len(), 2);
        assert!(state.runs_by_prefix("202%").unwrap().is_empty());
    }

    #[test]
    fn runs_beyond_the_limits_are_removed_with_their_entries() {
        let (_folder, state) = state();
        for id in ["1", "2", "3", "4"] {
            run(&state, id, 1000, &limits(None, 3100));
        }
        assert_eq!(ids(&state), ["4", "3", "2"]);
        run(&state, "5", 1, &limits(Some("4"), 10_000));
        assert_eq!(ids(&state), ["5", "4"]);
        run(&state, "6", 9000, &limits(None, 10));
        assert_eq!(ids(&state), ["6"], "the newest stays, however large");
        let entries = state.tables().unwrap().into_iter().find(|table| table.name == "run_entry").unwrap();
        assert_eq!(entries.rows, 1);
        assert!(state.integrity().unwrap().is_empty());
    }

    #[test]
    fn an_idle_run_leaves_only_its_record() {
        let (_folder, state) = state();
        state.begin_run("1", "{}", &[]).unwrap();
        assert_eq!(state.unfinished_runs().unwrap().len(), 1);
        state.end_idle_run("1", "idle 1").unwrap();
        state.begin_run("2", "{}", &[]).unwrap();
        state.end_idle_run("2", "idle 2").unwrap();
        assert!(ids(&state).is_empty());
        assert_eq!(state.idle_run().unwrap().as_deref(), Some("idle 2"));
    }
}

mod generations {
    use super::*;
    use crate::Input;

    fn input(path: &str, value: &str) -> Input {
        Input { path: path.into(), value: value.to_owned(), content: Some(value.repeat(2)), stamp: None }
    }

    fn values(state: &Database, generation: u32) -> Vec<(BString, String)> {
        state.inputs(generation).unwrap().into_iter().map(|input| (input.path, input.value)).collect()
    }

    #[test]
    fn inputs_of_earlier_generations_stay_until_these_are_removed() {
        let (_folder, state) = state();
        assert_eq!((state.next_generation().unwrap(), state.inputs(1).unwrap()), (1, Vec::new()));
        state.add_generation(1, "first", &[], &[input("a", "1"), input("b", "1"), input("c", "1")]).unwrap();
        state.add_generation(2, "second", &["b".into()], &[input("a", "2")]).unwrap();
        state.add_generation(3, "third", &[], &[input("a", "3"), input("b", "3")]).unwrap();
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(BString, String)> {
            pairs.iter().map(|(path, value)| ((*path).into(), (*value).to_owned())).collect()
        };
        assert_eq!(values(&state, 1), pairs(&[("a", "1"), ("b", "1"), ("c", "1")]));
        assert_eq!(values(&state, 2), pairs(&[("a", "2"), ("c", "1")]));
        assert_eq!(values(&state, 3), pairs(&[("a", "3"), ("b", "3"), ("c", "1")]));

        state.stamp_inputs(&[("a".into(), Some(b"x".to_vec()))]).unwrap();
        let stamps = |generation| -> Vec<Option<Vec<u8>>> {
            state.inputs(generation).unwrap().into_iter().map(|input| input.stamp).collect()
        };
        assert_eq!((stamps(3), stamps(2)), (vec![Some(b"x".to_vec()), None, None], vec![None, None]));

        state.remove_generations(&[1]).unwrap();
        assert_eq!(state.generations().unwrap(), [(2, "second".to_owned()), (3, "third".to_owned())]);
        assert_eq!(values(&state, 2), pairs(&[("a", "2"), ("c", "1")]));
        let mut contents = state.input_contents().unwrap();
        contents.sort();
        assert_eq!(contents, ["11", "22", "33"], "a and b of the first are gone");
        state.remove_generations(&[2, 3]).unwrap();
        assert_eq!(state.next_generation().unwrap(), 4, "numbers are not reused");
    }
}
