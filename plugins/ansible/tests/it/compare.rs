//! Tasks that `ansible-playbook` and `holo` apply to copies of the same files: both must change the same tasks, in a
//! check, an apply and a second apply, and leave the same files behind.
//!
//! `cases.toml` has the tasks. Every test run includes those marked `ci`; `HOLO_TEST_ANSIBLE=all` includes all.

use crate::ansible::{COLLECTIONS, Root, VERSIONS, Version, collections, host, with_newest};
use holo_testing::{Need, ScratchRoot};
use libtest_mimic::Trial;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::Duration;

/// If this variable is `all`, all cases are run.
const WHICH: &str = "HOLO_TEST_ANSIBLE";
const CASES: &str = include_str!("cases.toml");
/// The timeout for a playbook with all cases.
const LIMIT: Duration = Duration::from_secs(900);
const TASKS: &str = "usr/share/holo/ansible";

/// What modules import.
const LIBRARIES: Need = Need::Trial("lxml and passlib for each Python", || {
    let script = ["-c", "import lxml, passlib"];
    let imports = |version: Version| ScratchRoot::new().run(version.python(), &script).success();
    VERSIONS.into_iter().filter(|version| version.need.is_met()).all(imports)
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    case: Vec<Case>,
}

/// A task and the files that it works on.
#[derive(Clone, Deserialize)]
struct Case {
    module: String,
    args: Map<String, Value>,
    #[serde(default)]
    before: BTreeMap<String, String>,
    #[serde(default)]
    random: Vec<String>,
    #[serde(default)]
    ci: bool,
    /// Whether the task fails. Otherwise it must succeed.
    #[serde(default)]
    fails: bool,
    /// Other keys of the task, which have the same names in a playbook.
    #[serde(flatten)]
    keys: Map<String, Value>,
}

/// The sources of the tasks: path, content, mode.
const SOURCES: [(&str, &str, u32); 15] = [
    ("files/motd", "hello\n", 0o640),
    ("files/tree/a", "a\n", 0o600),
    ("files/tree/deep/er/b", "b\n", 0o755),
    ("files/tree/link", "-> a", 0),
    ("files/run.sh", "#!/bin/sh\necho \"$2\" >\"$1\"\n", 0o644),
    ("files/x.patch", "--- x\n+++ x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", 0o644),
    ("files/archive/top/a", "a\n", 0o644),
    (
        "templates/a.conf.j2",
        "# {{ ansible_managed }}\n{% for n in names %}\n{{ n }}={{ on }}\n{% endfor %}\n{{ names }} {{ port + 1 }}\n",
        0o644,
    ),
    (
        "templates/filters.j2",
        "{{ names | to_json }} {{ 'a' | b64encode }} {{ names | join('-') | upper }} {{ on | ternary('y', 'n') }} {{ ('/a/b' | basename) }}\n{{ nothing | default('none') }} {{ 'abc' is match('a') }} {{ '1.10' is version('1.9', '>') }}\n",
        0o644,
    ),
    ("templates/blocks.j2", "a\n  {% if on %}\n  b\n  {% endif %}\nc", 0o644),
    (
        "templates/below/imports.j2",
        "{% import 'templates/below/macros.j2' as m %}{% include 'blocks.j2' %}{{ m.x() }}\n",
        0o644,
    ),
    ("templates/below/macros.j2", "{% macro x() %}X{% endmacro %}", 0o644),
    ("templates/newline.j2", "{{ text }}\n", 0o644),
    ("templates/undefined.j2", "{{ nothing }}\n", 0o644),
    ("templates/include.j2", "{% include 'blocks.j2' %}\n{% set x = namespace(n=1) %}{{ x.n }}\n", 0o644),
];

/// The variables of templates.
const DATA: &str = "names = [\"a\", \"b\"]\non = true\nport = 80\n";

pub(crate) fn trials() -> Vec<Trial> {
    let all = is_all();
    let name = if all { "all tasks" } else { "common tasks" };
    let needs = [COLLECTIONS, Need::Root, Need::Program("openssl"), Need::Program("getfattr")];
    let needs = [&needs[..], if all { &[LIBRARIES] } else { &[] }].concat();
    with_newest(&format!("{name} have the same effect as with ansible-playbook"), &needs, compare)
}

fn is_all() -> bool {
    std::env::var(WHICH).is_ok_and(|which| which == "all")
}

/// The result of each task.
type Results = BTreeMap<String, &'static str>;

fn compare(version: Version) {
    let all = is_all();
    let cases: Vec<Case> = toml::from_str::<Cases>(CASES).unwrap().case;
    let cases: Vec<(String, Case)> = cases
        .into_iter()
        .enumerate()
        .filter(|(_, case)| all || case.ci)
        .map(|(number, case)| (format!("c{number}"), case))
        .collect();
    let mut root = Root::new(version, "");
    root.0 = root.0.time_limit(LIMIT);
    root.0.write("etc/holo/data/common.toml", DATA);
    // The directories of the machine are below the root too.
    let more = "respects_root = true\ncollections = ['/collections']\n";
    root.0.write(format!("{TASKS}/00-host.toml"), host(&version.python(), more));
    let from = format!("{}/.", collections().display());
    assert!(root.0.run("cp", &["-r", &from, &root.here("ROOT/collections")]).success());
    let play = root.0.join("play");
    write_sources(&play);
    write_sources(&root.0.join(TASKS));
    let key = play.join("files/key.pem").display().to_string();
    assert!(root.0.run("openssl", &["genpkey", "-algorithm", "RSA", "-quiet", "-out", &key]).success());
    let tar = ["-czf", "play/files/a.tar.gz", "-C", "play/files/archive", "top"];
    let tar = root.here(&format!("cd ROOT; tar {}; cp play/files/a.tar.gz {TASKS}/files", tar.join(" ")));
    assert!(root.0.run("sh", &["-c", &tar]).success());
    define(&root, &cases);
    let mut differences = String::new();
    for phase in ["check", "apply", "again"] {
        let theirs = playbook(&root, version, phase == "check");
        let ours = holo(&root, phase == "check");
        for (name, case) in &cases {
            let (theirs, ours) =
                (theirs.get(name).copied().unwrap_or("absent"), ours.get(name).copied().unwrap_or("failed"));
            let (state, own_state) = (state(&root, "theirs", name, case), state(&root, "ours", name, case));
            // A refused definition has no result. Ansible does not say what it would do if it skips a task in check mode.
            // Otherwise it skips what exists already.
            let is_same = theirs == ours || (theirs == "skipped" && (phase == "check" || ours == "unchanged"));
            let is_expected =
                if phase == "apply" { case.fails == (theirs == "failed") } else { case.fails || theirs != "failed" };
            if !is_same || !is_expected || state != own_state {
                let args = Value::Object(case.args.clone());
                let _ = write!(differences, "{phase} {name} {} {args}: {theirs}, here {ours}", case.module);
                let _ = if state == own_state {
                    writeln!(differences)
                } else {
                    writeln!(differences, "\n{state:#?}\nhere {own_state:#?}")
                };
            }
        }
        let (attributes, own_attributes) = (attributes(&root, "theirs"), attributes(&root, "ours"));
        if attributes != own_attributes {
            let _ = writeln!(differences, "{phase}: {attributes}\nhere {own_attributes}");
        }
    }
    assert!(differences.is_empty(), "{differences}\n{}", root.0.path().display());
}

/// Returns the ACLs and other attributes of all files.
fn attributes(root: &Root, side: &str) -> String {
    let script = format!("cd ROOT/{side}; getfattr -R -P -h -d -e hex -m '^user[.]|^system[.]posix_acl' .");
    let run = root.0.run("sh", &["-c", &root.here(&script)]);
    assert!(run.success(), "{run}");
    run.stdout_lossy().to_string()
}

fn write_sources(folder: &Path) {
    for (path, content, mode) in SOURCES {
        write(&folder.join(path), content);
        if mode != 0 {
            fs::set_permissions(folder.join(path), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        }
    }
}

/// Writes a file or, if the content is `-> TARGET`, a symlink.
fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match content.strip_prefix("-> ") {
        Some(target) => {
            let _ = fs::remove_file(path);
            symlink(target, path).unwrap();
        }
        None => fs::write(path, content).unwrap(),
    }
}

/// Writes the files, the definitions and the playbook.
fn define(root: &Root, cases: &[(String, Case)]) {
    let mut tasks = Vec::new();
    let mut definitions = Vec::new();
    for (name, case) in cases {
        for side in ["theirs", "ours"] {
            let folder = root.0.join(format!("{side}/{name}"));
            fs::create_dir_all(&folder).unwrap();
            case.before.iter().for_each(|(path, content)| write(&folder.join(path), content));
        }
        let below = |side: &str, value: &Value| {
            let here = root.here(&format!("ROOT/{side}/{name}/"));
            let files = root.here("ROOT/play/files/");
            let text = value.to_string().replace("HERE/", &here).replace("FILES/", &files);
            serde_json::from_str::<Value>(&text).unwrap()
        };
        let args = Value::Object(case.args.clone());
        let mut task = json!({"name": name, "ignore_errors": true, (&case.module): below("theirs", &args)});
        let mut definition = json!({"name": name, "module": case.module, "args": below("ours", &args)});
        for (name, value) in &case.keys {
            task.as_object_mut().unwrap().insert(name.clone(), below("theirs", value));
            definition.as_object_mut().unwrap().insert(name.clone(), below("ours", value));
        }
        tasks.push(task);
        definitions.push(definition);
    }
    let data: Value = serde_json::to_value(toml::from_str::<toml::Table>(DATA).unwrap()).unwrap();
    let play = json!([{"hosts": "localhost", "gather_facts": false, "vars": data, "tasks": tasks}]);
    root.0.write("play/play.yml", play.to_string());
    let definitions = toml::to_string(&json!({"task": definitions})).unwrap();
    root.0.write(format!("{TASKS}/10-case.toml"), definitions);
}

fn playbook(root: &Root, version: Version, check: bool) -> Results {
    let python = version.python();
    let program = match python.parent().map(|folder| folder.join("ansible-playbook")) {
        Some(program) if program.exists() => program.display().to_string(),
        _ => "ansible-playbook".to_owned(),
    };
    let script = format!(
        "cd ROOT/play; export LC_ALL=C.UTF-8 HOME=ROOT/home ANSIBLE_HOME=ROOT/home ANSIBLE_REMOTE_TMP=ROOT/home/tmp ANSIBLE_LOCALHOST_WARNING=0 \
         ANSIBLE_COLLECTIONS_PATH={} ANSIBLE_NOCOLOR=1 ANSIBLE_DEVEL_WARNING=0 ANSIBLE_BECOME_ALLOW_SAME_USER=1; \
         {program} -i localhost, -c local -e ansible_python_interpreter={} {} play.yml",
        collections().display(),
        python.display(),
        if check { "--check" } else { "" },
    );
    let run = root.0.run("sh", &["-c", &root.here(&script)]);
    let mut results = Results::new();
    let mut task = String::new();
    for line in run.stdout_lossy().lines() {
        if let Some(name) = line.strip_prefix("TASK [") {
            task = name.split(']').next().unwrap_or_default().to_owned();
        }
        let words = ["ok", "changed", "skipping", "fatal"].into_iter();
        let result = words.zip(["unchanged", "changed", "skipped", "failed"]);
        let mut result = result.filter(|(word, _)| line.strip_prefix(word).is_some_and(|rest| rest.starts_with(": [")));
        if let Some((_, result)) = result.next() {
            results.insert(task.clone(), result);
        }
    }
    assert!(!results.is_empty(), "{run}");
    results
}

fn holo(root: &Root, check: bool) -> Results {
    let run = root.0.holo(&[if check { "check" } else { "apply" }, "--json"]);
    let said = run.stdout_lossy().to_string();
    let end = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let result = match line.get("result")?.as_str()? {
            "changed" | "pending" => "changed",
            "unchanged" => "unchanged",
            "failed" => "failed",
            _ => "other",
        };
        (line.get("event")? == "end").then(|| Some((line.get("id")?.as_str()?.replace("ansible:", ""), result)))?
    };
    said.lines().filter_map(end).collect()
}

/// Returns the files of a case with their types, modes, owners and contents.
fn state(root: &Root, side: &str, name: &str, case: &Case) -> BTreeMap<String, String> {
    let top = root.0.join(format!("{side}/{name}"));
    let here = top.display().to_string();
    let mut found = BTreeMap::new();
    let mut folders = BTreeSet::from([top.clone()]);
    while let Some(folder) = folders.pop_first() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let below = path.strip_prefix(&top).unwrap().display().to_string();
            let content = match () {
                () if metadata.is_symlink() => fs::read_link(&path).unwrap().display().to_string(),
                () if metadata.is_dir() => String::new(),
                () if case.random.contains(&below) => "random".to_owned(),
                () => String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned(),
            };
            let content = content.replace(&here, "HERE");
            found.insert(below, format!("{:o} {} {} {content}", metadata.mode(), metadata.uid(), metadata.gid()));
            if metadata.is_dir() {
                folders.insert(path);
            }
        }
    }
    found
}
