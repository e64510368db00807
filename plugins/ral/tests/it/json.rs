//! Tests of providers with the json convention.

use crate::machine::{Machine, PYTHON, end, resource, trials_of};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    trials_of(
        PYTHON,
        &[
            ("values keep their types", types),
            ("what a provider does not tell is derived, and other changes are warnings", derived),
            ("failures are of those they are about", failures),
            ("if a whole set fails only the culprit does", culprit),
            ("what cannot be read fails before anything is changed", unreadable),
            ("what is defined no more is put back", scrub),
        ],
    )
}

fn types() {
    let cell = resource("cell", "one", "text = 42, on = true, list = [\"a\", \"b\"]");
    let machine = Machine::new(&["table.py"], &cell);
    let ends = machine.apply();
    assert!(ends.run.success(), "{}", ends.run);
    assert_eq!(
        end(&ends, "cell:one"),
        ("changed", vec!["list: null -> [\"a\",\"b\"]", "on: null -> true", "text: null -> 42"])
    );
    let expected = r#"{"one": {"ensure": "present", "list": ["a", "b"], "on": true, "text": "42"}}"#;
    assert_eq!(machine.root.read("etc/cells.json"), expected);
    assert_eq!(end(&machine.apply(), "cell:one").0, "unchanged");
    assert_eq!(end(&machine.check(), "cell:one").0, "unchanged");
}

fn derived() {
    let cells = [resource("cell", "derived", "text = \"a\""), resource("cell", "both", "text = \"b\"")].concat();
    let machine = Machine::new(&["table.py"], &cells);
    let ends = machine.apply();
    assert!(ends.run.success(), "{}", ends.run);
    assert_eq!(end(&ends, "cell:derived"), ("changed", vec!["text: none -> a"]));
    let said = ends.run.stdout_lossy();
    assert!(said.contains("[cell::table] also changed cell neighbour: text: a -> b"), "{said}");
}

fn failures() {
    let cells: String =
        ["forbidden", "halfway", "liar", "fine"].map(|name| resource("cell", name, "text = \"a\"")).concat();
    let machine = Machine::new(&["table.py"], &cells);
    let ends = machine.apply();
    for (name, message) in [
        ("forbidden", "!! [cell::table] not permitted: hands off\n"),
        ("halfway", "!! [cell::table] the change of text does not say what it is and was: {\"is\":\"x\"}\n"),
        ("liar", "!! [cell::table] liar: text is not reported, not \"a\", after the update\n"),
    ] {
        let id = format!("cell:{name}");
        assert_eq!((end(&ends, &id).0, machine.errors(&ends, &id).as_str()), ("failed", message), "{name}");
    }
    assert_eq!(end(&ends, "cell:fine").0, "changed", "{}", ends.run);
    machine.define(&resource("cell", "nameless", "ensure = \"present\""));
    let ends = machine.apply();
    assert!(machine.errors(&ends, "cell:nameless").contains("has no name"), "{}", ends.run);
}

fn culprit() {
    let cells: String = ["one", "poison", "two"].map(|name| resource("cell", name, "text = \"a\"")).concat();
    let machine = Machine::new(&["table.py"], &cells);
    let ends = machine.apply();
    assert_eq!(machine.errors(&ends, "cell:poison"), "!! [cell::table] the whole set is poisoned\n");
    assert_eq!((end(&ends, "cell:one").0, end(&ends, "cell:two").0), ("changed", "changed"), "{}", ends.run);
}

fn unreadable() {
    let cells: String = ["unknown", "broken", "missing"].map(|name| resource("cell", name, "text = \"a\"")).concat();
    let machine = Machine::new(&["table.py"], &cells);
    for ends in [machine.check(), machine.apply()] {
        for (name, message) in [
            ("unknown", "!! unknown: provider cell::table has no information about it\n"),
            ("broken", "!! [cell::table] {\"code\":5}\n"),
            ("missing", "!! missing: provider cell::table has no information about it\n"),
        ] {
            let id = format!("cell:{name}");
            assert_eq!((end(&ends, &id).0, machine.errors(&ends, &id).as_str()), ("failed", message), "{name}");
        }
    }
    assert!(!machine.root.exists("etc/cells.json"));
}

fn scrub() {
    let machine = Machine::new(&["table.py"], &resource("cell", "one", "text = \"a\", on = true"));
    machine.root.write("etc/cells.json", r#"{"one": {"ensure": "present", "text": "b"}}"#);
    assert_eq!(end(&machine.apply(), "cell:one").0, "changed");
    machine.define("");
    let ends = machine.apply();
    assert!(ends.run.success(), "{}", ends.run);
    assert_eq!(machine.root.read("etc/cells.json"), r#"{"one": {"ensure": "present", "on": true, "text": "b"}}"#);
    assert!(
        machine.errors(&ends, "cell:one").contains("on was not reported before it was set, and stays"),
        "{}",
        ends.run
    );
}
