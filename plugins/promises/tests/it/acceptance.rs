//! The cases of CFEngine's own acceptance tests of custom promise types.

use crate::machine::{Machine, PYTHON, module, promise, trials_of};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    trials_of(
        PYTHON,
        &[
            ("a file is written, and classes are sent to who is refreshed", written),
            ("a type that nobody declares is an error of its promises", undeclared),
            ("two promises have results of their own", separate),
            ("a program that answers in advance has kept its promise", binary),
            ("one file may have several types", two_types),
            ("a file with two interpreters works with the first", interpreters),
            ("who depends on a promise that failed is told", dependents),
            ("a promise is valid only when the one before it is kept", one_after_the_other),
            ("conditions of the definition decide if a module is asked", conditions),
        ],
    )
}

fn written() {
    let definitions = [
        module("own", "own_lines.sh"),
        promise("own", "/etc/x", "attributes = { text = \"hello, modules\" }\nnotifies = [\"promise:own:/etc/z\"]"),
        promise("own", "/etc/z", "attributes = { text = \"z\" }"),
    ];
    let machine = Machine::new(&definitions.concat());
    let ends = machine.apply();
    assert_eq!(ends.of("own:/etc/x").changes, ["Updated file '/etc/x' with content 'hello, modules'"]);
    assert_eq!(machine.root.read("etc/x"), "hello, modules\n");
    std::fs::remove_file(machine.root.join("etc/x")).unwrap();
    let (_, messages) = machine.plugin("4", &["apply", "promise:own:/etc/x"]);
    assert!(messages.starts_with("send: _etc_x_updated=1\nchanged: "), "{messages}");
}

fn undeclared() {
    let definitions = [
        module("own", "own_lines.sh"),
        promise("onw", "/etc/x", "attributes = { text = \"x\" }"),
        promise("own", "/etc/y", "attributes = { text = \"y\" }"),
    ];
    let machine = Machine::new(&definitions.concat());
    let run = machine.root.holo(&["apply"]);
    let said = machine.short(&run.stderr_lossy());
    assert!(
        said.contains(
            "!! 10.toml:6: promise:onw:/etc/x: type: no module declares the type \"onw\", did you mean own?\n"
        ),
        "{run}"
    );
    assert!(machine.root.exists("etc/y") && !machine.root.exists("etc/x"));
}

fn separate() {
    let definitions = [
        module("line", "keep_line.py"),
        promise("line", "/etc/x", "attributes = { line = \"x\" }"),
        promise("line", "/nowhere/y", "attributes = { line = \"y\" }"),
        promise("line", "/etc/x", "name = \"again\"\nattributes = { line = \"x\" }"),
    ];
    let machine = Machine::new(&definitions.concat());
    let ends = machine.apply();
    let results = ["line:/etc/x", "line:/nowhere/y", "line:again"].map(|id| ends.result(id));
    assert_eq!(results, ["changed", "failed", "unchanged"]);
    ends.says(&machine, "line:/nowhere/y", "!! Cannot write '/nowhere/y': No such file or directory");
}

fn binary() {
    let machine =
        Machine::new(&format!("{}{}{}", module("e", "early.sh"), promise("e", "x", ""), promise("e", "y", "")));
    let ends = machine.apply();
    assert_eq!((ends.result("e:x"), ends.result("e:y")), ("unchanged".into(), "unchanged".into()), "{}", ends.run);
}

fn two_types() {
    let definitions = [
        module("upper", "two_types.py"),
        module("lower", "two_types.py"),
        promise("upper", "/etc/x", ""),
        promise("lower", "/etc/x", "after = [\"promise:upper:/etc/x\"]"),
    ];
    let machine = Machine::new(&definitions.concat());
    machine.root.write("etc/x", "Text\n");
    let ends = machine.apply();
    assert_eq!((ends.result("upper:/etc/x"), ends.result("lower:/etc/x")), ("changed".into(), "changed".into()));
    assert_eq!(machine.root.read("etc/x"), "text\n");
}

fn interpreters() {
    let second = module("later", "keep_line.py").replace("[\"/usr/bin/env\", \"python3\"]", "\"/bin/sh\"");
    let third = module("alias", "keep_line.py");
    let of = |kind: &str| promise(kind, &format!("/etc/{kind}"), "attributes = { line = \"x\" }");
    let definitions = [module("line", "keep_line.py"), second, third, of("line"), of("later"), of("alias")];
    let machine = Machine::new(&definitions.concat());
    let run = machine.root.holo(&["apply"]);
    let said = machine.short(&run.stderr_lossy());
    let error = "!! 10.toml:6: module later: interpreter: [\"/bin/sh\"] for modules/keep_line.py, \
                 where 10.toml:1 says [\"/usr/bin/env\",\"python3\"]\n";
    assert!(said.contains(error), "{run}");
    let made = ["line", "later", "alias"].map(|name| machine.root.exists(format!("etc/{name}")));
    assert_eq!(made, [true, false, true]);
}

fn dependents() {
    let definitions = [
        module("bad", "bad.py"),
        module("line", "keep_line.py"),
        promise("bad", "first", ""),
        promise("line", "/etc/x", "attributes = { line = \"x\" }\nrequires = [\"promise:bad:first\"]"),
        promise("line", "/etc/y", "attributes = { line = \"y\" }\nafter = [\"promise:bad:first\"]"),
    ];
    let machine = Machine::new(&definitions.concat()).script("bad.py", "import non_existing\n");
    let ends = machine.apply();
    let results = ["bad:first", "line:/etc/x", "line:/etc/y"].map(|id| ends.result(id));
    assert_eq!(results, ["failed", "skipped", "changed"], "{}", ends.run);
}

fn one_after_the_other() {
    let module_text = "#!/bin/sh\nread -r a; read -r b; printf 'c 1 v1 line_based\\n\\n'\n\
         while read -r line; do case $line in operation=v*) o=v ;; operation=t*) exit ;; operation=*) o=e ;; promiser=*) p=${line#*=} ;; \
         '') r=repaired; [ $o = e ] || r=valid; [ $o$p != vsecond ] || [ -e \"$HOLO_ROOT_DIR/first\" ] || r=invalid; \
         [ $o = v ] || : >\"$HOLO_ROOT_DIR/$p\"; printf 'result=%s\\n\\n' $r ;; esac; done\n";
    let definitions = [module("c", "c.sh"), promise("c", "first", ""), promise("c", "second", "")];
    let machine = Machine::new(&definitions.concat()).script("c.sh", module_text);
    let ends = machine.apply();
    assert!(ends.run.success() && machine.root.exists("second"), "{}", ends.run);
}

fn conditions() {
    let definitions = [
        module("line", "keep_line.py"),
        promise("line", "/etc/x", "attributes = { line = \"x\" }\nif = \"1 == 2\""),
        promise("line", "/etc/y", "attributes = { line = \"y\" }\nunless = \"1 == 2\""),
    ];
    let machine = Machine::new(&definitions.concat());
    assert!(machine.apply().run.success());
    assert!(!machine.root.exists("etc/x") && machine.root.exists("etc/y"));
}
