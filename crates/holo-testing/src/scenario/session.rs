//! Runs a scenario's commands on its initial root, directly or in the shell that has read its `env.sh`.

use super::{Error, Options, Part, STEPS, Scenario, Transcript, normalise};
use crate::files::{self, Context, IoError};
use crate::{processes, tree};
use bstr::{BStr, BString, ByteSlice};
use holo_process::{Conversation, ConversationError, Deadline, Program, Status};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const BASH: &str = "bash";

/// Reads `env.sh`, then runs one command for each line on its stdin, which contains the name of the output file and
/// holo's arguments. After each step it prints a line: first `ready`, then exit statuses.
///
/// Both pipes are only open in this loop, so that background processes cannot keep the runner waiting. `set +e` is
/// necessary because a command's failure is a result.
const SHELL: &str = r#"
exec 198<&0 199>&1 </dev/null >&2
holo_test_dir=$PWD
source ./env.sh 198<&- 199>&-
set +e
printf 'ready\n' >&199
while IFS=' ' read -r -u 198 -a holo_test_words; do
    "$HOLO_BINARY" "${holo_test_words[@]:1}" >>"$holo_test_dir/${holo_test_words[0]}" 2>&1 198<&- 199>&-
    printf '%s\n' "$?" >&199
done
"#;

/// Runs one command for each line on its stdin: the name of a file with the command, to which `.out` is appended for
/// its output. Variables and functions that a command defines are kept for the following ones.
const STEPS_SHELL: &str = r#"
exec 198<&0 199>&1 </dev/null >&2
holo() { "$HOLO_BINARY" "$@"; }
printf 'ready\n' >&199
while IFS= read -r -u 198 holo_test_step; do
    source "$holo_test_step" >>"$holo_test_step.out" 2>&1 198<&- 199>&-
    printf '%s\n' "$?" >&199
done
"#;

/// Runs the commands of a scenario.
pub(super) enum Session<'a> {
    Direct(Direct<'a>),
    Shell(Box<Shell<'a>>),
}

impl<'a> Session<'a> {
    /// Starts a shell if the scenario has an `env.sh`.
    pub(super) fn start(dir: &'a Path, options: &Options) -> Result<Self, Error> {
        let binary = absolute(&options.binary)?;
        let limit = options.time_limit;
        let environment = dir.join("env.sh");
        if environment.try_exists().context("stat", &environment)? {
            Shell::start(dir, &binary, limit, "env.sh").map(|shell| Self::Shell(Box::new(shell)))
        } else {
            Ok(Self::Direct(Direct { dir, binary, limit }))
        }
    }

    /// Runs holo with these arguments and returns the exit status like a shell. Both output streams are appended to the
    /// scenario's file `output`.
    pub(super) fn holo(&mut self, words: &[&str], output: &str) -> Result<i32, Error> {
        match self {
            Self::Direct(direct) => direct.holo(words, output),
            Self::Shell(shell) => shell.holo(words, output),
        }
    }

    /// Ends the session and returns the output of `env.sh` itself.
    pub(super) fn finish(self) -> Result<BString, Error> {
        match self {
            Self::Direct(_) => Ok(BString::default()),
            Self::Shell(shell) => shell.finish(),
        }
    }
}

/// Returns the absolute path of the binary, as commands run in the scenario's folder.
fn absolute(binary: &Path) -> Result<PathBuf, IoError> {
    std::path::absolute(binary).and_then(|binary| binary.metadata().map(|_| binary)).context("stat", binary)
}

/// Returns a program with the scenario's folder and environment.
fn in_scenario(name: impl AsRef<OsStr>, dir: &Path) -> Program {
    let mut program = processes::program(name);
    program
        .current_dir(dir)
        .env("HOLO_ROOT_DIR", "./target/")
        .env("TMPDIR", "./target/tmp")
        // The resulting trees are compared; a scenario about earlier runs sets this to 1.
        .env("HOLO_HISTORY", "0")
        // Scenarios expect the exit statuses of Holo 3.
        .env("HOLO_EXIT_ZERO", "1");
    program
}

/// Runs the commands of a file `steps`. Returns the transcript, which should equal the file, and the output from
/// outside of the commands.
pub(super) fn run_steps(dir: &Path, options: &Options, parts: Vec<Part>) -> Result<(BString, BString), Error> {
    let scratch = tempfile::tempdir().context("create a directory in", &std::env::temp_dir())?;
    let mut shell = Shell::start(dir, &absolute(&options.binary)?, options.time_limit, STEPS)?;
    let mut transcript = Transcript::default();
    for (number, part) in parts.into_iter().enumerate() {
        let command = match part {
            Part::Prose(line) => {
                transcript.prose(&line);
                continue;
            }
            Part::Command(command) => command,
        };
        let file = scratch.path().join(number.to_string());
        fs::write(&file, [&command[..], b"\n"].concat()).context("write", &file)?;
        let status = shell.source(&file, command.as_bstr())?;
        let output = file.with_extension("out");
        let output = fs::read(&output).context("read", &output)?;
        transcript.command(&command, &normalise(&output), status);
    }
    let text = transcript.into_text();
    Ok((text, shell.finish()?))
}

/// Starts the binary for each command.
pub(super) struct Direct<'a> {
    dir: &'a Path,
    binary: PathBuf,
    limit: Duration,
}

impl Direct<'_> {
    fn holo(&self, words: &[&str], output: &str) -> Result<i32, Error> {
        let path = self.dir.join(output);
        let file = OpenOptions::new().append(true).create(true).open(&path).context("open", &path)?;
        let mut program = in_scenario(&self.binary, self.dir);
        program.args(words).stderr_file(file.try_clone().context("open", &path)?).stdout_file(file);
        processes::run(&mut program, self.limit)
            .context("run", &self.binary)?
            .map(Status::shell_code)
            .ok_or_else(|| timed_out(self.dir, &format!("holo {}", words.join(" ")), self.limit))
    }
}

/// Runs all commands in one shell, in which the definitions of `env.sh` are kept.
pub(super) struct Shell<'a> {
    dir: &'a Path,
    limit: Duration,
    conversation: Conversation,
    /// Output from outside of the commands, such as that of `env.sh`.
    log: File,
    /// The script that the shell reads.
    script: &'static str,
}

impl<'a> Shell<'a> {
    fn start(dir: &'a Path, binary: &Path, limit: Duration, script: &'static str) -> Result<Self, Error> {
        let log = tempfile::tempfile().context("create a file in", &std::env::temp_dir())?;
        let mut program = in_scenario(BASH, dir);
        let code = if script == STEPS {
            // Steps show real exit statuses.
            program.env_remove("HOLO_EXIT_ZERO");
            STEPS_SHELL
        } else {
            SHELL
        };
        program
            .args(["--noprofile", "--norc", "-c", code, BASH])
            .env("HOLO_BINARY", binary)
            .env_remove("BASH_ENV")
            .stderr_file(log.try_clone().context("open", Path::new("the log of env.sh"))?);
        let conversation = program.converse().map_err(processes::io_error).context("run", Path::new(BASH))?;
        let mut shell = Self { dir, limit, conversation, log, script };
        shell.reply(script).map(|_| shell)
    }

    fn holo(&mut self, words: &[&str], output: &str) -> Result<i32, Error> {
        let words = words.join(" ");
        self.request(format!("{output} {words}").as_bytes(), &format!("holo {words}"))
    }

    /// Runs the command in a file, and returns its exit status. Both output streams are written to the file with `.out`
    /// appended to its name.
    fn source(&mut self, file: &Path, command: &BStr) -> Result<i32, Error> {
        self.request(file.as_os_str().as_bytes(), &command.to_string())
    }

    /// Sends a request line to the shell, and returns the exit status.
    fn request(&mut self, line: &[u8], during: &str) -> Result<i32, Error> {
        self.conversation.send(&[line, b"\n"].concat());
        let reply = self.reply(during)?;
        let status = reply.to_str().ok().and_then(|status| status.parse().ok());
        status
            .ok_or_else(|| std::io::Error::other("it does not answer with a status"))
            .context("run", Path::new(BASH))
            .map_err(Error::from)
    }

    fn finish(mut self) -> Result<BString, Error> {
        // The shell ends with its input.
        self.conversation.end_input();
        let deadline = Deadline::after(self.limit);
        loop {
            match self.conversation.line(deadline, &mut |_| {}) {
                Err(ConversationError::Ended { .. }) => return Ok(read_log(&mut self.log)),
                Err(error) => return Err(self.failed(&format!("the end of {}", self.script), error)),
                Ok(_) => {}
            }
        }
    }

    /// Reads the next line from the shell.
    fn reply(&mut self, during: &str) -> Result<BString, Error> {
        let reply = self.conversation.line(Deadline::after(self.limit), &mut |_| {});
        reply.map(BString::from).map_err(|error| self.failed(during, error))
    }

    /// Returns the reason why the shell does not answer.
    fn failed(&mut self, during: &str, error: ConversationError) -> Error {
        match error {
            ConversationError::Late { .. } => timed_out(self.dir, during, self.limit),
            ConversationError::Ended { status, .. } => Error::ShellEnded {
                dir: self.dir.to_owned(),
                during: during.to_owned(),
                script: self.script,
                status: status.shell_code(),
                output: indented(&read_log(&mut self.log)),
            },
            error => IoError::new("run", Path::new(BASH), std::io::Error::other(error)).into(),
        }
    }
}

fn timed_out(dir: &Path, during: &str, limit: Duration) -> Error {
    Error::TimedOut { dir: dir.to_owned(), during: during.to_owned(), limit }
}

/// Reads the output from outside of the commands. It is only informative, so errors are ignored.
fn read_log(log: &mut File) -> BString {
    let mut text = Vec::new();
    let _best_effort = log.rewind().and_then(|()| log.read_to_end(&mut text));
    text.into()
}

/// Formats a text for a message, with each line indented on a line of its own.
fn indented(text: &[u8]) -> String {
    text.to_str_lossy().lines().map(|line| format!("\n    {line}")).collect()
}

impl Scenario {
    /// Creates `target/` from the source tree, and the directories that holo requires.
    pub(super) fn make_target(&self) -> Result<(), Error> {
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
            // If the source tree has an obstacle here, that is what the scenario tests.
            if !is_obstructed(&target, Path::new(&relative)) {
                files::make_dirs(&target, Path::new(&relative))?;
            }
        }
        Ok(())
    }
}

/// Returns the IDs of the plugins in a root's configuration. Missing or invalid configuration is ignored, as the
/// scenario may test holo's error.
fn configured_plugins(root: &Path) -> Vec<String> {
    let mut paths = vec![root.join("etc/holorc")];
    if let Ok(entries) = fs::read_dir(root.join("etc/holorc.d")) {
        paths.extend(entries.flatten().map(|entry| entry.path()));
    }
    let mut ids = Vec::new();
    for path in paths {
        // Reading anything other than a regular file could block.
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

/// Returns true if a component of `root/relative` exists, but is not a directory.
fn is_obstructed(root: &Path, relative: &Path) -> bool {
    let mut path = root.to_owned();
    relative.components().any(|component| {
        path.push(component);
        fs::symlink_metadata(&path).is_ok_and(|found| !found.is_dir())
    })
}
