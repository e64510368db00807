//! This machine's own system, to throw away: tests run real system programs in it, and the machine stays as it is.

mod boot;
mod keeper;
mod needs;

pub use boot::NEEDS_TO_BOOT;
pub use needs::{MOUNTS, NEEDS};

use std::ffi::{OsStr, OsString};
use std::io::{Seek, Write};
use std::path::Path;
use std::time::Duration;

use bstr::BString;
use holo_process::{Conversation, Program, SYSTEM_PATH};
use tempfile::TempDir;

use crate::error::{Context, fail, sure};
use crate::run::{Run, capture};
use crate::{binaries, spawn};
use keeper::begin;

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
    /// The process that holds the namespaces: the end of its input ends it. Gone only while this is dropped.
    keeper: Option<Conversation>,
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
pub struct Background(Conversation);

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
        let mut program = self.program("sh".as_ref(), &arguments);
        let run = self.captured(program.stdin_file(input), Path::new("sh"));
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
        self.captured(&mut self.program(program.as_ref(), arguments), Path::new(program.as_ref()))
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
        let mut program = spawn::program("nsenter");
        program.args(self.namespaces).args(["--root", "--wd", "--target"]).arg(self.inside.to_string());
        program.arg("--").arg(name).args(arguments.iter().map(AsRef::as_ref));
        program.clear_env().path(SYSTEM_PATH).env("LC_ALL", "C").env("HOME", "/root").env("TMPDIR", "/tmp");
        program.envs(self.environment.iter().cloned());
        program
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        // Without input the first process inside ends, and the kernel ends all others and takes the file systems away.
        if let Some(keeper) = self.keeper.take() {
            let _best_effort = keeper.end(Duration::from_secs(10), &mut |_| {});
        }
    }
}

impl Background {
    /// Kills it, with what it has started.
    pub fn end(self) {
        drop(self.0);
    }
}
