//! Tests of valid and invalid definitions.

use super::*;

/// Returns the errors of a task with these lines.
fn wrong(lines: &str) -> Vec<String> {
    let name = if lines.contains("module =") { "" } else { "module = \"copy\"\n" };
    match toml::from_str::<Task>(&format!("name = \"x\"\n{name}{lines}")) {
        Err(error) => vec![error.message().to_owned()],
        Ok(task) => task.invalid().iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn what_can_be_is_taken() {
    for lines in [
        "",
        "module = \"ansible.posix.sysctl\"\nargs = { name = \"vm.swappiness\", value = \"10\" }",
        "args = { content = \"x\", dest = \"/a\" }\nsend = [\"dest\", \"_x1\"]\nsensitive = [\"content\"]",
        "args = { content = { a = [1, 2.5, true] }, dest = \"/a\" }\nscrub = { dest = \"/a\", content = \"\" }",
        "check_mode = false",
        "module = \"local.test.template\"\nargs = { content = \"x\", src = \"y\", dest = \"/a/\" }",
    ] {
        assert_eq!(wrong(lines), Vec::<String>::new(), "{lines}");
    }
}

#[test]
fn what_cannot_be_is_named() {
    for (lines, problem) in [
        ("module = \"Copy\"", "module: \"Copy\" is not a module's name, such as \"copy\" or \"ansible.posix.sysctl\""),
        ("args._ansible_check_mode = true", "args._ansible_check_mode: is for Ansible itself to say"),
        ("scrub = { _ansible_diff = true }", "scrub._ansible_diff: is for Ansible itself to say"),
        (
            "args = { content = \"x\", src = \"y\" }",
            "args.content: there is src as well, and the file can have only one content",
        ),
        (
            "args = { content = \"x\", dest = \"/a/\" }",
            "args.content: dest is a directory, and the file in it has no name",
        ),
        ("send = [\"a-b\"]", "send: \"a-b\" is not a name that can be sent, of letters, digits and _"),
        ("send = [\"1a\"]", "send: \"1a\" is not a name that can be sent, of letters, digits and _"),
        ("args = { since = 1979-05-27 }", "args.since: a date or time has to be written in quotes"),
        (
            "become = true",
            "unknown field `become`, expected one of `name`, `module`, `args`, `check_mode`, `send`, `sensitive`, `changed_when`, `failed_when`, `register`, `when`, `expressions`, `ignore_errors`, `vars`, `environment`, `become_user`, `become_exec`, `refresh_only`, `module_only`, `scrub`",
        ),
    ] {
        assert_eq!(wrong(lines), [problem], "{lines}");
    }
    assert!(wrong("module = \"fetch\"")[0].starts_with("module: fetch is a part of Ansible's controller"));
    assert_eq!(wrong("module = \"fetch\"\nargs._ansible_x = 1\nsend = [\"\"]").len(), 3);
}

#[test]
fn a_sensitive_argument_that_nobody_gives_is_doubted() {
    let doubts =
        |text: &str| toml::from_str::<Task>(&format!("name = \"x\"\nmodule = \"user\"\n{text}")).unwrap().doubts();
    assert!(doubts("args.password = \"x\"\nsensitive = [\"password\"]").is_empty());
    assert!(doubts("expressions.password = \"x\"\nsensitive = [\"password\"]").is_empty());
    assert!(doubts("scrub.password = \"x\"\nsensitive = [\"password\"]").is_empty());
    let doubt = &doubts("args.password = \"x\"\nsensitive = [\"pasword\"]")[0];
    assert_eq!(doubt.to_string(), "sensitive: there is no argument \"pasword\"");
}

#[test]
fn python_and_the_collections_have_paths() {
    let wrong = |text: &str| -> Vec<String> {
        let table: PythonTable = toml::from_str(text).unwrap();
        table.invalid_values().iter().map(ToString::to_string).collect()
    };
    assert_eq!(wrong(""), Vec::<String>::new());
    assert_eq!(wrong("python = [\"/usr/bin/env\", \"python3\"]\ncollections = []"), Vec::<String>::new());
    assert_eq!(
        wrong("python = \"python3\"\ncollections = [\"/a\", \"b\"]"),
        [
            "python: \"python3\" is not an absolute path; write [\"/usr/bin/env\", \"python3\"]",
            "collections: \"b\" is not an absolute path"
        ]
    );
    assert_eq!(PythonTable::default().python.words(), ["/usr/bin/python3"]);
}

#[test]
fn the_schema_is_that_of_the_types() {
    let schema = holo_plugin::definitions::schema_with::<Task, PythonTable>("Definitions of holo's plugin ansible");
    holo_testing::schema_is_kept("holo-ansible.schema.json", &schema);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let valid =
        |text: &str| validator.is_valid(&serde_json::to_value(toml::from_str::<toml::Value>(text).unwrap()).unwrap());
    let good = "[[host]]\npython = \"/a\"\n[[task]]\nname = \"x\"\nmodule = \"copy\"\nargs = { a = [1] }\nrequires = [\"a:b\"]\n";
    assert!(valid(good) && valid(&good.replace("\"/a\"", "[\"/a\", \"b\"]")));
    assert!(!valid(&good.replace("module", "modul")) && !valid(&good.replace("\"/a\"", "3")));
    assert!(!valid(&good.replace("{ a = [1] }", "\"a=1\"")));
}
