//! Tests of user errors, and of modules that violate the protocol: the affected promises fail with a reason, and the
//! others do not.

use crate::machine::{Machine, PYTHON, RESOURCES, hostile, module, promise, trials_of};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

pub(crate) fn trials() -> Vec<Trial> {
    trials_of(
        PYTHON,
        &[
            ("a module has a minute to find a promise valid, whatever its timeout", silent_validation),
            ("a module that cannot be started fails its promises alone", unstartable),
            ("an interpreter that is not there is named, with what to write", interpreters),
            ("a module that others may change is not run", untrusted),
            ("a header that is none is shown", headers),
            ("doubtful headers are warned of once", doubts),
            ("a module that cannot import something ends before its header", import_error),
            ("a fault fails the promise at work, and the next one gets a new process", faults),
            ("an answer that is wrong and whole fails its promise alone", wrong_answers),
            ("after three faults in a row a module is given up", given_up),
            ("good answers between faults are forgiven", forgiven),
            ("what a called program prints does not count", strays),
            ("a module may exit after each answer", exits),
            ("a module that fails after its answer does so at the next promise's expense", fails_after_answer),
            ("a child that holds the output open is waited for half a second", left_child),
            ("a flood on standard error blocks nobody", flood),
            ("time is limited, also for who ignores SIGTERM", silence),
            ("a module that says nothing at all is not waited for for ever", silent_header),
            ("a module that does not end when told to is killed", stays),
        ],
    )
}

/// Applies a promise of this mode and a good one after it. Returns their results, and the first one's stderr.
fn apply(mode: &str, more: &str) -> (String, String, String) {
    let machine =
        Machine::new(&format!("{}{}{}", hostile(mode), promise("h", "bad", more), promise("h", "good", more)));
    let ends = machine.apply();
    (ends.result("h:bad"), ends.result("h:good"), machine.short(&ends.of("h:bad").stderr))
}

fn unstartable() {
    let declared = |kind: &str, path: &str| {
        format!("[[module]]\ntype = \"{kind}\"\npath = \"{path}\"\nrespects_root = true\n{}", promise(kind, "x", ""))
    };
    let definitions = [
        declared("missing", "modules/none.py"),
        declared("folder", "modules"),
        declared("plain", "modules/plain.sh"),
        module("early", "early.sh"),
        promise("early", "x", ""),
    ];
    let machine = Machine::new(&definitions.concat());
    machine.root.write(format!("{RESOURCES}/modules/plain.sh"), "#!/bin/sh\n");
    for ends in [machine.apply(), machine.check()] {
        ends.says(&machine, "missing:x", "!! cannot start modules/none.py: no such file or directory");
        ends.says(&machine, "folder:x", "!! cannot start modules: is a directory");
        let plain =
            "!! cannot start modules/plain.sh: permission denied; make it executable, or declare its interpreter";
        ends.says(&machine, "plain:x", plain);
        assert!(["unchanged", "unknown"].contains(&&*ends.result("early:x")));
        assert_eq!(["missing:x", "folder:x", "plain:x"].map(|id| ends.result(id)), ["failed"; 3]);
    }
    // An earlier entity may create it.
    fs::copy(
        machine.root.join(format!("{RESOURCES}/modules/early.sh")),
        machine.root.join(format!("{RESOURCES}/modules/none.py")),
    )
    .unwrap();
    assert_eq!(machine.apply().result("missing:x"), "unchanged");
}

fn interpreters() {
    for (interpreter, reason) in [
        ("/usr/bin/env python3", "no such file or directory; write [\"/usr/bin/env\", \"python3\"]"),
        ("/opt/nowhere/perl", "no such file or directory; write [\"/usr/bin/env\", \"perl\"]"),
        ("/usr", "is a directory; write [\"/usr/bin/env\", \"usr\"]"),
    ] {
        let declared = module("e", "early.sh") + &format!("interpreter = \"{interpreter}\"\n");
        let machine = Machine::new(&format!("{declared}{}", promise("e", "x", "")));
        let ends = machine.apply();
        ends.says(&machine, "e:x", &format!("!! cannot start modules/early.sh: {interpreter}: {reason}"));
    }
}

fn untrusted() {
    let machine = Machine::new(&format!("{}{}", module("early", "early.sh"), promise("early", "x", "")));
    let set =
        |path: &str, mode| fs::set_permissions(machine.root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    let (file, folder) = (format!("{RESOURCES}/modules/early.sh"), format!("{RESOURCES}/modules"));
    for (path, bad, good, shown) in [
        (file.as_str(), 0o777, 0o755, "modules/early.sh"),
        (&file, 0o775, 0o755, "modules/early.sh"),
        (&folder, 0o777, 0o755, "modules"),
    ] {
        set(path, bad);
        let ends = machine.apply();
        let line = format!(
            "!! {shown} is writable for other users (mode {bad:04o}), and is not used; to fix this: chmod go-w {shown}"
        );
        ends.says(&machine, "early:x", &line);
        assert_eq!(ends.result("early:x"), "failed");
        set(path, good);
    }
    assert!(machine.apply().run.success());
}

fn headers() {
    for (mode, complaint) in [
        ("no-header", ": \"hello\" is no header"),
        ("no-flags", ": \"hostile 1.0.0 v1\" is no header"),
        ("text-before-header", ": \"Welcome!\" is no header"),
        ("no-empty-line", ": \"log_info=hello\" is no header"),
        ("version-9", " asks for protocol v9, and v1 is the highest"),
        ("exits-at-once", " ended before its header: exit status 1"),
    ] {
        let (bad, good, said) = apply(mode, "");
        assert_eq!((bad.as_str(), good.as_str()), ("failed", "failed"), "{mode}");
        assert_eq!(said, format!("!! modes/{mode}{complaint}\n"), "{mode}");
    }
}

fn doubts() {
    for (mode, doubt, result) in [
        // The answers are JSON, which is not a valid line of the other protocol.
        ("odd-flags", "does not say which protocol it has; line_based is assumed", "failed"),
        ("both-flags", "says that it has both protocols; the last one counts", "unchanged"),
    ] {
        let machine =
            Machine::new(&format!("{}{}{}", hostile(mode), promise("h", "bad", ""), promise("h", "good", "")));
        let ends = machine.apply();
        assert_eq!(ends.result("h:good"), result, "{}", ends.run);
        let said = ends.run.to_string();
        assert_eq!(said.matches(doubt).count(), 1, "{said}");
        ends.says(&machine, "h:bad", &format!(">> modes/{mode} {doubt}"));
    }
}

fn import_error() {
    let machine = Machine::new(&format!("{}{}", module("bad", "bad.py"), promise("bad", "x", "")));
    let machine = machine.script("bad.py", "import sys\nimport non_existing\n");
    let ends = machine.apply();
    ends.says(&machine, "bad:x", "ModuleNotFoundError: No module named 'non_existing'");
    ends.says(&machine, "bad:x", "!! modules/bad.py ended before its header: exit status 1");
}

fn faults() {
    for (mode, complaint) in [
        ("wrong-operation", " answered to \"banana\" when it was asked for \"evaluate_promise\""),
        ("crash-evaluate", " ended before its answer was complete: exit status 3"),
        ("crash-validate", " ended before its answer was complete: exit status 4"),
        ("half-answer", " ended before its answer was complete: exit status 0"),
        ("signal", " ended before its answer was complete: signal: segmentation fault"),
        ("long-line", " answered with a line of more than 1048576 bytes"),
        ("long-answer", " answered with more than 16777216 bytes"),
        ("closes-stdout", " closed its standard output before its answer was complete"),
        ("broken-json-no-end", " did not answer within 5s"),
    ] {
        let (bad, good, said) = apply(mode, "");
        assert_eq!((bad.as_str(), good.as_str()), ("failed", "unchanged"), "{mode}: {said}");
        let last = said.lines().last().unwrap();
        assert!(last.starts_with(&format!("!! modes/{mode}{complaint}")), "{mode}: {said}");
    }
    // Its standard error is shown with the reason.
    let (_, _, said) = apply("crash-evaluate", "");
    assert!(said.starts_with("Traceback: something is wrong\n"), "{said}");
    // It has completed its work by then.
    let (bad, good, said) = apply("crash-terminate", "");
    assert_eq!((bad.as_str(), good.as_str(), said.as_str()), ("unchanged", "unchanged", ""));
}

fn wrong_answers() {
    for (mode, result, line) in [
        (
            "broken-json",
            "failed",
            "!! modes/broken-json: its answer is not valid JSON: expected value at line 1 column 15",
        ),
        ("validate-no-json", "failed", "!! modes/validate-no-json: there is no JSON in its answer"),
        (
            "two-objects",
            "unchanged",
            ">> modes/two-objects: a JSON object is there twice in an answer; the last counts",
        ),
        (
            "unknown-level",
            "unchanged",
            ">> modes/unknown-level: \"banana\" is no level; its messages are shown as info",
        ),
    ] {
        let (bad, good, said) = apply(mode, "");
        assert_eq!((bad.as_str(), good.as_str()), (result, "unchanged"), "{mode}");
        assert!(said.lines().any(|said| said == line), "{mode}: {said}");
    }
}

fn given_up() {
    let promises: String = (1..=5).map(|number| promise("h", &format!("bad{number}"), "")).collect();
    let machine = Machine::new(&format!("{}{promises}", hostile("crash-validate")));
    let ends = machine.apply();
    let fault = "!! modes/crash-validate ended before its answer was complete: exit status 4";
    let given_up = "!! modes/crash-validate failed 3 times in a row, and is not started again";
    for number in 1..=3 {
        ends.says(&machine, &format!("h:bad{number}"), fault);
    }
    for number in 3..=5 {
        ends.says(&machine, &format!("h:bad{number}"), given_up);
    }
    assert!(!machine.short(&ends.of("h:bad4").stderr).contains("exit status"));
    assert!((1..=5).all(|number| ends.result(&format!("h:bad{number}")) == "failed"));
    // Only for this run.
    assert!(machine.short(&machine.apply().of("h:bad1").stderr).contains("exit status 4"));
}

fn forgiven() {
    let promises: String = (1..=8)
        .map(|number| match number % 3 {
            0 => promise("h", "good", &format!("name = \"{number}\"")),
            _ => promise("h", "bad", &format!("name = \"{number}\"")),
        })
        .collect();
    let machine = Machine::new(&format!("{}{promises}", hostile("crash-validate")));
    let ends = machine.apply();
    let results: Vec<String> = (1..=8).map(|number| ends.result(&format!("h:{number}"))).collect();
    let (bad, good) = ("failed", "unchanged");
    assert_eq!(results, [bad, bad, good, bad, bad, good, bad, bad]);
    assert!(!ends.run.to_string().contains("in a row"), "{}", ends.run);
}

fn strays() {
    let machine = Machine::new(&format!("{}{}", hostile("called-program"), promise("h", "x", "")));
    let ends = machine.apply();
    assert_eq!(ends.of("h:x").changes, ["repaired"]);
    ends.says(&machine, "h:x", ">> modes/called-program wrote outside of the protocol: Files a and b differ");
}

fn exits() {
    let (bad, good, said) = apply("exit-after-each-answer", "");
    assert_eq!((bad.as_str(), good.as_str(), said.as_str()), ("unchanged", "unchanged", ""));
    // Answers in advance are accepted, whether or not the request was read.
    let (bad, good, said) = apply("answers-before-reading", "");
    assert_eq!((bad.as_str(), good.as_str()), ("unchanged", "unchanged"), "{said}");
}

fn fails_after_answer() {
    // It has answered the validation, and ended before it could be asked to keep the promise.
    let (bad, _, said) = apply("fails-after-each-answer", "");
    assert_eq!(bad, "failed", "{said}");
    let fault = "!! modes/fails-after-each-answer ended before its answer was complete: exit status 7\n";
    assert_eq!(said, fault);
}

fn left_child() {
    let began = Instant::now();
    let (bad, good, said) = apply("leaves-child", "");
    assert_eq!((bad.as_str(), good.as_str(), said.as_str()), ("unchanged", "unchanged", ""));
    // The child keeps it open for a minute.
    assert!(began.elapsed() < Duration::from_secs(50), "{:?}", began.elapsed());
}

fn flood() {
    let (bad, good, said) = apply("flood", "");
    assert_eq!((bad.as_str(), good.as_str()), ("unchanged", "unchanged"));
    assert_eq!(said.lines().count(), 30000);
}

fn silence() {
    for (mode, limit) in [("silence", 1), ("ignores-sigterm", 1)] {
        let began = Instant::now();
        let (bad, good, said) = apply(mode, &format!("timeout = \"{limit}s\""));
        assert_eq!((bad.as_str(), good.as_str()), ("failed", "unchanged"), "{mode}");
        assert_eq!(said, format!("!! modes/{mode} did not answer within {limit}s\n"));
        assert!(began.elapsed() < Duration::from_secs(30), "{mode}: {:?}", began.elapsed());
    }
}

fn silent_header() {
    let machine = Machine::new(&format!("{}{}", hostile("silent-header"), promise("h", "x", "")));
    let ends = machine.apply();
    ends.says(&machine, "h:x", "!! modes/silent-header did not answer within 30s");
}

fn silent_validation() {
    let began = Instant::now();
    let (bad, good, said) = apply("silent-validate", "timeout = \"1s\"");
    assert_eq!((bad.as_str(), good.as_str()), ("failed", "unchanged"));
    assert_eq!(said, "!! modes/silent-validate did not answer within 60s\n");
    assert!(began.elapsed() >= Duration::from_secs(60), "{:?}", began.elapsed());
}

fn stays() {
    let began = Instant::now();
    let (bad, good, said) = apply("stays", "");
    assert_eq!((bad.as_str(), good.as_str(), said.as_str()), ("unchanged", "unchanged", ""));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
