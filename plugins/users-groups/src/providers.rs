//! The interface to the tools that create, change and delete accounts, and the providers, one module for each.

mod shadow;

pub(crate) use shadow::Shadow;

use crate::account::{Account, AccountId};
use crate::definition::Definition;
use holo_plugin::process::{Ended, Program};
use holo_plugin::provider::{Provider, Providers};
use holo_plugin::{Host, Output, quoted};
use std::ffi::OsString;
use std::fmt;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// All providers.
static ALL: Providers<dyn AccountProvider> = Providers::new(&[&Shadow]);

/// Returns the provider for a host.
pub(crate) fn for_host(host: &Host) -> &'static dyn AccountProvider {
    ALL.best(host).unwrap_or(&Shadow)
}

/// Options that matter only when an account is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Creation {
    /// Create a system account.
    pub(crate) system: bool,
    /// Create the home directory.
    pub(crate) home: bool,
}

impl Creation {
    pub(crate) fn new(definition: &Definition) -> Creation {
        Creation { system: definition.system, home: definition.create_home }
    }
}

/// Tools that manage users and groups.
pub(crate) trait AccountProvider: Provider {
    /// Returns the command that creates an account.
    fn create(&self, wanted: &Account, creation: Creation) -> Command;

    /// Returns the command that makes `actual` as wanted, including its name, or `None` if they are equal.
    fn modify(&self, actual: &Account, wanted: &Account) -> Option<Command>;

    /// Returns the command that makes the missing home directory of a user.
    fn make_home(&self, user: &AccountId) -> Command;

    /// Returns the command that deletes an account.
    fn delete(&self, id: &AccountId) -> Command;

    /// Returns the programs that this provider runs.
    fn programs(&self) -> &'static [&'static str];

    /// Returns true if a command failed only because another process has locked the files.
    fn is_locked(&self, ended: &Ended) -> bool;
}

/// A command that changes the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) program: &'static str,
    pub(crate) arguments: Vec<String>,
}

impl fmt::Display for Command {
    /// Formats the command roughly as for a shell: empty arguments and arguments with blanks are quoted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program)?;
        for argument in &self.arguments {
            write!(f, " {}", quoted(argument))?;
        }
        Ok(())
    }
}

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
