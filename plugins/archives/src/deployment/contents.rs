//! The contents of files in the archive.

use super::Deployment;
use crate::error::ArchiveError;
use crate::extract::{Contents, Selection, find};
use crate::record::ArchiveRecord;
use holo_change::PathHandle;
use holo_download::Address;

impl Deployment<'_> {
    /// Finds contents in the extracted archive if it still exists locally: at its path, or at the path from which it
    /// was copied. No server is contacted.
    pub(crate) fn find_contents(&self, record: &ArchiveRecord, contents: &mut Contents) -> Result<(), ArchiveError> {
        let (Some(recorded), Some(directory)) = (&record.download, &self.archive.extract_to) else { return Ok(()) };
        let source = self.archive.addresses().first().and_then(Address::file);
        let source = source.and_then(|source| holo_download::open(&source, self.host).ok());
        for location in [Some(self.location()), source].into_iter().flatten() {
            let Some(mut file) = location.open_if_file()? else { continue };
            if !self.is_download(&location, &recorded.sha256)? {
                continue;
            }
            let selection = Selection::new(self.archive, &|_| Ok(false));
            return Ok(find(&mut file, contents, self.extraction(directory, &selection)?)?);
        }
        Ok(())
    }

    fn is_download(&self, location: &PathHandle, sha256: &str) -> Result<bool, ArchiveError> {
        Ok(self.store.checksums.digests(location, None)?.sha256 == sha256)
    }
}
