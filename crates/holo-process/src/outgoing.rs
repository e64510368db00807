//! The standard input of a program, as a non-blocking queue.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// Our end of a program's standard input, and the bytes that have not been written yet.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pipe: File,
    bytes: Vec<u8>,
    written: usize,
    /// True if the pipe is closed when all bytes have been written.
    is_last: bool,
}

impl Outgoing {
    /// Creates the queue from a non-blocking pipe and its first bytes; `is_last` if no more bytes follow.
    pub(crate) fn new(pipe: File, bytes: Vec<u8>, is_last: bool) -> Outgoing {
        Outgoing { pipe, bytes, written: 0, is_last }
    }

    /// Appends bytes to the queue.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Closes the pipe when all bytes have been written.
    pub(crate) fn end(&mut self) {
        self.is_last = true;
    }

    /// Returns true if bytes have not been written yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.written < self.bytes.len()
    }

    /// Writes as much as possible without blocking. Returns true if the pipe must be kept open.
    pub(crate) fn write(&mut self) -> bool {
        while let Some(left) = self.bytes.get(self.written..).filter(|left| !left.is_empty()) {
            match self.pipe.write(left) {
                Ok(length) => self.written += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It is no error if the program does not read its input.
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
