//! Resource limits for archives, which prevent them from filling the disk or the memory.

use std::cell::Cell;
use std::io::{self, Read};

/// The limits in a definition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    /// The maximum number of bytes.
    pub(crate) size: Option<u64>,
    /// The maximum number of entries.
    pub(crate) entries: Option<u64>,
}

/// The number of bytes that is always permitted, even for a small archive.
const SMALL: u64 = 256 << 20;
/// The maximum ratio to the size of the archive. Repetitive texts reach 50, bombs 1000 and more.
const RATIO: u64 = 200;
/// The maximum number of bytes, unless the definition has another limit.
const LARGE: u64 = 32 << 30;
/// The maximum number of entries, ten times as many as in the largest source trees.
const ENTRIES: u64 = 1_000_000;
/// The maximum number of bytes between the contents of two entries: long names and attributes, which are held in
/// memory.
const HEADERS: u64 = 1 << 20;
/// The maximum nesting depth of directories.
pub(crate) const DEPTH: usize = 128;
/// The maximum length of a path.
pub(crate) const PATH_LENGTH: usize = 3072;

/// The remaining allowance while an archive is read.
#[derive(Debug)]
pub(crate) struct Allowance {
    bytes: u64,
    entries: u64,
    /// The number of bytes written so far.
    written: Cell<u64>,
    /// The number of bytes decompressed so far.
    unpacked: Cell<u64>,
    entered: Cell<u64>,
    /// The number of bytes that may be read before the next content.
    header: Cell<Option<u64>>,
}

impl Allowance {
    /// Creates the allowance for an archive of this size.
    pub(crate) fn new(limits: Limits, size: u64) -> Allowance {
        Allowance {
            bytes: limits.size.unwrap_or_else(|| size.saturating_mul(RATIO).clamp(SMALL, LARGE)),
            entries: limits.entries.unwrap_or(ENTRIES),
            written: Cell::new(0),
            unpacked: Cell::new(0),
            entered: Cell::new(0),
            header: Cell::new(None),
        }
    }

    /// Counts an entry.
    ///
    /// # Errors
    /// If there are too many.
    pub(crate) fn count_entry(&self) -> io::Result<()> {
        self.entered.set(self.entered.get() + 1);
        if self.entered.get() <= self.entries {
            return Ok(());
        }
        Err(io::Error::other(format!("it has more than {} entries", self.entries)))
    }

    /// Counts bytes that are about to be written.
    ///
    /// # Errors
    /// If there are too many.
    pub(crate) fn count_written(&self, length: u64) -> io::Result<()> {
        self.take(&self.written, length)
    }

    fn take(&self, taken: &Cell<u64>, length: u64) -> io::Result<()> {
        taken.set(taken.get().saturating_add(length));
        if taken.get() <= self.bytes {
            return Ok(());
        }
        Err(io::Error::other(format!("it would take more than {} bytes", self.bytes)))
    }

    /// Counts bytes as headers until [`Allowance::begin_content`].
    pub(crate) fn begin_headers(&self) {
        self.header.set(Some(HEADERS));
    }

    /// Counts bytes as content from now on.
    pub(crate) fn begin_content(&self) {
        self.header.set(None);
    }

    /// Returns a reader that counts decompressed bytes.
    pub(crate) fn metered<R: Read>(&self, reader: R) -> Metered<'_, R> {
        Metered { reader, allowance: self }
    }
}

/// A reader that fails when the allowance is exceeded.
pub(crate) struct Metered<'a, R> {
    reader: R,
    allowance: &'a Allowance,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        let taken = length as u64;
        // Headers and padding are counted too, but a tree of empty files is not a bomb because of its size alone.
        self.allowance.take(&self.allowance.unpacked, taken)?;
        if let Some(left) = self.allowance.header.get() {
            let Some(left) = left.checked_sub(taken) else {
                return Err(io::Error::other(format!("an entry's headers take more than {HEADERS} bytes")));
            };
            self.allowance.header.set(Some(left));
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_grows_with_the_archive() {
        let bytes = |size| Allowance::new(Limits::default(), size).bytes;
        assert_eq!(bytes(10), SMALL);
        assert_eq!(bytes(SMALL), LARGE);
        assert_eq!(bytes(10 << 20), 2000 << 20);
        assert_eq!(Allowance::new(Limits { size: Some(7), entries: None }, u64::MAX).bytes, 7);
    }

    #[test]
    fn headers_are_limited_by_themselves() {
        let allowance = Allowance::new(Limits::default(), 0);
        let mut reader = allowance.metered(io::repeat(0));
        io::copy(&mut (&mut reader).take(2 * HEADERS), &mut io::sink()).unwrap();
        allowance.begin_headers();
        assert!(io::copy(&mut (&mut reader).take(2 * HEADERS), &mut io::sink()).is_err());
        allowance.begin_content();
        assert!(io::copy(&mut reader, &mut io::sink()).unwrap_err().to_string().contains("would take more than"));
    }
}
