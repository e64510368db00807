//! The output and exit status of a program in a test.

use crate::error::{Context, IoError};
use crate::processes;
use bstr::{BString, ByteSlice};
use holo_process::{Program, Status};
use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::time::Duration;

/// A finished program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The exit status; `None` if a signal killed it.
    pub status: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// Its output on stdout.
    pub stdout: BString,
    /// Its output on stderr.
    pub stderr: BString,
}

impl Run {
    /// Returns true if it exited with status 0.
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
    /// Shows all fields, for messages of failed assertions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status, self.signal) {
            (Some(status), _) => writeln!(f, "exit status {status}")?,
            (None, Some(signal)) => writeln!(f, "signal {signal}")?,
            (None, None) => writeln!(f, "no status")?,
        }
        write!(f, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr)
    }
}

/// Runs a program of this name until it ends or exceeds the timeout. Returns whether it ended in time.
pub(crate) fn capture(program: &mut Program, name: &Path, limit: Duration) -> Result<(Run, bool), IoError> {
    // Files instead of pipes: they need not be read concurrently, and child processes cannot keep them open.
    let (mut stdout, stdout_writer) = captured()?;
    let (mut stderr, stderr_writer) = captured()?;
    program.stdout_file(stdout_writer).stderr_file(stderr_writer);
    let status = processes::run(program, limit).context("run", name)?;
    let run = Run {
        status: status.and_then(Status::code),
        signal: status.and_then(Status::signal),
        stdout: read_back(&mut stdout)?,
        stderr: read_back(&mut stderr)?,
    };
    Ok((run, status.is_some()))
}

/// Creates a file to capture output, with a handle for reading and one for the program.
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
