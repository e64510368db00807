//! Tests of providers with the simple convention.

use crate::machine::{BASH, Machine, end, resource, trials_of};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    trials_of(
        BASH,
        &[
            ("a resource is made, left alone, and taken away again", life),
            ("what was made goes, whatever of it was defined", made),
            ("what is there before is put back", base),
            ("a text that a person has changed is not overwritten", force),
            ("attributes are checked against the metadata", attributes),
            ("a provider that only says that it changed something has failed", liar),
            ("an error without an end is an error", half_error),
            ("errors and unknown resources fail alone", failures),
            ("a refused name does not block the others", refused),
            ("an error with any exit status is an answer", not_implemented),
            ("values and environment reach the provider as they are", quoting),
            ("a secret is not shown", secrets),
            ("check changes nothing", check),
            ("a difference is two files", diff),
        ],
    )
}

fn life() {
    let machine =
        Machine::new(&["table"], &resource("row", "one", "ensure = \"present\", text = \"a b\", flag = true"));
    let ends = machine.apply();
    assert!(ends.run.success(), "{}", ends.run);
    assert_eq!(
        end(&ends, "row:one"),
        ("changed", vec!["ensure: absent -> present", "text: none -> a b", "flag: none -> true"]),
        "{}",
        ends.run
    );
    assert_eq!(ends.of("ral:row:one").stdout, "updating one\n");
    assert_eq!(machine.root.read("etc/table/one"), "ensure=present\ntext=a b\nflag=true\n");
    assert_eq!(end(&machine.apply(), "row:one"), ("unchanged", vec![]));
    machine.define("");
    let ends = machine.apply();
    assert!(ends.run.success(), "{}", ends.run);
    assert!(!machine.root.exists("etc/table/one"), "{}", ends.run);
    assert!(machine.root.holo(&["scan"]).stdout.is_empty());
}

fn made() {
    let machine = Machine::new(&["table"], &resource("row", "one", "text = \"a\""));
    assert!(machine.apply().run.success());
    machine.define("");
    let ends = machine.apply();
    assert!(ends.run.success() && !machine.root.exists("etc/table/one"), "{}", ends.run);
}

fn base() {
    let machine = Machine::new(&["table"], &resource("row", "one", "text = \"ours\""));
    machine.root.write("etc/table/one", "ensure=present\ntext=theirs\nflag=maybe\n");
    assert_eq!(end(&machine.apply(), "row:one"), ("changed", vec!["text: theirs -> ours"]));
    // Changed definitions are applied as well.
    machine.define(&resource("row", "one", "text = \"ours\", flag = false"));
    assert_eq!(end(&machine.apply(), "row:one"), ("changed", vec!["flag: maybe -> false"]));
    machine.define("");
    let ends = machine.apply();
    assert!(ends.run.success(), "{}", ends.run);
    let content = machine.root.read("etc/table/one").to_string();
    assert!(content.contains("text=theirs\n") && content.contains("flag=maybe\n"), "{content}");
}

fn force() {
    let machine = Machine::new(&["table"], &resource("row", "one", "text = \"ours\", flag = true"));
    machine.root.write("etc/table/one", "ensure=present\ntext=theirs\n");
    assert_eq!(end(&machine.apply(), "row:one").0, "changed");
    // A changed flag does not count as a manual change.
    machine.root.write("etc/table/one", "ensure=present\ntext=ours\nflag=maybe\n");
    assert_eq!(end(&machine.apply(), "row:one"), ("changed", vec!["flag: maybe -> true"]));
    machine.root.write("etc/table/one", "ensure=present\ntext=edited\nflag=true\n");
    assert_eq!(end(&machine.check(), "row:one").0, "refused");
    assert_eq!(end(&machine.apply(), "row:one").0, "refused");
    assert_eq!(machine.root.read("etc/table/one"), "ensure=present\ntext=edited\nflag=true\n");
    assert_eq!(end(&machine.holo(&["apply", "--force"]), "row:one"), ("changed", vec!["text: edited -> ours"]));
    // A deleted resource is created again.
    std::fs::remove_file(machine.root.join("etc/table/one")).unwrap();
    let ends = machine.apply();
    assert_eq!(end(&ends, "row:one").0, "changed", "{}", ends.run);
}

fn attributes() {
    let wrong = "txet = \"a\", size = 5, flag = \"x\", text = [\"a\"]";
    let machine =
        Machine::new(&["table"], &format!("{}{}", resource("row", "one", wrong), resource("row", "two", "text = 5")));
    let ends = machine.apply();
    assert_eq!((end(&ends, "row:one").0, end(&ends, "row:two").0), ("failed", "changed"), "{}", ends.run);
    assert_eq!(
        machine.errors(&ends, "row:one"),
        "!! 20.toml:1: ral:row:one: attributes.flag: \"x\" is not one of true, false, maybe\n\
         !! 20.toml:1: ral:row:one: attributes.size: can only be read\n\
         !! 20.toml:1: ral:row:one: attributes.text: expected a single value, found a list\n\
         !! 20.toml:1: ral:row:one: attributes.txet: the provider row::table has no such attribute, did you mean text?\n"
    );
}

fn liar() {
    let machine = Machine::new(&["liar"], &resource("lie", "x", "ensure = \"present\""));
    let ends = machine.apply();
    assert_eq!(end(&ends, "lie:x").0, "failed");
    assert_eq!(
        machine.errors(&ends, "lie:x"),
        "!! [lie::liar] x: ensure is \"absent\", not \"present\", after the update\n"
    );
}

fn half_error() {
    let machine = Machine::new(&["half_error"], &resource("half", "x", "ensure = \"present\""));
    let ends = machine.apply();
    assert_eq!(end(&ends, "half:x").0, "failed");
    assert_eq!(machine.errors(&ends, "half:x"), "!! this goes wrong\n!! [half::half_error] it is half an error\n");
}

fn failures() {
    let definitions: String =
        ["locked-1", "impossible", "fine"].map(|name| resource("row", name, "ensure = \"present\"")).concat();
    let machine = Machine::new(&["table"], &definitions);
    let ends = machine.apply();
    assert_eq!(machine.errors(&ends, "row:locked-1"), "!! [row::table] the row is locked by somebody\n");
    assert_eq!(
        machine.errors(&ends, "row:impossible"),
        "!! impossible: provider row::table has no information about it\n"
    );
    assert_eq!(end(&ends, "row:fine").0, "changed", "{}", ends.run);
    machine.define(&resource("row", "impossible", "ensure = \"absent\""));
    assert_eq!(end(&machine.apply(), "row:impossible").0, "unchanged");
}

/// A provider that refuses by exiting with 1.
const REFUSING: &str = r##"#!/bin/bash
eval "$@"
echo "# simple"
case "$ral_action $name" in
describe*) echo "provider: { type: refusing, invoke: simple, actions: [list, find, update], suitable: true, attributes: { name: , text: } }" ;;
list*) echo "ral_error: not implemented"; exit 1 ;;
find*bad*) echo "ral_error: bad name"; exit 1 ;;
update*good*) echo "name: $name"; echo "text: $text"; echo "ral_was: none"; echo "$text" >"${HOLO_ROOT_DIR%/}/etc/$name" ;;
update*) echo "ral_error: not implemented"; exit 1 ;;
*) echo "name: $name"; echo "text: $(cat "${HOLO_ROOT_DIR%/}/etc/$name" 2>/dev/null)" ;;
esac
"##;

fn refused() {
    for count in [3, 20] {
        let names = (0..count).flat_map(|number| [format!("bad-{number}"), format!("good-{number}")]);
        let definitions: String = names.map(|name| resource("refusing", &name, "text = \"a\"")).collect();
        let machine = Machine::new(&[], &definitions).provider("refusing", REFUSING);
        let ends = machine.apply();
        for number in 0..count {
            assert_eq!(end(&ends, &format!("refusing:good-{number}")).0, "changed", "{}", ends.run);
            let bad = format!("refusing:bad-{number}");
            assert_eq!(machine.errors(&ends, &bad), "!! [refusing::refusing] bad name\n", "{}", ends.run);
        }
    }
}

fn not_implemented() {
    let definitions: String =
        ["a1", "a2", "a3", "a4", "good"].map(|name| resource("refusing", name, "text = \"a\"")).concat();
    let machine = Machine::new(&[], &definitions).provider("refusing", REFUSING);
    let ends = machine.apply();
    for name in ["a1", "a2", "a3", "a4"] {
        let said = machine.errors(&ends, &format!("refusing:{name}"));
        assert_eq!(said, "!! [refusing::refusing] not implemented\n", "{}", ends.run);
    }
    assert_eq!(end(&ends, "refusing:good").0, "changed", "{}", ends.run);
}

fn quoting() {
    let text = "it's; touch /tmp/x $(id) `id` \\\"y\\\" & | *";
    let machine = Machine::new(&["echo_args"], &resource("echo", "a'b", &format!("text = \"{text}\"")));
    let root = machine.root;
    let machine = Machine {
        root: root.env("text", "from the environment").env("ensure", "bogus").env("ral_noop", "1").env("OTHER", "x"),
    };
    let ends = machine.apply();
    assert!(ends.run.success(), "{}", ends.run);
    assert_eq!(machine.root.read("etc/echoed"), "it's; touch /tmp/x $(id) `id` \"y\" & | *\n");
    let called = machine.root.read("etc/called").to_string();
    let environment = called.lines().nth(1).unwrap();
    let has = |name: &str| environment.split(' ').any(|other| other == name);
    assert!(has("OTHER") && has("HOLO_ROOT_DIR") && has("LC_ALL"), "{environment}");
    for name in ["text", "ensure", "ral_noop", "HOLO_STATE_DIR", "HOLO_CACHE_DIR", "HOLO_API_VERSION"] {
        assert!(!has(name), "{name} in {environment}");
    }
    machine.define(&resource("echo", "x", "text = \"a\\nb\""));
    let ends = machine.apply();
    assert_eq!(end(&ends, "echo:x").0, "failed");
    assert!(machine.errors(&ends, "echo:x").contains("a newline cannot be given"), "{}", ends.run);
}

fn secrets() {
    let secret = format!("{}sensitive = [\"text\"]\n", resource("row", "one", "text = \"s3cret\""));
    let machine = Machine::new(&["table"], &secret);
    for arguments in [&["scan"][..], &["check"], &["apply"], &["diff"]] {
        let run = machine.root.holo(arguments);
        assert!(!run.stdout_lossy().contains("s3cret") && !run.stderr_lossy().contains("s3cret"), "{run}");
    }
    assert!(machine.root.read("etc/table/one").to_string().contains("s3cret"));
}

fn check() {
    let machine = Machine::new(&["table"], &resource("row", "one", "text = \"a\""));
    machine.root.write("etc/table/one", "ensure=present\ntext=b\n");
    assert_eq!(end(&machine.check(), "row:one").1, ["text: b -> a"]);
    assert_eq!(machine.root.read("etc/table/one"), "ensure=present\ntext=b\n");
}

fn diff() {
    let machine = Machine::new(&["table"], &resource("row", "one", "text = \"a\", flag = true"));
    machine.root.write("etc/table/one", "ensure=present\ntext=b\nflag=true\n");
    let run = machine.root.holo(&["diff"]);
    let said = run.stdout_lossy();
    assert!(said.contains(" flag = \"true\"\n-text = \"a\"\n+text = \"b\"\n"), "{run}");
}
