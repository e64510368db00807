//! Temporary roots for tests in Rust, and programs run on them.

#[cfg(test)]
mod tests;

use crate::files::{self, Context, IoError, fail, sure};
use crate::run::{Run, capture};
use crate::{binaries, processes, tree};
use bstr::BString;
use holo_state::{Database, Durability, RecordChange};
use rustix::fs::StatVfsMountFlags;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use std::{fs, io};
use tempfile::TempDir;

/// Linux's world-writable in-memory file system.
const MEMORY: &str = "/dev/shm";
/// The minimum free space there in bytes.
const ROOM: u64 = 256 << 20;

/// A temporary root, removed when dropped.
///
/// Initially, it contains `etc/`, `run/`, `tmp/`, `usr/share/holo/` and `var/lib/holo/`. All methods take paths
/// relative to it and panic on errors: they are for tests.
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

impl Default for ScratchRoot {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl ScratchRoot {
    /// Creates a root with the usual directories.
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        Self::made_in(&std::env::temp_dir())
    }

    /// Creates a root in memory if there is enough space: for tests with thousands of roots, which would be slow on
    /// disk.
    #[must_use]
    #[track_caller]
    pub fn in_memory() -> Self {
        if has_room(Path::new(MEMORY)) { Self::made_in(Path::new(MEMORY)) } else { Self::new() }
    }

    #[track_caller]
    fn made_in(folder: &Path) -> Self {
        // The test may also start the program without this crate.
        processes::reset();
        let dir = sure(tempfile::tempdir_in(folder).context("create a directory in", folder));
        sure(files::set_mode(dir.path(), 0o755));
        for usual in ["etc", "run", "tmp", "usr/share/holo", "var/lib/holo"] {
            sure(files::make_dirs(dir.path(), Path::new(usual)));
        }
        Self { dir, binary: None, environment: Vec::new(), time_limit: Duration::from_secs(60) }
    }

    /// Makes [`holo`](Self::holo) run this binary instead of the built one.
    #[must_use]
    pub fn binary(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = Some(binary.into());
        self
    }

    /// Adds an environment variable for all programs that are run.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the timeout for each program. The default is one minute.
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

    /// Adds an executable file with mode 0755.
    #[must_use]
    #[track_caller]
    pub fn script(self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Self {
        self.write_script(path, content);
        self
    }

    /// Sets the mode of an existing file or directory.
    #[must_use]
    #[track_caller]
    pub fn mode(self, path: impl AsRef<Path>, mode: u32) -> Self {
        sure(files::set_mode(&self.join(path), mode));
        self
    }

    /// Adds a symlink. Its target is not checked.
    #[must_use]
    #[track_caller]
    pub fn symlink(self, path: impl AsRef<Path>, target: impl AsRef<Path>) -> Self {
        let full = self.join(&path);
        sure(self.make_parent(path.as_ref()));
        sure(symlink(target, &full).context("create", &full));
        self
    }

    /// Adds a directory with mode 0755, including missing parents.
    #[must_use]
    #[track_caller]
    pub fn dir(self, path: impl AsRef<Path>) -> Self {
        sure(files::make_dirs(self.path(), path.as_ref()));
        self
    }

    /// Sets the content of `etc/holorc`.
    #[must_use]
    #[track_caller]
    pub fn holorc(self, text: impl AsRef<[u8]>) -> Self {
        self.file("etc/holorc", text)
    }

    /// Configures a plugin of this workspace: adds a line with the built binary to `etc/holorc`, and creates its
    /// resource directory.
    #[must_use]
    #[track_caller]
    pub fn plugin(self, id: &str) -> Self {
        let mut holorc = if self.exists("etc/holorc") { self.read("etc/holorc") } else { BString::default() };
        let binary = binaries::built(&format!("holo-{id}"));
        holorc.extend_from_slice(format!("plugin {id}={}\n", binary.display()).as_bytes());
        self.holorc(holorc).dir(format!("usr/share/holo/{id}"))
    }

    /// Adds a resource file with mode 0644 below `usr/share/holo/`; its path starts with the plugin's ID.
    #[must_use]
    #[track_caller]
    pub fn resource(self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Self {
        self.file(Path::new("usr/share/holo").join(path), content)
    }

    /// Writes a file with mode 0644 in the course of a test, replacing an existing file.
    #[track_caller]
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        sure(self.put(path.as_ref(), content.as_ref(), 0o644));
    }

    /// Writes an executable file with mode 0755 in the course of a test, replacing an existing file.
    #[track_caller]
    pub fn write_script(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        sure(self.put(path.as_ref(), content.as_ref(), 0o755));
    }

    /// Returns the content of a file; symlinks are followed.
    #[must_use]
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> BString {
        let path = self.join(path);
        sure(fs::read(&path).context("read", &path)).into()
    }

    /// Returns true if the path exists, including dangling symlinks.
    #[must_use]
    #[track_caller]
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        fs::symlink_metadata(self.join(path)).is_ok()
    }

    /// Returns the tree below the root in the text format of [`tree`], followed by the records of all entities in the state
    /// database. Edited versions that were kept have no times.
    #[must_use]
    #[track_caller]
    pub fn dump(&self) -> BString {
        let mut dump = sure(tree::dump(self.path()));
        let state = self.state();
        // A damaged database has no records.
        for store in state.record_stores().unwrap_or_default() {
            let add = |key: &str, value: &str| {
                let mut value: serde_json::Value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
                if store == ".edited"
                    && let Some(version) = value.as_object_mut()
                {
                    version.remove("time");
                }
                dump.extend(format!("record of {store}: {key}\n{value}\n{}\n", "-".repeat(40)).bytes());
            };
            sure(state.each_record(&store, "", add));
        }
        dump.into()
    }

    fn state(&self) -> Database {
        Database::new(self.join("var/lib/holo/state.db"))
    }

    /// Returns the IDs of the entities that are still to be refreshed.
    #[must_use]
    #[track_caller]
    pub fn refreshes(&self) -> Vec<String> {
        sure(self.state().refreshes()).into_iter().map(|refresh| refresh.target.to_string()).collect()
    }

    /// Returns the keys of the records of a plugin, or of one kind of its records, such as `files/declared`.
    #[must_use]
    #[track_caller]
    pub fn records(&self, store: &str) -> Vec<String> {
        sure(self.state().record_keys(store))
    }

    /// Returns a record.
    #[must_use]
    #[track_caller]
    pub fn record(&self, store: &str, key: &str) -> String {
        sure(sure(self.state().record(store, key)).ok_or_else(|| format!("{store} has no record {key}")))
    }

    /// Writes or replaces a record.
    #[track_caller]
    pub fn write_record(&self, store: &str, key: &str, value: &str) {
        let change = RecordChange { store: store.to_owned(), key: key.to_owned(), value: Some(value.to_owned()) };
        sure(self.state().write_records(&[change], Durability::Process));
    }

    /// Returns the contents of files in the state database, except those that are not UTF-8.
    #[must_use]
    #[track_caller]
    pub fn contents(&self) -> Vec<String> {
        let mut export = Vec::new();
        sure(sure(self.state().export(&mut export)));
        let rows = export.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        let content = |row: serde_json::Value| Some(row.pointer("/row/content")?.as_str()?.to_owned());
        rows.filter_map(content).collect()
    }

    /// Removes all records of a plugin.
    #[track_caller]
    pub fn forget_records(&self, store: &str) {
        let removed = |key| RecordChange { store: store.to_owned(), key, value: None };
        let changes: Vec<RecordChange> = self.records(store).into_iter().map(removed).collect();
        sure(self.state().write_records(&changes, Durability::Process));
    }

    /// Returns the absolute path of the root.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the absolute path for a path below the root.
    #[must_use]
    #[track_caller]
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        sure(self.below(path.as_ref()))
    }

    /// Writes a file, replacing an existing one.
    fn put(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), IoError> {
        let full = self.below(path)?;
        self.make_parent(path)?;
        files::remove(&full)?;
        files::create_file(&full, content, mode)
    }

    fn make_parent(&self, path: &Path) -> Result<(), IoError> {
        files::make_dirs(self.path(), path.parent().unwrap_or(Path::new("")))
    }

    /// Refuses paths that could lexically lead out of the root.
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
        // Also removes directories that the owner cannot access, unlike `TempDir`.
        let _best_effort = files::remove(self.dir.path());
    }
}

/// Returns true if programs can be executed there and enough space is free.
fn has_room(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|system| {
        !system.f_flag.contains(StatVfsMountFlags::NOEXEC) && system.f_bavail * system.f_frsize > ROOM
    })
}

impl ScratchRoot {
    /// Runs holo with these arguments: the configured binary, otherwise the built one.
    ///
    /// See [`run`](Self::run) for its environment.
    #[must_use]
    #[track_caller]
    pub fn holo(&self, arguments: &[impl AsRef<OsStr>]) -> Run {
        match &self.binary {
            Some(binary) => self.run(binary, arguments),
            None => self.run(binaries::built("holo"), arguments),
        }
    }

    /// Runs a program on this root, without the caller's environment.
    ///
    /// The environment consists of `HOLO_ROOT_DIR` for the root, `TMPDIR` for its `tmp/`, `HOLO_HISTORY=0`, `LC_ALL=C`,
    /// the caller's `PATH`, and the variables added with [`env`](Self::env). The working directory is the root, stdin
    /// is empty, and processes that the program leaves behind are killed.
    ///
    /// # Panics
    ///
    /// If it cannot be started, or exceeds the timeout, in which case its process group is killed.
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
        let mut described = processes::program(absolute_if_path(program)?);
        described.args(arguments.iter().map(AsRef::as_ref)).current_dir(self.path()).clear_env();
        if let Some(path) = std::env::var_os("PATH") {
            described.path(path);
        }
        described
            .env("HOLO_ROOT_DIR", self.path())
            .env("TMPDIR", self.path().join("tmp"))
            .env("HOLO_HISTORY", "0")
            .env("LC_ALL", "C")
            .envs(self.environment.iter().cloned());
        capture(&mut described, program, self.time_limit)
    }
}

/// Makes a path with a slash absolute, because the program is started in another directory.
fn absolute_if_path(program: &Path) -> Result<PathBuf, IoError> {
    if program.components().count() > 1 {
        std::path::absolute(program).context("find", program)
    } else {
        Ok(program.to_owned())
    }
}
