//! Tests of every result of a module, with its messages.

use crate::machine::{Machine, PYTHON, hostile, module, promise, trials_of};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    trials_of(
        PYTHON,
        &[
            ("a promise is kept, and then it is kept already", kept),
            ("what is not valid is not evaluated", invalid),
            ("a module that does not say why is blamed", unexplained),
            ("odd results are failures that are named", odd_results),
            ("levels decide who sees what", levels),
            ("result classes are sent", classes),
            ("check asks only modules that can look", check),
            ("only warnings mean that nothing is ever changed", only_warnings),
            ("who changes something when told to look is not asked again", liar),
            ("a secret is hidden in whatever a module says", secrets),
            ("attributes of one promise do not get into the next", leak),
            ("what lines cannot express is not sent", unsendable),
            ("what is promised in the end is kept when the definition is gone", scrub),
            ("while the system is not running, no module is started", offline),
            ("test mode starts no module that does not respect the root", mocks),
            ("a failed promise is tried again as often as declared", retries),
            ("a report has the edges that are known of a promise", edges),
            ("the plugin passes the check of plugins", plugin_check),
        ],
    )
}

fn kept() {
    let line = promise("line", "/etc/x", "attributes = { line = \"a\" }");
    let machine = Machine::new(&format!("{}{line}", module("line", "keep_line.py")));
    let ends = machine.apply();
    assert!(ends.run.success(), "{}", ends.run);
    let end = ends.of("line:/etc/x");
    assert_eq!((end.result.as_str(), end.changes), ("changed", vec!["Added line to '/etc/x'".to_owned()]));
    assert_eq!(machine.root.read("etc/x"), "a\n");
    assert_eq!(machine.apply().result("line:/etc/x"), "unchanged");
}

fn invalid() {
    let unknown = promise("line", "/etc/x", "attributes = { line = \"a\", odd = 1 }");
    let fine = promise("line", "/etc/y", "attributes = { line = \"a\" }");
    let machine = Machine::new(&format!("{}{unknown}{fine}", module("line", "keep_line.py")));
    let ends = machine.apply();
    assert_eq!((ends.result("line:/etc/x"), ends.run.status), ("failed".into(), Some(1)));
    ends.says(&machine, "line:/etc/x", "!! Unknown attribute 'odd' (10.toml:6)");
    assert!(!machine.root.exists("etc/x") && machine.root.exists("etc/y"));
    // This needs no check.
    let checked = machine.check();
    assert_eq!(checked.result("line:/etc/x"), "failed");
    checked.says(&machine, "line:/etc/x", "!! Unknown attribute 'odd' (10.toml:6)");
}

fn unexplained() {
    for (mode, line) in [
        ("invalid-no-log", "!! 10.toml:6: promise:h:x: the promise is not valid, and the module does not say why"),
        ("validate-kept", "!! 10.toml:6: promise:h:x: the promise is not valid, and the module does not say why"),
        ("not-kept", "!! modes/not-kept: the promise is not kept, and the module does not say why"),
    ] {
        let machine = Machine::new(&format!("{}{}", hostile(mode), promise("h", "x", "")));
        let ends = machine.apply();
        assert_eq!(ends.result("h:x"), "failed", "{mode}");
        ends.says(&machine, "h:x", line);
    }
}

fn odd_results() {
    for (mode, lines) in [
        ("odd-result", &["!! modes/odd-result: the module answered \"success\""][..]),
        ("no-result", &["!! modes/no-result: the module answered \"\""]),
        ("error-result", &["!! there is a bug", "!! modes/error-result: the module answered \"error\""]),
        ("log-only", &["!! modes/log-only: there is no JSON in its answer"]),
    ] {
        let machine = Machine::new(&format!("{}{}{}", hostile(mode), promise("h", "x", ""), promise("h", "good", "")));
        let ends = machine.apply();
        assert_eq!((ends.result("h:x"), ends.result("h:good")), ("failed".into(), "unchanged".into()), "{mode}");
        lines.iter().for_each(|line| ends.says(&machine, "h:x", line));
    }
    let machine = Machine::new(&format!("{}{}", hostile("repaired-no-log"), promise("h", "x", "")));
    assert_eq!(machine.apply().of("h:x").changes, ["repaired"]);
    let machine = Machine::new(&format!("{}{}", hostile("validate-classes"), promise("h", "x", "")));
    let ends = machine.apply();
    assert_eq!(ends.result("h:x"), "unchanged");
    let warning = ">> modes/validate-classes has result classes for a promise that was not evaluated; they are ignored";
    ends.says(&machine, "h:x", warning);
}

/// Logs a message of each level, and returns the result named by the promiser.
const TALKER: &str = r#"#!/bin/sh
read -r greeting; read -r empty
printf 'talker 1 v1 line_based\n\n'
while read -r line; do
    case $line in
        operation=*) operation=${line#*=} ;;
        promiser=*) promiser=${line#*=} ;;
        '')
            result=valid
            if [ "$operation" = evaluate_promise ]; then
                for level in critical ERR warning Notice info inform verbose debug; do
                    printf 'log_%s=%s\\n it is\n' "$level" "$level"
                done
                result=$promiser
            fi
            printf 'operation=%s\nresult=%s\n\n' "$operation" "$result"
            ;;
    esac
done
"#;

fn levels() {
    let talk = |promiser: &str, level: &str| {
        let machine = Machine::new(&format!(
            "{}{}",
            module("talk", "talker.sh"),
            promise("talk", promiser, &format!("log_level = \"{level}\""))
        ));
        machine.script("talker.sh", TALKER).apply().of(&format!("talk:{promiser}"))
    };
    let loud = "!! critical\\n it is\n!! ERR\\n it is\n>> warning\\n it is\n>> Notice\\n it is\n";
    let infos = ["info\\n it is", "inform\\n it is"];
    // The requested level only affects verbose and debug messages.
    for (level, stdout) in [
        ("error", ""),
        ("info", ""),
        ("verbose", "verbose\\n it is\n"),
        ("debug", "verbose\\n it is\ndebug\\n it is\n"),
    ] {
        let end = talk("repaired", level);
        assert_eq!(
            (end.stderr.as_str(), end.stdout.as_str(), &end.changes[..]),
            (loud, stdout, &infos.map(String::from)[..])
        );
    }
    // Information is not a change if the promise was kept, and is printed if it was not.
    let kept = talk("kept", "info");
    assert_eq!((kept.result.as_str(), kept.stdout.as_str(), kept.changes.len()), ("unchanged", "", 0));
    let failed = talk("not_kept", "info");
    assert_eq!((failed.result.as_str(), failed.stdout), ("failed", format!("{}\n{}\n", infos[0], infos[1])));
    assert_eq!(failed.stderr, loud);
}

fn classes() {
    let classes = "#!/bin/sh\nread -r a; read -r b; printf 'c 1 v1 line_based\\n\\n'\n\
         while read -r line; do case $line in operation=v*) r=valid ;; operation=*) r=repaired ;; \
         '') printf 'result=%s\\nresult_classes=%s\\n\\n' \"$r\" \"$CLASSES\" ;; esac; done\n";
    let long = "x".repeat(5000);
    let sent = |classes_sent: &str, version: &str| {
        let definitions = format!("{}{}", module("c", "classes.sh"), promise("c", "x", ""));
        let machine = Machine::new(&definitions).script("classes.sh", &classes.replace("$CLASSES", classes_sent));
        let (run, messages) = machine.plugin(version, &["apply", "promise:c:x"]);
        assert!(run.success(), "{run}");
        (messages, run.stdout_lossy().into_owned(), run.stderr_lossy().into_owned())
    };
    let (messages, _, warnings) = sent(&format!("/tmp/x_cloned, 1st,,a.b-c,{long}"), "4");
    assert_eq!(messages, "send: _tmp_x_cloned=1\nsend: _1st=1\nsend: a_b_c=1\nchanged: repaired\n");
    assert!(warnings.contains("the result class xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… is too long to be sent"));
    let (messages, stdout, _) = sent("one", "3");
    assert_eq!((messages.as_str(), stdout.as_str()), ("", "send: one=1\nrepaired\n"));
}

fn check() {
    let definitions = [
        module("line", "keep_line.py"),
        module("mode", "look_first.py"),
        promise("line", "/etc/x", "attributes = { line = \"a\" }"),
        promise("mode", "/etc/y", "attributes = { mode = \"600\" }"),
        promise("mode", "/etc/y", "name = \"as it is\"\nattributes = { mode = \"644\", action_policy = \"fix\" }"),
    ];
    let machine = Machine::new(&definitions.concat());
    machine.root.write("etc/y", "");
    let ends = machine.check();
    assert_eq!(ends.run.status, Some(3), "{}", ends.run);
    assert_eq!(ends.result("line:/etc/x"), "unknown");
    assert_eq!(ends.of("mode:/etc/y").changes, ["Should change mode of '/etc/y' from 644 to 600"]);
    assert_eq!(ends.result("mode:as it is"), "unchanged");
    assert!(!machine.root.exists("etc/x"));
    // The check predicts the apply.
    assert_eq!(machine.apply().of("mode:/etc/y").changes, ["Changed mode of '/etc/y' from 644 to 600"]);
}

fn only_warnings() {
    let definitions = [
        module("line", "keep_line.py"),
        module("mode", "look_first.py"),
        promise("line", "/etc/x", "attributes = { line = \"a\" }\naction_policy = \"warn\""),
        promise("mode", "/etc/y", "attributes = { mode = \"600\" }\naction_policy = \"nop\""),
        promise("mode", "/etc/y", "name = \"fine\"\nattributes = { mode = \"644\" }\naction_policy = \"warn\""),
    ];
    let machine = Machine::new(&definitions.concat());
    machine.root.write("etc/y", "");
    for arguments in [&["apply"][..], &["apply", "--force"]] {
        let ends = machine.holo(arguments);
        ends.says(&machine, "line:/etc/x", "!! modules/keep_line.py cannot only look (no action_policy)");
        ends.says(&machine, "mode:/etc/y", ">> Should change mode of '/etc/y' from 644 to 600");
        ends.says(&machine, "mode:/etc/y", "!! only warnings are promised");
        let results = ["line:/etc/x", "mode:/etc/y", "mode:fine"].map(|id| ends.result(id));
        assert_eq!(results, ["failed", "failed", "unchanged"]);
    }
    assert!(!machine.root.exists("etc/x"));
    let checked = machine.check();
    assert_eq!(checked.result("line:/etc/x"), "failed");
    assert_eq!(checked.of("mode:/etc/y").changes, ["Should change mode of '/etc/y' from 644 to 600"]);
}

fn liar() {
    let text = promise("liar", "/etc/x", "attributes = { text = \"a\" }");
    let machine = Machine::new(&format!("{}{text}", module("liar", "liar.sh")));
    let ends = machine.check();
    assert_eq!(ends.result("liar:/etc/x"), "failed");
    let bug =
        "!! modules/liar.sh: changed the system when asked only to look; its action_policy is not trusted any more";
    ends.says(&machine, "liar:/etc/x", bug);
    assert_eq!(ends.of("liar:/etc/x").stdout, "Wrote /etc/x\n");
    machine.root.write("etc/x", "b\n");
    assert_eq!(machine.check().result("liar:/etc/x"), "unknown");
    assert_eq!(machine.root.read("etc/x"), "b\n");
    // Applying it has another result.
    assert_eq!(machine.apply().of("liar:/etc/x").changes, ["Wrote /etc/x"]);
    // Another version of the module may be correct.
    let path = format!("{}/modules/liar.sh", crate::machine::RESOURCES);
    machine.root.write("etc/x", "b\n");
    let changed = [machine.root.read(&path).as_slice(), b"# changed\n"].concat();
    std::fs::write(machine.root.join(&path), changed).unwrap();
    machine.check().says(&machine, "liar:/etc/x", bug);
}

fn secrets() {
    let token = "hush \\\"and\\\" hushß";
    let talker = "#!/usr/bin/env python3\nimport json, sys\nsys.stdin.readline(); sys.stdin.readline()\n\
         print('t 1 v1 json_based\\n', flush=True)\n\
         for line in sys.stdin:\n\
         \x20   if line == '\\n': continue\n\
         \x20   request = json.loads(line)\n\
         \x20   if request['operation'] == 'terminate': break\n\
         \x20   token = request['attributes']['token']['inner'][0]\n\
         \x20   print('log_info=it is ' + token + ' and ' + json.dumps(token))\n\
         \x20   print('log_warning=' + token)\n\
         \x20   print('stray ' + token)\n\
         \x20   print('stderr ' + token, file=sys.stderr, flush=True)\n\
         \x20   result = 'valid' if request['operation'] == 'validate_promise' else 'repaired'\n\
         \x20   print(json.dumps({'operation': request['operation'], 'result': result, 'echo': request}) + '\\n', flush=True)\n";
    let more = format!(
        "sensitive = [\"token\"]\nlog_level = \"debug\"\nattributes = {{ token = {{ inner = [\"{token}\"] }}, n = 1 }}"
    );
    let machine = Machine::new(&format!("{}{}", module("t", "talker.py"), promise("t", "x", &more)));
    let machine = machine.script("talker.py", talker);
    let ends = machine.apply();
    let end = ends.of("t:x");
    assert_eq!(end.changes, ["it is (sensitive) and \"(sensitive)\""]);
    let said =
        ">> (sensitive)\n>> modules/talker.py wrote outside of the protocol: stray (sensitive)\nstderr (sensitive)\n";
    for line in said.lines() {
        assert_eq!(
            machine.short(&end.stderr).lines().filter(|other| *other == line).count(),
            2,
            "{line}: {}",
            ends.run
        );
    }
    assert!(!ends.run.to_string().contains("hush"), "{}", ends.run);
    let scan = machine.root.holo(&["scan"]);
    assert!(scan.stdout_lossy().contains("with token = (sensitive)\n"), "{scan}");
    assert!(!scan.to_string().contains("hush"), "{scan}");
}

fn leak() {
    let definitions = [
        module("own", "own_lines.sh"),
        promise("own", "/etc/a", "attributes = { text = \"a\", end = \"!\" }"),
        promise("own", "/etc/b", "attributes = { text = \"a=b=c\" }"),
        promise("own", "/etc/c", "attributes = { text = \"ends in n\", end = \"\" }"),
        promise("own", "/etc/d", "attributes = { text = \"d\", end = \"?\" }"),
    ];
    let machine = Machine::new(&definitions.concat());
    let ends = machine.apply();
    assert!(ends.run.success(), "{}", ends.run);
    let texts = ["a", "b", "c", "d"].map(|name| machine.root.read(format!("etc/{name}")).to_string());
    assert_eq!(texts, ["a!\n", "a=b=c\n", "ends in n\n", "d?\n"]);
    assert!(machine.apply().run.success());
}

fn unsendable() {
    let definitions = [
        module("own", "own_lines.sh"),
        promise("own", "/etc/a", "attributes = { text = [\"x\"] }"),
        promise("own", "/etc/b", "attributes = { text = { x = 1 } }"),
        promise("own", "/etc/c", "attributes = { text = \"x\\ny\" }"),
        promise("own", "/etc/d", "attributes = { text = 1.5, end = true }"),
    ];
    let machine = Machine::new(&definitions.concat());
    let ends = machine.apply();
    for (name, line, kind) in [("a", 5, "a list"), ("b", 9, "a table"), ("c", 13, "a text with a newline")] {
        let id = format!("own:/etc/{name}");
        let problem = format!("attributes.text: {kind} cannot be sent to a module of the line-based protocol");
        ends.says(&machine, &id, &format!("!! 10.toml:{line}: promise:{id}: {problem}"));
        assert_eq!(ends.result(&id), "failed");
    }
    assert_eq!(machine.root.read("etc/d"), "1.5true\n");
}

fn scrub() {
    let line = module("line", "keep_line.py");
    let with_end = promise("line", "/etc/x", "attributes = { line = \"a\" }\nscrub = { line = \"a\", absent = true }");
    let without = promise("line", "/etc/y", "attributes = { line = \"a\" }");
    let machine = Machine::new(&format!("{line}{with_end}{without}"));
    assert!(machine.apply().run.success());
    // A broken definition does not make an orphan.
    machine.define(&format!("{line}{}", with_end.replace("scrub", "scrubs")));
    assert!(!machine.root.holo(&["scan"]).stdout_lossy().contains("promise:"));
    // The module's declaration may be missing as well.
    machine.define("");
    let scan = machine.root.holo(&["scan"]);
    assert!(scan.stdout_lossy().contains("promise:line:/etc/x (no definition is left)"), "{scan}");
    assert!(!scan.stdout_lossy().contains("/etc/y"), "{scan}");
    let ends = machine.apply();
    assert_eq!(ends.of("line:/etc/x").changes, ["Removed line from '/etc/x'"]);
    assert_eq!(
        (machine.root.read("etc/x").to_string(), machine.root.read("etc/y").to_string()),
        (String::new(), "a\n".into())
    );
    assert_eq!(machine.root.holo(&["scan"]).stdout_lossy().trim(), "");
    // A failed scrub is retried.
    machine.define(&format!("{line}{with_end}"));
    assert!(machine.apply().run.success());
    std::fs::remove_file(machine.root.join("etc/x")).unwrap();
    std::fs::create_dir(machine.root.join("etc/x")).unwrap();
    machine.define("");
    let ends = machine.apply();
    assert_eq!(ends.result("line:/etc/x"), "failed");
    ends.says(&machine, "line:/etc/x", "!! Cannot read '/etc/x': Is a directory");
    std::fs::remove_dir(machine.root.join("etc/x")).unwrap();
    assert_eq!(machine.apply().result("line:/etc/x"), "unchanged");
    assert_eq!(machine.root.holo(&["scan"]).stdout_lossy().trim(), "");
    // A `scrub` table that was removed from the definition is not remembered.
    machine.define(&format!("{line}{with_end}"));
    assert!(machine.apply().run.success());
    machine.define(&format!("{line}{}", promise("line", "/etc/x", "attributes = { line = \"a\" }")));
    assert!(machine.apply().run.success());
    machine.define("");
    assert_eq!(machine.root.holo(&["scan"]).stdout_lossy().trim(), "");
}

fn offline() {
    let line = promise("line", "/etc/x", "attributes = { line = \"a\" }");
    let machine = Machine::new(&format!("{}{line}", module("line", "keep_line.py")));
    let machine = Machine { root: machine.root.env("HOLO_OFFLINE", "1") };
    assert_eq!(machine.check().result("line:/etc/x"), "unknown");
    let ends = machine.apply();
    assert_eq!(ends.result("line:/etc/x"), "pending");
    assert!(ends.run.success() && !machine.root.exists("etc/x"), "{}", ends.run);
    let machine = Machine { root: machine.root.env("HOLO_OFFLINE", "0") };
    assert_eq!(machine.apply().result("line:/etc/x"), "changed");
}

fn mocks() {
    let line = module("line", "keep_line.py").replace("respects_root = true\n", "");
    let with = |value: &str| promise("line", "/etc/x", &format!("attributes = {{ line = \"{value}\", n = 1 }}"));
    let machine = Machine::new(&format!("{line}{}", with("two words")));
    assert_eq!(machine.check().result("line:/etc/x"), "pending");
    let ends = machine.apply();
    assert_eq!(ends.of("line:/etc/x").stdout, "MOCK: promise line /etc/x 'line=two words' n=1\n");
    assert_eq!(ends.result("line:/etc/x"), "changed");
    assert_eq!(machine.check().result("line:/etc/x"), "unchanged");
    assert_eq!(machine.apply().result("line:/etc/x"), "unchanged");
    machine.define(&format!("{line}{}", with("other")));
    assert_eq!(machine.apply().result("line:/etc/x"), "changed");
    assert!(!machine.root.exists("etc/x"));
}

fn retries() {
    let fails_twice = "#!/bin/sh\nread -r a; read -r b; printf 'c 1 v1 line_based\\n\\n'\n\
         while read -r line; do case $line in operation=v*) r=valid ;; operation=t*) exit ;; operation=*) \
         echo x >>\"$HOLO_ROOT_DIR/tries\"; case $(wc -l <\"$HOLO_ROOT_DIR/tries\") in 1) exit 3 ;; 2) r=not_kept ;; *) r=kept ;; esac ;; \
         '') printf 'result=%s\\n\\n' \"$r\" ;; esac; done\n";
    let definitions = format!("{}{}", module("c", "fails.sh"), promise("c", "x", "retries = 2\nretry_delay = \"1ms\""));
    let machine = Machine::new(&definitions).script("fails.sh", fails_twice);
    let ends = machine.apply();
    assert!(ends.run.success(), "{}", ends.run);
    assert_eq!(machine.root.read("tries"), "x\nx\nx\n");
    ends.says(&machine, "c:x", "!! modules/fails.sh ended before its answer was complete: exit status 3");
    ends.says(&machine, "c:x", ">> trying again in 1ms (2 of 2)");
}

fn edges() {
    let line = module("line", "keep_line.py") + "provides = \"path\"\n";
    let own = module("own", "own_lines.sh");
    let promises = promise("line", "/etc/x", "attributes = { line = \"a\" }\nrequires = [\"package:git\"]")
        + &promise("own", "/etc/y", "attributes = { text = \"a\" }");
    let machine = Machine::new(&format!("{line}{own}{promises}"));
    let (run, _) = machine.plugin("4", &["scan"]);
    let report = machine.short(&run.stdout_lossy());
    let expected = "ENTITY: promise:line:/etc/x\nSOURCE: 10.toml\nREQUIRES: package:git\nPROVIDES: path /etc/x\n\
         NEEDS: path /usr/share/holo/promises/modules/keep_line.py\nNEEDS: path /usr/bin/env\n\
         WRITTEN: 10.toml:11: promise:line:/etc/x\nfound in: 10.toml\nmodule: modules/keep_line.py\nwith: line = a\n\
         ENTITY: promise:own:/etc/y\nSOURCE: 10.toml\nNEEDS: path /usr/share/holo/promises/modules/own_lines.sh\n\
         WRITTEN: 10.toml:16: promise:own:/etc/y\nfound in: 10.toml\nmodule: modules/own_lines.sh\nwith: text = a\n";
    assert_eq!(report, expected);
}

fn plugin_check() {
    let plugin = holo_testing::binaries::built("holo-promises").display().to_string();
    let mocked =
        module("mocked", "keep_line.py").replace("modules/", "/elsewhere/").replace("respects_root = true\n", "");
    let definitions = [
        module("line", "keep_line.py"),
        module("own", "own_lines.sh"),
        module("mode", "look_first.py"),
        mocked,
        promise("line", "/x", "attributes = { line = \"a\" }\nscrub = { line = \"a\", absent = true }"),
        promise("own", "/y", "attributes = { text = \"a\" }\nsubscribes = [\"promise:line:/x\"]"),
        promise("mode", "/x", "attributes = { mode = \"600\" }\nrequires = [\"promise:line:/x\"]"),
        promise("mocked", "z", "attributes = { a = [1, 2] }"),
    ];
    let machine = Machine::new(&definitions.concat());
    let run = machine.root.holo(&["plugin", "check", &plugin]);
    assert!(run.success(), "{run}");
}
