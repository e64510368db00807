//! Sessions with misbehaving plugins: whatever one entity does to its plugin, the others are applied.

use bstr::ByteSlice;
use holo_testing::{Run, ScratchRoot, binaries::built};
use libtest_mimic::Trial;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        session_is_one_process_for_all_entities,
        stray_output_of_a_plugin_is_shown,
        entity_that_kills_the_plugin_fails_alone,
        entity_that_kills_the_plugin_before_beginning_fails_alone,
        plugin_that_dies_once_fails_no_entity,
        failure_is_reported_in_the_plugins_words_only,
        slow_entity_fails_alone,
        timeout_names_the_current_entity,
        fail_fast_stops_within_a_set,
        unanswered_entity_fails,
        daemon_holding_the_pipes_is_not_waited_for,
        plugin_that_keeps_dying_is_given_up,
        plugin_that_stops_reading_ends_with_the_run,
    ]
}

/// Returns a root with an entity for each name.
fn root(names: &[&str]) -> ScratchRoot {
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("test-scenarios/plugins/session");
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .holorc(&*format!("plugin s={}\n", plugin.display()))
        .dir("usr/share/holo/s");
    names.iter().for_each(|name| root.write(format!("usr/share/holo/s/{name}"), ""));
    root
}

/// Runs an apply, which must end soon and leave no processes or files behind.
#[track_caller]
fn apply(root: &ScratchRoot, arguments: &[&str]) -> Run {
    let began = Instant::now();
    let run = root.holo(&[&["apply"], arguments].concat());
    assert!(began.elapsed() < Duration::from_secs(40), "{run}");
    assert!(!run.stderr_lossy().contains("panicked"), "{run}");
    for folder in ["tmp", "run"] {
        assert_eq!(std::fs::read_dir(root.join(folder)).unwrap().count(), 0, "something is left in {folder}\n{run}");
    }
    run
}

fn did(run: &Run) -> Vec<String> {
    let lines = run.stdout.lines().filter_map(|line| line.strip_prefix(b"did s:"));
    lines.map(|line| line.to_str_lossy().into_owned()).collect()
}

fn session_is_one_process_for_all_entities() {
    let run = apply(&root(&["a", "b-talks", "d-unchanged"]), &[]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    assert_eq!(did(&run), ["a", "b-talks"]);
    assert!(run.stdout_lossy().contains("Working on s:b-talks\n\ns:b-talks talks\ndid"), "{run}");
    assert!(!run.stdout_lossy().contains("d-unchanged"), "{run}");
}

/// Such a line is shown with the entity that is current when it is read, which need not be the one that printed it.
fn stray_output_of_a_plugin_is_shown() {
    let run = apply(&root(&["a", "c-strays"]), &[]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    assert_eq!(did(&run), ["a", "c-strays"]);
    assert!(run.stdout_lossy().contains("s:c-strays strays\n"), "{run}");
}

fn entity_that_kills_the_plugin_fails_alone() {
    for (name, reason) in [
        ("dies", "!! signal: killed\n"),
        ("exits", "!! exit status 7\n"),
        ("garbage", "!! cannot understand the plugin's answer \"this is no JSON\": "),
        ("unknown-answer", "!! cannot understand the plugin's answer \"{\"answer\":\"frobnicate\""),
    ] {
        let middle = format!("m-{name}");
        let run = apply(&root(&["a", &middle, "z"]), &[]);
        assert_eq!(run.status, Some(1), "{run}");
        assert_eq!(did(&run), ["a", "z"], "{name}\n{run}");
        assert!(run.stderr_lossy().contains(reason), "{run}");
        assert_eq!(run.stderr.lines().filter(|line| line.starts_with(b"!! ")).count(), 1, "{run}");
    }
}

fn entity_that_kills_the_plugin_before_beginning_fails_alone() {
    for verb in ["apply", "check"] {
        let root = root(&["a", "b-silently", "c", "d-silently", "e-silently", "f", "g-unchanged"]);
        let run = root.holo(&[verb, "--json"]);
        assert_eq!(run.status, Some(1), "{run}");
        let failed: Vec<String> = run
            .stdout
            .lines()
            .map(|line| serde_json::from_slice::<serde_json::Value>(line).unwrap())
            .filter(|line| line["result"] == "failed")
            .map(|line| format!("{} {}", line["id"].as_str().unwrap(), line["reason"].as_str().unwrap()))
            .collect();
        assert_eq!(
            failed,
            ["s:b-silently signal: killed", "s:d-silently signal: killed", "s:e-silently signal: killed"],
            "{run}"
        );
    }
}

fn plugin_that_dies_once_fails_no_entity() {
    let run = apply(&root(&["a", "b-once", "c"]), &[]);
    assert!(run.success(), "{run}");
    assert_eq!(did(&run), ["a", "b-once", "c"]);
}

fn failure_is_reported_in_the_plugins_words_only() {
    let run = apply(&root(&["a", "m-fails", "z"]), &[]);
    assert_eq!(run.status, Some(1), "{run}");
    assert_eq!(run.stderr, "!! s:m-fails fails\n", "{run}");
    assert_eq!(did(&run), ["a", "z"]);
}

fn slow_entity_fails_alone() {
    let root = root(&["a", "m-hangs", "z"]).env("HOLO_TIMEOUT", "2s");
    let run = apply(&root, &[]);
    assert_eq!((run.status, did(&run)), (Some(1), vec!["a".to_owned(), "z".to_owned()]), "{run}");
    assert_eq!(run.stderr, "!! timed out after 2s\n", "{run}");
    // A plugin that does not even begin is not given a second attempt.
    let run = apply(&self::root(&["a", "stops-reading", "z"]).env("HOLO_TIMEOUT", "2s"), &[]);
    assert_eq!(run.status, Some(1), "{run}");
    assert_eq!(run.stderr, "!! timed out after 2s\n".repeat(3), "{run}");
}

fn timeout_names_the_current_entity() {
    let run = apply(&root(&["a", "m-hangs", "z"]), &["--timeout", "2s"]);
    assert_eq!((run.status, did(&run)), (Some(1), vec!["a".to_owned()]), "{run}");
    assert!(run.stderr.ends_with(b"!! The time limit of this run was exceeded while s:m-hangs was at work\n"), "{run}");
}

fn fail_fast_stops_within_a_set() {
    let root = root(&["a", "m-fails", "z"]);
    for arguments in [&["--fail-fast"][..], &["--fail-fast", "--jobs", "8"]] {
        let run = apply(&root, arguments);
        assert_eq!((run.status, did(&run)), (Some(1), vec!["a".to_owned()]), "{run}");
    }
    let run = apply(&root, &["--fail-fast", "--dry-run"]);
    assert!(run.stdout_lossy().contains("s:m-fails") && !run.stdout_lossy().contains("s:z"), "{run}");
}

fn unanswered_entity_fails() {
    let run = apply(&root(&["a", "m-forgotten", "z"]), &[]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("did not report the result"), "{run}");
    assert_eq!(did(&run), ["a", "z"]);
}

fn daemon_holding_the_pipes_is_not_waited_for() {
    let run = apply(&root(&["a", "m-daemon", "z"]), &[]);
    assert!(run.success(), "{run}");
    assert_eq!(did(&run), ["a", "m-daemon", "z"]);
}

fn plugin_that_keeps_dying_is_given_up() {
    let run = apply(&root(&["a", "never-begins", "z"]), &[]);
    assert_eq!(run.status, Some(1), "{run}");
    assert_eq!(run.stderr, "!! exit status 5\n".repeat(3), "{run}");
}

fn plugin_that_stops_reading_ends_with_the_run() {
    // More than the capacity of a pipe.
    let names: Vec<String> = (0..2000).map(|number| format!("{}{number}", "x".repeat(100))).collect();
    let root = root(&names.iter().map(String::as_str).chain(["stops-reading"]).collect::<Vec<_>>());
    let run = apply(&root, &["--timeout", "2s"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("!! The time limit of this run was exceeded"), "{run}");
}
