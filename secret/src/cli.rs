//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Encrypts data values for a machine, and decrypts them on it
#[derive(Debug, Parser)]
#[command(name = "holo-secret", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// The root directory of the machine's keys [default: $HOLO_ROOT_DIR or /]
    #[arg(long, value_name = "DIRECTORY", global = true)]
    root: Option<PathBuf>,
    /// The command.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Cli {
    /// Returns the root directory of the machine's keys.
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
    /// The file: only the value, or data with encrypted values
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// A line of the value, if the file has several encrypted values
    #[arg(long, value_name = "LINE")]
    pub(crate) line: Option<usize>,
    #[command(flatten)]
    pub(crate) recipients: Recipients,
}

/// The recipients of an encrypted value.
#[derive(Debug, Args)]
pub(crate) struct Recipients {
    /// A public age or SSH key that can decrypt the value [default: the keys of this machine]
    #[arg(short, long, value_name = "KEY")]
    pub(crate) recipient: Vec<String>,
    /// A file of public keys, one per line
    #[arg(short = 'R', long, value_name = "FILE")]
    pub(crate) recipients_file: Vec<PathBuf>,
}

/// `holo-secret decrypt`
#[derive(Debug, Args)]
pub(crate) struct Decrypt {
    /// Decrypt a JSON list of texts
    #[arg(long)]
    pub(crate) json: bool,
}
