//! This machine's own system, to throw away: tests run real system programs in it, and the machine stays as it is.

mod boot;

pub use boot::NEEDS_TO_BOOT;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use bstr::BString;
use tempfile::TempDir;

use crate::error::{Context, IoError, fail, sure};
use crate::require::Need;
use crate::scratch::capture;
use crate::spawn::{self, Group};
use crate::{Run, binaries};

/// The needs of a test with an overlay, for [`trial`](crate::trial()).
pub const NEEDS: &[Need] =
    &[Need::Root, Need::Program("unshare"), Need::Program("nsenter"), Need::Program("mount"), CAN_BE_MADE];

/// An [`Overlay`] of this machine can be made: not every kernel and container lets root do that.
const CAN_BE_MADE: Need = Need::Trial("an overlay of /", can_be_made);

/// A process can have mounts of its own. In a chroot whose `/` is not a mount point, it cannot.
pub const MOUNTS: Need = Need::Trial("mounts of its own", mounts_can_be_made);

/// The search path for programs inside.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Makes the system in a mount namespace of its own, so that the kernel cleans up whatever happens to the test. What is bound read-only is
/// in the arguments. `/tmp` and `/run` are empty, and processes are numbered anew, so that nothing inside can meet those of the machine.
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

/// The first process inside: it ends with the test, as its input does, and everything else inside with it. What dies there unattended is
/// reaped by the kernel, since the signal is ignored.
const KEEP: &str = r#"mount -t proc proc /proc; trap '' CHLD; echo ready; exec cat"#;

/// Tries it at the first call only.
fn mounts_can_be_made() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| succeeds("unshare", &["--mount", "true"]))
}

/// Tries it at the first call only.
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

fn succeeds(program: &str, arguments: &[impl AsRef<OsStr>]) -> bool {
    let mut command = spawn::command(program);
    command.args(arguments).env_clear().env("PATH", PATH).env("LC_ALL", "C").stdin(Stdio::null());
    capture(command, Path::new(program), Duration::from_secs(20)).is_ok_and(|(run, ended)| ended && run.success())
}

/// Puts stdin into a file.
const PUT: &str = r#"mkdir -p "$(dirname "$1")"; rm -f "$1"; cat >"$1"; chmod "$2" "$1""#;

/// A system to throw away, with the files of this machine. Nothing that is done in it changes the machine.
///
/// It is a layer in memory over the machine's root file system, with namespaces of its own for mounts and processes; the network is the
/// machine's, and nobody has booted it, unless it is made by [`booted`](Self::booted). Paths are as inside. Methods panic when something
/// goes wrong: they are for tests.
///
/// ```no_run
/// # use holo_testing::Overlay;
/// let system = Overlay::new().plugin("users-groups").resource("users-groups/01.toml", "[[group]]\nname = \"x\"\n");
/// let run = system.holo(&["apply"]);
/// assert!(run.success(), "{run}");
/// assert!(system.sh("getent group x").success());
/// ```
pub struct Overlay {
    /// The process that holds the namespaces, and its input, whose end ends it.
    keeper: Group,
    input: Option<ChildStdin>,
    /// The number of the first process inside, as seen from here.
    inside: u32,
    /// The arguments that make nsenter enter it.
    namespaces: &'static [&'static str],
    environment: Vec<(OsString, OsString)>,
    time_limit: Duration,
    /// The mount point, in its own namespace.
    _directory: TempDir,
}

/// A process inside that goes on while the test does something else; dropping it kills it, and what it has started.
pub struct Background(Group);

impl Default for Overlay {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl Overlay {
    /// Makes a system in which the binaries of this workspace are where they are outside.
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// Makes a system in which these directories of the machine can be read too. Otherwise only what is on its root file system can.
    #[must_use]
    #[track_caller]
    pub fn with(directories: &[&Path]) -> Self {
        sure(Self::assemble(directories))
    }

    fn assemble(directories: &[&Path]) -> Result<Self, IoError> {
        let mut system = Self::keep("unshare", &["--mount", "sh", "-ec", ASSEMBLE, "sh"], ("KEEP", KEEP), directories)?;
        system.inside = child_of(system.keeper.id())?;
        system.namespaces = &["--mount", "--pid"];
        Ok(system)
    }

    /// Starts the process that holds a system, and waits until it says that it is ready. Where to get inside is for the caller to find.
    fn keep(program: &str, arguments: &[&str], variable: (&str, &str), directories: &[&Path]) -> Result<Self, IoError> {
        let directory = tempfile::tempdir().context("create a directory in", &std::env::temp_dir())?;
        let mut bound = vec![binaries::directory()?];
        bound.extend(directories.iter().map(|directory| directory.to_path_buf()));
        let mut command = spawn::command(program);
        command.args(arguments).arg(directory.path()).args(bound);
        command.env_clear().env("PATH", PATH).env("LC_ALL", "C").env(variable.0, variable.1);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = Group::start(command).context("run", Path::new(program))?;
        let (input, stdout) = (keeper.take_stdin(), keeper.take_stdout());
        let mut ready = [0; 6];
        let read = stdout.map_or(Ok(()), |mut stdout| stdout.read_exact(&mut ready));
        read.context("set up an overlay with", Path::new(program))?;
        let (inside, environment, time_limit) = (keeper.id(), Vec::new(), Duration::from_secs(120));
        Ok(Self { keeper, input, inside, namespaces: &[], environment, time_limit, _directory: directory })
    }

    /// Adds a variable to the environment of everything that is run.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Ends everything that is run after this time. It is two minutes otherwise.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Configures a plugin of this workspace, and nothing but the plugins that are configured so.
    #[must_use]
    #[track_caller]
    pub fn plugin(self, id: &str) -> Self {
        let binary = binaries::built(&format!("holo-{id}"));
        self.write("/etc/holorc", format!("plugin {id}={}\n", binary.display()));
        self.must(&format!("rm -rf /etc/holorc.d && mkdir -p /usr/share/holo/{id}"));
        self
    }

    /// Adds a resource with mode 0644: a file below `/usr/share/holo/`, its path beginning with the plugin's ID.
    #[must_use]
    #[track_caller]
    pub fn resource(self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Self {
        self.write(Path::new("/usr/share/holo").join(path), content);
        self
    }

    /// Adds an executable file, in place of what may be there, and the directories above it.
    #[track_caller]
    pub fn script(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        self.put(path.as_ref(), content.as_ref(), "755");
    }

    /// Writes a file with mode 0644, in place of what may be there, and the directories above it.
    #[track_caller]
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        self.put(path.as_ref(), content.as_ref(), "644");
    }

    // By a process inside: from here, a symlink on the way would lead to the machine's own files.
    #[track_caller]
    fn put(&self, path: &Path, content: &[u8], mode: &str) {
        // Other directories beside the standard ones differ from machine to machine, up to the one that holds this workspace.
        if path.parent() == Some(Path::new("/")) {
            fail(&format!("{} may be anything elsewhere: use a path in /opt, /srv, …", path.display()));
        }
        let mut input = sure(tempfile::tempfile().context("create a file in", &std::env::temp_dir()));
        sure(input.write_all(content).and_then(|()| input.rewind()).context("write", path));
        let arguments = ["-ec".as_ref(), PUT.as_ref(), "sh".as_ref(), path.as_os_str(), mode.as_ref()];
        let run = self.captured("sh".as_ref(), &arguments, input.into());
        if !run.success() {
            fail(&format!("cannot write {}: {run}", path.display()));
        }
    }

    /// Returns the content of a file, or of what a symlink leads to.
    #[must_use]
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> BString {
        let run = self.run("cat", &["--".as_ref(), path.as_ref().as_os_str()]);
        if run.success() { run.stdout } else { fail(&run.to_string()) }
    }

    /// Returns whether there is something, be it a dangling symlink.
    #[must_use]
    #[track_caller]
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        let path = path.as_ref().as_os_str();
        self.run("test", &["-e".as_ref(), path, "-o".as_ref(), "-L".as_ref(), path]).success()
    }

    /// Runs the holo that was built.
    #[must_use]
    #[track_caller]
    pub fn holo(&self, arguments: &[impl AsRef<OsStr>]) -> Run {
        self.run(binaries::built("holo"), arguments)
    }

    /// Runs a program inside, as root, in an environment of which the caller's is no part; `HOLO_ROOT_DIR` is not set.
    ///
    /// # Panics
    ///
    /// If it cannot be started, or the time limit is over. It is killed then.
    #[must_use]
    #[track_caller]
    pub fn run(&self, program: impl AsRef<OsStr>, arguments: &[impl AsRef<OsStr>]) -> Run {
        self.captured(program.as_ref(), arguments, Stdio::null())
    }

    /// Runs a shell script inside, which ends with the first command that fails.
    #[must_use]
    #[track_caller]
    pub fn sh(&self, script: &str) -> Run {
        self.run("sh", &["-ec", script])
    }

    /// Runs a shell script inside that has to succeed, and returns what it printed.
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "mostly it is run for what it does")]
    pub fn must(&self, script: &str) -> BString {
        let run = self.sh(script);
        if run.success() { run.stdout } else { fail(&format!("{script}: {run}")) }
    }

    /// Starts a shell script inside, and waits until it has printed a line to say that it is ready.
    #[must_use]
    #[track_caller]
    pub fn background(&self, script: &str) -> Background {
        let mut command = self.command("sh".as_ref(), &["-ec", script]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut group = sure(Group::start(command).context("run", Path::new("sh")));
        if let Some(mut stdout) = group.take_stdout() {
            let mut byte = [0];
            while byte != *b"\n" {
                sure(stdout.read_exact(&mut byte).context("read from", Path::new(script)));
            }
        }
        Background(group)
    }

    #[track_caller]
    fn captured(&self, program: &OsStr, arguments: &[impl AsRef<OsStr>], input: Stdio) -> Run {
        let mut command = self.command(program, arguments);
        command.stdin(input);
        let program = Path::new(program);
        let (run, ended) = sure(capture(command, program, self.time_limit));
        if !ended {
            fail(&format!("{} was ended after {:?}\n{run}", program.display(), self.time_limit));
        }
        run
    }

    fn command(&self, program: &OsStr, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = spawn::command("nsenter");
        command.args(self.namespaces).args(["--root", "--wd", "--target"]).arg(self.inside.to_string());
        command.arg("--").arg(program).args(arguments);
        command.env_clear().env("PATH", PATH).env("LC_ALL", "C").env("HOME", "/root").env("TMPDIR", "/tmp");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        // Without input the first process inside ends, and the kernel ends all others and takes the file systems away.
        drop(self.input.take());
        let _best_effort = self.keeper.wait(Duration::from_secs(10));
    }
}

impl Background {
    /// Kills it, with what it has started.
    pub fn end(self) {
        drop(self.0);
    }
}

/// The only child of a process.
fn child_of(process: u32) -> Result<u32, IoError> {
    let path = PathBuf::from(format!("/proc/{process}/task/{process}/children"));
    let children = fs::read_to_string(&path).context("read", &path)?;
    let child = children.split_whitespace().next().and_then(|number| number.parse().ok());
    child.ok_or_else(|| std::io::Error::other("there is no child")).context("read", &path)
}
