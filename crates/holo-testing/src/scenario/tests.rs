//! Tests of scenarios with a script instead of holo.

use super::*;
use std::os::unix::fs::symlink;
use std::time::Instant;
use tempfile::TempDir;

const DASHES: &str = "----------------------------------------";

/// Prints its arguments, and changes the root on apply.
const HOLO: &str = r#"#!/bin/sh
echo "$*"
case "$*" in
scan) printf '\033[1mbold\033[0m\n' >&2; echo "$TMPDIR/holo.4711/x target/tmp/holo.4711/x" ;;
diff) exit 3 ;;
apply) echo changed >"$HOLO_ROOT_DIR/etc/motd"; echo 'use --force'; echo "zero $HOLO_EXIT_ZERO" ;;
*) kill -KILL $$ ;;
esac
"#;

/// A temporary folder with a scenario, and a script as holo.
struct Fixture {
    dir: TempDir,
    options: Options,
}

impl Fixture {
    fn new(holo: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let binary = dir.path().join("holo");
        files::create_file(&binary, holo.as_bytes(), 0o755).unwrap();
        fs::create_dir(dir.path().join("01-case")).unwrap();
        let fixture = Self { dir, options: Options::new(binary) };
        fixture.write("../holorc", "# comment\nplugin files=../x\n\n  plugin odd/id\nplugin b\n");
        let tree = format!(
            "symlink   0777 ./etc/holorc\n../../../holorc\n{DASHES}\n\
             file      0644 ./etc/holorc.d/10-x\nplugin print\n{DASHES}\n\
             file      0600 ./etc/motd\nstock\n{DASHES}\n"
        );
        fixture.write("source-tree", &tree);
        fixture
    }

    fn scenario(&self) -> Scenario {
        Scenario::new(self.dir.path().join("01-case"))
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.scenario().dir().join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.scenario().dir().join(name)).unwrap()
    }

    fn exists(&self, name: &str) -> bool {
        self.scenario().dir().join(name).exists()
    }

    #[track_caller]
    fn run(&self) -> Outcome {
        self.scenario().run(&self.options).unwrap()
    }

    #[track_caller]
    fn error(&self) -> String {
        self.scenario().run(&self.options).unwrap_err().to_string()
    }
}

#[test]
fn results_are_written_normalised_and_raw() {
    let fixture = Fixture::new(HOLO);
    let outcome = fixture.run();
    assert_eq!(fixture.read("scan-output"), "scan\nbold\n./target/tmp/holo/x target/tmp/holo/x\nexit status 0\n");
    assert!(fixture.read("colored-scan-output").contains("\x1b[1mbold\x1b[0m\n./target/tmp/holo.4711/"));
    assert_eq!(fixture.read("diff-output"), "diff\nexit status 3\n");
    assert_eq!(fixture.read("apply-output"), "apply\nuse --force\nzero 1\nexit status 0\n");
    assert_eq!(fixture.read("apply-force-output"), "apply --force\nexit status 137\n");
    let names: Vec<_> = outcome.deviations.iter().map(|d| d.name).collect();
    let all = ["tree", "scan-output", "diff-output", "apply-output", FORCED];
    assert_eq!(names, all);
    assert_eq!(outcome.deviations[2].expected, "");
    assert_eq!(outcome.deviations[2].actual, Some("diff\nexit status 3\n".into()));
}

#[test]
fn the_target_has_what_holo_wants_to_find() {
    let fixture = Fixture::new("#!/bin/sh\n");
    let _outcome = fixture.run();
    let mut expected = format!(
        "symlink   0777 ./etc/holorc\n../../../holorc\n{DASHES}\n\
         file      0644 ./etc/holorc.d/10-x\nplugin print\n{DASHES}\n\
         file      0600 ./etc/motd\nstock\n{DASHES}\n"
    );
    for dir in [
        "run",
        "tmp",
        "usr/share/holo/b",
        "usr/share/holo/files",
        "usr/share/holo/generators",
        "usr/share/holo/print",
        "var/lib/holo/files/base",
        "var/lib/holo/files/provisioned",
    ] {
        expected += &format!("directory 0755 ./{dir}/\n{DASHES}\n");
    }
    assert_eq!(fixture.read("tree"), expected);
}

#[test]
fn what_is_there_already_or_in_the_way_is_left_alone() {
    let fixture = Fixture::new("#!/bin/sh\n");
    let outside = tempfile::tempdir().unwrap();
    let tree = format!(
        "directory 0700 ./run/\n{DASHES}\nsymlink   0777 ./usr\n{}\n{DASHES}\n\
         file      0644 ./var\n{DASHES}\n",
        outside.path().display()
    );
    fixture.write("source-tree", &tree);
    let _outcome = fixture.run();
    let dump = fixture.read("tree");
    assert!(dump.starts_with("directory 0700 ./run/\n"), "{dump}");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn a_blessed_scenario_passes_until_something_changes() {
    let fixture = Fixture::new(HOLO);
    fixture.run().bless().unwrap();
    assert!(fixture.run().passed());

    fixture.write("expected-scan-output", "other\n");
    let deviations = fixture.run().deviations;
    assert_eq!(deviations.len(), 1);
    assert_eq!(deviations[0].expected, "other\n");
    assert_eq!(deviations[0].expected_name(), "expected-scan-output");
}

#[test]
fn an_expected_forced_apply_that_is_not_run_is_a_deviation_and_can_be_blessed_away() {
    let fixture = Fixture::new("#!/bin/sh\n");
    fixture.run().bless().unwrap();
    fixture.write("expected-apply-force-output", "");
    fixture.write("apply-force-output", "of an earlier run");
    let outcome = fixture.run();
    assert_eq!(outcome.deviations, [Deviation { name: FORCED, expected: "".into(), actual: None }]);
    outcome.bless().unwrap();
    assert!(!fixture.exists("expected-apply-force-output"));
    assert!(!fixture.exists("apply-force-output"));
    assert!(fixture.run().passed());
}

#[test]
fn both_streams_keep_their_order_and_a_missing_newline_is_not_supplied() {
    let fixture = Fixture::new("#!/bin/sh\nprintf 1; printf 2 >&2; sh -c 'printf 3; printf 4 >&2'; cat\n");
    let _outcome = fixture.run();
    assert_eq!(fixture.read("scan-output"), "1234exit status 0\n");
}

#[test]
fn leftovers_do_not_survive() {
    let fixture = Fixture::new("#!/bin/sh\n");
    let target = fixture.scenario().dir().join("target");
    symlink(fixture.dir.path(), &target).unwrap();
    let _outcome = fixture.run();
    assert!(fixture.options.binary.exists());
    fs::write(target.join("etc/left"), "").unwrap();
    let _outcome = fixture.run();
    assert!(!fixture.exists("target/etc/left"));
}

#[test]
fn functions_of_env_sh_stand_in_for_holo_and_keep_their_state() {
    let fixture = Fixture::new("#!/bin/sh\necho \"holo $* $GREETING ${HOLO_EXIT_ZERO-unset}\"\n");
    fixture.write(
        "env.sh",
        r#"
                echo preparing
                echo prepared >target/etc/prepared
                export GREETING=hello
                unset HOLO_EXIT_ZERO
                count=0
                holo=$HOLO_BINARY
                counted() {
                    count=$((count + 1))
                    echo "$count: $1"
                    "$holo" "$@" --extra
                    read -r line; echo "read <$line>"
                    return 7
                }
                HOLO_BINARY=counted
                set -eu
                trap 'rm -r target' EXIT
            "#,
    );
    let outcome = fixture.run();
    assert_eq!(outcome.env_output, "preparing\n");
    for (number, word) in ["scan", "diff", "apply"].iter().enumerate() {
        assert_eq!(
            fixture.read(&format!("{word}-output")),
            format!("{}: {word}\nholo {word} --extra hello unset\nread <>\nexit status 7\n", number + 1)
        );
    }
    assert!(fixture.read("tree").contains("./etc/prepared\nprepared\n"));
}

#[test]
fn env_sh_may_name_another_program_and_change_directory() {
    let fixture = Fixture::new("#!/bin/sh\n");
    fixture.write("env.sh", "sleep 600 &\ncd /\nHOLO_BINARY=echo\n[ -n '' ]\n");
    let _outcome = fixture.run();
    assert_eq!(fixture.read("apply-output"), "apply\nexit status 0\n");
}

#[test]
fn a_shell_that_ends_early_is_an_error() {
    let fixture = Fixture::new(HOLO);
    fixture.write("env.sh", "sleep 600 &\necho 'no way' >&2\nexit 4\n");
    let error = fixture.error();
    assert!(
        error.ends_with(
            "/01-case: the shell ended with status 4 during env.sh; env.sh and its functions \
             must neither call exit nor fail under set -e\n    no way"
        ),
        "{error}"
    );
    fixture.write("env.sh", "set -e\nfalse\n");
    assert!(fixture.error().contains("ended with status 1 during env.sh"));
    fixture.write("env.sh", "f() { [ \"$1\" != diff ] || exit 5; }\nHOLO_BINARY=f\n");
    assert!(fixture.error().contains("ended with status 5 during holo diff"));
}

#[test]
fn a_hanging_command_is_killed_with_all_that_it_started() {
    for environment in [None, Some("f() { \"$holo\" \"$@\"; }\nholo=$HOLO_BINARY HOLO_BINARY=f\n")] {
        let mut fixture = Fixture::new("#!/bin/sh\necho $$\n[ $1 = scan ] || sleep 600\n");
        if let Some(environment) = environment {
            fixture.write("env.sh", environment);
        }
        fixture.options.time_limit = Duration::from_millis(500);
        let error = fixture.error();
        assert!(error.contains("/01-case: holo diff was ended after 500ms"), "{error}");
        let pid = fixture.read("colored-diff-output");
        let process = Path::new("/proc").join(pid.trim());
        let deadline = Instant::now() + Duration::from_secs(20);
        while fs::read(process.join("cmdline")).is_ok_and(|line| !line.is_empty()) {
            assert!(Instant::now() < deadline, "{process:?} still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn an_env_sh_that_hangs_is_an_error() {
    let mut fixture = Fixture::new(HOLO);
    fixture.options.time_limit = Duration::from_millis(300);
    fixture.write("env.sh", "sleep 600\n");
    assert!(fixture.error().contains("env.sh was ended after 300ms"));
}

#[test]
fn what_makes_a_scenario_impossible_is_said() {
    let mut fixture = Fixture::new(HOLO);
    fixture.write("source-tree", "nonsense\n");
    assert!(fixture.error().contains("/01-case/source-tree, line 1: `nonsense` is not a section header"));
    fs::remove_file(fixture.scenario().dir().join("source-tree")).unwrap();
    assert!(fixture.error().contains("/01-case: no source-tree; a scenario is a folder with"));
    fixture.write("source-tree", "");
    fixture.options.binary = "no/such/holo".into();
    assert_eq!(fixture.error(), "stat no/such/holo: no such file or directory");
}

#[test]
fn steps_share_a_shell_and_are_blessed_in_place() {
    let fixture = Fixture::new(HOLO);
    let steps = "Proves something.\n\n  $ x=1; holo diff\n  diff\n  [3]\n\nProse.\n  $ holo apply >/dev/null\n  > cat target/etc/motd; echo $x ${HOLO_EXIT_ZERO-unset}\n  changed\n  1 unset\n  $ holo scan\n";
    fixture.write("steps", steps);
    let outcome = fixture.run();
    let names: Vec<_> = outcome.deviations.iter().map(|d| (d.name, d.expected_name())).collect();
    assert_eq!(names, [("steps-output", "steps".to_owned())]);
    outcome.bless().unwrap();
    assert_eq!(fixture.read("steps"), format!("{steps}  scan\n  bold\n  ./target/tmp/holo/x target/tmp/holo/x\n"));
    assert!(fixture.run().passed() && fixture.exists("steps-output"));
    fixture.write("expected-tree", "");
    assert_eq!(fixture.run().deviations.len(), 1);
    fixture.write("steps", "  $ exit 4\n");
    assert!(fixture.error().contains("ended with status 4 during exit 4; steps and its"), "{}", fixture.error());
    fixture.write("steps", "  no command\n");
    assert!(fixture.error().contains("01-case/steps:1: an indented line follows no command"));
}

#[test]
fn relative_paths_will_do() {
    let fixture = Fixture::new("#!/bin/sh\n");
    let up: PathBuf = std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect();
    let relative = |path: &Path| up.join(path.strip_prefix("/").unwrap());
    let options = Options::new(relative(&fixture.options.binary));
    for environment in ["", "echo sourced\n"] {
        let scenario = Scenario::new(relative(fixture.scenario().dir()));
        scenario.run(&options).unwrap().bless().unwrap();
        assert!(scenario.run(&options).unwrap().passed());
        fixture.write("env.sh", environment);
    }
    assert_eq!(fixture.read("expected-scan-output"), "exit status 0\n");
}

#[test]
fn an_odd_holorc_is_left_to_holo() {
    let fixture = Fixture::new("#!/bin/sh\n");
    let tree = format!(
        "fifo      0644 ./etc/holorc\n{DASHES}\n\
         file      0644 ./etc/holorc.d/a\nplugin ..\nplugin\nplugin =x\nplugin a/b\n\u{0}\n{DASHES}\n"
    );
    fixture.write("source-tree", &tree);
    let _outcome = fixture.run();
    let share = fixture.scenario().dir().join("target/usr/share/holo");
    assert_eq!(fs::read_dir(share).unwrap().count(), 1);
}

#[test]
fn different_folders_can_be_run_at_the_same_time() {
    // If a signal kills the process, bash prints a message with its PID.
    let holo = HOLO.replace("kill -KILL $$", "exit 9");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let fixture = Fixture::new(&holo);
                fixture.run().bless().unwrap();
                fixture.write("env.sh", "function h { \"$holo\" \"$@\"; }; holo=$HOLO_BINARY; HOLO_BINARY=h\n");
                assert_eq!(fixture.run().deviations, []);
            });
        }
    });
}

#[test]
fn times_are_removed_from_json_alone() {
    let line = br#"{"version":1,"event":"summary","run":"2026-x","time":"09:14Z","duration":1.5,"exit_code":0}"#;
    assert_eq!(normalise(line), br#"{"version":1,"event":"summary","exit_code":0}"#);
    let other = br#"x {"run":"a","time":1}"#;
    assert_eq!(normalise(other), other);
}

#[test]
fn colours_are_stripped_and_other_bytes_kept() {
    assert_eq!(normalise(b"\x1b[1;31m!! \xff\x1b[0m\x1b[m\0 \x1b[2K\x1b["), b"!! \xff\0 \x1b[2K\x1b[");
}

#[test]
fn cache_directories_lose_their_number() {
    assert_eq!(
        normalise(b"a target/tmp/holo.\x1b[1m12345\x1b[0m/x target/tmp/holo.0 target/tmp/holo.d"),
        b"a target/tmp/holo/x target/tmp/holo target/tmp/holo.d"
    );
}

#[test]
fn commands_continue_and_prose_stays() {
    let text = "Says hello.\n\n  $ for x in 1 2; do\n  >   echo $x\n  > done\n  1\n  > no prompt\n\nEnd.\n";
    let parts = parse(text.as_bytes()).unwrap();
    let prose = |line: &str| Part::Prose(line.into());
    let command = Part::Command("for x in 1 2; do\n  echo $x\ndone".into());
    assert_eq!(parts, [prose("Says hello."), prose(""), command, prose(""), prose("End.")]);
    assert_eq!(parse(b"prose\n  output\n"), Err(2));
}

#[test]
fn a_transcript_is_what_was_parsed() {
    let text = "Prose.\n\n  $ a\n  > b\n  \n  output\n    more\n  [3]\n  $ c\n  end (no-eol)\n";
    let mut transcript = Transcript::default();
    let mut results = [(&b"\noutput\n  more\n"[..], 3), (b"end", 0)].into_iter();
    for part in parse(text.as_bytes()).unwrap() {
        match part {
            Part::Prose(line) => transcript.prose(&line),
            Part::Command(command) => {
                let (output, status) = results.next().unwrap();
                transcript.command(&command, output, status);
            }
        }
    }
    assert_eq!(transcript.into_text(), text);
}
