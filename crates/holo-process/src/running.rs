//! A program that runs: what it says, when its time is over, and its end.

use crate::ended::{Ended, Output, Status, Tail};
use crate::groups::{self, Group};
use crate::identity::Credentials;
use crate::invocation::{OURSELVES, REPORT_FD};
use crate::launcher;
use crate::lookup;
use crate::program::{Input, Program, Stream};
use crate::shell::by_shell_if_need_be;
use crate::tree::signal_all_of;
use crate::{Error, words};
use command_fds::{CommandFdExt, FdMapping};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, waitid};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeReader, Read, Seek, Write};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CHUNK_SIZE: usize = 1 << 16;
/// The most that a pipe can hold when its program ends.
const MAX_PIPE_SIZE: usize = 1 << 20;
/// The interval at which the end is looked for on kernels that do not tell.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Program {
    /// Runs it to its end, and hands on what it says as it comes.
    ///
    /// # Errors
    /// If it cannot be started. That it failed is no error here: [`Ended::failure`] tells.
    pub fn run(&self, mut seen: impl FnMut(Stream, &[u8])) -> Result<Ended, Error> {
        let ended = run(self, &mut |stream, bytes| {
            seen(stream, bytes);
            ControlFlow::Continue(())
        })?;
        ended.ok_or_else(|| Error::Lost { program: self.to_string(), reason: "it vanished".to_owned() })
    }

    /// Runs it to its end, and captures what it says.
    ///
    /// # Errors
    /// If it cannot be started, or says more than [the limit](Self::capture_limit).
    pub fn output(&self) -> Result<Output, Error> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut left = self.capture_limit;
        let ended = run(self, &mut |stream, bytes| {
            let Some(rest) = left.checked_sub(bytes.len()) else { return ControlFlow::Break(()) };
            left = rest;
            match stream {
                Stream::Stdout => stdout.extend_from_slice(bytes),
                Stream::Stderr => stderr.extend_from_slice(bytes),
            }
            ControlFlow::Continue(())
        })?;
        let too_much = || Error::TooMuchOutput { program: self.name.display().to_string(), limit: self.capture_limit };
        Ok(Output { ended: ended.ok_or_else(too_much)?, stdout, stderr })
    }
}

/// Runs a program to its end; nothing if what sees its output has broken off.
fn run(program: &Program, seen: &mut dyn FnMut(Stream, &[u8]) -> ControlFlow<()>) -> Result<Option<Ended>, Error> {
    let mut running = Running::start(program)
        .map_err(|reason| if is_missing(program) { Error::NotFound(reason) } else { Error::NotStarted(reason) })?;
    let mut phase = Phase::Working;
    let mut timed_out = None;
    let mut deadline = program.limit().and_then(after);
    let mut read_since_end = 0;
    loop {
        running.wait(deadline).map_err(|error| running.lost(program, &error))?;
        let Ok(length) = running.exchange(seen) else { return Ok(None) };
        let is_over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let is_closed = running.pipes.is_empty();
        match phase {
            Phase::Working | Phase::Ending if running.has_ended && is_closed => break,
            Phase::Working if running.has_ended => {
                phase = Phase::Leaving;
                deadline = after(program.linger);
            }
            Phase::Working if is_over => {
                timed_out = program.limit();
                running.signal(Signal::TERM);
                phase = Phase::Ending;
                deadline = after(program.grace);
            }
            Phase::Ending if is_over => break,
            Phase::Leaving if is_closed => break,
            Phase::Leaving if is_over && (length == 0 || read_since_end >= MAX_PIPE_SIZE) => break,
            Phase::Leaving => read_since_end += length,
            Phase::Working | Phase::Ending => {}
        }
    }
    if timed_out.is_some() {
        running.signal(Signal::KILL);
        let _ = running.exchange(seen);
    }
    if running.read_files(seen).is_err() {
        return Ok(None);
    }
    let held_open = !running.pipes.is_empty();
    let tail = std::mem::take(&mut running.tail).into_bytes();
    let status = running.finish(program.grace).map_err(|error| running.lost(program, &error))?;
    Ok(Some(Ended { status, timed_out, held_open, tail }))
}

#[derive(Clone, Copy)]
enum Phase {
    Working,
    /// Its time is over, and it has been told so.
    Ending,
    /// It has ended; what it said may still be on its way.
    Leaving,
}

fn after(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}

/// Killed when it is dropped before its end.
struct Running {
    child: Child,
    pid: Pid,
    /// Becomes readable when the child ends; kernels before 5.3 have none.
    exit: Option<OwnedFd>,
    leads_group: bool,
    has_ended: bool,
    is_finished: bool,
    pipes: Vec<(Stream, File)>,
    /// Its output where that is read at its end.
    files: Vec<(Stream, File)>,
    /// Its input that it has not read yet.
    input: Option<(File, Vec<u8>)>,
    tail: Tail,
    buffer: Vec<u8>,
}

impl Running {
    fn start(program: &Program) -> Result<Running, String> {
        let path = resolve(program)?;
        let identity = if program.identity.is_ours() { None } else { Some(program.identity.resolve()?) };
        if identity.is_some() && !groups::is_prepared() {
            return Err(format!("{}: this process cannot run programs as someone else", program.name.display()));
        }
        // It may take its time in other processes than its own.
        let is_supervised =
            program.leads_group && program.timeout.is_some() && program.finishes.is_none() && groups::is_prepared();
        let failed = |error: io::Error| not_started(program, &path, &error);
        let started = by_shell_if_need_be(&path, |path, script| match &identity {
            None if !is_supervised => start(program, path, script),
            _ => launch(&identity.clone().unwrap_or_default(), program, path, script, is_supervised),
        });
        let Started { child, connection, report } = started.map_err(failed)?;
        let Connection { pipes, files, input } = connection;
        let pid = Pid::from_child(&child);
        let mut running = Running {
            pid,
            child,
            exit: pidfd_open(pid, PidfdFlags::empty()).ok(),
            leads_group: program.leads_group,
            has_ended: false,
            is_finished: false,
            pipes,
            files,
            input,
            tail: Tail::default(),
            buffer: vec![0; CHUNK_SIZE],
        };
        if let Some(mut report) = report {
            let mut reason = String::new();
            // It comes to its end when the launcher has become the program.
            let read = report.read_to_string(&mut reason);
            if read.is_err() || !reason.is_empty() {
                let _ = running.finish(program.grace);
                return Err(reason);
            }
        }
        Ok(running)
    }

    /// Waits until there is something to do.
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        let mut left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let mut fds: Vec<PollFd<'_>> = Vec::new();
        if let Some(exit) = self.exit.as_ref().filter(|_| !self.has_ended) {
            fds.push(PollFd::new(exit, PollFlags::IN));
        } else if !self.has_ended {
            left = Some(left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN)));
        }
        fds.extend(self.pipes.iter().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)));
        fds.extend(self.input.iter().map(|(pipe, _)| PollFd::new(pipe, PollFlags::OUT)));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if !self.has_ended {
            // It is not waited for yet: its number must stay its own until its group is done with.
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            self.has_ended = waitid(WaitId::Pid(self.pid), look)?.is_some();
        }
        Ok(())
    }

    /// Takes what it has said and gives it what it can read, both only as far as that goes at once; how much it has said.
    fn exchange(&mut self, seen: &mut dyn FnMut(Stream, &[u8]) -> ControlFlow<()>) -> Result<usize, Unwanted> {
        let Running { pipes, input, tail, buffer, .. } = self;
        let (mut total, mut is_unwanted) = (0, false);
        pipes.retain_mut(|(stream, pipe)| match pipe.read(buffer) {
            Ok(0) => false,
            Ok(length) => {
                let bytes = buffer.get(..length).unwrap_or_default();
                total += length;
                tail.push(bytes);
                is_unwanted |= seen(*stream, bytes).is_break();
                true
            }
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        });
        if let Some((pipe, left)) = input {
            match pipe.write(left) {
                Ok(length) => drop(left.drain(..length)),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                // It does not want to read it.
                Err(_) => left.clear(),
            }
            if left.is_empty() {
                *input = None;
            }
        }
        if is_unwanted { Err(Unwanted) } else { Ok(total) }
    }

    /// Hands on what it has said into files.
    fn read_files(&mut self, seen: &mut dyn FnMut(Stream, &[u8]) -> ControlFlow<()>) -> Result<(), Unwanted> {
        let Running { files, tail, buffer, .. } = self;
        for (stream, file) in files {
            // Output that cannot be read back counts as none.
            let mut is_readable = file.rewind().is_ok();
            while is_readable {
                let length = file.read(buffer).unwrap_or_default();
                let bytes = buffer.get(..length).unwrap_or_default();
                is_readable = length > 0;
                tail.push(bytes);
                if is_readable && seen(*stream, bytes).is_break() {
                    return Err(Unwanted);
                }
            }
        }
        Ok(())
    }

    /// Sends a signal to everything that belongs to it. What is gone already needs none.
    fn signal(&self, signal: Signal) {
        if self.leads_group {
            signal_all_of(self.pid, signal);
        } else {
            let _ = kill_process(self.pid, signal);
        }
    }

    /// Waits for it after it has ended, or was killed.
    fn finish(&mut self, limit: Duration) -> io::Result<Status> {
        self.is_finished = true;
        self.pipes.clear();
        self.input = None;
        let deadline = after(limit);
        while !self.has_ended && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            self.wait(deadline)?;
        }
        groups::end(&self.child);
        if self.has_ended {
            return Ok(self.child.wait()?.into());
        }
        // Something in the system holds it, and would hold us.
        Ok(Status::Signaled { signal: Signal::KILL.as_raw(), core_dumped: false })
    }

    fn lost(&self, program: &Program, error: &io::Error) -> Error {
        Error::Lost { program: program.name.display().to_string(), reason: words::reason(error) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_finished {
            self.signal(Signal::KILL);
            let _ = self.finish(Duration::from_secs(1));
        }
    }
}

/// Its output is not to be seen any more.
struct Unwanted;

/// A program that has been started, and our ends of what connects us.
struct Started {
    child: Child,
    connection: Connection,
    /// The pipe on which the launcher says what keeps it from becoming the program.
    report: Option<PipeReader>,
}

/// Starts the program at the path as who we are, with the script before its arguments if there is one.
fn start(program: &Program, path: &Path, script: Option<&Path>) -> io::Result<Started> {
    #[expect(clippy::disallowed_methods, reason = "this crate is the one place that starts programs")]
    let mut command = Command::new(path);
    if script.is_none() {
        command.arg0(own_name(program, path));
    }
    command.args(script);
    set_up(program, &[], &mut command);
    let connection = connect(program, &mut command)?;
    // The command holds the write ends of the pipes: while it lives, they never come to their ends.
    Ok(Started { child: groups::start(&mut command, group(program))?, connection, report: None })
}

/// The same as someone else, or with a supervisor.
fn launch(
    credentials: &Credentials,
    program: &Program,
    path: &Path,
    script: Option<&Path>,
    is_supervised: bool,
) -> io::Result<Started> {
    #[expect(clippy::disallowed_methods, reason = "this crate is the one place that starts programs")]
    let mut command = Command::new(OURSELVES);
    command.args(launcher::launch_arguments(credentials, path, own_name(program, path), is_supervised)).args(script);
    set_up(program, &credentials.environment, &mut command);
    let connection = connect(program, &mut command)?;
    let report = Some(report_pipe(&mut command)?);
    Ok(Started { child: groups::start(&mut command, group(program))?, connection, report })
}

/// Returns the program's argument zero.
fn own_name<'a>(program: &'a Program, path: &'a Path) -> &'a OsStr {
    if lookup::is_path(&program.name) { path.as_os_str() } else { &program.name }
}

/// Gives it its arguments, directory and environment, in which this is a user's.
fn set_up(program: &Program, of_user: &[(&'static str, OsString)], command: &mut Command) {
    command.args(&program.arguments);
    if let Some(directory) = &program.directory {
        command.current_dir(directory);
    }
    if program.clears_environment {
        command.env_clear();
    }
    command.envs(of_user.iter().cloned());
    for (name, value) in &program.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

/// The group in which the program is to run.
fn group(program: &Program) -> Group {
    match program.finishes {
        _ if !program.leads_group => Group::Ours,
        Some(within) => Group::LetFinish { name: program.name.display().to_string(), within },
        None => Group::Own,
    }
}

/// The path of the program, so that it does not depend on where it is started.
fn resolve(program: &Program) -> Result<PathBuf, String> {
    if lookup::is_path(&program.name) {
        let path = Path::new(&program.name);
        return match &program.directory {
            Some(directory) if path.is_relative() => std::path::absolute(directory.join(path))
                .map_err(|error| format!("fork/exec {}: {}", path.display(), words::reason(&error))),
            _ => Ok(path.to_owned()),
        };
    }
    let ours = std::env::var_os("PATH");
    match program.variable("PATH") {
        Some(given) => lookup::find(&program.name, Some(given.unwrap_or(OsStr::new("")))),
        None => lookup::find(&program.name, ours.as_deref()),
    }
}

/// Returns true if there is no such program; one that exists may need an interpreter that does not.
fn is_missing(program: &Program) -> bool {
    !resolve(program).is_ok_and(|path| path.symlink_metadata().is_ok())
}

/// The ends of a program's standard streams that are ours.
#[derive(Default)]
struct Connection {
    pipes: Vec<(Stream, File)>,
    files: Vec<(Stream, File)>,
    input: Option<(File, Vec<u8>)>,
}

/// Connects its standard streams.
fn connect(program: &Program, command: &mut Command) -> io::Result<Connection> {
    let mut ours = Connection::default();
    match &program.stdin {
        Input::Nothing => command.stdin(Stdio::null()),
        Input::File(file) => command.stdin(file.try_clone()?),
        Input::Bytes(bytes) => {
            let (read_end, write_end) = io::pipe()?;
            rustix::io::ioctl_fionbio(&write_end, true)?;
            ours.input = Some((File::from(OwnedFd::from(write_end)), bytes.clone()));
            command.stdin(read_end)
        }
    };
    match &program.stdout {
        Some(file) => command.stdout(file.try_clone()?),
        None => command.stdout(ours.stream(Stream::Stdout, program)?),
    };
    command.stderr(ours.stream(Stream::Stderr, program)?);
    Ok(ours)
}

impl Connection {
    /// Its end of a stream whose other end is ours.
    fn stream(&mut self, stream: Stream, program: &Program) -> io::Result<Stdio> {
        if program.finishes.is_some() {
            let file = File::from(rustix::fs::memfd_create("output", MemfdFlags::CLOEXEC)?);
            let theirs = file.try_clone()?;
            self.files.push((stream, file));
            return Ok(theirs.into());
        }
        let (read_end, write_end) = io::pipe()?;
        self.pipes.push((stream, non_blocking(read_end)?));
        Ok(write_end.into())
    }
}

fn non_blocking(pipe: PipeReader) -> io::Result<File> {
    rustix::io::ioctl_fionbio(&pipe, true)?;
    Ok(File::from(OwnedFd::from(pipe)))
}

/// The pipe through which the launcher says what keeps it from becoming the program.
fn report_pipe(command: &mut Command) -> io::Result<PipeReader> {
    let (report, write_end) = io::pipe()?;
    let mapping = FdMapping { parent_fd: write_end.into(), child_fd: REPORT_FD };
    command.fd_mappings(vec![mapping]).map_err(io::Error::other)?;
    Ok(report)
}

fn not_started(program: &Program, path: &Path, error: &io::Error) -> String {
    // The system does not say whether it is the program or the directory that is not there.
    match program.working_directory().read_dir() {
        Err(error) if program.directory.is_some() => {
            format!("chdir {}: {}", program.working_directory().display(), words::reason(&error))
        }
        _ => format!("fork/exec {}: {}", path.display(), words::reason(error)),
    }
}
