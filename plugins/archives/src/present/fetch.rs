//! Has the download at hand: what is there, or what the server has.

use super::Present;
use super::look::{Current, Situation, Wanted};
use crate::address::Credentials;
use crate::download::{self, Download, Earlier, Request, Timeouts, Validators, Whole};
use crate::made::Owner;
use crate::record::{Fetched, keep};
use crate::stop::Stop;
use holo_plugin::error::reason;
use holo_plugin::{Durability, Output, settle};
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
    ) -> Result<Option<AtHand>, Stop> {
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
                match self.download(None, situation, output).map_err(Stop::Failed)? {
                    Download::Whole(whole) => self.put(whole, situation, changes).map(Some),
                    Download::Unmodified => {
                        Err(Stop::Failed("the server says that what is missing is unmodified".into()))
                    }
                }
            }
        }
    }

    /// Asks whether there is something newer than what we have, and downloads it. That nobody answers is no failure: what was wanted is there.
    fn ask(&self, situation: &mut Situation<'_>, output: &mut Output<'_>) -> Result<Option<Whole>, Stop> {
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
            Ok(Download::Whole(whole)) if whole.sums.sha256 == sha256 && situation.wanted == Wanted::There => {
                // The same under another name.
                whole.place.remove()?;
                if let Some(ours) = &mut situation.record.download {
                    ours.validators = whole.validators;
                }
                Ok(None)
            }
            Ok(Download::Whole(whole)) => Ok(Some(whole)),
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
    ) -> Result<Download, String> {
        let addresses = self.archive.addresses();
        let headers = self.archive.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let request = Request {
            addresses: &addresses,
            headers,
            credentials: self.credentials()?,
            checksum: self.archive.checksum(),
            earlier: known,
            sums: &self.store.known,
            deadline: self.timeout.map(|timeout| Instant::now() + timeout),
            timeouts: Timeouts::default(),
        };
        download::download(&request, &situation.place, self.host, output)
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
    fn put(&self, mut whole: Whole, situation: &mut Situation<'_>, changes: &mut Vec<String>) -> Result<AtHand, Stop> {
        let Owner { uid, gid } = self.owner().map_err(Stop::Failed)?;
        settle(&whole.file, &whole.place.shown(), uid, gid, self.archive.mode())?;
        Durability::Each.sync([&whole.place], [])?;
        self.keep_base(situation)?;
        situation.record.incoming = Some(self.fetched(&whole));
        self.keep_record(situation)?;
        whole.place.rename_to(&situation.place)?;
        Durability::Each.sync([], [&situation.place])?;
        situation.wanted = Wanted::There;
        whole.file.rewind()?;
        let at_hand = AtHand { file: whole.file.try_clone()?, sha256: whole.sums.sha256.clone() };
        let looks = situation.place.looks()?;
        situation.current = looks.map(|looks| Current { file: whole.file, sums: whole.sums, looks });
        if let Some(address) = self.archive.addresses().first() {
            changes.push(format!("downloaded {address}"));
        }
        Ok(at_hand)
    }

    /// Keeps what is at the path, if it is not ours.
    pub(super) fn keep_base(&self, situation: &Situation<'_>) -> Result<(), Stop> {
        let is_first = situation.record.fetched().next().is_none();
        let kept = self.store.kept_download(self.id);
        if is_first && situation.place.looks()?.is_some() {
            keep(&situation.place, &kept)?;
            Durability::Each.sync([], [&kept])?;
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
