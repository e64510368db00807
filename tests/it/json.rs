//! `--json`: every line conforms to the schema.

use bstr::ByteSlice;
use holo_testing::{Run, ScratchRoot};
use jsonschema::Validator;
use libtest_mimic::Trial;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        schema_rejects_invalid_lines,
        scan_lists_entities,
        scan_contains_complete_reports,
        selectors_are_listed,
        apply_is_reported_step_by_step,
        refreshes_and_skips_are_reported,
        messages_are_fields_of_the_end,
        unknown_result_of_a_check_is_reported,
        every_failure_of_an_entity_is_reported,
        every_failure_of_a_plugin_is_reported,
        run_that_cannot_begin_reports_the_reason,
        warnings_of_the_run_are_lines,
        broken_definitions_are_errors,
        interrupted_run_is_reported,
        run_exceeding_its_time_limit_is_reported,
        other_output_formats_are_refused_with_json,
        every_field_of_the_schema_occurs,
    ]
}

const SCHEMA: &str = "schema/holo-output.schema.json";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the schema in the repository, which is also installed.
fn schema() -> Value {
    serde_json::from_slice(&fs::read(repository().join(SCHEMA)).unwrap()).unwrap()
}

/// Returns a validator that also rejects unknown fields: readers ignore them, but we must document all that we write.
fn validator() -> Validator {
    let mut schema = schema();
    schema["unevaluatedProperties"] = json!(false);
    jsonschema::validator_for(&schema).unwrap()
}

fn schema_rejects_invalid_lines() {
    let validator = validator();
    let good = json!({"version": 1, "event": "output", "id": "x:y", "stream": "stdout", "text": [0, 255]});
    assert!(validator.is_valid(&good));
    for (field, bad) in [
        ("version", json!(2)),
        ("version", json!("1")),
        ("event", json!("begun")),
        ("event", json!("end")),
        ("id", json!(null)),
        ("id", json!(["x"])),
        ("stream", json!("stdin")),
        ("text", json!([256])),
        ("text", json!(1)),
        ("more", json!(1)),
    ] {
        let mut line = good.clone();
        line[field] = bad;
        assert!(!validator.is_valid(&line), "{line}");
    }
    for field in ["version", "event", "stream", "text"] {
        let mut line = good.clone();
        line.as_object_mut().unwrap().remove(field);
        assert!(!validator.is_valid(&line), "{line}");
    }
}

/// Runs holo, and validates each line and their order. Returns the lines.
#[track_caller]
fn lines(root: &ScratchRoot, arguments: &[&str], status: i32) -> Vec<Value> {
    let run = root.holo(&[arguments, &["--json"]].concat());
    assert_eq!(run.status, Some(status), "{arguments:?}: {run}");
    assert!(run.stderr.is_empty(), "{arguments:?} says something on stderr: {run}");
    assert!(run.stdout.ends_with(b"\n"), "{run}");
    let lines: Vec<Value> = run.stdout.lines().map(|line| understand(line, &run)).collect();
    let validator = validator();
    for line in &lines {
        let errors: Vec<String> = validator.iter_errors(line).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{line}: {}", errors.join("; "));
    }
    let (summary, others) = lines.split_last().unwrap();
    assert_eq!((&summary["event"], &summary["exit_code"]), (&json!("summary"), &json!(status)), "{run}");
    assert!(others.iter().all(|line| line["event"] != "summary"), "{run}");
    assert_eq!(summary.get("error").is_some(), status == 255 || status > 128, "{run}");
    follow(others, &run);
    lines
}

#[track_caller]
fn understand(line: &[u8], run: &Run) -> Value {
    assert!(line.starts_with(br#"{"version":1,"event":""#), "{}\n{run}", line.as_bstr());
    serde_json::from_slice(line).unwrap()
}

/// Asserts that lines about an entity come between its beginning and its end, for commands that print those.
#[track_caller]
fn follow(lines: &[Value], run: &Run) {
    if lines.iter().all(|line| line["event"] != "begin") {
        return;
    }
    let mut at_work: Option<&Value> = None;
    for line in lines {
        match (line["event"].as_str().unwrap(), line.get("id")) {
            ("begin", id) => assert_eq!(std::mem::replace(&mut at_work, id), None, "{line}\n{run}"),
            (_, None) => {}
            (event, id) => {
                assert_eq!(id, at_work, "{line}\n{run}");
                at_work = at_work.filter(|_| event != "end");
            }
        }
    }
}

/// Returns the lines of one kind.
fn of<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

/// Returns a field of the only line of a kind.
#[track_caller]
fn only<'a>(lines: &'a [Value], event: &str, field: &str) -> &'a Value {
    let found = of(lines, event);
    assert_eq!(found.len(), 1, "not one {event}: {lines:#?}");
    &found[0][field]
}

/// Decodes a text.
fn bytes(text: &Value) -> Vec<u8> {
    let text: holo_protocol::Text = serde_json::from_value(text.clone()).unwrap();
    text.0.into()
}

fn shell_plugin(id: &str) -> String {
    format!("plugin {id}={}\n", repository().join("test-scenarios/plugins").join(id).display())
}

/// Returns a root with three files, none of which has been applied.
fn files() -> ScratchRoot {
    ScratchRoot::new()
        .plugin("files")
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/a", "stock\n")
        .file("etc/b", "stock\n")
        .resource("files/10-ours/etc/a", "ours\n")
        .resource("files/10-ours/etc/b", "ours\n")
}

/// Returns a root with files that hooks subscribe to, or require.
fn hooks() -> ScratchRoot {
    let root = files()
        .resource(
            "hooks/reload",
            "# subscribes file:/etc/a\necho reloading\nprintf 'caf\\303' >&2\nsleep 0.1\nprintf '\\251\\377' >&2\n",
        )
        .resource("hooks/last", "# requires file:/etc/b\n# requires hook:reload\n# after file:/etc/a\n# before x:y\n");
    let holorc = root.read("etc/holorc");
    root.holorc([&holorc[..], shell_plugin("hooks").as_bytes()].concat())
}

/// Returns a root with a plugin of version 4 whose entities' names determine their behaviour.
fn versatile() -> ScratchRoot {
    let plugin = r#"#!/bin/sh
entity() { printf 'ENTITY: %b\n' "$1"; }
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\n' ;;
scan)
    echo 'scanning' >&2
    entity v:changes
    printf 'ACTION: Making (because)\nSOURCE: /a\nwhat: \377\nPROVIDES: path /x\nWATCH: /w\nNOTIFIES: v:refuses\n'
    entity v:needy
    printf 'NEEDS: path /x/y\nREQUIRES: v:nothing\n'
    entity v:orphan
    echo 'ORPHAN: yes'
    entity v:refuses
    entity v:silent
    entity 'v:\377'
    ;;
check)
    case $2 in
    v:changes) printf 'would change: write it\nwould change: twice\n' >&3 ;;
    v:refuses) echo 'requires --force: it is dangerous' >&3 ;;
    v:silent) ;;
    v:*) echo 'not changed' >&3 ;;
    esac
    ;;
apply)
    case $2 in
    v:changes) printf 'changed: wrote it\nsend: MODE=a b\nkeep: version=1\n' >&3 ;;
    v:refuses) echo 'requires --force: it is dangerous' >&3 ;;
    v:silent) echo 'something' ;;
    v:*) echo 'not changed' >&3 ;;
    esac
    ;;
esac
"#;
    ScratchRoot::new()
        .holorc("plugin versatile\n")
        .script("usr/lib/holo/holo-versatile", plugin)
        .dir("usr/share/holo/versatile")
}

/// Returns a root for one of the plugin's faults in info, scan or diff.
fn broken(fault: &str) -> ScratchRoot {
    ScratchRoot::new().holorc(shell_plugin("broken")).resource("broken/entity", "").file("etc/broken", fault)
}

fn scan_lists_entities() {
    let lines = lines(&files(), &["scan"], 0);
    let [a, b] = of(&lines, "entity")[..] else { panic!("{lines:#?}") };
    assert_eq!((&a["id"], &b["id"]), (&json!("file:/etc/a"), &json!("file:/etc/b")));
    assert_eq!((&a["plugin"], &a["action"]), (&json!("files"), &json!({"verb": "Working on"})));
    assert_eq!(a["edges"]["provides"], json!([{"kind": "path", "value": "/etc/a"}]));
    assert!(a["sources"][0].as_str().unwrap().ends_with("/usr/share/holo/files/10-ours/etc/a"));
    assert_eq!(a["information"][0]["key"], "store at");
}

fn scan_contains_complete_reports() {
    let lines = lines(&versatile(), &["scan"], 0);
    assert_eq!(only(&lines, "output", "text"), "scanning\n");
    let entities = of(&lines, "entity");
    let changes = json!({
        "version": 1, "event": "entity", "id": "v:changes", "plugin": "versatile",
        "action": {"verb": "Making", "reason": "because"}, "sources": ["/a"],
        "information": [{"key": "what", "value": [255]}],
        "edges": {"provides": [{"kind": "path", "value": "/x"}], "watch": ["/w"], "notifies": ["v:refuses"]},
    });
    assert_eq!(*entities[0], changes);
    let needy = json!({"needs": [{"kind": "path", "value": "/x/y"}], "requires": ["v:nothing"]});
    assert_eq!(entities[1]["edges"], needy);
    assert_eq!(entities[2]["edges"], json!({"orphan": true}));
    assert_eq!(entities[5]["id"], json!([118, 58, 255]));
}

fn selectors_are_listed() {
    let lines = lines(&files(), &["selectors"], 0);
    let selectors: Vec<&Value> = of(&lines, "selector").into_iter().map(|line| &line["selector"]).collect();
    assert!(selectors.contains(&&json!("file:/etc/a")) && selectors.contains(&&json!("files")), "{selectors:?}");
    assert_eq!(selectors.len(), 5);
}

fn apply_is_reported_step_by_step() {
    let root = files();
    let tally = |changed, unchanged, refused| json!({"changed": changed, "unchanged": unchanged, "refused": refused, "pending": 0, "skipped": 0, "failed": 0});
    let first = lines(&root, &["apply"], 0);
    let events: Vec<&str> = first.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["begin", "end", "begin", "end", "summary"]);
    let run = only(&first, "summary", "run").as_str().unwrap();
    let (time, duration) = (only(&first, "summary", "time").as_str().unwrap(), only(&first, "summary", "duration"));
    assert!(run.starts_with(&time[..10].replace('-', "")) && time.ends_with('Z') && duration.is_f64(), "{first:#?}");
    assert_eq!(first[0]["action"], json!({"verb": "Working on"}));
    assert_eq!((&first[1]["id"], &first[1]["result"]), (&json!("file:/etc/a"), &json!("changed")));
    assert_eq!(first[1]["changed"], json!([format!("wrote {}", root.join("etc/a").display())]));
    assert_eq!(only(&first, "summary", "tally"), &tally(2, 0, 0));
    assert_eq!(only(&lines(&root, &["apply"], 0), "summary", "tally"), &tally(0, 2, 0));
    root.write("etc/a", "theirs\n");
    let diff = lines(&root, &["diff"], 0);
    assert_eq!(only(&diff, "diff", "id"), "file:/etc/a");
    assert!(only(&diff, "diff", "text").as_str().unwrap().ends_with("\n-ours\n+theirs\n"));
    fs::remove_file(root.join("etc/b")).unwrap();
    let refused = lines(&root, &["apply"], 1);
    assert!(only(&refused, "diff", "text").as_str().unwrap().ends_with("\n-ours\n+theirs\n"));
    let refusals: Vec<&Value> = of(&refused, "end").into_iter().map(|end| &end["refused"]).collect();
    assert_eq!(refusals, [&json!([{"kind": "overwrite"}]), &json!([{"kind": "restore"}])]);
    assert_eq!(only(&refused, "summary", "tally"), &tally(0, 0, 2));
    assert_eq!(only(&lines(&root, &["apply", "--exit-zero"], 0), "summary", "tally"), &tally(0, 0, 2));
    let dry = lines(&root, &["apply", "--dry-run"], 3);
    assert!(of(&dry, "end").iter().all(|end| end["result"] != "unchanged"), "{dry:#?}");
    assert_eq!(only(&lines(&root, &["apply", "--force"], 0), "summary", "tally"), &tally(2, 0, 0));
}

fn refreshes_and_skips_are_reported() {
    let root = hooks();
    let looked = lines(&root, &["check"], 3);
    assert_eq!(only(&looked, "refresh", "id"), "hook:reload");
    let done = lines(&root, &["apply"], 0);
    assert_eq!(only(&done, "refresh", "id"), "hook:reload");
    let reload = of(&done, "end").into_iter().find(|end| end["id"] == "hook:reload").unwrap();
    assert_eq!((&reload["result"], &reload["changed"]), (&json!("changed"), &json!(["ran reload"])));
    let said = of(&done, "output").into_iter().filter(|line| line["stream"] == "stderr");
    assert_eq!(said.flat_map(|line| bytes(&line["text"])).collect::<Vec<u8>>(), b"caf\xc3\xa9\xff");
    root.write("etc/b", "theirs\n");
    let skipped = lines(&root, &["apply"], 1);
    let last = of(&skipped, "end").into_iter().find(|end| end["id"] == "hook:last").unwrap();
    assert_eq!(last["result"], "skipped");
    assert_eq!(last["reason"], "requires file:/etc/b, which is not in its desired state (--force is needed)");
}

fn messages_are_fields_of_the_end() {
    let ends = |verb: &str, status| {
        let lines = lines(&versatile(), &[verb], status);
        let without_time = |end: &Value| {
            let mut end = end.clone();
            assert!(end.as_object_mut().unwrap().remove("duration").unwrap().is_f64(), "{end}");
            end
        };
        of(&lines, "end").into_iter().map(without_time).collect::<Vec<_>>()
    };
    let find = |ends: &[Value], id: &str| ends.iter().find(|end| end["id"] == id).unwrap().clone();
    let end = |id: &str, result: &str| json!({"version": 1, "event": "end", "id": id, "plugin": "versatile", "result": result});
    let with = |id: &str, result: &str, field: &str, value: Value| {
        let mut end = end(id, result);
        end[field] = value;
        end
    };
    let looked = ends("check", 1);
    let refusal = json!([{"kind": "other", "reason": "it is dangerous"}]);
    let would = json!(["write it", "twice"]);
    assert_eq!(find(&looked, "v:changes"), with("v:changes", "pending", "would_change", would));
    assert_eq!(find(&looked, "v:refuses"), with("v:refuses", "refused", "refused", refusal.clone()));
    assert_eq!(find(&looked, "v:silent"), end("v:silent", "pending"));
    assert_eq!(find(&looked, "v:orphan"), end("v:orphan", "unchanged"));
    let missing = with("v:needy", "failed", "reason", json!("requires v:nothing, which does not exist"));
    assert_eq!(find(&looked, "v:needy"), missing);
    let done = ends("apply", 1);
    let mut changed = with("v:changes", "changed", "changed", json!(["wrote it"]));
    changed["sent"] = json!(["MODE=a b"]);
    changed["kept"] = json!(["version=1"]);
    assert_eq!(find(&done, "v:changes"), changed);
    assert_eq!(find(&done, "v:refuses"), with("v:refuses", "refused", "refused", refusal));
    assert_eq!(find(&done, "v:silent"), end("v:silent", "changed"));
}

fn unknown_result_of_a_check_is_reported() {
    let root = ScratchRoot::new().holorc(shell_plugin("well-behaved")).resource("well-behaved/x", "line\n");
    let lines_of = |arguments: &[&str], status| lines(&root, arguments, status);
    assert_eq!(only(&lines_of(&["check"], 3), "end", "unknown"), &json!(true));
    let applied = lines_of(&["apply"], 0);
    assert_eq!(only(&applied, "output", "text"), "added: line\n");
    assert_eq!(only(&applied, "output", "id"), "lines:x");
    assert_eq!(only(&lines_of(&["check"], 0), "end", "result"), "unchanged");
    root.write("etc/x", "theirs\n");
    assert_eq!(only(&lines_of(&["check"], 3), "end", "result"), "pending");
    assert!(only(&lines_of(&["diff"], 0), "diff", "text").as_str().unwrap().ends_with("\n-line\n"));
    assert_eq!(of(&lines_of(&["apply"], 1), "diff").len(), 1);
}

fn every_failure_of_an_entity_is_reported() {
    let faults = [
        "all-messages",
        "closes-everything",
        "dies",
        "fails-unchanged",
        "garbage-on-3",
        "held-3",
        "megabyte-on-3",
        "megabyte-on-stderr",
        "megabyte-on-stdout",
        "no-newline",
        "nothing",
        "segfaults",
    ];
    let root = ScratchRoot::new().holorc(shell_plugin("broken"));
    let root = faults.iter().fold(root, |root, fault| root.resource(format!("broken/{fault}"), ""));
    let lines = lines(&root, &["apply"], 1);
    let ends = of(&lines, "end");
    assert_eq!(ends.len(), faults.len());
    let end = |fault: &str| *ends.iter().find(|end| end["id"] == format!("broken:{fault}")).unwrap();
    assert_eq!((&end("dies")["result"], &end("dies")["reason"]), (&json!("failed"), &json!("signal: killed")));
    assert_eq!(end("nothing")["result"], "changed");
    assert_eq!(end("all-messages")["refused"], json!([{"kind": "overwrite"}, {"kind": "restore"}]));
    assert!(only(&lines, "warning", "text").as_str().unwrap().contains("has left a process behind"));
    assert_eq!(only(&lines, "warning", "id"), "broken:held-3");
    let printed = of(&lines, "output").into_iter().filter(|line| line["stream"] == "stderr");
    let length: usize = printed.filter_map(|line| line["text"].as_str()).map(str::len).sum();
    assert_eq!(length, 1 << 20);
}

fn every_failure_of_a_plugin_is_reported() {
    for (fault, verb, status) in [
        ("bad-version", "scan", 255),
        ("empty-info", "apply", 255),
        ("garbage-info", "check", 255),
        ("garbage-report", "selectors", 1),
        ("megabyte-line", "scan", 255),
        ("failing-scan", "diff", 255),
        ("killed-scan", "scan", 255),
        ("nul-report", "scan", 0),
        ("nul-report", "apply", 1),
        ("failing-diff", "diff", 1),
        ("long-path", "diff", 1),
        ("device", "diff", 1),
        ("one-path", "diff", 0),
    ] {
        let lines = lines(&broken(fault), &[verb], status);
        let failed =
            of(&lines, "error").len() + of(&lines, "end").iter().filter(|end| end["result"] == "failed").count();
        assert_eq!(failed > 0, status != 0, "{fault}: {lines:#?}");
        if verb == "diff" && status == 1 {
            assert_eq!(only(&lines, "error", "id"), "broken:entity");
        }
    }
}

fn run_that_cannot_begin_reports_the_reason() {
    let cases: Vec<(&str, ScratchRoot, &[&str], i32, &str)> = vec![
        ("configuration", files().holorc("what\n"), &["scan"], 255, "unknown command: what"),
        ("no configuration", ScratchRoot::new(), &["apply"], 255, "cannot parse configuration: open "),
        ("resources", files().holorc(shell_plugin("hooks")), &["check"], 255, "cannot open "),
        ("selector", files(), &["apply", "one", "file:/etc/a", "two"], 255, "Unrecognized argument: two"),
        ("lock", files().file("run/holo.pid", "0\n"), &["apply"], 255, "Cannot create lock file "),
        ("cycle", hooks().resource("hooks/round", "# requires hook:round\n"), &["diff"], 255, "cycle"),
        (
            "generator",
            files().script("usr/share/holo/generators/10-fails", "#!/bin/sh\necho making\nexit 3\n"),
            &["selectors"],
            1,
            "10-fails: exit status 3",
        ),
    ];
    for (name, root, arguments, status, reason) in cases {
        let run = root.holo(&[arguments, &["--json"]].concat());
        assert_eq!(run.status, Some(status), "{name}: {run}");
        let lines: Vec<Value> = run.stdout.lines().map(|line| understand(line, &run)).collect();
        let validator = validator();
        assert!(lines.iter().all(|line| validator.is_valid(line)) && run.stderr.is_empty(), "{name}: {run}");
        let error = only(&lines, "summary", "error").as_str().unwrap();
        assert!(error.contains(reason), "{name}: {run}");
        assert!(only(&lines, "summary", "tally").is_null(), "{name}: {run}");
        assert!(
            of(&lines, "error").iter().any(|line| line["text"] == error && line.get("id").is_none()),
            "{name}: {run}"
        );
    }
}

fn warnings_of_the_run_are_lines() {
    let root = files().file("run/holo.pid", "4194305\n");
    let root = root.script("usr/share/holo/generators/10-says", "#!/bin/sh\necho making\n");
    let holorc = root.read("etc/holorc");
    let root = root.holorc([&b"plugin missing\n"[..], &holorc].concat());
    let lines = lines(&root, &["apply"], 0);
    let texts: Vec<&str> = of(&lines, "warning").iter().map(|line| line["text"].as_str().unwrap()).collect();
    let [skipping, output, lock] = texts[..] else { panic!("{texts:?}") };
    assert_eq!(skipping, "Skipping plugin: missing");
    assert!(output.ends_with("10-says: making"));
    assert!(lock.starts_with("Taking over lock file "));
    assert!(only(&lines, "error", "text").as_str().unwrap().ends_with("/usr/lib/holo/holo-missing: file not found"));
    assert_eq!(of(&lines, "end").len(), 2);
}

fn broken_definitions_are_errors() {
    let root = files()
        .file("usr/share/holo/files/odd.toml", "[[file]]\npath = \"/etc/c\"\nensure = \"presnet\"\nmode = \"99\"\n");
    let lines = lines(&root, &["scan"], 1);
    let errors = of(&lines, "error");
    // All errors are reported at once, even about the name and the mode of an entity.
    for key in ["ensure", "mode"] {
        let says = |line: &&&Value| line["text"].as_str().unwrap().contains(&format!(": file:/etc/c: {key}: "));
        assert_eq!(errors.iter().filter(says).count(), 1, "{key}: {lines:?}");
    }
    assert!(errors.iter().all(|line| !line["text"].as_str().unwrap().starts_with("!!")), "{lines:?}");
    assert!(of(&lines, "output").is_empty(), "{lines:?}");
    assert_eq!(only(&lines, "summary", "exit_code"), 1);
}

fn interrupted_run_is_reported() {
    let root = hooks()
        .resource("hooks/reload", "# subscribes file:/etc/a\nkill -TERM \"$(sed -n 's/^PPid:[[:blank:]]*//p' \"/proc/$PPID/status\")\"\nsleep 30\n");
    let lines = lines(&root, &["apply"], 143);
    assert_eq!(only(&lines, "summary", "error"), "interrupted by signal 15 while hook:reload was at work");
    assert_eq!(only(&lines, "summary", "tally")["changed"], 2);
    assert_eq!(of(&lines, "begin").len(), of(&lines, "end").len() + 1);
    // The next run has as many refreshes left as this one.
    assert_eq!(only(&lines, "summary", "refreshes_due"), 1);
    assert_eq!(only(&self::lines(&root, &["check"], 3), "summary", "refreshes_due"), 1);
}

fn run_exceeding_its_time_limit_is_reported() {
    let root = hooks().resource("hooks/reload", "# subscribes file:/etc/a\nsleep 30\n");
    let run = root.holo(&["apply", "--json", "--timeout", "5s"]);
    assert_eq!((run.status, run.stderr.is_empty()), (Some(1), true), "{run}");
    let lines: Vec<Value> = run.stdout.lines().map(|line| understand(line, &run)).collect();
    assert!(lines.iter().all(|line| validator().is_valid(line)), "{run}");
    let error = of(&lines, "error")[0];
    assert_eq!((error.get("id"), &error["text"]), (None, only(&lines, "summary", "error")), "{run}");
}

fn other_output_formats_are_refused_with_json() {
    for form in ["--short", "--porcelain", "-s", "-p"] {
        let run = files().holo(&["scan", "--json", form]);
        assert_eq!((run.status, run.stdout.is_empty()), (Some(2), true), "{run}");
    }
}

/// The beginning, the entries and the end of a run with every recordable field, to prove that every line and field of
/// the schema occurs.
const BEGAN: &str = r#"{"version":1,"run":"20261122T091403-8f2c1","time":"2026-11-22T09:14:03Z","holo":"4.0.0","command":["holo","apply"],"who":{"uid":0,"sudo_user":"fred","login_uid":1000,"terminal":"/dev/pts/3","trigger":"timer"},"process":{"pid":1}}"#;
const ENTRIES: [&str; 2] = [
    r#"{"run":"20261122T091403-8f2c1","id":"x:y","plugin":"x","time":"2026-11-22T09:14:03Z","duration":0.5,"result":"failed","changes":["did it"],"refused":[{"kind":"overwrite"}],"reason":"no","output":"!! no","refreshed_by":["x:z"],"diffs":[{"from":"a/x","to":"b/x","text":"+1","binary":true,"cut":1}]}"#,
    r#"{"run":"20261122T091403-8f2c1","id":"file:/etc/a","plugin":"files","time":"2026-11-22T09:14:03Z","duration":0.5,"result":"changed"}"#,
];
const ENDED: &str = r#"{"run":"20261122T091403-8f2c1","time":"2026-11-22T09:14:04Z","result":"failed","duration":1.0,"exit_code":1,"counts":{"failed":1},"error":"no"}"#;

/// Records that run.
#[track_caller]
fn record_run(root: &ScratchRoot) {
    let run = json!({"sequence": 1, "id": "20261122T091403-8f2c1", "began": BEGAN, "ended": ENDED, "size": 0});
    let entry = |record: &&str| json!({"table": "run_entry", "row": {"run": 1, "record": record}});
    let rows = [json!({"format": "holo state", "version": 1}), json!({"table": "run", "row": run})];
    let lines = rows.into_iter().chain(ENTRIES.iter().map(entry)).map(|row| format!("{row}\n"));
    root.write("export", lines.collect::<String>());
    let run = root.holo(&["state", "import", root.join("export").to_str().unwrap()]);
    assert!(run.success(), "{run}");
}

fn every_field_of_the_schema_occurs() {
    let mut seen = BTreeSet::new();
    let mut note = |lines: Vec<Value>| {
        for line in lines {
            let event = line["event"].as_str().unwrap().to_owned();
            seen.extend(line.as_object().unwrap().keys().map(|field| format!("{event}.{field}")));
        }
    };
    let root = hooks();
    note(lines(&root, &["check"], 3));
    note(lines(&root, &["apply"], 0));
    note(lines(&versatile(), &["scan"], 0));
    note(lines(&versatile(), &["check"], 1));
    note(lines(&versatile(), &["apply"], 1));
    note(lines(&versatile(), &["selectors"], 0));
    note(lines(&root, &["apply", "nothing"], 255));
    note(lines(&broken("failing-diff"), &["diff"], 1));
    root.write("etc/a", "theirs\n");
    note(lines(&root, &["diff"], 0));
    root.write("usr/share/holo/files/10-ours/etc/a", "a\0b\n");
    note(lines(&root, &["apply", "--force", "--diff"], 0));
    root.write("run/holo.pid", "1\n");
    let held = fs::File::open(root.join("run/holo.pid")).unwrap();
    held.lock().unwrap();
    note(lines(&root, &["apply"], 255));
    let root = ScratchRoot::new().holorc(shell_plugin("broken")).resource("broken/held-3", "");
    note(lines(&root, &["check"], 3));
    note(lines(&root, &["apply"], 0));
    record_run(&root);
    note(crate::watch::all_lines());
    if !holo_testing::require::FANOTIFY.is_met() {
        // Available to root only.
        note(vec![json!({"event": "drifted", "writer": {}})]);
    }
    note(lines(&root, &["history"], 0));
    note(lines(&root, &["history", "x:y"], 0));
    note(lines(&root, &["history", "show", "--diff"], 0));
    let edited =
        r#"{"entity":"x:y","path":"/etc/a","time":1,"state":{"is":"symlink","target":"b"},"size":0,"sensitive":true}"#;
    root.write_record(".edited", "x", edited);
    note(lines(&root, &["history", "edited"], 0));
    let root = hooks()
        .file("etc/os-release", "ID=debian\n")
        .file("var/lib/dpkg/info/x.list", "/.\n/etc/a\n/etc/based\n")
        .file("etc/based", "base\n")
        .script("usr/share/holo/files/10-ours/etc/based.holoscript", "#!/bin/sh\ncat\n")
        .file("usr/share/holo/files/20-data/etc/based.holotemplate", "{{ input }}{{ data.word }}\n")
        .file("etc/holo/data/common.toml", "word = \"x\"\n")
        .file("etc/holo/data/hierarchy.toml", "layers = [\"common\"]\n")
        .file("var/lib/holo/gone/state", "");
    record_run(&root);
    note(lines(&root, &["apply"], 0));
    note(lines(&root, &["doctor"], 1));
    note(lines(&crate::health::root(), &["health"], 1));
    note(lines(&root, &["why", "/etc/a"], 0));
    note(lines(&root, &["blame", "/etc/a"], 0));
    note(lines(&root, &["blame", "/etc/based"], 0));
    note(lines(&root, &["why", "/etc/based"], 0));
    note(lines(&root, &["why", "reload"], 0));
    note(lines(&root, &["why", "/etc/a/b"], 1));
    note(lines(&crate::controls::root("ENTITY: x:a\nPOLL: 1m\n"), &["scan"], 0));
    note(lines_of_adopt());
    note(lines_of_generations());
    note(crate::status::all_lines());
    let schema = schema();
    let mut named = BTreeSet::new();
    for kind in schema["oneOf"].as_array().unwrap() {
        let event = kind["properties"]["event"]["const"].as_str().unwrap();
        // Some have their fields in a separate definition.
        let apart = kind["$ref"].as_str().and_then(|path| schema.pointer(path.strip_prefix('#')?));
        for fields in [Some(kind), apart].into_iter().flatten() {
            named.extend(fields["properties"].as_object().unwrap().keys().map(|field| format!("{event}.{field}")));
        }
        named.insert(format!("{event}.version"));
    }
    assert_eq!(seen, named);
}

/// A plugin that can describe one entity: first with a resource file, then by removing it.
const ADOPTING: &str = r#"#!/bin/sh
case $1 in
info) printf '%s=%s\n' MIN_API_VERSION 3 MAX_API_VERSION 4 ADOPT 1 DOCTOR 1 ;;
doctor) printf 'warning\tthe pen is dull\tsharpen it\n' >&3 ;;
scan) for file in "${HOLO_RESOURCE_DIRS%%:*}"/90-local/[ab]; do [ ! -e "$file" ] || { printf 'ENTITY: pen:a\nSOURCE: %s\n' "$file"; break; }; done ;;
check) echo 'not changed' >&3 ;;
adopt)
    if [ $# = 1 ]; then printf 'pen:a\tmade by hand\tpens\npen:b\tlost\t\texcluded\tlook for it\n' >&3; exit; fi
    mkdir -p "$HOLO_ADOPT_DIR/90-local"
    if [ -e "$HOLO_ROOT_DIR/gone" ]; then : >"$HOLO_ADOPT_DIR/90-local/a"; echo >"$HOLO_ADOPT_DIR/90-local/b"
    else echo ink >"$HOLO_ADOPT_DIR/90-local/a"; fi ;;
esac
"#;

fn lines_of_adopt() -> Vec<Value> {
    let root = ScratchRoot::new().holorc("plugin pen\n").script("usr/lib/holo/holo-pen", ADOPTING);
    let root = root.dir("usr/share/holo/pen");
    let mut all = lines(&root, &["adopt", "--all", "--dry-run"], 3);
    all.extend(lines(&root, &["adopt", "pen:a"], 0));
    root.write("gone", "");
    all.extend(lines(&root, &["adopt", "pen:a"], 0));
    let run = root.holo(&["doctor", "--json"]);
    all.extend(run.stdout.lines().map(|line| understand(line, &run)));
    all
}

fn lines_of_generations() -> Vec<Value> {
    let root = files().env("HOLO_HISTORY", "1").file("srv/a", "a\n");
    let root = root.symlink("usr/share/holo/files/20-link/etc/a", "../../../../../../srv/a");
    lines(&root, &["apply"], 0);
    root.write("usr/share/holo/files/more.toml", "[[file]]\npath = \"/srv/x\"\ncontent = \"x\"\n");
    root.write("etc/holo/data/secret.toml", "key = 1\n");
    let root = root.mode("etc/holo/data/secret.toml", 0o600);
    let mut all = lines(&root, &["apply"], 0);
    assert_eq!(all.last().unwrap()["generation"], 2);
    all.extend(lines(&root, &["generations"], 0));
    all.extend(lines(&root, &["generations", "diff", "1", "2"], 0));
    all
}
