//! Verifying a download: its checksum in a list on a server, and signatures of the download or of the list, made with minisign or OpenPGP.

use super::Deployment;
use crate::definition::Archive;
use crate::error::ArchiveError;
use crate::store::ArchiveRecord;
use holo_change::base_store::Remembered;
use holo_change::error::{PathError, reason};
use holo_change::{PathHandle, Tree};
use holo_download::{self as download, Address, BUFFER_SIZE, Checksum, CompleteDownload, Download, sha256};
use holo_plugin::Output;
use holo_plugin::process::Program;
use minisign_verify::{PublicKey, Signature};
use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The maximum size of a checksum list or signature, in bytes.
const LIMIT: u64 = 4 << 20;

impl Deployment<'_> {
    /// Returns the definition with the checksum from the list, if the definition names a list. If the server must not
    /// be contacted, or does not respond, the last known checksum is used.
    pub(crate) fn listed(&self, asks: bool, output: &mut Output<'_>) -> Result<Option<Archive>, ArchiveError> {
        let Some(address) = self.archive.checksum_list() else { return Ok(None) };
        let remembered: Option<Remembered<ArchiveRecord>> = self.store.memory.recall(self.id)?;
        let source = self.source();
        let record = remembered.map(|remembered| remembered.base).unwrap_or_default();
        let known = record.downloads().find(|known| known.source == source).and_then(|known| known.checksum.clone());
        let is_created = match &self.archive.creates {
            Some(path) => self.store.trees.root().place(Path::new(path)).stat()?.is_some(),
            None => false,
        };
        let asks = (asks || address.file().is_some()) && !(is_created && known.is_some());
        let checksum = match asks.then(|| self.ask_for_checksum(&address, output)) {
            None => known,
            Some(Ok(checksum)) => Some(checksum.to_string()),
            Some(Err(ArchiveError::Download(error))) if known.is_some() => {
                output.warning(format!("{error}; going on with the checksum of the last time"));
                known
            }
            Some(Err(error)) => return Err(error),
        };
        Ok(Some(Archive { checksum, ..self.archive.clone() }))
    }

    fn ask_for_checksum(&self, address: &Address, output: &mut Output<'_>) -> Result<Checksum, ArchiveError> {
        let list = self.fetch_small(address, "list", output)?;
        let mut text = Vec::new();
        list.open()?.read_to_end(&mut text)?;
        let verified = self.verify_file(&list, output);
        list.remove()?;
        verified.map_err(|error| error.of(address))?;
        let path = self.archive.addresses().first().map(Address::path).unwrap_or_default();
        let name = || path.rsplit('/').next().unwrap_or_default().to_owned();
        let list = || address.to_string();
        match find(&String::from_utf8_lossy(&text), &path) {
            Ok(Some(checksum)) => Ok(checksum),
            Ok(None) => Err(ArchiveError::NotListed { name: name(), list: list() }),
            Err(Contradiction { first, second }) => {
                Err(ArchiveError::Contradictory { list: list(), first, second, name: name() })
            }
        }
    }

    /// Fails if the download must be signed, but is not. With a checksum list, the signature is that of the list.
    pub(super) fn verify_download(
        &self,
        complete: &CompleteDownload,
        output: &mut Output<'_>,
    ) -> Result<(), ArchiveError> {
        if self.signer().is_none() {
            return Ok(());
        }
        let verified = self.verify_file(&complete.path, output);
        if verified.is_err() {
            complete.path.remove()?;
        }
        verified.map_err(|error| match self.archive.addresses().first() {
            Some(address) => error.of(address),
            None => error,
        })
    }

    /// Returns the required signer of the download itself.
    pub(super) fn signer(&self) -> Option<Signer<'_>> {
        self.archive.signer().filter(|_| self.archive.checksum_url.is_none())
    }

    fn verify_file(&self, signed: &PathHandle, output: &mut Output<'_>) -> Result<(), ArchiveError> {
        let (Some(signer), Some(address)) = (self.archive.signer(), self.archive.signature()) else { return Ok(()) };
        let signature = self.fetch_small(&address, "signature", output)?;
        let keyring =
            |path: &str| Ok::<_, PathError>(self.store.trees.root().place(Path::new(path)).followed()?.shown());
        let verified = signer.verify(&mut signed.open()?, (signed, &signature), keyring);
        signature.remove()?;
        Ok(verified?)
    }

    /// Downloads a small file to the cache directory. Headers and passwords are only sent to the server of the
    /// download.
    fn fetch_small(&self, address: &Address, name: &str, output: &mut Output<'_>) -> Result<PathHandle, ArchiveError> {
        let cache = Tree::open(self.host.cache_dir())?;
        let target = cache.place(&Path::new("small").join(sha256(self.id.as_bytes())).join(name));
        target.create_folder()?;
        let addresses = [address.clone()];
        let mut request = self.request(None, &addresses)?;
        if !self.archive.addresses().first().is_some_and(|own| own.is_same_server(address)) {
            (request.headers, request.credentials) = (Vec::new(), None);
        }
        (request.checksum, request.max_size) = (None, LIMIT);
        match download::download(&request, &target, self.host, output)? {
            Download::Complete(mut complete) => {
                complete.file.rewind()?;
                complete.path.rename_to(&target)?;
                Ok(target)
            }
            Download::Unmodified => Err(ArchiveError::MissingIsUnmodified),
        }
    }
}

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
    if let Some(failure) = output.ended.failure() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let last = stderr.lines().last().map(|line| line.trim_start_matches("gpgv: ").to_owned());
        return Err(SignatureError::Refused(last.unwrap_or(failure)));
    }
    if (status.good, status.valid, status.bad) != (1, 1, 0) {
        return Err(SignatureError::Distrusted("exactly one signature is expected".to_owned()));
    }
    Ok(())
}

/// The status lines of gpgv, which exits with 0 even for signatures by revoked or expired keys.
#[derive(Debug, Default, PartialEq, Eq)]
struct Status {
    /// The reason why a matching signature is not trusted.
    distrust: Option<String>,
    /// The numbers of `GOODSIG` lines, of `VALIDSIG` lines, and of signatures that do not match or cannot be verified.
    good: usize,
    valid: usize,
    bad: usize,
}

impl Status {
    fn parse(text: &str) -> Status {
        let mut status = Status::default();
        for line in text.lines().filter_map(|line| line.strip_prefix("[GNUPG:] ")) {
            let words: Vec<&str> = line.split(' ').collect();
            let word = |index: usize| words.get(index).copied().unwrap_or_default();
            let distrust = match word(0) {
                "GOODSIG" => {
                    status.good += 1;
                    None
                }
                "VALIDSIG" => {
                    status.valid += 1;
                    weak_digest(word(8)).map(|name| format!("it is made with {name}; SHA-256 or stronger is required"))
                }
                "BADSIG" | "ERRSIG" => {
                    status.bad += 1;
                    None
                }
                "REVKEYSIG" => Some(format!("the key {} has been revoked", word(1))),
                "EXPKEYSIG" => Some(format!("the key {} has expired", word(1))),
                "EXPSIG" => Some("it has expired".to_owned()),
                _ => None,
            };
            status.distrust = status.distrust.or(distrust);
        }
        status
    }
}

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

/// Two lines of a list with different checksums for the same file, by line number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contradiction {
    pub(crate) first: usize,
    pub(crate) second: usize,
}

/// Returns the checksum for the file with this URL path. A list that consists of a single checksum without name is
/// valid for any file.
pub(crate) fn find(list: &str, path: &str) -> Result<Option<Checksum>, Contradiction> {
    let is_entry = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let mut entries = list.lines().filter(is_entry);
    if let (Some(only), None) = (entries.next(), entries.next())
        && let Some(checksum) = ["sha256", "sha512"].iter().find_map(|algorithm| checksum(algorithm, only.trim()))
    {
        return Ok(Some(checksum));
    }
    let mut found: Vec<(usize, Checksum)> = Vec::new();
    for (number, line) in (1..).zip(list.lines()).filter(|(_, line)| is_entry(line)) {
        let Some((checksum, name)) = entry(line) else { continue };
        if !names(&name, path) {
            continue;
        }
        let contradicts = |known: &Checksum| known.algorithm() == checksum.algorithm() && *known != checksum;
        if let Some((first, _)) = found.iter().find(|(_, known)| contradicts(known)) {
            return Err(Contradiction { first: *first, second: number });
        }
        found.push((number, checksum));
    }
    Ok(found.into_iter().map(|(_, checksum)| checksum).max_by_key(Checksum::algorithm))
}

/// Returns true if the name in a line equals the path of a URL, or its last components.
fn names(name: &str, path: &str) -> bool {
    let name = name.trim_start_matches("./");
    !name.is_empty() && path.strip_suffix(name).is_some_and(|parent| parent.is_empty() || parent.ends_with('/'))
}

/// Parses `DIGITS  NAME`, `DIGITS *NAME`, `DIGITS NAME` and `SHA256 (NAME) = DIGITS`, like `sha256sum --check`. A
/// backslash at the start of the line indicates that the name is escaped.
fn entry(line: &str) -> Option<(Checksum, Cow<'_, str>)> {
    let line = line.trim_start_matches([' ', '\t']);
    let (is_escaped, line) = line.strip_prefix('\\').map_or((false, line), |rest| (true, rest));
    let (checksum, name) = tagged(line).or_else(|| untagged(line))?;
    let name = if is_escaped { Cow::Owned(unescaped(name)?) } else { Cow::Borrowed(name) };
    Some((checksum, name))
}

fn tagged(line: &str) -> Option<(Checksum, &str)> {
    let (tag, rest) = line.split_once(" (")?;
    let (name, digits) = rest.rsplit_once(") = ")?;
    // Other algorithms have digests of the same length.
    let algorithm = match tag {
        "SHA256" => "sha256",
        "SHA512" => "sha512",
        _ => return None,
    };
    Some((checksum(algorithm, digits.trim_end())?, name))
}

fn untagged(line: &str) -> Option<(Checksum, &str)> {
    let (digits, name) = line.split_once([' ', '\t'])?;
    let algorithm = if digits.len() == 64 { "sha256" } else { "sha512" };
    // The marker for text or binary mode.
    let name = name.strip_prefix([' ', '*']).unwrap_or(name);
    Some((checksum(algorithm, digits)?, name))
}

fn checksum(algorithm: &str, digits: &str) -> Option<Checksum> {
    format!("{algorithm}:{digits}").parse().ok()
}

/// Unescapes a name; `None` if an escape sequence is unknown.
fn unescaped(name: &str) -> Option<String> {
    let mut letters = name.chars();
    let mut result = String::new();
    while let Some(letter) = letters.next() {
        result.push(match letter {
            '\\' => match letters.next()? {
                '\\' => '\\',
                'n' => '\n',
                'r' => '\r',
                _ => return None,
            },
            other => other,
        });
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(lines: &[&str]) -> Status {
        Status::parse(&lines.iter().map(|line| format!("[GNUPG:] {line}\n")).collect::<String>())
    }

    #[test]
    fn status_lines_of_gpgv_are_counted() {
        let good = "GOODSIG 39FAF2752CD37B16 good@example.org";
        let valid = "VALIDSIG CAEBF3CE65AD1184B70DEC7139FAF2752CD37B16 2026-11-23 1795449238 0 4 0 22 8 00 CAEBF3CE";
        assert_eq!(status(&["NEWSIG", good, valid]), Status { good: 1, valid: 1, ..Status::default() });
        let bad = status(&[good, valid, good, valid, "BADSIG 1 x", "ERRSIG 1 22 8 00 1 9 1"]);
        assert_eq!(bad, Status { good: 2, valid: 2, bad: 2, distrust: None });
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

    fn found(list: &str, path: &str) -> Option<String> {
        find(list, path).unwrap().map(|checksum| checksum.to_string())
    }

    #[test]
    fn list_is_read_in_every_form() {
        let (one, other, long) = ("1".repeat(64), "2".repeat(64), "a".repeat(128));
        let found = |list: &str| found(list, "/pub/dist/app.tar");
        let expected = Some(format!("sha256:{one}"));
        for list in [
            format!("{other}  app.tar.gz\n{one}  app.tar\n"),
            format!("{other} *other\n{one} *./dist/app.tar\n"),
            format!("{other}\tother\r\n{one}\tdist/app.tar\r\n"),
            format!("{other} other\n{one} /pub/dist/app.tar\n"),
            format!("# of today\n\nSHA256 (app.tar) = {one}\nSHA256 (b) = {other}\n"),
            format!("BLAKE2b (app.tar) = {long}\nSHA3-256 (app.tar) = {other}\nSHA256 (app.tar) = {one}\n"),
            format!("d41d8cd98f00b204e9800998ecf8427e  app.tar\n{one}  app.tar\n"),
            format!("{one}\n"),
            format!("# of today\n\n {} \n", one.to_uppercase()),
        ] {
            assert_eq!(found(&list), expected, "{list}");
        }
        assert_eq!(found(&format!("{long}  app.tar\n")), Some(format!("sha512:{long}")));
        assert_eq!(found(&format!("{long}  app.tar\n{one}  app.tar\n")), Some(format!("sha512:{long}")));
        for wrong in [
            String::new(),
            format!("{one}  app\n"),
            format!("{one}\n{other}\n"),
            "12  app.tar\n".to_owned(),
            format!("SHA256 (app.tar) = {long}\n"),
            format!("BLAKE2b (app.tar) = {long}\n"),
        ] {
            assert_eq!(found(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn name_is_a_suffix_of_the_path_at_a_component() {
        let sum = "1".repeat(64);
        let is_for = |name: &str, path: &str| found(&format!("{sum}  {name}\n"), path).is_some();
        for (name, path) in [
            ("app.tgz", "/app.tgz"),
            ("app.tgz", "/pub/1.0/app.tgz"),
            ("1.0/app.tgz", "/pub/1.0/app.tgz"),
            ("././1.0/app.tgz", "/pub/1.0/app.tgz"),
            ("/pub/1.0/app.tgz", "/pub/1.0/app.tgz"),
            ("a b (c) = d.tgz", "/a b (c) = d.tgz"),
            (" app.tgz", "/ app.tgz"),
        ] {
            assert!(is_for(name, path), "{name} {path}");
        }
        for (name, path) in [
            ("archive/1.0-vulnerable/app.tgz", "/app.tgz"),
            ("1.0/app.tgz", "/pub/11.0/app.tgz"),
            ("1.0/app.tgz", "/pub/2.0/app.tgz"),
            ("p.tgz", "/app.tgz"),
            ("/app.tgz", "/pub/app.tgz"),
            ("../app.tgz", "/app.tgz"),
            ("app.tgz/", "/app.tgz"),
            ("./", "/app.tgz"),
            (" app.tgz", "/app.tgz"),
            ("App.tgz", "/app.tgz"),
        ] {
            assert!(!is_for(name, path), "{name} {path}");
        }
    }

    #[test]
    fn escaped_name_is_unescaped_only_if_the_line_says_so() {
        let sum = "1".repeat(64);
        assert!(found(&format!("\\{sum}  a\\\\b\\nc\\rd\n"), "/a\\b\nc\rd").is_some());
        assert!(found(&format!("\\SHA256 (a\\\\b) = {sum}\n"), "/a\\b").is_some());
        assert!(found(&format!("{sum}  a\\nb\n"), "/a\\nb").is_some());
        assert!(found(&format!("{sum}  a\\nb\n"), "/a\nb").is_none());
        assert!(found(&format!("\\{sum}  a\\x\n"), "/a\\x").is_none());
        assert!(found(&format!("\\{sum}  a\\\n"), "/a\\").is_none());
    }

    #[test]
    fn contradicting_lines_are_an_error() {
        let (one, other, long) = ("1".repeat(64), "2".repeat(64), "a".repeat(128));
        let contradiction = Err(Contradiction { first: 2, second: 4 });
        assert_eq!(find(&format!("\n{one}  a\n{other}  b\n{other}  a\n"), "/x/a"), contradiction);
        assert_eq!(find(&format!("\n{one}  a\n{other}  b\nSHA256 (./x/a) = {other}\n"), "/x/a"), contradiction);
        assert!(find(&format!("{one}  a\n{long}  a\n{one} *a\n{other}  y/a\n"), "/x/a").is_ok());
    }
}
