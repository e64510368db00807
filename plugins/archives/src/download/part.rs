//! The part of a download that is there so far.

use super::{Download, Validators, Whole};
use crate::checksum::{Checksum, Sums};
use holo_change::error::reason;
use holo_change::{Kind, PathHandle};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

/// What the temporary file's name ends with.
pub(crate) const PART_SUFFIX: &str = ".holopart";

/// A temporary file that grows.
pub(super) struct Part {
    place: PathHandle,
    file: File,
    length: u64,
    /// Whether it comes from more than one answer.
    is_patched: bool,
}

impl Part {
    /// An empty one, in place of whatever is there.
    pub(super) fn new(place: &PathHandle) -> Result<Part, String> {
        let made = place.create_folder().and_then(|_| place.create()).and_then(|_| place.open_to_write());
        let file = made.map_err(|error| error.to_string())?;
        Ok(Part { place: place.clone(), file, length: 0, is_patched: false })
    }

    /// What an earlier run has left, if nobody but us can have written to it.
    pub(super) fn take_up(place: &PathHandle) -> Result<Part, String> {
        let us = rustix::process::geteuid().as_raw();
        let looks = place.stat().map_err(|error| error.to_string())?;
        let is_ours = looks.is_some_and(|looks| {
            (looks.kind, looks.mode, looks.uid, looks.names) == (Kind::File, 0o600, us, 1) && looks.size > 0
        });
        if !is_ours {
            return Part::new(place);
        }
        let mut file = place.open_to_write().map_err(|error| error.to_string())?;
        let length = file.seek(SeekFrom::End(0)).map_err(|error| reason(&error))?;
        Ok(Part { place: place.clone(), file, length, is_patched: length > 0 })
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Begins anew.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        if self.length > 0 {
            let emptied = self.file.set_len(0).and_then(|()| self.file.rewind());
            emptied.map_err(|error| reason(&error))?;
            self.length = 0;
        }
        self.is_patched = false;
        Ok(())
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), String> {
        let failed = |error| format!("write {}: {}", self.place.shown().display(), reason(&error));
        self.file.write_all(bytes).map_err(failed)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// What was there was continued by another answer.
    pub(super) fn patched(&mut self) {
        self.is_patched = true;
    }

    pub(super) fn is_patched(&self) -> bool {
        self.is_patched
    }

    /// The sums of everything; the next byte is still appended.
    pub(super) fn sums(&mut self, wanted: Option<&Checksum>) -> Result<Sums, String> {
        let rewound = self.file.rewind();
        let sums = rewound.and_then(|()| Sums::of(&mut self.file, wanted)).map_err(|error| reason(&error))?;
        self.file.seek(SeekFrom::End(0)).map_err(|error| reason(&error))?;
        Ok(sums)
    }

    /// It is of no use.
    pub(super) fn discard(&mut self) {
        let _ = self.place.remove();
        self.length = 0;
    }

    pub(super) fn into_whole(self, sums: Sums, validators: Validators) -> Download {
        Download::Whole(Whole { place: self.place, file: self.file, sums, validators, copied_from: None })
    }
}
