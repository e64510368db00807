//! Runs the system's tools.

use crate::command::Command;
use crate::provider::AccountProvider;
use holo_plugin::Output;
use holo_plugin::process::Program;
use std::ffi::OsString;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The default timeout of a command. Killing one is a last resort, as its work may be half done.
const TIME_LIMIT: Duration = Duration::from_secs(600);
/// The total time in a run to retry while another process has locked the files. The tools wait on their own as well.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// The directories of the tools, in addition to the caller's search path.
const TOOLS: &str = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin";

/// The error message of a command that failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandError(pub(crate) String);

/// The deadline for locked files, set when the first locked file is met.
#[derive(Debug, Default)]
pub(crate) struct Patience(OnceLock<Instant>);

impl Patience {
    /// Runs a command and relays its output. Retries while the files are locked.
    pub(crate) fn run(
        &self,
        provider: &dyn AccountProvider,
        command: &Command,
        limit: Option<Duration>,
        output: &mut Output<'_>,
    ) -> Result<(), CommandError> {
        let mut program = Program::new(command.program);
        // The messages are parsed here, and all other messages of this plugin are in English too.
        program.args(&command.arguments).path(search_path()).plain_locale().timeout(limit.unwrap_or(TIME_LIMIT));
        loop {
            // The output of an attempt that is retried is discarded.
            let mut said = Vec::new();
            let ended = program.run(|stream, bytes| said.push((stream, bytes.to_vec())));
            let ended = ended.map_err(|error| CommandError(error.to_string()))?;
            if provider.is_locked(&ended) && Instant::now() < *self.0.get_or_init(|| Instant::now() + PATIENCE) {
                sleep(PAUSE);
                continue;
            }
            for (stream, bytes) in said {
                output.relay(stream, &bytes);
            }
            return ended.failure().map_or(Ok(()), |reason| Err(CommandError(reason)));
        }
    }
}

fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    if !path.is_empty() {
        path.push(":");
    }
    path.push(TOOLS);
    path
}
