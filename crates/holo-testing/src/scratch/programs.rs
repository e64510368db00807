//! Programs run on a root.

use super::ScratchRoot;
use crate::error::{Context, IoError, fail, sure};
use crate::run::{Run, capture};
use crate::{binaries, processes};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

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
