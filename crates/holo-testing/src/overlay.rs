//! Temporary copies of this machine's system, in which tests run real system programs without changing the machine.

mod boot;

pub use boot::NEEDS_TO_BOOT;

use crate::binaries;
use crate::files::{Context, IoError, fail, sure};
use crate::processes::{self, succeeds};
use crate::require::Need;
use crate::run::{Run, capture};
use bstr::BString;
use holo_process::{Conversation, Deadline, Program, SYSTEM_PATH};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

/// Writes stdin to a file.
const PUT: &str = r#"mkdir -p "$(dirname "$1")"; rm -f "$1"; cat >"$1"; chmod "$2" "$1""#;

/// A temporary system with the files of this machine. Changes in it do not affect the machine.
///
/// It is an in-memory layer over the machine's root file system, with its own mount and process namespaces. It uses the
/// machine's network and is not booted, unless it is made by [`booted`](Self::booted). Paths are those inside. Methods
/// panic on errors: they are for tests.
///
/// ```no_run
/// # use holo_testing::Overlay;
/// let system = Overlay::new().plugin("users-groups").resource("users-groups/01.toml", "[[group]]\nname = \"x\"\n");
/// let run = system.holo(&["apply"]);
/// assert!(run.success(), "{run}");
/// assert!(system.sh("getent group x").success());
/// ```
pub struct Overlay {
    /// The process that holds the namespaces; it ends with its input. `None` only while this value is dropped.
    keeper: Option<Conversation>,
    /// The PID of the first process inside, as seen from outside.
    inside: u32,
    /// The arguments with which nsenter enters the namespaces.
    namespaces: &'static [&'static str],
    environment: Vec<(OsString, OsString)>,
    time_limit: Duration,
    /// The mount point in its own namespace.
    _directory: TempDir,
}

/// A process inside that runs in parallel with the test. Dropping it kills it and its child processes.
pub struct Background(Conversation);

impl Default for Overlay {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl Overlay {
    /// Creates a system in which the binaries of this workspace have the same paths as outside.
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// Creates a system in which these directories of the machine are readable, in addition to its root file system.
    #[must_use]
    #[track_caller]
    pub fn with(directories: &[&Path]) -> Self {
        sure(Self::assemble(directories))
    }

    /// Adds an environment variable for all programs that are run.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the timeout for each program. The default is two minutes.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Configures a plugin of this workspace. Other plugins are not configured unless they are added too.
    #[must_use]
    #[track_caller]
    pub fn plugin(self, id: &str) -> Self {
        let binary = binaries::built(&format!("holo-{id}"));
        self.write("/etc/holorc", format!("plugin {id}={}\n", binary.display()));
        self.must(&format!("rm -rf /etc/holorc.d && mkdir -p /usr/share/holo/{id}"));
        self
    }

    /// Adds a resource file with mode 0644 below `/usr/share/holo/`; its path starts with the plugin's ID.
    #[must_use]
    #[track_caller]
    pub fn resource(self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Self {
        self.write(Path::new("/usr/share/holo").join(path), content);
        self
    }

    /// Writes an executable file, replacing an existing file, and creates its parent directories.
    #[track_caller]
    pub fn script(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        self.put(path.as_ref(), content.as_ref(), "755");
    }

    /// Writes a file with mode 0644, replacing an existing file, and creates its parent directories.
    #[track_caller]
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        self.put(path.as_ref(), content.as_ref(), "644");
    }

    // Written by a process inside: from outside, a symlink in the path would lead to the machine's own files.
    #[track_caller]
    fn put(&self, path: &Path, content: &[u8], mode: &str) {
        // Non-standard directories differ between machines, such as the one with this workspace.
        if path.parent() == Some(Path::new("/")) {
            fail(&format!("{} may be anything elsewhere: use a path in /opt, /srv, …", path.display()));
        }
        let mut input = sure(tempfile::tempfile().context("create a file in", &std::env::temp_dir()));
        sure(input.write_all(content).and_then(|()| input.rewind()).context("write", path));
        let arguments = ["-ec".as_ref(), PUT.as_ref(), "sh".as_ref(), path.as_os_str(), mode.as_ref()];
        let mut program = self.program("sh".as_ref(), &arguments);
        let run = self.captured(program.stdin_file(input), Path::new("sh"));
        if !run.success() {
            fail(&format!("cannot write {}: {run}", path.display()));
        }
    }

    /// Returns the content of a file; symlinks are followed.
    #[must_use]
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> BString {
        let run = self.run("cat", &["--".as_ref(), path.as_ref().as_os_str()]);
        if run.success() { run.stdout } else { fail(&run.to_string()) }
    }

    /// Returns true if the path exists, including dangling symlinks.
    #[must_use]
    #[track_caller]
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        let path = path.as_ref().as_os_str();
        self.run("test", &["-e".as_ref(), path, "-o".as_ref(), "-L".as_ref(), path]).success()
    }

    /// Runs the built holo.
    #[must_use]
    #[track_caller]
    pub fn holo(&self, arguments: &[impl AsRef<OsStr>]) -> Run {
        self.run(binaries::built("holo"), arguments)
    }

    /// Runs a program inside, as root, without the caller's environment; `HOLO_ROOT_DIR` is not set.
    ///
    /// # Panics
    ///
    /// If it cannot be started, or exceeds the timeout, in which case it is killed.
    #[must_use]
    #[track_caller]
    pub fn run(&self, program: impl AsRef<OsStr>, arguments: &[impl AsRef<OsStr>]) -> Run {
        self.captured(&mut self.program(program.as_ref(), arguments), Path::new(program.as_ref()))
    }

    /// Runs a shell script inside, which ends at the first command that fails.
    #[must_use]
    #[track_caller]
    pub fn sh(&self, script: &str) -> Run {
        self.run("sh", &["-ec", script])
    }

    /// Runs a shell script inside that must succeed, and returns its output.
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "mostly it is run for what it does")]
    pub fn must(&self, script: &str) -> BString {
        let run = self.sh(script);
        if run.success() { run.stdout } else { fail(&format!("{script}: {run}")) }
    }

    /// Starts a shell script inside, and waits until it prints a line to signal that it is ready.
    #[must_use]
    #[track_caller]
    pub fn background(&self, script: &str) -> Background {
        let mut program = self.program("sh".as_ref(), &["-ec", script]);
        Background(sure(begin(&mut program).context("read from", Path::new(script))))
    }

    #[track_caller]
    fn captured(&self, program: &mut Program, name: &Path) -> Run {
        let (run, ended) = sure(capture(program, name, self.time_limit));
        if !ended {
            fail(&format!("{} was ended after {:?}\n{run}", name.display(), self.time_limit));
        }
        run
    }

    fn program(&self, name: &OsStr, arguments: &[impl AsRef<OsStr>]) -> Program {
        let mut program = processes::program("nsenter");
        program.args(self.namespaces).args(["--root", "--wd", "--target"]).arg(self.inside.to_string());
        program.arg("--").arg(name).args(arguments.iter().map(AsRef::as_ref));
        program.clear_env().path(SYSTEM_PATH).env("LC_ALL", "C").env("HOME", "/root").env("TMPDIR", "/tmp");
        program.envs(self.environment.iter().cloned());
        program
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        // Without input, the first process inside ends. The kernel then kills all others and removes the file systems.
        if let Some(keeper) = self.keeper.take() {
            let _best_effort = keeper.end(Duration::from_secs(10), &mut |_| {});
        }
    }
}

impl Background {
    /// Kills it and its child processes.
    pub fn end(self) {
        drop(self.0);
    }
}

/// The requirements of a test with an overlay, for [`trial`](crate::trial()).
pub const NEEDS: &[Need] =
    &[Need::Root, Need::Program("unshare"), Need::Program("nsenter"), Need::Program("mount"), CAN_BE_MADE];

/// An [`Overlay`] of this machine can be created: not every kernel and container permits that to root.
const CAN_BE_MADE: Need = Need::Trial("an overlay of /", can_be_made);

/// A process can have its own mounts, which is impossible in a chroot whose `/` is not a mount point.
pub const MOUNTS: Need = Need::Trial("mounts of its own", mounts_can_be_made);

/// Tries it once, and caches the result.
fn mounts_can_be_made() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| succeeds("unshare", &["--mount", "true"]))
}

/// Tries it once, and caches the result.
fn can_be_made() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        tempfile::tempdir().is_ok_and(|directory| {
            let assemble = format!("KEEP=:\n{ASSEMBLE}");
            let directory = directory.path().as_os_str();
            let arguments = ["--mount", "sh", "-ec", &assemble, "sh"].map(OsStr::new);
            succeeds("unshare", &[&arguments[..], &[directory]].concat())
        })
    })
}

/// Creates the system in its own mount namespace, so that the kernel cleans up in any case. The arguments are
/// directories to bind read-only. `/tmp` and `/run` are empty, and there is a separate PID namespace, so that processes
/// inside are isolated from those of the machine.
const ASSEMBLE: &str = r#"
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
    fn assemble(directories: &[&Path]) -> Result<Self, IoError> {
        let arguments = ["--mount", "sh", "-ec", ASSEMBLE, "sh"].map(OsStr::new);
        let mut system = Self::keep("unshare", &arguments, ("KEEP", KEEP), &[], directories)?;
        system.inside = child_of(system.keeper_id())?;
        system.namespaces = &["--mount", "--pid"];
        Ok(system)
    }

    /// Starts the process that holds a system, and waits until it is ready. The caller must find the process to enter. After its arguments,
    /// the process gets the mount point, those that describe the system, and directories to bind.
    fn keep(
        program: &str,
        arguments: &[&OsStr],
        variable: (&str, &str),
        system: &[&OsStr],
        directories: &[&Path],
    ) -> Result<Self, IoError> {
        let directory = tempfile::tempdir().context("create a directory in", &std::env::temp_dir())?;
        let mut bound = vec![binaries::directory()?];
        bound.extend(directories.iter().map(|directory| directory.to_path_buf()));
        let mut described = processes::program(program);
        described.args(arguments).arg(directory.path()).args(system).args(bound);
        described.clear_env().path(SYSTEM_PATH).env("LC_ALL", "C").env(variable.0, variable.1);
        let keeper = begin(&mut described).context("set up an overlay with", Path::new(program))?;
        let (inside, environment, time_limit) = (keeper.id(), Vec::new(), Duration::from_secs(120));
        let keeper = Some(keeper);
        Ok(Self { keeper, inside, namespaces: &[], environment, time_limit, _directory: directory })
    }

    fn keeper_id(&self) -> u32 {
        self.keeper.as_ref().map_or(0, Conversation::id)
    }
}

/// Starts a program, and waits until it prints a line to signal that it is ready. Its standard error is shown.
fn begin(program: &mut Program) -> io::Result<Conversation> {
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
