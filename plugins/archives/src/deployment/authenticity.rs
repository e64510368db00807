//! Verifying a download: its checksum in a list on a server, and signatures of the download or the list.

use super::Deployment;
use crate::checksum_list::{self, Contradiction};
use crate::definition::Archive;
use crate::error::ArchiveError;
use crate::record::ArchiveRecord;
use crate::signature::Signer;
use holo_change::base_store::Remembered;
use holo_change::error::PathError;
use holo_change::{PathHandle, Tree};
use holo_download::{self as download, Address, Checksum, CompleteDownload, Download, sha256};
use holo_plugin::Output;
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
        match checksum_list::find(&String::from_utf8_lossy(&text), &path) {
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
