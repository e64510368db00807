//! Runs a scenario: a folder with a root to start from and the output to expect.
//!
//! A scenario is a folder with a file `source-tree`, optionally an `env.sh`, and files `expected-*`.
//! A run makes `target/` of the tree, calls `holo scan`, `holo diff` and `holo apply` on it, and
//! `holo apply --force` too if the apply's output mentions that option. Then it compares what they
//! printed, and the tree as it is now, with what is expected.
//!
//! `env.sh` is read by a bash that then runs all the commands. It may set variables, prepare
//! `target/`, and set `HOLO_BINARY` to another program or to the name of a function of its own, which
//! finds the holo binary in the value that `HOLO_BINARY` had before. It must not end the shell.
//!
//! With a file `steps` there is neither of that: the commands in it are run by a bash, and what it shows of each is compared.

mod normalise;
mod session;
mod steps;

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bstr::{BString, ByteSlice};
use rustix::fs::Mode;

use crate::error::{Context, IoError};
use crate::files;
use crate::tree::{self, ParseError};
use normalise::normalise;
use session::Session;

/// The commands, and the files for their output. The last one is run only if the one before asks.
const COMMANDS: [(&str, &[&str]); 4] = [
    ("scan-output", &["scan"]),
    ("diff-output", &["diff"]),
    ("apply-output", &["apply"]),
    (FORCED, &["apply", "--force"]),
];
const FORCED: &str = "apply-force-output";
const TREE: &str = "tree";
/// The file with commands and what they show.
const STEPS: &str = "steps";
/// The result of the commands in it.
const STEPS_OUTPUT: &str = "steps-output";

/// A scenario's folder.
#[derive(Clone, Debug)]
pub struct Scenario {
    dir: PathBuf,
}

/// Options for running scenarios.
#[derive(Clone, Debug)]
pub struct Options {
    /// The holo binary. A relative path counts from the working directory.
    pub binary: PathBuf,
    /// The time limit of each command, and of reading `env.sh`.
    pub time_limit: Duration,
}

impl Options {
    /// Runs this holo binary, each command for up to a minute.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self { binary: binary.into(), time_limit: Duration::from_secs(60) }
    }
}

/// The outcome of a run.
#[derive(Clone, Debug)]
#[must_use]
pub struct Outcome {
    dir: PathBuf,
    /// The results that are not as expected, in the order: tree, steps, scan, diff, apply, forced apply.
    pub deviations: Vec<Deviation>,
    /// The output of `env.sh` itself. It is not compared, but may explain a deviation.
    pub env_output: BString,
}

/// A result that is not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// The file with the result, such as `scan-output`. The expected one is in `expected-…`, for `steps-output` in `steps`.
    pub name: &'static str,
    /// The expected content: empty if there is no such file.
    pub expected: BString,
    /// The actual content, or `None` if no such file was produced.
    pub actual: Option<BString>,
}

impl Deviation {
    /// Returns the name of the file with what was expected.
    #[must_use]
    pub fn expected_name(&self) -> String {
        expected_name(self.name)
    }
}

/// A scenario that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no `source-tree`, so this is no scenario.
    #[error("{}: no source-tree; a scenario is a folder with a source-tree, and perhaps env.sh and expected-*", dir.display())]
    NoSourceTree {
        /// The folder.
        dir: PathBuf,
    },
    /// The `source-tree` cannot be understood.
    #[error("{}/{reason}", dir.display())]
    SourceTree {
        /// The scenario.
        dir: PathBuf,
        /// The problem, and its line.
        reason: ParseError,
    },
    /// A line of `steps` is indented, and belongs to no command.
    #[error("{}/steps:{line}: an indented line follows no command; commands begin with two blanks and `$ `", dir.display())]
    Steps {
        /// The scenario.
        dir: PathBuf,
        /// The line's number, from 1.
        line: usize,
    },
    /// A command took too long and was ended. What it had printed is in its `colored-*-output`.
    #[error("{}: {during} was ended after {limit:?}", dir.display())]
    TimedOut {
        /// The scenario.
        dir: PathBuf,
        /// The command that was running: `holo diff`, say, or `env.sh`.
        during: String,
        /// The time that it had.
        limit: Duration,
    },
    /// The shell that reads `env.sh` ended before the last command did.
    #[error("{}: the shell ended with status {status} during {during}; {script} and its functions must neither call exit nor fail under set -e{output}", dir.display())]
    ShellEnded {
        /// The scenario.
        dir: PathBuf,
        /// The command that was running: `holo diff`, say, or `env.sh`.
        during: String,
        /// The scenario's file that the shell reads.
        script: &'static str,
        /// The status of the shell, 128 + N for signal N.
        status: i32,
        /// The output of `env.sh`, each line indented on a line of its own.
        output: String,
    },
    /// A file or directory could not be worked with, or a program not run.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Scenario {
    /// Takes a folder for a scenario. Whether it is one shows when it is run.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Returns the folder as it was given.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Runs the scenario and compares the results with what is expected.
    ///
    /// The results stay in the folder until the next run: `target/`, `tree`, `*-output` and
    /// `colored-*-output`. Scenarios can be run on several threads, each folder by one at a time.
    /// Call [`set_umask`] before the first one, because commands make files under the umask of this
    /// process. Every command is in a process group of its own, so a Ctrl-C in the terminal does not
    /// reach it.
    ///
    /// # Errors
    ///
    /// If the scenario could not be run to its end. Failing commands are results, not errors.
    pub fn run(&self, options: &Options) -> Result<Outcome, Error> {
        self.remove_leftovers()?;
        self.make_target()?;
        if let Some(expected) = self.expected(STEPS_OUTPUT)? {
            return self.run_steps(expected, options);
        }

        let mut outputs: Vec<Option<BString>> = Vec::new();
        let mut session = Session::start(&self.dir, options)?;
        for (name, words) in COMMANDS {
            let before = outputs.last().and_then(Option::as_ref);
            let asked_for = name != FORCED || before.is_some_and(|text| text.contains_str("--force"));
            outputs.push(if asked_for { Some(self.command(&mut session, name, words)?) } else { None });
        }
        // The shell must live until here: a clean-up at its end is no part of the scenario.
        let tree = tree::dump(&self.target())?;
        let env_output = session.finish()?;
        self.write(TREE, &tree)?;

        let mut deviations = Vec::new();
        deviations.extend(self.compare(TREE, Some(tree.into()))?);
        for ((name, _), output) in COMMANDS.into_iter().zip(outputs) {
            deviations.extend(self.compare(name, output)?);
        }
        Ok(Outcome { dir: self.dir.clone(), deviations, env_output })
    }

    fn run_steps(&self, expected: BString, options: &Options) -> Result<Outcome, Error> {
        let parts = steps::parse(&expected).map_err(|line| Error::Steps { dir: self.dir.clone(), line })?;
        let (actual, env_output) = session::run_steps(&self.dir, options, parts)?;
        self.write(STEPS_OUTPUT, &actual)?;
        let tree = tree::dump(&self.target())?;
        self.write(TREE, &tree)?;
        let mut deviations = Vec::new();
        // Steps can show of the tree what matters; only where a whole one is expected it is compared.
        if self.expected(TREE)?.is_some() {
            deviations.extend(self.compare(TREE, Some(tree.into()))?);
        }
        if expected != actual {
            deviations.push(Deviation { name: STEPS_OUTPUT, expected, actual: Some(actual) });
        }
        Ok(Outcome { dir: self.dir.clone(), deviations, env_output })
    }

    fn target(&self) -> PathBuf {
        self.dir.join("target")
    }

    fn remove_leftovers(&self) -> Result<(), IoError> {
        files::remove(&self.target())?;
        files::remove(&self.dir.join(TREE))?;
        files::remove(&self.dir.join(STEPS_OUTPUT))?;
        for (name, _) in COMMANDS {
            files::remove(&self.dir.join(name))?;
            files::remove(&self.dir.join(colored_name(name)))?;
        }
        Ok(())
    }

    /// Makes `target/` of the source-tree, and the directories that holo wants to find.
    fn make_target(&self) -> Result<(), Error> {
        let path = self.dir.join("source-tree");
        let text = fs::read(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Error::NoSourceTree { dir: self.dir.clone() },
            _ => IoError::new("read", &path, error).into(),
        })?;
        let tree = tree::parse(&text).map_err(|reason| Error::SourceTree { dir: self.dir.clone(), reason })?;
        let target = self.target();
        files::make_dir(&target)?;
        tree::materialise(&tree, &target)?;

        let usual =
            ["run", "tmp", "usr/share/holo/generators", "var/lib/holo/files/base", "var/lib/holo/files/provisioned"];
        let resources = configured_plugins(&target).into_iter().map(|id| format!("usr/share/holo/{id}"));
        for relative in usual.into_iter().map(str::to_owned).chain(resources) {
            // If the tree has put something in the way, that is the scenario's point, and holo's to complain about.
            if !is_obstructed(&target, Path::new(&relative)) {
                files::make_dirs(&target, Path::new(&relative))?;
            }
        }
        Ok(())
    }

    /// Runs one command, writes its output to the two files, and returns it as it is compared.
    fn command(&self, session: &mut Session<'_>, name: &str, words: &[&str]) -> Result<BString, Error> {
        let colored = colored_name(name);
        let status = session.holo(words, &colored)?;
        let path = self.dir.join(colored);
        let mut output = fs::read(&path).context("read", &path)?;
        // Right behind the output, which may lack its last newline: Holo 3's own runner does so.
        writeln!(output, "exit status {status}").context("write", &path)?;
        fs::write(&path, &output).context("write", &path)?;
        let output = normalise(&output);
        self.write(name, &output)?;
        Ok(output.into())
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), IoError> {
        let path = self.dir.join(name);
        fs::write(&path, content).context("write", &path)
    }

    /// Reads what is expected of a result; `None` if there is no such file.
    fn expected(&self, name: &str) -> Result<Option<BString>, IoError> {
        let path = self.dir.join(expected_name(name));
        match fs::read(&path) {
            Ok(expected) => Ok(Some(expected.into())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context("read", &path),
        }
    }

    fn compare(&self, name: &'static str, actual: Option<BString>) -> Result<Option<Deviation>, IoError> {
        let expected = self.expected(name)?;
        let as_expected = match (&expected, &actual) {
            (Some(expected), Some(actual)) => expected == actual,
            (None, Some(actual)) => actual.is_empty(),
            (Some(_), None) => false,
            (None, None) => true,
        };
        Ok((!as_expected).then(|| Deviation { name, expected: expected.unwrap_or_default(), actual }))
    }
}

impl Outcome {
    /// Returns whether everything was as expected.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.deviations.is_empty()
    }

    /// Makes the results the expected ones: writes what deviates to `expected-*`, and removes the
    /// expectation of a forced apply that was not run.
    ///
    /// # Errors
    ///
    /// If a file cannot be written or removed.
    pub fn bless(&self) -> Result<(), IoError> {
        for deviation in &self.deviations {
            let path = self.dir.join(deviation.expected_name());
            match &deviation.actual {
                Some(actual) => fs::write(&path, actual).context("write", &path)?,
                None => files::remove(&path)?,
            }
        }
        Ok(())
    }
}

/// Sets the umask of this process to 022, as scenarios expect it.
///
/// The umask belongs to the whole process: call this once, before other threads start.
pub fn set_umask() {
    rustix::process::umask(Mode::from_raw_mode(0o022));
}

fn expected_name(name: &str) -> String {
    if name == STEPS_OUTPUT { STEPS.to_owned() } else { format!("expected-{name}") }
}

fn colored_name(name: &str) -> String {
    format!("colored-{name}")
}

/// Returns the IDs of the plugins that a root's configuration asks for. What is missing or odd in it
/// is passed over: holo will complain, and that may be what the scenario is about.
fn configured_plugins(root: &Path) -> Vec<String> {
    let mut paths = vec![root.join("etc/holorc")];
    if let Ok(entries) = fs::read_dir(root.join("etc/holorc.d")) {
        paths.extend(entries.flatten().map(|entry| entry.path()));
    }
    let mut ids = Vec::new();
    for path in paths {
        // Anything but a regular file could keep the reader waiting.
        if !path.is_file() {
            continue;
        }
        let text = fs::read(path).unwrap_or_default();
        ids.extend(text.to_str_lossy().lines().filter_map(configured_plugin));
    }
    ids
}

/// Returns the ID in a line `plugin ID` or `plugin ID=PATH`.
fn configured_plugin(line: &str) -> Option<String> {
    let plugin = line.trim().strip_prefix("plugin ")?;
    let id = plugin.split('=').next()?.trim();
    let is_plain = !id.is_empty() && !id.starts_with('.') && !id.contains(['/', '\0']);
    is_plain.then(|| id.to_owned())
}

/// Returns whether something other than a directory is in the way of `root/relative`.
fn is_obstructed(root: &Path, relative: &Path) -> bool {
    let mut path = root.to_owned();
    relative.components().any(|component| {
        path.push(component);
        fs::symlink_metadata(&path).is_ok_and(|found| !found.is_dir())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::time::Instant;
    use tempfile::TempDir;

    const DASHES: &str = "----------------------------------------";

    /// Says what it was asked and changes the root on apply.
    const HOLO: &str = r#"#!/bin/sh
echo "$*"
case "$*" in
scan) printf '\033[1mbold\033[0m\n' >&2; echo "$TMPDIR/holo.4711/x target/tmp/holo.4711/x" ;;
diff) exit 3 ;;
apply) echo changed >"$HOLO_ROOT_DIR/etc/motd"; echo 'use --force'; echo "zero $HOLO_EXIT_ZERO" ;;
*) kill -KILL $$ ;;
esac
"#;

    /// A folder with a scenario and a holo that is a script, both of them to throw away.
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
        // Of a signal, bash prints a message with the number of the process.
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
}
