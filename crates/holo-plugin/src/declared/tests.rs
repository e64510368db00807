//! Conditions, retries and health checks, for single entities and sets.
use super::*;
use crate::Plugin;
use crate::definitions::CommonKeys;
use crate::{ScanError, Sink, Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Fails this number of times, and then reports a change.
struct Fails(AtomicU32);

impl Fails {
    fn attempt(&self) -> Applied {
        let failed = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |times| times.checked_sub(1)).is_ok();
        if failed { Applied::FAILED } else { Applied::Changed(Vec::new()) }
    }
}

impl Entity for Fails {
    fn report(&self) -> EntityReport {
        EntityReport::new("fails:x")
    }

    fn apply(&self, _: &Host, _: Mode<'_>, _: &mut Output<'_>) -> Applied {
        self.attempt()
    }

    fn check(&self, _: &Host, _: Mode<'_>, _: &mut Output<'_>) -> Verdict {
        Verdict::WouldChange(vec!["would fail".into()])
    }

    fn diff(&self, _: &Host) -> Option<FilePair> {
        None
    }
}

fn declared(fails: u32, retries: u32, skipped: Option<&str>, checks: &str) -> Declared<Fails> {
    let mut keys: CommonKeys = toml::from_str(&format!("health_check = [{checks}]")).unwrap();
    (keys.retries, keys.retry_delay) = (retries, Some(Duration::from_millis(1)));
    let common = Common { keys: keys.into(), skipped: skipped.map(str::to_owned), ..Common::default() };
    Declared::new(Fails(fails.into()), common)
}

#[derive(Default)]
struct Heard {
    said: String,
    begun: Vec<usize>,
    ended: Vec<(usize, Applied)>,
}

impl SetAnswers for Heard {
    fn begin(&mut self, place: usize) {
        self.begun.push(place);
    }

    fn output(&mut self, _: usize) -> Output<'_> {
        Output::new(self)
    }

    fn end(&mut self, place: usize, applied: Applied) {
        self.ended.push((place, applied));
    }
}

impl Sink for Heard {
    fn write(&mut self, _: Stream, bytes: &[u8]) {
        self.said.push_str(&String::from_utf8_lossy(bytes));
    }
}

struct OneByOne;

impl Plugin for OneByOne {
    type Entity = Declared<Fails>;

    fn scan(&self, _: &Host, _: &mut Output<'_>) -> Result<Vec<Declared<Fails>>, ScanError> {
        Ok(Vec::new())
    }
}

fn host() -> Host {
    Host::from_environment(|name| {
        Some(if name == holo_protocol::environment::ROOT_DIR { "/".into() } else { "x".into() })
    })
    .unwrap()
}

/// Applies the same entities one by one and as a set; the output and the results must be equal.
fn apply(make: impl Fn() -> Vec<Declared<Fails>>) -> Heard {
    let mut together = Heard::default();
    let entities = make();
    let jobs = |entities: &[Declared<Fails>]| -> Vec<usize> { (0..entities.len()).collect() };
    let set: Vec<Job<'_, Declared<Fails>>> =
        jobs(&entities).into_iter().map(|place| Job { entity: &entities[place], mode: Mode::default() }).collect();
    apply_together(&host(), &set, &mut together, |jobs, answers| {
        for (place, job) in jobs.iter().enumerate() {
            answers.begin(place);
            answers.end(place, job.entity.attempt());
        }
    });
    together.ended.sort_by_key(|(place, _)| *place);
    let mut alone = Heard::default();
    let entities = make();
    let set: Vec<Job<'_, Declared<Fails>>> =
        entities.iter().map(|entity| Job { entity, mode: Mode::default() }).collect();
    OneByOne.apply_set(&host(), &set, &mut alone);
    assert_eq!(alone.ended, together.ended);
    assert_eq!(alone.begun.len(), together.begun.len());
    together
}

#[test]
fn a_condition_leaves_out() {
    let heard = apply(|| vec![declared(9, 0, Some("x is false"), ""), declared(0, 0, None, "")]);
    let skipped = Applied::Skipped("x is false".into());
    assert_eq!(heard.ended, [(0, skipped), (1, Applied::Changed(vec![]))]);
    let entity = declared(0, 0, Some("x is false"), "");
    let mut unheard = Heard::default();
    let verdict = entity.check(&host(), Mode::default(), &mut Output::new(&mut unheard));
    assert_eq!(verdict, Verdict::Skipped("x is false".into()));
    assert_eq!(entity.report().action.to_string(), "Skipping (x is false)");
}

#[test]
fn failures_are_tried_again_as_often_as_declared() {
    let heard = apply(|| vec![declared(2, 2, None, ""), declared(2, 1, None, ""), declared(1, 0, None, "")]);
    assert_eq!(heard.ended, [(0, Applied::Changed(vec![])), (1, Applied::FAILED), (2, Applied::FAILED)]);
    assert_eq!(heard.said.matches(">> trying again in 1ms (1 of 2)\n").count(), 1);
    assert_eq!(heard.said.matches(">> trying again in 1ms (2 of 2)\n").count(), 1);
    assert_eq!(heard.said.matches("trying again").count(), 3);
}

#[test]
fn delays_between_attempts_grow_if_that_is_declared() {
    let heard = apply(|| {
        let mut entity = declared(9, 2, None, "");
        let keys = Arc::make_mut(&mut entity.common.keys);
        (keys.retry_backoff, keys.retry_delay) = (true, Some(Duration::from_millis(2)));
        vec![entity]
    });
    assert_eq!(heard.said, ">> trying again in 2ms (1 of 2)\n>> trying again in 3ms (2 of 2)\n");
}

#[test]
fn the_worst_check_is_the_health_of_an_entity() {
    let sh = |script: &str| format!("{{ command = ['sh', '-c', '{script}'], timeout = '100ms' }}");
    for (checks, line) in [
        (vec!["true"], "ok\ta:b\t\n"),
        (vec!["true", "echo low; exit 1"], "warning\ta:b\t`sh -c 'echo low; exit 1'`: warning: low\n"),
        (vec!["exit 1", "exit 2", "exit 3"], "critical\ta:b\t`sh -c 'exit 2'`: critical: exit status 2\n"),
        (vec!["exit 3", "exit 1"], "unknown\ta:b\t`sh -c 'exit 3'`: unknown: exit status 3\n"),
        (vec![], ""),
    ] {
        let checks: Vec<String> = checks.into_iter().map(sh).collect();
        let entity = declared(0, 0, None, &checks.join(", "));
        let (id, others) = (BString::from("a:b"), BString::from("c:d"));
        let left_out = declared(0, 0, Some("x is false"), &sh("exit 2"));
        let entities = [(&id, entity.health_checks()), (&others, left_out.health_checks())];
        let lines = health::lines(entities.into_iter(), &host());
        assert_eq!(String::from_utf8(lines).unwrap(), line);
    }
    let entity = declared(0, 0, None, &sh("exec sleep 9"));
    let lines = health::lines([(&BString::from("a:b"), entity.health_checks())].into_iter(), &host());
    assert!(lines.starts_with(b"unknown\ta:b\t"), "{}", String::from_utf8_lossy(&lines));
}

#[test]
fn checks_of_several_entities_run_at_the_same_time_and_are_told_in_order() {
    let begun = std::time::Instant::now();
    let entities: Vec<(BString, Declared<Fails>)> = (0..12)
        .map(|number| (format!("a:{number:02}").into(), declared(0, 0, None, "{ command = 'sleep 0.5' }")))
        .collect();
    let checks = entities.iter().map(|(id, entity)| (id, entity.health_checks()));
    let lines = String::from_utf8(health::lines(checks, &host())).unwrap();
    let expected: Vec<String> = (0..12).map(|number| format!("ok\ta:{number:02}\t\n")).collect();
    assert_eq!(lines, expected.concat());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn what_is_only_checked_is_not_applied_whoever_asks_for_it() {
    let noop = || {
        let mut entity = declared(0, 0, None, "");
        Arc::make_mut(&mut entity.common.keys).noop = true;
        entity
    };
    let heard = apply(|| vec![noop()]);
    assert_eq!(heard.ended, [(0, Applied::Skipped("it is only checked (noop)".into()))]);
    let entity = noop();
    let mut unheard = Heard::default();
    let verdict = entity.check(&host(), Mode::default(), &mut Output::new(&mut unheard));
    assert_eq!(verdict, Verdict::WouldChange(vec!["would fail".into()]));
    assert!(entity.report().controls.noop);
}

/// Returns these results, one for each attempt.
struct Ends(std::sync::Mutex<Vec<Applied>>);

impl Entity for Ends {
    fn report(&self) -> EntityReport {
        EntityReport::new("ends:x")
    }

    fn apply(&self, _: &Host, _: Mode<'_>, _: &mut Output<'_>) -> Applied {
        self.0.lock().unwrap().remove(0)
    }

    fn diff(&self, _: &Host) -> Option<FilePair> {
        None
    }
}

#[test]
fn a_possible_change_of_an_attempt_is_not_forgotten() {
    let (touched, untouched) = (Applied::FAILED, Applied::FAILED_UNCHANGED);
    for (attempts, check, expected) in [
        (vec![untouched.clone(), untouched.clone()], "true", untouched.clone()),
        (vec![touched.clone(), untouched.clone()], "true", touched.clone()),
        (vec![untouched.clone(), touched.clone()], "true", touched.clone()),
        (vec![touched.clone(), Applied::Unchanged], "true", Applied::Changed(vec![])),
        (vec![untouched.clone(), Applied::Unchanged], "true", Applied::Unchanged),
        (vec![Applied::Unchanged], "false", untouched.clone()),
        (vec![touched.clone(), Applied::Unchanged], "false", touched.clone()),
        (vec![Applied::Changed(vec![])], "false", touched.clone()),
    ] {
        let keys = || {
            let text = format!("retries = 1\nretry_delay = \"1ms\"\nhealth_check = [{{ command = \"{check}\" }}]");
            toml::from_str::<CommonKeys>(&text).unwrap()
        };
        let entity = |attempts: &[Applied]| {
            Declared::new(Ends(attempts.to_vec().into()), Common { keys: keys().into(), ..Common::default() })
        };
        let mut heard = Heard::default();
        let alone = entity(&attempts).apply(&host(), Mode::default(), &mut Output::new(&mut heard));
        assert_eq!(alone, expected, "{attempts:?}");
        let entity = entity(&attempts);
        let set = [Job { entity: &entity, mode: Mode::default() }];
        apply_together(&host(), &set, &mut heard, |jobs, answers| {
            let applied = jobs[0].entity.apply(&host(), Mode::default(), &mut answers.output(0));
            answers.end(0, applied);
        });
        assert_eq!(heard.ended, [(0, expected)], "{attempts:?}");
    }
}

#[test]
fn an_unhealthy_entity_has_failed() {
    let well = r#"{ command = "sh -c 'exit 0'" }"#;
    let warns = r#"{ command = ["sh", "-c", "echo 'disk is full'; echo more; exit 1"] }"#;
    let heard = apply(|| vec![declared(0, 0, None, well), declared(0, 0, None, warns)]);
    assert_eq!(heard.ended, [(0, Applied::Changed(vec![])), (1, Applied::FAILED)]);
    assert_eq!(
        heard.said,
        "!! health check `sh -c 'echo '\\''disk is full'\\''; echo more; exit 1'`: warning: disk is full\n"
    );
}

#[test]
fn a_health_check_is_tried_until_it_is_well() {
    let folder = tempfile::tempdir().unwrap();
    let counter = folder.path().join("counter");
    let script = format!("echo x >>{c}; [ $(wc -l <{c}) -ge 3 ]", c = counter.display());
    let check =
        |tries: u32| format!("{{ command = [\"sh\", \"-c\", \"{script}\"], tries = {tries}, interval = \"1ms\" }}");
    let mut heard = Heard::default();
    let entity = declared(0, 0, None, &check(2));
    let applied = entity.apply(&host(), Mode::default(), &mut Output::new(&mut heard));
    assert_eq!(applied, Applied::FAILED);
    std::fs::remove_file(&counter).unwrap();
    let entity = declared(0, 0, None, &check(3));
    let applied = entity.apply(&host(), Mode::default(), &mut Output::new(&mut heard));
    assert_eq!(applied, Applied::Changed(vec![]));
}

#[test]
fn a_health_check_that_cannot_start_or_end_is_not_well() {
    for (check, complaint) in [
        (r#"{ command = "/nonexistent/check" }"#, "/nonexistent/check"),
        (r#"{ command = "sleep 60", timeout = "50ms" }"#, "timed out"),
        (r#"{ command = "sh -c 'kill -9 $$'" }"#, "killed"),
        (r#"{ command = "sh -c 'echo what; exit 7'" }"#, "unknown: what"),
    ] {
        let mut heard = Heard::default();
        let applied = declared(0, 0, None, check).apply(&host(), Mode::default(), &mut Output::new(&mut heard));
        assert_eq!(applied, Applied::FAILED, "{check}");
        assert!(heard.said.contains(complaint), "{}", heard.said);
    }
}
