//! Limits the size of a page. Whatever exceeds the limit is left out, and the page says so.

/// The number of bytes left for texts of one kind.
#[derive(Debug)]
pub(super) struct Budget(usize);

impl Budget {
    pub(super) fn new(bytes: usize) -> Budget {
        Budget(bytes)
    }

    /// Takes the size of a text and its markup from the budget. Returns false if too little is left.
    pub(super) fn take(&mut self, text: &[u8], markup: usize) -> bool {
        let bytes = markup + text.iter().map(|&byte| escaped_length(byte)).sum::<usize>();
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// Returns the number of bytes that a byte takes in HTML.
fn escaped_length(byte: u8) -> usize {
    match byte {
        b'/' | b'"' | b'\'' => 6,
        b'&' => 5,
        b'<' | b'>' => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_characters_take_more_of_the_budget() {
        let mut budget = Budget::new(20);
        assert!(budget.take(b"ab", 3) && budget.take(b"a/b", 0));
        assert!(!budget.take(b"<&>", 0) && budget.take(b"abcdefg", 0) && !budget.take(b"a", 0));
    }
}
