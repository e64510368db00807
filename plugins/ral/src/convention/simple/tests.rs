//! Tests of arguments and answers.

use super::*;
use serde_json::json;

fn values(value: &Value) -> Values {
    value.as_object().unwrap().clone().into_iter().collect()
}

#[test]
fn no_answer_makes_the_reader_panic() {
    let words =
        ["# simple\n", "name: ", "ral_eom", "ral_was: ", ": ", "\n", "---\n", "provider:\n", "  type: ", "&a", "*a"];
    let target = holo_testing::fuzz::Target::new(env!("CARGO_MANIFEST_DIR"), "answers").words(&words).inputs(2000);
    target.run(|input| {
        drop(parse(&String::from_utf8_lossy(input)));
        drop(Metadata::parse("x", "x", input));
    });
}

#[test]
fn a_shell_gets_back_what_was_given() {
    for (value, argument) in [
        (json!("plain"), "a='plain'"),
        (json!("it's $(x) \"y\" \\"), r#"a='it'\''s $(x) "y" \'"#),
        (json!(true), "a='true'"),
        (json!(""), "a=''"),
    ] {
        assert_eq!(assignment("a", &value).unwrap(), argument);
    }
    assert!(assignment("a", &json!(["x"])).unwrap_err().starts_with("a: a list cannot be given"));
    assert!(assignment("a", &json!("x\ny")).unwrap_err().starts_with("a: a newline cannot be given"));
}

#[test]
fn answers_are_lines() {
    let answer =
        parse("# simple\nname: a b\nensure:  1:2 \n\nother: x\nral_was: y\nname: c\nral_derive: true\n").unwrap();
    assert_eq!(answer.resources.len(), 2);
    assert_eq!(answer.resources[0].values, values(&json!({"ensure": "1:2", "other": "x"})));
    assert_eq!(answer.resources[0].changes, [Change { name: "other".into(), was: "y".into(), is: "x".into() }]);
    assert_eq!((answer.resources[1].name.as_str(), answer.derives, answer.is_unknown), ("c", true, false));
    for (text, problem) in [
        ("", "it does not answer"),
        ("name: x", "its answer begins with \"name: x\", not with \"# simple\""),
        ("# simple\nx", "\"x\" is not KEY: VALUE"),
        ("# simple\nx: y", "\"x: y\" stands before a name"),
        ("# simple\nname: x\nral_was: y", "ral_was stands before an attribute"),
    ] {
        assert_eq!(parse(text).unwrap_err(), problem, "{text}");
    }
}

#[test]
fn an_error_ends_at_its_mark_or_with_the_answer() {
    for end in ["ral_eom\nname: x\n", ""] {
        let answer = parse(&format!("# simple\nral_error: one\n  two\n{end}")).unwrap();
        assert_eq!(answer.error.as_deref(), Some("one two"));
    }
    assert_eq!(error_in(b"# simple\nname: x\nral_error: no\n").as_deref(), Some("no"));
    assert_eq!(error_in(b"nonsense"), None);
}

#[test]
fn many_are_listed_and_few_are_looked_for() {
    let names: Vec<String> = (0..17).map(|number| format!("n{number}")).collect();
    let mut calls = Vec::new();
    let mut call = |call: &Call| -> Result<Vec<u8>, CallError> {
        calls.push(call.arguments.join(" "));
        let name = call.arguments[0].strip_prefix("name='").map(|name| name.trim_end_matches('\''));
        Ok(match name {
            Some(name) => format!("# simple\nname: {name}\na: found\n").into(),
            None => (0..16)
                .fold("# simple\n".to_owned(), |text, number| format!("{text}name: n{number}\na: listed\n"))
                .into(),
        })
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let readings = get(&names, &mut call).unwrap();
    assert_eq!(readings["n16"], Reading::Known(values(&json!({"a": "found"}))));
    assert_eq!(readings["n1"], Reading::Known(values(&json!({"a": "listed"}))));
    get(&names[..2], &mut call).unwrap();
    assert_eq!(
        calls,
        ["ral_action=list", "name='n16' ral_action=find", "name='n0' ral_action=find", "name='n1' ral_action=find"]
    );
}

#[test]
fn an_update_names_what_differs_and_what_cannot_be_read() {
    let text = b"provider: { type: t, invoke: simple, suitable: true, attributes: { name: , a: , b: , w: { kind: w }, ensure: } }";
    let metadata = Metadata::parse("p", "x", text).unwrap();
    let should = values(&json!({"a": "1", "b": "2", "w": "3"}));
    let is = Values::new();
    let difference = crate::compare::Difference { name: "a".into(), is: None, should: "1".into() };
    let request = Request { name: "n", is: &is, should: &should, differences: &[difference] };
    let mut seen = Vec::new();
    let update = set(&metadata, &[request], &mut |call: &Call| {
        seen.clone_from(&call.arguments);
        Ok("# simple\nname: n\nral_derive: true\n".into())
    });
    assert_eq!(seen, ["name='n'", "a='1'", "w='3'", "ral_action=update"]);
    assert_eq!(
        update.outcomes["n"],
        Outcome::Changed(vec![Change { name: "a".into(), was: "none".into(), is: "1".into() }])
    );
}
