//! Verifying a download: its checksum in a list on a server, and signatures of the download or of the list.

use super::Deployment;
use crate::definition::Archive;
use crate::error::ArchiveError;
use crate::signature::Signer;
use crate::store::ArchiveRecord;
use holo_change::base_store::Remembered;
use holo_change::{PathHandle, Tree};
use holo_download::{self as download, Address, Checksum, CompleteDownload, Download, sha256};
use holo_plugin::Output;
use std::borrow::Cow;
use std::io::{Read, Seek};
use std::path::Path;

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
        let keyring = |path: &str| Ok(self.trusted(path)?.shown());
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

    fn found(list: &str, path: &str) -> Option<String> {
        find(list, path).unwrap().map(|checksum| checksum.to_string())
    }

    #[test]
    fn no_list_makes_the_search_panic() {
        let words = ["SHA256 (", ") = ", "  ", " *", "\\", "./", "x.tar.gz", "\n", "SHA512-256 "];
        let target = holo_testing::fuzz::Target::new(env!("CARGO_MANIFEST_DIR"), "lists").words(&words).inputs(5000);
        target.run(|input| drop(find(&String::from_utf8_lossy(input), "/srv/x.tar.gz")));
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
