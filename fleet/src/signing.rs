//! Signatures as `ssh-keygen -Y` makes and verifies them: with keys in files, in agents and on hardware tokens.

use crate::config::{ConfigError, trust};
use holo_process::Program;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// What is signed, which is part of the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Namespace {
    /// Bundles.
    Bundle,
    /// Records of channels.
    Channel,
    /// Data layers.
    Data,
}

impl Namespace {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Namespace::Bundle => "holo-bundle",
            Namespace::Channel => "holo-channel",
            Namespace::Data => "holo-data",
        }
    }
}

/// Something cannot be signed, or its signature is not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SigningError {
    /// The program does not work.
    #[error("ssh-keygen: {0}; is OpenSSH's client installed?")]
    Program(String),
    /// The key does not sign.
    #[error("{}: cannot sign: {reason}", key.display())]
    Sign {
        /// The key.
        key: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Nobody may sign.
    #[error("{}: there is no such file; write the public keys of your operators to it, each on a line: anna namespaces=\"holo-bundle,holo-channel,holo-data\" ssh-ed25519 AAAA…", .0.display())]
    NoSigners(PathBuf),
    /// Other users may change the list of signers.
    #[error(transparent)]
    Untrusted(#[from] ConfigError),
    /// Nobody who may sign has signed.
    #[error("the signature is not of anyone who may sign for {namespace} in {}: {reason}", signers.display())]
    Refused {
        /// The list.
        signers: PathBuf,
        /// What is signed.
        namespace: &'static str,
        /// The reason.
        reason: String,
    },
}

fn keygen(arguments: &[&str], input: &[u8]) -> Result<holo_process::Output, SigningError> {
    let program = |error: &dyn std::fmt::Display| SigningError::Program(error.to_string());
    let mut keygen = Program::new("ssh-keygen");
    keygen.plain_locale().arg("-Y").args(arguments).stdin(input);
    keygen.output().map_err(|error| program(&error))
}

/// Signs a document with a private key, or with the private key of a public one in an SSH agent.
pub(crate) fn sign(key: &Path, namespace: Namespace, document: &[u8]) -> Result<String, SigningError> {
    let output = keygen(&["sign", "-q", "-f", &key.to_string_lossy(), "-n", namespace.name()], document)?;
    let reason = |reason: String| SigningError::Sign { key: key.to_owned(), reason };
    if let Some(failure) = output.ended.failure() {
        return Err(reason(output.ended.last_lines(1).pop().unwrap_or(failure)));
    }
    String::from_utf8(output.stdout).map_err(|_| reason("the signature is not text".to_owned()))
}

/// The keys whose signatures are accepted.
#[derive(Clone, Debug)]
pub(crate) struct Signers {
    path: PathBuf,
}

impl Signers {
    /// Returns the keys in a file in the format `allowed_signers` of ssh-keygen(1).
    pub(crate) fn new(path: impl Into<PathBuf>) -> Signers {
        Signers { path: path.into() }
    }

    /// Returns true if there is a list of keys.
    pub(crate) fn exist(&self) -> bool {
        self.path.exists()
    }

    /// Verifies a signature, and returns the name of who made it.
    pub(crate) fn verify(
        &self,
        namespace: Namespace,
        document: &[u8],
        signature: &str,
    ) -> Result<String, SigningError> {
        if !self.path.exists() {
            return Err(SigningError::NoSigners(self.path.clone()));
        }
        trust(&self.path)?;
        let program = |error: std::io::Error| SigningError::Program(error.to_string());
        // It has no name that could be left behind.
        let mut file = tempfile::tempfile().map_err(program)?;
        file.write_all(signature.as_bytes()).map_err(program)?;
        let signature = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let list = std::fs::read_to_string(&self.path).map_err(|error| SigningError::Program(error.to_string()))?;
        let refused =
            |reason| SigningError::Refused { signers: self.path.clone(), namespace: namespace.name(), reason };
        let reason = match verify(&self.path, namespace, document, &signature)? {
            Verdict::Accepted(name) => return Ok(name),
            Verdict::Unknown(reason) => return Err(refused(reason)),
            Verdict::Refused(reason) => reason,
        };
        // ssh-keygen looks no further than the first line with the key, even if only another one has the namespace.
        for line in list.lines() {
            let mut one = tempfile::NamedTempFile::new().map_err(program)?;
            writeln!(one, "{line}").map_err(program)?;
            if let Verdict::Accepted(name) = verify(one.path(), namespace, document, &signature)? {
                return Ok(name);
            }
        }
        Err(refused(reason))
    }
}

/// What a list of keys says about a signature.
enum Verdict {
    /// It was made by this principal.
    Accepted(String),
    /// Its key is listed, but not for this.
    Refused(String),
    /// Its key is not listed, or has expired, or there is none.
    Unknown(String),
}

fn verify(list: &Path, namespace: Namespace, document: &[u8], signature: &str) -> Result<Verdict, SigningError> {
    let list = list.to_string_lossy();
    let found = keygen(&["find-principals", "-s", signature, "-f", &list], b"")?;
    let names = String::from_utf8_lossy(&found.stdout).into_owned();
    if found.ended.failure().is_some() || names.is_empty() {
        let said = found.ended.last_lines(2).into_iter().find(|line| line != "No principal matched.");
        return Ok(Verdict::Unknown(said.unwrap_or_else(|| "its key is not in the list".to_owned())));
    }
    let mut reason = String::new();
    for name in names.lines() {
        let words = ["verify", "-q", "-f", &list, "-I", name, "-n", namespace.name(), "-s", signature];
        let verified = keygen(&words, document)?;
        match verified.ended.failure() {
            None => return Ok(Verdict::Accepted(name.to_owned())),
            Some(failure) => reason = verified.ended.last_lines(1).pop().unwrap_or(failure),
        }
    }
    Ok(Verdict::Refused(reason))
}
