//! Running the system's tools for real.

use crate::command::Command;
use crate::provider::AccountProvider;
use holo_plugin::Output;
use holo_plugin::process::Program;
use std::ffi::OsString;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The default time limit of a command. Ending one is a last resort: it may have done half of its work.
const TIME_LIMIT: Duration = Duration::from_secs(600);
/// The time, in a run, in which it is tried again while somebody else has the files locked. Each try of the tools waits for itself as well.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two tries.
const PAUSE: Duration = Duration::from_secs(1);
/// The directories of the tools, if the search path of the caller does not lead there.
const TOOLS: &str = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin";

/// The reason why a command did not do its work, in words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandError(pub(crate) String);

/// The limit of waiting for locked files: the end of the time, once locked files were met.
#[derive(Debug, Default)]
pub(crate) struct Patience(OnceLock<Instant>);

impl Patience {
    /// Runs a command and relays what it says; while the files are locked, it is tried again.
    pub(crate) fn run(
        &self,
        provider: &dyn AccountProvider,
        command: &Command,
        limit: Option<Duration>,
        output: &mut Output<'_>,
    ) -> Result<(), CommandError> {
        let mut program = Program::new(command.program);
        // Its messages are parsed here, and all others of this plugin are English as well.
        program.args(&command.arguments).path(search_path()).plain_locale().timeout(limit.unwrap_or(TIME_LIMIT));
        loop {
            // A try that is not the last one is nobody's concern.
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
