//! Checksums of downloads, and digests of files.

use holo_change::hex;
use sha2::{Digest, Sha256, Sha512};
use std::fmt::{self, Display};
use std::io::{self, Read};
use std::str::FromStr;

/// The number of bytes to read at once.
pub const BUFFER_SIZE: usize = 1 << 16;

/// A checksum in a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    algorithm: Algorithm,
    digits: String,
}

/// The algorithm of a checksum; the stronger one is the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// The reason why a checksum is not usable.
#[derive(Debug, thiserror::Error)]
pub enum ChecksumError {
    /// The algorithm is unknown.
    #[error("{0:?} does not begin with \"sha256:\" or \"sha512:\"")]
    Algorithm(String),
    /// The digest has the wrong length or invalid digits.
    #[error("{0:?} does not end with {1} hexadecimal digits")]
    Digits(String, usize),
}

impl Checksum {
    /// Returns the algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the digits of an SHA-256, in lower case.
    #[must_use]
    pub fn sha256(&self) -> Option<&str> {
        (self.algorithm == Algorithm::Sha256).then_some(self.digits.as_str())
    }
}

impl FromStr for Checksum {
    type Err = ChecksumError;

    fn from_str(text: &str) -> Result<Checksum, ChecksumError> {
        let (algorithm, digits, length) = match text.split_once(':') {
            Some(("sha256", digits)) => (Algorithm::Sha256, digits, 64),
            Some(("sha512", digits)) => (Algorithm::Sha512, digits, 128),
            _ => return Err(ChecksumError::Algorithm(text.to_owned())),
        };
        if digits.len() != length || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(ChecksumError::Digits(text.to_owned(), length));
        }
        Ok(Checksum { algorithm, digits: digits.to_ascii_lowercase() })
    }
}

impl Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let algorithm = match self.algorithm {
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        };
        write!(f, "{algorithm}:{}", self.digits)
    }
}

/// The digests of a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// The SHA-256, which is recorded for all contents.
    pub sha256: String,
    sha512: Option<String>,
}

impl Digests {
    /// Reads the rest of a file. In addition to the SHA-256, the digest that the checksum needs is computed.
    pub fn read(reader: &mut impl Read, wanted: Option<&Checksum>) -> io::Result<Digests> {
        Digests::read_with(reader, wanted, &mut vec![0; BUFFER_SIZE])
    }

    /// Like [`Digests::read`], with a buffer that can be reused for many files.
    pub fn read_with(reader: &mut impl Read, wanted: Option<&Checksum>, buffer: &mut [u8]) -> io::Result<Digests> {
        let mut sha256 = Sha256::new();
        let mut sha512 = wanted.filter(|wanted| wanted.algorithm == Algorithm::Sha512).map(|_| Sha512::new());
        loop {
            match reader.read(buffer) {
                Ok(0) => break,
                Ok(length) => {
                    let bytes = buffer.get(..length).unwrap_or_default();
                    sha256.update(bytes);
                    if let Some(sha512) = &mut sha512 {
                        sha512.update(bytes);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Digests { sha256: hex(&sha256.finalize()), sha512: sha512.map(|sum| hex(&sum.finalize())) })
    }

    /// Returns the digests in the recorded form: the SHA-256, then the SHA-512 if it was computed.
    pub fn to_words(&self) -> String {
        self.sha512.as_ref().map_or_else(|| self.sha256.clone(), |sha512| format!("{} {sha512}", self.sha256))
    }

    /// Parses recorded digests.
    pub fn parse(words: &str) -> Option<Digests> {
        let (sha256, sha512) = words.split_once(' ').map_or((words, None), |(one, other)| (one, Some(other)));
        let is_sum = |sum: &str, length| sum.len() == length && sum.bytes().all(|digit| digit.is_ascii_hexdigit());
        let is_sound = is_sum(sha256, 64) && sha512.is_none_or(|sum| is_sum(sum, 128));
        is_sound.then(|| Digests { sha256: sha256.to_owned(), sha512: sha512.map(str::to_owned) })
    }

    /// Returns true if the digest that the checksum needs was computed.
    pub fn covers(&self, wanted: &Checksum) -> bool {
        wanted.algorithm == Algorithm::Sha256 || self.sha512.is_some()
    }

    /// Returns the actual digest as a checksum if it differs from the wanted one; `None` if it matches.
    #[must_use]
    pub fn mismatch(&self, wanted: &Checksum) -> Option<String> {
        let (name, found) = match wanted.algorithm {
            Algorithm::Sha256 => ("sha256", Some(&self.sha256)),
            Algorithm::Sha512 => ("sha512", self.sha512.as_ref()),
        };
        match found {
            Some(found) if *found == wanted.digits => None,
            Some(found) => Some(format!("{name}:{found}")),
            None => Some("unknown".to_owned()),
        }
    }
}

/// Returns the SHA-256 of bytes.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_strict() {
        let digits = "a".repeat(64);
        assert_eq!(format!("sha256:{digits}").parse::<Checksum>().unwrap().to_string(), format!("sha256:{digits}"));
        let upper = format!("sha256:{}", "A".repeat(64)).parse::<Checksum>().unwrap();
        assert_eq!(upper.to_string(), format!("sha256:{digits}"));
        for wrong in [
            digits.clone(),
            format!("md5:{digits}"),
            format!("SHA256:{digits}"),
            format!("sha256:{}", "a".repeat(63)),
            format!("sha256: {}", "a".repeat(63)),
            format!("sha256:{}", "g".repeat(64)),
            format!("sha512:{digits}"),
            "sha256:".to_owned(),
        ] {
            assert!(wrong.parse::<Checksum>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn sums_are_those_of_the_standard() {
        let wanted = "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                      2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f";
        let sums = Digests::read(&mut &b"abc"[..], Some(&wanted.parse().unwrap())).unwrap();
        assert_eq!(sums.mismatch(&wanted.parse().unwrap()), None);
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sums.sha256, sha256);
        assert_eq!(
            sums.mismatch(&format!("sha256:{}", "0".repeat(64)).parse().unwrap()),
            Some(format!("sha256:{sha256}"))
        );
    }
}
