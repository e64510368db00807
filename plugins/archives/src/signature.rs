//! Signatures of downloads, and of lists of checksums: those of minisign, and those of OpenPGP, for which `gpgv` is run.

use holo_change::PathHandle;
use holo_change::error::{PathError, reason};
use holo_download::{BUFFER_SIZE, sha256};
use holo_plugin::process::Program;
use minisign_verify::{PublicKey, Signature};
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

/// The longest time that `gpgv` may take.
const GPGV_TIME: Duration = Duration::from_secs(10 * 60);

/// The reason that a signature is not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignatureError {
    #[error("its signature is not one of minisign: {0}")]
    Malformed(minisign_verify::Error),
    #[error("minisign_key is not a public key of minisign: {0}")]
    Key(minisign_verify::Error),
    #[error("its signature was made by an old version of minisign; one by `minisign -SH` can be verified")]
    Legacy,
    #[error("its signature is wrong: {0}")]
    Wrong(minisign_verify::Error),
    #[error("its signature is not accepted by gpgv: {0}")]
    Refused(String),
    #[error("its signature cannot be verified: {0}")]
    NoProgram(String),
    #[error("{}", reason(.0))]
    Io(#[from] io::Error),
    #[error(transparent)]
    Path(#[from] PathError),
}

/// Whoever has to have signed something.
pub(crate) enum Signer<'a> {
    /// The owner of a key of minisign.
    Minisign(&'a str),
    /// The owner of a key in this file, which `gpg --export` has written.
    Keyring(&'a str),
}

impl Signer<'_> {
    /// Returns a text that another signer does not have.
    pub(crate) fn identity(&self) -> String {
        let (Signer::Minisign(text) | Signer::Keyring(text)) = self;
        sha256(text.as_bytes())
    }

    /// Fails unless this is a signature of a file's content. It is for `gpgv` that the files have paths.
    pub(crate) fn verify(
        &self,
        content: &mut impl Read,
        (signed, signature): (&PathHandle, &PathHandle),
        keyring: impl FnOnce(&str) -> Result<PathBuf, PathError>,
    ) -> Result<(), SignatureError> {
        match self {
            Signer::Minisign(key) => {
                let mut text = String::new();
                signature.open()?.read_to_string(&mut text)?;
                verify_minisign(key, &text, content)
            }
            Signer::Keyring(path) => verify_openpgp(keyring(path)?, signature.shown(), signed.shown()),
        }
    }
}

/// Fails if a text is not a key of minisign.
pub(crate) fn validate_key(key: &str) -> Result<(), SignatureError> {
    PublicKey::from_base64(key).map(drop).map_err(SignatureError::Key)
}

fn verify_minisign(key: &str, signature: &str, content: &mut impl Read) -> Result<(), SignatureError> {
    let key = PublicKey::from_base64(key).map_err(SignatureError::Key)?;
    let signature = Signature::decode(signature).map_err(SignatureError::Malformed)?;
    let mut verifier = key.verify_stream(&signature).map_err(|error| match error {
        minisign_verify::Error::UnsupportedLegacyMode => SignatureError::Legacy,
        error => SignatureError::Wrong(error),
    })?;
    let mut buffer = vec![0; BUFFER_SIZE];
    loop {
        match content.read(&mut buffer) {
            Ok(0) => return verifier.finalize().map_err(SignatureError::Wrong),
            Ok(length) => verifier.update(buffer.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn verify_openpgp(keyring: PathBuf, signature: PathBuf, signed: PathBuf) -> Result<(), SignatureError> {
    let words: [OsString; 6] =
        ["gpgv".into(), "--keyring".into(), keyring.into(), "--".into(), signature.into(), signed.into()];
    let mut program = Program::from_words(words);
    program.timeout(Some(GPGV_TIME));
    let mut said = Vec::new();
    let ended = program.run(|_, bytes| said.extend_from_slice(bytes));
    let ended = ended.map_err(|error| SignatureError::NoProgram(error.to_string()))?;
    let Some(failure) = ended.failure() else { return Ok(()) };
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().last().map(|line| line.trim_start_matches("gpgv: ").to_owned());
    Err(SignatureError::Refused(last.unwrap_or(failure)))
}
