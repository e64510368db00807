//! A program to be run, described step by step.

use crate::Identity;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Display};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time that a program has to clean up between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// The time that output is waited for after the program has ended and left its pipes to a child of its own.
const LINGER: Duration = Duration::from_millis(500);
/// The number of bytes that [`Program::output`] captures.
const CAPTURE_LIMIT: usize = 64 << 20;

/// A program to be run, once or several times.
///
/// Unless told otherwise it runs in our working directory, with our environment, nothing to read, and without a time limit, in a process
/// group of its own. Shown, it is a command line that a shell would understand.
#[derive(Debug)]
pub struct Program {
    pub(crate) name: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) directory: Option<PathBuf>,
    /// Variables that are set, or removed, in the order of the calls.
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
    pub(crate) capture_limit: usize,
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
    /// Describes a program by its path, or by its name if that has no slash: then it is looked up in [`path`](Self::path).
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
            capture_limit: CAPTURE_LIMIT,
        }
    }

    /// Describes a program by the words of its command line: its name, or path, and its arguments.
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

    /// Sets its working directory. If the program was given by a relative path, that is relative to this directory.
    pub fn current_dir(&mut self, directory: impl Into<PathBuf>) -> &mut Program {
        self.directory = Some(directory.into());
        self
    }

    /// Sets a variable of its environment.
    pub fn env(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Program {
        self.environment.push((name.into(), Some(value.into())));
        self
    }

    /// Sets variables of its environment.
    pub fn envs(
        &mut self,
        variables: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> &mut Program {
        self.environment.extend(variables.into_iter().map(|(name, value)| (name.into(), Some(value.into()))));
        self
    }

    /// Takes a variable out of its environment.
    pub fn env_remove(&mut self, name: impl Into<OsString>) -> &mut Program {
        self.environment.push((name.into(), None));
        self
    }

    /// Gives it nothing of our environment, only what is set for it. It is looked up where we would look, unless it has a
    /// [`path`](Self::path).
    pub fn clear_env(&mut self) -> &mut Program {
        self.clears_environment = true;
        self
    }

    /// Sets the directories in which programs are looked up: this one, and those that it calls. It is the same as setting `PATH`.
    pub fn path(&mut self, path: impl Into<OsString>) -> &mut Program {
        self.env("PATH", path)
    }

    /// Makes it speak as it does without any locale, for a program whose words have to be understood.
    pub fn plain_locale(&mut self) -> &mut Program {
        self.env("LC_ALL", "C").env_remove("LANGUAGE")
    }

    /// Sets what it can read on its standard input.
    pub fn stdin(&mut self, bytes: impl Into<Vec<u8>>) -> &mut Program {
        self.stdin = Input::Bytes(bytes.into());
        self
    }

    /// Sets the file that is its standard input.
    pub fn stdin_file(&mut self, file: File) -> &mut Program {
        self.stdin = Input::File(file);
        self
    }

    /// Sets the file that is its standard output; nothing of it is seen.
    pub fn stdout_file(&mut self, file: File) -> &mut Program {
        self.stdout = Some(file);
        self
    }

    /// Sets the file that is its standard error; nothing of it is seen.
    pub fn stderr_file(&mut self, file: File) -> &mut Program {
        self.stderr = Some(file);
        self
    }

    /// Gives it a pipe as its standard input, for what it is [sent](crate::Process::send) once it runs.
    pub fn requests(&mut self) -> &mut Program {
        self.stdin = Input::Requests;
        self
    }

    /// Gives it a pipe as file descriptor 3, to be [waited for](crate::Process::wait) as its streams.
    pub fn extra_pipe(&mut self) -> &mut Program {
        self.has_extra_pipe = true;
        self
    }

    /// Sets its time limit, if it has one. When that is over everything that it has started is asked to end, and killed after a [grace](Self::grace): its
    /// process group and, in a process that is [prepared](crate::prepare), what has left that or lost its parent.
    pub fn timeout(&mut self, limit: impl Into<Option<Duration>>) -> &mut Program {
        self.timeout = limit.into();
        self
    }

    /// Sets the time that it has to clean up when its time is over: five seconds unless set.
    pub fn grace(&mut self, grace: Duration) -> &mut Program {
        self.grace = grace;
        self
    }

    /// Sets the time that output is waited for after its end if what it left behind holds its pipes open: half a second unless set.
    pub fn linger(&mut self, linger: Duration) -> &mut Program {
        self.linger = linger;
        self
    }

    /// Sets the user, the groups and the umask that it runs with. This needs a process that is [prepared](crate::prepare).
    ///
    /// With a user, `HOME`, `USER`, `LOGNAME` and `SHELL` are that user's unless they are [set](Self::env).
    ///
    /// If the user is not ours, the program leads a session without a terminal. It runs in `/` unless it has a
    /// [directory](Self::current_dir), has the umask 022 unless another one is given, and gets only `PATH`, `LANG`, `LC_*` and `HOLO_*` of our
    /// environment. It has no capabilities, and cannot gain privileges by running set-user-ID programs.
    pub fn identity(&mut self, identity: Identity) -> &mut Program {
        self.identity = identity;
        self
    }

    /// Leaves it in our own process group: a signal to that reaches the program, too. A time limit reaches the program alone. A program that
    /// runs as a [user](Self::identity) still leads a group of its own.
    pub fn in_our_group(&mut self) -> &mut Program {
        self.leads_group = false;
        self
    }

    /// Lets it finish once it has been started: for what must not be cut off. Neither a signal that ends this process nor the
    /// [timeout](Self::timeout) reaches it before this much more time is over; then it is ended as any other program.
    ///
    /// It goes on even if this process is killed. So its output does not go through pipes, which would break, and is handed on at its end.
    pub fn let_finish(&mut self, within: Duration) -> &mut Program {
        self.finishes = Some(within);
        self
    }

    /// Lets it finish, but for this much time at most, what it does while it holds an flock(2) on this file: until then it is asked to end,
    /// but not killed. The file need not exist.
    pub fn uninterrupted_while_locked(&mut self, file: impl Into<PathBuf>, within: Duration) -> &mut Program {
        self.uninterrupted = Some((file.into(), within));
        self
    }

    /// Kills what it has left in its process group when it has ended.
    pub fn leave_nothing(&mut self) -> &mut Program {
        self.leaves_nothing = true;
        self
    }

    /// Returns true if it is [let finish](Self::let_finish).
    #[must_use]
    pub fn is_let_finish(&self) -> bool {
        self.finishes.is_some()
    }

    /// Returns true if it leads a process group of its own.
    pub(crate) fn leads_group(&self) -> bool {
        self.leads_group || self.identity.user.is_some()
    }

    /// The time after which it is ended, if there is one.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.timeout.map(|timeout| timeout.saturating_add(self.finishes.unwrap_or_default()))
    }

    /// Sets the number of bytes that [`output`](Self::output) captures, of both streams together: 64 MiB unless set.
    pub fn capture_limit(&mut self, limit: usize) -> &mut Program {
        self.capture_limit = limit;
        self
    }

    /// The value that a variable will have, if it is set or removed here.
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

/// Returns a word as a shell would have to read it; without quotes where it needs none.
fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_@%+=:,./-".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
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
