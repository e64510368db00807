//! Tests in which the plugin is killed by its own provider at each step of a change: the next apply completes it, and
//! the original state is not lost.

use crate::machine::{BASH, Machine, end, resource, trials_of};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    trials_of(
        BASH,
        &[
            ("killed at any step of a change, it is made in the next apply, and taken back later", changes),
            ("killed when something is put back, it is put back in the next apply", scrubs),
        ],
    )
}

/// Kills the plugin at the call whose number is in a file, before or after the work.
const PROVIDER: &str = r##"#!/bin/bash
eval "$@"
count=$HOLO_ROOT_DIR/etc/calls
if [ "$ral_action" != describe ] && [ -e "$count" ]; then
    calls=$(($(cat "$count") - 1))
    echo $calls >"$count"
fi
die() { [ "$calls" = 0 ] && [ -e "$HOLO_ROOT_DIR/etc/$1" ] && kill -9 $PPID && exit 9; }
file=$HOLO_ROOT_DIR/etc/row
die before
echo "# simple"
case $ral_action in
    find) ;;
    update) echo "text=$text" >"$file" ;;
esac
[ $ral_action = describe ] || . "$file"
echo "name: $name"
echo "text: $text"
[ $ral_action = find ] || echo "ral_was: something"
die after
exit 0
"##;
const METADATA: &str = "provider: { type: row, invoke: simple, suitable: true, attributes: { name: , text: } }";

fn machine() -> Machine {
    let machine = Machine::new(&[], &resource("row", "one", "text = \"ours\"")).provider("mortal", PROVIDER);
    machine.root.write("usr/share/holo/ral/providers/mortal.yaml", METADATA);
    machine.root.write("etc/row", "text=theirs\n");
    machine
}

/// Kills the plugin at each call of the provider, before and after its work, and checks the result of the next apply.
fn killed_everywhere(prepare: fn() -> Machine, calls: usize, settled: fn(&Machine)) {
    for moment in ["before", "after"] {
        for call in 1..=calls {
            let machine = prepare();
            machine.root.write(format!("etc/{moment}"), "");
            machine.root.write("etc/calls", format!("{call}\n"));
            let run = machine.root.holo(&["apply"]);
            assert!(!run.success(), "{moment} call {call}: {run}");
            std::fs::remove_file(machine.root.join("etc/calls")).unwrap();
            let run = machine.root.holo(&["apply"]);
            assert!(run.success(), "{moment} call {call}: {run}");
            settled(&machine);
        }
    }
}

fn changes() {
    // It is read, changed, and read again.
    killed_everywhere(machine, 3, |machine| {
        assert_eq!(machine.root.read("etc/row"), "text=ours\n");
        // The change by the killed plugin does not count as a manual one.
        machine.define(&resource("row", "one", "text = \"other\""));
        let ends = machine.apply();
        assert_eq!(end(&ends, "row:one").0, "changed", "{}", ends.run);
        machine.define("");
        let run = machine.root.holo(&["apply"]);
        assert!(run.success(), "{run}");
        assert_eq!(machine.root.read("etc/row"), "text=theirs\n");
        assert!(machine.root.holo(&["scan"]).stdout.is_empty());
    });
}

fn scrubs() {
    let prepare = || {
        let machine = machine();
        assert!(machine.apply().run.success());
        machine.define("");
        machine
    };
    killed_everywhere(prepare, 3, |machine| {
        assert_eq!(machine.root.read("etc/row"), "text=theirs\n");
        assert!(machine.root.holo(&["scan"]).stdout.is_empty());
    });
}
