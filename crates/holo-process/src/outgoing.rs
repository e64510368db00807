//! The standard input of a program, as a queue that nobody waits for.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// Our end of a program's standard input, and what the program has not taken yet.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pipe: File,
    bytes: Vec<u8>,
    written: usize,
    /// True if it comes to its end once all is written.
    is_last: bool,
}

impl Outgoing {
    /// Takes a pipe that does not block, the bytes to begin with, and whether they are all.
    pub(crate) fn new(pipe: File, bytes: Vec<u8>, is_last: bool) -> Outgoing {
        Outgoing { pipe, bytes, written: 0, is_last }
    }

    /// Adds bytes to what is to be written.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Notes that nothing more is to be written.
    pub(crate) fn end(&mut self) {
        self.is_last = true;
    }

    /// Returns true if something is still to be written.
    pub(crate) fn is_pending(&self) -> bool {
        self.written < self.bytes.len()
    }

    /// Writes what goes at once. Returns true if more may be written later.
    pub(crate) fn write(&mut self) -> bool {
        while let Some(left) = self.bytes.get(self.written..).filter(|left| !left.is_empty()) {
            match self.pipe.write(left) {
                Ok(length) => self.written += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Input that it does not want to read is no error.
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        self.bytes.clear();
        self.written = 0;
        !self.is_last
    }
}

impl AsFd for Outgoing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}
