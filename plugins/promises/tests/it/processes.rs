//! Tests of module processes: their number, lifetime and environment.

use crate::machine::{Machine, PYTHON, RESOURCES, module, promise, trials_of};
use holo_process::Program;
use holo_testing::binaries::built;
use holo_testing::processes::{Signal, send, wait_until_gone};
use holo_testing::{Need, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A directory that other users cannot modify, on the real root.
const TRUSTED: &[Need] =
    &[Need::Program("python3"), Need::Trial("a checkout that nobody else may change", checkout_is_trusted)];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = trials_of(
        PYTHON,
        &[
            ("one process serves all promises and types of a file", one_process),
            ("ten thousand promises have one process, and memory does not grow with them", many),
            ("a module gets what it should, and nothing else", circumstances),
            ("promises of a module are in the order of their definitions", order),
            ("modules of different files are at work at the same time", side_by_side),
            ("one at a time is possible", one_job),
            ("a module that changes in a run is started anew", replaced),
            ("no conversation is left behind", left_behind),
            ("a signal to the plugin reaches the module", signal),
            ("under version 3 each promise has a process for itself", version_3),
            ("nothing is started by a scan", scan),
        ],
    );
    trials.push(trial_of("on the real root, a module works on the real system", TRUSTED, real_root));
    trials
}

fn one_process() {
    let mut definitions = vec![module("upper", "two_types.py"), module("lower", "two_types.py")];
    for number in 0..5 {
        definitions.push(promise(if number % 2 == 0 { "upper" } else { "lower" }, &format!("/etc/f{number}"), ""));
    }
    let machine = Machine::new(&definitions.concat());
    (0..5).for_each(|number| machine.root.write(format!("etc/f{number}"), "Text\n"));
    let ends = machine.apply();
    assert!(ends.run.success(), "{}", ends.run);
    let process = |number: u8| {
        let kind = if number.is_multiple_of(2) { "upper" } else { "lower" };
        let change = ends.of(&format!("{kind}:/etc/f{number}")).changes[0].clone();
        change.rsplit(' ').next().unwrap().to_owned()
    };
    assert!((1..5).all(|number| process(number) == process(0)), "{}", ends.run);
    assert_eq!((machine.root.read("etc/f0"), machine.root.read("etc/f1")), ("TEXT\n".into(), "text\n".into()));
}

/// Keeps every promise, and writes its PID and the memory of its parent process every thousand promises.
const WATCHES: &str = r#"#!/usr/bin/env python3
import os, re, sys
sys.stdin.readline(); sys.stdin.readline()
print("watches 1 v1 json_based\n", flush=True)
kept = 0
with open(os.environ["HOLO_ROOT_DIR"] + "/memory", "a") as file:
    for line in sys.stdin:
        if line == "\n":
            continue
        operation = re.search('"operation":"([a-z_]*)"', line).group(1)
        result = {"validate_promise": "valid", "evaluate_promise": "kept"}.get(operation, "success")
        if result == "kept":
            print("log_verbose=" + "word " * 200)
            kept += 1
            if kept % 1000 == 0:
                status = open("/proc/%d/status" % os.getppid()).read()
                file.write("%d %s\n" % (os.getpid(), re.search(r"VmRSS:\s+(\d+)", status).group(1)))
                file.flush()
        print('{"operation":"%s","result":"%s"}\n' % (operation, result), flush=True)
        if operation == "terminate":
            break
"#;

fn many() {
    let text = "word ".repeat(100);
    let promises: String = (0..10_000)
        .map(|number| promise("w", &format!("/etc/{number}"), &format!("attributes = {{ text = \"{text}\" }}")))
        .collect();
    let machine = Machine::new(&format!("{}{promises}", module("w", "watches.py"))).script("watches.py", WATCHES);
    let run = machine.root.holo(&["apply"]);
    assert!(run.success() && run.stdout.is_empty(), "{run}");
    let memory = machine.root.read("memory").to_string();
    let (pids, sizes): (Vec<&str>, Vec<u64>) = memory
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(pid, size)| (pid, size.parse::<u64>().unwrap()))
        .unzip();
    assert!(pids.len() == 10 && pids.iter().all(|pid| pid == &pids[0]), "{memory}");
    // In KiB; the data exchanged since the first thousand is twenty times as much.
    assert!(sizes[9] < sizes[0] + 1024, "{memory}");
}

/// Reports its environment.
const WITNESS: &str = r#"#!/usr/bin/env python3
import json, os, sys
sys.stdin.readline(); sys.stdin.readline()
print("witness 1 v1 json_based\n", flush=True)
for line in sys.stdin:
    if line == "\n":
        continue
    request = json.loads(line)
    if request["operation"] == "evaluate_promise":
        status = dict(line.split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
        facts = {
            "cwd": os.getcwd(),
            "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd))[:4],
            "leads": os.getpgrp() == os.getpid(),
            "blocked": status["SigBlk"].strip(),
            "argv": sys.argv,
            "holo": sorted(name for name in os.environ if name.startswith("HOLO_")),
            "root": os.environ["HOLO_ROOT_DIR"],
            "bytecode": os.environ.get("PYTHONDONTWRITEBYTECODE"),
            "mine": os.environ.get("MINE"),
        }
        print("log_info=" + json.dumps(facts))
    result = {"validate_promise": "valid", "evaluate_promise": "repaired"}.get(request["operation"], "success")
    print(json.dumps({"operation": request["operation"], "result": result}) + "\n", flush=True)
    if request["operation"] == "terminate":
        break
"#;

fn circumstances() {
    let definitions = format!("{}{}", module("w", "witness.py"), promise("w", "x", ""));
    let mut machine = Machine::new(&definitions).script("witness.py", WITNESS);
    machine.root = machine.root.env("MINE", "yes").env("HOLO_REFRESH", "1").env("HOLO_RECEIVED", "x=1");
    for version in ["apply", "plugin"] {
        let said = match version {
            "apply" => machine.apply().of("w:x").changes[0].clone(),
            _ => machine.plugin("4", &["apply", "promise:w:x"]).1.trim().trim_start_matches("changed: ").to_owned(),
        };
        let facts: serde_json::Value = serde_json::from_str(&said).map_err(|error| format!("{error}: {said}")).unwrap();
        let root = machine.root.path().display().to_string();
        assert_eq!(facts["cwd"], root);
        assert_eq!(facts["root"], root);
        // The fourth one was used to read the list of descriptors.
        assert!(facts["fds"].to_string().starts_with("[0,1,2"), "{said}");
        assert!(facts["fds"].as_array().unwrap().len() <= 4, "{said}");
        assert_eq!(facts["leads"], true);
        assert_eq!(facts["blocked"], "0000000000000000");
        assert_eq!(facts["argv"][0], format!("{root}/{RESOURCES}/modules/witness.py"));
        assert_eq!((&facts["bytecode"], &facts["mine"]), (&"1".into(), &"yes".into()));
        let ours = facts["holo"].as_array().unwrap();
        for name in ["CACHE_DIR", "STATE_DIR", "RESOURCE_DIR", "API_VERSION", "JOBS", "FACTS", "REFRESH", "RECEIVED"] {
            assert!(!ours.contains(&format!("HOLO_{name}").into()), "{name}: {said}");
        }
    }
    // Python itself ignores SIGPIPE.
    let module_text = "#!/bin/sh\nread -r a; read -r b; printf 'c 1 v1 line_based\\n\\n'\n\
         while read -r line; do case $line in operation=v*) r=valid ;; operation=t*) exit ;; operation=*) r=repaired ;; \
         '') [ $r = valid ] || echo log_info=$(grep SigIgn /proc/$$/status); printf 'result=%s\\n\\n' \"$r\" ;; esac; done\n";
    let machine =
        Machine::new(&format!("{}{}", module("w", "w.sh"), promise("w", "x", ""))).script("w.sh", module_text);
    let said = machine.apply().of("w:x").changes[0].clone();
    let ignored = u64::from_str_radix(said.trim_start_matches("SigIgn: "), 16).unwrap();
    assert_eq!(ignored & (1 << 12), 0, "{said}");
}

fn order() {
    let appends = "#!/bin/sh\nread -r a; read -r b; printf 'c 1 v1 line_based\\n\\n'\n\
         while read -r line; do case $line in operation=v*) r=valid ;; operation=t*) exit ;; operation=*) r=repaired ;; \
         promiser=*) p=${line#*=} ;; '') [ $r = valid ] || echo $p >>\"$HOLO_ROOT_DIR/order\"; printf 'result=%s\\n\\n' \"$r\" ;; esac; done\n";
    let promises: Vec<String> = ["z", "y", "b", "a", "x"].map(|name| promise("c", name, "")).into();
    let machine = Machine::new(&format!("{}{}", module("c", "appends.sh"), promises[..3].concat()));
    let machine = machine.script("appends.sh", appends);
    machine.root.write(format!("{RESOURCES}/20.toml"), promises[3..].concat());
    assert!(machine.apply().run.success());
    assert_eq!(machine.root.read("order"), "z\ny\nb\na\nx\n");
}

/// Waits until another module has received its request; fails after a time limit.
const MEETS: &str = "#!/bin/sh\nread -r a; read -r b; printf 'c 1 v1 line_based\\n\\n'\n\
     while read -r line; do case $line in operation=v*) r=valid ;; operation=t*) exit ;; operation=*) r=kept ;; \
     promiser=*) p=${line#*=} ;; '') if [ $r = kept ]; then : >\"$HOLO_ROOT_DIR/$p\"; n=0; \
     while [ $n -lt LIMIT ] && ! [ -e \"$HOLO_ROOT_DIR/one\" -a -e \"$HOLO_ROOT_DIR/two\" ]; do sleep 0.05; n=$((n+1)); done; \
     [ $n -lt LIMIT ] || r=not_kept; fi; printf 'result=%s\\n\\n' \"$r\" ;; esac; done\n";

fn meeting(limit: u32) -> Machine {
    let definitions = [module("a", "a.sh"), module("b", "b.sh"), promise("a", "one", ""), promise("b", "two", "")];
    let meets = MEETS.replace("LIMIT", &limit.to_string());
    Machine::new(&definitions.concat()).script("a.sh", &meets).script("b.sh", &meets)
}

fn side_by_side() {
    let ends = meeting(1000).holo(&["apply", "--jobs", "2"]);
    assert!(ends.run.success(), "{}", ends.run);
}

fn one_job() {
    let ends = meeting(5).holo(&["apply", "--jobs", "1"]);
    assert_eq!((ends.result("a:one"), ends.result("b:two")), ("failed".into(), "unchanged".into()), "{}", ends.run);
}

fn replaced() {
    let version = |number: u8| {
        format!(
            "#!/bin/sh\nread -r a; read -r b; printf 'c 1 v1 line_based\\n\\n'\n\
             while read -r line; do case $line in operation=v*) r=valid ;; operation=t*) exit ;; operation=*) r=repaired ;; \
             promiser=*) p=${{line#*=}} ;; '') if [ $r = repaired ]; then echo log_info=$p by version {number}; \
             [ $p != swap ] || mv \"$HOLO_ROOT_DIR/next\" {RESOURCES}/modules/m.sh; \
             [ $p != touch ] || touch {RESOURCES}/modules/m.sh; fi; printf 'result=%s\\n\\n' \"$r\" ;; esac; done\n"
        )
    };
    let promises: String = ["first", "touch", "swap", "last"].map(|name| promise("c", name, "")).concat();
    let machine = Machine::new(&format!("{}{promises}", module("c", "m.sh"))).script("m.sh", &version(1));
    fs::write(machine.root.join("next"), version(2)).unwrap();
    fs::set_permissions(machine.root.join("next"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let ends = machine.apply();
    let changes = ["first", "touch", "swap", "last"].map(|name| ends.of(&format!("c:{name}")).changes.concat());
    assert_eq!(changes, ["first by version 1", "touch by version 1", "swap by version 1", "last by version 2"]);
    // It is not run either if other users may modify it now.
    let opens = version(1).replace("mv \"$HOLO_ROOT_DIR/next\"", "chmod 777");
    let machine = Machine::new(&format!("{}{promises}", module("c", "m.sh"))).script("m.sh", &opens);
    let ends = machine.apply();
    assert_eq!((ends.result("c:swap"), ends.result("c:last")), ("changed".into(), "failed".into()), "{}", ends.run);
}

/// Writes its PID to a file, and sleeps when asked to keep a promise.
const SLEEPER: &str = "#!/usr/bin/env python3\nimport os, sys, time\nsys.stdin.readline(); sys.stdin.readline()\n\
     print('s 1 v1 line_based\\n', flush=True)\nopen(os.environ['HOLO_ROOT_DIR'] + '/pid', 'w').write(str(os.getpid()) + '\\n')\n\
     operation = ''\nfor line in sys.stdin:\n    if line.startswith('operation='): operation = line.strip()[10:]\n\
     \x20   if line != '\\n': continue\n    if operation == 'evaluate_promise' and 'SLEEPS' in os.environ: time.sleep(600)\n\
     \x20   if operation == 'terminate' and 'STAYS' in os.environ: time.sleep(600)\n\
     \x20   print('result=' + ('valid' if operation[0] == 'v' else 'kept') + '\\n', flush=True)\n\
     \x20   if operation == 'terminate': break\n";

fn sleeper(variable: &str) -> Machine {
    let definitions = format!("{}{}", module("s", "sleeper.py"), promise("s", "x", ""));
    let mut machine = Machine::new(&definitions).script("sleeper.py", SLEEPER);
    machine.root = machine.root.env(variable, "1");
    machine
}

fn pid(machine: &Machine) -> u32 {
    machine.root.read("pid").to_string().trim().parse().unwrap()
}

fn left_behind() {
    for variable in ["ENDS", "STAYS"] {
        let machine = sleeper(variable);
        let began = Instant::now();
        assert!(machine.apply().run.success());
        wait_until_gone(pid(&machine));
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}

fn signal() {
    let machine = sleeper("SLEEPS");
    let root = machine.root.path().to_owned();
    let mut plugin = Program::new(built("holo-promises"));
    plugin.args(["apply", "promise:s:x"]).env("SLEEPS", "1").env("HOLO_ROOT_DIR", &root);
    for (name, path) in [("RESOURCE", RESOURCES), ("STATE", "var/lib/holo"), ("CACHE", "tmp")] {
        plugin.env(format!("HOLO_{name}_DIR"), root.join(path));
    }
    plugin.timeout(Duration::from_secs(60));
    let running = std::thread::spawn(move || plugin.run(|_, _| {}).unwrap());
    let file = root.join("pid");
    let module = loop {
        match fs::read_to_string(&file).unwrap_or_default() {
            text if text.ends_with('\n') => break text.trim().parse::<u32>().unwrap(),
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let plugin = holo_testing::processes::parent(module).unwrap();
    send(plugin, Signal::TERM);
    wait_until_gone(module);
    assert!(running.join().unwrap().failure().is_some());
}

fn version_3() {
    let definitions = [module("line", "keep_line.py"), promise("line", "/etc/x", "attributes = { line = \"a\" }")];
    let machine = Machine::new(&definitions.concat());
    let (run, messages) = machine.plugin("3", &["apply", "promise:line:/etc/x"]);
    assert!(run.success(), "{run}");
    assert_eq!(
        (run.stdout_lossy().as_ref(), messages.as_str()),
        ("send: x_line_added=1\nAdded line to '/etc/x'\n", "")
    );
    let (_, messages) = machine.plugin("3", &["apply", "promise:line:/etc/x"]);
    assert_eq!(messages, "not changed\n");
    let (run, messages) = machine.plugin("3", &["diff", "promise:line:/etc/x"]);
    assert!(run.success() && messages.is_empty(), "{run}");
}

fn scan() {
    let definitions = format!("{}{}", module("s", "sleeper.py"), promise("s", "x", ""));
    let machine = Machine::new(&definitions).script("sleeper.py", SLEEPER);
    assert!(machine.root.holo(&["scan"]).success());
    assert!(machine.root.holo(&["diff"]).success());
    assert!(!machine.root.exists("pid"));
}

/// Returns a directory owned by the current user with trusted parents, if the checkout has those.
fn workshop() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

fn checkout_is_trusted() -> bool {
    let own = rustix_uid();
    let is_trusted = |path: &Path| {
        fs::metadata(path).is_ok_and(|metadata| [0, own].contains(&metadata.uid()) && metadata.mode() & 0o022 == 0)
    };
    fs::canonicalize(workshop()).is_ok_and(|path| path.ancestors().all(is_trusted))
}

fn rustix_uid() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |metadata| metadata.uid())
}

fn real_root() {
    let folder = tempfile::tempdir_in(workshop()).unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for name in ["resources", "state", "cache"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let witness = folder.path().join("resources/witness.py");
    fs::write(&witness, WITNESS).unwrap();
    fs::write(
        folder.path().join("resources/10.toml"),
        format!(
            "[[module]]\ntype = \"w\"\npath = {:?}\ninterpreter = [\"/usr/bin/env\", \"python3\"]\n{}",
            witness.display().to_string(),
            promise("w", "x", "")
        ),
    )
    .unwrap();
    let mut plugin = Program::new(built("holo-promises"));
    plugin.args(["apply", "promise:w:x"]).env("HOLO_ROOT_DIR", "/").env("HOLO_API_VERSION", "3");
    plugin.env("HOLO_RESOURCE_DIR", path("resources")).env("HOLO_STATE_DIR", path("state"));
    plugin.env("HOLO_CACHE_DIR", path("cache")).timeout(Duration::from_secs(60));
    let output = plugin.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let facts: serde_json::Value = serde_json::from_str(said.trim())
        .map_err(|error| format!("{error}: {said}{}", String::from_utf8_lossy(&output.stderr)))
        .unwrap();
    assert_eq!((&facts["cwd"], &facts["root"]), (&"/".into(), &"/".into()));
}
