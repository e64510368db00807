//! Obtaining the download: the existing file, or one from the server, with the credentials of the definition.

use super::Deployment;
use super::state::{CurrentFile, CurrentState, DownloadState};
use crate::error::ArchiveError;
use crate::store::{ArchiveRecord, DownloadRecord};
use holo_change::base_store::Remembered;
use holo_change::error::PathError;
use holo_change::manifest::Ownership;
use holo_change::tree_store::{Adoption, OwnedTree, PendingEntry, TreeError};
use holo_change::{Durability, PathHandle, Stamp, set_ownership};
use holo_download::{
    self, Address, CompleteDownload, Credentials, Download, DownloadError, PreviousDownload, Request, Timeouts,
    Validators,
};
use holo_plugin::system::{Trust, TrustError};
use holo_plugin::{ForceTo, Output};
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A download that is in place.
pub(super) struct LocalArchive {
    pub(super) file: File,
    pub(super) sha256: String,
}

impl Deployment<'_> {
    /// Puts the desired download into place. Returns it if further work is needed.
    pub(super) fn fetch(
        &self,
        state: &mut CurrentState,
        force: bool,
        changes: &mut Vec<String>,
        output: &mut Output<'_>,
    ) -> Result<Option<LocalArchive>, ArchiveError> {
        if state.download == DownloadState::Present && self.archive.checksum.is_none() {
            // The content of the URL may have changed.
            if let Some(complete) = self.revalidate(state, output)? {
                return self.put_into_place(complete, state, force, (changes, output)).map(Some);
            }
        }
        match state.download {
            DownloadState::Present => {
                let local = state.current.as_ref().map(|current| {
                    Ok::<_, std::io::Error>(LocalArchive {
                        file: current.file.try_clone()?,
                        sha256: current.digests.sha256.clone(),
                    })
                });
                Ok(local.transpose()?)
            }
            DownloadState::CleanedUp if self.archive.checksum.is_some() => Ok(None),
            DownloadState::CleanedUp => match self.revalidate(state, output)? {
                Some(complete) => self.put_into_place(complete, state, force, (changes, output)).map(Some),
                None => Ok(None),
            },
            DownloadState::Missing | DownloadState::Modified => {
                self.prepare(state)?;
                if let Some(complete) = self.download_of_predecessor(state, output)? {
                    return self.put_into_place(complete, state, force, (changes, output)).map(Some);
                }
                match self.download(None, state, output)? {
                    Download::Complete(complete) => {
                        self.put_into_place(complete, state, force, (changes, output)).map(Some)
                    }
                    Download::Unmodified => Err(ArchiveError::MissingIsUnmodified),
                }
            }
        }
    }

    /// Downloads a newer version from the server, if there is one. It is no error if no server responds, because the
    /// local download exists.
    fn revalidate(
        &self,
        state: &mut CurrentState,
        output: &mut Output<'_>,
    ) -> Result<Option<CompleteDownload>, ArchiveError> {
        let Some(recorded) = state.recorded().cloned() else { return Ok(None) };
        let is_file = self.is_local();
        // Without validators, the file would be downloaded every time.
        if recorded.validators.is_empty() && !is_file && !self.must_extract(state) {
            return Ok(None);
        }
        self.prepare(state)?;
        let sha256 = recorded.sha256.clone();
        let previous = PreviousDownload { sha256: recorded.sha256, validators: recorded.validators };
        let previous = (is_file || !previous.validators.is_empty()).then_some(previous);
        match self.download(previous, state, output) {
            Ok(Download::Unmodified) => Ok(None),
            Ok(Download::Complete(complete)) if complete.digests.sha256 == sha256 => {
                // The server has ignored the validators, or they have changed without a change of the content.
                complete.path.remove()?;
                if let Some(download) = &mut state.record.download {
                    download.validators = complete.validators;
                }
                Ok(None)
            }
            Ok(Download::Complete(complete)) => Ok(Some(complete)),
            Err(error) if error.is_too_large() => Err(error.into()),
            Err(error) => {
                output.warning(format!("{error}; keeping the existing file"));
                Ok(None)
            }
        }
    }

    fn download(
        &self,
        previous: Option<PreviousDownload>,
        state: &CurrentState,
        output: &mut Output<'_>,
    ) -> Result<Download, DownloadError> {
        let addresses = self.archive.addresses();
        let request = self.request(previous, &addresses)?;
        holo_download::download(&request, &state.path, self.host, output)
    }

    /// Returns true if there is a new version to download; `None` if only the server knows, and a check must not
    /// contact it.
    pub(super) fn has_source_changed(&self, state: &CurrentState) -> Result<Option<bool>, ArchiveError> {
        let is_there = matches!(state.download, DownloadState::Present | DownloadState::CleanedUp);
        let Some(recorded) = state.recorded().filter(|_| is_there && self.archive.checksum.is_none()) else {
            return Ok(Some(false));
        };
        let addresses = self.archive.addresses();
        let is_file = self.is_local();
        // As in an apply: without validators, the file is downloaded only once.
        if recorded.validators.is_empty() && !is_file {
            return Ok(Some(false));
        }
        if !is_file && !self.archive.online {
            return Ok(None);
        }
        let previous = PreviousDownload { sha256: recorded.sha256.clone(), validators: recorded.validators.clone() };
        let request = self.request(Some(previous), &addresses)?;
        // An apply does not fail either if no server responds.
        Ok(holo_download::is_unmodified(&request, self.host).ok().map(|is_unmodified| !is_unmodified))
    }

    /// Returns true if the URL refers to a local file.
    pub(super) fn is_local(&self) -> bool {
        self.archive.addresses().first().is_some_and(|address| address.file().is_some())
    }

    /// Moves a download to its path, after saving the base of the existing file.
    fn put_into_place(
        &self,
        mut complete: CompleteDownload,
        state: &mut CurrentState,
        force: bool,
        (changes, output): (&mut Vec<String>, &mut Output<'_>),
    ) -> Result<LocalArchive, ArchiveError> {
        self.verify_download(&complete, output)?;
        self.store.wait_for_turn(self.id);
        self.reject_conflict()?;
        let Ownership { uid, gid } = self.owner()?;
        set_ownership(&complete.file, &complete.path.shown(), uid, gid, self.archive.mode())?;
        Durability::Each.sync([&complete.path], [])?;
        let taken = self.save_base_of_download(state, force)?;
        if taken.as_ref().is_some_and(|adoption| adoption.loses_changes) {
            self.store.keep_edited(self.id, [self.path()?.into()], output)?;
        }
        state.record.incoming = Some(self.download_record(&complete));
        self.save_record(state)?;
        self.release(&taken, state)?;
        self.store.has_changed.set(true);
        let (before, after) = (self.store.trees.entry(&state.path)?, self.store.trees.entry(&complete.path)?);
        self.note_change(PendingEntry { path: self.path()?.into(), before, after });
        complete.path.rename_to(&state.path)?;
        Durability::Each.sync([], [&state.path])?;
        state.download = DownloadState::Present;
        complete.file.rewind()?;
        let local = LocalArchive { file: complete.file.try_clone()?, sha256: complete.digests.sha256.clone() };
        let stamp = Stamp::of_open(&complete.file, &state.path.shown())?;
        self.store.checksums.note_written(&stamp, complete.digests.clone());
        let stat = state.path.stat()?;
        state.current = stat.map(|stat| CurrentFile { file: complete.file, digests: complete.digests, stat });
        changes.push(match (&complete.copied_from, self.archive.addresses().first()) {
            (Some(path), _) => format!("copied {} from {path}", self.archive.path),
            (None, Some(address)) => format!("downloaded {address}"),
            (None, None) => format!("downloaded {}", self.archive.path),
        });
        Ok(local)
    }

    /// Fails if another archive has created a file at the path of the download.
    fn reject_conflict(&self) -> Result<(), ArchiveError> {
        let path = PathBuf::from(self.path()?);
        let owners = self.store.owners_below(self.id, &path)?;
        match owners.conflict(&path, false)? {
            Some(first) => {
                let second = self.id.to_owned();
                Err(TreeError::BroughtByBoth { path, first, second, more: 0 }.into())
            }
            None => Ok(()),
        }
    }

    /// Saves the base of the file at the path, unless it is our download. Returns the takeover from an entity of
    /// another plugin, which must be released as soon as the download is recorded.
    pub(super) fn save_base_of_download(
        &self,
        state: &mut CurrentState,
        force: bool,
    ) -> Result<Option<Adoption>, ArchiveError> {
        if state.record.has_download() {
            return Ok(None);
        }
        let path = self.path()?;
        if let Some(adoption) = self.store.trees.adoption(self.id, Path::new(&path), true)? {
            if adoption.loses_changes && !force {
                return Err(ArchiveError::NeedsForce(ForceTo::Overwrite));
            }
            state.record.path = Some(path.clone());
            self.save_record(state)?;
            self.store.trees.save_adopted_base(Path::new(&path), &adoption)?;
            return Ok(Some(adoption));
        }
        if state.path.stat()?.is_none() {
            // A killed run may have saved the base of a file that existed then.
            self.store.trees.bases().remove(Path::new(&path))?;
            return Ok(None);
        }
        self.store.trees.reject_edited(Path::new(&path))?;
        // If this run is killed before the base is needed, the base is removed with the record.
        state.record.path = Some(path.clone());
        self.save_record(state)?;
        self.store.trees.bases().save([(Path::new(&path), state.path.clone())])?;
        Ok(None)
    }

    /// Completes the takeover of the path by a run that was killed after it had recorded the download, and before it
    /// had updated the record of the previous owner.
    pub(super) fn complete_takeover(&self) -> Result<(), ArchiveError> {
        let (path, trees) = (self.path()?, &self.store.trees);
        let path = Path::new(&path);
        let remembered: Option<Remembered<ArchiveRecord>> = self.store.memory.recall(self.id)?;
        let has_download = remembered.is_some_and(|remembered| remembered.base.has_download());
        if !has_download || trees.rival(path, self.store.claims())?.is_some() {
            return Ok(());
        }
        let adoption = trees.adoption(self.id, path, true)?;
        adoption.iter().try_for_each(|adoption| trees.save_adopted_base(path, adoption))?;
        Ok(trees.release(&adoption)?)
    }

    /// Removes the path from the record of its previous owner, which may be a tree of this archive.
    pub(super) fn release(&self, taken: &Option<Adoption>, state: &mut CurrentState) -> Result<(), ArchiveError> {
        self.store.trees.release(taken)?;
        if let Some(tree) = self.tree()?.filter(|_| taken.is_some()) {
            state.extracted = Some(OwnedTree::open(&self.store.trees, self.id, Path::new(&tree))?);
        }
        Ok(())
    }

    fn download_record(&self, complete: &CompleteDownload) -> DownloadRecord {
        let validators =
            if self.archive.checksum.is_none() { complete.validators.clone() } else { Validators::default() };
        DownloadRecord {
            sha256: complete.digests.sha256.clone(),
            checksum: self.archive.checksum().map(|checksum| checksum.to_string()),
            source: self.source(),
            signed_by: self.signer().map(|signer| signer.identity()),
            validators,
        }
    }
}

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
            authorities: self.authorities()?,
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

    fn authorities(&self) -> Result<Option<Vec<u8>>, PathError> {
        let Some(path) = &self.archive.ca_file else { return Ok(None) };
        self.trusted(path)?;
        self.read_bounded(path).map(Some)
    }

    /// Reads a small local file that the definition names.
    fn read_bounded(&self, path: &str) -> Result<Vec<u8>, PathError> {
        let path = self.store.trees.root().place(Path::new(path)).followed()?;
        let mut content = Vec::new();
        let read = path.open()?.take(SMALL_FILE).read_to_end(&mut content);
        read.map_err(|error| PathError::new("read", path.shown(), error))?;
        Ok(content)
    }

    /// Resolves the path of a file with keys or certificates, which other users must not be able to modify.
    pub(super) fn trusted(&self, path: &str) -> Result<PathHandle, PathError> {
        let path = self.store.trees.root().place(Path::new(path)).followed()?;
        match Trust::new(self.host.root()).violation(&path.shown()) {
            Some(violation) => {
                Err(PathError::new("read", path.shown(), std::io::Error::other(TrustError::from(violation))))
            }
            None => Ok(path),
        }
    }
}
