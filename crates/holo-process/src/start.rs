//! Starting a program: its path, its identity, and its pipes.

use crate::error::StartError;
use crate::groups::{self, Group};
use crate::identity::Credentials;
use crate::invocation::{EXTRA_FD, OURSELVES, REPORT_FD};
use crate::launcher;
use crate::program::{self, Input, Program, by_shell_if_need_be};
use command_fds::{CommandFdExt, FdMapping};
use holo_protocol::session::Stream;
use os_pipe::PipeReader;
use rustix::fs::MemfdFlags;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A started program, and our ends of its pipes.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) connection: Connection,
    /// The pipe on which the launcher reports why it cannot execute the program.
    pub(crate) report: Option<PipeReader>,
}

/// Our non-blocking ends of a program's pipes.
#[derive(Default)]
pub(crate) struct Connection {
    pub(crate) pipes: Vec<(Channel, File)>,
    /// The files with its output, if the output is read only after its end.
    pub(crate) files: Vec<(Channel, File)>,
    pub(crate) input: Option<File>,
}

/// The processes that receive a program's signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The program alone.
    Process,
    /// Its process group. Processes that have left the group may be daemons, and keep running.
    Group,
    /// All processes that it has started.
    Tree,
}

/// Starts a program.
pub(crate) fn start(program: &Program, reach: Reach) -> Result<Started, StartError> {
    let identity = if program.identity.is_ours() { None } else { Some(program.identity.resolve()?) };
    let path = resolve(program, identity.as_ref())?;
    if identity.is_some() && !groups::is_prepared() {
        return Err(StartError::NotPrepared { program: program.name.display().to_string() });
    }
    // Its time may be spent in other processes than its own.
    let is_supervised =
        reach == Reach::Tree && program.timeout.is_some() && program.finishes.is_none() && groups::is_prepared();
    let started = by_shell_if_need_be(&path, |path, script| match &identity {
        None if !is_supervised => start_as_ourselves(program, path, script),
        _ => launch(&identity.clone().unwrap_or_default(), program, path, script, is_supervised),
    });
    started.map_err(|error| not_started(program, &path, error))
}

/// Starts the program with our own identity; a script is passed before its arguments.
fn start_as_ourselves(program: &Program, path: &Path, script: Option<&Path>) -> io::Result<Started> {
    #[expect(clippy::disallowed_methods, reason = "this crate is the one place that starts programs")]
    let mut command = Command::new(path);
    if script.is_none() {
        command.arg0(own_name(program, path));
    }
    command.args(script).args(&program.arguments);
    if let Some(directory) = &program.directory {
        command.current_dir(directory);
    }
    if program.clears_environment {
        command.env_clear();
    }
    for (name, value) in &program.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if program.leads_group() {
        command.process_group(0);
    }
    let mut descriptors = Vec::new();
    let connection = connect(program, &mut command, &mut descriptors)?;
    if !descriptors.is_empty() {
        command.fd_mappings(descriptors).map_err(io::Error::other)?;
    }
    // The command holds the write ends of the pipes. They do not reach end of file before it is dropped.
    Ok(Started { child: groups::start(&mut command, group(program))?, connection, report: None })
}

/// Like [`start_as_ourselves`], but with other credentials or with a supervisor.
fn launch(
    credentials: &Credentials,
    program: &Program,
    path: &Path,
    script: Option<&Path>,
    is_supervised: bool,
) -> io::Result<Started> {
    #[expect(clippy::disallowed_methods, reason = "this crate is the one place that starts programs")]
    let mut command = Command::new(OURSELVES);
    let is_other_user = credentials.is_other_user();
    // The program may run in another directory.
    let absolute = if is_other_user { std::path::absolute(path)? } else { path.to_owned() };
    command.args(launcher::launch_arguments(credentials, &absolute, own_name(program, path), is_supervised));
    command.args(script).args(&program.arguments);
    let carried = environment(program, credentials).into_iter();
    command.env_clear().envs(carried.map(|(name, value)| (launcher::carried(&name), value)));
    if let Some(directory) = program.directory.as_deref().or(is_other_user.then_some(Path::new("/"))) {
        command.current_dir(directory);
    }
    // The launcher of another user's program creates a session, which the leader of a group cannot do.
    if program.leads_group() && !is_other_user {
        command.process_group(0);
    }
    let mut descriptors = Vec::new();
    let connection = connect(program, &mut command, &mut descriptors)?;
    let (report, write_end) = os_pipe::pipe()?;
    descriptors.push(FdMapping { parent_fd: write_end.into(), child_fd: REPORT_FD });
    command.fd_mappings(descriptors).map_err(io::Error::other)?;
    Ok(Started { child: groups::start(&mut command, group(program))?, connection, report: Some(report) })
}

/// Returns the program's argument zero.
fn own_name<'a>(program: &'a Program, path: &'a Path) -> &'a OsStr {
    if program::is_path(&program.name) { path.as_os_str() } else { &program.name }
}

/// Returns the environment of a program that a launcher starts.
fn environment(program: &Program, credentials: &Credentials) -> BTreeMap<OsString, OsString> {
    let is_other_user = credentials.is_other_user();
    let is_passed_on =
        |(name, _): &(OsString, OsString)| !program.clears_environment && (!is_other_user || is_for_all_users(name));
    let mut environment: BTreeMap<_, _> = std::env::vars_os().filter(is_passed_on).collect();
    environment.extend(is_other_user.then(|| ("PATH".into(), program::SYSTEM_PATH.into())));
    environment.extend(credentials.environment.iter().map(|(name, value)| ((*name).into(), value.clone())));
    for (name, value) in &program.environment {
        match value {
            Some(value) => environment.insert(name.clone(), value.clone()),
            None => environment.remove(name),
        };
    }
    environment
}

/// Returns true if programs of other users inherit this variable. Most variables can make a program execute other code,
/// or disclose our data.
fn is_for_all_users(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name == b"LANG" || name.starts_with(b"LC_") || name.starts_with(b"HOLO_")
}

/// Returns the group in which the program runs.
fn group(program: &Program) -> Group {
    match program.finishes {
        _ if !program.leads_group() => Group::Ours,
        Some(within) => Group::LetFinish { name: program.name.display().to_string(), within },
        None => Group::Own,
    }
}

/// Returns the path of the program, independent of the working directory.
fn resolve(program: &Program, credentials: Option<&Credentials>) -> Result<PathBuf, StartError> {
    if program::is_path(&program.name) {
        let path = Path::new(&program.name);
        return match &program.directory {
            Some(directory) if path.is_relative() => std::path::absolute(directory.join(path))
                .map_err(|source| StartError::Exec { path: path.to_owned(), source }),
            _ => Ok(path.to_owned()),
        };
    }
    let inherited = std::env::var_os("PATH").filter(|_| !credentials.is_some_and(Credentials::is_other_user));
    match program.variable("PATH") {
        Some(given) => program::find(&program.name, Some(given.unwrap_or(OsStr::new("")))),
        None => program::find(&program.name, inherited.as_deref()),
    }
}

/// Returns true if the program does not exist. An existing program may have an interpreter that does not exist.
pub(crate) fn is_missing(program: &Program) -> bool {
    let credentials = program.identity.resolve().ok();
    !resolve(program, credentials.as_ref()).is_ok_and(|path| path.symlink_metadata().is_ok())
}

/// Connects its standard streams, and adds the mappings of additional descriptors.
fn connect(program: &Program, command: &mut Command, descriptors: &mut Vec<FdMapping>) -> io::Result<Connection> {
    let mut ours = Connection::default();
    match &program.stdin {
        Input::Nothing => command.stdin(Stdio::null()),
        Input::File(file) => command.stdin(file.try_clone()?),
        Input::Bytes(_) | Input::Requests => {
            let (read_end, write_end) = os_pipe::pipe()?;
            ours.input = Some(non_blocking(write_end)?);
            command.stdin(read_end)
        }
    };
    command.stdout(ours.output(Channel::Stdout, program.stdout.as_ref(), program)?);
    command.stderr(ours.output(Channel::Stderr, program.stderr.as_ref(), program)?);
    if program.has_extra_pipe {
        let theirs = ours.output(Channel::Extra, None, program)?;
        descriptors.push(FdMapping { parent_fd: theirs, child_fd: EXTRA_FD });
    }
    Ok(ours)
}

impl Connection {
    /// Returns the program's end of a channel, which is a pipe or a file.
    fn output(&mut self, channel: Channel, file: Option<&File>, program: &Program) -> io::Result<OwnedFd> {
        if let Some(file) = file {
            return Ok(file.try_clone()?.into());
        }
        if program.finishes.is_some() {
            let file = File::from(rustix::fs::memfd_create("output", MemfdFlags::CLOEXEC)?);
            let theirs = file.try_clone()?;
            self.files.push((channel, file));
            return Ok(theirs.into());
        }
        let (read_end, write_end) = os_pipe::pipe()?;
        self.pipes.push((channel, non_blocking(read_end)?));
        Ok(write_end.into())
    }
}

fn non_blocking(pipe: impl Into<OwnedFd>) -> io::Result<File> {
    let pipe = pipe.into();
    rustix::io::ioctl_fionbio(&pipe, true)?;
    Ok(File::from(pipe))
}

fn not_started(program: &Program, path: &Path, source: io::Error) -> StartError {
    // The error does not show whether the program or the directory is missing.
    match program.working_directory().read_dir() {
        Err(source) if program.directory.is_some() => {
            StartError::Directory { directory: program.working_directory().to_owned(), source }
        }
        _ => StartError::Exec { path: path.to_owned(), source },
    }
}

/// A pipe to which a program writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// File descriptor 3, for programs with an [extra pipe](crate::Program::extra_pipe).
    Extra,
}

impl Channel {
    /// Returns the corresponding standard stream; `None` for `Extra`.
    pub(crate) fn stream(self) -> Option<Stream> {
        match self {
            Channel::Stdout => Some(Stream::Stdout),
            Channel::Stderr => Some(Stream::Stderr),
            Channel::Extra => None,
        }
    }
}

/// A guard that keeps programs from outliving this process. It must be dropped at the end of `main`.
#[derive(Debug)]
#[must_use = "it is held until the end of main"]
pub struct Prepared(());

/// Prepares a process for starting programs. This must be the first call in `main`.
///
/// - Programs can run under [another identity](crate::Program::identity), and running programs are ended when a signal
///   ends this process. Both require that our own binary is started with internal commands; then this call does not
///   return.
/// - Programs inherit none of the descriptors that this process has inherited.
///
/// A process that handles signals itself should not be prepared, but can call [`end_all`](crate::end_all).
pub fn prepare() -> Prepared {
    launcher::serve_if_asked();
    groups::mark_inherited_descriptors();
    groups::set_prepared();
    Prepared(())
}

impl Drop for Prepared {
    fn drop(&mut self) {
        groups::end_guard();
    }
}
