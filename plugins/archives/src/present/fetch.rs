//! Has the download at hand: what is there, or what the server has.

use super::Present;
use super::look::{Current, Situation, Wanted};
use crate::address::{Address, Credentials};
use crate::download::{self, Download, DownloadError, Earlier, Request, Timeouts, Validators, Whole};
use crate::error::ArchiveError;
use crate::made::Owner;
use crate::owners::{Owners, brought_by_both};
use crate::record::{Fetched, keep};
use crate::store::Store;
use holo_change::error::reason;
use holo_change::{Durability, set_ownership};
use holo_plugin::Output;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::time::Instant;

/// How long a password may be: its file might be anything.
const PASSWORD_LENGTH: u64 = 64 << 10;

/// A download that is at hand.
pub(super) struct AtHand {
    pub(super) file: File,
    pub(super) sha256: String,
}

impl Present<'_> {
    /// Has the download at hand, if anything is still to be done with it.
    pub(super) fn fetch(
        &self,
        situation: &mut Situation<'_>,
        changes: &mut Vec<String>,
        output: &mut Output<'_>,
    ) -> Result<Option<AtHand>, ArchiveError> {
        if situation.wanted == Wanted::There && self.archive.checksum.is_none() {
            // Under an older name it may be something else by now.
            if let Some(whole) = self.ask(situation, output)? {
                return self.put(whole, situation, changes).map(Some);
            }
        }
        match situation.wanted {
            Wanted::There => {
                let at_hand = situation.current.as_mut().map(|current| {
                    Ok::<_, std::io::Error>(AtHand {
                        file: current.file.try_clone()?,
                        sha256: current.sums.sha256.clone(),
                    })
                });
                Ok(at_hand.transpose()?)
            }
            Wanted::CleanedUp if self.archive.checksum.is_some() => Ok(None),
            Wanted::CleanedUp => match self.ask(situation, output)? {
                Some(whole) => self.put(whole, situation, changes).map(Some),
                None => Ok(None),
            },
            Wanted::Download | Wanted::Changed => {
                self.prepare(situation)?;
                if let Some(whole) = self.download_of_predecessor(situation, output)? {
                    return self.put(whole, situation, changes).map(Some);
                }
                match self.download(None, situation, output)? {
                    Download::Whole(whole) => self.put(whole, situation, changes).map(Some),
                    Download::Unmodified => {
                        Err(ArchiveError::Failed("the server says that what is missing is unmodified".into()))
                    }
                }
            }
        }
    }

    /// Asks whether there is something newer than what we have, and downloads it. That nobody answers is no failure: what was wanted is there.
    fn ask(&self, situation: &mut Situation<'_>, output: &mut Output<'_>) -> Result<Option<Whole>, ArchiveError> {
        let Some(known) = situation.ours().cloned() else { return Ok(None) };
        let is_file = self.archive.addresses().first().is_some_and(|address| address.file().is_some());
        // Without a word of when it was changed, it would be downloaded every time.
        if known.validators.is_empty() && !is_file && !self.must_extract(situation) {
            return Ok(None);
        }
        self.prepare(situation)?;
        let sha256 = known.sha256.clone();
        let known = Earlier { sha256: known.sha256, validators: known.validators };
        let known = (is_file || !known.validators.is_empty()).then_some(known);
        match self.download(known, situation, output) {
            Ok(Download::Unmodified) => Ok(None),
            Ok(Download::Whole(whole))
                if whole.sums.sha256 == sha256 && matches!(situation.wanted, Wanted::There | Wanted::CleanedUp) =>
            {
                // The same under another name, or from a server that does not say that it is the same.
                whole.place.remove()?;
                if let Some(ours) = &mut situation.record.download {
                    ours.validators = whole.validators;
                }
                Ok(None)
            }
            Ok(Download::Whole(whole)) => Ok(Some(whole)),
            Err(too_large @ DownloadError::TooLarge(_)) => Err(too_large.into()),
            Err(problem) => {
                output.warning(format!("{problem}; going on with what is there"));
                Ok(None)
            }
        }
    }

    fn download(
        &self,
        known: Option<Earlier>,
        situation: &Situation<'_>,
        output: &mut Output<'_>,
    ) -> Result<Download, DownloadError> {
        let addresses = self.archive.addresses();
        let request = self.request(known, &addresses)?;
        download::download(&request, &situation.place, self.host, output)
    }

    /// What is asked for at some addresses.
    pub(super) fn request<'r>(
        &'r self,
        known: Option<Earlier>,
        addresses: &'r [Address],
    ) -> Result<Request<'r>, String> {
        let headers = self.archive.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok(Request {
            addresses,
            headers,
            credentials: self.credentials()?,
            checksum: self.archive.checksum(),
            earlier: known,
            sums: &self.store.known,
            max_size: self.archive.max_size.unwrap_or(download::MAX_SIZE),
            deadline: Instant::now().checked_add(self.timeout.unwrap_or(download::TIME_LIMIT)),
            timeouts: Timeouts::default(),
        })
    }

    /// What a check can tell of the source: whether there is something new; nothing if only the server knows, which is not asked.
    pub(super) fn has_source_changed(&self, situation: &Situation<'_>) -> Result<Option<bool>, ArchiveError> {
        let is_there = matches!(situation.wanted, Wanted::There | Wanted::CleanedUp);
        let Some(known) = situation.ours().filter(|_| is_there && self.archive.checksum.is_none()) else {
            return Ok(Some(false));
        };
        let addresses = self.archive.addresses();
        let is_file = addresses.first().is_some_and(|address| address.file().is_some());
        // As when it is applied: without a word of when it was changed, it is downloaded once.
        if known.validators.is_empty() && !is_file {
            return Ok(Some(false));
        }
        if !is_file && !self.archive.online {
            return Ok(None);
        }
        let earlier = Earlier { sha256: known.sha256.clone(), validators: known.validators.clone() };
        let request = self.request(Some(earlier), &addresses).map_err(ArchiveError::Failed)?;
        // That nobody answers is no reason to fail when it is applied, either.
        Ok(download::is_unmodified(&request, self.host).ok().map(|is_unmodified| !is_unmodified))
    }

    fn credentials(&self) -> Result<Option<Credentials>, String> {
        let Some(username) = self.archive.username.clone() else { return Ok(None) };
        let password = match (&self.archive.password, &self.archive.password_file) {
            (Some(password), _) => password.clone(),
            (None, Some(path)) => self.read_password(path)?,
            (None, None) => return Err("there is no password".to_owned()),
        };
        Ok(Some(Credentials { username, password }))
    }

    fn read_password(&self, path: &str) -> Result<String, String> {
        let place = self.store.root.place(Path::new(path)).followed().map_err(|error| error.to_string())?;
        let mut text = String::new();
        let file = place.open().map_err(|error| error.to_string())?;
        let read = file.take(PASSWORD_LENGTH).read_to_string(&mut text);
        read.map_err(|error| format!("read {}: {}", place.shown().display(), reason(&error)))?;
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    /// Puts a download into its place.
    fn put(
        &self,
        mut whole: Whole,
        situation: &mut Situation<'_>,
        changes: &mut Vec<String>,
    ) -> Result<AtHand, ArchiveError> {
        self.store.shared.turns.wait(self.id);
        self.refuse_what_others_bring()?;
        let Owner { uid, gid } = self.owner().map_err(ArchiveError::Failed)?;
        set_ownership(&whole.file, &whole.place.shown(), uid, gid, self.archive.mode())?;
        Durability::Each.sync([&whole.place], [])?;
        self.keep_base(situation)?;
        situation.record.incoming = Some(self.fetched(&whole));
        self.keep_record(situation)?;
        self.store.has_changed.set(true);
        whole.place.rename_to(&situation.place)?;
        Durability::Each.sync([], [&situation.place])?;
        situation.wanted = Wanted::There;
        whole.file.rewind()?;
        let at_hand = AtHand { file: whole.file.try_clone()?, sha256: whole.sums.sha256.clone() };
        let looks = situation.place.stat()?;
        situation.current = looks.map(|looks| Current { file: whole.file, sums: whole.sums, looks });
        changes.push(match (&whole.copied_from, self.archive.addresses().first()) {
            (Some(path), _) => format!("copied {} from {path}", self.archive.path),
            (None, Some(address)) => format!("downloaded {address}"),
            (None, None) => format!("downloaded {}", self.archive.path),
        });
        Ok(at_hand)
    }

    /// Another archive may have brought something to the path of the download.
    fn refuse_what_others_bring(&self) -> Result<(), ArchiveError> {
        let path = self.path()?;
        let owners = Owners::below(self.store, self.id, Path::new(&path))?;
        match owners.in_the_way(Path::new(&path), false) {
            Some(other) => Err(ArchiveError::Failed(brought_by_both(Path::new(&path), other, self.id))),
            None => Ok(()),
        }
    }

    /// Keeps what is at the path, if it is not ours.
    pub(super) fn keep_base(&self, situation: &Situation<'_>) -> Result<(), ArchiveError> {
        let is_first = situation.record.fetched().next().is_none();
        let kept = self.store.kept(Path::new(&self.path()?));
        if !is_first {
            return Ok(());
        }
        if situation.place.stat()?.is_some() {
            keep(&situation.place, &kept)?;
            Durability::Each.sync([], [&kept])?;
        } else {
            // Whoever was killed may have kept what was there then.
            Store::remove(&kept)?;
        }
        Ok(())
    }

    fn fetched(&self, whole: &Whole) -> Fetched {
        Fetched {
            sha256: whole.sums.sha256.clone(),
            checksum: self.archive.checksum().map(|checksum| checksum.to_string()),
            source: self.source(),
            validators: if self.archive.checksum.is_none() { whole.validators.clone() } else { Validators::default() },
        }
    }
}
