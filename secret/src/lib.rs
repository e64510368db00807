//! Data values that only one machine can read: a value is encrypted for `recipients`, and decrypted with the machine's
//! `keys`.
//!
//! `edit` opens a value in an editor.
//!
//! This is a separate program because no other one needs its dependencies: plugins run it if there is a value to
//! decrypt.

mod cli;
mod edit;
mod keys;
mod recipients;

use clap::Parser;
use cli::{Cli, Verb};
use keys::Keys;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{self, Read, Write};
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
            let _ = usage.print();
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
        }
    };
    match answer(&cli).and_then(|bytes| io::stdout().write_all(&bytes).map_err(|error| words("output", &error))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "!! {error}");
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
