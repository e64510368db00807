//! Runs a scenario's commands: directly, or in the shell that has read its `env.sh`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use bstr::{BStr, BString, ByteSlice};

use super::normalise::normalise;
use super::steps::{Part, Transcript};
use super::{Error, Options, STEPS};
use crate::error::{Context, IoError};
use crate::spawn::{self, Group};

const BASH: &str = "bash";

/// Reads `env.sh`, then runs one command for each line on its stdin: the name of the output's file
/// and holo's arguments. Each time it is done it prints a line: `ready`, later the exit status.
///
/// The two pipes are closed to everything but this loop, so that a process that stays in the
/// background cannot keep the runner waiting. `set +e`, because a command's failure is a result.
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

/// Runs one command for each line on its stdin: the name of a file that holds the command, and in which `.out` is appended for its
/// output. What a command sets or defines stays for the next one.
const STEPS_SHELL: &str = r#"
exec 198<&0 199>&1 </dev/null >&2
holo() { "$HOLO_BINARY" "$@"; }
printf 'ready\n' >&199
while IFS= read -r -u 198 holo_test_step; do
    source "$holo_test_step" >>"$holo_test_step.out" 2>&1 198<&- 199>&-
    printf '%s\n' "$?" >&199
done
"#;

/// Runs the commands of one scenario.
pub(super) enum Session<'a> {
    Direct(Direct<'a>),
    Shell(Shell<'a>),
}

impl<'a> Session<'a> {
    /// Starts a shell if the scenario has an `env.sh`.
    pub(super) fn start(dir: &'a Path, options: &Options) -> Result<Self, Error> {
        let binary = absolute(&options.binary)?;
        let limit = options.time_limit;
        let environment = dir.join("env.sh");
        if environment.try_exists().context("stat", &environment)? {
            Shell::start(dir, &binary, limit, "env.sh").map(Self::Shell)
        } else {
            Ok(Self::Direct(Direct { dir, binary, limit }))
        }
    }

    /// Runs holo with these words and returns the status as a shell has it. Both output streams
    /// go to the end of the scenario's file `output`.
    pub(super) fn holo(&mut self, words: &[&str], output: &str) -> Result<i32, Error> {
        match self {
            Self::Direct(direct) => direct.holo(words, output),
            Self::Shell(shell) => shell.holo(words, output),
        }
    }

    /// Ends the session and returns what `env.sh` itself has printed.
    pub(super) fn finish(self) -> Result<BString, Error> {
        match self {
            Self::Direct(_) => Ok(BString::default()),
            Self::Shell(shell) => shell.finish(),
        }
    }
}

/// Returns the path of the binary as it is from everywhere: the commands run in the scenario's folder.
fn absolute(binary: &Path) -> Result<PathBuf, IoError> {
    std::path::absolute(binary).and_then(|binary| binary.metadata().map(|_| binary)).context("stat", binary)
}

/// Gives a command the scenario's folder and environment.
fn in_scenario(mut command: Command, dir: &Path) -> Command {
    command
        .current_dir(dir)
        .env("HOLO_ROOT_DIR", "./target/")
        .env("TMPDIR", "./target/tmp")
        // The exit statuses that scenarios expect are those of Holo 3.
        .env("HOLO_EXIT_ZERO", "1");
    command
}

/// Runs the commands of a file `steps`, and returns the transcript: the file as it should be, and what was printed outside of them.
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

/// Starts the binary once for each command.
pub(super) struct Direct<'a> {
    dir: &'a Path,
    binary: PathBuf,
    limit: Duration,
}

impl Direct<'_> {
    fn holo(&self, words: &[&str], output: &str) -> Result<i32, Error> {
        let path = self.dir.join(output);
        let file = OpenOptions::new().append(true).create(true).open(&path).context("open", &path)?;
        let mut command = in_scenario(spawn::command(&self.binary), self.dir);
        command.args(words).stdin(Stdio::null()).stderr(file.try_clone().context("open", &path)?).stdout(file);
        Group::start(command)
            .and_then(|mut group| group.wait(self.limit))
            .context("run", &self.binary)?
            .map(spawn::shell_status)
            .ok_or_else(|| timed_out(self.dir, &format!("holo {}", words.join(" ")), self.limit))
    }
}

/// Has all commands run by one shell, in which what `env.sh` defined stays alive.
pub(super) struct Shell<'a> {
    dir: &'a Path,
    limit: Duration,
    group: Group,
    requests: ChildStdin,
    replies: ChildStdout,
    /// Output outside the commands, by `env.sh` say.
    log: File,
    /// The file that the shell reads.
    script: &'static str,
}

impl<'a> Shell<'a> {
    fn start(dir: &'a Path, binary: &Path, limit: Duration, script: &'static str) -> Result<Self, Error> {
        let log = tempfile::tempfile().context("create a file in", &std::env::temp_dir())?;
        let mut command = in_scenario(spawn::command(BASH), dir);
        let code = if script == STEPS {
            // Steps show exit statuses as they are.
            command.env_remove("HOLO_EXIT_ZERO");
            STEPS_SHELL
        } else {
            SHELL
        };
        command
            .args(["--noprofile", "--norc", "-c", code, BASH])
            .env("HOLO_BINARY", binary)
            .env_remove("BASH_ENV")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.try_clone().context("open", Path::new("the log of env.sh"))?);
        let (group, requests, replies) = Group::start(command)
            .and_then(|mut group| {
                let pipes = group.take_stdin().zip(group.take_stdout());
                let (requests, replies) = pipes.ok_or(ErrorKind::BrokenPipe)?;
                Ok((group, requests, replies))
            })
            .context("run", Path::new(BASH))?;
        let mut shell = Self { dir, limit, group, requests, replies, log, script };
        match shell.reply() {
            Ok(Some(_)) => Ok(shell),
            Ok(None) => Err(shell.ended(script)),
            Err(error) => Err(shell.failed(script, error)),
        }
    }

    fn holo(&mut self, words: &[&str], output: &str) -> Result<i32, Error> {
        let words = words.join(" ");
        self.request(format!("{output} {words}").as_bytes(), &format!("holo {words}"))
    }

    /// Runs the command in a file, and returns its status. Both output streams go to the file beside it, with `.out` at its end.
    fn source(&mut self, file: &Path, command: &BStr) -> Result<i32, Error> {
        self.request(file.as_os_str().as_bytes(), &command.to_string())
    }

    /// Has the shell do what a line says, and returns the status.
    fn request(&mut self, line: &[u8], during: &str) -> Result<i32, Error> {
        let written = self.requests.write_all(&[line, b"\n"].concat());
        let reply = match written {
            Ok(()) => self.reply(),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(None),
            Err(error) => Err(error),
        };
        match reply.map(|reply| reply.and_then(|reply| reply.parse().ok())) {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err(self.ended(during)),
            Err(error) => Err(self.failed(during, error)),
        }
    }

    fn finish(self) -> Result<BString, Error> {
        let Self { dir, limit, mut group, requests, mut log, script, .. } = self;
        // The end of its input is the end of the shell.
        drop(requests);
        group
            .wait(limit)
            .context("run", Path::new(BASH))?
            .ok_or_else(|| timed_out(dir, &format!("the end of {script}"), limit))?;
        Ok(read_log(&mut log))
    }

    /// Reads the next line from the shell. `None` means that it has ended.
    fn reply(&mut self) -> io::Result<Option<String>> {
        let deadline = spawn::deadline(self.limit);
        let mut line = Vec::new();
        loop {
            if !spawn::readable(&self.replies, deadline)? {
                return Err(ErrorKind::TimedOut.into());
            }
            // The shell never says more than the one line it is asked for.
            let mut chunk = [0; 16];
            let count = self.replies.read(&mut chunk)?;
            if count == 0 {
                return Ok(None);
            }
            line.extend_from_slice(&chunk[..count]);
            if let Some(line) = line.strip_suffix(b"\n") {
                return Ok(Some(line.to_str_lossy().into_owned()));
            }
        }
    }

    /// Says how the shell came to its end.
    fn ended(&mut self, during: &str) -> Error {
        match self.group.wait(self.limit) {
            Ok(Some(status)) => Error::ShellEnded {
                dir: self.dir.to_owned(),
                during: during.to_owned(),
                script: self.script,
                status: spawn::shell_status(status),
                output: indented(&read_log(&mut self.log)),
            },
            Ok(None) => self.failed(during, ErrorKind::TimedOut.into()),
            Err(error) => self.failed(during, error),
        }
    }

    fn failed(&self, during: &str, error: io::Error) -> Error {
        if error.kind() == ErrorKind::TimedOut {
            timed_out(self.dir, during, self.limit)
        } else {
            IoError::new("run", Path::new(BASH), error).into()
        }
    }
}

fn timed_out(dir: &Path, during: &str, limit: Duration) -> Error {
    Error::TimedOut { dir: dir.to_owned(), during: during.to_owned(), limit }
}

/// Reads what was printed outside the commands. It only helps a person, so it may be missing.
fn read_log(log: &mut File) -> BString {
    let mut text = Vec::new();
    let _best_effort = log.rewind().and_then(|()| log.read_to_end(&mut text));
    text.into()
}

/// Puts each line of a text on a line of its own below a message.
fn indented(text: &[u8]) -> String {
    text.to_str_lossy().lines().map(|line| format!("\n    {line}")).collect()
}
