//! The owner, group and mode of an existing download.

use super::Deployment;
use super::state::CurrentState;
use crate::error::ArchiveError;
use crate::record::DownloadRecord;
use holo_change::manifest::Ownership;
use holo_change::{Durability, set_ownership};
use holo_download::Validators;
use holo_plugin::Accounts;

impl Deployment<'_> {
    pub(super) fn owner(&self) -> Result<Ownership, ArchiveError> {
        let accounts = Accounts::open(self.host)?;
        let (owner, group) = (self.archive.owner.as_deref(), self.archive.group.as_deref());
        Ok(Ownership {
            uid: owner.map(|name| accounts.user(name)).transpose().map_err(ArchiveError::Account)?,
            gid: group.map(|name| accounts.group(name)).transpose().map_err(ArchiveError::Account)?,
        })
    }

    /// Sets the owner and mode of the download without downloading it again.
    pub(super) fn set_attributes(
        &self,
        state: &mut CurrentState,
        force: bool,
        changes: &mut Vec<String>,
    ) -> Result<(), ArchiveError> {
        let Ownership { uid, gid } = self.owner()?;
        let wrong = self.attributes_to_change(state);
        if wrong.is_empty() {
            return Ok(());
        }
        self.adopt(state, force)?;
        let Some(current) = &state.current else { return Ok(()) };
        if current.stat.names > 1 {
            return Err(ArchiveError::SeveralNames(state.path.shown()));
        }
        self.store.has_changed.set(true);
        set_ownership(&current.file, &state.path.shown(), uid, gid, self.archive.mode())?;
        Durability::Each.sync([&state.path], [])?;
        changes.extend(wrong.iter().map(|what| format!("changed {what}")));
        Ok(())
    }

    /// Saves the base of an existing file, and records the file as our download.
    pub(super) fn adopt(&self, state: &mut CurrentState, force: bool) -> Result<(), ArchiveError> {
        let current = state.current.as_ref().filter(|_| !state.record.has_download());
        let Some(sha256) = current.map(|current| current.digests.sha256.clone()) else { return Ok(()) };
        let adopted = DownloadRecord {
            sha256,
            checksum: self.archive.checksum().map(|checksum| checksum.to_string()),
            source: self.source(),
            signed_by: None,
            validators: Validators::default(),
        };
        let taken = self.save_base_of_download(state, force)?;
        state.record.download = Some(adopted);
        self.save_record(state)?;
        self.release(&taken, state)
    }

    /// Returns descriptions of the attributes that differ from the desired ones.
    pub(super) fn attributes_to_change(&self, state: &CurrentState) -> Vec<String> {
        let Some(current) = &state.current else { return Vec::new() };
        let path = &self.archive.path;
        let mut wrong = Vec::new();
        // A user that does not exist yet cannot own files.
        let owner = self.owner().ok();
        if owner.is_none_or(|owner| owner.uid.is_some_and(|uid| uid != current.stat.uid)) {
            wrong.push(format!("the owner of {path}"));
        }
        if owner.is_some_and(|owner| owner.gid.is_some_and(|gid| gid != current.stat.gid)) {
            wrong.push(format!("the group of {path}"));
        }
        let has_mode = self.archive.mode.is_some() || state.record.knows(&current.digests.sha256);
        if has_mode && self.archive.mode() != current.stat.mode {
            wrong.push(format!("the mode of {path}"));
        }
        wrong
    }
}
