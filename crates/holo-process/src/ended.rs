//! The outcome of a program, and its last output.

use crate::words;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// The maximum number of bytes in [`Ended::tail`].
const TAIL_SIZE: usize = 8 << 10;

/// The outcome of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit status, or the signal that ended it.
    pub status: Status,
    /// The timeout that it exceeded, if any.
    pub timed_out: Option<Duration>,
    /// True if it exited, but a process that it had started still held its pipes open.
    pub held_open: bool,
    /// The end of its output on both streams, in order of arrival. These are complete lines, unless a single line
    /// exceeds the size of the tail.
    pub tail: Vec<u8>,
}

/// The exit status of a process as reported by the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It exited with this code.
    Exited(i32),
    /// It was ended by a signal.
    Signaled {
        /// The number of the signal.
        signal: i32,
        /// True if a core dump was written.
        core_dumped: bool,
    },
}

/// The outcome of a program with its complete output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The outcome.
    pub ended: Ended,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

/// Ends this process with the default action of a signal, even if the signal is caught. Returns if the default action
/// does not end processes.
pub fn end_by(signal: i32) {
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}

impl Ended {
    /// Returns a description of the failure: `exit status 3`, `signal: killed`, `timed out after 5s`. `None` if it
    /// exited with 0 in time.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        match (self.timed_out, self.status) {
            (Some(limit), _) => Some(format!("timed out after {limit:?}")),
            (None, status) => status.failure(),
        }
    }

    /// Returns its exit code; `None` if a signal ended it, or it timed out.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code().filter(|_| self.timed_out.is_none())
    }

    /// Returns the last non-empty lines of its output, at most `count`. Invalid UTF-8 is replaced.
    #[must_use]
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        last_lines(&self.tail, count)
    }
}

impl Status {
    /// Returns the exit code; `None` if a signal ended the process.
    #[must_use]
    pub fn code(self) -> Option<i32> {
        match self {
            Status::Exited(code) => Some(code),
            Status::Signaled { .. } => None,
        }
    }

    /// Returns the number of the signal that ended the process; `None` if it exited.
    #[must_use]
    pub fn signal(self) -> Option<i32> {
        match self {
            Status::Exited(_) => None,
            Status::Signaled { signal, .. } => Some(signal),
        }
    }

    /// Returns the value of `$?` in a shell: 128 + N for signal N.
    #[must_use]
    pub fn shell_code(self) -> i32 {
        match self {
            Status::Exited(code) => code,
            Status::Signaled { signal, .. } => 128 + signal,
        }
    }

    /// Returns a description of the failure: `exit status 3`, `signal: killed`. `None` if it exited with 0.
    #[must_use]
    pub fn failure(self) -> Option<String> {
        match self {
            Status::Exited(code) => words::failure(Some(code), None, false),
            Status::Signaled { signal, core_dumped } => words::failure(None, Some(signal), core_dumped),
        }
    }

    /// Like [`failure`](Self::failure), but `exit status 0` for success.
    #[must_use]
    pub fn in_words(self) -> String {
        self.failure().unwrap_or_else(|| "exit status 0".to_owned())
    }
}

/// Returns the last non-empty lines of a text, at most `count`.
fn last_lines(text: &[u8], count: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.iter().skip(lines.len().saturating_sub(count)).map(ToString::to_string).collect()
}

impl From<ExitStatus> for Status {
    fn from(status: ExitStatus) -> Status {
        match (status.code(), status.signal()) {
            (Some(code), _) => Status::Exited(code),
            (None, signal) => {
                Status::Signaled { signal: signal.unwrap_or_default(), core_dumped: status.core_dumped() }
            }
        }
    }
}

/// A buffer for the end of an output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Tail {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // Cutting on each call would move all bytes for every few that are added.
        if self.bytes.len() > 4 * TAIL_SIZE {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if let Some(excess) = self.bytes.len().checked_sub(TAIL_SIZE).filter(|&excess| excess > 0) {
            self.bytes.drain(..excess);
            self.is_cut = true;
        }
    }

    /// Returns the last non-empty lines, at most `count`.
    pub(crate) fn last_lines(&self, count: usize) -> Vec<String> {
        last_lines(&self.clone().into_bytes(), count)
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.cut();
        // The remainder of a cut line must not look like a complete line.
        let end_of_line = self.bytes.iter().position(|&byte| byte == b'\n');
        match end_of_line.filter(|&end| self.is_cut && end + 1 < self.bytes.len()) {
            Some(end) => self.bytes.split_off(end + 1),
            None => self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(chunks: &[&[u8]]) -> Vec<u8> {
        let mut tail = Tail::default();
        chunks.iter().for_each(|chunk| tail.push(chunk));
        tail.into_bytes()
    }

    #[test]
    fn a_tail_is_whole_lines() {
        assert_eq!(tail_of(&[b"one\ntwo", b" three\n"]), b"one\ntwo three\n");
        let line = [&[b'x'; 99][..], b"\n"].concat();
        let tail = tail_of(&vec![&line[..]; 1000]);
        assert!(tail.len() <= TAIL_SIZE && tail.len() > TAIL_SIZE - 100);
        assert!(tail.split_inclusive(|&byte| byte == b'\n').all(|kept| kept == line));
    }

    #[test]
    fn of_a_single_long_line_the_end_is_kept() {
        let tail = tail_of(&[&vec![b'x'; 10 * TAIL_SIZE], b"end\n"]);
        assert_eq!(tail.len(), TAIL_SIZE);
        assert!(tail.ends_with(b"xend\n"));
    }

    #[test]
    fn ends_in_words() {
        let ended = |status, timed_out| Ended { status, timed_out, held_open: false, tail: b"a\n\nb\nc".to_vec() };
        assert_eq!(ended(Status::Exited(0), None).failure(), None);
        assert_eq!(ended(Status::Exited(3), None).failure().unwrap(), "exit status 3");
        let killed = Status::Signaled { signal: 9, core_dumped: false };
        assert_eq!(ended(killed, None).failure().unwrap(), "signal: killed");
        let limit = Some(Duration::from_millis(1500));
        assert_eq!(ended(Status::Exited(0), limit).failure().unwrap(), "timed out after 1.5s");
        assert_eq!((ended(killed, None).code(), ended(Status::Exited(0), limit).code()), (None, None));
        assert_eq!(ended(killed, None).last_lines(2), ["b", "c"]);
        assert_eq!(ended(killed, None).last_lines(9), ["a", "b", "c"]);
    }
}
