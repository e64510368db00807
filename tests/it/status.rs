//! `holo status`: what the last check or apply found.

use holo_state::{Database, Durability, Refresh};
use holo_testing::{ScratchRoot, binaries::built};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::{fs, thread};

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        a_new_machine_is_told_the_first_step,
        states_follow_checks_and_applies,
        runs_of_some_entities_update_what_is_known,
        nothing_is_run_unless_something_is_unknown,
        everything_is_told_as_json,
        a_person_who_gives_no_command_sees_it,
    ]
}

/// Two overlays, and a file that requires one of them.
fn root() -> ScratchRoot {
    ScratchRoot::new()
        .env("HOLO_HISTORY", "1")
        .file("etc/holorc", plugin("files"))
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/motd", "stock\n")
        .file("etc/issue", "stock\n")
        .resource("files/a/etc/motd", "ours\n")
        .resource("files/a/etc/issue", "ours\n")
        .resource("files/x.toml", REQUIRING)
}

const REQUIRING: &str = "[[file]]\npath = \"/etc/hosts\"\ncontent = \"ours\"\nrequires = [\"file:/etc/motd\"]\n";

const DATABASE: &str = "var/lib/holo/state.db";

fn plugin(id: &str) -> String {
    format!("plugin {id}={}\n", built(&format!("holo-{id}")).display())
}

#[track_caller]
fn status(root: &ScratchRoot, exit: i32) -> String {
    let run = root.holo(&["status"]);
    assert!(run.status == Some(exit) && run.stderr.is_empty(), "{run}");
    run.stdout_lossy().into_owned()
}

#[track_caller]
fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.contains(line), "{line:?} should be in:\n{text}");
    }
}

fn a_new_machine_is_told_the_first_step() {
    let root = ScratchRoot::new().file("etc/os-release", "ID=unittest\n").dir("usr/share/holo/files");
    let text = status(&root, 0);
    has(&text, &["Nothing is configured", "next:\n  mkdir -p ", "echo plugin files >"]);
    root.write("etc/holorc", "");
    has(&status(&root, 0), &["/etc/holorc.d/50-files"]);
    root.write("etc/holorc", plugin("files"));
    has(&status(&root, 0), &["Nothing is managed yet: there are no definitions.\n", "  holo adopt FILE "]);
    assert!(!root.exists(DATABASE));
}

fn states_follow_checks_and_applies() {
    let root = root();
    // Without an earlier run, it looks. A check that nothing was ever applied after is not recorded.
    let text = status(&root, 3);
    has(&text, &["3 of 3 entities are not in the desired state.\n(`holo check` of ", "\nto be changed: 3 (files 3)\n"]);
    has(
        &text,
        &["  file:/etc/motd: would ", "\nnext:\n  holo check --diff  see what would be changed\n  holo apply         "],
    );
    assert!(!root.exists(DATABASE));
    assert!(root.holo(&["apply"]).success());
    let text = status(&root, 0);
    has(&text, &["All 3 entities are in their desired state.\n(`holo apply` of ", "\nlast run: ", ", 3 changed ("]);
    assert!(!text.contains("next:"), "{text}");

    root.write("etc/motd", "edited\n");
    root.write("etc/issue", "edited\n");
    has(&status(&root, 0), &["All 3 entities"]);
    assert_eq!(root.holo(&["check"]).status, Some(3));
    let text = status(&root, 3);
    has(&text, &["3 of 3 entities are not", "\nchanged by hand: 2 (files 2)\n  file:/etc/issue: modified by user\n"]);
    has(
        &text,
        &[
            "\nwaiting for others: 1 (files 1)\n  file:/etc/hosts: requires file:/etc/motd",
            "  holo adopt file:/etc/issue ",
        ],
    );
    has(&status(&root, 3), &["  holo apply --force file:/etc/issue  discard the change\n"]);

    // An invalid definition, and definitions that have changed since.
    assert!(root.holo(&["apply", "--force"]).success());
    root.write("usr/share/holo/files/y.toml", "[[file]]\npath = 1\n");
    has(
        &status(&root, 0),
        &["; definitions have changed since then)\n", "\nnext:\n  holo status --fresh  look again\n"],
    );
    let run = root.holo(&["status", "--fresh"]);
    assert_eq!(run.status, Some(1), "{run}");
    has(&run.stdout_lossy(), &["Some definitions are invalid"]);
    assert!(run.stderr_lossy().contains("y.toml"), "{run}");
    fs::remove_file(root.join("usr/share/holo/files/y.toml")).unwrap();
    assert_eq!(root.holo(&["status", "--fresh"]).status, Some(0));
}

fn runs_of_some_entities_update_what_is_known() {
    let root = root();
    assert!(root.holo(&["apply"]).success());
    for file in ["etc/motd", "etc/issue"] {
        root.write(file, "edited\n");
    }
    assert_eq!(root.holo(&["check"]).status, Some(3));
    assert!(root.holo(&["apply", "--force", "file:/etc/issue"]).success());
    let text = status(&root, 3);
    has(&text, &["2 of 3 entities are not", "(`holo check` of ", "changed by hand: 1 (files 1)\n  file:/etc/motd"]);
    assert!(root.holo(&["check", "file:/etc/issue"]).success());
    assert!(root.holo(&["apply", "--force", "file:/etc/hosts", "file:/etc/motd"]).success());
    has(&status(&root, 0), &["All 3 entities"]);
    // The entity that is worked on becomes known, too.
    root.write("etc/issue", "edited\n");
    assert_eq!(root.holo(&["apply", "file:/etc/issue"]).status, Some(1));
    has(&status(&root, 3), &["1 of 3 entities is not in the desired state.\n"]);
    // What is gone is not known any more.
    for path in ["usr/share/holo/files/a", "usr/share/holo/files/x.toml"] {
        let path = root.join(path);
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
    assert!(root.holo(&["apply", "--force"]).success());
    assert!(root.holo(&["apply"]).success());
    has(&status(&root, 0), &["Nothing is managed yet"]);
}

fn nothing_is_run_unless_something_is_unknown() {
    let root = root();
    assert!(root.holo(&["apply"]).success());
    let dump = root.dump();
    // A plugin that cannot be run shows that none is.
    root.write("etc/holorc", "plugin files=/no/such\n");
    has(&status(&root, 0), &["All 3 entities"]);
    root.write("etc/holorc", plugin("files"));
    assert_eq!(root.dump(), dump, "it should change nothing");
}

fn database(root: &ScratchRoot) -> Database {
    Database::new(root.join(DATABASE))
}

/// Returns the lines of a machine about which everything is known.
pub(crate) fn all_lines() -> Vec<Value> {
    let root = root();
    assert!(root.holo(&["apply"]).success());
    root.write("usr/share/holo/files/x.toml", REQUIRING.replace("ours", "newer"));
    let outdated = root.holo(&["status", "--json"]);
    assert!(root.holo(&["apply"]).success());
    let run = root.holo(&["rollback", "1"]);
    assert!(run.success(), "{run}");
    let state = database(&root);
    let mut standing: Value = serde_json::from_str(&state.standing().unwrap().unwrap()).unwrap();
    assert_eq!((&standing["off"], &standing["command"]), (&json!([]), &json!("apply")));
    let off = json!({"id": "exec:x", "plugin": "exec", "state": "failed", "about": "exit status 1"});
    standing["off"] = json!([off]);
    standing["more"] = json!(7);
    standing["is_flawed"] = json!(true);
    standing["time"] = json!("2026-11-22T09:14:03Z");
    state.write_standing(Some(&standing.to_string())).unwrap();
    let refresh = Refresh {
        source: "file:/etc/motd".into(),
        target: "exec:x".into(),
        plugin: "exec".to_owned(),
        is_due: true,
        since: None,
        sent: Vec::new(),
    };
    state.write_refreshes(&[refresh], [], Durability::Process).unwrap();
    fs::create_dir_all(root.join("run/holo-agent")).unwrap();
    let socket = UnixListener::bind(root.join("run/holo-agent/control.sock")).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = socket.accept().unwrap().0;
            let mut request = [0; 21];
            client.read_exact(&mut request).unwrap();
            assert_eq!(&request, b"{\"request\":\"status\"}\n");
            let pause = r#"{"since":"2026-11-22T09:14:03Z","by":"alice","reason":"new disks"}"#;
            write!(client, "{{\"doing\":{{\"state\":\"waiting\"}},\"paused\":{pause}}}").unwrap();
        });
        let run = root.holo(&["status", "--json"]);
        assert_eq!(run.status, Some(1), "{run}");
        let lines = [outdated.stdout, run.stdout].concat();
        lines.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    })
}

fn everything_is_told_as_json() {
    let lines = all_lines();
    let [outdated, _, status, summary] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(outdated["outdated"], json!(true));
    assert_eq!((&status["event"], &summary["event"]), (&json!("status"), &json!("summary")));
    assert_eq!((&status["entities"], &status["more"], &status["pinned"]), (&json!(3), &json!(7), &json!(1)));
    assert_eq!((&status["refreshes_due"], &status["agent"]), (&json!(["exec:x"]), &json!("waiting")));
    assert_eq!(status["agent_paused"]["reason"], json!("new disks"));
    let next: Vec<&str> =
        status["next"].as_array().unwrap().iter().map(|next| next["command"].as_str().unwrap()).collect();
    assert_eq!(next, ["holo-agent resume", "holo apply", "holo why exec:x", "holo apply exec:x"]);
}

fn a_person_who_gives_no_command_sees_it() {
    let root = root();
    assert!(root.holo(&["apply"]).success());
    let on_terminal = root.run("script", &["-qec", built("holo").to_str().unwrap(), "/dev/null"]);
    let shown = on_terminal.stdout_lossy();
    has(&shown, &["All 3 entities are in their desired state.\r\n", "Usage: holo <COMMAND>\r\n", "Every day:"]);
    let in_pipe = root.run(built("holo"), &[""; 0]);
    assert!(in_pipe.stdout.is_empty() && in_pipe.stderr_lossy().starts_with("Usage: holo <COMMAND>\n"), "{in_pipe}");
    // Without a state database, nothing is run.
    let root = ScratchRoot::new().file("etc/holorc", "plugin x=/no/such\n");
    let on_terminal = root.run("script", &["-qec", built("holo").to_str().unwrap(), "/dev/null"]);
    assert!(on_terminal.stdout_lossy().starts_with("Usage: "), "{on_terminal}");
}
