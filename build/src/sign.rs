//! Signatures of packages, which `gpg` makes.

use holo_process::{Program, ProgramError};
use std::ffi::OsStr;

/// A signature cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignError {
    #[error("cannot run gpg, which makes signatures: {0}")]
    Program(#[from] ProgramError),
    #[error("gpg failed ({reason}): {details}")]
    Failed { reason: String, details: String },
}

/// Returns a detached signature of a text, as an OpenPGP packet.
pub(crate) fn sign(key: &OsStr, text: &[u8]) -> Result<Vec<u8>, SignError> {
    let mut gpg = Program::new("gpg");
    gpg.args(["--batch", "--quiet", "--no-armor", "--digest-algo", "SHA256", "--detach-sign", "--local-user"]);
    let output = gpg.arg(key).args(["--output", "-", "-"]).stdin(text).output()?;
    match output.ended.failure() {
        Some(reason) => {
            let details = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
            Err(SignError::Failed { reason, details })
        }
        None => Ok(output.stdout),
    }
}

/// Returns true if a signature packet was made with an RSA key.
pub(crate) fn is_rsa(packet: &[u8]) -> bool {
    // The length of the header depends on its first byte. The algorithm is the third byte of the content.
    let header = match packet {
        [tag, ..] if tag & 0x40 == 0 => 1 + (1 << (tag & 3)),
        [_, length, ..] if *length >= 192 => 3,
        _ => 2,
    };
    packet.get(header + 2) == Some(&1)
}
