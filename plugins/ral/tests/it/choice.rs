//! Tests of the choice of providers, and of messages if there is none.

use crate::machine::{BASH, Machine, RESOURCES, end, resource, trials_of};
use holo_testing::ScratchRoot;
use libtest_mimic::Trial;
use std::path::Path;

pub(crate) fn trials() -> Vec<Trial> {
    trials_of(
        BASH,
        &[
            ("mistakes in metadata are named, each with its provider", mistakes),
            ("of several suitable providers one has to be named", several),
            ("a provider that others may change is not run", untrusted),
            ("while the system is not running, no provider is started", offline),
            ("test mode starts no provider that does not respect the root", mocks),
            ("a provider that fails again and again is given up", given_up),
        ],
    )
}

fn mistakes() {
    let machine = Machine::new(&["bad_invoke", "bad_name", "bad_suitable", "bad_type"], &resource("bad", "x", ""));
    machine.root.write(
        Path::new(RESOURCES).join("providers/off.yaml"),
        "provider: { type: bad, invoke: json, suitable: false, attributes: { name: } }",
    );
    let root = machine.root.script(Path::new(RESOURCES).join("providers/off.prov"), "#!/bin/sh\n");
    let machine = Machine { root };
    let declared = "[[provider]]\npath = \"providers/off.prov\"\nrespects_root = true\n";
    machine.root.write(Path::new(RESOURCES).join("15.toml"), declared);
    let ends = machine.apply();
    assert_eq!(
        machine.errors(&ends, "bad:x"),
        "!! no provider of type bad is suitable here\n\
         >> providers/bad_invoke.prov: bad_invoke.yaml: provider.invoke: expected simple or json, found \"xml\"\n\
         >> providers/bad_name.prov: bad_name.yaml: provider.attributes: there is no name\n\
         >> providers/bad_suitable.prov: bad_suitable.yaml: provider.suitable: expected true, false or commands, found \"perhaps\"\n\
         >> providers/bad_type.prov: bad_type.yaml: provider.attributes.x.type: \"integer\" is not string, boolean, array[string] or enum[…]\n\
         >> providers/off.prov: suitable is false\n",
        "{}",
        ends.run
    );
}

fn several() {
    let machine = Machine::new(&["table", "echo_args"], &resource("row", "x", "ensure = \"present\""));
    machine.root.write(
        Path::new(RESOURCES).join("providers/echo_args.yaml"),
        "provider: { type: row, name: other, invoke: simple, suitable: true, attributes: { name: , ensure: } }",
    );
    let ends = machine.apply();
    assert_eq!(machine.errors(&ends, "row:x"), "!! row: table or other? Say provider = \"…\"\n");
    machine.define(
        "[[resource]]\ntype = \"row\"\nprovider = \"table\"\nname = \"x\"\nattributes = { ensure = \"present\" }\n",
    );
    let ends = machine.apply();
    assert_eq!(end(&ends, "row::table:x").0, "changed", "{}", ends.run);
}

fn untrusted() {
    let machine = Machine::new(&["table"], &resource("row", "x", "ensure = \"present\""));
    let root = machine.root.mode(Path::new(RESOURCES).join("providers/table.prov"), 0o777);
    let machine = Machine { root };
    let ends = machine.apply();
    assert!(
        machine.errors(&ends, "row:x").contains("is writable for other users (mode 0777), and is not used"),
        "{}",
        ends.run
    );
}

fn offline() {
    let machine = Machine::new(&["table"], &resource("row", "x", "ensure = \"present\""));
    let machine = Machine { root: machine.root.env("HOLO_OFFLINE", "1") };
    assert_eq!(end(&machine.check(), "row:x").0, "unknown");
    let ends = machine.apply();
    assert_eq!(end(&ends, "row:x").0, "pending");
    assert!(ends.run.success(), "{}", ends.run);
    let machine = Machine { root: machine.root.env("HOLO_OFFLINE", "0") };
    assert_eq!(end(&machine.apply(), "row:x").0, "changed");
}

fn mocks() {
    let root = ScratchRoot::new().plugin("ral");
    let machine = Machine { root };
    machine.define(&resource("row", "x y", "ensure = \"present\", text = \"a b\""));
    assert_eq!(end(&machine.check(), "row:x y").1, ["would ask a provider of type row"]);
    let ends = machine.apply();
    assert_eq!(ends.of("ral:row:x y").stdout, "MOCK: resource row 'x y' ensure=present 'text=a b'\n");
    assert_eq!(end(&machine.apply(), "row:x y").0, "unchanged");
    assert_eq!(end(&machine.check(), "row:x y").0, "unchanged");
}

fn given_up() {
    let rows: String = ["a", "b", "c", "d", "e"].map(|name| resource("row", name, "ensure = \"present\"")).concat();
    let machine = Machine::new(&["table"], &rows);
    let metadata = "provider: { type: row, invoke: simple, suitable: true, attributes: { name: , ensure: } }";
    machine.root.write(Path::new(RESOURCES).join("providers/table.yaml"), metadata);
    let provider = "#!/bin/bash\necho called >>\"$HOLO_ROOT_DIR/etc/calls\"\necho 'some words' >&2\nexit 7\n";
    let root = machine.root.script(Path::new(RESOURCES).join("providers/table.prov"), provider);
    let machine = Machine { root };
    machine.root.write("etc/calls", "");
    let ends = machine.apply();
    assert!(machine.errors(&ends, "row:a").contains("table.prov: exit status 7; some words"), "{}", ends.run);
    assert_eq!(end(&ends, "row:e").0, "failed");
    assert!(machine.root.read("etc/calls").split(|&byte| byte == b'\n').count() <= 4, "{}", ends.run);
}
