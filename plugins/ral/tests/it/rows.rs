//! Tests of user errors, one per row: which resources fail with which messages, and that those of other providers do
//! not.

use crate::machine::{Machine, PYTHON, RESOURCES, end, resource, trials_of};
use holo_process::Program;
use holo_testing::binaries::built;
use holo_testing::processes::{Signal, parent, send, wait_until_gone};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) fn trials() -> Vec<Trial> {
    trials_of(
        PYTHON,
        &[
            ("each error is said of its resources, and others go on", errors),
            ("a child that holds the output open is waited for half a second", left_child),
            ("a signal to the plugin reaches the provider", signal),
            ("a flood on standard error blocks nobody", flood),
        ],
    )
}

const METADATA: &str = "provider: { type: row, invoke: INVOKE, suitable: true, attributes: { name: , ensure: } }";
/// A working provider of another type.
const GOOD: &str = "#!/bin/sh\neval \"$@\"\n[ $ral_action = describe ] && echo 'provider: { type: good, invoke: simple, suitable: true, \
    attributes: { name: , ensure: } }' && exit\necho '# simple'; echo \"name: $name\"; echo 'ensure: present'\n";

/// A faulty provider.
struct Row {
    name: &'static str,
    /// Its file; `None` if it does not exist.
    file: Option<(&'static str, u32)>,
    invoke: &'static str,
    /// The key `interpreter` of its declaration; may be empty.
    interpreter: &'static str,
    /// The expected message for the resource.
    says: &'static str,
}

const ROWS: [Row; 14] = [
    Row {
        name: "a file that is not there",
        file: None,
        invoke: "simple",
        interpreter: "",
        says: "!! [row::bad] cannot start providers/bad.prov: no such file or directory\n",
    },
    Row {
        name: "a file that is not executable",
        file: Some(("#!/bin/sh\n", 0o644)),
        invoke: "simple",
        interpreter: "",
        says: "!! [row::bad] cannot start providers/bad.prov: permission denied; make it executable, or declare its interpreter\n",
    },
    Row {
        name: "an interpreter that is not there",
        file: Some(("", 0o644)),
        invoke: "simple",
        interpreter: "/opt/none/python3",
        says: "!! [row::bad] cannot start providers/bad.prov: /opt/none/python3: no such file or directory; write [\"/usr/bin/env\", \"python3\"]\n",
    },
    Row {
        name: "an interpreter with a blank",
        file: Some(("", 0o644)),
        invoke: "simple",
        interpreter: "/usr/bin/env python3",
        says: "!! [row::bad] cannot start providers/bad.prov: /usr/bin/env python3: no such file or directory; write [\"/usr/bin/env\", \"python3\"]\n",
    },
    Row {
        name: "others may write it",
        file: Some(("#!/bin/sh\n", 0o777)),
        invoke: "simple",
        interpreter: "",
        says: "!! [row::bad] providers/bad.prov is writable for other users (mode 0777), and is not used; to fix this: chmod go-w providers/bad.prov\n",
    },
    Row {
        name: "words before the answer",
        file: Some(("#!/bin/sh\necho Welcome\n", 0o755)),
        invoke: "simple",
        interpreter: "",
        says: "!! [row::bad] its answer begins with \"Welcome\", not with \"# simple\"\n",
    },
    Row {
        name: "no answer",
        file: Some(("#!/bin/sh\n", 0o755)),
        invoke: "simple",
        interpreter: "",
        says: "!! [row::bad] it does not answer\n",
    },
    Row {
        name: "a line that is none",
        file: Some(("#!/bin/sh\nprintf '# simple\\nname: x\\nensure present\\n'\n", 0o755)),
        invoke: "simple",
        interpreter: "",
        says: "!! [row::bad] \"ensure present\" is not KEY: VALUE\n",
    },
    Row {
        name: "an exit status",
        file: Some((
            "#!/bin/sh\nprintf '# simple\\nname: x\\nensure: present\\n'; echo 'error: broken' >&2; exit 5\n",
            0o755,
        )),
        invoke: "simple",
        interpreter: "",
        says: "!! broken\n!! [row::bad] providers/bad.prov: exit status 5; # simple; name: x; ensure: present; error: broken\n",
    },
    Row {
        name: "an exit status with an error",
        file: Some(("#!/bin/sh\nprintf '# simple\\nral_error: no\\n  permission\\n'; exit 1\n", 0o755)),
        invoke: "simple",
        interpreter: "",
        says: "!! [row::bad] no permission\n",
    },
    Row {
        name: "Python cannot import its library",
        file: Some(("import non_existing\n", 0o644)),
        invoke: "json",
        interpreter: "/usr/bin/python3",
        says: "!! [row::bad] providers/bad.prov: exit status 1; ",
    },
    Row {
        name: "no JSON",
        file: Some(("#!/bin/sh\necho hello\n", 0o755)),
        invoke: "json",
        interpreter: "",
        says: "!! [row::bad] get: its answer is not JSON: expected value at line 1 column 1\n",
    },
    Row {
        name: "another JSON",
        file: Some(("#!/bin/sh\necho '{\"resource\": 1}'\n", 0o755)),
        invoke: "json",
        interpreter: "",
        says: "!! [row::bad] get: there are no resources in its answer\n",
    },
    Row {
        name: "an error for all",
        file: Some((
            "#!/bin/sh\necho '{\"resources\": [], \"error\": {\"message\": \"ask root\", \"kind\": \"forbidden\"}}'\n",
            0o755,
        )),
        invoke: "json",
        interpreter: "",
        says: "!! [row::bad] not permitted: ask root\n",
    },
];

fn machine(invoke: &str, interpreter: &str, file: Option<(&str, u32)>) -> Machine {
    let definitions = [("row", "x"), ("good", "y")].map(|(kind, name)| resource(kind, name, "ensure = \"present\""));
    let machine = Machine::new(&[], &definitions.concat()).provider("good", GOOD);
    let providers = Path::new(RESOURCES).join("providers");
    machine.root.write(providers.join("bad.yaml"), METADATA.replace("INVOKE", invoke));
    let interpreter = if interpreter.is_empty() { String::new() } else { format!("interpreter = \"{interpreter}\"\n") };
    let declared = format!("[[provider]]\npath = \"providers/bad.prov\"\nrespects_root = true\n{interpreter}");
    machine.root.write(Path::new(RESOURCES).join("15-bad.toml"), declared);
    if let Some((text, mode)) = file {
        machine.root.write(providers.join("bad.prov"), text);
        fs::set_permissions(machine.root.join(providers.join("bad.prov")), fs::Permissions::from_mode(mode)).unwrap();
    }
    machine
}

fn errors() {
    for Row { name, file, invoke, interpreter, says } in ROWS {
        let machine = machine(invoke, interpreter, file);
        for ends in [machine.check(), machine.apply()] {
            assert_eq!(
                (end(&ends, "row:x").0, end(&ends, "good:y").0),
                ("failed", "unchanged"),
                "{name}: {}",
                ends.run
            );
            let said = machine.errors(&ends, "row:x");
            assert!(if says.ends_with('\n') { said == says } else { said.contains(says) }, "{name}: {said}");
        }
    }
}

fn left_child() {
    let text = "#!/bin/sh\nsleep 30 &\nprintf '# simple\\nname: x\\nensure: present\\n'\n";
    let machine = machine("simple", "", Some((text, 0o755)));
    let began = Instant::now();
    assert_eq!(end(&machine.apply(), "row:x").0, "unchanged");
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
}

fn flood() {
    let text = "#!/bin/sh\nseq 1 30000 >&2\nprintf '# simple\\nname: x\\nensure: present\\n'\n";
    let machine = machine("simple", "", Some((text, 0o755)));
    let ends = machine.apply();
    assert_eq!(end(&ends, "row:x").0, "unchanged");
    assert_eq!(machine.errors(&ends, "row:x").lines().count(), 30000);
}

fn signal() {
    let text = "#!/bin/sh\necho $$ >\"$HOLO_ROOT_DIR/pid.new\"; mv \"$HOLO_ROOT_DIR/pid.new\" \"$HOLO_ROOT_DIR/pid\"; sleep 600\n";
    let machine = machine("simple", "", Some((text, 0o755)));
    let root = machine.root.path().to_owned();
    let mut plugin = Program::new(built("holo-ral"));
    plugin.args(["apply", "ral:row:x"]).env("HOLO_ROOT_DIR", &root).env("HOLO_API_VERSION", "3");
    for (name, path) in [("RESOURCE", RESOURCES), ("STATE", "var/lib/holo"), ("CACHE", "tmp")] {
        fs::create_dir_all(root.join(path)).unwrap();
        plugin.env(format!("HOLO_{name}_DIR"), root.join(path));
    }
    plugin.timeout(Duration::from_secs(60));
    let running = std::thread::spawn(move || plugin.run(|_, _| {}).unwrap());
    let provider = loop {
        match fs::read_to_string(root.join("pid")) {
            Ok(text) => break text.trim().parse::<u32>().unwrap(),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let supervisor = parent(provider).unwrap();
    send(parent(supervisor).unwrap(), Signal::TERM);
    wait_until_gone(provider);
    assert_eq!(running.join().unwrap().failure().as_deref(), Some("signal: terminated"));
}
