//! Answers of modules from ansible-core 2.14 and 2.19, without their lists of arguments.

use super::*;
use serde_json::json;

const LIMITS: Limits = Limits { time: Duration::from_secs(600), output: 1 << 24 };

fn reply(stdout: &str, status: i32) -> Reply {
    // As in a wait status.
    Reply { stdout: stdout.to_owned(), status: status << 8, ..Reply::default() }
}

fn answer(fields: &Value, status: i32) -> Answer {
    Answer::new("a.b.c", &reply(&format!("\n{fields}\n"), status), None, LIMITS)
}

fn end(fields: &Value, status: i32) -> End {
    answer(fields, status).end
}

#[test]
fn a_change_has_a_message_that_is_short_and_one_line() {
    assert_eq!(end(&json!({"changed": true, "msg": "line added", "backup": ""}), 0), End::Changed("line added".into()));
    for msg in [json!(""), json!("a\nb"), json!("x".repeat(101)), Value::Null] {
        assert_eq!(end(&json!({"changed": true, "msg": msg}), 0), End::Changed("changed".into()), "{msg}");
    }
    assert_eq!(end(&json!({"changed": true}), 0), End::Changed("changed".into()));
    assert_eq!(end(&json!({"changed": "yes"}), 0), End::Changed("changed".into()));
}

#[test]
fn a_line_that_is_too_long_is_no_answer() {
    let with = |length: usize| end(&json!({"changed": true, "msg": "x".repeat(length)}), 0);
    assert_eq!(with((1 << 20) - 100), End::Changed("changed".into()));
    assert_eq!(with(1 << 20), End::Failed("a.b.c answered with a line of more than 1048576 bytes".into()));
}

#[test]
fn nothing_said_of_a_change_is_none() {
    for fields in [json!({}), json!({"changed": false, "msg": "x"}), json!({"ping": "pong", "changed": "False"})] {
        assert_eq!(end(&fields, 0), End::Unchanged, "{fields}");
    }
}

#[test]
fn a_failure_says_why() {
    let missing = json!({"failed": true, "msg": "missing required arguments: path"});
    assert_eq!(end(&missing, 1), End::Failed("missing required arguments: path".into()));
    // Independent of the exit status and other fields.
    assert_eq!(
        end(&json!({"failed": true, "changed": true, "skipped": true, "msg": "no"}), 0),
        End::Failed("no".into())
    );
    assert_eq!(end(&json!({"changed": true, "msg": "no"}), 3), End::Failed("no".into()));
    assert_eq!(end(&json!({"changed": true}), 3), End::Failed("a.b.c: exit status 3".into()));
    assert_eq!(end(&json!({"failed": true, "msg": ["a", 1]}), 1), End::Failed("[\"a\",1]".into()));
    let traceback = "Traceback (most recent call last):\n  File \"x\"\nOSError: no room\n";
    assert_eq!(end(&json!({"failed": true, "exception": traceback}), 1), End::Failed("OSError: no room".into()));
    let summary = json!({"event": {"msg": "no room", "__ansible_type": "Event"}, "__ansible_type": "ErrorSummary"});
    assert_eq!(end(&json!({"failed": true, "exception": summary}), 1), End::Failed("no room".into()));
}

#[test]
fn a_command_that_failed_is_quoted() {
    let failed = json!({"changed": true, "stdout": "out", "stderr": "\none\n\ntwo", "rc": 1, "failed": true, "msg": "non-zero return code"});
    assert_eq!(answer(&failed, 1).details, ["one", "two"]);
    let failed = json!({"stdout": (0..30).map(|n| format!("{n}\n")).collect::<String>(), "stderr": "", "failed": true});
    assert_eq!((answer(&failed, 1).details.len(), answer(&failed, 1).details[19].as_str()), (20, "29"));
    assert!(answer(&json!({"changed": true, "stderr": "one", "rc": 0}), 0).details.is_empty());
}

#[test]
fn without_an_answer_the_last_error_is_the_reason() {
    let end = |reply: Reply, last| Answer::new("a.b.c", &reply, last, LIMITS).end;
    assert_eq!(
        end(reply("words\n", 1), Some("RuntimeError: broken")),
        End::Failed("a.b.c: exit status 1: RuntimeError: broken".into())
    );
    assert_eq!(end(reply("", 0), None), End::Failed("a.b.c: it has not answered".into()));
    let killed = Reply { status: 9, ..Reply::default() };
    assert_eq!(end(killed, None), End::Failed("a.b.c: signal: killed".into()));
}

#[test]
fn one_that_was_ended_has_failed_whatever_it_said() {
    let end = |reason: &str| {
        let text = json!({"stdout": "{\"changed\": true}\n", "reason": reason, "status": 15}).to_string();
        Answer::new("a.b.c", &serde_json::from_str(&text).unwrap(), None, LIMITS).end
    };
    assert_eq!(end("late"), End::Failed("a.b.c did not answer within 600s".into()));
    assert_eq!(end("limit"), End::Failed("a.b.c answered with more than 16777216 bytes".into()));
    assert_eq!(end("told"), End::Failed("a.b.c was told to end".into()));
}

#[test]
fn a_module_can_say_that_it_was_skipped() {
    let command =
        json!({"changed": false, "msg": "Command would have run if not in check mode", "skipped": true, "rc": 0});
    assert_eq!(end(&command, 0), End::Skipped("Command would have run if not in check mode".into()));
    let unsupported = json!({"skipped": true, "msg": "remote module (no_check) does not support check mode"});
    assert_eq!(end(&unsupported, 0), End::Skipped("remote module (no_check) does not support check mode".into()));
    assert_eq!(end(&json!({"skipped": true, "changed": true}), 0), End::Skipped("skipped by the module".into()));
    assert_eq!(end(&json!({"skipped": false}), 0), End::Unchanged);
}

#[test]
fn the_last_object_is_the_answer_and_all_else_is_output() {
    let said = "first\n\n{\"changed\": false}\n{broken\n[1]\n\n{\"changed\": true, \"msg\": \"b\"}\n last \n";
    let answer = Answer::new("a.b.c", &reply(said, 0), None, LIMITS);
    assert_eq!(answer.end, End::Changed("b".into()));
    assert_eq!(answer.printed, "first\n{\"changed\": false}\n{broken\n[1]\n last \n");
}

#[test]
fn warnings_have_several_forms() {
    let old = json!({"warnings": ["one", ""], "deprecations": [{"msg": "two", "version": "2.20"}, "three"]});
    let old = answer(&old, 0);
    assert_eq!((old.warnings, old.deprecations), (vec!["one".to_owned()], vec!["two".to_owned(), "three".to_owned()]));
    let event = json!({"event": {"msg": "one", "__ansible_type": "Event"}, "__ansible_type": "WarningSummary"});
    let new = answer(&json!({"warnings": [event], "deprecations": "two"}), 0);
    assert_eq!((new.warnings, new.deprecations), (vec!["one".to_owned()], vec!["two".to_owned()]));
}

#[test]
fn a_difference_has_two_sides() {
    let difference = |changed: bool, diff: Value| answer(&json!({"changed": changed, "diff": diff}), 0).difference();
    let pair = |before: &str, after: &str| Some((before.to_owned(), after.to_owned()));
    let line = json!([
        {"before_header": "/x (file attributes)", "after_header": "/x (file attributes)"},
        {"before": "a\n", "after": "a\nb\n", "before_header": "/x (content)"},
        {"before": "c", "after": "d"},
    ]);
    assert_eq!(difference(true, line.clone()), pair("a\n", "a\nb\n"));
    assert_eq!(difference(false, line), None);
    let file = json!({"before": {"path": "/x", "mode": "0755"}, "after": {"path": "/x", "mode": "0700"}});
    let text = |mode| format!("{{\n  \"mode\": \"{mode}\",\n  \"path\": \"/x\"\n}}\n");
    assert_eq!(difference(true, file), pair(&text("0755"), &text("0700")));
    assert_eq!(difference(true, json!({"prepared": "x"})), None);
    assert_eq!(difference(true, json!([{"before": "", "after": ""}])), None);
    assert_eq!(difference(true, json!([])), None);
    assert_eq!(answer(&json!({"changed": true}), 0).difference(), None);
}
