//! The description of a program to be run, how it is found, and how scripts without a `#!` line are run.

use crate::Identity;
use crate::error::StartError;
use crate::meter::MAX_OUTPUT;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Display};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The default time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// The default time to wait for output after a program has exited, if a child of it holds its pipes open.
const LINGER: Duration = Duration::from_millis(500);

/// A program that can be run, once or several times.
///
/// By default, it runs in the current working directory, with our environment, an empty standard input, and no timeout,
/// in a process group of its own. It is displayed as a command line in shell syntax.
#[derive(Debug)]
pub struct Program {
    pub(crate) name: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) directory: Option<PathBuf>,
    /// Variables that are set or removed, in the order of the calls.
    pub(crate) environment: Vec<(OsString, Option<OsString>)>,
    pub(crate) clears_environment: bool,
    pub(crate) stdin: Input,
    pub(crate) stdout: Option<File>,
    pub(crate) stderr: Option<File>,
    pub(crate) has_extra_pipe: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) linger: Duration,
    pub(crate) identity: Identity,
    pub(crate) leads_group: bool,
    pub(crate) finishes: Option<Duration>,
    pub(crate) uninterrupted: Option<(PathBuf, Duration)>,
    pub(crate) leaves_nothing: bool,
    pub(crate) output_limit: u64,
}

/// The standard input of a program.
#[derive(Debug)]
pub(crate) enum Input {
    Nothing,
    Bytes(Vec<u8>),
    File(File),
    /// A pipe that stays open for requests.
    Requests,
}

impl Program {
    /// Creates a program from its path. A name without a slash is searched in [`path`](Self::path).
    pub fn new(name: impl Into<OsString>) -> Program {
        Program {
            name: name.into(),
            arguments: Vec::new(),
            directory: None,
            environment: Vec::new(),
            clears_environment: false,
            stdin: Input::Nothing,
            stdout: None,
            stderr: None,
            has_extra_pipe: false,
            timeout: None,
            grace: GRACE,
            linger: LINGER,
            identity: Identity::default(),
            leads_group: true,
            finishes: None,
            uninterrupted: None,
            leaves_nothing: false,
            output_limit: MAX_OUTPUT,
        }
    }

    /// Creates a program from the words of its command line: its name or path, and its arguments.
    pub fn from_words(words: impl IntoIterator<Item = impl Into<OsString>>) -> Program {
        let mut words = words.into_iter().map(Into::into);
        let mut program = Program::new(words.next().unwrap_or_default());
        program.arguments.extend(words);
        program
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl Into<OsString>) -> &mut Program {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    pub fn args(&mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> &mut Program {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets its working directory. A relative path of the program is relative to this directory.
    pub fn current_dir(&mut self, directory: impl Into<PathBuf>) -> &mut Program {
        self.directory = Some(directory.into());
        self
    }

    /// Sets an environment variable.
    pub fn env(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Program {
        self.environment.push((name.into(), Some(value.into())));
        self
    }

    /// Sets environment variables.
    pub fn envs(
        &mut self,
        variables: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> &mut Program {
        self.environment.extend(variables.into_iter().map(|(name, value)| (name.into(), Some(value.into()))));
        self
    }

    /// Removes an environment variable.
    pub fn env_remove(&mut self, name: impl Into<OsString>) -> &mut Program {
        self.environment.push((name.into(), None));
        self
    }

    /// Clears its environment, except for variables that are set explicitly. The program is still searched in our
    /// `PATH`, unless it has a [`path`](Self::path).
    pub fn clear_env(&mut self) -> &mut Program {
        self.clears_environment = true;
        self
    }

    /// Sets the search path, for this program and for those that it runs. This is equivalent to setting `PATH`.
    pub fn path(&mut self, path: impl Into<OsString>) -> &mut Program {
        self.env("PATH", path)
    }

    /// Sets the C locale, for a program whose output is parsed.
    pub fn plain_locale(&mut self) -> &mut Program {
        self.env("LC_ALL", "C").env_remove("LANGUAGE")
    }

    /// Sets the content of its standard input.
    pub fn stdin(&mut self, bytes: impl Into<Vec<u8>>) -> &mut Program {
        self.stdin = Input::Bytes(bytes.into());
        self
    }

    /// Sets the file for its standard input.
    pub fn stdin_file(&mut self, file: File) -> &mut Program {
        self.stdin = Input::File(file);
        self
    }

    /// Sets the file for its standard output, which is not passed on.
    pub fn stdout_file(&mut self, file: File) -> &mut Program {
        self.stdout = Some(file);
        self
    }

    /// Sets the file for its standard error, which is not passed on.
    pub fn stderr_file(&mut self, file: File) -> &mut Program {
        self.stderr = Some(file);
        self
    }

    /// Connects its standard input to a pipe, for [`send`](crate::Process::send) while it is running.
    pub fn requests(&mut self) -> &mut Program {
        self.stdin = Input::Requests;
        self
    }

    /// Connects its file descriptor 3 to a pipe, which is [read](crate::Process::wait) like its output streams.
    pub fn extra_pipe(&mut self) -> &mut Program {
        self.has_extra_pipe = true;
        self
    }

    /// Sets its timeout; `None` means no limit. After the timeout, all processes that it has started receive SIGTERM,
    /// and SIGKILL after the [grace period](Self::grace): its process group and, if this process is
    /// [prepared](crate::prepare), processes that have left the group or lost their parent.
    pub fn timeout(&mut self, limit: impl Into<Option<Duration>>) -> &mut Program {
        self.timeout = limit.into();
        self
    }

    /// Sets the time between SIGTERM and SIGKILL; 5 seconds by default.
    pub fn grace(&mut self, grace: Duration) -> &mut Program {
        self.grace = grace;
        self
    }

    /// Sets the time to wait for output after its exit if another process holds its pipes open; half a second by
    /// default.
    pub fn linger(&mut self, linger: Duration) -> &mut Program {
        self.linger = linger;
        self
    }

    /// Sets its user, groups and umask. This process must be [prepared](crate::prepare).
    ///
    /// With a user, `HOME`, `USER`, `LOGNAME` and `SHELL` are those of the user unless they are [set](Self::env).
    ///
    /// If it is not our user, the program leads a session without a terminal or keys. It runs in `/` unless it has a
    /// [directory](Self::current_dir), with the umask 022 unless another one is given. Of our environment, it only
    /// receives `LANG`, `LC_*` and `HOLO_*`; `PATH` is [`SYSTEM_PATH`] unless it has a [path](Self::path). It has no
    /// capabilities, and cannot gain privileges by running set-user-ID programs.
    pub fn identity(&mut self, identity: Identity) -> &mut Program {
        self.identity = identity;
        self
    }

    /// Runs it in our own process group, whose signals it receives. A timeout only ends the program itself. A program
    /// with a [user](Self::identity) leads a group of its own nevertheless.
    pub fn in_our_group(&mut self) -> &mut Program {
        self.leads_group = false;
        self
    }

    /// Allows it to finish after it was started, for operations that must not be interrupted. Signals that end this
    /// process and the [timeout](Self::timeout) do not reach it until this additional time has expired; then it is
    /// terminated like any other program.
    ///
    /// It continues even if this process is killed. Therefore its output is not sent through pipes, which would break,
    /// and is passed on after its end; of a long output, the first 16 MiB and the last 1 MiB.
    pub fn let_finish(&mut self, within: Duration) -> &mut Program {
        self.finishes = Some(within);
        self
    }

    /// Does not kill it while it holds an flock(2) on this file, for at most this time; it only receives SIGTERM until
    /// then. The file need not exist.
    pub fn uninterrupted_while_locked(&mut self, file: impl Into<PathBuf>, within: Duration) -> &mut Program {
        self.uninterrupted = Some((file.into(), within));
        self
    }

    /// Kills the remaining processes of its group when it has ended.
    pub fn leave_nothing(&mut self) -> &mut Program {
        self.leaves_nothing = true;
        self
    }

    /// Returns true if it is [allowed to finish](Self::let_finish).
    #[must_use]
    pub fn is_let_finish(&self) -> bool {
        self.finishes.is_some()
    }

    /// Returns true if it leads a process group of its own.
    pub(crate) fn leads_group(&self) -> bool {
        self.leads_group || self.identity.user.is_some()
    }

    /// Returns the time after which it is terminated, if any.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.timeout.map(|timeout| timeout.saturating_add(self.finishes.unwrap_or_default()))
    }

    /// Sets the maximum number of bytes that it may write to both streams together if it is [run](Self::run) to its
    /// end; 64 MiB by default. A program that writes more is killed.
    pub fn output_limit(&mut self, limit: u64) -> &mut Program {
        self.output_limit = limit;
        self
    }

    /// Returns the value that is set for a variable; `Some(None)` if it is removed.
    pub(crate) fn variable(&self, name: &str) -> Option<Option<&OsStr>> {
        self.environment.iter().rev().find(|(set, _)| set == name).map(|(_, value)| value.as_deref())
    }

    pub(crate) fn working_directory(&self) -> &Path {
        self.directory.as_deref().unwrap_or(Path::new("."))
    }
}

impl Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", quoted(&self.name))?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", quoted(argument)))
    }
}

/// Returns a word in shell syntax, with quotes only if they are needed.
fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_@%+=:,./-".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The default search path for programs, in the format of `PATH`.
pub const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns true if a name is a path, which is not searched.
pub(crate) fn is_path(name: &OsStr) -> bool {
    name.as_bytes().contains(&b'/')
}

/// Finds a program by name. Relative directories are skipped, because the result must not depend on the working
/// directory.
pub(crate) fn find(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, StartError> {
    let path = path.unwrap_or(OsStr::new(SYSTEM_PATH));
    let mut not_executable = None;
    for directory in std::env::split_paths(path).filter(|directory| directory.is_absolute() && !name.is_empty()) {
        let candidate = directory.join(name);
        if is_executable(&candidate) {
            return Ok(candidate);
        }
        if candidate.is_file() {
            not_executable = Some(candidate);
        }
    }
    let name = name.display().to_string();
    Err(match not_executable {
        Some(path) => StartError::NotExecutable { name, path },
        None => StartError::NotInPath { name },
    })
}

fn is_executable(candidate: &Path) -> bool {
    candidate.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

const SHELL: &str = "/bin/sh";

/// Starts a program like execvp(3): if the kernel does not recognize its format, it is run by `/bin/sh`.
///
/// `start` receives the path to execute and, for the shell, the script to pass before the arguments.
///
/// # Errors
/// Those of `start`.
pub(crate) fn by_shell_if_need_be<T>(
    path: &Path,
    mut start: impl FnMut(&Path, Option<&Path>) -> io::Result<T>,
) -> io::Result<T> {
    match start(path, None) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOEXEC) => start(Path::new(SHELL), Some(path)),
        started => started,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_shown_as_a_shell_would_read_it() {
        let shown = |words: &[&str]| Program::from_words(words).to_string();
        assert_eq!(shown(&["useradd", "--comment", "Jo Doe", "jo"]), "useradd --comment 'Jo Doe' jo");
        assert_eq!(shown(&["x", "", "it's", "$HOME"]), r"x '' 'it'\''s' '$HOME'");
        assert_eq!(shown(&["/bin/a_b", "a@b%c+d=e:f,g./h-i", "ä"]), "/bin/a_b a@b%c+d=e:f,g./h-i 'ä'");
    }
}

#[cfg(test)]
mod lookup_tests {
    use super::*;
    use std::fs;

    #[test]
    fn finds_the_first_that_can_be_run() {
        let scratch = tempfile::tempdir().unwrap();
        let place = |directory: &str, mode: u32| {
            let path = scratch.path().join(directory).join("tool");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let (plain, first) = (place("plain", 0o644), place("first", 0o755));
        place("second", 0o755);
        fs::create_dir_all(scratch.path().join("folder/tool")).unwrap();
        let list = |names: &[&str]| std::env::join_paths(names.iter().map(|name| scratch.path().join(name))).unwrap();
        let found = |path: &OsStr| find(OsStr::new("tool"), Some(path));
        assert_eq!(found(&list(&["no-such", "folder", "plain", "first", "second"])).unwrap(), first);
        let refused = found(&list(&["folder", "plain"])).unwrap_err().to_string();
        assert_eq!(refused, format!("exec: \"tool\": {}: permission denied", plain.display()));
        let missing = found(&list(&["folder"])).unwrap_err().to_string();
        assert_eq!(missing, "exec: \"tool\": executable file not found in $PATH");
    }

    #[test]
    fn what_is_here_is_found_nowhere() {
        let here = std::env::current_dir().unwrap();
        assert!(here.join("Cargo.toml").exists());
        for path in ["", ".", ":", "../holo-process"] {
            let found = find(OsStr::new("Cargo.toml"), Some(OsStr::new(path)));
            assert!(matches!(found, Err(StartError::NotInPath { .. })), "{found:?}");
        }
        assert!(find(OsStr::new(""), None).is_err());
        assert!(find(OsStr::new("sh"), None).is_ok());
    }
}
