//! Tests of `holo-secret edit` with scripts as editors.

use crate::machine::{AGE, Machine, run};
use holo_process::{Event, Process, Program, Status};
use holo_testing::trial_of;
use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, case: fn()| trial_of(name, &AGE, case);
    vec![
        trial("a_value_is_edited", a_value_is_edited),
        trial("what_is_not_changed_stays_as_it_is", what_is_not_changed_stays_as_it_is),
        trial("only_the_value_of_a_file_of_data_changes", only_the_value_of_a_file_of_data_changes),
        trial("nobody_else_can_look_at_it", nobody_else_can_look_at_it),
        trial("whoever_could_read_it_still_can", whoever_could_read_it_still_can),
        trial("a_signal_leaves_nothing_behind", a_signal_leaves_nothing_behind),
        trial("what_a_kill_has_left_is_removed", what_a_kill_has_left_is_removed),
    ]
}

/// Returns the command with a script as the editor, which receives the file as `$1`.
fn editing(machine: &Machine, script: &str, arguments: &[&str]) -> Program {
    machine.write("editor", script);
    let memory = machine.root().join("memory");
    fs::create_dir_all(&memory).unwrap();
    fs::set_permissions(&memory, fs::Permissions::from_mode(0o700)).unwrap();
    let mut program = Program::new(holo_testing::binaries::built("holo-secret"));
    program.env("HOLO_ROOT_DIR", machine.root()).env("XDG_RUNTIME_DIR", memory).current_dir(machine.root());
    program.env("EDITOR", "false").env("VISUAL", "sh ./editor").arg("edit").args(arguments);
    program
}

/// Runs the command and returns its errors. Checks that no files are left.
fn edit(machine: &Machine, script: &str, arguments: &[&str]) -> String {
    let output = editing(machine, script, arguments).output().unwrap();
    let wrong = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.ended.failure().is_some(), !wrong.is_empty(), "{wrong}");
    assert_eq!(left(machine), 0, "{wrong}");
    wrong
}

fn left(machine: &Machine) -> usize {
    fs::read_dir(machine.root().join("memory")).unwrap().count()
}

fn read(machine: &Machine, path: &str) -> String {
    fs::read_to_string(machine.path(path)).unwrap()
}

fn machine() -> Machine {
    let machine = Machine::with_ssh();
    machine.write("password.age", &machine.encrypt("hunter2"));
    machine
}

fn a_value_is_edited() {
    let machine = machine();
    fs::set_permissions(machine.path("password.age"), fs::Permissions::from_mode(0o640)).unwrap();
    // Like real editors, the script replaces the file and adds a final newline.
    let script = "sed s/2/3/ \"$1\" >\"$1.new\"; echo >>\"$1.new\"; mv \"$1.new\" \"$1\"";
    assert_eq!(edit(&machine, script, &["password.age"]), "");
    let (value, wrong) = machine.secret(&["decrypt"], &read(&machine, "password.age"));
    assert_eq!((value.as_str(), wrong.as_str()), ("hunter3", ""));
    assert_eq!(fs::metadata(machine.path("password.age")).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(fs::read_dir(machine.root()).unwrap().count(), 4, "nothing but etc, memory, editor and the value");
}

fn what_is_not_changed_stays_as_it_is() {
    let machine = machine();
    let before = (read(&machine, "password.age"), fs::metadata(machine.path("password.age")).unwrap().ino());
    let is_as_before = || {
        let now = (read(&machine, "password.age"), fs::metadata(machine.path("password.age")).unwrap().ino());
        assert_eq!(now, before);
    };
    for script in ["true", "echo >>\"$1\""] {
        assert_eq!(edit(&machine, script, &["password.age"]), "");
        is_as_before();
    }
    let wrong = edit(&machine, "echo x >\"$1\"; exit 3", &["password.age"]);
    assert_eq!(wrong, "!! sh ./editor failed: exit status 3; nothing has been changed\n");
    is_as_before();
    // A value that was modified concurrently is not overwritten.
    let wrong = edit(&machine, "echo x >\"$1\"; echo >>password.age", &["password.age"]);
    assert!(wrong.contains("password.age: the file was changed in the meantime"), "{wrong}");
    assert!(edit(&machine, "true", &["nothing"]).contains("!! nothing: no such file or directory"));
}

fn only_the_value_of_a_file_of_data_changes() {
    let machine = machine();
    let (one, two) = (machine.encrypt("one\n"), machine.encrypt("two\n"));
    let indented = |armored: &str| armored.lines().map(|line| format!("    {line}\n")).collect::<String>();
    let text = |one: &str| format!("port: 80\na:\n  one: |\n{one}  two: |\n{}end: true\n", indented(&two));
    machine.write("data.yaml", &text(&indented(&one)));
    let wrong = edit(&machine, "echo 1 >\"$1\"", &["data.yaml"]);
    assert!(
        wrong.starts_with("!! data.yaml: several values are encrypted in it; name one with --line: 4, "),
        "{wrong}"
    );
    assert_eq!(edit(&machine, "grep -qx one \"$1\" && echo 1 >\"$1\"", &["data.yaml", "--line", "5"]), "");
    let edited = read(&machine, "data.yaml");
    let rest = edited.split("  two: |").nth(1).unwrap();
    assert_eq!(rest, text("").split("  two: |").nth(1).unwrap());
    let data = holo_facts::from_yaml("data.yaml", edited.as_bytes()).unwrap();
    assert_eq!(machine.secret(&["decrypt"], data["a"]["one"].as_str().unwrap()).0, "1\n");
    machine.write("plain.toml", "a = 1\n");
    let wrong = edit(&machine, "true", &["plain.toml"]);
    assert_eq!(wrong, "!! plain.toml: it contains no encrypted values; create one with holo-secret encrypt\n");
}

fn nobody_else_can_look_at_it() {
    let machine = machine();
    let script = "stat -c %a \"$1\" \"${1%/*}\" >seen; echo \"$1\" >>seen";
    assert_eq!(edit(&machine, script, &["password.age"]), "");
    let seen = read(&machine, "seen");
    let beginning = format!("600\n700\n{}/holo-secret-", machine.path("memory"));
    assert!(seen.starts_with(&beginning) && seen.ends_with("/password\n"), "{seen}");
}

fn whoever_could_read_it_still_can() {
    let (machine, other) = (machine(), Machine::with_age());
    let public = machine.path("etc/ssh/ssh_host_ed25519_key.pub");
    let key = run(Program::new("age-keygen").args(["-y", &other.path("etc/holo/age.key")]), "");
    let both = machine.secret(&["encrypt", "-R", &public, "-r", key.trim()], "x").0;
    machine.write("both.age", &both);
    // An encrypted value does not contain its recipients' keys.
    let wrong = edit(&machine, "echo y >\"$1\"; touch ran", &["both.age"]);
    let expected = "!! both.age: it is encrypted for other keys than those that are known; name all of them with \
                    --recipient or --recipients-file\n";
    assert_eq!((wrong.as_str(), read(&machine, "both.age")), (expected, both));
    assert!(!machine.root().join("ran").exists());
    assert_eq!(edit(&machine, "echo y >\"$1\"", &["both.age", "-R", &public, "-r", key.trim()]), "");
    for reader in [&machine, &other] {
        assert_eq!(reader.secret(&["decrypt"], &read(&machine, "both.age")).0, "y");
    }
    let another = Machine::with_ssh();
    let keys = ["both.age", "-R", &another.path("etc/ssh/ssh_host_ed25519_key.pub"), "-r", key.trim()];
    assert_eq!(edit(&machine, "echo z >\"$1\"", &keys), expected);
}

/// Starts the command with an editor that does not end, and waits until that has started. Also returns the editor's
/// PID.
fn started(machine: &Machine) -> (Process, Pid) {
    let _ = fs::remove_file(machine.path("begun"));
    let script = "echo changed >\"$1\"; echo $$ >begun.new; mv begun.new begun; exec sleep 1000";
    let process = editing(machine, script, &["password.age"]).start().unwrap();
    let begun = machine.root().join("begun");
    wait_until(|| begun.exists());
    let editor = fs::read_to_string(begun).unwrap().trim().parse().ok().and_then(Pid::from_raw).unwrap();
    (process, editor)
}

#[track_caller]
fn wait_until(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn ended_by(mut process: Process, signal: Signal) {
    let id = Pid::from_raw(i32::try_from(process.id()).unwrap()).unwrap();
    kill_process(id, signal).unwrap();
    let mut end = None;
    while end.is_none() {
        let seen = &mut |event: Event<'_>| {
            if let Event::Ended(exit) = event {
                end = Some(exit.status);
            }
        };
        process.wait(None, seen).unwrap();
    }
    let signal = signal.as_raw();
    assert_eq!(end, Some(Status::Signaled { signal, core_dumped: false }));
}

fn a_signal_leaves_nothing_behind() {
    let machine = machine();
    let before = read(&machine, "password.age");
    for signal in [Signal::TERM, Signal::HUP] {
        let (process, editor) = started(&machine);
        ended_by(process, signal);
        assert_eq!((left(&machine), read(&machine, "password.age")), (0, before.clone()), "{signal:?}");
        wait_until(|| !Path::new(&format!("/proc/{}", editor.as_raw_nonzero())).exists());
    }
}

fn what_a_kill_has_left_is_removed() {
    let machine = machine();
    let (process, editor) = started(&machine);
    ended_by(process, Signal::KILL);
    kill_process(editor, Signal::KILL).unwrap();
    assert_eq!(left(&machine), 1);
    // A directory that another process uses is kept.
    let (other, editor) = started(&machine);
    assert_eq!(left(&machine), 1);
    assert_eq!(edit_beside(&machine), 1);
    ended_by(other, Signal::TERM);
    assert_eq!(left(&machine), 0);
    wait_until(|| !Path::new(&format!("/proc/{}", editor.as_raw_nonzero())).exists());
}

/// Edits while another process does, and returns the number of directories left.
fn edit_beside(machine: &Machine) -> usize {
    let output = editing(machine, "true", &["password.age"]).output().unwrap();
    assert_eq!(output.ended.failure(), None);
    left(machine)
}
