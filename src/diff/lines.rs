//! The lines of two texts, as numbers, and which of them are changed.

/// A text as lines, each with the newline that ends it.
pub(super) struct Text<'a> {
    pub(super) lines: Vec<&'a [u8]>,
    /// For each line the number of its class; lines of either text are equal if their classes are.
    pub(super) classes: Vec<u32>,
}

/// For each line of both texts whether it is changed: removed from the old, or added to the new one.
pub(super) struct Changes {
    pub(super) old: Vec<bool>,
    pub(super) new: Vec<bool>,
}

/// The lines of one text that take part in the search.
pub(super) struct Kept {
    pub(super) classes: Vec<u32>,
    /// The position of each in the whole text.
    pub(super) positions: Vec<usize>,
}

/// A power of two near the square root of N, never below it.
pub(super) fn coarse_sqrt(n: usize) -> usize {
    let bits = usize::BITS - n.leading_zeros();
    1 << bits.div_ceil(2)
}
