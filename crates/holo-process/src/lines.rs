//! Splitting received bytes into lines.

/// Received bytes that have not been returned as lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// The start of the next line.
    start: usize,
    /// There is no newline before this index.
    searched: usize,
}

impl Lines {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete line, without its newline.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        let end = self.end()?;
        let start = std::mem::replace(&mut self.start, end + 1);
        self.searched = self.start;
        self.bytes.get(start..end)
    }

    /// Returns the number of bytes of the next line that have been received.
    pub(crate) fn next_length(&mut self) -> usize {
        self.end().unwrap_or(self.bytes.len()) - self.start
    }

    /// Returns true if the next line is complete.
    pub(crate) fn has_next(&mut self) -> bool {
        self.end().is_some()
    }

    /// Removes and returns the received part of the next line.
    pub(crate) fn take_rest(&mut self) -> Vec<u8> {
        let rest = self.bytes.split_off(self.start);
        *self = Lines::default();
        rest
    }

    /// Returns the index of the next newline.
    fn end(&mut self) -> Option<usize> {
        let found = self.bytes.get(self.searched..)?.iter().position(|&byte| byte == b'\n');
        self.searched = found.map_or(self.bytes.len(), |found| self.searched + found);
        found.map(|_| self.searched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let text = b"one\n\ntwo \r\nthree\nrest";
        for size in 1..=text.len() {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.push(piece);
                while let Some(line) = lines.next() {
                    seen.push(line.to_vec());
                }
                assert!(!lines.has_next());
            }
            assert_eq!(seen, [&b"one"[..], b"", b"two \r", b"three"], "{size}");
            assert_eq!(lines.next_length(), 4);
            assert_eq!(lines.take_rest(), b"rest");
            assert_eq!((lines.next_length(), lines.next()), (0, None));
        }
    }

    #[test]
    fn the_length_of_a_line_is_known_before_it_is_taken() {
        let mut lines = Lines::default();
        lines.push(b"four\nse");
        assert_eq!((lines.next_length(), lines.next()), (4, Some(&b"four"[..])));
        assert_eq!((lines.next_length(), lines.next()), (2, None));
        lines.push(b"ven\n");
        assert_eq!((lines.next_length(), lines.next()), (5, Some(&b"seven"[..])));
    }
}
