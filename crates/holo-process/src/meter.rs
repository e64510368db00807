//! The limit of a program's output. A program that prints without end would fill the memory or the disk.

use std::fmt::{self, Display};

const MIB: u64 = 1 << 20;

/// The default maximum output of a program, on all of its pipes, in bytes.
pub const MAX_OUTPUT: u64 = 64 * MIB;

/// A program wrote more than this number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ended because it wrote more than {}", Size(*.0))]
pub struct TooMuchError(pub u64);

/// Counts the output of a program.
#[derive(Clone, Copy, Debug)]
pub struct OutputMeter {
    limit: u64,
    /// `None` if the limit is exceeded.
    left: Option<u64>,
}

impl OutputMeter {
    /// Starts to count towards a limit in bytes.
    #[must_use]
    pub fn new(limit: u64) -> OutputMeter {
        OutputMeter { limit, left: Some(limit) }
    }

    /// Counts bytes.
    ///
    /// # Errors
    /// If the limit is exceeded by these or earlier bytes.
    pub fn count(&mut self, bytes: usize) -> Result<(), TooMuchError> {
        self.left = self.left.and_then(|left| left.checked_sub(bytes as u64));
        self.check()
    }

    /// Returns an error if the limit is exceeded.
    ///
    /// # Errors
    /// The exceeded limit.
    pub fn check(&self) -> Result<(), TooMuchError> {
        self.left.map(drop).ok_or(TooMuchError(self.limit))
    }
}

/// A number of bytes, displayed in MiB if that is exact.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size(pub(crate) u64);

impl Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size(bytes) = *self;
        if bytes >= MIB && bytes % MIB == 0 { write!(f, "{} MiB", bytes / MIB) } else { write!(f, "{bytes} bytes") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceeding_the_limit_is_permanent() {
        let mut meter = OutputMeter::new(10);
        assert_eq!((meter.count(4), meter.count(6), meter.check()), (Ok(()), Ok(()), Ok(())));
        assert_eq!((meter.count(1), meter.count(0)), (Err(TooMuchError(10)), Err(TooMuchError(10))));
    }

    #[test]
    fn limit_is_shown_in_mib_or_bytes() {
        assert_eq!(TooMuchError(MAX_OUTPUT).to_string(), "ended because it wrote more than 64 MiB");
        assert_eq!(TooMuchError(1000).to_string(), "ended because it wrote more than 1000 bytes");
    }
}
