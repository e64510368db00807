//! `holo plugin check`: every fault is found in a plugin that has it, and a correct plugin has no findings.
//!
//! Most faults are a single replacement in the text of a correct plugin.

mod own;

use crate::shell_plugins::wait_for;
use bstr::ByteSlice;
use holo_process::Program;
use holo_testing::processes::{is_running, send};
use holo_testing::{Run, ScratchRoot, binaries::built};
use libtest_mimic::{Failed, Trial};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time limit of each test, far less than the minute for which a broken plugin hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A named test function.
type Case = (&'static str, fn() -> Result<(), Failed>);

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(broken());
    trials.extend(faults("shell", NOTES, &SHELL_FAULTS));
    trials.extend(faults("session", SESSION, &SESSION_FAULTS));
    trials.extend(own::all());
    let cases: [Case; 15] = [
        ("good/well_behaved", well_behaved),
        ("good/refused_at_first", refused_at_first),
        ("good/hooks", hooks),
        ("good/labels", labels),
        ("copies", copies),
        ("good/example_of_the_man_page", example_of_the_man_page),
        ("good/notes", || is_good(&root(NOTES), &notes_arguments())),
        ("good/session", || is_good(&root(SESSION), &notes_arguments())),
        ("resources_of_an_installed_plugin", resources_of_an_installed_plugin),
        ("resources_of_the_root", resources_of_the_root),
        ("without_resources", without_resources),
        ("many_entities", many_entities),
        ("what_cannot_be_called", what_cannot_be_called),
        ("misuse", misuse),
        ("a_signal_ends_it", a_signal_ends_it),
    ];
    trials.extend(cases.map(|(name, test)| Trial::test(name, test)));
    trials
}

/// Fails with the details of the run unless the condition holds.
fn ensure(holds: bool, what: &str, run: &Run) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(format!("{what}\n{run}").into()) }
}

/// Runs the check, and asserts that it leaves no files behind.
fn check(root: &ScratchRoot, arguments: &[&str]) -> Result<Run, Failed> {
    let run = root.holo(&[&["plugin", "check"], arguments].concat());
    let left: Vec<_> = fs::read_dir(root.join("tmp")).unwrap().collect();
    ensure(left.is_empty(), &format!("left {left:?}"), &run)?;
    ensure(!run.stderr.contains_str("panicked"), "panicked", &run)?;
    ensure(!run.stderr.contains_str(":  ("), "should say what it finds", &run)?;
    Ok(run)
}

fn is_good(root: &ScratchRoot, arguments: &[&str]) -> Result<(), Failed> {
    let run = check(root, arguments)?;
    ensure(run.success() && run.stderr.is_empty(), "should find nothing", &run)?;
    ensure(run.stdout.ends_with(b" checks passed, 0 failed, 0 warnings\n"), "should count", &run)
}

/// Asserts that a finding is reported and counted.
fn finds(run: &Run, finding: &str) -> Result<(), Failed> {
    let found = run.stderr.lines().any(|line| line.starts_with(finding.as_bytes()));
    ensure(found, &format!("should find: {finding}"), run)?;
    let expected = if run.stderr.lines().any(|line| line.starts_with(b"!! ")) { 1 } else { 0 };
    ensure(run.status == Some(expected), &format!("should exit with {expected}"), run)?;
    let is_counted = !run.stdout.contains_str(if expected == 1 { ", 0 failed" } else { ", 0 warnings" });
    ensure(is_counted, "should count what it finds", run)
}

fn repository(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path).display().to_string()
}

// The plugin with all faults.

const RAN_BADLY: &str = "where exit status 0 is expected";
const NEVER_SILENT: &str = "the second apply did not say \"not changed\"";
const HELD: &str = "has left a process behind that holds its";
const KILLED: &str = "did not end within 3s, and was killed with its process group";

/// Faults of the plugin `broken`, selected by the file `etc/broken`, and the finding of each.
const BY_FILE: [(&str, &str); 22] = [
    ("bad-version", "!! info: speaks versions 1 to 2, where 3 or 4 is needed"),
    ("future-version", "!! info: speaks versions 99 to 100, where 3 or 4 is needed"),
    ("empty-info", "!! info: does not say MIN_API_VERSION=N"),
    ("words-in-info", "!! info: says MIN_API_VERSION=three, where a positive integer is needed"),
    ("half-info", "!! info: does not say MAX_API_VERSION=N"),
    ("garbage-info", "!! info: does not say MIN_API_VERSION=N"),
    ("megabyte-in-info", ">> info: prints \"xxx"),
    ("failing-info", "!! info: exit status 9, where exit status 0 is expected"),
    ("killed-info", "!! info: signal: segmentation fault"),
    ("garbage-report", "!! scan: line 4 is \"\\xff\\xfe\", where \"KEY: VALUE\" is expected"),
    ("nul-report", "!! scan: reports the entity \"a\\0b\"; no program can be called with a NUL byte"),
    ("megabyte-line", "!! scan: line 1 is \"xxx"),
    ("failing-scan", "!! scan: exit status 9, after \"ENTITY: broken:half\", where exit status 0 is expected"),
    ("killed-scan", "!! scan: signal: aborted"),
    ("held-scan", "!! scan: has left a process behind that holds its standard output open"),
    ("staying-scan", "!! scan: did not end within 3s, and was killed with its process group"),
    ("twice", "!! scan: reports broken:twice twice; IDs should be unique"),
    ("failing-diff", "!! diff broken:entity: exit status 9, where exit status 0 is expected"),
    ("one-path", "!! diff broken:entity: names 1 path, where two are expected, or none"),
    ("long-path", "!! diff broken:entity: names \"    "),
    (
        "device",
        "!! diff broken:entity: names /dev/zero, which cannot be shown: a regular file or a symlink is expected",
    ),
    ("held-diff", "!! diff broken:entity: has left a process behind that holds its standard output open"),
];

/// Faults of its `apply`, selected by a resource file, and the finding of each without the entity.
const BY_RESOURCE: [(&str, &str); 16] = [
    ("dies", RAN_BADLY),
    ("segfaults", RAN_BADLY),
    ("fails-unchanged", RAN_BADLY),
    ("megabyte-on-stderr", "prints 1048576 bytes on standard error"),
    ("megabyte-on-stdout", "prints 1048576 bytes on standard output"),
    ("no-newline", "the last line on standard output has no newline"),
    ("nothing", NEVER_SILENT),
    ("garbage-on-3", "says \"what\\xffever\\0\", \"not changed at all\" on file descriptor 3"),
    ("megabyte-on-3", "says \"mmm"),
    ("all-messages", "says \"not changed\" as well as \"requires --force to overwrite\""),
    ("closes-everything", NEVER_SILENT),
    ("held-3", HELD),
    ("held-stdout", HELD),
    ("held-stderr", HELD),
    ("stays", KILLED),
    ("stays-stubbornly", KILLED),
];

fn broken() -> Vec<Trial> {
    let by_file = BY_FILE.map(|(fault, finding)| {
        Trial::test(format!("broken/{fault}"), move || {
            let root = ScratchRoot::new().file("broken/entity", "").file("root/etc/broken", fault);
            finds(&check_broken(&root)?, finding)
        })
    });
    let by_resource = BY_RESOURCE.map(|(fault, finding)| {
        Trial::test(format!("broken/{fault}"), move || {
            let run = check_broken(&ScratchRoot::new().file(format!("broken/{fault}"), "").dir("root"))?;
            let start = format!(" apply broken:{fault}: ");
            let found = run.stderr_lossy().lines().any(|line| line.contains(&start) && line.contains(finding));
            ensure(found && run.status == Some(1), &format!("should find:{start}{finding}"), &run)
        })
    });
    by_file.into_iter().chain(by_resource).collect()
}

fn check_broken(root: &ScratchRoot) -> Result<Run, Failed> {
    let plugin = repository("test-scenarios/plugins/broken");
    let start = Instant::now();
    let run = check(root, &["--timeout", "3s", "--resources", "broken", "--root", "root", &plugin])?;
    ensure(start.elapsed() < PATIENCE, "takes too long", &run)?;
    Ok(run)
}

// A correct shell plugin, and its modifications.

/// Turns each resource file into a file in `notes/`.
const NOTES: &str = r#"#!/bin/sh
root=${HOLO_ROOT_DIR%/} name=${2#note:}
source=$HOLO_RESOURCE_DIR/$name
target=$root/notes/$name
known() { [ -z "$1" ] || [ -f "$source" ] || { echo "!! unknown entity $1" >&2; exit 1; }; }
is_same() { cmp -s "$source" "$target"; }
[ "$1" = scan ] || known "$2"
case $1 in
info) printf 'MIN_API_VERSION=3\nSCAN=1\nDOCTOR=1\nHEALTH=1\nMAX_API_VERSION=4\n' ;;
scan)
    for file in "$HOLO_RESOURCE_DIR"/*; do
        [ -z "$2" ] || [ "$file" = "$source" ] || continue
        printf 'ENTITY: note:%s\nSOURCE: %s\n' "${file##*/}" "$file"
    done ;;
check) if is_same; then echo 'not changed'; else echo "would change: would write $name"; fi >&3 ;;
apply | force-apply)
    if is_same; then
        echo 'not changed' >&3
    else
        mkdir -p "$root/notes"
        cp "$source" "$target"
        echo "changed: wrote $name" >&3
    fi ;;
diff) printf '%s\0%s\0' "$source" "$target" >&3 ;;
health) shift; for id; do printf 'critical\t%s\tit is torn\n' "$id"; done >&3 ;;
doctor) printf 'ok\tall notes can be read\nwarning\tno pen\tbuy one\n' >&3 ;;
esac
"#;

/// A replacement in a correct plugin, and the resulting finding.
struct Fault {
    name: &'static str,
    replace: &'static str,
    by: &'static str,
    finding: &'static str,
}

const fn fault(name: &'static str, replace: &'static str, by: &'static str, finding: &'static str) -> Fault {
    Fault { name, replace, by, finding }
}

const SHELL_FAULTS: [Fault; 59] = [
    fault(
        "doctor_in_words",
        "DOCTOR=1",
        "DOCTOR=yes",
        ">> info: says \"DOCTOR=yes\", which means nothing; DOCTOR=1 does",
    ),
    fault("doctor_is_missing", "doctor)", "x) ;; y) exit 1 ;; *) exit 2 ;; z)", "!! doctor: exit status 2, where exit"),
    fault("doctor_mumbles", "'ok\\t", "'fine\\t", "!! doctor: \"fine\\tall notes can be read\" is not a diagnosis"),
    fault("doctor_has_effects", "doctor)", "doctor) : >\"$root/x\";", "!! doctor: has changed ./x"),
    fault(
        "health_in_words",
        "HEALTH=1",
        "HEALTH=yes",
        ">> info: says \"HEALTH=yes\", which means nothing; HEALTH=1 does",
    ),
    fault("health_mumbles", "'critical\\t", "'bad\\t", "!! health: \"bad\\tnote:"),
    fault("health_of_nothing", "critical\\t%s", "critical\\tx%s", "!! health: says \"critical\\txnote:"),
    fault("health_has_effects", "health)", "health) : >\"$root/x\";", "!! health: has changed ./x"),
    fault(
        "limited_scan_in_words",
        "SCAN=1",
        "SCAN=yes",
        ">> info: says \"SCAN=yes\", which means nothing; SCAN=1 does",
    ),
    fault(
        "limited_scan_is_empty",
        "[ \"$file\" = \"$source\" ]",
        "[ \"$file\" = x ]",
        "!! scan note:a: does not report note:a as a whole scan does",
    ),
    fault(
        "limited_scan_fails",
        "[ \"$1\" = scan ] || known",
        "known",
        "!! scan plugin-check:no such entity: exit status 1",
    ),
    fault(
        "limited_scan_reports_more",
        "scan)",
        "scan) [ -z \"$2\" ] || echo 'ENTITY: note:x';",
        "!! scan note:a: reports note:x, which a whole scan does not",
    ),
    fault("info_is_turned", "N=3", "N=9", "!! info: says MIN_API_VERSION=9 and MAX_API_VERSION=4, which is less"),
    fault("info_is_noisy", "info)", "info) echo hi >&2;", ">> info: says \"hi\\n\" on standard error"),
    fault("info_chats", "info)", "info) echo hello;", ">> info: prints \"hello\", where lines KEY=VALUE are expected"),
    fault("info_has_effects", "info)", "info) : >\"$root/x\";", "!! info: has changed ./x"),
    fault("session_in_words", "4\\n'", "4\\nSESSION=yes\\n'", ">> info: says \"SESSION=yes\", which means nothing"),
    fault("session_too_early", "4\\n'", "3\\nSESSION=1\\n'", ">> info: says SESSION=1, but sessions need version 4"),
    fault("hangs", "scan)", "scan) sleep 60;", "!! scan: did not end within 4s"),
    fault("scan_has_effects", "scan)", "scan) mkdir -p \"$root/x\";", "!! scan: has changed ./x"),
    fault(
        "scan_keeps_state",
        "scan)",
        "scan) : >\"$HOLO_STATE_DIR/x\";",
        "!! scan: has changed ./var/lib/holo/notes/x",
    ),
    fault(
        "scan_is_random",
        "scan)",
        "scan) echo \"ENTITY: note:$$\";",
        "!! scan: a second scan reports something else",
    ),
    fault("source_is_missing", "\"$file\"", "\"$file.x\"", "!! scan: SOURCE of note:a is \""),
    fault(
        "source_is_elsewhere",
        "\"$file\"",
        "/etc/passwd",
        ">> scan: SOURCE of note:a is \"/etc/passwd\", which is not",
    ),
    fault("reserved_key", "SOURCE: %s", "COLOUR: %s", ">> scan: the key COLOUR of note:a means nothing in version 4"),
    fault("id_is_a_path", "ENTITY: ", "ENTITY: /", "!! scan: reports the entity \"/note:a\", which looks like a path"),
    fault("id_without_type", "note:%s", "%s", "!! scan: reports the entity \"a\", where an ID of the form TYPE:NAME"),
    fault("id_has_a_tab", "note:%s", "note:%s\\t", ">> scan: reports the entity \"note:a\\t\", with blanks"),
    fault(
        "cycle",
        "SOURCE: %s\\n'",
        "SOURCE: %s\\nAFTER: note:a\\nAFTER: note:b\\n'",
        "!! scan: reports a cycle, each waiting for the next: note:a",
    ),
    fault(
        "only_in_version_4",
        "scan)",
        "scan) [ $HOLO_API_VERSION = 4 ] || exit 5;",
        "!! scan: exit status 5 when asked in",
    ),
    fault("only_absolute", "case", "cd /; case", "!! scan: reports other entities when given relative paths"),
    fault(
        "knows_everything",
        "known \"$2\"",
        ":",
        "!! diff note:no-such-entity: there is no such entity, so exit status 1",
    ),
    fault("unknown_in_silence", "echo \"!!", ": \"!!", "!! apply note:no-such-entity: it failed without saying"),
    fault(
        "unknown_has_effects",
        "known \"$2\"",
        "[ -z \"$2\" ] || : >\"$root/x\"; known \"$2\"",
        "!! check note:no-such-entity: there is no such entity, but this has changed ./x",
    ),
    fault("check_has_effects", "check)", "check) : >\"$root/x\";", "!! check note:a: has changed ./x"),
    fault(
        "check_is_late",
        "check) if is_same",
        "check) if false",
        "!! check note:a: the entity was applied, but the check",
    ),
    fault("check_says_nothing", "check) ", "check) : ;; x) ", ">> check note:a: the check says nothing"),
    fault(
        "check_is_wrong",
        "check) if is_same",
        "check) if true",
        "!! apply note:a: the check said \"not changed\", but the",
    ),
    fault(
        "check_promises_too_much",
        "    if is_same; then\n        echo 'not changed'",
        "    if true; then\n        echo 'not changed'",
        "!! apply note:a: the check said \"would change: would write a\", but the apply \"not changed\"",
    ),
    fault(
        "an_orphan_perhaps",
        "SOURCE: %s\\n'",
        "SOURCE: %s\\nORPHAN: maybe\\n'",
        "!! scan: says \"ORPHAN: maybe\", where \"ORPHAN: yes\" is expected, or nothing",
    ),
    fault(
        "always_sometimes",
        "SOURCE: %s\\n'",
        "SOURCE: %s\\nALWAYS: 1\\n'",
        "!! scan: says \"ALWAYS: 1\", where \"ALWAYS: yes\" is expected, or nothing",
    ),
    fault(
        "needs_a_relative_path",
        "SOURCE: %s\\n'",
        "SOURCE: %s\\nNEEDS: path notes\\n'",
        "!! scan: NEEDS of note:a is the path \"notes\", where an absolute path is expected",
    ),
    fault(
        "watches_a_relative_path",
        "SOURCE: %s\\n'",
        "SOURCE: %s\\nWATCH: notes\\n'",
        "!! scan: WATCH of note:a is \"notes\", where an absolute path is expected",
    ),
    fault(
        "check_boasts",
        "would change: would",
        "changed: I",
        ">> check note:a: says \"changed: I write a\", which has no",
    ),
    fault(
        "apply_is_never_silent",
        "echo 'not changed' >&3",
        ":",
        "!! apply note:a: the second apply did not say \"not changed\"",
    ),
    fault(
        "apply_prints",
        "echo 'not changed' >&3",
        "echo 'not changed' >&3; echo fine",
        ">> apply note:a: the second apply printed",
    ),
    fault(
        "apply_goes_on",
        "    if is_same",
        "    echo >>\"$root/x\"; if is_same",
        "!! apply note:a: the second apply has changed ./x",
    ),
    fault(
        "apply_fails",
        "mkdir -p",
        "echo '!! no room' >&2; exit 1; mkdir -p",
        "!! apply note:a: exit status 1, after \"!! no room\", where exit status 0 is expected",
    ),
    fault(
        "apply_lies",
        "mkdir -p",
        "echo 'not changed' >&3; mkdir -p",
        "!! apply note:a: said \"not changed\", but has changed ./notes/a",
    ),
    fault(
        "force_is_refused",
        "apply | force-apply)",
        "force-apply) echo 'requires --force to restore' >&3 ;;\napply)",
        "!! force-apply note:a: refuses, though it is called with force",
    ),
    fault(
        "apply_litters",
        "mkdir -p",
        "touch litter; mkdir -p",
        "!! apply note:a: made litter in its working directory",
    ),
    fault("apply_leaves_rubbish", "mkdir -p", "mktemp >/dev/null; mkdir -p", ">> apply note:a: has left tmp."),
    fault(
        "apply_sends_nonsense",
        "mkdir -p",
        "echo 'send: 1ST=x' >&3; mkdir -p",
        "!! apply note:a: says \"send: 1ST=x\", where \"send: KEY=VALUE\" or \"keep: KEY=VALUE\" is expected",
    ),
    fault(
        "check_keeps",
        "check) if is_same",
        "check) echo 'keep: A=x' >&3; if is_same",
        ">> check note:a: says \"keep: A=x\", which has no meaning there",
    ),
    fault(
        "skipped_and_changed",
        "mkdir -p",
        "echo 'skipped: not here' >&3; echo 'changed: it' >&3; mkdir -p",
        "!! apply note:a: says \"skipped: not here\" as well as \"changed: it\"",
    ),
    fault("diff_without_end", "%s\\0'", "%s'", "!! diff note:a: says \""),
    fault(
        "one_label",
        "%s\\0'",
        "%s\\0x\\0'",
        "!! diff note:a: says 1 label after the two paths, where two are expected",
    ),
    fault(
        "label_with_newline",
        "%s\\0'",
        "%s\\0x\\ny\\0z\\0'",
        "!! diff note:a: says the label \"x\\ny\", where at most 8192 bytes without control",
    ),
    fault(
        "labels_in_version_3",
        "4\\n' ;;",
        "3\\n' ;;\ndiff) printf '%s\\0%s\\0x\\0y\\0' \"$source\" \"$target\" >&3 ;;",
        "!! diff note:a: names 4 paths, where two are expected, or none",
    ),
];

/// Returns a root with the plugin `notes`, two resource files, and an empty working directory.
fn root(plugin: &str) -> ScratchRoot {
    ScratchRoot::new()
        .script("holo-notes", plugin)
        .file("resources/a", "A\n")
        .file("resources/b", "B\n")
        .time_limit(PATIENCE)
}

fn notes_arguments() -> [&'static str; 5] {
    ["--timeout", "4s", "--resources", "resources", "./holo-notes"]
}

fn faults(kind: &str, good: &'static str, faults: &'static [Fault]) -> Vec<Trial> {
    let trial = |fault: &'static Fault| {
        Trial::test(format!("{kind}/{}", fault.name), move || {
            assert!(good.contains(fault.replace), "{} is not in the plugin", fault.replace);
            finds(&check(&root(&good.replace(fault.replace, fault.by)), &notes_arguments())?, fault.finding)
        })
    };
    faults.iter().map(trial).collect()
}

// The same as a session.

const SESSION: &str = r#"#!/bin/sh
[ "$1" = info ] && { printf 'MIN_API_VERSION=4\nMAX_API_VERSION=4\nSESSION=1\nDOCTOR=1\n'; exit; }
[ "$1" = session ] || exit 1
say() { printf '%s\n' "{\"answer\":\"$1\",\"request\":$number$2}" >&3; }
of() { say "$1" ",\"entity\":\"$entity\"$2"; }
is_same() { cmp -s "$source" "$target"; }
scan() {
    for file in "$HOLO_RESOURCE_DIR"/*; do say report ",\"text\":\"ENTITY: note:${file##*/}\\n\""; done
}
finish() { of result ",\"messages\":[\"$1\"],\"result\":\"done\""; }
work() {
    name=${entity#note:} source=$HOLO_RESOURCE_DIR/${entity#note:} target=$HOLO_ROOT_DIR/notes/${entity#note:}
    if [ ! -f "$source" ]; then
        of output ',"stream":"stderr","text":"!! unknown entity\n"'
        of result ',"result":"failed"'
        return
    fi
    case $operation in
    check) if is_same; then finish 'not changed'; else finish "would change: would write $name"; fi ;;
    diff)
        of diff ",\"from\":\"$source\",\"to\":\"$target\""
        of result ',"result":"done"' ;;
    *)
        if is_same; then finish 'not changed'; return; fi
        of begin
        mkdir -p "$HOLO_ROOT_DIR/notes"
        cp "$source" "$target"
        of output ',"stream":"stdout","text":"written\n"'
        finish "changed: wrote $name" ;;
    esac
}
while read -r line; do
    number=$(echo "$line" | sed 's/.*"request":\([0-9]*\).*/\1/')
    operation=$(echo "$line" | sed 's/.*"operation":"\([a-z-]*\)".*/\1/')
    [ $operation = scan ] && scan
    [ $operation = doctor ] && say report ',"text":"ok\tall is well\t\n"'
    for entity in $(echo "$line" | sed -n 's/.*"entities":\[\([^]]*\)\].*/\1/p' | tr -d '"' | tr , ' '); do
        work
    done
    say end ',"result":"done"'
done
"#;

const SESSION_FAULTS: [Fault; 22] = [
    fault("doctor_mumbles", "\"ok\\t", "\"fine\\t", "!! session: doctor: \"fine\\tall is well\\t\" is not a diagnosis"),
    fault("does_not_start", "\"$1\" = session", "1 = 2", "!! session: scan: the session ends by itself: exit status 1"),
    fault(
        "no_end",
        "say end",
        "[ $operation = diff ] || say end",
        "!! session: diff note:no-such-entity: did not end within 4s",
    ),
    fault(
        "no_result",
        "finish \"changed",
        ": \"changed",
        "!! session: apply note:a, note:b: there is no \"result\" for \"note:a\"",
    ),
    fault("no_begin", "of begin", "", "!! session: apply note:a, note:b: \"note:a\" was changed without \"begin\""),
    fault(
        "begin_in_a_check",
        "check) if",
        "check) of begin; if",
        "!! session: check note:a, note:b: answers \"begin\", which is no",
    ),
    fault(
        "late_begin",
        "finish \"changed",
        "of begin; finish \"changed",
        "!! session: apply note:a, note:b: answers \"begin\" for \"note:a\" after \"output\"",
    ),
    fault(
        "two_results",
        "finish \"changed",
        "finish x; finish \"changed",
        "!! session: apply note:a, note:b: says more of \"note:a\" after its \"result\"",
    ),
    fault(
        "foreign_entity",
        "of begin",
        "of begin; (entity=x:y; of begin)",
        "!! session: apply note:a, note:b: answers for \"x:y\", which was not",
    ),
    fault(
        "wrong_number",
        "request\\\":$number",
        "request\\\":7",
        "!! session: scan: answers request 7, where 1 is the one to answer",
    ),
    fault(
        "unknown_field",
        ",\\\"to\\\":",
        ",\\\"colour\\\":1,\\\"to\\\":",
        "!! session: diff note:a, note:b: says \"{\\\"answer",
    ),
    fault(
        "label_with_escape",
        ",\\\"to\\\":",
        ",\\\"to_label\\\":\\\"a\\u001b\\\",\\\"to\\\":",
        "!! session: diff note:a: says the label \"a\\x1b\", where",
    ),
    fault(
        "no_json",
        "of begin",
        "echo hello >&3",
        "!! session: apply note:a, note:b: says \"hello\", which is no answer",
    ),
    fault(
        "report_in_pieces",
        "}\\\\n",
        "}",
        "!! session: scan: the report \"ENTITY: note:a\" does not consist of whole lines",
    ),
    fault(
        "message_with_newline",
        "[\\\"$1\\\"]",
        "[\\\"$1\\\\n\\\"]",
        "!! session: check note:a, note:b: a message of the \"result\"",
    ),
    fault(
        "prints",
        "scan() {",
        "scan() { echo hi;",
        ">> session: scan: prints \"hi\\n\" on standard output, where an answer",
    ),
    fault("dies", "of begin", "exit 7", "!! session: apply note:a, note:b: the session ends by itself: exit status 7"),
    fault("stays", "\ndone\n", "\ndone\nsleep 60\n", "!! session: does not end within 2s after its input"),
    fault("fails_at_the_end", "\ndone\n", "\ndone\nexit 3\n", ">> session: ends with exit status 3"),
    fault("speaks_after_the_end", "\ndone\n", "\ndone\nsay end ',\"result\":\"done\"'\n", "!! session: says "),
    fault(
        "unknown_is_done",
        "\"result\":\"failed\"'",
        "\"result\":\"done\"'",
        "!! session: diff note:no-such-entity: there is no such entity, so result \"failed\"",
    ),
    fault(
        "check_has_effects",
        "check) if",
        "check) : >\"$HOLO_ROOT_DIR/x\"; if",
        "!! session: check note:a, note:b: has changed ./x",
    ),
];

// Plugins without faults.

fn well_behaved() -> Result<(), Failed> {
    let root = ScratchRoot::new().file("resources/motd", "a\nb\n").file("root/etc/motd", "x\n");
    is_good(&root, &["--resources", "resources", "--root", "root", &repository("test-scenarios/plugins/well-behaved")])
}

/// A user has deleted an applied file.
fn refused_at_first() -> Result<(), Failed> {
    let root = ScratchRoot::new()
        .file("resources/motd", "a\n")
        .file("root/var/lib/holo/well-behaved/motd", "a\n")
        .dir("root/etc");
    is_good(&root, &["--resources", "resources", "--root", "root", &repository("test-scenarios/plugins/well-behaved")])
}

fn labels() -> Result<(), Failed> {
    let written = r#"[ $HOLO_API_VERSION = 3 ] || printf 'note (applied)\0\0' >&3 ;;"#;
    let shell = NOTES.replace("\"$target\" >&3 ;;", &format!("\"$target\" >&3; {written}"));
    is_good(&root(&shell), &notes_arguments())?;
    let session = SESSION.replace(",\\\"to\\\":", ",\\\"from_label\\\":\\\"note (applied)\\\",\\\"to\\\":");
    ensure_replaced(&shell, NOTES)?;
    ensure_replaced(&session, SESSION)?;
    is_good(&root(&session), &notes_arguments())?;
    // The word after the labels says that both files have the modes to show.
    let shell = shell.replace(r"note (applied)\0\0", r"note (applied)\0\0modes\0");
    is_good(&root(&shell), &notes_arguments())?;
    let session = session.replace(",\\\"to\\\":", ",\\\"modes\\\":true,\\\"to\\\":");
    is_good(&root(&session), &notes_arguments())
}

/// Saves the previous content as a part of a file.
const KEEPING: &str = r#"mkdir -p "$root/notes"
        before=$(wc -c <"$target" 2>/dev/null || echo 0) copies=$HOLO_CACHE_DIR/copies
        if [ "$HOLO_KEEP_REPLACED" ] && [ "$before" != 0 ]; then
            start=$(wc -c <"$copies" 2>/dev/null || echo 0)
            cat "$target" >>"$copies"
            echo "replaced: $copies@$start+$before /notes/$name" >&3
        elif [ "$HOLO_KEEP_REPLACED" ]; then
            echo "replaced: /dev/null /notes/$name" >&3
        fi"#;

fn copies() -> Result<(), Failed> {
    let keeping = NOTES.replace("mkdir -p \"$root/notes\"", KEEPING);
    let with_note = |plugin: &str| root(plugin).file("root/notes/a", "before\n");
    let arguments = [&["--root", "root"][..], &notes_arguments()].concat();
    is_good(&with_note(&keeping), &arguments)?;
    for (part, by, finding) in [
        ("@$start+$before", "@$start+1000", "has 7 bytes only"),
        ("$copies@$start+$before", "$copies.gone", "cannot be read: no such file or directory"),
        ("$copies@$start+$before", "/etc/passwd", "where /etc/passwd is not below HOLO_CACHE_DIR"),
        (" /notes/$name", " notes/$name", "whose path should begin with a slash"),
        (" /notes/$name", "", "where \"replaced: COPY PATH\" is expected"),
    ] {
        let run = check(&with_note(&keeping.replace(part, by)), &arguments)?;
        let is_found =
            |line: &[u8]| line.starts_with(b"!! ") && line.contains_str("replaced: ") && line.contains_str(finding);
        ensure(run.stderr.lines().any(is_found) && run.status == Some(1), &format!("should find: {finding}"), &run)?;
    }
    Ok(())
}

fn ensure_replaced(plugin: &str, original: &str) -> Result<(), Failed> {
    if plugin == original { Err("the plugin has no labels".into()) } else { Ok(()) }
}

fn hooks() -> Result<(), Failed> {
    let root = ScratchRoot::new()
        .file("resources/one", "# subscribes file:/etc/motd\necho one\n")
        .file("resources/two", "# after hook:one\necho two\n");
    is_good(&root, &["--resources", "resources", &repository("test-scenarios/plugins/hooks")])
}

fn example_of_the_man_page() -> Result<(), Failed> {
    let page = fs::read_to_string(repository("man/holo-plugin-interface.7")).unwrap();
    let start = page.find("#!/bin/sh -e").unwrap();
    let example = page[start..].split("\n.Ed").next().unwrap().replace("\\e", "\\").replace("\\&", "");
    let root = ScratchRoot::new()
        .script("holo-motd", example + "\n")
        .file("resources/10-welcome.txt", "Welcome to web1.\n")
        .file("resources/20-notice.txt", "Mind the gap.\n")
        .file("root/etc/hostname", "web1\n");
    is_good(&root, &["--resources", "resources", "--root", "root", "holo-motd"])
}

// The sources of resource files.

fn resources_of_an_installed_plugin() -> Result<(), Failed> {
    let root = ScratchRoot::new().script("usr/lib/holo/holo-notes", NOTES).resource("notes/a", "A\n");
    is_good(&root, &["usr/lib/holo/holo-notes"])?;
    if root.exists("notes") { Err("something was applied".into()) } else { Ok(()) }
}

fn resources_of_the_root() -> Result<(), Failed> {
    let root = ScratchRoot::new().script("holo-notes", NOTES).file("tree/usr/share/holo/notes/a", "A\n");
    is_good(&root, &["--root", "tree", "holo-notes"])
}

fn without_resources() -> Result<(), Failed> {
    let root = ScratchRoot::new()
        .script("my-notes", NOTES.replace("/*;", "/*; do [ -f \"$file\" ] || break;").replace("; do\n", "\n"));
    let run = check(&root, &["my-notes"])?;
    finds(&run, ">> a plugin without resource files can only be tested a little; see --resources")?;
    ensure(run.success(), "should still be good", &run)
}

fn many_entities() -> Result<(), Failed> {
    let root = (0..25).fold(root(NOTES), |root, number| root.file(format!("resources/{number}"), "x\n"));
    let run = check(&root, &notes_arguments())?;
    finds(&run, ">> there are 27 entities, of which only the first 20 are tried")
}

// Plugins that cannot be tested at all.

fn what_cannot_be_called() -> Result<(), Failed> {
    let root = ScratchRoot::new().file("plain", "").dir("folder").script("lost", "#!/no/such/interpreter\n");
    for (arguments, says) in [
        (&["missing"][..], "!! execute missing: no such file or directory\n"),
        (&["folder"], "!! execute folder: is a directory\n"),
        (&["plain"], "!! execute plain: permission denied\n"),
        (&["lost"], "/lost: no such file or directory\n"),
        (&["--root", "nowhere", "lost"], "!! open nowhere: no such file or directory\n"),
        (&["--resources", "plain", "lost"], "!! open plain: not a directory\n"),
        (&["--root", "/", "lost"], "!! --root /: the tree is copied, so give a small one\n"),
    ] {
        let run = check(&root, arguments)?;
        ensure(run.status == Some(255) && run.stderr.ends_with(says.as_bytes()), &format!("should say: {says}"), &run)?;
    }
    Ok(())
}

fn misuse() -> Result<(), Failed> {
    let root = ScratchRoot::new();
    for arguments in
        [&["plugin"][..], &["plugin", "check"], &["plugin", "chek", "x"], &["plugin", "check", "--timeout", "5x", "x"]]
    {
        let run = root.holo(arguments);
        ensure(run.status == Some(2) && run.stderr.contains_str("Usage:"), "should show the usage", &run)?;
    }
    let run = root.holo(&["plugin", "check", "--help"]);
    ensure(run.success() && run.stdout.contains_str("--resources <DIR>"), "should show help", &run)
}

// Signals.

fn a_signal_ends_it() -> Result<(), Failed> {
    let root = root(&NOTES.replace("scan)", "scan) echo $$ >\"$PLACE/pid\"; exec sleep 60;"));
    let mut holo = Program::new(built("holo"));
    holo.args(["plugin", "check", "--timeout", "50s", "./holo-notes"]).current_dir(root.path());
    let mut holo = holo.env("TMPDIR", root.join("tmp")).env("PLACE", root.path()).start().unwrap();
    let pid = || fs::read_to_string(root.join("pid")).ok()?.trim().parse().ok();
    let began = wait_until(|| pid().is_some());
    send(holo.id(), Signal::TERM);
    let code = wait_for(&mut holo);
    drop(holo);
    let is_gone = wait_until(|| pid().is_some_and(|pid| !is_running(pid)));
    let is_clean = fs::read_dir(root.join("tmp")).unwrap().count() == 0;
    match (began, code, is_gone, is_clean) {
        (true, Some(143), true, true) => Ok(()),
        other => Err(format!("should be interrupted and leave nothing, but: {other:?}").into()),
    }
}

fn wait_until(mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}
