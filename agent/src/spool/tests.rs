//! Tests that events are kept, merged and not lost.

use super::*;
use crate::event::{Header, RunEvent};

fn event(number: i64) -> Event {
    let time = Timestamp::from_second(1_800_000_000 + number).unwrap();
    let what = What::Drifted { entity: format!("file:/{number}"), reason: None, writer: None };
    Event { header: Header::new(time, u64::try_from(number).unwrap()), id: format!("e{number}"), what }
}

/// Returns the number of events on disk, including merged ones.
fn total(path: &Path) -> u64 {
    let mut counts = Counts::default();
    Spool::read(path).unwrap().iter().for_each(|event| counts.add(event));
    counts.total()
}

#[test]
fn events_are_there_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("below/events.jsonl");
    for number in 0..3 {
        // Like separate processes.
        Spool::open(&path, 1 << 20).record(event(number));
    }
    assert_eq!(Spool::read(&path).unwrap(), [event(0), event(1), event(2)]);
}

#[test]
fn a_run_is_known_by_its_beginning_on_disk_or_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let began = Timestamp::from_nanosecond(1_800_000_000_123_456_789).unwrap();
    let run = || Event { what: What::Run(Box::new(run_that_began(began))), ..event(0) };
    let other = Timestamp::from_second(1_800_000_000).unwrap();
    let is_known = |spool: &Spool| (spool.has_run(began), spool.has_run(other));
    fs::create_dir(&path).unwrap();
    let mut spool = Spool::open(&path, 1 << 20);
    assert_eq!(is_known(&spool), (false, false));
    spool.record(run());
    assert_eq!((is_known(&spool), spool.waiting.len()), ((true, false), 1));
    fs::remove_dir(&path).unwrap();
    spool.retry();
    assert_eq!((is_known(&Spool::open(&path, 1 << 20)), spool.waiting.len()), ((true, false), 0));
}

fn run_that_began(began: Timestamp) -> RunEvent {
    let text = format!(r#"{{"verb":"apply","result":"unchanged","began":"{began}","duration":0.1}}"#);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_line_that_was_cut_off_takes_no_other_one_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    Spool::open(&path, 1 << 20).record(event(0));
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], &whole[..whole.len() / 2]].concat()).unwrap();
    Spool::open(&path, 1 << 20).record(event(2));
    assert_eq!(Spool::read(&path).unwrap(), [event(0), event(2)]);
}

#[test]
fn it_never_grows_beyond_its_limit_and_counts_what_it_merges() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let mut spool = Spool::open(&path, 2000);
    for number in 0..500 {
        spool.record(event(number));
        assert!(fs::metadata(&path).unwrap().len() <= 2000);
        assert_eq!(total(&path), u64::try_from(number).unwrap() + 1);
    }
    let kept = Spool::read(&path).unwrap();
    let What::Merged(counts) = &kept[0].what else { panic!("{kept:?}") };
    assert_eq!(counts.from, Some(event(0).header.time));
    // The latest events are unchanged.
    assert_eq!(kept.last(), Some(&event(499)));
    assert!(kept.len() > 3, "{kept:?}");
}

#[test]
fn what_cannot_be_written_is_kept_until_it_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    fs::create_dir(&path).unwrap();
    let mut spool = Spool::open(&path, 1 << 20);
    let all: u64 = 2500;
    for number in 0..all {
        spool.record(event(i64::try_from(number).unwrap()));
    }
    assert!(spool.obstacle().unwrap().contains("events.jsonl: "), "{:?}", spool.obstacle());
    assert!(spool.waiting.len() <= WAITING);
    fs::remove_dir(&path).unwrap();
    spool.retry();
    assert_eq!((spool.obstacle(), total(&path)), (None, all));
    assert_eq!(Spool::read(&path).unwrap().last().unwrap().id, format!("e{}", all - 1));
}

#[test]
fn what_waits_is_there_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let (path, refuge) = (folder.path().join("events.jsonl"), folder.path().join("run/events.jsonl"));
    let open = || Spool::open(&path, 1 << 20).with_refuge(refuge.clone());
    open().record(event(0));
    assert!(!refuge.exists());
    let aside = folder.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    fs::create_dir(&path).unwrap();
    // Each is an agent that crashes.
    for number in 1..4 {
        open().record(event(number));
    }
    let all = |from: i64| (from..4).map(event).collect::<Vec<_>>();
    assert_eq!(Spool::read(&refuge).unwrap(), all(1));
    // Another crash: the first of them is already on disk.
    fs::remove_dir(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    Spool::open(&path, 1 << 20).record(event(1));
    let mut spool = open();
    spool.retry();
    assert_eq!((Spool::read(&path).unwrap(), spool.obstacle(), refuge.exists()), (all(0), None, false));
}

#[test]
fn what_waits_nowhere_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (path, refuge) = (folder.path().join("events.jsonl"), folder.path().join("run"));
    fs::create_dir(&path).unwrap();
    fs::create_dir(&refuge).unwrap();
    let mut spool = Spool::open(&path, 1 << 20).with_refuge(refuge);
    spool.record(event(0));
    let obstacle = spool.obstacle().unwrap();
    assert!(obstacle.contains("events.jsonl: ") && obstacle.contains("/run: "), "{obstacle}");
}

#[test]
fn a_full_disk_leaves_whole_lines_only() {
    // A device on which every write fails.
    if File::open("/dev/full").is_err() {
        return;
    }
    let mut spool = Spool::open("/dev/full", 1 << 20);
    spool.record(event(0));
    assert!(spool.obstacle().is_some());
    assert_eq!(spool.waiting.len(), 1);
}
