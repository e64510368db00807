//! Previews of deployments: the paths that would change.

use super::Deployment;
use super::extraction::must_make;
use super::state::{CurrentState, DownloadState};
use crate::error::ArchiveError;
use crate::extract::{Selection, list};
use crate::listing::Listing;
use crate::removal;
use holo_change::claims;
use holo_change::manifest::{EntryKind, ManifestEntry};
use holo_change::tree_store::{OwnedTree, PathOwners, PendingEntry, TreeError};
use holo_download::Digests;
use holo_plugin::Output;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Seek;
use std::path::{Path, PathBuf};

/// The content of the download after an apply.
enum Content {
    /// It exists locally.
    Local { file: File, digests: Digests },
    /// It was extracted and removed, and remains so.
    CleanedUp,
    /// It must be downloaded first.
    Unknown(String),
}

impl Deployment<'_> {
    /// Returns the paths that a forced apply would change.
    pub(crate) fn preview(&self) -> Result<Listing, ArchiveError> {
        let mut listing = Listing::default();
        self.check_claims()?;
        let state = self.inspect()?;
        if state.is_created {
            return Ok(listing);
        }
        let content = self.content(&state)?;
        self.preview_download(&state, &content, &mut listing)?;
        self.preview_extraction(&state, content, &mut listing)?;
        let wanted = self.tree()?;
        for directory in state.record.trees.iter().filter(|tree| wanted.as_ref() != Some(tree)) {
            for pending in removal::pending_removal(self.store, (self.id, &state.record), directory)? {
                listing.add_leftover(pending);
            }
        }
        Ok(listing)
    }

    fn content(&self, state: &CurrentState) -> Result<Content, ArchiveError> {
        let has_changed = self.has_source_changed(state)? == Some(true);
        match (state.download, &state.current) {
            (DownloadState::Present, Some(current)) if !has_changed => {
                Ok(Content::Local { file: current.file.try_clone()?, digests: current.digests.clone() })
            }
            (DownloadState::CleanedUp, _) if !has_changed => Ok(Content::CleanedUp),
            _ => self.source_content(),
        }
    }

    /// Returns the content to be downloaded, if it is a local file.
    fn source_content(&self) -> Result<Content, ArchiveError> {
        let addresses = self.archive.addresses();
        let Some(address) = addresses.first() else { return Ok(Content::Unknown("unknown".to_owned())) };
        let unknown = || Content::Unknown(format!("unknown until {address} is downloaded"));
        let Some(path) = address.file() else { return Ok(unknown()) };
        let Ok(source) = holo_download::open(&path, self.host) else { return Ok(unknown()) };
        let Some(file) = source.open_if_file()? else { return Ok(unknown()) };
        let checksum = self.archive.checksum();
        let digests = self.store.checksums.digests(&source, checksum.as_ref())?;
        let is_wrong = checksum.is_some_and(|checksum| digests.mismatch(&checksum).is_some());
        Ok(if is_wrong { unknown() } else { Content::Local { file, digests } })
    }

    fn preview_download(
        &self,
        state: &CurrentState,
        content: &Content,
        listing: &mut Listing,
    ) -> Result<(), ArchiveError> {
        let path = PathBuf::from(self.path()?);
        let before = self.store.trees.entry(&state.path)?;
        let after = match content {
            Content::CleanedUp => None,
            Content::Local { .. } if self.archive.cleanup => None,
            Content::Local { file, digests } => {
                let kind = EntryKind::File {
                    mode: self.archive.mode(),
                    size: file.metadata()?.len(),
                    sha256: digests.sha256.clone(),
                };
                Some(ManifestEntry { kind, owner: self.owner()? })
            }
            Content::Unknown(_) if self.archive.cleanup => None,
            Content::Unknown(reason) => {
                listing.add_unknown(path, before, reason);
                return Ok(());
            }
        };
        listing.add(PendingEntry { path, before, after });
        Ok(())
    }

    fn preview_extraction(
        &self,
        state: &CurrentState,
        content: Content,
        listing: &mut Listing,
    ) -> Result<(), ArchiveError> {
        let (Some(_), Some(extracted)) = (&self.archive.extract_to, &state.extracted) else { return Ok(()) };
        let top = PathBuf::from(self.tree()?.unwrap_or_default());
        if let Content::Unknown(reason) = &content {
            listing.add_unknown(top.join(""), None, reason);
        }
        let owners = self.store.owners_in_tree(self.id, &top)?;
        let Some(entries) = self.entries(extracted, state, content, &owners)? else { return Ok(()) };
        for pending in extracted.pending(&entries, &owners, self.store.claims())? {
            listing.add(pending);
        }
        Ok(())
    }

    /// Returns the paths that would be extracted, if the content exists locally and was not extracted yet.
    fn entries(
        &self,
        extracted: &OwnedTree,
        state: &CurrentState,
        content: Content,
        owners: &PathOwners,
    ) -> Result<Option<BTreeMap<PathBuf, ManifestEntry>>, ArchiveError> {
        let (Some(directory), Content::Local { mut file, digests }) = (&self.archive.extract_to, content) else {
            return Ok(None);
        };
        if !must_make(extracted, &self.recipe(&digests.sha256)?, &state.drift) {
            return Ok(None);
        }
        file.rewind()?;
        let is_users = |path: &Path| extracted.is_foreign(path, owners);
        let selection = Selection::new(self.archive, &is_users);
        Ok(Some(list(&mut file, self.extraction(directory, &selection)?)?))
    }

    /// Fails like an apply if another entity has a path of the archive, or if manual changes would be lost, as far as this is known
    /// without a download.
    pub(super) fn check_extraction(&self, state: &CurrentState, output: &mut Output<'_>) -> Result<(), ArchiveError> {
        let (Some(directory), Some(extracted)) = (&self.archive.extract_to, &state.extracted) else { return Ok(()) };
        let claims = self.store.claims();
        let owners = self.store.owners_in_tree(self.id, &PathBuf::from(self.tree()?.unwrap_or_default()))?;
        let Some(entries) = self.entries(extracted, state, self.content(state)?, &owners)? else {
            return Ok(extracted.reject_conflicts(&PathOwners::default(), claims)?);
        };
        match extracted.losses(&entries, &owners, claims)? {
            losses if losses.is_empty() => {
                let given_up = extracted.given_up(&entries);
                Ok(claims::publish_given_up(self.host.locations(), [(self.id, given_up)])?)
            }
            losses => Err(removal::explain(TreeError::LosesChanges(losses), directory, output)),
        }
    }
}
