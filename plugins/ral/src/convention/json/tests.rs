//! Tests of providers' answers.

use super::*;
use crate::attribute::Values;

fn metadata() -> Metadata {
    Metadata::parse("p", "x", b"provider: { type: t, invoke: json, suitable: true, attributes: { name: , a: } }")
        .unwrap()
}

fn values(value: &Value) -> Values {
    value.as_object().unwrap().clone().into_iter().collect()
}

/// Updates two resources with a provider that gives this answer; also returns its input.
fn updated(answer: &str) -> (Result<Update, String>, Value) {
    let (is, should) = (values(&json!({"a": "1", "b": [1]})), values(&json!({"a": "2"})));
    let differences = [Difference { name: "a".into(), is: Some("1".into()), should: "2".into() }];
    let request = |name| Request { name, is: &is, should: &should, differences: &differences };
    let mut sent = Value::Null;
    let update = set(&metadata(), &[request("one"), request("two")], &mut |call: &Call| {
        assert_eq!(call.arguments, ["ral_action=set"]);
        sent = serde_json::from_slice(call.input.as_deref().unwrap()).unwrap();
        Ok(answer.into())
    });
    (update.map_err(|error| error.to_string()), sent)
}

fn outcomes(answer: &str) -> BTreeMap<String, Outcome> {
    updated(answer).0.unwrap().outcomes
}

fn change(name: &str, was: &str, is: &str) -> Change {
    Change { name: name.into(), was: was.into(), is: is.into() }
}

#[test]
fn everything_that_is_known_is_sent() {
    let (_, sent) = updated("{}");
    let update = |name: &str| json!({"name": name, "is": {"a": "1", "b": [1]}, "should": {"a": "2"}});
    assert_eq!(sent, json!({"ral": {"noop": false}, "updates": [update("one"), update("two")]}));
}

#[test]
fn changes_are_told_one_by_one() {
    let answer = r#"{"changes": [{"name": "one", "a": {"is": "2", "was": "1"}, "b": {"is": [2], "was": null}}, {"name": "other", "a": {"is": 1, "was": 2}}]}"#;
    let update = updated(answer).0.unwrap();
    assert_eq!(update.outcomes["one"], Outcome::Changed(vec![change("a", "1", "2"), change("b", "null", "[2]")]));
    assert!(!update.outcomes.contains_key("two"));
    assert_eq!(update.others, ["[t::p] also changed t other: a: 2 -> 1"]);
}

#[test]
fn what_is_not_mentioned_may_be_derived() {
    let outcomes =
        outcomes(r#"{"changes": [{"name": "one", "error": {"message": "no", "kind": "failed"}}], "derive": true}"#);
    assert_eq!(outcomes["one"], Outcome::Failed("no".into()));
    assert_eq!(outcomes["two"], Outcome::Changed(vec![change("a", "1", "2")]));
}

#[test]
fn errors_have_words() {
    for (error, words) in [
        (r#"{"message": "x", "kind": "forbidden"}"#, "not permitted: x"),
        (r#"{"message": "x", "kind": "unknown"}"#, "there is no such resource: x"),
        (r#"{"message": {"code": 1}}"#, "{\"code\":1}"),
        (r#""text""#, "\"text\""),
    ] {
        assert_eq!(updated(&format!("{{\"error\": {error}}}")).0.unwrap_err(), words);
        let of_one = outcomes(&format!("{{\"changes\": [{{\"name\": \"one\", \"error\": {error}}}]}}"));
        assert_eq!(of_one["one"], Outcome::Failed(words.into()));
    }
}

#[test]
fn an_entry_without_its_parts_fails() {
    assert_eq!(
        outcomes(r#"{"changes": [{"name": "one", "a": {"is": 1}}]}"#)["one"],
        Outcome::Failed("the change of a does not say what it is and was: {\"is\":1}".into())
    );
    assert_eq!(
        updated(r#"{"changes": [{"a": {"is": 1, "was": 2}}]}"#).0.unwrap_err(),
        "set: {\"a\":{\"is\":1,\"was\":2}} has no name"
    );
    assert!(updated("[]").0.unwrap_err().starts_with("set: its answer is not an object"));
    assert!(updated("nonsense").0.unwrap_err().starts_with("set: its answer is not JSON: "));
    assert_eq!(updated(r#"{"changes": 5}"#).0.unwrap_err(), "set: its changes are not a list");
}

#[test]
fn what_is_null_is_not_reported() {
    let answer =
        r#"{"resources": [{"name": "one", "a": null, "b": 1}, {"name": "two", "error": {"kind": "unknown"}}]}"#;
    let readings = get(&["one", "two"], &mut |_: &Call| Ok(answer.into())).unwrap();
    assert_eq!(readings["one"], Reading::Known(values(&json!({"b": 1}))));
    assert_eq!(readings["two"], Reading::Unknown);
}

#[test]
fn only_refused_resources_fail() {
    let mut calls = 0;
    let readings = get(&["good", "bad"], &mut |call: &Call| {
        calls += 1;
        let input = String::from_utf8_lossy(call.input.as_deref().unwrap()).into_owned();
        let refusal = r#"{"error": {"message": "bad name", "kind": "failed"}}"#;
        let answer = r#"{"resources": [{"name": "good", "a": 1}]}"#;
        Ok(if input.contains("bad") { refusal } else { answer }.into())
    })
    .unwrap();
    assert_eq!(calls, 3);
    assert_eq!(readings["bad"], Reading::Failed("bad name".into()));
    assert!(matches!(readings["good"], Reading::Known(_)));
}

#[test]
fn an_error_counts_as_an_answer_whatever_the_exit_status() {
    assert_eq!(error_in(br#"{"error": {"message": "not implemented"}}"#).as_deref(), Some("not implemented"));
    assert_eq!(error_in(br#"{"resources": []}"#), None);
    assert_eq!(error_in(b"Traceback"), None);
}
