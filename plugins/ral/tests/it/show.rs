//! Tests of `holo-ral show`.

use crate::machine::{BASH, Machine, trials_of};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    trials_of(
        BASH,
        &[
            ("providers are listed", providers),
            ("resources are shown as they would be defined", resources),
            ("scripts get JSON", json),
            ("what is not there is told by the exit status", exit_status),
        ],
    )
}

fn machine() -> Machine {
    let machine = Machine::new(&["table", "bad_type"], "");
    machine.root.write("etc/table/one", "ensure=present\ntext=a b\nsize=5\n");
    machine
}

fn providers() {
    let machine = machine();
    let run = machine.show(&[]);
    assert_eq!(machine.short(&run.stdout_lossy()), "row::table: providers/table.prov\n", "{run}");
}

fn resources() {
    let table = "[[resource]]\ntype = \"row\"\nprovider = \"table\"\nname = \"one\"\n[resource.attributes]\n\
                 ensure = \"present\"\n# size = \"5\"\ntext = \"a b\"\n";
    let machine = machine();
    for arguments in [&["row"][..], &["row", "one"], &["row::table", "one"]] {
        let run = machine.show(arguments);
        assert_eq!(run.stdout_lossy(), table, "{run}");
    }
    // When its output is used as a definition, the resource is unchanged.
    machine.define(table);
    let ends = machine.check();
    assert_eq!(ends.of("ral:row::table:one").result, "unchanged", "{}", ends.run);
}

fn json() {
    let machine = machine();
    let shown = |arguments: &[&str]| -> serde_json::Value {
        let run = machine.show(arguments);
        serde_json::from_str(&run.stdout_lossy()).map_err(|error| format!("{error}: {run}")).unwrap()
    };
    assert_eq!(shown(&["--json"])["providers"][0]["name"], "row::table");
    assert_eq!(shown(&["row", "--json"])["resources"][0]["attributes"]["text"], "a b");
    assert_eq!(shown(&["row", "one", "--json"])["resource"]["name"], "one");
}

fn exit_status() {
    let machine = machine();
    for (arguments, status) in [
        (&["row", "impossible"][..], 1),
        (&["nothing"], 1),
        (&["row::other"], 1),
        (&["--all"], 2),
        (&["a", "b", "c"], 2),
        (&["row", "absent"], 0),
    ] {
        let run = machine.show(arguments);
        assert_eq!(run.status, Some(status), "{arguments:?} {run}");
    }
}
