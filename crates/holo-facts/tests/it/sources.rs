//! Fact sources that succeed, print invalid output, fail or hang, with real files and programs below a root.

use holo_facts::{Facts, key};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        sources_are_laid_over_each_other_in_the_order_of_their_names,
        a_failing_source_is_named_and_the_others_count,
        a_hanging_source_is_ended_and_delays_nothing,
        a_flood_is_stopped,
        odd_files_are_named,
        facts_of_a_run_are_gathered_once_and_warned_of_once,
    ]
}

/// A program cannot be executed while its file is open for writing, even in a child process that another test is just
/// starting.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Root {
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Root {
    fn new() -> Root {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("etc/holo/facts.d")).unwrap();
        Root { folder, _alone: alone }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn with(self, name: &str, mode: u32, content: &str) -> Root {
        let path = self.path().join("etc/holo/facts.d").join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    fn file(self, name: &str, content: &str) -> Root {
        self.with(name, 0o644, content)
    }

    fn program(self, name: &str, script: &str) -> Root {
        self.with(name, 0o755, &format!("#!/bin/sh\n{script}\n"))
    }

    /// Returns the facts, and the warnings without the part before the sources' names.
    fn gather(&self) -> (Value, Vec<String>) {
        let (facts, warnings) = Facts::gather(self.path(), self.path());
        let before = format!("no facts from {}/etc/holo/facts.d", self.path().display());
        let warnings = warnings.iter().map(|warning| {
            let text = warning.to_string();
            text.strip_prefix(&before).unwrap_or_else(|| panic!("{text}")).trim_start_matches('/').to_owned()
        });
        (facts.value().clone(), warnings.collect())
    }
}

fn find<'a>(facts: &'a Value, name: &str) -> &'a Value {
    key::find(facts, name).unwrap().unwrap_or(&Value::Null)
}

fn sources_are_laid_over_each_other_in_the_order_of_their_names() {
    let root = Root::new()
        .file(
            "10-site.toml",
            "[site]\nname = 'north'\nroles = ['web', 'db']\nsince = 2026-01-02\n[os]\ncodename = 'own'\n",
        )
        .file("20-site.json", r#"{"site": {"name": "south"}}"#)
        .program("30-site", r#"echo '{"site": {"rack": 7, "roles": ["mail"]}}'"#)
        .file("40-site.toml", "site.rack = 8\n")
        .file("README", "= no source")
        .file(".hidden.toml", "= no source")
        .program(".hidden", "exit 1");
    let (facts, warnings) = root.gather();
    assert_eq!(warnings, [""; 0]);
    let expected = json!({"name": "south", "roles": ["mail"], "since": "2026-01-02", "rack": 8});
    assert_eq!(find(&facts, "site"), &expected);
    assert_eq!((find(&facts, "os.codename"), find(&facts, "os.id")), (&json!("own"), &json!("linux")));
}

fn a_failing_source_is_named_and_the_others_count() {
    let root = Root::new()
        .file("1.toml", "a = 1\nb = \n")
        .file("2.json", "{\n\"a\": 1,\n}")
        .file("3.json", "[1]")
        .program("4", "echo first >&2; echo why >&2; echo '{\"a\": 1}'; exit 3")
        .program("5", "kill -KILL $$")
        .program("6", "echo; echo '{'")
        .program("7", "exit 0")
        .with("8", 0o755, "#!/no/such/interpreter\n")
        .file("9.toml", "good = true\n");
    let (facts, warnings) = root.gather();
    assert_eq!(find(&facts, "good"), &json!(true));
    assert_eq!(find(&facts, "a"), &Value::Null);
    let expected = [
        "1.toml:2: ",
        "2.json:3: ",
        "3.json: this is not an object",
        "4: exit status 3: why",
        "5: signal: killed",
        "6: its output is not a table of JSON: ",
        "7: its output is not a table of JSON: ",
        "8: ",
    ];
    assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
    for (warning, beginning) in warnings.iter().zip(expected) {
        assert!(warning.starts_with(beginning), "{warning}");
    }
}

fn a_hanging_source_is_ended_and_delays_nothing() {
    let root = Root::new()
        .program("1-hangs", "echo '{\"a\": 1}'; sleep 600")
        .program("2-hangs-on", "trap '' TERM; sleep 600 & wait; sleep 600")
        .program("3-leaves-a-child", "echo '{\"b\": 2}'; sleep 600 &")
        .program("4-is-well", "echo '{\"c\": 3}'");
    let (facts, warnings) = root.gather();
    assert_eq!(warnings, ["1-hangs: timed out after 1.5s", "2-hangs-on: timed out after 1.5s"]);
    assert_eq!((find(&facts, "a"), find(&facts, "b"), find(&facts, "c")), (&Value::Null, &json!(2), &json!(3)));
}

fn a_flood_is_stopped() {
    let root = Root::new().program("flood", "exec yes");
    let (_, warnings) = root.gather();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("flood: ") && warnings[0].contains("printed more than"), "{warnings:?}");
}

fn odd_files_are_named() {
    let root = Root::new();
    let folder = root.path().join("etc/holo/facts.d");
    fs::create_dir(folder.join("1.toml")).unwrap();
    fs::create_dir(folder.join("2")).unwrap();
    symlink("nowhere", folder.join("3.toml")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("4.json"), 0o644.into()).unwrap();
    fs::write(root.path().join("elsewhere"), "good = true\n").unwrap();
    symlink("/elsewhere", folder.join("5.toml")).unwrap();
    let (facts, warnings) = root.gather();
    let expected = [
        "1.toml: this is not a regular file",
        "3.toml: no such file or directory",
        "4.json: this is not a regular file",
    ];
    assert_eq!(warnings, expected);
    assert_eq!(find(&facts, "good"), &json!(true));
}

fn facts_of_a_run_are_gathered_once_and_warned_of_once() {
    let root = Root::new().program("count", "echo >>\"$(dirname \"$0\")/../runs\"; echo '{\"a\": 1}'; exit 1");
    let file = root.path().join("facts.json");
    let (first, warnings) = Facts::of_run(root.path(), root.path(), &file);
    assert_eq!(warnings.len(), 1);
    for _ in 0..3 {
        assert_eq!(Facts::of_run(root.path(), root.path(), &file), (first.clone(), Vec::new()));
    }
    assert_eq!(fs::read_to_string(root.path().join("etc/holo/runs")).unwrap(), "\n");
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
}
