//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Encrypts values of data for a machine, and decrypts them there
#[derive(Debug, Parser)]
#[command(name = "holo-secret", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// The directory below which the keys of the machine are [default: $HOLO_ROOT_DIR, or /]
    #[arg(long, value_name = "DIRECTORY", global = true)]
    root: Option<PathBuf>,
    /// The command.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Cli {
    /// Returns the directory below which the keys of the machine are.
    pub(crate) fn root(&self) -> PathBuf {
        let variable = std::env::var_os("HOLO_ROOT_DIR").filter(|root| !root.is_empty());
        self.root.clone().or_else(|| variable.map(PathBuf::from)).unwrap_or_else(|| "/".into())
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Encrypt standard input
    Encrypt(Encrypt),
    /// Decrypt standard input with the keys of this machine
    Decrypt(Decrypt),
    /// Edit an encrypted value in a file
    Edit(Edit),
}

/// `holo-secret encrypt`
#[derive(Debug, Args)]
pub(crate) struct Encrypt {
    #[command(flatten)]
    pub(crate) recipients: Recipients,
}

/// `holo-secret edit`
#[derive(Debug, Args)]
pub(crate) struct Edit {
    /// The file: the value alone, or data with encrypted values in them
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// A line of the value, if several are encrypted in the file
    #[arg(long, value_name = "LINE")]
    pub(crate) line: Option<usize>,
    #[command(flatten)]
    pub(crate) recipients: Recipients,
}

/// Those whom a value is encrypted for.
#[derive(Debug, Args)]
pub(crate) struct Recipients {
    /// A public key that may decrypt it, of age or of SSH; without any, those of this machine
    #[arg(short, long, value_name = "KEY")]
    pub(crate) recipient: Vec<String>,
    /// A file of such keys, one a line
    #[arg(short = 'R', long, value_name = "FILE")]
    pub(crate) recipients_file: Vec<PathBuf>,
}

/// `holo-secret decrypt`
#[derive(Debug, Args)]
pub(crate) struct Decrypt {
    /// Decrypt a list of texts in JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
}
