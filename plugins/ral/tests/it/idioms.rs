//! Tests of providers that resemble real ones, with behaviour that the conventions do not mention.

use crate::machine::{BASH, Machine, PYTHON, RESOURCES, end, resource, trials_of};
use holo_process::Program;
use holo_testing::binaries::built;
use libtest_mimic::Trial;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = trials_of(
        BASH,
        &[
            ("a package is there in some version, and fails without an end", packages),
            ("a service runs, and more than sixteen are listed", services),
            ("metadata that comes late, or with words on standard error, is not waited for", describing),
            ("metadata is asked for once, and the next scan knows its commands", metadata),
            ("standard error is shown when it is written", live),
            ("resources are in the order of their definitions", order),
            ("a secret of one resource is not told with another", secrets),
            ("a provider that does not answer in time is ended with what it has started", late),
            ("an answer that is too long does not count", long),
            ("the provider that is named has to be suitable, too", named),
        ],
    );
    trials.extend(trials_of(PYTHON, &[("versions are reported as what is ensured", versions)]));
    trials
}

/// Packages are lines `NAME VERSION` of a file. Like providers for package managers, it evaluates its arguments,
/// reports the version that it finds, and exits immediately if the tool fails, with its output and without an end mark.
const PACKAGES: &str = r##"#!/bin/bash
db=${HOLO_ROOT_DIR%/}/etc/packages
die() { echo "ral_error: $1"; exit 0; }
describe() {
    cat <<EOF
---
provider:
  type: package
  invoke: simple
  desc: |
    Packages in a file.
  actions: [list,find]
  suitable:
    commands: [cat, grep, sed, not no-such-command]
  attributes:
    name:
      desc: the name of the package
    ensure:
      desc: the version, or whether it is there
      type: string
EOF
}
list() {
    echo '# simple'
    while read -r name version; do
        echo "name: $name"
        echo "ensure: $version"
    done <"$db"
}
find() {
    echo '# simple'
    [ "${name#un}" = "$name" ] || { echo "name: $name"; echo "ral_unknown: true"; exit 0; }
    version=$(grep "^$name " "$db" | cut -d' ' -f2)
    echo "name: $name"
    echo "ensure: ${version:-absent}"
}
update() {
    echo '# simple'
    echo "name: $name"
    old=$(grep "^$name " "$db" | cut -d' ' -f2)
    case "$ensure" in
        absent|purged) new= ;;
        present|installed) new=${old:-1.0} ;;
        latest) new=2.0 ;;
        *) new=$ensure ;;
    esac
    [ "$new" != 6.6.6 ] || die "the tool has failed: there is no version $new
of $name"
    sed -i "/^$name /d" "$db"
    [ -z "$new" ] || echo "$name $new" >>"$db"
    if [ "${old:-absent}" != "${new:-absent}" ]; then
        echo "ensure: ${new:-absent}"
        echo "ral_was: ${old:-absent}"
    fi
}
eval "$@"
case "$ral_action" in
    describe) describe ;;
    list) list ;;
    find) find ;;
    update) update ;;
    *) die "there is no action $ral_action" ;;
esac
"##;

fn packages() {
    let wanted = [
        ("there", "present"),
        ("installed", "installed"),
        ("new", "present"),
        ("pinned", "1.5"),
        ("gone", "purged"),
        ("never", "absent"),
        ("newest", "latest"),
        ("bad", "6.6.6"),
        ("unknown", "absent"),
        ("unheard", "present"),
    ];
    let definitions: String =
        wanted.iter().map(|(name, ensure)| resource("package", name, &format!("ensure = \"{ensure}\""))).collect();
    let machine = Machine::new(&[], &definitions).provider("apt", PACKAGES);
    machine.root.write("etc/packages", "there 3.1\ninstalled 0.1\npinned 1.4\ngone 1\nnewest 1.9\n");
    let ends = machine.check();
    let checked = |name: &str| end(&ends, &format!("package:{name}")).1;
    assert_eq!(checked("new"), ["ensure: absent -> present"], "{}", ends.run);
    assert_eq!((checked("pinned"), checked("gone")), (vec!["ensure: 1.4 -> 1.5"], vec!["ensure: 1 -> purged"]));
    assert_eq!(end(&ends, "package:newest").0, "unknown", "{}", ends.run);
    let ends = machine.apply();
    for (name, result, change) in [
        ("there", "unchanged", ""),
        ("installed", "unchanged", ""),
        ("new", "changed", "ensure: absent -> 1.0"),
        ("pinned", "changed", "ensure: 1.4 -> 1.5"),
        ("never", "unchanged", ""),
        ("newest", "changed", "ensure: 1.9 -> 2.0"),
        ("unknown", "unchanged", ""),
    ] {
        assert_eq!(
            (end(&ends, &format!("package:{name}")).0, end(&ends, &format!("package:{name}")).1.concat().as_str()),
            (result, change),
            "{name}: {}",
            ends.run
        );
    }
    assert_eq!(
        machine.errors(&ends, "package:bad"),
        "!! [package::apt] the tool has failed: there is no version 6.6.6 of bad\n"
    );
    assert_eq!(
        machine.errors(&ends, "package:unheard"),
        "!! unheard: provider package::apt has no information about it\n"
    );
    // It reports "absent" for purged packages, like a provider that does nothing.
    assert_eq!(
        machine.errors(&ends, "package:gone"),
        "!! [package::apt] gone: ensure is \"absent\", not \"purged\", after the update\n"
    );
    let ends = machine.apply();
    assert_eq!((end(&ends, "package:newest").0, end(&ends, "package:new").0), ("unchanged", "unchanged"));
}

/// Services are files with lines `ensure` and `enable`. Errors are reported by an exit status and messages on standard
/// error, as by `systemctl`.
const SERVICES: &str = r##"#!/bin/bash
# As a provider does that is never changed after it was written, it trusts its arguments.
eval "$@"
dir=${HOLO_ROOT_DIR%/}/etc/services
show() {
    echo "name: $1"
    if [ -e "$dir/$1" ]; then
        sed 's/=/: /' "$dir/$1"
        echo "description: the service $1"
    else
        echo "ral_unknown: true"
    fi
}
case "$ral_action" in
    list)
        echo "# simple"
        echo listed >>"${HOLO_ROOT_DIR%/}/etc/lists"
        for file in "$dir"/*; do show "${file##*/}"; done ;;
    find)
        echo "# simple"
        echo "$name" >>"${HOLO_ROOT_DIR%/}/etc/finds"
        show "$name" ;;
    update)
        if [ "$name" = stuck ]; then
            echo "Job for stuck failed because the control process exited with error code." >&2
            exit 3
        fi
        [ -z "$ensure" ] || sed -i "s/^ensure=.*/ensure=$ensure/" "$dir/$name"
        [ -z "$enable" ] || sed -i "s/^enable=.*/enable=$enable/" "$dir/$name"
        echo "# simple"
        echo "name: $name"
        echo "ral_derive: true" ;;
esac
"##;
const SERVICES_METADATA: &str = "---\nprovider:\n  type: service\n  invoke: simple\n  actions: [list, find, update]\n  suitable:\n    \
    commands: [sed]\n  attributes:\n    name:\n    ensure:\n      type: enum[running, stopped]\n    enable:\n      \
    type: enum[true, false, mask]\n    description:\n      kind: r\n";

fn services() {
    let names: Vec<String> = (1..=20).map(|number| format!("s{number}")).collect();
    let definitions: String = names
        .iter()
        .map(String::as_str)
        .chain(["stuck", "hidden"])
        .map(|name| resource("service", name, "ensure = \"running\", enable = true"))
        .collect();
    let machine = Machine::new(&[], &definitions).provider("systemd", SERVICES);
    machine.root.write(Path::new(RESOURCES).join("providers/systemd.yaml"), SERVICES_METADATA);
    for name in names.iter().map(String::as_str).chain(["stuck"]) {
        machine.root.write(format!("etc/services/{name}"), "ensure=stopped\nenable=false\n");
    }
    machine.root.write("etc/services/s1", "ensure=running\nenable=true\n");
    let ends = machine.apply();
    assert_eq!(end(&ends, "service:s1").0, "unchanged", "{}", ends.run);
    assert_eq!(end(&ends, "service:s20"), ("changed", vec!["enable: false -> true", "ensure: stopped -> running"]));
    assert_eq!(machine.root.read("etc/services/s9"), "ensure=running\nenable=true\n");
    let job = "Job for stuck failed because the control process exited with error code.";
    assert_eq!(
        machine.errors(&ends, "service:stuck"),
        format!("!! [service::systemd] providers/systemd.prov: exit status 3; {job}\n")
    );
    assert_eq!(
        machine.errors(&ends, "service:hidden"),
        "!! hidden: provider service::systemd has no information about it\n"
    );
    // All of them were listed at once, except for the one that is not in the list.
    assert_eq!(machine.root.read("etc/lists"), "listed\nlisted\n");
    assert_eq!(machine.root.read("etc/finds"), "hidden\n");
}

/// The value of `ensure` is a package's version, or `absent`.
const VERSIONS: &str = r##"#!/usr/bin/env python3
import json, os, sys

FILE = os.environ["HOLO_ROOT_DIR"] + "/etc/wheels.json"

def describe():
    print("""---
provider:
  type: package
  name: wheel
  invoke: json
  actions: [get, set]
  suitable: true
  attributes:
    name:
      desc: a package of Python
    ensure:
      type: enum[present, absent]
    source:
      type: string
""")

def load():
    try:
        return json.load(open(FILE))
    except FileNotFoundError:
        return {}

def get(names):
    wheels = load()
    known = [{"name": name, "ensure": version, "source": None} for name, version in wheels.items()]
    missing = [{"name": name, "ensure": "absent"} for name in names if name not in wheels]
    return {"resources": known + missing}

def put(updates, noop):
    wheels, changes = load(), []
    for update in updates:
        name, old, new = update["name"], update["is"]["ensure"], update["should"]["ensure"]
        if new == "absent":
            wheels.pop(name, None)
        elif name != "pretended":
            wheels[name] = "1.0"
        changes.append({"name": name, "ensure": {"is": new, "was": old}})
    if not noop:
        json.dump(wheels, open(FILE, "w"))
    return {"changes": changes}

action = dict(word.split("=", 1) for word in sys.argv[1:])["ral_action"]
if action == "describe":
    describe()
else:
    asked = json.load(sys.stdin)
    answer = get(asked["names"]) if action == "get" else put(asked["updates"], asked["ral"]["noop"])
    print(json.dumps(answer))
"##;

fn versions() {
    let definitions: String =
        ["there", "new", "pretended"].map(|name| resource("package", name, "ensure = \"present\"")).concat();
    let machine = Machine::new(&[], &definitions).provider("python", VERSIONS);
    machine.root.write("etc/wheels.json", r#"{"there": "2.5"}"#);
    let ends = machine.apply();
    assert_eq!(end(&ends, "package:there").0, "unchanged", "{}", ends.run);
    assert_eq!(end(&ends, "package:new"), ("changed", vec!["ensure: absent -> present"]));
    assert_eq!(
        machine.errors(&ends, "package:pretended"),
        "!! [package::wheel] pretended: ensure is \"absent\", not \"present\", after the update\n"
    );
    machine.define("");
    assert!(machine.apply().run.success());
    assert_eq!(machine.root.read("etc/wheels.json"), r#"{"there": "2.5"}"#);
}

/// A provider that only has metadata, after some output or a delay.
fn describes(before: &str) -> String {
    format!(
        "#!/bin/bash\neval \"$@\"\necho called >>\"$HOLO_ROOT_DIR/etc/called-$ral_action\"\nif [ $ral_action = describe ]; then {before}\n\
         echo 'provider: {{ type: row, invoke: simple, suitable: {{ commands: [bash, not no-such] }}, attributes: {{ name: , ensure: }} }}'\nelse\n\
         echo '# simple'; echo \"name: $name\"; echo 'ensure: present'\nfi\n"
    )
}

fn describing() {
    for (before, problem) in [
        ("echo 'a warning' >&2", "describe wrote to standard error: a warning"),
        ("exit 4", "providers/odd.prov: exit status 4"),
        ("echo '['", "describe:"),
        ("sleep 600", "providers/odd.prov did not answer within 30s"),
    ] {
        let machine =
            Machine::new(&[], &resource("row", "x", "ensure = \"present\"")).provider("odd", &describes(before));
        let began = Instant::now();
        let ends = machine.apply();
        let said = machine.errors(&ends, "row:x");
        let expected = format!("!! no provider of type row is suitable here\n>> providers/odd.prov: {problem}");
        assert!(said.starts_with(&expected), "{before}: {said}");
        assert!(began.elapsed() < Duration::from_secs(60), "{before}: {:?}", began.elapsed());
    }
}

fn metadata() {
    let machine = Machine::new(&[], &resource("row", "x", "ensure = \"present\"")).provider("once", &describes(":"));
    let needs = || machine.root.holo(&["scan", "--json"]).stdout_lossy().matches("\"command\"").count();
    assert_eq!(needs(), 0);
    assert!(!machine.root.exists("etc/called-describe"), "a scan starts nothing");
    for _ in 0..3 {
        assert_eq!(end(&machine.apply(), "row:x").0, "unchanged");
    }
    assert_eq!(machine.root.read("etc/called-describe"), "called\n");
    let scan = machine.root.holo(&["scan", "--json"]).stdout_lossy().into_owned();
    assert!(scan.contains("bash") && !scan.contains("no-such"), "{scan}");
    // A changed file is queried again.
    let root = machine.root.script(Path::new(RESOURCES).join("providers/once.prov"), describes("true;"));
    let machine = Machine { root };
    assert_eq!(end(&machine.apply(), "row:x").0, "unchanged");
    assert_eq!(machine.root.read("etc/called-describe"), "called\ncalled\n");
}

/// Prints a message, and waits until it has been shown.
fn live() {
    let provider = "#!/bin/bash\neval \"$@\"\n[ $ral_action != find ] || { echo 'info: looking' >&2; \
        n=0; while [ $n -lt 200 ] && ! [ -e \"$HOLO_ROOT_DIR/etc/seen\" ]; do sleep 0.1; n=$((n+1)); done; }\n\
        echo '# simple'; echo \"name: $name\"; [ -e \"$HOLO_ROOT_DIR/etc/seen\" ] && echo 'ensure: present' || echo 'ensure: absent'\n";
    let machine = Machine::new(&[], &resource("row", "x", "ensure = \"present\"")).provider("slow", provider);
    machine.root.write(
        Path::new(RESOURCES).join("providers/slow.yaml"),
        "provider: { type: row, invoke: simple, suitable: true, attributes: { name: , ensure: } }",
    );
    let seen = machine.root.join("etc/seen");
    let mut all = Vec::new();
    let mut holo = Program::new(built("holo"));
    holo.arg("apply").env("HOLO_ROOT_DIR", machine.root.path()).timeout(Duration::from_secs(120));
    let ended = holo.run(|_, bytes| {
        all.extend_from_slice(bytes);
        if String::from_utf8_lossy(&all).contains("looking") {
            std::fs::write(&seen, "").unwrap();
        }
    });
    assert!(ended.unwrap().failure().is_none() && seen.exists(), "{}", String::from_utf8_lossy(&all));
}

fn order() {
    let provider = "#!/usr/bin/env bash\neval \"$@\"\ncase $ral_action in update) echo \"$name\" >>\"$HOLO_ROOT_DIR/etc/order\" ;; esac\n\
        echo '# simple'; echo \"name: $name\"; echo \"ensure: $(grep -qs \"^$name$\" \"$HOLO_ROOT_DIR/etc/order\" && echo present || echo absent)\"\n";
    let names = ["z", "y", "b", "a", "k", "j", "i", "h", "g", "f", "e", "d"];
    let definitions: String = names.iter().map(|name| resource("row", name, "ensure = \"present\"")).collect();
    let machine = Machine::new(&[], &definitions).provider("order", provider);
    machine.root.write(
        Path::new(RESOURCES).join("providers/order.yaml"),
        "provider: { type: row, invoke: simple, suitable: true, attributes: { name: , ensure: } }",
    );
    let run = machine.root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert_eq!(machine.root.read("etc/order"), names.map(|name| format!("{name}\n")).concat());
}

fn secrets() {
    let provider = "#!/bin/bash\neval \"$@\"\necho '# simple'; echo \"name: $name\"\n\
        case $ral_action in\nupdate) echo \"$name wants ${text:-nothing}\" >&2\n[ $name = one ] || echo \"ral_error: no $text\" ;;\n\
        *) echo 'text: other'; cat \"$HOLO_ROOT_DIR/etc/leak\" >&2 ;;\nesac\n";
    let secret = |name: &str, value: &str| {
        format!("{}sensitive = [\"text\"]\n", resource("row", name, &format!("text = \"{value}\"")))
    };
    let definitions = format!("{}{}", secret("one", "first-secret"), secret("two", "second-secret"));
    let machine = Machine::new(&[], &definitions).provider("leaky", provider);
    machine.root.write("etc/leak", "first-secret second-secret\n");
    machine.root.write(
        Path::new(RESOURCES).join("providers/leaky.yaml"),
        "provider: { type: row, invoke: simple, suitable: true, attributes: { name: , text: } }",
    );
    for verb in ["scan", "apply"] {
        let said = machine.root.holo(&[verb]).to_string();
        assert!(!said.contains("first-secret") && !said.contains("second-secret"), "{said}");
    }
}

fn late() {
    let provider = "#!/bin/bash\neval \"$@\"\ncase $ral_action in\nupdate) echo $$ >\"$HOLO_ROOT_DIR/etc/pid\"; sleep 600 & wait ;;\n\
        *) echo '# simple'; echo \"name: $name\"; echo 'ensure: absent' ;;\nesac\n";
    let late = format!("{}timeout = \"1s\"\n", resource("row", "x", "ensure = \"present\""));
    let machine = Machine::new(&[], &late).provider("late", provider);
    machine.root.write(
        Path::new(RESOURCES).join("providers/late.yaml"),
        "provider: { type: row, invoke: simple, suitable: true, attributes: { name: , ensure: } }",
    );
    let began = Instant::now();
    let ends = machine.apply();
    assert_eq!(machine.errors(&ends, "row:x"), "!! [row::late] providers/late.prov did not answer within 1s\n");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let pid = machine.root.read("etc/pid").to_string().trim().parse().unwrap();
    holo_testing::processes::wait_until_gone(pid);
}

fn long() {
    for (words, problem) in [
        ("printf 'text: %02000000d\\n' 0", "answered with a line of more than 1048576 bytes"),
        ("for i in {1..40}; do printf 'text: %0500000d\\n' 0; done", "answered with more than 16777216 bytes"),
    ] {
        let provider = format!("#!/bin/bash\neval \"$@\"\necho '# simple'; echo \"name: $name\"\n{words}\n");
        let machine = Machine::new(&[], &resource("row", "x", "text = \"a\"")).provider("long", &provider);
        machine.root.write(
            Path::new(RESOURCES).join("providers/long.yaml"),
            "provider: { type: row, invoke: simple, suitable: true, attributes: { name: , text: } }",
        );
        let ends = machine.apply();
        let said = machine.errors(&ends, "row:x");
        assert!(said.starts_with(&format!("!! [row::long] providers/long.prov {problem}")), "{said}");
    }
}

fn named() {
    let named = "[[resource]]\ntype = \"row\"\nprovider = \"other\"\nname = \"x\"\n";
    let machine = Machine::new(&["table"], named);
    let ends = machine.apply();
    assert_eq!(
        machine.errors(&ends, "row::other:x"),
        "!! no provider of type row is suitable here\n>> providers/table.prov: is the provider table\n"
    );
}
