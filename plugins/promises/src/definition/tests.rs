//! Tests of valid definitions, and of messages for invalid ones.
use super::*;
use holo_bridge::testing::definitions_said;
use holo_plugin::definitions;

/// Returns the findings for definitions.
fn said(text: &str) -> String {
    definitions_said::<Promise, Module>(text)
}

#[test]
fn what_can_be_is_taken() {
    let module = "[[module]]\ntype = \"git\"\npath = \"/usr/lib/git.py\"\ninterpreter = [\"/usr/bin/env\", \"python3\"]\n\
                  provides = \"path\"\nrespects_root = true\n";
    let promise = "[[promise]]\ntype = \"git\"\npromiser = \"/opt/x: y\"\nname = \"x\"\nlog_level = \"debug\"\n\
                   action_policy = \"nop\"\nsensitive = [\"a\", \"b\"]\nattributes = { a = \"$5\", comment = [\"x\"], handle = 1 }\n\
                   scrub = { b = { c = true } }\nrequires = [\"package:git\"]\n";
    assert_eq!(said(&format!("{module}{promise}")), "");
}

#[test]
fn mistakes_are_said_at_their_lines() {
    for (line, complaint) in [
        ("promiser = \"\"", "!! x.toml:1: [[promise]]: promiser: is empty\n"),
        ("promiser = \"\"\nname = \"n\"", "!! x.toml:3: promise:git:n: promiser: is empty\n"),
        ("promiser = \"a\\nb\"\nname = \"n\"", "!! x.toml:3: promise:git:n: promiser: cannot hold a newline or NUL\n"),
        (
            "promiser = \"/x\"\nname = \"a\\nb\"",
            "!! x.toml:4: [[promise]]: name: \"a\\nb\" contains control characters\n",
        ),
        (
            "promiser = \"/x$(y)\"",
            "!! x.toml:3: promise:git:/x$(y): promiser: CFEngine would expand \"$(y)\", and holo does not: use {{ … }} in a .toml.jinja\n",
        ),
        (
            "promiser = \"/x\"\nattributes = { a = [{ b = \"@{c}\" }] }",
            "!! x.toml:4: promise:git:/x: attributes.a: CFEngine would expand \"@{c}\", and holo does not: use {{ … }} in a .toml.jinja\n",
        ),
        (
            "promiser = \"/x\"\n[promise.attributes]\nok = 1\nif = \"x\"",
            "!! x.toml:6: promise:git:/x: attributes.if: CFEngine keeps this to itself; use the key if of the promise\n",
        ),
        (
            "promiser = \"/x\"\n[promise.attributes]\nok = 1\nd = [{ e = 1979-05-27 }]",
            "!! x.toml:6: promise:git:/x: attributes.d[0].e: a date or time has to be written in quotes\n",
        ),
        (
            "promiser = \"/x\"\n[promise.attributes]\n\"a b\" = 1\n",
            "!! x.toml:5: promise:git:/x: attributes.a b: is not a valid attribute name: letters, digits and underscores, and no digit first\n",
        ),
        (
            "promiser = \"/x\"\nscrub = { meta = \"x\" }",
            "!! x.toml:4: promise:git:/x: scrub.meta: CFEngine keeps this to itself, and gives it to no module\n",
        ),
        (
            "promiser = \"/x\"\nsensitive = [\"tokne\"]\nattributes = { token = \"x\" }",
            "!! x.toml:4: promise:git:/x: sensitive: there is no attribute \"tokne\"\n",
        ),
        (
            "promiser = \"/x\"\nlog_level = \"loud\"",
            "!! x.toml:4: promise:git:/x: log_level: expected one of error, warning, notice, info, verbose, debug, found \"loud\"\n",
        ),
    ] {
        let said = said(&format!("[[promise]]\ntype = \"git\"\n{line}\n"));
        let first = said.split_inclusive('\n').next().unwrap();
        let expected = if complaint.starts_with("!! x.toml:1: [[promise]]: promiser") {
            complaint.replace(":1:", ":3:")
        } else {
            complaint.to_owned()
        };
        assert_eq!(first, expected, "{line}");
    }
}

#[test]
fn a_type_is_an_identifier() {
    let promise = |kind: &str| said(&format!("[[promise]]\ntype = \"{kind}\"\npromiser = \"/x\"\n"));
    let problem = "is not letters, digits and underscores with no digit first\n";
    assert!(promise("a:b").starts_with(&format!("!! x.toml:2: [[promise]]: type: \"a:b\" {problem}")));
    assert!(promise("1a").starts_with(&format!("!! x.toml:2: [[promise]]: type: \"1a\" {problem}")));
    let module = said("[[module]]\ntype = \"a-b\"\npath = \"\"\ninterpreter = \"python3\"\nprovides = \"a b\"\n");
    assert_eq!(
        module,
        format!(
            "!! x.toml:2: module a-b: type: \"a-b\" {problem}\
             !! x.toml:3: module a-b: path: is empty\n\
             !! x.toml:4: module a-b: interpreter: \"python3\" is not an absolute path; write [\"/usr/bin/env\", \"python3\"]\n\
             !! x.toml:5: module a-b: provides: \"a b\" is not one word\n"
        )
    );
}

#[test]
fn a_mistake_in_a_value_hides_no_other() {
    let said = said(
        "[[promise]]\ntype = \"git\"\npromiser = \"/x\"\n[promise.attributes]\n\"a b\" = 1\nd = 1979-05-27\nif = \"x\"\nn = [nan]\nt = \"$(x)\"\n",
    );
    let lines: Vec<&str> = said.lines().map(|line| line.split(": ").nth(2).unwrap()).collect();
    let keys = ["attributes.a b", "attributes.d", "attributes.if", "attributes.n[0]", "attributes.t"];
    assert_eq!(lines, keys, "{said}");
    for (line, number) in said.lines().zip([5, 6, 7, 8, 9]) {
        assert!(line.starts_with(&format!("!! x.toml:{number}: ")), "{said}");
    }
}

#[test]
fn a_secret_is_not_shown_where_it_is_wrong() {
    let said = said(
        "[[promise]]\ntype = \"git\"\npromiser = \"/x\"\nsensitive = [\"token\"]\nattributes = { token = \"hush$(hush)\" }\n",
    );
    assert!(said.contains("attributes.token: CFEngine would expand \"$(\"") && !said.contains("hush"), "{said}");
}

#[test]
fn the_schema_is_that_of_the_types() {
    let schema = definitions::schema_with::<Promise, Module>("Definitions of holo's plugin promises");
    holo_testing::schema_is_kept("holo-promises.schema.json", &schema);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let good = "[[module]]\ntype = \"a\"\npath = \"/x\"\ninterpreter = \"/y\"\n[[promise]]\ntype = \"a\"\npromiser = \"p\"\n\
                log_level = \"verbose\"\naction_policy = \"warn\"\nretries = 2\nattributes = { x = [1] }\n";
    let valid =
        |text: &str| validator.is_valid(&serde_json::to_value(toml::from_str::<toml::Value>(text).unwrap()).unwrap());
    assert!(valid(good) && valid(&good.replace("\"/y\"", "[\"/y\", \"z\"]")) && valid(&good.replace("warn", "nop")));
    assert!(!valid(&good.replace("promiser", "promisor")) && !valid(&good.replace("verbose", "loud")));
    assert!(!valid(&good.replace("[[module]]", "[[modul]]")) && !valid(&good.replace("path", "pth")));
}
