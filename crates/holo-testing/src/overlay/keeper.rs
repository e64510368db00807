//! The process that holds a system's namespaces, and ends with the test.

use super::Overlay;
use crate::error::{Context, IoError};
use crate::{binaries, processes};
use holo_process::{Conversation, Deadline, Program, SYSTEM_PATH};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Creates the system in its own mount namespace, so that the kernel cleans up in any case. The arguments are
/// directories to bind read-only. `/tmp` and `/run` are empty, and there is a separate PID namespace, so that processes
/// inside are isolated from those of the machine.
pub(super) const ASSEMBLE: &str = r#"
directory=$1; shift
mount -t tmpfs tmpfs "$directory"
cd "$directory"
mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
mount --rbind /dev root/dev
for empty in tmp run; do mount -t tmpfs -o mode=1777 tmpfs root/$empty; done
chmod 755 root/run
for bound; do
    mkdir -p "root$bound"
    mount --bind "$bound" "root$bound"
    mount -o remount,bind,ro "root$bound"
done
exec unshare --pid --fork --kill-child --root=root sh -ec "$KEEP"
"#;

/// The first process inside. It ends with the test, because its input does, and all other processes inside end with it.
/// The kernel reaps orphans, since SIGCHLD is ignored.
const KEEP: &str = r#"mount -t proc proc /proc; trap '' CHLD; echo ready; exec cat"#;

/// The timeout for a program to become ready.
const READY: Duration = Duration::from_secs(120);

impl Overlay {
    pub(super) fn assemble(directories: &[&Path]) -> Result<Self, IoError> {
        let mut system = Self::keep("unshare", &["--mount", "sh", "-ec", ASSEMBLE, "sh"], ("KEEP", KEEP), directories)?;
        system.inside = child_of(system.keeper_id())?;
        system.namespaces = &["--mount", "--pid"];
        Ok(system)
    }

    /// Starts the process that holds a system, and waits until it is ready. The caller must find the process to enter.
    pub(super) fn keep(
        program: &str,
        arguments: &[&str],
        variable: (&str, &str),
        directories: &[&Path],
    ) -> Result<Self, IoError> {
        let directory = tempfile::tempdir().context("create a directory in", &std::env::temp_dir())?;
        let mut bound = vec![binaries::directory()?];
        bound.extend(directories.iter().map(|directory| directory.to_path_buf()));
        let mut described = processes::program(program);
        described.args(arguments).arg(directory.path()).args(bound);
        described.clear_env().path(SYSTEM_PATH).env("LC_ALL", "C").env(variable.0, variable.1);
        let keeper = begin(&mut described).context("set up an overlay with", Path::new(program))?;
        let (inside, environment, time_limit) = (keeper.id(), Vec::new(), Duration::from_secs(120));
        let keeper = Some(keeper);
        Ok(Self { keeper, inside, namespaces: &[], environment, time_limit, _directory: directory })
    }

    pub(super) fn keeper_id(&self) -> u32 {
        self.keeper.as_ref().map_or(0, Conversation::id)
    }
}

/// Starts a program, and waits until it prints a line to signal that it is ready. Its standard error is shown.
pub(super) fn begin(program: &mut Program) -> io::Result<Conversation> {
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let mut conversation = program.stderr_file(stderr).converse().map_err(processes::io_error)?;
    conversation.line(Deadline::after(READY), &mut |_| {}).map_err(io::Error::other)?;
    Ok(conversation)
}

/// Returns the only child of a process.
fn child_of(process: u32) -> Result<u32, IoError> {
    let path = PathBuf::from(format!("/proc/{process}/task/{process}/children"));
    let children = fs::read_to_string(&path).context("read", &path)?;
    let child = children.split_whitespace().next().and_then(|number| number.parse().ok());
    child.ok_or_else(|| io::Error::other("there is no child")).context("read", &path)
}
