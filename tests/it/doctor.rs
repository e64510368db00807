//! `holo doctor`: each check finds its problem, and there are no findings on a healthy machine.

use holo_testing::{Run, ScratchRoot, binaries::built};
use libtest_mimic::Trial;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

pub(crate) fn trials() -> Vec<Trial> {
    let cases = CASES.iter().map(|case| {
        let test = move || {
            find(case);
            Ok(())
        };
        Trial::test(format!("finds/{}", case.name), test)
    });
    let mut trials: Vec<Trial> = cases.collect();
    trials.extend(holo_testing::trials![
        healthy_machine_has_no_findings,
        doctor_changes_no_files,
        diagnoses_of_plugins_are_shown,
        findings_are_json_lines,
        held_lock_is_not_a_finding
    ]);
    trials
}

const DEMO: &str = r#"#!/bin/sh
fails() { grep -qsx "$1" "$HOLO_ROOT_DIR/fails"; }
! fails "$1" || exit 4
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\nDOCTOR=1\n' ;;
scan)
    cat "$HOLO_ROOT_DIR/says" >&2 2>/dev/null
    for file in "$HOLO_RESOURCE_DIR"/*; do
        printf 'ENTITY: demo:%s\nSOURCE: %s\n' "${file##*/}" "$file"
        sed -n 's/^# //p' "$file"
    done ;;
doctor) cat "$HOLO_ROOT_DIR/diagnoses" >&3 2>/dev/null ;;
esac
"#;

/// Returns a healthy machine.
fn well() -> ScratchRoot {
    ScratchRoot::new()
        .binary(built("holo"))
        .holorc("plugin demo\n")
        .script("usr/lib/holo/holo-demo", DEMO)
        .resource("demo/a", "x\n")
        .file("says", "")
        .file("diagnoses", "")
        .dir("run")
        .dir("var/lib/holo/demo")
}

fn doctor(root: &ScratchRoot) -> Run {
    root.holo(&["doctor"])
}

/// A problem, and the line that reports it.
struct Case {
    name: &'static str,
    spoil: fn(&ScratchRoot),
    /// The beginning of the line, with single blanks.
    finding: &'static str,
    /// A part of the remedy.
    remedy: &'static str,
}

const fn case(name: &'static str, spoil: fn(&ScratchRoot), finding: &'static str, remedy: &'static str) -> Case {
    Case { name, spoil, finding, remedy }
}

const CASES: &[Case] = &[
    case(
        "an invalid line",
        |root| root.write("etc/holorc", "plugn demo\n"),
        "error configuration cannot parse configuration: unknown command: plugn demo",
        "`plugin ID`",
    ),
    case(
        "a plugin that is configured twice",
        |root| root.write("etc/holorc", "plugin demo\nplugin demo\n"),
        "error configuration cannot parse configuration: plugin demo is configured twice",
        "remove one of the two lines",
    ),
    case(
        "no configuration",
        |root| fs::remove_file(root.join("etc/holorc")).unwrap(),
        "error configuration cannot parse configuration: open ",
        "a readable file",
    ),
    case(
        "invalid limits",
        |root| {
            fs::create_dir_all(root.join("etc/holo")).unwrap();
            root.write("etc/holo/engine.toml", "[runs]\ndays = \"many\"\n");
        },
        "warning configuration ",
        "the defaults apply",
    ),
    case(
        "no plugins",
        |root| root.write("etc/holorc", "# plugin demo\n"),
        "warning configuration no plugin is configured",
        "lines `plugin ID`",
    ),
    case(
        "a snippet that is a leftover",
        |root| {
            fs::create_dir(root.join("etc/holorc.d")).unwrap();
            root.write("etc/holorc.d/10-x.rpmsave", "plugin x\n");
        },
        "warning configuration Skipping ",
        "remove it",
    ),
    case(
        "a plugin that is missing",
        |root| root.write("etc/holorc", "plugin demo\nplugin nothing\n"),
        "error plugins ",
        "install its package",
    ),
    case(
        "a plugin that does not answer",
        |root| root.write("fails", "info\n"),
        "error plugins info with plugin demo failed: exit status 4",
        "holo plugin check",
    ),
    case(
        "a plugin that cannot list its entities",
        |root| root.write("fails", "scan\n"),
        "error plugins scan with plugin demo failed: exit status 4",
        "holo plugin check",
    ),
    case(
        "a plugin whose diagnosis fails",
        |root| root.write("fails", "doctor\n"),
        "error demo the plugin's diagnosis failed: exit status 4",
        "holo plugin check",
    ),
    case(
        "a plugin older than the interface",
        |root| root.write_script("usr/lib/holo/holo-demo", DEMO.replace("MAX_API_VERSION=4", "MAX_API_VERSION=3")),
        "warning plugins demo speaks version 3 of the interface",
        "install a newer version",
    ),
    case(
        "a plugin without resource files",
        |root| fs::remove_dir_all(root.join("usr/share/holo/demo")).unwrap(),
        "error plugins cannot open ",
        "create the directory",
    ),
    case(
        "a cycle",
        |root| {
            root.write("usr/share/holo/demo/a", "# AFTER: demo:b\n");
            root.write("usr/share/holo/demo/b", "# AFTER: demo:a\n");
        },
        "error plugins cycle, each waiting for the next: ",
        "remove one of these edges",
    ),
    case(
        "a broken definition",
        |root| root.write("says", "!! a.toml, line 3: colour: unknown key\n"),
        "error definitions a.toml, line 3: colour: unknown key",
        "",
    ),
    case(
        "a conflict",
        |root| {
            root.write("usr/share/holo/demo/a", "# OWNS: path /x\n");
            root.write("usr/share/holo/demo/b", "# OWNS: path /x\n");
        },
        "error conflicts ",
        "remove all of these definitions but one",
    ),
    case(
        "resource files of a plugin that is not configured",
        |root| {
            fs::create_dir(root.join("usr/share/holo/dmo")).unwrap();
            root.write("usr/share/holo/dmo/x", "x\n");
        },
        "warning resources ",
        "did you mean demo?",
    ),
    case(
        "an editor's backup",
        |root| root.write("usr/share/holo/demo/a~", "x\n"),
        "warning resources ",
        "if it is one: rm ",
    ),
    case(
        "a dangling symlink",
        |root| symlink("/no/such/file", root.join("usr/share/holo/demo/lost")).unwrap(),
        "warning resources ",
        "fix it",
    ),
    case(
        "a generator that is not executable",
        |root| {
            fs::create_dir_all(root.join("usr/share/holo/generators")).unwrap();
            root.write("usr/share/holo/generators/10-x", "#!/bin/sh\n");
        },
        "error resources ",
        "chmod +x ",
    ),
    case(
        "a lock of a process that is gone",
        |root| root.write("run/holo.pid", "4194305\n"),
        "warning lock ",
        "the next apply removes it",
    ),
    case("an unknown lock", |root| root.write("run/holo.pid", "what\n"), "error lock ", "examine it, then: rm "),
    case(
        "a refresh that is due",
        |root| {
            root.write("due", DUE);
            let run = root.holo(&["state", "import", root.join("due").to_str().unwrap()]);
            assert!(run.success(), "{run}");
        },
        "warning refreshes demo:a is due for a refresh since 2025-03-04 ",
        "holo apply demo:a",
    ),
    case(
        "unreadable refreshes",
        |root| root.write("var/lib/holo/state.db", "what\n"),
        "error refreshes ",
        "an apply cannot begin",
    ),
    case(
        "the cache of a run that was killed",
        |root| {
            let path = root.join("tmp/holo.123456789");
            fs::create_dir(&path).unwrap();
            let time = SystemTime::now() - Duration::from_secs(3 * 24 * 60 * 60);
            File::open(&path).unwrap().set_modified(time).unwrap();
        },
        "warning interrupted ",
        "rm -r ",
    ),
    case(
        "a run that was killed",
        |root| {
            root.write_script(
                "usr/lib/holo/holo-demo",
                DEMO.replace("doctor)", "apply) kill -9 $PPID; sleep 1 ;; doctor)"),
            );
            let _ =
                root.run("env", &["HOLO_HISTORY=1", "HOLO_ROOT_DIR=.", &built("holo").display().to_string(), "apply"]);
            let _ = fs::remove_file(root.join("run/holo.pid"));
        },
        "warning interrupted the last run of 20",
        "holo apply continues it",
    ),
    case(
        "state of a plugin that is not configured",
        |root| {
            fs::create_dir_all(root.join("var/lib/holo/gone")).unwrap();
            root.write("var/lib/holo/gone/x", "x\n");
        },
        "warning state ",
        "configure plugin gone again",
    ),
    case(
        "configuration that is writable for everyone",
        |root| fs::set_permissions(root.join("etc/holorc"), Permissions::from_mode(0o666)).unwrap(),
        "error permissions ",
        "chmod go-w ",
    ),
    case(
        "state from the future",
        |root| {
            root.write("var/lib/holo/demo/x", "x\n");
            let file = File::options().write(true).open(root.join("var/lib/holo/demo/x")).unwrap();
            file.set_modified(SystemTime::now() + Duration::from_secs(7200)).unwrap();
        },
        "warning clock ",
        "apply with --verify",
    ),
];

/// A refresh that has been due since March 4th 2025.
const DUE: &str = r#"{"format":"holo state","version":1}
{"table":"refresh","row":{"source":"demo:b","target":"demo:a","plugin":"demo","is_due":1,"since":1741089600,"sent":"[]"}}
"#;

/// Returns the output with single blanks.
fn words(run: &Run) -> Vec<String> {
    run.stdout_lossy().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn find(case: &Case) {
    let root = well().dir("var/lib/holo/.engine");
    (case.spoil)(&root);
    let run = doctor(&root);
    let lines = words(&run);
    let found = lines.iter().position(|line| line.starts_with(case.finding));
    let found = found.unwrap_or_else(|| panic!("should find {}\n{run}", case.finding));
    if !case.remedy.is_empty() {
        let remedy = lines.get(found + 1).filter(|line| line.starts_with('→') && line.contains(case.remedy));
        assert!(remedy.is_some(), "should say {}\n{run}", case.remedy);
    }
    let expected = ["ok", "warning", "error"].iter().position(|word| case.finding.starts_with(word)).unwrap();
    let errors = lines.iter().any(|line| line.starts_with("error "));
    let expected = if errors { 2 } else { expected };
    assert_eq!(run.status, Some(i32::try_from(expected).unwrap()), "{run}");
}

fn healthy_machine_has_no_findings() {
    let root = well();
    is_healthy(&root);
    // The state database is not the state of a plugin.
    let run = root.run("env", &["HOLO_HISTORY=1", "HOLO_ROOT_DIR=.", &built("holo").display().to_string(), "apply"]);
    assert!(run.status == Some(0) && root.exists("var/lib/holo/state.db"), "{run}");
    is_healthy(&root);
}

#[track_caller]
fn is_healthy(root: &ScratchRoot) {
    let run = doctor(root);
    assert_eq!(run.status, Some(0), "{run}");
    assert!(run.stdout_lossy().lines().filter(|line| !line.is_empty()).all(|line| line.contains("ok")), "{run}");
    assert!(run.stderr.is_empty(), "{run}");
    let last = run.stdout_lossy().lines().last().map(str::to_owned);
    assert_eq!(last.as_deref(), Some("0 errors, 0 warnings, 11 ok"), "{run}");
}

fn doctor_changes_no_files() {
    for case in CASES {
        let root = well().dir("var/lib/holo/.engine");
        (case.spoil)(&root);
        let before = root.dump();
        doctor(&root);
        assert_eq!(root.dump(), before, "{}", case.name);
    }
}

fn diagnoses_of_plugins_are_shown() {
    let root = well().file("diagnoses", "ok\tthe ink is fresh\t\nwarning\tthe pen is dull\tsharpen it\nwhat\n");
    let run = doctor(&root);
    let lines = words(&run);
    for line in [
        "ok demo the ink is fresh",
        "warning demo the pen is dull",
        "→ sharpen it",
        "warning demo \"what\" is not a diagnosis: ok, warning or error, a tab, a title, a tab, and what to do",
    ] {
        assert!(lines.iter().any(|found| found == line), "{line}\n{run}");
    }
    assert_eq!(run.status, Some(1), "{run}");
}

fn findings_are_json_lines() {
    let root = well().file("diagnoses", "error\tthe \"pen\" is \u{fc}\tsharpen it\n");
    let run = root.holo(&["doctor", "--json"]);
    assert_eq!(run.status, Some(2), "{run}");
    let text = run.stdout_lossy();
    let line = r#"{"version":1,"event":"finding","check":"demo","level":"error","title":"the \"pen\" is ü","remedy":"sharpen it"}"#;
    assert!(text.lines().any(|found| found == line), "{run}");
    assert!(text.lines().all(|line| line.starts_with(r#"{"version":1,"event":"#)), "{run}");
    assert!(text.lines().last().unwrap().contains(r#""event":"summary","exit_code":2"#), "{run}");
}

fn held_lock_is_not_a_finding() {
    let root = well();
    root.write("run/holo.pid", "1\n");
    let held = File::open(root.join("run/holo.pid")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert_eq!(doctor(&root).status, Some(0));
}
