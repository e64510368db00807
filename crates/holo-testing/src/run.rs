//! The output and exit status of a program in a test, and the results of entities, as reported by `--json`.

use crate::files::{Context, IoError};
use crate::processes;
use bstr::{BString, ByteSlice};
use holo_process::{Program, Status};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
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

/// The results of all entities of a run of `holo VERB --json`, or of its record.
#[derive(Debug)]
pub struct Ends {
    /// The run.
    pub run: Run,
    entities: BTreeMap<String, End>,
}

/// The result of an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// A word such as `changed`; `unknown` if a check cannot determine it.
    pub result: String,
    /// The changes that were made or would be made.
    pub changes: Vec<String>,
    /// Its output on stdout.
    pub stdout: String,
    /// Its output on stderr.
    pub stderr: String,
}

impl Ends {
    /// Parses the output of a run.
    ///
    /// # Panics
    /// If it is not JSON Lines.
    #[track_caller]
    #[must_use]
    pub fn read(run: Run) -> Ends {
        let mut entities: BTreeMap<String, End> = BTreeMap::new();
        for line in run.stdout_lossy().lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else {
                crate::files::fail(&format!("not JSON: {line}\n{run}"))
            };
            let Some(id) = event.get("id").and_then(Value::as_str) else { continue };
            entities.entry(id.to_owned()).or_default().take(&event);
        }
        Ends { run, entities }
    }

    /// Returns the results of all entities, by ID.
    pub fn entities(&self) -> impl Iterator<Item = (&String, &End)> {
        self.entities.iter()
    }

    /// Returns the result of an entity.
    ///
    /// # Panics
    /// If the run did not report the entity.
    #[track_caller]
    #[must_use]
    pub fn of(&self, id: &str) -> &End {
        match self.entities.get(id) {
            Some(end) => end,
            None => crate::files::fail(&format!("nothing is said of {id}\n{}", self.run)),
        }
    }
}

impl End {
    fn take(&mut self, event: &Value) {
        let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
        match (text("event"), text("stream")) {
            ("output", "stdout") => self.stdout.push_str(text("text")),
            ("output", "stderr") => self.stderr.push_str(text("text")),
            ("end" | "record", _) => {
                let is_unknown = event.get("unknown").is_some_and(|unknown| unknown == true);
                self.result = if is_unknown { "unknown" } else { text("result") }.to_owned();
                let changes =
                    ["changed", "would_change"].iter().filter_map(|key| event.get(*key)?.as_array()).flatten();
                self.changes = changes.filter_map(Value::as_str).map(str::to_owned).collect();
            }
            _ => {}
        }
    }
}
