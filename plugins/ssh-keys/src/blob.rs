//! Public keys in wire format: type, size and fingerprint.

use data_encoding::BASE64_NOPAD;
use sha2::{Digest, Sha256};

/// The minimum size of an RSA key in bits that OpenSSH accepts.
const MIN_RSA_BITS: usize = 1024;

/// A public key algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Rsa,
    Dsa,
    Ecdsa(Curve),
    Ed25519,
    EcdsaSk,
    Ed25519Sk,
}

/// A curve of an ECDSA key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Curve {
    P256,
    P384,
    P521,
}

/// The type of a key, parsed from the type name in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyType {
    algorithm: Algorithm,
    is_certificate: bool,
}

/// The properties of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyFacts {
    /// The size in bits.
    pub(crate) bits: usize,
    /// `SHA256:` and the Base64 digest. For a certificate, it is the digest of the certified key.
    pub(crate) fingerprint: String,
    /// The type as `ssh-keygen -l` prints it, such as `ED25519-CERT`.
    pub(crate) label: String,
}

/// Why a key is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadKey {
    #[error("the key is damaged")]
    Damaged,
    #[error("the key does not match the type in front of it")]
    OtherType,
    #[error("the type of the key is unknown")]
    UnknownType,
    #[error("an RSA key of less than {MIN_RSA_BITS} bits is not accepted by sshd")]
    TooShort,
}

impl Algorithm {
    /// Returns the type name that a plain key of this algorithm begins with.
    fn name(self) -> &'static [u8] {
        match self {
            Algorithm::Rsa => b"ssh-rsa",
            Algorithm::Dsa => b"ssh-dss",
            Algorithm::Ecdsa(Curve::P256) => b"ecdsa-sha2-nistp256",
            Algorithm::Ecdsa(Curve::P384) => b"ecdsa-sha2-nistp384",
            Algorithm::Ecdsa(Curve::P521) => b"ecdsa-sha2-nistp521",
            Algorithm::Ed25519 => b"ssh-ed25519",
            Algorithm::EcdsaSk => b"sk-ecdsa-sha2-nistp256@openssh.com",
            Algorithm::Ed25519Sk => b"sk-ssh-ed25519@openssh.com",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Algorithm::Rsa => "RSA",
            Algorithm::Dsa => "DSA",
            Algorithm::Ecdsa(_) => "ECDSA",
            Algorithm::Ed25519 => "ED25519",
            Algorithm::EcdsaSk => "ECDSA-SK",
            Algorithm::Ed25519Sk => "ED25519-SK",
        }
    }
}

impl Curve {
    fn name(self) -> &'static [u8] {
        match self {
            Curve::P256 => b"nistp256",
            Curve::P384 => b"nistp384",
            Curve::P521 => b"nistp521",
        }
    }

    fn bits(self) -> usize {
        match self {
            Curve::P256 => 256,
            Curve::P384 => 384,
            Curve::P521 => 521,
        }
    }
}

impl KeyType {
    /// Parses a type name. Some types have several names. Returns `None` for an unknown name.
    pub(crate) fn parse(name: &[u8]) -> Option<KeyType> {
        let plain = |algorithm| Some(KeyType { algorithm, is_certificate: false });
        let certificate = |algorithm| Some(KeyType { algorithm, is_certificate: true });
        match name {
            b"ssh-rsa" | b"rsa-sha2-256" | b"rsa-sha2-512" => plain(Algorithm::Rsa),
            b"ssh-dss" => plain(Algorithm::Dsa),
            b"ecdsa-sha2-nistp256" => plain(Algorithm::Ecdsa(Curve::P256)),
            b"ecdsa-sha2-nistp384" => plain(Algorithm::Ecdsa(Curve::P384)),
            b"ecdsa-sha2-nistp521" => plain(Algorithm::Ecdsa(Curve::P521)),
            b"ssh-ed25519" => plain(Algorithm::Ed25519),
            b"sk-ecdsa-sha2-nistp256@openssh.com" | b"webauthn-sk-ecdsa-sha2-nistp256@openssh.com" => {
                plain(Algorithm::EcdsaSk)
            }
            b"sk-ssh-ed25519@openssh.com" => plain(Algorithm::Ed25519Sk),
            b"ssh-rsa-cert-v01@openssh.com"
            | b"rsa-sha2-256-cert-v01@openssh.com"
            | b"rsa-sha2-512-cert-v01@openssh.com" => certificate(Algorithm::Rsa),
            b"ssh-dss-cert-v01@openssh.com" => certificate(Algorithm::Dsa),
            b"ecdsa-sha2-nistp256-cert-v01@openssh.com" => certificate(Algorithm::Ecdsa(Curve::P256)),
            b"ecdsa-sha2-nistp384-cert-v01@openssh.com" => certificate(Algorithm::Ecdsa(Curve::P384)),
            b"ecdsa-sha2-nistp521-cert-v01@openssh.com" => certificate(Algorithm::Ecdsa(Curve::P521)),
            b"ssh-ed25519-cert-v01@openssh.com" => certificate(Algorithm::Ed25519),
            b"sk-ecdsa-sha2-nistp256-cert-v01@openssh.com" => certificate(Algorithm::EcdsaSk),
            b"sk-ssh-ed25519-cert-v01@openssh.com" => certificate(Algorithm::Ed25519Sk),
            _ => None,
        }
    }

    /// Parses a key of this type.
    ///
    /// # Errors If the key is truncated, has trailing data, names another type, or is too short for sshd.
    pub(crate) fn read(self, blob: &[u8]) -> Result<KeyFacts, BadKey> {
        let mut reader = Reader(blob);
        let named = KeyType::parse(reader.string()?).ok_or(BadKey::UnknownType)?;
        if named != self {
            return Err(BadKey::OtherType);
        }
        if self.is_certificate {
            let _nonce = reader.string()?;
        }
        // The fingerprint is computed from the plain key as OpenSSH encodes it, without the certificate around it.
        let mut plain = Vec::new();
        push_string(&mut plain, self.algorithm.name());
        let bits = self.algorithm.read(&mut reader, &mut plain)?;
        if self.is_certificate {
            reader.certification()?;
        }
        if !reader.0.is_empty() {
            return Err(BadKey::Damaged);
        }
        let certified = if self.is_certificate { "-CERT" } else { "" };
        let label = format!("{}{certified}", self.algorithm.label());
        Ok(KeyFacts { bits, fingerprint: fingerprint(&plain), label })
    }
}

impl Algorithm {
    /// Reads the parameters of the key, appends them to `plain`, and returns the size in bits.
    fn read(self, reader: &mut Reader<'_>, plain: &mut Vec<u8>) -> Result<usize, BadKey> {
        match self {
            Algorithm::Rsa => {
                push_number(plain, reader.number()?);
                let modulus = reader.number()?;
                push_number(plain, modulus);
                let bits = bit_length(modulus);
                if bits < MIN_RSA_BITS { Err(BadKey::TooShort) } else { Ok(bits) }
            }
            Algorithm::Dsa => {
                let prime = reader.number()?;
                push_number(plain, prime);
                for _ in 0..3 {
                    push_number(plain, reader.number()?);
                }
                Ok(bit_length(prime))
            }
            Algorithm::Ecdsa(curve) => reader.point(curve, plain),
            Algorithm::EcdsaSk => {
                let bits = reader.point(Curve::P256, plain)?;
                push_string(plain, reader.string()?);
                Ok(bits)
            }
            Algorithm::Ed25519 | Algorithm::Ed25519Sk => {
                let key = reader.string()?;
                if key.len() != 32 {
                    return Err(BadKey::Damaged);
                }
                push_string(plain, key);
                if self == Algorithm::Ed25519Sk {
                    push_string(plain, reader.string()?);
                }
                Ok(256)
            }
        }
    }
}

/// Returns the fingerprint of a key blob.
pub(crate) fn fingerprint(blob: &[u8]) -> String {
    format!("SHA256:{}", BASE64_NOPAD.encode(&Sha256::digest(blob)))
}

/// Returns the type name inside of a key blob, for known and unknown types.
pub(crate) fn own_name(blob: &[u8]) -> Option<&[u8]> {
    Reader(blob).string().ok()
}

/// Parses a key from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], BadKey> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(BadKey::Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn string(&mut self) -> Result<&'a [u8], BadKey> {
        let length = self.take(4)?.iter().fold(0_usize, |length, byte| (length << 8) | usize::from(*byte));
        self.take(length)
    }

    /// Reads a number and strips its leading zeros. Numbers in keys are never negative.
    fn number(&mut self) -> Result<&'a [u8], BadKey> {
        let bytes = self.string()?;
        if bytes.first().is_some_and(|byte| byte & 0x80 != 0) {
            return Err(BadKey::Damaged);
        }
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        bytes.get(zeros..).ok_or(BadKey::Damaged)
    }

    /// Reads an uncompressed point on `curve`, appends it to `plain`, and returns the size in bits.
    fn point(&mut self, curve: Curve, plain: &mut Vec<u8>) -> Result<usize, BadKey> {
        let (name, point) = (self.string()?, self.string()?);
        let length = 1 + 2 * curve.bits().div_ceil(8);
        if name != curve.name() || point.len() != length || point.first() != Some(&4) {
            return Err(BadKey::Damaged);
        }
        push_string(plain, name);
        push_string(plain, point);
        Ok(curve.bits())
    }

    /// Skips the fields of a certificate after the key: serial, type, key ID, principals, validity period, critical options, extensions,
    /// reserved, signature key, signature.
    fn certification(&mut self) -> Result<(), BadKey> {
        self.take(8 + 4)?;
        for _ in 0..2 {
            self.string()?;
        }
        self.take(8 + 8)?;
        for _ in 0..5 {
            self.string()?;
        }
        Ok(())
    }
}

fn push_string(plain: &mut Vec<u8>, string: &[u8]) {
    // A string that was read from a key fits in 32 bits.
    plain.extend_from_slice(&u32::try_from(string.len()).unwrap_or(u32::MAX).to_be_bytes());
    plain.extend_from_slice(string);
}

fn push_number(plain: &mut Vec<u8>, number: &[u8]) {
    let would_be_negative = number.first().is_some_and(|byte| byte & 0x80 != 0);
    let zero: &[u8] = if would_be_negative { &[0] } else { &[] };
    push_string(plain, &[zero, number].concat());
}

/// Returns the length in bits of a number without leading zero bytes.
fn bit_length(number: &[u8]) -> usize {
    let unused = number.first().map_or(0, |byte| byte.leading_zeros() as usize);
    (number.len() * 8).saturating_sub(unused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(parts: &[&[u8]]) -> Vec<u8> {
        let mut blob = Vec::new();
        parts.iter().for_each(|part| push_string(&mut blob, part));
        blob
    }

    fn read(name: &str, blob: &[u8]) -> Result<KeyFacts, BadKey> {
        KeyType::parse(name.as_bytes()).unwrap().read(blob)
    }

    #[test]
    fn read_refuses_key_of_another_type() {
        let key = blob(&[b"ssh-ed25519", &[7; 32]]);
        assert_eq!(read("ssh-ed25519", &key).unwrap().label, "ED25519");
        assert_eq!(read("ssh-rsa", &key), Err(BadKey::OtherType));
        assert_eq!(read("ssh-ed25519", &blob(&[b"ssh-dreams", &[7; 32]])), Err(BadKey::UnknownType));
        assert_eq!(KeyType::parse(b"ED25519"), None);
    }

    #[test]
    fn read_refuses_damaged_key() {
        let key = blob(&[b"ssh-ed25519", &[7; 32]]);
        for length in 0..key.len() {
            assert_eq!(read("ssh-ed25519", &key[..length]), Err(BadKey::Damaged), "{length}");
        }
        assert_eq!(read("ssh-ed25519", &[&key[..], b"x"].concat()), Err(BadKey::Damaged));
        assert_eq!(read("ssh-ed25519", &blob(&[b"ssh-ed25519", &[7; 31]])), Err(BadKey::Damaged));
        let compressed = blob(&[b"ecdsa-sha2-nistp256", b"nistp256", &[2; 65]]);
        assert_eq!(read("ecdsa-sha2-nistp256", &compressed), Err(BadKey::Damaged));
        let other_curve = blob(&[b"ecdsa-sha2-nistp256", b"nistp384", &[4; 65]]);
        assert_eq!(read("ecdsa-sha2-nistp256", &other_curve), Err(BadKey::Damaged));
        assert_eq!(read("ssh-rsa", &blob(&[b"ssh-rsa", &[3], &[0x80; 256]])), Err(BadKey::Damaged));
        assert_eq!(read("ssh-rsa", &blob(&[b"ssh-rsa", &[3], &[0x7f; 127]])), Err(BadKey::TooShort));
        assert_eq!(read("ssh-rsa", b"\xff\xff\xff\xffssh-rsa"), Err(BadKey::Damaged));
    }

    #[test]
    fn fingerprint_ignores_leading_zeros_of_numbers() {
        let written = |modulus: &[u8]| read("ssh-rsa", &blob(&[b"ssh-rsa", &[1, 0, 1], modulus])).unwrap();
        let modulus = [&[0][..], &[0xff; 128]].concat();
        assert_eq!(written(&modulus).bits, 1024);
        assert_eq!(written(&modulus), written(&[&[0, 0, 0][..], &modulus].concat()));
        assert_eq!(written(&[0x01; 129]).bits, 1025);
    }
}
