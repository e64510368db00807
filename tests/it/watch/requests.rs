//! Requests on standard input, by which the agent has a watch do its runs.

use super::{PATIENCE, Watching, root};
use crate::controls;
use holo_testing::ScratchRoot;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;

impl Watching {
    /// Sends a request, and returns the lines up to the one with this event.
    #[track_caller]
    fn ask(&mut self, request: &str, until: &str) -> Vec<Value> {
        self.process.send(format!("{request}\n").as_bytes());
        self.until(until)
    }
}

fn result(lines: &[Value]) -> String {
    let ends = lines.iter().filter(|line| line["event"] == "end");
    let results: Vec<String> = ends.map(|line| format!("{} {}", line["id"], line["result"]).replace('"', "")).collect();
    results.join(", ")
}

pub(super) fn runs() {
    let root = root().env("HOLO_HISTORY", "1");
    let mut watching = Watching::start(&root, &["--requests"]);
    let both = |motd: &str, conf: &str| format!("file:/etc/motd {motd}, file:/srv/app/conf {conf}");
    let lines = watching.ask(r#"["apply","--json","--unattended=1s"]"#, "summary");
    assert_eq!((&lines[0]["event"], &lines[0]["command"][0]), (&"begun".into(), &"apply".into()));
    assert_eq!(result(&lines), both("unchanged", "unchanged"));
    let first = lines.last().unwrap()["run"].clone();
    // It does not repair by itself, but when it is asked to, and knows then that all is well.
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    watching.expect("drifted", "file:/srv/app/conf");
    let lines = watching.ask(r#"["check","--json"]"#, "summary");
    assert_eq!((result(&lines), &lines.last().unwrap()["exit_code"]), (both("unchanged", "pending"), &3.into()));
    let lines = watching.ask(r#"["apply","--json","file:/srv/app/conf"]"#, "summary");
    let summary = lines.last().unwrap();
    assert_eq!((result(&lines), &summary["exit_code"]), ("file:/srv/app/conf changed".to_owned(), &0.into()));
    assert_eq!((&summary["tally"]["changed"], &summary["tally"]["unchanged"]), (&1.into(), &0.into()));
    assert_ne!(summary["run"], first);
    watching.expect_silence();
    // Definitions that have changed are those of the run.
    root.write("usr/share/holo/files/app.toml", super::APP.replace("80", "82"));
    watching.ask(r#"["apply","--json"]"#, "summary");
    assert_eq!(root.read("srv/app/conf"), "port 82\n");
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    watching.until("drifted");
    // History names each run as what it was.
    let history = root.holo(&["history"]).stdout.to_string();
    assert!(history.contains("holo apply --json file:/srv/app/conf\n"), "{history}");
    watching.stop(&root);
}

/// Returns the lines that only requests lead to.
pub(super) fn lines() -> Vec<Value> {
    let root = root();
    let mut watching = Watching::start(&root, &["--requests"]);
    let mut lines = watching.ask(r#"["ping"]"#, "alive");
    lines.extend(watching.ask(r#"["check","--json"]"#, "summary"));
    root.write("usr/share/holo/generators/bad", "#!/nowhere\n");
    fs::set_permissions(root.join("usr/share/holo/generators/bad"), PermissionsExt::from_mode(0o755)).unwrap();
    lines.extend(watching.until("blind"));
    watching.stop(&root);
    lines
}

pub(super) fn nonsense() {
    let root = root();
    let mut watching = Watching::start(&root, &["--apply", "--requests"]);
    let lines = watching.ask("apply", "warning");
    assert!(lines[0]["text"].as_str().unwrap().starts_with("standard input has a line that is no request: "));
    for request in [r#"["status"]"#, "[]", r#"["apply","--help"]"#] {
        let lines = watching.ask(request, "summary");
        let last = lines.last().unwrap();
        assert_eq!((&lines[1]["event"], &last["exit_code"]), (&"error".into(), &2.into()), "{lines:#?}");
    }
    for unknown in ["file:/nowhere", "--jsonn"] {
        let lines = watching.ask(&format!("[\"apply\",\"{unknown}\"]"), "summary");
        assert_eq!(lines.last().unwrap()["exit_code"], 255, "{lines:#?}");
    }
    // The end of the requests is not the end of the watch.
    watching.process.close_input();
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    watching.until("repaired");
    watching.stop(&root);
}

/// Returns a root with an entity whose apply takes as long as there is a file.
fn slow() -> ScratchRoot {
    let root = controls::root("ENTITY: x:a\n");
    let slow = controls::PLUGIN.replace("apply)", "apply)\nwhile [ -e \"$HOLO_ROOT_DIR/slow\" ]; do sleep 0.1; done;");
    root.script("usr/lib/holo/holo-x", slow).file("state/a", "").file("slow", "")
}

pub(super) fn alive() {
    let root = slow();
    let mut watching = Watching::start(&root, &["--requests"]);
    assert_eq!(watching.ask(r#"["ping"]"#, "alive").len(), 1);
    watching.ask(r#"["apply","--json"]"#, "begin");
    // Without being asked: it reads nothing meanwhile.
    watching.until("alive");
    fs::remove_file(root.join("slow")).unwrap();
    watching.until("summary");
    watching.stop(&root);
}

pub(super) fn ended() {
    let root = slow();
    let mut watching = Watching::start(&root, &["--requests"]);
    watching.ask(r#"["apply","--json"]"#, "begin");
    kill_process(Pid::from_raw(watching.process.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    let lines = watching.until("summary");
    assert_eq!(lines.last().unwrap()["exit_code"], 143);
    assert_eq!(watching.until("summary").last().unwrap()["exit_code"], 143);
    assert_eq!((watching.next(PATIENCE), watching.end()), (None, Some(143)));
}
