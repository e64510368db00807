//! The request for a download, including credentials.

use super::Deployment;
use holo_change::error::PathError;
use holo_download::{self, Address, Credentials, PreviousDownload, Request, Timeouts};
use std::io::Read;
use std::path::Path;
use std::time::Instant;

/// The maximum number of bytes that are read from a file with a password or certificates, because the file could be
/// anything.
const SMALL_FILE: u64 = 4 << 20;

impl Deployment<'_> {
    pub(super) fn request<'r>(
        &'r self,
        previous: Option<PreviousDownload>,
        addresses: &'r [Address],
    ) -> Result<Request<'r>, PathError> {
        let headers = self.archive.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok(Request {
            addresses,
            headers,
            credentials: self.credentials()?,
            authorities: self.archive.ca_file.as_deref().map(|path| self.read_bounded(path)).transpose()?,
            checksum: self.archive.checksum(),
            previous,
            checksums: &self.store.checksums,
            max_size: self.archive.max_size.unwrap_or(holo_download::MAX_SIZE),
            deadline: Instant::now().checked_add(self.timeout.unwrap_or(holo_download::TIME_LIMIT)),
            timeouts: Timeouts::default(),
        })
    }

    fn credentials(&self) -> Result<Option<Credentials>, PathError> {
        let Some(username) = self.archive.username.clone() else { return Ok(None) };
        let password = match (&self.archive.password, &self.archive.password_file) {
            (Some(password), _) => password.clone(),
            (None, Some(path)) => self.read_password(path)?,
            // Rejected by the validation of the definition.
            (None, None) => return Ok(None),
        };
        Ok(Some(Credentials { username, password }))
    }

    fn read_password(&self, path: &str) -> Result<String, PathError> {
        let invalid = |error| PathError::new("read", path, std::io::Error::new(std::io::ErrorKind::InvalidData, error));
        let text = String::from_utf8(self.read_bounded(path)?).map_err(invalid)?;
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    /// Reads a small local file that the definition names.
    fn read_bounded(&self, path: &str) -> Result<Vec<u8>, PathError> {
        let path = self.store.trees.root().place(Path::new(path)).followed()?;
        let mut content = Vec::new();
        let read = path.open()?.take(SMALL_FILE).read_to_end(&mut content);
        read.map_err(|error| PathError::new("read", path.shown(), error))?;
        Ok(content)
    }
}
