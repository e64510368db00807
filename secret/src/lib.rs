//! Data values that only one machine can read: a value is encrypted for `recipients`, and decrypted with the machine's
//! `keys`.
//!
//! `edit` opens a value in an editor.
//!
//! This is a separate program because no other one needs its dependencies: plugins run it if there is a value to
//! decrypt.

mod edit;
mod keys;
mod recipients;

use clap::{Args, Parser, Subcommand};
use holo_process::{Stream, streams};
use keys::Keys;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::ExitCode;

/// The reason why a value cannot be encrypted or decrypted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct SecretError(String);

/// Runs the command line and returns the exit code.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(usage) => {
            let stream = if usage.use_stderr() { Stream::Stderr } else { Stream::Stdout };
            let _ = streams::write(stream, usage.to_string().as_bytes());
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
        }
    };
    let print = |bytes: Vec<u8>| streams::write(Stream::Stdout, &bytes).map_err(|error| words("output", &error));
    match answer(&cli).and_then(print) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            streams::complain(format_args!("!! {error}"));
            ExitCode::FAILURE
        }
    }
}

fn answer(cli: &Cli) -> Result<Vec<u8>, SecretError> {
    let input = || {
        let mut input = Vec::new();
        io::stdin().read_to_end(&mut input).map_err(|error| words("input", &error))?;
        Ok(input)
    };
    match &cli.verb {
        Verb::Edit(arguments) => edit::edit(arguments, &cli.root()).map(|()| Vec::new()),
        Verb::Encrypt(encrypt) => {
            let input = input()?;
            let recipients = recipients::all(&encrypt.recipients, &cli.root())?;
            recipients::encrypt(&recipients, &input).map(String::into_bytes)
        }
        Verb::Decrypt(arguments) => {
            let input = input()?;
            let keys = Keys::read(&cli.root());
            if arguments.json { decrypt_all(&keys, &input) } else { keys.decrypt(&input) }
        }
    }
}

/// Decrypts a list of texts. The result is a list with the plaintext or the error of each.
fn decrypt_all(keys: &Keys, input: &[u8]) -> Result<Vec<u8>, SecretError> {
    let texts: Vec<String> =
        serde_json::from_slice(input).map_err(|error| SecretError(format!("input: not a list of texts: {error}")))?;
    let decrypt = |text: &String| {
        let bytes = keys.decrypt(text.as_bytes())?;
        String::from_utf8(bytes).map_err(|_| SecretError("the encrypted value is not UTF-8".to_owned()))
    };
    let each = texts.iter().map(|text| match decrypt(text) {
        Ok(text) => json!({ "text": text }),
        Err(error) => json!({ "error": error.to_string() }),
    });
    Ok(each.collect::<Value>().to_string().into_bytes())
}

fn words(place: &str, error: &io::Error) -> SecretError {
    SecretError(format!("{place}: {}", holo_process::words::reason(error)))
}

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
