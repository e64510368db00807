//! A root to throw away, for tests in Rust.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use bstr::{BString, ByteSlice};
use holo_process::{Program, Status};
use rustix::fs::StatVfsMountFlags;
use tempfile::TempDir;

use crate::error::{Context, IoError, fail, sure};
use crate::spawn;
use crate::{binaries, files, signals, tree};

/// The directory of Linux's file system in memory that everybody may write to.
const MEMORY: &str = "/dev/shm";
/// The number of bytes that have to be free there.
const ROOM: u64 = 256 << 20;

/// A temporary root, removed when dropped.
///
/// It starts with `etc/`, `run/`, `tmp/`, `usr/share/holo/` and `var/lib/holo/`. All methods take
/// paths relative to it and panic when something goes wrong: they are for tests.
///
/// ```no_run
/// # use holo_testing::ScratchRoot;
/// let root = ScratchRoot::new()
///     .plugin("files")
///     .file("etc/motd", "stock\n")
///     .resource("files/01-x/etc/motd", "ours\n");
/// let run = root.holo(&["apply"]);
/// assert!(run.success(), "{run}");
/// assert_eq!(root.read("etc/motd"), "ours\n");
/// ```
#[derive(Debug)]
pub struct ScratchRoot {
    dir: TempDir,
    binary: Option<PathBuf>,
    environment: Vec<(OsString, OsString)>,
    time_limit: Duration,
}

/// A program that has run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The exit status, unless it died of a signal.
    pub status: Option<i32>,
    /// The signal it died of.
    pub signal: Option<i32>,
    /// Its output on stdout.
    pub stdout: BString,
    /// Its output on stderr.
    pub stderr: BString,
}

impl Run {
    /// Returns whether it ended with status 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.status == Some(0)
    }

    /// Returns its stdout as text; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn stdout_lossy(&self) -> Cow<'_, str> {
        self.stdout.to_str_lossy()
    }

    /// Returns its stderr as text; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn stderr_lossy(&self) -> Cow<'_, str> {
        self.stderr.to_str_lossy()
    }
}

impl fmt::Display for Run {
    /// Shows all of it, for the message of a failed assertion.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status, self.signal) {
            (Some(status), _) => writeln!(f, "exit status {status}")?,
            (None, Some(signal)) => writeln!(f, "signal {signal}")?,
            (None, None) => writeln!(f, "no status")?,
        }
        write!(f, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr)
    }
}

impl Default for ScratchRoot {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl ScratchRoot {
    /// Makes a root with the usual directories.
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        Self::made_in(&std::env::temp_dir())
    }

    /// Makes a root in memory, where the machine has room for that: for tests that make thousands of roots, and would wait for the disk.
    #[must_use]
    #[track_caller]
    pub fn in_memory() -> Self {
        if has_room(Path::new(MEMORY)) { Self::made_in(Path::new(MEMORY)) } else { Self::new() }
    }

    #[track_caller]
    fn made_in(folder: &Path) -> Self {
        // The tested program may be started by other means than ours.
        signals::reset();
        let dir = sure(tempfile::tempdir_in(folder).context("create a directory in", folder));
        sure(files::set_mode(dir.path(), 0o755));
        for usual in ["etc", "run", "tmp", "usr/share/holo", "var/lib/holo"] {
            sure(files::make_dirs(dir.path(), Path::new(usual)));
        }
        Self { dir, binary: None, environment: Vec::new(), time_limit: Duration::from_secs(60) }
    }

    /// Has [`holo`](Self::holo) run this binary instead of the one that was built.
    #[must_use]
    pub fn binary(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = Some(binary.into());
        self
    }

    /// Adds a variable to the environment of everything that is run.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Ends everything that is run after this time. It is a minute otherwise.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Adds a file with mode 0644.
    #[must_use]
    #[track_caller]
    pub fn file(self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Self {
        self.write(path, content);
        self
    }

    /// Adds an executable file, mode 0755.
    #[must_use]
    #[track_caller]
    pub fn script(self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Self {
        self.write_script(path, content);
        self
    }

    /// Sets the mode of what is there.
    #[must_use]
    #[track_caller]
    pub fn mode(self, path: impl AsRef<Path>, mode: u32) -> Self {
        sure(files::set_mode(&self.join(path), mode));
        self
    }

    /// Adds a symlink. Its target is not looked at.
    #[must_use]
    #[track_caller]
    pub fn symlink(self, path: impl AsRef<Path>, target: impl AsRef<Path>) -> Self {
        let full = self.join(&path);
        sure(self.make_parent(path.as_ref()));
        sure(symlink(target, &full).context("create", &full));
        self
    }

    /// Adds a directory with its missing parents, mode 0755.
    #[must_use]
    #[track_caller]
    pub fn dir(self, path: impl AsRef<Path>) -> Self {
        sure(files::make_dirs(self.path(), path.as_ref()));
        self
    }

    /// Makes the text the content of `etc/holorc`.
    #[must_use]
    #[track_caller]
    pub fn holorc(self, text: impl AsRef<[u8]>) -> Self {
        self.file("etc/holorc", text)
    }

    /// Configures a plugin of this workspace: adds a line to `etc/holorc` that names the binary that
    /// was built, and makes its resource directory.
    #[must_use]
    #[track_caller]
    pub fn plugin(self, id: &str) -> Self {
        let mut holorc = if self.exists("etc/holorc") { self.read("etc/holorc") } else { BString::default() };
        let binary = binaries::built(&format!("holo-{id}"));
        holorc.extend_from_slice(format!("plugin {id}={}\n", binary.display()).as_bytes());
        self.holorc(holorc).dir(format!("usr/share/holo/{id}"))
    }

    /// Adds a resource with mode 0644: a file below `usr/share/holo/`, its path beginning with the
    /// plugin's ID.
    #[must_use]
    #[track_caller]
    pub fn resource(self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Self {
        self.file(Path::new("usr/share/holo").join(path), content)
    }

    /// Writes a file with mode 0644 in the course of a test, in place of what may be there.
    #[track_caller]
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        sure(self.put(path.as_ref(), content.as_ref(), 0o644));
    }

    /// Writes an executable file, mode 0755, in the course of a test, in place of what may be there.
    #[track_caller]
    pub fn write_script(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        sure(self.put(path.as_ref(), content.as_ref(), 0o755));
    }

    /// Returns the content of a file, or of what a symlink leads to.
    #[must_use]
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> BString {
        let path = self.join(path);
        sure(fs::read(&path).context("read", &path)).into()
    }

    /// Returns whether there is something, be it a dangling symlink.
    #[must_use]
    #[track_caller]
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        fs::symlink_metadata(self.join(path)).is_ok()
    }

    /// Returns the tree below the root in the text format of [`tree`].
    #[must_use]
    #[track_caller]
    pub fn dump(&self) -> BString {
        sure(tree::dump(self.path())).into()
    }

    /// Returns the root itself, an absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the absolute path of something below the root.
    #[must_use]
    #[track_caller]
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        sure(self.below(path.as_ref()))
    }

    /// Runs holo with these arguments: the binary that was given or, otherwise, built.
    ///
    /// See [`run`](Self::run) for the circumstances.
    #[must_use]
    #[track_caller]
    pub fn holo(&self, arguments: &[impl AsRef<OsStr>]) -> Run {
        match &self.binary {
            Some(binary) => self.run(binary, arguments),
            None => self.run(binaries::built("holo"), arguments),
        }
    }

    /// Runs a program on this root, in an environment of which the caller's is no part.
    ///
    /// There is `HOLO_ROOT_DIR` for the root, `TMPDIR` for its `tmp/`, `LC_ALL=C`, the caller's
    /// `PATH`, and what [`env`](Self::env) added. The working directory is the root, stdin is empty,
    /// and what the program leaves running is killed.
    ///
    /// # Panics
    ///
    /// If it cannot be started, or the time limit is over. Its process group is killed then.
    #[must_use]
    #[track_caller]
    pub fn run(&self, program: impl AsRef<OsStr>, arguments: &[impl AsRef<OsStr>]) -> Run {
        let program = Path::new(program.as_ref());
        let (run, ended) = sure(self.try_run(program, arguments));
        if !ended {
            fail(&format!("{} was ended after {:?}\n{run}", program.display(), self.time_limit));
        }
        run
    }

    /// Runs a program, and returns whether it ended in time.
    fn try_run(&self, program: &Path, arguments: &[impl AsRef<OsStr>]) -> Result<(Run, bool), IoError> {
        let mut described = spawn::program(absolute_if_path(program)?);
        described.args(arguments.iter().map(AsRef::as_ref)).current_dir(self.path()).clear_env();
        if let Some(path) = std::env::var_os("PATH") {
            described.path(path);
        }
        described
            .env("HOLO_ROOT_DIR", self.path())
            .env("TMPDIR", self.path().join("tmp"))
            .env("LC_ALL", "C")
            .envs(self.environment.iter().cloned());
        capture(&mut described, program, self.time_limit)
    }

    /// Puts a file in the place of what may be there.
    fn put(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), IoError> {
        let full = self.below(path)?;
        self.make_parent(path)?;
        files::remove(&full)?;
        files::create_file(&full, content, mode)
    }

    fn make_parent(&self, path: &Path) -> Result<(), IoError> {
        files::make_dirs(self.path(), path.parent().unwrap_or(Path::new("")))
    }

    /// Refuses paths that could lead out of the root by their letters.
    fn below(&self, path: &Path) -> Result<PathBuf, IoError> {
        let is_below = path.components().all(|component| matches!(component, Component::Normal(_)));
        if is_below {
            Ok(self.path().join(path))
        } else {
            let reason = "not relative to the root, as in etc/motd";
            Err(IoError::new("use", path, io::Error::other(reason)))
        }
    }
}

impl Drop for ScratchRoot {
    fn drop(&mut self) {
        // Also removes what a test has closed to its owner, which `TempDir` does not.
        let _best_effort = files::remove(self.dir.path());
    }
}

/// Returns whether programs can be put there, and some megabytes beside them.
fn has_room(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|system| {
        !system.f_flag.contains(StatVfsMountFlags::NOEXEC) && system.f_bavail * system.f_frsize > ROOM
    })
}

/// Makes a path with a slash absolute, because the program starts in another directory.
fn absolute_if_path(program: &Path) -> Result<PathBuf, IoError> {
    if program.components().count() > 1 {
        std::path::absolute(program).context("find", program)
    } else {
        Ok(program.to_owned())
    }
}

/// Runs a program of this name to its end, or ends it when the time is over; returns whether it ended in time.
pub(crate) fn capture(program: &mut Program, name: &Path, limit: Duration) -> Result<(Run, bool), IoError> {
    // Files rather than pipes: nobody has to read along, and nobody can hold them open.
    let (mut stdout, stdout_writer) = captured()?;
    let (mut stderr, stderr_writer) = captured()?;
    program.stdout_file(stdout_writer).stderr_file(stderr_writer);
    let status = spawn::run(program, limit).context("run", name)?;
    let run = Run {
        status: status.and_then(Status::code),
        signal: status.and_then(Status::signal),
        stdout: read_back(&mut stdout)?,
        stderr: read_back(&mut stderr)?,
    };
    Ok((run, status.is_some()))
}

/// Makes a file to capture output: one handle to read it from, one for the program.
fn captured() -> Result<(File, File), IoError> {
    tempfile::tempfile()
        .and_then(|reader| reader.try_clone().map(|writer| (reader, writer)))
        .context("create a file in", &std::env::temp_dir())
}

fn read_back(file: &mut File) -> Result<BString, IoError> {
    let mut content = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut content)).context("read", Path::new("the captured output"))?;
    Ok(content.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Instant;

    const FACTS: &str = r#"#!/bin/sh
printf '%s\n' "$HOLO_ROOT_DIR" "$TMPDIR" "$LC_ALL" "${HOME-no home}" "$EXTRA" "$PWD" "$*"
cat >&2
printf '\377' >&2
exit 3
"#;

    /// Returns the message of a panic.
    fn panicked(action: impl FnOnce()) -> String {
        let payload = catch_unwind(AssertUnwindSafe(action)).unwrap_err();
        payload.downcast_ref::<String>().unwrap().clone()
    }

    #[test]
    fn the_builder_makes_what_it_says() {
        let root = ScratchRoot::new()
            .holorc("plugin files\n")
            .file("etc/motd", "hello\n")
            .mode("etc/motd", 0o600)
            .resource("files/01-x/etc/motd", "hi\n")
            .script("usr/share/holo/generators/01.sh", "#!/bin/sh\n")
            .symlink("usr/lib/link", "../nowhere")
            .dir("usr/share/holo/print");
        let expected = "\
file      0644 ./etc/holorc
plugin files
----------------------------------------
file      0600 ./etc/motd
hello
----------------------------------------
directory 0755 ./run/
----------------------------------------
directory 0755 ./tmp/
----------------------------------------
symlink   0777 ./usr/lib/link
../nowhere
----------------------------------------
file      0644 ./usr/share/holo/files/01-x/etc/motd
hi
----------------------------------------
file      0755 ./usr/share/holo/generators/01.sh
#!/bin/sh
----------------------------------------
directory 0755 ./usr/share/holo/print/
----------------------------------------
directory 0755 ./var/lib/holo/
----------------------------------------
";
        assert_eq!(root.dump(), expected);
        assert!(root.exists("usr/lib/link"));
        assert!(!root.exists("usr/lib/nothing"));
        root.write("etc/motd", "changed");
        assert_eq!(root.read("etc/motd"), "changed");
    }

    #[test]
    fn programs_run_in_a_hermetic_environment() {
        let root = ScratchRoot::new().env("EXTRA", "more").script("tmp/facts", FACTS);
        let program = root.join("tmp/facts");
        let root = root.binary(&program);
        let run = root.holo(&["apply", "x"]);
        let path = root.path().display();
        let facts = format!("{path}\n{path}/tmp\nC\nno home\nmore\n{path}\napply x\n");
        assert_eq!(run.stdout_lossy(), facts);
        assert_eq!(run.stderr, b"\xff".as_slice());
        assert_eq!((run.status, run.signal, run.success()), (Some(3), None, false));
        assert!(run.to_string().starts_with("exit status 3\nstdout:\n/"));
    }

    #[test]
    fn a_signal_is_told_from_a_status() {
        let run = ScratchRoot::new().run("sh", &["-c", "kill -TERM $$"]);
        assert_eq!((run.status, run.signal), (None, Some(15)));
    }

    #[test]
    fn a_hanging_program_is_killed_and_fails_the_test() {
        let root = ScratchRoot::new().time_limit(Duration::from_millis(200));
        let start = Instant::now();
        let message = panicked(|| {
            let _run = root.run("sh", &["-c", "echo begun; sleep 600"]);
        });
        assert!(message.starts_with("sh was ended after 200ms\n"), "{message}");
        assert!(message.contains("begun"));
        assert!(start.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn paths_that_lead_out_of_the_root_are_refused() {
        let root = ScratchRoot::new().symlink("out", "/");
        for path in ["/etc/x", "../x", "etc/../../x"] {
            let message = panicked(|| root.write(path, ""));
            assert_eq!(message, format!("use {path}: not relative to the root, as in etc/motd"));
        }
        let message = panicked(|| root.write("out/x", ""));
        assert!(message.ends_with("/out: is a symlink, and nothing is made through symlinks"));
    }

    #[test]
    fn a_root_removes_itself_even_if_it_is_locked() {
        let root = ScratchRoot::new().file("etc/a/b", "").mode("etc/a", 0);
        let path = root.path().to_owned();
        drop(root);
        assert!(!path.exists());
    }

    #[test]
    fn failures_point_at_the_test() {
        use std::sync::{Arc, Mutex};
        let places = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&places);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let line = info.location().map(std::panic::Location::line);
            seen.lock().unwrap().push((std::thread::current().id(), line));
        }));
        let root = ScratchRoot::new();
        let line = line!() + 1;
        let failed = catch_unwind(AssertUnwindSafe(|| root.read("etc/missing")));
        std::panic::set_hook(before);
        assert!(failed.is_err());
        let here = (std::thread::current().id(), Some(line));
        assert!(places.lock().unwrap().contains(&here));
    }
}
