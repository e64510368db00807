//! Tests of valid definitions, and of messages for invalid ones.
use super::*;
use holo_bridge::testing::definitions_said;
use holo_plugin::definitions;

/// Returns the findings for definitions.
fn said(text: &str) -> String {
    let incomplete =
        ">> scrubbing is suspended until this is fixed, because the definition of an entity may be missing\n";
    definitions_said::<Resource, DeclaredProvider>(text).replace(incomplete, "")
}

#[test]
fn what_can_be_is_taken() {
    let provider = "[[provider]]\npath = \"/usr/lib/x.prov\"\ninterpreter = \"/bin/sh\"\nrespects_root = true\n";
    let resource = "[[resource]]\ntype = \"service\"\nprovider = \"systemd\"\nname = \"sshd\"\n\
                    attributes = { ensure = \"running\", enable = true }\nsensitive = [\"enable\"]\nrequires = [\"package:x\"]\n";
    assert_eq!(said(&format!("{provider}{resource}")), "");
}

#[test]
fn mistakes_are_said_at_their_lines() {
    for (lines, complaint) in [
        (
            "type = \"A\"\nname = \"x\"",
            "!! x.toml:2: [[resource]]: type: \"A\" is not lower-case letters, digits, - and _\n",
        ),
        ("type = \"a\"\nname = \":x\"", "!! x.toml:3: [[resource]]: name: begins with a colon; say which provider\n"),
        (
            "type = \"a\"\nname = \"x\"\nattributes = { name = \"y\" }",
            "!! x.toml:4: ral:a:x: attributes.name: the name of a resource is a key of its own\n",
        ),
        (
            "type = \"a\"\nname = \"x\"\nattributes = { ral_action = \"y\", __x = 1 }",
            "!! x.toml:4: ral:a:x: attributes.ral_action: libral keeps this to itself\n\
             !! x.toml:4: ral:a:x: attributes.__x: libral keeps this to itself\n",
        ),
        (
            "type = \"a\"\nprovider = \"p\"\nname = \"x\"\nattributes = { \"a-b\" = 1 }",
            "!! x.toml:5: ral:a::p:x: attributes.a-b: is not a valid attribute name: lower-case letters, digits and underscores\n",
        ),
        (
            "type = \"a\"\nname = \"x\"\nsensitive = [\"y\"]",
            "!! x.toml:4: ral:a:x: sensitive: there is no attribute \"y\"\n",
        ),
    ] {
        assert_eq!(said(&format!("[[resource]]\n{lines}\n")), complaint, "{lines}");
    }
    assert_eq!(said("[[provider]]\npath = \"/x\"\n"), "!! x.toml:2: provider /x: path: \"/x\" does not end in .prov\n");
}

#[test]
fn the_schema_is_that_of_the_types() {
    let schema = definitions::schema_with::<Resource, DeclaredProvider>("Definitions of holo's plugin ral");
    holo_testing::schema_is_kept("holo-ral.schema.json", &schema);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let is_valid =
        |text: &str| validator.is_valid(&serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap());
    assert!(is_valid(
        "[[resource]]\ntype = \"a\"\nname = \"b\"\nattributes = { c = 1 }\n[[provider]]\npath = \"x.prov\"\n"
    ));
    assert!(!is_valid("[[resource]]\ntype = \"a\"\n"));
    assert!(!is_valid("[[provider]]\npath = 5\n"));
}
