//! Simulations of the agent over hours and weeks.

mod stage;

use crate::config::{Config, Mode};
use crate::event::{Event, RunEvent, RunResult, WatchState, What};
use holo_testing::random::{Random, cases};
use stage::{Play, Stage};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_day_has_a_run_every_half_hour_and_one_watch() {
    let play = Stage::default().play(24 * HOUR, Vec::new());
    let runs = play.times("apply");
    assert_eq!(runs[0], 0);
    assert!((48..=50).contains(&runs.len()), "{runs:?}");
    assert!(runs[1..].windows(2).all(|pair| pair[1] - pair[0] == 1800), "{runs:?}");
    assert_eq!(play.words()[..4], ["apply", "watch --apply", "apply", "apply"]);
    assert_eq!(play.times("watch --apply").len(), 1);
    assert_eq!(run_events(&play).len(), runs.len());
}

#[test]
fn outside_of_the_window_nothing_is_changed_and_at_its_opening_there_is_a_run() {
    let config = Config { maintenance: Some("hours=2-5 days=mon-fri".parse().unwrap()), ..Config::default() };
    let play = Stage { config, ..Stage::default() }.play(4 * 24 * HOUR, Vec::new());
    // Friday and Monday.
    let is_open = |time: u64| [0, 3].contains(&(time / 86_400)) && (7_200..18_000).contains(&(time % 86_400));
    let applies = play.times("apply");
    assert!(applies.iter().all(|&time| is_open(time)), "{applies:?}");
    for opening in [7_200, 3 * 86_400 + 7_200] {
        assert!(applies.iter().any(|&time| (opening..opening + 3).contains(&time)), "{applies:?}");
    }
    assert!((12..=14).contains(&applies.len()), "{applies:?}");
    // A watch that may make changes ends with the window.
    let watches = play.times("watch --apply");
    assert!(watches.iter().all(|&time| is_open(time)), "{watches:?}");
    assert!(play.times("end watch").contains(&18_000));
    assert!(play.times("check").len() > 150 && play.times("watch").contains(&18_001));
}

#[test]
fn a_clock_that_is_set_opens_and_closes_the_window_at_once() {
    let config = Config { maintenance: Some("hours=2-5 days=mon-fri".parse().unwrap()), ..Config::default() };
    let sets = vec![(10 * MINUTE, 7200), (20 * MINUTE, -7200), (40 * MINUTE, 2 * 7200), (50 * MINUTE, 86_400 * 2)];
    let play = Stage { config, sets, ..Stage::default() }.play(HOUR, Vec::new());
    let is_open = |time: u64| (600..1200).contains(&time) || (2400..3000).contains(&time);
    for word in ["apply", "watch --apply"] {
        let times = play.times(word);
        assert!(times.len() >= 2 && times.iter().all(|&time| is_open(time)), "{word}: {:?}", play.log);
        // The watch without changes must end first, which takes a second.
        assert!(
            [601, 2401].iter().all(|begin| times.iter().any(|time| (*begin..begin + 30).contains(time))),
            "{times:?}"
        );
    }
    assert!([1200, 3000].iter().all(|end| play.times("end watch").contains(end)), "{:?}", play.log);
}

#[test]
fn random_configurations_never_have_two_children_nor_changes_where_there_may_be_none() {
    cases(40, |random: &mut Random| {
        let mut seconds = |most: usize| Duration::from_secs(1 + u64::try_from(random.below(most)).unwrap());
        let (interval, run, watch, end) = (MINUTE + seconds(4000), seconds(3000), seconds(9000), seconds(20));
        let timeout = seconds(4000);
        let mode = if random.chance(30) { Mode::Report } else { Mode::Enforce };
        let from = random.below(23);
        let schedule = format!("hours={from}-{}", from + 1);
        let maintenance = random.chance(50).then(|| schedule.parse().unwrap());
        let config = Config { interval, timeout, mode, maintenance, watch: random.chance(80), ..Config::default() };
        let code = *random.pick(&[0, 0, 1, 255]);
        let play = Stage { config: config.clone(), run: (run, code), watch, end, ..Stage::default() };
        let play = play.play(30 * HOUR, Vec::new());
        let open = u64::try_from(from).unwrap() * 3600;
        for (time, word) in &play.log {
            let is_change = word == "apply" || word == "watch --apply";
            let is_open = config.maintenance.is_none() || (open..open + 3600).contains(&(time % 86_400));
            assert!(!is_change || (is_open && mode == Mode::Enforce), "{time} {word}: {config:?}");
        }
        // It neither stalls nor runs without a pause.
        let runs = play.log.iter().filter(|(_, word)| word == "apply" || word == "check").count();
        let longest = interval.as_secs() * 3 / 2 + run.min(timeout).as_secs() + end.as_secs() + 1;
        assert!(runs as u64 >= 30 * 3600 / longest, "{runs} runs: {config:?}");
        assert!(play.log.len() < 30 * 3600, "{}", play.log.len());
        assert!(!play.words().iter().any(|word| word.starts_with("kill")));
    });
}

#[test]
fn a_watch_that_ends_by_itself_is_started_slower_and_slower() {
    let stage = Stage { watch: Duration::ZERO, ..Stage::default() };
    let watches = stage.play(20 * MINUTE, Vec::new()).times("watch --apply");
    let pauses: Vec<u64> = watches.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses[..7], [1, 2, 4, 8, 16, 32, 64], "{watches:?}");
    assert!(watches.len() <= 12, "{watches:?}");
}

/// Returns the states of watches in events, with the reasons.
fn watch_events(play: &Play) -> Vec<(WatchState, Option<&str>)> {
    let mut states = Vec::new();
    for event in &play.events {
        if let What::Watch { state, reason } = &event.what {
            states.push((*state, reason.as_deref()));
        }
    }
    states
}

#[test]
fn a_watch_that_hangs_is_killed_within_a_minute_and_started_again() {
    let stage = Stage { hang: 10 * MINUTE, ..Stage::default() };
    let play = stage.play(15 * MINUTE, Vec::new());
    let (killed, watches) = (play.times("kill watch"), play.times("watch --apply"));
    assert!(killed.len() == 1 && (610..670).contains(&killed[0]), "{:?}", play.log);
    assert!(watches.len() == 2 && watches[1] - killed[0] <= 2, "{:?}", play.log);
    let reason = Some("it did not answer for 54s");
    let states = [(WatchState::Started, None), (WatchState::Hung, reason), (WatchState::Restarted, reason)];
    assert_eq!(watch_events(&play), states);
    // So is one that hangs during a run.
    let config = Config { interval: 10 * MINUTE, ..Config::default() };
    let stage = Stage { config, hang: MINUTE, ..Stage::default() };
    let play = stage.play(15 * MINUTE, Vec::new());
    assert_eq!(play.words()[..3], ["apply", "watch --apply", "kill watch"], "{:?}", play.log);
    // It takes the request, and does not begin.
    let config = Config { interval: 70 * Duration::from_secs(1), ..Config::default() };
    let stage = Stage { config, hang: 90 * Duration::from_secs(1), ..Stage::default() };
    let play = stage.play(3 * MINUTE, Vec::new());
    let runs = run_events(&play);
    assert_eq!((runs[1].result, runs[1].error.as_deref()), (RunResult::Error, reason), "{:?}", play.log);
}

#[test]
fn a_run_that_takes_too_long_in_a_watch_ends_with_the_watch() {
    let config = Config { interval: 10 * MINUTE, timeout: MINUTE, ..Config::default() };
    let play = Stage { config, run: (2 * MINUTE, 0), ..Stage::default() }.play(20 * MINUTE, Vec::new());
    let words = ["apply", "end apply", "watch --apply", "apply", "end watch", "watch --apply"];
    assert_eq!(play.words()[..6], words, "{:?}", play.log);
    let run = run_events(&play)[1];
    assert_eq!((run.result, run.error.as_deref()), (RunResult::Interrupted, Some("it took too long")));
    assert_eq!(watch_events(&play), [(WatchState::Started, None)]);
}

#[test]
fn a_run_that_cannot_begin_is_tried_again_before_its_time() {
    let config = Config { watch: false, interval: 6 * HOUR, ..Config::default() };
    let stage = Stage { config, run: (Duration::ZERO, 255), ..Stage::default() };
    let runs = stage.play(HOUR, Vec::new()).times("apply");
    assert_eq!(runs[..5], [0, 16, 48, 112, 240]);
    assert!(runs.len() > 12, "{runs:?}");
}

/// An entity that is only checked, or that its plugin defers, is no reason to repeat the run.
#[test]
fn apply_with_pending_changes_is_no_error() {
    let config = Config { watch: false, interval: 6 * HOUR, ..Config::default() };
    let stage = Stage { config, run: (Duration::ZERO, 3), ..Stage::default() };
    let play = stage.play(HOUR, Vec::new());
    assert_eq!(play.times("apply"), [0]);
    let What::Run(run) = &play.events[0].what else { panic!("{:?}", play.events) };
    assert_eq!((run.result, run.error.as_deref()), (RunResult::Pending, None));
}

#[test]
fn what_takes_too_long_is_asked_to_end_and_killed_half_an_hour_later() {
    let config = Config { watch: false, timeout: MINUTE, ..Config::default() };
    let stage = Stage { config, run: (Duration::MAX, 0), end: Duration::MAX, ..Stage::default() };
    let play = stage.play(50 * MINUTE, Vec::new());
    assert_eq!(play.log[..3], [(0, "apply".into()), (60, "end apply".into()), (1860, "kill apply".into())]);
    let What::Run(run) = &play.events[0].what else { panic!("{:?}", play.events) };
    assert_eq!((run.result, run.error.as_deref()), (RunResult::Interrupted, Some("it took too long")));
}

#[test]
fn the_end_waits_for_a_child_that_cannot_end_at_once() {
    let stage = Stage { run: (Duration::MAX, 0), end: 10 * MINUTE, ..Stage::default() };
    let play = stage.play(MINUTE, Vec::new());
    assert_eq!(play.words(), ["apply", "end apply"]);
    let What::Run(run) = &play.events[0].what else { panic!("{:?}", play.events) };
    assert_eq!((run.result, run.duration), (RunResult::Interrupted, 660.0));
}

#[test]
fn another_configuration_counts_at_once() {
    let config = Config { interval: 24 * HOUR, ..Config::default() };
    let report = Config { mode: Mode::Report, ..config.clone() };
    let quiet = Config { watch: false, interval: MINUTE, ..report.clone() };
    let inputs = vec![(10 * MINUTE, report), (20 * MINUTE, quiet)];
    let play = Stage { config, ..Stage::default() }.play(30 * MINUTE, inputs);
    assert_eq!(play.words()[..5], ["apply", "watch --apply", "end watch", "watch", "end watch"]);
    assert!(play.words()[5..].iter().all(|word| *word == "check"), "{:?}", play.log);
    assert!((8..=11).contains(&play.times("check").len()), "{:?}", play.log);
}

#[test]
fn a_run_whose_agent_has_crashed_is_known_by_its_record_and_counted_once() {
    let tally = "{\"unchanged\":0,\"changed\":2,\"pending\":0,\"refused\":0,\"skipped\":0,\"failed\":0}";
    let line = |run: &str, result: &str, trigger: &str, verb: &str| {
        format!(
            "{{\"version\":1,\"event\":\"run\",\"run\":\"{run}\",\"result\":\"{result}\",\"tally\":{tally},\
             \"trigger\":\"{trigger}\",\"command\":[\"holo\",\"{verb}\",\"--json\"]}}"
        )
    };
    let last = Some("{\"begun\":\"2026-11-19T23:59:00Z\"}".to_owned());
    let history = vec![
        line("w", "changed", "holo-agent", "watch"),
        line("b", "changed", "holo-agent", "apply"),
        line("a", "interrupted", "holo-agent", "apply"),
        line("p", "failed", "somebody", "apply"),
    ];
    let play = Stage { last: last.clone(), history, ..Stage::default() }.play(MINUTE, Vec::new());
    assert_eq!(play.words()[..3], ["history", "apply", "watch --apply"]);
    let ids: Vec<Option<&str>> = run_events(&play).iter().map(|run| run.run.as_deref()).collect();
    assert_eq!(ids, [Some("a"), Some("b"), Some("r")]);
    // A run in progress is waited for.
    let history = vec![line("a", "running", "holo-agent", "apply")];
    let play = Stage { last: last.clone(), history, ..Stage::default() }.play(MINUTE, Vec::new());
    assert!(play.words().iter().all(|word| *word != "apply"), "{:?}", play.log);
    assert!(play.times("history").len() > 5);
    // A query that hangs does not block the agent indefinitely.
    let play = Stage { last: last.clone(), history_time: Duration::MAX, ..Stage::default() }.play(HOUR, Vec::new());
    assert_eq!(play.log[..3], [(0, "history".into()), (300, "kill history".into()), (300, "apply".into())]);
    // A run whose event is already recorded is not queried.
    let kept = Some("2026-11-19T23:59:00Z".parse().unwrap());
    let play = Stage { last: last.clone(), kept, ..Stage::default() }.play(MINUTE, Vec::new());
    assert_eq!((play.words()[0], run_events(&play).len()), ("apply", 1));
    // A run without a record has made no changes.
    let play = Stage { last, ..Stage::default() }.play(MINUTE, Vec::new());
    let runs = run_events(&play);
    assert_eq!((runs[0].result, runs.len()), (RunResult::Interrupted, 2));
}

fn run_events(play: &Play) -> Vec<&RunEvent> {
    play.events.iter().filter_map(as_run).collect()
}

fn as_run(event: &Event) -> Option<&RunEvent> {
    if let What::Run(run) = &event.what { Some(run) } else { None }
}

/// Returns the line with an entity's health.
fn health(entity: &str, state: &str) -> String {
    let text = if state == "ok" { "" } else { "\"text\":\"it says so\"," };
    let requires = "\"requires\":[\"package:x\"]";
    format!(
        "{{\"version\":1,\"event\":\"health\",\"id\":\"{entity}\",\"plugin\":\"p\",\"state\":\"{state}\",{text}{requires}}}"
    )
}

/// Describes the events about health.
fn health_events(play: &Play) -> Vec<String> {
    let in_words = |event: &Event| match &event.what {
        What::Health { entity, state, .. } => Some(format!("{entity} {state:?}")),
        _ => None,
    };
    play.events.iter().filter_map(in_words).collect()
}

#[test]
fn health_is_looked_at_between_runs_and_changes_of_it_are_events() {
    let well = vec![health("a:b", "ok"), health("c:d", "ok")];
    let unwell = vec![health("a:b", "warning"), health("c:d", "ok")];
    let stage = Stage { health: vec![well.clone(), well.clone(), unwell.clone(), unwell, well], ..Stage::default() };
    let play = stage.play(20 * MINUTE, Vec::new());
    assert_eq!(play.words()[..5], ["apply", "health", "watch --apply", "health a:b c:d", "health a:b c:d"]);
    let rounds = play.times("health a:b c:d");
    assert!(rounds.windows(2).all(|pair| pair[1] - pair[0] == 61), "{rounds:?}");
    assert!((18..=20).contains(&rounds.len()), "{rounds:?}");
    assert_eq!(health_events(&play), ["a:b Warning", "a:b Ok"]);
    // The watch keeps running.
    assert_eq!(play.times("watch --apply").len(), 1, "{:?}", play.log);
}

#[test]
fn health_is_looked_at_after_a_restart_without_a_run() {
    let last = Some("{\"good\":\"2026-11-19T23:59:59Z\"}".to_owned());
    let stage = Stage { last, health: vec![vec![health("a:b", "ok")]], ..Stage::default() };
    let play = stage.play(5 * MINUTE, Vec::new());
    assert_eq!(play.words()[..3], ["health", "watch --apply", "health a:b"], "{:?}", play.log);
    assert_eq!(play.times("health a:b")[0], 61);
}

#[test]
fn without_health_checks_there_is_one_round_after_each_run() {
    let config = Config { interval: 10 * MINUTE, ..Config::default() };
    let stage = Stage { config, health: vec![Vec::new()], ..Stage::default() };
    let play = stage.play(65 * MINUTE, Vec::new());
    assert_eq!(play.times("health").len(), play.times("apply").len(), "{:?}", play.log);
}

#[test]
fn what_is_critical_is_applied_with_what_it_requires_but_not_for_ever() {
    let (critical, well) = (vec![health("a:b", "critical")], vec![health("a:b", "ok")]);
    let once = Stage { health: vec![well.clone(), critical.clone(), well], ..Stage::default() };
    let play = once.play(20 * MINUTE, Vec::new());
    let words = ["health a:b", "apply a:b package:x", "health a:b"];
    assert_eq!(play.words()[3..6], words, "{:?}", play.log);
    assert_eq!(health_events(&play), ["a:b Critical", "a:b Ok"]);
    let runs: Vec<&RunEvent> = play.events.iter().filter_map(as_run).collect();
    assert_eq!((runs[0].entities.len(), &runs[1].entities[..]), (0, &["a:b".to_owned(), "package:x".to_owned()][..]));
    // It does not affect the times of complete runs.
    let config = Config { interval: 6 * HOUR, ..Config::default() };
    let stage = Stage { config: config.clone(), health: vec![critical.clone()], ..Stage::default() };
    let applies = stage.play(3 * HOUR, Vec::new()).times("apply a:b package:x");
    // Each fourth one is only told that the entity is left alone.
    assert_eq!(applies.len(), 12, "{applies:?}");
    // In report mode, no changes are made.
    let config = Config { mode: Mode::Report, ..config };
    let play = Stage { config, health: vec![critical], ..Stage::default() }.play(HOUR, Vec::new());
    assert!(!play.words().iter().any(|word| word.contains("apply")), "{:?}", play.log);
    assert_eq!(health_events(&play), ["a:b Critical"]);
}

#[test]
fn a_round_that_hangs_is_killed_and_holds_up_no_run() {
    let config = Config { interval: 5 * MINUTE, ..Config::default() };
    let well = vec![vec![health("a:b", "ok")]];
    let stage = Stage { config, health: well.clone(), health_time: Duration::MAX, ..Stage::default() };
    let play = stage.play(30 * MINUTE, Vec::new());
    let applies = play.times("apply");
    assert!(applies[1..].windows(2).all(|pair| (299..=302).contains(&(pair[1] - pair[0]))), "{:?}", play.log);
    assert!(play.words().contains(&"end health") && !play.words().contains(&"kill health"), "{:?}", play.log);
    let stage = Stage { health: well, health_time: Duration::MAX, ..Stage::default() };
    let play = stage.play(25 * MINUTE, Vec::new());
    assert_eq!(play.times("kill health")[0] - play.times("health")[0], 600, "{:?}", play.log);
}

#[test]
fn one_round_is_a_run_and_health_checks_and_what_is_critical_then() {
    let (critical, well) = (vec![health("a:b", "critical")], vec![health("a:b", "ok")]);
    let last = Some("{\"good\":\"2026-11-19T23:59:59Z\"}".to_owned());
    let once = |health, run| Stage { once: true, health, run, last: last.clone(), ..Stage::default() };
    let run = (Duration::from_secs(10), 0);
    let play = once(vec![well.clone()], run).play(HOUR, Vec::new());
    assert_eq!((play.words(), play.is_well), (vec!["apply", "health"], true));
    let play = once(vec![critical.clone(), well], run).play(HOUR, Vec::new());
    assert_eq!((play.words(), play.is_well), (vec!["apply", "health", "apply a:b package:x", "health a:b"], true));
    // The entity is applied only once.
    let play = once(vec![critical], run).play(HOUR, Vec::new());
    assert_eq!((play.words().len(), play.is_well), (4, false), "{:?}", play.log);
    let play = once(vec![Vec::new()], (run.0, 255)).play(HOUR, Vec::new());
    assert_eq!((play.words(), play.is_well), (vec!["apply", "health"], false));
}
