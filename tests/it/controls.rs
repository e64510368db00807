//! Entities that declare when they may be worked on: `noop`, `schedule` and `semaphore`, with short shell plugins.

use holo_testing::{Run, ScratchRoot, binaries::built};
use jiff::{ToSpan, Zoned};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        noop_entity_is_never_changed,
        dependent_of_a_noop_entity_is_pending,
        noop_entity_does_not_refresh_others_and_keeps_its_refresh,
        entity_outside_of_its_schedule_is_pending_and_keeps_its_refresh,
        schedule_opening_during_a_run_applies_to_the_next_run,
        deferred_entity_is_pending_and_so_are_those_that_require_it,
        deferred_entity_does_not_refresh_others_and_keeps_its_refresh,
        plugin_check_accepts_a_deferral,
        semaphore_limits_concurrent_entities,
        unattended_runs_repair_only_as_often_as_the_limit_allows,
        unattended_runs_act_once_in_their_time,
        what_is_critical_counts_even_if_nothing_changes,
        invalid_control_is_an_error_with_its_line,
        definitions_support_the_controls,
    ]
}

/// A plugin whose entities are files in `state/`: an existing file is in its desired state. Its scan report is the file
/// `report`, and it logs its actions to `log`.
pub(crate) const PLUGIN: &str = r#"#!/bin/sh
state=$HOLO_ROOT_DIR/state/${2#x:}
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\n' ;;
scan) cat "$HOLO_ROOT_DIR/report" ;;
check)
    [ -z "$HOLO_REFRESH" ] || { echo 'would change: restart' >&3; exit; }
    [ ! -e "$state.forced" ] || { echo 'requires --force: it is somebody else'\''s' >&3; exit; }
    [ -e "$state" ] && echo 'not changed' >&3 || echo 'would change: create' >&3 ;;
apply)
    echo "apply $2 ${HOLO_REFRESH:+refreshed}" >>"$HOLO_ROOT_DIR/log"
    [ -e "$state" ] && [ -z "$HOLO_REFRESH" ] && echo 'not changed' >&3 || { : >"$state"; echo 'changed: created' >&3; } ;;
esac
"#;

pub(crate) fn root(report: &str) -> ScratchRoot {
    let root = ScratchRoot::new().binary(built("holo")).holorc("plugin x\n").dir("usr/share/holo/x").dir("state");
    root.script("usr/lib/holo/holo-x", PLUGIN).file("report", report).file("log", "")
}

fn unattended_runs_repair_only_as_often_as_the_limit_allows() {
    let root = root("ENTITY: x:a\nLIMIT: 2/1h\nENTITY: x:b\nREQUIRES: x:a\n");
    let remove = || std::fs::remove_file(root.join("state/a")).unwrap();
    let unattended = || root.holo(&["apply", "--unattended", "1h"]);
    // What is made for the first time is no repair.
    for _ in 0..3 {
        let run = unattended();
        assert!(run.success() && root.exists("state/a"), "{run}");
        remove();
    }
    for _ in 0..2 {
        let run = unattended();
        assert!(!root.exists("state/a"), "{run}");
        assert_eq!(run.status, Some(3), "{run}");
        let said = run.stderr_lossy();
        assert!(
            said.contains("x:a: repaired 2 times within 1h, and changed again: something else manages it"),
            "{run}"
        );
        assert!(said.contains("not changed now, because it was repaired too often"), "{run}");
        assert!(said.contains("requires x:a, which is left alone"), "{run}");
    }
    assert!(root.holo(&["state", "export"]).stdout_lossy().contains("\"table\":\"repair\""));
    // A person ends that.
    assert!(root.holo(&["apply"]).success() && root.exists("state/a"));
    assert!(!root.holo(&["state", "export"]).stdout_lossy().contains("\"table\":\"repair\""));
    remove();
    assert!(unattended().success() && root.exists("state/a"));
}

fn unattended_runs_act_once_in_their_time() {
    let root = root("ENTITY: x:a\nALWAYS: yes\nENTITY: x:b\nREQUIRES: x:a\nENTITY: x:c\nNOTIFIES: x:a\n");
    let plugin = root.read("usr/lib/holo/holo-x").to_string();
    // An action is never in its desired state.
    let root = root.script(
        "usr/lib/holo/holo-x",
        plugin.replace("changed: created' >&3; }", "changed: created' >&3; }; [ $2 != x:a ] || rm \"$state\""),
    );
    let times = || log(&root).lines().filter(|line| line.starts_with("apply x:a")).count();
    let unattended = |time: &str, entities: &[&str]| {
        let run = root.holo(&[&["apply", "--unattended", time][..], entities].concat());
        assert!(run.success(), "{run}");
        times()
    };
    assert_eq!(unattended("1h", &[]), 1);
    assert_eq!(unattended("1h", &[]), 1);
    std::fs::remove_file(root.join("state/b")).unwrap();
    // It does not block what requires it.
    assert_eq!(unattended("1h", &["x:b"]), 1);
    assert!(root.exists("state/b"));
    // A refresh is another reason.
    std::fs::remove_file(root.join("state/c")).unwrap();
    assert_eq!(unattended("1h", &[]), 2);
    assert_eq!(unattended("0s", &[]), 3);
    assert!(root.holo(&["apply"]).success());
    assert_eq!(times(), 4);
    // That it acts is no repair.
    (0..5).for_each(|_| _ = unattended("0s", &[]));
    assert_eq!(times(), 9);
}

fn what_is_critical_counts_even_if_nothing_changes() {
    let root = root("ENTITY: x:a\nENTITY: x:b\n");
    ["state/a", "state/b"].iter().for_each(|path| root.write(path, ""));
    for _ in 0..5 {
        let run = root.holo(&["apply", "--unattended", "1h", "--critical", "x:a", "x:a", "x:b"]);
        assert!(run.success(), "{run}");
    }
    let times = |id: &str| log(&root).lines().filter(|line| line.starts_with(&format!("apply {id}"))).count();
    assert_eq!((times("x:a"), times("x:b")), (3, 5));
}

/// Returns hours that do not include the near future.
pub(crate) fn other_hours() -> String {
    let begin = Zoned::now().checked_add(3.hours()).unwrap().hour();
    format!("{begin}-{}", begin + 1)
}

fn log(root: &ScratchRoot) -> String {
    root.read("log").to_string()
}

#[track_caller]
fn expect(run: &Run, status: i32, stdout: &[&str], stderr: &[&str]) {
    assert_eq!(run.status, Some(status), "{run}");
    let (out, err) = (run.stdout_lossy(), run.stderr_lossy());
    let lines =
        |text: &str| -> Vec<String> { text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect() };
    assert_eq!(
        (lines(&out), lines(&err)),
        (stdout.iter().map(ToString::to_string).collect(), stderr.iter().map(ToString::to_string).collect()),
        "{run}"
    );
}

fn noop_entity_is_never_changed() {
    let root = root("ENTITY: x:a\nNOOP: yes\nENTITY: x:b\n");
    let noop = ">> only checked, because its definition has noop";
    let run = root.holo(&["apply"]);
    expect(&run, 3, &["Working on x:a", "create", "Working on x:b", "created"], &[noop]);
    assert_eq!(log(&root), "apply x:b \n");
    assert_eq!(root.holo(&["check"]).status, Some(3));
    // Force does not change it either, and a refusal counts as pending.
    root.write("state/a.forced", "");
    assert_eq!(root.holo(&["apply", "--force"]).status, Some(3));
    assert_eq!(root.holo(&["apply", "--exit-zero"]).status, Some(0));
    root.write("state/a", "");
    std::fs::remove_file(root.join("state/a.forced")).unwrap();
    expect(&root.holo(&["apply"]), 0, &[], &[]);
    assert!(!log(&root).contains("x:a"));
}

fn dependent_of_a_noop_entity_is_pending() {
    let root = root("ENTITY: x:a\nNOOP: yes\nENTITY: x:b\nREQUIRES: x:a\nENTITY: x:c\nREQUIRES: x:b\nENTITY: x:d\n");
    let run = root.holo(&["apply", "--json"]);
    assert_eq!(run.status, Some(3), "{run}");
    assert!(run.stdout_lossy().contains(r#""pending":3"#), "{run}");
    assert!(run.stdout_lossy().contains("requires x:a, which is only checked"), "{run}");
    assert!(run.stdout_lossy().contains("requires x:b, which is on hold itself"), "{run}");
    assert_eq!(log(&root), "apply x:d \n");
    assert_eq!(root.holo(&["check", "x:b"]).status, Some(3));
    root.write("state/a", "");
    assert_eq!(root.holo(&["apply"]).status, Some(0));
}

fn noop_entity_does_not_refresh_others_and_keeps_its_refresh() {
    let report = "ENTITY: x:a\nNOOP: yes\nNOTIFIES: x:c\nENTITY: x:b\nNOTIFIES: x:d\nENTITY: x:c\nENTITY: x:d\n";
    let root = root(&format!("{report}NOOP: yes\n"));
    ["state/c", "state/d"].iter().for_each(|path| root.write(path, ""));
    let run = root.holo(&["check"]);
    assert!(!run.stdout_lossy().contains("x:c"), "{run}");
    assert_eq!(root.holo(&["apply"]).status, Some(3));
    assert_eq!(log(&root), "apply x:b \napply x:c \n");
    // Its refresh follows when it is no longer on hold.
    root.write("report", report);
    root.write("log", "");
    assert_eq!(root.holo(&["apply"]).status, Some(3));
    assert!(log(&root).contains("apply x:d refreshed\n"), "{}", log(&root));
    root.write("log", "");
    assert_eq!(root.holo(&["apply"]).status, Some(3));
    assert!(!log(&root).contains("refreshed"), "{}", log(&root));
}

fn entity_outside_of_its_schedule_is_pending_and_keeps_its_refresh() {
    let report = |hours: &str| format!("ENTITY: x:a\nNOTIFIES: x:b\nENTITY: x:b\nSCHEDULE: hours={hours}\n");
    let root = root(&report(&other_hours()));
    root.write("state/b", "");
    let waits = ">> not changed now: outside of its schedule";
    let stdout = ["Working on x:a", "created", "Working on x:b", "restart"];
    let would = ">> Would be refreshed";
    expect(&root.holo(&["apply"]), 3, &stdout, &[would, waits]);
    expect(&root.holo(&["apply"]), 3, &stdout[2..], &[would, waits]);
    expect(&root.holo(&["check"]), 3, &stdout[2..], &[would]);
    root.write("report", report("0-24"));
    assert_eq!(root.holo(&["apply"]).status, Some(0));
    assert!(log(&root).ends_with("apply x:b refreshed\n"), "{}", log(&root));
    assert_eq!(root.holo(&["check"]).status, Some(0));
}

/// Returns a time zone in which it will be noon in this number of seconds, and the time of that noon, as a Unix
/// timestamp.
fn noon_in(seconds: i64) -> (String, i64) {
    let noon = jiff::Timestamp::now().as_second() + seconds;
    let west = (noon - 12 * 3600).rem_euclid(24 * 3600);
    (format!("TST{}:{:02}:{:02}", west / 3600, west / 60 % 60, west % 60), noon)
}

fn schedule_opening_during_a_run_applies_to_the_next_run() {
    let (zone, noon) = noon_in(6);
    // The check of the first entity takes until the schedule opens.
    let waits = format!("[ \"$1 $2\" != 'check x:a' ] || while [ $(date +%s) -lt {noon} ]; do sleep 0.1; done\n");
    let root = root("ENTITY: x:a\nSCHEDULE: hours=12-13\nENTITY: x:b\nREQUIRES: x:a\n").env("TZ", zone);
    let root = root.script("usr/lib/holo/holo-x", PLUGIN.replacen("case", &format!("{waits}case"), 1));
    let closed = ">> not changed now: outside of its schedule";
    let requires = ">> requires x:a, which is outside of its schedule";
    expect(&root.holo(&["apply"]), 3, &["Working on x:a", "create", "Working on x:b"], &[closed, requires]);
    assert_eq!(log(&root), "");
    assert_eq!(root.holo(&["apply"]).status, Some(0));
    assert_eq!(log(&root), "apply x:a \napply x:b \n");
}

/// Returns a root whose plugin defers each entity `x:NAME` for which there is a file `state/NAME.busy`.
fn deferring(report: &str) -> ScratchRoot {
    let defers = "if [ \"${1#force-}\" = apply ] && [ -e \"$state.busy\" ]; then echo 'deferred: it is busy' >&3; exit; fi\ncase";
    let plugin = PLUGIN.replacen("case", defers, 1).replace("\napply)", "\n*apply)");
    root(report).script("usr/lib/holo/holo-x", plugin)
}

fn deferred_entity_is_pending_and_so_are_those_that_require_it() {
    let root = deferring("ENTITY: x:a\nENTITY: x:b\nREQUIRES: x:a\nENTITY: x:c\nREQUIRES: x:b\nENTITY: x:d\n")
        .env("HOLO_HISTORY", "1");
    root.write("state/a.busy", "");
    let stdout = ["Working on x:a", "Working on x:b", "Working on x:c", "Working on x:d", "created"];
    let a = ">> deferred: it is busy";
    let stderr = [a, ">> requires x:a, which is deferred", ">> requires x:b, which is on hold itself"];
    expect(&root.holo(&["apply"]), 3, &stdout, &stderr);
    expect(&root.holo(&["apply", "--force"]), 3, &stdout[..3], &stderr);
    assert_eq!(root.holo(&["apply", "--exit-zero"]).status, Some(0));
    let run = root.holo(&["apply", "--json", "x:a"]);
    assert!(run.stdout_lossy().contains(r#""result":"pending""#), "{run}");
    assert!(run.stdout_lossy().contains(r#""reason":"deferred: it is busy""#), "{run}");
    assert!(run.stdout_lossy().contains(r#""pending":1"#) && run.status == Some(3), "{run}");
    let history = root.holo(&["history", "--json", "x:a"]).stdout_lossy().into_owned();
    assert!(history.contains(r#""result":"pending","reason":"deferred: it is busy""#), "{history}");
    assert!(root.holo(&["status"]).stdout_lossy().contains("deferred: it is busy"));
    // A failure of another entity counts more.
    root.write("report", "ENTITY: x:a\nENTITY: x:e\nREQUIRES: x:nosuch\n");
    assert_eq!(root.holo(&["apply"]).status, Some(1));
    // The next apply does what was deferred.
    root.write("report", "ENTITY: x:a\nENTITY: x:b\nREQUIRES: x:a\n");
    std::fs::remove_file(root.join("state/a.busy")).unwrap();
    expect(&root.holo(&["apply"]), 0, &["Working on x:a", "created", "Working on x:b", "created"], &[]);
}

fn deferred_entity_does_not_refresh_others_and_keeps_its_refresh() {
    let root = deferring("ENTITY: x:a\nNOTIFIES: x:b\nENTITY: x:b\nENTITY: x:c\nNOTIFIES: x:d\nENTITY: x:d\n");
    ["a.busy", "b", "d", "d.busy"].iter().for_each(|name| root.write(format!("state/{name}"), ""));
    for _ in 0..2 {
        let run = root.holo(&["apply"]);
        assert_eq!(run.status, Some(3), "{run}");
        assert_eq!(run.stderr_lossy().matches(">> deferred: it is busy\n").count(), 2, "{run}");
    }
    assert!(!log(&root).contains("refreshed"), "{}", log(&root));
    ["a.busy", "d.busy"].iter().for_each(|name| std::fs::remove_file(root.join("state").join(name)).unwrap());
    root.write("log", "");
    assert_eq!(root.holo(&["apply"]).status, Some(0));
    assert_eq!(log(&root), "apply x:a \napply x:b refreshed\napply x:c \napply x:d refreshed\n");
}

fn plugin_check_accepts_a_deferral() {
    let root = deferring("");
    let plugin = root.read("usr/lib/holo/holo-x").to_string();
    let plugin = plugin.replace("cat \"$HOLO_ROOT_DIR/report\"", "echo 'ENTITY: x:a'").replace("$state.busy", "/");
    let root = root.script("usr/lib/holo/holo-x", plugin);
    let run = root.holo(&["plugin", "check", "usr/lib/holo/holo-x"]);
    let stderr = run.stderr_lossy();
    assert!(!stderr.contains("x:a:") && !stderr.contains("deferred"), "{run}");
}

/// A session that logs the entities of each set that it must apply to `log`.
const SESSION: &str = r#"#!/bin/sh
[ $1 = session ] || { printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\nSESSION=1\n'; exit; }
while read -r line; do
    request=$(echo "$line" | sed 's/.*"request":\([0-9]*\).*/\1/')
    case $line in *'"operation":"scan"'*)
        printf '{"answer":"report","request":%s,"text":"' $request >&3
        for name in a b c d e f; do
            printf 'ENTITY: x:%s\\n' $name >&3
            case $name in [bcde]) printf 'SEMAPHORE: db:2\\n' >&3 ;; esac
        done
        echo '"}' >&3 ;;
    *)
        entities=$(echo "$line" | sed 's/.*"entities":\[\([^]]*\)\].*/\1/; s/[",]/ /g')
        echo $entities >>"$HOLO_ROOT_DIR/log"
        for entity in $entities; do
            printf '{"answer":"result","request":%s,"entity":"%s","messages":["not changed"],"result":"done"}\n' $request $entity >&3
        done ;;
    esac
    printf '{"answer":"end","request":%s,"result":"done"}\n' $request >&3
done
"#;

fn semaphore_limits_concurrent_entities() {
    let root = root("").script("usr/lib/holo/holo-x", SESSION);
    let run = root.holo(&["apply"]);
    assert_eq!((run.status, log(&root)), (Some(0), "x:a x:b x:c\nx:d x:e x:f\n".to_owned()), "{run}");
}

fn invalid_control_is_an_error_with_its_line() {
    let root = root("ENTITY: x:a\nSCHEDULE: hours=2\n");
    let run = root.holo(&["scan"]);
    let says = "!! error in scan report of x, line 2: expected ranges of hours, as in \"2-5\", \"22-4\" or \"2-5,12:30-13\" (line was \"SCHEDULE: hours=2\")";
    assert!(run.stderr_lossy().contains(says), "{run}");
    let plugin = PLUGIN.replace("cat \"$HOLO_ROOT_DIR/report\"", "printf 'ENTITY: x:a\\nSCHEDULE: hours=2\\n'");
    let root = root.script("usr/lib/holo/holo-x", plugin);
    let run = root.holo(&["plugin", "check", "usr/lib/holo/holo-x"]);
    assert!(run.stderr_lossy().contains("line 2 is \"SCHEDULE: hours=2\": expected ranges of hours"), "{run}");
}

fn definitions_support_the_controls() {
    let root = ScratchRoot::new().binary(built("holo")).plugin("files").file("etc/os-release", "ID=unittest\n");
    let definition = "[[file]]\npath = \"/etc/x\"\ncontent = \"x\"\n";
    let keys = "noop = true\npoll = \"1m30s\"\nlimit = \"5/1h\"\nsemaphore = \"db:2\"\nschedule = { hours = \"2-5\", days = \"mon-fri\" }\n";
    let root = root.resource("files/x.toml", format!("{definition}{keys}"));
    let run = root.holo(&["scan", "--porcelain"]);
    assert!(run.success(), "{run}");
    let run = root.holo(&["scan", "--json"]);
    let controls =
        r#""controls":{"noop":true,"poll":90.0,"limit":"5/1h","semaphore":"db:2","schedule":"hours=2-5 days=mon-fri"}"#;
    assert!(run.stdout_lossy().contains(controls), "{run}");
    assert_eq!(root.holo(&["apply"]).status, Some(3));
    assert!(!root.exists("etc/x"));
    let service =
        "register = [{ cluster = \"eu\", service = \"web\", protocol = \"http\", port = 80, ttl = \"90s\" }]\n";
    root.write("usr/share/holo/files/y.toml", format!("[[file]]\npath = \"/etc/y\"\ncontent = \"y\"\n{service}"));
    let run = root.holo(&["scan", "--json", "file:/etc/y"]);
    let register = r#""register":[{"cluster":"eu","service":"web","protocol":"http","port":80,"priority":1,"ttl":90}]"#;
    assert!(run.stdout_lossy().contains(register), "{run}");
    root.write("usr/share/holo/files/y.toml", format!("[[file]]\npath = \"/etc/y\"\n{service}").replace("80", "0"));
    let run = root.holo(&["scan"]);
    let says = "y.toml:3: file:/etc/y: register[0].port: a port is a number from 1 to 65535";
    assert!(run.stderr_lossy().contains(says), "{run}");
    let run = root.holo(&["definitions", "files"]);
    assert!(run.stdout_lossy().contains(r#""poll":90.0"#) && run.stdout_lossy().contains(r#""noop":true"#), "{run}");
    root.write("usr/share/holo/files/x.toml", format!("{definition}limit = \"often\"\n"));
    let run = root.holo(&["scan"]);
    assert!(
        run.stderr_lossy()
            .contains("x.toml:4: file:/etc/x: limit: expected a number, a slash and a duration, as in \"3/10m\""),
        "{run}"
    );
}
