//! Verifying signatures of downloads and checksum lists, made with minisign or OpenPGP. The latter are verified by
//! `gpgv`.

use holo_change::PathHandle;
use holo_change::error::{PathError, reason};
use holo_download::{BUFFER_SIZE, sha256};
use holo_plugin::process::Program;
use minisign_verify::{PublicKey, Signature};
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

/// The timeout for `gpgv`.
const GPGV_TIME: Duration = Duration::from_secs(10 * 60);

/// A signature was not accepted.
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
    #[error("its signature is not accepted: {0}")]
    Distrusted(String),
    #[error("{}", reason(.0))]
    Io(#[from] io::Error),
    #[error(transparent)]
    Path(#[from] PathError),
}

/// The required signer.
pub(crate) enum Signer<'a> {
    /// The owner of a minisign key.
    Minisign(&'a str),
    /// The owner of a key in this file, which was created by `gpg --export`.
    Keyring(&'a str),
}

impl Signer<'_> {
    /// Returns a text that identifies the signer.
    pub(crate) fn identity(&self) -> String {
        let (Signer::Minisign(text) | Signer::Keyring(text)) = self;
        sha256(text.as_bytes())
    }

    /// Fails unless this is a signature of the content of a file. The paths are needed for `gpgv`.
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

/// Fails if a text is not a minisign key.
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
    let mut words: Vec<OsString> = ["gpgv", "--status-fd", "1", "--keyring"].map(OsString::from).into();
    words.extend([keyring.into(), "--".into(), signature.into(), signed.into()]);
    let mut program = Program::from_words(words);
    program.timeout(Some(GPGV_TIME));
    let output = program.output().map_err(|error| SignatureError::NoProgram(error.to_string()))?;
    let status = Status::parse(&String::from_utf8_lossy(&output.stdout));
    if let Some(reason) = status.distrust {
        return Err(SignatureError::Distrusted(reason));
    }
    match output.ended.failure() {
        Some(failure) if !status.explains_failure() => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let last = stderr.lines().last().map(|line| line.trim_start_matches("gpgv: ").to_owned());
            Err(SignatureError::Refused(last.unwrap_or(failure)))
        }
        _ if !status.is_good() => Err(SignatureError::Distrusted("gpgv reports no good signature".to_owned())),
        _ => Ok(()),
    }
}

/// The status lines of gpgv, which exits with 0 even for signatures by revoked or expired keys, and with 2 if only one
/// of several signatures is by a key that the keyring does not contain.
#[derive(Debug, Default, PartialEq, Eq)]
struct Status {
    /// The reason why a matching signature is not trusted.
    distrust: Option<String>,
    /// The numbers of `GOODSIG` lines and of `VALIDSIG` lines.
    good: usize,
    valid: usize,
    /// The number of signatures by keys that the keyring does not contain.
    foreign: usize,
    /// The number of other signatures that do not match or cannot be verified, and of lines with unknown keywords.
    bad: usize,
    unknown: usize,
}

impl Status {
    fn parse(text: &str) -> Status {
        let mut status = Status::default();
        for line in text.lines().filter_map(|line| line.strip_prefix("[GNUPG:] ")) {
            let words: Vec<&str> = line.split(' ').collect();
            let word = |index: usize| words.get(index).copied().unwrap_or_default();
            let (count, distrust) = match word(0) {
                "GOODSIG" => (Some(&mut status.good), None),
                "VALIDSIG" => {
                    let distrust = weak_digest(word(8))
                        .map(|name| format!("it is made with {name}; SHA-256 or stronger is required"));
                    (Some(&mut status.valid), distrust)
                }
                "ERRSIG" if word(6) == MISSING_KEY => (Some(&mut status.foreign), None),
                "BADSIG" | "ERRSIG" => (Some(&mut status.bad), None),
                "REVKEYSIG" => (None, Some(format!("the key {} has been revoked", word(1)))),
                "EXPKEYSIG" => (None, Some(format!("the key {} has expired", word(1)))),
                "EXPSIG" => (None, Some("it has expired".to_owned())),
                "NEWSIG" | "KEY_CONSIDERED" | "SIG_ID" | "NO_PUBKEY" => (None, None),
                word if word.starts_with("NOTATION_") || word == "POLICY_URL" => (None, None),
                _ => (Some(&mut status.unknown), None),
            };
            count.into_iter().for_each(|count| *count += 1);
            status.distrust = status.distrust.or(distrust);
        }
        status
    }

    /// Returns true if there is a good signature, and none that is bad or cannot be trusted. Signatures by foreign keys
    /// are ignored, because anyone can add them.
    fn is_good(&self) -> bool {
        self.distrust.is_none() && self.good > 0 && self.good == self.valid && self.bad == 0
    }

    /// Returns true if gpgv has failed only because of signatures by foreign keys next to a good one.
    fn explains_failure(&self) -> bool {
        self.is_good() && self.foreign > 0 && self.unknown == 0
    }
}

/// The reason code of `ERRSIG` for a key that the keyring does not contain.
const MISSING_KEY: &str = "9";

/// Returns the name of a digest that is weaker than SHA-2 and SHA-3, by its number in OpenPGP.
fn weak_digest(number: &str) -> Option<String> {
    match number {
        "8" | "9" | "10" | "11" | "12" | "14" => None,
        "1" => Some("MD5".to_owned()),
        "2" => Some("SHA-1".to_owned()),
        "3" => Some("RIPEMD-160".to_owned()),
        other => Some(format!("digest algorithm {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(lines: &[&str]) -> Status {
        Status::parse(&lines.iter().map(|line| format!("[GNUPG:] {line}\n")).collect::<String>())
    }

    #[test]
    fn no_signature_makes_the_verification_panic() {
        const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
        validate_key(KEY).unwrap();
        let words =
            ["[GNUPG:] ", "GOODSIG ", "VALIDSIG ", "\n", "untrusted comment: ", "trusted comment: ", "==", "RUQ", " "];
        let target =
            holo_testing::fuzz::Target::new(env!("CARGO_MANIFEST_DIR"), "signatures").words(&words).inputs(3000);
        target.run(|input| {
            let text = String::from_utf8_lossy(input);
            drop(Status::parse(&text));
            drop(validate_key(&text));
            drop(verify_minisign(KEY, &text, &mut &b"test"[..]));
        });
    }

    #[test]
    fn one_good_signature_suffices_if_no_other_is_bad() {
        let good = "GOODSIG 39FAF2752CD37B16 good@example.org";
        let valid = "VALIDSIG CAEBF3CE65AD1184B70DEC7139FAF2752CD37B16 2026-11-23 1795449238 0 4 0 22 8 00 CAEBF3CE";
        let foreign = "ERRSIG 54F5F478409A7B66 22 8 00 1795744530 9 AC85";
        // For each list of lines, whether the verdict is good, and whether it explains a failure of gpgv.
        for (lines, is_good, explains_failure) in [
            (&["NEWSIG", good, valid][..], true, false),
            (&[good, valid, good, valid], true, false),
            (&[good, valid, "NEWSIG", foreign, "NO_PUBKEY 54F5F478409A7B66"], true, true),
            (&[foreign, good, valid, "NOTATION_NAME a", "NOTATION_DATA b"], true, true),
            // Data after the signatures.
            (&[good, valid, foreign, "UNEXPECTED 0"], true, false),
            (&[good, valid, foreign, "FAILURE gpg-exit 1"], true, false),
            (&[foreign], false, false),
            (&[good], false, false),
            (&[valid], false, false),
            (&[good, valid, "BADSIG 1 x"], false, false),
            (&[good, valid, foreign, "BADSIG 1 x"], false, false),
            // An unsupported algorithm.
            (&[good, valid, "ERRSIG 1 22 8 00 1 4 1"], false, false),
            (&[good, valid, foreign, "EXPKEYSIG 11CD a b"], false, false),
            (&[], false, false),
        ] {
            let status = status(lines);
            assert_eq!((status.is_good(), status.explains_failure()), (is_good, explains_failure), "{lines:?}");
        }
        // Text without the prefix is not a status line.
        assert_eq!(Status::parse(&format!("{good}\n{valid}\n")), Status::default());
    }

    #[test]
    fn signatures_that_match_can_be_untrustworthy() {
        let reason = |line: &str| status(&["NEWSIG", line, "KEY_CONSIDERED 1 0"]).distrust.unwrap();
        assert_eq!(reason("REVKEYSIG 1BD6 a b"), "the key 1BD6 has been revoked");
        assert_eq!(reason("EXPKEYSIG 11CD a b"), "the key 11CD has expired");
        assert_eq!(reason("EXPSIG 11CD a b"), "it has expired");
        let valid = |digest: &str| format!("VALIDSIG CAEB 2026-11-23 1795449238 0 4 0 22 {digest} 00 CAEB");
        for (digest, name) in [("1", "MD5"), ("2", "SHA-1"), ("3", "RIPEMD-160"), ("99", "digest algorithm \"99\"")] {
            assert_eq!(reason(&valid(digest)), format!("it is made with {name}; SHA-256 or stronger is required"));
        }
        assert_eq!(reason("VALIDSIG CAEB"), "it is made with digest algorithm \"\"; SHA-256 or stronger is required");
        assert_eq!(status(&[&valid("10")]).distrust, None);
    }

    /// Two keys and their signatures of the body, as created by minisign 0.11.
    const KEY: &str = "RWTXE0WxFL21948s0LWMbuXI9D9KPt+cxUqWxKHl0ZZAupg1kcNYxUxK";
    const OTHER_KEY: &str = "RWQPDL6oAc0b0+1btqN6KT6DmAyVI41zkCDdXnGXitjEpfxz8II3yxGJ";
    const BODY: &str = "The quick brown fox jumps over the lazy dog.\n";
    const SIGNATURE: [&str; 4] = [
        "untrusted comment: untrusted",
        "RUTXE0WxFL2194+LVIw1Q+tIO1QpecSCDPsWlTPHHsPS15jcvsjS+1SEMDt3ntJf/+y94d2wwKb3KPOTd7QLZPKuzSDoCf+1ewg=",
        "trusted comment: made for a test",
        "cj8+f2ARLsA9tjmzehG2rwaiaNlTHLzdLglq8OoKplGUMAGoWZtKxKWQmiKTfAO4vWZ5daWHSvsMqNawmdWRDA==",
    ];
    const OTHER_SIGNATURE: [&str; 4] = [
        "untrusted comment: signature from minisign secret key",
        "RUQPDL6oAc0b0yIcU64V/at1aeCSA511s3zJ9+krOZzaW6wLC+Wxbx52saOy8HLDgem2FEsINZEV7QcNCYZbFIzqw8a4fjxTNgw=",
        "trusted comment: made for a test",
        "lTo7hY3hqbmtQQhviRHqH3SuxGXmpvBxz5N72MbPMhHajSp3oAV3mWlv3beEKLptfyrvkX+nNOIPJfRrhJ7vCg==",
    ];
    const LEGACY_SIGNATURE: [&str; 4] = [
        "untrusted comment: signature from minisign secret key",
        "RWTXE0WxFL219xPDH6fk7w2TSyZM9Y2My7aF6AacVlwMhhziGUwxG4M5zJvJs+MlfBrNrqKJEn2aynWmPDz5+C+N+N4FxC43HQE=",
        "trusted comment: made for a test",
        "BUpg9tGqw33mPcRwzEXatHFzbCR8Xij5v9NW4iyWM91Hqdz8DGxWHKQor0kvyTMe9aMwyBk59SGD6DgfCsSwCA==",
    ];

    #[test]
    fn minisign_signatures_of_other_keys_and_contents_are_refused() {
        let verify = |key: &str, lines: [&str; 4], body: &str| {
            let text = lines.join("\n") + "\n";
            verify_minisign(key, &text, &mut body.as_bytes()).map_err(|error| error.to_string())
        };
        assert_eq!(verify(KEY, SIGNATURE, BODY), Ok(()));
        assert_eq!(verify(OTHER_KEY, OTHER_SIGNATURE, BODY), Ok(()));
        let [comment, signature, trusted, global] = SIGNATURE;
        // Only the untrusted comment is not signed.
        assert_eq!(verify(KEY, ["untrusted comment: other", signature, trusted, global], BODY), Ok(()));
        for (key, lines, body, reason) in [
            (OTHER_KEY, SIGNATURE, BODY, "its signature is wrong: "),
            (KEY, OTHER_SIGNATURE, BODY, "its signature is wrong: "),
            (KEY, SIGNATURE, "", "its signature is wrong: "),
            (KEY, SIGNATURE, "The quick brown fox.\n", "its signature is wrong: "),
            (KEY, [comment, signature, "trusted comment: other", global], BODY, "its signature is wrong: "),
            (KEY, [comment, signature, trusted, OTHER_SIGNATURE[3]], BODY, "its signature is wrong: "),
            (KEY, LEGACY_SIGNATURE, BODY, "its signature was made by an old version of minisign"),
            (KEY, [comment, "RUTX", trusted, global], BODY, "its signature is not one of minisign: "),
            (KEY, [comment, "", "", ""], BODY, "its signature is not one of minisign: "),
            ("RWTX", SIGNATURE, BODY, "minisign_key is not a public key of minisign: "),
        ] {
            let refused = verify(key, lines, body).unwrap_err();
            assert!(refused.starts_with(reason), "{key} {lines:?} {body:?}: {refused}");
        }
    }
}
